"""What several test files need."""

import sys
import warnings

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


def interrupt_anywhere(make, X, names, check):
    """Interrupt fits of models from `make()` at one line after another, until none is left.

    A fit raises the interrupt and leaves no trace, or keeps a model that ``check(model)`` is called
    with and tells so, in one warning; both happen more than ten times. `names` are those of
    `fit_interrupted`.
    """
    ends = {"kept": 0, "raised": 0}
    for at in range(1, 1000):
        model = make()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            try:
                happened = fit_interrupted(model, X, at, names)
            except KeyboardInterrupt:
                ends["raised"] += 1
                assert vars(model).keys() == model.get_params().keys()
                continue
        if not happened:
            break
        ends["kept"] += 1
        assert [str(w.message)[:11] for w in seen] == ["interrupted"]
        check(model)
    assert min(ends.values()) > 10
    assert at < 999
