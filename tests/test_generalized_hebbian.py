"""GeneralizedHebbian: equal to the literal rules in any blocks, and in the end to PCA."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import subspace_angles
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from akpca.book import reference
from akpca.hebbian import (
    Annealing,
    Constant,
    DivergenceError,
    EigenvalueNorm,
    GeneralizedHebbian,
    MetaDescent,
    ReciprocalEigenvalues,
    generalized,
    make_gain,
)
from akpca.hebbian.generalized import FORGETTING
from akpca.progress import FitProgress

STEPS = {"sanger": reference.gha_step, "oja": reference.oja_step}
RULES = list(STEPS)


@pytest.fixture
def X():
    """150 points with variances 1, 0.36, 0.13, ... along random axes, far from the origin."""
    return make_data(150, 9)


def make_data(n, d, seed=0, decay=0.6):
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return rng.standard_normal((n, d)) * decay ** np.arange(d) @ axes + rng.standard_normal(d) * 3


def raw_weights(model):
    return model.components_ * model.norms_[:, None]


def start_weights(r, d, seed):
    G = np.random.RandomState(seed).standard_normal((d, r))
    return np.linalg.qr(G)[0].T


# ------------------------------------------------------------------------- the literal rules


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("block_size", [1, 7, 64])
@pytest.mark.parametrize("annealed", [False, True])
def test_blocks_equal_the_literal_rule(X, rule, block_size, annealed):
    """(7) and (8), one sample at a time, give the same weights as any blocks, over two passes."""
    gain = Constant(0.05) * Annealing(passes=0.5) if annealed else Constant(0.05)
    model = GeneralizedHebbian(
        3, rule=rule, gain=gain, n_passes=2, shuffle=False, block_size=block_size, random_state=4
    ).fit(X)
    W = start_weights(3, X.shape[1], 4)
    centred = X - X.mean(axis=0)
    tau = 0.5 * len(X)
    for t, x in enumerate(np.concatenate([centred, centred]), start=1):
        W = STEPS[rule](W, x, 0.05 * (tau / (t + tau) if annealed else 1))  # (9)
    np.testing.assert_allclose(raw_weights(model), W, rtol=1e-10, atol=1e-12)
    assert model.n_steps_ == 2 * len(X)


def tracking_stream(X, W, rule, schedule):
    """The rules with gains that follow the outputs, as the documentation states them."""
    outputs, counted = [], 0.0
    for t, row in enumerate(X, start=1):
        x = row - X[:t].mean(axis=0)
        y = W @ x
        outputs.append(y)
        powers = (np.arange(1, t + 1) / t) ** FORGETTING
        energy = powers @ np.square(outputs)
        counted = powers @ (1 - 1 / np.arange(1, t + 1))
        if rule == "oja":
            energy = np.full(len(y), energy.mean())
        if schedule is not None and counted > 0:
            energy = energy / counted / schedule(t)
        bound = max(x @ x, y @ y)
        eta = np.where(bound > 0, 1 / np.maximum(np.maximum(energy, bound), 1e-300), 0)
        yy = np.outer(y, y)
        W = W + eta[:, None] * (np.outer(y, x) - (np.tril(yy) if rule == "sanger" else yy) @ W)
    variances = (powers @ np.square(outputs)) / counted / np.sum(W**2, axis=1)
    return W, variances


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("block_size", [1, 7, 64])
@pytest.mark.parametrize("reciprocal", [False, True])
def test_tracking_gains_equal_their_formula(X, rule, block_size, reciprocal):
    """ "auto" and reciprocal eigenvalues in a stream follow the documented formulas literally, and
    so do the variances that are published."""
    gain, schedule = "auto", None
    if reciprocal:
        gain = Constant(0.3) * Annealing(iterations=40) * ReciprocalEigenvalues()
        schedule = lambda t: 0.3 * 40 / (t + 40)  # noqa: E731
    model = GeneralizedHebbian(3, rule=rule, gain=gain, block_size=block_size, random_state=4)
    model.partial_fit(X)
    W, variances = tracking_stream(X, start_weights(3, X.shape[1], 4), rule, schedule)
    np.testing.assert_allclose(raw_weights(model), W, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(model.explained_variance_, variances, rtol=1e-9)


# ------------------------------------------------------------------------------- streams


@settings(max_examples=25, deadline=None)
@given(
    cuts=st.lists(st.integers(1, 149), max_size=6),
    block_size=st.integers(1, 70),
    rule=st.sampled_from(RULES),
    center=st.booleans(),
    kind=st.sampled_from(["auto", "constant", "annealed", "reciprocal"]),
)
def test_a_stream_of_batches_equals_one_pass(cuts, block_size, rule, center, kind):
    """How a stream is cut into batches, and these into blocks, changes nothing."""
    X = make_data(150, 9)
    gain = {
        "auto": "auto",
        "constant": Constant(0.003),
        "annealed": Constant(0.005) * Annealing(iterations=50),
        "reciprocal": Constant(0.1) * ReciprocalEigenvalues(),
    }[kind]
    options = dict(rule=rule, gain=gain, center=center, random_state=1)
    whole = GeneralizedHebbian(3, **options).partial_fit(X)
    stream = GeneralizedHebbian(3, block_size=block_size, **options)
    for batch in np.split(X, sorted(set(cuts))):
        stream.partial_fit(batch)
    for name in ("components_", "norms_", "mean_", "explained_variance_"):
        np.testing.assert_allclose(
            getattr(stream, name), getattr(whole, name), rtol=1e-10, atol=1e-12, err_msg=name
        )
    assert stream.n_samples_seen_ == stream.n_steps_ == len(X)
    assert stream.n_iter_ == whole.n_iter_ == 1


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("gain", ["auto", Constant(0.01)])
def test_one_ordered_pass_is_a_stream_if_not_centred(X, rule, gain):
    """Without centring, fit(n_passes=1, shuffle=False) makes the steps of partial_fit."""
    options = dict(rule=rule, gain=gain, center=False, random_state=0)
    stream = GeneralizedHebbian(3, **options)
    for batch in np.array_split(X, 4):
        stream.partial_fit(batch)
    once = GeneralizedHebbian(3, n_passes=1, shuffle=False, **options).fit(X)
    np.testing.assert_allclose(raw_weights(stream), raw_weights(once), rtol=1e-10, atol=1e-12)
    # fit reports the variance of its final components, exactly
    np.testing.assert_allclose(once.explained_variance_, np.mean(once.transform(X) ** 2, axis=0))


def test_mean_of_a_stream_is_the_mean(X):
    """After any number of batches, mean_ is the mean of all samples."""
    stream = GeneralizedHebbian(2, random_state=0)
    for batch in np.array_split(X, 7):
        stream.partial_fit(batch)
    np.testing.assert_allclose(stream.mean_, X.mean(axis=0))
    assert not GeneralizedHebbian(2, center=False).fit(X).mean_.any()


def test_partial_fit_goes_on_after_fit(X):
    """The steps, the mean and the weights continue."""
    model = GeneralizedHebbian(2, n_passes=3, random_state=0).fit(X[:100])
    before = model.components_
    model.partial_fit(X[100:])
    assert (model.n_steps_, model.n_samples_seen_, model.n_iter_) == (350, 150, 3)
    np.testing.assert_allclose(model.mean_, X.mean(axis=0))
    assert np.abs(np.sum(before * model.components_, axis=1)).min() > 0.9


# --------------------------------------------------------------------------- convergence


def test_sanger_converges_to_pca():
    """Directions, norms, order and eigenvalues are PCA's: not only the angles."""
    X = make_data(400, 8, decay=0.7)
    model = GeneralizedHebbian(4, n_passes=60, random_state=0).fit(X)
    exact = PCA(4).fit(X)
    cosines = np.abs(np.sum(model.components_ * exact.components_, axis=1))
    assert cosines.min() > 1 - 1e-5
    np.testing.assert_allclose(model.norms_, 1, atol=1e-3)
    np.testing.assert_allclose(model.explained_variance_, exact.explained_variance_, rtol=1e-4)
    np.testing.assert_allclose(
        np.abs(model.transform(X)), np.abs(exact.transform(X)), atol=0.02 * X.std()
    )
    rebuilt = exact.inverse_transform(exact.transform(X))
    np.testing.assert_allclose(
        model.inverse_transform(model.transform(X)), rebuilt, atol=0.02 * X.std()
    )


