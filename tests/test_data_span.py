"""AKPCA within the span of some samples, and all of AKPCA when there are enough."""

import pickle
import tracemalloc

import numpy as np
import pytest
from helpers import assert_same_up_to_sign, error, rebuilt
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from akpca import DataSpanAKPCA, pca, relative_error
from akpca.autoencoding import DenseModel, Span, SpanModel, objectives
from akpca.book import reference

LOSSES = {"spectral": objectives.spectral, "reconstruction": objectives.reconstruction}

by_offset = pytest.mark.parametrize("offset", [True, False])
by_objective = pytest.mark.parametrize("objective", LOSSES)
with_and_without_constant = pytest.mark.parametrize("constant", [False, True])


@pytest.fixture(scope="module")
def digits():
    """400 digits to train with and 200 others, of 8x8."""
    X = load_digits().data[:600] / 16
    return X[:400], X[400:]


def samples(n, d, constant, seed=0):
    """Positive samples, or samples of any sign and a last coordinate 1."""
    rng = np.random.default_rng(seed)
    if not constant:
        return rng.random((n, d))
    return np.hstack([rng.standard_normal((n, d)), np.ones((n, 1))])


def random_model(d, m, k, constant, scale=1.0):
    """A span of m landmarks, random encoder and decoder in it, near enough to x x^T to decode."""
    rng = np.random.default_rng(0)
    Z = samples(m, d, constant, 1)
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


# ------------------------------------------------------------------------------- the span


@with_and_without_constant
def test_span_speaks_of_matrices(constant):
    """All is that of the matrices it stands for, in an orthonormal basis."""
    d, m = 5, 9
    span, H, _ = random_model(d, m, 4, constant)
    T = span.forms(H)
    np.testing.assert_allclose(T, T.transpose(0, 2, 1), atol=1e-12)
    basis = span.forms(np.eye(span.size))
    flat = basis.reshape(span.size, -1)
    np.testing.assert_allclose(flat @ flat.T, np.eye(span.size), atol=1e-9)
    rng = np.random.default_rng(3)
    P, V = rng.standard_normal((2, 6, d + constant))
    expected = np.einsum("ir,jrs,is->ij", P, basis, V)
    np.testing.assert_allclose(span.coordinates(span.inner(P, V)), expected, atol=1e-9)
    codes = SpanModel(span, H, H).encode(P)
    np.testing.assert_allclose(codes, np.einsum("ir,jrs,is->ij", P, T, P), atol=1e-9)
    C = rng.standard_normal((6, span.n_atoms))
    M = span.matrices(C).transpose(1, 0, 2)
    np.testing.assert_allclose(span.product(C)(V), np.einsum("irs,is->ir", M, V), atol=1e-10)


