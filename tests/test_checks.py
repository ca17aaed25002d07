"""scikit-learn's contract: every public estimator passes all of its checks at the defaults."""

from unittest import SkipTest

import pytest
from battery import ESTIMATORS
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

import akpca

PUBLIC = [getattr(akpca, name) for name in akpca.__all__]
CHECKED = [cls for cls in PUBLIC if isinstance(cls, type) and issubclass(cls, BaseEstimator)]


# At the defaults; of what takes many passes over the data also with few.
LONG = {"n_epochs", "n_rounds"}
FEW = [cls().set_params(**dict.fromkeys(LONG & cls().get_params().keys(), 2)) for cls in CHECKED]


def passes(estimator, check):
    """Run a check; only that of array libraries, which are not used here, may skip."""
    try:
        check(estimator)
    except SkipTest:
        assert check.func.__name__ == "check_array_api_input"
        raise


@parametrize_with_checks(FEW)
def test_scikit_learn_check(estimator, check):
    passes(estimator, check)


@pytest.mark.slow
@parametrize_with_checks([cls() for cls in CHECKED if LONG & cls().get_params().keys()])
def test_scikit_learn_check_at_many_passes(estimator, check):
    passes(estimator, check)


def test_every_estimator_is_in_the_battery():
    """What other files try of all estimators is tried of a new one as well."""
    assert {type(estimator) for estimator in ESTIMATORS} == set(CHECKED)
