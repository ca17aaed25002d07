"""The check of single numbers that functions take; estimators have scikit-learn's."""

from __future__ import annotations

import math
from numbers import Integral, Real

__all__ = ["check_number"]


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
