"""The steps of :mod:`akpca.hebbian.steps` as compiled loops, used where numba is installed.

A step multiplies r x m matrices by I - diag(w) lt(1 y^T). As lt(1 y^T) is a running sum over the
rows, that takes O(r m) operations, where the matrix product of the array form takes O(r^2 m). This
and the missing overhead of NumPy calls make the steps several times faster.

What is compiled writes into arrays that it is given, and returns nothing. To return an array, numba
calls a Python function and does not look whether it raised: a signal that arrives there, such as
Ctrl-C, would end the process.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .gains import precondition

__all__ = ["adapting_steps", "plain_steps"]


_precondition = njit(cache=True, error_model="numpy")(precondition)


@njit(cache=True, error_model="numpy")
def _deflate(M, m, y, w, lower, total):
    """M <- M - diag(w) lt(1 y^T) M for the first m columns, in place."""
    r = len(y)
    total[:m] = 0
    if not lower:
        for i in range(r):
            for c in range(m):
                total[c] += y[i] * M[i, c]
    for i in range(r):
        if lower:
            for c in range(m):
                total[c] += y[i] * M[i, c]
        for c in range(m):
            M[i, c] -= w[i] * total[c]


@njit(cache=True, error_model="numpy")
def _deflate_pair(M, N, m, y, z, w, v, xi, totals):
    """Both halves of S <- T S with meta-descent, N first: it needs the old M."""
    of_y, of_z, of_n = totals[0], totals[1], totals[2]
    totals[:, :m] = 0
    for i in range(len(y)):
        for c in range(m):
            of_y[c] += y[i] * M[i, c]
            of_z[c] += z[i] * M[i, c]
            of_n[c] += y[i] * N[i, c]
        for c in range(m):
            N[i, c] = xi * (N[i, c] - w[i] * (of_n[c] + of_z[c])) - v[i] * of_y[c]
            M[i, c] -= w[i] * of_y[c]


@njit(cache=True, error_model="numpy")
def _two_sided(Q, y, s, w, size, total):
    """Q <- T Q T^T + (T s) w^T + w (T s)^T + size w w^T, in place."""
    r = len(y)
    _deflate(Q, r, y, w, True, total)
    Q[:] = Q.T.copy()
    _deflate(Q, r, y, w, True, total)
    Ts = s.copy().reshape(r, 1)
    _deflate(Ts, 1, y, w, True, total)
    for i in range(r):
        for c in range(r):
            Q[i, c] += Ts[i, 0] * w[c] + w[i] * Ts[c, 0] + size * w[i] * w[c]


def plain_steps(vectors, gains, lower):
    """See `akpca.hebbian.steps.plain_steps`."""
    b, r = gains.shape
    M, outputs = np.eye(r, r + b), np.empty((r, b))
    _plain_steps(vectors, gains, lower, M, outputs)
    return M, outputs


@njit(cache=True, error_model="numpy")
def _plain_steps(vectors, gains, lower, M, outputs):
    b, r = gains.shape
    total = np.empty(r + b)
    for j in range(b):
        y = np.dot(M, vectors[j])
        w = gains[j] * y
        _deflate(M, r + j, y, w, lower, total)
        M[:, r + j] = w
        outputs[:, j] = y


def adapting_steps(block, rates, state):
    """See `akpca.hebbian.steps.adapting_steps`."""
    r, (b, _, columns) = len(state.rho), block.stack.shape
    M, outputs = np.eye(r, columns), np.empty((r, b))
    state = type(state)(*map(np.copy, state))
    N = np.eye(r, columns, r) if rates.adapts else np.zeros((r, columns))
    _adapting_steps(block, rates, state, M, N, outputs)
    return M, N, outputs, state


@njit(cache=True, error_model="numpy")
def _adapting_steps(block, rates, state, M, N, outputs):
    stack, sizes, adapts, xi = block.stack, block.sizes, rates.adapts, rates.xi
    every_step = len(state.C) > 0
    r, b = len(state.rho), len(sizes)
    rows = stack.shape[2] - b
    rho, eigenvalues, gram, crossed = state.rho, state.eigenvalues, state.gram, state.cross.T.copy()
    C, R, scale = state.C, state.R, rates.scale.copy()
    totals = np.empty((3, max(rows + b, 2 * r)))
    z, both = np.zeros(r), np.empty((r, 2 * r))  # [A K' A^T, A K' B^T] on their way
    for j in range(b):
        m = rows + j
        y = np.dot(M, stack[j, 0])
        if every_step:
            a, u = np.dot(M, stack[j, 1]), np.dot(M, stack[j, 2])
            for i in range(r):
                eigenvalues[i] = np.sqrt(R[i, i] / C[i, i]) if C[i, i] > 0 else 0.0
            scale = _precondition(eigenvalues, rates.reciprocal, rates.normalised)
        if adapts:
            z = np.dot(N, stack[j, 0])
            for i in range(r):
                total = 0.0
                for k in range(i + 1):
                    total += y[k] * crossed[i, k]
                rho[i] += rates.mu * y[i] * (z[i] - total)
        d = rates.schedule[j] * scale * np.exp(rho)
        w = d * y
        v = w + xi * d * z
        if adapts:
            Ts, Tz = y.copy().reshape(r, 1), z.copy().reshape(r, 1)
            _deflate_pair(Ts, Tz, 1, y, z, w, v, xi, totals)
            _deflate_pair(gram, crossed, r, y, z, w, v, xi, totals)
            both[:, :r], both[:, r:] = gram.T, crossed.T
            _deflate(both, 2 * r, y, w, True, totals[0])
            for i in range(r):
                for k in range(r):
                    gram[i, k] = both[i, k] + Ts[i, 0] * w[k]
                    gram[i, k] += w[i] * (Ts[k, 0] + sizes[j] * w[k])
                    crossed[k, i] = both[i, r + k] + Ts[i, 0] * v[k]
                    crossed[k, i] += w[i] * (Tz[k, 0] + sizes[j] * v[k])
            _deflate_pair(M, N, m, y, z, w, v, xi, totals)
            N[:, m] = v
        else:
            _deflate(M, m, y, w, True, totals[0])
        if every_step:
            _two_sided(C, y, a, w, 1.0, totals[0])
            _two_sided(R, y, u, w, block.column_sizes[j], totals[0])
        M[:, m] = w
        outputs[:, j] = y
    state.cross[:] = crossed.T
