"""What all kernel estimators share: a kernel, the code f(x) = W^T k(x, Z) - offset, a decoder.

A subclass resolves its kernel in `fit` (`_resolve_kernel`), finds components, and ends with
`_set_code`, which stores one :class:`akpca.kernel_code.KernelCode` and fits the decoder that the
user has chosen. `transform` and `inverse_transform` follow from these for all of them.
"""

from __future__ import annotations

from copy import deepcopy
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted, validate_data

from .fitting import FLOATS, Encoder, Interval, StrOptions, check_codes
from .kernel_code import KernelCode
from .kernels import (
    CONSTRAINTS,
    KERNELS,
    CallableKernel,
    Chi2,
    Kernel,
    Linear,
    Precomputed,
    gamma_of,
    make_kernel,
    median_gamma,
    sum_duplicates,
    warn_if_identity,
)
from .preimage import PREIMAGES, Preimage, RidgePreimage, make_preimage

__all__ = ["COUNT_OR_FRACTION", "KERNEL_CONSTRAINTS", "KernelEstimator"]

# Numbers of components that may be a part of the variance.
COUNT_OR_FRACTION = [
    Interval(Integral, 1, None, closed="left"),
    Interval(Real, 0, 1, closed="neither"),
    None,
]

KERNEL_CONSTRAINTS: dict = {
    **CONSTRAINTS,  # of gamma, degree and coef0
    "gamma": [*CONSTRAINTS["gamma"], StrOptions({"median"})],
    "kernel": [StrOptions(set(KERNELS) | {"precomputed"}), callable],
    "kernel_params": [dict, None],
    "n_jobs": [None, Integral],
    "center": ["boolean"],
    "preimage": [StrOptions(set(PREIMAGES)), Preimage, None],
}


