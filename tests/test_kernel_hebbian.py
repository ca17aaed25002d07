"""The kernel Hebbian family: blocks equal single steps, and convergence is to kernel PCA."""

import os
import pickle
import signal
import sys
import time
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from helpers import assert_same_up_to_sign
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from akpca import DivergenceError, GeneralizedHebbian, KernelHebbian, KernelPCA, KernelStream
from akpca.book import reference
from akpca.hebbian import Annealing, Constant, kernel, kernel_reconstruction_error, make_gain, steps
from akpca.kernels import RBF, Linear
from akpca.operators import KernelOperator, MatrixOperator, NormalizedOperator

# factors of the literal version: its parameters, and our gain
L = 90
VARIANTS = {
    "": (dict(eta0=0.5), make_gain("KHA", eta0=0.5)),
    "t": (dict(eta0=1, tau=L), make_gain("KHA/t", eta0=1)),
    "et": (dict(eta0=2, tau=3 * L), make_gain("KHA/et*", eta0=2)),
    "etn": (dict(eta0=0.2, tau=L), make_gain("KHA/et", eta0=0.2)),
    "ets": (dict(eta0=2, tau=3 * L, mu=0.05), make_gain("KHA-SMD*", eta0=2, mu=0.05)),
    "etns": (dict(eta0=0.2, tau=L, mu=0.1), make_gain("KHA-SMD", eta0=0.2, mu=0.1)),
    "s": (dict(eta0=0.5, mu=0.1), make_gain("KHA/s", eta0=0.5, mu=0.1)),
    "ts": (dict(eta0=0.5, tau=L, mu=0.1), make_gain("KHA/ts", eta0=0.5, mu=0.1)),
    "es": (dict(eta0=1, mu=0.1), make_gain("KHA/es", eta0=1, mu=0.1)),
}
R = 4


@pytest.fixture(scope="module")
def digits():
    return load_digits().data[:L] / 16


@pytest.fixture(scope="module")
def K(digits):
    return KernelOperator(digits, RBF(gamma=0.05)).dense()


@pytest.fixture(params=["array", "compiled"])
def form(request, monkeypatch):
    """Both forms of the small steps."""
    if request.param == "array":
        array = steps.plain_steps, steps.adapting_steps
        monkeypatch.setattr(steps, "step_functions", lambda: array)
    else:
        pytest.importorskip("numba")


def start(seed=0):
    return np.random.default_rng(seed).normal(size=(R, L)) / np.sqrt(R * L)


def orders(n_passes, seed=0):
    """The orders in which KernelHebbian with an init sees the samples."""
    rng = np.random.RandomState(seed)
    return [rng.permutation(L) for _ in range(n_passes)]


# ------------------------------------------------------------------ the literal algorithms


def test_differential_against_finite_differences(K):
    """(36) is the derivative of the update (16) along B."""
    A, B, h = start(0), start(1), 1e-5
    forward, backward = (reference.kha_gradient(A + s * h * B, K, 7) for s in (1, -1))
    numerical = (forward - backward) / (2 * h)
    exact = reference.kha_differential(A, B, K, 7)
    assert np.linalg.norm(numerical - exact) <= 1e-8 * np.linalg.norm(exact)


def test_kha_is_gha_in_feature_space(digits):
    """With the linear kernel, A X follows the weights of the generalised Hebbian algorithm."""
    X = digits - digits.mean(axis=0)
    A = start()
    W = A @ X
    for p in range(20):
        A = reference.kha_step(A, X @ X.T, p, 0.01)
        W = reference.gha_step(W, X[p], 0.01)
    np.testing.assert_allclose(A @ X, W, atol=1e-13)


def test_oja_keeps_what_sanger_orders():
    """For a single component both rules are the same; for more, only (7) tells them apart."""
    W, x = start()[:, :5], np.arange(5.0)
    np.testing.assert_array_equal(
        reference.gha_step(W[:1], x, 0.1), reference.oja_step(W[:1], x, 0.1)
    )
    assert not np.allclose(reference.gha_step(W, x, 0.1), reference.oja_step(W, x, 0.1))


def test_literal_reconstruction_error_at_the_optimum(K):
    """(38) at the exact components is the norm of the eigenvalues that are left."""
    values = np.linalg.eigvalsh(K)[::-1]
    error = reference.kernel_reconstruction_error(reference.kernel_pca(K, R), K)
    np.testing.assert_allclose(error, np.linalg.norm(values[R:]), rtol=1e-8)


def test_literal_autotuning(K):
    """Algorithm 2 returns a value of the ladder; the next larger one diverges."""
    order = orders(1)[0]
    eta0 = reference.kha_autotune(K, start(), order, "t", tau=L)
    larger = {1: 2, 2: 2.5, 5: 2}[int(f"{eta0:e}"[0])] * eta0
    with np.errstate(all="ignore"):
        diverged = reference.kha(K, start(), [order], "t", eta0=larger, tau=L)
        stayed = reference.kha(K, start(), [order], "t", eta0=eta0, tau=L)
    assert np.isfinite(stayed).all()
    assert not np.isfinite(diverged).all()


# ------------------------------------------------------------------ blocks equal single steps


