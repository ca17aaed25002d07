"""Principal components of a stream: the generalised Hebbian algorithm and Oja's subspace rule.

A sample x makes one step of the r x d weights W, whose outputs are y = W x:

    W <- W + eta (y x^T - lt(y y^T) W)    Sanger's rule (7): rows become eigenvectors, in order
    W <- W + eta (y x^T -    y y^T  W)    Oja's rule (8): rows become a basis of their span

with the equation numbers of Günter, Schraudolph and Vishwanathan, JMLR 8, 2007; lt keeps the lower
triangle. Nothing is stored but W and a few sums, and no sample is needed twice. Steps are made in
exact blocks, see :mod:`akpca.hebbian.steps`.

With gain="auto", which needs no tuning, component i gets

    eta_i = 1 / max(sum_s (s / t)^p y_i(s)^2, ||x||^2, ||y||^2)

The sum is about t lambda_i / (p + 1), so eta_i falls with time, and components of small variance
learn as fast as the others (Chen and Chang, 1995, with p = 0). The forgetting power p lets go of
the outputs of early, wrong weights. The other terms bound what a single sample can do, be it the
first or an outlier. All terms scale with the data, so the result does not depend on their unit.

Steps are made with samples divided by a power of two near the largest value that has come. This
changes no digit, and squares of very small or large values neither vanish nor overflow.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from numbers import Integral
from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data

from ..fitting import FLOATS, Encoder, Interval, StrOptions, check_codes, fit_method
from ..kernels import BLOCK_ROWS
from ..progress import FitProgress, progress_bar, warn_interrupted
from ..threads import one_blas_thread
from .gains import AUTO, EigenvalueNorm, Factor, Gain, MetaDescent
from .steps import RUNAWAY, Block, DivergenceError, SmallState, hebbian_steps

__all__ = [
    "FORGETTING",
    "GeneralizedHebbian",
    "LinearState",
    "Track",
    "check_lengths",
    "checked_stream_gain",
    "linear_block",
    "tracked_steps",
    "unit_of",
]

# p above: gains of about 8 / (t lambda_i). Smaller ones separate close eigenvalues too slowly,
# larger ones follow every sample too far.
FORGETTING = 7
# The smallest power of two with all its digits.
TINY = float(np.finfo(np.float64).tiny)


class Track(NamedTuple):
    """What is kept of all outputs y: energy / weight is an unbiased estimate of their variance."""

    energy: np.ndarray  # (r,), sum_s (s / t)^p y(s)^2
    weight: float = 0.0  # of that sum
    t: int = 0  # steps made


@dataclass(frozen=True)
class LinearState:
    """Where a linear Hebbian iteration stands. Immutable as a whole: a block makes a new one."""

    weights: np.ndarray  # (r, d)
    track: Track
    total: np.ndarray  # (d,), sum of the samples behind the mean
    n_samples: int = 0  # number of them
    unit: float = 1.0  # power of two by which samples are divided; `track` and `total` are in it

    def in_unit(self, unit: float) -> LinearState:
        """Return the state with a unit that is at least this one."""
        if unit <= self.unit:
            return self
        ratio = self.unit / unit
        track = self.track._replace(energy=self.track.energy * ratio**2)
        return replace(self, track=track, total=self.total * ratio, unit=unit)


def unit_of(X: np.ndarray) -> float:
    """Return a power of two near the largest absolute value of X; the smallest one for zeros."""
    largest = max(X.max(), -X.min())
    return float(np.ldexp(1.0, max(np.frexp(largest)[1] - 1, -1022))) if largest > 0 else TINY


def linear_block(state: LinearState, X, gain: Gain | None, shares, lower=True, n_samples=None):
    """Return the state after `tracked_steps` for the rows of X, centred samples in its unit."""
    unit, scaled = state.unit, gain
    if gain is not None and not gain.uses_eigenvalues:  # an eta0 per square of the data
        eta0 = np.clip(gain.eta0 * unit * unit, TINY, np.finfo(np.float64).max)
        scaled = gain.with_values(eta0=float(eta0))
    flops = 2 * len(X) * X.shape[1] * (len(X) + len(state.weights))
    with one_blas_thread(flops), np.errstate(all="ignore"):  # what overflows is found right below
        block = Block.of(state.weights @ X.T, X @ X.T)
        Theta, C, track = tracked_steps(block, scaled, state.track, shares, lower, n_samples)
        weights = Theta @ state.weights + C @ X
        largest = block.sizes.max() * unit * unit
        check_lengths(np.sum(weights**2, axis=1), gain, track.t, largest)
    return replace(state, weights=weights, track=track)


def check_lengths(squares: np.ndarray, gain: Gain | None, t: int, largest: float) -> None:
    """Raise a DivergenceError if components, of these squared lengths, have run away by step t.

    `largest` is the largest ||x||^2 of the samples since the last check.
    """
    if squares.max() <= RUNAWAY:  # which is false if it is not a number
        return
    advice = "the squares of these values overflow; scale the data"
    if gain is not None:
        advice = f"samples here have ||x||^2 up to {largest:.3g}, and a step is safe "
        advice += "while gain * ||x||^2 < 1. Take a smaller eta0, or gain='auto'"
    problem = f"gain={gain or AUTO!r} is too large: the weights ran away by step {t}"
    raise DivergenceError(f"{problem}; {advice}")


def tracked_steps(
    block: Block, gain: Gain | None, track: Track, shares, lower=True, n_samples: int | None = None
) -> tuple[np.ndarray, np.ndarray, Track]:
    """Return Theta and W of a block as `hebbian_steps` does, and the track of outputs after it.

    The gain None is "auto". `shares` are the expected squares of the b samples, or of all, relative
    to the variance: 1 - 1/m if they are centred by the mean of m samples, 1 if not. `n_samples` is
    the number of steps in a pass, None in a stream.
    """
    energy, weight, t = track
    r, b = len(energy), len(block.sizes)
    steps, shares = t + 1 + np.arange(b), np.broadcast_to(shares, b)
    if gain is None or gain.uses_eigenvalues:
        schedule = None if gain is None else gain.schedule(steps, n_samples)
        with one_blas_thread():
            return _following_steps(block, schedule, track, steps, shares, lower)
    rates = gain.rates(steps, np.ones(r), n_samples)
    small = SmallState(np.zeros(r), np.ones(r))
    Theta, C, outputs, _ = hebbian_steps(block, rates, small, lower=lower)
    powers, decay = (steps / steps[-1]) ** FORGETTING, (t / steps[-1]) ** FORGETTING
    energy, weight = decay * energy + outputs**2 @ powers, decay * weight + shares @ powers
    return Theta, C, Track(energy, float(weight), t + b)


def _following_steps(block, schedule, track, steps, shares, lower):
    """Make the steps with gains that follow the outputs from step to step.

    eta_i = schedule / lambda_i with lambda_i = energy_i / weight, or for "auto", which has no
    schedule, 1 / energy_i, but at most 1 / max(||x||^2, ||y||^2).
    """
    energy, weight, t = track
    r, b = len(energy), len(block.sizes)
    decays = ((steps - 1) / steps) ** FORGETTING
    triangle = np.tril(np.ones((r, r))) if lower else np.ones((r, r))
    M = np.zeros((r, r + b))
    np.fill_diagonal(M, 1)
    for j in range(b):
        y = M.dot(block.stack[j, 0])
        energy = decays[j] * energy + y * y
        weight = decays[j] * weight + shares[j]
        slowness = energy if lower else np.full(r, energy.mean())  # (8) has one gain for all
        if schedule is not None and weight > 0:
            slowness = slowness / (weight * schedule[j])
        slowness = np.maximum(slowness, max(block.sizes[j], y.dot(y)))
        # only a sample that is zero leaves no slowness, and it asks for no step
        w = np.divide(y, slowness, out=np.zeros(r), where=slowness > 0)
        M -= (w[:, None] * y * triangle).dot(M)
        M[:, r + j] = w
    return M[:, :r], M[:, r:], Track(energy, float(weight), t + b)


def checked_stream_gain(gain) -> Gain | None:
    """Return a gain that needs no kernel matrix, None for "auto"; raise ValueError for others."""
    if isinstance(gain, str):
        return None  # no other name than 'auto' passes the check of parameters
    gain = (gain if isinstance(gain, Gain) else Gain((gain,))).check()
    for kind in (EigenvalueNorm, MetaDescent):
        if gain.get(kind) is not None:
            raise ValueError(
                f"gain={gain!r} has a factor {kind.__name__}, which needs the kernel matrix of a "
                "fixed set of samples; allowed are Constant, Annealing and ReciprocalEigenvalues, "
                "or gain='auto'"
            )
    if gain.eta0 == AUTO:
        raise ValueError(f"gain={gain!r} needs a number as eta0; or take gain='auto'")
    return gain


class GeneralizedHebbian(Encoder):
    """PCA one sample at a time: W <- W + eta (y x^T - lt(y y^T) W) with y = W x.

    Parameters
    ----------
    n_components : int, default=2
        r, the number of components.
    rule : {'sanger', 'oja'}, default='sanger'
        'sanger' (7) finds the leading eigenvectors of the covariance matrix, in descending order
        of their eigenvalues; 'oja' (8), without lt, some orthonormal basis of their span.
    center : bool, default=True
        Subtract the mean.
    gain : 'auto' or Gain, default='auto'
        Size of the steps. 'auto' needs no tuning, see :mod:`akpca.hebbian.generalized`. Otherwise
        a product of `Constant(eta0)`, `Annealing` (with `iterations` in a stream) and
        `ReciprocalEigenvalues` of :mod:`akpca.hebbian.gains`. These eigenvalues are those of the
        covariance matrix (for 'oja' their mean), estimated from the outputs at every step, so that
        eta0 is a pure number below 1. As the first estimates are rough, the gain then stays below
        1 / max(||x||^2, ||y||^2).
    shuffle : bool, default=True
        Whether each pass of `fit` takes the samples in a new random order.
    block_size : int, default=64
        Steps made by one set of matrix products. It changes of the result only the rounding.
    n_passes : int, default=10
        Passes of `fit` over the data.
    warm_start : bool, default=False
        Go on from where the last `fit` ended, as if it had had more passes.
    random_state : int, RandomState instance or None, default=None
        Of the components at the start and of the order of samples.
    verbose : bool, default=False
        Show a progress bar.
    callback : callable, default=None
        Called with a :class:`akpca.progress.FitProgress` after every pass; true ends the fit.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Rows of W, scaled to unit norm; orthogonal only as far as the iteration has converged.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of the data along each component, with the n - 1 of
        :class:`sklearn.decomposition.PCA`, or the mean square if not centred. In a stream that of
        the outputs so far, of which the s-th of t counts (s / t)^7: mostly the last eighth.
    mean_ : ndarray of shape (n_features,)
        Mean of the samples; zeros if not centred.
    norms_ : ndarray of shape (n_components,)
        Norms of the rows of W, which the rule drives to 1. A norm far from 1 belongs to a
        component that has not converged or is beyond the rank of the data.
    n_samples_seen_ : int
        Samples behind `mean_`: those of the last `fit`, plus those of the stream since.
    n_iter_, n_steps_ : int
        Passes and steps made, those of earlier warm starts included. A stream counts as one pass.
    n_features_in_, feature_names_in_

    See Also
    --------
    KernelStream : The same in the feature space of a kernel.
    sklearn.decomposition.IncrementalPCA : PCA of a stream in large batches.

    References
    ----------
    Sanger, "Optimal unsupervised learning in a single-layer linear feedforward neural network",
    Neural Networks 2, 1989. Oja, "A simplified neuron model as a principal component analyzer",
    Journal of Mathematical Biology 15, 1982. Chen and Chang, "An adaptive learning algorithm for
    principal component analysis", IEEE Transactions on Neural Networks 6, 1995.

    Examples
    --------
    >>> from akpca import GeneralizedHebbian, load_dataset
    >>> X = load_dataset("digits").X
    >>> model = GeneralizedHebbian(n_components=3, random_state=0)
    >>> for batch in np.array_split(X, 10):
    ...     model = model.partial_fit(batch)
    >>> model.transform(X).shape
    (1797, 3)
    """

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's convention)
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "rule": [StrOptions({"sanger", "oja"})],
        "center": ["boolean"],
        "gain": [StrOptions({AUTO}), Gain, Factor],
        "shuffle": ["boolean"],
        "block_size": [Interval(Integral, 1, None, closed="left")],
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
        rule="sanger",
        center=True,
        gain="auto",
        shuffle=True,
        block_size=64,
        n_passes=10,
        warm_start=False,
        random_state=None,
        verbose=False,
        callback=None,
    ) -> None:
        self.n_components = n_components
        self.rule = rule
        self.center = center
        self.gain = gain
        self.shuffle = shuffle
        self.block_size = block_size
        self.n_passes = n_passes
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    @fit_method
    def fit(self, X, y=None) -> GeneralizedHebbian:
        """Make `n_passes` passes over X; return self.

        An interrupt (Ctrl-C) ends the fit with a warning and keeps what was reached; before the
        first steps it is raised and leaves the estimator as it was. So does a
        :class:`akpca.DivergenceError`, which says that a gain is too large.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : Ignored
        """
        goes_on = self.warm_start and hasattr(self, "_state")
        X, gain, rng, state, n_iter = self._begin(X, goes_on, "fit")
        rng = deepcopy(rng) if goes_on else rng  # a fit that fails must not have drawn from it
        n, last = len(X), n_iter + self.n_passes
        total = X.sum(axis=0, dtype=np.float64) / state.unit
        state = replace(state, total=total, n_samples=n)
        mean, shares = (state.total / n, 1 - 1 / n) if self.center else (0.0, 1.0)
        try:
            for _ in progress_bar(range(self.n_passes), shown=self.verbose, desc="passes"):
                order = rng.permutation(n) if self.shuffle else np.arange(n)
                for block in gen_batches(n, self.block_size):
                    rows = X[order[block]].astype(np.float64) / state.unit - mean
                    state = linear_block(state, rows, gain, shares, self.rule == "sanger", n)
                n_iter += 1
                if self.callback is not None:
                    self._publish(state, X.dtype, rng, n_iter, X)
                    if self.callback(FitProgress(n_iter, last, None, self)):
                        break
        except KeyboardInterrupt:
            if state.track.t == 0:  # nothing has been learned
                raise
            warn_interrupted(f"after {n_iter} passes, {state.track.t} steps")
        self._publish(state, X.dtype, rng, n_iter, X)
        return self

    @fit_method
    def partial_fit(self, X, y=None) -> GeneralizedHebbian:
        """Take in the next samples of a stream, one step each; return self.

        How a stream is cut into batches makes no difference beyond rounding. A batch in which the
        gain turns out too large (:class:`akpca.DivergenceError`) leaves no trace. Each sample is
        centred by the mean of the samples up to and including it, where `fit` takes the mean of the
        data; with center=False a `fit` of one pass without `shuffle` makes exactly the same steps.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : Ignored
        """
        first = not hasattr(self, "_state")
        X, gain, rng, state, n_iter = self._begin(X, not first, "partial_fit")
        for block in gen_batches(len(X), self.block_size):
            rows = X[block].astype(np.float64) / state.unit
            counts = state.n_samples + 1 + np.arange(len(rows))
            # one running sum, in the order of the samples, however the stream is cut
            totals = np.cumsum(np.vstack([state.total, rows]), axis=0)[1:]
            if self.center:
                rows -= totals / counts[:, None]
            shares = 1 - 1 / counts if self.center else 1.0
            state = linear_block(state, rows, gain, shares, self.rule == "sanger")
            state = replace(state, total=totals[-1], n_samples=int(counts[-1]))
        self._publish(state, X.dtype if first else self.components_.dtype, rng, max(n_iter, 1))
        return self

    def transform(self, X) -> np.ndarray:
        """Return the codes (x - mean_) @ components_.T of rows of X, shape (n_new, n_components).

        Parameters
        ----------
        X : array-like of shape (n_new, n_features)
        """
        check_is_fitted(self, "components_")
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        blocks = gen_batches(len(X), BLOCK_ROWS)
        return np.concatenate([(X[rows] - self.mean_) @ self.components_.T for rows in blocks])

    def inverse_transform(self, X) -> np.ndarray:
        """Return the samples nearest to the mean with the codes X, shape (n_new, n_features).

        They are mean + V^+ y with the pseudo-inverse V^+ of `components_`, so that a sample is
        reconstructed as its projection on the span of the components.

        Parameters
        ----------
        X : array-like of shape (n_new, n_components)
        """
        check_is_fitted(self, "components_")
        X = check_codes(X, self._n_features_out, estimator=self)
        return X @ np.linalg.pinv(self.components_).T + self.mean_

    @property
    def _n_features_out(self):
        return self.components_.shape[0]

    def _begin(self, X, goes_on: bool, method: str):
        """Return checked samples and gain, random numbers, the state and its passes so far."""
        X = validate_data(self, X, dtype=FLOATS, reset=not goes_on)
        r, (n, d) = self.n_components, X.shape
        if r > d or (method == "fit" and r > n):
            both = f"min(n_samples, n_features), with n_samples={n} and " * (method == "fit")
            raise ValueError(f"n_components={r} must be between 1 and {both}n_features={d}")
        gain = checked_stream_gain(self.gain)
        dtype = self.components_.dtype if goes_on else X.dtype
        unit, limit = unit_of(X), np.sqrt(np.finfo(dtype).max / d) / 8
        if unit > limit:
            allowed = f"allowed in {dtype} are at most {limit:.2g}, so that variances are finite"
            raise ValueError(f"X has values of {unit:.2g} and more; {allowed}: scale X")
        if not goes_on:
            rng = check_random_state(self.random_state)
            weights = np.ascontiguousarray(np.linalg.qr(rng.standard_normal((d, r)))[0].T)
            return X, gain, rng, LinearState(weights, Track(np.zeros(r)), np.zeros(d), 0, unit), 0
        if r != len(self._state.weights):
            raise ValueError(
                f"n_components={r}, but this {type(self).__name__} goes on from "
                f"{len(self._state.weights)} components; fit with warm_start=False to begin anew"
            )
        return X, gain, self._rng, self._state.in_unit(unit), self.n_iter_

    def _publish(self, state: LinearState, dtype, rng, n_iter: int, X=None) -> None:
        """Set all attributes; the variances are those of X if it is given."""
        norms = np.sqrt(np.sum(state.weights**2, axis=1))
        components = state.weights / np.where(norms > 0, norms, 1)[:, None]
        mean = state.total / state.n_samples if self.center else np.zeros_like(state.total)
        unit = state.unit
        if X is None:
            shrink = np.where(norms > 0, norms**2, 1) * (state.track.weight or 1.0)
            variance = state.track.energy / shrink
        else:
            blocks = gen_batches(len(X), BLOCK_ROWS)
            scaled = (X[rows].astype(np.float64) / unit - mean for rows in blocks)
            squares = sum(np.sum((rows @ components.T) ** 2, axis=0) for rows in scaled)
            variance = squares / max(len(X) - self.center, 1)
        self._state, self._rng = state, rng
        self.components_, self.mean_ = components.astype(dtype), (mean * unit).astype(dtype)
        self.explained_variance_ = (variance * unit * unit).astype(dtype)
        self.norms_ = norms.astype(dtype)
        self.n_samples_seen_, self.n_steps_, self.n_iter_ = state.n_samples, state.track.t, n_iter
