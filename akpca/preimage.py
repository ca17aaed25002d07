"""Pre-images: decoders from the codes of kernel PCA back to input space.

A code y stands for a point of feature space, P phi = sum_j y_j v_j (+ the mean, if centred), in
general not the image phi(x) of any x. Four decoders look for an x that comes near::

    decoder = make_preimage("fixed_point").fit(code)   # code: a KernelCode
    X_hat = decoder.decode(Y)                          # (m, k) codes to (m, d) samples

============== ============================= ======================================================
name           kernel                        idea
============== ============================= ======================================================
'ridge'        any                           learn the map from codes to samples
'eigenvector'  (gamma x.y)^2                 P phi is a matrix: take its leading eigenvector
'fixed_point'  RBF                           ascend to the x whose image is nearest to P phi
'distance'     RBF, linear                   from distances in feature space to those in input space
============== ============================= ======================================================

`decode` works in blocks of rows: its memory does not grow with the number of codes.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import linalg
from sklearn.base import BaseEstimator
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.extmath import row_norms, safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from .eigen import independent_rows, leading_eigenpairs
from .fitting import Interval, StrOptions, check_codes, moved
from .kernel_code import KernelCode
from .kernels import (
    BLOCK_ROWS,
    KERNELS,
    RBF,
    Kernel,
    Linear,
    Polynomial,
    check_finite,
    gamma_of,
    make_kernel,
)
from .progress import progress_bar
from .threads import matmul, one_blas_thread

__all__ = [
    "PREIMAGES",
    "DistancePreimage",
    "EigenvectorPreimage",
    "FixedPointPreimage",
    "Preimage",
    "RidgePreimage",
    "kernel_ridge",
    "make_preimage",
    "scale_gamma",
    "solve_factor",
]

# Largest number of values in a temporary array of a block: 32 MB in float64.
MAX_TEMPORARY_VALUES = 2**22
# Largest matrices for which NumPy's solver for stacks beats one call for each.
MAX_STACKED_EIGH = 32
# Memory of a ridge regression for each pair of centres: nine matrices in float64 at the peak.
BYTES_PER_CENTER_PAIR = 72
# Largest step of `DistancePreimage`, in units of the mean distance of the neighbours.
MAX_STEP = 3
# Further known samples from which `FixedPointPreimage` starts if the nearest one fails.
RESTARTS = 4


class Preimage(BaseEstimator):
    """Base class: a subclass defines `_fit`, `_decode` of one block, and perhaps `supports`."""

    name: ClassVar[str]
    allowed: ClassVar[str] = "any kernel"  # that `supports` accepts, for error messages
    _parameter_constraints: dict = {}  # noqa: RUF012 (scikit-learn's convention)
    _block_rows = BLOCK_ROWS  # codes that `decode` takes at a time

    def supports(self, kernel: Kernel | None) -> bool:
        """Return whether codes of kernel PCA with this kernel can be decoded."""
        return True

    def fit(self, code: KernelCode) -> Preimage:
        """Prepare to decode, from a code with the codes of known samples; return self."""
        self._validate_params()
        if not self.supports(code.kernel):
            names = f"preimage={self.name!r} can't invert kernel={code.kernel!r}"
            raise ValueError(f"{names}: it needs {self.allowed}")
        self.code_ = code
        self._set_sizes(code.codes, code.targets)
        self._fit(code)
        return self

    def _set_sizes(self, codes, targets):
        self._n_components, self._n_features = codes.shape[1], targets.shape[1]
        self._dtype = targets.dtype

    def decode(self, Y) -> np.ndarray:
        """Return samples, shape (m, d), whose codes are near the rows of Y, shape (m, k)."""
        check_is_fitted(self, "_n_components")
        Y = check_codes(Y, self._n_components, "Y", estimator=self)
        Y = Y.astype(np.result_type(Y, self._dtype), copy=False)
        X_hat = np.empty((len(Y), self._n_features), Y.dtype)
        for rows in gen_batches(len(Y), self._block_rows):
            X_hat[rows] = self._decode(Y[rows])
        return X_hat


class RidgePreimage(Preimage):
    """Kernel ridge regression: x-hat = mean + (X - mean)^T (K + alpha I)^{-1} k(Y, y).

    K = k(Y, Y) is a kernel of its own on the codes Y of the known samples X; that of the PCA may
    be any (Bakir, Weston and Schoelkopf, 2003). It alone minimises an error in input space. The fit
    takes n^2 numbers and O(n^3) time. Above `memory_limit`, m random codes are the centres of a
    regression that all codes determine: 72 m^2 bytes, O(n m^2) time.

    Parameters
    ----------
    kernel : str or Kernel, default='rbf'
        Kernel on codes: a name, or an object of :mod:`akpca.kernels` with its own parameters.
    gamma : float, 'scale' or None, default='scale'
        Coefficient of a kernel given by name. 'scale' is 1 / (k * variance of codes), None 1 / k.
    alpha : float, default=1.0
        Penalty: small for clean data, larger for noisy data.
    fit_intercept : bool, default=True
        Whether decoded samples tend to the samples' mean far from all codes, or, as in
        scikit-learn's ``KernelPCA(fit_inverse_transform=True)``, to 0.
    memory_limit : float, default=2e9
        Bytes for the fit; at least 512 centres are used.
    random_state : int, RandomState instance or None, default=None
        Determines the centres, if they are not all codes.
    verbose : bool, default=False
        Show the progress of a fit with fewer centres than codes.

    Attributes
    ----------
    gamma_, centers_, dual_coef_ : float, ndarray of shape (n_centers, k), (n_centers, d)
        The coefficient that was used; centres and coefficients of the regression.
    """

    name = "ridge"
    _parameter_constraints: dict = {  # noqa: RUF012
        "kernel": [StrOptions(set(KERNELS)), Kernel],
        "gamma": [Interval(Real, 0, None, closed="left"), StrOptions({"scale"}), None],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "memory_limit": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        kernel="rbf",
        *,
        gamma="scale",
        alpha=1.0,
        fit_intercept=True,
        memory_limit=2e9,
        random_state=None,
        verbose=False,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.memory_limit = memory_limit
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, code):
        self.fit_pairs(code.codes, code.targets)

    def fit_pairs(self, codes, targets, *, centers=None) -> RidgePreimage:
        """Learn the map from codes (n_codes, k) to samples (n_codes, d); return self.

        `centers`, shape (n_centers, k): None is all codes, or as many as `memory_limit` allows.
        """
        self._set_sizes(codes, targets)
        self._kernel, self.gamma_ = self.kernel, self.gamma
        if self.gamma == "scale":
            self.gamma_ = scale_gamma(codes if centers is None else centers)
        elif self.gamma is None:
            self.gamma_ = 1 / codes.shape[1]
        if isinstance(self.kernel, str):
            self._kernel = make_kernel(self.kernel, gamma=self.gamma_)
        mean = np.asarray(targets.mean(axis=0, dtype=np.float64)).ravel()
        self._mean = mean.astype(targets.dtype) * self.fit_intercept
        rest = targets - self._mean if self.fit_intercept else targets
        n, limit = len(codes), self.memory_limit
        if centers is None and n > BLOCK_ROWS and codes.dtype.itemsize * n**2 > limit:
            m = max(BLOCK_ROWS, int(np.sqrt(limit / BYTES_PER_CENTER_PAIR)))
            centers = codes[check_random_state(self.random_state).permutation(n)[:m]]
        self.centers_, self.dual_coef_ = kernel_ridge(
            self._kernel, codes, rest, self.alpha, centers=centers, verbose=self.verbose
        )
        return self

    def _decode(self, Y):
        return matmul(self._kernel(Y, self.centers_), self.dual_coef_) + self._mean


def scale_gamma(codes: np.ndarray) -> float:
    """Return 1 / (k * variance of the codes), or 1 if they do not vary."""
    variance = codes.shape[1] * float(codes.var(dtype=np.float64)) if codes.size else 0.0
    return 1 / variance if variance > np.finfo(np.float64).tiny else 1.0


def kernel_ridge(
    kernel: Kernel,
    codes: np.ndarray,
    targets,
    alpha: float,
    *,
    centers: np.ndarray | None = None,
    verbose: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Return centres C, (n_centers, k), and coefficients B, (n_centers, d): x-hat = B^T k(C, y).

    Codes Y have shape (n, k), targets X (n, d). Without `centers` all codes are centres, and
    B = (K + alpha I)^-1 X. With fewer, B minimises ||X - k(Y, C) B||^2 + alpha tr(B^T k(C, C) B),
    ridge regression on the features F = k(Y, C) L^-T with L L^T = k(C, C), sweep by sweep. Linearly
    dependent centres are left out, and targets may be sparse.
    """
    if centers is None:
        K = kernel.matrix(codes)
        with np.errstate(over="ignore", invalid="ignore"):
            check_finite(K.sum(axis=1), kernel, "the codes")
        K.flat[:: len(K) + 1] += alpha
        return codes, _solve_ridge(K, targets, alpha)
    kept, factor = independent_rows(kernel(centers.astype(np.float64)), centers.dtype)
    centers, m = centers[kept], len(kept)
    gram, moments = np.zeros((m, m)), np.zeros((m, targets.shape[1]))
    blocks = list(gen_batches(len(codes), max(BLOCK_ROWS, 2 * m)))
    for rows in progress_bar(blocks, shown=verbose, desc="learned inverse", unit="block"):
        F = solve_factor(factor, kernel(codes[rows], centers))
        gram += F.T @ F
        moments += safe_sparse_dot(F.T, targets[rows])
    gram.flat[:: m + 1] += alpha
    weights = _solve_ridge(gram, moments, alpha)
    dual = linalg.solve_triangular(factor, weights, lower=True, trans=1)
    return centers, dual.astype(codes.dtype)


