"""Data that come once and drift: how kernel components of a stream keep up.

`drifting` makes a stream of images whose style changes, `follow` feeds one to a model and measures
it on the way, against the exact decomposition of everything seen so far.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.ndimage import affine_transform

from ..hebbian import KernelStream
from ..incremental import IncrementalKernelPCA
from ..kernel_pca import KernelPCA
from ..kernels import Kernel, center_in_place
from ..nystrom import NystromKernelPCA
from .hebbian import optimal_error

__all__ = ["BATCH", "Refitted", "Stop", "drifting", "exact_errors", "follow", "followers"]

# Samples that come at a time.
BATCH = 100


def drifting(images: np.ndarray, slant: float) -> np.ndarray:
    """Return images as rows, sheared a little more from one to the next.

    Parameters
    ----------
    images : ndarray of shape (n, height, width)
        In the order of the stream.
    slant : float
        Pixels by which a row moves for each row above the middle: -slant for the first image,
        slant for the last.
    """
    n, height, _ = images.shape
    middle, out = (height - 1) / 2, np.empty(images.shape)
    for image, s, result in zip(images, np.linspace(-slant, slant, n), out, strict=True):
        # the pixel at (row, column) comes from (row, column + s (row - middle))
        options = {"offset": (0, -s * middle), "order": 1, "output": result}
        affine_transform(image, [[1, 0], [s, 1]], **options)
    return out.reshape(n, -1)


class Refitted:
    """Kernel PCA of everything seen so far, computed anew for every batch."""

    def __init__(self, n_components: int, kernel: Kernel) -> None:
        self.n_components, self.kernel, self.X_fit_ = n_components, kernel, None

    def partial_fit(self, X) -> Refitted:
        """Fit to all samples so far; return self."""
        self.X_fit_ = X if self.X_fit_ is None else np.concatenate([self.X_fit_, X])
        self.model_ = KernelPCA(self.n_components, kernel=self.kernel, random_state=0)
        self.model_.fit(self.X_fit_)
        return self

    def transform(self, X) -> np.ndarray:
        """Return the codes of X."""
        return self.model_.transform(X)


def followers(
    n_components: int, kernel: Kernel, budget: int, *, random_state: int = 0
) -> Mapping[str, Callable]:
    """Return functions that make the models that are compared, by their names.

    The first four hold at most `budget` points, the others all samples.
    """
    r, options = n_components, {"kernel": kernel, "random_state": random_state}
    return {
        "IncrementalKernelPCA, budget": lambda: IncrementalKernelPCA(r, budget=budget, **options),
        "KernelStream, budget": lambda: KernelStream(r, budget=budget, **options),
        "Nyström, first samples": lambda: NystromKernelPCA(r, n_landmarks=budget, **options),
        "IncrementalKernelPCA, all": lambda: IncrementalKernelPCA(r, **options),
        "KernelPCA, refitted": lambda: Refitted(r, kernel),
    }


class Stop(NamedTuple):
    """Where a stream was stopped to look at the model."""

    n: int  # samples seen
    error: float  # (38) for all of them
    points: int  # held by the model
    seconds: float  # CPU time a sample, since the last stop


def exact_errors(X: np.ndarray, kernel: Kernel, n_components: int, stops: Iterable[int]):
    """Return (n, K', E_min) of the first n samples, for each of some n."""
    found = []
    for n in stops:
        K = kernel(X[:n])
        center_in_place(K, K.mean(axis=1))
        found.append((n, K, optimal_error(K, n_components)))
    return found


def follow(
    model, X: np.ndarray, known: Sequence[tuple[int, np.ndarray, float]], *, first: int
) -> list[Stop]:
    """Feed a stream to a model, `BATCH` samples at a time, and return how it was at each stop.

    Parameters
    ----------
    model : estimator
        With `partial_fit` and `transform`.
    X : ndarray of shape (n, d)
        The stream.
    known : sequence of tuple
        The stops: what `exact_errors` returns.
    first : int
        Size of the first batch.
    """
    seen, found = 0, []
    for n, K, _ in known:
        spent, before = 0.0, seen
        while seen < n:
            batch = X[seen : min(n, seen + (BATCH if seen else first))]
            began = time.process_time()
            model.partial_fit(batch)
            spent += time.process_time() - began
            seen += len(batch)
        Y = model.transform(X[:n])
        Y = Y - Y.mean(axis=0)  # by the mean of all samples so far, as K'
        error, points = float(np.linalg.norm(K - Y @ Y.T)), getattr(model, "landmarks_", None)
        points = model.X_fit_ if points is None else points
        found.append(Stop(n, error, len(points), spent / (n - before)))
    return found
