"""A decoder in closed form, and the search for the codes that it rebuilds best.

The decoder is a ridge regression from codes to samples,

    g(y) = W^T (kappa(y, c_1), ..., kappa(y, c_p), y, 1)
    kappa(y, c) = 1 / (1 + gamma ||y - c||^2),

with some of the codes as centres c_l. The code of a sample z is the y that makes ||g(y) - z||^2
least, found by gradient steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg
from sklearn.utils import gen_batches

from ..threads import one_blas_thread, run_in_threads

__all__ = [
    "FIT_ROWS",
    "LEAST_RIDGE",
    "SEARCH_ROWS",
    "Regression",
    "RidgeDecoder",
    "nearest",
    "solve",
]

# Samples that are searched, and regressed, at a time.
SEARCH_ROWS, FIT_ROWS = 1000, 2000
# Products in the sums of a regression from which on they are worth several threads.
LONG_SUM = 1e11
# Part of the samples' variance by which all regressions are kept from being singular.
LEAST_RIDGE = 1e-6
# gamma k^2 for codes of variance 1: 20 or 10 are best for 2, 10 and 20 components of MNIST and
# USPS; 80 or 1 leave .02 to .05 more of PCA's error.
GAMMA = 20.0


@dataclass(frozen=True, eq=False)
class RidgeDecoder:
    """g(y) = W^T phi(y), where codes have variance 1 and do not correlate.

    Of the `weights`, (p + k + 1, D), the first p belong to the `centers`, (p, k), whose kernel
    values are taken relative to `level`, (p,), their mean.
    """

    centers: np.ndarray
    gamma: float
    level: np.ndarray
    weights: np.ndarray

    @classmethod
    def fit(cls, Y: np.ndarray, Z: np.ndarray, n_centers: int, ridge: float, rng) -> RidgeDecoder:
        """Return the regression of samples Z, shape (n, D), on codes, shape (n, k)."""
        n, k = Y.shape
        # without weights for them, there is no need of centres
        p = min(n_centers, n) if np.isfinite(ridge) else 0
        centers = Y[rng.permutation(n)[:p]]
        regression = Regression(centers, GAMMA / k**2, Y[:SEARCH_ROWS], Z.shape[1])
        # other threads would wait while kernel values are computed, but for sums that take seconds
        with one_blas_thread(flops=regression.flops(n)):
            for rows in gen_batches(n, FIT_ROWS):
                regression.add(Y[rows], Z[rows])
        return regression.solved(ridge)

    def features(self, Y: np.ndarray) -> np.ndarray:
        """Return phi(y), shape (n, p + k + 1)."""
        (n, k), p = Y.shape, len(self.centers)
        F = np.empty((n, p + k + 1), Y.dtype)
        F[:, :p] = self._kernel(Y)
        F[:, :p] -= self.level
        F[:, p:-1] = Y
        F[:, -1] = 1
        return F

    def _kernel(self, Y):
        gamma, C = Y.dtype.type(self.gamma), self.centers
        K = Y @ (-2 * gamma * C.T)
        K += gamma * np.sum(Y * Y, axis=1, keepdims=True)
        K += 1 + gamma * np.sum(C * C, axis=1)
        np.maximum(K, 1, out=K)  # which rounding can make smaller
        return np.divide(1, K, out=K)

    def decode(self, Y: np.ndarray) -> np.ndarray:
        """Return g(y), shape (n, D)."""
        return self.features(Y) @ self.weights

    def gradients(self, Y: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ||g(y) - z||^2, shape (n,), and its gradient by y, shape (n, k)."""
        p, W = len(self.centers), self.weights
        F = self.features(Y)
        R = F @ W - Z
        S = R @ W.T
        # d kappa / dy = -2 gamma kappa^2 (y - c)
        K, pulls = F[:, :p], S[:, :p]
        K += self.level
        pulls *= K
        pulls *= K
        moved = np.sum(pulls, axis=1, keepdims=True) * Y - pulls @ self.centers
        return np.sum(R * R, axis=1), 2 * (S[:, p:-1] - 2 * Y.dtype.type(self.gamma) * moved)

    def slopes(self, Y: np.ndarray) -> np.ndarray:
        """Return the mean squared length of dg/dy_j for each j, shape (k,)."""
        (_, k), p, W = Y.shape, len(self.centers), self.weights
        squares = -2 * Y.dtype.type(self.gamma) * self._kernel(Y) ** 2
        lengths = np.empty(k, Y.dtype)
        with one_blas_thread():
            for j in range(k):
                J = (squares * (Y[:, j, None] - self.centers[:, j])) @ W[:p] + W[p + j]
                lengths[j] = np.sum(J * J) / len(Y)
        return lengths

    def search(
        self, Y: np.ndarray, Z: np.ndarray, steps: int, slopes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return codes with a smaller error than Y, after some gradient steps, and their errors.

        Every sample has a step of its own (Barzilai and Borwein, 1988), and takes it back where the
        error grows. The unit of steps along y_j is Newton's for the mean slope.
        """
        found, errors = np.empty_like(Y), np.empty(len(Y), Y.dtype)
        unit = 0.5 / np.maximum(slopes, max(LEAST_RIDGE * slopes.max(), np.finfo(Y.dtype).tiny))

        def search(rows):
            y, z = Y[rows], Z[rows]
            least, G = self.gradients(y, z)
            lengths = np.full((len(y), 1), 0.5, y.dtype)
            for _ in range(steps):
                tried = y - lengths * unit * G
                new, new_G = self.gradients(tried, z)
                moved, bent = tried - y, new_G - G
                curvature = np.sum(moved * bent, axis=1, keepdims=True)
                square = np.sum(moved * moved / unit, axis=1, keepdims=True)
                longer = 4 * np.maximum(lengths, y.dtype.type(0.1))
                ideal = np.divide(square, curvature, out=longer.copy(), where=curvature > 0)
                better = (new < least)[:, None]
                lengths = np.where(better, np.minimum(ideal, longer), lengths * y.dtype.type(0.3))
                y, G = np.where(better, tried, y), np.where(better, new_G, G)
                least = np.where(better[:, 0], new, least)
            found[rows], errors[rows] = y, least

        flops = 4.0 * steps * len(Y) * self.weights.size
        run_in_threads(search, list(gen_batches(len(Y), SEARCH_ROWS)), flops)
        return found, errors


class Regression:
    """Sums over samples that a `RidgeDecoder` to `n_outputs` numbers is made of.

    The mean of kernel values is that of `some` codes, shape (n, k).
    """

    def __init__(self, centers: np.ndarray, gamma: float, some: np.ndarray, n_outputs: int):
        (p, k), dtype = centers.shape, centers.dtype
        size = p + k + 1
        empty = RidgeDecoder(centers, gamma, np.zeros(p, dtype), np.zeros((size, 0), dtype))
        self.decoder = replace(empty, level=empty.features(some)[:, :p].mean(axis=0))
        self.gram, self.moments = np.zeros((size, size)), np.zeros((size, n_outputs))
        self.n_samples = 0

    def flops(self, n: int) -> float:
        """Return 0 if sums over n samples take too short a time for several threads, else inf."""
        return 0.0 if n * len(self.gram) ** 2 < LONG_SUM else np.inf

    def add(self, Y: np.ndarray, Z: np.ndarray) -> None:
        """Add some codes, shape (n, k), and what they are to be decoded to."""
        F = self.decoder.features(Y)
        self.gram += F.T @ F
        self.moments += F.T @ Z
        self.n_samples += len(Y)

    def solved(self, ridge: float) -> RidgeDecoder:
        """Return the regression; a centre's penalty is `ridge` times the p summed variances."""
        n, p, dtype = self.n_samples, len(self.decoder.centers), self.decoder.centers.dtype
        penalties = np.full(len(self.gram), n * LEAST_RIDGE)
        if p:
            penalties[:p] = ridge * np.trace(self.gram[:p, :p]) / n
        weights = solve(self.gram, self.moments, penalties)
        return replace(self.decoder, weights=weights.astype(dtype))


def nearest(points: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Return the index of the point, of shape (p, D), that is nearest to each sample, (n,)."""
    return np.argmin(np.sum(points**2, axis=1) / 2 - Z @ points.T, axis=1)


def solve(gram: np.ndarray, moments: np.ndarray, penalties: np.ndarray) -> np.ndarray:
    """Return (gram + penalties)^-1 moments; larger penalties if the sum is singular by rounding."""
    diagonal = gram.diagonal().copy()
    while True:
        # in place, as a gram matrix of all centres is large
        np.fill_diagonal(gram, diagonal + penalties)
        try:
            with one_blas_thread(flops=float(len(gram)) ** 3 / 30):
                return linalg.cho_solve(linalg.cho_factor(gram), moments)
        except linalg.LinAlgError:
            # sums in single precision may have rounded small eigenvalues to below 0
            least = np.finfo(gram.dtype).eps * np.trace(gram) / len(gram)
            penalties = np.maximum(10 * penalties, least)
        finally:
            np.fill_diagonal(gram, diagonal)
