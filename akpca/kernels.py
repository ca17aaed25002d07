"""Kernels: functions k(x, y) that are inner products phi(x).phi(y) in some feature space.

Every kernel is a small object with the same three uses::

    kernel = RBF(gamma=0.1)
    kernel(X)        # (n, n) symmetric kernel matrix of one data set
    kernel(X, Y)     # (n, m) kernel matrix between two
    kernel.diag(X)   # (n,) values k(x, x), without the matrix

Sums, products and multiples of kernels are kernels (``RBF(0.1) + 0.5 * Linear()``). All have
scikit-learn's ``get_params`` and ``set_params``, so that ``kernel__gamma`` can be searched over.
Writing one's own kernel takes one method; see `Kernel`.

The contract, stated once: ``X`` and ``Y`` are dense arrays or sparse matrices whose rows are
samples. float32 input gives float32 output, anything else float64. A matrix is filled in blocks of
rows, so that temporary arrays stay small, and only one triangle of a symmetric matrix is computed.
``gamma=None`` means one over the number of features, as in scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import additive_chi2_kernel, manhattan_distances, pairwise_kernels
from sklearn.utils import check_array, gen_batches
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from .fitting import Interval
from .threads import run_in_threads

__all__ = [
    "BLOCK_ROWS",
    "KERNELS",
    "RBF",
    "CallableKernel",
    "Chi2",
    "Constant",
    "Cosine",
    "InnerProductKernel",
    "Kernel",
    "Laplacian",
    "Linear",
    "Polynomial",
    "Precomputed",
    "Product",
    "Sigmoid",
    "Sum",
    "UnitDiagonal",
    "center_in_place",
    "centering_shift",
    "check_digits",
    "check_finite",
    "check_samples",
    "gamma_of",
    "has_part",
    "make_kernel",
    "part",
    "resolve_kernel",
    "with_gamma",
]

# Rows of a kernel matrix computed at a time: full speed, with small temporary arrays.
BLOCK_ROWS = 512
# Rows of the square blocks whose diagonals give k(x, x), for kernels that do not define `diag`.
DIAGONAL_ROWS = 32
# Largest gamma ||x||^2 for which the RBF kernel is computed in float32.
FLOAT32_LIMIT = 8
# Largest gamma ||x||^2 for which it is computed from norms and inner products alone.
FLOAT64_LIMIT = 1e6
# Rows from which the origin is taken above that, and pairs whose differences are taken at a time.
ORIGIN_ROWS, PAIRS = 64, 4096
# Largest gamma ||x||^2 for which the rounding errors of k(x, x) in such sums do not matter.
EXACT_LIMIT = 100


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
        self.check_params()

    def check_params(self) -> None:
        """Raise a ValueError that names the first impossible parameter, also of parts."""
        self._validate_params()
        for value in self.get_params(deep=False).values():
            if isinstance(value, Kernel):
                value.check_params()

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        if cls.values is Kernel.values and cls.fill is Kernel.fill:
            raise TypeError(f"{cls.__name__} must define values(X, Y), a block of kernel values")

    def row_terms(self, X) -> np.ndarray | None:
        """Return one number per row of X that `fill` needs, shape (n,), or None."""
        return None

    def values(self, X, Y) -> np.ndarray:
        """Return the block k(X, Y), shape (len(X), len(Y))."""
        out = np.empty((X.shape[0], Y.shape[0]), np.result_type(X.dtype, Y.dtype))
        self.fill(out, X, Y, self.row_terms(X), self.row_terms(Y))
        return out

    def fill(self, out: np.ndarray, X, Y, x_terms, y_terms) -> None:
        """Write the block k(X, Y) into `out`, of shape (len(X), len(Y))."""
        out[:] = self.values(X, Y)

    def diag(self, X) -> np.ndarray:
        """Return k(x, x) for each row x of X, shape (n,)."""
        X = check_samples(X, "X")
        blocks = (X[rows] for rows in gen_batches(X.shape[0], DIAGONAL_ROWS))
        return np.concatenate([self.values(B, B).diagonal() for B in blocks], dtype=X.dtype)

    def __call__(self, X, Y=None) -> np.ndarray:
        """Return the matrix k(X, Y), shape (n, m), of samples X (n, d) and Y (m, d).

        Y=None means X itself, and is faster than passing X twice.
        """
        self.check_params()  # which may have been set since
        X = check_samples(X, "X")
        symmetric = Y is None
        Y = X if symmetric else check_samples(Y, "Y")
        if X.shape[1] != Y.shape[1]:
            raise ValueError(
                f"X and Y must have the same number of features, got {X.shape[1]} and {Y.shape[1]}"
            )
        x_terms = self.row_terms(X)
        y_terms = x_terms if symmetric else self.row_terms(Y)
        K = np.empty((X.shape[0], Y.shape[0]), np.result_type(X.dtype, Y.dtype))

        def fill_rows(rows):
            others = slice(rows.start if symmetric else 0, None)
            block = K[rows, others]
            self.fill(block, X[rows], Y[others], part(x_terms, rows), part(y_terms, others))
            if symmetric:
                K[rows.stop :, rows] = block[:, rows.stop - rows.start :].T
                # rounding makes the square on the diagonal slightly asymmetric
                corner = K[rows, rows] / 2  # first, as a sum could overflow
                K[rows, rows] = corner + corner.T

        blocks = list(gen_batches(X.shape[0], BLOCK_ROWS))
        run_in_threads(fill_rows, blocks, flops=2.0 * K.size * X.shape[1])
        if symmetric:
            np.fill_diagonal(K, self.diag(X))
        return K

    def __add__(self, other) -> Kernel:
        return _combined(Sum, self, other)

    def __radd__(self, other) -> Kernel:
        return _combined(Sum, other, self)

    def __mul__(self, other) -> Kernel:
        return _combined(Product, self, other)

    def __rmul__(self, other) -> Kernel:
        return _combined(Product, other, self)


# Constraints on parameters, as in scikit-learn's estimators.
GAMMA: dict = {"gamma": [Interval(Real, 0, None, closed="left"), None]}
COEF0: dict = {"coef0": [Interval(Real, None, None, closed="neither")]}
PARTS: dict = {"left": [Kernel], "right": [Kernel]}


class UnitDiagonal:
    """Mixin of kernels with k(x, x) = 1."""

    def diag(self, X) -> np.ndarray:
        """Return ones, shape (n,)."""
        X = check_samples(X, "X")
        return np.ones(X.shape[0], X.dtype)


class InnerProductKernel(Kernel):
    """Base class of kernels that are functions of the inner product x.y."""

    def apply(self, values: np.ndarray, n_features: int) -> np.ndarray:
        """Overwrite inner products by kernel values and return them."""
        return values

    @ignore_overflow
    def fill(self, out, X, Y, x_terms, y_terms):  # noqa: D102
        _inner_products(out, X, Y)
        self.apply(out, X.shape[1])

    @ignore_overflow
    def diag(self, X) -> np.ndarray:  # noqa: D102
        X = check_samples(X, "X")
        return self.apply(row_norms(X, squared=True), X.shape[1])


@dataclass
class Linear(InnerProductKernel):
    """k(x, y) = x.y, whose feature space is the input space: kernel PCA with it is PCA."""

    name = "linear"


@dataclass
class Polynomial(InnerProductKernel):
    """k(x, y) = (gamma x.y + coef0)^degree: all products of up to `degree` coordinates.

    With ``coef0=0`` these are the products of exactly `degree` coordinates. The report's degree-2
    kernel (x.y)^2 is ``Polynomial(degree=2, gamma=1, coef0=0)``.
    """

    name = "poly"
    degree: float = 3
    gamma: float | None = None
    coef0: float = 1
    _parameter_constraints = {  # noqa: RUF012 (scikit-learn's convention)
        **GAMMA,
        **COEF0,
        "degree": [Interval(Real, 0, None, closed="left")],
    }

    def apply(self, values, n_features):  # noqa: D102
        values *= gamma_of(self, n_features)
        values += self.coef0
        if self.degree == 2:
            return np.square(values, out=values)
        # a negative base with a fractional degree gives NaN
        return np.power(values, self.degree, out=values)


@dataclass
class RBF(Kernel):
    """k(x, y) = exp(-gamma ||x - y||^2): a soft neighbourhood of width 1 / sqrt(2 gamma)."""

    name = "rbf"
    gamma: float | None = None
    _parameter_constraints = GAMMA

    @ignore_overflow
    def row_terms(self, X):  # noqa: D102
        return row_norms(X, squared=True)

    @ignore_overflow
    def fill(self, out, X, Y, x_terms, y_terms):  # noqa: D102
        gamma = gamma_of(self, X.shape[1])
        # The sum ||x||^2 - 2 x.y + ||y||^2 loses digits by cancellation. In float32 the relative
        # error of k is about 1e-7 gamma ||x||^2; if that is too much, use float64.
        largest = max(x_terms.max(initial=0), y_terms.max(initial=0))
        if not np.isfinite(largest):  # squares overflow: not even k(x, x) would be right
            out[:] = np.nan
            return
        if out.dtype == np.float32 and gamma * largest > FLOAT32_LIMIT:
            out[:] = self.values(X.astype(np.float64), Y.astype(np.float64))
            return
        A, B = X, Y
        if gamma * largest > FLOAT64_LIMIT and not (sparse.issparse(X) or sparse.issparse(Y)):
            # Distances do not depend on the origin, but their rounding errors do. A median is where
            # most samples are; an outlier would take a mean away from them.
            origin = np.median(Y[:: len(Y) // ORIGIN_ROWS + 1], axis=0)
            A, B = X - origin, Y - origin
            x_terms, y_terms = row_norms(A, squared=True), row_norms(B, squared=True)
            largest = max(x_terms.max(), y_terms.max())
        _inner_products(out, A, B)
        out *= 2 * gamma
        out -= gamma * y_terms
        out -= gamma * x_terms[:, None]
        if gamma * largest > EXACT_LIMIT:  # distances that are zero up to rounding are zero
            sums = np.add.outer(gamma * x_terms, gamma * y_terms)
            errors = sums * (-np.finfo(out.dtype).eps * (4 + np.sqrt(X.shape[1])))
            zero = out > errors
            if gamma * largest > FLOAT64_LIMIT:  # as in clusters far apart, for any origin
                vanishes = out - errors < np.log(np.finfo(out.dtype).tiny)
                self._fill_pairs(out, X, Y, ~(vanishes | (sums <= FLOAT64_LIMIT)), gamma)
                zero &= sums <= FLOAT64_LIMIT
            out[zero] = 0
        np.minimum(out, 0, out=out)
        np.exp(out, out=out)

    @staticmethod
    def _fill_pairs(out, X, Y, chosen, gamma):
        """Write -gamma ||x - y||^2 of some pairs, from differences, where it loses no digits."""
        for rows in gen_batches(len(out), max(1, PAIRS // out.shape[1])):
            i, j = np.nonzero(chosen[rows])
            if len(i):
                squares = row_norms(X[rows][i] - Y[j], squared=True)
                out[rows][i, j] = -gamma * squares

    def diag(self, X) -> np.ndarray:  # noqa: D102
        X = check_samples(X, "X")
        return np.where(np.isfinite(self.row_terms(X)), 1, np.nan).astype(X.dtype)  # as in `fill`


@dataclass
class Sigmoid(InnerProductKernel):
    """k(x, y) = tanh(gamma x.y + coef0). Not positive semi-definite in general."""

    name = "sigmoid"
    gamma: float | None = None
    coef0: float = 1
    _parameter_constraints = {**GAMMA, **COEF0}  # noqa: RUF012

    def apply(self, values, n_features):  # noqa: D102
        values *= gamma_of(self, n_features)
        values += self.coef0
        return np.tanh(values, out=values)


@dataclass
class Cosine(Kernel):
    """k(x, y) = x.y / (||x|| ||y||): only directions count. A zero row gives zeros."""

    name = "cosine"

    def fill(self, out, X, Y, x_terms, y_terms):  # noqa: D102
        _inner_products(out, _unit_rows(X), _unit_rows(Y))

    def diag(self, X) -> np.ndarray:  # noqa: D102
        X = check_samples(X, "X")
        return (_largest_entries(X) > 0).astype(X.dtype)


def _largest_entries(X):
    """Return the largest absolute entry of each row, shape (n,)."""
    if sparse.issparse(X):
        return abs(X).max(axis=1).toarray().ravel()
    return np.maximum(X.max(axis=1), -X.min(axis=1))


def _unit_rows(X):
    """Return the rows of X divided by their norms; zero rows stay zero."""
    # in units of the largest entry of a row, so that squares neither overflow nor vanish
    for sizes in (_largest_entries, row_norms):
        values = sizes(X)
        values = np.where(values > 0, values, 1)
        if sparse.issparse(X):
            X = X.copy()
            X.data = X.data / np.repeat(values, np.diff(X.indptr))
        else:
            X = X / values[:, None]
    return X


@dataclass
class Laplacian(UnitDiagonal, Kernel):
    """k(x, y) = exp(-gamma ||x - y||_1): like the RBF kernel, but not differentiable at x = y."""

    name = "laplacian"
    gamma: float | None = None
    _parameter_constraints = GAMMA

    def fill(self, out, X, Y, x_terms, y_terms):  # noqa: D102
        out[:] = manhattan_distances(_with_short_indices(X), _with_short_indices(Y))
        out *= -gamma_of(self, X.shape[1])
        np.exp(out, out=out)


def _with_short_indices(X):
    """Return samples with 32-bit indices, if they are sparse: scikit-learn takes no others."""
    if not sparse.issparse(X) or X.indices.dtype == np.int32:
        return X
    parts = X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return sparse.csr_matrix(parts, shape=X.shape)


@dataclass
class Chi2(UnitDiagonal, Kernel):
    """k(x, y) = exp(-gamma sum_i (x_i - y_i)^2 / (x_i + y_i)), for histograms: x, y >= 0."""

    name = "chi2"
    gamma: float | None = None
    _parameter_constraints = GAMMA

    def fill(self, out, X, Y, x_terms, y_terms):  # noqa: D102
        if sparse.issparse(X) or sparse.issparse(Y):
            raise TypeError("kernel='chi2' takes dense data only, got a sparse matrix")
        if min(X.min(), Y.min()) < 0:
            raise ValueError("Negative values in data: kernel='chi2' is for values of 0 or more")
        # scikit-learn's compiled code takes writeable arrays only
        out[:] = additive_chi2_kernel(np.require(X, None, "W"), np.require(Y, None, "W"))
        out *= gamma_of(self, X.shape[1])
        np.exp(out, out=out)


@dataclass
class Constant(Kernel):
    """k(x, y) = value >= 0; a factor or a summand of other kernels."""

    value: float = 1.0
    _parameter_constraints = {  # noqa: RUF012
        "value": [Interval(Real, 0, None, closed="left")]
    }

    def fill(self, out, X, Y, x_terms, y_terms):  # noqa: D102
        out[:] = self.value

    def diag(self, X) -> np.ndarray:  # noqa: D102
        X = check_samples(X, "X")
        return np.full(X.shape[0], self.value, X.dtype)


@dataclass
class Sum(Kernel):
    """k(x, y) = left(x, y) + right(x, y): the features of both, side by side."""

    left: Kernel
    right: Kernel
    _parameter_constraints = PARTS

    def values(self, X, Y) -> np.ndarray:  # noqa: D102
        return self.left.values(X, Y) + self.right.values(X, Y)

    def diag(self, X) -> np.ndarray:  # noqa: D102
        return self.left.diag(X) + self.right.diag(X)

    def __repr__(self):
        return f"{self.left!r} + {self.right!r}"


@dataclass
class Product(Kernel):
    """k(x, y) = left(x, y) right(x, y): all products of a feature of each."""

    left: Kernel
    right: Kernel
    _parameter_constraints = PARTS

    def values(self, X, Y) -> np.ndarray:  # noqa: D102
        return self.left.values(X, Y) * self.right.values(X, Y)

    def diag(self, X) -> np.ndarray:  # noqa: D102
        return self.left.diag(X) * self.right.diag(X)

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

    def diag(self, X) -> np.ndarray:  # noqa: D102
        X = check_samples(X, "X")
        samples = (X[[i]] if sparse.issparse(X) else X[i] for i in range(X.shape[0]))
        return np.array([self.function(x, x, **(self.params or {})) for x in samples], X.dtype)


@dataclass
class Precomputed(Kernel):
    """Kernel values that the caller has computed: the matrix is passed in place of the samples."""

    def values(self, X, Y) -> np.ndarray:  # noqa: D102
        return X.toarray() if sparse.issparse(X) else X

    def __call__(self, X, Y=None) -> np.ndarray:  # noqa: D102
        return self.values(X, Y)

    def diag(self, X) -> np.ndarray:  # noqa: D102
        return X.diagonal()


KERNELS: dict[str, type[Kernel]] = {
    cls.name: cls for cls in (Linear, Polynomial, RBF, Sigmoid, Cosine, Laplacian, Chi2)
}


def make_kernel(name: str, **params: Any) -> Kernel:
    """Return the kernel called `name`, with those of gamma, degree and coef0 that it has."""
    if name not in KERNELS:
        raise ValueError(f"kernel must be one of {sorted(KERNELS)}, got {name!r}")
    cls = KERNELS[name]
    return cls(**{key: value for key, value in params.items() if key in cls.__dataclass_fields__})


def resolve_kernel(
    kernel: str | Kernel | Callable, *, kernel_params: dict | None = None, n_jobs=None, **params
) -> Kernel:
    """Return a kernel object for what an estimator was given.

    `kernel` is a name (with `params` as in `make_kernel`), 'precomputed', an object, which is
    copied, or a function of two samples (with `kernel_params` and `n_jobs`).
    """
    if isinstance(kernel, Kernel):
        kernel.check_params()
        return deepcopy(kernel)  # a fitted kernel must not change with the caller's object
    if isinstance(kernel, str):
        return Precomputed() if kernel == "precomputed" else make_kernel(kernel, **params)
    return CallableKernel(kernel, kernel_params, n_jobs)


def gamma_of(kernel: Kernel, n_features: int) -> float:
    """Return the kernel's gamma; one over the number of features where it is None or missing."""
    gamma = getattr(kernel, "gamma", None)
    return 1 / n_features if gamma is None else gamma


