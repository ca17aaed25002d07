"""Logistic PCA of the reference: its descent, and what its codes are best at."""

import numpy as np
import pytest
from scipy.special import expit

from akpca import load_dataset, pca, reconstruction_error
from akpca.book import reference

DIGITS = load_dataset("digits").X


@pytest.mark.parametrize("k", [1, 30])
def test_no_step_makes_the_deviance_larger(k):
    """Neither on grey images nor on black and white ones, whose best deviance is not attained."""
    for X in (DIGITS[:60], np.round(DIGITS[:60])):
        values = [
            reference.logistic_pca_deviance(X, *reference.logistic_pca(X, k, n_steps=n_steps))
            for n_steps in range(8)
        ]
        assert np.isfinite(values).all()
        assert (np.diff(values) <= 1e-9 * values[0]).all()


def test_it_finds_probabilities_that_have_a_rank():
    """For x_ij = 1 / (1 + exp(-t_ij)) with T of rank 2 and a mean, it comes back to them."""
    rng = np.random.default_rng(0)
    U, V, b = rng.standard_normal((60, 2)), rng.standard_normal((8, 2)), rng.standard_normal(8)
    X = expit(b + U @ V.T)
    U, V, b = reference.logistic_pca(X, 2, n_steps=500)
    np.testing.assert_allclose(expit(b + U @ V.T), X, atol=2e-3)


def test_codes_of_new_samples_are_stationary():
    """With V and b fixed the deviance is convex in a code; the search ends where it is flat."""
    X, X_new = DIGITS[:200], DIGITS[300:320]
    _, V, b = reference.logistic_pca(X, 3, n_steps=20)
    U = reference.logistic_pca_codes(X_new, V, b, n_steps=2000)
    best = reference.logistic_pca_deviance(X_new, U, V, b)
    assert best < reference.logistic_pca_deviance(X_new, np.zeros_like(U), V, b)
    rng = np.random.default_rng(0)
    for _ in range(10):
        step = 1e-4 * rng.standard_normal(U.shape)
        changes = [
            reference.logistic_pca_deviance(X_new, U + s * step, V, b) - best for s in (1, -1)
        ]
        # to first order nothing changes: the steps up and down cancel out
        assert abs(changes[0] - changes[1]) < 1e-2 * sum(changes)


def test_grey_digits_are_rebuilt_better_than_by_pca():
    """Probabilities saturate as pixels do: on held-out digits, with as many numbers."""
    X, X_new = DIGITS[:600], DIGITS[1200:]
    _, V, b = reference.logistic_pca(X, 10)
    X_hat = expit(b + reference.logistic_pca_codes(X_new, V, b) @ V.T)
    error = reconstruction_error(X_new, X_hat)
    assert error < 0.9 * reconstruction_error(X_new, pca(X, 10).reconstruct(X_new))
