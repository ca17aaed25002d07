"""Fits succeed as a whole or leave no trace, whatever goes wrong, and leave nothing stale."""

import sys
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from battery import ESTIMATORS, SETTINGS, STREAMS
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from akpca import GeneralizedHebbian, KernelPCA, load_dataset

DIGITS = load_dataset("digits").X[:60, 10:40] / 16
MODELS = [clone(estimator).set_params(n_components=3) for estimator in ESTIMATORS]
# Settings that take batches, but for gains that need the number of samples of a pass.
BATCHES = [
    *STREAMS,
    *(e for e in SETTINGS if hasattr(e, "partial_fit") and not isinstance(e, GeneralizedHebbian)),
]
# Faults that come in a fit, spread over it.
N_FAULTS = 12


class Fault(Exception):
    """What goes wrong."""


def name(estimator):
    return type(estimator).__name__


@contextmanager
def fault_after(n=0, kind=Fault):
    """Raise an exception at the n-th call of a function of the package; 0 only counts them."""
    calls = [0]

    def profile(frame, event, argument):
        # an exception in a generator that ends is lost
        ours = frame.f_globals.get("__name__", "").startswith("akpca.")
        if event == "call" and ours and frame.f_code.co_name != "<genexpr>":
            calls[0] += 1
            if calls[0] == n:
                sys.setprofile(None)
                raise kind

    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def faults(method, X):
    """Return numbers of calls, spread evenly over all that a method makes for X."""
    with fault_after() as calls:
        method(X)
    return np.unique(np.linspace(2, calls[0], N_FAULTS).astype(int))


def behaviour(model, X):
    """Return what a user sees of a model: codes, and samples decoded from them."""
    codes = model.transform(X)
    try:
        return codes, model.inverse_transform(codes)
    except NotFittedError:
        return (codes,)


def state(model, X):
    """Return the attributes of a model, copies of the arrays among them, and its behaviour."""
    copies = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in vars(model).items()}
    return copies, behaviour(model, X)


