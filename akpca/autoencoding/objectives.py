"""The two objectives of autoencoding kernel PCA, their gradients, and the decoder.

A model maps each sample x_i to a symmetric d x d matrix M_i that should be near x_i x_i^T. The
decoder takes the leading eigenpair of M_i, x-hat_i = sqrt(max(lambda, 0)) v. There are two losses:

================= ========================= =====================================================
name              loss of a sample          its derivative by M
================= ========================= =====================================================
`spectral`        ||M - x x^T||_2 (18)      sign(lambda) v v^T, with lambda of largest size
`reconstruction`  ||x-hat - x||^2 (15)      (r.v / sqrt(lambda)) v v^T + 2 sqrt(lambda) sym(q v^T)
================= ========================= =====================================================

Here r = x-hat - x and q = (lambda I - M)^+ r. The second is what one really wants; by inequality
(16) the first is an upper bound of a third of it.

Matrices are given by their products: ``product(W)``, of shape (b, d), has the rows M_i w_i. Losses
return ``(losses, P, V)``, shapes (b,), (b, d), (b, d), with dF_i / dM_i = sym(p_i v_i^T) and unit
vectors v_i, or 0 where M_i is 0.

Eigenvectors take the given number of Lanczos `steps` or, with ``steps=None``, as many as bring
their residual, relative to the eigenvalue, down to `tol`; None is the root of the precision of X.
The iteration of `reconstruction` and `decode` begins at `start`, shape (d,) or (b, d), which must
not know x: that leaks the answer, and training then finds matrices whose leading eigenvector is far
from x. For `spectral`, a start near x is even better, as errors far from x hardly matter.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..threads import one_blas_thread

__all__ = ["decode", "mixed_start", "reconstruction", "spectral", "stacked_product"]

Product = Callable[[np.ndarray], np.ndarray]

# Lanczos steps, and steps of the conjugate gradients, that are enough in training.
SPECTRAL_STEPS, RECONSTRUCTION_STEPS, CG_STEPS = 4, 6, 4
# Up to this size M is formed by d products and decomposed by LAPACK where accuracy is asked for.
DENSE_SIZE = 48
# Columns of a Lanczos basis before it restarts, and of those that stay.
CYCLE, KEPT = 14, 4
# The least leading eigenvalue in the derivative, which else has no bound, relative to ||x||^2.
SMALL = 1e-4


def stacked_product(M: np.ndarray) -> Product:
    """Return the product with matrices that are at hand, shape (b, d, d)."""
    return lambda W: np.matmul(M, W[:, :, None])[:, :, 0]


def mixed_start(direction: np.ndarray, shape: tuple[int, int], *, random_state=0) -> np.ndarray:
    """Return starting vectors, (b, d): a direction, (d,) or (b, d), and noise of 0.3 its length."""
    noise = np.random.default_rng(random_state).standard_normal(shape[1]).astype(direction.dtype)
    noise *= 0.3 / np.linalg.norm(noise)
    return np.broadcast_to(_unit(direction) + noise, shape)


def spectral(
    product: Product,
    X: np.ndarray,
    start: np.ndarray,
    *,
    steps: int | None = SPECTRAL_STEPS,
    tol: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ||M_i - x_i x_i^T||_2, of few steps a lower bound, and its subgradient: (18)."""

    def residual(W):
        return product(W) - np.sum(X * W, axis=1, keepdims=True) * X

    values, vectors, _ = _eigenpairs(residual, start, X, steps, tol, both_ends=True)
    return np.abs(values), np.sign(values)[:, None] * vectors, vectors


