"""Render notebooks as a book: lay out its pages, and let Sphinx make HTML of them.

    python book/render.py build notebooks/*.ipynb

reads notebooks with their outputs, executes nothing, and writes build/book/index.html, which needs
no network: not to be made, and not to be read. `notebooks/build.py` calls this.
"""

import argparse
import importlib.util
import inspect
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
from chapters import (
    DOWNLOADS,
    Chapter,
    claims,
    contents,
    page,
    read_chapters,
    section,
    with_chapters,
)
from results import benchmarks, markdown, or_missing, verdicts

import akpca
from akpca.book.experiments import report

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = ROOT / "notebooks" / "results"
BENCHMARKS = ROOT / "benchmarks" / "results"

# What is copied as it is; chapters, the reference and generated parts are added.
PAGES = ("conf.py", "docstrings.py", "index.md", "use.md", "results.md", "glossary.md", "api.md")
# The parts of MathJax that pages load: one script with all of TeX's commands, and the fonts.
MATHJAX = ("tex-chtml-full.js", "output/chtml/fonts/woff-v2")
REPORT = "12"  # number of the chapter whose verdicts have a table of their own, with counts
# Not for users: scripts, and what is compiled.
MEMBERS = "   :members:\n   :inherited-members:\n   :show-inheritance:\n"
HIDDEN = {"akpca.__main__", "akpca.hebbian.compiled"}


def lay_out(source: Path, paths: list[Path]) -> None:
    """Write the folder that Sphinx reads."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(HERE / "_static", source / "_static")
    for name in PAGES:
        shutil.copy(HERE / name, source)
    chapters = read_chapters(paths)
    add_chapters(source, paths, chapters)
    add_generated(source, chapters)
    add_reference(source / "api")
    add_mathjax(source / "_static" / "mathjax")
    for figure in (ROOT / "notebooks" / "overview.png", BENCHMARKS / "summary.png"):
        if figure.exists():
            shutil.copy(figure, source)


def add_chapters(source: Path, paths: list[Path], chapters: list[Chapter]) -> None:
    (source / DOWNLOADS).mkdir()
    for path in paths:
        shutil.copy(path, source / DOWNLOADS)
    for chapter in chapters:
        nbformat.write(page(chapter), source / f"{chapter.name}.ipynb")


def add_generated(source: Path, chapters: list[Chapter]) -> None:
    """Write the parts of other pages that are computed; the pages include them."""
    bibliography = (HERE / "bibliography.md").read_text(encoding="utf-8")
    (source / "bibliography.md").write_text(with_chapters(bibliography, chapters), encoding="utf-8")
    others = [chapter for chapter in chapters if chapter.number != REPORT]
    paper = "AKPCA_DATA=folder/with/mnist python -m akpca run 12 -p scale paper"
    parts = {
        "contents": contents(chapters),
        "notation": section(chapters[0], "One notation"),
        "report": or_missing(
            verdicts(RESULTS / "akpca", report.paper_plan()), "the report's experiments", paper
        ),
        "hebbian": or_missing(claims(others), "the experiments of this paper"),
        "benchmarks": or_missing(benchmarks(BENCHMARKS), "benchmarks", "make bench"),
        "names": public_names(),
    }
    folder = source / "generated"
    folder.mkdir()
    for name, text in parts.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


def modules() -> list[str]:
    """Return the names of all modules that users may import from."""
    found = pkgutil.walk_packages(akpca.__path__, "akpca.")
    names = [module.name for module in found if module.name not in HIDDEN]
    return [name for name in names if not any(part.startswith("_") for part in name.split("."))]


def public_names() -> str:
    """Return a table of what `akpca` exports, linked to where it is described."""
    rows = []
    for name in akpca.__all__:
        thing = getattr(akpca, name)
        summary = inspect.getdoc(thing).partition("\n")[0]
        summary = re.sub(r"([\\`*_<>$])", r"\\\1", summary)  # it is no Markdown
        rows.append((f"{{py:obj}}`{name} <{thing.__module__}.{name}>`", summary))
    return markdown(("name", "what it is"), rows)


def add_reference(folder: Path) -> None:
    """Write a page for each module, with all that it exports."""
    folder.mkdir()
    names = modules()
    packages = {name.rpartition(".")[0] for name in names}
    for name in names:
        # What a package exports is described where it is defined.
        members = "" if name in packages else MEMBERS
        text = f"# {name}\n\n```{{eval-rst}}\n.. automodule:: {name}\n{members}```\n"
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


def add_mathjax(folder: Path) -> None:
    package = importlib.util.find_spec("sphinx-mathjax-offline")
    files = Path(package.origin).parent / "static" / "mathjax"
    for name in MATHJAX:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (files / name).is_dir() else shutil.copy
        copy(files / name, target)


def render(output: Path, paths: list[Path]) -> int:
    """Make `output/book`; return Sphinx's exit code, which a warning raises as well."""
    source, book = output / "source", output / "book"
    lay_out(source, paths)
    shutil.rmtree(book, ignore_errors=True)
    options = ["-q", "-W", "--keep-going", "-j", "auto", "-d", output / "doctrees"]
    command = [sys.executable, "-m", "sphinx", "-b", "html", *options, source, book]
    return subprocess.run([str(part) for part in command], check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, help="folder in which `book` is made")
    parser.add_argument("notebooks", type=Path, nargs="+", help="notebooks with their outputs")
    arguments = parser.parse_args()
    return render(arguments.output.resolve(), [path.resolve() for path in arguments.notebooks])


if __name__ == "__main__":
    sys.exit(main())
