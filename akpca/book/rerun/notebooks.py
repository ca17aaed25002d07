"""Notebooks as files: their cells by tag, and the parameters that their first cell declares.

A notebook is read as the JSON that it is, which takes milliseconds and needs no package. Its
parameters are what the cell tagged ``parameters`` assigns, read from the source without running
it::

    n_components: int = 10  # size of the code
    sizes: tuple[int, ...] = (5, 10)  # sizes of the codes that are compared
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = [
    "Parameter",
    "chapters",
    "declared_parameters",
    "notebooks_folder",
    "read_notebook",
    "source_of",
    "tagged_cell",
    "title_and_question",
]

CHAPTERS = "[0-9][0-9]_*.ipynb"


@dataclass(frozen=True)
class Parameter:
    """A parameter of a notebook.

    Attributes
    ----------
    name : str
        Its name.
    kind : str
        Its type as the annotation has it, or else the name of the default's type.
    default : object
        Its value unless another one is given; None if the source is no plain value.
    text : str
        The default as it is written.
    help : str
        The comment behind it.
    """

    name: str
    kind: str
    default: Any
    text: str
    help: str


def read_notebook(path: Path) -> dict[str, Any]:
    """Return the content of a notebook; a ValueError names a file that is none."""
    try:
        notebook = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:  # neither JSON nor even text
        raise ValueError(f"{path} is not a notebook: {error}") from error
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise ValueError(f"{path} is not a notebook: it has no list of cells")
    return notebook


def source_of(cell: dict[str, Any]) -> str:
    """Return the text of a cell, which a file may hold as one string or as a list of lines."""
    return "".join(cell["source"])


def tagged_cell(notebook: dict[str, Any], tag: str) -> dict[str, Any] | None:
    """Return the first cell with a tag, or None if there is none."""
    for cell in notebook["cells"]:
        if tag in cell.get("metadata", {}).get("tags", []):
            return cell
    return None


def declared_parameters(notebook: dict[str, Any]) -> dict[str, Parameter]:
    """Return the parameters of a notebook by name, in their order."""
    cell = tagged_cell(notebook, "parameters")
    if cell is None:
        return {}
    source = source_of(cell)
    comments = _comments(source)
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            name, kind = node.target.id, ast.unparse(node.annotation).strip("'\"")
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, kind = node.targets[0].id, ""
        else:
            continue
        default = _plain(node.value)
        kind = kind or type(default).__name__
        text = ast.unparse(node.value)
        found[name] = Parameter(name, kind, default, text, comments.get(node.end_lineno, ""))
    return found


def _plain(node: ast.expr) -> Any:
    """Return the value of an expression that is a literal, else None."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _comments(source: str) -> dict[int, str]:
    """Return the comments by the number of their line."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {t.start[0]: t.string.lstrip("# ") for t in tokens if t.type == tokenize.COMMENT}


# Where notebooks are ----------------------------------------------------------------------------


def notebooks_folder() -> Path:
    """Return the folder with the chapters: beside the package, or in the current folder."""
    beside = Path(__file__).resolve().parents[3] / "notebooks"
    for folder in (beside, Path.cwd() / "notebooks"):
        if any(folder.glob(CHAPTERS)):
            return folder
    raise FileNotFoundError(
        "there are no chapters here: a package without its repository has none. Run this in a "
        "clone of the repository, or give the path of a notebook"
    )


def chapters() -> list[Path]:
    """Return the paths of all chapters, in their order."""
    return sorted(notebooks_folder().glob(CHAPTERS))


def title_and_question(notebook: dict[str, Any]) -> tuple[str, str]:
    """Return the title of a notebook, and the question with which it opens.

    The question is that of the metadata ``akpca``, or else the first one of the first paragraph
    with the sentence before it.
    """
    texts = [source_of(cell) for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
    title, paragraph, *_ = [*"\n\n".join(texts).split("\n\n"), "", ""]
    sentences = re.split(r"(?<=[.?!])\s+", paragraph.strip().replace("*", ""))
    asked = next((i for i, sentence in enumerate(sentences) if sentence.endswith("?")), 0)
    question = " ".join(sentences[max(asked - 1, 0) : asked + 1])
    return title.lstrip("# "), notebook["metadata"].get("akpca", {}).get("question", question)
