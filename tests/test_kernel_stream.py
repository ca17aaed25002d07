"""Kernel components of a stream: the linear algorithm in feature space, and its budget."""

import warnings

import numpy as np
import pytest
from battery import Sample
from sklearn.datasets import load_digits

from akpca import DivergenceError, KernelPCA, KernelStream
from akpca.hebbian import Annealing, Constant, MetaDescent, ReciprocalEigenvalues
from akpca.hebbian.generalized import LinearState, Track, linear_block
from akpca.hebbian.stream import compress, merge_start, start_stream, stream_block
from akpca.kernels import RBF, Linear, Polynomial

GAINS = {
    "auto": None,
    "annealed": Constant(0.02) * Annealing(iterations=50),
    "reciprocal": Constant(0.05) * Annealing(iterations=50) * ReciprocalEigenvalues(),
}


@pytest.fixture(scope="module")
def digits():
    X = load_digits().data / 16
    return X[np.random.default_rng(0).permutation(len(X))[:400]]


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("gain", GAINS)
def test_linear_kernel_is_the_linear_algorithm(digits, gain, center):
    """With the linear kernel, A Z follows the weights of the generalised Hebbian algorithm, each
    sample centred by the running mean, written out here."""
    X, kernel = digits[:150], Linear()
    first = X[:20]
    state = start_stream(first, kernel, 3, np.random.RandomState(0), center=center)
    linear = LinearState(state.A @ first, Track(np.zeros(3)), np.zeros(64))
    for block in (X[:20], X[20:50], X[50:51], X[51:150]):
        state = stream_block(state, block, kernel, GAINS[gain], center=center)
        for x in block:  # one sample at a time
            n = linear.n_samples + 1
            total = linear.total + x
            row, share = (x - total / n, 1 - 1 / n) if center else (x, 1.0)
            linear = linear_block(linear, row[None], GAINS[gain], share)
            linear = LinearState(linear.weights, linear.track, total, n)
    W = state.A @ state.points
    np.testing.assert_allclose(W, linear.weights, atol=1e-10)
    np.testing.assert_allclose(state.track.energy, linear.track.energy, rtol=1e-9)
    np.testing.assert_allclose(state.gram, W @ W.T, atol=1e-10)
    if center:
        np.testing.assert_allclose(state.c @ state.points, X.mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(state.along, W @ X.mean(axis=0), atol=1e-10)
        np.testing.assert_allclose(state.mean_square, np.sum(X.mean(axis=0) ** 2))
    merged = merge_start(state, 20)
    np.testing.assert_allclose(merged.A @ merged.points, W, atol=1e-10)
    assert len(merged.points) == 150


@pytest.mark.parametrize("center", [True, False])
def test_cutting_makes_no_difference(digits, center):
    """A stream in many batches ends where a stream in few does."""
    few = KernelStream(3, gamma=0.02, center=center, random_state=0).partial_fit(digits[:30])
    many = KernelStream(3, gamma=0.02, center=center, random_state=0).partial_fit(digits[:30])
    few.partial_fit(digits[30:])
    for i in range(30, 400, 17):
        many.partial_fit(digits[i : min(i + 17, 400)])
    np.testing.assert_allclose(many.components_, few.components_, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(many.transform(digits), few.transform(digits), atol=1e-9)
    assert few.n_samples_seen_ == many.n_samples_seen_ == 400


def test_a_stream_finds_the_components(digits):
    """After one pass the codes have most of the variance of kernel PCA's, unit components and
    eigenvalues on its scale."""
    model = KernelStream(3, gamma=0.02, random_state=0)
    for i in range(0, 400, 50):
        model.partial_fit(digits[i : i + 50])
    exact = KernelPCA(3, kernel="rbf", gamma=0.02).fit(digits)
    codes = model.transform(digits)
    assert codes.var(axis=0).sum() * 400 > 0.9 * exact.eigenvalues_.sum()
    np.testing.assert_allclose(model.eigenvalues_.sum(), exact.eigenvalues_.sum(), rtol=0.1)
    K = RBF(gamma=0.02)(model.X_fit_)
    norms = np.diag(model.components_ @ K @ model.components_.T)
    np.testing.assert_allclose(norms, 1, rtol=1e-8)
    np.testing.assert_allclose(model.norms_, 1, atol=0.1)
    np.testing.assert_allclose(codes.mean(axis=0), 0, atol=1e-8)  # centred by all of them


def test_a_budget_bounds_the_points(digits):
    """A budget keeps few points, says what that cost, and the components hardly notice."""
    free, bound = (
        KernelStream(3, gamma=0.02, budget=budget, random_state=0) for budget in (None, 120)
    )
    for i in range(0, 400, 50):
        free.partial_fit(digits[i : i + 50])
        bound.partial_fit(digits[i : i + 50])
        assert len(bound.X_fit_) <= 120
    assert free.lost_ == 0
    assert 0 < bound.lost_ < 0.05
    a, b = free.transform(digits), bound.transform(digits)
    assert np.abs(a - b).max() < 0.02 * np.abs(a).max()


def test_projection_is_the_nearest(digits):
    """What `compress` returns is the best expansion in the points that it keeps, and the loss that
    it reports is the true one."""
    kernel = RBF(gamma=0.05)
    state = start_stream(digits[:30], kernel, 2, np.random.RandomState(0), center=True)
    state = merge_start(stream_block(state, digits[:30], kernel, None, center=True), 30)
    small = compress(state, kernel, 12)
    K = kernel(small.points, state.points)
    cross, own = K @ state.A.T, kernel(small.points) @ small.A.T
    np.testing.assert_allclose(own, cross, atol=1e-6)  # the difference is orthogonal to the points
    norms = np.diag(state.A @ kernel(state.points) @ state.A.T)
    left = np.diag(small.A @ kernel(small.points) @ small.A.T)
    np.testing.assert_allclose(small.lost, (1 - left / norms).max(), rtol=1e-6)
    np.testing.assert_allclose(small.gram, small.A @ own, atol=1e-10)


def test_a_budget_that_is_not_needed_changes_nothing(digits):
    """With room for all points nothing is projected."""
    free = KernelStream(2, gamma=0.02, random_state=0).partial_fit(digits[:100])
    roomy = KernelStream(2, gamma=0.02, budget=100, random_state=0).partial_fit(digits[:100])
    np.testing.assert_array_equal(free.components_, roomy.components_)
    assert roomy.lost_ == 0


@pytest.mark.parametrize("budget", [None, 60])
def test_fit_is_one_pass(digits, budget):
    """`fit` begins anew and takes the samples in order, as a stream whose first call has 100."""
    model = KernelStream(3, gamma=0.02, budget=budget, random_state=0).fit(digits[::-1]).fit(digits)
    parts = KernelStream(3, gamma=0.02, budget=budget, random_state=0)
    parts.partial_fit(digits[:100]).partial_fit(digits[100:])
    np.testing.assert_array_equal(model.components_, parts.components_)
    assert (model.n_samples_seen_, model.n_steps_, model.n_iter_) == (400, 400, 1)


def test_a_new_fit_leaves_nothing_of_the_last_one(digits):
    """Decoder, names and numbers are those of the last data."""
    frame = pytest.importorskip("pandas").DataFrame(digits)
    frame.columns = [f"pixel {i}" for i in frame.columns]
    model = KernelStream(2, preimage="ridge", budget=50, random_state=0).fit(frame)
    model.set_params(preimage=None, budget=None).fit(digits[:60, :30])
    fresh = KernelStream(2, random_state=0).fit(digits[:60, :30])
    assert vars(model).keys() == vars(fresh).keys()
    assert model.lost_ == 0
    np.testing.assert_array_equal(model.components_, fresh.components_)


def test_preimages_of_a_stream(digits):
    """Decoders work on the points of a stream, with its mean."""
    model = KernelStream(8, gamma=0.02, random_state=0, budget=150)
    for i in range(0, 400, 50):
        model.partial_fit(digits[i : i + 50])
    codes = model.transform(digits)
    spread = np.mean((digits - digits.mean(axis=0)) ** 2)
    for name in ("ridge", "fixed_point"):
        decoded = model.inverse_transform(codes, preimage=name)
        assert np.mean((decoded - digits) ** 2) < 0.7 * spread


@pytest.mark.parametrize("budget", [None, 30, 200])
@pytest.mark.parametrize("n", [20, 150])
def test_the_callers_arrays_stay_apart(digits, budget, n):
    """Samples and codes that are overwritten after a batch change nothing of the model."""
    model = KernelStream(2, gamma=0.02, budget=budget, random_state=0)
    for method in (model.fit, model.partial_fit):
        X = digits[:n].copy()
        method(X)
        codes = model.transform(digits)
        X[:] = 7
        returned = model.transform(digits)
        np.testing.assert_array_equal(returned, codes)
        returned[:] = 7
        np.testing.assert_array_equal(model.transform(digits), codes)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precision(digits, dtype):
    """Outputs have the precision of the first samples."""
    model = KernelStream(2, random_state=0).partial_fit(digits[:60].astype(dtype))
    model.partial_fit(digits[60:120].astype(dtype))
    assert model.components_.dtype == model.transform(digits[:5].astype(dtype)).dtype == dtype


def test_divergence_leaves_the_last_good_state(digits):
    """A gain far too large is reported; the model stays as it was."""
    model = KernelStream(2, gain=Constant(0.1), gamma=0.1, random_state=0).partial_fit(digits[:60])
    before = model.transform(digits)
    model.set_params(gain=Constant(1e6))
    with pytest.raises(DivergenceError, match=r"eta0=1e\+06.*smaller eta0, or gain='auto'"):
        model.partial_fit(digits[60:])
    np.testing.assert_array_equal(model.transform(digits), before)
    with pytest.raises(DivergenceError):
        model.fit(digits[:, :30])
    np.testing.assert_array_equal(model.transform(digits), before)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        (dict(kernel="precomputed"), "needs samples, not kernel='precomputed'"),
        (dict(n_components=30), "first samples of a stream must be at least n_components=30"),
        (dict(gain=Constant(1) * MetaDescent(1)), "allowed are Constant, Annealing"),
        (dict(gain="KHA/et*"), "'gain' parameter of KernelStream must be a str among {'auto'}"),
        (dict(gain=Constant("auto")), "needs a number as eta0"),
        (dict(gain=Constant(1) * Annealing(passes=1)), "iterations"),
        (dict(budget=0), "budget"),
    ],
)
def test_bad_arguments(digits, parameters, match):
    """Each bad argument is named in the error."""
    with pytest.raises(ValueError, match=match):
        KernelStream(**parameters).partial_fit(digits[:20])


