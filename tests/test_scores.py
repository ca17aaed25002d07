"""Scores of novelty: minus what is lost of a sample, by features that are written out."""

import numpy as np
import pytest
from battery import ESTIMATORS
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel

from akpca import (
    IncrementalKernelPCA,
    KernelOperator,
    KernelPCA,
    NystromKernelPCA,
    load_dataset,
)
from akpca.kernels import RBF

X = load_dataset("digits").X[:120, 18:30]
X, X_new = X[:90], X[90:] + 1.0
EXACT = [KernelPCA(3), NystromKernelPCA(3, n_landmarks=90), IncrementalKernelPCA(3, n_kept=90)]


def name(estimator):
    return type(estimator).__name__


def linear_scores(center):
    """Minus the squared distances from the span of PCA's axes."""
    mean = X.mean(axis=0) * center
    V = np.linalg.svd(X - mean)[2][:3]
    rest = X_new - mean
    return -np.sum((rest - rest @ V.T @ V) ** 2, axis=1)


def rbf_scores(center):
    """The same in feature space, where all that is known are inner products."""
    n, K, K_new = len(X), rbf_kernel(X, gamma=0.01), rbf_kernel(X_new, X, gamma=0.01)
    norms = np.ones(len(X_new))  # k(x, x)
    if center:
        norms = 1 - 2 * K_new.mean(axis=1) + K.mean()
        H = np.eye(n) - 1 / n
        K, K_new = H @ K @ H, (K_new - K.mean(axis=0)) @ H
    values, U = np.linalg.eigh(K)
    codes = K_new @ U[:, -3:] / np.sqrt(values[-3:])
    return np.sum(codes**2, axis=1) - norms


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("estimator", EXACT, ids=name)
def test_scores_are_distances_in_feature_space(estimator, kernel, center):
    """Of dense and sparse samples, in either precision."""
    expected = (linear_scores if kernel == "linear" else rbf_scores)(center)
    model = clone(estimator).set_params(kernel=kernel, gamma=0.01, center=center).fit(X)
    size = np.abs(expected).max()
    for samples in (X_new, X_new.astype(np.float32), sparse.csr_array(X_new)):
        np.testing.assert_allclose(model.score_samples(samples), expected, atol=1e-5 * size)
    assert model.score_samples(X).mean() > model.score_samples(X_new).mean()


def test_an_operator_tells_scores_and_a_matrix_does_not():
    """The operator has samples, and k(x, x) of new ones; numbers alone have not."""
    model = KernelPCA(3, kernel="precomputed")
    model.fit(KernelOperator(X, RBF(gamma=0.01)))
    np.testing.assert_allclose(model.score_samples(X_new), rbf_scores(True), atol=1e-6)
    model.fit(rbf_kernel(X, gamma=0.01))
    with pytest.raises(ValueError, match="score_samples needs samples"):
        model.score_samples(rbf_kernel(X_new, X, gamma=0.01))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=name)
def test_scores_are_at_most_0_and_keep_what_transform_keeps(estimator):
    """In input space they are minus the squared error; float32 stays float32."""
    model = clone(estimator).set_params(n_components=3)
    with pytest.raises(NotFittedError):
        model.score_samples(X)
    model.fit(X)
    scores = model.score_samples(X_new)
    assert scores.shape == (len(X_new),)
    assert scores.max() <= 0
    if not hasattr(model, "kernel"):
        rest = X_new - model.inverse_transform(model.transform(X_new))
        np.testing.assert_allclose(scores, -np.sum(rest**2, axis=1), rtol=1e-9)
        assert model.fit(X.astype(np.float32)).score_samples(X_new).dtype == np.float64
        assert model.score_samples(X_new.astype(np.float32)).dtype == np.float32
    with pytest.raises(ValueError, match="12 features"):
        model.score_samples(X_new[:, 1:])
