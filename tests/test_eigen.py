"""Eigensolvers: all agree with LAPACK."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from akpca import eigen
from akpca.eigen import block_krylov, leading_eigenpairs, power_method
from akpca.kernels import RBF
from akpca.operators import KernelOperator


def with_spectrum(values, seed=0):
    """Return a symmetric matrix with the given eigenvalues and random eigenvectors."""
    n = len(values)
    Q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))
    return (Q * values) @ Q.T


@pytest.mark.parametrize("solver", ["auto", "dense", "arpack", "randomized"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", ["C", "F"])
def test_solvers_agree_with_lapack(solver, dtype, order):
    """Largest eigenvalues first, unit vectors, K V = V diag(values)."""
    K = with_spectrum(0.6 ** np.arange(60)).astype(dtype, order=order)
    before = K.copy()
    values, vectors, used = leading_eigenpairs(K, 5, solver=solver, random_state=0)
    assert used == (solver if solver != "auto" else "dense")
    tol = 1e-10 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(values, 0.6 ** np.arange(5), rtol=tol)
    np.testing.assert_allclose(K @ vectors, vectors * values, atol=tol)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(5), atol=tol)
    np.testing.assert_array_equal(K, before)


@pytest.mark.parametrize("solver", ["auto", "dense", "arpack", "randomized"])
def test_largest_means_algebraically_largest(solver):
    """A negative eigenvalue is what it is; LAPACK is for small matrices and many pairs."""
    K = with_spectrum(np.r_[-9, 8, 7, np.zeros(397)])
    values, _, used = leading_eigenpairs(K, 3, solver=solver, random_state=0)
    expected = [8, 7, -9] if solver == "randomized" else [8, 7, 0]  # largest in absolute value
    np.testing.assert_allclose(values, expected, atol=1e-9)
    if solver == "auto":
        assert used == "arpack"
        assert leading_eigenpairs(K, 100)[2] == "dense"


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "K", [np.eye(100), np.eye(100) - 0.01, np.diag(np.arange(100) % 2)], ids=["1", "H", "0 and 1"]
)
def test_repeated_eigenvalues_are_all_found(K, dtype, overwrite):
    """As of one-hot data, where LAPACK's selection by index returns fewer than asked for."""
    K = K.astype(dtype)
    expected = np.linalg.eigvalsh(K)[::-1]
    for k in (1, 10, 61, 99):
        given = K.copy()
        values, U, _ = leading_eigenpairs(given, k, solver="dense", overwrite=overwrite)
        eps = 200 * np.finfo(dtype).eps
        np.testing.assert_allclose(values, expected[:k], atol=eps)
        np.testing.assert_allclose(K @ U, U * values, atol=eps)
        np.testing.assert_allclose(U.T @ U, np.eye(k), atol=eps)
        assert overwrite or (given == K).all()


@pytest.mark.parametrize("n", [1, 400])
def test_zero_matrix_and_all_pairs(n):
    """Degenerate requests get an answer: a zero matrix, or k = n."""
    values, vectors, _ = leading_eigenpairs(np.zeros((n, n)), min(n, 3))
    np.testing.assert_array_equal(values, 0)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(min(n, 3)), atol=1e-12)
    values = leading_eigenpairs(np.diag(np.arange(n) + 1.0), n, solver="arpack")[0]
    np.testing.assert_allclose(values, np.arange(n, 0, -1))


@pytest.mark.parametrize("start", ["auto", "random"])
@pytest.mark.parametrize("center", [True, False])
def test_block_krylov_equals_lapack(start, center):
    """LAPACK's pairs of an operator from any start, to the residuals that are reported."""
    X = load_digits().data[:600] / 16
    operator = KernelOperator(X, RBF(gamma=0.05), center=center)
    values, vectors, _ = leading_eigenpairs(operator.dense(), 6, solver="dense")
    result = block_krylov(operator, 6, start=start, tol=1e-6, random_state=0)
    assert result.converged
    assert result.residuals.max() <= 1e-6
    np.testing.assert_allclose(result.values, values, rtol=1e-9)
    np.testing.assert_allclose(np.abs(np.sum(result.vectors * vectors, axis=0)), 1, atol=1e-9)
    measured = operator @ result.vectors - result.vectors * result.values
    measured = np.linalg.norm(measured, axis=0) / result.values
    np.testing.assert_allclose(result.residuals, measured, atol=1e-12)