@pytest.mark.parametrize("updates", ["pass", "iteration"])
@pytest.mark.parametrize("factors", VARIANTS)
def test_blocks_equal_the_literal_algorithm(K, factors, updates, form):
    """After 1 and 5 passes the coefficients are those of single steps, to 1e-9, for any block
    size; in float32 to 1e-3."""
    parameters, gain = VARIANTS[factors]
    for n_passes in (1, 5):
        exact = reference.kha(
            K, start(), orders(n_passes), factors, every_step=updates == "iteration", **parameters
        )
        size = np.abs(exact).max()
        for block_size in (1, 7, 64):
            model = KernelHebbian(
                R,
                kernel="precomputed",
                center=False,
                gain=gain,
                n_passes=n_passes,
                eigenvalue_updates=updates,
                block_size=block_size,
                init=start(),
                random_state=0,
            )
            double = model.fit(K).coefficients_
            assert np.abs(double - exact).max() <= 1e-9 * size
            if block_size == 64:
                single = model.fit(K.astype(np.float32)).coefficients_
                assert single.dtype == np.float32
                assert np.abs(single - exact).max() <= 1e-3 * size


@pytest.mark.parametrize("gain", ["KHA/t", "KHA/et*", "KHA-SMD"])
@pytest.mark.parametrize("center", [True, False])
def test_kernel_on_the_fly(digits, gain, center):
    """Without a stored kernel matrix the numbers are the same."""
    gain = make_gain(gain, eta0=0.1, mu=0.01)
    model = KernelHebbian(R, gamma=0.05, gain=gain, n_passes=2, center=center, random_state=0)
    stored = model.fit(digits)
    swept = clone(model).set_params(memory_limit=0).fit(digits)
    for name in ("coefficients_", "components_", "eigenvalues_", "norms_"):
        np.testing.assert_allclose(getattr(swept, name), getattr(stored, name), rtol=1e-8)
    np.testing.assert_allclose(swept.transform(digits), stored.transform(digits), atol=1e-10)


def test_tracked_products_change_nothing(K):
    """Keeping A K' A^T, as trial runs do, leaves the trajectory as it is, and is exact."""
    gain = make_gain("KHA/t", eta0=1)
    operator, order = MatrixOperator(K), orders(1)[0]
    plain = kernel.start_state(operator, start(), gain)
    tracked = kernel.start_state(operator, start(), gain, track=True)
    for block in (order[:40], order[40:]):
        plain = kernel.kernel_block(operator, plain, gain, block)
        tracked = kernel.kernel_block(operator, tracked, gain, block)
    np.testing.assert_allclose(tracked.A, plain.A, atol=1e-13)
    np.testing.assert_allclose(tracked.small.gram, plain.A @ K @ plain.A.T, atol=1e-12)


# ------------------------------------------------------------------ convergence


@pytest.mark.parametrize("gain", ["KHA/et*", "KHA-SMD*", "KHA/et", "KHA-SMD"])
def test_convergence_to_kernel_pca(gain):
    """In the end directions, norms, eigenvalues and codes all are those of kernel PCA."""
    # five groups of different size and place: eigenvalues well apart
    rng = np.random.default_rng(0)
    centres = 4 * np.diag([1.0, 1.3, 0.8, 1.1, 0.5])
    X = np.concatenate(
        [c + 0.2 * rng.normal(size=(n, 5)) for c, n in zip(centres, range(15, 65, 10), strict=True)]
    )
    model = KernelHebbian(3, gamma=0.05, gain=gain, n_passes=400, random_state=0).fit(X)
    exact = KernelPCA(3, kernel="rbf", gamma=0.05).fit(X)
    np.testing.assert_allclose(model.norms_, 1, atol=1e-3)
    np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, rtol=1e-3)
    unit = (model.components_ / np.linalg.norm(model.components_, axis=1, keepdims=True)).T
    cosines = np.abs(np.sum(unit * exact.eigenvectors_, axis=0))
    assert (cosines > 1 - 1e-4).all()
    codes = exact.transform(X)
    assert_same_up_to_sign(model.transform(X), codes, atol=0.02 * np.abs(codes).max())


def test_components_have_unit_norm(digits):
    """Components are unit vectors of feature space also long before convergence, and their codes
    are inner products with them."""
    model = KernelHebbian(R, gamma=0.05, gain=Constant(0.1), n_passes=1, random_state=0).fit(digits)
    K = KernelOperator(digits, RBF(gamma=0.05)).dense()
    np.testing.assert_allclose(np.diag(model.components_ @ K @ model.components_.T), 1, atol=1e-10)
    np.testing.assert_allclose(model.transform(digits), K @ model.components_.T, atol=1e-10)
    np.testing.assert_allclose(model.fit_transform(digits), K @ model.components_.T, atol=1e-10)
    assert model.norms_.max() < 0.9


def test_eigenvalues_are_those_of_the_kernel_matrix(K):
    """Started at the exact components, eigenvalues_ is the spectrum of K', not of K' / l."""
    exact = reference.kernel_pca(K, R)
    gain = Constant(1e-12)
    model = KernelHebbian(
        R, kernel="precomputed", center=False, gain=gain, n_passes=1, init=exact, random_state=0
    ).fit(K)
    np.testing.assert_allclose(model.eigenvalues_, np.linalg.eigvalsh(K)[::-1][:R], rtol=1e-8)
    np.testing.assert_allclose(model.norms_, 1, rtol=1e-8)


