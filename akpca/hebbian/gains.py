"""Gains of the Hebbian algorithms as products of small factors.

A step of size eta_i for component i is the product of

====  =====================  ==================================  =============================
      parameter              factor at step t                    what it is for
====  =====================  ==================================  =============================
      eta0                   eta0                                the size
t     passes or iterations   tau / (t + tau)                     search, then converge: (9)
e     reciprocal             1 / lambda_i                        equal progress everywhere: (19)
      normalised             ||lambda||                          anneal once progress stalls: (22)
s     mu, xi                 exp(rho_i), rho_i adapted           learn the rest: (32)
====  =====================  ==================================  =============================

with the equation numbers of Günter, Schraudolph and Vishwanathan, JMLR 8, 2007. The eigenvalues
are those of the (centred) kernel matrix, not divided by the number of samples.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import numpy as np

from ..parameters import check_number

__all__ = ["Gain", "Rates", "check_gain", "make_gain", "precondition"]

# What the paper calls a product, and the letters of its factors.
NAMES = {
    "KHA": "",
    "KHA/t": "t",
    "KHA/e": "e",
    "KHA/s": "s",
    "KHA/ts": "ts",
    "KHA/es": "es",
    "KHA/et*": "et",
    "KHA/et": "etn",
    "KHA-SMD*": "ets",
    "KHA-SMD": "etns",
}


class Rates(NamedTuple):
    """A gain in numbers, for the steps of a block."""

    schedule: np.ndarray  # (b,), the part that depends on time, at each step
    scale: np.ndarray  # (r,), the part that depends on the eigenvalues, before the block
    reciprocal: bool  # whether that part divides by eigenvalues
    normalised: bool  # and multiplies by their norm
    adapts: bool  # whether meta-descent adapts the log-gains
    mu: float
    xi: float


def precondition(eigenvalues, reciprocal, normalised):
    """Return 1, 1 / lambda or ||lambda|| / lambda, shape (r,); float64."""
    largest = eigenvalues.max()
    if not (reciprocal and largest > 0):
        return np.ones(len(eigenvalues))
    norm = np.sqrt(np.sum(eigenvalues**2)) if normalised else 1.0
    # a component that has found nothing yet does not get an infinite gain
    return norm / np.maximum(eigenvalues, 1e-10 * largest)


@dataclass(frozen=True, repr=False)
class Gain:
    """A gain eta_i = eta0 * tau / (t + tau) * ||lambda|| / lambda_i * exp(rho_i), or a part of it.

    Parameters
    ----------
    eta0 : float
        The size of the steps.
    passes : float, default=None
        tau, as so many passes over the samples; None is a gain that is not annealed.
    iterations : float, default=None
        The same in steps, for a stream, which has no passes.
    reciprocal : bool, default=False
        Divide by the eigenvalue that component i currently stands for.
    normalised : bool, default=False
        Multiply by the norm of the eigenvalues as well, which grows while they are being found.
    mu : float, default=None
        Step size of the log-gains rho of stochastic meta-descent (SMD); None is a gain without.
    xi : float, default=0.99
        Decay of SMD's memory of past gains, from 0 to 1.

    Examples
    --------
    >>> gain = Gain(5, passes=3, reciprocal=True)
    >>> gain
    KHA/et*(eta0=5, tau=3 passes)
    >>> gain(t=3000, eigenvalues=np.array([10.0, 5.0]), n_samples=1000)
    array([0.25, 0.5 ])
    """

    eta0: float
    _: KW_ONLY
    passes: float | None = None
    iterations: float | None = None
    reciprocal: bool = False
    normalised: bool = False
    mu: float | None = None
    xi: float = 0.99

    def __post_init__(self):
        for name in ("eta0", "passes", "iterations"):
            if name == "eta0" or getattr(self, name) is not None:
                check_number(name, getattr(self, name), above=True)
        check_number("mu", 0 if self.mu is None else self.mu)
        check_number("xi", self.xi, high=1)
        if self.passes is not None and self.iterations is not None:
            raise ValueError("give passes or iterations to a Gain, not both")
        if self.normalised and not self.reciprocal:
            problem = "alone it would multiply the gain by the scale of the kernel"
            raise ValueError(f"normalised=True needs reciprocal=True beside it: {problem}")

    @property
    def adapts(self) -> bool:
        """Whether stochastic meta-descent adapts it."""
        return self.mu is not None

    def rates(self, t: np.ndarray, eigenvalues: np.ndarray, n_samples: int | None) -> Rates:
        """Return what the steps t of a block need to know; a stream has no number of samples."""
        t, tau = np.asarray(t, dtype=float), self.iterations
        if self.passes is not None:
            if n_samples is None:
                raise ValueError("a stream has no passes: give Gain(iterations=...) for passes")
            tau = float(self.passes * n_samples)
        schedule = self.eta0 * np.ones_like(t) if tau is None else self.eta0 * tau / (t + tau)
        scale = precondition(np.asarray(eigenvalues, float), self.reciprocal, self.normalised)
        parts = self.reciprocal, self.normalised, self.adapts, float(self.mu or 0), float(self.xi)
        return Rates(schedule, scale, *parts)

    def __call__(self, t, eigenvalues, n_samples=None) -> np.ndarray:
        """Return the gain of every component at step t, without what meta-descent adapts."""
        rates = self.rates(t, eigenvalues, n_samples)
        return rates.schedule * rates.scale

    @property
    def name(self) -> str:
        """What the paper calls it, or "KHA/" and the letters of its factors."""
        annealed = self.passes is not None or self.iterations is not None
        has = {"e": self.reciprocal, "t": annealed, "n": self.normalised, "s": self.adapts}
        letters = "".join(letter for letter in has if has[letter])
        found = [name for name, known in NAMES.items() if set(known) == set(letters)]
        return found[0] if found else f"KHA/{letters}"

    def __repr__(self) -> str:
        parts = [f"eta0={self.eta0:g}"]
        units = {"passes": self.passes, "iterations": self.iterations}
        parts += [f"tau={tau:g} {unit}" for unit, tau in units.items() if tau is not None]
        parts += [f"mu={self.mu:g}, xi={self.xi:g}"] if self.adapts else []
        return f"{self.name}({', '.join(parts)})"


def check_gain(gain: Gain | str) -> Gain | None:
    """Return an estimator's gain, or None if it is to choose one itself."""
    if isinstance(gain, str) and gain != "auto":
        example = "akpca.hebbian.make_gain('KHA/t', eta0=0.5)"
        raise ValueError(f"gain={gain!r} must be 'auto' or a Gain, such as {example}")
    return None if isinstance(gain, str) else gain


