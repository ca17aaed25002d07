"""Gains are products of factors, with the names of the paper."""

import numpy as np
import pytest

from akpca.book.reference import kha_gain
from akpca.hebbian import (
    Annealing,
    Constant,
    EigenvalueNorm,
    Gain,
    MetaDescent,
    ReciprocalEigenvalues,
    make_gain,
)

EIGENVALUES = np.array([7.0, 3.0, 0.5])
E, T, N, S = ReciprocalEigenvalues(), Annealing(passes=2), EigenvalueNorm(), MetaDescent(0.1)

NAMES = {
    "": "KHA",
    "t": "KHA/t",
    "e": "KHA/e",
    "s": "KHA/s",
    "ts": "KHA/ts",
    "es": "KHA/es",
    "et": "KHA/et*",
    "ets": "KHA-SMD*",
    "etn": "KHA/et",
    "etns": "KHA-SMD",
}


def build(letters):
    gain = Gain((Constant(5),))
    for letter in letters:
        gain = gain * {"e": E, "t": T, "n": N, "s": S}[letter]
    return gain.check()


@pytest.mark.parametrize(("letters", "name"), NAMES.items())
def test_names(letters, name):
    """A product of factors is called what the paper calls it, in any order of the factors."""
    assert build(letters).name == build(letters[::-1]).name == name
    assert repr(build(letters)).startswith(name + "(eta0=5")


@pytest.mark.parametrize("name", NAMES.values())
def test_make_gain_by_name(name):
    """Every name makes the gain that has it."""
    assert make_gain(name, eta0=5, mu=0.1).name == name


def test_repr_shows_all_parameters():
    """The text of a gain says all that there is to know."""
    gain = Constant(5) * Annealing(passes=3) * ReciprocalEigenvalues() * MetaDescent(mu=0.05)
    assert repr(gain) == "KHA-SMD*(eta0=5, tau=3 passes, mu=0.05, xi=0.99)"
    stream = Constant(0.1) * Annealing(iterations=500)
    assert repr(stream) == "KHA/t(eta0=0.1, tau=500 iterations)"
    assert repr(make_gain("KHA/et")) == "KHA/et(eta0='auto', tau=1 passes)"


@pytest.mark.parametrize("letters", NAMES)
@pytest.mark.parametrize("t", [1, 50, 5000])
def test_values_are_those_of_the_equations(letters, t):
    """The value of a gain is that of (9), (19) or (22), written out line by line."""
    n = 100
    expected = kha_gain(letters, t, EIGENVALUES, eta0=5, tau=2 * n)
    np.testing.assert_allclose(build(letters)(t, EIGENVALUES, n), expected, rtol=1e-14)


def test_schedule_of_many_steps():
    """The schedule of an array of steps is the array of the schedules."""
    gain, steps = build("t"), np.arange(1, 6)
    expected = [gain.schedule(int(t), 10) for t in steps]
    np.testing.assert_array_equal(gain.schedule(steps, 10), expected)
    np.testing.assert_array_equal(build("").schedule(steps, 10), np.full(5, 5.0))


def test_no_infinite_gain():
    """Eigenvalues of zero give finite gains."""
    for values in (np.zeros(3), np.array([1.0, 0.0, 0.0])):
        assert np.isfinite(build("et")(1, values, 10)).all()
        assert np.isfinite(build("etn")(1, values, 10)).all()


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Constant(0), "eta0=0 must be a finite number above 0"),
        (lambda: Constant(float("nan")), "eta0=nan must be"),
        (lambda: Constant(np.ones(2)), r"eta0=array\(\[1., 1.\]\) must be"),
        (lambda: Constant("large"), "eta0='large' must be"),
        (lambda: Constant(True), "eta0=True must be a finite number above 0"),
        (lambda: Annealing(passes=True), "passes=True must be"),
        (lambda: MetaDescent(False), "mu=False must be"),
        (lambda: make_gain(2.0), "name must be one of 'KHA'.*got 2.0"),
        (lambda: make_gain("KHA/t", tau="2"), "passes='2' must be"),
        (lambda: Annealing(), "either passes or iterations"),
        (lambda: Annealing(passes=1, iterations=1), "either passes or iterations"),
        (lambda: Annealing(passes=-1), "passes=-1 must be a finite number above 0"),
        (lambda: MetaDescent(-1), "mu=-1 must be a finite number of at least 0"),
        (lambda: MetaDescent(1, xi=1.5), "xi=1.5 must be a finite number from 0 to 1"),
        (lambda: Constant(1) * Constant(2), "two Constant"),
        (lambda: (Annealing(passes=1) * E).check(), "multiply it by Constant"),
        (lambda: (Constant(1) * N).check(), "EigenvalueNorm needs ReciprocalEigenvalues"),
        (lambda: make_gain("KHA/x"), "name must be one of 'KHA'"),
        (lambda: make_gain("KHA/tt"), "name must be one of 'KHA'"),
        (lambda: make_gain("SMD"), "name must be one of 'KHA'"),
        (lambda: build("t")(1, EIGENVALUES), "stream"),
    ],
)
def test_nonsense_is_refused(make, match):
    """Impossible parameters and combinations are named in the error."""
    with pytest.raises(ValueError, match=match):
        make()


def test_only_factors_multiply():
    """A number is not a factor."""
    with pytest.raises(TypeError):
        Constant(1) * 3
    with pytest.raises(TypeError, match="product of factors"):
        Gain((Constant(1), 3))


def test_with_values_leaves_the_rest():
    """Other parameters, same factors; without meta-descent, the rest stays."""
    gain = build("ets")
    assert gain.with_values(eta0=2, mu=7) == Constant(2) * T * E * MetaDescent(7)
    assert gain.without_adaptation() == Constant(5) * T * E
