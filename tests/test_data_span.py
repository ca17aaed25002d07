"""DataSpanAKPCA: AKPCA within the span of some samples, and all of AKPCA when there are enough."""

import pickle
import tracemalloc
import warnings
from functools import partial

import numpy as np
import pytest
from helpers import assert_same_up_to_sign
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from akpca import AKPCA, DataSpanAKPCA, KernelPCA, pca, reconstruction_error
from akpca.autoencoding import DenseModel, Span, SpanModel, models, objectives
from akpca.book import reference

LOSSES = {"spectral": objectives.spectral, "reconstruction": objectives.reconstruction}
FORMS = [{"offset": True}, {"offset": False}]
# The descent of the report; what only the other decoder does is in `test_ridge`.
data_span = partial(DataSpanAKPCA, decoder="eigenvector")


@pytest.fixture(scope="module")
def digits():
    """400 digits to train with and 200 others, of 8x8."""
    X = load_digits().data[:600] / 16
    return X[:400], X[400:]


def samples(n, d, constant, seed=0):
    """Positive samples, or samples of any sign and a last coordinate 1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (n, d)) if not constant else rng.standard_normal((n, d))
    return np.hstack([X, np.ones((n, 1))]) if constant else X


def random_model(d, m, k, constant, seed=0, scale=1.0):
    """A span of m landmarks, random encoder and decoder in it, near enough to x x^T to decode."""
    rng = np.random.default_rng(seed)
    Z = samples(m, d, constant, seed + 1)
    span = Span(np.ascontiguousarray(Z[:, :d]), constant=constant)
    H = rng.standard_normal((k, span.size)) * scale
    G = rng.standard_normal((k + constant, span.size)) * scale
    return span, H, G


def exact_loss(objective, X, constant):
    """The loss of a batch with converged eigenvectors."""
    start = np.random.default_rng(5).standard_normal(X.shape)
    options = {}
    if objective == "reconstruction":
        options["towards"] = np.eye(X.shape[1])[-1] if constant else np.ones(1)
    return lambda product: LOSSES[objective](product, X, start, steps=None, tol=1e-12, **options)


def reconstructed(model, X):
    return model.inverse_transform(model.transform(X))


def error(model, X):
    return reconstruction_error(X, reconstructed(model, X))


def test_arguments_are_those_of_akpca():
    """Arguments that both models have, have the same defaults."""
    ours, theirs = DataSpanAKPCA().get_params(), AKPCA().get_params()
    assert theirs == {name: ours[name] for name in theirs}


# ------------------------------------------------------------------------------- the span


@pytest.mark.parametrize("constant", [False, True])
def test_span_speaks_of_matrices(constant):
    """Inner products, products and coordinates are those of the matrices that a span stands for."""
    d, m = 5, 9
    span, H, _ = random_model(d, m, 4, constant)
    T = span.matrices(span.expand(H)).transpose(1, 0, 2)
    np.testing.assert_allclose(T, T.transpose(0, 2, 1), atol=1e-12)
    basis = span.matrices(span.expand(np.eye(span.size))).transpose(1, 0, 2)
    flat = basis.reshape(span.size, -1)
    np.testing.assert_allclose(flat @ flat.T, np.eye(span.size), atol=1e-9)
    rng = np.random.default_rng(3)
    P, V = rng.standard_normal((2, 6, d + constant))
    expected = np.einsum("ir,jrs,is->ij", P, basis, V)
    np.testing.assert_allclose(span.coordinates(span.inner(P, V)), expected, atol=1e-9)
    C = rng.standard_normal((6, span.n_atoms))
    M = span.matrices(C).transpose(1, 0, 2)
    np.testing.assert_allclose(span.product(C)(V), np.einsum("irs,is->ir", M, V), atol=1e-10)


def test_rank_keeps_the_largest_directions():
    """A span of rank r holds the r leading kernel principal components of its landmarks."""
    Z = samples(20, 6, False)
    span = Span(Z, constant=False, rank=4)
    F = span.coordinates(span.inner(Z, Z))
    values = np.linalg.eigvalsh((Z @ Z.T) ** 2)[::-1]
    np.testing.assert_allclose(F.T @ F, np.diag(values[:4]), atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    d=st.integers(1, 6),
    k=st.integers(1, 4),
    constant=st.booleans(),
    objective=st.sampled_from(sorted(LOSSES)),
    seed=st.integers(0, 10**6),
)
def test_enough_landmarks_hold_any_akpca_model(d, k, constant, objective, seed):
    """From m = d (d + 1) / 2 on, any A and B can be mapped into the span: same codes and losses."""
    rng = np.random.default_rng(seed)
    X = samples(7, d, constant, seed)
    D, terms = X.shape[1], d * (d + 1) // 2
    A, B = rng.standard_normal((D, k, D)), rng.standard_normal((D, k + constant, D))
    A, B = A + A.transpose(2, 1, 0), B + B.transpose(2, 1, 0)
    span = Span(rng.standard_normal((3 * terms, d)), constant=constant)
    assert span.size == terms + (d + 1) * constant
    basis = span.matrices(span.expand(np.eye(span.size)))
    H, G = (np.einsum("rjs,ris->ji", T, basis) for T in (A, B))
    np.testing.assert_allclose(span.matrices(span.expand(G)), B, atol=1e-6)
    loss = exact_loss(objective, X, constant)
    dense, model = DenseModel(A, B), SpanModel(span, H, G)
    expected, _, _ = dense.gradients(X, loss)
    losses, _, _ = model.gradients(X, loss)
    np.testing.assert_allclose(losses, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())
    np.testing.assert_allclose(model.encode(X), dense.encode(X), rtol=1e-6, atol=1e-6)
    V = rng.standard_normal(X.shape)
    Y = dense.encode(X)
    expected = dense.product(Y)(V)
    np.testing.assert_allclose(model.product(Y)(V), expected, atol=1e-5 * np.abs(expected).max())


def test_the_encoder_loses_nothing_on_the_landmarks():
    """Codes of the landmarks see only the projection of A on their span."""
    d, k = 6, 3
    rng = np.random.default_rng(0)
    A = rng.standard_normal((d, k, d))
    A = A + A.transpose(2, 1, 0)
    Z = samples(8, d, False)
    span = Span(Z, constant=False)
    assert span.size == 8 < d * (d + 1) // 2
    H = np.einsum("rjs,ris->ji", A, span.matrices(span.expand(np.eye(span.size))))
    assert np.abs(span.matrices(span.expand(H)) - A).max() > 0.1
    np.testing.assert_allclose(
        SpanModel(span, H, H).encode(Z), DenseModel(A, A).encode(Z), rtol=1e-6
    )


# ------------------------------------------------------------------------------ gradients


def test_gradient_is_the_literal_one():
    """The fast gradient is the mean of (25) and (26), through the whitening H -> H W^T."""
    span, H, G = random_model(7, 12, 3, False, scale=1.0)
    X = np.random.default_rng(4).standard_normal((9, 7))
    losses, (dH, dG), _ = SpanModel(span, H, G).gradients(X, exact_loss("spectral", X, False))
    raw = span.expand(H), span.expand(G), span.landmarks
    np.testing.assert_allclose(
        losses, [reference.data_span_objective(*raw, x) for x in X], rtol=1e-10
    )
    literal = [reference.data_span_subgradient(*raw, x) for x in X]
    for fast, parts in zip((dH, dG), zip(*literal, strict=True), strict=True):
        expected = np.mean(parts, axis=0) @ span.basis
        np.testing.assert_allclose(fast, expected, atol=1e-8 * np.abs(expected).max())
    # the sign that (24) forgets is put to the test
    zetas = [raw[1].T @ (raw[0] @ (raw[2] @ x) ** 2) for x in X]
    signs = {
        np.sign(reference.data_span_eigenpair(z, raw[2], x)[0])
        for z, x in zip(zetas, X, strict=True)
    }
    assert signs == {-1, 1}


@pytest.mark.parametrize("objective", sorted(LOSSES))
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_gradient_against_finite_differences(objective, constant, noise):
    """Gradients of both objectives agree with central differences to 1e-5, also of noisy codes."""
    span, H, G = random_model(6, 10, 3, constant, scale=0.3)
    X = samples(8, 6, constant, 4)
    noisy = X + noise * np.random.default_rng(9).standard_normal(X.shape)
    loss = exact_loss(objective, X, constant)
    model = SpanModel(span, H, G)
    _, (dH, dG), _ = model.gradients(noisy, loss)
    rng = np.random.default_rng(1)
    for _ in range(4):
        U, V = rng.standard_normal(H.shape), rng.standard_normal(G.shape)

        def mean_loss(step, U=U, V=V):
            return model.gradients(noisy, loss, [H + step * U, G + step * V])[0].mean()

        step = 1e-5
        numerical = (mean_loss(step) - mean_loss(-step)) / (2 * step)
        analytical = np.sum(dH * U) + np.sum(dG * V)
        size = np.hypot(np.linalg.norm(dH), np.linalg.norm(dG))
        assert abs(numerical - analytical) <= 1e-5 * max(abs(analytical), size)


# ---------------------------------------------------------------------------------- start


def test_start_is_kernel_pca(digits):
    """All samples as landmarks, no epoch: uncentred degree-2 kernel PCA with its decoder."""
    X, X_new = digits
    options = {"kernel": "poly", "degree": 2, "gamma": 1, "coef0": 0, "center": False}
    kernel_pca = KernelPCA(6, **options, preimage="eigenvector").fit(X)
    model = data_span(6, offset=False, n_epochs=0, precision="double").fit(X)
    assert_same_up_to_sign(model.transform(X_new), kernel_pca.transform(X_new), atol=1e-6)
    np.testing.assert_allclose(
        reconstructed(model, X_new), reconstructed(kernel_pca, X_new), atol=1e-5
    )


def test_start_is_pca(digits):
    """With an offset the first codes are multiples of PCA's, and so are reconstructions, nearly."""
    X, X_new = digits
    linear = pca(X, 6)
    model = data_span(6, n_landmarks=50, n_epochs=0, precision="double").fit(X)
    codes, expected = model.transform(X_new), linear.encode(X_new)
    ratio = np.sqrt(2) * model.constant_
    assert_same_up_to_sign(codes / ratio, expected, atol=1e-8)
    assert error(model, X_new) < 1.05 * reconstruction_error(X_new, linear.reconstruct(X_new))


