"""The kernel Hebbian algorithm: kernel PCA one sample at a time, in O(r l) memory.

A component is v_i = sum_p A_ip phi'(x_p), with coefficients A of shape (r, l). Every step sees one
sample and changes A as the generalised Hebbian algorithm would change the components in feature
space.

Notation and equation numbers: Günter, Schraudolph and Vishwanathan, JMLR 8, 2007.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Integral, Real

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.utils import check_array, check_random_state, gen_batches

from ..fitting import Interval, StrOptions, fit_method, moved
from ..kernel_code import KernelCode, relative_to
from ..kernel_estimator import KERNEL_CONSTRAINTS, KernelEstimator
from ..kernels import BLOCK_ROWS, check_finite
from ..operators import KernelOperator, MatrixOperator
from ..progress import FitProgress, progress_bar, warn_interrupted, warn_user
from ..threads import one_blas_thread
from .gains import Gain, check_gain
from .steps import (
    NONE,
    ROUNDING,
    RUNAWAY,
    Block,
    DivergenceError,
    SmallState,
    estimated_eigenvalues,
    hebbian_steps,
)

__all__ = ["HebbianProgress", "KernelHebbian", "KernelState", "run_pass", "start_state"]

# Norm of a component at the end, where 1 is right, that is a failure.
TOO_LONG = 2.0
# Norms this near to 1 say that an iteration has converged, and eigenvalues that rise by more than
# this factor that its components are in a wrong order, which a gain that has fallen can't leave.
RIGHT_LENGTH, RISE = 0.05, 1.02
# Samples whose components are a start: so many times as many as components, within these bounds.
START_FACTOR, START_LEAST, START_MOST = 20, 100, 1000
# eta0 tau / l of a safe gain, in units of sqrt(passes); with 1, after many steps, it would be that
# of a running mean, l / (lambda_i t).
FORGETTING = 3.0
# A gain that was chosen for the user and diverges is divided by this, no more than so many times.
RETREAT, RETREATS = 3.0, 30


@dataclass(frozen=True)
class KernelState:
    """Where a kernel Hebbian iteration stands; a block makes a new one."""

    S: np.ndarray  # (r, l), coefficients A; with meta-descent (2 r, l), B below
    AK: np.ndarray | None  # (r, l), A K', if the gain needs eigenvalues
    small: SmallState
    t: int = 0  # steps made

    @property
    def A(self) -> np.ndarray:
        """Coefficients of the components, shape (r, l)."""
        return self.S[: len(self.small.rho)]


def start_state(operator, A: np.ndarray, gain: Gain, *, AK=None) -> KernelState:
    """Return the state with the coefficients A, and A K' if it is known, before the first step."""
    A, zeros = np.ascontiguousarray(A, dtype=operator.dtype), np.zeros(len(A))
    S, small = A, SmallState(zeros, zeros + 1)
    if gain.reciprocal or gain.adapts:
        AK = np.ascontiguousarray((operator @ A.T).T if AK is None else AK, dtype=operator.dtype)
    if gain.adapts:
        S, gram = np.concatenate([A, np.zeros_like(A)]), (AK @ A.T).astype(np.float64)
        gram = np.ascontiguousarray((gram + gram.T) / 2)
        small = small._replace(gram=gram, cross=np.zeros_like(gram))
    return KernelState(S, AK if gain.reciprocal else None, small)


def refresh(state: KernelState, *, every_step: bool = False) -> KernelState:
    """Return the state with eigenvalues (20), and what follows them, from its large arrays."""
    if state.AK is None:
        return state
    C, R = (state.A @ state.A.T).astype(np.float64), (state.AK @ state.AK.T).astype(np.float64)
    values, (C, R) = estimated_eigenvalues(R, C), (C, R) if every_step else (NONE, NONE)
    return replace(state, small=state.small._replace(eigenvalues=values, C=C, R=R))