@pytest.mark.parametrize("tol", [1e-2, 1e-5, 1e-10])
@pytest.mark.parametrize("max_blocks", [10, 4])
def test_block_krylov_stops_at_its_tolerance(tol, max_blocks, monkeypatch):
    """The looser the tolerance the fewer the products, with and without restarts."""
    monkeypatch.setattr(eigen, "MAX_BLOCKS", max_blocks)
    K = with_spectrum(1 / np.arange(1, 301))
    result = block_krylov(K, 5, tol=tol, random_state=0)
    assert result.converged
    assert result.residuals.max() <= tol
    np.testing.assert_allclose(result.values, 1 / np.arange(1, 6), rtol=tol)
    loose = block_krylov(K, 5, tol=10 * tol, random_state=0)
    assert loose.n_products <= result.n_products


def test_block_krylov_keeps_its_best_pairs_when_stopped():
    """By max_products, callback or interrupt; one in the first product leaves nothing."""
    K, seen = with_spectrum(1 / np.arange(1, 301)), []
    options = {"tol": 1e-14, "random_state": 0}
    short = block_krylov(K, 3, max_products=2, **options)
    assert (short.n_products, short.converged) == (2, False)
    np.testing.assert_allclose(short.values, [1, 1 / 2, 1 / 3], rtol=0.1)
    stopped = block_krylov(K, 3, callback=lambda r: seen.append(r) or len(seen) == 2, **options)
    np.testing.assert_array_equal(stopped.values, short.values)
    assert [state.n_iter for state in seen] == [1, 2]
    assert seen[1].loss == seen[1].model.residuals.max() < seen[0].loss

    class Interrupted:
        shape, dtype = K.shape, K.dtype

        def __matmul__(self, V):
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return K @ V

    operator = Interrupted()
    operator.left = 2
    with pytest.warns(ConvergenceWarning, match="interrupted after 2 products"):
        found = block_krylov(operator, 3, **options)
    np.testing.assert_array_equal(found.values, short.values)
    operator.left = 0
    with pytest.raises(KeyboardInterrupt):
        block_krylov(operator, 3)


def test_block_krylov_on_degenerate_matrices():
    """Low rank, repeated eigenvalues and k = n: right values and orthonormal vectors."""
    for spectrum, k in (([3.0, 2.0] + [0.0] * 98, 4), ([2.0] * 5 + [1.0] * 95, 5), ([3, 2, 1], 3)):
        result = block_krylov(with_spectrum(np.array(spectrum)), k, tol=1e-8, random_state=0)
        np.testing.assert_allclose(result.values, spectrum[:k], atol=1e-9)
        np.testing.assert_allclose(result.vectors.T @ result.vectors, np.eye(k), atol=1e-8)
    with pytest.raises(ValueError, match="k must be between 1 and 5"):
        block_krylov(np.eye(5), 6)
    with pytest.raises(ValueError, match="start must have 5 rows and at least 2 columns"):
        block_krylov(np.eye(5), 2, start=np.ones((5, 1)))


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 12), rank=st.integers(0, 12), seed=st.integers(0, 100))
def test_power_method_equals_lapack(n, rank, seed):
    """All pairs of a positive semi-definite matrix, also where eigenvalues are zero."""
    rank = min(rank, n)
    spectrum = np.r_[0.5 ** np.arange(rank), np.zeros(n - rank)]
    A = with_spectrum(spectrum, seed)
    values, V = power_method(A, n, random_state=seed)
    np.testing.assert_allclose(values, spectrum, atol=1e-9)
    np.testing.assert_allclose(V.T @ V, np.eye(n), atol=1e-6)
    np.testing.assert_allclose(A @ V, V * values, atol=1e-7)


def test_power_method_where_it_is_hard():
    """Eigenvalues many orders smaller than the first: vectors stay orthogonal, which deflation
    alone does not see to. Nearly equal ones: an error with advice, not a wrong vector."""
    _, V = power_method(with_spectrum(np.r_[1.0, 1e-11, 1e-12, 1e-13, np.zeros(9)]), 4)
    np.testing.assert_allclose(V.T @ V, np.eye(4), atol=1e-12)
    with pytest.raises(RuntimeError, match="max_iter=50"):
        power_method(np.diag([1.0, 0.999, 0.5]), 1, max_iter=50)
    with pytest.raises(ValueError, match="k must be between 1 and 3"):
        power_method(np.eye(3), 4)


@pytest.mark.parametrize(("fraction", "k"), [(0.1, 1), (0.5, 1), (0.51, 2), (0.8, 3), (0.9, 3)])
def test_enough_components(fraction, k):
    """The smallest number of eigenvalues with at least this share; all, if they have less."""
    assert eigen.enough_components(np.array([5.0, 2, 1]), 10.0, fraction) == k
    assert eigen.enough_components(np.zeros(3), 0.0, fraction) == 1
