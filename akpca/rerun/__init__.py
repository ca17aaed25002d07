"""Chapters run again: with other parameters, many times, and what comes out as one table.

- `notebooks`: cells by tag, and the parameters that a notebook declares
- `results`: the numbers that a notebook hands out, and those of many runs as a data frame
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