def reconstruction(
    product: Product,
    X: np.ndarray,
    start: np.ndarray,
    *,
    steps: int | None = RECONSTRUCTION_STEPS,
    towards: np.ndarray | None = None,
    tol: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ||x-hat_i - x_i||^2 and its gradient: objective (15) of the report.

    P is (r.v / sqrt(lambda)) v + 2 sqrt(lambda) q, where q takes few conjugate gradients unless
    `steps` is None. Where lambda <= 0 the decoder answers 0, the loss is ||x||^2 and the gradient
    is 0. The sign of v makes v . towards positive; None is X, which takes the better sign.
    """
    values, V, _ = _eigenpairs(product, start, X, steps, tol)
    V = _oriented(V, X if towards is None else towards)
    roots = np.sqrt(np.maximum(values, 0))[:, None]
    R = roots * V - X
    losses = np.sum(R * R, axis=1)
    # (lambda I - M)^+ takes out what is along v, so that x-hat need not go in
    pull = np.sum(X * V, axis=1, keepdims=True) * V - X
    limit = CG_STEPS if steps is not None else 500
    floor = SMALL * np.sum(X * X, axis=1)
    shift = np.maximum(values, floor)
    Q = _conjugate_gradients(product, shift, V, pull, limit, tol)
    along = np.sum(R * V, axis=1, keepdims=True)
    safe = np.maximum(roots, np.maximum(np.sqrt(floor)[:, None], np.finfo(X.dtype).tiny))
    P = np.where(roots > 0, along / safe * V + 2 * roots * Q, 0)
    return losses, P, V


def decode(
    product: Product, start: np.ndarray, *, towards: np.ndarray | float = 1.0, tol=None
) -> tuple[np.ndarray, np.ndarray]:
    """Return x-hat = sqrt(max(lambda, 0)) v, shape (b, d), and lambda_2 / lambda_1, shape (b,).

    The sign makes x-hat . towards positive; by default, the sum of its entries. Eigenvalues are
    cut off at 0, and with a ratio near 1 the answer is hardly defined.
    """
    values, V, second = _eigenpairs(product, start, start, None, tol)
    values, second = np.maximum(values, 0), np.maximum(second, 0)
    ratios = np.divide(second, values, out=np.zeros_like(values), where=values > 0)
    return np.sqrt(values)[:, None] * _oriented(V, towards), ratios


def _eigenpairs(product, start, like, steps, tol, both_ends=False):
    """Return leading eigenvalues (b,), their unit vectors (b, d) and the next eigenvalues (b,).

    Leading is the algebraically largest or, with `both_ends`, that of largest size. They are found
    by Lanczos with full orthogonalisation; restarted, unless `steps` says how many. A restart keeps
    some Ritz vectors and the direction that comes next, and the images of the basis are kept with
    it, so that it costs no product.
    """
    (b, d), dtype = like.shape, like.dtype
    if steps is None and d <= DENSE_SIZE:
        values, vectors = _batched_eigh(_dense(product, b, d, dtype), both_ends)
        return values[:, 0], vectors[:, 0], values[:, 1] if d > 1 else np.zeros(b)
    cycle = min(d, CYCLE if steps is None else steps)
    limit = max(20 * CYCLE, d) if steps is None else cycle
    tol = float(np.sqrt(np.finfo(dtype).eps)) if tol is None else tol
    basis, images = np.zeros((2, b, cycle, d), dtype)
    q, size, check = _unit(np.broadcast_to(start, (b, d)).astype(dtype)), 0, 6
    for step in range(1, limit + 1):
        basis[:, size] = q
        images[:, size] = w = product(q)
        size += 1
        Q = basis[:, :size]
        # twice: of a direction that the basis has already, once leaves nothing but rounding, which
        # is not orthogonal to the basis
        for _ in range(2):
            along = np.matmul(Q, w[:, :, None])[:, :, 0]
            w = w - np.matmul(along[:, None, :], Q)[:, 0]
        norms = np.linalg.norm(w, axis=1, keepdims=True)
        # where the Krylov space ends, the rest of the basis is zero
        scale = np.linalg.norm(images[:, :size], axis=2).max(axis=1)[:, None]
        floor = 4 * np.finfo(dtype).eps * scale
        q = np.divide(w, norms, out=np.zeros_like(w), where=norms > floor)
        full = size == cycle
        if full or step == limit or (steps is None and size == check):
            projected = np.matmul(Q, np.swapaxes(images[:, :size], 1, 2))
            symmetric = (projected + np.swapaxes(projected, 1, 2)) / 2
            values, S = _batched_eigh(symmetric, both_ends)
            vectors = np.matmul(S[:, None, 0], Q)[:, 0]
            # every residual is along q
            residuals = np.abs(S[:, 0, -1]) * np.where(norms > floor, norms, 0)[:, 0]
            if step == limit or cycle == d or (residuals <= tol * np.abs(values[:, 0])).all():
                break
        if full:
            kept = S[:, : min(KEPT, cycle - 1)]
            size = kept.shape[1]
            basis[:, :size], images[:, :size] = np.matmul(kept, Q), np.matmul(kept, images)
            check = 0
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0.5)
    second = values[:, 1] if values.shape[1] > 1 else np.zeros_like(values[:, 0])
    return values[:, 0], vectors, second


def _conjugate_gradients(product, values, V, B, steps, tol):
    """Solve (lambda I - M) q = b for q orthogonal to v, where the matrix is positive."""
    tol = float(np.sqrt(np.finfo(B.dtype).eps)) if tol is None else tol
    Q, R = np.zeros_like(B), B
    D, squares = B, np.sum(B * B, axis=1, keepdims=True)
    goal = tol**2 * squares
    for _ in range(steps):
        AD = values[:, None] * D - product(D)
        AD -= np.sum(AD * V, axis=1, keepdims=True) * V
        curvature = np.sum(D * AD, axis=1, keepdims=True)
        # a direction without curvature comes of an eigenvector that has not converged: stop there
        length = np.sum(D * D, axis=1, keepdims=True)
        good = curvature > np.finfo(B.dtype).eps * np.abs(values)[:, None] * length
        a = np.divide(squares, curvature, out=np.zeros_like(squares), where=good)
        Q, R = Q + a * D, R - a * AD
        before, squares = squares, np.where(good, np.sum(R * R, axis=1, keepdims=True), 0)
        if (squares <= goal).all():
            break
        D = R + np.divide(squares, before, out=np.zeros_like(before), where=before > 0) * D
    return Q


def _batched_eigh(M, both_ends):
    """Return eigenvalues (b, s) of small matrices, the leading first, and eigenvectors as rows."""
    with one_blas_thread():
        values, vectors = np.linalg.eigh(M)
    order = np.argsort(-(np.abs(values) if both_ends else values), axis=1, kind="stable")
    vectors = np.take_along_axis(vectors, order[:, None, :], axis=2)
    return np.take_along_axis(values, order, axis=1), np.swapaxes(vectors, 1, 2)


def _dense(product, b, d, dtype):
    """Return the M_i, shape (b, d, d), a column at a time."""
    M = np.empty((b, d, d), dtype)
    for j, axis in enumerate(np.eye(d, dtype=dtype)):
        M[:, :, j] = product(np.broadcast_to(axis, (b, d)))
    return (M + np.swapaxes(M, 1, 2)) / 2


def _unit(W):
    lengths = np.linalg.norm(W, axis=-1, keepdims=True)
    return np.divide(W, lengths, out=np.zeros_like(W), where=lengths > 0)


def _oriented(V, towards):
    """Return V with the signs that make its rows' products with `towards` positive."""
    return np.where(np.sum(V * towards, axis=1, keepdims=True) < 0, -V, V)
