"""scikit-learn's contract: every public estimator passes all of its checks at the defaults."""

from unittest import SkipTest

from battery import ESTIMATORS
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

import akpca

PUBLIC = [getattr(akpca, name) for name in akpca.__all__]
CHECKED = [cls for cls in PUBLIC if isinstance(cls, type) and issubclass(cls, BaseEstimator)]


@parametrize_with_checks([cls() for cls in CHECKED])
def test_scikit_learn_check(estimator, check):
    """Each check passes; only that of array libraries, which are not used here, may skip."""
    try:
        check(estimator)
    except SkipTest:
        assert check.func.__name__ == "check_array_api_input"
        raise


def test_every_estimator_is_in_the_battery():
    """What other files try of all estimators is tried of a new one as well."""
    assert {type(estimator) for estimator in ESTIMATORS} == set(CHECKED)