class KernelEstimator(Encoder):
    """Base class: the code f(x) = W^T k(x, Z) - offset, and the `KERNEL_CONSTRAINTS` parameters."""

    def transform(self, X) -> np.ndarray:
        """Return the codes f(x) of the rows of X, shape (n_new, n_components).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_new, n_features)
            With kernel='precomputed', k(new, fitted samples) of shape (n_new, n_samples).
        """
        check_is_fitted(self, "_code")
        if not hasattr(self._code.points, "encode"):
            X = self._validate(X, reset=False)
        return self._code.encode(X)

    def inverse_transform(self, X, *, preimage=None) -> np.ndarray:
        """Return samples, shape (n_new, n_features), whose codes are near X.

        Parameters
        ----------
        X : array-like of shape (n_new, n_components)
        preimage : str or Preimage, default=None
            Use this decoder instead of the fitted one.
        """
        check_is_fitted(self, "_code")
        decoder = self._decoder if preimage is None else self._fit_preimage(preimage)
        if decoder is None:
            learned = "fit_inverse_transform=True or " * hasattr(self, "fit_inverse_transform")
            raise NotFittedError(
                f"inverse_transform needs {learned}a preimage (one of {', '.join(PREIMAGES)}), "
                f"which was not given when this {type(self).__name__} was made"
            )
        return decoder.decode(check_codes(X, self._n_features_out, estimator=self))

    def score_samples(self, X) -> np.ndarray:
        """Return how well the components explain each sample, (n_new,); low is abnormal.

        It is minus the squared distance of phi(x) from the mean and all that the components add to
        it, in feature space: Hoffmann, "Kernel PCA for novelty detection", Pattern Recognition 40,
        2007. Not for kernel='precomputed' with a matrix, which does not tell k(x, x).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_new, n_features)
        """
        check_is_fitted(self, "_code")
        if self._code.points is None:
            raise ValueError("score_samples needs samples: kernel='precomputed' has no k(x, x)")
        if not hasattr(self._code.points, "encode"):
            X = self._validate(X, reset=False)
        return -self._code.distances(X)

    def _validate(self, X, *, reset=True, **options):
        options = {"accept_sparse": "csr", "dtype": FLOATS, **options}
        if type(X).__module__.startswith("dask."):
            raise TypeError(
                "X is a dask array: pass akpca.distributed.DaskKernelOperator(X, kernel), with "
                "kernel='precomputed'"
            )
        X = validate_data(self, X, reset=reset, **options)
        return sum_duplicates(X) if sparse.issparse(X) else X

    def _resolve_kernel(self, X):
        """Set `kernel_` and `gamma_` from the parameters and samples; return the kernel."""
        n_features, kernel = X.shape[1], self.kernel
        gamma = 1 / n_features if self.gamma is None else self.gamma
        gamma = median_gamma(kernel, X) if gamma == "median" else gamma
        if isinstance(kernel, Kernel):  # with its own gamma
            kernel.check_params()
            gamma = gamma_of(kernel, n_features)
            kernel = deepcopy(kernel)  # a fitted kernel must not change with the caller's object
        elif callable(kernel):
            kernel = CallableKernel(kernel, self.kernel_params, self.n_jobs)
        elif kernel == "precomputed":
            kernel = Precomputed()
        else:
            kernel = make_kernel(kernel, gamma=gamma, degree=self.degree, coef0=self.coef0)
        warn_if_identity(kernel, X)
        self.kernel_, self.gamma_ = kernel, gamma
        return kernel

    def _best_origin(self, X):
        """Return the mean of dense samples, shape (n_features,), or None if the origin matters.

        Without it, the linear kernel of data far from the origin would be rounded to more than
        their variance. Centred components do not depend on it.
        """
        if self.center and isinstance(self.kernel_, Linear) and isinstance(X, np.ndarray):
            with np.errstate(over="ignore"):  # kernel values will not be finite, which is reported
                return X.mean(axis=0, dtype=np.float64).astype(X.dtype)
        return None

    def _check_operator(self, operator: LinearOperator):
        """Set the attributes that depend on X from an operator; return its points."""
        if self.kernel != "precomputed":
            raise ValueError(f"an operator needs kernel='precomputed', not {self.kernel!r}")
        if operator.points is None:
            self.n_features_in_, self.kernel_ = operator.shape[0], Precomputed()
        else:
            self.kernel_, self.n_features_in_ = operator.kernel, operator.X.shape[1]
            self.gamma_ = gamma_of(self.kernel_, self.n_features_in_)
        return operator.points

    def _set_code(self, code: KernelCode):
        """Store the fitted code, and fit `preimage` if it is given."""
        self._code, self._decoder = code, None
        if self.preimage is not None:
            self._decoder = self.preimage_ = self._fit_preimage(self.preimage)

    def _fit_preimage(self, preimage):
        """Return a decoder, by name or as an object, fitted to the code."""
        targets = self._code.targets
        if targets is None or sparse.issparse(targets):
            raise ValueError(
                f"preimage={preimage!r} needs dense samples, not a precomputed kernel, an operator "
                "or sparse data"
            )
        if self._code.weights.shape[1] == 0:
            raise ValueError(f"preimage={preimage!r} needs data that vary: there is no code")
        if not isinstance(preimage, str):
            return clone(preimage).fit(self._code)
        shared = {}
        if preimage == RidgePreimage.name:  # whose work is bounded and shown as our own
            names = ("memory_limit", "random_state", "verbose")
            shared = {name: getattr(self, name) for name in names if hasattr(self, name)}
        return make_preimage(preimage, **shared).fit(self._code)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        histograms = self.kernel == "chi2"
        if isinstance(self.kernel, Kernel):  # also as a part of sums and products
            parts = (self.kernel, *self.kernel.get_params().values())
            histograms = any(isinstance(part, Chi2) for part in parts)
        tags.input_tags.sparse = not histograms
        tags.input_tags.positive_only = histograms
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    @property
    def _n_features_out(self):
        return self._code.weights.shape[1]
