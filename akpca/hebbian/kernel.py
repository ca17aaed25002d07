"""The kernel Hebbian algorithm: kernel PCA one sample at a time, in O(r l) memory.

A component is v_i = sum_p A_ip phi'(x_p), with coefficients A of shape (r, l). Every step sees one
sample and changes A as the generalised Hebbian algorithm would change the components in feature
space. This module has the state of the iteration, blocks of steps and passes, a start and a gain
that need no tuning, trial runs that tune the paper's gains, a whole run, and the estimator.

Notation and equation numbers: Günter, Schraudolph and Vishwanathan, JMLR 8, 2007.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from numbers import Integral, Real

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.utils import check_array, check_random_state, gen_batches

from ..fitting import Interval, StrOptions, fit_method
from ..kernel_code import KernelCode
from ..kernel_estimator import KERNEL_CONSTRAINTS, KernelEstimator
from ..kernels import BLOCK_ROWS, check_finite
from ..operators import KernelOperator, MatrixOperator
from ..progress import FitProgress, progress_bar, warn_interrupted, warn_user
from ..threads import matmul, one_blas_thread
from .gains import AUTO, Factor, Gain, make_gain, named_gain
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

__all__ = [
    "HebbianProgress",
    "KernelHebbian",
    "KernelState",
    "Run",
    "Trials",
    "check_scale",
    "descend",
    "kernel_block",
    "kernel_reconstruction_error",
    "ladder",
    "refresh",
    "run_pass",
    "safe_gain",
    "sampled_start",
    "start_state",
]

# Norm of a component at the end, where 1 is right, that is a failure.
TOO_LONG = 2.0
# Norms this near to 1 say that an iteration has converged, and eigenvalues that rise by more than
# this factor that it has not: it stays near components in a wrong order, which a gain that has
# fallen can't leave.
RIGHT_LENGTH, RISE = 0.05, 1.02
# Samples whose components are a start: so many times as many as components, within these bounds.
START_FACTOR, START_LEAST, START_MOST = 20, 100, 1000
# eta0 tau / l of a safe gain, in units of sqrt(passes). With 1, and after many steps, it would be
# that of a running mean, l / (lambda_i t); a longer run can forget more of its beginning.
FORGETTING = 3.0
# Steps of a trial run of auto-tuning: at least so many, or a part of the samples; and how many
# samples it is judged by.
TRIAL_STEPS, TRIAL_PART, PROBES = 1000, 0.02, 256
# Values tried are 5, 2 and 1 times powers of ten, from 500 downwards, where the kernel has k'(x, x)
# of about 1: gains other than KHA/et* and KHA/e are as large as the kernel is small.
LARGEST, DECADES = 500.0, 14
# A tuned run that has diverged this many times goes on without meta-descent.
MU_RETREATS = 5


@dataclass(frozen=True)
class KernelState:
    """Where a kernel Hebbian iteration stands. Immutable as a whole: a block makes a new one."""

    S: np.ndarray  # (r, l), coefficients A; with meta-descent (2 r, l), B below
    AK: np.ndarray | None  # (r, l), A K', if the gain needs eigenvalues
    small: SmallState
    t: int = 0  # steps made

    @property
    def A(self) -> np.ndarray:
        """Coefficients of the components, shape (r, l)."""
        return self.S[: len(self.small.rho)]


def start_state(
    operator, A: np.ndarray, gain: Gain, *, every_step: bool = False, track: bool = False, AK=None
) -> KernelState:
    """Return the state with the coefficients A before the first step: Algorithm 1, step 1.

    The operator stands for K'. `every_step` tells to estimate eigenvalues at every step, `track` to
    keep A K' A^T also where the gain does not need it; AK is A K', if it is known.
    """
    A = np.ascontiguousarray(A, dtype=operator.dtype)
    r, keeps_gram = len(A), gain.adapts or track
    S = np.concatenate([A, np.zeros_like(A)]) if gain.adapts else A
    small = SmallState(np.zeros(r), np.ones(r))
    if gain.uses_eigenvalues or keeps_gram:
        AK = np.ascontiguousarray((operator @ A.T).T if AK is None else AK, dtype=operator.dtype)
    if keeps_gram:
        gram = (AK @ A.T).astype(np.float64)
        small = small._replace(gram=np.ascontiguousarray((gram + gram.T) / 2))
    if gain.adapts:
        small = small._replace(cross=np.zeros((r, r)))
    state = KernelState(S, AK if gain.uses_eigenvalues else None, small)
    return refresh(state, gain, every_step=every_step)


def refresh(state: KernelState, gain: Gain, *, every_step: bool) -> KernelState:
    """Return the state with eigenvalues (20), and what follows them, from its large arrays."""
    if not gain.uses_eigenvalues:
        return state
    C, R = (state.A @ state.A.T).astype(np.float64), (state.AK @ state.AK.T).astype(np.float64)
    small = state.small._replace(eigenvalues=estimated_eigenvalues(R, C))
    kept = {"C": C, "R": R} if every_step else {"C": NONE, "R": NONE}
    return replace(state, small=small._replace(**kept))


def kernel_block(
    operator, state: KernelState, gain: Gain, indices: np.ndarray, limit: float = np.inf
) -> KernelState:
    """Return the state after one step for each of some distinct samples, in order.

    If ||y||^2 exceeds `limit` times k'(x, x), a DivergenceError is raised; the caller still has the
    last good state.
    """
    rows, small, extra = operator.rows(indices), state.small, ()
    t, AK, dtype = state.t + len(indices), state.AK, operator.dtype
    rates = gain.rates(np.arange(state.t + 1, t + 1), small.eigenvalues, operator.shape[0])
    with np.errstate(all="ignore"):  # what overflows is found as soon as it is in an output
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

    Eigenvalues are estimated at every step, or otherwise once, here. The limit is that of
    `kernel_block`.
    """
    state = refresh(state, gain, every_step=every_step)
    samples = getattr(operator, "X", None)  # from which rows are computed
    width = len(state.S) + (0 if samples is None else samples.shape[1])
    with one_blas_thread(2 * block_size * operator.shape[0] * width):
        for block in gen_batches(len(order), block_size):
            state = kernel_block(operator, state, gain, order[block], limit)
            yield state


