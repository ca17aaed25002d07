"""The closed-form decoder: its parts as formulas, and what users expect of decoder='ridge'."""

import pickle
import warnings

import numpy as np
import pytest
from helpers import assert_same_up_to_sign, interrupt_anywhere
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

from akpca import AKPCA, DataSpanAKPCA, load_dataset, pca, relative_error
from akpca.autoencoding import Span, cleaning, heuristics, ridge
from akpca.autoencoding.cleaning import Cleaner, cleaned_copies
from akpca.autoencoding.coordinates import Coordinates
from akpca.autoencoding.heuristics import code_gamma
from akpca.autoencoding.ridge import LEAST_RIDGE, Products, Regression, RidgeDecoder, learn

# Between the first and the last of those that a fit chooses from.
RIDGE = 0.01

both = pytest.mark.parametrize("cls", [AKPCA, DataSpanAKPCA], ids=lambda cls: cls.__name__)


def make_arc(n, seed=0):
    """Return noisy points of a parabola in 5 dimensions, none of which it is aligned with."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(-1, 1, n)
    axes = np.linalg.qr(np.random.default_rng(9).standard_normal((5, 5)))[0]
    return np.outer(t, axes[0]) + np.outer(t**2, axes[1]) + 0.02 * rng.standard_normal((n, 5))


def gaussian(n, seed=0):
    """Return samples without any structure beyond their variances."""
    return np.random.default_rng(seed).standard_normal((n, 6)) * 0.6 ** np.arange(6)


def normalised(X):
    """Return samples along their principal axes with mean squared norm 1 and a last coordinate."""
    X = X - X.mean(axis=0)
    X = X @ np.linalg.svd(X, full_matrices=False)[2].T
    return np.hstack([X / np.sqrt(np.mean(np.sum(X**2, axis=1))), np.ones((len(X), 1))])


def random_decoder(k=3, d=6, n=80, ridge=RIDGE, seed=0):
    """Return a decoder of codes that samples depend on in a smooth way, the codes and samples."""
    rng = np.random.RandomState(seed)
    Y = rng.standard_normal((n, k))
    Z = np.tanh(Y @ rng.standard_normal((k, d))) + 0.1 * rng.standard_normal((n, d))
    return RidgeDecoder.fit(Y, Z, 20, ridge, rng), Y, Z


def errors_of(decoder, Y, Z):
    return np.sum((decoder.decode(Y) - Z) ** 2, axis=1)


def reconstructed(model, X):
    return model.inverse_transform(model.transform(X))


def error(model, X):
    return relative_error(X, reconstructed(model, X))


def pca_error(X, X_new, k):
    return relative_error(X_new, pca(X, k).reconstruct(X_new))


@pytest.fixture
def chosen(monkeypatch):
    """Let fits skip the choice of a ridge, which makes rounds of its own."""
    monkeypatch.setattr(ridge, "_choose_ridge", lambda *_: RIDGE)


# ------------------------------------------------------------------------------- the decoder


@pytest.mark.parametrize("strength", [RIDGE, np.inf])
def test_fit_is_a_dense_ridge_regression(strength):
    """Weights solve the normal equations of kernel values less their means, codes and 1; the
    penalty of a centre is relative to the variance of all kernel values."""
    decoder, Y, Z = random_decoder(ridge=strength)
    C, n = decoder.centers, len(Y)
    squares = np.sum((Y[:, None] - C) ** 2, axis=2)
    K = 1 / (1 + code_gamma(3) * squares)
    K -= K.mean(axis=0)
    F = np.hstack([K, Y, np.ones((n, 1))])
    penalties = np.full(F.shape[1], n * LEAST_RIDGE)
    if len(C):
        penalties[: len(C)] = strength * np.sum(K**2) / n
    expected = np.linalg.solve(F.T @ F + np.diag(penalties), F.T @ Z)
    np.testing.assert_allclose(decoder.weights, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(decoder.decode(Y), F @ expected, atol=1e-9)


def test_centres_are_codes():
    """Each centre is a code of a sample, and none comes twice."""
    decoder, Y, _ = random_decoder()
    distances = np.abs(decoder.centers[:, None] - Y).max(axis=2)
    assert decoder.centers.shape == (20, 3)
    assert len(set(np.argmin(distances, axis=1))) == 20
    assert distances.min(axis=1).max() == 0


def test_an_infinite_ridge_needs_no_centres():
    """Such a decoder is linear: it has weights for the codes and for 1."""
    decoder, *_ = random_decoder(ridge=np.inf)
    assert decoder.centers.shape == (0, 3)
    assert decoder.weights.shape == (4, 6)


def test_gradients_are_errors_and_finite_differences():
    """Errors are ||g(y) - z||^2, and their gradients agree with central differences to 1e-6."""
    decoder, Y, Z = random_decoder()
    Y = Y + 0.3 * np.random.default_rng(1).standard_normal(Y.shape)
    errors, G = decoder.gradients(Y, Z)
    np.testing.assert_allclose(errors, errors_of(decoder, Y, Z), rtol=1e-10)
    h = 1e-6
    for j, step in enumerate(h * np.eye(3)):
        slopes = (errors_of(decoder, Y + step, Z) - errors_of(decoder, Y - step, Z)) / (2 * h)
        np.testing.assert_allclose(G[:, j], slopes, atol=1e-6 * np.abs(G).max())


def test_slopes_are_finite_differences():
    """The mean squared length of dg/dy_j, for each j."""
    decoder, Y, _ = random_decoder()
    h = 1e-6
    expected = [
        np.mean(np.sum(((decoder.decode(Y + s) - decoder.decode(Y - s)) / (2 * h)) ** 2, axis=1))
        for s in h * np.eye(3)
    ]
    np.testing.assert_allclose(decoder.slopes(Y), expected, rtol=1e-6)


def test_nearest_is_the_nearest():
    """By brute force: no other point is nearer to the sample."""
    decoder, _, Z = random_decoder()
    points = decoder.decode(decoder.centers)
    distances = np.sum((points - Z[:, None]) ** 2, axis=2)
    np.testing.assert_array_equal(ridge.nearest(points, Z), np.argmin(distances, axis=1))


@pytest.mark.parametrize("axes", [2, np.eye(6)[:, [4, 1]]], ids=["first", "any"])
def test_along_decodes_along_axes(axes):
    """Some axes of what is decoded, without the others."""
    decoder, Y, _ = random_decoder()
    expected = decoder.decode(Y) @ (np.eye(6)[:, :axes] if isinstance(axes, int) else axes)
    np.testing.assert_allclose(decoder.along(axes).decode(Y), expected, atol=1e-12)


@pytest.mark.parametrize("steps", [1, 4, 16])
def test_search_lets_no_error_grow(steps):
    """From any codes, near or far, each sample's error is at most what it was, and is told."""
    decoder, Y, Z = random_decoder()
    begin = (
        Y + np.random.default_rng(1).standard_normal(Y.shape) * np.logspace(-3, 2, len(Y))[:, None]
    )
    before = decoder.gradients(begin, Z)[0]
    found, errors = decoder.search(begin, Z, steps, decoder.slopes(Y))
    assert np.all(errors <= before)
    assert np.mean(errors < before) > 0.9
    np.testing.assert_allclose(errors, errors_of(decoder, found, Z), rtol=1e-9)


