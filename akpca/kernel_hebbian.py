"""The kernel Hebbian algorithm: kernel PCA one sample at a time, in O(r l) memory.

A component is v_i = sum_p A_ip phi'(x_p), with coefficients A of shape (r, l). Every step sees one
sample and changes A as the generalised Hebbian algorithm would change the components in feature
space. :mod:`akpca.hebbian` makes the steps in exact blocks; this module adds the passes, the
choice of the gain and the scikit-learn estimator.

Notation and equation numbers: Günter, Schraudolph and Vishwanathan, JMLR 8, 2007.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
    clone,
)
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import check_array, check_random_state, gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data
from tqdm import tqdm

from .gains import AUTO, EigenvalueNorm, Factor, Gain, make_gain
from .generalized_hebbian import FORGETTING, checked_stream_gain
from .hebbian import RUNAWAY, DivergenceError, KernelState, kernel_block, refresh, start_state
from .operators import is_symmetric as _check_symmetric
from .kernel_stream import StreamState, compress, merge_start, start_stream, stream_block
from .kernels import BLOCK_ROWS, KERNELS, Kernel, make_kernel
from .operators import CenteredOperator, KernelOperator, MatrixOperator
from .kernel_code import KernelCode as CodeSpace
from .preimage import PREIMAGES, Preimage, make_preimage

# Norm of a component at the end, where 1 is right, that is a failure.
TOO_LONG = 2.0
# Steps of a trial run of auto-tuning: at least this many, or a part of the samples.
TRIAL_STEPS, TRIAL_PART = 1000, 0.02
# Samples by which trial runs are judged.
PROBES = 256
# Values tried are 5, 2 and 1 times powers of ten, from 500 downwards, where the kernel has k'(x, x)
# of about 1: gains other than KHA/et* and KHA/e are as large as the kernel is small.
LARGEST, DECADES = 500.0, 14


@dataclass(frozen=True)
class HebbianPass:
    """What a callback sees after every pass.

    Attributes
    ----------
    n_passes : int
        Passes made, this one included.
    coefficients : ndarray of shape (r, l)
        A, as the algorithm has it; not to be changed.
    eigenvalues : ndarray of shape (r,) or None
        Current estimates by (20), if the gain uses them.
    gain : ndarray of shape (r,)
        The gain of every component at the end of the pass.
    gain_scale : float
        The gain without the division by the eigenvalue: eta-hat of (23).
    log_gain : ndarray of shape (r,)
        rho, what meta-descent has made of it; zeros without.
    """

    n_passes: int
    coefficients: np.ndarray
    eigenvalues: np.ndarray | None
    gain: np.ndarray
    gain_scale: float
    log_gain: np.ndarray


def kernel_reconstruction_error(operator, A: np.ndarray) -> float:
    """Return ||K' - (A K')^T A K'||_F, the reconstruction error (38), in two products with K'.

    Parameters
    ----------
    operator : operator of :mod:`akpca.operators`
        K', which is not formed. Its Frobenius norm costs a third sweep.
    A : array-like of shape (r, l)
    """
    Y = operator @ np.asarray(A).T
    YK = operator @ Y
    Y, YK = Y.astype(np.float64), YK.astype(np.float64)
    square = operator.frobenius_norm() ** 2 - 2 * np.sum(Y * YK) + np.sum((Y.T @ Y) ** 2)
    return float(np.sqrt(max(square, 0.0)))


def run_pass(
    operator,
    state: KernelState,
    gain: Gain,
    order: np.ndarray,
    *,
    block_size: int,
    every_step: bool,
    limit: float = np.inf,
) -> Iterator[KernelState]:
    """Yield the state after every block of a pass over the samples in the given order.

    Parameters
    ----------
    operator : operator of :mod:`akpca.operators`
    state : KernelState
    gain : Gain
    order : ndarray of int
        Distinct samples. A pass over fewer than all is a part of one.
    block_size : int
    every_step : bool
        Estimate eigenvalues at every step; otherwise once, here.
    limit : float
        See :func:`akpca.hebbian.kernel_block`.
    """
    state = refresh(state, gain, every_step=every_step)
    for block in gen_batches(len(order), block_size):
        state = kernel_block(operator, state, gain, order[block], operator.shape[0], limit)
        yield state


class KernelHebbian(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Kernel PCA by A <- A + diag(eta) [y e_p^T - lt(y y^T) A], y = A k'_p, sample after sample.

    The kernel Hebbian algorithm with any of the gains of :mod:`akpca.gains`: KHA/t, KHA/et*,
    KHA/et, KHA-SMD*, KHA-SMD and their relatives. Steps are made in blocks that give the same
    numbers as one step after the other, so that a pass costs little more than computing the kernel
    once. Without centring a pass needs no more memory than O(r l).

    For all components of data whose kernel matrix fits into memory, :class:`akpca.KernelPCA` is
    faster; this class is for following the algorithms, for one or few passes over data that are
    too many for a kernel matrix, and for streams.

    Parameters
    ----------
    n_components : int, default=2
        r, the number of components.
    kernel : {'linear', 'poly', 'rbf', 'sigmoid', 'cosine', 'laplacian', 'chi2', 'precomputed'} \
or Kernel, default='rbf'
        Name or object of :mod:`akpca.kernels`. With 'precomputed', `fit` takes a kernel matrix, or
        an operator of :mod:`akpca.operators` that is used as it is (`center` is then its own).
    gamma, degree, coef0 : float
        Of the kernel, as in :class:`akpca.KernelPCA`.
    center : bool, default=True
        Centre the data in feature space.
    gain : Gain or str, default='auto'
        A product of factors, such as ``Constant(5) * Annealing(passes=3)``, or a name, such as
        "KHA-SMD*". Parameters that are "auto", which is all in a name, are tuned: short trial
        runs from the same start, from large values to small, until the error of some samples
        gets no smaller. 'auto' is KHA/et* with tau of half a pass to two passes.
    n_passes : int, default=10
        Passes over the data, each in a new random order.
    eigenvalue_updates : {'pass', 'iteration'}, default='iteration'
        When a gain that uses eigenvalues estimates them anew: before every pass, as in most of the
        paper's experiments, or at every step, which is better in few passes and costs little more.
    block_size : int, default=None
        Steps in a block. None is 96, or 128 for more than 32 components. It changes the speed, and
        of the result only the rounding.
    budget : int, default=None
        Largest number of points that `partial_fit` keeps. None keeps all samples of the stream.
    init : array-like of shape (n_components, n_samples), default=None
        Coefficients to start from. None draws them from N(0, 1 / (r tr K')), which is the paper's
        N(0, 1 / (r l)) made independent of the scale of the kernel.
    preimage : {'ridge', 'eigenvector', 'fixed_point', 'distance'} or Preimage, default=None
        The decoder of `inverse_transform`, from :mod:`akpca.preimage`.
    memory_limit : float, default=2e9
        Bytes that the kernel matrix may take. A larger one is not stored: its rows are computed
        when a pass needs them.
    warm_start : bool, default=False
        Go on from where the last `fit` to the same data ended, as if it had had more passes.
    callback : callable, default=None
        Called with a :class:`HebbianPass` after every pass; a true answer ends the fit.
    random_state : int, RandomState instance or None, default=None
        Start and order of the samples.
    verbose : bool, default=False
        Show progress.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_samples)
        Coefficients of components that have norm 1 in feature space.
    eigenvalues_ : ndarray of shape (n_components,)
        Of the (centred) kernel matrix, one for every component, by (20); at convergence those of
        :class:`akpca.KernelPCA`, in descending order.
    norms_ : ndarray of shape (n_components,)
        Norms of the components before they were scaled to 1, which the algorithm lets approach 1:
        far from it, more passes are needed.
    coefficients_ : ndarray of shape (n_components, n_samples)
        A, as the algorithm has it.
    gain_ : Gain
        The gain that was used, with the parameters that were tuned.
    n_passes_ : int
        Passes made, those before a warm start included.
    n_iter_ : int
        Steps made.
    n_samples_seen_ : int
        Samples seen, those of a stream included.
    lost_ : float
        Of a stream with a budget: the relative loss of the components' squared norms by
        projections on fewer points, added up.
    gamma_ : float
        The value of gamma that was used.
    X_fit_ : {ndarray, sparse matrix} of shape (n_samples, n_features)
        The fitted samples; of a stream, the points that components are expanded in.
    preimage_ : Preimage
        The fitted decoder, if `preimage`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

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
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "kernel": [StrOptions(set(KERNELS) | {"precomputed"}), Kernel],
        "gamma": [Interval(Real, 0, None, closed="left"), None],
        "degree": [Interval(Real, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "center": ["boolean"],
        "gain": [Gain, Factor, str],
        "n_passes": [Interval(Integral, 1, None, closed="left")],
        "eigenvalue_updates": [StrOptions({"pass", "iteration"})],
        "block_size": [Interval(Integral, 1, None, closed="left"), None],
        "budget": [Interval(Integral, 1, None, closed="left"), None],
        "init": ["array-like", None],
        "preimage": [StrOptions(set(PREIMAGES)), Preimage, None],
        "memory_limit": [Interval(Real, 0, None, closed="left")],
        "warm_start": ["boolean"],
        "callback": [callable, None],
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
        center=True,
        gain="auto",
        n_passes=10,
        eigenvalue_updates="iteration",
        block_size=None,
        budget=None,
        init=None,
        preimage=None,
        memory_limit=2e9,
        warm_start=False,
        callback=None,
        random_state=None,
        verbose=False,
    ):
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.center = center
        self.gain = gain
        self.n_passes = n_passes
        self.eigenvalue_updates = eigenvalue_updates
        self.block_size = block_size
        self.budget = budget
        self.init = init
        self.preimage = preimage
        self.memory_limit = memory_limit
        self.warm_start = warm_start
        self.callback = callback
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Make `n_passes` passes over X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            With kernel='precomputed' the kernel matrix, or an operator that stands for it.
        y : Ignored

        Returns
        -------
        self : object

        Raises
        ------
        DivergenceError
            If a gain that was given is too large for these data.
        """
        self._stream = None
        operator = self._make_operator(X)
        if self.n_components > operator.shape[0]:
            raise ValueError(
                f"n_components={self.n_components} must not be larger than the number of samples, "
                f"{operator.shape[0]}"
            )
        if self.warm_start and hasattr(self, "_state"):
            self._check_same(operator)
        else:
            self._start(operator)
        try:
            self._run(operator)
        except KeyboardInterrupt:
            warnings.warn(
                f"interrupted after {self._state.t} steps, all of which are kept",
                ConvergenceWarning,
                stacklevel=2,
            )
        self._finish(operator)
        return self

    # Where to start from

    def _make_operator(self, X):
        """Return K' as an operator, in memory if it may be, and note what `transform` needs."""
        if isinstance(X, CenteredOperator | MatrixOperator):
            if self.kernel != "precomputed":
                raise ValueError(f"an operator needs kernel='precomputed', not {self.kernel!r}")
            self.n_features_in_ = X.shape[0]
            self.X_fit_, self._means = X, None
            return X
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32])
        self.gamma_ = 1 / X.shape[1] if self.gamma is None else self.gamma
        self.X_fit_, self._means = X, None
        if self.kernel == "precomputed":
            K = X.toarray() if sparse.issparse(X) else X
            _check_symmetric(K)
            means = K.mean(axis=1, dtype=np.float64)
            if self.center:
                shift = (means - means.mean() / 2).astype(K.dtype)
                K = K - shift - shift[:, None]
                self._means = means.astype(K.dtype)
            return MatrixOperator(K)
        operator = KernelOperator(X, self._kernel_object(), center=self.center)
        dense = X.dtype.itemsize * X.shape[0] ** 2 <= self.memory_limit
        result = MatrixOperator(operator.dense()) if dense else operator
        if dense and not np.isfinite(result.K).all():
            raise ValueError(f"{operator.kernel!r} gives NaN or infinity on X: scale the data")
        if self.center:
            self._means = operator.means().astype(operator.dtype)
        return result

    def _start(self, operator):
        rng = check_random_state(self.random_state)
        shape = (self.n_components, operator.shape[0])
        A = self.init
        if A is None:
            size = max(operator.trace(), 0) or float(shape[1])
            A = rng.standard_normal(shape) / np.sqrt(shape[0] * size)
        A = check_array(A, dtype=operator.dtype, input_name="init")
        if A.shape != shape:
            raise ValueError(f"init must have shape {shape}, got {A.shape}")
        gain = self._named_gain()
        order = rng.permutation(shape[1])
        self._limit = RUNAWAY * max(1.0, self._growth(operator, A, order))
        if AUTO in (gain.eta0, gain.mu):
            gain = self._tune(operator, A, gain, order)
        self.gain_, self._rng, self._order, self.n_passes_ = gain, rng, order, 0
        self._retreats = 0
        self._state = start_state(operator, A, gain, every_step=self._every_step)
        self._initial = (A, rng.get_state())

    def _check_same(self, operator):
        if self._state.S.shape[1] != operator.shape[0] or self._state.r != self.n_components:
            raise ValueError(
                f"warm_start=True needs the data and n_components of the last fit: "
                f"{self._state.S.shape[1]} samples and {self._state.r} components, got "
                f"{operator.shape[0]} and {self.n_components}"
            )

    def _named_gain(self):
        if isinstance(self.gain, str):
            if self.gain == AUTO:
                # annealing that starts within the passes that there are
                return make_gain("KHA/et*", tau=min(2.0, max(0.5, self.n_passes / 5)))
            return make_gain(self.gain)
        gain = Gain((self.gain,)) if isinstance(self.gain, Factor) else self.gain
        return gain.check()

    @property
    def _every_step(self):
        return self.eigenvalue_updates == "iteration"

    @property
    def _block_size(self):
        return self.block_size or (96 if self.n_components <= 32 else 128)

    @staticmethod
    def _growth(operator, A, order):
        """Return the largest y^2 / k'(x, x) of some samples at the start: a squared length."""
        indices = order[:BLOCK_ROWS]
        rows = operator.rows(indices)
        sizes = rows[np.arange(len(indices)), indices]
        outputs = np.max((A @ rows.T) ** 2)
        return float(outputs / max(sizes.max(), np.finfo(operator.dtype).tiny))

    # Passes

    def _run(self, operator):
        blocks = -(-operator.shape[0] // self._block_size)
        tuned = AUTO in (self._named_gain().eta0, self._named_gain().mu)
        last = self.n_passes_ + self.n_passes
        with tqdm(
            total=blocks * self.n_passes, desc=self.gain_.name, unit="block",
            disable=not self.verbose,
        ) as bar:  # fmt: skip
            while self.n_passes_ < last:
                try:
                    stop = self._one_pass(operator, bar)
                    if tuned and self.n_passes_ == last and self._too_long():
                        raise DivergenceError("components far too long")
                    if stop:
                        break
                except DivergenceError as error:
                    if not tuned:
                        raise DivergenceError(self._advice(error)) from None
                    self._retreat(operator)
                    last = self.n_passes
                    bar.reset()

    def _one_pass(self, operator, bar):
        passes = run_pass(
            operator,
            self._state,
            self.gain_,
            self._order,
            block_size=self._block_size,
            every_step=self._every_step,
            limit=self._limit,
        )
        for state in passes:
            self._state = state  # whole or not at all: an interrupt finds one or the other
            bar.update()
        self.n_passes_ += 1
        self._order = self._rng.permutation(operator.shape[0])
        return self.callback is not None and self.callback(self._report(operator.shape[0]))

    def _report(self, n_samples):
        state, gain = refresh(self._state, self.gain_, every_step=self._every_step), self.gain_
        eigenvalues = state.small.eigenvalues
        schedule = float(gain.schedule(state.t, n_samples))
        values = schedule * gain.preconditioner(eigenvalues)
        return HebbianPass(
            n_passes=self.n_passes_,
            coefficients=state.A,
            eigenvalues=eigenvalues if gain.uses_eigenvalues else None,
            gain=values * np.exp(state.small.rho),
            gain_scale=float(values[0] * eigenvalues[0]) if gain.uses_eigenvalues else schedule,
            log_gain=state.small.rho,
        )

    def _advice(self, error):
        smaller = next(_ladder(self.gain_.eta0 / 5))
        advice = f"give a smaller eta0, such as {smaller:g}, or eta0='auto'"
        if self.gain_.mu:
            advice += f"; or a smaller mu than {self.gain_.mu:g}"
        return f"{error} of {self.n_passes} passes: the gain is too large for these data; {advice}"

    # Choosing the gain

    def _tune(self, operator, A, gain, order):
        """Return the gain with the best eta0, then mu, in short runs: Algorithm 2, improved.

        The paper takes the largest value that does not diverge. That is at the edge of what
        works, so values below it are tried as long as the error gets smaller.
        """
        n = operator.shape[0]
        steps = min(n, max(TRIAL_STEPS, int(TRIAL_PART * n)))
        probes = order[-min(PROBES, n) :]
        probe_rows = operator.rows(probes)
        sizes = probe_rows[np.arange(len(probes)), probes].astype(np.float64)
        fixed = gain.without_adaptation().with_values(eta0=1.0)
        scale = operator.trace() / n
        top = LARGEST / scale if scale > 0 else LARGEST
        start = start_state(operator, A, fixed, every_step=self._every_step, track=True)

        def error(candidate):
            state = start
            if candidate.adapts:
                gram = np.hstack([start.small.gram, np.zeros_like(start.small.gram)])
                S = np.concatenate([start.S, np.zeros_like(start.S)])
                state = replace(start, S=S, small=replace(start.small, gram=gram))
            blocks = run_pass(
                operator,
                state,
                candidate,
                order[:steps],
                block_size=self._block_size,
                every_step=self._every_step,
                limit=self._limit,
            )
            try:
                state = deque(blocks, maxlen=1).pop()  # the last
            except DivergenceError:
                return np.inf
            # ||phi' - V V^T phi'||^2 with components V that need not be orthonormal yet
            Y = (probe_rows @ state.A.T).astype(np.float64)
            r = len(A)
            Q = state.small.gram[:, :r]
            return float(np.mean(sizes - 2 * np.sum(Y**2, axis=1) + np.sum(Y @ Q * Y, axis=1)))

        if gain.eta0 == AUTO:
            free = gain.uses_eigenvalues and gain.get(EigenvalueNorm) is None
            ladder = _ladder(LARGEST if free else top)
            best = _descend(lambda eta0: error(fixed.with_values(eta0=eta0)), ladder)
            gain = gain.with_values(eta0=best)
        if gain.mu == AUTO:
            still = error(gain.without_adaptation())
            best = _descend(lambda mu: error(gain.with_values(mu=mu)), _ladder(top), worst=still)
            gain = gain.with_values(mu=best)
        return gain

    def _retreat(self, operator):
        """Start again with smaller values, after trial runs that were too short to show it."""
        named, gain = self._named_gain(), self.gain_
        self._retreats += 1
        if named.mu == AUTO and gain.mu > 0:
            # after a few attempts it is not worth more time
            gain = gain.with_values(mu=next(_ladder(0.9 * gain.mu)) if self._retreats < 5 else 0.0)
        elif named.eta0 == AUTO:
            gain = gain.with_values(eta0=next(_ladder(0.9 * gain.eta0)))
        if gain == self.gain_ or self._retreats > 3 * DECADES:
            raise DivergenceError(
                f"{self.gain_!r} diverges, and no smaller gain may be tried: scale the data"
            )
        A, rng_state = self._initial
        self.gain_, self.n_passes_ = gain, 0
        self._rng.set_state(rng_state)
        self._state = start_state(operator, A, gain, every_step=self._every_step)
        self._order = self._rng.permutation(operator.shape[0])

    # What comes out

    def _too_long(self):
        """Whether components are far longer than 1, where that can be known without a sweep."""
        AK = self._state.AK
        return AK is not None and np.sum(AK * self._state.A, axis=1).max() > TOO_LONG**2

    def _finish(self, operator):
        A, AK = self._state.A, self._state.AK
        AK = np.asarray(operator @ A.T if AK is None else AK.T, np.float64).T
        A64 = A.astype(np.float64)
        self.norms_ = np.sqrt(np.maximum(np.sum(AK * A64, axis=1), 0))
        sizes = np.sum(A64**2, axis=1)
        values = np.sqrt(np.sum(AK**2, axis=1) / np.where(sizes > 0, sizes, 1))
        self.eigenvalues_ = values.astype(A.dtype)
        # a component without variance has no direction: code 0
        scale = np.divide(1, self.norms_, out=np.zeros_like(self.norms_), where=self.norms_ > 0)
        self.components_ = (scale[:, None] * A64).astype(A.dtype)
        if self.norms_.max() > TOO_LONG:
            warnings.warn(
                f"components of norm {self.norms_.max():.2g}, where 1 is right: {self.gain_!r} was "
                "too large at the start; give a smaller one, or a smaller init",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.coefficients_ = A
        self._codes = (scale[:, None] * AK).T.astype(A.dtype)
        # sum_p A_ip (phi(x_p) - mean) = sum_p weights_pi phi(x_p), and its part along the mean
        weights = self.components_.T
        self._weights = weights - weights.mean(axis=0) if self._means is not None else weights
        self._offset = 0 if self._means is None else self._means @ self._weights
        self.n_iter_, self.n_samples_seen_ = self._state.t, operator.shape[0]
        if self.preimage is not None:
            self.preimage_ = self._fit_preimage(self.preimage)

    # Streams

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None):
        """Take in the next samples of a stream, one step each; see :mod:`akpca.kernel_stream`.

        A sample is centred by the mean of all samples so far. After the first call, whose samples
        give the directions to start from, it makes no difference beyond rounding how a stream is
        cut, unless there is a `budget`. After `fit`, the stream goes on from the fitted
        components. Samples join the points that components are expanded in, so that time and
        memory of a call grow with the stream; `budget` bounds both.

        The gain may be 'auto', which here is that of :class:`akpca.GeneralizedHebbian`, or a
        product of Constant, Annealing(iterations=...) and ReciprocalEigenvalues.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            In the first call at least n_components.
        y : Ignored

        Returns
        -------
        self : object

        Raises
        ------
        DivergenceError
            If a gain that was given is too large for these data. Nothing of X is kept.
        """
        first = not hasattr(self, "components_")
        if self.kernel == "precomputed":
            raise ValueError("a stream needs samples, not kernel='precomputed'")
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=first)
        gain = checked_stream_gain(self.gain)
        if first:
            self.gamma_ = 1 / X.shape[1] if self.gamma is None else self.gamma
        kernel = self._kernel_object()
        if first:
            if len(X) < self.n_components:
                raise ValueError(
                    f"the first samples of a stream must be at least n_components="
                    f"{self.n_components}, got {len(X)}"
                )
            rng = check_random_state(self.random_state)
            state = start_stream(X, kernel, self.n_components, rng, center=self.center)
        else:
            state = self._as_stream(kernel)
        if self.budget is not None and not first:
            state = compress(state, kernel, self.budget)
        try:
            for rows in gen_batches(len(X), self._block_size):
                state = stream_block(state, X[rows], kernel, gain, center=self.center)
                if self.budget is not None and not first:
                    state = compress(state, kernel, self.budget)
        except DivergenceError as error:
            raise DivergenceError(
                f"gain={self.gain!r} is too large: {error}; take a smaller eta0, or gain='auto'"
            ) from None
        if first:
            state = merge_start(state, len(X))
            if self.budget is not None:
                state = compress(state, kernel, self.budget)
        self._publish_stream(state, X.dtype if first else self.components_.dtype)
        return self

    def _as_stream(self, kernel):
        """Return the state of the stream, or of a fit as if it had been one."""
        if len(self.components_) != self.n_components:
            raise ValueError(
                f"n_components={self.n_components}, but this {type(self).__name__} goes on from "
                f"{len(self.components_)} components"
            )
        if self._stream is not None:
            return self._stream
        if sparse.issparse(self.X_fit_):
            raise ValueError("a stream can't go on from a fit to sparse samples")
        n = self.n_samples_seen_
        A = self.coefficients_.astype(np.float64)
        c, along, mean_square = np.zeros(n), np.zeros(len(A)), 0.0
        if self.center:
            A = A - A.mean(axis=1, keepdims=True)
            means = self._means.astype(np.float64)
            c, along, mean_square = np.full(n, 1 / n), A @ means, float(means.mean())
        gram = self.norms_[:, None] * (self._codes.T @ self.components_.T) * self.norms_
        weight = self.n_iter_ / (FORGETTING + 1)
        # the variance of the outputs, by the codes of the fitted samples
        energy = weight * np.mean((self._codes * self.norms_) ** 2, axis=0, dtype=np.float64)
        return StreamState(
            self.X_fit_, A, c, along, mean_square, gram.astype(np.float64), energy, weight,
            self.n_iter_, n,
        )  # fmt: skip

    def _publish_stream(self, state, dtype):
        self._stream = state
        self.norms_ = np.sqrt(np.maximum(state.gram.diagonal(), 0))
        scale = np.divide(1, self.norms_, out=np.zeros_like(self.norms_), where=self.norms_ > 0)
        self.components_ = (scale[:, None] * state.A).astype(dtype)
        self.coefficients_ = state.A.astype(dtype)
        self._weights = self.components_.T
        self._offset = (scale * state.along).astype(dtype)
        variance = state.energy * scale**2 / (state.weight or 1.0)
        self.eigenvalues_ = (state.n_samples * variance).astype(dtype)
        self.X_fit_, self.lost_ = state.points, state.lost
        self.n_iter_, self.n_samples_seen_ = state.t, state.n_samples
        if self.preimage is not None:
            self.preimage_ = self._fit_preimage(self.preimage)

    def fit_transform(self, X, y=None, **params):
        """Fit to X and return its codes, which costs nothing more than the fit.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : Ignored
        **params : dict
            Passed to `fit`.

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_components)
        """
        return self.fit(X, **params)._codes

    def transform(self, X):
        """Return the codes of the rows of X: their coordinates along the components.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_new, n_features)
            With kernel='precomputed' the kernel values between the new and the fitted samples,
            of shape (n_new, n_samples).

        Returns
        -------
        X_new : ndarray of shape (n_new, n_components)
        """
        check_is_fitted(self)
        if isinstance(self.X_fit_, CenteredOperator | MatrixOperator):
            raise ValueError("a model of an operator has no codes for new samples: use components_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        codes = np.empty((X.shape[0], self._n_features_out), np.result_type(X, self.components_))
        for rows in gen_batches(X.shape[0], BLOCK_ROWS):
            if self.kernel == "precomputed":
                K = X[rows].toarray() if sparse.issparse(X) else X[rows]
            else:
                K = self._kernel_object()(X[rows], self.X_fit_)
            codes[rows] = K @ self._weights - self._offset
        if not np.isfinite(codes).all():
            raise ValueError(f"kernel={self.kernel!r} gives NaN or infinity on X: scale the data")
        return codes

    def inverse_transform(self, X, *, preimage=None):
        """Return samples whose codes are near X.

        Parameters
        ----------
        X : array-like of shape (n_new, n_components)
        preimage : str or Preimage, default=None
            Another decoder than the fitted one; see the parameter of that name.

        Returns
        -------
        X_original : ndarray of shape (n_new, n_features)
        """
        check_is_fitted(self)
        if preimage is None and self.preimage is None:
            raise NotFittedError(
                f"inverse_transform needs a preimage, one of {', '.join(PREIMAGES)}: give it here "
                f"or to {type(self).__name__}"
            )
        X = check_array(X, dtype=[np.float64, np.float32], input_name="X", estimator=self)
        if X.shape[1] != self._n_features_out:
            raise ValueError(
                f"X has {X.shape[1]} columns, but the codes of this {type(self).__name__} have "
                f"{self._n_features_out} components"
            )
        decoder = self.preimage_ if preimage is None else self._fit_preimage(preimage)
        return decoder.decode(X)

    def _fit_preimage(self, preimage):
        if self.kernel == "precomputed" or sparse.issparse(self.X_fit_):
            raise ValueError(f"preimage={preimage!r} needs dense samples, not a precomputed kernel")
        decoder = make_preimage(preimage) if isinstance(preimage, str) else clone(preimage)
        if self._stream is None:
            means = np.zeros(len(self.X_fit_)) if self._means is None else self._means
            mean_weights, codes = None, self._codes
            grand_mean = float(means.mean(dtype=np.float64))
        else:
            mean_weights = self._stream.c.astype(self._weights.dtype)
            grand_mean = self._stream.mean_square
            means = self._kernel_object()(self.X_fit_) @ mean_weights
            codes = self.transform(self.X_fit_)
        space = CodeSpace(
            X=self.X_fit_,
            kernel=self._kernel_object(),
            alphas=np.ascontiguousarray(self.components_.T),
            codes=codes,
            targets=self.X_fit_,
            column_means=means,
            grand_mean=grand_mean,
            center=self.center,
            mean_weights=mean_weights,
        )
        return decoder.fit(space)

    def _kernel_object(self):
        if isinstance(self.kernel, Kernel):
            return self.kernel
        return make_kernel(self.kernel, gamma=self.gamma_, degree=self.degree, coef0=self.coef0)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self):
        return self.components_.shape[0]


def _ladder(top: float) -> Iterator[float]:
    """Yield the numbers {5, 2, 1} 10^b that are at most `top`, in descending order."""
    exponent = int(np.floor(np.log10(top)))
    for b in range(exponent, exponent - DECADES, -1):
        for a in (5, 2, 1):
            value = float(f"{a}e{b}")
            if value <= top * (1 + 1e-9):
                yield value


def _descend(
    error: Callable[[float], float], ladder: Iterator[float], worst: float = np.inf
) -> float:
    """Return the value of the ladder after which two smaller ones in a row were no better.

    `worst` is the error of the value 0, which is returned if nothing is better.
    """
    best, smallest, failures = 0.0, worst, 0
    for value in ladder:
        result = error(value)
        if result < smallest:
            best, smallest, failures = value, result, 0
        elif np.isfinite(result):
            failures += 1
        if failures == 2:
            break
    return best if best or np.isfinite(worst) else value
