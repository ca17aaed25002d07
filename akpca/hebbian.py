"""The Hebbian family in exact blocks: many steps for the price of a few matrix products.

All algorithms of the family change their weights, r rows S in some basis, by

    S <- T S + w x^T

for a sample x, where the r x r matrix T and the vector w depend on y = S x and on nothing else
that is large. So b steps in a row amount to S <- Theta S + W X_b, and all that the steps need to
know are the products S X_b^T and X_b X_b^T. `hebbian_steps` turns these into Theta and W by b
small steps; the rest is matrix multiplication. It is the same algorithm, step by step, not an
approximation of it by mini-batches.

- For the generalised Hebbian algorithm (GHA) and Oja's rule, S = W are the weights and x is the
  sample.
- For the kernel Hebbian algorithm (KHA), S = A holds expansion coefficients: x^T is the unit row
  e_p^T, and the products are A K'[:, P] and K'[P, P].
- With stochastic meta-descent (SMD), S = [A; B] has the rows of SMD's differential below, and
  the log-gains need A K' [A; B]^T, which the same steps keep up to date.
- Eigenvalues estimated anew at every step need A A^T and A K'^2 A^T, kept in the same way.

Notation and equation numbers: Günter, Schraudolph and Vishwanathan, JMLR 8, 2007.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from .gains import EigenvalueNorm, Gain, precondition

# Components whose squared length has grown by this factor will not come back: the length of a
# unit vector is stable only as long as gain * y^2 < 2.
RUNAWAY = 1e2


class DivergenceError(ArithmeticError):
    """A Hebbian iteration ran away: its gain is too large for these data."""


@dataclass
class SmallState:
    """What the steps carry from one to the next, of a size that does not depend on the data.

    Attributes
    ----------
    rho : ndarray of shape (r,)
        Log-gains of stochastic meta-descent.
    eigenvalues : ndarray of shape (r,)
        Current estimates.
    gram : ndarray of shape (r, rows) or None
        A K' S^T, for SMD.
    moments : pair of ndarray of shape (r, r) or None
        A A^T and A K'^2 A^T, for eigenvalues at every step.
    """

    rho: np.ndarray
    eigenvalues: np.ndarray
    gram: np.ndarray | None = None
    moments: tuple[np.ndarray, np.ndarray] | None = None

    def copy(self) -> SmallState:
        """Return an independent copy."""
        # arrays are replaced, never changed, so that they may be shared
        return replace(self)

    @property
    def keeps_products(self) -> bool:
        """Whether steps have more to update than the weights."""
        return self.gram is not None or self.moments is not None


@dataclass(frozen=True)
class BlockProducts:
    """All that the steps of a block need to know of its b samples; float64.

    Attributes
    ----------
    outputs : ndarray of shape (rows, b)
        S x_j before the block.
    gram : ndarray of shape (b, b)
        Inner products of the samples.
    coefficients : ndarray of shape (r, b) or None
        A[:, P] before the block. This and the next two are for eigenvalues at every step.
    images : ndarray of shape (r, b) or None
        A K' k'_j before the block.
    column_gram : ndarray of shape (b, b) or None
        Inner products of the columns of K'.
    """

    outputs: np.ndarray
    gram: np.ndarray
    coefficients: np.ndarray | None = None
    images: np.ndarray | None = None
    column_gram: np.ndarray | None = None

    def stacked(self) -> np.ndarray:
        """Return, for every sample, the rows that [Theta, W] maps to y, A e_p and A K' k'."""
        rows, b = self.outputs.shape
        every_step = self.images is not None
        stack = np.zeros((b, 3 if every_step else 1, rows + b))
        stack[:, 0, :rows] = self.outputs.T
        stack[:, 0, rows:] = self.gram
        if every_step:
            r = len(self.images)
            stack[:, 1, :r] = self.coefficients.T
            stack[:, 2, :r] = self.images.T
            stack[:, 2, rows:] = self.column_gram
        return stack


def hebbian_steps(
    block: BlockProducts,
    gain: Gain,
    schedule: np.ndarray,
    state: SmallState,
    *,
    lower: bool = True,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make one step for every sample of a block.

    Parameters
    ----------
    block : BlockProducts
    gain : Gain
        Its meta-descent and its dependence on the eigenvalues; its dependence on time is
    schedule : ndarray of shape (b,)
        the scalar part of the gain at each step.
    state : SmallState
        Updated in place.
    lower : bool, default=True
        Sanger's rule (7), which orders the components; False is Oja's rule (8).

    Returns
    -------
    Theta : ndarray of shape (rows, rows)
    W : ndarray of shape (rows, b)
        The block's steps are S <- Theta S + W X_b.
    outputs : ndarray of shape (r, b)
        y of every sample at its step.
    """
    rows, b = block.outputs.shape
    r = len(state.rho)
    scale = gain.preconditioner(state.eigenvalues)
    stack = block.stacked()
    if not (gain.adapts or state.keeps_products):
        gains = np.multiply.outer(schedule, scale)
        steps = _plain_steps if _compiled() is None else _compiled().plain_steps
        M, outputs = steps(np.ascontiguousarray(stack[:, 0]), gains, lower)
        return M[:, :r], M[:, r:], outputs
    none = np.zeros((r, r))
    every_step = state.moments is not None
    gram = none if state.gram is None else np.ascontiguousarray(state.gram[:, :r])
    cross = np.ascontiguousarray(state.gram[:, r:]) if gain.adapts else none
    C, R = state.moments if every_step else (none, none)
    steps = _adapting_steps if _compiled() is None else _compiled().adapting_steps
    M, N, outputs, state.rho, state.eigenvalues, gram, cross, C, R = steps(
        stack,
        block.gram.diagonal().copy(),
        block.column_gram.diagonal().copy() if every_step else np.zeros(b),
        schedule,
        scale,
        state.rho,
        state.eigenvalues,
        gram,
        cross,
        C,
        R,
        lower,
        gain.adapts,
        every_step,
        gain.uses_eigenvalues,
        gain.get(EigenvalueNorm) is not None,
        float(gain.mu),
        float(gain.xi),
    )
    if every_step:
        state.moments = (C, R)
    if state.gram is not None:
        state.gram = np.hstack([gram, cross]) if gain.adapts else gram
    if gain.adapts:
        M = np.concatenate([M, N])
    return M[:, :rows], M[:, rows:], outputs


