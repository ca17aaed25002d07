"""Adam, and the schedule of its steps.

Parameters are a list of contiguous arrays, changed in place; gradients are arrays of the same
shapes, which are overwritten.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import cos, pi, sqrt

import numpy as np

__all__ = ["Adam", "cosine"]

Arrays = list[np.ndarray]

# Numbers that are updated at a time, so that they stay in the processor's cache.
CHUNK = 2**14
# How slowly Adam's two means forget, and the gradient below which an entry hardly moves.
BETA1, BETA2, EPS = 0.9, 0.999, 1e-8


def cosine(t: int, total: int) -> float:
    """Return the part of the largest rate for step t = 0, 1, ... of `total`: half a cosine."""
    return 0.5 * (1 + cos(pi * t / total)) if t < total else 0.0


@dataclass(eq=False)
class Adam:
    """Adam (Kingma and Ba, 2015): p <- p - rate m-hat / (sqrt(v-hat) + eps).

    m and v are running means of the gradient and its square, corrected for their start at 0.
    `steps` are factors of the rate, one array for each parameter, broadcast to its shape.
    """

    steps: Arrays | None = None
    _moments: Arrays = field(default_factory=list, init=False)
    _factors: Arrays = field(default_factory=list, init=False)
    _t: int = field(default=0, init=False)

    def step(self, params: Arrays, gradients: Arrays, rate: float) -> None:
        """Move the parameters by the gradients of a minibatch, each entry by up to `rate`."""
        if not self._moments:
            for p, f in zip(params, self.steps or [np.ones(1)] * len(params), strict=True):
                self._moments.append(np.zeros((2, p.size), p.dtype))
                f = f if f.size == 1 else np.broadcast_to(f, p.shape)
                self._factors.append(f.astype(p.dtype).reshape(-1))
        self._t += 1
        first, second = 1 - BETA1**self._t, 1 - BETA2**self._t
        # m-hat / (sqrt(v-hat) + eps) = (sqrt(second) / first) m / (sqrt(v) + sqrt(second) eps)
        rate, eps = rate * sqrt(second) / first, sqrt(second) * EPS
        for p, g, (m, v), f in zip(params, gradients, self._moments, self._factors, strict=True):
            p = p.reshape(-1, copy=False)
            g = np.ascontiguousarray(g).reshape(-1)
            for start in range(0, p.size, CHUNK):
                part = slice(start, start + CHUNK)
                g_part, m_part, v_part = g[part], m[part], v[part]
                m_part *= BETA1
                m_part += (1 - BETA1) * g_part
                g_part *= g_part
                g_part *= 1 - BETA2
                v_part *= BETA2
                v_part += g_part
                np.sqrt(v_part, out=g_part)
                g_part += eps
                np.divide(m_part, g_part, out=g_part)
                g_part *= rate * (f[part] if f.size > 1 else f)
                p[part] -= g_part
