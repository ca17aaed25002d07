"""What is installed, which data are there and what is missing, in words."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import threadpoolctl

from akpca.datasets import dataset_files, dataset_names
from akpca.rerun.notebooks import chapters

__all__ = ["PACKAGES", "diagnosis"]

#: Extra -> the packages that it brings; "" has those without which nothing works.
PACKAGES = {
    "": ("numpy", "scipy", "scikit-learn", "threadpoolctl", "tqdm"),
    "fast": ("numba",),
    "notebooks": (
        *("ipykernel", "jupyterlab", "matplotlib", "mlxtend", "nbformat"),
        *("pandas", "papermill", "pillow"),
    ),
    "distributed": ("dask", "distributed"),
}
PURPOSE = {
    "": "always needed",
    "fast": "compiled Hebbian steps",
    "notebooks": "chapters, run and sweep",
    "distributed": "dask clusters",
}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def diagnosis() -> tuple[list[str], bool]:
    """Return the lines of the report, and whether chapters can be run here."""
    lines = [f"Python {platform.python_version()}: {sys.executable}", *_places(), ""]
    ready = True
    for extra, names in PACKAGES.items():
        found = {name: _version(name) for name in names}
        there = ", ".join(f"{name} {version}" for name, version in found.items() if version)
        lines.append(f"Packages, {PURPOSE[extra]}: {there or 'none'}")
        if missing := [name for name, version in found.items() if not version]:
            what = f'"akpca[{extra}]"' if extra else " ".join(missing)
            lines.append(f"  missing: {', '.join(missing)}; pip install {what}")
            ready = ready and extra not in ("", "notebooks")
    return [*lines, "", *_blas(), "", *_data()], ready


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _places() -> Iterator[str]:
    package = sys.modules[__name__.partition(".")[0]]
    yield f"akpca {package.__version__}: {Path(__file__).resolve().parents[1]}"
    try:
        paths = chapters()
        yield f"Chapters: {len(paths)} in {paths[0].parent}"
    except FileNotFoundError as error:
        yield f"Chapters: {error}."


def _blas() -> Iterator[str]:
    for library in threadpoolctl.threadpool_info():
        if library["user_api"] == "blas":
            name, version = library["internal_api"], library["version"]
            where = Path(library["filepath"]).parent.name
            yield f"BLAS: {name} {version}, {library['num_threads']} threads ({where})"
    set_here = [f"{name}={os.environ[name]}" for name in THREADS if name in os.environ]
    yield f"  of {os.cpu_count()} cores; {', '.join(set_here) or 'limited by no variable'}"


def _data() -> Iterator[str]:
    yield f"Data: AKPCA_DATA is {os.environ.get('AKPCA_DATA') or 'not set'}"
    for name in dataset_names():
        found, text = dataset_files(name)
        yield f"  {name:<11} {'found' if found else 'not found'}: {text}"
