"""Progress of long fits: one callback protocol and one warning for all estimators.

A callback is called with one `FitProgress` after every pass over the data. If it returns a true
value, the fit ends there and keeps what it has. An interrupt does the same, with a warning.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from sklearn.exceptions import ConvergenceWarning

__all__ = ["FitProgress", "warn_interrupted"]


@dataclass(frozen=True)
class FitProgress:
    """State of a fit after a pass over the data.

    Attributes
    ----------
    n_iter : int
        Passes over the data so far.
    n_iter_max : int
        Passes that were asked for.
    loss : float or None
        What the fit minimises, where it is known without further work.
    model : object
        What has been learned so far; for estimators the estimator itself.
    """

    n_iter: int
    n_iter_max: int
    loss: float | None
    model: Any


def warn_interrupted(when: str, stacklevel: int = 3) -> None:
    """Warn that the user has ended a fit, whose best model so far is kept."""
    warnings.warn(
        f"interrupted {when}: the best model so far is kept", ConvergenceWarning, stacklevel
    )