@by_objective
@with_and_without_constant
@settings(max_examples=10, deadline=None)
@given(d=st.integers(1, 6), k=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_enough_landmarks_hold_any_akpca_model(objective, constant, d, k, seed):
    """From m = d (d + 1) / 2 on, any A and B can be mapped into the span: same codes and losses."""
    rng = np.random.default_rng(seed)
    X = samples(7, d, constant, seed)
    D, terms = X.shape[1], d * (d + 1) // 2
    A, B = rng.standard_normal((D, k, D)), rng.standard_normal((D, k + constant, D))
    A, B = A + A.transpose(2, 1, 0), B + B.transpose(2, 1, 0)
    span = Span(rng.standard_normal((3 * terms, d)), constant=constant)
    assert span.size == terms + (d + 1) * constant
    H, G = (np.einsum("rjs,irs->ji", T, span.forms(np.eye(span.size))) for T in (A, B))
    np.testing.assert_allclose(span.matrices(span.expand(G)), B, atol=1e-6)
    loss = exact_loss(objective, X, constant)
    dense, model = DenseModel(A, B), SpanModel(span, H, G)
    expected, _, _ = dense.gradients(X, loss)
    losses, _, _ = model.gradients(X, loss)
    np.testing.assert_allclose(losses, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())
    np.testing.assert_allclose(model.encode(X), dense.encode(X), rtol=1e-6, atol=1e-6)


# ------------------------------------------------------------------------------ gradients


def test_gradient_is_the_literal_one():
    """The fast gradient is the mean of (25) and (26), through the whitening H -> H W^T."""
    span, H, G = random_model(7, 12, 3, False)
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
    values = [reference.data_span_eigenpair(z, raw[2], x)[0] for z, x in zip(zetas, X, strict=True)]
    assert min(values) < 0 < max(values)


@by_objective
@with_and_without_constant
def test_gradient_against_finite_differences(objective, constant):
    """Gradients of both objectives agree with central differences to 1e-5, of noisy codes."""
    span, H, G = random_model(6, 10, 3, constant, scale=0.3)
    X = samples(8, 6, constant, 4)
    noisy = X + 0.1 * np.random.default_rng(9).standard_normal(X.shape)
    loss = exact_loss(objective, X, constant)
    _, (dH, dG), _ = SpanModel(span, H, G).gradients(noisy, loss)
    U, V = (np.random.default_rng(1).standard_normal(p.shape) for p in (H, G))
    h = 1e-5
    sides = [
        SpanModel(span, H + s * U, G + s * V).gradients(noisy, loss)[0].mean() for s in (h, -h)
    ]
    slope, size = (sides[0] - sides[1]) / (2 * h), np.hypot(*map(np.linalg.norm, (dH, dG)))
    assert np.sum(dH * U) + np.sum(dG * V) == pytest.approx(slope, rel=1e-5, abs=1e-5 * size)


# ---------------------------------------------------------------------------------- start


@pytest.mark.parametrize("shape", [(200, 20), (12, 30)])
def test_start_is_pca(shape):
    """Codes are sqrt(2) c times PCA's, with fewer samples than features as well."""
    X = np.random.default_rng(0).standard_normal(shape) * 0.8 ** np.arange(shape[1])
    linear = pca(X, 4)
    model = DataSpanAKPCA(4, n_landmarks=10, n_epochs=0).fit(X)
    codes = model.transform(X) / (np.sqrt(2) * model.constant_)
    assert_same_up_to_sign(codes, linear.encode(X), atol=1e-8)
    assert error(model, X) - relative_error(X, linear.reconstruct(X)) < 0.05


# ------------------------------------------------------------------------------- training


def test_landmarks_are_samples_or_centres(digits):
    """Samples, each at most once; or centres, nearer to the samples on average."""
    X, gaps = digits[0][:150], {}
    for sampling in ("uniform", "kmeans"):
        model = DataSpanAKPCA(3, n_landmarks=40, sampling=sampling, n_epochs=0, random_state=0)
        Z = model.fit(X).landmarks_
        assert Z.shape == (40, 64)
        gaps[sampling] = np.sum((Z[:, None] - X) ** 2, axis=2)
    assert gaps["uniform"].min(axis=1).max() < 1e-20
    assert len(set(gaps["uniform"].argmin(axis=1))) == 40
    assert gaps["kmeans"].min(axis=0).mean() < 0.9 * gaps["uniform"].min(axis=0).mean()


# ------------------------------------------------------------------------ what comes out


@by_offset
def test_coefficients_are_those_of_the_matrices(offset, digits):
    """Quadratic parts of A_j and B_j are sums of landmarks, in the units of X."""
    X = 5 * digits[0]
    model = DataSpanAKPCA(3, offset=offset, n_landmarks=50, n_epochs=2, random_state=0).fit(X)
    centred = model.landmarks_ - model.mean_
    for name in ("encoder", "decoder"):
        coef, matrices = getattr(model, f"{name}_coef_"), getattr(model, f"{name}_")
        assert coef.shape == (3, 50)
        quadratic = np.einsum("ji,ir,is->jrs", coef, centred, centred)
        np.testing.assert_allclose(matrices[:, :64, :64], quadratic, atol=1e-6)


@by_offset
@by_objective
def test_no_matrix_of_features_is_formed(offset, objective):
    """With many features, memory stays far below one d x d matrix."""
    d = 4000
    X = np.random.default_rng(0).uniform(0, 1, (30, d)).astype(np.float32)
    model = DataSpanAKPCA(3, n_epochs=1, n_landmarks=15, objective=objective, offset=offset)
    tracemalloc.start()
    rebuilt(model.fit(X), X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < d * d * np.dtype(np.float64).itemsize / 2


@by_offset
def test_a_pickle_holds_what_codes_and_their_decoding_need(offset, digits):
    """Not the basis of the span; what comes back says the same, in either precision."""
    X = digits[0]
    model = DataSpanAKPCA(3, offset=offset, n_epochs=1, random_state=0).fit(X)
    needed = model.landmarks_.nbytes + model.encoder_coef_.nbytes + model.decoder_coef_.nbytes
    assert len(pickle.dumps(model)) < 1.5 * needed
    again = pickle.loads(pickle.dumps(model))
    for part in (X, X.astype(np.float32)):
        np.testing.assert_array_equal(rebuilt(again, part), rebuilt(model, part))
        np.testing.assert_allclose(rebuilt(model, part), rebuilt(model, X), atol=1e-3)


@by_objective
def test_features_that_never_vary_come_back(objective, digits):
    """A feature that is constant has no part in encoder and decoder, and comes back."""
    X = digits[0].copy()
    X[:, 7] = 0.7
    dead = np.ptp(X, axis=0) == 0
    assert dead.sum() > 1
    model = DataSpanAKPCA(4, objective=objective, n_landmarks=60, n_epochs=3, random_state=0).fit(X)
    for matrices in (model.encoder_, model.decoder_):
        assert not matrices[:, :64, -1][:, dead].any()
    np.testing.assert_allclose(rebuilt(model, X)[:, dead], X[:, dead], atol=1e-3)
