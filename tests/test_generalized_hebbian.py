"""GeneralizedHebbian: equal to the literal rules in any blocks, and in the end to PCA."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from akpca.book import reference
from akpca.hebbian import DivergenceError, Gain, GeneralizedHebbian, generalized
from akpca.hebbian.generalized import FORGETTING

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


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("block_size", [1, 7, 64])
@pytest.mark.parametrize("passes", [None, 0.5])
def test_blocks_equal_the_literal_rule(X, rule, block_size, passes):
    """(7) and (8), one sample at a time, give the same weights as any blocks, over two passes."""
    options = dict(gain=Gain(0.05, passes=passes), n_passes=2, shuffle=False, random_state=4)
    model = GeneralizedHebbian(3, rule=rule, block_size=block_size, **options).fit(X)
    W, tau = start_weights(3, X.shape[1], 4), passes and passes * len(X)
    for t, x in enumerate(np.tile(X - X.mean(axis=0), (2, 1)), start=1):
        W = STEPS[rule](W, x, 0.05 * (tau / (t + tau) if tau else 1))  # (9)
    np.testing.assert_allclose(raw_weights(model), W, rtol=1e-10, atol=1e-12)
    assert model.n_steps_ == 2 * len(X)


def tracking_stream(X, W, rule):
    """The rules with the gain "auto", as the documentation states it."""
    outputs = []
    for t, row in enumerate(X, start=1):
        x = row - X[:t].mean(axis=0)
        y = W @ x
        outputs.append(y)
        powers = (np.arange(1, t + 1) / t) ** FORGETTING
        energy = powers @ np.square(outputs)
        if rule == "oja":
            energy = np.full(len(y), energy.mean())
        bound = max(x @ x, y @ y)
        eta = np.where(bound > 0, 1 / np.maximum(np.maximum(energy, bound), 1e-300), 0)
        yy = np.outer(y, y)
        W = W + eta[:, None] * (np.outer(y, x) - (np.tril(yy) if rule == "sanger" else yy) @ W)
    counted = powers @ (1 - 1 / np.arange(1, t + 1))
    return W, (powers @ np.square(outputs)) / counted / np.sum(W**2, axis=1)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("block_size", [1, 7, 64])
def test_auto_equals_its_formula(X, rule, block_size):
    """ "auto" follows the documented formula literally, and so do the variances published."""
    model = GeneralizedHebbian(3, rule=rule, block_size=block_size, random_state=4).partial_fit(X)
    W, variances = tracking_stream(X, start_weights(3, X.shape[1], 4), rule)
    np.testing.assert_allclose(raw_weights(model), W, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(model.explained_variance_, variances, rtol=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    cuts=st.lists(st.integers(1, 149), max_size=6),
    block_size=st.integers(1, 70),
    rule=st.sampled_from(RULES),
    center=st.booleans(),
    gain=st.sampled_from(["auto", Gain(0.003), Gain(0.005, iterations=50)]),
)
def test_a_stream_of_batches_equals_one_pass(cuts, block_size, rule, center, gain):
    """How a stream is cut into batches, and these into blocks, changes nothing."""
    X = make_data(150, 9)
    options = dict(rule=rule, gain=gain, center=center, random_state=1)
    whole = GeneralizedHebbian(3, **options).partial_fit(X)
    stream = GeneralizedHebbian(3, block_size=block_size, **options)
    for batch in np.split(X, sorted(set(cuts))):
        stream.partial_fit(batch)
    for name in ("components_", "norms_", "mean_", "explained_variance_"):
        ours, theirs = getattr(stream, name), getattr(whole, name)
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12, err_msg=name)
    assert stream.n_samples_seen_ == stream.n_steps_ == len(X)
    assert stream.n_iter_ == whole.n_iter_ == 1


def test_partial_fit_goes_on_after_fit(X):
    """The steps, the mean and the weights continue."""
    model = GeneralizedHebbian(2, n_passes=3, random_state=0).fit(X[:100])
    before = model.components_
    model.partial_fit(X[100:])
    assert (model.n_steps_, model.n_samples_seen_, model.n_iter_) == (350, 150, 3)
    np.testing.assert_allclose(model.mean_, X.mean(axis=0))
    assert np.abs(np.sum(before * model.components_, axis=1)).min() > 0.9


def test_sanger_converges_to_pca():
    """Directions, norms, order and eigenvalues are PCA's: not only the angles."""
    X = make_data(400, 8, decay=0.7)
    model, exact = GeneralizedHebbian(4, n_passes=60, random_state=0).fit(X), PCA(4).fit(X)
    assert np.abs(np.sum(model.components_ * exact.components_, axis=1)).min() > 1 - 1e-5
    np.testing.assert_allclose(model.norms_, 1, atol=1e-3)
    np.testing.assert_allclose(model.explained_variance_, exact.explained_variance_, rtol=1e-4)
    codes, expected = model.transform(X), exact.transform(X)
    atol = 0.02 * X.std()
    np.testing.assert_allclose(np.abs(codes), np.abs(expected), atol=atol)
    rebuilt = model.inverse_transform(codes)
    np.testing.assert_allclose(rebuilt, exact.inverse_transform(expected), atol=atol)