def assert_unchanged(model, before, X):
    """The attributes are the same objects and arrays, and the model behaves as it did."""
    attributes, seen = before
    assert vars(model).keys() == attributes.keys()
    for key, value in attributes.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(getattr(model, key), value)
        else:
            assert getattr(model, key) is value
    for now, then in zip(behaviour(model, X), seen, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("kind", [Fault, KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("estimator", MODELS, ids=name)
def test_a_refit_with_a_fault_leaves_the_old_model_whole(estimator, kind):
    """The old model is unchanged, or, after an interrupt, there is a new one that is whole."""
    clone(estimator).fit(DIGITS[20:])  # the first time, functions are compiled
    model = clone(estimator).fit(DIGITS[:40])
    before = state(model, DIGITS)
    for n in faults(clone(estimator).fit, DIGITS[20:]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                with fault_after(n, kind):
                    model.fit(DIGITS[20:])
            except kind:
                assert_unchanged(model, before, DIGITS)
                continue
        assert kind is KeyboardInterrupt
        assert all(np.isfinite(part).all() for part in behaviour(model, DIGITS))
        before = state(model.fit(DIGITS[:40]), DIGITS)


@pytest.mark.parametrize("estimator", MODELS, ids=name)
def test_a_first_fit_with_a_fault_leaves_an_unfitted_estimator(estimator):
    """`transform` then raises NotFittedError, not AttributeError."""
    clone(estimator).fit(DIGITS)  # the first time, functions are compiled
    for n in faults(clone(estimator).fit, DIGITS):
        model = clone(estimator)
        with pytest.raises(Fault), fault_after(n, Fault):
            model.fit(DIGITS)
        assert vars(model) == vars(clone(estimator))
        with pytest.raises(NotFittedError):
            model.transform(DIGITS)
        with pytest.raises(NotFittedError):
            model.inverse_transform(np.zeros((2, 3)))


@pytest.mark.parametrize("estimator", BATCHES, ids=name)
def test_a_batch_with_a_fault_leaves_no_trace(estimator):
    """A stream in which a batch failed and came again goes on as if nothing had happened."""
    model, undisturbed = clone(estimator), clone(estimator)
    for batch in (DIGITS[:25], DIGITS[25:40], DIGITS[40:]):
        for n in faults(undisturbed.partial_fit, batch):
            with pytest.raises(Fault), fault_after(n, Fault):
                model.partial_fit(batch)
        model.partial_fit(batch)
        np.testing.assert_array_equal(model.transform(DIGITS), undisturbed.transform(DIGITS))


@pytest.mark.parametrize("estimator", MODELS, ids=name)
def test_a_refused_refit_leaves_the_old_model_whole(estimator):
    """Nor does an error in a callback, which reaches the user, change any attribute."""
    model = clone(estimator).fit(DIGITS[:40])
    before = state(model, DIGITS)
    for bad, params in (
        (np.full((30, 30), np.nan), {}),
        (DIGITS.reshape(-1), {}),
        (DIGITS, {"n_components": -1}),
    ):
        with pytest.raises(ValueError):
            model.set_params(**params).fit(bad)
        assert_unchanged(model.set_params(n_components=3), before, DIGITS)
    if hasattr(model, "callback"):
        with pytest.raises(ZeroDivisionError):
            model.set_params(callback=lambda progress: 1 / 0).fit(DIGITS)
        assert_unchanged(model.set_params(callback=None), before, DIGITS)
    if name(model) not in ("KernelPCA", "Autoencoder"):  # which give as many as there are or more
        with pytest.raises(ValueError):
            model.set_params(n_components=200).fit(DIGITS[:, :12])
        assert_unchanged(model.set_params(n_components=3), before, DIGITS)


def test_a_fit_leaves_nothing_of_an_earlier_one():
    """Attributes that only some fits set are gone after others; settings stay."""
    model = KernelPCA(3, kernel="rbf", fit_inverse_transform=True).set_output(transform="pandas")
    import pandas as pd

    model.fit(pd.DataFrame(DIGITS, columns=[f"p{i}" for i in range(DIGITS.shape[1])]))
    assert {"dual_coef_", "X_transformed_fit_", "feature_names_in_"} <= vars(model).keys()
    model.set_params(fit_inverse_transform=False).fit(DIGITS)
    assert not {"dual_coef_", "X_transformed_fit_", "feature_names_in_"} & vars(model).keys()
    assert isinstance(model.transform(DIGITS), pd.DataFrame)


@pytest.mark.parametrize("estimator", MODELS, ids=name)
def test_attributes_that_others_set_stay(estimator):
    """A fit removes what fits have set, and nothing that scikit-learn or a user has."""
    model = clone(estimator).fit(DIGITS)
    model._parent, model.note_ = "a pipeline's", "mine"
    model.fit(DIGITS)
    assert (model._parent, model.note_) == ("a pipeline's", "mine")


@pytest.mark.parametrize("estimator", MODELS, ids=name)
def test_integers_of_numpy_are_as_good_as_any(estimator):
    """They do not overflow, and parameters stay the user's objects, also after a failure."""
    X = load_dataset("digits").X[:260, 18:30]
    numbers = {"n_components": 5, "n_epochs": 90, "n_passes": 2, "n_rounds": 2, "block_size": 50}
    numbers |= {"n_landmarks": 20, "n_centers": 120, "random_state": 3, "degree": 3}
    numbers = {key: numbers[key] for key in numbers.keys() & estimator.get_params().keys()}
    expected = clone(estimator).set_params(**numbers).fit(X).transform(X)
    for kind in (np.uint8, np.int16, np.int32):
        given = {key: kind(value) for key, value in numbers.items()}
        model = clone(estimator).set_params(**given)
        with pytest.raises(ValueError, match="NaN"):
            model.fit(X * np.nan)
        np.testing.assert_array_equal(model.fit(X).transform(X), expected)
        assert {key: type(vars(model)[key]) for key in given} == dict.fromkeys(given, kind)
