"""Errors of reconstructions: right for every dtype and scale, or refused."""

import numpy as np
import pytest

from akpca import metrics, reconstruction_error, relative_error


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float16, bool])
def test_any_dtype_is_compared_in_double_precision(dtype):
    """Differences and squares do not overflow in the dtype of images."""
    largest = {bool: 1, np.float16: 60_000}.get(dtype, 100)
    X, X_hat = np.zeros((4, 3), dtype), np.full((4, 3), largest, dtype)
    expected = 3 * float(X_hat[0, 0]) ** 2
    assert reconstruction_error(X, X_hat) == reconstruction_error(X_hat, X) == expected
    assert relative_error(X_hat, X) == 1


def test_blocks_do_not_matter(monkeypatch):
    """The error is the same, to the bit, whatever the number of rows compared at a time."""
    X, X_hat = np.random.default_rng(0).standard_normal((2, 100, 7)).astype(np.float32)
    whole = reconstruction_error(X, X_hat), relative_error(X, X_hat)
    monkeypatch.setattr(metrics, "BLOCK_VALUES", 20)
    assert (reconstruction_error(X, X_hat), relative_error(X, X_hat)) == whole
    difference = X.astype(np.float64) - X_hat
    np.testing.assert_allclose(whole[0], (difference**2).sum() / len(X))


@pytest.mark.parametrize(
    ("X", "X_hat", "message"),
    [
        ([[1.0, np.nan]], [[1.0, 2.0]], "contains NaN"),
        ([[1.0, 2.0]], [[1.0, np.inf]], "contains infinity"),
        ([1.0, 2.0], [1.0, 2.0], "Expected 2D array"),
        (np.ones((2, 2)), np.ones((2, 1)), "same shape"),
        (np.full((2, 2), 1e200), np.ones((2, 2)), "too far apart"),
    ],
)
def test_what_has_no_error_is_refused(X, X_hat, message):
    """NaN, infinity, wrong shapes and overflow are named, not answered with a number."""
    with pytest.raises(ValueError, match=message):
        relative_error(X_hat, X)
    with pytest.raises(ValueError, match=message):
        reconstruction_error(X, X_hat)
