"""What all estimators share: fits that succeed or leave no trace, and checks of what they take.

A model is worth something only as a whole. `fit_method` sees to that for all estimators: a fit
that fails, is refused or interrupted leaves the estimator as it was, and one that succeeds leaves
nothing of an earlier one behind. The private parts of scikit-learn that we rely on are here, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints

__all__ = [
    "FLOATS",
    "Encoder",
    "Interval",
    "StrOptions",
    "check_codes",
    "fit_method",
    "moved",
    "validate_parameter_constraints",
]

# Types of samples and codes: what is of the second stays so, all else becomes the first.
FLOATS = [np.float64, np.float32]

Method = TypeVar("Method", bound=Callable[..., Any])


class Encoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base class of estimators that turn samples of `FLOATS` into codes of the same type."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def check_codes(Y, n_components: int, name: str = "X", **options) -> np.ndarray:
    """Return codes as an array; raise ValueError unless they have so many columns.

    The options are those of scikit-learn's ``check_array``.
    """
    Y = check_array(Y, dtype=FLOATS, input_name=name, **options)
    if Y.shape[1] != n_components:
        raise ValueError(
            f"{name} has {Y.shape[1]} columns, but the codes have {n_components} components"
        )
    return Y


# The attribute that holds the names of all that was fitted; others are parameters or settings.
FITTED = "_fitted_names"


def fit_method(method: Method) -> Method:
    """Decorate `fit` or `partial_fit`: check the parameters, then fit all or nothing.

    `fit` starts from an estimator without the attributes of earlier fits, unless its `warm_start`
    is true; `partial_fit` has them. If anything is raised, all attributes are what they were
    before. A method must therefore not change the arrays and objects of an earlier fit in place.
    It sees NumPy's scalars among the parameters as Python's numbers, which do not overflow.
    """

    @wraps(method)
    def whole(self, *args, **kwargs):
        before = vars(self).copy()
        fitted = before.get(FITTED, ())
        try:
            if method.__name__ == "fit" and not getattr(self, "warm_start", False):
                for name in fitted:
                    vars(self).pop(name, None)
            others, rules = vars(self).keys() - set(fitted), self._parameter_constraints
            if not get_config()["skip_parameter_validation"]:
                # `_validate_params` takes twice as long: it inspects the signature for their names
                validate_parameter_constraints(rules, vars(self), caller_name=type(self).__name__)
            scalars = {p: before[p] for p in rules if isinstance(before.get(p), np.generic)}
            vars(self).update((p, value.item()) for p, value in scalars.items())
            result = method(self, *args, **kwargs)
            vars(self).update(scalars)
            setattr(self, FITTED, tuple(sorted(vars(self).keys() - others)))
            return result
        except BaseException:  # an interrupt as well
            self.__dict__ = before
            raise

    return cast(Method, whole)


def moved(names: dict[str, str]) -> Callable[[Method], Method]:
    """Decorate a constructor: a parameter that is gone is refused with what to use instead."""

    def decorate(init):
        @wraps(init)
        def checked(self, *args, **kwargs):
            for name in names.keys() & kwargs.keys():
                raise TypeError(f"{type(self).__name__} has no parameter {name}: {names[name]}")
            init(self, *args, **kwargs)

        return cast(Method, checked)

    return decorate
