"""The kernel Hebbian family: blocks equal single steps, and convergence is to kernel PCA."""

import sys
import warnings

import numpy as np
import pytest
from helpers import assert_same_up_to_sign
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from akpca import (
    DivergenceError,
    GeneralizedHebbian,
    IncrementalKernelPCA,
    KernelHebbian,
    KernelPCA,
    NystromKernelPCA,
)
from akpca.book import reference
from akpca.hebbian import Gain, kernel, make_gain, steps
from akpca.kernels import RBF, Linear
from akpca.operators import KernelOperator, MatrixOperator
from akpca.preimage import FixedPointPreimage

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


def run(operator, gain, n_passes, block_size, every_step, A=None):
    state = kernel.start_state(operator, start() if A is None else A, gain)
    options = dict(block_size=block_size, every_step=every_step)
    for order in orders(n_passes):
        *_, state = kernel.run_pass(operator, state, gain, order, **options)
    return state


@pytest.mark.parametrize("every_step", [False, True])
@pytest.mark.parametrize("factors", VARIANTS)
def test_blocks_equal_the_literal_algorithm(K, factors, every_step, form):
    """Coefficients are those of single steps for any block size, also in the estimator."""
    parameters, gain = VARIANTS[factors]
    for n_passes in (5, 1):
        exact = reference.kha(
            K, start(), orders(n_passes), factors, every_step=every_step, **parameters
        )
        size = np.abs(exact).max()
        for block_size in (1, 7, 64):
            double = run(MatrixOperator(K), gain, n_passes, block_size, every_step)
            assert np.abs(double.A - exact).max() <= 1e-9 * size
            if double.AK is not None:
                np.testing.assert_allclose(double.AK, double.A @ K, atol=1e-9 * size)
        single = run(MatrixOperator(K.astype(np.float32)), gain, n_passes, 64, every_step)
        assert single.A.dtype == np.float32
        assert np.abs(single.A - exact).max() <= 1e-3 * size
    updates = "iteration" if every_step else "pass"
    options = dict(kernel="precomputed", center=False, init=start(), random_state=0, n_passes=1)
    model = KernelHebbian(R, gain=gain, eigenvalue_updates=updates, **options)
    assert np.abs(model.fit(K).coefficients_ - exact).max() <= 1e-9 * size


@pytest.mark.parametrize(("name", "eta0"), [("KHA/et*", 5), ("KHA-SMD*", 5), ("KHA/et", 0.5)])
def test_convergence_to_kernel_pca(name, eta0):
    """In the end directions, norms, eigenvalues and codes all are those of kernel PCA."""
    # five groups of different size and place: eigenvalues well apart
    rng = np.random.default_rng(0)
    centres = 4 * np.diag([1.0, 1.3, 0.8, 1.1, 0.5])
    X = np.repeat(centres, range(15, 65, 10), axis=0) + 0.2 * rng.normal(size=(175, 5))
    gain = make_gain(name, eta0=eta0, mu=0.01)
    model = KernelHebbian(3, gamma=0.05, gain=gain, n_passes=400, random_state=0).fit(X)
    exact = KernelPCA(3, kernel="rbf", gamma=0.05).fit(X)
    np.testing.assert_allclose(model.norms_, 1, atol=1e-3)
    np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, rtol=1e-3)
    unit = (model.components_ / np.linalg.norm(model.components_, axis=1, keepdims=True)).T
    assert (np.abs(np.sum(unit * exact.eigenvectors_, axis=0)) > 1 - 1e-4).all()
    codes = exact.transform(X)
    assert_same_up_to_sign(model.transform(X), codes, atol=0.02 * np.abs(codes).max())


def test_a_wrong_order_is_reported_and_mended_by_pca():
    """Rising eigenvalues give one warning, and PCA of the codes sorts; otherwise none."""
    X = load_digits().data[:200]
    late = make_gain("KHA/et*", eta0=2, tau=2)
    model = KernelHebbian(2, kernel="linear", gain=late, n_passes=10, random_state=5)
    with pytest.warns(ConvergenceWarning, match="component 0 has a smaller eigenvalue") as caught:
        codes = model.fit_transform(X)
    assert [warning.filename for warning in caught] == [__file__]
    exact = KernelPCA(2, kernel="linear").fit(X).eigenvalues_
    before, after = (
        np.abs(np.sum(Y**2, axis=0) / exact - 1).max() for Y in (codes, PCA().fit_transform(codes))
    )
    assert after < 0.5 * before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelHebbian(2, kernel="linear", random_state=3).fit(X)
        KernelHebbian(4, kernel="linear", gain=Gain(1e-9), n_passes=1, random_state=0).fit(X)