def test_eigenvalues_of_a_stream_are_on_the_scale_of_pca():
    """The running estimate has no factor n and no factor of the norms."""
    X = make_data(6000, 8, decay=0.7)
    model = GeneralizedHebbian(3, random_state=0)
    for batch in np.array_split(X, 60):
        model.partial_fit(batch)
    np.testing.assert_allclose(
        model.explained_variance_, PCA(3).fit(X).explained_variance_, rtol=0.15
    )


def test_variance_estimate_is_unbiased_from_the_start():
    """Over many short streams its mean is the variance, though the mean is estimated too."""
    rng = np.random.default_rng(0)
    streams = rng.standard_normal((600, 5, 1)) * 2 + 7
    options = dict(gain=Constant(1e-9), random_state=0)
    estimates = [
        GeneralizedHebbian(1, **options).partial_fit(S).explained_variance_[0] for S in streams
    ]
    assert abs(np.mean(estimates) - 4) < 4 * np.std(estimates) / np.sqrt(len(streams))


def test_oja_finds_the_subspace_and_no_eigenvectors():
    """The span is that of PCA, its rows are orthonormal, but they are not the eigenvectors."""
    X = make_data(400, 8, decay=0.7)
    model = GeneralizedHebbian(3, rule="oja", n_passes=60, random_state=0).fit(X)
    exact = PCA(3).fit(X)
    assert subspace_angles(model.components_.T, exact.components_.T).max() < 0.01
    np.testing.assert_allclose(raw_weights(model) @ raw_weights(model).T, np.eye(3), atol=2e-3)
    cosines = np.abs(model.components_ @ exact.components_.T)
    assert cosines.max(axis=1).min() < 0.9
    np.testing.assert_allclose(
        model.explained_variance_.sum(), exact.explained_variance_.sum(), rtol=1e-3
    )