def test_search_in_batches_is_the_same(monkeypatch):
    """The number of samples that are searched at a time makes no difference but rounding."""
    decoder, Y, Z = random_decoder()
    found, _ = decoder.search(np.zeros_like(Y), Z, 4, decoder.slopes(Y))
    monkeypatch.setattr(ridge, "SEARCH_ROWS", 7)
    again, _ = decoder.search(np.zeros_like(Y), Z, 4, decoder.slopes(Y))
    np.testing.assert_allclose(again, found, atol=1e-9)


def test_search_of_a_linear_decoder_reaches_pca():
    """With PCA's codes as regressors, the least errors are PCA's, from any codes."""
    X = gaussian(200)
    X -= X.mean(axis=0)
    linear = pca(X, 3)
    Y = linear.encode(X)
    Y /= Y.std(axis=0)
    decoder = RidgeDecoder.fit(Y, X, 20, np.inf, np.random.RandomState(0))
    begin = np.random.default_rng(1).standard_normal(Y.shape)
    _, errors = decoder.search(begin, X, 60, decoder.slopes(Y))
    expected = np.sum((X - linear.reconstruct(X)) ** 2, axis=1)
    np.testing.assert_allclose(errors, expected, rtol=1e-6, atol=1e-9)


# ------------------------------------------------------------------------------- the encoder


def assert_forms_are_features(basis, Z, size):
    """z^T A_j z is the sum of features with coefficients, and the A_j are symmetric."""
    T = np.random.default_rng(2).standard_normal((3, size))
    A = basis.forms(T)
    np.testing.assert_allclose(A, A.transpose(0, 2, 1), atol=1e-12)
    expected = np.einsum("ir,jrs,is->ij", Z, A, Z)
    np.testing.assert_allclose(basis.features(Z) @ T.T, expected, atol=1e-10)


@pytest.mark.parametrize("leading", [1, 3, 5])
def test_products_are_quadratic_forms(leading):
    """Products of leading axes, linear terms of all axes and a constant."""
    Z = np.random.default_rng(0).standard_normal((20, 6))
    Z[:, -1] = 0.7
    size = leading * (leading + 1) // 2 + 6
    assert Products(leading, 5).features(Z).shape == (20, size)
    assert_forms_are_features(Products(leading, 5), Z, size)


@pytest.mark.parametrize("constant", [False, True])
def test_a_span_is_quadratic_forms(constant):
    """Coordinates in the span of landmarks, with linear and constant terms or without."""
    rng = np.random.default_rng(0)
    span = Span(rng.standard_normal((8, 5)), constant=constant)
    assert_forms_are_features(span, rng.standard_normal((20, 5 + constant)), span.size)


# ------------------------------------------------------------------------------------ learning


def test_learn_follows_a_curve():
    """One component, on samples that were not seen: a small part of PCA's error."""
    Z = normalised(make_arc(600))
    train, Z_new = Z[:400], Z[400:]
    options = {"unit": 1.0, "turned": True, "rng": np.random.RandomState(0)}
    model = learn(train, 1, Products(5, 5), 6, **options).model
    decoded = np.vstack([block for _, block, _ in model.decode(model.encode(Z_new))])
    linear = np.sum(Z_new[:, 1:-1] ** 2)
    assert np.sum((decoded - Z_new[:, :-1]) ** 2) < 0.1 * linear


def test_learn_of_samples_of_rank_k_is_none():
    """What PCA rebuilds as it is needs no other decoder."""
    Z = normalised(gaussian(50)[:, :2] @ np.ones((2, 4)) + gaussian(50)[:, 2:3])
    Z = np.hstack([Z[:, :2], Z[:, -1:]])
    options = {"unit": 1.0, "turned": True, "rng": np.random.RandomState(0)}
    assert learn(Z, 2, Products(2, 2), 6, **options) is None