def test_start_with_more_features_than_samples():
    """PCA by the other Gram matrix gives the same start."""
    X = np.random.default_rng(0).standard_normal((12, 30))
    model = data_span(4, n_epochs=0, precision="double").fit(X)
    ratio = np.sqrt(2) * model.constant_
    assert_same_up_to_sign(model.transform(X) / ratio, pca(X, 4).encode(X), atol=1e-8)


# ------------------------------------------------------------------------------- training


@pytest.mark.parametrize("objective", sorted(LOSSES))
def test_report_form_beats_pca_and_kernel_pca(objective, digits):
    """Both objectives end below PCA and below the start, on training and on new samples."""
    X, X_new = digits
    model = data_span(8, offset=False, objective=objective, n_epochs=10, random_state=0).fit(X)
    start = clone(model).set_params(n_epochs=0).fit(X)
    linear = pca(X, 8)
    for part in (X, X_new):
        bound = reconstruction_error(part, linear.reconstruct(part))
        assert error(model, part) < 0.97 * min(bound, error(start, part))


def test_offset_form_beats_pca_on_centred_samples(digits):
    """Samples of any sign come back with their signs, with less error than PCA has."""
    X, X_new = digits[0] - digits[0].mean(axis=0), digits[1] - digits[0].mean(axis=0)
    model = data_span(8, n_landmarks=150, n_epochs=10, random_state=0).fit(X)
    linear = pca(X, 8)
    for part in (X, X_new):
        assert error(model, part) < 0.95 * reconstruction_error(part, linear.reconstruct(part))
        assert np.mean(np.sum(part * reconstructed(model, part), axis=1) > 0) > 0.99


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("solver", ["adam", "sgd", "svrg"])
def test_never_worse_than_the_start(solver, form, digits):
    """Whatever the step, the iterate that is kept is no worse than the start."""
    X = digits[0][:150]
    options = {**form, "n_landmarks": 60, "random_state": 0, "solver": solver}
    start = data_span(3, n_epochs=0, **options).fit(X)
    model = data_span(3, n_epochs=2, **options).fit(X)
    assert len(model.loss_curve_) == model.n_iter_ == 2
    assert error(model, X) <= error(start, X) * (1 + 1e-5)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # that it diverged
        wild = data_span(3, n_epochs=2, learning_rate=1e3, **options).fit(X)
    assert wild.best_epoch_ == 0
    np.testing.assert_array_equal(wild.transform(X), start.transform(X))


