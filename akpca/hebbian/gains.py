"""Gains of the Hebbian algorithms as products of small factors.

A step of size eta_i for component i is the product of

====  ======================  ==================================  =============================
      factor                  value at step t                     what it is for
====  ======================  ==================================  =============================
      Constant(eta0)          eta0                                the size
t     Annealing(passes)       tau / (t + tau)                     search, then converge: (9)
e     ReciprocalEigenvalues   1 / lambda_i                        equal progress everywhere: (19)
      EigenvalueNorm          ||lambda||                          anneal once progress stalls: (22)
s     MetaDescent(mu, xi)     exp(rho_i), rho_i adapted           learn the rest: (32)
====  ======================  ==================================  =============================

with the equation numbers of Günter, Schraudolph and Vishwanathan, JMLR 8, 2007. The eigenvalues
are those of the (centred) kernel matrix, not divided by the number of samples. Factors are
multiplied with ``*``, and the product, a `Gain`, knows what the paper calls it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ..parameters import check_number

__all__ = [
    "AUTO",
    "Annealing",
    "Constant",
    "EigenvalueNorm",
    "Factor",
    "Gain",
    "MetaDescent",
    "Rates",
    "ReciprocalEigenvalues",
    "make_gain",
    "named_gain",
    "precondition",
]

AUTO = "auto"


def _is_auto(value) -> bool:
    return isinstance(value, str) and value == AUTO


class Factor:
    """Base class: one factor of a gain. Factors and gains multiply to gains."""

    def __mul__(self, other) -> Gain:
        return Gain((self,)) * other


@dataclass(frozen=True)
class Constant(Factor):
    """eta0, the size of the steps; for "auto", estimators try values of the form {1, 2, 5} 10^b."""

    eta0: float | str

    def __post_init__(self):
        if not _is_auto(self.eta0):
            check_number("eta0", self.eta0, above=True)


@dataclass(frozen=True)
class Annealing(Factor):
    """tau / (t + tau): nearly 1 for t << tau, then falling like tau / t.

    tau is `passes` times the number of samples or, in a stream, which has no passes, `iterations`.
    """

    passes: float | None = None
    iterations: float | None = None

    def __post_init__(self):
        if (self.passes is None) == (self.iterations is None):
            raise ValueError("give either passes or iterations to Annealing, not both or neither")
        name = "passes" if self.iterations is None else "iterations"
        check_number(name, getattr(self, name), above=True)

    def tau(self, n_samples: int | None) -> float:
        """Return tau in steps."""
        if self.iterations is not None:
            return float(self.iterations)
        if n_samples is None:
            raise ValueError(
                "Annealing(passes=...) needs the number of samples of a pass, which a stream "
                "does not have: give Annealing(iterations=...)"
            )
        return float(self.passes * n_samples)


@dataclass(frozen=True)
class ReciprocalEigenvalues(Factor):
    """1 / lambda_i, with the eigenvalue that component i currently stands for."""


@dataclass(frozen=True)
class EigenvalueNorm(Factor):
    """||lambda||, which grows as long as the leading eigenspace is still being found."""


@dataclass(frozen=True)
class MetaDescent(Factor):
    """exp(rho_i), where stochastic meta-descent (SMD) adapts the log-gain rho_i.

    The meta-gain `mu` is the step size of rho: 0 leaves the gains alone, and for "auto" estimators
    try values. `xi`, from 0 to 1, is the decay of the memory of past gains.
    """

    mu: float | str
    xi: float = 0.99

    def __post_init__(self):
        if not _is_auto(self.mu):
            check_number("mu", self.mu)
        check_number("xi", self.xi, high=1)


def precondition(eigenvalues, reciprocal, normalised):
    """Return 1, 1 / lambda or ||lambda|| / lambda, shape (r,); float64."""
    largest = eigenvalues.max()
    if not (reciprocal and largest > 0):
        return np.ones(len(eigenvalues))
    norm = np.sqrt(np.sum(eigenvalues**2)) if normalised else 1.0
    # a component that has found nothing yet does not get an infinite gain
    return norm / np.maximum(eigenvalues, 1e-10 * largest)


_NAMES = {
    "": "KHA",
    "t": "KHA/t",
    "et": "KHA/et*",
    "etn": "KHA/et",
    "ets": "KHA-SMD*",
    "etns": "KHA-SMD",
}
_FACTORS = {
    "": Constant,
    "e": ReciprocalEigenvalues,
    "t": Annealing,
    "n": EigenvalueNorm,
    "s": MetaDescent,
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


@dataclass(frozen=True, repr=False)
class Gain:
    """A product of factors; made by multiplying them.

    Attributes
    ----------
    factors : tuple of Factor
    eta0, mu, xi : float or "auto"
        Those of the factors; eta0 is None without `Constant`, mu and xi 0 without `MetaDescent`.
    adapts, uses_eigenvalues, normalises : bool
        Whether it has the factor `MetaDescent`, `ReciprocalEigenvalues`, `EigenvalueNorm`.

    Examples
    --------
    >>> gain = Constant(5) * Annealing(passes=3) * ReciprocalEigenvalues()
    >>> gain
    KHA/et*(eta0=5, tau=3 passes)
    >>> gain(t=3000, eigenvalues=np.array([10.0, 5.0]), n_samples=1000)
    array([0.25, 0.5 ])
    """

    factors: tuple[Factor, ...]
    eta0: float | str | None = field(init=False, compare=False)
    mu: float | str = field(init=False, compare=False)
    xi: float = field(init=False, compare=False)
    adapts: bool = field(init=False, compare=False)
    uses_eigenvalues: bool = field(init=False, compare=False)
    normalises: bool = field(init=False, compare=False)

    def __post_init__(self):
        kinds = [type(factor) for factor in self.factors]
        for kind in set(kinds):
            if kind not in _FACTORS.values():
                raise TypeError(f"a gain is a product of factors of akpca.hebbian, got {kind}")
            if kinds.count(kind) > 1:
                raise ValueError(f"a gain has each factor at most once, got two {kind.__name__}")
        found = dict(zip(kinds, self.factors, strict=True))
        self.__dict__.update(
            factors=tuple(found[kind] for kind in _FACTORS.values() if kind in found),
            eta0=getattr(found.get(Constant), "eta0", None),
            mu=getattr(found.get(MetaDescent), "mu", 0.0),
            xi=getattr(found.get(MetaDescent), "xi", 0.0),
            adapts=MetaDescent in found,
            uses_eigenvalues=ReciprocalEigenvalues in found,
            normalises=EigenvalueNorm in found,
        )

    def __mul__(self, other) -> Gain:
        other = Gain((other,)) if isinstance(other, Factor) else other
        return Gain(self.factors + other.factors) if isinstance(other, Gain) else NotImplemented

    def get(self, kind: type[Factor]):
        """Return the factor of this kind, or None."""
        return next((factor for factor in self.factors if isinstance(factor, kind)), None)

    def check(self) -> Gain:
        """Return the gain if its factors make sense together; raise ValueError otherwise."""
        if self.eta0 is None:
            raise ValueError(f"{self!r} has no size: multiply it by Constant(eta0)")
        if self.normalises and not self.uses_eigenvalues:
            raise ValueError(
                "EigenvalueNorm needs ReciprocalEigenvalues beside it: alone it would multiply "
                "the gain by the scale of the kernel"
            )
        return self

    def with_values(self, *, eta0=None, mu=None) -> Gain:
        """Return the same gain with other parameters."""
        given = {Constant: {"eta0": eta0}, MetaDescent: {"mu": mu}}
        change = {kind: new for kind, new in given.items() if None not in new.values()}
        return Gain(tuple(replace(f, **change.get(type(f), {})) for f in self.factors))

    def without_adaptation(self) -> Gain:
        """Return the gain without its meta-descent."""
        return Gain(tuple(f for f in self.factors if not isinstance(f, MetaDescent)))

    def schedule(self, t: int | np.ndarray, n_samples: int | None) -> float | np.ndarray:
        """Return eta0 tau / (t + tau), the part that depends on time alone."""
        if (annealing := self.get(Annealing)) is None:
            return self.eta0 * np.ones_like(t, dtype=float)
        tau = annealing.tau(n_samples)
        return self.eta0 * tau / (np.asarray(t, dtype=float) + tau)

    def rates(self, t: np.ndarray, eigenvalues: np.ndarray, n_samples: int | None) -> Rates:
        """Return what the steps t of a block need to know of the gain."""
        kind = self.uses_eigenvalues, self.normalises
        scale = precondition(np.asarray(eigenvalues, float), *kind)
        parts = *kind, self.adapts, float(self.mu), float(self.xi)
        return Rates(self.schedule(t, n_samples), scale, *parts)

    def __call__(self, t, eigenvalues, n_samples=None) -> np.ndarray:
        """Return the gain of every component at step t, without what meta-descent adapts."""
        kind = self.uses_eigenvalues, self.normalises
        return self.schedule(t, n_samples) * precondition(np.asarray(eigenvalues, float), *kind)

    @property
    def name(self) -> str:
        """What the paper calls it, or "KHA/" and the letters of its factors."""
        letters = "".join(letter for letter, kind in _FACTORS.items() if self.get(kind))
        return _NAMES.get(letters, f"KHA/{letters}")

    def __repr__(self) -> str:
        show = lambda value: repr(value) if isinstance(value, str) else f"{value:g}"  # noqa: E731
        parts = [] if self.eta0 is None else [f"eta0={show(self.eta0)}"]
        if annealing := self.get(Annealing):
            unit = "passes" if annealing.iterations is None else "iterations"
            parts.append(f"tau={show(getattr(annealing, unit))} {unit}")
        if self.adapts:
            parts.append(f"mu={show(self.mu)}, xi={show(self.xi)}")
        return f"{self.name}({', '.join(parts)})"


def make_gain(name: str, *, eta0=AUTO, tau: float | None = None, mu=AUTO, xi: float = 0.99) -> Gain:
    """Return a gain by the name that the paper gives it.

    Parameters
    ----------
    name : str
        "KHA" (constant), "KHA/t", "KHA/et*", "KHA/et", "KHA-SMD*", "KHA-SMD", or "KHA/" with some
        of the letters e, t and s, as in "KHA/ts".
    eta0, mu, xi
        As in `Constant` and `MetaDescent`; mu and xi count only with meta-descent.
    tau : float, default=None
        In passes, where the gain is annealed. None is 3 for KHA/et* and KHA-SMD*, else 1.

    Examples
    --------
    >>> make_gain("KHA/ts", eta0=2, tau=1, mu=1)
    KHA/ts(eta0=2, tau=1 passes, mu=1, xi=0.99)
    """
    letters = {text: code for code, text in _NAMES.items()}.get(name)
    if letters is None and isinstance(name, str):
        letters = name.removeprefix("KHA/")
    if (
        letters is None
        or letters == name
        or letters.strip("etns")
        or len(set(letters)) < len(letters)
    ):
        allowed = f"one of {', '.join(map(repr, _NAMES.values()))} or 'KHA/' with letters of 'ets'"
        raise ValueError(f"name must be {allowed}, got {name!r}")
    if tau is None:
        tau = 3.0 if "e" in letters and "n" not in letters else 1.0
    values = {"": (eta0,), "t": (tau,), "s": (mu, xi)}
    used = [letter for letter in _FACTORS if letter in letters]
    return Gain(tuple(_FACTORS[letter](*values.get(letter, ())) for letter in used)).check()


def named_gain(gain: str | Factor | Gain) -> Gain:
    """Return the gain that an estimator was given."""
    if isinstance(gain, str):
        return make_gain(gain)
    return (Gain((gain,)) if isinstance(gain, Factor) else gain).check()