@both
def test_strong_axes_and_noise_are_left_to_pca(cls):
    """Where there is nothing else to learn, reconstructions are PCA's, to 1e-4 of their size."""
    scales = np.array([3, 2, 1] + 17 * [0.3])
    X, X_new = (np.random.default_rng(s).standard_normal((300, 20)) * scales for s in (0, 1))
    model = cls(3, decoder="ridge", random_state=0).fit(X)
    assert model.inverse_centers_.shape == (0, 3)
    X_hat, expected = reconstructed(model, X_new), pca(X, 3).reconstruct(X_new)
    assert np.linalg.norm(X_hat - expected) < 1e-4 * np.linalg.norm(expected)


@both
def test_codes_that_are_left_to_pca_are_pcas(cls):
    """In the units of PCA, and in its order."""
    scales = np.array([3, 2, 1] + 17 * [0.3])
    X = np.random.default_rng(0).standard_normal((300, 20)) * scales
    model = cls(3, decoder="ridge", random_state=0).fit(X)
    assert_same_up_to_sign(model.transform(X), pca(X, 3).encode(X), atol=1e-4)


@both
def test_curves_are_followed(cls):
    """One component has a small part of PCA's held-out error, by default."""
    X, X_new = make_arc(400), make_arc(200, seed=1)
    assert error(cls(1, random_state=0).fit(X), X_new) < 0.1 * pca_error(X, X_new, 1)


@pytest.mark.parametrize("k", [2, 5, 10])
@both
def test_digits_have_half_the_error_of_pca(cls, k):
    """Half of the digits of 8x8, rebuilt by what was learned from the others, by default."""
    X = load_dataset("digits").X
    X, X_new = X[::2], X[1::2]
    assert error(cls(k, random_state=0).fit(X), X_new) < 0.5 * pca_error(X, X_new, k)


def test_codes_are_those_with_the_least_error():
    """No other code of a fine grid is decoded nearer to samples."""
    X, X_new = make_arc(400), make_arc(100, seed=1)
    model = AKPCA(1, decoder="ridge", random_state=0).fit(X)
    codes = model.transform(X_new)
    grid = np.linspace(1.2 * codes.min(), 1.2 * codes.max(), 4000)[:, None]
    least = np.sum((model.inverse_transform(grid) - X_new[:, None]) ** 2, axis=2).min(axis=1)
    found = np.sum((model.inverse_transform(codes) - X_new) ** 2, axis=1)
    assert np.all(found <= 1.001 * least + 1e-9)


@both
def test_rounds_lower_the_error(cls):
    """loss_curve_ is the mean squared error of each round; monitor_curve_ begins with PCA's."""
    X = load_dataset("digits").X[:600]
    model = cls(5, decoder="ridge", n_epochs=4, random_state=0).fit(X)
    assert model.n_iter_ == model.best_epoch_ == len(model.loss_curve_) == 4
    assert model.monitor_curve_[1:] == model.loss_curve_
    linear = np.mean(np.sum((X - pca(X, 5).reconstruct(X)) ** 2, axis=1))
    assert model.monitor_curve_[0] == pytest.approx(linear, rel=1e-6)
    assert model.monitor_curve_ == sorted(model.monitor_curve_, reverse=True)


@both
def test_the_curve_ends_near_the_error_of_the_model(cls):
    """What the last round has told is what a user sees, to a few per cent."""
    X = load_dataset("digits").X[:600]
    model = cls(5, decoder="ridge", random_state=0).fit(X)
    true = np.mean(np.sum((X - reconstructed(model, X)) ** 2, axis=1))
    assert true == pytest.approx(model.loss_curve_[-1], rel=0.1)


@both
def test_more_samples_than_the_rounds_take(cls, monkeypatch):
    """The rounds see some samples only, the last decoder all of them: it is the better for it."""
    X, X_new = make_arc(1500), make_arc(200, seed=1)
    monkeypatch.setattr(ridge.heuristics, "ROUND_SAMPLES", 100)
    many, few = (cls(1, decoder="ridge", random_state=0).fit(x) for x in (X, X[:100]))
    assert len(many.inverse_centers_) > len(few.inverse_centers_)
    assert error(many, X_new) < error(few, X_new)


# ------------------------------------------------------------------------------ the estimators


@both
def test_same_seed_same_bits(cls):
    """Twice the same; another seed, another result."""
    X = make_arc(200)
    model = cls(1, decoder="ridge")
    codes = [clone(model).set_params(random_state=s).fit(X).transform(X) for s in (0, 0, 1)]
    np.testing.assert_array_equal(codes[0], codes[1])
    assert not np.array_equal(codes[0], codes[2])


@both
def test_auto_is_ridge_where_it_can_be(cls):
    """The default has the codes of decoder='ridge', to the bit."""
    X = make_arc(200)
    auto, model = (
        cls(1, decoder=name, random_state=0).fit(X).transform(X) for name in ("auto", "ridge")
    )
    np.testing.assert_array_equal(auto, model)


@pytest.mark.parametrize(
    "options",
    [{"n_components": 5}, {"solver": "sgd"}, {"penalty": 0.1}, {"learning_rate": 0.1}],
    ids=str,
)
@both
def test_auto_is_the_eigenvector_elsewhere(cls, options):
    """As many components as features, or a parameter of the descent: that is what is fitted."""
    X = make_arc(100)
    options = {"n_components": 1, "n_epochs": 2, "random_state": 0, **options}
    auto, model = (
        cls(decoder=name, **options).fit(X).transform(X) for name in ("auto", "eigenvector")
    )
    np.testing.assert_array_equal(auto, model)


