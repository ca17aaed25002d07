"""What several test files need."""

import sys
import warnings

import numpy as np
from sklearn.base import clone

from akpca import relative_error


def assert_same_up_to_sign(A, B, atol=1e-8):
    """Assert that the columns of A and B are equal up to their signs."""
    assert A.shape == B.shape
    signs = np.sign(np.sum(A * B, axis=0))
    np.testing.assert_allclose(A * signs, B, atol=atol)


def rebuilt(model, X):
    return model.inverse_transform(model.transform(X))


def error(model, X):
    return relative_error(X, rebuilt(model, X))


def interrupt_anywhere(estimator, X, names, check):
    """Interrupt fits at one line after another of functions of `autoencoding` with these names.

    A fit raises the interrupt and leaves no trace, or keeps a model that ``check(model)`` is called
    with and tells so, in one warning; both happen more than ten times.
    """

    def lines(frame, event, arg):
        nonlocal left
        left -= event == "line"
        if event == "line" and left == 0:
            raise KeyboardInterrupt
        return lines

    def calls(frame, event, arg):
        code = frame.f_code
        return lines if "autoencoding" in code.co_filename and code.co_name in names else None

    kept, raised, trace = 0, 0, sys.gettrace()
    for at in range(1, 1000):
        model, left = clone(estimator), at
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            sys.settrace(calls)
            try:
                model.fit(X)
            except KeyboardInterrupt:
                raised += 1
                assert vars(model).keys() == model.get_params().keys()
                continue
            finally:
                sys.settrace(trace)
        if left > 0:  # all lines were tried
            break
        kept += 1
        assert [str(w.message)[:11] for w in seen] == ["interrupted"]
        check(model)
    assert min(kept, raised) > 10
    assert left > 0
