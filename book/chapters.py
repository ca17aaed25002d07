"""Chapters as pages: what a notebook needs besides its cells to be part of the book."""

import ast
import copy
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode, v4

DOWNLOADS = "downloads"  # folder of the notebooks as they were executed
FOLDED = {"results"}  # tags of cells that readers open if they want to
SHOWN_PARAMETERS = 3


@dataclass(frozen=True, eq=False)
class Chapter:
    """A notebook, and what the book says of it."""

    name: str
    notebook: NotebookNode

    @property
    def number(self) -> str:
        return self.name.partition("_")[0]

    @property
    def title(self) -> str:
        """The first heading."""
        found = re.search(r"(?m)^# +(.+)$", self.text)
        return found[1].strip() if found else self.name

    @property
    def text(self) -> str:
        """All that is written between the code."""
        return "\n\n".join(c.source for c in self.notebook.cells if c.cell_type == "markdown")

    def about(self, key: str, default):
        """What the notebook's metadata say of it: question, minutes, values worth trying."""
        return self.notebook.metadata.get("akpca", {}).get(key, default)

    @property
    def seconds(self) -> float | None:
        """How long it took; None if it was not executed for this book."""
        return self.notebook.metadata.get("papermill", {}).get("duration")

    @property
    def parameters(self) -> dict[str, object]:
        """Names and defaults, from the cell tagged `parameters`."""
        for cell in self.notebook.cells:
            if "parameters" in cell.metadata.get("tags", []):
                return {
                    line.target.id: ast.literal_eval(line.value)
                    for line in ast.parse(cell.source).body
                    if isinstance(line, ast.AnnAssign)
                }
        return {}


def read_chapters(paths: Iterable[Path]) -> list[Chapter]:
    """Return chapters by number, whichever folders they lie in."""
    ordered = sorted(paths, key=lambda path: path.name)
    return [Chapter(path.stem, nbformat.read(path, as_version=4)) for path in ordered]


def rerun_command(chapter: Chapter) -> str:
    """Return a line that runs a chapter again: with values worth trying, or its first defaults."""
    shown = [pair.partition("=")[::2] for pair in chapter.about("try", [""])[0].split()]
    if not shown:
        defaults = chapter.parameters.items()
        named = [(name, str(v)) for name, v in defaults if name not in ("seed", "progress")]
        shown = [(name, value) for name, value in named if value][:SHOWN_PARAMETERS]
    options = [f"-p {name} {shlex.quote(value)}" for name, value in shown]
    return " ".join(["python -m akpca run", chapter.number, *options])


def page(chapter: Chapter) -> NotebookNode:
    """Return the notebook with what its page has in addition."""
    nb = copy.deepcopy(chapter.notebook)
    nb.cells = [part for cell in nb.cells for part in _dressed(cell, chapter)]
    # The page is not to be executed, and no widget of it needs a script.
    nb.metadata = {"kernelspec": nb.metadata.kernelspec}
    return nb


def _dressed(cell: NotebookNode, chapter: Chapter) -> list[NotebookNode]:
    tags = cell.metadata.get("tags", [])
    if cell.cell_type == "markdown" and cell.source.startswith("# "):
        heading, _, rest = cell.source.partition("\n")
        cell.source = f"{heading}\n\n{_bar(chapter)}\n{rest}"
    if alt := cell.metadata.get("alt"):
        cell.metadata["mystnb"] = {"image": {"alt": alt}}
    for output in cell.get("outputs", []):
        output.get("data", {}).pop("application/json", None)  # for programs; readers have the text
    if FOLDED & set(tags):
        cell.metadata["tags"] = [*tags, "hide-cell"]
    return [cell, v4.new_markdown_cell(_again(chapter))] if "parameters" in tags else [cell]


