"""Whatever is given to an estimator, a sound model comes out, or an error that says what to do.

Hypothesis draws inputs of all shapes, types, layouts, containers and magnitudes. By default it
draws the same few on every run. With the environment variable ``AKPCA_BATTERY=long`` it draws new
ones, fifty times as many, and faults are injected at every line of a fit::

    AKPCA_BATTERY=long pytest -n 2 tests/test_battery.py

What is printed of a failure repeats it: ``Sample(...)`` is the input, see `battery`.
"""

import os
import re
import warnings

import numpy as np
import pytest
from battery import SETTINGS, Sample, fingerprint, samples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from akpca import DivergenceError

LONG = os.environ.get("AKPCA_BATTERY") == "long"
COMMON = {
    "deadline": None,
    "database": None,
    "derandomize": not LONG,
    "suppress_health_check": list(HealthCheck),
}
# What an estimator may refuse an input with. A DivergenceError is no ValueError, and that sparse
# matrices have no learned inverse, KernelPCA says in the words and the type of scikit-learn's.
NO_INVERSE = "Inverse transform not implemented for sparse matrices!"
REFUSALS = (ValueError, TypeError, NotFittedError, DivergenceError, NotImplementedError)
# How messages of scikit-learn begin that name the input in other words than 'X'.
SAID_BY_SCIKIT_LEARN = (
    *("Found array with", "Negative values in data", "Sparse data was passed"),
    NO_INVERSE,
)
# Sentences of libraries, on what went wrong inside and not on what was given.
CRYPTIC = (
    "broadcast|[Ss]ingular matrix|not converge|out of bounds|positive definite|positive-definite|infs or NaNs"
    "|operands|illegal value|zero-size|ARPACK|not aligned|mismatch in its core|not supported for"
    "|cannot reshape|must be real number|unsupported operand|NoneType|object has no attribute"
)


def described(estimator):
    """Return the name of a setting for the report of the tests."""
    return re.sub(r"\s+", "", str(estimator)).replace(",random_state=0", "")


every_setting = pytest.mark.parametrize("estimator", SETTINGS, ids=described)


def examples(n):
    """Return the settings of a test with n examples, or fifty times as many."""
    return settings(max_examples=50 * n if LONG else n, **COMMON)


def assert_clear(error, estimator):
    """An error names what was wrong: the input or a parameter, in words of its own."""
    assert not isinstance(error, np.linalg.LinAlgError), repr(error)
    message = str(error)
    words = {"X", *estimator.get_params(deep=False)}
    named = words & set(re.findall(r"\w+", message))
    assert named or message.startswith(SAID_BY_SCIKIT_LEARN), f"names nothing: {error!r}"
    assert not re.search(CRYPTIC, message), f"cryptic: {error!r}"


def attempt(method, *args, estimator, finite=True):
    """Return what a method gives, or None if it refuses its input, in clear words.

    Either way there are no warnings but those that are documented, of class UserWarning, unless
    the input is not finite, about which NumPy may warn while scikit-learn looks at it.
    """
    refusal = None
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            result = method(*args)
        except REFUSALS as error:
            refusal, result = error, None
    if refusal is not None:
        assert_clear(refusal, estimator)
    for w in seen:
        documented = issubclass(w.category, UserWarning) or not finite
        text = f"{w.category.__name__}: {w.message} ({w.filename}:{w.lineno}), then {refusal!r}"
        assert documented, text
    return result


def code_tolerance(model, X, codes):
    """Return the difference that rounding may make between `fit_transform` and `transform`.

    Codes are sums of n kernel values with weights w. Both methods round kernel values and sums, so
    that they differ by some eps ||k(x, Z)|| ||w||, where the norm of a row of kernel values is at
    most the sum of k(x, x). A matrix-free solver also leaves a residual, relative to the code.
    """
    weights = getattr(model, "components_", None)
    if weights is None:
        roots = np.sqrt(np.where(model.eigenvalues_ > 0, model.eigenvalues_, np.inf))
        weights = (model.eigenvectors_ / roots).T
    total = np.abs(model.kernel_.diag(X)).sum(dtype=np.float64)
    lengths = np.linalg.norm(weights.astype(np.float64), axis=1)
    residual = getattr(model, "residuals_", np.zeros(1)).max()
    largest = np.abs(codes).max(initial=0, axis=0)
    return 100 * np.finfo(codes.dtype).eps * (total * lengths + largest) + residual * largest


def assert_same_codes(model, X, at_once, codes):
    """`fit_transform` gives the codes of `fit` and `transform`: to the bit, but for rounding where
    it takes them from the fit."""
    if type(model).__name__ not in ("KernelPCA", "KernelHebbian"):
        np.testing.assert_array_equal(at_once, codes)
        return
    difference = np.abs(at_once.astype(np.float64) - codes).max(initial=0, axis=0)
    tolerance = code_tolerance(model, X, codes)
    assert np.all(difference <= tolerance), f"{difference} > {tolerance}"


def assert_finite_attributes(model):
    """All numbers that a fitted model shows are finite."""
    for name, value in vars(model).items():
        if name.endswith("_") and isinstance(value, np.ndarray) and value.dtype.kind == "f":
            assert np.isfinite(value).all(), f"{name} is not finite"


def check_estimator(estimator, sample, n_components):
    """Fit, encode and decode an input; assert all that is promised of that."""
    X, model = sample.make(), clone(estimator).set_params(n_components=n_components)
    before, dense = fingerprint(X), sample.array().astype(sample.out_dtype)
    given = {"estimator": model, "finite": np.isfinite(dense).all()}
    fitted = attempt(clone(model).fit, X, **given)
    at_once = attempt(clone(model).fit_transform, X, **given)
    codes = None if fitted is None else attempt(fitted.transform, X, **given)
    assert fingerprint(X) == before, "the input was changed"
    # what can be fitted can be encoded
    assert (fitted is None) == (at_once is None) == (codes is None)
    if fitted is None:
        return
    assert given["finite"], "took an input that is not finite"
    assert_finite_attributes(fitted)
    # kernel PCA gives as many components as there are, the others refuse to give fewer
    shape = sample.n, min(n_components, sample.n) if is_drop_in(model) else n_components
    for found in (codes, at_once):
        assert isinstance(found, np.ndarray)
        assert found.shape == shape, f"codes have shape {found.shape}"
        assert found.dtype == sample.out_dtype, f"codes are {found.dtype}"
        assert np.isfinite(found).all(), "codes are not finite"
    assert_same_codes(fitted, X if sparse.issparse(X) else dense, at_once, codes)
    back = attempt(fitted.inverse_transform, codes, estimator=model)
    if back is not None:
        assert back.shape == (sample.n, sample.d), f"samples have shape {back.shape}"
        assert back.dtype == sample.out_dtype, f"samples are {back.dtype}"
        assert np.isfinite(back).all(), "decoded samples are not finite"
    assert fingerprint(X) == before, "the input was changed"


def is_drop_in(model):
    return type(model).__name__ == "KernelPCA"


@every_setting
@examples(60)
@given(data=st.data())
def test_any_input_is_fitted_or_refused(estimator, data):
    """Any input gives finite codes of the promised shape and type, from which samples can be
    decoded, or an error that names what was wrong; it is never changed, and there are no warnings
    of arithmetic."""
    sample = data.draw(samples(), label="X")
    n_components = data.draw(st.integers(1, sample.n + 2), label="n_components")
    check_estimator(estimator, sample, n_components)
