"""One run of a notebook by papermill: whole or not at all.

A run is written to a hidden file beside its place and moved there when it is complete, so that a
file in its place is a complete run, whatever happened in between. What a run that failed has got
done is kept under another name, ``....failed.ipynb``.
"""

from __future__ import annotations

import glob
import logging
import os
import re
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from akpca.book.rerun.notebooks import (
    chapters,
    declared_parameters,
    read_notebook,
    source_of,
    tagged_cell,
)
from akpca.book.rerun.values import UsageError, nearest

__all__ = [
    "Outcome",
    "Task",
    "check_notebook",
    "find_notebook",
    "is_done",
    "output_name",
    "run_task",
]

TRACEBACK_LINES = 15
# Bytes: file systems allow 255, and hidden names and endings need some of them.
MAX_NAME = 120


@dataclass(frozen=True)
class Task:
    """A run that is to be done: a notebook, where its output goes, and its parameters.

    `folder` is the working directory, from which relative paths in parameters are meant.
    """

    notebook: Path
    output: Path
    values: Mapping[str, Any]
    folder: Path

    @property
    def label(self) -> str:
        """Notebook and parameters in a line."""
        return " ".join([self.notebook.stem, *(f"{k}={v}" for k, v in self.values.items())])


@dataclass(frozen=True)
class Outcome:
    """How a run ended: `error` is empty if it went well, `path` is what there is to read."""

    path: Path
    seconds: float
    error: str = ""


def find_notebook(name: str) -> Path:
    """Return the path of a chapter by its number or name, or of any notebook by its path."""
    if name.endswith(".ipynb"):
        path = Path(name)
        if path.is_file():
            return path.resolve()
        if path.parent != Path("."):
            raise UsageError(f"there is no notebook {name}")
    known = {path.stem: path for path in chapters()}
    wanted = name.removesuffix(".ipynb")
    number = f"{int(wanted):02d}" if re.fullmatch(r"[0-9]{1,2}", wanted) else wanted
    found = [path for stem, path in known.items() if stem == wanted or stem[:2] == number]
    if not found:
        # "pca" and "nystrom" are names as well, where only one chapter has them.
        found = [path for stem, path in known.items() if wanted and wanted in stem[3:].split("_")]
    if len(found) != 1:
        hint = nearest(wanted, [*known, *(stem[3:] for stem in known)])
        listed = "\n".join(f"  {stem}" for stem in known)
        raise UsageError(f"there is no chapter {name!r}{hint}. There are:\n{listed}")
    return found[0]


def output_name(notebook: Path, values: Mapping[str, Any]) -> str:
    """Return the name of a run's file: notebook and parameters, for example 01_pca-seed=1.ipynb.

    Other characters than letters, digits and a few signs become "_"; a name that loses something
    by that, or would be too long, ends with a checksum, so that two runs never share a file.
    """
    full = "-".join([notebook.stem, *(f"{key}={value}" for key, value in values.items())])
    safe = re.sub(r"[^\w.=+-]+", "_", full)
    short = safe.encode()[:MAX_NAME].decode(errors="ignore")
    if short != full:
        safe = f"{short.rstrip('_')}-{zlib.crc32(full.encode()):08x}"
    return f"{safe}.ipynb"


def is_done(task: Task) -> bool:
    """Return whether a task's output is there, made by the notebook as it is now."""
    if not task.output.is_file():
        return False
    try:
        made = read_notebook(task.output)
    except ValueError:
        return False
    given = made.get("metadata", {}).get("papermill", {}).get("parameters")
    return given == dict(task.values) and _code(made) == _code(read_notebook(task.notebook))


def _code(notebook: dict[str, Any]) -> list[str]:
    """Return the sources of the code cells, without the one that papermill puts in."""
    injected = tagged_cell(notebook, "injected-parameters")
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [source_of(cell) for cell in cells if cell is not injected]


def run_task(task: Task, progress_bar: bool = False) -> Outcome:
    """Run a notebook, and move the output into its place if it went well."""
    import papermill

    start = time.perf_counter()
    task.output.parent.mkdir(parents=True, exist_ok=True)
    scratch = task.output.with_name(f".{task.output.stem}~{os.getpid()}.ipynb")
    failed = task.output.with_suffix(".failed.ipynb")
    # Left over from a script, it would keep figures out of the notebook.
    os.environ.pop("MPLBACKEND", None)
    # It does not see tuples among the parameters, and would call them unknown.
    logging.getLogger("papermill").setLevel(logging.ERROR)
    error = ""
    try:
        papermill.execute_notebook(
            str(task.notebook),
            str(scratch),
            dict(task.values),
            kernel_name="python3",
            language="python",  # which some editors do not write down
            cwd=str(task.folder),
            progress_bar=progress_bar,
            # ipykernel warns on every start that a local kernel is not encrypted.
            extra_arguments=["--log-level=ERROR"],
        )
    except papermill.PapermillExecutionError as exception:
        error = _last_lines(exception)
    except Exception as exception:  # a dead kernel, a full disk: say so, go on with other runs
        error = f"{type(exception).__name__}: {exception}"
    except BaseException:  # the user's interrupt, or a polite kill
        if scratch.exists():
            os.replace(scratch, failed)
        raise
    path = failed if error else task.output
    if scratch.exists():
        os.replace(scratch, path)
    if not error:
        failed.unlink(missing_ok=True)
    for left in task.output.parent.glob(f".{glob.escape(task.output.stem)}~*.ipynb"):
        left.unlink(missing_ok=True)  # by runs of the same name that were killed
    return Outcome(path, time.perf_counter() - start, error)


def _last_lines(exception: Any) -> str:
    """Return the end of a traceback, without its colours."""
    from papermill.exceptions import strip_color

    lines = strip_color("\n".join(exception.traceback)).splitlines()[-TRACEBACK_LINES:]
    return "\n".join([f"cell In [{exception.exec_count}] failed:", *lines])


def check_notebook(path: Path) -> dict[str, Any]:
    """Return a notebook that has parameters; others are a UsageError."""
    try:
        notebook = read_notebook(path)
        has_some = bool(declared_parameters(notebook))
    except (ValueError, SyntaxError) as error:
        raise UsageError(f"{path}: {error}") from error
    if not has_some:
        raise UsageError(f"{path} has no cell tagged 'parameters' that assigns some")
    return notebook
