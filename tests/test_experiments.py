"""The errors that the chapters plot are those of the literal algorithm."""

import numpy as np
import pytest

from akpca import KernelPCA, load_dataset
from akpca.book import reference
from akpca.book.experiments.hebbian import (
    TAUS,
    TUNED,
    Place,
    Task,
    excess_error_curve,
    excess_error_curves,
    follow_passes,
    gains_for,
    optimal_error,
    tune_gain,
)
from akpca.hebbian import make_gain
from akpca.kernels import RBF


@pytest.fixture(scope="module")
def K():
    X = load_dataset("circles").X[:60]
    return reference.center_kernel(RBF(1.0)(X))


def test_optimal_error(K):
    """The optimum is the error of exact kernel PCA, and nothing random is below it."""
    A = KernelPCA(3, kernel="precomputed", center=False).fit(K)
    A = (A.eigenvectors_ / np.sqrt(A.eigenvalues_)).T
    optimum = optimal_error(K, 3)
    np.testing.assert_allclose(optimum, reference.kernel_reconstruction_error(A, K))
    rng = np.random.default_rng(0)
    for scale in (0.01, 0.1, 1):
        other = A + scale * rng.standard_normal(A.shape)
        assert reference.kernel_reconstruction_error(other, K) > optimum


@pytest.mark.parametrize("updates", ["pass", "iteration"])
@pytest.mark.parametrize(("name", "factors"), [("KHA/t", "t"), ("KHA/et*", "et")])
def test_curve_is_that_of_the_literal_algorithm(K, name, factors, updates):
    """Every entry is the excess error of the reference after as many passes."""
    r, n = 3, len(K)
    start = np.random.default_rng(1).standard_normal((r, n)) / np.sqrt(r * np.trace(K))
    gain = make_gain(name, eta0=0.5, tau=2)
    options = dict(eigenvalue_updates=updates, init=start, random_state=5)
    curve = excess_error_curve(K, gain, r, 3, **options)
    rng = np.random.RandomState(5)
    passes = [rng.permutation(n) for _ in range(3)]
    options = dict(eta0=0.5, tau=2 * n, every_step=updates == "iteration")
    for made in (1, 2, 3):
        A = reference.kha(K, start, passes[:made], factors, **options)
        expected = reference.kernel_reconstruction_error(A, K) / optimal_error(K, r) - 1
        np.testing.assert_allclose(curve[made - 1], expected, rtol=1e-9)


def test_divergence_is_infinite_not_nan(K):
    """A run that diverges at once has infinities, and no states."""
    gain = make_gain("KHA", eta0=500)
    np.testing.assert_array_equal(excess_error_curve(K, gain, 3, 5, random_state=0), [np.inf] * 5)
    assert follow_passes(K, gain, 3, 4, random_state=0) == []


def test_curves_of_several_gains_and_seeds(K):
    """Row after row they are the curves of single runs."""
    gains = {"a": make_gain("KHA/t", eta0=0.5), "b": make_gain("KHA/ts", eta0=0.5, mu=0.01)}
    curves = excess_error_curves(K, gains, 2, 3, seeds=iter([4, 7]))  # any iterable
    assert list(curves) == ["a", "b"]
    for name, gain in gains.items():
        rows = [excess_error_curve(K, gain, 2, 3, random_state=seed) for seed in (4, 7)]
        np.testing.assert_array_equal(curves[name], rows)


@pytest.mark.parametrize("count", [2.0, True, "2", 0, -1, None, 61])
def test_bad_numbers(K, count):
    """What is not an integer in the range is refused by name, not rounded."""
    match = f"n_components={count!r} must be an integer from 1 to 60"
    with pytest.raises(ValueError, match=match):
        optimal_error(K, count)
    with pytest.raises(ValueError, match=match):
        excess_error_curve(K, "auto", count, 2)
    if count != 61:  # as many passes as one likes
        match = f"n_passes={count!r} must be an integer of at least 1"
        with pytest.raises(ValueError, match=match):
            excess_error_curve(K, "auto", 2, count)