def with_gamma(kernel: Kernel, gamma: float) -> Kernel:
    """Return a copy of a kernel in which all parts that have a gamma get this one."""
    kernel = deepcopy(kernel)
    names = [name for name in kernel.get_params() if name.split("__")[-1] == "gamma"]
    return kernel.set_params(**dict.fromkeys(names, gamma))


def has_part(kernel: Kernel, cls: type[Kernel]) -> bool:
    """Tell whether a kernel, or a part of a sum or product, is of this class."""
    return any(isinstance(value, cls) for value in (kernel, *kernel.get_params().values()))


def check_samples(X, name: str):
    """Return X as a matrix of float32 or float64 whose rows are samples, dense or CSR."""
    return check_array(
        X, accept_sparse="csr", dtype=[np.float64, np.float32], input_name=name, estimator="Kernel"
    )


def check_finite(values: np.ndarray, kernel: Kernel, name: str = "X") -> np.ndarray:
    """Return `values`; raise ValueError if some are not finite."""
    if not np.isfinite(values).all():
        raise ValueError(
            f"{kernel!r} gives NaN or infinity on {name}: scale the data or choose other parameters"
        )
    return values


def check_digits(largest: float, dtype, kernel: Kernel) -> None:
    """Raise ValueError if kernel values, whose largest absolute one is given, lose their digits.

    Where not even the largest is `1 / eps` times the smallest normal number, differences between
    them that count are below it, and the fixed spacing of numbers there takes their digits.
    """
    limits = np.finfo(dtype)
    if 0 < largest < (least := limits.tiny / limits.eps):
        raise ValueError(
            f"{kernel!r} on X is at most {largest:.2g}; allowed in {np.dtype(dtype)} are values of "
            f"{least:.0e} and more: scale the data or choose other parameters"
        )


