"""Principal component analysis as a pair of an encoder and a decoder.

    f(x) = A (x - mean)        g(y) = A^T y + mean        A A^T = I

A holds the k leading right singular vectors of the (centred) data matrix. `pca` finds them, and
`principal_axes` axes and variances alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg
from sklearn.utils import check_array, gen_batches
from sklearn.utils.extmath import svd_flip

from .eigen import lapack_work, leading_eigenpairs, power_method
from .fitting import FLOATS
from .kernels import BLOCK_ROWS
from .threads import matmul, one_blas_thread

__all__ = ["LinearCode", "pca", "principal_axes"]

PCA_METHODS = ("auto", "svd", "power", "power-gram")
# Axes whose variance is below this fraction of the largest are rounding errors and are left out.
MIN_VARIANCE_RATIO = 1e-11
# 'auto' takes the SVD if the k-th variance is below this fraction of the largest: singular values
# that come from squares have a relative error of up to eps / ratio; and below so many rows or
# columns, where either way takes milliseconds.
MIN_SQUARES_RATIO, MIN_SQUARES_SIZE = 1e-6, 100


@dataclass(frozen=True)
class LinearCode:
    """Encoder f(x) = A (x - mean) and decoder g(y) = A^T y + mean."""

    components: np.ndarray  # A, shape (k, d), with orthonormal rows
    mean: np.ndarray  # (d,), zeros if the data were not centred
    singular_values: np.ndarray  # (k,), of the (centred) data matrix

    def encode(self, X) -> np.ndarray:
        """Return the codes f(x) of the rows of X, shape (n, k)."""
        X = _check_columns(X, "X", self.components.shape[1])
        return matmul(X - self.mean, self.components.T)

    def decode(self, Y) -> np.ndarray:
        """Return the points g(y) of the rows of Y, shape (n, d)."""
        Y = _check_columns(Y, "Y", self.components.shape[0])
        return matmul(Y, self.components) + self.mean

    def truncated(self, k: int) -> LinearCode:
        """Return the code of the first k components alone, which is PCA with k components."""
        if not 1 <= k <= len(self.components):
            raise ValueError(f"k must be between 1 and {len(self.components)}, got {k}")
        return LinearCode(self.components[:k], self.mean, self.singular_values[:k])

    def reconstruct(self, X) -> np.ndarray:
        """Return g(f(x)) for the rows of X, shape (n, d)."""
        return self.decode(self.encode(X))


def pca(
    X, n_components: int, *, center: bool = True, method: str = "auto", random_state=0
) -> LinearCode:
    """Return the encoder and decoder of principal component analysis.

    In each component, the entry of largest absolute value is positive.

    Parameters
    ----------
    X : array-like of shape (n, d)
    n_components : int
        k, at most min(n, d).
    center : bool, default=True
        Subtract the mean first.
    method : {'auto', 'svd', 'power', 'power-gram'}, default='auto'
        'auto' decomposes the smaller of X^T X and X X^T, if few of many components are wanted and
        this costs no digits, and is 'svd' otherwise; 'power' is the power method with deflation on
        X^T X, d x d, 'power-gram' on X X^T, n x n, which kernel PCA generalises.
    random_state : int, RandomState instance or None, default=0
        Determines the starting vectors of 'auto' and of the power method.
    """
    X = check_array(X, dtype=FLOATS, ensure_min_samples=2, input_name="X")
    k, limit = n_components, min(X.shape)
    if not 1 <= k <= limit:
        raise ValueError(f"n_components must be between 1 and min(n, d) = {limit}, got {k}")
    if method not in PCA_METHODS:
        raise ValueError(f"method must be one of {PCA_METHODS}, got {method!r}")
    mean = X.mean(axis=0, dtype=np.float64) * center
    mean = mean.astype(X.dtype)
    X = X - mean
    s, components = None, None
    if method == "auto" and min(X.shape) >= max(MIN_SQUARES_SIZE, 4 * k):
        axes, variances = principal_axes(X, k, random_state=random_state)
        if len(variances) == k and variances[-1] >= MIN_SQUARES_RATIO * variances[0]:
            s, components = np.sqrt(len(X) * variances), axes.T
    if method in ("auto", "svd") and s is None:
        with one_blas_thread(flops=lapack_work(*X.shape)):
            _, s, Vt = linalg.svd(X, full_matrices=False)
        s, components = s[:k], Vt[:k]
    elif method == "power":
        values, V = power_method(X.T @ X, k, random_state=random_state)
        s, components = np.sqrt(np.maximum(values, 0)), V.T
    elif method == "power-gram":
        values, U = power_method(X @ X.T, k, random_state=random_state)
        rank = int(np.sum(values > np.finfo(X.dtype).eps * len(X) * values[0]))
        if rank < k:
            raise ValueError(f"method={method!r}: n_components={k}, but the data have rank {rank}")
        s, components = np.sqrt(values), (X.T @ U / np.sqrt(values)).T
    _, components = svd_flip(None, components, u_based_decision=False)
    return LinearCode(components.astype(X.dtype), mean, s.astype(X.dtype))


def _check_columns(X, name: str, expected: int) -> np.ndarray:
    """Return a matrix of numbers with so many columns."""
    X = check_array(X, dtype=FLOATS, input_name=name, ensure_min_samples=0)
    if X.shape[1] != expected:
        raise ValueError(f"{name} must have {expected} columns, got {X.shape[1]}")
    return X


def principal_axes(
    X: np.ndarray, k: int | None = None, *, random_state=None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k principal axes of X, shape (n, d), which is not centred here.

    They are the eigenvectors of X^T X / n, orthonormal columns of shape (d, found), and come with
    the mean squares of the samples along them, shape (found,), in descending order. Axes without
    variance are left out; k=None returns all others. The smaller of X^T X and X X^T is decomposed.
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
        with one_blas_thread(flops=lapack_work(*gram.shape)):
            values, vectors = linalg.eigh(gram, overwrite_a=True, driver="evd", check_finite=False)
        values, vectors = values[::-1], vectors[:, ::-1]
    found = int(np.sum(values > MIN_VARIANCE_RATIO * values[0]))
    values, vectors = values[:found], vectors[:, :found]
    axes = vectors if by_features else X.T @ (vectors / np.sqrt(values))
    # signs that do not depend on the solver
    _, rows = svd_flip(None, axes.T, u_based_decision=False)
    return np.ascontiguousarray(rows.T), values / n