def test_more_components_than_rank():
    """Components without variance do the others no harm, and their norms tell which they are."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 2)) * [3, 1] @ rng.standard_normal((2, 6))
    model = GeneralizedHebbian(5, n_passes=30, random_state=0).fit(X)
    exact = PCA(2).fit(X).explained_variance_
    np.testing.assert_allclose(model.explained_variance_[:2], exact, rtol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1)
    np.testing.assert_allclose(model.norms_[:2], 1, atol=0.01)
    assert model.norms_[2:].max() < 0.9


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_auto_is_free_of_the_unit(X, rule, scale):
    """Data in other units have the same components, and variances in the units' square."""
    one, other = (GeneralizedHebbian(3, rule=rule, random_state=0).fit(X * s) for s in (1, scale))
    np.testing.assert_allclose(other.components_, one.components_, atol=1e-8)
    variances = one.explained_variance_ * scale**2
    np.testing.assert_allclose(other.explained_variance_, variances, rtol=1e-8)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_values_whose_variance_overflows(X, method):
    """They are refused without a trace; values whose squares vanish ask for no step."""
    for dtype, scale in ((np.float32, 1e20), (np.float64, 1e155)):
        model = GeneralizedHebbian(2, random_state=0).partial_fit(X.astype(dtype))
        before = model.transform(X)
        with pytest.raises(ValueError, match=f"allowed in {dtype.__name__} are at most"):
            getattr(model, method)((X * scale).astype(dtype))
        np.testing.assert_array_equal(model.transform(X), before)
    tiny = getattr(GeneralizedHebbian(2, random_state=0), method)(X * 1e-200)
    assert np.isfinite(tiny.transform(X)).all()


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(2, 120),
    d=st.integers(1, 12),
    r=st.integers(1, 12),
    rule=st.sampled_from(RULES),
    center=st.booleans(),
    tail=st.sampled_from(["cauchy", "one outlier", "powers", "constant", "repeated"]),
    scale=st.sampled_from([1e-20, 1e-3, 1.0, 1e3, 1e20]),
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
    else:
        X = X[rng.integers(1 if tail == "constant" else min(2, n), size=n)]
    options = dict(rule=rule, center=center, n_passes=3, block_size=16, random_state=seed)
    model = GeneralizedHebbian(min(r, n, d), **options)
    for fitted in (model.fit(X * scale), clone(model).partial_fit(X * scale)):
        assert fitted.norms_.max() < 10
        np.testing.assert_allclose(np.linalg.norm(fitted.components_, axis=1), 1)
        assert np.isfinite(fitted.explained_variance_).all()


