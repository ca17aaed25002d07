"""Values of parameters from the command line, checked before anything runs.

A notebook declares the type of a parameter by its annotation, or else by its default. A text that
is no such value, and a name that the notebook does not have, are a `UsageError` that says what
there is. Papermill alone would only warn of the name, and find out about the value in the middle
of a run.
"""

from __future__ import annotations

import ast
import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from akpca.book.rerun.notebooks import Parameter
from akpca.datasets import check_dataset

__all__ = ["UsageError", "describe", "grid_values", "nearest", "run_values", "to_value"]

BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class UsageError(ValueError):
    """What was asked for can't be done; nothing has been run."""


def run_values(
    name: str, parameters: Mapping[str, Parameter], given: Iterable[Sequence[str]]
) -> dict[str, Any]:
    """Return the values of one run, for pairs of a parameter's name and a text.

    Parameters
    ----------
    name : str
        The notebook's name, for messages.
    parameters : mapping of str to Parameter
        What the notebook declares.
    given : iterable of (str, str)
        Names and texts.
    """
    return {
        key: _checked(name, parameters, key, text) for key, text in _known(name, parameters, given)
    }


def grid_values(
    name: str, parameters: Mapping[str, Parameter], given: Iterable[Sequence[str]]
) -> dict[str, list[Any]]:
    """Return the values of a sweep, for pairs of a parameter's name and texts with commas.

    Where a value has commas itself, as lists have, semicolons separate: ``"5,10; 20"`` is two.
    """
    grid = {}
    for key, text in _known(name, parameters, given):
        values = [_checked(name, parameters, key, part) for part in _parts(parameters[key], text)]
        if twice := [value for value in values if values.count(value) > 1]:
            raise UsageError(f"{key}={twice[0]} is given twice")
        grid[key] = values
    return grid


def _known(
    name: str, parameters: Mapping[str, Parameter], given: Iterable[Sequence[str]]
) -> list[Sequence[str]]:
    pairs = list(given)
    keys = [key for key, _ in pairs]
    for key in keys:
        if key not in parameters:
            known = describe(parameters)
            hint = nearest(key, parameters)
            raise UsageError(f"{name} has no parameter {key!r}{hint}. It has:\n{known}")
        if keys.count(key) > 1:
            raise UsageError(f"the parameter {key!r} is given twice")
    return pairs


def _checked(name: str, parameters: Mapping[str, Parameter], key: str, text: str) -> Any:
    """Return a value; the message about one that is wrong ends with what the notebook takes."""
    try:
        value = to_value(parameters[key], text)
        _check_value(parameters[key], value)
        return value
    except UsageError as error:
        raise UsageError(f"{error}. {name} has:\n{describe(parameters)}") from None


def _check_value(parameter: Parameter, value: Any) -> None:
    """Refuse what every chapter would: data that are not there, and numbers below zero.

    Numbers of chapters are sizes, seeds and scales. If a default is negative, others may be.
    """
    if parameter.name == "dataset":
        try:
            check_dataset(value)
        except (ValueError, FileNotFoundError) as error:
            raise UsageError(f"dataset={value!r}: {error}") from error
    numbers = [value] if isinstance(value, int | float) else value
    for number in numbers if isinstance(numbers, list) else ():
        if isinstance(number, int | float) and number < 0 and not _is_negative(parameter.default):
            raise UsageError(f"{parameter.name}={value!r} must not be negative")


def _is_negative(default: Any) -> bool:
    return isinstance(default, int | float) and default < 0


def nearest(name: str, names: Iterable[str]) -> str:
    """Return " (did you mean 'this'?)" for the nearest of the names, if one is near."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def describe(parameters: Mapping[str, Parameter]) -> str:
    """Return a line for each parameter: name, type, default and what it is."""
    rows = [(p.name, p.kind, p.text) for p in parameters.values()]
    name, kind, text = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = [
        f"  {p.name:<{name}}  {p.kind:<{kind}}  {p.text:<{text}}  {p.help}".rstrip()
        for p in parameters.values()
    ]
    return "\n".join(lines)


def _parts(parameter: Parameter, text: str) -> list[str]:
    """Return the texts of the single values of a sweep."""
    if ";" in text:
        separator = ";"
    else:
        is_list = parameter.kind.partition("[")[0] in ("list", "tuple")
        separator = "\n" if is_list else ","
    parts = [part.strip() for part in text.split(separator) if part.strip()]
    if not parts:
        raise UsageError(f"the parameter {parameter.name!r} is given no value")
    return parts


def to_value(parameter: Parameter, text: str) -> Any:
    """Return the value that a text stands for, by the type of the parameter.

    Lists and tuples may have brackets or not; a tuple becomes a list, since papermill has none.
    Of several types, as in ``int | None``, the first that fits is taken.
    """
    for kind in (kind.strip() for kind in parameter.kind.split("|")):
        try:
            return _convert(parameter, kind.partition("[")[0], text)
        except (ValueError, KeyError):
            continue
    allowed = " (true or false)" if parameter.kind == "bool" else ""
    raise UsageError(f"{parameter.name}={text!r} must be of type {parameter.kind}{allowed}")


def _convert(parameter: Parameter, kind: str, text: str) -> Any:
    match kind:
        case "str":
            return text
        case "bool":
            return BOOLEANS[text.lower()]
        case "int":
            return int(text)
        case "float":
            number = float(text)
            if not math.isfinite(number):
                raise ValueError(text)
            return number
        case "None":
            return {"None": None}[text]
        case "list" | "tuple":
            return _items(parameter, text)
    # A type that we don't know: what Python makes of it, or else a text, as papermill does.
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _items(parameter: Parameter, text: str) -> list[Any]:
    """Return the items of a list, by the type in the annotation or that of the default's items."""
    declared = re.search(r"\[\s*(\w+)", parameter.kind)
    inside = text.strip()
    if inside[:1] + inside[-1:] in ("()", "[]"):
        inside = inside[1:-1]
    items = [item.strip().strip("'\"") for item in inside.split(",")]
    items = [item for item in items if item]
    kind = declared[1] if declared else _kind_of_items(parameter.default)
    return [_convert(parameter, kind, item) for item in items]


def _kind_of_items(default: Any) -> str:
    """Return the type of the items of a default, the wider one of integers and other numbers."""
    kinds = {type(item).__name__ for item in default or ()}
    if kinds == {"int", "float"}:
        return "float"
    return kinds.pop() if len(kinds) == 1 else "unknown"
