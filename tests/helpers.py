"""What several test files need."""

import numpy as np


def assert_same_up_to_sign(A, B, atol=1e-8):
    """Assert that the columns of A and B are equal up to their signs."""
    assert A.shape == B.shape
    signs = np.sign(np.sum(A * B, axis=0))
    np.testing.assert_allclose(A * signs, B, atol=atol)
