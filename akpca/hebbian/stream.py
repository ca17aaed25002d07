"""Kernel components of a stream: expansions that grow with it, or stay within a budget.

Components w_i = sum_q A_iq phi(z_q) and the mean mu = sum_q c_q phi(z_q) are expanded in points
that have been seen. A sample x makes one Hebbian step with phi(x) - mu, where mu is the mean of
all samples so far, x included: the same rule as in :class:`akpca.GeneralizedHebbian`, so that with
the linear kernel both are the same algorithm, and how the stream is cut into batches makes no
difference. The step adds x to the points.

A budget bounds their number. What is over it is taken out by projection: pivoted Cholesky
decomposition of the kernel matrix of the points says which of them span the others best, and
components and mean become the nearest expansions in these. What is lost by that is measured, not
assumed to be small: `StreamState.lost` adds up the part of the components' squared norm that
projections have cost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np
from scipy import linalg
from sklearn.base import _fit_context
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted
from tqdm import tqdm

from ..kernel_code import KernelCode
from ..kernel_estimator import KERNEL_CONSTRAINTS, KernelEstimator
from ..kernels import Kernel
from ..threads import one_blas_thread
from .gains import AUTO, Factor, Gain
from .generalized import FORGETTING, Track, checked_stream_gain, tracked_steps
from .kernel import KernelHebbian
from .steps import RUNAWAY, Block, DivergenceError

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
    track: Track  # of the outputs
    n_samples: int = 0  # seen so far
    K: np.ndarray | None = None  # (m, m), kernel matrix of the points, kept only under a budget
    lost: float = 0.0  # sum over projections of the largest relative loss of a squared norm


def start_stream(X: np.ndarray, kernel: Kernel, r: int, rng, *, center: bool) -> StreamState:
    """Return r random unit vectors in the span of the first samples, before any step."""
    K = np.asarray(kernel(X), np.float64)
    G = rng.standard_normal((r, len(X)))
    if center:
        G -= G.mean(axis=1, keepdims=True)
    squares = np.einsum("ij,jk,ik->i", G, K, G)
    G /= np.sqrt(np.where(squares > 0, squares, 1))[:, None]
    zero = np.zeros(r)
    return StreamState(X, G, np.zeros(len(X)), zero, 0.0, G @ K @ G.T, Track(zero))


def stream_block(
    state: StreamState, X: np.ndarray, kernel: Kernel, gain: Gain | None, *, center: bool
) -> StreamState:
    """Return the state after one step for every row of X, which join the points.

    The gain None is "auto". If the components run away, a DivergenceError says so and the state is
    untouched.
    """
    b, n = len(X), state.n_samples
    new = np.asarray(kernel(state.points, X), np.float64)
    own = np.asarray(kernel(X), np.float64)
    outputs, with_mean = state.A @ new, state.c @ new
    if center:
        # sample j less the running mean: row j of L Phi_b, less share g_j of the mean before
        counts = n + 1.0 + np.arange(b)
        L = np.eye(b) - np.tril(np.ones((b, b))) / counts[:, None]
        g = n / counts
        shares = 1 - 1 / counts
    else:
        L, g, shares = np.eye(b), np.zeros(b), np.ones(b)
    centred = outputs @ L.T - np.multiply.outer(state.along, g)
    cross = np.multiply.outer(L @ with_mean, g)
    square = state.mean_square * np.multiply.outer(g, g)
    gram = L @ own @ L.T - cross - cross.T + square
    with np.errstate(all="ignore"):  # what overflows is found right below
        Theta, C, track = tracked_steps(Block.of(centred, gram), gain, state.track, shares)
        TG = Theta @ centred @ C.T
        norms = Theta @ state.gram @ Theta.T + TG + TG.T + C @ gram @ C.T
        if not norms.diagonal().max() <= RUNAWAY:  # nor if it is not a number
            raise DivergenceError(f"the components ran away by step {track.t}")
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
    return replace(
        state,
        points=np.concatenate([state.points, X]),
        A=A,
        c=c,
        along=along,
        mean_square=float(mean_square),
        gram=norms,
        track=track,
        n_samples=n + b,
        K=K,
    )


def merge_start(state: StreamState, m: int) -> StreamState:
    """Return the state with each of the first m points united with its copy, m places later."""
    A, c = state.A[:, m:].copy(), state.c[m:].copy()
    A[:, :m] += state.A[:, :m]
    c[:m] += state.c[:m]
    return replace(state, points=state.points[m:], A=A, c=c)


def compress(state: StreamState, kernel: Kernel, budget: int) -> StreamState:
    """Return the state projected on the span of at most `budget` of its points."""
    K = np.asarray(kernel(state.points), np.float64) if state.K is None else state.K
    if len(K) <= budget:
        return replace(state, K=K)
    order = linalg.lapack.dpstrf(K, lower=1)[1] - 1
    kept = np.sort(order[:budget])
    small = K[np.ix_(kept, kept)]
    # what rounding leaves of points that others span must not be divided by
    jitter = 10 * len(kept) * np.finfo(state.points.dtype).eps * K.diagonal().max()
    factor = linalg.cho_factor(small + jitter * np.eye(len(kept)), lower=True)
    S = np.vstack([state.A, state.c])
    S = linalg.cho_solve(factor, K[kept] @ S.T).T
    inner = S @ small @ S.T
    gram = inner[:-1, :-1]
    before, after = state.gram.diagonal(), gram.diagonal()
    loss = 1 - np.divide(after, before, out=np.ones_like(after), where=before > 0)
    return replace(
        state,
        points=state.points[kept],
        A=S[:-1],
        c=S[-1],
        along=inner[:-1, -1],
        mean_square=float(inner[-1, -1]),
        gram=gram,
        K=small,
        lost=state.lost + float(max(loss.max(), 0.0)),
    )


class KernelStream(KernelEstimator):
    """Kernel PCA of a stream: w_i <- w_i + eta_i y_i (phi' - sum_{j<=i} y_j w_j), y_i = w_i . phi'.

    Each sample makes one Hebbian step with phi' = phi(x) - mean and joins the points in which the
    components are expanded, so that time and memory grow with the stream; a `budget` of points
    bounds both.

    Parameters
    ----------
    n_components : int, default=2
        r, the number of components.
    kernel, gamma, degree, coef0, kernel_params, n_jobs
        As in :class:`akpca.KernelHebbian`, but the kernel can't be 'precomputed'.
    center : bool, default=True
        Centre each sample, in feature space, by the mean of all samples so far.
    gain : 'auto' or Gain, default='auto'
        As in :class:`akpca.GeneralizedHebbian`: 'auto', or a product of Constant,
        Annealing(iterations=...) and ReciprocalEigenvalues.
    budget : int, default=None
        Largest number of points that are kept. None keeps all samples of the stream.
    block_size : int, default=None
        Steps in a block. None is 96, or 128 for more than 32 components. Without a budget it
        changes of the result only the rounding.
    preimage : {'ridge', 'eigenvector', 'fixed_point', 'distance'} or Preimage, default=None
        The decoder of `inverse_transform`, from :mod:`akpca.preimage`.
    random_state : int, RandomState instance or None, default=None
        Of the components at the start.
    verbose : bool, default=False
        Show a progress bar over the blocks of each call.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_points)
        Coefficients of components that have norm 1 in feature space, by the points `X_fit_`.
    eigenvalues_ : ndarray of shape (n_components,)
        Of the (centred) kernel matrix of all samples so far, estimated from the outputs; late
        ones count more, as in :class:`akpca.GeneralizedHebbian`.
    norms_, coefficients_ : ndarray of shape (n_components,) and (n_components, n_points)
        Norms of the components before they were scaled to 1, and their coefficients then. Norms
        far from 1 need more samples.
    lost_ : float
        Relative loss of the components' squared norms by projections on fewer points, added up;
        0 without a budget.
    n_samples_seen_, n_steps_ : int
        Samples seen and steps made. They differ only after `continue_from`.
    n_iter_ : int
        Passes over the data: 1, or those of the model that was continued.
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
    ):
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

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Start anew and take in the rows of X in order, one step each.

        The first 100 of them (or n_components, if that is more) give the directions to start from,
        as if they had come in a `partial_fit` of their own.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : Ignored

        Returns
        -------
        self : object
        """
        before = vars(self).copy()
        try:
            return self._take(X, first=True, n_start=max(START_SAMPLES, self.n_components))
        except DivergenceError:
            vars(self).clear()
            vars(self).update(before)
            raise

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None):
        """Take in the next samples of a stream, one step each.

        After the first call, whose samples give the directions to start from, it makes no
        difference beyond rounding how a stream is cut, unless there is a `budget`. If a gain that
        was given is too large, a :class:`akpca.DivergenceError` is raised and nothing of X is kept.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            In the first call at least n_components.
        y : Ignored

        Returns
        -------
        self : object
        """
        return self._take(X, first=not hasattr(self, "_state"))

    @classmethod
    def continue_from(cls, model: KernelHebbian, **params) -> KernelStream:
        """Return a stream that goes on from the components of a fitted model.

        Parameters
        ----------
        model : KernelHebbian
            Fitted to dense samples. The stream has its kernel and its parameters as far as both
            classes have them, apart from the gain.
        **params
            Other parameters, such as `gain` and `budget`.

        Returns
        -------
        stream : KernelStream
            Fitted, with the samples of the model as its points.

        Examples
        --------
        >>> from akpca import KernelHebbian, KernelStream, load_dataset
        >>> X = load_dataset("digits").X / 16
        >>> model = KernelHebbian(3, gamma=0.02, random_state=0).fit(X[:500])
        >>> stream = KernelStream.continue_from(model, budget=600).partial_fit(X[500:])
        >>> stream.n_samples_seen_
        1797
        """
        check_is_fitted(model)
        code = model._code
        if code.targets is None:
            raise ValueError(
                "a stream goes on from a fit to dense samples, not from one to sparse samples, a "
                "precomputed kernel or an operator"
            )
        shared = set(cls._get_param_names()) - {"gain"}
        given = {key: value for key, value in model.get_params(False).items() if key in shared}
        stream = cls(**{**given, **params})
        for name in ("kernel_", "gamma_", "n_features_in_", "feature_names_in_"):
            if hasattr(model, name):
                setattr(stream, name, getattr(model, name))
        stream._publish(state_of_fit(model), model.components_.dtype, model.n_iter_)
        return stream

    def _take(self, X, first, n_start=None):
        if self.kernel == "precomputed":
            raise ValueError("a stream needs samples, not kernel='precomputed'")
        X = self._validate(X, reset=first, accept_sparse=False)
        gain = checked_stream_gain(self.gain)
        if first:
            kernel = self._resolve_kernel(X.shape[1])
            state, rest = self._start(X[:n_start], kernel, gain), X[n_start or len(X) :]
        else:
            kernel, rest = self.kernel_, X
            if len(self.components_) != self.n_components:
                raise ValueError(
                    f"n_components={self.n_components}, but this {type(self).__name__} goes on "
                    f"from {len(self.components_)} components"
                )
            state = self._bounded(self._state, kernel)
        state = self._steps(state, rest, kernel, gain, bounded=True)
        dtype, n_iter = (X.dtype, 1) if first else (self.components_.dtype, self.n_iter_)
        self._publish(state, dtype, n_iter)
        return self

    def _start(self, X, kernel, gain) -> StreamState:
        """Return the state after the first samples, whose span the start is drawn from."""
        if len(X) < self.n_components:
            raise ValueError(
                f"the first samples of a stream must be at least n_components="
                f"{self.n_components}, got {len(X)}"
            )
        rng = check_random_state(self.random_state)
        state = start_stream(X, kernel, self.n_components, rng, center=self.center)
        state = self._steps(state, X, kernel, gain, bounded=False)
        return self._bounded(merge_start(state, len(X)), kernel)

    def _steps(self, state: StreamState, X, kernel, gain, *, bounded: bool) -> StreamState:
        block_size = self.block_size or (96 if self.n_components <= 32 else 128)
        blocks = list(gen_batches(len(X), block_size)) if len(X) else []
        try:
            for rows in tqdm(blocks, "stream", unit="block", disable=not self.verbose):
                m, width = len(state.points) + block_size, X.shape[1] + self.n_components
                with one_blas_thread(m**3 / 3 if self.budget else 2 * block_size * m * width):
                    state = stream_block(state, X[rows], kernel, gain, center=self.center)
                    state = self._bounded(state, kernel) if bounded else state
        except DivergenceError as error:
            raise DivergenceError(
                f"gain={self.gain!r} is too large: {error}; take a smaller eta0, or gain='auto'"
            ) from None
        return state

    def _bounded(self, state: StreamState, kernel) -> StreamState:
        return state if self.budget is None else compress(state, kernel, self.budget)

    def _publish(self, state: StreamState, dtype, n_iter: int) -> None:
        norms = np.sqrt(np.maximum(state.gram.diagonal(), 0))
        scale = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
        variance = state.track.energy * scale**2 / (state.track.weight or 1.0)
        self._state, self.norms_, self.lost_ = state, norms, state.lost
        self.coefficients_ = state.A.astype(dtype)
        self.components_ = (scale[:, None] * state.A).astype(dtype)
        self.eigenvalues_ = (state.n_samples * variance).astype(dtype)
        self.n_steps_, self.n_samples_seen_, self.n_iter_ = state.track.t, state.n_samples, n_iter
        self.X_fit_ = state.points
        code = KernelCode(
            self.kernel_,
            state.points,
            self.components_.T,
            (scale * state.along).astype(dtype),
            mean_weights=state.c if self.center else None,
            mean_square=state.mean_square,
            targets=state.points,
        )
        self._set_code(code)

    def _fit_preimage(self, preimage):
        if self._code.codes is None:  # which only decoders need
            self._code = replace(self._code, codes=self._code.encode(self._code.points))
        return super()._fit_preimage(preimage)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


def state_of_fit(model: KernelHebbian) -> StreamState:
    """Return the state of a stream that would have led to the fitted components."""
    n, code = model.n_samples_seen_, model._code
    A, norms = model.coefficients_.astype(np.float64), model.norms_
    c, along, mean_square = np.zeros(n), np.zeros(len(A)), 0.0
    if model.center:
        A = A - A.mean(axis=1, keepdims=True)
        means = code.means.astype(np.float64)
        c, along, mean_square = np.full(n, 1 / n), A @ means, float(means.mean())
    gram = norms[:, None] * (code.codes.T @ model.components_.T) * norms
    weight = model.n_steps_ / (FORGETTING + 1)
    # the variance of the outputs, by the codes of the fitted samples
    energy = weight * np.mean((code.codes * norms) ** 2, axis=0, dtype=np.float64)
    track = Track(energy, weight, model.n_steps_)
    return StreamState(code.points, A, c, along, mean_square, gram.astype(np.float64), track, n)
