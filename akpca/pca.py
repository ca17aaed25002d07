"""Principal component analysis as a pair of an encoder and a decoder.

    f(x) = A (x - mean)        g(y) = A^T y + mean        A A^T = I

A holds the k leading right singular vectors of the (centred) data matrix. `pca` finds them by a
singular value decomposition or, as the lectures do, by the power method on X^T X or on X X^T.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg
from sklearn.utils import check_array
from sklearn.utils.extmath import svd_flip

from .eigen import power_method

PCA_METHODS = ("svd", "power", "power-gram")


@dataclass(frozen=True)
class LinearCode:
    """Encoder f(x) = A (x - mean) and decoder g(y) = A^T y + mean.

    Attributes
    ----------
    components : ndarray of shape (k, d)
        A, with orthonormal rows.
    mean : ndarray of shape (d,)
        Zeros if the data were not centred.
    singular_values : ndarray of shape (k,)
        Of the (centred) data matrix; their squares are the eigenvalues of X^T X.
    """

    components: np.ndarray
    mean: np.ndarray
    singular_values: np.ndarray

    def encode(self, X) -> np.ndarray:
        """Return the codes f(x) of the rows of X, shape (n, k)."""
        return (X - self.mean) @ self.components.T

    def decode(self, Y) -> np.ndarray:
        """Return the points g(y) of the rows of Y, shape (n, d)."""
        return Y @ self.components + self.mean

    def truncated(self, k: int) -> LinearCode:
        """Return the code of the first k components alone, which is PCA with k components."""
        if not 1 <= k <= len(self.components):
            raise ValueError(f"k must be between 1 and {len(self.components)}, got {k}")
        return LinearCode(self.components[:k], self.mean, self.singular_values[:k])

    def reconstruct(self, X) -> np.ndarray:
        """Return g(f(x)) for the rows of X, shape (n, d)."""
        return self.decode(self.encode(X))


def pca(
    X, n_components: int, *, center: bool = True, method: str = "svd", seed: int = 0
) -> LinearCode:
    """Return the encoder and decoder of principal component analysis.

    Parameters
    ----------
    X : array-like of shape (n, d)
    n_components : int
        k, at most min(n, d).
    center : bool, default=True
        Subtract the mean first.
    method : {'svd', 'power', 'power-gram'}, default='svd'
        'svd' takes all components at once; 'power' runs the power method with deflation on the
        d x d matrix X^T X, 'power-gram' on the n x n matrix X X^T, which is the one that kernel
        PCA generalises and the smaller one when d > n.
    seed : int, default=0
        Starting vectors of the power method.

    Returns
    -------
    code : LinearCode
        Each component's entry of largest size is positive.
    """
    X = check_array(X, dtype=[np.float64, np.float32], ensure_min_samples=2, input_name="X")
    k = n_components
    if not 1 <= k <= min(X.shape):
        raise ValueError(
            f"n_components must be between 1 and min(n, d) = {min(X.shape)}, got {n_components}"
        )
    if method not in PCA_METHODS:
        raise ValueError(f"method must be one of {PCA_METHODS}, got {method!r}")
    mean = X.mean(axis=0) if center else np.zeros(X.shape[1], X.dtype)
    X = X - mean
    if method == "svd":
        _, s, Vt = linalg.svd(X, full_matrices=False)
        s, components = s[:k], Vt[:k]
    elif method == "power":
        values, V = power_method(X.T @ X, k, seed=seed)
        s, components = np.sqrt(np.maximum(values, 0)), V.T
    else:
        values, U = power_method(X @ X.T, k, seed=seed)
        rank = int(np.sum(values > np.finfo(X.dtype).eps * len(X) * values[0]))
        if rank < k:
            raise ValueError(
                f"method='power-gram' finds components of non-zero singular value only: "
                f"n_components={k}, but the data have rank {rank}"
            )
        s = np.sqrt(values)
        components = (X.T @ U / s).T
    _, components = svd_flip(None, components, u_based_decision=False)
    return LinearCode(components.astype(X.dtype), mean, s.astype(X.dtype))
