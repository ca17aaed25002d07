"""The papers' algorithms line by line, slow and obvious.

The notebooks show these and the tests hold the fast versions against them. Equation numbers are
those of the autoencoding kernel PCA report (Cohen, Hazan and Ma, 2016) unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit, logit

from ..datasets import RandomLike, generator

__all__ = [
    "SGD",
    "akpca_matrix",
    "akpca_objective",
    "akpca_sgd",
    "akpca_subgradient",
    "akpca_svrg",
    "center_kernel",
    "center_new_kernel",
    "data_span_eigenpair",
    "data_span_objective",
    "data_span_subgradient",
    "decode",
    "degree2_features",
    "encode",
    "gha_step",
    "grown_kernel_pca",
    "inequality_sides",
    "kernel_matrix",
    "kernel_pca",
    "kernel_reconstruction_error",
    "kha",
    "kha_autotune",
    "kha_differential",
    "kha_eigenvalues",
    "kha_gain",
    "kha_gradient",
    "kha_step",
    "logistic_pca",
    "logistic_pca_codes",
    "logistic_pca_deviance",
    "merged_components",
    "oja_step",
    "rank_one_update",
]


def kernel_matrix(X: np.ndarray, kernel: Callable) -> np.ndarray:
    """Return K with K_ij = kappa(x_i, x_j), shape (n, n), one entry at a time."""
    n = len(X)
    K = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            K[i, j] = kernel(X[i], X[j])
    return K


def center_kernel(K: np.ndarray) -> np.ndarray:
    """Return K - 1K - K1 + 1K1, where all entries of the matrix 1 are 1/n (section 3.6)."""
    one = np.full(K.shape, 1 / len(K))
    return K - one @ K - K @ one + one @ K @ one


def center_new_kernel(K_new: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Centre the kernel rows of new points, shape (m, n), by the mean of the n fitted ones."""
    one, one_new = np.full(K.shape, 1 / len(K)), np.full(K_new.shape, 1 / len(K))
    return K_new - one_new @ K - K_new @ one + one_new @ K @ one


def kernel_pca(K: np.ndarray, k: int) -> np.ndarray:
    """Return the coefficients A of the components, shape (k, n) (sections 3.4 and 3.5).

    Row j is the j-th unit eigenvector of K divided by the square root of its eigenvalue, so that
    the component v_j = sum_i A_ji phi(x_i) has norm 1 in feature space.
    """
    values, vectors = np.linalg.eigh(K)
    values, vectors = values[::-1][:k], vectors[:, ::-1][:, :k]
    return (vectors / np.sqrt(values)).T


def encode(A: np.ndarray, K_new: np.ndarray) -> np.ndarray:
    """Return f(x) = A kappa(x), for every row kappa(x) of K_new, shape (m, k): (12)."""
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
    changes = np.tril(np.outer(z, y) + np.outer(y, z))
    return np.outer(z, e) - np.tril(np.outer(y, y)) @ B - changes @ A


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
    K, A : ndarray of shape (l, l) and (r, l)
        The centred kernel matrix, and the coefficients to start with.
    passes : list of ndarray
        Indices of the samples in the order of each pass.
    factors : str
        Those of :func:`kha_gain` and "s" for stochastic meta-descent: "" is KHA, "t" is KHA/t,
        "et" is KHA/et*, "etn" is KHA/et, "ets" is KHA-SMD* and "etns" is KHA-SMD; "s", "ts" and
        "es" are the variants without a name.
    eta0, tau, mu, xi : float
        Parameters of the gain, tau in steps, and of stochastic meta-descent.
    every_step : bool
        Estimate the eigenvalues anew at every step instead of before every pass.
    """
    B, rho, t = np.zeros_like(A), np.zeros(len(A)), 0
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


# ------------------------------------------------------------- autoencoding kernel PCA, section 4


def decode(M: np.ndarray, x: np.ndarray | None = None) -> np.ndarray:
    """Return max(sqrt(lambda_1), 0) v_1, the decoder of (15).

    The sign of v_1 is free: it makes the sum of the entries positive or, if x is given, the inner
    product with x.
    """
    values, vectors = np.linalg.eigh(M)
    v = vectors[:, -1]
    towards = np.ones_like(v) if x is None else x
    if v @ towards < 0:
        v = -v
    return np.sqrt(max(values[-1], 0)) * v


def inequality_sides(M: np.ndarray, x: np.ndarray) -> tuple[float, float]:
    """Return ||x-hat - x||^2, with the better sign, and ||M - x x^T||_2: the two sides of (16)."""
    error = decode(M, x) - x
    return float(error @ error), float(np.linalg.norm(M - np.outer(x, x), ord=2))


def akpca_matrix(A: np.ndarray, B: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return sum_j (x^T A_j x) B_j, which should be near x x^T. A, B have shape (k, d, d)."""
    M = np.zeros((len(x), len(x)))
    for A_j, B_j in zip(A, B, strict=True):
        M += (x @ A_j @ x) * B_j
    return M