def test_other_number_of_components(digits):
    """A stream can't change its number of components."""
    model = KernelStream(2, random_state=0).partial_fit(digits[:60])
    with pytest.raises(ValueError, match="goes on from 2 components"):
        model.set_params(n_components=3).partial_fit(digits[60:])


def test_progress_is_shown(digits, capsys):
    """verbose shows a bar over the blocks, and nothing is shown without."""
    KernelStream(2, random_state=0).fit(digits)
    assert capsys.readouterr() == ("", "")
    KernelStream(2, random_state=0, verbose=True).fit(digits)
    assert "stream" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "cosine", "sigmoid"])
def test_constant_data(digits, kernel, dtype):
    """Samples without variance give codes of zero, up to rounding, and a stream that begins with
    them learns as soon as others come."""
    for value in (0, 0.1, 1, 1e3):
        X = np.full((20, 64), value, dtype)
        X[:, 1] *= dtype(0.3)
        model = KernelStream(2, kernel=kernel, random_state=0)
        codes, size = model.fit_transform(X), np.sqrt(abs(model.kernel_.diag(X)).max())
        assert np.abs(codes).max() <= 10 * np.finfo(dtype).eps * size
        if value <= 1:
            more = digits[:200].astype(dtype)
            model.partial_fit(X[:1]).partial_fit(more[:1]).partial_fit(more[1:])
            exact = KernelPCA(2, kernel=kernel).fit(np.concatenate([X, X[:1], more]))
            found, best = (m.transform(more).var(axis=0).sum() for m in (model, exact))
            assert found > 0.5 * best
            assert len(model.X_fit_) == model.n_samples_seen_ == 221