def part(terms: np.ndarray | None, rows: slice) -> np.ndarray | None:
    """Return the `Kernel.row_terms` of some rows."""
    return None if terms is None else terms[rows]


def centering_shift(means: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return s, shape (n,), with K_ij - s_i - s_j the centred kernel, from the row means of K."""
    return (means - means.mean() / 2).astype(dtype)


def center_in_place(K: np.ndarray, means: np.ndarray) -> None:
    """Centre a symmetric kernel matrix in feature space, K <- H K H, from its row means."""
    with np.errstate(over="ignore", invalid="ignore"):  # callers check the means
        # A shift rounded to float32 would be wrong by the same amount in a whole row, which adds up
        # in eigenvalues; the errors of single entries do not.
        shift = centering_shift(means, np.float64)
        for rows in gen_batches(len(K), BLOCK_ROWS):
            for part_of_shift in (shift, shift[rows, None]):
                np.subtract(K[rows], part_of_shift, out=K[rows], casting="same_kind")


def _combined(make: type[Kernel], *parts) -> Kernel:
    parts = [Constant(float(k)) if isinstance(k, Real) else k for k in parts]
    return make(*parts) if all(isinstance(k, Kernel) for k in parts) else NotImplemented


def _inner_products(out: np.ndarray, X, Y) -> None:
    if sparse.issparse(X) or sparse.issparse(Y):
        out[:] = safe_sparse_dot(X, Y.T, dense_output=True)
    else:
        np.matmul(X, Y.T, out=out)
