"""The book: made of the committed notebooks, read as files and in a browser.

Nothing is executed here but the lines of the page on using the package. The browser tests need
Chromium and are skipped without it.
"""

import importlib.util
import re
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote, urldefrag

import browser
import nbformat
import pytest
from nbformat import v4

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
BOOK_PACKAGES = ("myst_nb", "sphinx", "sphinx_book_theme", "sphinx_copybutton")

sys.path.insert(0, str(ROOT / "book"))  # scripts, not a package
import chapters  # noqa: E402

pytestmark = pytest.mark.book

missing = [name for name in BOOK_PACKAGES if importlib.util.find_spec(name) is None]
needs_sphinx = pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")
needs_browser = pytest.mark.skipif(
    browser.find() is None, reason=f"no browser, none of: {', '.join(browser.NAMES)}"
)


@pytest.fixture(scope="session")
def book(tmp_path_factory):
    """The folder of the book of the committed notebooks."""
    output = tmp_path_factory.mktemp("build")
    build = [sys.executable, str(ROOT / "notebooks" / "build.py"), "--as-committed"]
    done = subprocess.run(
        [*build, "--output", str(output)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    return output / "book"


# Pages as files ---------------------------------------------------------------------------------


class Page(HTMLParser):
    """What a page links to, loads, and can be linked to by."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loaded, self.images, self.names = [], [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.names |= {values[key] for key in ("id", "name") if values.get(key)}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and "href" in values and "canonical" not in values.get("rel", ""):
            self.loaded.append(values["href"])
        elif values.get("src"):
            self.loaded.append(values["src"])
        if tag == "img":
            self.images.append(values)


@pytest.fixture(scope="session")
def pages(book):
    """All pages; in `_static` are templates of the theme, which nothing links to."""
    return {p: Page(p) for p in sorted(book.rglob("*.html")) if p.parent.name != "_static"}


@needs_sphinx
def test_chapters_and_pages(book):
    """There is a page for every notebook, and the others that readers look for."""
    names = {path.stem for path in book.glob("*.html")}
    others = {"index", "use", "results", "glossary", "bibliography", "api", "search", "genindex"}
    assert {path.stem for path in NOTEBOOKS} | others <= names


@needs_sphinx
def test_links_lead_somewhere(pages):
    """Links within the book name a file that exists and, in it, a place that exists."""
    broken = []
    for path, page in pages.items():
        for link in page.links + page.loaded:
            if re.match(r"[a-z]+:", link):
                continue
            address, fragment = urldefrag(link.split("?")[0])
            target = (path.parent / unquote(address)).resolve() if address else path
            if not target.exists():
                broken.append(f"{path.name}: {link}")
            elif fragment and target in pages and unquote(fragment) not in pages[target].names:
                broken.append(f"{path.name}: {link}")
    assert not broken


@needs_sphinx
def test_nothing_is_loaded_from_elsewhere(book, pages):
    """Scripts, styles, fonts and images are files of the book."""
    outside = re.compile(r"(?:https?:)?//")
    loaded = [link for page in pages.values() for link in page.loaded if outside.match(link)]
    styles = [path.read_text(encoding="utf-8") for path in book.rglob("*.css")]
    for style in styles:
        loaded += re.findall(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")]+)", style)
    assert styles
    assert not loaded


@needs_sphinx
def test_every_image_is_described(book, pages):
    """Figures of a chapter by the text of their cell, in the same order; others not by a file's
    name."""
    for path in NOTEBOOKS:
        texts = [
            cell.metadata["alt"]
            for cell in nbformat.read(path, as_version=4).cells
            for output in cell.get("outputs", [])
            if "image/png" in output.get("data", {})
        ]
        images = pages[book / f"{path.stem}.html"].images
        assert [image.get("alt") for image in images] == texts
    alts = [image.get("alt") or "" for page in pages.values() for image in page.images]
    assert all(len(alt) >= 20 and not alt.endswith(".png") for alt in alts)


@needs_sphinx
def test_chapters_can_be_downloaded_and_run_again(book, pages):
    """A chapter's page has its notebook, byte for byte, and a line with parameters of its own; no
    other link of a page leads to a notebook."""
    for chapter, path in zip(chapters.read_chapters(NOTEBOOKS), NOTEBOOKS, strict=True):
        page = book / f"{path.stem}.html"
        [link] = [link for link in pages[page].links if link.endswith(path.name)]
        assert (book / link).read_bytes() == path.read_bytes()
        command = chapters.rerun_command(chapter)
        assert command.startswith(f"python -m akpca run {path.stem[:2]} -p ")
        assert set(re.findall(r"-p (\w+)", command)) <= set(chapter.parameters)
        assert command in re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8"))
    for page in book.glob("*.html"):
        notebooks = [link for link in pages[page].links if link.endswith(".ipynb")]
        assert all(link.startswith("_downloads/") for link in notebooks), page.name


@needs_sphinx
def test_reference_describes_every_public_name(pages):
    """What `akpca` exports has an entry, and its source a page."""
    import akpca

    names = set().union(*(page.names for page in pages.values()))
    for name in akpca.__all__:
        home = f"{getattr(akpca, name).__module__}.{name}"
        assert home in names
    assert sum("_modules" in path.parts for path in pages) > 20


# Pages in a browser -----------------------------------------------------------------------------

TEXT = """(() => {
  document.querySelectorAll("details").forEach(d => { d.open = true; });
  const text = document.querySelector("main").cloneNode(true);
  text.querySelectorAll("pre, code, mjx-container, .highlight").forEach(e => e.remove());
  return text.textContent;
})()"""
ERRORS = "document.querySelectorAll('mjx-merror, [data-mjx-error]').length"
UNSET = "document.querySelectorAll('.math:not(:has(mjx-container))').length"
WIDTH = "document.documentElement.scrollWidth"
FOUND = "[...document.querySelectorAll('#search-results li a')].map(a => a.textContent)"


@pytest.fixture(scope="module")
def chromium():
    with browser.Browser() as running:
        yield running


@needs_sphinx
@needs_browser
def test_pages_in_a_browser(pages, chromium):
    """Pages load without an error, ask for files only, show formulas and fit a narrow screen."""
    found = {}
    for path in pages:
        chromium.width(1280)
        chromium.open(path.as_uri())
        wrong = chromium.problems()
        wrong += [url for url in chromium.requests() if not url.startswith(("file:", "data:"))]
        wrong += re.findall(r".{0,20}(?:\$|\\[a-zA-Z]+\b).{0,20}", chromium.run(TEXT))
        if count := chromium.run(ERRORS) + chromium.run(UNSET):
            wrong.append(f"{count} formulas are not set")
        chromium.width(390)
        if (width := chromium.run(WIDTH)) > 390:
            wrong.append(f"is {width} pixels wide")
        if wrong:
            found[path.name] = wrong
    assert not found


@needs_sphinx
@needs_browser
def test_search_finds(book, chromium):
    """The search works on files, without a server."""
    chromium.width(1280)
    chromium.open(f"{(book / 'search.html').as_uri()}?q={quote('Nyström')}")
    end = time.monotonic() + 30
    while not (titles := chromium.run(FOUND)) and time.monotonic() < end:
        time.sleep(0.1)
    assert any("Nyström" in title for title in titles)
    assert not chromium.problems()


# What pages are made of -------------------------------------------------------------------------


def chapter(*cells, **metadata):
    notebook = v4.new_notebook(cells=list(cells), metadata=metadata)
    notebook.metadata.setdefault("kernelspec", {"name": "python3"})
    return chapters.Chapter("07_name", notebook)


PARAMETERS = 'dataset: str = "a b"  # data\nk: int = 2  # size\nseed: int = 0  # seed'


def test_page_of_a_chapter():
    """A page has the link and the run time under its title, and the line after its parameters."""
    shown = v4.new_output("display_data", {"application/json": {"k": 2}, "text/plain": "2"})
    made = chapter(
        v4.new_markdown_cell("# 07 A title\n\nText."),
        v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}),
        v4.new_code_cell("1", metadata={"tags": ["results"], "alt": "A figure."}, outputs=[shown]),
        papermill={"duration": 12.4},
    )
    first, code, again, last = chapters.page(made).cells
    assert first.source.startswith("# 07 A title\n")
    assert "downloads/07_name.ipynb" in first.source
    assert "12 s" in first.source
    assert code.source == PARAMETERS
    assert "python -m akpca run 07 -p dataset 'a b' -p k 2\n" in again.source
    assert "hide-cell" in last.metadata["tags"]
    assert last.metadata["mystnb"] == {"image": {"alt": "A figure."}}
    assert last.outputs[0].data == {"text/plain": "2"}
    assert len(made.notebook.cells) == 3  # the notebook itself is as it was


def test_bibliography_is_complete():
    """Each work of a chapter's further reading is in the list."""
    text = (ROOT / "book" / "bibliography.md").read_text(encoding="utf-8")
    known = chapters.works(text)
    entries = [chapters.section(c, "Further reading") for c in chapters.read_chapters(NOTEBOOKS)]
    named = [work for entry in entries for work in chapters.works(entry)]
    assert len(named) > 40
    absent = [
        (author, title)
        for author, title in named
        if not any(author == a and (t in title or title in t) for a, t in known)
    ]
    assert not absent


def test_lines_of_the_page_on_use_run():
    """What a user copies from the page works, in the order of the page."""
    text = (ROOT / "book" / "use.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```", text)
    assert len(blocks) > 2
    exec("\n".join(blocks), {})