@pytest.mark.parametrize(
    "gain",
    [
        Constant(0.05) * Annealing(passes=2),
        Constant(0.1) * Annealing(passes=1) * ReciprocalEigenvalues(),
    ],
)
def test_other_gains_converge_too(gain):
    """Annealed gains, with and without eigenvalues, find the first components and unit norms."""
    X = make_data(400, 8)
    model = GeneralizedHebbian(2, gain=gain, n_passes=40, random_state=0).fit(X)
    cosines = np.abs(np.sum(model.components_ * PCA(2).fit(X).components_, axis=1))
    assert cosines.min() > 0.999
    np.testing.assert_allclose(model.norms_, 1, atol=0.01)


def test_one_pass_is_near_pca_on_digits():
    """A single look at each digit comes within 2 % of the error of PCA."""
    X = load_digits().data

    def error(model):
        return np.sum((X - model.inverse_transform(model.transform(X))) ** 2)

    X = X[np.random.default_rng(0).permutation(len(X))]
    model = GeneralizedHebbian(5, random_state=0).partial_fit(X)
    assert error(model) < 1.02 * error(PCA(5).fit(X))


def test_more_components_than_rank():
    """Components without variance do the others no harm, and their norms tell which they are."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 2)) * [3, 1] @ rng.standard_normal((2, 6))
    model = GeneralizedHebbian(5, n_passes=30, random_state=0).fit(X)
    exact = PCA(2).fit(X)
    np.testing.assert_allclose(model.explained_variance_[:2], exact.explained_variance_, rtol=1e-3)
    assert np.isfinite(model.components_).all()
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1)
    np.testing.assert_allclose(model.norms_[:2], 1, atol=0.01)
    assert model.norms_[2:].max() < 0.9


# ----------------------------------------------------------------------------- stability


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_auto_is_free_of_the_unit(X, rule, scale):
    """Data in other units have the same components, and variances in the units' square."""
    expected = GeneralizedHebbian(3, rule=rule, random_state=0).fit(X)
    model = GeneralizedHebbian(3, rule=rule, random_state=0).fit(X * scale)
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-8)
    np.testing.assert_allclose(
        model.explained_variance_, expected.explained_variance_ * scale**2, rtol=1e-8
    )


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("gain", ["auto", Constant(0.1) * ReciprocalEigenvalues()])
@pytest.mark.parametrize(
    ("dtype", "exponents"),
    [
        (np.float64, [-996, -565, -300, -30, 30, 300, 498]),  # 1e-300 to 1e150
        (np.float32, [-100, -66, 30, 54]),  # 1e-30 to 1e16
    ],
)
def test_any_scale_of_the_data(X, rule, streamed, gain, dtype, exponents):
    """Data times a power of two, even if their squares vanish, have the same components to the bit,
    and mean, codes and variances in their unit, as far as these can be represented."""
    X = X.astype(dtype)
    model = GeneralizedHebbian(3, rule=rule, gain=gain, n_passes=2, random_state=0)
    fit = lambda X: getattr(clone(model), "partial_fit" if streamed else "fit")(X)  # noqa: E731
    expected = fit(X)
    for exponent in exponents:
        scaled = np.ldexp(X, exponent)
        other = fit(scaled)
        np.testing.assert_array_equal(other.components_, expected.components_)
        np.testing.assert_array_equal(other.mean_, np.ldexp(expected.mean_, exponent))
        codes = np.ldexp(other.transform(scaled), -exponent)
        np.testing.assert_allclose(codes, expected.transform(X), rtol=1e-3, atol=1e-6)
        with np.errstate(under="ignore"):
            variance = np.ldexp(expected.explained_variance_, 2 * exponent)
        np.testing.assert_allclose(other.explained_variance_, variance, rtol=1e-6, atol=1e-43)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_values_whose_variance_overflows(X, method):
    """They are refused, with the range that is allowed, and leave no trace in a stream."""
    for dtype, scale in ((np.float32, 1e20), (np.float64, 1e155)):
        large = (X * scale).astype(dtype)
        with pytest.raises(
            ValueError, match=rf"X has values of .* allowed in {dtype.__name__} are"
        ):
            getattr(GeneralizedHebbian(2), method)(large)
    model = GeneralizedHebbian(2, random_state=0).partial_fit(X.astype(np.float32))
    before = model.transform(X)
    with pytest.raises(ValueError, match="allowed in float32"):
        model.partial_fit(X * 1e25)
    np.testing.assert_array_equal(model.transform(X), before)


