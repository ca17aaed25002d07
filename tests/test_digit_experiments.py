"""Digits of the paper on fast iterative kernel PCA: problems, groups, and claims."""

import numpy as np
import pytest

from akpca import KernelHebbian, load_dataset
from akpca.book import reference
from akpca.book.experiments import ResultTable, digits
from akpca.book.experiments import small_sets as sets
from akpca.hebbian import make_gain
from akpca.operators import MatrixOperator

GROUPED = digits.GROUPED
GAINS = {
    v: make_gain(v, eta0=eta0, mu=0.01)
    for v, eta0 in zip(sets.VARIANTS, (0.05, 0.5, 2, 0.2, 2, 0.2), strict=True)
}


@pytest.fixture(scope="module")
def data():
    """Return 120 images of digits, and their labels."""
    return digits.first_images(load_dataset("digits"), 12)


def test_images_are_the_first_of_each_class(data):
    """Twelve of each, in their order, with grey levels from -1 to 1."""
    X, y = data
    whole = load_dataset("digits")
    assert (np.bincount(y) == 12).all()
    assert (X.min(), X.max()) == (-1, 1)
    np.testing.assert_array_equal(X[y == 3], 2 * whole.X[whole.y == 3][:12] - 1)
    with pytest.raises(ValueError, match="labelled images"):
        digits.first_images(load_dataset("circles"), 3)


def test_problems_are_the_matrices_of_the_paper(data):
    """Both kernels are centred, and the third matrix has row sums D in D^-1/2 K D^-1/2."""
    X, _ = data
    linear, rbf = digits.kernel_problems(X, 5)
    np.testing.assert_allclose(linear.K, reference.center_kernel(X @ X.T), atol=1e-9)
    squares = np.sum((X[:, None] - X) ** 2, axis=2)
    K = np.exp(-2 / 64 * squares)
    np.testing.assert_allclose(rbf.K, reference.center_kernel(K), atol=1e-12)
    P = digits.clustering_problem(X, 5).K
    D = np.diag(1 / np.sqrt(K.sum(axis=1)))
    np.testing.assert_allclose(P, D @ K @ D, atol=1e-12)


def test_groups_do_not_depend_on_lengths_and_signs(data):
    """Rows of A may have any length and sign; groups that are apart are found."""
    rng = np.random.default_rng(0)
    true = np.arange(60) % 3
    A = np.eye(3)[:, true] + 0.01 * rng.standard_normal((3, 60))
    groups = digits.spectral_groups(A, 3, random_state=0).labels_
    assert len({(a, b) for a, b in zip(true, groups, strict=True)}) == 3
    scaled = digits.spectral_groups(A * np.array([[-7.0], [0.1], [3.0]]), 3, random_state=0).labels_
    assert len({(a, b) for a, b in zip(groups, scaled, strict=True)}) == 3


def test_misfit_is_an_angle(data):
    """It vanishes for exact components, whatever their signs, and is near 1 for a random start."""
    problem = digits.kernel_problems(data[0], 3)[1]
    measure, found = digits.misfit(problem, 2), []
    options = {"kernel": "precomputed", "random_state": 0, "n_passes": 1}
    values, vectors = np.linalg.eigh(problem.K)
    exact = (vectors[:, ::-1] / np.sqrt(np.abs(values[::-1]))).T[:3]
    for start, eta0 in ((-exact, 1e-12), (None, 1e-12)):
        gain = make_gain("KHA", eta0=eta0)
        model = KernelHebbian(
            3,
            gain=gain,
            init=start,
            callback=lambda s: found.append(measure.function(s)),
            **options,
        )
        model.fit(MatrixOperator(problem.K))
    assert found[0] == pytest.approx(0, abs=1e-6)
    assert 0.5 < found[1] <= 1


@pytest.mark.slow
def test_claims_are_judged_from_rows(data, tmp_path):
    """A short run has a verdict on every claim; without rows all are 'not tested'."""
    X, y = data
    tables = {
        name: ResultTable(tmp_path / f"{name}.csv", sets.COLUMNS)
        for name in (digits.DIGITS, digits.CLUSTERING)
    }
    labels = dict.fromkeys(tables, "tuned")
    empty = list(digits.claims(sets.Study(tables, labels)))
    assert {f.verdict for f in empty} == {"not tested"}
    options = {"seeds": (0, 1), "n_passes": 4}
    for problem in digits.kernel_problems(X, 3):
        more = {"measures": {"misfit": digits.misfit(problem)}}
        sets.follow_all(problem, {"tuned": GAINS}, tables[digits.DIGITS], **options, **more)
        every = {"tuned, every step": {v: GAINS[v] for v in sets.ACCELERATED}}
        sets.follow(
            problem, every, tables[digits.DIGITS], eigenvalue_updates="iteration", **options
        )
    problem = digits.clustering_problem(X, 3)
    digits.cluster_exactly(problem, y, tables[digits.CLUSTERING])
    more = {"measures": digits.information(y)}
    sets.follow_all(problem, {"tuned": GAINS}, tables[digits.CLUSTERING], **options, **more)
    found = list(digits.claims(sets.Study(tables, labels)))
    assert [f.claim for f in found] == [f.claim for f in empty]
    assert {f.figure for f in found} == {2, 3, 4, 10}
    late = "KHA/et* is below KHA/et later on"
    short = {f.claim for f in found if f.verdict == "not tested"}
    assert {claim for claim in short if "ten passes" not in claim} == {late}


def test_variation_of_information_is_a_metric():
    """(44): 0 for the same groups under other names, symmetric, and with a triangle inequality."""
    a, b, c = np.random.default_rng(0).integers(4, size=(3, 300))
    distance = digits.variation_of_information
    assert distance(a, (a + 1) % 4) == pytest.approx(0, abs=1e-12)
    assert distance(a, b) == pytest.approx(distance(b, a), rel=1e-12)
    assert distance(a, c) <= distance(a, b) + distance(b, c)
    # one group against g equal ones is the entropy of these, ln g
    assert distance(np.zeros(12), np.arange(12) % 3) == pytest.approx(np.log(3))
    with pytest.raises(ValueError, match="same length"):
        distance(a, b[:-1])