@pytest.mark.parametrize("form", FORMS)
def test_monitor_is_the_error_of_the_model(form, digits):
    """The least of the monitored errors is the error of the model that was kept."""
    X = digits[0]
    model = data_span(4, **form, n_landmarks=100, n_epochs=3, random_state=0).fit(X)
    best = min(model.monitor_curve_)
    assert best == model.monitor_curve_[model.best_epoch_]
    assert error(model, X) == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("objective", sorted(LOSSES))
@pytest.mark.parametrize("factor", [0.01, 100])
def test_scale_does_not_matter(factor, objective, form, digits):
    """Data times 0.01 or 100: reconstructions scale with them."""
    X = digits[0][:200]
    model = data_span(4, **form, objective=objective, n_landmarks=80, n_epochs=3, random_state=0)
    plain, scaled = error(clone(model).fit(X), X), error(clone(model).fit(factor * X), factor * X)
    assert scaled == pytest.approx(factor**2 * plain, rel=0.02)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sampling", ["uniform", "kmeans"])
def test_same_seed_same_bits(sampling, form, digits):
    """Two fits with the same seed agree to the bit; another seed gives another model."""
    X = digits[0][:150]
    model = data_span(3, **form, sampling=sampling, n_landmarks=40, n_epochs=2)
    codes = [clone(model).set_params(random_state=s).fit(X).transform(X) for s in (0, 0, 1)]
    assert np.array_equal(codes[0], codes[1])
    assert not np.array_equal(codes[0], codes[2])