def _bar(chapter: Chapter) -> str:
    """Return the line under the title: the notebook, and how long it takes."""
    time = f" It ran in {seconds(chapter.seconds)}." if chapter.seconds is not None else ""
    file = f"{DOWNLOADS}/{chapter.name}.ipynb"
    return (
        ":::{container} chapter-bar\n"
        f"{{download}}`Download this chapter <{file}>` as a notebook, with its outputs.{time}\n"
        ":::\n"
    )


def _again(chapter: Chapter) -> str:
    return (
        ":::{container} chapter-again\n"
        "Run this chapter with other values of any of these:\n\n"
        f"```bash\n{rerun_command(chapter)}\n```\n"
        ":::\n"
    )


def seconds(value: float) -> str:
    return f"{value:.0f} s" if value < 90 else f"{value / 60:.1f} min"


# What other pages take from chapters ------------------------------------------------------------


def contents(chapters: list[Chapter]) -> str:
    """Return the table of chapters, with the run times of this book or else the usual ones."""
    measured = any(chapter.seconds is not None for chapter in chapters)
    head = ["chapter", "the question that it answers", "run time" if measured else "minutes to run"]
    rows = [head, ["---", "---", "---:"]]
    for chapter in chapters:
        usual = chapter.about("minutes", "") if not measured else ""
        time = usual if chapter.seconds is None else seconds(chapter.seconds)
        link = f"[{chapter.title}]({chapter.name}.ipynb)"
        rows.append([link, chapter.about("question", ""), time])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def section(chapter: Chapter, heading: str) -> str:
    """Return what stands under a heading of second level, down to the next heading."""
    found = re.search(rf"(?ms)^## {re.escape(heading)}\n(.*?)(?=^##|\Z)", chapter.text)
    if not found:
        raise ValueError(f"Chapter {chapter.name} has no section {heading!r}")
    return found[1].strip() + "\n"


def claims(chapters: Iterable[Chapter]) -> str:
    """Return the verdicts of all chapters that try what a paper claims, with links to them.

    Any table in the outputs whose first column is headed *claim* is one of them.
    """
    parts = []
    for chapter in chapters:
        link = f"From [{chapter.title}]({chapter.name}.ipynb):"
        parts += [f"{link}\n\n{table}\n" for table in shown_tables(chapter, "claim")]
    return "\n".join(parts)


def shown_tables(chapter: Chapter, first: str) -> list[str]:
    """Return the Markdown tables that a chapter shows, if that is the head of the first column."""
    code = [cell for cell in chapter.notebook.cells if cell.cell_type == "code"]
    datas = [output.get("data", {}) for cell in code for output in cell.outputs]
    texts = [data.get("text/markdown", "").strip() for data in datas]
    return [text for text in texts if re.match(rf"\| *{re.escape(first)} *\|", text)]


def _words(text: str) -> str:
    """Return text for comparison: lower-case words, with spaces around each."""
    return " " + " ".join(re.findall(r"\w+", text.lower())) + " "


def works(text: str) -> list[tuple[str, str]]:
    """Return the last name of the first author, and the title, of each entry of a list.

    Titles are in italics or in quotation marks.
    """
    entries = re.findall(r"""(?m)^- (.+?)(?:,| and ).*?([*"])(.+?)\2""", text)
    return [(_words(author.split()[-1]), _words(title)) for author, _, title in entries]


def with_chapters(bibliography: str, chapters: list[Chapter]) -> str:
    """Add to each entry of a list the chapters whose further reading has it."""
    read = {c: section(c, "Further reading").splitlines() for c in chapters}

    def dressed(line: str) -> str:
        named = [
            f"[{c.number}]({c.name}.ipynb)"
            for author, title in works(line)
            for c, lines in read.items()
            if any(author in entry and title in entry for entry in map(_words, lines))
        ]
        return f"{line} Chapter{'s' * (len(named) > 1)} {', '.join(named)}." if named else line

    return "\n".join(map(dressed, bibliography.splitlines())) + "\n"