def akpca_objective(A: np.ndarray, B: np.ndarray, X: np.ndarray) -> float:
    """Return sum_i || sum_j (x_i^T A_j x_i) B_j - x_i x_i^T ||_2: (18)."""
    return sum(np.linalg.norm(akpca_matrix(A, B, x) - np.outer(x, x), ord=2) for x in X)


def akpca_subgradient(A: np.ndarray, B: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a subgradient of one term of (18) by A and by B: (19) and (20)."""
    M = akpca_matrix(A, B, x) - np.outer(x, x)
    U, _, Vt = np.linalg.svd(M)
    u, v = U[:, 0], Vt[0]
    dA, dB = np.zeros_like(A), np.zeros_like(B)
    for j in range(len(A)):
        dA[j] = (u @ B[j] @ v) * np.outer(x, x)  # (19)
        dB[j] = (x @ A[j] @ x) * np.outer(u, v)  # (20)
    return dA, dB


class SGD:
    """Stochastic gradient descent: p <- p - rate g, the plain method of the report."""

    def step(self, params: list, gradients: list, rate: float) -> None:
        """Move the parameters by the gradients of a minibatch, in place."""
        for p, g in zip(params, gradients, strict=True):
            p -= rate * g


def akpca_sgd(
    X: np.ndarray, k: int, *, step: float, n_epochs: int = 1, random_state: RandomLike = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise (18) by stochastic subgradient descent, one sample at a time, from random A and B.

    The step falls as 1 / sqrt(epoch). The report set it by hand, and found the result to depend
    on it strongly.
    """
    rng = generator(random_state)
    d = X.shape[1]
    A, B = rng.standard_normal((2, k, d, d)) / d
    for epoch in range(n_epochs):
        for i in rng.permutation(len(X)):
            dA, dB = akpca_subgradient(A, B, X[i])
            A = A - step / np.sqrt(epoch + 1) * dA
            B = B - step / np.sqrt(epoch + 1) * dB
    return A, B


def akpca_svrg(
    X: np.ndarray, k: int, *, step: float, n_epochs: int = 1, random_state: RandomLike = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise (18) by SVRG (Johnson and Zhang, 2013), sample by sample, from random A and B."""
    rng = generator(random_state)
    d = X.shape[1]
    A, B = rng.standard_normal((2, k, d, d)) / d
    for _ in range(n_epochs):
        A0, B0 = A, B
        every = [akpca_subgradient(A0, B0, x) for x in X]
        mean_A, mean_B = (np.mean([g[m] for g in every], axis=0) for m in (0, 1))
        for i in rng.permutation(len(X)):
            dA, dB = akpca_subgradient(A, B, X[i])
            dA0, dB0 = every[i]  # the subgradient of this sample at (A0, B0)
            A = A - step * (dA - dA0 + mean_A)
            B = B - step * (dB - dB0 + mean_B)
    return A, B


# ----------------------------------------------------------------- the data span, section 5


def data_span_objective(H: np.ndarray, G: np.ndarray, X: np.ndarray, x: np.ndarray) -> float:
    """Return || sum_i (G^T H k)_i x_i x_i^T - x x^T ||_2, k_i = (x.x_i)^2: (23).

    H and G have shape (k, n), and X holds the n samples that span encoder and decoder.
    """
    z = G.T @ (H @ (X @ x) ** 2)
    return abs(data_span_eigenpair(z, X, x)[0])


def data_span_eigenpair(z: np.ndarray, X: np.ndarray, x: np.ndarray, *, steps: int | None = None):
    """Return the eigenpair of largest size of sum_i z_i x_i x_i^T - x x^T, which is never formed.

    Lanczos from a random vector, section 5.3: a step costs one product with the matrix, O(n d).
    The value has either sign, its size is the spectral norm; the vector has shape (d,).
    """
    d = X.shape[1]
    steps = d if steps is None else min(steps, d)
    w = np.random.default_rng(0).standard_normal(d)
    w, basis, images = w / np.linalg.norm(w), [], []
    while len(basis) < steps:
        image = X.T @ (z * (X @ w)) - x * (x @ w)  # M w = sum_i z_i x_i x_i^T w - x x^T w
        basis.append(w)
        images.append(image)
        rest = image
        for b in [*basis, *basis]:  # orthogonal to all earlier vectors, twice for rounding
            rest = rest - (b @ rest) * b
        size = np.linalg.norm(rest)
        if size <= 1e-12 * np.linalg.norm(image):
            break
        w = rest / size
    Q, MQ = np.array(basis), np.array(images)
    values, S = np.linalg.eigh((Q @ MQ.T + MQ @ Q.T) / 2)
    top = np.argmax(np.abs(values))
    return float(values[top]), S[:, top] @ Q


def data_span_subgradient(
    H: np.ndarray, G: np.ndarray, X: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return a subgradient of (23) by H and by G: (24), (25) and (26).

    The report's (24) is right if the eigenvalue of largest size is positive; in general the
    derivative of the spectral norm has its sign.
    """
    k = (X @ x) ** 2
    value, v = data_span_eigenpair(G.T @ (H @ k), X, x)
    dz = np.sign(value) * (X @ v) ** 2  # (24), with the sign
    dG = np.outer(H @ k, dz)  # (25)
    dH = np.outer(G @ dz, k)  # (26)
    return dH, dG


# ------------------------------------------------- logistic PCA, which lectures compare with PCA

# Pixels between 0 and 1 count as probabilities, and a pixel that is always 0 or 1 would have a
# mean of infinite log-odds: means are kept this far from both.
CLOSEST = 0.01


def logistic_pca_deviance(X: np.ndarray, U: np.ndarray, V: np.ndarray, b: np.ndarray) -> float:
    """Return sum_ij log(1 + exp(t_ij)) - x_ij t_ij with T = 1 b^T + U V^T, shape (n, d).

    That is half the Bernoulli deviance of the probabilities 1 / (1 + exp(-t_ij)), but for what
    does not depend on T. U has shape (n, k), V (d, k) and b (d,).
    """
    T = b + U @ V.T
    return float(np.sum(np.logaddexp(0, T) - X * T))


def logistic_pca(
    X: np.ndarray, k: int, *, n_steps: int = 60
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Minimise the deviance of x_ij in [0, 1] by U, V and b in turn; return all three.

    The deviance bends by at most 1/4 a unit of t_ij, so that a parabola with this curvature that
    touches it lies above it. Its lowest point is a least-squares problem, and a step of length 4
    along the negative gradient, divided by V^T V or U^T U: no step makes the deviance larger.
    The start is PCA: about what the first step from U = 0 would lead to.

    M. Collins, S. Dasgupta and R. Schapire, "A generalization of principal component analysis to
    the exponential family", NIPS 14, 2001; the parabola is that of J. de Leeuw, "Principal
    component analysis of binary data by iterated singular value decomposition", Computational
    Statistics and Data Analysis 50, 2006.
    """
    mean = X.mean(axis=0)
    b = logit(np.clip(mean, CLOSEST, 1 - CLOSEST))
    V = np.linalg.svd(X - mean, full_matrices=False)[2][:k].T
    U = 4 * (X - mean) @ V
    for _ in range(n_steps):
        b = b + 4 * np.mean(X - expit(b + U @ V.T), axis=0)
        U = U + 4 * (X - expit(b + U @ V.T)) @ np.linalg.pinv(V).T
        V = V + 4 * (X - expit(b + U @ V.T)).T @ np.linalg.pinv(U).T
    return U, V, b


def logistic_pca_codes(
    X: np.ndarray, V: np.ndarray, b: np.ndarray, *, n_steps: int = 200
) -> np.ndarray:
    """Return the codes U of new samples: the steps of :func:`logistic_pca` with V and b fixed."""
    U, P = np.zeros((len(X), V.shape[1])), np.linalg.pinv(V).T
    for _ in range(n_steps):
        U = U + 4 * (X - expit(b + U @ V.T)) @ P
    return U


# ------------------------------------------------------ incremental PCA: one block after another


def merged_components(
    V: np.ndarray, values: np.ndarray, mean: np.ndarray, n: int, X: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return components, scatter and mean of n samples and a block X, from those of the n samples.

    The components V have shape (q, d), the scatter along them is `values`, (q,), and all scatter is
    that of the n samples. The rows of a matrix M have the scatter M^T M, so that three sets of rows
    together have that of all samples: the components, each as long as the root of its scatter; the
    block about its own mean; and the difference between the two means.

    D. Ross, J. Lim, R.-S. Lin and M.-H. Yang, "Incremental learning for robust visual tracking",
    International Journal of Computer Vision 77, 2008.
    """
    b, block_mean = len(X), X.mean(axis=0)
    move = np.sqrt(n * b / (n + b)) * (block_mean - mean)
    M = np.vstack([np.sqrt(values)[:, None] * V, X - block_mean, move])
    _, s, components = np.linalg.svd(M, full_matrices=False)
    return components, s**2, (n * mean + b * block_mean) / (n + b)


# ------------------------------------------------------------ kernel PCA that grows by one sample
# B. Hallgren and P. Northrop, "Incremental kernel PCA and the Nyström method", arXiv:1802.00043,
# 2018. Eigenvalues ascend, as in LAPACK.


def rank_one_update(
    d: np.ndarray, U: np.ndarray, sigma: float, v: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenpairs of U diag(d) U^T + sigma v v^T.

    With z = sqrt(sigma) U^T v, the eigenvalues are the roots of 1 + sum_j z_j^2 / (d_j - lambda),
    one between each d_j and the next (Golub, 1973). Eigenvectors are U times (D - lambda)^-1 z, in
    which z is computed from the roots to be orthogonal (Gu and Eisenstat, 1994): O(n^3).
    """
    if sigma < 0:
        d, U = rank_one_update(-d[::-1], U[:, ::-1], -sigma, v)
        return -d[::-1], U[:, ::-1]
    U, z = U.copy(), np.sqrt(sigma) * (U.T @ v)
    tiny = 1e-14 * (np.abs(d).max() + z @ z)
    for i in np.flatnonzero(np.diff(d) <= tiny):  # turn equal pairs until one of them is left out
        size = np.hypot(z[i], z[i + 1]) or 1.0
        c, s = z[i + 1] / size, z[i] / size
        U[:, [i, i + 1]] = U[:, [i, i + 1]] @ np.array([[c, s], [-s, c]])
        z[i], z[i + 1] = 0, size
    moves = np.abs(z) > tiny / np.sqrt(np.abs(d).max() + z @ z)
    values, vectors = _moved_pairs(d[moves], z[moves])
    d, new = np.append(d[~moves], values), np.hstack([U[:, ~moves], U[:, moves] @ vectors])
    order = np.argsort(d)
    return d[order], new[:, order]


def _moved_pairs(d: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenpairs of diag(d) + z z^T, where d ascends and no z is 0."""
    ends = np.append(d[1:], d[-1:] + z @ z)
    half = (ends - d) / 2

    def f(gaps):  # gaps[j, k] = d_j - root_k
        return 1 + np.sum(z[:, None] ** 2 / gaps, axis=0)

    right = f(d[:, None] - (d + half)) < 0  # the root is in the right half, nearer to the other end
    right[-1:] = False
    origins = np.where(right, ends, d)  # distances from there keep their digits
    away = d[:, None] - origins
    low = np.where(right, -half, 0.0)
    high = np.where(right, 0.0, np.where(np.arange(len(d)) == len(d) - 1, 2 * half, half))
    for _ in range(100):
        middle = (low + high) / 2
        with np.errstate(divide="ignore"):
            left = f(away - middle) > 0
        low, high = np.where(left, low, middle), np.where(left, middle, high)
    roots = np.where(right, low, high)
    gaps = away - roots
    apart = np.abs(d[:, None] - d) + np.eye(len(d))
    z = np.sign(z) * np.exp((np.log(np.abs(gaps)).sum(axis=1) - np.log(apart).sum(axis=1)) / 2)
    vectors = z[:, None] / gaps
    return origins + roots, vectors / np.linalg.norm(vectors, axis=0)


def grown_kernel_pca(
    d: np.ndarray, U: np.ndarray, K: np.ndarray, column: np.ndarray, own: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the eigenpairs of the centred kernel matrix of n + 1 samples, and the plain matrix.

    d and U are those of the centred n x n matrix, K is the plain one, `column` the kernel values of
    the new sample with the others and `own` that with itself. Four rank-one updates: two, since all
    are centred by another mean, and two that append a row and a column.
    """
    n = len(K)
    larger = np.block([[K, column[:, None]], [column, own]])
    old, new = K.mean(axis=0), larger.mean(axis=0)
    u = old - new[:n] + (new.mean() - old.mean()) / 2  # the centred matrix grows by 1 u^T + u 1^T
    d, U = rank_one_update(d, U, 0.5, 1 + u)
    d, U = rank_one_update(d, U, -0.5, 1 - u)
    row = larger[n] - new[n] - new + new.mean()  # of the centred matrix, with size = row[n]
    size = row[n]
    d, U = np.append(d, size / 4), np.block([[U, np.zeros((n, 1))], [np.zeros(n), 1.0]])
    order = np.argsort(d)
    d, U = d[order], U[:, order]
    d, U = rank_one_update(d, U, 4 / size, np.append(row[:n], size / 2))
    d, U = rank_one_update(d, U, -4 / size, np.append(row[:n], size / 4))
    return d, U, larger
