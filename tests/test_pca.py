"""PCA: four ways to the same encoder and decoder."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg
from sklearn.decomposition import PCA

from akpca import KernelPCA, pca, reconstruction_error, relative_error


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return rng.standard_normal((40, 6)) * 0.6 ** np.arange(6) @ rng.standard_normal((6, 8)) + 2


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("method", ["power", "power-gram"])
def test_power_method_equals_svd(X, center, method):
    """Both power methods find the singular vectors and values, signs included."""
    expected = pca(X, 4, center=center)
    code = pca(X, 4, center=center, method=method)
    np.testing.assert_allclose(code.components, expected.components, atol=1e-6)
    np.testing.assert_allclose(code.singular_values, expected.singular_values, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(300, 120), (120, 300)])
@pytest.mark.parametrize("center", [True, False])
def test_squares_equal_svd(shape, center, dtype, monkeypatch):
    """Few of many components come from X^T X or X X^T, without an SVD and with the same result."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal(shape) * np.arange(1, shape[1] + 1) ** -0.5 + 0.1
    expected = pca(rows, 20, center=center, method="svd")
    monkeypatch.setattr(linalg, "svd", None)  # that of SciPy, which `pca` calls
    code = pca(rows.astype(dtype), 20, center=center)
    eps = np.finfo(dtype).eps
    assert code.components.dtype == dtype
    np.testing.assert_allclose(code.components, expected.components, atol=1e4 * eps)
    np.testing.assert_allclose(code.singular_values, expected.singular_values, rtol=100 * eps)
    np.testing.assert_allclose(code.mean, expected.mean, atol=10 * eps)


@pytest.mark.parametrize("scale", [1e-2, 1e-5, 1e-7, 0])
def test_small_singular_values_keep_their_digits(scale):
    """Squares would lose them, or the rank that the data do not have: then it is an SVD."""
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((n, 110)))[0] for n in (150, 110))
    values = np.r_[np.linspace(2, 1, 10), scale * np.linspace(2, 1, 100)]
    code = pca(U * values @ V.T, 15, center=False)
    np.testing.assert_allclose(code.singular_values, values[:15], rtol=1e-8, atol=1e-14)
    np.testing.assert_allclose(code.components @ code.components.T, np.eye(15), atol=1e-12)


def test_centred_equals_scikit_learn(X):
    """Codes, reconstructions and singular values are those of scikit-learn's PCA, up to sign."""
    ours, theirs = pca(X, 4), PCA(4).fit(X)
    signs = np.sign(np.sum(ours.components * theirs.components_, axis=1))
    np.testing.assert_allclose(ours.encode(X) * signs, theirs.transform(X), atol=1e-10)
    np.testing.assert_allclose(
        ours.reconstruct(X), theirs.inverse_transform(theirs.transform(X)), atol=1e-10
    )
    np.testing.assert_allclose(ours.singular_values, theirs.singular_values_)


def test_means_of_many_samples_in_single_precision():
    """They are summed in double precision, here and as the origin of linear kernel PCA."""
    X = np.full((1_000_000, 2), 1000.3, np.float32)
    X[::2] += 1
    np.testing.assert_allclose(pca(X, 1).mean, 1000.8, atol=1e-3)
    model = KernelPCA(1).fit(X)
    np.testing.assert_allclose(np.abs(model.transform(X[:9])), np.sqrt(0.5), atol=1e-3)
    np.testing.assert_allclose(model._code.shift, 1000.8, atol=1e-3)


@pytest.mark.parametrize("center", [True, False])
def test_error_is_the_sum_of_the_other_singular_values(X, center):
    """The squared error is what the singular values beyond k carry, so it falls with k."""
    all_values = np.linalg.svd(X - center * X.mean(axis=0), compute_uv=False)
    for k in range(1, 6):
        error = reconstruction_error(X, pca(X, k, center=center).reconstruct(X))
        np.testing.assert_allclose(error * len(X), np.sum(all_values[k:] ** 2), atol=1e-9)
        nested = pca(X, 6, center=center).truncated(k).reconstruct(X)
        np.testing.assert_array_equal(nested, pca(X, k, center=center).reconstruct(X))


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(2, 15),
    d=st.integers(1, 15),
    k=st.integers(1, 15),
    center=st.booleans(),
    seed=st.integers(0, 100),
)
def test_decoder_is_a_projection(n, d, k, center, seed):
    """A A^T = I, and reconstructing twice changes nothing."""
    X = np.random.default_rng(seed).standard_normal((n, d)) + 1
    k = min(k, n, d)
    code = pca(X, k, center=center)
    np.testing.assert_allclose(code.components @ code.components.T, np.eye(k), atol=1e-10)
    once = code.reconstruct(X)
    np.testing.assert_allclose(code.reconstruct(once), once, atol=1e-9)
    np.testing.assert_allclose(code.encode(code.decode(code.encode(X))), code.encode(X), atol=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X: pca(X, 9), r"n_components must be between 1 and min\(n, d\) = 8, got 9"),
        (lambda X: pca(X, 2, method="qr"), "method must be one of"),
        (lambda X: pca(X[0], 1), "Expected 2D array"),
        (lambda X: pca(X * np.nan, 1), "X contains NaN"),
        (lambda X: pca(X, 8, method="power-gram"), "the data have rank 6"),
        (lambda X: reconstruction_error(X, X[1:]), "same shape"),
        (lambda X: relative_error(X * 0, X), "all zero"),
        (lambda X: pca(X, 6).truncated(7), "k must be between 1 and 6, got 7"),
        (lambda X: pca(X, 3).encode(X[:, :1]), "X must have 8 columns, got 1"),
        (lambda X: pca(X, 3).decode(X), "Y must have 3 columns, got 8"),
    ],
)
def test_bad_input_is_named(X, call, message):
    """Errors say which argument was wrong and what is allowed."""
    with pytest.raises(ValueError, match=message):
        call(X)