def test_interrupt_leaves_a_usable_model(digits):
    """Ctrl-C in mid-fit keeps the best iterate so far, and says so."""
    X = digits[0][:150]

    def interrupt(state):
        if state.n_iter == 2:
            raise KeyboardInterrupt

    model = data_span(3, n_landmarks=40, n_epochs=50, random_state=0, callback=interrupt)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model.fit(X)
    assert model.n_iter_ == 2
    start = clone(model).set_params(n_epochs=0, callback=None).fit(X)
    assert error(model, X) < error(start, X)


def test_early_stopping_stops(digits):
    """After so many epochs without a gain; landmarks may be any samples."""
    X = digits[0][:100]
    model = data_span(
        6, early_stopping=True, validation_fraction=0.3, n_iter_no_change=2, n_epochs=200
    )
    model.set_params(random_state=0, learning_rate=0.5, n_landmarks=100).fit(X)
    assert model.n_iter_ < 200
    assert model.n_iter_ - model.best_epoch_ == 2
    nearest = np.abs(model.landmarks_[:, None] - X).max(axis=2).min(axis=0)
    assert nearest.max() < 1e-5


def test_noise_helps_against_noise(digits):
    """Trained with corrupted inputs, the model denoises better than one that was not."""
    X, X_new = digits
    noisy = X_new + 0.3 * np.random.default_rng(0).standard_normal(X_new.shape)
    model = data_span(8, n_landmarks=100, n_epochs=8, random_state=0)
    errors = [
        reconstruction_error(X_new, reconstructed(clone(model).set_params(**noise).fit(X), noisy))
        for noise in ({"noise": "gaussian", "noise_level": 0.3}, {})
    ]
    assert errors[0] < 0.97 * errors[1]


@pytest.mark.parametrize("form", FORMS)
def test_partial_fit_and_warm_start_go_on(form, digits):
    """Both keep the landmarks and lower the error of the start."""
    X = digits[0]
    start = data_span(4, **form, n_landmarks=100, n_epochs=0, random_state=0).fit(X)
    warm = clone(start).set_params(warm_start=True).fit(X)
    warm.set_params(n_epochs=2).fit(X)
    np.testing.assert_array_equal(warm.landmarks_, start.landmarks_)
    stream = data_span(4, **form, n_landmarks=100, random_state=0).partial_fit(X)
    before = stream.landmarks_
    for _ in range(3):
        stream.partial_fit(X[::2])
    stream.partial_fit(X[:10])  # fewer than there are landmarks
    np.testing.assert_array_equal(stream.landmarks_, before)
    assert stream.n_iter_ == 5
    for model in (warm, stream):
        assert error(model, X) < 0.98 * error(start, X)
    with pytest.raises(ValueError, match="warm_start can't change n_components"):
        warm.set_params(n_components=5).fit(X)


