"""Gains are products of factors, with the names of the paper."""

import numpy as np
import pytest

from akpca.book.reference import kha_gain
from akpca.hebbian import Gain, make_gain
from akpca.hebbian.gains import NAMES

EIGENVALUES = np.array([7.0, 3.0, 0.5])
FACTORS = {"e": {"reciprocal": True}, "t": {"passes": 2}, "n": {"normalised": True}}
FACTORS["s"] = {"mu": 0.1}


def build(letters):
    return Gain(5, **{key: v for letter in letters for key, v in FACTORS[letter].items()})


@pytest.mark.parametrize(("name", "letters"), NAMES.items())
def test_names(name, letters):
    """Products of factors are called what the paper calls them; names have default taus."""
    assert build(letters).name == name
    assert make_gain(name, eta0=5, tau=2, mu=0.1) == build(letters)
    default = 3 if name in ("KHA/et*", "KHA-SMD*") else 1
    assert make_gain(name, eta0=1, mu=0).passes == (default if "t" in letters else None)
    assert repr(Gain(0.1, iterations=500)) == "KHA/t(eta0=0.1, tau=500 iterations)"


@pytest.mark.parametrize("letters", NAMES.values())
@pytest.mark.parametrize("t", [1, 50, 5000])
def test_values_are_those_of_the_equations(letters, t):
    """The value of a gain is that of (9), (19) or (22), written out line by line."""
    n = 100
    expected = kha_gain(letters, t, EIGENVALUES, eta0=5, tau=2 * n)
    np.testing.assert_allclose(build(letters)(t, EIGENVALUES, n), expected, rtol=1e-14)


def test_schedule_of_many_steps():
    """The gain at an array of steps is the array of the gains, in passes or steps."""
    steps, one = np.arange(1, 6), np.ones(1)
    expected = [5 * 20 / (t + 20) for t in steps]
    for gain, n in ((build("t"), 10), (Gain(5, iterations=20), None)):
        np.testing.assert_allclose(gain.rates(steps, one, n).schedule, expected, rtol=1e-15)
    np.testing.assert_array_equal(build("").rates(steps, one, 10).schedule, np.full(5, 5.0))


@pytest.mark.parametrize("values", [np.zeros(3), np.array([1.0, 0.0, 0.0])])
def test_no_infinite_gain(values):
    """Eigenvalues of zero give finite gains."""
    assert np.isfinite([build(letters)(1, values, 10) for letters in ("et", "etn")]).all()


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Gain(0), "eta0=0"),
        (lambda: Gain("auto"), "eta0='auto'"),
        (lambda: Gain(True), "eta0=True"),
        (lambda: Gain(1, passes=-1), "passes=-1"),
        (lambda: Gain(1, passes=1, iterations=1), "passes or iterations"),
        (lambda: Gain(1, mu=-1), "mu=-1"),
        (lambda: Gain(1, mu=1, xi=1.5), "xi=1.5"),
        (lambda: Gain(1, normalised=True), "reciprocal=True"),
        (lambda: make_gain("KHA/x", eta0=1), "name must be one of 'KHA'"),
        (lambda: make_gain(2.0, eta0=1), "name must be one of 'KHA'"),
        (lambda: make_gain("KHA-SMD", eta0=1), "needs mu"),
        (lambda: build("t")(1, EIGENVALUES), "stream"),
    ],
)
def test_nonsense_is_refused(make, match):
    """Impossible parameters and combinations are named in the error."""
    with pytest.raises(ValueError, match=match):
        make()
