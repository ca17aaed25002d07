"""Principal components of a stream: the generalised Hebbian algorithm and Oja's subspace rule.

A sample x makes one step of the r x d weights W, whose outputs are y = W x:

    W <- W + eta (y x^T - lt(y y^T) W)    Sanger's rule (7): rows become eigenvectors, in order
    W <- W + eta (y x^T -    y y^T  W)    Oja's rule (8): rows become a basis of their span

with the equation numbers of Günter, Schraudolph and Vishwanathan, JMLR 8, 2007; lt keeps the lower
triangle. Nothing is stored but W and a few sums. Steps are made in exact blocks, see
:mod:`akpca.hebbian.steps`. With gain="auto", which needs no tuning, component i gets

    eta_i = 1 / max(sum_s (s / t)^p y_i(s)^2, ||x||^2, ||y||^2)

The sum is about t lambda_i / (p + 1), so eta_i falls with time, and components of small variance
learn as fast as the others (Chen and Chang, 1995, with p = 0). The forgetting power p lets go of
the outputs of early, wrong weights. The other terms bound what one sample, such as an outlier, can
do. All terms scale with the data, so the result does not depend on their unit.
"""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_is_fitted, validate_data

from ..fitting import FLOATS, Encoder, Interval, StrOptions, check_codes, fit_method, moved
from ..kernels import BLOCK_ROWS
from ..progress import FitProgress, progress_bar, warn_interrupted
from ..threads import one_blas_thread
from .gains import Gain, check_gain
from .steps import RUNAWAY, Block, DivergenceError, SmallState, hebbian_steps

__all__ = ["FORGETTING", "GeneralizedHebbian", "LinearState", "linear_block"]

# p above: smaller ones separate close eigenvalues too slowly, larger ones follow every sample.
FORGETTING = 7


class LinearState(NamedTuple):
    """Where a linear Hebbian iteration stands; energy / weight is the variance of the outputs."""

    weights: np.ndarray  # (r, d)
    energy: np.ndarray  # (r,), sum_s (s / t)^p y(s)^2
    weight: float  # of that sum, which makes the estimate unbiased
    t: int  # steps made
    total: np.ndarray  # (d,), sum of the samples behind the mean
    n_samples: int  # number of them


def linear_block(
    state: LinearState, X, gain: Gain | None, shares, lower=True, n_samples=None
) -> LinearState:
    """Return the state after one step for every row of X, centred samples.

    The gain None is "auto". `shares`, (b,) or one for all, are the expected squares of the samples
    relative to the variance: 1 - 1/m if they are centred by the mean of m samples. `lower` is as in
    `hebbian_steps`; `n_samples` is the number of steps in a pass, None in a stream.
    """
    (b, d), r, t = X.shape, len(state.weights), state.t
    steps, shares = t + 1 + np.arange(b), np.broadcast_to(shares, b)
    # what overflows is found right below
    with one_blas_thread(2 * b * d * (b + r)), np.errstate(all="ignore"):
        block = Block.of(state.weights @ X.T, X @ X.T)
        if gain is None:
            with one_blas_thread():
                Theta, W, outputs = _following_steps(block, state.energy, steps, lower)
        else:
            rates, small = gain.rates(steps, np.ones(r), n_samples), SmallState(*np.zeros((2, r)))
            Theta, W, outputs, _ = hebbian_steps(block, rates, small, lower=lower)
        powers, decay = (steps / steps[-1]) ** FORGETTING, (t / steps[-1]) ** FORGETTING
        energy = decay * state.energy + outputs**2 @ powers
        weight = decay * state.weight + shares @ powers
        weights = Theta @ state.weights + W @ X
        if not np.sum(weights**2, axis=1).max() <= RUNAWAY:  # nor if it is not a number
            advice = "the squares of these values overflow; scale the data"
            if gain is not None:
                advice = "a step is safe while gain * ||x||^2 < 1, and ||x||^2 here is up to "
                advice += f"{block.sizes.max():.3g}. Take a smaller eta0, or gain='auto'"
            problem = f"gain={gain or 'auto'!r} is too large: the weights ran away by step {t + b}"
            raise DivergenceError(f"{problem}; {advice}")
    return state._replace(weights=weights, energy=energy, weight=float(weight), t=t + b)