def test_divergence_in_a_stream_keeps_the_last_good_state(X):
    """The batch that ran away leaves no trace, and the stream can go on with another gain."""
    model = GeneralizedHebbian(2, gain=Gain(0.05), block_size=10, random_state=0)
    model.partial_fit(X)
    good = pickle.loads(pickle.dumps(model))
    with pytest.raises(DivergenceError, match=r"eta0.*0.05.*smaller eta0, or gain='auto'"):
        model.partial_fit(1e4 * X)
    for name in ("components_", "mean_", "norms_", "explained_variance_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(good, name))
    model.set_params(gain="auto").partial_fit(X)
    good.set_params(gain="auto").partial_fit(X)
    np.testing.assert_array_equal(model.components_, good.components_)
    assert np.isfinite(model.set_params(gain="auto").partial_fit(1e4 * X).components_).all()


@pytest.mark.parametrize("blocks", [30, 4])
def test_interrupt_keeps_what_was_reached(X, monkeypatch, blocks):
    """Ctrl-C ends the fit with a warning, and the last whole block counts."""
    block, calls = generalized.linear_block, []

    def interrupted(*args):
        if len(calls) == blocks:
            raise KeyboardInterrupt
        calls.append(1)
        return block(*args)

    model = GeneralizedHebbian(2, block_size=10, random_state=0)
    monkeypatch.setattr(generalized, "linear_block", interrupted)
    with pytest.warns(ConvergenceWarning, match=f"interrupted .*{10 * blocks} steps") as caught:
        model.fit(X)
    assert caught[0].filename == __file__
    assert (model.n_steps_, model.n_iter_) == (10 * blocks, blocks // 15)
    assert np.isfinite(model.transform(X)).all()
    monkeypatch.undo()
    expected = clone(model).set_params(n_passes=2).fit(X)
    assert np.array_equal(model.components_, expected.components_) == (blocks == 30)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_float32_is_kept(X, method):
    """float32 in, float32 out, and the same result to single precision."""
    X32 = X.astype(np.float32)
    model, exact = (GeneralizedHebbian(3, n_passes=3, random_state=0) for _ in range(2))
    getattr(model, method)(X32), getattr(exact, method)(X)
    for name in ("components_", "mean_", "norms_", "explained_variance_"):
        assert getattr(model, name).dtype == np.float32
        np.testing.assert_allclose(getattr(model, name), getattr(exact, name), atol=1e-4)
    codes = model.transform(X32)
    assert codes.dtype == model.inverse_transform(codes).dtype == np.float32


@pytest.mark.parametrize("rule", RULES)
def test_reconstruction_is_a_projection(X, rule):
    """Even far from convergence, codes survive the round trip, and what is left has none."""
    model = GeneralizedHebbian(4, rule=rule, random_state=0).partial_fit(X[:20])
    gram = model.components_ @ model.components_.T
    assert np.abs(gram - np.eye(4)).max() > 1e-3  # not orthogonal yet
    codes = model.transform(X)
    rebuilt = model.inverse_transform(codes)
    np.testing.assert_allclose(model.transform(rebuilt), codes, atol=1e-10)
    np.testing.assert_allclose((X - rebuilt) @ model.components_.T, 0, atol=1e-10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(n_components=10), "n_components=10 .* n_features=9"),
        (dict(rule="hebb"), "rule"),
        (dict(gain="KHA/xt"), "gain='KHA/xt' must be 'auto' or a Gain, such as .*make_gain"),
        (dict(gain=Gain(1.0, reciprocal=True)), "constant or annealed"),
        (dict(gain=Gain(1.0, mu=0.1)), "or 'auto'"),
        (dict(block_size=0), "block_size"),
    ],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_bad_arguments_are_named(X, options, message, method):
    """Errors say which argument was wrong and what is allowed."""
    with pytest.raises(ValueError, match=message):
        getattr(GeneralizedHebbian(**options), method)(X)


def test_other_bad_input_is_named(X):
    """Numbers of components, passes of a stream, codes of the wrong width."""
    with pytest.raises(ValueError, match=r"n_components=5 .* n_samples=4"):
        GeneralizedHebbian(5).fit(X[:4])
    with pytest.raises(ValueError, match="goes on from 2 components"):
        GeneralizedHebbian(2).fit(X).set_params(n_components=3).partial_fit(X)
    with pytest.raises(ValueError, match=r"Gain\(iterations=...\)"):
        GeneralizedHebbian(2, gain=Gain(0.1, passes=1)).partial_fit(X)
    with pytest.raises(ValueError, match="X has 3 columns, but the codes have 2 components"):
        GeneralizedHebbian(2).fit(X).inverse_transform(X[:, :3])
    with pytest.raises(ValueError, match="X contains NaN"):
        GeneralizedHebbian(2).fit(X * np.nan)
