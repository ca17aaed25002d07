"""Samples in the units and along the axes in which a fit works, and the estimators' base class.

Samples are centred (with an offset), divided by their root mean squared norm, so that no step size
depends on their scale, and turned to their principal axes. That changes neither codes nor errors,
but lets Adam take smaller steps along axes of little variance, which fits held-out samples better.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real

import numpy as np
from sklearn.utils import gen_batches
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_is_fitted, validate_data

from ..fitting import FLOATS, Encoder, Interval, check_codes
from ..kernels import BLOCK_ROWS
from ..pca import principal_axes

__all__ = ["SAMPLES", "Coder", "Coordinates"]

# Samples up to which the arithmetic of a fit is in double precision: the fewer there are, the more
# passes, and the more rounding errors grow. For 80 digits of 8x8, codes would change by up to 20 %.
DOUBLE_SAMPLES = 1000
# How samples are checked; sums over them in another order would round differently.
SAMPLES = {"dtype": FLOATS, "order": "C"}


class Coder(Encoder):
    """Base class of the estimators of this room: what `transform` and `inverse_transform` share.

    Each has `_encode` and `_decode`, between samples and codes in the units of X, and
    `_n_features_out`.
    """

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's convention)
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "noise": [Interval(Real, 0, None, closed="left"), callable, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "callback": [callable, None],
    }

    def transform(self, X) -> np.ndarray:
        """Return the codes f(x) of the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_new, n_features)

        Returns
        -------
        X_new : ndarray of shape (n_new, n_components)
        """
        check_is_fitted(self)
        return self._finite(self._encode, validate_data(self, X, reset=False, **SAMPLES))

    def inverse_transform(self, X) -> np.ndarray:
        """Return the samples g(y) of some codes.

        Parameters
        ----------
        X : array-like of shape (n_new, n_components)

        Returns
        -------
        X_original : ndarray of shape (n_new, n_features)
        """
        check_is_fitted(self)
        Y = check_codes(X, self._n_features_out, order="C", estimator=self)
        return self._finite(self._decode, Y)

    def score_samples(self, X) -> np.ndarray:
        """Return minus the squared error of each sample, (n_new,); the lower, the more abnormal."""

        def score(X):
            rest = X - self._decode(self._finite(self._encode, X))
            return -row_norms(rest, squared=True)

        check_is_fitted(self)
        return self._finite(score, validate_data(self, X, reset=False, **SAMPLES))

    def _finite(self, method, X):
        """Return what a method makes of X in its precision; refuse X if that can't hold it."""
        with np.errstate(all="ignore"):
            result = method(X).astype(X.dtype, copy=False)
        if not np.isfinite(result).all():
            raise ValueError(
                f"X has entries of up to {np.abs(X).max():.3g}, and what is made of them exceeds "
                f"what {X.dtype} can hold: scale X down, here and in fit, or give it in float64"
            )
        return result


@dataclass(frozen=True, eq=False)
class Coordinates:
    """z = (axes^T (x - mean) / scale, constant / scale).

    The mean (d,) has the precision of the samples, and `scale` is the root mean squared norm of the
    centred samples. Without an offset, mean and `constant` are 0, and there is no last coordinate.
    Along the orthonormal axes (d, r), or features if None, samples have the `variances` (r,).
    """

    mean: np.ndarray
    scale: float
    constant: float = 0.0
    axes: np.ndarray | None = None
    variances: np.ndarray | None = None

    @classmethod
    def measured(
        cls, X: np.ndarray, *, offset: bool, turn: bool = False
    ) -> tuple[Coordinates, np.ndarray]:
        """Return the coordinates for a fit, along principal axes with `turn`, and X in them."""
        dtype = np.dtype(np.float64 if len(X) <= DOUBLE_SAMPLES else np.float32)
        total = 0.0
        with np.errstate(over="ignore"):
            mean = X.mean(axis=0, dtype=np.float64) if offset else np.zeros(X.shape[1])
            for rows in gen_batches(len(X), 1000):
                total += float(np.sum((X[rows] - mean) ** 2))
        scale, limits = float(np.sqrt(total / len(X))), np.finfo(X.dtype)
        if not scale**2 < float(limits.max):
            raise ValueError(f"X is too large: {X.dtype} can't hold the squares of its entries")
        # what rounding leaves of samples that do not vary is no scale, or it is large
        if scale <= 4 * np.sqrt(X.shape[1]) * float(limits.eps) * np.abs(mean).max():
            scale = max(1.0, scale)
        # a square that vanishes in the precision of the samples is no scale either
        scale = scale if scale**2 > float(limits.tiny) else 1.0
        found = cls(mean.astype(X.dtype), scale)
        if turn:
            axes, variances = principal_axes(found.forward(X, dtype))
            if len(variances):
                found = replace(found, axes=axes, variances=variances)
        found = replace(found, constant=scale) if offset else found
        return found, found.forward(X, dtype)

    def forward(self, X: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Return normalised samples, shape (n, r), or one more column with a constant."""
        axes = None if self.axes is None else self.axes.astype(dtype)
        size = X.shape[1] if axes is None else axes.shape[1]
        Z = np.empty((len(X), size + bool(self.constant)), dtype)
        for rows in gen_batches(len(X), BLOCK_ROWS):
            # in the precision of X, to avoid cancellation where the mean is large
            block = ((X[rows] - self.mean) / self.scale).astype(dtype, copy=False)
            Z[rows, :size] = block if axes is None else block @ axes
        Z[:, size:] = self.constant / self.scale
        return Z

    def backward(self, Z: np.ndarray, dtype: np.dtype | None = None) -> np.ndarray:
        """Return samples in the units of X; `dtype` is that of the mean, by default that of X."""
        if self.axes is None:
            Z = Z[:, : len(self.mean)]
        else:
            Z = Z[:, : self.axes.shape[1]] @ self.axes.T.astype(Z.dtype)
        return Z * self.scale + (self.mean if dtype is None else self.mean.astype(dtype))

    def corrupted(
        self, Z: np.ndarray, noise: float | Callable | None, rng: np.random.RandomState
    ) -> np.ndarray:
        """Return normalised samples with noise, which is in the units of X: see `AKPCA`."""
        if not noise:
            return Z
        X = self.backward(Z)
        if not callable(noise):
            if noise > 1e9 * self.scale:  # whose squares overflow in single precision
                raise ValueError(f"noise={noise} is too large for X of scale {self.scale:.3g}")
            return self.forward(X + noise * rng.standard_normal(X.shape), Z.dtype)
        shape, X = X.shape, np.asarray(noise(X, rng))
        if X.shape != shape or not np.isfinite(X).all():
            raise ValueError(f"noise must return finite samples of the shape it gets, {shape}")
        return self.forward(X, Z.dtype)

    def matrices(self, T: np.ndarray) -> np.ndarray:
        """Return matrices, shape (k, D, D), in coordinates of the features."""
        if self.axes is None:
            return T
        (d, r), offset = self.axes.shape, bool(self.constant)
        turn = np.zeros((d + offset, r + offset), T.dtype)
        turn[:d, :r] = self.axes
        turn[d:, r:] = 1
        T = turn @ T @ turn.T
        return (T + T.transpose(0, 2, 1)) / 2
