"""Kernels: functions k(x, y) that are inner products phi(x).phi(y) in some feature space.

Every kernel is a small object with the same three uses::

    kernel = RBF(gamma=0.1)
    kernel(X)        # (n, n) symmetric kernel matrix of one data set
    kernel(X, Y)     # (n, m) kernel matrix between two
    kernel.diag(X)   # (n,) values k(x, x), without the matrix

Sums, products and multiples of kernels are kernels (``RBF(0.1) + 0.5 * Linear()``). All have
scikit-learn's ``get_params`` and ``set_params``, so that ``kernel__gamma`` can be searched over.
Writing one's own kernel takes one method; see `Kernel`.

``X`` and ``Y`` are dense arrays or sparse matrices whose rows are samples. float32 input gives
float32 output, anything else float64. ``gamma=None`` means one over the number of features.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise, starmap
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import (
    additive_chi2_kernel,
    euclidean_distances,
    manhattan_distances,
    pairwise_kernels,
)
from sklearn.utils import check_array
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from .fitting import FLOATS, Interval, validate_parameter_constraints
from .progress import warn_user
from .threads import one_blas_thread, run_in_threads

__all__ = [
    "BLOCK_ROWS",
    "KERNELS",
    "RBF",
    "CallableKernel",
    "Chi2",
    "Cosine",
    "Kernel",
    "Laplacian",
    "Linear",
    "Polynomial",
    "Precomputed",
    "Sigmoid",
    "center_in_place",
    "centering_shift",
    "check_finite",
    "check_samples",
    "gamma_of",
    "ignore_overflow",
    "make_kernel",
    "median_gamma",
    "sum_duplicates",
    "warn_if_identity",
    "with_gamma",
]

# Rows of a kernel matrix computed at a time: full speed, with small temporary arrays.
BLOCK_ROWS = 512
# Rows of the square blocks whose diagonals give k(x, x), for kernels that do not define `diag`.
DIAGONAL_ROWS = 8
# Rows that are worked on element by element at a time, in the cache.
CACHED_ROWS = 64
# Largest gamma ||x||^2 for which the RBF kernel is computed in float32, and for which the origin
# stays where it is: rounding errors of k are about eps gamma ||x||^2.
FLOAT32_LIMIT, FLOAT64_LIMIT = 8, 1e6
# Samples that tell the scale of the data, and values of a kernel below which they are strangers.
FEW_SAMPLES, MANY_SAMPLES, STRANGERS = 50, 1000, 1e-6

# Parameters of kernels that exist, as in scikit-learn's estimators.
CONSTRAINTS: dict = {
    "degree": [Interval(Real, 0, None, closed="left")],
    "gamma": [Interval(Real, 0, None, closed="left"), None],
    "coef0": [Interval(Real, None, None, closed="neither")],
}

# Values that are not finite are reported by `check_finite`, where they are used.
ignore_overflow = np.errstate(over="ignore", invalid="ignore")


class Kernel(BaseEstimator):
    """Base class: fills a kernel matrix block by block.

    A subclass defines `values`, or `fill` if it can write into a given array; also `row_terms` for
    what depends on one row alone, such as norms, and `diag` where k(x, x) has a simple form.

    Examples
    --------
    A kernel for histograms, by the overlap of two of them:

    >>> import numpy as np
    >>> from akpca import KernelPCA
    >>> from akpca.kernels import RBF, Kernel
    >>> class Overlap(Kernel):
    ...     def values(self, X, Y):
    ...         return np.minimum(X[:, None, :], Y[None, :, :]).sum(axis=2)
    >>> X = np.random.default_rng(0).dirichlet(np.ones(5), size=20)
    >>> KernelPCA(2, kernel=Overlap() + 0.1 * RBF(gamma=2)).fit_transform(X).shape
    (20, 2)
    """

    name: ClassVar[str]

    _parameter_constraints: ClassVar[dict] = {}

    def __post_init__(self):
        """Raise a ValueError that names the first impossible parameter, also of parts."""
        values, name = vars(self), type(self).__name__
        validate_parameter_constraints(self._parameter_constraints, values, caller_name=name)
        for value in values.values():
            if isinstance(value, Kernel):
                value.check_params()

    check_params = __post_init__

    def row_terms(self, X) -> np.ndarray:
        """Return one number per row of X that `fill` needs, shape (n,); zeros if it needs none."""
        return np.zeros(X.shape[0])

    def values(self, X, Y) -> np.ndarray:
        """Return the block k(X, Y), shape (len(X), len(Y))."""
        out = np.empty((X.shape[0], Y.shape[0]), np.result_type(X.dtype, Y.dtype))
        self.fill(out, X, Y, self.row_terms(X), self.row_terms(Y))
        return out

    def fill(self, out: np.ndarray, X, Y, x_terms, y_terms) -> None:
        """Write the block k(X, Y) into `out`, of shape (len(X), len(Y))."""
        out[:] = self.values(X, Y)

    def diag(self, X) -> np.ndarray:
        """Return k(x, x) for each row x of a matrix of floats, shape (n,)."""
        starts = range(0, X.shape[0], DIAGONAL_ROWS)
        blocks = (X[start : start + DIAGONAL_ROWS] for start in starts)
        return np.concatenate([self.values(B, B).diagonal() for B in blocks], dtype=X.dtype)

    def __call__(self, X, Y=None) -> np.ndarray:
        """Return the matrix k(X, Y), shape (n, m), of samples X (n, d) and Y (m, d).

        Y=None means X itself, and is faster than passing X twice.
        """
        self.check_params()  # which may have been set since
        X = check_samples(X, "X")
        if Y is not None:
            Y = check_samples(Y, "Y")
            if (d := X.shape[1]) != (e := Y.shape[1]):
                raise ValueError(f"X and Y must have the same number of features, got {d} and {e}")
        return self.matrix(X, Y)

    def matrix(self, X, Y=None) -> np.ndarray:
        """Return k(X, Y) as a call does, without its checks, of matrices of floats."""
        symmetric, x_terms = Y is None, self.row_terms(X)
        exact = symmetric and not isinstance(self, _InnerProductKernel)  # which has k(x, x) already
        Y, y_terms = (X, x_terms) if symmetric else (Y, self.row_terms(Y))
        K = np.empty((X.shape[0], Y.shape[0]), np.result_type(X.dtype, Y.dtype))

        def fill_rows(rows):
            # a product of a matrix with its own transpose takes half of the time
            for columns in (rows, slice(rows.stop, None)) if symmetric else (slice(None),):
                block = K[rows, columns]
                if block.size:
                    self.fill(block, X[rows], Y[columns], x_terms[rows], y_terms[columns])
            if symmetric:
                K[rows.stop :, rows] = block.T

        # scikit-learn's gen_batches takes as long as all else for a small matrix
        edges = range(0, len(K) + BLOCK_ROWS, BLOCK_ROWS)
        blocks = list(starmap(slice, pairwise(edges)))
        flops = 2.0 * K.size * X.shape[1]
        if isinstance(self, _InnerProductKernel):  # products: BLAS has threads of its own
            with one_blas_thread(flops / max(len(blocks), 1)):
                for rows in blocks:
                    fill_rows(rows)
        else:
            run_in_threads(fill_rows, blocks, flops)
        if exact:
            np.fill_diagonal(K, self.diag(X))
        return K

    def __add__(self, other) -> Kernel:
        return Sum(self, _as_kernel(other))

    def __mul__(self, other) -> Kernel:
        return Product(self, _as_kernel(other))

    def __radd__(self, other) -> Kernel:
        return Sum(_as_kernel(other), self)

    def __rmul__(self, other) -> Kernel:
        return Product(_as_kernel(other), self)


def _as_kernel(value) -> Kernel:
    return Constant(float(value)) if isinstance(value, Real) else value


@dataclass
class _Exponential(Kernel):
    """Base class of kernels k(x, y) = exp(-gamma distance(x, y)), for which k(x, x) = 1.

    A subclass defines ``distances(X, Y)``, shape (len(X), len(Y)).
    """

    gamma: float | None = None
    _parameter_constraints = {"gamma": CONSTRAINTS["gamma"]}  # noqa: RUF012

    def values(self, X, Y) -> np.ndarray:
        K = np.asarray(self.distances(X, Y), np.result_type(X.dtype, Y.dtype))
        K *= -gamma_of(self, X.shape[1])
        return np.exp(K, out=K)

    def diag(self, X) -> np.ndarray:
        return np.ones(X.shape[0], X.dtype)


class _InnerProductKernel(Kernel):
    """Base class of kernels that are functions of the inner product x.y."""

    def apply(self, values: np.ndarray, n_features: int) -> np.ndarray:
        """Overwrite inner products by kernel values and return them."""
        return values

    @ignore_overflow
    def fill(self, out, X, Y, x_terms, y_terms):
        _inner_products(out, X, Y)
        self.apply(out, X.shape[1])

    @ignore_overflow
    def diag(self, X) -> np.ndarray:
        return self.apply(row_norms(X, squared=True), X.shape[1])


@dataclass
class Linear(_InnerProductKernel):
    """k(x, y) = x.y, whose feature space is the input space: kernel PCA with it is PCA."""

    name = "linear"


@dataclass
class Polynomial(_InnerProductKernel):
    """k(x, y) = (gamma x.y + coef0)^degree: all products of up to `degree` coordinates.

    With ``coef0=0`` these are the products of exactly `degree` coordinates. The report's degree-2
    kernel (x.y)^2 is ``Polynomial(degree=2, gamma=1, coef0=0)``.
    """

    name = "poly"
    degree: float = 3
    gamma: float | None = None
    coef0: float = 1
    _parameter_constraints = CONSTRAINTS

    def apply(self, values, n_features):  # noqa: D102
        values *= gamma_of(self, n_features)
        values += self.coef0
        if self.degree not in (2, 3):  # which products give faster
            # a negative base with a fractional degree gives NaN
            return np.power(values, self.degree, out=values)
        base = values if self.degree == 2 else values * values
        return np.multiply(values, base, out=values)


class RBF(_Exponential):
    """k(x, y) = exp(-gamma ||x - y||^2): a soft neighbourhood of width 1 / sqrt(2 gamma).

    Distances come from norms and inner products, so k is wrong by about eps gamma ||x||^2. Where
    that matters, float32 data are computed in float64, and an offset that they share is removed.
    """

    name = "rbf"
    values = Kernel.values

    def distances(self, X, Y) -> np.ndarray:  # noqa: D102
        if isinstance(X, np.ndarray) and isinstance(Y, np.ndarray):
            origin = Y.mean(axis=0, dtype=np.float64)
            X, Y = X - origin, Y - origin
        return euclidean_distances(X, Y, squared=True)

    @ignore_overflow
    def row_terms(self, X):  # noqa: D102
        # squares that overflow would give 0, not NaN
        return check_finite(row_norms(X, squared=True), self)

    def fill(self, out, X, Y, x_terms, y_terms):  # noqa: D102
        gamma = gamma_of(self, X.shape[1])
        largest = gamma * max(x_terms.max(initial=0), y_terms.max(initial=0))
        if out.dtype == np.float32 and largest > FLOAT32_LIMIT:
            out[:] = self.values(X.astype(np.float64), Y.astype(np.float64))
            return
        if largest > FLOAT64_LIMIT and not (sparse.issparse(X) or sparse.issparse(Y)):
            # distances do not depend on it, but their rounding errors do
            origin = Y.mean(axis=0, dtype=np.float64).astype(Y.dtype)
            X, Y = X - origin, Y - origin
            x_terms, y_terms = row_norms(X, squared=True), row_norms(Y, squared=True)
        _inner_products(out, X, Y)
        x_terms, y_terms = gamma * x_terms, gamma * y_terms
        for i in range(0, len(out), CACHED_ROWS):
            block = out[i : i + CACHED_ROWS]
            block *= 2 * gamma
            block -= np.add.outer(x_terms[i : i + CACHED_ROWS], y_terms)
            np.minimum(block, 0, out=block)
            np.exp(block, out=block)


@dataclass
class Sigmoid(_InnerProductKernel):
    """k(x, y) = tanh(gamma x.y + coef0). Not positive semi-definite in general."""

    name = "sigmoid"
    gamma: float | None = None
    coef0: float = 1
    _parameter_constraints = {key: CONSTRAINTS[key] for key in ("gamma", "coef0")}  # noqa: RUF012

    def apply(self, values, n_features):  # noqa: D102
        values *= gamma_of(self, n_features)
        values += self.coef0
        return np.tanh(values, out=values)


@dataclass
class Cosine(Kernel):
    """k(x, y) = x.y / (||x|| ||y||): only directions count. A zero row gives zeros."""

    name = "cosine"

    @ignore_overflow
    def row_terms(self, X):  # noqa: D102
        norms = check_finite(row_norms(X), self)
        return np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)

    def fill(self, out, X, Y, x_terms, y_terms):  # noqa: D102
        _inner_products(out, X, Y)
        for i in range(0, len(out), CACHED_ROWS):
            rows = slice(i, i + CACHED_ROWS)
            out[rows] *= np.multiply.outer(x_terms[rows], y_terms)

    def diag(self, X) -> np.ndarray:  # noqa: D102
        return (self.row_terms(X) > 0).astype(X.dtype)


class Laplacian(_Exponential):
    """k(x, y) = exp(-gamma ||x - y||_1): like the RBF kernel, but not differentiable at x = y."""

    name = "laplacian"

    def distances(self, X, Y) -> np.ndarray:  # noqa: D102
        return manhattan_distances(X, Y)


class Chi2(_Exponential):
    """k(x, y) = exp(-gamma sum_i (x_i - y_i)^2 / (x_i + y_i)), for histograms: x, y >= 0."""

    name = "chi2"

    def distances(self, X, Y) -> np.ndarray:  # noqa: D102
        if sparse.issparse(X) or sparse.issparse(Y):
            raise TypeError("kernel='chi2' takes dense data only, got a sparse matrix")
        if min(X.min(), Y.min()) < 0:
            raise ValueError(
                "Negative values in data: kernel='chi2' is for values of 0 or more; codes, to "
                "which fit_inverse_transform=True applies it as well, have others"
            )
        # scikit-learn's compiled code takes writeable arrays only
        return -additive_chi2_kernel(np.require(X, None, "W"), np.require(Y, None, "W"))


@dataclass
class Constant(Kernel):
    """k(x, y) = value >= 0; a factor or a summand of other kernels."""

    value: float = 1.0
    _parameter_constraints = {"value": [Interval(Real, 0, None, closed="left")]}  # noqa: RUF012

    def fill(self, out, X, Y, x_terms, y_terms):
        out[:] = self.value

    def diag(self, X) -> np.ndarray:
        return np.full(X.shape[0], self.value, X.dtype)


@dataclass
class _Pair(Kernel):
    left: Kernel
    right: Kernel
    _parameter_constraints = {"left": [Kernel], "right": [Kernel]}  # noqa: RUF012
    combine: ClassVar[Callable]

    def values(self, X, Y) -> np.ndarray:
        return self.combine(self.left.values(X, Y), self.right.values(X, Y))

    def diag(self, X) -> np.ndarray:
        return self.combine(self.left.diag(X), self.right.diag(X))


class Sum(_Pair):
    """k(x, y) = left(x, y) + right(x, y): the features of both, side by side."""

    combine = staticmethod(np.add)

    def __repr__(self):
        return f"{self.left!r} + {self.right!r}"


class Product(_Pair):
    """k(x, y) = left(x, y) right(x, y): all products of a feature of each."""

    combine = staticmethod(np.multiply)

    def __repr__(self):
        factors = (self.left, self.right)
        return " * ".join(f"({k!r})" if isinstance(k, Sum) else f"{k!r}" for k in factors)


@dataclass
class CallableKernel(Kernel):
    """k(x, y) = function(x, y, **params), one pair of samples at a time."""

    function: Callable
    params: dict | None = None
    n_jobs: int | None = None

    def values(self, X, Y) -> np.ndarray:  # noqa: D102
        options = {"metric": self.function, "n_jobs": self.n_jobs, **(self.params or {})}
        return pairwise_kernels(X, Y, **options)


@dataclass
class Precomputed(Kernel):
    """Kernel values that the caller has computed: the matrix is passed in place of the samples."""

    def matrix(self, X, Y=None) -> np.ndarray:  # noqa: D102
        return X.toarray() if sparse.issparse(X) else X

    def diag(self, X) -> np.ndarray:  # noqa: D102
        return X.diagonal()


KERNELS: dict[str, type[Kernel]] = {
    cls.name: cls for cls in (Linear, Polynomial, RBF, Sigmoid, Cosine, Laplacian, Chi2)
}


def make_kernel(name: str, **params: Any) -> Kernel:
    """Return the kernel called `name`, with those of gamma, degree and coef0 that it has."""
    if name not in KERNELS:
        raise ValueError(f"kernel must be one of {sorted(KERNELS)}, got {name!r}")
    for unused in params.keys() - KERNELS[name].__dataclass_fields__:
        del params[unused]
    return KERNELS[name](**params)


def gamma_of(kernel: Kernel, n_features: int) -> float:
    """Return the kernel's gamma; one over the number of features where it is None or missing."""
    gamma = getattr(kernel, "gamma", None)
    return 1 / n_features if gamma is None else gamma


