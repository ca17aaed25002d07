"""The papers' algorithms line by line, slow and obvious.

The notebooks show these and the tests hold the fast versions against them. Equation numbers are
those of the autoencoding kernel PCA report (Cohen, Hazan and Ma, 2016) unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def kernel_matrix(X: np.ndarray, kernel: Callable) -> np.ndarray:
    """Return K with K_ij = k(x_i, x_j), an entry at a time. Shape (n, n)."""
    n = len(X)
    K = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            K[i, j] = kernel(X[i], X[j])
    return K


def center_kernel(K: np.ndarray) -> np.ndarray:
    """Return K - 1K - K1 + 1K1, where all entries of the matrix 1 are 1/n (section 3.6)."""
    n = len(K)
    one = np.full((n, n), 1 / n)
    return K - one @ K - K @ one + one @ K @ one


def center_new_kernel(K_new: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Centre the kernel rows of new points, shape (m, n), by the mean of the n fitted ones."""
    n = len(K)
    one, one_new = np.full((n, n), 1 / n), np.full((len(K_new), n), 1 / n)
    return K_new - one_new @ K - K_new @ one + one_new @ K @ one


def kernel_pca(K: np.ndarray, k: int) -> np.ndarray:
    """Return the coefficients A of shape (k, n), a component a row (sections 3.4 and 3.5).

    Row j is the j-th unit eigenvector of K divided by the square root of its eigenvalue, so that
    the component v_j = sum_i A_ji phi(x_i) has norm 1 in feature space.
    """
    values, vectors = np.linalg.eigh(K)
    values, vectors = values[::-1][:k], vectors[:, ::-1][:, :k]
    return (vectors / np.sqrt(values)).T


def encode(A: np.ndarray, K_new: np.ndarray) -> np.ndarray:
    """Return f(x) = A k with k_i = k(x, x_i), for every row k of K_new, shape (m, k): (12)."""
    return np.array([A @ k for k in K_new])


def degree2_features(X: np.ndarray) -> np.ndarray:
    """Return phi(x) = x x^T as a vector of d^2 products, shape (n, d^2)."""
    return np.array([np.outer(x, x).ravel() for x in X])