@cache
def _compiled():
    """Return the module of compiled steps, or None where numba is not installed.

    At first use: numba takes longer to import than the rest of the package.
    """
    try:
        from . import compiled
    except ImportError:
        return None
    return compiled


def _plain_steps(vectors, gains, lower):
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


def _adapting_steps(
    stack,
    sizes,
    column_sizes,
    schedule,
    scale,
    rho,
    eigenvalues,
    gram,
    cross,
    C,
    R,
    lower,
    adapts,
    every_step,
    reciprocal,
    normalised,
    mu,
    xi,
):
    """Do the same with meta-descent, or eigenvalues at every step, or A K' A^T kept.

    M and N are the parts of [Theta, W] that belong to A and B; `gram` and `cross` are A K' A^T
    and A K' B^T; C and R are A A^T and A K'^2 A^T.
    """
    r, b = len(rho), len(schedule)
    rows = stack.shape[2] - b
    triangle = np.tril(np.ones((r, r))) if lower else np.ones((r, r))
    M, N, outputs = np.zeros((r, rows + b)), np.zeros((r, rows + b)), np.empty((r, b))
    np.fill_diagonal(M, 1)
    if adapts:
        np.fill_diagonal(N[:, r:], 1)
    identity = np.eye(r)
    for j in range(b):
        products = M.dot(stack[j].T)  # y, A e_p and A K' k'
        y = products[:, 0]
        if every_step:
            eigenvalues = np.sqrt(R.diagonal() / C.diagonal())  # (20)
            scale = precondition(eigenvalues, reciprocal, normalised)  # (19) or (22)
        d = schedule[j] * scale
        if adapts:
            z = N.dot(stack[j, 0])
            # (32) with (33): the updated log-gain is the one that this step uses
            rho = rho + mu * y * (z - y.dot(cross * triangle.T))
            d = d * np.exp(rho)
        w = d * y
        T = identity - w[:, None] * y * triangle
        if adapts:
            # (37): dA = B follows the derivative of the step along B
            v = w + xi * d * z
            down = (v[:, None] * y + xi * w[:, None] * z) * -triangle
            N = xi * T.dot(N) + down.dot(M)
            N[:, rows + j] = v
            cross = T.dot(xi * cross.dot(T.T) + gram.dot(down.T))
            cross += np.multiply.outer(w, xi * T.dot(z) + down.dot(y) + sizes[j] * v)
            cross += np.multiply.outer(T.dot(y), v)
        gram = _two_sided(gram, T, y, w, sizes[j])
        if every_step:
            C = _two_sided(C, T, products[:, 1], w, 1.0)
            R = _two_sided(R, T, products[:, 2], w, column_sizes[j])
        M = T.dot(M)
        M[:, rows + j] = w
        outputs[:, j] = y
    return M, N, outputs, rho, eigenvalues, gram, cross, C, R


def _two_sided(Q, T, s, w, size):
    """Return S G S^T after S <- T S + w e^T, from Q before, s = S G e and size = e^T G e."""
    half = np.multiply.outer(w, T.dot(s) + (size / 2) * w)
    return T.dot(Q).dot(T.T) + half + half.T


