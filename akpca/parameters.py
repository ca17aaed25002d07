"""Checks of single numbers: arguments of functions, and the parameters of notebooks.

Estimators have scikit-learn's checks. Everything else that takes a number from a user refuses what
can't be right here, before it leads to an error that names neither the number nor the rule.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, get_args, get_origin

__all__ = ["check_number", "check_parameters"]


def check_number(
    name: str,
    value: object,
    *,
    integer: bool = False,
    low: float = 0,
    high: float = math.inf,
    above: bool = False,
) -> None:
    """Raise a ValueError unless `value` is a finite number, or an integer, from `low` to `high`.

    With `above` it must be larger than `low`. Booleans are no numbers. The message gives the
    `name`, the value and the rule.
    """
    is_number = isinstance(value, Integral if integer else Real) and not isinstance(value, bool)
    inside = is_number and math.isfinite(value) and low <= value <= high
    if not inside or (above and value == low):
        kind = "an integer" if integer else "a finite number"
        bound = f"above {low}" if above else f"of at least {low}"
        limits = bound if high == math.inf else f"from {low} to {high}"
        raise ValueError(f"{name}={value!r} must be {kind} {limits}")


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