# ------------------------------------------------------------------------ what comes out


@pytest.mark.parametrize("form", FORMS)
def test_attributes_say_what_the_model_does(form, digits):
    """Codes and reconstructions follow from the public attributes, by the formulas."""
    X = digits[0]
    model = data_span(
        3, **form, n_landmarks=50, n_epochs=2, random_state=0, precision="double"
    ).fit(X)
    Z = np.hstack([X - model.mean_, np.full((len(X), 1), model.constant_)])[:10]
    Z = Z if form["offset"] else Z[:, :-1]
    codes = np.einsum("ir,jrs,is->ij", Z, model.encoder_, Z)
    np.testing.assert_allclose(model.transform(X[:10]), codes, rtol=1e-6, atol=1e-9)
    M = model.decoder_offset_ + np.einsum("ij,jrs->irs", codes, model.decoder_)
    values, vectors = np.linalg.eigh(M)
    v = vectors[:, :, -1] * np.sqrt(values[:, -1:])
    v *= np.sign(v[:, -1:] if form["offset"] else v.sum(axis=1, keepdims=True))
    expected = v[:, :64] + model.mean_
    np.testing.assert_allclose(model.inverse_transform(codes), expected, atol=1e-6)
    centred = model.landmarks_ - model.mean_
    for coef, matrices in (
        (model.encoder_coef_, model.encoder_),
        (model.decoder_coef_, model.decoder_),
    ):
        assert coef.shape == (3, 50)
        quadratic = np.einsum("ji,ir,is->jrs", coef, centred, centred)
        np.testing.assert_allclose(matrices[:, :64, :64], quadratic, atol=1e-6)
    assert model.rank_ <= 50