@both
def test_auto_takes_samples_of_low_rank(cls):
    """As many components as the rank: the eigenvector, which is able to rebuild them."""
    X = make_arc(100)[:, :2] @ np.random.default_rng(0).standard_normal((2, 6))
    model = cls(2, n_epochs=10, random_state=0).fit(X)
    assert len(model.gap_curve_) == 11
    assert error(model, X) < 0.05


@both
def test_float32_stays_float32(cls):
    """float32 in, float32 out, with nearly the results of float64."""
    X = make_arc(300)
    model = cls(1, decoder="ridge", random_state=0)
    single, double = clone(model).fit(X.astype(np.float32)), clone(model).fit(X)
    codes = single.transform(X.astype(np.float32))
    X_hat = single.inverse_transform(codes)
    assert codes.dtype == X_hat.dtype == single.encoder_.dtype == np.float32
    assert np.linalg.norm(X_hat - reconstructed(double, X)) < 1e-3 * np.linalg.norm(X)


@pytest.mark.parametrize("factor", [1e-100, 1e-3, 1e3, 1e100])
@both
def test_codes_have_the_units_of_the_samples(cls, factor):
    """Samples times a factor have codes, and are rebuilt, times that factor."""
    X = make_arc(200)
    model = cls(1, decoder="ridge", random_state=0)
    plain, scaled = clone(model).fit(X), clone(model).fit(factor * X)
    codes = plain.transform(X)
    np.testing.assert_allclose(scaled.transform(factor * X) / factor, codes, atol=1e-6)
    X_hat = scaled.inverse_transform(factor * codes) / factor
    np.testing.assert_allclose(X_hat, plain.inverse_transform(codes), atol=1e-6)


@both
def test_turned_samples_give_turned_answers(cls):
    """A rotation of the features turns reconstructions, and changes no error."""
    X = make_arc(200)
    Q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 5)))
    model = cls(1, decoder="ridge", random_state=0)
    straight, turned = reconstructed(clone(model).fit(X), X), reconstructed(model.fit(X @ Q), X @ Q)
    assert relative_error(straight, turned @ Q.T) < 1e-6


@both
def test_fit_transform_pickles_and_clones(cls):
    """All give the same codes, to the bit."""
    X = make_arc(200)
    model = cls(1, decoder="ridge", random_state=0)
    codes = clone(model).fit(X).transform(X)
    np.testing.assert_array_equal(clone(model).fit_transform(X), codes)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model.fit(X))).transform(X), codes)


@both
def test_codes_do_not_depend_on_other_samples(cls):
    """Samples are encoded one by one as all together."""
    X, X_new = make_arc(200), make_arc(20, seed=1)
    model = cls(1, decoder="ridge", random_state=0).fit(X)
    single = np.vstack([model.transform(x[None]) for x in X_new])
    np.testing.assert_allclose(single, model.transform(X_new), atol=1e-9)


@both
def test_encoder_says_where_the_search_begins(cls):
    """z^T A_j z of encoder_, in the units of X, is near the codes, where these are as simple."""
    X = make_arc(300)
    model = cls(1, decoder="ridge", random_state=0).fit(X)
    Z = np.hstack([X - model.mean_, np.full((len(X), 1), model.constant_)])
    begin, codes = np.einsum("ir,jrs,is->ij", Z, model.encoder_, Z), model.transform(X)
    assert np.linalg.norm(begin - codes) < 0.1 * np.linalg.norm(codes)


def test_encoder_coefficients_are_those_of_the_encoder():
    """Quadratic terms of encoder_ are sums of landmarks with encoder_coef_, in the units of X."""
    X = 5 * make_arc(100)
    model = DataSpanAKPCA(1, decoder="ridge", n_landmarks=30, random_state=0).fit(X)
    Z = model.landmarks_ - model.mean_
    quadratic = np.einsum("ji,ir,is->jrs", model.encoder_coef_, Z, Z)
    np.testing.assert_allclose(model.encoder_[:, :5, :5], quadratic, atol=1e-8)


@both
def test_the_decoder_is_its_attributes(cls):
    """Less kernel values with inverse_centers_ times dual_coef_, samples are linear in codes."""
    X = 5 * gaussian(200)
    model = cls(2, decoder="ridge", random_state=0).fit(X)
    C, W, codes = model.inverse_centers_, model.dual_coef_, model.transform(X)
    assert C.shape == (100, 2)
    assert W.shape == (100, 6)
    spreads = model.scale_ * model._model.spreads
    squares = np.sum(((codes[:, None] - C) / spreads) ** 2, axis=2)
    rest = model.inverse_transform(codes) - 1 / (1 + code_gamma(2) * squares) @ W
    F = np.hstack([codes, np.ones((200, 1))])
    np.testing.assert_allclose(F @ np.linalg.lstsq(F, rest)[0], rest, atol=1e-8)


@both
def test_there_are_no_eigenvalues_to_watch(cls):
    """gap_curve_ is empty."""
    assert cls(1, decoder="ridge", random_state=0).fit(make_arc(100)).gap_curve_ == []


@pytest.mark.parametrize("name", ["decoder_", "decoder_offset_", "decoder_coef_"])
def test_a_ridge_has_no_matrices_to_decode_with(name):
    """They are missing, with a message that names the decoder that has them."""
    model = DataSpanAKPCA(1, decoder="ridge", random_state=0).fit(make_arc(100))
    with pytest.raises(AttributeError, match=f"{name} needs decoder='eigenvector'"):
        getattr(model, name)


