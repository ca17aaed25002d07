"""Autoencoding kernel PCA: codes that are quadratic in x, chosen so that x can be rebuilt.

PCA compresses x and rebuilds x; degree-2 kernel PCA compresses phi(x) = x x^T and rebuilds phi(x).
Autoencoding kernel PCA (Cohen, Hazan and Ma, 2016) compresses phi(x) and rebuilds x. A code is
f(x)_j = x^T A_j x, and a decoder adds up M(y) = sum_j y_j B_j, which should be near x x^T, and
takes its leading eigenpair, g(y) = sqrt(max(lambda, 0)) v. The matrices A_j and B_j minimise one of
the two losses of :mod:`akpca.objectives` by one of the optimisers of :mod:`akpca.optim`.

Inside, k symmetric matrices are one array of shape (D, k, D), so that products of a batch with all
of them are one matrix multiplication; samples are divided by their root mean squared norm, so that
no step size depends on their scale, and turned to their principal axes. That changes neither codes
nor errors, but Adam: there it can take smaller steps along axes of little variance, which have
little to tell. It fits held-out samples better, and axes without variance drop out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral, Real

import numpy as np
from scipy import linalg
from scipy.optimize import minimize
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.utils import check_array, check_random_state, gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import svd_flip
from sklearn.utils.validation import check_is_fitted, validate_data
from tqdm import tqdm

from . import objectives
from .eigen import leading_eigenpairs
from .kernel_pca import KernelPCA
from .kernels import BLOCK_ROWS
from .optim import OPTIMIZERS, cosine, make_optimizer

OBJECTIVES = ("reconstruction", "spectral")
# Adam's largest step, in units of the root mean squared entry of a component of norm 1, which is
# 1 / D; SGD's and SVRG's, in units of such a component.
RATES = {
    ("adam", "reconstruction"): 0.5,
    ("adam", "spectral"): 0.4,
    ("sgd", "reconstruction"): 1.0,
    ("sgd", "spectral"): 1.0,
    ("svrg", "reconstruction"): 1.0,
    ("svrg", "spectral"): 1.0,
}
# Adam's steps at entry (r, s) are proportional to (variance of r times that of s) to half this
# power, but not more than so many times their root mean square. The larger, the less is learnt by
# heart, and the later: most where PCA is hard to beat. Without an offset the mean's axis has most
# of the variance.
STEP_POWER = {
    ("reconstruction", True): 0.75,
    ("reconstruction", False): 0.5,
    ("spectral", True): 0.5,
    ("spectral", False): 0.5,
}
CAUTIOUS_POWER = 1.25
STEP_LIMIT = 10.0
# How strongly components are pulled back to the start, unless the user says. The spectral loss fits
# too little rather than too much.
PENALTIES = {"reconstruction": 0.15, "spectral": 0.0}
# The part of all steps in which they become longer.
WARM = 0.3
# Axes of less variance than this part of the largest are left out: rounding.
VARIANCE_FLOOR = 1e-11
# From so many components on it is cheaper to form M once for a batch than to go through all B_j
# at each product; in training, where there are about ten products, and in decoding.
FORM_IN_TRAINING, FORM_IN_DECODING = 12, 3
# Numbers in the matrices M of a block, 32 MB in float64, and most that may be formed in training.
BLOCK_SIZE, FORMED_SIZE = 2**22, 2**26
# Samples that are encoded at a time.
ENCODED_ROWS = 200
# Samples from which the start is computed, and on which the best iterate is chosen, at most.
START_SAMPLES, MONITOR_SAMPLES = 5000, 500
# Residuals of eigenvectors when iterates are compared, and Lanczos steps where no earlier
# eigenvector of a sample is known.
MONITOR_TOL, FRESH_STEPS = 3e-3, 12
# Mean loss, of samples of mean squared norm 1, at which a descent has got out of hand.
DIVERGED = 1e4
# The constant coordinate of samples that have little to tell beyond PCA, in units of the root mean
# squared norm of the centred samples; that of others is 1. And how many are asked.
LARGE_CONSTANT, PROBED_SAMPLES = 4.0, 2000


def encode(A: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Return the codes y_ij = x_i^T A_j x_i.

    Parameters
    ----------
    A : ndarray of shape (d, k, d)
        Symmetric matrices A_j = A[:, j].
    X : ndarray of shape (b, d)

    Returns
    -------
    Y : ndarray of shape (b, k)
    """
    return np.matmul(_images(A, X), X[:, :, None])[:, :, 0]


def matrix_product(B: np.ndarray, Y: np.ndarray, *, form: bool = False) -> objectives.Product:
    """Return the products with M_i = sum_j y_ij B_j, as :mod:`akpca.objectives` wants them.

    Parameters
    ----------
    B : ndarray of shape (d, k, d)
    Y : ndarray of shape (b, k)
    form : bool, default=False
        Form the M_i, b d^2 numbers, which makes each product cheaper by a factor of about k / 3.
    """
    d, k, _ = B.shape
    if form:
        flat = np.ascontiguousarray(B.transpose(1, 0, 2)).reshape(k, d * d)
        return objectives.stacked_product((Y @ flat).reshape(-1, d, d))
    return lambda W: np.matmul(Y[:, None, :], _images(B, W))[:, 0]


