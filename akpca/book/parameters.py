"""The check of a notebook's parameters by the types that its first cell declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args, get_origin

from ..parameters import check_number

__all__ = ["check_parameters"]


def check_parameters(namespace: Mapping[str, Any]) -> None:
    """Check the parameters of a notebook by the types that its first cell declares.

    Papermill replaces a value in a cell of its own, which no longer knows the type: without this,
    ``-p n_components 2.5`` is noticed in the middle of a chapter, if at all. A number must not be
    negative, since the numbers of our notebooks are sizes, seeds and scales. A list will do for a
    tuple, which papermill does not have, and the other way round.

    Parameters
    ----------
    namespace : mapping of str to object
        ``globals()`` of the notebook.

    Raises
    ------
    ValueError
        If a parameter is of another type. The message gives its name, its value and the rule.
    """
    declared = namespace.get("__annotations__")
    if declared is None:  # from Python 3.14 on, they are evaluated when asked for
        declared = namespace["__annotate__"](1)
    for name, kind in declared.items():
        value = namespace[name]
        if kind in (int, float):
            check_number(name, value, integer=kind is int)
        elif get_origin(kind) in (list, tuple) or kind in (list, tuple):
            _check_items(name, value, kind)
        elif not isinstance(value, kind):
            raise ValueError(f"{name}={value!r} must be of type {kind.__name__}")


def _check_items(name: str, value: object, kind: Any) -> None:
    """Check a list or tuple, and its items if their type is declared, as in list[int]."""
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name}={value!r} must be a list or tuple")
    items = get_args(kind)[:1]
    for item in value if items else ():
        if items[0] in (int, float):
            check_number(f"an item of {name}", item, integer=items[0] is int)
        elif not isinstance(item, items[0]):
            raise ValueError(f"{name}={value!r} must have items of type {items[0].__name__}")