@pytest.mark.parametrize("name", ["inverse_centers_", "dual_coef_"])
@both
def test_an_eigenvector_has_no_centres(cls, name):
    """They are missing, with a message that names the decoder that has them."""
    model = cls(1, decoder="eigenvector", n_epochs=1, random_state=0).fit(make_arc(100))
    with pytest.raises(AttributeError, match=f"{name} needs decoder='ridge'"):
        getattr(model, name)


# ----------------------------------------------------------------- callbacks and interrupts


def rounds_until_interrupt(monkeypatch, at):
    """Let the round of this number, from 1, raise KeyboardInterrupt."""
    count, make = 0, ridge._round

    def interrupted(*args):
        nonlocal count
        count += 1
        if count == at:
            raise KeyboardInterrupt
        return make(*args)

    monkeypatch.setattr(ridge, "_round", interrupted)


@both
def test_an_interrupt_keeps_what_the_rounds_have_learned(cls, chosen, monkeypatch):
    """In the third round: one warning, and the whole model of a fit with two rounds."""
    X = make_arc(200)
    model = cls(1, decoder="ridge", random_state=0)
    two = clone(model).set_params(n_epochs=2).fit(X)
    rounds_until_interrupt(monkeypatch, 3)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.fit(X)
    assert [w.category for w in seen] == [ConvergenceWarning]
    assert "interrupted in round 3" in str(seen[0].message)
    assert seen[0].filename == __file__
    assert model.n_iter_ == len(model.loss_curve_) == 2
    np.testing.assert_array_equal(model.transform(X), two.transform(X))


@both
def test_an_interrupt_before_the_first_round_is_raised(cls, chosen, monkeypatch):
    """There is no new model yet: the old one stays."""
    X = make_arc(200)
    model = cls(1, decoder="ridge", random_state=0).fit(X)
    codes = model.transform(X)
    rounds_until_interrupt(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(make_arc(200, seed=1))
    np.testing.assert_array_equal(model.transform(X), codes)


def test_an_interrupt_of_the_choice_is_raised(monkeypatch):
    """The rounds that choose a ridge leave no model behind."""
    model = AKPCA(1, decoder="ridge", random_state=0)
    rounds_until_interrupt(monkeypatch, 3)
    with pytest.raises(KeyboardInterrupt):
        model.fit(make_arc(200))
    assert vars(model).keys() == model.get_params().keys()


@both
def test_an_interrupt_while_all_samples_are_encoded_keeps_the_rounds(cls, chosen, monkeypatch):
    """The last decoder is then one of the samples of the rounds."""
    X = make_arc(300)
    monkeypatch.setattr(ridge.heuristics, "ROUND_SAMPLES", 100)

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ridge.RidgeModel, "encode", interrupt)
        with pytest.warns(ConvergenceWarning, match="interrupted"):
            model = cls(1, decoder="ridge", random_state=0).fit(X)
    assert error(model, X) < 0.1 * pca_error(X, X, 1)


def test_an_interrupt_anywhere_leaves_one_model_as_a_whole(chosen):
    """At each line of a fit: a model whose curves have a value for each round, and one warning, or
    no trace."""
    X = make_arc(30)

    def make():
        return AKPCA(1, decoder="ridge", n_epochs=3, random_state=0)

    def check(model):
        assert 0 < model.n_iter_ == len(model.loss_curve_) == len(model.monitor_curve_) - 1
        assert np.isfinite(model.transform(X)).all()

    interrupt_anywhere(make, X, ("fit", "_fit_ridge", "learn", "_keep", "_model"), check)


@both
def test_callback_gets_a_model_after_each_round(cls):
    """It is called n_epochs times, each time with an estimator that encodes and decodes."""
    X, seen = make_arc(200), []

    def callback(state):
        assert state.loss == state.model.loss_curve_[-1]
        seen.append((state.n_iter, state.n_iter_max, error(state.model, X) < 1))

    cls(1, decoder="ridge", n_epochs=3, random_state=0, callback=callback).fit(X)
    assert seen == [(1, 3, True), (2, 3, True), (3, 3, True)]


@both
def test_a_true_answer_stops_the_rounds(cls):
    """The fit ends with the round after which the callback says so, and keeps a model."""
    X = make_arc(200)
    model = cls(1, decoder="ridge", callback=lambda state: state.n_iter == 2, random_state=0).fit(X)
    assert model.n_iter_ == len(model.loss_curve_) == 2
    assert error(model, X) < pca_error(X, X, 1)


@both
def test_no_round_is_a_decoder_of_the_codes_of_pca(cls):
    """n_epochs=0 has a model as well, which is better than PCA where codes tell more."""
    X = make_arc(200)
    model = cls(1, decoder="ridge", n_epochs=0, random_state=0).fit(X)
    assert model.loss_curve_ == []
    assert error(model, X) < pca_error(X, X, 1)


# --------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "sgd"}, r"decoder='ridge' has no descent, so that solver can't be set"),
        ({"offset": False, "penalty": 0.1}, "offset, penalty can't be set"),
        ({"warm_start": True}, "warm_start can't be set.*decoder='eigenvector'"),
        ({"n_components": 5}, "n_components=5 must be less than .* n_features = 5"),
        ({"decoder": "linear"}, "decoder"),
    ],
)
@both
def test_bad_arguments_are_named(cls, options, message):
    """A clear error with the argument and what is allowed."""
    X = np.abs(make_arc(50))
    with pytest.raises(ValueError, match=message):
        cls(**{"decoder": "ridge", **options}).fit(X)


