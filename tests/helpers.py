"""What several test files need."""

import sys

import numpy as np


def assert_same_up_to_sign(A, B, atol=1e-8):
    """Assert that the columns of A and B are equal up to their signs."""
    assert A.shape == B.shape
    signs = np.sign(np.sum(A * B, axis=0))
    np.testing.assert_allclose(A * signs, B, atol=atol)


def fit_interrupted(model, X, at, names):
    """Fit, with an interrupt at a line of functions of `autoencoding` with these names.

    Lines are counted as they are reached; return whether there were so many.
    """
    count = 0

    def lines(frame, event, arg):
        nonlocal count
        if event == "line":
            count += 1
            if count == at:
                raise KeyboardInterrupt
        return lines

    def calls(frame, event, arg):
        code = frame.f_code
        return lines if "autoencoding" in code.co_filename and code.co_name in names else None

    before = sys.gettrace()
    sys.settrace(calls)
    try:
        model.fit(X)
    finally:
        sys.settrace(before)
    return count >= at
