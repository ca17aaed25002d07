"""Sentences that follow from numbers, and stay true when a number changes.

A finding that is typed into a chapter is wrong as soon as somebody runs it with other parameters.
A cell that ends with `say` shows a paragraph, with `bullets` a list and with `table` a table, as
Markdown; `compare` and `ranking` put the outcome of a comparison into words, and `source` shows
the lines of a function::

    say(
        f"With {k} components PCA is {compare(pca, kpca)} kernel PCA.",
        "The kernel pays." if kpca < pca else "Here the kernel buys nothing.",
    )
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from textwrap import dedent

__all__ = ["Sentences", "bullets", "compare", "enumerated", "ranking", "say", "source", "table"]


class Sentences(str):
    """A text that notebooks show as Markdown and terminals as it is."""

    def _repr_markdown_(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return str(self)


def say(*parts: str) -> Sentences:
    """Return a paragraph made of sentences; empty ones are left out."""
    return Sentences(" ".join(part for part in parts if part))


def bullets(*items: str) -> Sentences:
    """Return a list with one item for each text; empty ones are left out."""
    return Sentences("\n".join(f"- {item}" for item in items if item))


def table(
    rows: Mapping[str, Iterable[object]], columns: Sequence[str], *, form: str = ".2f"
) -> Sentences:
    """Return a table with a row for each entry of `rows`.

    Parameters
    ----------
    rows : mapping of str to iterable
        The first cell of a row -> the others. Numbers with a fraction are written with `form`, all
        else as it is.
    columns : sequence of str
        The headings, of which the first is that of the names.
    form : str, default='.2f'
        Format of numbers with a fraction.
    """

    def cell(value: object) -> str:
        return format(value, form) if isinstance(value, float) else str(value)

    lines = [[name, *map(cell, values)] for name, values in rows.items()]
    for line in lines:
        if len(line) != len(columns):
            raise ValueError(f"row {line[0]!r} has {len(line)} cells for {len(columns)} columns")
    marks = ["---"] + ["---:"] * (len(columns) - 1)
    return Sentences("\n".join("| " + " | ".join(line) + " |" for line in [columns, marks, *lines]))


def enumerated(items: Iterable[str]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    *others, final = items
    return f"{', '.join(others)} and {final}" if others else final


def compare(
    first: float,
    second: float,
    *,
    words: tuple[str, str, str] = ("below", "level with", "above"),
    within: float = 0.01,
) -> str:
    """Return the word for how `first` compares with `second`: less, about equal or more.

    They are about equal if they differ by no more than the share `within` of the larger one.
    """
    if abs(first - second) <= within * max(abs(first), abs(second)):
        return words[1]
    return words[0] if first < second else words[2]


def ranking(scores: Mapping[str, float], *, form: str = ".2f", largest_first: bool = False) -> str:
    """Return the names in the order of their scores, each with its score.

    The smallest comes first, as befits errors, or with `largest_first` the largest.
    """
    order = sorted(scores, key=lambda name: scores[name], reverse=largest_first)
    return enumerated(f"{name} ({scores[name]:{form}})" for name in order)


def source(function: Callable) -> Sentences:
    """Return the lines of a function without its docstring, as code."""
    lines = dedent(inspect.getsource(function)).splitlines()
    first = ast.parse("\n".join(lines)).body[0].body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        del lines[first.lineno - 1 : first.end_lineno]
    return Sentences("\n".join(["```python", *lines, "```"]))
