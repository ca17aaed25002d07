"""Kernels: functions k(x, y) that are inner products phi(x).phi(y) in some feature space.

Every kernel is a small immutable object with the same three uses::

    kernel = RBF(gamma=0.1)
    kernel(X)        # (n, n) symmetric kernel matrix of one data set
    kernel(X, Y)     # (n, m) kernel matrix between two
    kernel.diag(X)   # (n,) values k(x, x), without the matrix

The contract, stated once: ``X`` and ``Y`` are dense arrays or sparse matrices with a sample a
row; float32 in gives float32 out, anything else float64; a matrix is filled in blocks of rows, so
that nothing of its size is needed besides the result, and of a symmetric matrix only one triangle
is computed. ``gamma=None`` means one over the number of features, as in scikit-learn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import additive_chi2_kernel, manhattan_distances
from sklearn.utils import check_array, gen_batches
from sklearn.utils.extmath import row_norms, safe_sparse_dot

# Rows of a kernel matrix made at a time: wide enough for full matrix-multiplication speed,
# narrow enough that the block's temporaries stay a small part of the matrix.
BLOCK_ROWS = 512


@dataclass(frozen=True)
class Kernel(ABC):
    """Base class: fills a kernel matrix block by block.

    A kernel says what it needs of each row alone (`row_terms`) and how it writes one block
    (`fill`); the rest is shared.
    """

    name: ClassVar[str]

    def row_terms(self, X) -> np.ndarray | None:
        """Return what `fill` wants to know of each row of X, shape (n,), or None."""
        return None

    @abstractmethod
    def fill(self, out: np.ndarray, X, Y, x_terms, y_terms) -> None:
        """Write the block k(X, Y) into `out`, of shape (len(X), len(Y))."""

    def __call__(self, X, Y=None) -> np.ndarray:
        """Return the kernel matrix of X, or between X and Y.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, d)
        Y : {array-like, sparse matrix} of shape (m, d), default=None
            None means X itself, and is faster than passing X twice.

        Returns
        -------
        K : ndarray of shape (n, m)
        """
        X = _check(X, "X")
        symmetric = Y is None
        Y = X if symmetric else _check(Y, "Y")
        if X.shape[1] != Y.shape[1]:
            raise ValueError(
                f"X and Y must have the same number of features, got {X.shape[1]} and {Y.shape[1]}"
            )
        dtype = np.result_type(X.dtype, Y.dtype)
        x_terms = self.row_terms(X)
        y_terms = x_terms if symmetric else self.row_terms(Y)
        K = np.empty((X.shape[0], Y.shape[0]), dtype)
        for rows in gen_batches(X.shape[0], BLOCK_ROWS):
            first = rows.start if symmetric else 0
            block = K[rows, first:]
            self.fill(block, X[rows], Y[first:], _part(x_terms, rows), _part(y_terms, first))
            if symmetric:
                K[rows.stop :, rows] = block[:, rows.stop - first :].T
                # the square on the diagonal has the rounding of two different GEMM orders
                corner = K[rows, rows]
                corner[:] = (corner + corner.T) / 2
        if symmetric:
            np.fill_diagonal(K, self.diag(X))
        return K

    @abstractmethod
    def diag(self, X) -> np.ndarray:
        """Return k(x, x) for each row x of X, shape (n,)."""


@dataclass(frozen=True)
class Linear(Kernel):
    """k(x, y) = x.y, whose feature space is the input space: kernel PCA with it is PCA."""

    name = "linear"

    def fill(self, out, X, Y, x_terms, y_terms):  # noqa: D102
        _inner_products(out, X, Y)

    def diag(self, X):  # noqa: D102
        return row_norms(_check(X, "X"), squared=True)


@dataclass(frozen=True)
class Polynomial(Kernel):
    """k(x, y) = (gamma x.y + coef0)^degree: all products of up to `degree` coordinates.

    With ``coef0=0`` only the products of exactly `degree` coordinates. The report's degree-2
    kernel (x.y)^2 is ``Polynomial(degree=2, gamma=1, coef0=0)``.
    """

    degree: float = 3
    gamma: float | None = None
    coef0: float = 1

    name = "poly"

    def fill(self, out, X, Y, x_terms, y_terms):  # noqa: D102
        _inner_products(out, X, Y)
        out *= _gamma(self.gamma, X)
        self._raise(out)

    def diag(self, X):  # noqa: D102
        X = _check(X, "X")
        values = row_norms(X, squared=True)
        values *= _gamma(self.gamma, X)
        return self._raise(values)

    def _raise(self, values):
        values += self.coef0
        if self.degree == 2:
            return np.square(values, out=values)
        # a negative base with a fractional degree is caught by whoever uses the matrix
        with np.errstate(invalid="ignore"):
            return np.power(values, self.degree, out=values)


@dataclass(frozen=True)
class RBF(Kernel):
    """k(x, y) = exp(-gamma ||x - y||^2): a soft neighbourhood of width 1 / sqrt(2 gamma)."""

    gamma: float | None = None

    name = "rbf"

    def row_terms(self, X):  # noqa: D102
        return row_norms(X, squared=True)

    def fill(self, out, X, Y, x_terms, y_terms):  # noqa: D102
        gamma = _gamma(self.gamma, X)
        # ||x - y||^2 = ||x||^2 - 2 x.y + ||y||^2 cancels. In float32 that costs about
        # gamma ||x||^2 1e-7 of k, which is nothing for data of moderate norm; beyond that the
        # block is computed in float64.
        largest = max(x_terms.max(initial=0), y_terms.max(initial=0))
        if out.dtype == np.float32 and gamma * largest > 8:
            X, Y = X.astype(np.float64), Y.astype(np.float64)
            exact, x_terms, y_terms = np.empty(out.shape), self.row_terms(X), self.row_terms(Y)
            self.fill(exact, X, Y, x_terms, y_terms)
            out[:] = exact
            return
        _inner_products(out, X, Y)
        out *= 2 * gamma
        out -= gamma * y_terms
        out -= gamma * x_terms[:, None]
        np.minimum(out, 0, out=out)
        np.exp(out, out=out)

    def diag(self, X):  # noqa: D102
        X = _check(X, "X")
        return np.ones(X.shape[0], X.dtype)


@dataclass(frozen=True)
class Sigmoid(Kernel):
    """k(x, y) = tanh(gamma x.y + coef0). Not positive semi-definite in general."""

    gamma: float | None = None
    coef0: float = 1

    name = "sigmoid"

    def fill(self, out, X, Y, x_terms, y_terms):  # noqa: D102
        _inner_products(out, X, Y)
        out *= _gamma(self.gamma, X)
        out += self.coef0
        np.tanh(out, out=out)

    def diag(self, X):  # noqa: D102
        X = _check(X, "X")
        return np.tanh(_gamma(self.gamma, X) * row_norms(X, squared=True) + self.coef0)


@dataclass(frozen=True)
class Cosine(Kernel):
    """k(x, y) = x.y / (||x|| ||y||): only directions count. A zero row gives zeros."""

    name = "cosine"

    def row_terms(self, X):  # noqa: D102
        norms = row_norms(X)
        return 1 / np.where(norms > 0, norms, 1)

    def fill(self, out, X, Y, x_terms, y_terms):  # noqa: D102
        _inner_products(out, X, Y)
        out *= y_terms
        out *= x_terms[:, None]

    def diag(self, X):  # noqa: D102
        X = _check(X, "X")
        return (row_norms(X) > 0).astype(X.dtype)


@dataclass(frozen=True)
class Laplacian(Kernel):
    """k(x, y) = exp(-gamma ||x - y||_1): like the RBF, but with a peak, hence less smooth."""

    gamma: float | None = None

    name = "laplacian"

    def fill(self, out, X, Y, x_terms, y_terms):  # noqa: D102
        out[:] = manhattan_distances(X, Y)
        out *= -_gamma(self.gamma, X)
        np.exp(out, out=out)

    def diag(self, X):  # noqa: D102
        X = _check(X, "X")
        return np.ones(X.shape[0], X.dtype)


@dataclass(frozen=True)
class Chi2(Kernel):
    """k(x, y) = exp(-gamma sum_i (x_i - y_i)^2 / (x_i + y_i)), for histograms: x, y >= 0."""

    gamma: float | None = None

    name = "chi2"

    def fill(self, out, X, Y, x_terms, y_terms):  # noqa: D102
        if sparse.issparse(X) or sparse.issparse(Y):
            raise TypeError("kernel='chi2' takes dense data only, got a sparse matrix")
        out[:] = additive_chi2_kernel(X, Y)
        out *= _gamma(self.gamma, X)
        np.exp(out, out=out)

    def diag(self, X):  # noqa: D102
        X = _check(X, "X")
        return np.ones(X.shape[0], X.dtype)


KERNELS: dict[str, type[Kernel]] = {
    cls.name: cls for cls in (Linear, Polynomial, RBF, Sigmoid, Cosine, Laplacian, Chi2)
}


def make_kernel(name: str, **params: Any) -> Kernel:
    """Return the kernel called `name`, with those of `params` that it has.

    Parameters
    ----------
    name : {'linear', 'poly', 'rbf', 'sigmoid', 'cosine', 'laplacian', 'chi2'}
    **params : gamma, degree, coef0
        Parameters that a kernel does not have are left out, so that one call serves all.
    """
    if name not in KERNELS:
        raise ValueError(f"kernel must be one of {sorted(KERNELS)}, got {name!r}")
    cls = KERNELS[name]
    return cls(**{key: value for key, value in params.items() if key in cls.__dataclass_fields__})


def _check(X, name: str):
    return check_array(
        X, accept_sparse="csr", dtype=[np.float64, np.float32], input_name=name, estimator="Kernel"
    )


def _gamma(gamma: float | None, X) -> float:
    return 1 / X.shape[1] if gamma is None else gamma


def _part(terms: np.ndarray | None, rows: slice | int) -> np.ndarray | None:
    if terms is None:
        return None
    return terms[rows] if isinstance(rows, slice) else terms[rows:]


def _inner_products(out: np.ndarray, X, Y) -> None:
    if sparse.issparse(X) or sparse.issparse(Y):
        out[:] = safe_sparse_dot(X, Y.T, dense_output=True)
    else:
        np.matmul(X, Y.T, out=out)
