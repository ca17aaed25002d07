"""Properties of all estimators, for inputs that hypothesis draws: the same few on every run."""

import numpy as np
import pytest
from battery import SETTINGS, STREAMS, described
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from akpca import DivergenceError

every_setting = pytest.mark.parametrize("estimator", SETTINGS, ids=described)
# Values of one kind, multiplied by a power of ten.
KINDS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "image": lambda rng, shape: rng.integers(0, 256, shape) * (rng.random(shape) < 0.7),
    "constant": lambda rng, shape: np.full(shape, rng.standard_normal()),
    "zero": lambda rng, shape: np.zeros(shape),
    "duplicates": lambda rng, shape: rng.standard_normal(shape)[np.zeros(shape[0], int)],
    "far away": lambda rng, shape: 1e4 + rng.standard_normal(shape),
    "one outlier": lambda rng, shape: rng.standard_normal(shape) * (1 + 1e6 * np.eye(*shape)),
}


def examples(n):
    suppressed = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    options = {"deadline": None, "database": None, "suppress_health_check": suppressed}
    return settings(max_examples=n, derandomize=True, **options)


@st.composite
def samples(draw):
    """Draw an array of finite numbers with some rows and columns, in one of several types."""
    shape = draw(st.integers(1, 20)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    X = KINDS[draw(st.sampled_from(list(KINDS)))](rng, shape)
    X = X * 10.0 ** draw(st.just(0) | st.integers(-6, 6))
    return np.asfortranarray(X.astype(draw(st.sampled_from((np.float64, np.float32, np.int64)))))


@every_setting
@examples(12)
@given(X=samples(), n_components=st.integers(1, 4))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_any_finite_input_is_fitted_or_refused(estimator, X, n_components):
    """Results are finite, of the promised shape and type; the input stays as it was."""
    model, before = clone(estimator).set_params(n_components=n_components), X.copy()
    try:
        codes = model.fit(X).transform(X)
        decoded = model.inverse_transform(codes)
    except NotFittedError:  # no decoder
        decoded = X
    except (ValueError, DivergenceError):
        return
    finally:
        np.testing.assert_array_equal(X, before)
    assert codes.shape[0] == len(X)
    assert codes.shape[1] <= n_components
    assert codes.dtype == (np.float32 if X.dtype == np.float32 else np.float64)
    assert np.isfinite(codes).all()
    assert decoded.shape == X.shape
    assert np.isfinite(decoded).all()


@every_setting
def test_plain_images_are_taken_in_every_form(estimator):
    """But for rounding; so the test above is not green because all is refused."""
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).integers(0, 256, (30, 6)).astype(np.float64)
    expected = clone(estimator).fit(X).transform(X)
    assert np.isfinite(expected).all()
    for form in (X.astype(np.uint8), X.tolist(), np.asfortranarray(X), pandas.DataFrame(X)):
        found = clone(estimator).fit(form).transform(form)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9 * np.abs(expected).max())
    decodes = getattr(estimator, "preimage", 1) or getattr(estimator, "fit_inverse_transform", 0)
    if estimator.__sklearn_tags__().input_tags.sparse and not decodes:
        thin = sparse.csr_array(X)
        found = clone(estimator).fit(thin).transform(thin)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)


@every_setting
def test_what_is_not_finite_is_refused(estimator):
    """Also by a fitted model, whose codes could not be finite."""
    X = np.random.default_rng(0).random((30, 6))
    model = clone(estimator).fit(X)
    for X[3, 2] in (np.nan, np.inf):
        for method in (clone(estimator).fit, model.transform):
            with pytest.raises(ValueError, match=r"NaN|infinity"):
                method(X)


@pytest.mark.parametrize("estimator", STREAMS, ids=described)
@examples(15)
@given(seed=st.integers(0, 9), first=st.integers(4, 20), cuts=st.sets(st.integers(21, 49)))
def test_it_makes_no_difference_how_a_stream_is_cut(estimator, seed, first, cuts):
    """Behind the first batch; inner products, as equal eigenvalues leave the axes open."""
    X = np.random.default_rng(seed).standard_normal((50, 5))
    whole, cut = clone(estimator), clone(estimator)
    for model, places in ((whole, [first]), (cut, [first, *sorted(cuts)])):
        for batch in np.split(X, places):
            model.partial_fit(batch)
    A, B = whole.transform(X), cut.transform(X)
    np.testing.assert_allclose(A @ A.T, B @ B.T, atol=1e-7)
