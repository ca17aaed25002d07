"""Results as rows of a file, written as they come.

A run of an hour will be interrupted. Every row is on the disk before the next is computed, a row
that was cut off in the middle is dropped, and what is there is not computed again. Rows that came
out of order, since several processes made them, are sorted in the end: a run that was killed and
started again ends with the table of one that was not.
"""

from __future__ import annotations

import csv
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ...datasets import load_dataset

__all__ = ["ResultTable", "folder_of_results", "table_name"]


def table_name(dataset: str, *settings: object) -> str:
    """Return the name of a table: of the data, by what is in them, and of all settings.

    Neither another file of the same name nor the same file after a change shares its rows.
    """
    data = load_dataset(dataset)
    content = zlib.crc32(np.ascontiguousarray(data.X))
    if data.y is not None:
        content = zlib.crc32(np.ascontiguousarray(data.y), content)
    label = re.sub(r"\W+", "_", Path(dataset).stem)[:40]
    return "-".join([label, f"{content:08x}", *map(str, settings)])


def folder_of_results(name: str) -> Path:
    """Return the folder of this name with tables that belong to the notebooks.

    It is looked for from the working directory upwards, then beside the package, since a notebook
    can't tell where it lies. Without any, it is the one that would be in the working directory.
    """
    part = Path("results") / name
    here, package = Path.cwd(), Path(__file__).resolve().parents[3]
    for place in (here, *here.parents, package):
        for folder in (place / part, place / "notebooks" / part):
            if folder.is_dir():
                return folder
    return here / part


class ResultTable:
    """A CSV file with one value for each combination of keys.

    Parameters
    ----------
    path : str or Path
        The file; it and its folder are made if they don't exist.
    keys : sequence of str
        Columns that name a result, such as data, method and seed. Keys are compared as text, and
        can't have line breaks, by which rows are told apart.
    value : str, default='value'
        The column of the result, a number.

    Examples
    --------
    >>> import tempfile
    >>> table = ResultTable(Path(tempfile.mkdtemp()) / "errors.csv", ["method", "seed"])
    >>> if ("PCA", 0) not in table:
    ...     table.add("PCA", 0, value=0.31)
    >>> table[("PCA", 0)]
    0.31
    """

    def __init__(self, path: str | Path, keys: Sequence[str], *, value: str = "value") -> None:
        self.path, self.columns = Path(path), [*keys, value]
        self._values: dict[tuple[str, ...], float] = {}
        self._read()

    def _read(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = self.path.read_bytes() if self.path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:  # the last row was cut off
            with self.path.open("r+b") as file:
                file.truncate(len(whole))
                os.fsync(file.fileno())
        if not whole:
            self._start()
            return
        head, *rows = csv.reader(whole.decode("utf-8").split("\n")[:-1])
        if head != self.columns:
            raise ValueError(f"path={self.path} has the columns {head}, not {self.columns}")
        for row in rows:
            if len(row) != len(self.columns):
                raise ValueError(f"path={self.path}: {row} has not the columns {self.columns}")
            self._values[tuple(row[:-1])] = float(row[-1])

    def _start(self) -> None:
        """Write the first line; of two processes that do so at once, one makes the file."""
        new = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        with new.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerow(self.columns)
        try:
            if self.path.exists() and not self.path.stat().st_size:  # left by a full disk
                new.replace(self.path)
            else:
                os.link(new, self.path)
        except FileExistsError:
            pass
        finally:
            new.unlink(missing_ok=True)

    def _append(self, row: Sequence[object]) -> None:
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerow(row)
            file.flush()
            os.fsync(file.fileno())

    def _key(self, names: Sequence[object]) -> tuple[str, ...]:
        if len(names) != len(self.columns) - 1:
            raise ValueError(f"{tuple(names)} must have a name for each of {self.columns[:-1]}")
        key = tuple(map(str, names))
        if any("\n" in name or "\r" in name for name in key):
            raise ValueError(f"{key} must not have line breaks")
        return key

    def __contains__(self, names: Sequence[object]) -> bool:
        return self._key(names) in self._values

    def __getitem__(self, names: Sequence[object]) -> float:
        return self._values[self._key(names)]

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(self._values)

    def add(self, *names: object, value: float) -> None:
        """Write a result; one that is there is refused."""
        key = self._key(names)
        if key in self._values:
            raise ValueError(f"{key} is in {self.path} already")
        self._append([*key, repr(float(value))])
        self._values[key] = float(value)

    def sort(self, order: Iterable[Sequence[object]]) -> None:
        """Put the rows with the keys of `order` into this order, after all others.

        The new file replaces the old one in a single step, so that at no time there is a part.
        """
        known = [key for key in map(self._key, order) if key in self._values]
        named = set(known)
        keys = [*(key for key in self._values if key not in named), *dict.fromkeys(known)]
        if keys == list(self._values):
            return
        new = self.path.with_name(self.path.name + ".new")
        with new.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self.columns)
            writer.writerows([*key, repr(self._values[key])] for key in keys)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)
        self._values = {key: self._values[key] for key in keys}

    def select(self, **wanted: object) -> dict[tuple[str, ...], float]:
        """Return the results whose keys are the `wanted` ones, by the keys that are left."""
        if unknown := set(wanted) - set(self.columns[:-1]):
            raise ValueError(f"{sorted(unknown)} must be among the columns {self.columns[:-1]}")
        texts: Mapping[str, str] = {name: str(value) for name, value in wanted.items()}
        places = [i for i, name in enumerate(self.columns[:-1]) if name not in texts]
        return {
            tuple(key[i] for i in places): value
            for key, value in self._values.items()
            if all(dict(zip(self.columns, key, strict=False))[n] == t for n, t in texts.items())
        }