@both
def test_too_few_samples_are_named(cls):
    """Of n samples, PCA with n - 1 components loses nothing."""
    with pytest.raises(ValueError, match="n_components=3 must be less than n_samples - 1 = 3"):
        cls(3, decoder="ridge").fit(make_arc(4))


@both
def test_samples_of_low_rank_are_named(cls):
    """There is nothing to learn beyond PCA."""
    X = np.outer(np.arange(10.0), [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="n_components=1 must be less than the rank of X"):
        cls(1, decoder="ridge").fit(X)


@both
def test_partial_fit_begins_anew_after_a_ridge(cls):
    """With a warning, at the line of the user, and to the bit as without the fit before."""
    X = make_arc(100)
    model, fresh = cls(1, random_state=0).fit(X), cls(1, random_state=0).partial_fit(X)
    with pytest.warns(UserWarning, match="partial_fit begins anew") as caught:
        model.partial_fit(X)
    assert caught[0].filename == __file__
    assert model.n_iter_ == len(model.loss_curve_) == 1
    np.testing.assert_array_equal(model.transform(X), fresh.transform(X))
    np.testing.assert_array_equal(model.decoder_, fresh.decoder_)


@both
def test_a_batch_that_is_refused_leaves_the_ridge(cls):
    """What can't begin anew is what it was, and no warning tells otherwise."""
    X = make_arc(100)
    model = cls(1, random_state=0).fit(X)
    codes = model.transform(X)
    with warnings.catch_warnings(), pytest.raises(ValueError, match="minimum of 2"):
        warnings.simplefilter("error")
        model.partial_fit(X[:1])
    np.testing.assert_array_equal(model.transform(X), codes)


@pytest.mark.parametrize(("dtype", "huge"), [(np.float64, 1e200), (np.float32, 1e30)])
@both
def test_samples_that_overflow_are_refused(cls, dtype, huge):
    """Far from all samples, where a code can't be found: an error with what is allowed, in words
    that are true of this decoder."""
    X = make_arc(100).astype(dtype)
    model = cls(1, decoder="ridge", random_state=0).fit(X)
    with pytest.raises(ValueError, match=r"X has entries of up to .* are allowed") as told:
        model.transform(dtype(huge) * X)
    assert "codes are squares" not in str(told.value)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@both
def test_codes_of_any_size_are_decoded(cls, dtype):
    """Far from all centres, g(t y) - g(0) grows with t, without a warning."""
    model = cls(1, decoder="ridge", random_state=0).fit(make_arc(100).astype(dtype))
    top = np.sqrt(np.finfo(dtype).max)
    codes = np.array([[0], [top / 1e3], [top * 1e3]], dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zero, large, largest = model.inverse_transform(codes).astype(np.float64)
    np.testing.assert_allclose((largest - zero) / 1e6, large - zero, rtol=1e-4)


@both
def test_partial_fit_begins_a_descent(cls):
    """A stream has the eigenvector decoder, which a later fit replaces."""
    X = make_arc(100)
    model = cls(1, random_state=0).partial_fit(X).partial_fit(X)
    assert model.decoder_.shape == (1, 6, 6)
    np.testing.assert_array_equal(
        model.fit(X).transform(X), cls(1, random_state=0).fit(X).transform(X)
    )


@both
def test_a_warm_start_after_a_ridge_begins_a_descent(cls):
    """There is none to go on from: the model is that of the first fit of a warm start."""
    X = make_arc(100)
    first = cls(1, n_epochs=2, warm_start=True, random_state=0).fit(X)
    model = cls(1, n_epochs=2, random_state=0).fit(X).set_params(warm_start=True).fit(X)
    np.testing.assert_array_equal(model.transform(X), first.transform(X))
    np.testing.assert_array_equal(model.decoder_, first.decoder_)


# With noise ----------------------------------------------------------------------------------


def add_noise(Z, rng):
    """Return normalised samples with Gaussian noise in all but the last coordinate."""
    return Z + 0.2 * rng.standard_normal(Z.shape) * (np.arange(Z.shape[1]) < Z.shape[1] - 1)


def spoil(X, rng):
    return X + 0.2 * rng.standard_normal(X.shape)


def test_a_regression_with_all_codes_as_centres_is_kernel_ridge_regression():
    """That of scikit-learn, for a penalty that is the same for all: K^T K + a K = K (K + a)."""
    rng = np.random.RandomState(0)
    Y, Z = rng.standard_normal((40, 3)), rng.standard_normal((40, 2))
    regression = Regression(Y, 0.5, Y, 2)
    for rows in (slice(0, 25), slice(25, 40)):
        regression.add(Y[rows], Z[rows])
    decoder = regression.solved(RIDGE)
    # the dual form of the same penalties: features by the roots of what they cost
    F = decoder.features(Y)
    penalties = np.full(F.shape[1], 40 * LEAST_RIDGE)
    penalties[:40] = RIDGE * np.sum(F[:, :40] ** 2) / 40
    S = F / np.sqrt(penalties)
    oracle = KernelRidge(alpha=1.0, kernel="precomputed").fit(S @ S.T, Z)
    Y_new = rng.standard_normal((7, 3))
    S_new = decoder.features(Y_new) / np.sqrt(penalties)
    np.testing.assert_allclose(decoder.decode(Y_new), oracle.predict(S_new @ S.T), atol=1e-6)


def test_solving_leaves_the_sums_as_they_are():
    """Several ridges can be tried with one pass, in any order."""
    rng = np.random.RandomState(0)
    Y, Z = rng.standard_normal((40, 3)), rng.standard_normal((40, 2))
    regression = Regression(Y[:10], 0.5, Y, 2)
    regression.add(Y, Z)
    first = regression.solved(1.0).weights
    regression.solved(0.1)
    np.testing.assert_array_equal(regression.solved(1.0).weights, first)


def test_the_first_step_of_cleaning_is_a_linear_ridge_regression(monkeypatch):
    """That of scikit-learn on the same noisy copies."""
    monkeypatch.setattr(heuristics, "N_CLEANINGS", 0)
    Z, seen = normalised(gaussian(60)), []

    def noise(Z, rng):
        seen.append((add_noise(Z, rng), Z))
        return seen[-1][0]

    cleaner = Cleaner.learn(Z, noise, 6, turned=True, rng=np.random.RandomState(0))
    noisy, clean = (np.vstack(part) for part in zip(*seen, strict=True))
    assert len(noisy) == 54 * heuristics.NOISY_COPIES
    alpha = heuristics.FILTER_RIDGE * np.sum(noisy**2) / noisy.shape[1]
    oracle = Ridge(alpha=alpha, fit_intercept=False).fit(noisy, clean[:, :-1])
    Z_new = normalised(gaussian(9, seed=1))
    np.testing.assert_allclose(cleaner.clean(Z_new)[:, :-1], oracle.predict(Z_new), atol=1e-8)
    np.testing.assert_array_equal(cleaner.clean(Z_new)[:, -1], 1)


def test_cleaning_gaussian_samples_is_wieners_filter():
    """Their posterior mean shrinks each axis by its part of the variance."""
    Z = normalised(gaussian(4000))
    cleaner = Cleaner.learn(Z, add_noise, 6, turned=True, rng=np.random.RandomState(0))
    variances = np.mean(Z[:, :-1] ** 2, axis=0)
    noisy = add_noise(Z, np.random.RandomState(5))[:500]
    best = noisy[:, :-1] * variances / (variances + 0.2**2)
    distance = np.mean(np.sum((cleaner.clean(noisy)[:, :-1] - best) ** 2, axis=1))
    assert distance < 0.03 * np.mean(np.sum((noisy - Z[:500]) ** 2, axis=1))


def test_cleaning_beats_the_linear_filter_on_a_curve():
    """Each regression brings samples that were not seen nearer to the parabola."""
    X = normalised(make_arc(1200))
    Z, Z_new = X[:1000], X[1000:]
    cleaner = Cleaner.learn(Z, add_noise, 5, turned=True, rng=np.random.RandomState(0))
    noisy = add_noise(Z_new, np.random.RandomState(5))
    linear = Cleaner(cleaner.axes, cleaner.filter)
    errors = [np.mean(np.sum((c.clean(noisy) - Z_new) ** 2, axis=1)) for c in (linear, cleaner)]
    assert errors[1] < 0.8 * errors[0]


def test_axes_of_features_are_those_of_turned_samples():
    """In features, principal axes are found first, and the same is learned along them."""
    Z = normalised(make_arc(300))
    turn = np.linalg.qr(np.random.default_rng(3).standard_normal((5, 5)))[0]
    there = np.hstack([Z[:, :-1] @ turn.T, Z[:, -1:]])

    def noise(X, rng):
        return np.hstack(
            [add_noise(np.hstack([X[:, :-1] @ turn, X[:, -1:]]), rng)[:, :-1] @ turn.T, X[:, -1:]]
        )

    learned = [
        Cleaner.learn(A, f, 5, turned=turned, rng=np.random.RandomState(0)).clean(A)
        for A, f, turned in ((Z, add_noise, True), (there, noise, False))
    ]
    np.testing.assert_allclose(learned[1][:, :-1] @ turn, learned[0][:, :-1], atol=1e-6)


def test_cleaned_copies_begin_with_one_of_each(monkeypatch):
    """Samples in their order, as often as it takes, each with noise of its own."""
    monkeypatch.setattr(heuristics, "CLEANED_SAMPLES", 100)
    Z = normalised(make_arc(40))
    cleaner = Cleaner.learn(Z, add_noise, 5, turned=True, rng=np.random.RandomState(0))
    cleaned = cleaned_copies(cleaner, Z, add_noise, np.random.RandomState(1))
    assert cleaned.shape == (120, 6)
    for copy in range(3):
        part = cleaned[40 * copy : 40 * (copy + 1)]
        assert np.mean(np.sum((part - Z) ** 2, axis=1)) < np.mean(np.sum(Z[:, :-1] ** 2, axis=1))
    assert not np.allclose(cleaned[:40], cleaned[40:80])


@pytest.mark.parametrize("noise", ["gaussian", "speckle", "callable"])
@both
def test_a_fit_with_noise_denoises(cls, noise):
    """Better than one without, for all three, and than the clean samples' PCA."""
    X = load_dataset("digits").X / 16
    X, X_new = X[:300], X[600:800]
    level = {"gaussian": 0.2, "speckle": 0.3, "callable": 1.0}[noise]
    option = spoil if noise == "callable" else noise
    coordinates = Coordinates(np.zeros(64), 1.0)
    noisy = coordinates.corrupted(X_new, np.random.RandomState(7), option, level)
    options = {"decoder": "ridge", "random_state": 0}
    with_noise = cls(8, noise=option, noise_level=level, **options).fit(X)
    errors = [
        relative_error(X_new, reconstructed(m, noisy))
        for m in (with_noise, cls(8, **options).fit(X))
    ]
    assert errors[0] < 0.9 * errors[1]
    assert errors[0] < 0.9 * relative_error(X_new, pca(X, 8).reconstruct(noisy))


@both
def test_codes_with_noise_are_those_of_cleaned_samples(cls):
    """transform cleans and searches; what it returns does not depend on the rest of a batch."""
    X = make_arc(200)
    model = cls(1, noise="gaussian", noise_level=0.2, random_state=0).fit(X)
    Z = model._cleaner.clean(model._coordinates.forward(X, X.dtype))
    np.testing.assert_array_equal(model.transform(X), model._model.encode(Z) * model.scale_)
    np.testing.assert_allclose(model.transform(X[:7]), model.transform(X)[:7], atol=1e-6)


@both
def test_a_seed_repeats_noise_and_all(cls):
    """To the bit, also after pickling; another seed draws other noise."""
    X = make_arc(120)
    models = [cls(1, noise="gaussian", random_state=seed).fit(X) for seed in (0, 0, 1)]
    codes = [model.transform(X) for model in models]
    np.testing.assert_array_equal(codes[0], codes[1])
    assert not np.array_equal(codes[0], codes[2])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(models[0])).transform(X), codes[0])