def test_a_stream_may_change_its_scale(X):
    """Batches of zeros and of much smaller values may come first, and cutting changes nothing."""
    parts = [np.zeros((3, 9)), X[:40] * 2.0**-400, np.zeros((2, 9)), X[40:]]
    whole = GeneralizedHebbian(3, random_state=0).partial_fit(np.concatenate(parts))
    stream = GeneralizedHebbian(3, random_state=0)
    for part in parts:
        stream.partial_fit(part)
    for name in ("components_", "norms_", "mean_", "explained_variance_"):
        np.testing.assert_allclose(
            getattr(stream, name), getattr(whole, name), rtol=1e-10, atol=1e-12, err_msg=name
        )
    small = clone(stream).partial_fit(parts[0]).partial_fit(X[:40] * 2.0**-900)
    expected = clone(stream).partial_fit(parts[0]).partial_fit(X[:40])
    np.testing.assert_allclose(small.components_, expected.components_, atol=1e-10)


def test_a_gain_of_ones_own_has_the_unit_of_the_data(X):
    """eta0 times the square of a scale makes the same steps on data divided by it."""
    exact = GeneralizedHebbian(3, gain=Constant(0.05), n_passes=2, random_state=0).fit(X)
    gain = Constant(0.05 * 2.0**200) * Annealing(passes=1e9)
    other = GeneralizedHebbian(3, gain=gain, n_passes=2, random_state=0).fit(X * 2.0**-100)
    np.testing.assert_allclose(other.components_, exact.components_, atol=1e-6)
    with pytest.raises(
        DivergenceError, match=r"\|\|x\|\|\^2 up to [\d.]+e\+12[01], and a step is safe"
    ):
        GeneralizedHebbian(3, gain=Constant(0.05), random_state=0).fit(X * 2.0**200)


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(2, 120),
    d=st.integers(1, 12),
    r=st.integers(1, 12),
    rule=st.sampled_from(RULES),
    center=st.booleans(),
    tail=st.sampled_from(["cauchy", "one outlier", "powers", "constant", "repeated"]),
    scale=st.sampled_from([1e-100, 1e-3, 1.0, 1e3, 1e100]),
    seed=st.integers(0, 1000),
)
def test_auto_never_diverges(n, d, r, rule, center, tail, scale, seed):
    """Heavy tails, outliers, constant or repeated data of any scale: weights stay bounded."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    if tail == "cauchy":
        X = rng.standard_cauchy((n, d))
    elif tail == "one outlier":
        X[rng.integers(n)] *= 1e6
    elif tail == "powers":
        X *= 10.0 ** rng.integers(-8, 9, (n, 1))
    elif tail == "constant":
        X[:] = X[0]
    else:
        X = X[rng.integers(min(2, n), size=n)]
    r = min(r, n, d)
    model = GeneralizedHebbian(
        r, rule=rule, center=center, n_passes=3, block_size=16, random_state=seed
    )
    for fitted in (model.fit(X * scale), clone(model).partial_fit(X * scale)):
        assert fitted.norms_.max() < 10
        np.testing.assert_allclose(np.linalg.norm(fitted.components_, axis=1), 1)
        assert np.isfinite(fitted.explained_variance_).all()


@pytest.mark.parametrize("rule", RULES)
def test_too_large_a_gain_is_reported(X, rule):
    """The error names the gain and what to do, and an unfitted estimator stays unfitted."""
    model = GeneralizedHebbian(2, rule=rule, gain=Constant(50.0), random_state=0)
    with pytest.raises(DivergenceError, match=r"eta0.*50.*smaller eta0, or gain='auto'"):
        model.fit(X)
    with pytest.raises(NotFittedError):
        model.transform(X)


def test_divergence_in_a_stream_keeps_the_last_good_state(X):
    """The batch that ran away leaves no trace, and the stream can go on with another gain."""
    model = GeneralizedHebbian(2, gain=Constant(0.05), block_size=10, random_state=0)
    model.partial_fit(X)
    good = pickle.loads(pickle.dumps(model))
    with pytest.raises(DivergenceError):
        model.partial_fit(1e4 * X)
    for name in ("components_", "mean_", "norms_", "explained_variance_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(good, name))
    model.set_params(gain="auto").partial_fit(X)
    good.set_params(gain="auto").partial_fit(X)
    np.testing.assert_array_equal(model.components_, good.components_)
    assert np.isfinite(model.set_params(gain="auto").partial_fit(1e4 * X).components_).all()


def test_divergence_in_fit_keeps_the_last_fit(X):
    """A fit that fails leaves the results of the one before."""
    model = GeneralizedHebbian(2, random_state=0).fit(X)
    before = model.components_
    with pytest.raises(DivergenceError):
        model.set_params(gain=Constant(50.0)).fit(X[:, :5])
    np.testing.assert_array_equal(model.components_, before)
    assert model.n_features_in_ == X.shape[1]


# ------------------------------------------------------------------------------ long fits


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("gain", ["auto", Constant(0.05) * Annealing(passes=1)])
def test_warm_start_continues_bit_for_bit(X, rule, gain):
    """2 passes and then 3 are 5 passes; without warm_start a fit begins anew."""
    options = dict(rule=rule, gain=gain, random_state=3)
    whole = GeneralizedHebbian(3, n_passes=5, **options).fit(X)
    parts = GeneralizedHebbian(3, n_passes=2, warm_start=True, **options).fit(X)
    parts = pickle.loads(pickle.dumps(parts)).set_params(n_passes=3).fit(X)
    np.testing.assert_array_equal(parts.components_, whole.components_)
    np.testing.assert_array_equal(parts.explained_variance_, whole.explained_variance_)
    assert parts.n_iter_ == whole.n_iter_ == 5
    parts.set_params(warm_start=False, n_passes=5).fit(X)
    np.testing.assert_array_equal(parts.components_, whole.components_)


def test_warm_start_keeps_the_number_of_components(X):
    """Another number of components can't go on from the old ones."""
    model = GeneralizedHebbian(3, warm_start=True, random_state=0).fit(X)
    with pytest.raises(ValueError, match="goes on from 3 components"):
        model.set_params(n_components=2).fit(X)