def test_a_stream_may_begin_with_a_single_sample(digits):
    """One component needs one sample to begin with; the next one gives a direction, and cutting
    the rest makes no difference."""
    fits = []
    for cut in (2, 17, 100):
        model = KernelStream(1, gamma=0.02, random_state=0).partial_fit(digits[:1])
        model.partial_fit(digits[1:2])
        for i in range(2, 200, cut):
            model.partial_fit(digits[i : min(i + cut, 200)])
        fits.append(model.transform(digits))
    for codes in fits[1:]:
        np.testing.assert_allclose(codes, fits[0], atol=1e-9)
    exact = KernelPCA(1, kernel="rbf", gamma=0.02).fit_transform(digits[:200])
    assert fits[0][:200].var() > 0.8 * exact.var()


@pytest.mark.parametrize("budget", [None, 40])
def test_fit_waits_for_samples_that_vary(digits, budget):
    """If the first 100 samples of a fit are equal, those after them give the directions."""
    X = np.concatenate([np.tile(digits[0], (250, 1)), digits[:150]])
    model = KernelStream(3, gamma=0.02, budget=budget, random_state=0).fit(X)
    exact = KernelPCA(3, kernel="rbf", gamma=0.02).fit(X)
    found, best = (m.transform(digits).var(axis=0).sum() for m in (model, exact))
    assert found > 0.7 * best
    assert model.n_samples_seen_ == 400