@pytest.mark.parametrize("gain", [Gain(1e4), make_gain("KHA/et*", eta0=1e4)])
def test_divergence_is_reported(digits, gain):
    """A gain far too large raises an error that names it and says what to do."""
    with pytest.raises(DivergenceError, match=r"eta0=10000.*diverged.*smaller eta0"):
        KernelHebbian(R, gain=gain, random_state=0).fit(digits)


def test_a_gain_that_was_chosen_retreats(digits, monkeypatch):
    """If the default diverges, smaller gains are tried from the same start."""
    large = make_gain("KHA/et*", eta0=500.0)
    monkeypatch.setattr(kernel, "safe_gain", lambda *_: large)
    model = KernelHebbian(R, gamma=0.05, n_passes=3, random_state=0).fit(digits)
    assert model.gain_.eta0 < 100
    assert (model.gain_.passes, model.n_iter_, model.n_steps_) == (large.passes, 3, 3 * L)
    assert model.norms_.max() < 2


@pytest.mark.parametrize(
    ("dtype", "inside", "outside"),
    [(np.float64, (-200, 200), (-500, 300, 450)), (np.float32, (-20, 18), (-45, 36))],
)
def test_scales_of_the_kernel(digits, dtype, inside, outside):
    """Kernels whose squares overflow are refused, with the range that is allowed, unwarned."""
    model = KernelHebbian(2, kernel="linear", n_passes=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for exponent in inside:
            assert np.isfinite(model.fit_transform(np.ldexp(digits.astype(dtype), exponent))).all()
        for exponent in outside:
            with pytest.raises(ValueError, match=f"k.x, x.* allowed in {dtype.__name__} are"):
                model.fit(np.ldexp(digits.astype(dtype), exponent))


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
    assert kernel.sampled_start(operator, 3, np.arange(100, 200))[0].shape == (2, 400)
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
    taus = [gain.passes for gain in found]
    np.testing.assert_allclose(taus, np.array([3, 6]) / found[0].eta0)


def test_long_components_are_reported(digits):
    """A component that stays far too long gives one warning a fit, at the user's line."""
    init = 50 * start() / np.sqrt(0.3)
    model = KernelHebbian(R, gamma=0.05, gain=Gain(1e-9), init=init, n_passes=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="where 1 is right") as caught:
        model.fit(digits)
        model.fit_transform(digits)
    assert [warning.filename for warning in caught] == [__file__] * 2


@pytest.mark.parametrize("blocks", [9, 4])
def test_interrupt_keeps_what_was_done(digits, monkeypatch, blocks):
    """An interrupt ends the fit with a warning, and the last whole block counts."""
    block, calls = kernel.kernel_block, []

    def interrupted(*args):
        if len(calls) == blocks:
            raise KeyboardInterrupt
        calls.append(1)
        return block(*args)

    model = KernelHebbian(R, gain=Gain(0.1), gamma=0.05, random_state=0)
    monkeypatch.setattr(kernel, "kernel_block", interrupted)
    X = np.resize(digits, (3 * 96, digits.shape[1]))
    with pytest.warns(ConvergenceWarning, match=f"interrupted.*, {96 * blocks} steps") as caught:
        model.fit(X)
    assert caught[0].filename == __file__
    assert (model.n_iter_, model.n_steps_) == (blocks // 3, 96 * blocks)
    monkeypatch.undo()
    same = clone(model).set_params(n_passes=3).fit(X)
    assert np.array_equal(model.transform(digits), same.transform(digits)) == (blocks == 9)


@pytest.mark.parametrize("factors", ["", "et", "ets"])
def test_numba_calls_no_python_for_compiled_steps(K, factors):
    """Where it does, to make an array that compiled code returns, a signal handler may run and
    raise, for which numba does not look: an interrupt could end the process."""
    operator, gain, calls = MatrixOperator(K), VARIANTS[factors][1], []
    state = kernel.refresh(kernel.start_state(operator, start(), gain), every_step=True)

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


@pytest.mark.parametrize("gain", ["auto", Gain(0.1)])
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


def test_decoders_know_the_components(digits):
    """Also long before convergence, components have norm 1, and the point of feature space that a
    code stands for has the inner products that decoders take it to have. (Coefficients of centred
    samples need not sum to 0.)"""
    model = KernelHebbian(R, gamma=0.05, n_passes=1, random_state=0).fit(digits)
    code, Y = model._code, np.random.default_rng(0).normal(size=(7, R))
    K = KernelOperator(digits, RBF(gamma=0.05)).dense()
    np.testing.assert_allclose(np.diag(model.components_ @ K @ model.components_.T), 1, atol=1e-10)
    np.testing.assert_allclose(
        code.inner_products(Y), code.expansion(Y) @ RBF(gamma=0.05)(digits), atol=1e-10
    )
    np.testing.assert_allclose(code.codes, model.transform(digits), atol=1e-10)
    with pytest.raises(NotFittedError, match="needs a preimage"):
        model.inverse_transform(Y)
    assert model.inverse_transform(Y, preimage="ridge").shape == (7, 64)


def in_form(X, kind):
    """The same samples, or their kernel, in another form: what is fitted, with which options."""
    rbf = RBF(gamma=0.05)
    if kind == "dask":
        dask = pytest.importorskip("dask.array")
        from akpca.distributed import DaskKernelOperator

        chunks = dask.from_array(X, chunks=(40, 64))
        return DaskKernelOperator(chunks, rbf), {"kernel": "precomputed"}
    literal = {"kernel": lambda x, y, g: np.exp(-g * np.sum((x - y) ** 2))}
    return {
        "swept": lambda: (X, {"gamma": 0.05, "memory_limit": 0}),
        "sparse": lambda: (sparse.csr_matrix(X), {"gamma": 0.05}),
        "precomputed": lambda: (rbf(X), {"kernel": "precomputed"}),
        "callable": lambda: (X, {**literal, "kernel_params": {"g": 0.05}}),
        "operator": lambda: (KernelOperator(X, rbf), {"kernel": "precomputed"}),
    }[kind]()


@pytest.mark.parametrize("kind", ["swept", "sparse", "precomputed", "callable", "operator", "dask"])
@pytest.mark.parametrize("name", ["auto", "KHA/t", "KHA-SMD"])
def test_other_forms_of_the_samples(digits, kind, name):
    """The kernel matrix may be stored or swept, given, sparse, or an operator: the numbers stay."""
    gain = name if name == "auto" else make_gain(name, eta0=0.1, mu=0.01)
    X, options = in_form(digits[:60], kind)
    model = KernelHebbian(R, gain=gain, n_passes=2, random_state=0)
    direct = clone(model).set_params(gamma=0.05).fit(digits[:60])
    other = model.set_params(**options).fit(X)
    for attribute in ("coefficients_", "components_", "eigenvalues_", "norms_"):
        found, expected = getattr(other, attribute), getattr(direct, attribute)
        if name == "auto":  # its start has any signs
            found, expected = np.abs(found), np.abs(expected)
        np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())
    new = RBF(gamma=0.05)(digits[60:], digits[:60]) if kind == "precomputed" else digits[60:]
    assert_same_up_to_sign(np.asarray(other.transform(new)), direct.transform(digits[60:]))


def test_callback_gets_a_fitted_model(digits):
    """After every pass the model is that of a fit of as many; a true answer ends the fit."""
    options = dict(gamma=0.05, gain=make_gain("KHA/t", eta0=0.5), random_state=0)

    def check(state):
        assert (state.n_iter_max, state.loss) == (9, None)
        assert state.gain_scale == pytest.approx(0.5 / (1 + state.n_iter))
        same = KernelHebbian(R, n_passes=state.n_iter, **options).fit(digits)
        np.testing.assert_array_equal(state.model.transform(digits), same.transform(digits))
        assert (state.model.n_iter_, state.model.n_steps_) == (state.n_iter, state.n_iter * L)
        # what was fitted is listed when the fit is over
        assert {*vars(state.model), "_fitted_names"} == vars(same).keys()
        return state.n_iter == 3

    model = KernelHebbian(R, n_passes=9, callback=check, preimage="ridge", **options)
    assert model.fit(digits).n_iter_ == 3
    assert model.preimage_ is not model.fit(digits).preimage_


@pytest.mark.parametrize("kind", ["stored", "swept", "precomputed", "sparse", "float32"])
def test_the_callers_arrays_stay_apart(digits, kind):
    """Samples, init and codes that are overwritten after a fit change nothing of the model."""
    make = {
        "precomputed": RBF(gamma=0.05),
        "sparse": sparse.csr_matrix,
        "float32": lambda X: X.astype(np.float32),
    }
    X = make.get(kind, np.copy)(digits)
    init = start().astype(X.dtype)
    options = dict(gain=Gain(0.1), n_passes=2, init=init, random_state=0)
    options |= {"precomputed": {"kernel": kind}, "swept": {"memory_limit": 0}}.get(kind, {})
    new, values = X[:20].copy(), X.data if kind == "sparse" else X
    model = KernelHebbian(R, **options)
    returned = model.fit_transform(X)
    codes, fitted = model.transform(new), model.X_fit_.copy()
    values[:], init[:], returned[:] = 7, 7, 7
    np.testing.assert_array_equal(model.transform(new), codes)
    assert abs(model.X_fit_ - fitted).max() == 0


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        (dict(n_components=200), "n_components=200 must not be larger"),
        (dict(n_components=0), "n_components"),
        (dict(kernel="polynomial"), "kernel"),
        (dict(gain="KHA/t"), "gain='KHA/t' must be 'auto' or a Gain, such as .*make_gain"),
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


@pytest.mark.parametrize("memory_limit", [2e9, 0])
def test_data_far_from_the_origin(digits, memory_limit, capsys):
    """A large mean takes no digits of the centred linear kernel; every long part shows a bar."""
    X = (digits + 1e4).astype(np.float32)
    model = KernelHebbian(2, kernel="linear", memory_limit=memory_limit, random_state=0)
    expected = clone(model).fit(X.astype(np.float64))
    codes = model.set_params(verbose=True, preimage="ridge").fit_transform(X)
    assert codes.dtype == model.X_fit_.dtype == np.float32
    np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-4)
    assert_same_up_to_sign(codes, expected.transform(X.astype(np.float64)), atol=1e-3)
    np.testing.assert_allclose(model.transform(X), codes, atol=1e-3)
    np.testing.assert_allclose(model.inverse_transform(codes), X, atol=2)
    shown = capsys.readouterr().err
    assert "blocks: 100%" in shown
    assert ("kernel sweep: 100%" in shown) == (memory_limit == 0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "cosine", "sigmoid"])