def make_gain(
    name: str, *, eta0: float, tau: float | None = None, mu: float | None = None, xi: float = 0.99
) -> Gain:
    """Return a gain by the name that the paper gives it.

    Parameters
    ----------
    name : str
        "KHA" (constant), "KHA/t", "KHA/et*", "KHA/et", "KHA-SMD*", "KHA-SMD", or another product:
        "KHA/e", "KHA/s", "KHA/ts", "KHA/es".
    eta0, mu, xi : float
        As in `Gain`; mu and xi count only with meta-descent, which needs a mu.
    tau : float, default=None
        In passes, where the gain is annealed. None is 3 for KHA/et* and KHA-SMD*, else 1.

    Examples
    --------
    >>> make_gain("KHA/ts", eta0=2, tau=1, mu=1)
    KHA/ts(eta0=2, tau=1 passes, mu=1, xi=0.99)
    """
    if not isinstance(name, str) or name not in NAMES:
        raise ValueError(f"name must be one of {', '.join(map(repr, NAMES))}, got {name!r}")
    letters = NAMES[name]
    if "s" in letters and mu is None:
        raise ValueError(f"{name} needs mu, the meta-gain")
    if tau is None:
        tau = 3.0 if "e" in letters and "n" not in letters else 1.0
    return Gain(
        eta0,
        passes=tau if "t" in letters else None,
        reciprocal="e" in letters,
        normalised="n" in letters,
        mu=mu if "s" in letters else None,
        xi=xi if "s" in letters else 0.99,
    )
