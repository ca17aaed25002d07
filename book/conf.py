"""Sphinx's configuration; `render.py` lays out the pages and calls Sphinx."""

import sys
from pathlib import Path

import akpca

sys.path.insert(0, str(Path(__file__).parent))  # the extension beside this file

project = "akpca"
author = "the akpca authors"
version = release = akpca.__version__
language = "en"

extensions = [
    "docstrings",
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
exclude_patterns = ["downloads", "generated"]

# Notebooks: as they are, with the Markdown of outputs read like that of cells.
nb_execution_mode = "off"
nb_render_markdown_format = "myst"
nb_ipywidgets_js = {}
myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Docstrings: a name in backticks is a link if there is something of that name.
default_role = "py:obj"
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
viewcode_follow_imported_members = False  # the links back from the source would lead nowhere
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]

# Formulas: MathJax from the book's own folder. Its menu would load more.
mathjax_path = "mathjax/tex-chtml-full.js"
mathjax3_config = {"options": {"enableMenu": False}}

html_theme = "sphinx_book_theme"
html_title = "akpca"
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_copy_source = False
html_domain_indices = False
html_show_copyright = False
html_show_sphinx = False
html_show_search_summary = False  # a page that is read from a file can't load others
html_context = {"default_mode": "auto"}
html_theme_options = {
    "home_page_in_toc": False,
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "use_download_button": False,
    "use_fullscreen_button": False,
}
# Prompts of shell lines are not to be copied.
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