def with_gamma(kernel: Kernel, gamma: float) -> Kernel:
    """Return a copy of a kernel in which all parts that have a gamma get this one."""
    kernel = deepcopy(kernel)
    for name in kernel.get_params():
        if name.split("__")[-1] == "gamma":
            kernel.set_params(**{name: gamma})
    return kernel


@ignore_overflow
def median_gamma(kernel, X) -> float:
    """Return 1 / the median distance of different samples, as the kernel of that name measures it.

    At most `MANY_SAMPLES` are compared. If they are all the same, it is 1 / n_features.
    """
    decaying = [name for name, cls in KERNELS.items() if issubclass(cls, _Exponential)]
    if kernel not in decaying:
        raise ValueError(f"gamma='median' is for a kernel in {decaying}, not for {kernel!r}")
    some = _evenly_spaced(X, MANY_SAMPLES)
    distances = KERNELS[kernel]().distances(some, some)
    distances = distances[distances > 1e-12 * distances.max()]  # rounding
    return 1 / float(np.median(distances)) if distances.size else 1 / X.shape[1]


def warn_if_identity(kernel: Kernel, X) -> None:
    """Warn if a kernel that decays takes all samples for strangers: its matrix is the identity."""
    if not isinstance(kernel, _Exponential) or X.shape[0] < 2:
        return
    if kernel.matrix(X[:1], X[1:FEW_SAMPLES]).max() >= STRANGERS:  # which nearly always tells
        return
    K = kernel.matrix(_evenly_spaced(X, MANY_SAMPLES))
    np.fill_diagonal(K, 0)
    largest = np.median(K.max(axis=1))
    if largest >= STRANGERS:
        return
    warn_user(
        f"kernel='{kernel.name}' with gamma={gamma_of(kernel, X.shape[1]):.2g} is about "
        f"{largest:.0e} between neighbours in X, so that new samples get codes of 0: scale the "
        f"data, or try gamma={median_gamma(kernel.name, X):.2g}, 1 / their median distance",
        UserWarning,
    )