def gradients(
    A: np.ndarray, B: np.ndarray, X: np.ndarray, loss: Callable, *, form: bool | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the losses of a batch and the gradients of their mean by encoder and decoder.

    Parameters
    ----------
    A : ndarray of shape (d, k, d)
        Encoder.
    B : ndarray of shape (d, k, d) or (d, k + 1, d)
        Decoder; one more matrix than A has is a constant term.
    X : ndarray of shape (b, d)
        What is encoded.
    loss : callable
        From the products with the M_i to ``(losses, P, V)``, such as
        ``lambda product: objectives.spectral(product, X, start)``.
    form : bool, default=None
        As in `matrix_product`; None chooses by cost.

    Returns
    -------
    losses : ndarray of shape (b,)
    dA, dB : ndarray
        Of the shapes of A and B.
    V : ndarray of shape (b, d)
        Eigenvectors that were found.
    """
    (b, d), k = X.shape, A.shape[1]
    if form is None:
        form = B.shape[1] >= FORM_IN_TRAINING and b * d * d <= FORMED_SIZE
    Y = _with_constant(encode(A, X), B)
    losses, P, V = loss(matrix_product(B, Y, form=form))
    # dF/dy_j = p^T B_j v, dF/dA_j = sum_i dF/dy_ij x_i x_i^T, dF/dB_j = sum_i y_ij sym(p_i v_i^T)
    dY = np.matmul(_images(B, V)[:, :k], P[:, :, None])[:, :, 0]
    dA = _weighted_sum(dY / b, X, X)
    dB = _weighted_sum(Y / b, P, V)
    dB = (dB + dB.transpose(2, 1, 0)) / 2
    return losses, dA, dB, V


def kpca_start(X: np.ndarray, k: int, random_state=None) -> tuple[np.ndarray, np.ndarray]:
    """Return uncentred degree-2 kernel PCA as encoder and decoder, A_j = B_j = V_j.

    V_j = sum_i alpha_ij x_i x_i^T is the j-th component, of Frobenius norm 1. Where the samples
    have fewer than k components the rest of B is 0, and that of A random.

    Returns
    -------
    A, B : ndarray of shape (d, k, d)
    """
    rng = check_random_state(random_state)
    A = _random_symmetric(X.shape[1], k, X.dtype, rng)
    B = np.zeros_like(A)
    model = KernelPCA(
        min(k, len(X)),
        kernel="poly",
        degree=2,
        gamma=1,
        coef0=0,
        center=False,
        remove_zero_eig=True,
        random_state=rng,
    ).fit(X)
    alphas = model.eigenvectors_ / np.sqrt(model.eigenvalues_)
    found = alphas.shape[1]
    A[:, :found] = B[:, :found] = _weighted_sum(alphas, X, X)
    return A, B


def pca_start(
    X: np.ndarray, k: int, random_state=None, *, corner: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return PCA as encoder and decoder, for centred samples with a constant c as last coordinate.

    With e the last axis and a_j the principal axes, A_j = sqrt(2) sym(a_j e^T) gives the linear
    code y_j = sqrt(2) c a_j.x; B_j = gamma A_j, and the constant matrix is
    B_0 = c^2 (e e^T + beta sum_j a_j a_j^T). With x-hat, the answer of PCA, M is 0 but for
    c gamma x-hat beside the c^2 and the corner beta c^2, so that the decoder answers a multiple of
    x-hat, which should be x-hat itself, whatever its norm r:

        1 / (1 - beta) (gamma r) (1 - (2 + beta) / 2 (gamma r)^2 / ((1 - beta) c)^2 + ...)

    By gamma = 1 - beta that is right for large c, and beta = -2 takes away the next term as well.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    k : int
    random_state : int, RandomState instance or None, default=None
    corner : bool, default=False
        Whether to choose beta, together with gamma, such that the answers come nearest to PCA's.
        Else it is 0, and gamma alone is chosen. A corner makes the start as good as PCA but holds
        the quadratic terms back.

    Returns
    -------
    A : ndarray of shape (d, k, d)
    B : ndarray of shape (d, k + 1, d)
        B_0 is the last one.
    """
    rng = check_random_state(random_state)
    d, c = X.shape[1] - 1, float(X[0, -1])
    X = X[:, :d]
    axes, _ = principal_axes(X, k, random_state=rng)
    axes = axes.astype(X.dtype)
    used = axes.shape[1]
    A = _random_symmetric(d + 1, k, X.dtype, rng)
    A[:, :used] = 0
    A[:d, :used, d] = axes / np.sqrt(X.dtype.type(2))
    A[d, :used, :d] = A[:d, :used, d].T
    gamma, beta, _ = best_factors(np.linalg.norm(X @ axes, axis=1), c, corner=corner)
    B = np.zeros((d + 1, k + 1, d + 1), X.dtype)
    B[:, :used] = gamma * A[:, :used]
    B[:d, k, :d] = beta * c**2 * (axes @ axes.T)
    B[d, k, d] = c**2
    return A, B


def choose_constant(X: np.ndarray, k: int, large: float = LARGE_CONSTANT) -> float:
    """Return a constant coordinate for centred samples of mean squared norm 1: 1 or `large`.

    The smaller it is, the more the quadratic terms can do; the larger, the nearer `pca_start` is
    to PCA. What there is to gain, a kernel ridge regression tells: from PCA's codes of some samples
    it learns what PCA has lost of them, and predicts it for others. The constant is 1 if that
    lowers the error by more than what the start, with 1, is above PCA.
    """
    order = np.random.RandomState(0).permutation(len(X))[:PROBED_SAMPLES]
    some, others = X[order[::2]], X[order[1::2]]
    axes, variances = principal_axes(some, k, random_state=0)
    if not len(variances) or not len(others):
        return large
    codes, new_codes = some @ axes, others @ axes
    gamma = 1 / np.sum(variances)
    ridge = KernelRidge(kernel="rbf", gamma=gamma, alpha=0.3).fit(codes, some - codes @ axes.T)
    lost = others - new_codes @ axes.T
    gain = (np.sum(lost**2) - np.sum((lost - ridge.predict(new_codes)) ** 2)) / len(others)
    _, _, excess = best_factors(np.linalg.norm(new_codes, axis=1), 1.0)
    return 1.0 if gain > excess else large


def principal_axes(
    X: np.ndarray, k: int | None = None, *, random_state=None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the principal axes of centred samples, or those of the scatter about 0 of others.

    They come from the smaller of the two Gram matrices, which is never larger than the samples.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    k : int, default=None
        Most axes to return; None is all.
    random_state : int, RandomState instance or None, default=None
        The eigensolver's start.

    Returns
    -------
    axes : ndarray of shape (d, found)
        Orthonormal columns in double precision, largest variance first; those that have none are
        left out.
    variances : ndarray of shape (found,)
        Mean squares of the samples along them.
    """
    n, d = X.shape
    by_features = d <= n
    if by_features:
        gram = np.zeros((d, d))
        for rows in gen_batches(n, BLOCK_ROWS):
            block = X[rows].astype(np.float64)
            gram += block.T @ block
    else:
        gram = X.astype(np.float64)
        gram = gram @ gram.T
    if not gram.any():
        return np.zeros((d, 0)), np.zeros(0)
    k = len(gram) if k is None else min(k, len(gram))
    if k < len(gram):
        values, vectors, _ = leading_eigenpairs(gram, k, random_state=random_state)
    else:
        values, vectors = linalg.eigh(gram, overwrite_a=True, driver="evd", check_finite=False)
        values, vectors = values[::-1], vectors[:, ::-1]
    found = int(np.sum(values > VARIANCE_FLOOR * values[0]))
    values, vectors = values[:found], vectors[:, :found]
    axes = vectors if by_features else X.T @ (vectors / np.sqrt(values))
    # signs that do not depend on the solver
    _, rows = svd_flip(None, axes.T, u_based_decision=False)
    return np.ascontiguousarray(rows.T), values / n


def best_factors(
    norms: np.ndarray, c: float, *, corner: bool = False
) -> tuple[float, float, float]:
    """Return gamma and beta of `pca_start`, and the mean squared error that they leave of norms."""
    if not norms.any():
        return 1.0, 0.0, 0.0
    norms = norms.astype(np.float64)

    def error(factors):
        gamma, beta = factors if corner else (*factors, 0.0)
        # the decoder is an eigenproblem of size 2
        side, block = c * gamma * norms, beta * c**2
        value = (block + c**2) / 2 + np.hypot((c**2 - block) / 2, side)
        decoded = np.sqrt(value) * side / np.hypot(side, value - block)
        return np.mean((decoded - norms) ** 2)

    found = minimize(error, (3.0, -2.0) if corner else (1.0,), method="Nelder-Mead")
    gamma, beta = found.x if corner else (*found.x, 0.0)
    return float(gamma), float(beta), float(found.fun)


def _images(T, W):
    """Return T_j w_i for all i and j, shape (b, k, d)."""
    d, k, _ = T.shape
    return (W @ T.reshape(d, k * d)).reshape(len(W), k, d)


def _weighted_sum(Y, P, V):
    """Return sum_i y_ij p_i v_i^T for all j, shape (d, k, d)."""
    weighted = (Y[:, :, None] * V[:, None, :]).reshape(len(Y), -1)
    return (P.T @ weighted).reshape(P.shape[1], Y.shape[1], V.shape[1])


def _with_constant(Y, B):
    """Return the codes with a column of ones, if B has a constant term."""
    if B.shape[1] == Y.shape[1]:
        return Y
    return np.hstack([Y, np.ones((len(Y), 1), Y.dtype)])


def _random_symmetric(d, k, dtype, rng):
    """Return k random symmetric matrices of Frobenius norm 1, shape (d, k, d)."""
    A = rng.standard_normal((d, k, d)).astype(dtype)
    A += A.transpose(2, 1, 0)
    return A / np.sqrt(np.sum(A * A, axis=(0, 2), keepdims=True))


class AKPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Autoencoding kernel PCA: f(x)_j = z^T A_j z, g(y) = sqrt(lambda) v of B_0 + sum_j y_j B_j.

    Here (lambda, v) is the leading eigenpair, and z is x itself, with B_0 = 0, in the form of the
    report (``offset=False``). With an offset, z = (x - mean, c) has a constant last coordinate, so
    that codes have linear terms besides quadratic ones, and g takes the sign that makes the last
    coordinate positive. The report's form can't tell x from -x, and is for non-negative samples.

    Parameters
    ----------
    n_components : int, default=2
        k, the size of the code; at most the number of different terms, d (d + 1) / 2, or
        d (d + 3) / 2 with an offset.
    objective : {'reconstruction', 'spectral'}, default='reconstruction'
        ||g(f(x)) - x||^2, (15) of the report, or the surrogate ||M - x x^T||_2, (18), that the
        report minimises in its place. In training the latter is a lower bound, found by four
        Lanczos steps from near x: what is wrong near x is what the decoder notices.
    offset : bool, default=True
        Centre the samples and append a constant coordinate. False is the report's form, which
        takes non-negative samples only.
    constant : float or 'auto', default='auto'
        The constant coordinate c in units of `scale_`. Small constants make more of the quadratic
        terms; with those above 1, the start is as good as PCA (reconstruction objective). 'auto'
        is `choose_constant`, or 1 for the spectral objective.
    init : {'auto', 'pca', 'kpca', 'random'}, default='auto'
        The start: PCA (with an offset only), uncentred degree-2 kernel PCA (without), or random
        symmetric matrices. 'auto' is the one of the first two that fits.
    solver : {'adam', 'sgd', 'svrg'}, default='adam'
        The optimiser, with a step that rises in the first three tenths of the descent, and then
        falls to 0 as half a cosine. Only Adam's steps depend on the variance of axes.
    learning_rate : float, default=None
        The largest step; None is a value that suits every scale, dimension and k that was tried.
        For 'adam' in units of the root mean squared entry of a component of norm 1, which is one
        over its size; for the others, of such a component.
    n_epochs : int, default=None
        Passes over the samples. None is 14 for 3,000 samples and proportional to n^(-2/3) for
        others, but between 4 and 100.
    batch_size : int, default=100
        Samples of a step.
    penalty : float, default=None
        How strongly components are pulled back to the start: each epoch takes away about this part
        of what they have moved, times the relative length of its steps. None is 0.15, or 0 for the
        spectral objective, which does not overfit.
    noise : {'gaussian', 'speckle'} or callable, default=None
        Corrupt the samples that are encoded, anew in each step, but not those to be rebuilt: a
        denoising autoencoder. A callable gets samples and a ``RandomState`` and returns corrupted
        samples.
    noise_level : float, default=0.1
        Standard deviation of Gaussian noise, in the units of X, or probability that speckle sets
        an entry to 0.
    early_stopping : bool, default=False
        Hold a part of the samples out of the descent, though not of the start, and choose the
        best iterate on it; stop when none has been better for `n_iter_no_change` epochs.
    validation_fraction : float, default=0.1
        That part.
    n_iter_no_change : int, default=None
        Patience of early stopping. None goes on to the last epoch: a good part of the gain comes
        late, when steps are small.
    warm_start : bool, default=False
        Let `fit` start from the fitted components, with their mean, scale and axes.
    precision : {'single', 'double'}, default='single'
        Of the arithmetic in `fit`. Single is as good and twice as fast.
    random_state : int, RandomState instance or None, default=None
        Order of the samples, starting vectors, noise, the part held out, a random start.
    verbose : bool, default=False
        Show a progress bar.
    callback : callable, default=None
        Called as ``callback(self, epoch)`` after each epoch, with the model of that epoch; a true
        value stops.

    Attributes
    ----------
    encoder_, decoder_ : ndarray of shape (n_components, D, D)
        The symmetric matrices A_j and B_j, in the units of X; D is d, or d + 1 with an offset.
    decoder_offset_ : ndarray of shape (D, D)
        B_0; 0 without an offset.
    components_ : tuple of two ndarrays
        ``(encoder_, decoder_)``.
    mean_ : ndarray of shape (d,)
        0 without an offset.
    constant_ : float
        c; 0 without an offset.
    scale_ : float
        Root mean squared norm of the (centred) samples.
    loss_curve_ : list of float
        Mean loss of each epoch, in the units of X squared, as seen by the optimiser.
    monitor_curve_ : list of float
        Mean ||g(f(x)) - x||^2 at the start and after each epoch, with exact eigenvectors: of the
        part held out, or of (at most 500 of) the samples themselves. The iterate where it is
        least is kept.
    gap_curve_ : list of float
        The median of lambda_2 / lambda_1 on the same samples: near 1, what the decoder answers is
        hardly defined.
    best_epoch_ : int
        Its index; 0 is the start.
    n_iter_ : int
        Epochs that were run.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Examples
    --------
    >>> from akpca import AKPCA, load_dataset, relative_error
    >>> X = load_dataset("digits").X
    >>> model = AKPCA(5, n_epochs=3, random_state=0).fit(X)
    >>> X_hat = model.inverse_transform(model.transform(X))
    >>> X_hat.shape
    (1797, 64)
    """

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's convention)
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "objective": [StrOptions(set(OBJECTIVES))],
        "offset": ["boolean"],
        "constant": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "init": [StrOptions({"auto", "pca", "kpca", "random"})],
        "solver": [StrOptions(set(OPTIMIZERS))],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "n_epochs": [Interval(Integral, 0, None, closed="left"), None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "penalty": [Interval(Real, 0, 1, closed="both"), None],
        "noise": [StrOptions({"gaussian", "speckle"}), callable, None],
        "noise_level": [Interval(Real, 0, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None],
        "warm_start": ["boolean"],
        "precision": [StrOptions({"single", "double"})],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "callback": [callable, None],
    }

    def __init__(
        self,
        n_components=2,
        *,
        objective="reconstruction",
        offset=True,
        constant="auto",
        init="auto",
        solver="adam",
        learning_rate=None,
        n_epochs=None,
        batch_size=100,
        penalty=None,
        noise=None,
        noise_level=0.1,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=None,
        warm_start=False,
        precision="single",
        random_state=None,
        verbose=False,
        callback=None,
    ):
        self.n_components = n_components
        self.objective = objective
        self.offset = offset
        self.constant = constant
        self.init = init
        self.solver = solver
        self.learning_rate = learning_rate
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.penalty = penalty
        self.noise = noise
        self.noise_level = noise_level
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.precision = precision
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Learn encoder and decoder. An interrupt keeps the best iterate so far.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Non-negative if ``offset=False``.
        y : Ignored

        Returns
        -------
        self : object
        """
        again = self.warm_start and hasattr(self, "_encoder")
        X = self._validate(X, reset=not again, ensure_min_samples=2)
        rng = check_random_state(self.random_state)
        train, held_out = self._split(len(X), rng)
        if again:
            self._check_warm()
        else:
            self._set_units(X, turn=True)
        Z = self._normalized(X)
        # from all samples: a start from fewer would lose more than the descent gains where PCA is
        # hard to beat, and one that has seen those held out makes it harder to leave it
        params = self._params(self._work_dtype) if again else self._start(Z, rng)
        self._dtype = X.dtype
        self._reset_curves()
        self._descend(params, Z[train], Z[held_out], rng)
        self._optimizer = None
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None):
        """Do one pass over some more samples, with a constant step.

        The first call also sets mean, scale and start from its samples, so it should bring a good
        number of them. Samples are not turned to principal axes, as the first ones may not know
        them all. Neither the best iterate nor a part held out is kept.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : Ignored

        Returns
        -------
        self : object
        """
        first = not hasattr(self, "_encoder")
        X = self._validate(X, reset=first, ensure_min_samples=2 if first else 1)
        rng = check_random_state(self.random_state)
        if first:
            self._set_units(X, turn=False)
            params = self._start(self._normalized(X), rng)
            self._dtype = X.dtype
            self._reset_curves()
        else:
            self._leave_axes()
            params = self._params(self._work_dtype)
        if getattr(self, "_optimizer", None) is None:
            self._optimizer = self._make_optimizer(params)
        Z = self._normalized(X)
        # the mean step of the schedule of `fit`
        rates = np.full(len(Z), 0.5 * self._rate())
        self.loss_curve_.append(self._epoch(params, self._optimizer, Z, None, rates, rng))
        self.n_iter_ += 1
        self._keep(params)
        return self

    def _reset_curves(self):
        self.loss_curve_, self.monitor_curve_, self.gap_curve_ = [], [], []
        self.n_iter_ = self.best_epoch_ = 0

    def transform(self, X):
        """Return the codes f(x) of the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_new, n_features)

        Returns
        -------
        X_new : ndarray of shape (n_new, n_components)
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        if not self.constant_:
            self._warn_of_signs(X)
        encoding = self._encoding(self._params(X.dtype)[0])
        codes = np.empty((len(X), self._n_features_out), X.dtype)
        for rows in gen_batches(len(X), ENCODED_ROWS):
            codes[rows] = encoding(self._normalized(X[rows], X.dtype))
        return codes * self.scale_**2

    def inverse_transform(self, X):
        """Return the samples g(y) of some codes, by converged eigenvectors.

        Parameters
        ----------
        X : array-like of shape (n_new, n_components)

        Returns
        -------
        X_original : ndarray of shape (n_new, n_features)
        """
        check_is_fitted(self)
        Y = check_array(X, dtype=[np.float64, np.float32], input_name="X", estimator=self)
        if Y.shape[1] != self._n_features_out:
            raise ValueError(
                f"X has {Y.shape[1]} columns, but the codes of this {type(self).__name__} have "
                f"{self._n_features_out} components"
            )
        _, B = self._params(Y.dtype)
        X_hat = np.empty((len(Y), self.n_features_in_), Y.dtype)
        for rows, Z_hat, _ in self._decoded(B, Y / self.scale_**2):
            X_hat[rows] = self._turned_back(Z_hat)
        return X_hat * self.scale_ + self.mean_.astype(Y.dtype)

    # ------------------------------------------------------------------ what was fitted

    @property
    def encoder_(self) -> np.ndarray:
        """A_j, shape (n_components, D, D)."""
        return self._matrices(self._encoder)

    @property
    def decoder_(self) -> np.ndarray:
        """B_j, shape (n_components, D, D)."""
        return self._matrices(self._decoder)[: self._n_features_out]

    @property
    def decoder_offset_(self) -> np.ndarray:
        """B_0, shape (D, D)."""
        if not self.constant_:
            return np.zeros((self.n_features_in_, self.n_features_in_), self._dtype)
        return self._matrices(self._decoder)[-1] * self._dtype.type(self.scale_**2)

    def _matrices(self, T):
        """Return fitted matrices in the coordinates of features, shape (k, D, D)."""
        T = T.transpose(1, 0, 2)
        if self._axes is None:
            return T
        (d, r), offset = self._axes.shape, bool(self.constant_)
        turn = np.zeros((d + offset, r + offset), T.dtype)
        turn[:d, :r] = self._axes
        turn[d:, r:] = 1
        T = turn @ T @ turn.T
        return (T + T.transpose(0, 2, 1)) / 2

    @property
    def components_(self) -> tuple[np.ndarray, np.ndarray]:
        """Encoder and decoder."""
        return self.encoder_, self.decoder_

    @property
    def _n_features_out(self):
        return self._encoder.shape[1]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = not self.offset
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # ------------------------------------------------------------------ samples

    def _validate(self, X, *, reset, ensure_min_samples):
        X = validate_data(
            self,
            X,
            dtype=[np.float64, np.float32],
            reset=reset,
            ensure_min_samples=ensure_min_samples,
        )
        d, k = X.shape[1], self.n_components
        terms = d * (d + 3) // 2 if self.offset else d * (d + 1) // 2
        if k > terms:
            raise ValueError(
                f"n_components={k} must not be more than {terms}, the number of "
                f"{'linear and quadratic' if self.offset else 'quadratic'} terms of {d} features"
            )
        if not self.offset and X.min() < 0:
            raise ValueError(
                "Negative values in data: offset=False can't tell x from -x, so that it takes "
                "non-negative samples only; use offset=True"
            )
        if self.noise == "speckle" and self.noise_level > 1:
            raise ValueError(
                f"noise_level={self.noise_level} must be from 0 to 1 for noise='speckle', the "
                "probability that an entry is set to 0"
            )
        if self.offset and self.init == "kpca":
            raise ValueError("init='kpca' needs offset=False; use 'auto', 'pca' or 'random'")
        if not self.offset and self.init == "pca":
            raise ValueError("init='pca' needs offset=True; use 'auto', 'kpca' or 'random'")
        return X

    def _warn_of_signs(self, X):
        """Complain of samples that can't come back, as without an offset all sums are positive."""
        sums, sizes = X.sum(axis=1), np.abs(X).sum(axis=1)
        if np.any(sums < -0.5 * sizes):
            raise ValueError(
                "Negative values in data passed to AKPCA: offset=False can't tell x from -x, so "
                "that samples which are mostly negative would come back with the wrong sign"
            )
        if np.any(sums < 0):
            warnings.warn(
                f"{np.sum(sums < 0)} samples have a negative sum; with offset=False they come "
                "back with a positive one",
                UserWarning,
                stacklevel=3,
            )

    def _split(self, n, rng):
        """Return the indices of training samples and of those held out, if any."""
        if not self.early_stopping:
            return slice(None), slice(0)
        held_out = max(1, round(self.validation_fraction * n))
        if n - held_out < 2:
            raise ValueError(
                f"early_stopping with validation_fraction={self.validation_fraction} leaves "
                f"{n - held_out} of {n} samples to train with, at least 2 are needed"
            )
        order = rng.permutation(n)
        return np.sort(order[held_out:]), np.sort(order[:held_out])

    def _set_units(self, X, *, turn):
        """Set mean and scale, the axes if samples are to be turned, and the constant."""
        d = X.shape[1]
        self.mean_ = X.mean(axis=0, dtype=np.float64) if self.offset else np.zeros(d)
        info = np.finfo(X.dtype)
        with np.errstate(over="ignore", under="ignore"):
            spread = float(np.ptp(X, axis=0).max() if self.offset else X.max())
            total = sum(
                float(np.sum((X[rows] - self.mean_) ** 2)) for rows in gen_batches(len(X), 1000)
            )
        self.scale_ = float(np.sqrt(total / len(X)))
        if spread <= 4 * info.eps * np.abs(self.mean_).max():
            # what rounding leaves of constant samples is no scale
            self.scale_ = 1.0
        low, high = 100 * float(info.tiny) ** 0.5, float(info.max) ** 0.5 / 100
        if not low < self.scale_ < high:
            size, way = ("small", "up") if self.scale_ <= low else ("large", "down")
            raise ValueError(
                f"X is too {size}: codes are squares of its entries, which {X.dtype} can't hold; "
                f"scale it {way}"
            )
        self.mean_ = self.mean_.astype(X.dtype)
        self.constant_, self._axes, self._variances = 0.0, None, None
        if turn:
            self._set_axes(self._normalized(X))
        if self.offset:
            c = self.constant
            if c == "auto":
                # the spectral norm also counts the errors at the constant, which grow with it
                c = 1.0
                if self.objective == "reconstruction":
                    c = self._choose_constant(self._normalized(X))
            self.constant_ = c * self.scale_

    def _choose_constant(self, Z):
        return choose_constant(Z, self.n_components)

    def _set_axes(self, Z):
        """Choose the axes in which the descent goes on, from samples in units of the scale."""
        axes, variances = principal_axes(Z)
        if len(variances):
            self._axes, self._variances = axes, variances

    def _leave_axes(self):
        """Go on in the features themselves: samples to come may vary along other axes."""
        if self._axes is None:
            return
        A, B = self._matrices(self._encoder), self._matrices(self._decoder)
        self._encoder, self._decoder = (np.ascontiguousarray(T.transpose(1, 0, 2)) for T in (A, B))
        constant = self._direction[self._n_axes :]
        direction = self._axes @ self._direction[: self._n_axes]
        self._direction = np.append(direction, constant).astype(constant.dtype)
        self._axes = self._variances = None

    @property
    def _cautious(self):
        """Whether to start level with PCA and to stay near it."""
        return self.objective == "reconstruction" and self.constant_ > self.scale_

    @property
    def _n_axes(self):
        return self.n_features_in_ if self._axes is None else self._axes.shape[1]

    def _check_warm(self):
        if self._n_features_out != self.n_components or self.offset != bool(self.constant_):
            raise ValueError(
                "warm_start can't change n_components or offset: the fitted components are "
                f"{self._n_features_out}, with offset={bool(self.constant_)}"
            )

    @property
    def _work_dtype(self):
        return np.dtype(np.float32 if self.precision == "single" else np.float64)

    def _normalized(self, X, dtype=None):
        """Return samples in units of the scale and along the axes, with the constant."""
        dtype = self._work_dtype if dtype is None else dtype
        size = self._n_axes
        axes = None if self._axes is None else self._axes.astype(dtype)
        Z = np.empty((len(X), size + bool(self.constant_)), dtype)
        for rows in gen_batches(len(X), BLOCK_ROWS):
            # in the precision of X, lest a large mean swallow what varies
            block = ((X[rows] - self.mean_) / self.scale_).astype(dtype, copy=False)
            Z[rows, :size] = block if axes is None else block @ axes
        Z[:, size:] = self.constant_ / self.scale_
        return Z

    def _turned_back(self, Z):
        """Return the features of normalised samples, still centred and in units of the scale."""
        Z = Z[:, : self._n_axes]
        return Z if self._axes is None else Z @ self._axes.T.astype(Z.dtype)

    def _corrupted(self, Z, rng):
        """Return normalised samples with noise."""
        if self.noise is None or self.noise_level == 0:
            return Z
        X = self._turned_back(Z) * self.scale_ + self.mean_
        if self.noise == "gaussian":
            X += self.noise_level * rng.standard_normal(X.shape)
        elif self.noise == "speckle":
            X[rng.random_sample(X.shape) < self.noise_level] = 0
        else:
            X = self.noise(X, rng)
        return self._normalized(X, Z.dtype)

    # ------------------------------------------------------------------ descent

    def _start(self, Z, rng):
        """Return encoder and decoder to start from; note where eigenvector iterations do."""
        self._direction = Z.mean(axis=0)
        if self.offset:
            self._direction = np.zeros_like(self._direction)
            self._direction[-1] = 1
        return self._start_params(Z, rng)

    def _start_params(self, Z, rng):
        k, d = self.n_components, Z.shape[1]
        if self.init == "random":
            A, B = (_random_symmetric(d, k, Z.dtype, rng) for _ in range(2))
            if self.offset:
                constant = np.zeros((d, 1, d), Z.dtype)
                constant[-1, 0, -1] = (self.constant_ / self.scale_) ** 2
                B = np.concatenate([B, constant], axis=1)
            return [A, B]
        if self.offset:
            return list(pca_start(Z, k, rng, corner=self._cautious))
        if len(Z) > START_SAMPLES:
            Z = Z[rng.choice(len(Z), START_SAMPLES, replace=False)]
        return list(kpca_start(Z, k, rng))

    def _rate(self):
        """Return the largest step of the optimiser, for normalised samples."""
        rate = self.learning_rate
        if rate is None:
            rate = RATES[self.solver, self.objective]
        size = self._n_axes + bool(self.constant_)
        return rate / size if self.solver == "adam" else rate

    def _penalty(self):
        return PENALTIES[self.objective] if self.penalty is None else self.penalty

    def _make_optimizer(self, params):
        if self.solver != "adam" or self._axes is None:
            return make_optimizer(self.solver)
        power = CAUTIOUS_POWER if self._cautious else STEP_POWER[self.objective, self.offset]
        sizes = (self._variances / self._variances[0]) ** (power / 2)
        if self.constant_:
            # a linear term is larger than a quadratic one by the constant, so its steps are smaller
            sizes = np.append(sizes, min(1.0, self.scale_ / self.constant_))
        steps = np.outer(sizes, sizes)
        steps = np.minimum(steps / np.sqrt(np.mean(steps**2)), STEP_LIMIT)
        return make_optimizer("adam", steps=[steps[:, None, :]] * len(params))

    def _descend(self, params, Z, monitor, rng):
        """Minimise, and keep the best iterate on the samples held out, or else on some others."""
        n = len(Z)
        n_epochs = self.n_epochs
        if n_epochs is None:
            n_epochs = int(np.clip(round(14 * (3000 / n) ** (2 / 3)), 4, 100))
        patience = self.n_iter_no_change or n_epochs
        if not len(monitor):
            many = n > MONITOR_SAMPLES
            monitor = Z[rng.choice(n, MONITOR_SAMPLES, replace=False)] if many else Z
        noisy = self._corrupted(monitor, rng)
        optimizer = self._make_optimizer(params)
        origin = [p.copy() for p in params] if self._penalty() else None
        # a start for the eigenvector of each sample: never the sample, which would give it away
        vectors = None
        if self.objective == "reconstruction":
            direction = self._direction / max(np.linalg.norm(self._direction), 1e-30)
            vectors = np.tile(direction, (n, 1))
        batches = -(-n // self.batch_size)
        rates = self._rate() * np.array(
            [cosine(t, batches * n_epochs, WARM) for t in range(batches * n_epochs)]
        ).reshape(n_epochs, batches)
        best = [p.copy() for p in params]
        self._keep(best)
        try:
            self.monitor_curve_.append(self._score(params, noisy, monitor))
            bar = tqdm(range(n_epochs), desc=type(self).__name__, disable=not self.verbose)
            for epoch in bar:
                loss = self._epoch(params, optimizer, Z, vectors, rates[epoch], rng, origin)
                self.loss_curve_.append(loss)
                self.n_iter_ = epoch + 1
                score = self._score(params, noisy, monitor)
                self.monitor_curve_.append(score)
                if score < self.monitor_curve_[self.best_epoch_]:
                    self.best_epoch_ = epoch + 1
                    for b, p in zip(best, params, strict=True):
                        np.copyto(b, p)
                bar.set_postfix(loss=f"{loss:.4g}", error=f"{score:.4g}")
                if self.callback is not None:
                    self._keep(params)
                    if self.callback(self, epoch):
                        break
                if self.early_stopping and epoch + 1 - self.best_epoch_ >= patience:
                    break
        except (FloatingPointError, np.linalg.LinAlgError):
            warnings.warn(
                f"the descent diverged in epoch {self.n_iter_ + 1}: the best model so far is "
                "kept; a smaller learning_rate would help",
                ConvergenceWarning,
                stacklevel=4,
            )
        except KeyboardInterrupt:
            warnings.warn(
                f"interrupted in epoch {self.n_iter_ + 1}: the best model so far is kept",
                UserWarning,
                stacklevel=4,
            )
        finally:
            self._keep(best)

    def _epoch(self, params, optimizer, Z, vectors, rates, rng, origin=None):
        """Do one pass in random order, in place; return the mean loss in the units of X."""
        n, total = len(Z), 0.0
        order = rng.permutation(n)

        def full_gradient(params):
            sums = [np.zeros_like(p) for p in params]
            for rows in gen_batches(n, max(1, min(n, self.batch_size))):
                start = self._starts(Z[rows], None, rng)
                _, dA, dB, _ = self._gradients(params, Z[rows], start, vectors is not None, rng)
                for s, g in zip(sums, (dA, dB), strict=True):
                    s += len(Z[rows]) / n * g
            return sums

        optimizer.start_epoch(params, full_gradient)
        for t, rows in enumerate(gen_batches(n, self.batch_size)):
            rows = order[rows]
            start = self._starts(Z[rows], None if vectors is None else vectors[rows], rng)
            noise_seed = rng.randint(2**31 - 1)
            found = {}

            def gradient(params, rows=rows, start=start, seed=noise_seed, found=found):
                warm = vectors is not None
                rng = np.random.RandomState(seed)
                losses, dA, dB, V = self._gradients(params, Z[rows], start, warm, rng)
                found.setdefault("first", (losses, V))
                return [dA, dB]

            optimizer.step(params, gradient, float(rates[t]))
            losses, V = found["first"]
            if not losses.mean() < DIVERGED:
                raise FloatingPointError("the descent diverged")
            total += float(losses.sum(dtype=np.float64))
            if vectors is not None:
                vectors[rows] = V
            if origin is not None:
                pull = self._penalty() * min(1, self.batch_size / n) * rates[t] / self._rate()
                for p, o in zip(params, origin, strict=True):
                    p -= p.dtype.type(pull) * (p - o)
        return total / n * self.scale_**2

    def _starts(self, Z, vectors, rng):
        """Return starts for the eigenvectors of a batch."""
        seed = rng.randint(2**31 - 1)
        if self.objective == "spectral":
            return objectives.mixed_start(Z, Z.shape, seed=seed)
        direction = self._direction.astype(Z.dtype) if vectors is None else vectors
        return objectives.mixed_start(direction, Z.shape, seed=seed)

    def _gradients(self, params, Z, start, warm, rng):
        def loss(product):
            if self.objective == "spectral":
                return objectives.spectral(product, Z, start)
            steps = objectives.RECONSTRUCTION_STEPS if warm else FRESH_STEPS
            towards = self._towards(Z.dtype)
            return objectives.reconstruction(product, Z, start, steps=steps, towards=towards)

        return self._batch_gradients(params, self._corrupted(Z, rng), loss)

    def _batch_gradients(self, params, Z, loss):
        return gradients(*params, Z, loss)

    def _encoding(self, A):
        """Return the map from normalised samples to codes."""
        return lambda Z: encode(A, Z)

    def _towards(self, dtype):
        """Return the direction in which every sample has a positive coordinate."""
        if self.constant_:
            return self._direction.astype(dtype)
        # the sum of the features
        return np.ones(1, dtype) if self._axes is None else self._axes.sum(axis=0).astype(dtype)

    def _score(self, params, Z, targets):
        """Return the mean of ||g(f(z)) - target||^2 in the units of X, and note the gap."""
        A, B = params
        d, total = self._n_axes, 0.0
        encoding = self._encoding(A)
        Y = np.concatenate([encoding(Z[rows]) for rows in gen_batches(len(Z), ENCODED_ROWS)])
        gaps = []
        for rows, Z_hat, ratios in self._decoded(B, Y, tol=MONITOR_TOL):
            residuals = Z_hat[:, :d] - targets[rows, :d]
            total += float(np.sum(residuals * residuals, dtype=np.float64))
            gaps.append(ratios)
        self.gap_curve_.append(float(np.median(np.concatenate(gaps))))
        return total / len(Z) * self.scale_**2

    def _decoded(self, B, Y, tol=None):
        """Yield slices of rows, the samples of these codes in units of the scale, and how clear."""
        form = B.shape[1] >= FORM_IN_DECODING
        direction = self._direction.astype(Y.dtype)
        for rows in gen_batches(len(Y), self._block_rows()):
            Y1 = _with_constant(Y[rows], B)
            shape = (len(Y1), len(B))
            Z_hat, ratios = objectives.decode(
                matrix_product(B, Y1, form=form),
                objectives.mixed_start(direction, shape),
                towards=self._towards(Y.dtype),
                tol=tol,
            )
            yield rows, Z_hat, ratios

    def _block_rows(self):
        return max(16, BLOCK_SIZE // (self._n_axes + 1) ** 2)

    def _keep(self, params):
        """Make these the fitted components, exactly symmetric."""
        A, B = ((p + p.transpose(2, 1, 0)).astype(self._dtype) / 2 for p in params)
        self._encoder, self._decoder = A, B

    def _params(self, dtype):
        """Return copies, or the fitted arrays if they are of this type."""
        return [p.astype(dtype, copy=False) for p in (self._encoder, self._decoder)]