@both
def test_noise_of_level_0_is_none(cls):
    """The same model to the bit."""
    X = make_arc(100)
    with_noise = cls(1, noise="gaussian", noise_level=0.0, random_state=0).fit(X)
    np.testing.assert_array_equal(
        with_noise.transform(X), cls(1, random_state=0).fit(X).transform(X)
    )


@both
def test_noise_scales_with_samples(cls):
    """Samples and noise of twice the size have codes of twice the size, to the bit."""
    X = make_arc(100)
    codes = [
        cls(1, noise="gaussian", noise_level=0.1 * c, random_state=0).fit(c * X).transform(c * X)
        for c in (1.0, 1024.0)
    ]
    np.testing.assert_array_equal(codes[1], 1024 * codes[0])


@both
def test_precision_with_noise(cls):
    """Single precision in, single precision out, and nearly what double precision gives."""
    X = make_arc(300)
    errors = {}
    for dtype in (np.float32, np.float64):
        model = cls(1, noise="gaussian", noise_level=0.1, random_state=0).fit(X.astype(dtype))
        assert model._cleaner.filter.dtype == dtype
        assert model.transform(X.astype(dtype)).dtype == dtype
        errors[dtype] = error(model, X.astype(dtype))
    assert errors[np.float32] == pytest.approx(errors[np.float64], rel=0.05)


