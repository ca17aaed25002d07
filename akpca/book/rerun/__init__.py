"""Chapters run again: with other parameters, many times, and what comes out as one table.

- `notebooks`: where chapters are, their cells by tag, and the parameters that they declare
- `values`: values from the command line, checked before anything runs
- `running`: one run by papermill, whole or not at all
- `sweeping`: all combinations of some parameters, on this machine or on a dask cluster
- `results`: the numbers that a notebook hands out, and those of many runs as a data frame
- `figure`: the results of a sweep as a figure

The commands are in `command`. Papermill, pandas and matplotlib are imported when needed.
"""

from .notebooks import Parameter, declared_parameters, read_notebook
from .results import Results, emit_results, results, versions

__all__ = [
    "Parameter",
    "Results",
    "declared_parameters",
    "emit_results",
    "read_notebook",
    "results",
    "versions",
]
