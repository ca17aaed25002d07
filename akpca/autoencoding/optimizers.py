"""Stochastic optimisers behind one small interface: SGD, SVRG and Adam.

Parameters are a list of contiguous arrays, changed in place; a gradient is a function of such a
list that returns a list of arrays of the same shapes::

    optimizer = make_optimizer("adam")
    for epoch in range(n_epochs):
        if isinstance(optimizer, SVRG):
            optimizer.start_epoch(params, full_gradient)
        for batch in batches:
            optimizer.step(params, gradient_of(batch), rate)  # moves by about `rate`

That the gradient is a function, not an array, is for SVRG, which needs it at two points. The
arrays it returns are the optimiser's to overwrite. Adam moves each entry by up to `rate`, whatever
the size of the gradient; SGD and SVRG move by `rate` times the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from math import cos, pi, sqrt

import numpy as np

Arrays = list[np.ndarray]
Gradient = Callable[[Arrays], Arrays]

# Numbers that are updated at a time, so that they stay in the processor's cache.
CHUNK = 2**14


def cosine(t: int, total: int, warm: float = 0.0) -> float:
    """Return the part of the largest rate for step t = 0, 1, ... of `total`.

    It falls from 1 to 0 as half a cosine, after it has risen evenly to 1 in the first part `warm`
    of the steps. A rise is for starts that are good: full steps would lose what they are worth,
    before the optimiser knows the sizes of gradients.
    """
    rise = warm * total
    if t < rise:
        return min(1.0, (t + 1) / rise)
    return 0.5 * (1 + cos(pi * (t - rise) / (total - rise))) if t < total else 0.0


class SGD:
    """Stochastic gradient descent with momentum: u <- momentum u + g, p <- p - rate u.

    Parameters
    ----------
    momentum : float, default=0.0
        In [0, 1); 0 is the plain method of the report.
    """

    def __init__(self, momentum: float = 0.0):
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must be in [0, 1), got {momentum}")
        self.momentum = momentum
        self._velocity: Arrays | None = None

    def step(self, params: Arrays, gradient: Gradient, rate: float) -> None:
        """Move the parameters, in place.

        Parameters
        ----------
        params : list of ndarray
        gradient : callable
            Of a minibatch.
        rate : float
        """
        self._descend(params, gradient(params), rate)

    def _descend(self, params, gradients, rate):
        if self.momentum:
            if self._velocity is None:
                self._velocity = [np.zeros_like(p) for p in params]
            for u, g in zip(self._velocity, gradients, strict=True):
                u *= self.momentum
                u += g
                np.copyto(g, u)
        for p, g in zip(params, gradients, strict=True):
            g *= rate
            p -= g


class SVRG(SGD):
    """Variance-reduced descent (Johnson and Zhang, 2013): g(p) - g(p0) + G(p0) in place of g(p).

    p0 is where the epoch began and G the gradient over all data. A step costs two gradients, and
    an epoch begins with one more pass.
    """

    def start_epoch(self, params: Arrays, full_gradient: Gradient) -> None:
        """Note where a pass over the data begins, and the gradient over all of them there."""
        self._snapshot = [p.copy() for p in params]
        self._mean = full_gradient(self._snapshot)

    def step(self, params, gradient, rate):  # noqa: D102
        gradients = gradient(params)
        for g, before, mean in zip(gradients, gradient(self._snapshot), self._mean, strict=True):
            g -= before
            g += mean
        self._descend(params, gradients, rate)


class Adam:
    """Adam (Kingma and Ba, 2015): p <- p - rate m-hat / (sqrt(v-hat) + eps).

    m and v are running means of the gradient and its square, corrected for their start at 0.

    Parameters
    ----------
    beta1, beta2 : float
        How slowly the two means forget, in [0, 1).
    eps : float, default=1e-8
        Entries whose gradients are smaller than this hardly move.
    steps : list of ndarray, default=None
        Factors of the rate, one array for each parameter, broadcast to its shape. None is 1.
    """

    def __init__(
        self,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        steps: Arrays | None = None,
    ):
        if not (0 <= beta1 < 1 and 0 <= beta2 < 1):
            raise ValueError(f"beta1 and beta2 must be in [0, 1), got {beta1} and {beta2}")
        self.beta1, self.beta2, self.eps, self.steps = beta1, beta2, eps, steps
        self._moments: list[tuple[np.ndarray, np.ndarray]] | None = None
        self._t = 0

    def step(self, params: Arrays, gradient: Gradient, rate: float) -> None:
        """Move the parameters, in place; see `SGD.step`."""
        if self._moments is None:
            self._moments = [(np.zeros(p.size, p.dtype), np.zeros(p.size, p.dtype)) for p in params]
            self._factors = [np.ones(1, p.dtype) for p in params]
            if self.steps is not None:
                self._factors = [
                    np.broadcast_to(f, p.shape).astype(p.dtype).reshape(-1)
                    for f, p in zip(self.steps, params, strict=True)
                ]
        gradients = gradient(params)
        self._t += 1
        first, second = 1 - self.beta1**self._t, 1 - self.beta2**self._t
        # m-hat / (sqrt(v-hat) + eps) = (sqrt(second) / first) m / (sqrt(v) + sqrt(second) eps)
        rate, eps = rate * sqrt(second) / first, sqrt(second) * self.eps
        for p, g, (m, v), f in zip(params, gradients, self._moments, self._factors, strict=True):
            p = p.reshape(-1, copy=False)
            g = np.ascontiguousarray(g).reshape(-1)
            for start in range(0, p.size, CHUNK):
                part = slice(start, start + CHUNK)
                g_part, m_part, v_part = g[part], m[part], v[part]
                m_part *= self.beta1
                m_part += (1 - self.beta1) * g_part
                g_part *= g_part
                g_part *= 1 - self.beta2
                v_part *= self.beta2
                v_part += g_part
                np.sqrt(v_part, out=g_part)
                g_part += eps
                np.divide(m_part, g_part, out=g_part)
                g_part *= rate * (f[part] if f.size > 1 else f)
                p[part] -= g_part


OPTIMIZERS = {"adam": Adam, "sgd": SGD, "svrg": SVRG}


def make_optimizer(name: str, **options) -> SGD | SVRG | Adam:
    """Return an optimiser by its name: 'adam', 'sgd' or 'svrg'."""
    if name not in OPTIMIZERS:
        raise ValueError(f"the optimiser must be one of {sorted(OPTIMIZERS)}, got {name!r}")
    return OPTIMIZERS[name](**options)
