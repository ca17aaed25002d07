"""Data that come once and drift: how kernel components of a stream keep up.

`drifting` makes a stream of images whose style changes, `follow` feeds one to a model and measures
it on the way, against the exact decomposition of everything seen so far. A `StreamPlan` says what
is compared, and `run_stream` writes it into a :class:`.tables.ResultTable`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.ndimage import affine_transform

from ...datasets import load_dataset
from ...incremental import IncrementalKernelPCA
from ...kernel_pca import KernelPCA
from ...kernels import RBF, Kernel, center_in_place
from ...nystrom import NystromKernelPCA
from .hebbian import optimal_error
from .tables import ResultTable

__all__ = [
    "BATCH",
    "EXACT",
    "STREAM_COLUMNS",
    "Refitted",
    "Stop",
    "StreamPlan",
    "drifting",
    "exact_errors",
    "follow",
    "followers",
    "measures",
    "paper_stream",
    "run_stream",
]

# Samples that come at a time.
BATCH = 100
STREAM_COLUMNS = ("method", "quantity", "n")
EXACT, REFITTED = "exact", "KernelPCA, refitted"


class StreamPlan(NamedTuple):
    """A stream, and what follows it.

    Attributes
    ----------
    name : str
        Of the table.
    dataset : str
        Images, as in :func:`akpca.load_dataset`. Pixels are divided by the largest.
    n_samples, n_components : int
        Length of the stream, and r.
    sigma : float
        Width of the kernel exp(-||x - y||^2 / (2 sigma^2)).
    budget : int
        Points that may be kept.
    slant : float
        As in `drifting`.
    random_state : int
        Determines the order of the images, and starts.
    refits : bool
        Whether kernel PCA that is computed anew for every batch takes part.
    """

    name: str
    dataset: str
    n_samples: int
    n_components: int = 20
    sigma: float = 10.0
    budget: int = 200
    slant: float = 0.5
    random_state: int = 0
    refits: bool = True

    @property
    def stops(self) -> tuple[int, ...]:
        """Numbers of samples after which the models are looked at."""
        return tuple(self.n_samples // part for part in (8, 4, 2, 1))

    @property
    def kernel(self) -> RBF:
        """The kernel."""
        return RBF(gamma=1 / (2 * self.sigma**2))

    def samples(self) -> np.ndarray:
        """Return the stream, shape (n_samples, d), in single precision."""
        data = load_dataset(self.dataset)
        if data.image_shape is None or len(data.image_shape) != 2:
            raise ValueError(f"dataset={self.dataset!r}: only grey images can be slanted")
        if not 8 * self.budget <= self.n_samples <= len(data.X):
            allowed = f"from 8 * budget = {8 * self.budget} to {len(data.X)}"
            raise ValueError(f"n_samples={self.n_samples}: a stream has {allowed} samples")
        order = np.random.default_rng(self.random_state).permutation(len(data.X))
        images = data.images[order[: self.n_samples]] / data.X.max()
        return drifting(images, self.slant).astype(np.float32)


def paper_stream() -> StreamPlan:
    """Return the plan of a longer stream."""
    return StreamPlan("stream", "mnist", 10_000, budget=500, refits=False)


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

    The first two hold at most `budget` points, the others all samples.
    """
    r, options = n_components, {"kernel": kernel, "random_state": random_state}
    return {
        "IncrementalKernelPCA, budget": lambda: IncrementalKernelPCA(r, budget=budget, **options),
        "Nyström, first samples": lambda: NystromKernelPCA(r, n_landmarks=budget, **options),
        "IncrementalKernelPCA, all": lambda: IncrementalKernelPCA(r, **options),
        REFITTED: lambda: Refitted(r, kernel),
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
        rest = K - Y @ Y.T
        error = float(np.sqrt(np.einsum("ij,ij->", rest, rest, dtype=np.float64)))
        points = model.landmarks_ if hasattr(model, "landmarks_") else model.X_fit_
        found.append(Stop(n, error, len(points), spent / (n - before)))
    return found


def run_stream(plan: StreamPlan, table: ResultTable) -> None:
    """Write how all models of a plan followed its stream, unless it is in the table already."""
    makers = followers(plan.n_components, plan.kernel, plan.budget, random_state=plan.random_state)
    names = [name for name in makers if plan.refits or name != REFITTED]
    names = [name for name in names if (name, "error", plan.n_samples) not in table]
    if not names:
        return
    X = plan.samples()
    known = exact_errors(X, plan.kernel, plan.n_components, plan.stops)
    for n, _, optimum in known:
        if (EXACT, "error", n) not in table:
            table.add(EXACT, "error", n, value=optimum)
    for name in names:
        for stop in follow(makers[name](), X, known, first=plan.budget):
            table.add(name, "points", stop.n, value=stop.points)
            table.add(name, "seconds", stop.n, value=stop.seconds)
            table.add(name, "error", stop.n, value=stop.error)


def measures(plan: StreamPlan, table: ResultTable) -> dict[str, dict[str, np.ndarray]]:
    """Return for each method that is in the table its 'excess', 'points' and 'ms' at all stops.

    The excess is E / E_min - 1 for everything seen so far, and ms is CPU time a sample.
    """
    exact = np.array([table[(EXACT, "error", n)] for n in plan.stops])
    found = {}
    for name in followers(plan.n_components, plan.kernel, plan.budget):
        if (name, "error", plan.n_samples) in table:
            rows = {
                quantity: np.array([table[(name, quantity, n)] for n in plan.stops])
                for quantity in ("error", "points", "seconds")
            }
            excess, ms = rows["error"] / exact - 1, 1e3 * rows["seconds"]
            found[name] = {"excess": excess, "points": rows["points"], "ms": ms}
    return found
