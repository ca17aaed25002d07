"""Operators: products, traces and norms are those of the dense (centred) kernel matrix."""

import time

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from threadpoolctl import threadpool_limits

from akpca import KernelOperator, operators
from akpca.book import reference
from akpca.kernels import RBF, Chi2, Cosine, Laplacian, Linear, Polynomial, Sigmoid
from akpca.operators import FeatureOperator, MatrixOperator, count_features

KERNELS = [
    Linear(),
    Polynomial(degree=2, gamma=1, coef0=0),
    Polynomial(degree=2, gamma=0.3, coef0=2),
    Polynomial(degree=3, gamma=0.5, coef0=1),
    RBF(gamma=0.4),
    Sigmoid(gamma=0.2, coef0=0),
    Cosine(),
    Laplacian(gamma=0.3),
    Chi2(gamma=0.5),
]
WITH_FEATURES = [kernel for kernel in KERNELS if count_features(kernel, 4)]


@pytest.fixture(params=[40, 700])
def X(request, monkeypatch):
    """Return points in one tile, and in many uneven ones."""
    monkeypatch.setattr(operators, "TILE_ROWS", 96)
    monkeypatch.setattr(operators, "TILE_COLUMNS", 130)
    monkeypatch.setattr(operators, "TILE_VALUES", 96 * 130)
    return np.random.default_rng(0).uniform(0.1, 1, (request.param, 4))