def test_callback_sees_every_pass_and_may_stop(X):
    """It gets the state of the fit with a usable estimator, and True ends the fit."""
    seen = []

    def callback(state):
        assert isinstance(state, FitProgress)
        assert (state.n_iter_max, state.loss) == (9, None)
        model = state.model
        assert model.n_iter_ == state.n_iter
        seen.append((state.n_iter, model.transform(X).var(axis=0, ddof=1).sum()))
        np.testing.assert_allclose(model.explained_variance_.sum(), seen[-1][1])
        return state.n_iter == 4

    model = GeneralizedHebbian(2, n_passes=9, callback=callback, random_state=0).fit(X)
    assert [number for number, _ in seen] == [1, 2, 3, 4]
    assert model.n_iter_ == 4
    assert seen[-1][1] > seen[0][1]


def test_interrupt_keeps_what_was_reached(X):
    """Ctrl-C ends the fit with a warning; the estimator is that of the passes made."""

    def interrupt(state):
        if state.n_iter == 3:
            raise KeyboardInterrupt

    model = GeneralizedHebbian(2, n_passes=9, callback=interrupt, random_state=0)
    with pytest.warns(ConvergenceWarning, match="interrupted after 3 passes") as caught:
        model.fit(X)
    assert caught[0].filename == __file__
    expected = GeneralizedHebbian(2, n_passes=3, random_state=0).fit(X)
    np.testing.assert_array_equal(model.components_, expected.components_)
    assert model.n_iter_ == 3