def kernel_reconstruction_error(operator, A: np.ndarray) -> float:
    """Return ||K' - (A K')^T A K'||_F, the reconstruction error (38), in two products with K'.

    Parameters
    ----------
    operator : operator of :mod:`akpca.operators`
        K', which is not formed. Its Frobenius norm costs a third sweep.
    A : array-like of shape (r, l)
    """
    A, n = np.asarray(A), operator.shape[0]
    if A.ndim != 2 or A.shape[1] != n:
        raise ValueError(f"A must have shape (r, {n}), got {A.shape}")
    Y = operator @ A.T
    YK = operator @ Y
    Y, YK = Y.astype(np.float64), YK.astype(np.float64)
    square = operator.frobenius_norm() ** 2 - 2 * np.sum(Y * YK) + np.sum((Y.T @ Y) ** 2)
    return float(np.sqrt(max(square, 0.0)))


def check_scale(scale: float, n: int, dtype) -> None:
    """Raise ValueError if squares of K', whose mean k'(x, x) is `scale`, vanish or overflow."""
    limit = np.sqrt(np.finfo(dtype).max / n) / 100
    if scale > 0 and not 1 / limit <= scale <= limit:
        allowed = f"allowed in {dtype} are {1 / limit:.0e} to {limit:.0e}"
        text = f"the kernel on X has a mean k(x, x) of {scale:.2g}; {allowed}"
        raise ValueError(f"{text}: scale the data or the kernel")