def dense(X, kernel, center):
    K = kernel(X)
    return reference.center_kernel(K) if center else K


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize(
    ("make", "kernel"),
    [(KernelOperator, kernel) for kernel in KERNELS]
    + [(FeatureOperator, kernel) for kernel in WITH_FEATURES]
    + [(make, KERNELS[2]) for make in ("sparse", MatrixOperator)],
    ids=str,
)
def test_all_operators_keep_the_contract(make, kernel, center, X):
    """All that they tell is that of the dense matrix."""
    K = dense(X, kernel, center)
    if make is MatrixOperator:
        operator = make(kernel(X), center=center)
    elif make == "sparse":
        operator = KernelOperator(sparse.csr_matrix(X), kernel, center=center)
    else:
        operator = make(X, kernel, center=center)
    size = np.abs(K).max()
    V = np.random.default_rng(1).standard_normal((len(X), 3))
    np.testing.assert_allclose(operator @ V, K @ V, atol=1e-10 * size * len(X))
    np.testing.assert_allclose(operator @ V[:, 0], K @ V[:, 0], atol=1e-10 * size * len(X))
    assert isinstance(operator, LinearOperator)
    assert operator.dtype == np.float64
    assert operator.center == center
    np.testing.assert_allclose(operator.means(), kernel(X).mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(operator.rows([5, 2]), K[[5, 2]], atol=1e-10 * size)
    np.testing.assert_allclose(operator.diagonal(), np.diag(K), atol=1e-10 * size)
    np.testing.assert_allclose(operator.plain_diagonal(), kernel.diag(X), atol=1e-10 * size)
    np.testing.assert_allclose(operator.trace(), np.trace(K), rtol=1e-9)
    np.testing.assert_allclose(operator.frobenius_norm(), np.linalg.norm(K), rtol=1e-9)
    np.testing.assert_allclose(operator.dense(), K, atol=1e-10 * size)
    np.testing.assert_allclose(operator.T @ np.ones(len(X)), K.sum(axis=0), atol=1e-8 * size)


@pytest.mark.parametrize("kernel", WITH_FEATURES, ids=repr)
@pytest.mark.parametrize("center", [True, False])
def test_covariance_has_the_eigenvalues_of_the_kernel_matrix(kernel, center, X):
    """Phi Phi^T = K and Phi^T Phi share them, and Phi w is an eigenvector of K."""
    operator = FeatureOperator(X, kernel, center=center)
    Phi = operator.features(slice(None)).T
    np.testing.assert_allclose(Phi @ Phi.T, kernel(X), rtol=1e-10)
    np.testing.assert_allclose(operator.mean_features(), Phi.mean(axis=0), atol=1e-12)
    C = operator.covariance.dense()
    W = np.random.default_rng(2).standard_normal((operator.n_features, 2))
    np.testing.assert_allclose(operator.covariance @ W, C @ W, atol=1e-9 * np.abs(C).max())
    values, vectors = np.linalg.eigh(C)
    expected = np.linalg.eigvalsh(dense(X, kernel, center))[::-1][:3]
    np.testing.assert_allclose(values[::-1][:3], expected, rtol=1e-9)
    u = operator.from_features(vectors[:, -1:]) / np.sqrt(values[-1])
    np.testing.assert_allclose(np.linalg.norm(u), 1)
    K = dense(X, kernel, center)
    np.testing.assert_allclose(K @ u, values[-1] * u, atol=1e-9 * values[-1])


def test_unused_dimensions_cost_nothing():
    """Features are counted in the dimensions that the data span, not in columns."""
    X = np.random.default_rng(0).standard_normal((50, 3)) @ np.ones((3, 10))
    X = np.hstack([X, np.zeros((50, 5))])
    operator = FeatureOperator(X, Polynomial(degree=2, gamma=1, coef0=0))
    assert operator.n_features == 1
    V = np.eye(50)[:, :4]
    K = reference.center_kernel(Polynomial(degree=2, gamma=1, coef0=0)(X))
    np.testing.assert_allclose(operator @ V, K @ V, atol=1e-9 * np.abs(K).max())


@pytest.mark.parametrize("n_threads", [2, 3])
def test_threads_change_nothing_but_rounding_and_repeat_to_the_bit(n_threads, X):
    """The same number of threads gives the same bits; each has its share of the tiles."""
    V = np.random.default_rng(1).standard_normal((len(X), 2))
    operator, found = KernelOperator(X, RBF(gamma=0.4)), []
    with threadpool_limits(n_threads, user_api="blas"):
        first, second = operator @ V, operator @ V
        operator._sweep(lambda tiles: found.append(len(list(tiles))) or 0.0)
    assert len(found) == min(n_threads, -(-len(X) // 96))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, dense(X, RBF(gamma=0.4), True) @ V, atol=1e-10)


def test_float32_blocks_are_summed_in_float64():
    """float32 data: kernel values of that precision, but no loss in long sums."""
    X = np.random.default_rng(0).standard_normal((3000, 3)).astype(np.float32)
    operator = KernelOperator(X, RBF(gamma=0.1))
    exact = KernelOperator(X.astype(np.float64), RBF(gamma=0.1))
    V = np.random.default_rng(1).standard_normal((3000, 2))
    assert operator.dtype == np.float32
    assert (operator @ V).dtype == np.float64
    assert np.linalg.norm(operator @ V - exact @ V) < 2e-6 * np.linalg.norm(exact @ V)
    np.testing.assert_allclose(operator.frobenius_norm(), exact.frobenius_norm(), rtol=1e-6)


def test_an_error_in_one_thread_stops_the_others(X):
    """Whatever goes wrong in a sweep reaches the caller, and no thread goes on behind its back."""
    seen = []

    class Failing(RBF):
        def fill(self, out, *args):
            seen.append(1)
            if len(seen) == 2:
                raise KeyboardInterrupt
            time.sleep(0.05)  # so that the other thread hears of it within a tile or two
            super().fill(out, *args)

    X = np.tile(X, (700 // len(X), 1))
    with threadpool_limits(2, user_api="blas"), pytest.raises(KeyboardInterrupt):
        KernelOperator(X, Failing(gamma=1)) @ np.ones(len(X))
    assert len(seen) < 10  # of more than thirty tiles


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda X: KernelOperator(X, "rbf"), TypeError, "kernel must be a Kernel"),
        (lambda X: KernelOperator(X * np.nan, RBF()), ValueError, "X contains NaN"),
        (lambda X: KernelOperator(X, RBF()) @ np.ones(3), ValueError, "(?i)dimension mismatch"),
        (lambda X: FeatureOperator(X, RBF()), ValueError, "explicit features need"),
        (lambda X: FeatureOperator(sparse.csr_matrix(X), Linear()), ValueError, "need dense data"),
        (lambda X: KernelOperator(1e200 * X, Linear()) @ X, ValueError, "NaN or infinity"),
    ],
)
def test_bad_input_is_named(call, error, message, X):
    """Errors say what was wrong."""
    with pytest.raises(error, match=message):
        call(X)
