"""The closed-form decoder, what cleans noise, and `RidgeAutoencoder` alone."""

import numpy as np
import pytest
from helpers import assert_same_up_to_sign, error, rebuilt
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge

from akpca import RidgeAutoencoder, load_dataset, pca, relative_error
from akpca.autoencoding import cleaning, ridge, ridge_autoencoder
from akpca.autoencoding.cleaning import Cleaner
from akpca.autoencoding.ridge import LEAST_RIDGE, Regression, RidgeDecoder

# Between the first and the last of those that a fit chooses from.
RIDGE = 0.01


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
    """Return centred samples of mean squared norm 1."""
    X = X - X.mean(axis=0)
    return X / np.sqrt(np.mean(np.sum(X**2, axis=1)))


def random_decoder(k=3, d=6, n=80, strength=RIDGE, seed=0):
    """Return a decoder of codes that samples depend on in a smooth way, the codes and samples."""
    rng = np.random.RandomState(seed)
    Y = rng.standard_normal((n, k))
    Z = np.tanh(Y @ rng.standard_normal((k, d))) + 0.1 * rng.standard_normal((n, d))
    return RidgeDecoder.fit(Y, Z, 20, strength, rng), Y, Z


def errors_of(decoder, Y, Z):
    return np.sum((decoder.decode(Y) - Z) ** 2, axis=1)


def pca_error(X, X_new, k):
    return relative_error(X_new, pca(X, k).reconstruct(X_new))


# ------------------------------------------------------------------------------- the decoder