def _evenly_spaced(X, count: int):
    return X[np.linspace(0, X.shape[0] - 1, min(count, X.shape[0])).astype(int)]


def check_samples(X, name: str):
    """Return X as a matrix of float32 or float64 whose rows are samples, dense or CSR."""
    options = {"accept_sparse": "csr", "dtype": FLOATS, "estimator": "Kernel"}
    return sum_duplicates(check_array(X, input_name=name, **options))


def sum_duplicates(X):
    """Return X, or if it is sparse and has entries in several parts, a copy with their sums."""
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def check_finite(values: np.ndarray, kernel: Kernel, name: str = "X") -> np.ndarray:
    """Return `values`; raise ValueError if some are not finite."""
    if not np.isfinite(values).all():
        raise ValueError(
            f"{kernel!r} gives NaN or infinity on {name}: scale the data or choose other parameters"
        )
    return values


def centering_shift(means: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return s, shape (n,), with K_ij - s_i - s_j the centred kernel, from the row means of K."""
    return (means - means.mean() / 2).astype(dtype)


def center_in_place(K: np.ndarray, means: np.ndarray) -> None:
    """Centre a symmetric kernel matrix in feature space, K <- H K H, from its row means."""
    # A shift rounded to float32 would be wrong by the same amount in a whole row, which adds up
    # in eigenvalues; the errors of single entries do not.
    shift = means - means.mean() / 2
    for i in range(0, len(K), CACHED_ROWS):
        rows = slice(i, i + CACHED_ROWS)
        K[rows] -= np.add.outer(shift[rows], shift).astype(K.dtype, copy=False)


def _inner_products(out: np.ndarray, X, Y) -> None:
    if sparse.issparse(X) or sparse.issparse(Y):
        out[:] = safe_sparse_dot(X, Y.T, dense_output=True)
    else:
        np.matmul(X, Y.T, out=out)


def check_digits(largest: float, dtype, kernel: Kernel) -> None:
    """Raise ValueError if kernel values, the largest of which is given, are too small for dtype.

    Their differences would be below the smallest normal number, where numbers lose digits.
    """
    limits = np.finfo(dtype)
    if 0 < largest < (least := limits.tiny / limits.eps):
        raise ValueError(
            f"{kernel!r} on X is at most {largest:.2g}; allowed in {np.dtype(dtype)} are values of "
            f"{least:.0e} and more: scale the data or choose other parameters"
        )