def kernel_block(
    operator, state: KernelState, gain: Gain, indices: np.ndarray, limit: float = np.inf
) -> KernelState:
    """Return the state after one step for each of some distinct samples, in order.

    Raises a DivergenceError if ||y||^2 exceeds `limit` times k'(x, x).
    """
    rows, small, extra = operator.rows(indices), state.small, ()
    t, AK, dtype = state.t + len(indices), state.AK, operator.dtype
    rates = gain.rates(np.arange(state.t + 1, t + 1), small.eigenvalues, operator.shape[0])
    with np.errstate(all="ignore"):  # what overflows is found in an output
        if len(small.C):
            extra = state.A[:, indices], AK @ rows.T, rows @ rows.T
        block = Block.of(state.S @ rows.T, rows[:, indices], *extra)
        Theta, W, outputs, small = hebbian_steps(block, rates, small)
        growth = np.max(outputs**2) / max(block.sizes.max(), np.finfo(float).tiny)
        Theta, W = Theta.astype(dtype), W.astype(dtype)
        if not (growth <= limit and np.isfinite(Theta).all() and np.isfinite(W).all()):
            raise DivergenceError(f"diverged at step {t}")
        S = Theta @ state.S
        S[:, indices] += W
        if AK is not None:
            r = len(AK)
            AK = Theta[:r, :r] @ AK
            AK += W[:r] @ rows
    return KernelState(S, AK, small, t)


def run_pass(
    operator, state: KernelState, gain: Gain, order, *, block_size, every_step, limit=np.inf
) -> Iterator[KernelState]:
    """Yield the state after every block of a pass over distinct samples in the given order.

    Eigenvalues are estimated at every step, or once, here; the limit is that of `kernel_block`.
    """
    state = refresh(state, every_step=every_step)
    samples = getattr(operator, "X", None)  # from which rows are computed
    width = len(state.S) + (0 if samples is None else samples.shape[1])
    with one_blas_thread(2 * block_size * operator.shape[0] * width):
        for block in gen_batches(len(order), block_size):
            state = kernel_block(operator, state, gain, order[block], limit)
            yield state


