"""Samples in the units and along the axes in which the descent goes on.

Samples are centred (with an offset), divided by their root mean squared norm, so that no step size
depends on their scale, and turned to their principal axes. That changes neither codes nor errors,
but lets Adam take smaller steps along axes of little variance, which fits held-out samples better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.utils import gen_batches

from ..kernels import BLOCK_ROWS

__all__ = ["Coordinates"]


@dataclass(frozen=True, eq=False)
class Coordinates:
    """z = (axes^T (x - mean) / scale, constant / scale).

    The mean (d,) has the precision of the samples, and `scale` is the root mean squared norm of the
    samples after centring. Without an offset, mean and `constant` are 0, and there is no last
    coordinate. Axes (d, r) have orthonormal columns, and variances (r,) are the mean squares of
    normalised samples along them; None are the features themselves.
    """

    mean: np.ndarray
    scale: float
    constant: float = 0.0
    axes: np.ndarray | None = None
    variances: np.ndarray | None = None

    @classmethod
    def measured(cls, X: np.ndarray, *, offset: bool) -> Coordinates:
        """Return the mean and the scale of samples, without a constant and along the features."""
        mean = X.mean(axis=0, dtype=np.float64) if offset else np.zeros(X.shape[1])
        info = np.finfo(X.dtype)
        total = 0.0
        with np.errstate(over="ignore", under="ignore"):
            spread = float(np.ptp(X, axis=0).max() if offset else X.max())
            for rows in gen_batches(len(X), 1000):
                total += float(np.sum((X[rows] - mean) ** 2))
        scale = float(np.sqrt(total / len(X)))
        if spread <= 4 * info.eps * np.abs(mean).max():
            # what rounding leaves of constant samples is no scale
            scale = max(1.0, 4 * float(info.eps * np.abs(mean).max()))
        low, high = 100 * float(info.tiny) ** 0.5, float(info.max) ** 0.5 / 100
        if not low < scale < high:
            size, way = ("small", "up") if scale <= low else ("large", "down")
            raise ValueError(
                f"X is too {size}: codes or errors are squares of its entries, which {X.dtype} "
                f"can't hold; scale it {way}"
            )
        return cls(mean.astype(X.dtype), scale)

    @property
    def n_axes(self) -> int:
        """Coordinates without the constant."""
        return len(self.mean) if self.axes is None else self.axes.shape[1]

    def forward(self, X: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Return normalised samples, shape (n, n_axes), or one more with a constant."""
        size = self.n_axes
        axes = None if self.axes is None else self.axes.astype(dtype)
        Z = np.empty((len(X), size + bool(self.constant)), dtype)
        for rows in gen_batches(len(X), BLOCK_ROWS):
            # in the precision of X, to avoid cancellation where the mean is large
            block = ((X[rows] - self.mean) / self.scale).astype(dtype, copy=False)
            Z[rows, :size] = block if axes is None else block @ axes
        Z[:, size:] = self.constant / self.scale
        return Z

    def backward(self, Z: np.ndarray, dtype: np.dtype | None = None) -> np.ndarray:
        """Return samples in the units of X; `dtype` is that of the mean, by default that of X."""
        Z = Z[:, : self.n_axes]
        if self.axes is not None:
            Z = Z @ self.axes.T.astype(Z.dtype)
        return Z * self.scale + (self.mean if dtype is None else self.mean.astype(dtype))

    def corrupted(self, Z: np.ndarray, rng: np.random.RandomState, noise, level: float):
        """Return normalised samples with noise that is given in the units of X.

        The level is a standard deviation ('gaussian') or the probability that an entry is set to 0
        ('speckle'); a callable gets samples in the units of X and `rng`.
        """
        X = self.backward(Z)
        if noise == "gaussian":
            X += level * rng.standard_normal(X.shape)
        elif noise == "speckle":
            X[rng.random_sample(X.shape) < level] = 0
        else:
            shape, X = X.shape, np.asarray(noise(X, rng))
            if X.shape != shape or not np.isfinite(X).all():
                raise ValueError(
                    f"noise must return finite samples of the shape it gets, {shape}; it returned "
                    f"{'others' if X.shape == shape else X.shape}"
                )
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