@pytest.mark.parametrize("budget", [None, 30])
def test_scales_of_the_kernel(digits, budget):
    """Very small and large kernel values are as good as others, unless they have lost their digits;
    zeros have codes of zero."""
    model = KernelStream(2, kernel="linear", budget=budget, random_state=0)
    expected = model.fit(digits).components_
    for exponent in (-450, 450):
        scaled = model.fit(np.ldexp(digits, exponent)).components_
        np.testing.assert_allclose(np.ldexp(scaled, exponent), expected, rtol=1e-6, atol=1e-9)
    with pytest.raises(
        ValueError, match=r"Linear.. on X is at most .* allowed in float64 are values"
    ):
        model.fit(digits * 1e-160)
    assert not model.fit_transform(np.zeros((50, 4))).any()
    assert model.partial_fit(digits[:50, :4]).transform(digits[:, :4]).any()


def test_directions_that_cancel():
    """A start direction is a unit vector, or, if the sum of samples has cancelled but for rounding,
    one whose length is that of rounding errors, not one that outweighs the others."""
    X = Sample(46, 3, "float32", "offset").array()
    kernel = Polynomial(degree=2)
    state = start_stream(X, kernel, 39, np.random.RandomState(0), center=False)
    squares = np.diag(state.A @ kernel(X.astype(np.float64)) @ state.A.T)
    assert squares.min() < 0.5  # one of them has cancelled
    assert squares.max() < 1.01


def test_eigenvalues_that_overflow(digits):
    """Kernel values that a type can hold, but not their sum, are refused without a warning."""
    X = (digits[:100] * 1e18).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="gives NaN or infinity on X: scale the data"):
            KernelStream(2, kernel="linear", center=False, random_state=0).fit(X)


def test_kernel_values_that_overflow(digits):
    """They are reported as such, without further warnings, and leave no trace."""
    model = KernelStream(2, kernel="poly", degree=30, random_state=0).fit(digits[:100])
    before = model.transform(digits)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for method in (model.fit, model.partial_fit):
            with pytest.raises(ValueError, match="gives NaN or infinity on X: scale the data"):
                method(1e12 * digits)
    np.testing.assert_array_equal(model.transform(digits), before)


def test_callable_kernel(digits):
    """A function of two samples is a kernel."""
    stream = KernelStream(2, kernel=lambda x, y: x @ y, random_state=0).fit(digits[:60])
    linear = KernelStream(2, kernel="linear", random_state=0).fit(digits[:60])
    np.testing.assert_allclose(stream.transform(digits), linear.transform(digits), atol=1e-8)
