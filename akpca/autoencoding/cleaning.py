"""What noisy samples were before the noise, as far as that can be told.

Whatever encoder f and decoder g are, with x^ = E[x | x~] the mean of clean samples x that may have
become a noisy one, x~,

    E ||g(f(x~)) - x||^2 = E ||x^ - x||^2 + E ||g(f(x~)) - x^||^2,

so that the best autoencoder of noisy samples cleans them first, and is then the best one of what
has been cleaned. The mean x^ is a regression from noisy to clean samples. `Cleaner` does it in
steps: a linear one (Wiener's filter), and ridge regressions in the kernel of :mod:`.ridge`, each
from what the last one made of samples. Noise is drawn anew for each of them, as it would else take
the noise that the one before has learned by heart for part of the samples. What is left of the
noise, and lost of the samples, is for the decoder to mend: it is learned from the codes of cleaned
samples, but aims at clean ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from sklearn.utils import gen_batches

from ..pca import principal_axes
from ..threads import one_blas_thread
from . import heuristics
from .coordinates import Coordinates
from .ridge import FIT_ROWS, SEARCH_ROWS, Regression, RidgeDecoder, along, solve

__all__ = ["Cleaner", "Noise", "cleaned_copies", "cleaned_samples"]

#: Returns noisy samples for normalised ones, both of shape (n, D + 1).
Noise = Callable[[np.ndarray, np.random.RandomState], np.ndarray]


@dataclass(frozen=True, eq=False)
class Cleaner:
    """Regressions, one after another, from noisy to clean samples.

    They work along `axes`, shape (D, r), or the first so many. The first is linear, `filter`, shape
    (r + 1, r), whose last row belongs to the constant coordinate of samples; `steps` are the
    others.
    """

    axes: np.ndarray | int
    filter: np.ndarray
    steps: tuple[RidgeDecoder, ...] = ()

    @classmethod
    def learn(
        cls, Z: np.ndarray, noise: Noise, n_axes: int, *, turned: bool, rng: np.random.RandomState
    ) -> Cleaner:
        """Return the regressions for normalised samples, shape (n, D + 1).

        `turned` tells that their axes are principal axes.
        """
        n = len(Z)
        axes = n_axes = min(n_axes, Z.shape[1] - 1)
        if not turned:
            with one_blas_thread():
                axes = principal_axes(Z[:, :-1], n_axes, random_state=rng)[0].astype(Z.dtype)
        order = rng.permutation(n)
        held_out = min(n // 10, heuristics.CLEANING_HELD_OUT)
        # held out of all steps: what one of them has learned by heart, the next would trust in
        parts = Z[order[held_out:]], Z[order[:held_out]]
        cleaner = cls(axes, _filter(parts[0], noise, axes, rng))
        for _ in range(heuristics.N_CLEANINGS):
            step = _step(cleaner, *parts, noise, rng)
            cleaner = replace(cleaner, steps=(*cleaner.steps, step))
        return cleaner

    def astype(self, dtype: np.dtype) -> Cleaner:
        """Return the regressions in another precision."""
        axes = self.axes if isinstance(self.axes, int) else self.axes.astype(dtype)
        steps = tuple(step.astype(dtype) for step in self.steps)
        return Cleaner(axes, self.filter.astype(dtype), steps)

    def clean(self, Z: np.ndarray) -> np.ndarray:
        """Return cleaned samples, shape (n, D + 1)."""
        cleaned = np.zeros_like(Z)
        cleaned[:, -1] = Z[:, -1]
        with one_blas_thread():
            for rows in gen_batches(len(Z), SEARCH_ROWS):
                T = self.clean_along(Z[rows])
                if isinstance(self.axes, int):
                    cleaned[rows, : self.axes] = T
                else:
                    cleaned[rows, :-1] = T @ self.axes.T
        return cleaned

    def clean_along(self, Z: np.ndarray) -> np.ndarray:
        """Return cleaned samples along the axes, shape (n, r)."""
        T = _inputs(Z, self.axes) @ self.filter
        for step in self.steps:
            T = step.decode(T)
        return T


def cleaned_samples(
    Z: np.ndarray,
    coordinates: Coordinates,
    k: int,
    *,
    noise: str | Callable | None,
    level: float,
    rng: np.random.RandomState,
) -> tuple[Cleaner, np.ndarray] | tuple[None, None]:
    """Return what cleans noisy samples for a code of size k, and `cleaned_copies`.

    The noise is that of `Coordinates.corrupted`; without any, there is neither.
    """
    if noise is None:
        return None, None

    def corrupted(Z, rng):
        return coordinates.corrupted(Z, rng, noise, level)

    n_axes, turned = max(heuristics.CLEANED_AXES, 4 * k), coordinates.axes is not None
    cleaner = Cleaner.learn(Z, corrupted, n_axes, turned=turned, rng=rng)
    return cleaner, cleaned_copies(cleaner, Z, corrupted, rng)


def cleaned_copies(
    cleaner: Cleaner, Z: np.ndarray, noise: Noise, rng: np.random.RandomState
) -> np.ndarray:
    """Return what is made of noisy copies of all samples, shape (copies n, D + 1)."""
    n = len(Z)
    copies = heuristics.n_copies(n, heuristics.CLEANED_SAMPLES, heuristics.CLEANED_COPIES)
    cleaned = np.empty((copies * n, Z.shape[1]), Z.dtype)
    for copy in range(copies):
        for rows in gen_batches(n, FIT_ROWS):
            block = cleaner.clean(noise(Z[rows], rng))
            cleaned[copy * n + rows.start : copy * n + rows.stop] = block
    return cleaned


def _filter(Z, noise, axes, rng):
    """Return the linear regression from noisy to clean samples, shape (r + 1, r)."""
    gram = moments = 0.0
    with one_blas_thread():
        for noisy, clean in _copies(Z, noise, axes, rng):
            N = _inputs(noisy, axes)
            gram, moments = gram + (N.T @ N).astype(np.float64), moments + N.T @ clean
    penalty = heuristics.FILTER_RIDGE * np.trace(gram) / len(gram)
    return solve(gram, moments, np.full(len(gram), penalty)).astype(Z.dtype)


def _step(cleaner, Z, held_out, noise, rng):
    """Return the regression that comes next, with the ridge that suits samples held out."""
    n, axes = len(Z), cleaner.axes
    p = min(heuristics.n_centers(n), heuristics.CLEANING_CENTERS)
    some = cleaner.clean_along(noise(Z[:SEARCH_ROWS], rng))
    centers = cleaner.clean_along(noise(Z[rng.permutation(n)[:p]], rng))
    size = float(np.mean(np.sum(some * some, axis=1)))
    regression = Regression(centers, 1 / (size or 1.0), some, some.shape[1])
    with one_blas_thread(flops=regression.flops(n)):
        for noisy, clean in _copies(Z, noise, axes, rng):
            regression.add(cleaner.clean_along(noisy), clean)
        # few samples, which several regressions are to be compared on
        others = [(cleaner.clean_along(N), T) for N, T in _copies(held_out, noise, axes, rng)]
    return _best(regression, others)


def _best(regression, others):
    """Return the decoder that errs least; ridges are tried from the least on while they help."""
    if not others:
        return regression.solved(heuristics.RIDGES[-1])
    best, least = None, np.inf
    for ridge in heuristics.RIDGES:
        decoder = regression.solved(ridge)
        with one_blas_thread():
            error = sum(float(np.sum((decoder.decode(T) - Z) ** 2)) for T, Z in others)
        if error > least:
            break
        best, least = decoder, error
    return best


def _copies(Z, noise, axes, rng) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield blocks of noisy samples, and the clean ones along the axes."""
    n = len(Z)
    if not n:
        return
    copies = heuristics.n_copies(n, heuristics.NOISY_SAMPLES, heuristics.NOISY_COPIES)
    for rows in gen_batches(copies * n, FIT_ROWS):
        block = Z[np.arange(rows.start, rows.stop) % n]
        yield noise(block, rng), along(block[:, :-1], axes)


def _inputs(Z, axes):
    """Return samples along the axes, and their constant coordinate."""
    return np.hstack([along(Z[:, :-1], axes), Z[:, -1:]])