def test_interrupt_in_the_middle_of_a_pass(X, monkeypatch):
    """The last whole block counts."""
    block, calls = generalized.linear_block, []

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return block(*args)

    monkeypatch.setattr(generalized, "linear_block", interrupted)
    model = GeneralizedHebbian(2, block_size=10, random_state=0)
    with pytest.warns(ConvergenceWarning, match="30 steps"):
        model.fit(X)
    assert (model.n_steps_, model.n_iter_) == (30, 0)
    assert np.isfinite(model.transform(X)).all()


def test_interrupt_before_the_first_step(X, monkeypatch):
    """An interrupt before anything is learned is raised and leaves the model as it was."""

    def interrupted(*args):
        raise KeyboardInterrupt

    model = GeneralizedHebbian(2, random_state=0).fit(X[:100])
    before = model.transform(X)
    monkeypatch.setattr(generalized, "linear_block", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    np.testing.assert_array_equal(model.transform(X), before)


def test_progress_bar_only_if_asked(X, capsys):
    """verbose=False prints nothing."""
    GeneralizedHebbian(2, n_passes=2).fit(X)
    assert capsys.readouterr() == ("", "")
    GeneralizedHebbian(2, n_passes=2, verbose=True).fit(X)
    assert "passes" in capsys.readouterr().err


# ------------------------------------------------------------------------------ interface


@pytest.mark.parametrize("streamed", [False, True])
def test_float32_is_kept(X, streamed):
    """float32 in, float32 out, and the same result to single precision."""
    X32 = X.astype(np.float32)
    model = GeneralizedHebbian(3, n_passes=3, random_state=0)
    model = model.partial_fit(X32) if streamed else model.fit(X32)
    exact = clone(model).partial_fit(X) if streamed else clone(model).fit(X)
    for name in ("components_", "mean_", "norms_", "explained_variance_"):
        assert getattr(model, name).dtype == np.float32
        np.testing.assert_allclose(getattr(model, name), getattr(exact, name), atol=1e-4)
    codes = model.transform(X32)
    assert codes.dtype == np.float32
    assert model.inverse_transform(codes).dtype == np.float32


def test_float32_is_promised():
    """The tag that makes scikit-learn check it names both precisions."""
    tags = GeneralizedHebbian().__sklearn_tags__()
    assert tags.transformer_tags.preserves_dtype == ["float64", "float32"]


def test_a_new_fit_leaves_nothing_of_the_last_one(X):
    """Names of features go with the data that had them, and numbers are those of a new model."""
    frame = pytest.importorskip("pandas").DataFrame(X, columns=list("abcdefghi"))
    model = GeneralizedHebbian(2, random_state=0).fit(frame)
    assert list(model.feature_names_in_) == list("abcdefghi")
    model.fit(X[:, :5])
    fresh = GeneralizedHebbian(2, random_state=0).fit(X[:, :5])
    assert vars(model).keys() == vars(fresh).keys()
    np.testing.assert_array_equal(model.components_, fresh.components_)


@pytest.mark.parametrize("rule", RULES)
def test_reconstruction_is_a_projection(X, rule):
    """Even far from convergence, codes survive the round trip and reconstructing twice changes
    nothing."""
    model = GeneralizedHebbian(4, rule=rule, random_state=0).partial_fit(X[:20])
    gram = model.components_ @ model.components_.T
    assert np.abs(gram - np.eye(4)).max() > 1e-3  # not orthogonal yet
    codes = model.transform(X)
    rebuilt = model.inverse_transform(codes)
    np.testing.assert_allclose(model.transform(rebuilt), codes, atol=1e-10)
    residual = X - rebuilt
    np.testing.assert_allclose(residual @ model.components_.T, 0, atol=1e-10)


@pytest.mark.parametrize("center", [True, False])
def test_the_callers_arrays_stay_apart(X, center):
    """Samples and codes that are overwritten after a fit or a batch change nothing of the model."""
    model = GeneralizedHebbian(2, center=center, random_state=0)
    for method in (model.fit_transform, model.partial_fit):
        samples = X.copy()
        returned = method(samples)
        codes = model.transform(X)
        samples[:] = 7
        if isinstance(returned, np.ndarray):
            returned[:] = 7
        np.testing.assert_array_equal(model.transform(X), codes)


def test_same_seed_same_bits(X):
    """Two fits agree exactly; another seed takes another way."""
    fits = [GeneralizedHebbian(2, random_state=seed).fit(X).components_ for seed in (0, 0, 1)]
    np.testing.assert_array_equal(fits[0], fits[1])
    assert not np.array_equal(fits[0], fits[2])


def test_in_a_pipeline(X):
    """Searching over rule and gain, with names of outputs and a copy by pickle."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:400], y[:400]
    pipeline = make_pipeline(
        GeneralizedHebbian(10, n_passes=3, random_state=0), LogisticRegression(max_iter=2000)
    )
    grid = {
        "generalizedhebbian__rule": RULES,
        "generalizedhebbian__gain": ["auto", make_gain("KHA/t", eta0=1e-4, tau=1)],
    }
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, y)
    assert search.best_score_ > 0.7
    names = search.best_estimator_[0].get_feature_names_out()
    assert list(names[:2]) == ["generalizedhebbian0", "generalizedhebbian1"]
    copy = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(copy.predict(X), search.predict(X))


def test_clone_and_fit_begin_anew(X):
    """clone drops the state, and so does a fit after a stream."""
    model = GeneralizedHebbian(2, random_state=0).partial_fit(X)
    assert not hasattr(clone(model), "components_")
    expected = GeneralizedHebbian(2, random_state=0).fit(X)
    np.testing.assert_array_equal(model.fit(X).components_, expected.components_)
    assert model.n_samples_seen_ == len(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(n_components=10), "n_components=10 .* n_features=9"),
        (dict(n_components=0), "n_components"),
        (dict(rule="hebb"), "rule"),
        (dict(gain="fast"), "gain"),
        (dict(gain=0.1), "gain"),
        (dict(gain=make_gain("KHA/et", eta0=1)), "EigenvalueNorm.*allowed are Constant"),
        (dict(gain=Constant(1.0) * MetaDescent(0.1)), "MetaDescent.*gain='auto'"),
        (dict(gain=Constant("auto")), "needs a number as eta0"),
        (dict(gain=Annealing(passes=1)), "multiply it by Constant"),
        (dict(gain=Constant(1.0) * EigenvalueNorm()), "EigenvalueNorm"),
        (dict(block_size=0), "block_size"),
        (dict(n_passes=0), "n_passes"),
    ],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_bad_arguments_are_named(X, options, message, method):
    """Errors say which argument was wrong and what is allowed."""
    with pytest.raises(ValueError, match=message):
        getattr(GeneralizedHebbian(**options), method)(X)


def test_other_bad_input_is_named(X):
    """More components than samples, passes of a stream, codes of the wrong width."""
    with pytest.raises(ValueError, match=r"n_components=5 .* n_samples=4"):
        GeneralizedHebbian(5).fit(X[:4])
    gain = Constant(0.1) * Annealing(passes=1)
    with pytest.raises(ValueError, match=r"Annealing\(iterations=...\)"):
        GeneralizedHebbian(2, gain=gain).partial_fit(X)
    with pytest.raises(ValueError, match="X has 3 columns, but the codes have 2 components"):
        GeneralizedHebbian(2).fit(X).inverse_transform(X[:, :3])
    with pytest.raises(ValueError, match="X contains NaN"):
        GeneralizedHebbian(2).fit(X * np.nan)


def test_a_stream_may_come_one_sample_at_a_time(X):
    """Batches may be smaller than the number of components, down to single samples."""
    stream = GeneralizedHebbian(4, random_state=0)
    for row in X[:30]:
        stream.partial_fit(row[None])
    whole = GeneralizedHebbian(4, random_state=0).partial_fit(X[:30])
    np.testing.assert_allclose(stream.components_, whole.components_, atol=1e-12)