@pytest.mark.parametrize("strength", [RIDGE, np.inf])
def test_fit_is_a_dense_ridge_regression(strength):
    """Weights solve the normal equations; a centre's penalty is relative to the variance of
    kernel values. Samples may come in parts, and several ridges be tried with one pass."""
    decoder, Y, Z = random_decoder(strength=strength)
    C, n = decoder.centers, len(Y)
    K = 1 / (1 + 20 / 3**2 * np.sum((Y[:, None] - C) ** 2, axis=2))
    K -= K.mean(axis=0)
    F = np.hstack([K, Y, np.ones((n, 1))])
    penalties = np.full(F.shape[1], n * LEAST_RIDGE)
    if strength < np.inf:
        distances = np.abs(C[:, None] - Y).max(axis=2)
        assert C.shape == (20, 3)
        assert distances.min(axis=1).max() == 0
        assert len(set(np.argmin(distances, axis=1))) == 20
        penalties[:20] = strength * np.sum(K**2) / n
    else:
        assert C.shape == (0, 3)  # the decoder is linear
    expected = np.linalg.solve(F.T @ F + np.diag(penalties), F.T @ Z)
    np.testing.assert_allclose(decoder.weights, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(decoder.decode(Y), F @ expected, atol=1e-9)
    regression = Regression(C, decoder.gamma, Y, 6)
    for rows in (slice(0, 50), slice(50, 80)):
        regression.add(Y[rows], Z[rows])
    regression.solved(1.0)
    again = regression.solved(strength)
    np.testing.assert_allclose(again.weights, expected, rtol=1e-7, atol=1e-9)


def test_derivatives_are_finite_differences():
    """Of errors ||g(y) - z||^2, and the mean squared length of dg/dy_j, by central differences."""
    decoder, Y, Z = random_decoder()
    Y = Y + 0.3 * np.random.default_rng(1).standard_normal(Y.shape)
    errors, G = decoder.gradients(Y, Z)
    np.testing.assert_allclose(errors, errors_of(decoder, Y, Z), rtol=1e-10)
    slopes, h = decoder.slopes(Y), 1e-6
    for j, step in enumerate(h * np.eye(3)):
        change = (errors_of(decoder, Y + step, Z) - errors_of(decoder, Y - step, Z)) / (2 * h)
        np.testing.assert_allclose(G[:, j], change, atol=1e-6 * np.abs(G).max())
        moved = (decoder.decode(Y + step) - decoder.decode(Y - step)) / (2 * h)
        assert slopes[j] == pytest.approx(np.mean(np.sum(moved**2, axis=1)), rel=1e-6)


def test_a_singular_matrix_is_solved_with_a_larger_penalty():
    """Sums of rank 1 without a penalty: what is returned solves them all the same."""
    v = np.arange(1.0, 5)
    x = ridge.solve(np.outer(v, v), 3 * v[:, None], np.zeros(4))
    np.testing.assert_allclose(v @ x, 3, rtol=1e-6)


# --------------------------------------------------------------------------------- the search


@pytest.mark.parametrize("steps", [1, 4, 16])
def test_search_lets_no_error_grow(steps):
    """From any codes, near or far, each sample's error is at most what it was, and is told."""
    decoder, Y, Z = random_decoder()
    noise = np.random.default_rng(1).standard_normal(Y.shape)
    begin = Y + noise * np.logspace(-3, 2, len(Y))[:, None]
    before = decoder.gradients(begin, Z)[0]
    found, errors = decoder.search(begin, Z, steps, decoder.slopes(Y))
    assert np.all(errors <= before)
    assert np.mean(errors < before) > 0.9
    np.testing.assert_allclose(errors, errors_of(decoder, found, Z), rtol=1e-9)


def test_search_of_a_linear_decoder_reaches_pca():
    """With PCA's codes as regressors, few steps reach PCA's errors from any codes."""
    X = gaussian(200)
    X -= X.mean(axis=0)
    linear = pca(X, 3)
    Y = linear.encode(X)
    Y /= Y.std(axis=0)
    decoder = RidgeDecoder.fit(Y, X, 20, np.inf, np.random.RandomState(0))
    begin = np.random.default_rng(1).standard_normal(Y.shape)
    _, errors = decoder.search(begin, X, 4, decoder.slopes(Y))
    expected = np.sum((X - linear.reconstruct(X)) ** 2, axis=1)
    np.testing.assert_allclose(errors, expected, rtol=1e-6, atol=1e-9)


def test_standardised_codes_have_mean_0_variance_1_and_no_correlation():
    """Whatever their mean and their correlations are; and codes that do not vary do no harm."""
    rng = np.random.default_rng(0)
    Y = 5 + rng.standard_normal((50, 3)) @ rng.standard_normal((3, 3))
    T = ridge_autoencoder._standardised(Y)
    np.testing.assert_allclose(T.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(T.T @ T / 50, np.eye(3), atol=1e-6)
    assert np.isfinite(ridge_autoencoder._standardised(np.ones((5, 2)))).all()


def test_codes_are_those_with_the_least_error():
    """No other code of a fine grid is decoded nearer to samples, alone or together."""
    X, X_new = make_arc(200), make_arc(100, seed=1)
    model = RidgeAutoencoder(1, random_state=0).fit(X)
    codes = model.transform(X_new)
    grid = np.linspace(1.2 * codes.min(), 1.2 * codes.max(), 4000)[:, None]
    least = np.sum((model.inverse_transform(grid) - X_new[:, None]) ** 2, axis=2).min(axis=1)
    found = np.sum((model.inverse_transform(codes) - X_new) ** 2, axis=1)
    assert np.all(found <= 1.001 * least + 1e-9)
    single = np.vstack([model.transform(x[None]) for x in X_new[:5]])
    np.testing.assert_allclose(single, codes[:5], atol=1e-9)


def test_the_search_begins_with_the_better_of_two_codes():
    """What the quadratic encoder says or the centre that is rebuilt most like the sample."""
    X = make_arc(300)
    model = RidgeAutoencoder(1, random_state=0).fit(X)
    inner, Z = model._model, model._coordinates.forward(X, X.dtype)
    begin = inner.encode(Z, 0)
    said = ridge_autoencoder._quadratic(Z @ inner.axes) @ inner.encoder
    points = inner.decoder.decode(inner.decoder.centers)
    distances = np.sum((points - Z[:, None]) ** 2, axis=2)
    centres = inner.decoder.centers[np.argmin(distances, axis=1)]
    errors = [errors_of(inner.decoder, Y, Z) for Y in (said, centres, begin)]
    np.testing.assert_allclose(errors[2], np.minimum(*errors[:2]), atol=1e-12)
    assert 0 < np.mean(errors[0] < errors[1]) < 1
    assert np.linalg.norm(said - begin) < 0.2 * np.linalg.norm(begin)


# ------------------------------------------------------------------------------ the estimator


def test_strong_axes_and_noise_are_left_to_pca():
    """The ridge is infinite, codes and reconstructions are PCA's, in its units and order."""
    scales = np.array([3, 2, 1] + 17 * [0.3])
    X, X_new = (np.random.default_rng(s).standard_normal((150, 20)) * scales for s in (0, 1))
    model, linear = RidgeAutoencoder(3, random_state=0).fit(X), pca(X, 3)
    assert model.ridge_ == np.inf
    assert model.centers_.shape == (0, 3)
    expected = linear.reconstruct(X_new)
    assert np.linalg.norm(rebuilt(model, X_new) - expected) < 1e-4 * np.linalg.norm(expected)
    assert_same_up_to_sign(model.transform(X), linear.encode(X), atol=1e-4)


def test_digits_have_little_more_than_half_the_error_of_pca():
    """400 digits of 8x8, rebuilt by what was learned from 400 others, by default."""
    X, k = load_dataset("digits").X[:800], 4
    X, X_new = X[::2], X[1::2]
    model = RidgeAutoencoder(k, random_state=0).fit(X)
    assert model.ridge_ in ridge_autoencoder.RIDGES
    assert error(model, X_new) < 0.65 * pca_error(X, X_new, k)
    # the first codes tell most, and codes do not correlate
    Y = model.transform(X)
    covariance = np.cov(Y.T)
    assert np.all(np.diff(np.diag(covariance)) < 0)
    scales = np.sqrt(np.diag(covariance))
    assert np.abs(covariance / np.outer(scales, scales) - np.eye(k)).max() < 0.2


def test_rounds_and_centres_lower_the_error():
    """loss_curve_ begins with PCA's and falls; more centres and more rounds rebuild better."""
    X = load_dataset("digits").X[:300]
    linear, errors = np.mean(np.sum((X - pca(X, 4).reconstruct(X)) ** 2, axis=1)), []
    for p, n_rounds in ((20, 2), (150, 2), (150, 6)):
        model = RidgeAutoencoder(4, n_centers=p, ridge=1e-3, n_rounds=n_rounds, random_state=0)
        model.fit(X)
        assert model.centers_.shape == (p, 4)
        assert model.dual_coef_.shape == (p, 64)
        assert model.ridge_ == 1e-3
        errors.append(np.mean(np.sum((X - rebuilt(model, X)) ** 2, axis=1)))
    assert errors == sorted(errors, reverse=True)
    assert model.n_iter_ == len(model.loss_curve_) - 1 == 6
    assert model.loss_curve_[0] == pytest.approx(linear, rel=1e-6)
    assert np.diff(model.loss_curve_).max() < 0.02 * linear
    assert 0.5 * linear > model.loss_curve_[-1] == pytest.approx(errors[-1], rel=0.1)


def test_the_decoder_is_its_attributes():
    """Less kernel values with centers_ times dual_coef_, samples are linear in codes."""
    X = 5 * gaussian(200)
    model = RidgeAutoencoder(2, ridge=RIDGE, random_state=0).fit(X)
    C, W, codes = model.centers_, model.dual_coef_, model.transform(X)
    assert C.shape == (100, 2)
    spreads = model.scale_ * model._model.spreads
    squares = np.sum(((codes[:, None] - C) / spreads) ** 2, axis=2)
    rest = model.inverse_transform(codes) - 1 / (1 + 20 / 2**2 * squares) @ W
    F = np.hstack([codes, np.ones((200, 1))])
    np.testing.assert_allclose(F @ np.linalg.lstsq(F, rest)[0], rest, atol=1e-8)


def test_the_ridge_is_that_with_the_least_held_out_error(monkeypatch):
    """Ridges are tried from the least on, until one helps no more; infinity always is."""
    ridges = ridge_autoencoder.RIDGES
    for others, expected in (([1, 9], ridges[2]), ([1, 0], np.inf)):
        # from the fourth on, what is not asked for; then infinity
        errors = [5, 4, 3, 4, *[others[0]] * (len(ridges) - 4), others[1]]
        given, seen = dict(zip((*ridges, np.inf), errors, strict=True)), set()

        def held_out(self, some, folds, ridge, rng, given=given, seen=seen):
            seen.add(ridge)
            return given[ridge]

        monkeypatch.setattr(RidgeAutoencoder, "_held_out_error", held_out)
        model = RidgeAutoencoder(1, n_rounds=1, random_state=0).fit(make_arc(100))
        assert model.ridge_ == expected
        assert seen == {*ridges[:4], np.inf}


def test_more_samples_than_the_rounds_take(monkeypatch):
    """The rounds see some samples only, the last decoder all of them: it is the better for it."""
    X, X_new = make_arc(600), make_arc(200, seed=1)
    monkeypatch.setattr(ridge_autoencoder, "ROUND_SAMPLES", 100)
    many, few = (RidgeAutoencoder(1, ridge=RIDGE, random_state=0).fit(x) for x in (X, X[:100]))
    assert len(many.centers_) > len(few.centers_)
    assert error(many, X_new) < error(few, X_new)

    def interrupt(*_):
        raise KeyboardInterrupt

    # while all samples are encoded: the decoder is one of the samples of the rounds
    with monkeypatch.context() as patched:
        patched.setattr(ridge_autoencoder._Model, "encode", interrupt)
        with pytest.warns(ConvergenceWarning, match="interrupted"):
            model = RidgeAutoencoder(1, ridge=RIDGE, random_state=0).fit(X)
    assert error(model, X_new) < 0.1 * pca_error(X, X_new, 1)


# --------------------------------------------------------------------------------- with noise


@pytest.fixture
def fewer_copies(monkeypatch):
    """Learn from fewer noisy samples, which takes a fifth of the time."""
    monkeypatch.setattr(cleaning, "NOISY_SAMPLES", 10_000)
    monkeypatch.setattr(cleaning, "CLEANED_SAMPLES", 2000)


def noise_of(seed=0):
    """Return what adds Gaussian noise to samples."""
    rng = np.random.RandomState(seed)
    return lambda Z: Z + 0.2 * rng.standard_normal(Z.shape)


def learned(Z, k=5, noise=None):
    return Cleaner.learn(Z, noise or noise_of(), k, 1000, np.random.RandomState(0))


def test_the_first_step_of_cleaning_is_a_linear_ridge_regression(monkeypatch):
    """That of scikit-learn on the same noisy copies."""
    monkeypatch.setattr(cleaning, "N_CLEANINGS", 0)
    Z, seen, add = normalised(gaussian(60)), [], noise_of()

    def noise(Z):
        seen.append((add(Z), Z))
        return seen[-1][0]

    cleaner = learned(Z, 6, noise)
    noisy, clean = (np.vstack(part) for part in zip(*seen, strict=True))
    assert len(noisy) == 54 * cleaning.NOISY_COPIES
    N, N_new = (np.hstack([A, np.ones((len(A), 1))]) for A in (noisy, gaussian(9, seed=1)))
    alpha = cleaning.FILTER_RIDGE * np.sum(N**2) / N.shape[1]
    oracle = Ridge(alpha=alpha, fit_intercept=False).fit(N, clean)
    np.testing.assert_allclose(cleaner.clean(N_new[:, :-1]), oracle.predict(N_new), atol=1e-8)


def test_cleaning_beats_the_linear_filter_on_a_curve(fewer_copies, monkeypatch):
    """Nearer to the parabola, by the regression that suits samples held out."""
    X = normalised(make_arc(900))
    Z, Z_new = X[:700], X[700:]
    cleaner, noisy = learned(Z), noise_of(5)(Z_new)
    linear = Cleaner(cleaner.axes, cleaner.filter)
    monkeypatch.setattr(cleaning, "RIDGES", (1e3,))
    stiff = learned(Z)
    errors = [
        np.mean(np.sum((c.clean(noisy) - Z_new) ** 2, axis=1)) for c in (linear, stiff, cleaner)
    ]
    assert errors[2] < 0.8 * errors[0]
    assert errors[2] < 0.9 * errors[1]


def test_codes_with_noise_are_those_of_cleaned_samples(fewer_copies):
    """The decoder aims at clean samples, of which its codes can't tell more."""
    X = make_arc(400)
    model = RidgeAutoencoder(1, ridge=RIDGE, noise=0.2, random_state=0).fit(X)
    Z = model._cleaner.clean(model._coordinates.forward(X, X.dtype))
    direct = model._model.encode(Z, ridge_autoencoder.ENCODING_STEPS)
    np.testing.assert_allclose(
        model.transform(X), direct * model._model.spreads * model.scale_, rtol=1e-12
    )
    y = model.transform(X + 0.2 * np.random.default_rng(3).standard_normal(X.shape))
    rest = X - model.inverse_transform(y)
    terms = np.hstack([y, y**2, np.ones_like(y)])
    told = terms @ np.linalg.lstsq(terms, rest, rcond=None)[0]
    assert np.sum(told**2) < 0.03 * np.sum(rest**2)


@pytest.mark.parametrize("n", [4, 27])
def test_few_samples_with_noise(n):
    """Fewer than can be held out, or hardly any, or rounding only: finite answers."""
    for X in (make_arc(n), np.full((n, 4), 7.61e99)):
        assert np.isfinite(rebuilt(RidgeAutoencoder(1, noise=1.0, random_state=0).fit(X), X)).all()
