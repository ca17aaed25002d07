"""Kernel components of a stream: expansions that grow with it, or stay within a budget.

Components w_i = sum_q A_iq phi(z_q) and the mean mu = sum_q c_q phi(z_q) are expanded in points
that have been seen. A sample x makes one Hebbian step with phi(x) - mu, where mu is the mean of
all samples so far, x included: the same rule as in :class:`akpca.GeneralizedHebbian`, so that with
the linear kernel both are the same algorithm, and how the stream is cut into batches makes no
difference. The step adds x to the points.

A budget bounds their number. What is over it is taken out by projection: pivoted Cholesky
decomposition of the kernel matrix of the points says which of them span the others best, and
components and mean become the nearest expansions in these. What is lost by that is measured, not
assumed to be small: `StreamState.lost` adds up the part of the components' squared norm that
projections have cost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from .gains import Gain
from .generalized_hebbian import block_steps
from .hebbian import RUNAWAY, BlockProducts, DivergenceError
from .kernels import Kernel


@dataclass(frozen=True)
class StreamState:
    """Where a stream stands. Immutable as a whole: a block makes a new one.

    Attributes
    ----------
    points : ndarray of shape (m, d)
    A : ndarray of shape (r, m)
        Coefficients of the components; float64, as all below.
    c : ndarray of shape (m,)
        Coefficients of the mean; zero without centring.
    along : ndarray of shape (r,)
        Inner products of the components with the mean.
    mean_square : float
        ||mu||^2.
    gram : ndarray of shape (r, r)
        Inner products of the components.
    energy, weight : ndarray of shape (r,), float
        Of the outputs, as in :class:`akpca.generalized_hebbian.LinearState`.
    t : int
        Steps made.
    n_samples : int
        Samples seen.
    K : ndarray of shape (m, m) or None
        Kernel matrix of the points, kept only under a budget.
    lost : float
        Sum over projections of the largest relative loss of a component's squared norm.
    """

    points: np.ndarray
    A: np.ndarray
    c: np.ndarray
    along: np.ndarray
    mean_square: float
    gram: np.ndarray
    energy: np.ndarray
    weight: float
    t: int
    n_samples: int
    K: np.ndarray | None = None
    lost: float = 0.0


def start_stream(X: np.ndarray, kernel: Kernel, r: int, rng, *, center: bool) -> StreamState:
    """Return r random unit vectors in the span of the first samples, before any step."""
    K = np.asarray(kernel(X), np.float64)
    G = rng.standard_normal((r, len(X)))
    if center:
        G -= G.mean(axis=1, keepdims=True)
    squares = np.einsum("ij,jk,ik->i", G, K, G)
    G /= np.sqrt(np.where(squares > 0, squares, 1))[:, None]
    zero = np.zeros(r)
    return StreamState(X, G, np.zeros(len(X)), zero, 0.0, G @ K @ G.T, zero, 0.0, 0, 0)


def stream_block(
    state: StreamState, X: np.ndarray, kernel: Kernel, gain: Gain | None, *, center: bool
) -> StreamState:
    """Return the state after one step for every row of X, which join the points.

    Parameters
    ----------
    state : StreamState
    X : ndarray of shape (b, d)
    kernel : Kernel
    gain : Gain or None
        None is "auto".
    center : bool

    Raises
    ------
    DivergenceError
        The state is untouched.
    """
    b, n = len(X), state.n_samples
    new = np.asarray(kernel(state.points, X), np.float64)
    own = np.asarray(kernel(X), np.float64)
    outputs, with_mean = state.A @ new, state.c @ new
    if center:
        # sample j less the running mean: row j of L Phi_b, less share g_j of the mean before
        counts = n + 1.0 + np.arange(b)
        L = np.eye(b) - np.tril(np.ones((b, b))) / counts[:, None]
        g = n / counts
        shares = 1 - 1 / counts
    else:
        L, g, shares = np.eye(b), np.zeros(b), np.ones(b)
    centred = outputs @ L.T - np.multiply.outer(state.along, g)
    cross = np.multiply.outer(L @ with_mean, g)
    square = state.mean_square * np.multiply.outer(g, g)
    gram = L @ own @ L.T - cross - cross.T + square
    with np.errstate(all="ignore"):  # what overflows is found right below
        Theta, C, energy, weight = block_steps(
            BlockProducts(centred, gram), gain, state.t, state.energy, state.weight, shares
        )
        TG = Theta @ centred @ C.T
        norms = Theta @ state.gram @ Theta.T + TG + TG.T + C @ gram @ C.T
        if not norms.diagonal().max() <= RUNAWAY:  # nor if it is not a number
            raise DivergenceError(f"the components ran away by step {state.t + b}")
    A = np.hstack([Theta @ state.A - np.multiply.outer(C @ g, state.c), C @ L])
    c, along, mean_square = np.append(state.c, np.zeros(b)), state.along, 0.0
    if center:
        c = np.append(n * state.c, np.ones(b)) / (n + b)
        to_new = (n * with_mean + own.sum(axis=0)) / (n + b)  # phi(x_j) . the mean now
        old_to_new = (n * state.mean_square + with_mean.sum()) / (n + b)
        along = Theta @ (n * state.along + outputs.sum(axis=1)) / (n + b)
        along += C @ (L @ to_new - g * old_to_new)
        mean_square = (n * old_to_new + to_new.sum()) / (n + b)
    K = None if state.K is None else np.block([[state.K, new], [new.T, own]])
    return replace(
        state,
        points=np.concatenate([state.points, X]),
        A=A,
        c=c,
        along=along,
        mean_square=float(mean_square),
        gram=norms,
        energy=energy,
        weight=float(weight),
        t=state.t + b,
        n_samples=n + b,
        K=K,
    )


def merge_start(state: StreamState, m: int) -> StreamState:
    """Return the state with each of the first m points united with its copy, m places later."""
    A, c = state.A[:, m:].copy(), state.c[m:].copy()
    A[:, :m] += state.A[:, :m]
    c[:m] += state.c[:m]
    return replace(state, points=state.points[m:], A=A, c=c)


def compress(state: StreamState, kernel: Kernel, budget: int) -> StreamState:
    """Return the state projected on the span of at most `budget` of its points."""
    K = np.asarray(kernel(state.points), np.float64) if state.K is None else state.K
    if len(K) <= budget:
        return replace(state, K=K)
    order = linalg.lapack.dpstrf(K, lower=1)[1] - 1
    kept = np.sort(order[:budget])
    small = K[np.ix_(kept, kept)]
    # what rounding leaves of points that others span must not be divided by
    jitter = 10 * len(kept) * np.finfo(state.points.dtype).eps * K.diagonal().max()
    factor = linalg.cho_factor(small + jitter * np.eye(len(kept)), lower=True)
    S = np.vstack([state.A, state.c])
    S = linalg.cho_solve(factor, K[kept] @ S.T).T
    inner = S @ small @ S.T
    gram = inner[:-1, :-1]
    before, after = state.gram.diagonal(), gram.diagonal()
    loss = 1 - np.divide(after, before, out=np.ones_like(after), where=before > 0)
    return replace(
        state,
        points=state.points[kept],
        A=S[:-1],
        c=S[-1],
        along=inner[:-1, -1],
        mean_square=float(inner[-1, -1]),
        gram=gram,
        K=small,
        lost=state.lost + float(max(loss.max(), 0.0)),
    )