def _solve_ridge(K, targets, alpha):
    """Return K^-1 targets; K is overwritten."""
    try:
        with one_blas_thread(flops=len(K) ** 3 / 3):
            # symmetric, so the transpose is K in LAPACK's order and nothing is copied
            return linalg.cho_solve(linalg.cho_factor(K.T, overwrite_a=True), targets)
    except linalg.LinAlgError as error:
        raise ValueError(
            f"the inverse can't be learned: with alpha={alpha} the kernel matrix of the codes is "
            "singular; give a larger alpha"
        ) from error


def solve_factor(factor: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Return K L^-T, overwriting K, a C-ordered block of kernel values whose rows are samples."""
    (trsm,) = linalg.get_blas_funcs(("trsm",), (K,))
    factor = np.asarray(factor, K.dtype, order="F")
    with one_blas_thread(flops=float(K.size) * len(factor)):
        # BLAS is column-major: to it the block is K^T, and this is L^-1 K^T in place
        return trsm(1, factor, K.T, lower=1, overwrite_b=1).T


class EigenvectorPreimage(Preimage):
    """Leading eigenpair: x-hat = sqrt(max(lambda_1, 0)) v_1 of the matrix M = sum_i g_i x_i x_i^T.

    Here P phi = sum_i g_i phi(x_i), and the kernel is (gamma x.y)^2, up to a scale (x.y)^2. Its
    feature space consists of symmetric matrices, phi(x) = x x^T, and by Eckart and Young the image
    nearest to M = P phi is its best approximation of rank 1 (section 4 of the AKPCA report), or 0
    if no eigenvalue is > 0. M is affine in y: the matrices of the k components and of the mean,
    (k + 1) d^2 numbers, are computed once. phi(x) = phi(-x) does not determine the sign: the sum of
    the entries of x-hat is made positive, which is right for data such as grey images.
    """

    name = "eigenvector"
    allowed = "a polynomial kernel with degree=2, coef0=0 and gamma > 0"

    def supports(self, kernel) -> bool:  # noqa: D102
        quadratic = isinstance(kernel, Polynomial) and kernel.degree == 2 and kernel.coef0 == 0
        return quadratic and gamma_of(kernel, 1) > 0

    def _fit(self, code):
        self._root_gamma = float(np.sqrt(gamma_of(code.kernel, code.points.shape[1])))
        Z, columns = self._root_gamma * code.points, [*code.weights.T, code.origin]
        self._basis = np.array([((Z.T * column) @ Z).ravel() for column in columns])
        self._block_rows = max(1, MAX_TEMPORARY_VALUES // Z.shape[1] ** 2)

    def _decode(self, Y):
        X_hat, d = np.empty((len(Y), self._n_features), Y.dtype), self._n_features
        M = matmul(np.hstack([Y, np.ones_like(Y[:, :1])]), self._basis).reshape(-1, d, d)
        with one_blas_thread(flops=4 / 3 * d**3):
            if d <= MAX_STACKED_EIGH:
                pairs = zip(*np.linalg.eigh(M), strict=True)
            else:
                pairs = (leading_eigenpairs(one, 1, random_state=0)[:2] for one in M)
            for x_hat, (values, V) in zip(X_hat, pairs, strict=True):  # ascending, or only one
                x_hat[:] = np.sqrt(max(values[-1], 0)) * V[:, -1]
        X_hat[np.sum(X_hat, axis=1) < 0] *= -1
        return X_hat / self._root_gamma


class FixedPointPreimage(Preimage):
    """Fixed point: x <- sum_i w_i x_i / sum_i w_i with w_i = g_i k(x, x_i), for the RBF kernel.

    P phi = sum_i g_i phi(x_i), and since k(x, x) = 1 the image nearest to it is the one of largest
    rho(x) = P phi . phi(x) = sum_i w_i, whose gradient vanishes exactly at the fixed points of this
    iteration (Mika et al., 1999). As some g_i are negative, a full step may overshoot, but it is an
    ascent direction while rho > 0: it is halved until it increases rho. The ascent starts at the
    known sample of nearest code. Where rho is not positive, the next nearest ones are tried, and
    then the mean of all samples. If that fails too, the result is the mean of these neighbours,
    weighted by the inverse of their distances in code space.

    Parameters
    ----------
    max_iter : int, default=100
        Largest number of steps from each start.
    tol : float, default=1e-5
        Stop when a step is shorter than this times 1 / sqrt(gamma), the width of the kernel.

    Attributes
    ----------
    n_iter_, n_fallbacks_ : int
        Of the last `decode`: largest number of steps; points that are the mean of neighbours.
    """

    name = "fixed_point"
    allowed = "an RBF kernel with gamma > 0"
    _parameter_constraints: dict = {  # noqa: RUF012
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    @moved({"n_restarts": "it is always 4"})
    def __init__(self, *, max_iter=100, tol=1e-5) -> None:
        self.max_iter = max_iter
        self.tol = tol

    def supports(self, kernel) -> bool:  # noqa: D102
        return isinstance(kernel, RBF) and gamma_of(kernel, 1) > 0

    def _fit(self, code):
        self._shortest = self.tol / np.sqrt(gamma_of(code.kernel, code.points.shape[1]))
        count = min(1 + RESTARTS, len(code.codes))
        self._neighbors = NearestNeighbors(n_neighbors=count).fit(code.codes)
        self._mean = code.targets.mean(axis=0, dtype=np.float64).astype(code.targets.dtype)

    def decode(self, Y) -> np.ndarray:  # noqa: D102
        self.n_iter_ = self.n_fallbacks_ = 0
        return super().decode(Y)

    def _decode(self, Y):
        G = self.code_.expansion(Y)
        distances, nearest = self._neighbors.kneighbors(Y)
        starts = [self.code_.targets[column] for column in nearest.T]
        weights = 1 / np.maximum(distances, np.finfo(distances.dtype).tiny ** 0.5)
        weights /= weights.sum(axis=1, keepdims=True)
        X_hat, todo = np.einsum("ij,jid->id", weights, starts), np.arange(len(Y))
        for start in [*starts, np.broadcast_to(self._mean, X_hat.shape)]:
            found, rho = self._ascend(start[todo], G[todo])
            good = rho > 0
            X_hat[todo[good]] = found[good]
            todo = todo[~good]
            if not len(todo):
                break
        self.n_fallbacks_ += len(todo)
        return X_hat

    def _ascend(self, X_hat, G):
        """Return the points reached and their rho, which is -inf where no step was possible."""
        rho, goal = self._step(X_hat, G)
        length = np.ones_like(rho)
        going = np.flatnonzero(rho > 0)
        for iteration in range(1, self.max_iter + 1):
            if not len(going):
                break
            self.n_iter_ = max(self.n_iter_, iteration)
            move = length[going, None] * (goal[going] - X_hat[going])
            trial = X_hat[going] + move
            trial_rho, trial_goal = self._step(trial, G[going])
            up = trial_rho >= rho[going]
            length[going] = np.where(up, np.minimum(1, 2 * length[going]), length[going] / 2)
            better = going[up]
            X_hat[better], rho[better], goal[better] = trial[up], trial_rho[up], trial_goal[up]
            going = going[row_norms(move) > self._shortest]
        return X_hat, rho

    def _step(self, X_hat, G):
        """Return rho(x) and where a full step leads."""
        X = self.code_.points
        W = self.code_.kernel(X_hat, X)
        W *= G
        rho = W.sum(axis=1)
        goal = matmul(W, X)
        # a sum lost to cancellation is treated as not positive
        usable = rho > np.finfo(W.dtype).eps * np.abs(W, out=W).sum(axis=1)
        goal /= np.where(usable, rho, 1)[:, None]
        return np.where(usable, rho, -np.inf), goal


class DistancePreimage(Preimage):
    """Trilateration: x-hat = the point in the neighbours' affine span with ||x-hat - x_i|| = d_i.

    Squared distances of P phi from phi(x_i) in feature space, ||P phi||^2 + k(x_i, x_i)
    - 2 P phi . phi(x_i), are those d_i^2 in input space for the linear kernel, and for the RBF
    kernel d_i^2 = -log(1 - distance^2 / 2) / gamma. The least-squares solution for these distances
    from the nearest x_i has a closed form (Kwok and Tsang, 2003):

        x-hat = x-bar + C^+ r,    r_i = (||x_i - x-bar||^2 - d_i^2) / 2 minus its mean,

    where x-bar is the mean of the neighbours and the rows of C are x_i - x-bar.

    Parameters
    ----------
    n_neighbors : int, default=10
        Number of known samples, nearest in feature space, whose distances are used.
    """

    name = "distance"
    allowed = "a linear kernel, or RBF with gamma > 0"
    _parameter_constraints: dict = {  # noqa: RUF012
        "n_neighbors": [Interval(Integral, 1, None, closed="left")]
    }

    def __init__(self, n_neighbors=10) -> None:
        self.n_neighbors = n_neighbors

    def supports(self, kernel) -> bool:  # noqa: D102
        linear = isinstance(kernel, Linear)
        return linear or (isinstance(kernel, RBF) and gamma_of(kernel, 1) > 0)

    def _fit(self, code):
        self._count = min(self.n_neighbors, len(code.targets))
        n_codes, d = code.targets.shape
        self._block_rows = max(1, MAX_TEMPORARY_VALUES // max(self._count * d, n_codes))

    def _decode(self, Y):
        code = self.code_
        squared = code.squared_norms(Y)[:, None] + code.target_norms - 2 * code.inner_products(Y)
        nearest = np.argpartition(squared, self._count - 1, axis=1)[:, : self._count]
        neighbors, squared = code.targets[nearest], np.take_along_axis(squared, nearest, axis=1)
        if isinstance(code.kernel, RBF):
            similarity = np.clip(1 - squared / 2, np.finfo(squared.dtype).tiny, 1)
            squared = -np.log(similarity) / gamma_of(code.kernel, self._n_features)
        center = neighbors.mean(axis=1, keepdims=True)
        C = neighbors - center
        r = (np.einsum("ijk,ijk->ij", C, C, dtype=np.float64) - squared) / 2
        # C^+ would remove the mean, but with rounding errors
        r -= np.sum(r / self._count, axis=1, keepdims=True)
        with one_blas_thread():
            # directions in which the neighbours hardly differ are dominated by rounding
            inverse = np.linalg.pinv(C, rcond=np.sqrt(np.finfo(C.dtype).eps))
            step = np.matmul(inverse, r[:, :, None])[:, :, 0]
        # No x is further from x-bar than from the x_i on average, but distances that do not fit
        # together would give steps many times longer.
        bound = MAX_STEP * np.sqrt(np.maximum(squared, 0)).mean(axis=1)
        length = np.maximum(np.linalg.norm(step, axis=1), bound)
        shrink = np.divide(bound, length, out=np.ones_like(length), where=length > 0)
        return center[:, 0] + step * shrink[:, None]


PREIMAGES: dict[str, type[Preimage]] = {
    cls.name: cls
    for cls in (RidgePreimage, EigenvectorPreimage, FixedPointPreimage, DistancePreimage)
}


def make_preimage(name: str, **params: Any) -> Preimage:
    """Return the unfitted decoder called `name` in `PREIMAGES`, with parameters of its class."""
    if name not in PREIMAGES:
        raise ValueError(f"preimage must be one of {sorted(PREIMAGES)}, got {name!r}")
    return PREIMAGES[name](**params)