def test_a_wrong_order_is_reported_and_mended_by_pca():
    """Components of length 1 whose eigenvalues rise give one warning, and a PCA of the codes sorts
    them; components in order, or not yet of length 1, give none."""
    X = load_digits().data[:200]
    exact = KernelPCA(2, kernel="linear").fit(X)
    late = make_gain("KHA/et*", tau=2)
    model = KernelHebbian(2, kernel="linear", gain=late, n_passes=10, random_state=5)
    with pytest.warns(ConvergenceWarning, match="component 0 has a smaller eigenvalue") as caught:
        codes = model.fit_transform(X)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    np.testing.assert_allclose(model.norms_, 1, atol=0.05)
    sorted_codes = PCA().fit_transform(codes)
    of = lambda codes: np.abs(np.sum(codes**2, axis=0) / exact.eigenvalues_ - 1).max()  # noqa: E731
    assert of(sorted_codes) < 0.5 * of(codes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelHebbian(2, kernel="linear", random_state=3).fit(X)
        KernelHebbian(4, kernel="linear", gain=Constant(1e-9), n_passes=1, random_state=0).fit(X)


def test_linear_kernel_is_pca():
    """With the linear kernel the components are principal axes."""
    X = np.random.default_rng(0).normal(size=(100, 4)) * [5, 3, 1, 1]
    model = KernelHebbian(2, kernel="linear", n_passes=100, random_state=0).fit(X)
    X = X - X.mean(axis=0)
    axes = np.linalg.svd(X, full_matrices=False)[2][:2]
    assert (np.abs(np.sum((model.components_ @ X) * axes, axis=1)) > 0.999).all()


def test_scale_of_the_kernel_does_not_matter(K):
    """With gains by reciprocal eigenvalues, a kernel of another scale gives the same codes but
    for that scale."""
    gain = make_gain("KHA/et*", eta0=2)
    fit = lambda K: KernelHebbian(  # noqa: E731
        R, kernel="precomputed", center=False, gain=gain, n_passes=3, random_state=0
    ).fit(K)
    small, large = fit(K), fit(1e4 * K)
    np.testing.assert_allclose(large.eigenvalues_, 1e4 * small.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(100 * large.components_, small.components_, rtol=1e-6)


def test_reconstruction_error(digits, K):
    """(38) by products is (38) by matrices, stored or not."""
    A = 3 * start()
    expected = reference.kernel_reconstruction_error(A, K)
    operators = (MatrixOperator(K), KernelOperator(digits, RBF(gamma=0.05)))
    for operator in operators:
        np.testing.assert_allclose(kernel_reconstruction_error(operator, A), expected, rtol=1e-10)


def test_reconstruction_error_needs_rows(K):
    """Coefficients of another shape are refused by name."""
    for A in (np.ones(L), np.ones((2, L - 1))):
        with pytest.raises(ValueError, match=rf"A must have shape \(r, {L}\), got"):
            kernel_reconstruction_error(MatrixOperator(K), A)


# ------------------------------------------------------------------ divergence and tuning


@pytest.mark.parametrize("gain", [Constant(1e4), make_gain("KHA/et*", eta0=1e4)])
def test_divergence_is_reported(digits, gain):
    """A gain far too large raises an error that names it and says what to do."""
    with pytest.raises(DivergenceError, match=r"eta0=10000.*diverged.*smaller eta0.*'auto'"):
        KernelHebbian(R, gain=gain, random_state=0).fit(digits)


def test_divergence_of_meta_descent_names_mu(digits):
    """With meta-descent the meta-gain is named too."""
    gain = make_gain("KHA/s", eta0=50, mu=1e6)
    with pytest.raises(DivergenceError, match="smaller mu"):
        KernelHebbian(R, gain=gain, gamma=0.1, random_state=0).fit(digits)


@pytest.mark.parametrize("gain", ["auto", "KHA/t", "KHA/et", "KHA-SMD*", "KHA-SMD"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_auto_needs_no_tuning(digits, gain, scale):
    """Tuned gains neither diverge nor stall, whatever the scale of the kernel."""
    model = KernelHebbian(2, kernel="linear", gain=gain, n_passes=10, random_state=0)
    with np.errstate(all="raise", under="ignore"):
        model.fit(scale * digits)
    values = np.linalg.svd(scale * (digits - digits.mean(axis=0)))[1][:2] ** 2
    assert np.isfinite(model.components_).all()
    assert model.eigenvalues_.sum() > 0.7 * values.sum()


def test_auto_retreats(digits, monkeypatch):
    """If a gain that was chosen or tuned diverges, smaller ones are tried from the same start."""
    large = make_gain("KHA/et*", eta0=500.0)
    monkeypatch.setattr(kernel, "safe_gain", lambda *_: large)
    monkeypatch.setattr(kernel.Trials, "tune", lambda *_: large)
    tuned = KernelHebbian(R, gamma=0.05, gain="KHA/et*", n_passes=3, random_state=0).fit(digits)
    assert tuned.gain_.eta0 < 500
    model = KernelHebbian(R, gamma=0.05, n_passes=3, random_state=0).fit(digits)
    assert model.gain_.eta0 < 500
    assert np.isfinite(model.components_).all()
    assert model.n_iter_ == 3
    given = KernelHebbian(R, gamma=0.05, n_passes=3, random_state=0, gain=model.gain_)
    assert model.norms_.max() < 2
    assert given.fit(digits).gain_ == model.gain_


@pytest.mark.parametrize("center", [False, True])
def test_the_start_of_auto(digits, center):
    """Components of some samples are orthonormal, belong to their A K', and explain less and less
    of all samples; those of all samples are the exact ones."""
    operator = KernelOperator(digits, RBF(gamma=0.05), center=center)
    K = operator.dense()
    A, AK = kernel.sampled_start(operator, R, np.arange(0, L, 3))
    assert not A[:, 1::3].any()
    np.testing.assert_allclose(AK, A @ K, atol=1e-10)
    np.testing.assert_allclose(AK @ A.T, np.eye(R), atol=1e-10)
    scatter = AK @ AK.T
    np.testing.assert_allclose(scatter, np.diag(np.sort(scatter.diagonal())[::-1]), atol=1e-10)
    exact = kernel.sampled_start(operator, R, np.arange(L))[1]
    np.testing.assert_allclose(np.sum(exact**2, axis=1), np.linalg.eigvalsh(K)[::-1][:R])


def test_the_start_has_no_more_directions_than_its_samples():
    """What samples do not span is left to be drawn, and is found."""
    X = np.zeros((400, 3))
    X[::2, 0], X[1::8, 1], X[3:50:8, 2] = 1, 2, 2
    operator = KernelOperator(X, Linear(), center=False)  # the mean has all directions
    A, AK = kernel.sampled_start(operator, 3, np.arange(100, 200))
    assert A.shape == AK.shape == (2, 400)
    model = KernelHebbian(3, kernel="linear", n_passes=20, random_state=3).fit(X)
    assert np.abs(model.components_ @ (X - X.mean(axis=0)))[:, 2].max() > 0.99


def test_the_gain_of_auto(K):
    """At the start, the component of the smallest eigenvalue has a quarter of the largest gain with
    which squared errors shrink; the gain anneals the later, the more passes there are."""
    operator = MatrixOperator(K)
    A, AK = kernel.sampled_start(operator, R, np.arange(L // 2))
    found = [kernel.safe_gain(operator, A, AK, n_passes) for n_passes in (1, 4)]
    values = np.linalg.norm(AK, axis=1) / np.linalg.norm(A, axis=1)
    k = K.diagonal()
    np.testing.assert_allclose(found[0](0, values, L).max(), 0.25 * 2 * k.sum() / np.sum(k**2))
    assert found[1].eta0 == found[0].eta0
    taus = [gain.get(Annealing).passes for gain in found]
    np.testing.assert_allclose(taus, np.array([3, 6]) / found[0].eta0)


def test_auto_needs_few_passes():
    """After one pass and after ten, the default is nearer to the optimum than the tuned KHA/et*."""
    X = load_digits().data[::3] / 16
    operator = MatrixOperator(KernelOperator(X, RBF(gamma=0.02)).dense(), center=False)
    optimum = KernelPCA(8, kernel="precomputed").fit(operator.dense()).eigenvalues_
    best = np.sqrt(operator.frobenius_norm() ** 2 - np.sum(optimum**2))
    for n_passes in (1, 10):
        options = dict(kernel="precomputed", n_passes=n_passes, random_state=0)
        excess = [
            kernel_reconstruction_error(operator, model.fit(operator).components_) / best - 1
            for model in (KernelHebbian(8, **options), KernelHebbian(8, gain="KHA/et*", **options))
        ]
        assert excess[0] < 0.5 * excess[1]


def test_long_components_are_reported(digits):
    """A component that stays far too long gives one warning a fit, at the user's line."""
    init = 50 * start() / np.sqrt(0.3)
    model = KernelHebbian(R, gamma=0.05, gain=Constant(1e-9), init=init, n_passes=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="where 1 is right") as caught:
        model.fit(digits)
        model.fit_transform(digits)
    assert {warning.filename for warning in caught} == {__file__}
    assert len(caught) == 2


# ------------------------------------------------------------------ use


def test_same_seed_same_bits(digits):
    """Two fits with the same seed are equal to the bit, tuning included."""
    model = KernelHebbian(R, gain="KHA-SMD", n_passes=2, random_state=3)
    first, second = model.fit(digits).components_, clone(model).fit(digits).components_
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("gain", ["KHA/t", "KHA-SMD"])
def test_warm_start_continues(digits, gain):
    """Two passes and three more are five passes, to the bit."""
    gain = make_gain(gain, eta0=0.1, mu=0.01)
    model = KernelHebbian(R, gain=gain, n_passes=5, random_state=0)
    whole = clone(model).fit(digits)
    parts = clone(model).set_params(n_passes=2, warm_start=True).fit(digits)
    parts.set_params(n_passes=3).fit(digits)
    assert whole.components_.tobytes() == parts.components_.tobytes()
    assert (parts.n_iter_, parts.n_steps_) == (5, 5 * L)


def test_warm_start_with_other_updates(digits):
    """Passes that follow estimate eigenvalues when the parameter says so."""
    model = KernelHebbian(R, gain=make_gain("KHA/et*", eta0=2), n_passes=1, random_state=0)
    model.set_params(warm_start=True).fit(digits).set_params(eigenvalue_updates="pass").fit(digits)
    assert model.n_iter_ == 2
    assert len(model._run.state.small.C) == 0
    assert len(model.set_params(eigenvalue_updates="iteration").fit(digits)._run.state.small.C) == R


def test_warm_start_needs_the_same_data(digits):
    """Continuing on other data is refused."""
    model = KernelHebbian(R, gain=Constant(0.1), warm_start=True).fit(digits)
    with pytest.raises(ValueError, match="warm_start=True needs the data"):
        model.fit(digits[:50])


def test_callback_sees_every_pass(digits):
    """The callback gets one report a pass, with gains that fall."""
    seen = []
    KernelHebbian(
        R, gain=make_gain("KHA/et*", eta0=2), n_passes=4, callback=seen.append, random_state=0
    ).fit(digits)
    assert [report.n_iter for report in seen] == [1, 2, 3, 4]
    assert {(report.n_iter_max, report.loss) for report in seen} == {(4, None)}
    scales = [report.gain_scale for report in seen]
    np.testing.assert_allclose(scales, [2 * 3 / (3 + p) for p in (1, 2, 3, 4)])
    report = seen[-1]
    np.testing.assert_allclose(report.gain, report.gain_scale / report.eigenvalues)


def test_callback_may_end_the_fit(digits):
    """A callback that answers True makes the pass before it the last one."""
    model = KernelHebbian(R, gain=Constant(0.1), n_passes=9, callback=lambda p: p.n_iter == 2)
    assert model.fit(digits).n_iter_ == 2


@pytest.mark.parametrize("after", [0, 1])
def test_interrupt_keeps_what_was_done(digits, after):
    """An interrupt ends the fit with a warning and a model that works."""

    def interrupt(report):
        if report.n_iter > after:
            raise KeyboardInterrupt

    model = KernelHebbian(R, gain=Constant(0.1), n_passes=9, callback=interrupt, random_state=0)
    with pytest.warns(
        ConvergenceWarning, match=f"{after + 1} passes, {(after + 1) * L} steps"
    ) as got:
        model.fit(digits)
    assert got[0].filename == __file__
    same = KernelHebbian(R, gain=Constant(0.1), n_passes=after + 1, random_state=0).fit(digits)
    np.testing.assert_array_equal(model.transform(digits), same.transform(digits))


def test_interrupt_within_a_pass(digits, monkeypatch):
    """An interrupt between two blocks keeps the blocks before it."""

    block, calls = kernel.kernel_block, []

    def interrupted(*args):
        if len(calls) == 3:
            raise KeyboardInterrupt
        calls.append(1)
        return block(*args)

    monkeypatch.setattr(kernel, "kernel_block", interrupted)
    model = KernelHebbian(R, gain=Constant(0.1), block_size=10, random_state=0)
    with pytest.warns(ConvergenceWarning, match="interrupted after 0 passes, 30 steps"):
        model.fit(digits)
    assert np.isfinite(model.transform(digits)).all()


class Alarm(Exception):
    """What a user's signal handler may raise."""


@contextmanager
def signal_after(seconds, kind):
    """Raise an exception from a signal handler, if the time is over within a fit."""

    def handler(_, frame):
        while frame is not None:
            if frame.f_code.co_name == "fit" and "akpca.hebbian" in frame.f_globals["__name__"]:
                raise kind
            frame = frame.f_back

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("factors", ["", "et", "ets"])
def test_numba_calls_no_python_for_compiled_steps(K, factors):
    """Where it does, to make an array that compiled code returns, a signal handler may run and
    raise, for which numba does not look: an interrupt could end the process."""
    operator, gain, calls = MatrixOperator(K), VARIANTS[factors][1], []
    state = kernel.start_state(operator, start(), gain, every_step=True)

    def profile(frame, event, _):
        if event == "call":
            calls.append(frame.f_globals.get("__name__", "").partition(".")[0])

    kernel.kernel_block(operator, state, gain, np.arange(20))  # compiles
    sys.setprofile(profile)
    try:
        kernel.kernel_block(operator, state, gain, np.arange(20))
    finally:
        sys.setprofile(None)
    assert "akpca" in calls
    assert "numba" not in calls


INTERRUPTED = {
    "plain": KernelHebbian(R, gain=Constant(0.1), block_size=2, n_passes=4, random_state=0),
    "tuned": KernelHebbian(R, gain="KHA-SMD*", n_passes=4, random_state=0),
    "GHA": GeneralizedHebbian(R, gain=Constant(0.01), block_size=2, n_passes=4, random_state=0),
    "stream": KernelStream(R, gain=Constant(0.01), block_size=2, random_state=0),
}


@pytest.mark.skipif(
    os.environ.get("AKPCA_BATTERY") != "long", reason="timing decides: AKPCA_BATTERY=long runs it"
)
@pytest.mark.parametrize("kind", [Alarm, KeyboardInterrupt])
@pytest.mark.parametrize("name", INTERRUPTED)
def test_signals_at_any_time(digits, name, kind):
    """What a handler raises arrives as it is, never as a SystemError of compiled code; the model is
    then the old one, or, interrupted in its passes, what was reached, with one warning; and the
    next fit is undisturbed."""
    model, expected = clone(INTERRUPTED[name]), clone(INTERRUPTED[name]).fit(digits)
    begin = time.perf_counter()
    other = model.fit(digits[:60]).transform(digits)
    duration, rng = time.perf_counter() - begin, np.random.default_rng(0)
    for moment in rng.uniform(0.01, 1.5, 40) * duration:
        model.fit(digits[:60])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                with signal_after(moment, kind):
                    model.fit(digits)
            except kind:
                assert not any("interrupted" in str(warning.message) for warning in caught)
                np.testing.assert_array_equal(model.transform(digits), other)
                continue
        if any("interrupted" in str(warning.message) for warning in caught):
            assert {warning.category for warning in caught} == {ConvergenceWarning}
            assert sum("interrupted" in str(warning.message) for warning in caught) == 1
            assert kind is KeyboardInterrupt
            assert np.isfinite(model.transform(digits)).all()
            assert 0 < model.n_steps_ <= expected.n_steps_
            model.fit(digits)
        np.testing.assert_array_equal(model.components_, expected.components_)


def test_interrupt_before_the_first_step(digits, monkeypatch):
    """An interrupt before anything is learned is raised and leaves the model as it was."""

    def interrupted(*args):
        raise KeyboardInterrupt

    model = KernelHebbian(R, gain=Constant(0.1), random_state=0).fit(digits[:60])
    before = model.transform(digits)
    monkeypatch.setattr(kernel, "kernel_block", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(digits)
    np.testing.assert_array_equal(model.transform(digits), before)


@pytest.mark.parametrize("gain", ["auto", Constant(0.1)])
@pytest.mark.parametrize("kind", [DivergenceError, FloatingPointError])
def test_errors_of_a_callback_are_its_own(digits, gain, kind):
    """A callback's arithmetic error is raised as it is and is no divergence of the fit."""
    calls = []

    def callback(state):
        calls.append(state.n_iter)
        raise kind("mine")

    with pytest.raises(kind, match=r"^mine$"):
        KernelHebbian(R, gain=gain, n_passes=3, callback=callback, random_state=0).fit(digits)
    assert calls == [1]


def test_progress_is_shown(digits, capsys):
    """verbose shows a bar with the name of the gain."""
    KernelHebbian(R, gain=Constant(0.1), n_passes=2, verbose=True).fit(digits)
    assert "KHA" in capsys.readouterr().err


def test_spectral_clustering_operator(digits):
    """An operator for D^-1/2 K D^-1/2 gives its leading eigenvectors."""
    operator = NormalizedOperator(digits, RBF(gamma=0.3))
    K = RBF(gamma=0.3)(digits)
    P = K / np.sqrt(np.outer(K.sum(axis=0), K.sum(axis=0)))
    np.testing.assert_allclose(operator.dense(), P, atol=1e-12)
    np.testing.assert_allclose(operator @ np.eye(L), P, atol=1e-12)
    np.testing.assert_allclose(operator.frobenius_norm(), np.linalg.norm(P))
    np.testing.assert_allclose(operator.trace(), np.trace(P))
    model = KernelHebbian(2, kernel="precomputed", n_passes=100, random_state=0)
    by_operator, by_matrix = clone(model).fit(operator), model.set_params(center=False).fit(P)
    np.testing.assert_allclose(by_operator.components_, by_matrix.components_, rtol=1e-6, atol=1e-9)
    vectors = np.linalg.eigh(P)[1][:, ::-1][:, :2]
    assert abs(by_matrix.components_[0] @ vectors[:, 0]) > 0.999
    with pytest.raises(ValueError, match="no codes for new samples"):
        by_operator.transform(digits)
    with pytest.raises(ValueError, match="kernel='precomputed'"):
        KernelHebbian().fit(operator)


def test_a_kernel_that_cannot_be_normalised():
    """Rows that sum to less than zero have no degree."""
    with pytest.raises(ValueError, match="sum is not positive"):
        NormalizedOperator(np.array([[1.0], [-2.0]]), Linear()).dense()


def test_preimage(digits):
    """inverse_transform decodes by a pre-image, and says so if there is none."""
    model = KernelHebbian(8, gamma=0.02, n_passes=30, random_state=0).fit(digits)
    codes = model.transform(digits)
    with pytest.raises(NotFittedError, match="needs a preimage"):
        model.inverse_transform(codes)
    mean_error = np.mean((digits - digits.mean(axis=0)) ** 2)
    for name in ("ridge", "fixed_point", "distance"):
        decoded = model.inverse_transform(codes, preimage=name)
        assert np.mean((digits - decoded) ** 2) < 0.6 * mean_error
    fitted = clone(model).set_params(preimage="ridge").fit(digits)
    np.testing.assert_allclose(
        fitted.inverse_transform(codes), model.inverse_transform(codes, preimage="ridge")
    )
    with pytest.raises(ValueError, match="8 components"):
        fitted.inverse_transform(codes[:, :3])


def test_decoders_know_the_components(digits):
    """Also long before convergence, the point of feature space that a code stands for has the inner
    products that decoders take it to have. (Coefficients of centred samples need not sum to 0.)"""
    model = KernelHebbian(R, gamma=0.05, n_passes=1, random_state=0).fit(digits)
    code, Y = model._code, np.random.default_rng(0).normal(size=(7, R))
    np.testing.assert_allclose(
        code.inner_products(Y), code.expansion(Y) @ RBF(gamma=0.05)(digits), atol=1e-10
    )
    np.testing.assert_allclose(code.codes, model.transform(digits), atol=1e-10)


def test_a_new_fit_leaves_nothing_of_the_last_one(digits):
    """Decoder, names and numbers are those of the last data, also if these are an operator."""
    frame = pytest.importorskip("pandas").DataFrame(digits)
    frame.columns = [f"pixel {i}" for i in frame.columns]
    model = KernelHebbian(2, preimage="ridge", n_passes=2, random_state=0).fit(frame)
    fresh = KernelHebbian(2, n_passes=2, random_state=0)
    for data in (
        digits[:60, :30],
        KernelOperator(digits, RBF(gamma=0.05)),
        MatrixOperator(np.eye(9)),
    ):
        kernel = "rbf" if isinstance(data, np.ndarray) else "precomputed"
        model.set_params(preimage=None, kernel=kernel).fit(data)
        fresh = clone(fresh).set_params(kernel=kernel).fit(data)
        assert vars(model).keys() == vars(fresh).keys()
        np.testing.assert_array_equal(model.components_, fresh.components_)


def test_a_fit_that_fails_keeps_the_last_one(digits):
    """A gain that is too large for other data leaves the results of the fit before."""
    model = KernelHebbian(2, gamma=0.05, n_passes=2, random_state=0).fit(digits)
    before = model.transform(digits)
    with pytest.raises(DivergenceError):
        model.set_params(gain=Constant(1e4)).fit(digits[:50, :30])
    np.testing.assert_array_equal(model.transform(digits), before)
    assert model.gain_.name == "KHA/et*"


def test_operators_in_place_of_samples(digits):
    """An operator gives the numbers of the samples that it was made of, and encodes new ones."""
    options = dict(gain=Constant(0.1), n_passes=2, random_state=0)
    direct = KernelHebbian(R, gamma=0.05, **options).fit(digits[:60])
    operator = KernelOperator(digits[:60], RBF(gamma=0.05))
    model = KernelHebbian(R, kernel="precomputed", **options).fit(operator)
    np.testing.assert_allclose(model.components_, direct.components_, atol=1e-8)
    np.testing.assert_allclose(model.transform(digits), direct.transform(digits), atol=1e-8)


def test_dask_operator(digits):
    """The operator on dask gives the same numbers."""
    dask = pytest.importorskip("dask.array")
    from akpca.distributed import DaskKernelOperator

    options = dict(gain=Constant(0.1), n_passes=2, random_state=0)
    direct = KernelHebbian(R, gamma=0.05, **options).fit(digits)
    operator = DaskKernelOperator(dask.from_array(digits, chunks=(40, 64)), RBF(gamma=0.05))
    model = KernelHebbian(R, kernel="precomputed", **options).fit(operator)
    np.testing.assert_allclose(model.components_, direct.components_, atol=1e-8)
    np.testing.assert_allclose(
        np.asarray(model.transform(digits)), direct.transform(digits), atol=1e-8
    )


def test_callable_kernel(digits):
    """A function of two samples is a kernel, with parameters of its own."""
    options = dict(gain=Constant(0.1), n_passes=2, random_state=0)
    scaled = lambda x, y, factor: factor * (x @ y)  # noqa: E731
    model = KernelHebbian(R, kernel=scaled, kernel_params={"factor": 0.5}, **options).fit(digits)
    linear = KernelHebbian(R, kernel=0.5 * Linear(), **options).fit(digits)
    np.testing.assert_allclose(model.transform(digits), linear.transform(digits), atol=1e-8)


def test_callback_gets_a_fitted_model(digits):
    """After every pass the model is what a fit with as many passes gives."""
    options = dict(gamma=0.05, gain=make_gain("KHA/t", eta0=0.5), random_state=0)

    def check(state):
        same = KernelHebbian(R, n_passes=state.n_iter, **options).fit(digits)
        np.testing.assert_array_equal(state.model.transform(digits), same.transform(digits))
        assert (state.model.n_iter_, state.model.n_steps_) == (state.n_iter, state.n_iter * L)
        # what was fitted is listed when the fit is over
        assert {*vars(state.model), "_fitted_names"} == vars(same).keys()

    model = KernelHebbian(R, n_passes=3, callback=check, preimage="ridge", **options)
    assert model.fit(digits).preimage_ is not model.fit(digits).preimage_


@pytest.mark.parametrize("kind", ["stored", "swept", "precomputed", "sparse", "float32"])
def test_the_callers_arrays_stay_apart(digits, kind):
    """Samples, init and codes that are overwritten after a fit change nothing of the model."""
    X, init = digits.copy(), start()
    options = dict(gain=Constant(0.1), n_passes=2, init=init, random_state=0)
    if kind == "precomputed":
        X, options["kernel"] = RBF(gamma=0.05)(X), "precomputed"
    elif kind == "sparse":
        X = sparse.csr_matrix(X)
    elif kind == "float32":
        X, init = X.astype(np.float32), init.astype(np.float32)
        options["init"] = init
    elif kind == "swept":
        options["memory_limit"] = 0
    new, values = X[:20].copy(), X.data if kind == "sparse" else X
    model = KernelHebbian(R, **options)
    returned = model.fit_transform(X)
    codes, fitted = model.transform(new), model.X_fit_.copy()
    assert returned.flags.writeable
    values[:], init[:], returned[:] = 7, 7, 7
    np.testing.assert_array_equal(model.transform(new), codes)
    assert abs(model.X_fit_ - fitted).max() == 0
    assert not any(np.shares_memory(model._run.start, array) for array in (init, values))


def test_a_callback_may_keep_and_change_what_it_gets(digits):
    """Arrays of a report belong to the callback, not to the iteration that goes on."""

    def spoil(state):
        state.coefficients[:], state.log_gain[:], state.gain[:] = 7, 7, 7
        state.eigenvalues[:] = 7

    gain = make_gain("KHA-SMD*", eta0=1, mu=0.01)
    model = KernelHebbian(R, gain=gain, n_passes=3, random_state=0)
    expected = clone(model).fit(digits)
    model.set_params(callback=spoil).fit(digits)
    np.testing.assert_array_equal(model.components_, expected.components_)
    model.set_params(callback=None, warm_start=True, n_passes=2).coefficients_[:] = 7
    expected.set_params(warm_start=True, n_passes=2).fit(digits)
    np.testing.assert_array_equal(model.fit(digits).components_, expected.components_)


def test_sparse_samples(digits):
    """Sparse samples give the codes of dense ones."""
    model = KernelHebbian(R, gain=Constant(0.1), n_passes=2, random_state=0)
    dense, rare = clone(model).fit(digits), model.fit(sparse.csr_matrix(digits))
    np.testing.assert_allclose(rare.transform(digits), dense.transform(digits), atol=1e-10)


def test_precomputed_new_samples(digits):
    """A precomputed kernel is centred as the fitted one was."""
    rbf = RBF(gamma=0.05)
    model = KernelHebbian(R, gamma=0.05, gain=Constant(0.1), n_passes=2, random_state=0)
    direct = clone(model).fit(digits[:60])
    given = model.set_params(kernel="precomputed").fit(rbf(digits[:60]))
    np.testing.assert_allclose(
        given.transform(rbf(digits[60:], digits[:60])), direct.transform(digits[60:]), atol=1e-10
    )


def test_pipeline_and_pickle(digits):
    """It works in a pipeline, can be cloned and pickled, and names its outputs."""
    pipeline = make_pipeline(
        StandardScaler(), KernelHebbian(R, gamma=0.01, n_passes=2, random_state=0)
    )
    codes = pipeline.fit_transform(digits)
    restored = pickle.loads(pickle.dumps(pipeline))
    np.testing.assert_array_equal(restored.transform(digits), pipeline.transform(digits))
    assert codes.shape == (L, R)
    assert list(pipeline.get_feature_names_out()) == [f"kernelhebbian{i}" for i in range(R)]


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        (dict(n_components=200), "n_components=200 must not be larger"),
        (dict(n_components=0), "n_components"),
        (dict(kernel="polynomial"), "kernel"),
        (dict(gain="KHA/q"), "name must be one of"),
        (dict(gain=Annealing(passes=1)), "multiply it by Constant"),
        (dict(init=np.zeros((2, 3))), "init must have shape"),
        (dict(n_passes=0), "n_passes"),
        (dict(eigenvalue_updates="never"), "eigenvalue_updates"),
        (dict(kernel="poly", degree=400, gamma=10.0), "NaN or infinity"),
    ],
)
def test_bad_arguments(digits, parameters, match):
    """Each bad argument is named in the error."""
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=match):
        KernelHebbian(**parameters).fit(digits)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "cosine", "sigmoid"])
@pytest.mark.parametrize("gain", ["auto", "KHA-SMD", Constant(0.1)])
def test_constant_data(kernel, dtype, gain, form):
    """Samples without variance give components and codes of zero, as with KernelPCA, not an error
    or amplified rounding."""
    for value in (0, 0.1, 1, 1e3):
        X = np.full((20, 3), value, dtype) * np.array([1, 0.3, 1], dtype)
        model = KernelHebbian(2, kernel=kernel, gain=gain, n_passes=2, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not model.fit_transform(X).any()
        assert not model.transform(X).any()
        assert not model.eigenvalues_.any()
        assert not model.norms_.any()


@pytest.mark.parametrize("memory_limit", [0, 2e9])
@pytest.mark.parametrize("gain", ["auto", "KHA-SMD", make_gain("KHA/et*", eta0=1)])
def test_scales_of_the_kernel(digits, gain, memory_limit):
    """Kernels whose squares fit the precision have the same components whatever their scale; others
    are refused with the range that is allowed, before hundreds of warnings."""
    options = dict(kernel="linear", gain=gain, n_passes=8, memory_limit=memory_limit)
    fit = lambda X: KernelHebbian(2, random_state=0, **options).fit(X)  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        for dtype, inside, outside in (
            (np.float64, (-200, -60, 60, 200), (-500, -400, 300, 450)),
            (np.float32, (-20, 18), (-45, -36, 36)),
        ):
            X = digits.astype(dtype)
            for exponent in inside:
                model = fit(np.ldexp(X, exponent))
                values = np.linalg.svd(digits - digits.mean(axis=0))[1][:2] ** 2
                found = np.ldexp(model.eigenvalues_.astype(np.float64), -2 * exponent)
                assert found.sum() > 0.7 * values.sum()
            for exponent in outside:
                with pytest.raises(
                    ValueError, match=f"kernel on X .* allowed in {dtype.__name__} are"
                ):
                    fit(np.ldexp(X, exponent))


def test_overflow_within_blocks_is_silent():
    """Products that overflow in float32 are a matter of the gain, not of a warning a block."""
    X = np.random.default_rng(0).standard_normal((30, 5)) * [3, 2, 1, 0.5, 0.2] + 1
    model = KernelHebbian(2, kernel="poly", n_passes=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        codes = model.fit_transform((X + 1e5).astype(np.float32))
    assert np.isfinite(codes).all()


def test_a_start_with_a_row_of_zeros(digits, form):
    """A component that starts at zero stays there and does the others no harm."""
    gain, init = make_gain("KHA/et*", eta0=2), start()
    init[-1] = 0
    options = dict(gain=gain, n_passes=2, random_state=0)
    model = KernelHebbian(R, init=init, **options).fit(digits)
    fewer = KernelHebbian(R - 1, init=init[:-1], **options).fit(digits)
    np.testing.assert_allclose(model.components_[:-1], fewer.components_, atol=1e-10)
    assert not model.components_[-1].any()