@dataclass(frozen=True)
class KernelState:
    """Where a kernel Hebbian iteration stands. Immutable as a whole: a block makes a new one.

    Attributes
    ----------
    S : ndarray of shape (r, l) or (2 r, l)
        Coefficients A and, with meta-descent, B below.
    AK : ndarray of shape (r, l) or None
        A K', if the gain needs eigenvalues.
    small : SmallState
    t : int
        Steps made.
    """

    S: np.ndarray
    AK: np.ndarray | None
    small: SmallState
    t: int = 0

    @property
    def r(self) -> int:
        """Number of components."""
        return len(self.small.rho)

    @property
    def A(self) -> np.ndarray:
        """Coefficients of the components, shape (r, l)."""
        return self.S[: self.r]


def start_state(operator, A: np.ndarray, gain: Gain, *, every_step: bool = False, track=False):
    """Return the state before the first step: Algorithm 1, step 1.

    Parameters
    ----------
    operator : object with `shape`, `dtype`, `rows` and `@`
        K', see :mod:`akpca.operators`.
    A : ndarray of shape (r, l)
    gain : Gain
    every_step : bool, default=False
        Eigenvalues are estimated at every step.
    track : bool, default=False
        Keep A K' A^T up to date also where the gain does not need it.
    """
    r = len(A)
    A = np.ascontiguousarray(A, dtype=operator.dtype)
    S = np.concatenate([A, np.zeros_like(A)]) if gain.adapts else A
    small = SmallState(rho=np.zeros(r), eigenvalues=np.ones(r))
    AK = None
    if gain.uses_eigenvalues or gain.adapts or track:
        AK = np.ascontiguousarray((operator @ A.T).T, dtype=operator.dtype)
    if gain.adapts or track:
        gram = (AK @ A.T).astype(np.float64)
        small.gram = np.hstack([(gram + gram.T) / 2, np.zeros((r, len(S) - r))])
    if not gain.uses_eigenvalues:
        AK = None
    state = KernelState(S, AK, small)
    return refresh(state, gain, every_step=every_step)


def refresh(state: KernelState, gain: Gain, *, every_step: bool) -> KernelState:
    """Return the state with eigenvalues (20), and what follows them, from its large arrays."""
    if not gain.uses_eigenvalues:
        return state
    small = state.small.copy()
    C, R = (state.A @ state.A.T).astype(np.float64), (state.AK @ state.AK.T).astype(np.float64)
    small.eigenvalues = np.sqrt(R.diagonal() / C.diagonal())  # (21)
    small.moments = (C, R) if every_step else None
    return replace(state, small=small)


def kernel_block(
    operator, state: KernelState, gain: Gain, indices: np.ndarray, n_samples: int, limit: float
) -> KernelState:
    """Return the state after one step for each of some distinct samples.

    Parameters
    ----------
    operator : object with `rows` and `dtype`
    state : KernelState
    gain : Gain
    indices : ndarray of shape (b,)
        The samples, in order.
    n_samples : int
        Steps in a pass, for the gain's schedule.
    limit : float
        Largest ||y||^2 / k'(x, x) that is not called divergence.

    Raises
    ------
    DivergenceError
        The state is untouched, so that the caller still has the last good one.
    """
    rows = operator.rows(indices)
    b = len(indices)
    schedule = gain.schedule(state.t + 1 + np.arange(b), n_samples)
    small = state.small.copy()
    extra = {}
    if small.moments is not None:
        extra = {
            "coefficients": state.A[:, indices].astype(np.float64),
            "images": (state.AK @ rows.T).astype(np.float64),
            "column_gram": (rows @ rows.T).astype(np.float64),
        }
    block = BlockProducts(
        (state.S @ rows.T).astype(np.float64), rows[:, indices].astype(np.float64), **extra
    )
    with np.errstate(all="ignore"):  # what overflows is found and reported right below
        Theta, W, outputs = hebbian_steps(block, gain, schedule, small)
        growth = np.max(outputs**2) / max(block.gram.diagonal().max(), np.finfo(float).tiny)
        if not (growth <= limit and np.isfinite(Theta).all() and np.isfinite(W).all()):
            raise DivergenceError(f"{gain!r} diverged at step {state.t + b}")
    Theta, W = Theta.astype(operator.dtype), W.astype(operator.dtype)
    S = Theta @ state.S
    S[:, indices] += W
    AK = state.AK
    if AK is not None:
        r = state.r
        AK = Theta[:r, :r] @ AK
        AK += W[:r] @ rows
    return KernelState(S, AK, small, state.t + b)