def _following_steps(block, energy, steps, lower):
    """Return Theta, W and outputs of steps with the gain "auto", which follows the outputs."""
    r, b = len(energy), len(block.sizes)
    decays = ((steps - 1) / steps) ** FORGETTING
    triangle = np.tril(np.ones((r, r))) if lower else np.ones((r, r))
    M, outputs = np.eye(r, r + b), np.empty((r, b))
    for j in range(b):
        y = M.dot(block.stack[j, 0])
        energy = decays[j] * energy + y * y
        slowness = energy if lower else np.full(r, energy.mean())  # (8) has one gain for all
        slowness = np.maximum(slowness, max(block.sizes[j], y.dot(y)))
        # only a sample that is zero leaves no slowness, and it asks for no step
        w = np.divide(y, slowness, out=np.zeros(r), where=slowness > 0)
        M -= (w[:, None] * y * triangle).dot(M)
        M[:, r + j] = w
        outputs[:, j] = y
    return M[:, :r], M[:, r:], outputs


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
        Size of the steps. 'auto' needs no tuning. Otherwise a constant or annealed
        :class:`akpca.hebbian.Gain`, as ``Gain(0.01, passes=1)``, or with `iterations` in a stream.
    shuffle : bool, default=True
        Whether each pass of `fit` takes the samples in a new random order.
    block_size : int, default=64
        Steps made by one set of matrix products, which changes rounding only.
    n_passes : int, default=10
        Passes of `fit` over the data.
    random_state : int, RandomState instance or None, default=None
        Determines the start and the order of samples.
    verbose : bool, default=False
        Show a progress bar.
    callback : callable, default=None
        Called with a :class:`akpca.progress.FitProgress` after every pass; a true answer ends it.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Rows of W, scaled to norm 1; orthogonal only as far as the iteration has converged.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of the data along each component, or the mean square if not centred. In a stream
        that of the outputs so far, of which the s-th of t counts (s / t)^7: mostly the last eighth.
    mean_ : ndarray of shape (n_features,)
        Mean of the samples; zeros if not centred.
    norms_ : ndarray of shape (n_components,)
        Norms of the rows of W. Far from 1, a component has not converged or is beyond the rank.
    n_samples_seen_, n_iter_, n_steps_ : int
        Number of samples behind `mean_`; passes and steps made. A stream counts as one pass.

    See Also
    --------
    IncrementalKernelPCA : Nearly the exact components of a stream, also with a kernel.

    References
    ----------
    Sanger, "Optimal unsupervised learning in a single-layer linear feedforward neural network",
    Neural Networks 2, 1989. Oja, "A simplified neuron model as a principal component analyzer",
    Journal of Mathematical Biology 15, 1982. Chen and Chang, IEEE Transactions on Neural Networks
    6, 1995, for gains by variances.

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
        "gain": [Gain, str],
        "shuffle": ["boolean"],
        "block_size": [Interval(Integral, 1, None, closed="left")],
        "n_passes": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "callback": [callable, None],
    }

    @moved({"warm_start": "give more n_passes, or call partial_fit"})
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
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    @fit_method
    def fit(self, X, y=None) -> GeneralizedHebbian:
        """Make `n_passes` passes over X; return self.

        An interrupt (Ctrl-C) ends the fit with a warning and keeps what was reached. A
        :class:`akpca.DivergenceError` says that a gain is too large; the estimator is as it was.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : Ignored
        """
        X, gain = self._check(X, reset=True)
        n, r = len(X), self.n_components
        if r > n:
            raise ValueError(f"n_components={r} must not be larger than n_samples={n}")
        rng = check_random_state(self.random_state)
        sums = {"total": X.sum(axis=0, dtype=np.float64), "n_samples": n}
        state = self._start(rng, X.shape[1])._replace(**sums)
        mean, shares = (state.total / n, 1 - 1 / n) if self.center else (0.0, 1.0)
        try:
            for number in progress_bar(range(self.n_passes), shown=self.verbose, desc="passes"):
                order = rng.permutation(n) if self.shuffle else np.arange(n)
                for block in gen_batches(n, self.block_size):
                    rows = X[order[block]].astype(np.float64) - mean
                    state = linear_block(state, rows, gain, shares, self.rule == "sanger", n)
                if self.callback is not None:
                    self._publish(state, X.dtype, number + 1, X)
                    if self.callback(FitProgress(number + 1, self.n_passes, None, self)):
                        break
        except KeyboardInterrupt:
            if state.t == 0:  # nothing has been learned
                raise
            warn_interrupted(f"after {state.t // n} passes, {state.t} steps")
        self._publish(state, X.dtype, state.t // n, X)
        return self

    @fit_method
    def partial_fit(self, X, y=None) -> GeneralizedHebbian:
        """Take in samples of a stream, shape (n_samples, n_features), one step each; return self.

        How a stream is cut into batches makes no difference beyond rounding. Each sample is centred
        by the mean of those up to and including it, where `fit` takes the mean of the data.
        """
        first = not hasattr(self, "_state")
        X, gain = self._check(X, reset=first)
        rng = check_random_state(self.random_state)
        state = self._start(rng, X.shape[1]) if first else self._state
        dtype, n_iter = (X.dtype, 1) if first else (self.components_.dtype, max(self.n_iter_, 1))
        for block in gen_batches(len(X), self.block_size):
            rows = X[block].astype(np.float64)
            counts = state.n_samples + 1 + np.arange(len(rows))
            # one running sum, in the order of the samples, however the stream is cut
            totals = np.cumsum(np.vstack([state.total, rows]), axis=0)[1:]
            if self.center:
                rows -= totals / counts[:, None]
            shares = 1 - 1 / counts if self.center else 1.0
            state = linear_block(state, rows, gain, shares, self.rule == "sanger")
            state = state._replace(total=totals[-1], n_samples=int(counts[-1]))
        self._publish(state, dtype, n_iter)
        return self

    def transform(self, X) -> np.ndarray:
        """Return the codes (x - mean_) @ components_.T of the rows of X, (n_new, n_components)."""
        check_is_fitted(self, "components_")
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        return (X - self.mean_) @ self.components_.T

    def inverse_transform(self, X) -> np.ndarray:
        """Return the samples nearest to the mean with the codes X: mean + V^+ y, projections."""
        check_is_fitted(self, "components_")
        X = check_codes(X, self._n_features_out, estimator=self)
        return X @ np.linalg.pinv(self.components_).T + self.mean_

    def score_samples(self, X) -> np.ndarray:
        """Return minus the squared error of each sample, (n_new,); the lower, the more abnormal."""
        codes = self.transform(X)
        rest = np.asarray(X, codes.dtype) - self.inverse_transform(codes)
        return -row_norms(rest, squared=True)

    @property
    def _n_features_out(self):
        return self.components_.shape[0]

    def _check(self, X, reset: bool):
        """Return checked samples, and the gain, None for "auto"."""
        X = validate_data(self, X, dtype=FLOATS, reset=reset)
        r, d = self.n_components, X.shape[1]
        if r > d:
            raise ValueError(f"n_components={r} must not be larger than n_features={d}")
        if not reset and r != (before := len(self.components_)):
            problem = f"but the stream goes on from {before} components; fit begins anew"
            raise ValueError(f"n_components={r}, {problem}")
        dtype, largest = X.dtype if reset else self.components_.dtype, max(X.max(), -X.min())
        if largest > (limit := np.sqrt(np.finfo(dtype).max / d) / 8):
            allowed = f"allowed in {dtype} are at most {limit:.2g}, so that variances are finite"
            raise ValueError(f"X has values of {largest:.2g}; {allowed}: scale X")
        gain = check_gain(self.gain)
        if gain is not None and (gain.reciprocal or gain.adapts):
            allowed = "a constant or annealed one, or 'auto', which divides by eigenvalues as well"
            raise ValueError(f"gain={gain!r} is for kernels: give {allowed}")
        return X, gain

    def _start(self, rng, d: int) -> LinearState:
        """Return the state before the first step: random orthonormal weights."""
        r = self.n_components
        weights = np.ascontiguousarray(np.linalg.qr(rng.standard_normal((d, r)))[0].T)
        return LinearState(weights, np.zeros(r), 0.0, 0, np.zeros(d), 0)

    def _publish(self, state: LinearState, dtype, n_iter: int, X=None) -> None:
        """Set all attributes; the variances are those of X if it is given."""
        norms = np.linalg.norm(state.weights, axis=1)
        lengths = np.where(norms > 0, norms, 1)
        components = state.weights / lengths[:, None]
        mean = state.total / state.n_samples if self.center else np.zeros_like(state.total)
        variance = state.energy / (lengths**2 * (state.weight or 1.0))
        if X is not None:
            centred = (
                X[rows].astype(np.float64) - mean for rows in gen_batches(len(X), BLOCK_ROWS)
            )
            squares = sum(np.sum((rows @ components.T) ** 2, axis=0) for rows in centred)
            variance = squares / max(len(X) - self.center, 1)
        self._state, self.norms_ = state, norms.astype(dtype)
        self.components_, self.mean_ = components.astype(dtype), mean.astype(dtype)
        self.explained_variance_ = variance.astype(dtype)
        self.n_samples_seen_, self.n_steps_, self.n_iter_ = state.n_samples, state.t, n_iter
