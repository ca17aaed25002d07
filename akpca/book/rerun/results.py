"""Results of a notebook as numbers, and those of many runs as one table.

The last cell of a chapter, tagged ``results``, hands out its findings without rounding::

    emit_results(error=errors, needed=needed)

A reader sees one line, the versions with which they were made. The numbers are beside it in the
file, as JSON, and :func:`results` reads them from a folder of runs.
"""

from __future__ import annotations

import math
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
import sklearn
import threadpoolctl

from akpca.book.rerun.notebooks import declared_parameters, read_notebook, tagged_cell
from akpca.progress import warn_user

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Results",
    "emit_results",
    "emitted_results",
    "results",
    "run_of",
    "to_frame",
    "versions",
]

JSON = "application/json"
TAG = "results"


class Results(dict[str, Any]):
    """Results by name, which a notebook stores as JSON and shows as a line about versions."""

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        # JupyterLab draws JSON as a tree, which stays closed until somebody opens it.
        return {JSON: dict(self)}, {JSON: {"expanded": False, "root": TAG}}

    def __repr__(self) -> str:
        made = ", ".join(f"{name} {version}" for name, version in versions().items())
        return f"{len(self)} result{'' if len(self) == 1 else 's'}, made with {made}."


def emit_results(**values: Any) -> Results:
    """Return the results of a notebook, to be the last line of its cell tagged ``results``.

    Parameters
    ----------
    **values : number, str, bool, list, array or mapping
        Results by name. A mapping becomes one result for each of its entries:
        ``error={"kernel PCA": 0.2}`` is ``error_kernel_pca=0.2``. Numbers that are not finite,
        which JSON does not have, become None.

    Returns
    -------
    Results
        A dict of plain values.

    Raises
    ------
    ValueError
        If two results would have the same name.
    TypeError
        If a value is none of the above.

    Examples
    --------
    >>> from akpca.book.rerun import emit_results
    >>> dict(emit_results(error={"PCA": 0.25, "kernel PCA": 0.2}, sizes=(5, 10)))
    {'error_pca': 0.25, 'error_kernel_pca': 0.2, 'sizes': [5, 10]}
    """
    found = Results()
    for name, value in _flat(values):
        if name in found:
            raise ValueError(f"two results are named {name!r}")
        found[name] = _plain(name, value)
    return found


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield names and values, with the entries of mappings in the place of the mappings."""
    for key, value in values.items():
        name = prefix + (_slug(str(key)) if prefix else key)
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}_")
        else:
            yield name, value


def _slug(text: str) -> str:
    """Return a text as the end of a name: "KHA/et*" is kha_et_star, not the kha_et of "KHA/et"."""
    text = text.lower().replace("*", " star").replace("'", "")
    return re.sub(r"[^0-9a-z]+", "_", text).strip("_")


def _plain(name: str, value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(name, part) for part in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    raise TypeError(
        f"{name} is a {type(value).__name__}; results are numbers, strings, lists and mappings"
    )


def versions() -> dict[str, str]:
    """Return the versions of what results depend on: Python, akpca, NumPy and so on."""
    package = sys.modules[__name__.partition(".")[0]]
    libraries = threadpoolctl.threadpool_info()
    blas = {f"{lib['internal_api']} {lib['version']}" for lib in libraries if _is_blas(lib)}
    return {
        "Python": platform.python_version(),
        "akpca": package.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "BLAS": " and ".join(sorted(blas)) or "unknown",
    }


def _is_blas(library: Mapping[str, Any]) -> bool:
    return library["user_api"] == "blas"


def emitted_results(notebook: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the cell tagged ``results`` of a notebook has emitted, or None if nothing."""
    cell = tagged_cell(notebook, TAG) or {}
    for output in cell.get("outputs", []):
        value = output.get("data", {}).get(JSON)
        if isinstance(value, dict):
            return value
    return None


def run_of(path: Path) -> dict[str, Any] | None:
    """Return chapter, parameters and results of an executed notebook, or None without results."""
    notebook = read_notebook(path)
    found = emitted_results(notebook)
    if found is None:
        return None
    values = {name: p.default for name, p in declared_parameters(notebook).items()}
    record = notebook.get("metadata", {}).get("papermill", {})
    values |= record.get("parameters", {})
    # The name of an output says which run it is, the input which chapter.
    chapter = Path(record.get("input_path") or path).stem
    renamed = {f"result_{name}" if name in values else name: v for name, v in found.items()}
    return {"chapter": chapter, **values, **renamed}


def results(folder: str | Path) -> pd.DataFrame:
    """Read the results of all notebooks in a folder, and in the folders below it.

    Parameters
    ----------
    folder : str or Path
        Where the executed notebooks are; the path of a single one will do as well.

    Returns
    -------
    pandas.DataFrame
        A row for each run, whose index is the path within the folder: the chapter, its parameters
        (defaults included) and its results. A result with the name of a parameter has
        ``result_`` before its own. Notebooks without results, such as those that failed, are left
        out, as are files that are no notebooks, with a warning.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    ImportError
        If pandas is not installed.
    """
    folder = Path(folder)
    if not folder.exists():
        raise FileNotFoundError(f"folder={str(folder)!r} does not exist")
    root = folder if folder.is_dir() else folder.parent
    paths = sorted(folder.rglob("*.ipynb")) if folder.is_dir() else [folder]
    names = [path.relative_to(root).as_posix() for path in paths]
    runs = {}
    for name in names:
        if re.search(r"(^|/)\.", name):  # an editor's checkpoints, and runs that are under way
            continue
        try:
            runs[name] = run_of(root / name)
        except ValueError as error:  # a full disk leaves files that are empty
            if folder != root:
                raise
            warn_user(f"left out: {error}", UserWarning)
    return to_frame({name: run for name, run in runs.items() if run is not None})


def to_frame(rows: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Return runs by the names of their notebooks as a data frame."""
    try:
        import pandas as pd
    except ImportError as error:
        message = 'results() needs pandas, which is not installed: pip install "akpca[notebooks]"'
        raise ImportError(message) from error
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    index = pd.Index(list(rows), name="notebook", dtype=object)
    return pd.DataFrame(list(rows.values()), index=index, columns=columns or ["chapter"])
