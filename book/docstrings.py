"""Docstrings as pages: they are written to be read in a terminal, where a formula is plain text.

`f(x)_j`, `mean_` or `|x|` would be markup to Sphinx. Here they lose that meaning, wherever they
don't stand in backticks, in code or in a formula that is marked as one. What our classes inherit
from other packages is left to their documentation.
"""

import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any

import akpca

MARKED = re.compile(r"(``.+?``|`[^`]+`_?)")
CELL_WITH_DASH = re.compile(r"(?<= {2})-$")  # the last of a row; alone it would be a list
# A name that ends in an underscore would be a link, text between bars a substitution, and stars
# that nothing closes (as in **params) would open emphasis.
MARKUP = re.compile(r"(?<=\w)(?<!\\)_(?!\w)|(?<!\\)\||(?<![\w*\\])\*\*(?=\w)(?!.*\w\*)")


def plain(line: str) -> str:
    """Return a line whose underscores, bars and stars are characters like any other."""
    parts = MARKED.split(CELL_WITH_DASH.sub("–", line))
    parts[::2] = [MARKUP.sub(r"\\\g<0>", part) for part in parts[::2]]
    return "".join(parts)


def without_markup(lines: Iterable[str]) -> Iterator[str]:
    """Apply `plain` to all lines but those of examples, blocks of code and displayed formulas."""
    block: int | None = None  # indentation of the line that opened a block
    example = False
    for line in lines:
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if text and block is not None and indent <= block:
            block = None
        example = bool(text) and (example or text.startswith(">>> "))
        yield line if example or block is not None else plain(line)
        if text.endswith("::") or text.startswith(".. math::"):
            block = indent if block is None else block


def process(app, what, name, obj, options, lines: list[str]) -> None:
    lines[:] = list(without_markup(lines))


def skip(app, what: str, name: str, obj: Any, skipped: bool, options) -> bool | None:
    """Leave out what is not ours, and the fields of named tuples, which their class describes."""
    home = getattr(obj, "__objclass__", inspect.unwrap(getattr(obj, "fget", obj)))
    module = getattr(home, "__module__", None)
    if isinstance(module, str) and not module.startswith("akpca"):
        return True
    return True if type(obj).__name__ == "_tuplegetter" else None


def resolve(app, env, node, contnode):
    """Link a name that a package exports to where it is defined and described."""
    if node.get("refdomain") != "py":
        return None
    name = node["reftarget"].rpartition(".")[2]
    thing = getattr(akpca, name, None) if name in akpca.__all__ else None
    if thing is None:
        return None
    domain, target = env.get_domain("py"), f"{thing.__module__}.{name}"
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, contnode)


def setup(app) -> dict[str, bool]:
    app.setup_extension("sphinx.ext.napoleon")
    # After the sections were read, which have rules of their own for underscores.
    app.connect("autodoc-process-docstring", process, priority=900)
    app.connect("autodoc-skip-member", skip)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True}