def sampled_start(operator, r: int, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients of the components of some samples, shape (k, l), and their A K'.

    They are in the order of what they explain of *all* samples: steps that put them in order would
    take longer than all the rest. k is less than r if the samples have fewer directions.
    """
    m, rows = len(some), operator.rows(some).astype(np.float64, copy=False)
    own = rows[:, some]
    values, U = linalg.eigh((own + own.T) / 2, subset_by_index=(max(m - r, 0), m - 1))
    noise = ROUNDING * np.sqrt(m) * np.finfo(operator.dtype).eps * operator.diagonal().max()
    C = (U[:, values > noise] / np.sqrt(values[values > noise])).T
    AK = C @ rows
    if len(C):
        V = linalg.eigh(AK @ AK.T)[1][:, ::-1]
        C, AK = V.T @ C, V.T @ AK
    A = np.zeros(AK.shape, operator.dtype)
    A[:, some] = C
    return A, AK.astype(operator.dtype)


def safe_gain(operator, A: np.ndarray, AK: np.ndarray, n_passes: int) -> Gain:
    """Return KHA/et* (19) with an eta0 and tau that follow from the start A and the passes to come.

    Squared errors shrink, on average, while eta_i E ||y||^4 < 2 E ||y||^2, and ||y||^2 is at most
    k'(x, x). A quarter of that is allowed to the component with the smallest eigenvalue (20).
    """
    sizes = np.sum(A.astype(np.float64) ** 2, axis=1)
    squares = np.sum(AK.astype(np.float64) ** 2, axis=1)
    used, norms = (sizes > 0) & (squares > 0), operator.diagonal().astype(np.float64)
    eta0 = 1.0
    if used.any() and norms.any():
        smallest = float(np.sqrt(np.min(squares[used] / sizes[used])))
        eta0 = smallest * float(np.abs(norms).sum() / np.sum(norms**2)) / 2
    return Gain(eta0, passes=FORGETTING * np.sqrt(n_passes) / eta0, reciprocal=True)


@dataclass(frozen=True)
class HebbianProgress(FitProgress):
    """What a callback sees after every pass; the `model` is not fitted with its `preimage`."""

    coefficients: np.ndarray  # A, (r, l)
    eigenvalues: np.ndarray | None  # (r,), estimates by (20), if the gain uses them
    gain_scale: float  # eta-hat of (23): the gain without the division by eigenvalues
    log_gain: np.ndarray  # (r,), rho, what meta-descent has made of it; zeros without


class KernelHebbian(KernelEstimator):
    """Kernel PCA by A <- A + diag(eta) [y e_p^T - lt(y y^T) A], y = A k'_p, sample after sample.

    The kernel Hebbian algorithm with any :class:`akpca.hebbian.Gain`. Steps are made in blocks that
    give the same numbers as single ones, so that a pass costs little more than computing the kernel
    once. It is for following the algorithms, and for few passes over data that are too many for a
    kernel matrix; otherwise :class:`akpca.KernelPCA` is faster.

    Parameters
    ----------
    n_components : int, default=2
        r, the number of components.
    kernel, gamma, degree, coef0, kernel_params, n_jobs, center, preimage
        As in :class:`akpca.KernelPCA`, with kernel='rbf' as default. With kernel='precomputed',
        `fit` also takes an operator of :mod:`akpca.operators` or :mod:`akpca.distributed`, which is
        used as it is (`center` is then its own).
    gain : Gain or 'auto', default='auto'
        Such as ``Gain(5, passes=3, reciprocal=True)``, or by its name ``make_gain("KHA/et*",
        eta0=5, tau=3)``. 'auto' is KHA/et* with an eta0 and tau that follow from `n_passes` and
        from a start of its own. Should it diverge, the fit begins anew with a third of eta0.
    eigenvalue_updates : {'pass', 'iteration'}, default='iteration'
        When eigenvalues are estimated: before every pass, as mostly in the paper, or at every step,
        which is better in few passes and costs little more.
    init : array-like of shape (n_components, n_samples), default=None
        Coefficients to start from. None takes the components of at most max(1000, 2 r) samples with
        gain='auto'; with other gains it draws from N(0, 1 / (r tr K')), the paper's N(0, 1 / (r l))
        made independent of the scale of the kernel.
    memory_limit : float, default=2e9
        Bytes that the kernel matrix may take. Rows of a larger one are computed in every pass.
    n_passes, random_state, verbose
        As in :class:`akpca.GeneralizedHebbian`.
    callback : callable, default=None
        Called with a :class:`HebbianProgress` after every pass; a true answer ends the fit.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_samples)
        Coefficients of components that have norm 1 in feature space.
    eigenvalues_ : ndarray of shape (n_components,)
        Of the (centred) kernel matrix, by (20); at convergence those of :class:`akpca.KernelPCA`.
    coefficients_ : ndarray of shape (n_components, n_samples)
        A, as the algorithm has it.
    norms_ : ndarray of shape (n_components,)
        Norms of the components of A. Far from 1, more passes are needed.
    gain_ : Gain
        The gain that was used.
    n_samples_seen_, n_iter_, n_steps_ : int
        Number of samples; passes and steps made.
    X_fit_ : {ndarray, sparse matrix} of shape (n_samples, n_features), or operator
        What was fitted.
    kernel_, gamma_, preimage_
        As in :class:`akpca.KernelPCA`.

    Notes
    -----
    With gain='auto' the reconstruction error is a few per cent above its minimum after one pass,
    and a few tenths after ten. Components can stay in a wrong order, or mixed, when the gain has
    become too small to part them: `fit` warns if `eigenvalues_` show it, and a PCA of the codes, as
    in ``make_pipeline(KernelHebbian(r), PCA())``, mends it.

    See Also
    --------
    IncrementalKernelPCA : Nearly the exact components in one pass.
    GeneralizedHebbian : The algorithm without a kernel.
    KernelPCA : The components in closed form.

    References
    ----------
    Kim, Franz and Schölkopf, "Iterative kernel principal component analysis for image modeling",
    IEEE TPAMI 27(9), 2005. Günter, Schraudolph and Vishwanathan, "Fast iterative kernel principal
    component analysis", JMLR 8, 2007.

    Examples
    --------
    >>> from akpca import KernelHebbian, KernelPCA, load_dataset
    >>> X = load_dataset("circles").X
    >>> model = KernelHebbian(2, gamma=1, n_passes=50, random_state=0).fit(X)
    >>> exact = KernelPCA(2, kernel="rbf", gamma=1).fit(X)
    >>> bool(abs(model.eigenvalues_ / exact.eigenvalues_ - 1).max() < 0.01)
    True
    """

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's convention)
        **KERNEL_CONSTRAINTS,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "gain": [Gain, str],
        "eigenvalue_updates": [StrOptions({"pass", "iteration"})],
        "init": ["array-like", None],
        "memory_limit": [Interval(Real, 0, None, closed="left")],
        "n_passes": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "callback": [callable, None],
    }

    @moved(
        {
            "warm_start": "give more n_passes, or the coefficients_ of another fit as init",
            "block_size": "the number of steps in a block changes rounding only",
        }
    )
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
        eigenvalue_updates="iteration",
        init=None,
        memory_limit=2e9,
        n_passes=10,
        preimage=None,
        random_state=None,
        verbose=False,
        callback=None,
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
        self.eigenvalue_updates = eigenvalue_updates
        self.init = init
        self.memory_limit = memory_limit
        self.n_passes = n_passes
        self.preimage = preimage
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    @fit_method
    def fit(self, X, y=None) -> KernelHebbian:
        """Make `n_passes` passes over X; return self, as :class:`akpca.GeneralizedHebbian` does.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            With kernel='precomputed' the kernel matrix, or an operator that stands for it.
        y : Ignored
        """
        gain = check_gain(self.gain)
        operator, *encoding = self._make_operator(X)  # points and a shift
        n, auto, rng = operator.shape[0], gain is None, check_random_state(self.random_state)
        A, AK, order, limit = self._start(operator, rng, auto)
        gain = safe_gain(operator, A, AK, self.n_passes) if auto else gain
        state = start_state(operator, A, gain, AK=AK)
        size = 96 if self.n_components <= 32 else 128  # the same steps, but for rounding
        every_step = self.eigenvalue_updates == "iteration"
        options = {"block_size": size, "every_step": every_step, "limit": limit}
        total, retreats = -(-n // size) * self.n_passes, 0
        try:
            with progress_bar(shown=self.verbose, total=total, desc="blocks") as bar:
                while state.t < n * self.n_passes:
                    try:  # an interrupt leaves the state after the last whole block
                        for after in run_pass(operator, state, gain, order, **options):
                            state = after
                            bar.update()
                    except DivergenceError as error:
                        if not auto or retreats == RETREATS:
                            advice = f"give a smaller eta0, as {float(f'{gain.eta0 / 5:.0e}'):g}"
                            advice += f", or a smaller mu than {gain.mu:g}" if gain.mu else ""
                            problem = f"{gain!r} {error}: it is too large for these data"
                            raise DivergenceError(f"{problem}; {advice}") from None
                        retreats, gain = retreats + 1, replace(gain, eta0=gain.eta0 / RETREAT)
                        state = start_state(operator, A, gain, AK=AK)
                        bar.reset()
                        continue
                    order = rng.permutation(n)
                    if self.callback is not None:  # whose errors are its own
                        self._publish(operator, *encoding, gain, state)
                        if self.callback(self._report(gain, state)):
                            break
        except KeyboardInterrupt:
            if state.t == 0:  # nothing has been learned
                raise
            warn_interrupted(f"after {state.t // n} passes, {state.t} steps")
        self._publish(operator, *encoding, gain, state)
        self._warn_of_failure()
        self._set_code(self._code)
        return self

    def fit_transform(self, X, y=None, **params) -> np.ndarray:
        """Fit to X, as `fit` does, and return its codes, which costs nothing more."""
        return self.fit(X, **params)._code.codes.copy()

    def _make_operator(self, X):
        """Return K', in memory if it may be, and what encodes new samples: points and a shift."""
        if isinstance(X, LinearOperator):
            points = self._check_operator(X)
            self.X_fit_ = X if points is None else points
            return X, points, None
        X = self.X_fit_ = self._validate(X, copy=True)  # the caller's may change
        kernel = self._resolve_kernel(X)
        if self.kernel == "precomputed":
            K = X.toarray() if sparse.issparse(X) else X.copy()  # to be centred in place
            return MatrixOperator.precomputed(K, center=self.center), None, None
        shift = self._best_origin(X)
        points = relative_to(shift, X)
        with np.errstate(all="ignore"):  # what overflows is reported by the check
            if X.dtype.itemsize * X.shape[0] ** 2 > self.memory_limit:
                operator = KernelOperator(points, kernel, center=self.center, verbose=self.verbose)
            else:
                K = check_finite(kernel.matrix(points), kernel)
                operator = MatrixOperator(K, center=self.center)
        return operator, points, shift

    def _start(self, operator, rng, auto):
        """Return coefficients A of a start, A K' if auto, an order and `kernel_block`'s limit."""
        r, n = shape = self.n_components, operator.shape[0]
        if r > n:
            raise ValueError(f"n_components={r} must not be larger than the number of samples, {n}")
        trace, limits, AK = operator.trace(), np.finfo(operator.dtype), None
        total = float(np.abs(operator.means()).sum(dtype=np.float64)) if operator.center else 0.0
        varies = abs(trace) > ROUNDING * limits.eps * total
        high = (
            np.sqrt(limits.max / n) / 100
        )  # squares of more overflow, of less than 1 / that vanish
        if trace > 0 and varies and not 1 / high <= trace / n <= high:
            allowed = f"allowed in {operator.dtype} are {1 / high:.0e} to {high:.0e}"
            text = f"the kernel on X has a mean k(x, x) of {trace / n:.2g}; {allowed}"
            raise ValueError(f"{text}: scale the data or the kernel")
        if self.init is None:
            A = rng.standard_normal(shape) / np.sqrt(r * (max(trace, 0) or float(n)))
        else:
            A = check_array(self.init, dtype=operator.dtype, copy=True, input_name="init")
            if A.shape != shape:
                raise ValueError(f"init must have shape {shape}, got {A.shape}")
        A, order = np.ascontiguousarray(A, operator.dtype), rng.permutation(n)
        if not varies:
            A = np.zeros_like(A)  # no variance, no direction: zeros stay zeros
        elif auto and self.init is None:
            count = max(2 * r, min(max(START_FACTOR * r, START_LEAST), START_MOST))
            found, AK = sampled_start(operator, r, order[:count])
            A[: len(found)] = found
        if auto and (AK is None or len(AK) < r):
            AK = (operator @ A.T).T
        # the largest y^2 / k'(x, x) of some samples is a squared length to begin with
        some = order[:BLOCK_ROWS]
        rows = operator.rows(some)
        size = max(rows[np.arange(len(some)), some].max(), limits.tiny)
        limit = RUNAWAY * max(1.0, float(np.max((A @ rows.T) ** 2) / size))
        return A, AK, order, limit

    def _warn_of_failure(self) -> None:
        norms, values = self.norms_, self.eigenvalues_
        wrong = np.flatnonzero(np.maximum.accumulate(values[::-1])[::-1] > RISE * values)
        if norms.max() > TOO_LONG:
            problem = f"components of norm {norms.max():.2g}, where 1 is right: {self.gain_!r} was"
            warn_user(f"{problem} too large at the start; give a smaller one, or a smaller init")
        elif len(wrong) and np.abs(norms - 1).max() <= RIGHT_LENGTH:
            problem = (
                f"component {wrong[0]} has a smaller eigenvalue than one after it: they are in"
            )
            advice = "another random_state, or a gain that is annealed later, may find them"
            warn_user(f"{problem} a wrong order, or mixed. A PCA of the codes sorts them; {advice}")

    def _report(self, gain: Gain, state: KernelState) -> HebbianProgress:
        rho, eigenvalues = refresh(state).small[:2]
        # eigenvalues that are not used are ones
        scale = float(gain(state.t, eigenvalues, self.n_samples_seen_)[0] * eigenvalues[0])
        parts = self.coefficients_, eigenvalues if gain.reciprocal else None, scale, rho.copy()
        return HebbianProgress(self.n_iter_, self.n_passes, None, self, *parts)

    def _publish(self, operator, points, shift, gain: Gain, state: KernelState) -> None:
        """Set the attributes to where the iteration stands."""
        A, AK, n = state.A, state.AK, operator.shape[0]
        AK = np.asarray(operator @ A.T if AK is None else AK.T, np.float64).T
        A64 = A.astype(np.float64)
        norms, sizes = np.sqrt(np.maximum(np.sum(AK * A64, axis=1), 0)), np.sum(A64**2, axis=1)
        values = np.sqrt(np.sum(AK**2, axis=1) / np.where(sizes > 0, sizes, 1))
        # a component without variance has no direction: code 0
        scale = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
        self.gain_, self.norms_, self.coefficients_ = gain, norms, A.copy()
        self.eigenvalues_ = values.astype(A.dtype)
        self.components_ = (scale[:, None] * A64).astype(A.dtype)
        self.n_iter_, self.n_steps_, self.n_samples_seen_ = state.t // n, state.t, n
        # sum_p A_ip (phi(x_p) - mean) = sum_p weights_pi phi(x_p), and its part along the mean
        weights, offset, more = self.components_.T, np.zeros(len(A), A.dtype), {}
        if operator.center:
            means = operator.means().astype(A.dtype)
            weights = weights - weights.mean(axis=0)
            offset = means @ weights
            mean_square = float(means.mean(dtype=np.float64))
            more = {"mean_weights": np.full(n, 1 / n), "mean_square": mean_square, "means": means}
        more["codes"] = (scale[:, None] * AK).T.astype(A.dtype)
        more["targets"] = self.X_fit_ if isinstance(points, np.ndarray) else None
        self._code = KernelCode(self.kernel_, points, weights, offset, shift=shift, **more)
        self._decoder = None
