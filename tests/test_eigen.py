"""Eigensolvers: all agree with LAPACK."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from akpca.eigen import choose_solver, leading_eigenpairs, power_method


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
    values, vectors, used = leading_eigenpairs(K, 5, solver=solver, random_state=0)
    assert used == (solver if solver != "auto" else "dense")
    tol = 1e-10 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(values, 0.6 ** np.arange(5), rtol=tol)
    np.testing.assert_allclose(K @ vectors, vectors * values, atol=tol)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(5), atol=tol)


@pytest.mark.parametrize("solver", ["auto", "dense", "arpack"])
def test_largest_means_algebraically_largest(solver):
    """A negative eigenvalue of large size is not a leading one."""
    values, _, _ = leading_eigenpairs(with_spectrum(np.r_[-9, np.arange(1, 400)]), 3, solver=solver)
    np.testing.assert_allclose(values, [399, 398, 397])


def test_matrix_survives_unless_overwritten():
    """K is left alone by default, so that a caller may use it again."""
    K = with_spectrum(np.arange(1.0, 50))
    before = K.copy()
    for solver in ("dense", "arpack", "randomized"):
        leading_eigenpairs(K, 3, solver=solver)
        np.testing.assert_array_equal(K, before)


@pytest.mark.parametrize("n", [1, 2, 400])
def test_zero_matrix_and_all_pairs(n):
    """Degenerate requests get an answer: a zero matrix, or k = n."""
    values, vectors, _ = leading_eigenpairs(np.zeros((n, n)), min(n, 3))
    np.testing.assert_array_equal(values, 0)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(min(n, 3)), atol=1e-12)
    values, _, used = leading_eigenpairs(np.diag(np.arange(n) + 1.0), n, solver="arpack")
    assert used == "dense"
    np.testing.assert_allclose(values, np.arange(n, 0, -1))


def test_repeated_eigenvalues():
    """Equal eigenvalues: the vectors span the right space."""
    K = with_spectrum(np.r_[[3.0] * 4, [1.0] * 396])
    values, V, _ = leading_eigenpairs(K, 4, random_state=0)
    np.testing.assert_allclose(values, 3)
    np.testing.assert_allclose(V @ V.T, (K - np.eye(400)) / 2, atol=1e-9)


def test_choice_by_cost():
    """Small matrices and large k go to LAPACK, the rest to ARPACK."""
    assert choose_solver(6000, 25) == "arpack"
    assert choose_solver(6000, 3000) == "dense"
    assert choose_solver(100, 2) == "dense"


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 12), rank=st.integers(0, 12), seed=st.integers(0, 100))
def test_power_method_equals_lapack(n, rank, seed):
    """All pairs of a positive semi-definite matrix, also where eigenvalues are zero."""
    rank = min(rank, n)
    spectrum = np.r_[0.5 ** np.arange(rank), np.zeros(n - rank)]
    A = with_spectrum(spectrum, seed)
    values, V = power_method(A, n, seed=seed)
    np.testing.assert_allclose(values, spectrum, atol=1e-9)
    np.testing.assert_allclose(V.T @ V, np.eye(n), atol=1e-6)
    np.testing.assert_allclose(A @ V, V * values, atol=1e-7)


def test_power_method_says_when_it_does_not_settle():
    """Nearly equal eigenvalues: an error with advice, not a wrong vector."""
    with pytest.raises(RuntimeError, match="max_iter=50"):
        power_method(np.diag([1.0, 0.999, 0.5]), 1, max_iter=50)
    with pytest.raises(ValueError, match="k must be between 1 and 3"):
        power_method(np.eye(3), 4)