@pytest.mark.parametrize(
    ("matrix", "match"),
    [
        (np.ones((4, 3)), r"K must be a symmetric matrix of shape \(l, l\), got shape \(4, 3\)"),
        (np.triu(np.ones((4, 4))), "K must be a symmetric matrix"),
        (np.full((4, 4), np.nan), "K contains NaN"),
        (np.ones(4), "Expected 2D array"),
        (np.eye(4), "n_components=4 must be below the rank of K"),
    ],
)
def test_bad_matrices(matrix, match):
    """A matrix that can't be a centred kernel matrix, or that has no error left, is refused."""
    with pytest.raises(ValueError, match=match):
        excess_error_curve(matrix, "auto", len(matrix), 2)


def test_followed_passes_are_those_of_the_curve(K):
    """The states of a run have the errors of its curve."""
    gain = make_gain("KHA-SMD*", eta0=1, mu=0.01)
    states = follow_passes(K, gain, 3, 4, random_state=2)
    assert [state.n_iter for state in states] == [1, 2, 3, 4]
    errors = [reference.kernel_reconstruction_error(state.coefficients, K) for state in states]
    curve = excess_error_curve(K, gain, 3, 4, random_state=2)
    np.testing.assert_allclose(np.array(errors) / optimal_error(K, 3) - 1, curve)


@pytest.mark.parametrize("place", [Place(0), Place(1, 0), Place(1, len(TAUS) - 1), Place(0, 2, -5)])
def test_neighbours_are_one_rung_away(place):
    """No parameter appears, disappears or leaves its ladder, and the place is not among them."""
    found = list(place.neighbours())
    assert len({place, *found}) == len(found) + 1
    for other in found:
        pairs = [pair for pair in zip(place, other, strict=True) if pair != (None, None)]
        steps = [abs(a - b) for a, b in pairs]
        assert 1 <= sum(steps) <= 2
        assert max(steps) == 1
        assert other.tau is None or 0 <= other.tau < len(TAUS)


@pytest.mark.parametrize("name", ["KHA", "KHA/t", "KHA/et", "KHA-SMD*"])
def test_no_neighbour_of_a_tuned_gain_is_better(K, name):
    """Tuning ends where moving any parameter by a rung gains no more than a per cent."""
    seeds, gain = [3, 4], tune_gain(K, name, 2, 4, seeds=[3, 4])
    annealed = name in ("KHA/t", "KHA-SMD*")
    place = Place(
        round(3 * np.log10(gain.eta0)),
        TAUS.index(gain.passes) if annealed else None,
        round(3 * np.log10(gain.mu)) if gain.adapts else None,
    )
    assert place.gain(name) == gain
    gains = {"tuned": gain, **{other: other.gain(name) for other in place.neighbours()}}
    curves = excess_error_curves(K, gains, 2, 4, seeds=seeds)
    errors = {key: np.median(curve[:, -1]) for key, curve in curves.items()}
    errors = {key: e for key, e in errors.items() if np.isfinite(curves[key]).all()}
    assert 0.99 * errors["tuned"] <= min(errors.values())


def test_gains_come_from_the_table_if_it_has_them(K):
    """Long runs of a task in the table have its gains; others are tuned, for few passes."""
    task, row = next(iter(TUNED.items()))
    names = ["KHA/t", "KHA/et*"]
    found = gains_for(task, K, names, row.n_passes, seeds=[0])
    assert found.n_passes == row.n_passes
    assert found.gains == {name: row.gains[name] for name in names}
    short = gains_for(task._replace(n_components=2), K, names, 3, seeds=iter([3]))
    assert short.n_passes == 3
    assert short.gains["KHA/t"] == tune_gain(K, "KHA/t", 2, 3, seeds=[3])
    assert gains_for(Task("?", "RBF", 60, 2), K, ["KHA"], 1000, seeds=[3]).n_passes == 30