@pytest.mark.parametrize("form", FORMS)
def test_decoding_does_not_depend_on_the_route(form, digits, monkeypatch):
    """Decoding by matrices and by products give the same samples."""
    X = digits[0][:150]
    model = data_span(3, **form, n_landmarks=50, n_epochs=1, random_state=0).fit(X)
    formed = reconstructed(model, X)
    monkeypatch.setattr(models, "FORMED_SPAN_SIZE", 0)
    np.testing.assert_allclose(reconstructed(model, X), formed, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_float32_stays_float32(form, digits):
    """float32 in, float32 out, with nearly the results of float64."""
    X = digits[0][:150]
    model = data_span(3, **form, n_landmarks=50, n_epochs=2, random_state=0)
    single, double = clone(model).fit(X.astype(np.float32)), clone(model).fit(X)
    for array in (single.transform(X.astype(np.float32)), single.landmarks_, single.encoder_coef_):
        assert array.dtype == np.float32
    X_hat = reconstructed(single, X.astype(np.float32))
    assert X_hat.dtype == np.float32
    assert reconstruction_error(X, X_hat) == pytest.approx(error(double, X), rel=0.01)
    copy = pickle.loads(pickle.dumps(single))
    assert np.array_equal(copy.transform(X), single.transform(X))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("objective", sorted(LOSSES))
def test_no_matrix_of_features_is_formed(form, objective):
    """With many features, memory stays far below one d x d matrix."""
    d = 4000
    X = np.random.default_rng(0).uniform(0, 1, (40, d)).astype(np.float32)
    options = {**form, "objective": objective, "n_landmarks": 20, "constant": 1.4}
    model = data_span(3, n_epochs=1, precision="single", **options)
    tracemalloc.start()
    reconstructed(model.fit(X), X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < d * d * np.dtype(np.float32).itemsize / 2


# ------------------------------------------------------------------------------ bad input


def test_negative_samples_are_refused_without_offset():
    """The report's form can't tell x from -x: it never sees samples of the wrong sign."""
    X = np.random.default_rng(0).standard_normal((30, 4))
    with pytest.raises(ValueError, match="Negative values in data"):
        data_span(2, offset=False).fit(X)
    model = data_span(2, offset=False, n_epochs=1).fit(np.abs(X))
    with pytest.raises(ValueError, match="Negative values in data"):
        model.transform(-np.abs(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_landmarks": 31}, "n_landmarks=31, but X has only 30 samples"),
        ({"n_landmarks": 0}, "n_landmarks"),
        ({"rank": 0}, "rank"),
        ({"sampling": "best"}, "sampling"),
        ({"objective": "both"}, "objective"),
        ({"n_components": 15}, "n_components=15 must not be more than 14"),
        ({"n_components": 8, "n_landmarks": 3}, "n_components=8, but the span of 3 landmarks"),
        ({"n_components": 4, "n_landmarks": 3, "offset": False}, "the span of 3 landmarks"),
    ],
)
def test_bad_arguments_are_named(options, message):
    """An impossible argument is named, with what is allowed."""
    X = np.random.default_rng(0).uniform(0, 1, (30, 4))
    with pytest.raises(ValueError, match=message):
        data_span(**options).fit(X)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("objective", sorted(LOSSES))
def test_odd_samples(form, objective):
    """Zero rows, one feature, constant and all-zero samples: finite answers, right where easy."""
    rng = np.random.default_rng(0)
    with_zeros = rng.uniform(0, 1, (20, 4))
    with_zeros[::3] = 0
    line = rng.uniform(0.5, 1, (20, 1))
    constant = np.tile(rng.uniform(0.5, 1, (1, 4)), (20, 1))
    options = {**form, "objective": objective, "n_epochs": 3, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for dtype in (np.float64, np.float32):
            for X in (with_zeros, line, constant, np.zeros((20, 4))):
                X = X.astype(dtype)
                X_hat = reconstructed(data_span(1, **options).fit(X), X)
                assert np.isfinite(X_hat).all()
                if np.ptp(X, axis=0).max() < 1e-3 or (X.shape[1] == 1 and not form["offset"]):
                    np.testing.assert_allclose(X_hat, X, atol=0.05)


@pytest.mark.parametrize("objective", sorted(LOSSES))
def test_features_that_never_vary_come_back(objective, digits):
    """A feature that is constant has no part in encoder and decoder, and comes back."""
    X = digits[0].copy()
    X[:, 7] = 0.7
    dead = np.ptp(X, axis=0) == 0
    assert dead.sum() > 1
    model = data_span(4, objective=objective, n_landmarks=60, n_epochs=3, random_state=0).fit(X)
    for matrices in (model.encoder_, model.decoder_):
        assert not matrices[:, :64, -1][:, dead].any()
    np.testing.assert_allclose(reconstructed(model, X)[:, dead], X[:, dead], atol=1e-3)


def test_a_feature_that_varies_later_in_a_stream_is_learnt(digits):
    """What is constant in the first batch is not left out of the model for good."""
    X = digits[0]
    first = X[:100].copy()
    first[:, 20:] = first[:, 20:].mean(axis=0)
    model = data_span(4, n_landmarks=50, random_state=0).partial_fit(first)
    before = error(model, X)
    for _ in range(3):
        model.partial_fit(X)
    assert error(model, X) < 0.8 * before
    assert np.abs(model.encoder_[:, 20:64, -1]).max() > 0.01


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n", [16, 64, 128])
def test_one_hot_samples(n, form):
    """Samples whose eigenvalues are all equal have a model, whatever axes that takes."""
    X = np.eye(n)
    model = data_span(2, **form, n_epochs=1, random_state=0).fit(X)
    assert np.isfinite(reconstructed(model, X)).all()


@pytest.mark.parametrize("form", FORMS)
def test_duplicate_landmarks_do_no_harm(form):
    """Samples that repeat span what they span once."""
    X = np.tile(np.random.default_rng(0).uniform(0, 1, (10, 5)), (4, 1))
    model = data_span(3, **form, n_epochs=2, random_state=0).fit(X)
    assert model.rank_ <= 10
    assert np.isfinite(reconstructed(model, X)).all()
