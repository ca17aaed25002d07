"""What noisy samples were before the noise, as far as that can be told.

Whatever encoder f and decoder g are, with x^ = E[x | x~] the mean of clean samples x that may have
become a noisy one, x~,

    E ||g(f(x~)) - x||^2 = E ||x^ - x||^2 + E ||g(f(x~)) - x^||^2,

so that the best autoencoder of noisy samples cleans them first, and is then the best one of what
has been cleaned. The mean x^ is a regression from noisy to clean samples: a linear one (Wiener's
filter), then ridge regressions in the kernel of :mod:`.ridge`, each from what the last one made of
samples, with new noise: it would else trust in what that one has learned by heart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.utils import gen_batches

from ..pca import principal_axes
from ..threads import one_blas_thread
from .ridge import FIT_ROWS, SEARCH_ROWS, Regression, RidgeDecoder, solve

__all__ = ["Cleaner"]

# Returns noisy samples for clean ones.
Noise = Callable[[np.ndarray], np.ndarray]

# Regressions in kernel values: on MNIST with noise, one leaves an error of .0447 and two .0422.
N_CLEANINGS = 2
# Noisy samples of each regression, at least, but not more than so many copies of each sample.
NOISY_SAMPLES, NOISY_COPIES = 50_000, 20
# Cleaned samples, and copies of each, that decoder and codes are learned from, at most.
CLEANED_SAMPLES, CLEANED_COPIES = 15_000, 5
# Centres, at most, and axes on which regressions work; others are taken to be lost.
CLEANING_CENTERS, CLEANED_AXES = 2000, 200
# Samples that choose the ridges, at most, and the penalty of the linear regression, in units of the
# mean variance of an axis.
HELD_OUT, FILTER_RIDGE = 500, 1e-4
RIDGES = (3e-3, 0.05, 1.0, 20.0)


@dataclass(frozen=True, eq=False)
class Cleaner:
    """Regressions from noisy to clean samples along `axes`, (D, r), one after another.

    The first is linear, `filter`, (r + 1, r), with a constant as last row; `steps` are the others.
    """

    axes: np.ndarray
    filter: np.ndarray
    steps: tuple[RidgeDecoder, ...] = ()

    @classmethod
    def learn(
        cls, Z: np.ndarray, noise: Noise, k: int, n_centers: int, rng: np.random.RandomState
    ) -> Cleaner:
        """Return the regressions for normalised samples, shape (n, D), and codes of size k."""
        n, n_axes = len(Z), min(max(CLEANED_AXES, 4 * k), Z.shape[1])
        with one_blas_thread():
            axes = principal_axes(Z, n_axes, random_state=0)[0].astype(Z.dtype)
        order = rng.permutation(n)
        held_out = min(n // 10, HELD_OUT)
        # held out of all steps: what one of them has learned by heart, the next would trust in
        train, test = Z[order[held_out:]], Z[order[:held_out]]
        gram = moments = 0.0
        with one_blas_thread():
            for noisy, clean in _copies(train, noise, axes):
                N = _inputs(noisy, axes)
                gram, moments = gram + (N.T @ N).astype(np.float64), moments + N.T @ clean
        penalty = FILTER_RIDGE * np.trace(gram) / len(gram)
        linear = solve(gram, moments, np.full(len(gram), penalty)).astype(Z.dtype)
        cleaner = cls(axes, linear)
        for _ in range(N_CLEANINGS):
            step = cleaner._next_step(train, test, noise, min(n_centers, CLEANING_CENTERS), rng)
            cleaner = cls(axes, cleaner.filter, (*cleaner.steps, step))
        return cleaner

    def clean(self, Z: np.ndarray) -> np.ndarray:
        """Return cleaned samples, shape (n, D)."""
        with one_blas_thread():
            blocks = [self._along(Z[rows]) for rows in gen_batches(len(Z), SEARCH_ROWS)]
            return np.concatenate(blocks) @ self.axes.T

    def cleaned_copies(self, Z: np.ndarray, noise: Noise) -> np.ndarray:
        """Return what is made of noisy copies of all samples, shape (copies n, D)."""
        copies = min(-(-CLEANED_SAMPLES // len(Z)), CLEANED_COPIES)
        rows = list(gen_batches(len(Z), FIT_ROWS))
        return np.concatenate([self.clean(noise(Z[r])) for _ in range(copies) for r in rows])

    def _along(self, Z):
        """Return cleaned samples along the axes, shape (n, r)."""
        T = _inputs(Z, self.axes) @ self.filter
        for step in self.steps:
            T = step.decode(T)
        return T

    def _next_step(self, Z, held_out, noise, n_centers, rng):
        """Return the regression that comes next, with the ridge that suits samples held out."""
        n, axes = len(Z), self.axes
        some = self._along(noise(Z[:SEARCH_ROWS]))
        centers = self._along(noise(Z[rng.permutation(n)[:n_centers]]))
        size = float(np.mean(np.sum(some * some, axis=1)))
        regression = Regression(centers, 1 / (size or 1.0), some, some.shape[1])
        with one_blas_thread(flops=regression.flops(n)):
            for noisy, clean in _copies(Z, noise, axes):
                regression.add(self._along(noisy), clean)
            others = [(self._along(N), T) for N, T in _copies(held_out, noise, axes)]
        if not others:  # few samples, which regressions can't be compared on
            return regression.solved(RIDGES[-1])
        best, least = None, np.inf
        for ridge in RIDGES:  # from the least on, while they help
            decoder = regression.solved(ridge)
            with one_blas_thread():
                error = sum(float(np.sum((decoder.decode(T) - C) ** 2)) for T, C in others)
            if error > least:
                break
            best, least = decoder, error
        return best


def _copies(Z, noise, axes) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield blocks of noisy samples, and the clean ones along the axes."""
    n = len(Z)
    copies = min(-(-NOISY_SAMPLES // max(n, 1)), NOISY_COPIES)
    for start in range(0, copies * n, FIT_ROWS):
        block = Z[np.arange(start, min(start + FIT_ROWS, copies * n)) % n]
        yield noise(block), block @ axes


def _inputs(Z, axes):
    """Return samples along the axes, and a constant."""
    return np.hstack([Z @ axes, np.ones((len(Z), 1), Z.dtype)])
