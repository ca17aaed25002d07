"""How far a reconstruction is from its original."""

from __future__ import annotations

import numpy as np

__all__ = ["reconstruction_error", "relative_error"]


def reconstruction_error(X, X_hat) -> float:
    """Return the mean squared distance, (1/n) sum_i ||x_i - x-hat_i||^2.

    Parameters
    ----------
    X, X_hat : array-like of shape (n, d)
    """
    X, X_hat = np.asarray(X), np.asarray(X_hat)
    if X.shape != X_hat.shape:
        raise ValueError(f"X and X_hat must have the same shape, got {X.shape} and {X_hat.shape}")
    return float(np.mean(np.sum((X - X_hat) ** 2, axis=1, dtype=np.float64)))


def relative_error(X, X_hat) -> float:
    """Return the reconstruction error divided by the mean of ||x_i||^2.

    Comparable between data sets of different scale: 0 is perfect, 1 is as good as answering 0.
    """
    size = reconstruction_error(X, np.zeros_like(X))
    if size == 0:
        raise ValueError("X is all zero: the relative error is not defined")
    return reconstruction_error(X, X_hat) / size
