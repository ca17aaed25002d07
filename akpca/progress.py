"""Progress of long fits: one callback protocol and one warning for all estimators.

A callback is called with one `FitProgress` after every pass over the data. If it returns a true
value, the fit ends there and keeps what it has. An interrupt does the same, with a warning.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from typing import Any

from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

__all__ = ["FitProgress", "progress_bar", "warn_interrupted", "warn_user"]


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


def warn_user(text: str, category: type[Warning] = ConvergenceWarning) -> None:
    """Warn with the line of the first caller outside of this package and of scikit-learn.

    A fixed stack level would depend on decorators, pipelines and `fit_transform` in between.
    """
    level, frame = 2, sys._getframe(1)
    rooms = (__name__.partition(".")[0], "sklearn")
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in rooms:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


def warn_interrupted(when: str) -> None:
    """Warn that the user has ended a fit, whose best model so far is kept."""
    warn_user(f"interrupted {when}: the best model so far is kept")


def progress_bar(iterable=None, *, shown: bool, **options) -> Any:
    """Return tqdm's progress bar, with its options, which does nothing if it is not shown."""
    return tqdm(iterable, disable=not shown, **options)
