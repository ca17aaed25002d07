"""Hebbian steps in exact blocks: many steps for the price of a few matrix products.

All algorithms of the family change their weights, r rows S in some basis, by

    S <- T S + w x^T

for a sample x, where the r x r matrix T and the vector w depend on y = S x and on nothing else
that is large. So b steps in a row amount to S <- Theta S + W X_b, and all that they need to know
are the products S X_b^T and X_b X_b^T, which `hebbian_steps` turns into Theta and W by b small
steps. It is the same algorithm, step by step, not an approximation of it by mini-batches.

- For the generalised Hebbian algorithm (GHA) and Oja's rule, S = W are the weights.
- For the kernel Hebbian algorithm (KHA), S = A holds expansion coefficients: x^T is the unit row
  e_p^T, and the products are A K'[:, P] and K'[P, P].
- With stochastic meta-descent (SMD), S = [A; B] has the rows of SMD's differential below, and
  the log-gains need A K' [A; B]^T, which the same steps keep up to date.
- Eigenvalues estimated anew at every step need A A^T and A K'^2 A^T, kept in the same way.

Notation and equation numbers: Günter, Schraudolph and Vishwanathan, JMLR 8, 2007.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ..threads import one_blas_thread
from .gains import Rates, precondition

__all__ = [
    "NONE",
    "ROUNDING",
    "RUNAWAY",
    "Block",
    "DivergenceError",
    "SmallState",
    "adapting_steps",
    "estimated_eigenvalues",
    "hebbian_steps",
    "plain_steps",
    "step_functions",
]

# Components whose squared length has grown by this factor will not come back: the length of a
# unit vector is stable only as long as gain * y^2 < 2.
RUNAWAY = 1e2
# What centring leaves of kernel values is rounding below this many units of their precision.
ROUNDING = 8
# Instead of a product that is not kept.
NONE = np.zeros((0, 0))


class DivergenceError(ArithmeticError):
    """A Hebbian iteration ran away: its gain is too large for these data."""


class SmallState(NamedTuple):
    """What the steps carry from one to the next; a product that is not kept has shape (0, 0)."""

    rho: np.ndarray  # (r,), log-gains of stochastic meta-descent
    eigenvalues: np.ndarray  # (r,), current estimates
    gram: np.ndarray = NONE  # (r, r), A K' A^T, and
    cross: np.ndarray = NONE  # (r, r), A K' B^T, for meta-descent
    C: np.ndarray = NONE  # (r, r), A A^T and
    R: np.ndarray = NONE  # (r, r), A K'^2 A^T, for eigenvalues at every step


class Block(NamedTuple):
    """All that the steps of a block need to know of its b samples; float64."""

    stack: np.ndarray  # (b, 1 or 3, rows + b), which [Theta, W] maps to y, A e_p and A K' k'
    sizes: np.ndarray  # (b,), squared norms of the samples
    column_sizes: np.ndarray  # (b,), and of their columns of K', for eigenvalues at every step

    @classmethod
    def of(cls, outputs, gram, coefficients=None, images=None, column_gram=None) -> Block:
        """Return the block from S X_b^T, of shape (rows, b), and X_b X_b^T, of shape (b, b).

        For eigenvalues at every step also from A[:, P] and A K'^2[:, P], of shape (r, b), and the
        inner products of the columns of K', of shape (b, b).
        """
        rows, b = outputs.shape
        stack, column_sizes = np.zeros((b, 1 if images is None else 3, rows + b)), np.zeros(b)
        stack[:, 0, :rows] = outputs.T
        stack[:, 0, rows:] = gram
        if images is not None:
            stack[:, 1, : len(images)] = coefficients.T
            stack[:, 2, : len(images)] = images.T
            stack[:, 2, rows:] = column_gram
            column_sizes[:] = column_gram.diagonal()
        return cls(stack, gram.diagonal().astype(np.float64), column_sizes)


def hebbian_steps(
    block: Block, rates: Rates, state: SmallState, *, lower: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray, SmallState]:
    """Return Theta, W, the outputs and the state after one step for every sample of a block.

    The steps are S <- Theta S + W X_b, with Theta of shape (rows, rows) and W of shape (rows, b);
    column j of the outputs, shape (r, b), is y of sample j at its step. `lower` is Sanger's rule
    (7), which orders the components; without it, the plain steps follow Oja's rule (8).
    """
    rows = block.stack.shape[2] - len(block.stack)
    plain, adapting = step_functions()
    with one_blas_thread():
        if not (rates.adapts or len(state.C)):
            gains = np.multiply.outer(rates.schedule, rates.scale)
            M, outputs = plain(np.ascontiguousarray(block.stack[:, 0]), gains, lower)
        else:
            M, N, outputs, kept = adapting(block, rates, state)
            state = SmallState(*kept)
            if rates.adapts:
                M = np.concatenate([M, N])
    return M[:, :rows], M[:, rows:], outputs, state


@cache
def step_functions():
    """Return the two functions below, or their compiled forms where numba is installed."""
    try:  # at first use: numba takes longer to import than the rest of the package
        import numba  # noqa: F401

        from . import compiled
    except ImportError:
        return plain_steps, adapting_steps
    return compiled.plain_steps, compiled.adapting_steps


def plain_steps(vectors, gains, lower):
    """Return M = [Theta, W] and outputs of steps whose gains are known beforehand.

    T = I - diag(eta) lt(y y^T) and w = eta y. Row j of `vectors`, shape (b, r + b), is what M turns
    into y: the columns of M for samples to come are zero.
    """
    b, r = gains.shape
    triangle = np.tril(np.ones((r, r))) if lower else np.ones((r, r))
    M, outputs = np.zeros((r, r + b)), np.empty((r, b))
    np.fill_diagonal(M, 1)
    for j in range(b):
        y = M.dot(vectors[j])
        w = gains[j] * y
        M -= (w[:, None] * y * triangle).dot(M)
        M[:, r + j] = w
        outputs[:, j] = y
    return M, outputs


def adapting_steps(block, rates, state):
    """Do the same with meta-descent, or eigenvalues at every step, or both.

    Returns the parts M and N of [Theta, W] for A and B, the outputs and the values of the state.
    """
    rho, eigenvalues, gram, cross, C, R = state
    scale, mu, xi = rates.scale, rates.mu, rates.xi
    r, b = len(rho), len(rates.schedule)
    rows = block.stack.shape[2] - b
    identity, triangle = np.eye(r), np.tril(np.ones((r, r)))
    M, N, outputs = np.zeros((r, rows + b)), np.zeros((r, rows + b)), np.empty((r, b))
    np.fill_diagonal(M, 1)
    if rates.adapts:
        np.fill_diagonal(N[:, r:], 1)
    for j in range(b):
        products = M.dot(block.stack[j].T)  # y, A e_p and A K' k'
        y = products[:, 0]
        if len(C):
            eigenvalues = estimated_eigenvalues(R, C)
            scale = precondition(eigenvalues, rates.reciprocal, rates.normalised)  # (19) or (22)
        d = rates.schedule[j] * scale
        if rates.adapts:
            z = N.dot(block.stack[j, 0])
            # (32) with (33): the updated log-gain is the one that this step uses
            rho = rho + mu * y * (z - y.dot(cross * triangle.T))
            d = d * np.exp(rho)
        w = d * y
        T = identity - w[:, None] * y * triangle
        if rates.adapts:
            # (37): dA = B follows the derivative of the step along B
            v = w + xi * d * z
            down = (v[:, None] * y + xi * w[:, None] * z) * -triangle
            N = xi * T.dot(N) + down.dot(M)
            N[:, rows + j] = v
            cross = T.dot(xi * cross.dot(T.T) + gram.dot(down.T))
            cross += np.multiply.outer(w, xi * T.dot(z) + down.dot(y) + block.sizes[j] * v)
            cross += np.multiply.outer(T.dot(y), v)
            gram = _two_sided(gram, T, y, w, block.sizes[j])
        if len(C):
            C = _two_sided(C, T, products[:, 1], w, 1.0)
            R = _two_sided(R, T, products[:, 2], w, block.column_sizes[j])
        M = T.dot(M)
        M[:, rows + j] = w
        outputs[:, j] = y
    return M, N, outputs, (rho, eigenvalues, gram, cross, C, R)


def estimated_eigenvalues(R: np.ndarray, C: np.ndarray) -> np.ndarray:
    """Return ||A_i K'|| / ||A_i|| (20) from A K'^2 A^T and A A^T; 0 for a row of zeros."""
    squares, sizes = R.diagonal(), C.diagonal()
    return np.sqrt(np.divide(squares, sizes, out=np.zeros_like(squares), where=sizes > 0))


def _two_sided(Q, T, s, w, size):
    """Return S G S^T after S <- T S + w e^T, from Q before, s = S G e and size = e^T G e."""
    half = np.multiply.outer(w, T.dot(s) + (size / 2) * w)
    return T.dot(Q).dot(T.T) + half + half.T