@both
def test_curves_with_noise_are_of_clean_samples(cls):
    """Rounds see no noise: their errors are those of a fit without, up to its random choices."""
    X = make_arc(1000)
    curves = [
        cls(1, noise=noise, noise_level=0.1, random_state=0).fit(X).monitor_curve_
        for noise in (None, "gaussian")
    ]
    assert len(curves[0]) == len(curves[1])
    assert curves[1][0] == pytest.approx(curves[0][0])
    assert curves[1][-1] == pytest.approx(curves[0][-1], rel=0.5)


@both
def test_a_decoder_learned_with_noise_aims_at_clean_samples(cls):
    """What it leaves of clean samples can't be told from its codes, not even by a parabola."""
    X = make_arc(1000)
    model = cls(1, noise="gaussian", noise_level=0.2, random_state=0).fit(X)
    y = model.transform(X + 0.2 * np.random.default_rng(3).standard_normal(X.shape))
    rest = X - model.inverse_transform(y)
    terms = np.hstack([y, y**2, np.ones_like(y)])
    told = terms @ np.linalg.lstsq(terms, rest, rcond=None)[0]
    assert np.sum(told**2) < 0.03 * np.sum(rest**2)


def test_an_interrupted_cleaning_leaves_no_trace(monkeypatch):
    """A fit that is interrupted before the first round keeps the model of the fit before."""
    X = make_arc(60)
    model = AKPCA(1, noise="gaussian", random_state=0).fit(X)
    codes = model.transform(X)

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(cleaning, "_best", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(2 * X)
    np.testing.assert_array_equal(model.transform(X), codes)


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (lambda X, rng: X[:, :2], r"noise must return finite samples of the shape it gets"),
        (lambda X, rng: X * np.nan, r"noise must return finite samples"),
    ],
)
@both
def test_noise_that_breaks_samples_is_refused(cls, noise, message):
    """Before anything is learned from them."""
    with pytest.raises(ValueError, match=message):
        cls(1, noise=noise).fit(make_arc(50))


def test_noise_that_leaves_nothing():
    """With all entries set to 0 there is nothing to encode: an error, or the descent."""
    X = make_arc(60)
    options = {"noise": "speckle", "noise_level": 1.0, "random_state": 0}
    with pytest.raises(ValueError, match="rank of X, and of what can be told of noisy samples"):
        AKPCA(1, decoder="ridge", **options).fit(X)
    assert np.isfinite(reconstructed(AKPCA(1, n_epochs=1, **options).fit(X), X)).all()


@pytest.mark.parametrize("n", [4, 9, 12])
@both
def test_few_samples_with_noise(cls, n):
    """Fewer than can be held out, or hardly any: finite answers."""
    X = make_arc(n)
    assert np.isfinite(reconstructed(cls(1, noise="gaussian", random_state=0).fit(X), X)).all()
