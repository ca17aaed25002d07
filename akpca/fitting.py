"""Fits that succeed or leave no trace, and the private parts of scikit-learn that we rely on.

A model is worth something only as a whole. `fit_method` sees to that for all estimators: a fit
that fails, is refused or interrupted leaves the estimator as it was, and one that succeeds leaves
nothing of an earlier one behind.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from sklearn import get_config, set_config
from sklearn.utils._param_validation import Interval, StrOptions

__all__ = ["Interval", "StrOptions", "fit_method"]

Method = TypeVar("Method", bound=Callable[..., Any])

# The attribute that holds the names of all that was fitted; others are parameters or settings.
FITTED = "_fitted_names"


def fit_method(method: Method) -> Method:
    """Decorate `fit` or `partial_fit`: check the parameters, then fit all or nothing.

    `fit` starts from an estimator without the attributes of earlier fits, unless its `warm_start`
    is true; `partial_fit` has them. If anything is raised, all attributes are what they were
    before. A method must therefore not change the arrays and objects of an earlier fit in place.
    """

    @wraps(method)
    def whole(self, *args, **kwargs):
        before, unchecked = vars(self).copy(), get_config()["skip_parameter_validation"]
        try:
            fitted = before.get(FITTED, ())
            if method.__name__ == "fit" and not getattr(self, "warm_start", False):
                for name in fitted:
                    vars(self).pop(name, None)
            others = vars(self).keys() - set(fitted)
            if not unchecked:
                self._validate_params()
            result = method(self, *args, **kwargs)
            setattr(self, FITTED, tuple(sorted(vars(self).keys() - others)))
            return result
        except BaseException:  # an interrupt as well
            self.__dict__ = before
            raise
        finally:
            # scikit-learn's functions change this while they run; one that was interrupted at the
            # wrong moment has left it so
            set_config(skip_parameter_validation=unchecked)

    return cast(Method, whole)