@pytest.mark.parametrize("gain", ["auto", VARIANTS["etns"][1], Gain(0.1)])
@pytest.mark.filterwarnings("error")
def test_constant_data(kernel, dtype, gain, form):
    """Samples without variance give zeros, as with KernelPCA, not an error or noise."""
    for value in (0, 0.1, 1, 1e3):
        X = np.full((20, 3), value, dtype) * np.array([1, 0.3, 1], dtype)
        model = KernelHebbian(2, kernel=kernel, gain=gain, n_passes=2, random_state=0).fit(X)
        for found in (model.transform(X), model.eigenvalues_, model.norms_):
            assert not found.any()


def test_a_start_with_a_row_of_zeros(digits, form):
    """A component that starts at zero stays there and does the others no harm."""
    init = start() * (np.arange(R) < R - 1)[:, None]
    options = dict(gain=make_gain("KHA/et*", eta0=2), n_passes=2, random_state=0)
    model = KernelHebbian(R, init=init, **options).fit(digits)
    fewer = KernelHebbian(R - 1, init=init[:-1], **options).fit(digits)
    np.testing.assert_allclose(model.components_[:-1], fewer.components_, atol=1e-10)
    assert not model.components_[-1].any()


@pytest.mark.parametrize(
    ("cls", "name", "instead"),
    [
        (KernelHebbian, "block_size", "rounding only"),
        (GeneralizedHebbian, "warm_start", "partial_fit"),
        (IncrementalKernelPCA, "warm_start", "partial_fit"),
        (NystromKernelPCA, "alpha", "RidgePreimage"),
        (FixedPointPreimage, "n_restarts", "4"),
    ],
)
def test_an_argument_that_is_gone_is_refused_with_its_replacement(cls, name, instead):
    """At once, whatever its value."""
    with pytest.raises(TypeError, match=f"{cls.__name__} has no parameter {name}: .*{instead}"):
        cls(**{name: None})
