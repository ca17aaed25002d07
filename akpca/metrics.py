"""How far a reconstruction is from its original.

Samples may have any real dtype. They are compared in float64, `BLOCK_VALUES` values at a time, so
that images of bytes do not overflow. Peak memory: 3 * 8 * BLOCK_VALUES + 8 n bytes.
"""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_array, gen_batches

# Values compared at a time: 8 MB in float64.
BLOCK_VALUES = 2**20

__all__ = ["reconstruction_error", "relative_error"]


def reconstruction_error(X, X_hat) -> float:
    """Return the mean squared distance, (1/n) sum_i ||x_i - x-hat_i||^2.

    Parameters
    ----------
    X, X_hat : array-like of shape (n, d)
    """
    return _mean_square(*_check_pair(X, X_hat))


def relative_error(X, X_hat) -> float:
    """Return the reconstruction error divided by the mean of ||x_i||^2.

    Comparable between data sets of different scale: 0 is perfect, 1 is as good as answering 0.

    Parameters
    ----------
    X, X_hat : array-like of shape (n, d)
    """
    X, X_hat = _check_pair(X, X_hat)
    norm = _mean_square(X, None)
    if norm == 0:
        raise ValueError("X is all zero: the relative error is not defined")
    return _mean_square(X, X_hat) / norm


def _check_pair(X, X_hat) -> tuple[np.ndarray, np.ndarray]:
    X, X_hat = check_array(X, input_name="X"), check_array(X_hat, input_name="X_hat")
    if X.shape != X_hat.shape:
        raise ValueError(f"X and X_hat must have the same shape, got {X.shape} and {X_hat.shape}")
    return X, X_hat


def _mean_square(X, X_hat) -> float:
    """Return the mean of ||x_i - x-hat_i||^2, finite; X_hat=None means 0."""
    squares = np.empty(len(X))
    with np.errstate(over="ignore"):
        for rows in gen_batches(len(X), max(1, BLOCK_VALUES // X.shape[1])):
            rest = X[rows].astype(np.float64)
            if X_hat is not None:
                rest -= X_hat[rows]
            squares[rows] = np.sum(np.square(rest, out=rest), axis=1)
        mean = float(np.mean(squares))
    if not np.isfinite(mean):
        raise ValueError("X and X_hat are too large, or too far apart, for float64: scale them")
    return mean