def sampled_start(operator, r: int, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients of the components of some samples, shape (k, l), and their A K'.

    They are in the order of what they explain of *all* samples: two components in a wrong order
    have to pass through one another, and that takes more steps than all the rest. k is less than r
    if the samples have fewer directions.
    """
    m, blocks = len(some), list(gen_batches(len(some), BLOCK_ROWS))  # not to hold all rows
    own = np.vstack([operator.rows(some[b])[:, some] for b in blocks]).astype(np.float64)
    values, U = linalg.eigh((own + own.T) / 2, subset_by_index=(max(m - r, 0), m - 1))
    noise = ROUNDING * np.sqrt(m) * np.finfo(operator.dtype).eps * operator.diagonal().max()
    C = (U[:, values > noise] / np.sqrt(values[values > noise])).T
    AK = np.zeros((len(C), operator.shape[0]))
    for b in blocks:
        AK += matmul(C[:, b], operator.rows(some[b]).astype(np.float64))
    if len(C):
        V = linalg.eigh(AK @ AK.T)[1][:, ::-1]
        C, AK = V.T @ C, V.T @ AK
    A = np.zeros(AK.shape, operator.dtype)
    A[:, some] = C
    return A, AK.astype(operator.dtype)


def safe_gain(operator, A: np.ndarray, AK: np.ndarray, n_passes: int) -> Gain:
    """Return KHA/et* (19) with an eta0 and tau that follow from the start A and the passes to come.

    Squared errors shrink, on average over samples, while eta_i E ||y||^4 < 2 E ||y||^2, and
    ||y||^2 is at most k'(x, x) where components are orthonormal. A quarter of that is allowed to
    the component with the smallest eigenvalue (20).
    """
    sizes = np.sum(A.astype(np.float64) ** 2, axis=1)
    squares = np.sum(AK.astype(np.float64) ** 2, axis=1)
    used, norms = (sizes > 0) & (squares > 0), operator.diagonal().astype(np.float64)
    eta0 = 1.0
    if used.any() and norms.any():
        smallest = float(np.sqrt(np.min(squares[used] / sizes[used])))
        eta0 = smallest * float(np.abs(norms).sum() / np.sum(norms**2)) / 2
    return make_gain("KHA/et*", eta0=eta0, tau=FORGETTING * np.sqrt(n_passes) / eta0)


class Trials:
    """Short runs from the same start A, whose A K' is known, with the options of `run_pass`.

    They see the first samples of the order and are judged by how near the last ones are to the span
    found.
    """

    def __init__(self, operator, A: np.ndarray, AK: np.ndarray, order: np.ndarray, options: dict):
        n = operator.shape[0]
        self.operator, self.A, self.AK, self.options = operator, A, AK, options
        self.order = order[: min(n, max(TRIAL_STEPS, int(TRIAL_PART * n)))]
        probes = order[-min(PROBES, n) :]
        self.rows = operator.rows(probes)
        self.sizes = self.rows[np.arange(len(probes)), probes].astype(np.float64)

    def tune(self, gain: Gain, scale: float) -> Gain:
        """Return the gain with the best eta0, then mu: Algorithm 2, improved.

        The paper takes the largest value that does not diverge. That is at the edge of what works,
        so values below it are tried as long as the error gets smaller. `scale` is the mean of
        k'(x, x).
        """
        plain = gain.without_adaptation().with_values(eta0=1.0)
        top = LARGEST / scale if scale > 0 else LARGEST
        if gain.eta0 == AUTO:
            free = gain.uses_eigenvalues and not gain.normalises
            values = ladder(LARGEST if free else top)
            best = descend(lambda eta0: self.error(plain.with_values(eta0=eta0)), values)
            gain = gain.with_values(eta0=best)
        if gain.mu == AUTO:
            still = self.error(plain.with_values(eta0=gain.eta0))
            best = descend(lambda mu: self.error(gain.with_values(mu=mu)), ladder(top), worst=still)
            gain = gain.with_values(mu=best)
        return gain

    def error(self, gain: Gain) -> float:
        """Return the mean squared distance of the probes to the span found; inf if it diverged."""
        state = start_state(self.operator, self.A, gain, track=True, AK=self.AK)
        try:
            blocks = run_pass(self.operator, state, gain, self.order, **self.options)
            state = deque(blocks, maxlen=1).pop()  # the last
        except DivergenceError:
            return np.inf
        # ||phi' - V V^T phi'||^2 with components V that need not be orthonormal yet
        with np.errstate(over="ignore", invalid="ignore"):  # of a run that is about to diverge
            Y = (self.rows @ state.A.T).astype(np.float64)
            squares = np.sum(Y @ state.small.gram * Y, axis=1) - 2 * np.sum(Y**2, axis=1)
            error = float(np.mean(self.sizes + squares))
        return error if np.isfinite(error) else np.inf


def ladder(top: float) -> Iterator[float]:
    """Yield the numbers {5, 2, 1} 10^b that are at most `top`, in descending order."""
    exponent = int(np.floor(np.log10(top)))
    for b in range(exponent, exponent - DECADES, -1):
        for a in (5, 2, 1):
            value = float(f"{a}e{b}")
            if value <= top * (1 + 1e-9):
                yield value


def descend(error: Callable[[float], float], values: Iterator[float], worst=np.inf) -> float:
    """Return the value after which two smaller ones in a row were no better.

    `worst` is the error of the value 0, which is returned if nothing is better.
    """
    best, smallest, failures = 0.0, worst, 0
    for value in values:
        result = error(value)
        if result < smallest:
            best, smallest, failures = value, result, 0
        elif np.isfinite(result):
            failures += 1
        if failures == 2:
            break
    return best if best or np.isfinite(worst) else value


@dataclass
class Run:
    """A kernel Hebbian iteration: how it goes, where it started and where it stands."""

    asked: Gain  # as it was asked for, where values may be "auto"
    gain: Gain  # as it is used
    start: np.ndarray  # (r, l), coefficients before the first step
    rng: np.random.RandomState  # draws the orders of the samples
    rng_state: tuple  # of `rng` after the first of them
    order: np.ndarray  # (l,), of the samples in the next pass
    means: np.ndarray | None  # (l,), row means of the plain kernel matrix, if it is centred
    state: KernelState
    options: dict  # block_size, every_step and limit of `run_pass`
    n_passes: int = 0  # made so far
    retreats: int = 0  # how often it was started again with a smaller gain

    @classmethod
    def begin(cls, operator, A, gain, rng, *, n_passes: int, **options) -> Run:
        """Return the run before its first step, with its gain chosen or tuned.

        A are the coefficients to start from, or r if there are none; the options are those of
        `run_pass` but for the limit.
        """
        safe, drawn, AK = isinstance(gain, str) and gain == AUTO, isinstance(A, Integral), None
        n, trace = operator.shape[0], operator.trace()
        check_scale(trace / n, n, operator.dtype)
        means = operator.means().astype(operator.dtype) if operator.center else None
        if drawn:
            A = rng.standard_normal((A, n)) / np.sqrt(A * (max(trace, 0) or float(n)))
        A = np.ascontiguousarray(A, operator.dtype)
        order = rng.permutation(n)
        total = 0.0 if means is None else float(np.abs(means).sum(dtype=np.float64))
        if abs(trace) <= ROUNDING * np.finfo(operator.dtype).eps * total:
            A = np.zeros_like(A)  # no variance, no direction: zeros stay zeros
        elif drawn and safe:
            count = max(2 * len(A), min(max(START_FACTOR * len(A), START_LEAST), START_MOST))
            found, AK = sampled_start(operator, len(A), order[:count])
            A[: len(found)] = found
            AK = AK if len(AK) == len(A) else None
        # the largest y^2 / k'(x, x) of some samples is a squared length to begin with
        some = order[:BLOCK_ROWS]
        rows = operator.rows(some)
        size = max(rows[np.arange(len(some)), some].max(), np.finfo(operator.dtype).tiny)
        options["limit"] = RUNAWAY * max(1.0, float(np.max(matmul(A, rows.T) ** 2) / size))
        asked = gain = make_gain("KHA/et*") if safe else named_gain(gain)
        tuned = AUTO in (gain.eta0, gain.mu)
        if AK is None and (tuned or gain.uses_eigenvalues or gain.adapts):
            AK = (operator @ A.T).T
        if safe:
            gain = safe_gain(operator, A, AK, n_passes)
        elif tuned:
            gain = Trials(operator, A, AK, order, options).tune(gain, trace / n)
        state = start_state(operator, A, gain, AK=AK)
        return cls(asked, gain, A, rng, rng.get_state(), order, means, state, options)

    def one_pass(self, operator, bar, last: int) -> None:
        """Make a pass. An interrupt leaves the state after the last whole block."""
        for state in run_pass(operator, self.state, self.gain, self.order, **self.options):
            self.state = state
            bar.update()
        if self.n_passes + 1 == last:
            self.check_length()
        # at once, so that no interrupt comes in between
        self.__dict__.update(
            n_passes=self.n_passes + 1, order=self.rng.permutation(operator.shape[0])
        )

    def check_length(self) -> None:
        """Raise DivergenceError if components are far too long, where a tuned gain is to blame."""
        AK = self.state.AK
        if AK is not None and AUTO in (self.asked.eta0, self.asked.mu):
            if np.sum(AK * self.state.A, axis=1).max() > TOO_LONG**2:
                raise DivergenceError("components far too long")

    def retreat(self, operator, error: DivergenceError, n_passes: int) -> None:
        """Start again with smaller values, after trial runs that were too short to show it.

        A gain that was not to be tuned, or that can't get smaller, raises a DivergenceError.
        """
        asked, gain = self.asked, self.gain
        if AUTO not in (asked.eta0, asked.mu):
            text = f"{gain!r} {error} of {n_passes} passes: the gain is too large for these data; "
            text += f"give a smaller eta0, such as {next(ladder(gain.eta0 / 5)):g}, or eta0='auto'"
            text += f"; or a smaller mu than {gain.mu:g}" if gain.mu else ""
            raise DivergenceError(text) from None
        self.retreats += 1
        if asked.mu == AUTO and gain.mu > 0:
            # after a few attempts it is not worth more time
            smaller = next(ladder(0.9 * gain.mu)) if self.retreats < MU_RETREATS else 0.0
            gain = gain.with_values(mu=smaller)
        elif asked.eta0 == AUTO:
            gain = gain.with_values(eta0=next(ladder(0.9 * gain.eta0)))
        if gain == self.gain or self.retreats > 3 * DECADES:
            raise DivergenceError(
                f"{self.gain!r} diverges, and no smaller gain may be tried: scale the data"
            ) from None
        state = start_state(operator, self.start, gain)
        self.rng.set_state(self.rng_state)
        order = self.rng.permutation(operator.shape[0])
        self.__dict__.update(gain=gain, n_passes=0, state=state, order=order)  # at once, as above


@dataclass(frozen=True)
class HebbianProgress(FitProgress):
    """What a callback sees after every pass of :class:`KernelHebbian`.

    Attributes
    ----------
    n_iter, n_iter_max, loss, model
        As in :class:`akpca.progress.FitProgress`; the model is not fitted with its `preimage`.
    coefficients : ndarray of shape (r, l)
        A, as the algorithm has it.
    eigenvalues : ndarray of shape (r,) or None
        Current estimates by (20), if the gain uses them.
    gain : ndarray of shape (r,)
        The gain of every component at the end of the pass.
    gain_scale : float
        The gain without the division by the eigenvalue: eta-hat of (23).
    log_gain : ndarray of shape (r,)
        rho, what meta-descent has made of it; zeros without.
    """

    coefficients: np.ndarray
    eigenvalues: np.ndarray | None
    gain: np.ndarray
    gain_scale: float
    log_gain: np.ndarray


class KernelHebbian(KernelEstimator):
    """Kernel PCA by A <- A + diag(eta) [y e_p^T - lt(y y^T) A], y = A k'_p, sample after sample.

    The kernel Hebbian algorithm with any gain of :mod:`akpca.hebbian.gains`. Steps are made in
    blocks that give the same numbers as one step after the other, so that a pass costs little more
    than computing the kernel once. If the kernel matrix fits into memory,
    :class:`akpca.KernelPCA` is faster; this class is for following the algorithms, and for few
    passes over data that are too many for a kernel matrix.

    Parameters
    ----------
    n_components : int, default=2
        r, the number of components.
    kernel, gamma, degree, coef0, kernel_params, n_jobs, center, preimage
        As in :class:`akpca.KernelPCA`, with kernel='rbf' as default. With kernel='precomputed',
        `fit` also takes an operator of :mod:`akpca.operators` or :mod:`akpca.distributed`, which is
        used as it is (`center` is then its own).
    gain : Gain or str, default='auto'
        A product of factors, such as ``Constant(5) * Annealing(passes=3)``, or a name, such as
        "KHA-SMD*". Parameters that are "auto", as with a name, are tuned by short trial runs from
        the same start. 'auto' is KHA/et* with an eta0 and tau that follow from `n_passes` and from
        a start of its own.
    eigenvalue_updates : {'pass', 'iteration'}, default='iteration'
        When eigenvalues are estimated: before every pass, as in most of the paper's experiments, or
        at every step, which is better in few passes and costs little more.
    init : array-like of shape (n_components, n_samples), default=None
        Coefficients to start from. With gain='auto', None takes the components of some samples, 20
        r of them and at most 1000, or 2 r. With other gains it draws coefficients from
        N(0, 1 / (r tr K')), the paper's N(0, 1 / (r l)) made independent of the scale of the
        kernel.
    block_size : int, default=None
        Steps in a block. None is 96, or 128 for more than 32 components. The result does not
        depend on it, but for rounding.
    memory_limit : float, default=2e9
        Bytes that the kernel matrix may take. Rows of a larger one are computed in every pass.
    n_passes, warm_start, random_state, verbose
        As in :class:`akpca.GeneralizedHebbian`; a warm start needs the same data.
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
        Norms of the components that A stands for. Far from 1, more passes are needed.
    gain_ : Gain
        The gain that was used, with the parameters that were tuned.
    n_samples_seen_, n_iter_, n_steps_ : int
        Number of samples; passes and steps made, those before a warm start included.
    X_fit_ : {ndarray, sparse matrix} of shape (n_samples, n_features), or operator
        What was fitted.
    kernel_, gamma_, preimage_, n_features_in_, feature_names_in_
        As in :class:`akpca.KernelPCA`.

    Notes
    -----
    One pass is a beginning. A step may only be so large that the weakest component survives it, so
    that it takes many times tr K' / lambda_r samples to average over them. From the start of
    gain='auto', the reconstruction error is then a few per cent above its minimum, about one per
    cent after three passes and a few tenths after ten; from a random start, one pass over some
    thousand samples leaves it tens of per cent above. Where the smallest eigenvalue is tiny beside
    the largest k(x, x), steps must be so small that little more than the start is found.
    :class:`akpca.IncrementalKernelPCA` needs one pass, and no gain.

    Components can stay near a wrong order, or mixed with each other, when the gain has become too
    small to part them. If `eigenvalues_` show it, `fit` warns. A PCA of the codes, such as in
    ``make_pipeline(KernelHebbian(r), PCA())``, gives the best components in the span that was
    found, in order; `coefficients_` and `components_` stay those of the algorithm.

    See Also
    --------
    IncrementalKernelPCA : Nearly the exact components in one pass.
    KernelStream : The same for samples that come once, with a budget of points.
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
        "gain": [Gain, Factor, str],
        "eigenvalue_updates": [StrOptions({"pass", "iteration"})],
        "init": ["array-like", None],
        "block_size": [Interval(Integral, 1, None, closed="left"), None],
        "memory_limit": [Interval(Real, 0, None, closed="left")],
        "n_passes": [Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "callback": [callable, None],
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
        eigenvalue_updates="iteration",
        init=None,
        block_size=None,
        memory_limit=2e9,
        n_passes=10,
        warm_start=False,
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
        self.block_size = block_size
        self.memory_limit = memory_limit
        self.n_passes = n_passes
        self.warm_start = warm_start
        self.preimage = preimage
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    @fit_method
    def fit(self, X, y=None) -> KernelHebbian:
        """Make `n_passes` passes over X.

        An interrupt (Ctrl-C) ends the fit with a warning and keeps what was reached; before the
        first steps, as while a gain is tuned, it is raised and leaves the estimator as it was. So
        does a :class:`akpca.DivergenceError`, which says that a gain is too large.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            With kernel='precomputed' the kernel matrix, or an operator that stands for it.
        y : Ignored

        Returns
        -------
        self : object
        """
        operator, points = self._make_operator(X)
        run = self._begin(operator)
        try:
            self._iterate(operator, points, run)
        except KeyboardInterrupt:
            if run.state.t == 0:  # nothing has been learned
                raise
            warn_interrupted(f"after {run.n_passes} passes, {run.state.t} steps")
        code = self._publish(operator, points, run)
        self._warn_of_failure()
        self._set_code(code)
        return self

    def fit_transform(self, X, y=None, **params) -> np.ndarray:
        """Fit to X, as `fit` does, and return its codes, which costs nothing more."""
        return self.fit(X, **params)._code.codes.copy()

    def _make_operator(self, X):
        """Return K', in memory if it may be, and the points by which new samples are encoded."""
        if isinstance(X, LinearOperator):
            points = self._check_operator(X)
            self.X_fit_ = X if points is None else points
            return X, points
        X = self.X_fit_ = self._validate(X, copy=True)  # the caller's may change
        kernel = self._resolve_kernel(X.shape[1])
        if self.kernel == "precomputed":
            K = X.toarray() if sparse.issparse(X) else X.copy()  # to be centred in place
            return MatrixOperator.precomputed(K, center=self.center), None
        if X.dtype.itemsize * X.shape[0] ** 2 > self.memory_limit:
            return KernelOperator(X, kernel, center=self.center), X
        with np.errstate(all="ignore"):  # what overflows is reported by the check
            K = check_finite(kernel(X), kernel)
        return MatrixOperator(K, center=self.center), X

    def _begin(self, operator) -> Run:
        """Return a new run, or the last one to go on with."""
        r, n = shape = self.n_components, operator.shape[0]
        if r > n:
            raise ValueError(f"n_components={r} must not be larger than the number of samples, {n}")
        options = {
            "block_size": self.block_size or (96 if r <= 32 else 128),
            "every_step": self.eigenvalue_updates == "iteration",
        }
        if self.warm_start and hasattr(self, "_run"):
            if self._run.start.shape != shape:
                before = "{1} samples and {0} components".format(*self._run.start.shape)
                text = "warm_start=True needs the data and n_components of the last fit"
                raise ValueError(f"{text}: {before}, got {n} and {r}")
            options = {**self._run.options, **options}
            return replace(self._run, rng=deepcopy(self._run.rng), options=options)
        A = r
        if self.init is not None:
            A = check_array(self.init, dtype=operator.dtype, copy=True, input_name="init")
            if A.shape != shape:
                raise ValueError(f"init must have shape {shape}, got {A.shape}")
        rng = check_random_state(self.random_state)
        return Run.begin(operator, A, self.gain, rng, n_passes=self.n_passes, **options)

    def _iterate(self, operator, points, run: Run):
        n_blocks = -(-operator.shape[0] // run.options["block_size"])
        last, stop, quiet = run.n_passes + self.n_passes, False, not self.verbose
        name = "" if quiet else run.gain.name
        options = {"total": n_blocks * self.n_passes, "desc": name, "unit": "block"}
        with progress_bar(shown=not quiet, **options) as bar:
            while run.n_passes < last and not stop:
                try:
                    run.one_pass(operator, bar, last)
                except DivergenceError as error:
                    run.retreat(operator, error, self.n_passes)
                    last = self.n_passes
                    bar.reset()
                    continue
                if self.callback is not None:  # whose errors are its own, also a DivergenceError
                    self._code, self._decoder = self._publish(operator, points, run), None
                    stop = self.callback(self._report(run, last))

    def _warn_of_failure(self) -> None:
        norms, values = self.norms_, self.eigenvalues_
        later = np.maximum.accumulate(values[::-1])[::-1]
        wrong = np.flatnonzero(later > RISE * values)
        if norms.max() > TOO_LONG:
            text = f"components of norm {norms.max():.2g}, where 1 is right: {self.gain_!r}"
            warn_user(f"{text} was too large at the start; give a smaller one, or a smaller init")
        elif len(wrong) and np.abs(norms - 1).max() <= RIGHT_LENGTH:
            warn_user(
                f"component {wrong[0]} has a smaller eigenvalue than one after it: they are in a "
                "wrong order, or mixed. A PCA of the codes sorts them; another random_state, or a "
                "gain that is annealed later, may find them"
            )

    def _report(self, run: Run, last: int) -> HebbianProgress:
        state, gain = refresh(run.state, run.gain, every_step=False), run.gain
        rho, eigenvalues = state.small[:2]  # eigenvalues that are not used are ones
        values = gain(state.t, eigenvalues, len(run.order))
        scale = float(values[0] * eigenvalues[0])
        found = eigenvalues if gain.uses_eigenvalues else None
        parts = self.coefficients_, found, values * np.exp(rho), scale, rho.copy()
        return HebbianProgress(run.n_passes, last, None, self, *parts)

    def _publish(self, operator, points, run: Run) -> KernelCode:
        """Set the attributes to where the run stands; return the code that belongs to them."""
        A, AK, n = run.state.A, run.state.AK, operator.shape[0]
        AK = np.asarray(operator @ A.T if AK is None else AK.T, np.float64).T
        A64 = A.astype(np.float64)
        norms = np.sqrt(np.maximum(np.sum(AK * A64, axis=1), 0))
        sizes = np.sum(A64**2, axis=1)
        values = np.sqrt(np.sum(AK**2, axis=1) / np.where(sizes > 0, sizes, 1))
        # a component without variance has no direction: code 0
        scale = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
        self._run, self.gain_, self.norms_, self.coefficients_ = run, run.gain, norms, A.copy()
        self.eigenvalues_ = values.astype(A.dtype)
        self.components_ = (scale[:, None] * A64).astype(A.dtype)
        self.n_iter_, self.n_steps_, self.n_samples_seen_ = run.n_passes, run.state.t, n
        # sum_p A_ip (phi(x_p) - mean) = sum_p weights_pi phi(x_p), and its part along the mean
        weights, offset, more = self.components_.T, np.zeros(len(A), A.dtype), {}
        if (means := run.means) is not None:
            weights = weights - weights.mean(axis=0)
            offset = means @ weights
            mean_square = float(means.mean(dtype=np.float64))
            more = {"mean_weights": np.full(n, 1 / n), "mean_square": mean_square, "means": means}
        more["codes"] = (scale[:, None] * AK).T.astype(A.dtype)
        more["targets"] = points if isinstance(points, np.ndarray) else None
        return KernelCode(self.kernel_, points, weights, offset, **more)
