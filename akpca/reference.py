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


# The Hebbian family. Equation numbers are those of Guenter, Schraudolph and Vishwanathan (2007):
# A holds r rows of coefficients of l samples, K is their centred kernel matrix K', a step sees
# the sample with number p, and t counts the steps from 1.


def gha_step(W: np.ndarray, x: np.ndarray, eta: float) -> np.ndarray:
    """Return the weights after one step of the generalised Hebbian algorithm: (7)."""
    y = W @ x
    return W + eta * (np.outer(y, x) - np.tril(np.outer(y, y)) @ W)


def oja_step(W: np.ndarray, x: np.ndarray, eta: float) -> np.ndarray:
    """Return the weights after one step of the subspace rule of Oja and Karhunen: (8)."""
    y = W @ x
    return W + eta * (np.outer(y, x) - np.outer(y, y) @ W)


def kha_gradient(A: np.ndarray, K: np.ndarray, p: int) -> np.ndarray:
    """Return the update coefficients Gamma: (14) and (16)."""
    y = A @ K[:, p]  # (14)
    e = np.eye(len(K))[p]
    return np.outer(y, e) - np.tril(np.outer(y, y)) @ A  # (16)


def kha_step(A: np.ndarray, K: np.ndarray, p: int, eta: float | np.ndarray) -> np.ndarray:
    """Return A after one step of the kernel Hebbian algorithm: (17), and (18) for a vector."""
    return A + np.reshape(eta, (-1, 1)) * kha_gradient(A, K, p)


def kha_differential(A: np.ndarray, B: np.ndarray, K: np.ndarray, p: int) -> np.ndarray:
    """Return dGamma, the change of Gamma along dA = B: (36)."""
    y, z = A @ K[:, p], B @ K[:, p]
    e = np.eye(len(K))[p]
    return (
        np.outer(z, e) - np.tril(np.outer(y, y)) @ B - np.tril(np.outer(z, y) + np.outer(y, z)) @ A
    )


def kha_eigenvalues(A: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Return the eigenvalue that each row of A stands for: (20) and (21)."""
    AK = A @ K
    return np.sqrt(np.diag(AK @ AK.T) / np.diag(A @ A.T))


def kha_gain(
    factors: str, t: int, eigenvalues: np.ndarray, *, eta0: float, tau: float = 1.0
) -> np.ndarray:
    """Return the gain of every row at step t, without the part that SMD adapts.

    The factors are letters: "t" anneals by tau / (t + tau), "e" divides by the eigenvalues and
    "n" multiplies by their norm, so that "t" is (9), "et" is (19) and "etn" is (22).
    """
    eta = np.full(len(eigenvalues), float(eta0))
    if "t" in factors:
        eta = eta * tau / (t + tau)  # (9)
    if "e" in factors:
        eta = eta / eigenvalues  # (19)
    if "n" in factors:
        eta = eta * np.linalg.norm(eigenvalues)  # (22)
    return eta


def kha(
    K: np.ndarray,
    A: np.ndarray,
    passes: list[np.ndarray],
    factors: str,
    *,
    eta0: float,
    tau: float = 1.0,
    mu: float = 0.0,
    xi: float = 0.99,
    every_step: bool = False,
) -> np.ndarray:
    """Return A after some passes of any member of the family: Algorithm 1.

    Parameters
    ----------
    K : ndarray of shape (l, l)
        The centred kernel matrix.
    A : ndarray of shape (r, l)
        The coefficients to start with.
    passes : list of ndarray
        Of every pass, the numbers of the samples in the order in which it sees them.
    factors : str
        Those of :func:`kha_gain` and "s" for stochastic meta-descent: "" is KHA, "t" is KHA/t,
        "et" is KHA/et*, "etn" is KHA/et, "ets" is KHA-SMD* and "etns" is KHA-SMD; "s", "ts" and
        "es" are the variants without a name.
    eta0, tau : float
        Of the gain; tau in steps.
    mu, xi : float
        Of stochastic meta-descent.
    every_step : bool
        Estimate the eigenvalues anew at every step instead of before every pass.
    """
    B = np.zeros_like(A)
    rho = np.zeros(len(A))
    eigenvalues = kha_eigenvalues(A, K)
    t = 0
    for order in passes:
        eigenvalues = kha_eigenvalues(A, K)
        for p in order:
            t += 1
            if every_step:
                eigenvalues = kha_eigenvalues(A, K)  # step 2(a)
            eta = kha_gain(factors, t, eigenvalues, eta0=eta0, tau=tau)  # 2(b)
            Gamma = kha_gradient(A, K, p)  # 2(c) to 2(e)
            if "s" in factors:
                rho = rho + mu * np.diag(Gamma @ K @ B.T)  # (32)
                dGamma = kha_differential(A, B, K, p)
                D = np.diag(np.exp(rho) * eta)
                B = xi * B + D @ (Gamma + xi * dGamma)  # (35)
            else:
                D = np.diag(eta)
            A = A + D @ Gamma  # (31)
    return A


def kha_autotune(K: np.ndarray, A: np.ndarray, order: np.ndarray, factors: str, **parameters):
    """Return the largest eta0 = a 10^b, a in {1, 2, 5}, for which a pass stays finite: Algorithm 2.

    Other parameters are passed on to :func:`kha`.
    """
    exponent = 2
    while True:
        for a in (5, 2, 1):
            eta0 = a * 10.0**exponent  # steps 2 and 4
            with np.errstate(all="ignore"):
                result = kha(K, A, [order], factors, eta0=eta0, **parameters)  # step 3
            if np.isfinite(result).all():
                return eta0
        exponent -= 1  # step 5: start again from the same A


def kernel_reconstruction_error(A: np.ndarray, K: np.ndarray) -> float:
    """Return ||K' - (A K')^T A K'||_F: (38)."""
    AK = A @ K
    return float(np.linalg.norm(K - AK.T @ AK))
