"""Data of one's own, from a file: ``.npz``, ``.npy`` or ``.csv``.

======= ==========================================================================================
ending  what is in the file
======= ==========================================================================================
.npz    an array ``X``, and where there are any, labels ``y`` and an ``image_shape``
.npy    the array ``X``
.csv    a row for each example, numbers with commas between them. The first line may have names,
        also the numbers 0, 1, 2, ...: a column named ``label``, ``y`` or ``target`` holds labels,
        and one without a name, or ``Unnamed: 0``, is an index, which is left out
======= ==========================================================================================

`X` has the shape (n, d), or (n, height, width) or (n, height, width, 3) for images. Images, and
bytes, with pixels above 1 are divided by the largest. Labels are integers or texts, which become
the numbers of their sorted order; other numbers stay what they are, positions along the Swiss roll
for instance. What was taken for what is printed. Files are never unpickled, and what can't be right
is a ValueError that names the file and the place.
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

__all__ = ["ENDINGS", "read_npz", "read_own", "reading"]

ENDINGS = (".npz", ".npy", ".csv")
LABELS, INDEX = ("label", "y", "target"), ("", "unnamed: 0")

_Own = tuple[np.ndarray, np.ndarray | None, tuple[int, ...] | None]


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever a damaged file leads to into a ValueError that names it.

    NumPy, zipfile and their decoders raise a dozen types for bytes that they did not expect.
    """
    try:
        yield
    except Exception as error:
        raise ValueError(f"{path} can't be read: {type(error).__name__}: {error}") from error


def read_own(path: Path) -> _Own:
    """Return the examples as rows, their labels or None, and their image shape or None.

    What a reader could not expect is printed.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path} (looked for in {Path.cwd()})")
    readers = {".npz": _read_npz, ".npy": _read_npy, ".csv": _read_csv}
    X, y, image_shape = readers[path.suffix.lower()](path)
    if X.dtype.kind not in "buif":
        raise ValueError(f"{path}: X must be numbers, got the type {X.dtype}")
    if X.ndim not in (2, 3, 4) or 0 in X.shape or (X.ndim == 4 and X.shape[3] != 3):
        shapes = "(n, d), or for images (n, height, width) or (n, height, width, 3)"
        raise ValueError(f"{path}: X must have the shape {shapes}, got {X.shape}")
    if X.ndim > 2 and image_shape is None:
        image_shape = X.shape[1:]
    is_image = image_shape is not None or X.dtype == np.uint8
    X = X.reshape(len(X), -1).astype(np.float64)
    if not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0]
        what = f"{X[row, column]} in row {row}, column {column} (counted from 0)"
        raise ValueError(f"{path}: X must be finite numbers, got {what}")
    if image_shape is not None and len(image_shape) == 3 and image_shape[2] != 3:
        raise ValueError(f"{path}: image_shape={image_shape} must have 3 channels for colour")
    if is_image and (largest := np.abs(X).max()) > 1:
        print(f"{path.name}: pixels are divided by the largest, {largest:g}")
        X /= largest
    return X, None if y is None else _as_labels(path, y), image_shape


def read_npz(path: Path, names: Iterable[str]) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return those of the named arrays that an archive has, and the names of all it has."""
    with reading(path), np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in names if name in archive}, archive.files


def _read_npz(path: Path) -> _Own:
    arrays, names = read_npz(path, ("X", "y", "image_shape"))
    if "X" not in arrays:
        raise ValueError(f"{path} has no array X; it has {', '.join(sorted(names)) or 'none'}")
    shape = arrays.get("image_shape")
    if shape is not None:
        if shape.dtype.kind not in "iu" or shape.shape not in ((2,), (3,)):
            wanted = "(height, width) or (height, width, 3)"
            raise ValueError(f"{path}: image_shape must be {wanted}, got {shape.tolist()}")
        shape = tuple(int(size) for size in shape)
    return arrays["X"], arrays.get("y"), shape


def _read_npy(path: Path) -> _Own:
    with open(path, "rb") as file, reading(path):
        return np.lib.format.read_array(file, allow_pickle=False), None, None


def _read_csv(path: Path) -> _Own:
    with open(path, encoding="utf-8-sig", newline="") as file, reading(path):
        first = [cell.strip() for cell in next(csv.reader(file), [])]
    named = _are_names(first)
    lower = [cell.lower() if named else "0" for cell in first]
    labels = [column for column, name in enumerate(lower) if name in LABELS]
    index = [column for column, name in enumerate(lower) if name in INDEX]
    if len(labels) > 1:
        several = " and ".join(first[column] for column in labels)
        raise ValueError(f"{path} has several columns of labels: {several}")
    if len(first) == len(labels + index):
        raise ValueError(f"{path} has no column of numbers; its first line is {first}")
    options = {"delimiter": ",", "skiprows": int(named), "quotechar": '"', "comments": None}
    options |= {"encoding": "utf-8-sig", "ndmin": 2}
    # All columns are read, labels as 0, so that a line with too many or too few is noticed.
    numbers = {column: lambda _: 0.0 for column in labels + index}
    with reading(path), warnings.catch_warnings():
        warnings.simplefilter("error")  # that a file is empty is only a warning
        X = np.loadtxt(path, dtype=np.float64, converters=numbers, **options)
        y = np.loadtxt(path, dtype=str, usecols=labels, **options)[:, 0] if labels else None
    taken = ["the first line for names" if named else "no line for names"]
    taken += [f"{first[column]!r} for labels" for column in labels]
    taken += [f"column {column} for an index, left out" for column in index]
    X = np.delete(X, labels + index, axis=1)
    print(f"{path.name}: {len(X)} examples of {X.shape[1]} numbers; taken: {', '.join(taken)}")
    return X, y, None


def _are_names(cells: list[str]) -> bool:
    """Return whether a first line has names: a text, or 0, 1, 2, ..., perhaps behind an index."""
    counted = [str(i) for i in range(len(cells))]
    if len(cells) > 1 and cells in (counted, ["", *counted[:-1]]):
        return True
    return not all(cell == "" or _is_number(cell) for cell in cells)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _as_labels(path: Path, y: np.ndarray) -> np.ndarray:
    """Return labels as integers; numbers that are no integers stay as they are."""
    if y.dtype.kind == "U":
        texts = np.unique(np.char.strip(y))
        # different texts for one number, as 1e3 and 1000, are names of classes
        if not all(map(_is_number, texts)) or len(np.unique(texts.astype(float))) < len(texts):
            return np.searchsorted(texts, np.char.strip(y)).astype(np.int64)
        y = y.astype(np.float64)
    if y.dtype.kind not in "buif":
        raise ValueError(f"{path}: y must be integers or texts, got the type {y.dtype}")
    if not np.isfinite(y).all():
        row = int(np.argmax(~np.isfinite(y)))
        raise ValueError(f"{path}: y must be finite, got {y[row]} in row {row} (counted from 0)")
    whole = y.astype(np.int64)
    return whole if np.array_equal(whole, y) else y.astype(np.float64)
