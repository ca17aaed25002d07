"""Kernel components of a stream: expansions that grow with it, or stay within a budget.

Components w_i = sum_q A_iq phi(z_q) and the mean mu = sum_q c_q phi(z_q) are expanded in points
that have been seen. A sample x makes one Hebbian step with phi(x) - mu, where mu is the mean of
all samples so far, x included, and joins the points. With the linear kernel this is the algorithm
of :class:`akpca.GeneralizedHebbian`.

A budget bounds the number of points. Those are kept whose span is nearest to the components, each
as long as its outputs are, and to the mean, as in :class:`akpca.IncrementalKernelPCA`; components
and mean are projected on it. What is lost by that is measured, not assumed to be small.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np
from scipy import linalg
from sklearn.utils import check_random_state, gen_batches

from ..fitting import Interval, StrOptions, fit_method
from ..incremental import MIN_REST, nearest_points
from ..kernel_code import KernelCode
from ..kernel_estimator import KERNEL_CONSTRAINTS, KernelEstimator
from ..kernels import Kernel, check_digits, check_finite
from ..progress import progress_bar
from ..threads import one_blas_thread
from .gains import AUTO, Factor, Gain
from .generalized import Track, check_lengths, checked_stream_gain, tracked_steps
from .steps import ROUNDING, Block

__all__ = [
    "KernelStream",
    "StreamState",
    "compress",
    "kernel_values",
    "merge_start",
    "start_stream",
    "stream_block",
]

# Samples from which `fit` draws its start.
START_SAMPLES = 100


@dataclass(frozen=True)
class StreamState:
    """Where a stream stands. Immutable as a whole: a block makes a new one."""

    points: np.ndarray  # (m, d)
    A: np.ndarray  # (r, m), coefficients of the components; float64, as all below
    c: np.ndarray  # (m,), coefficients of the mean; zero without centring
    along: np.ndarray  # (r,), inner products of the components with the mean
    mean_square: float  # ||mu||^2
    gram: np.ndarray  # (r, r), inner products of the components
    track: Track  # of the outputs; a sample makes one step, so track.t is their number
    K: np.ndarray | None = None  # (m, m), kernel matrix of the points, kept only under a budget
    lost: float = 0.0  # sum over projections of the largest relative loss of a squared norm


def kernel_values(kernel: Kernel, *samples: np.ndarray) -> np.ndarray:
    """Return a kernel matrix in float64; raise ValueError if it overflows or loses its digits."""
    with np.errstate(all="ignore"):  # what overflows is reported by the check
        K = check_finite(kernel(*samples), kernel)
    check_digits(np.abs(K).max(), K.dtype, kernel)
    return np.asarray(K, np.float64)


def start_stream(
    X: np.ndarray, kernel: Kernel, r: int, rng, *, center: bool, before: StreamState | None = None
) -> StreamState:
    """Return r random unit vectors in the span of (centred) samples, before their steps.

    `before` is where the stream stands, if it has samples that gave no direction. If these don't
    either, as they are all equal or zero, the vectors are zero.
    """
    if before is None:
        zero = np.zeros(r)
        empty = X[:0], np.zeros((r, 0)), np.zeros(0)
        before = StreamState(*empty, zero, 0.0, np.zeros((r, r)), Track(zero))
    m, n, old = len(X), before.track.t, len(before.points)
    K, square = kernel_values(kernel, X), before.mean_square
    with_mean = before.c @ kernel_values(kernel, before.points, X) if old else np.zeros(m)
    # row i is sum_j G_ij phi(x_j) + h_i mu, with the mean mu before
    G, h = rng.standard_normal((r, m)), np.zeros(r)
    if center:  # by the mean of all samples
        shares = G.sum(axis=1) / (n + m)
        G, h = G - shares[:, None], -n * shares
    cross = np.multiply.outer(h, G @ with_mean)
    gram = G @ K @ G.T + cross + cross.T + square * np.multiply.outer(h, h)
    rounding = ROUNDING * np.finfo(X.dtype).eps * np.sqrt(m) * max(np.abs(K).max(), square)
    squares, least = gram.diagonal(), rounding * np.sum(G**2, axis=1)
    # A sum that has cancelled, but for rounding, has no length to divide by: divided by that of
    # its rounding errors it is not longer than the others.
    lengths = np.sqrt(np.maximum(squares, least))
    scale = np.divide(1, lengths, out=np.zeros(r), where=(squares > least).any())
    A = scale[:, None] * np.hstack([np.multiply.outer(h, before.c), G])
    along = scale * (G @ with_mean + square * h)
    points, c = np.concatenate([before.points, X]), np.append(before.c, np.zeros(m))
    gram = gram * np.multiply.outer(scale, scale)
    return StreamState(points, A, c, along, square, gram, before.track, lost=before.lost)


def stream_block(
    state: StreamState, X: np.ndarray, kernel: Kernel, gain: Gain | None, *, center: bool
) -> StreamState:
    """Return the state after `tracked_steps` for the rows of X, which join the points."""
    b, n = len(X), state.track.t
    new, own = kernel_values(kernel, state.points, X), kernel_values(kernel, X)
    outputs, with_mean = state.A @ new, state.c @ new
    # sample j less the running mean: row j of L Phi_b, less share g_j of the mean before
    counts = n + 1.0 + np.arange(b) if center else np.full(b, np.inf)  # then L = I and g = 0
    L, g = np.eye(b) - np.tril(np.ones((b, b))) / counts[:, None], n / counts
    centred = outputs @ L.T - np.multiply.outer(state.along, g)
    cross = np.multiply.outer(L @ with_mean, g)
    inner = L @ own @ L.T - cross - cross.T + state.mean_square * np.multiply.outer(g, g)
    if center:  # a sample that is at the mean, but for rounding, asks for no step
        rounding = ROUNDING * np.finfo(X.dtype).eps * (own.diagonal() + state.mean_square)
        moves = inner.diagonal() > rounding
        centred, inner = centred * moves, inner * np.multiply.outer(moves, moves)
    with np.errstate(all="ignore"):  # what overflows is found right below
        block = Block.of(centred, inner)
        Theta, C, track = tracked_steps(block, gain, state.track, 1 - 1 / counts)
        TG = Theta @ centred @ C.T
        gram = Theta @ state.gram @ Theta.T + TG + TG.T + C @ inner @ C.T
        check_lengths(gram.diagonal(), gain, track.t, block.sizes.max())
    A = np.hstack([Theta @ state.A - np.multiply.outer(C @ g, state.c), C @ L])
    c, along, mean_square = np.append(state.c, np.zeros(b)), state.along, 0.0
    if center:
        c = np.append(n * state.c, np.ones(b)) / (n + b)
        to_new = (n * with_mean + own.sum(axis=0)) / (n + b)  # phi(x_j) . the mean now
        old_to_new = (n * state.mean_square + with_mean.sum()) / (n + b)
        along = Theta @ (n * state.along + outputs.sum(axis=1)) / (n + b)
        along += C @ (L @ to_new - g * old_to_new)
        mean_square = (n * old_to_new + to_new.sum()) / (n + b)
    K = None if state.K is None else np.block([[state.K, new], [new.T, own]])
    points, mean_square = np.concatenate([state.points, X]), float(mean_square)
    return StreamState(points, A, c, along, mean_square, gram, track, K, state.lost)


def merge_start(state: StreamState, m: int, skip: int = 0) -> StreamState:
    """Return the state with m points, after some others, united with their copies, m places on."""
    first, copies = slice(skip, skip + m), slice(skip + m, skip + 2 * m)
    A, c = state.A.copy(), state.c.copy()
    A[:, copies] += A[:, first]
    c[copies] += c[first]
    points, A, c = (np.delete(array, first, axis=-1) for array in (state.points.T, A, c))
    return replace(state, points=np.ascontiguousarray(points.T), A=A, c=c)


def compress(state: StreamState, kernel: Kernel, budget: int | None) -> StreamState:
    """Return the state projected on the span of at most `budget` of its points; None keeps all."""
    if budget is None:
        return state
    K = kernel_values(kernel, state.points) if state.K is None else state.K
    if len(K) <= budget:
        return replace(state, K=K)
    unit, track = K.diagonal().max() or 1.0, state.track
    lengths = np.append(np.sqrt(track.energy / (track.weight or 1.0)), 1.0)
    W = lengths[:, None] * np.vstack([state.A, state.c])
    floor = MIN_REST[state.points.dtype]
    chosen = nearest_points(K / unit, W, budget, floor)[0]
    kept = np.sort(chosen) if len(chosen) else np.arange(1)  # of zeros, any spans all
    small = K[np.ix_(kept, kept)]
    # what rounding leaves of points that others span must not be divided by
    jitter = 10 * len(kept) * np.finfo(state.points.dtype).eps * (K.diagonal().max() or 1.0)
    factor = linalg.cho_factor(small + jitter * np.eye(len(kept)), lower=True)
    S = linalg.cho_solve(factor, K[kept] @ np.vstack([state.A, state.c]).T).T
    inner = S @ small @ S.T
    before, after = state.gram.diagonal(), inner.diagonal()[:-1]
    loss = 1 - np.divide(after, before, out=np.ones_like(after), where=before > 0)
    lost, mean_square = state.lost + float(max(loss.max(), 0.0)), float(inner[-1, -1])
    products = inner[:-1, -1], mean_square, inner[:-1, :-1]
    return StreamState(state.points[kept], S[:-1], S[-1], *products, state.track, small, lost)


class KernelStream(KernelEstimator):
    """Kernel PCA of a stream: w_i <- w_i + eta_i y_i (phi' - sum_{j<=i} y_j w_j), y_i = w_i . phi'.

    Here phi' = phi(x) - mean. Each sample joins the points in which the components are expanded, so
    that time and memory grow with the stream; a `budget` of points bounds both.

    Parameters
    ----------
    n_components : int, default=2
        r, the number of components.
    kernel, gamma, degree, coef0, kernel_params, n_jobs, preimage
        As in :class:`akpca.KernelPCA`, with 'rbf' as default and without 'precomputed'.
    center : bool, default=True
        Centre each sample, in feature space, by the mean of all samples so far.
    gain : 'auto' or Gain, default='auto'
        As in :class:`akpca.GeneralizedHebbian`.
    budget : int, default=None
        Largest number of points that are kept. None keeps all samples of the stream.
    block_size : int, default=None
        As in :class:`akpca.KernelHebbian`; under a budget it changes the result slightly.
    random_state, verbose
        As in :class:`akpca.GeneralizedHebbian`.

    Attributes
    ----------
    components_, norms_, coefficients_
        As in :class:`akpca.KernelHebbian`, for the points `X_fit_` in place of the samples.
    eigenvalues_ : ndarray of shape (n_components,)
        Of the (centred) kernel matrix of all samples so far, estimated from the outputs; late
        ones count more, as in :class:`akpca.GeneralizedHebbian`.
    lost_ : float
        Relative loss of the components' squared norms by projections on fewer points, added up;
        0 without a budget.
    n_samples_seen_, n_steps_, n_iter_ : int
        Samples seen, each of which made one step, in one pass.
    X_fit_, kernel_, gamma_, preimage_, n_features_in_, feature_names_in_
        As in :class:`akpca.KernelHebbian`.

    See Also
    --------
    KernelHebbian : Several passes over samples that stay, with other gains.
    GeneralizedHebbian : The same without a kernel.

    References
    ----------
    Kim, Franz and Schölkopf, "Iterative kernel principal component analysis for image modeling",
    IEEE TPAMI 27(9), 2005. The budget is akpca's own.

    Examples
    --------
    >>> from akpca import KernelStream, load_dataset
    >>> X = load_dataset("digits").X / 16
    >>> stream = KernelStream(3, gamma=0.02, budget=200, random_state=0)
    >>> for batch in np.array_split(X, 10):
    ...     stream = stream.partial_fit(batch)
    >>> stream.transform(X).shape, len(stream.X_fit_), stream.n_samples_seen_
    ((1797, 3), 200, 1797)
    """

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's convention)
        **KERNEL_CONSTRAINTS,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "gain": [StrOptions({AUTO}), Gain, Factor],
        "budget": [Interval(Integral, 1, None, closed="left"), None],
        "block_size": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_components=2,
        *,
        kernel="rbf",
        gamma=None,
        degree=3,
        coef0=1,
        kernel_params=None,
        n_jobs=None,
        center=True,
        gain="auto",
        budget=None,
        block_size=None,
        preimage=None,
        random_state=None,
        verbose=False,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_jobs = n_jobs
        self.center = center
        self.gain = gain
        self.budget = budget
        self.block_size = block_size
        self.preimage = preimage
        self.random_state = random_state
        self.verbose = verbose

    @fit_method
    def fit(self, X, y=None) -> KernelStream:
        """Start anew and take in the rows of X in order, one step each; return self.

        The first 100 of them (or n_components, if that is more) give the directions to start from,
        as if they had come in a `partial_fit` of their own.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : Ignored
        """
        return self._take(X, first=True, n_start=max(START_SAMPLES, self.n_components))

    @fit_method
    def partial_fit(self, X, y=None) -> KernelStream:
        """Take in the next samples of a stream, one step each; return self.

        The first call whose samples vary gives the directions to start from; after it, it makes no
        difference beyond rounding how a stream is cut, unless there is a `budget`. If a gain that
        was given is too large, a :class:`akpca.DivergenceError` is raised and nothing of X is kept.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            In the first call at least n_components.
        y : Ignored
        """
        return self._take(X, first=not hasattr(self, "_state"))

    def _take(self, X, first, n_start=None):
        if self.kernel == "precomputed":
            raise ValueError("a stream needs samples, not kernel='precomputed'")
        X = self._validate(X, reset=first, accept_sparse=False)
        gain, r = checked_stream_gain(self.gain), self.n_components
        if not first and (before := len(self.components_)) != r:
            name = type(self).__name__
            raise ValueError(f"n_components={r}, but this {name} goes on from {before} components")
        dtype = X.dtype if first else self.components_.dtype
        kernel = self._resolve_kernel(X.shape[1]) if first else self.kernel_
        state = None if first else self._state
        if first and len(X[:n_start]) < r:
            problem = f"the first samples of a stream must be at least n_components={r}"
            raise ValueError(f"{problem}, got {len(X)}")
        rng = check_random_state(self.random_state)
        while len(X):
            if state is None or not state.gram.any():  # no sample has given a direction so far
                start, X = X[:n_start], X[n_start or len(X) :]
                old = 0 if state is None else len(state.points)
                state = start_stream(start, kernel, r, rng, center=self.center, before=state)
                state = merge_start(self._steps(state, start, gain, None), len(start), old)
                state = compress(state, kernel, self.budget)
            else:
                state, X = self._steps(state, X, gain, self.budget), X[:0]
        self._publish(state, dtype)
        return self

    def _steps(self, state: StreamState, X, gain, budget) -> StreamState:
        block_size = self.block_size or (96 if self.n_components <= 32 else 128)
        blocks, quiet = list(gen_batches(len(X), block_size)), not (self.verbose and len(X))
        for rows in progress_bar(blocks, shown=not quiet, desc="stream", unit="block"):
            m, width = len(state.points) + block_size, X.shape[1] + self.n_components
            with one_blas_thread(m**3 / 3 if budget else 2 * block_size * m * width):
                state = stream_block(state, X[rows], self.kernel_, gain, center=self.center)
                state = compress(state, self.kernel_, budget)
        return state

    def _publish(self, state: StreamState, dtype) -> None:
        norms = np.sqrt(np.maximum(state.gram.diagonal(), 0))
        scale = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
        variance = state.track.energy * scale**2 / (state.track.weight or 1.0)
        self._state, self.norms_, self.lost_ = state, norms, state.lost
        self.coefficients_ = state.A.astype(dtype)
        self.components_ = (scale[:, None] * state.A).astype(dtype)
        with np.errstate(over="ignore"):  # what overflows is reported by the check
            values = (state.track.t * variance).astype(dtype)
        self.eigenvalues_ = check_finite(values, self.kernel_)
        self.n_steps_ = self.n_samples_seen_ = state.track.t
        self.n_iter_, self.X_fit_ = 1, state.points
        offset, c = (scale * state.along).astype(dtype), state.c if self.center else None
        parts = self.components_.T, offset, c, state.mean_square
        self._set_code(KernelCode(self.kernel_, state.points, *parts, targets=state.points))

    def _fit_preimage(self, preimage):
        if self._code.codes is None:  # which only decoders need
            self._code = replace(self._code, codes=self._code.encode(self._code.points))
        return super()._fit_preimage(preimage)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags
