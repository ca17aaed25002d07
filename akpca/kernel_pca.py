"""Kernel principal component analysis, interchangeable with scikit-learn's.

PCA of phi(x_1), ..., phi(x_n) without phi: the components are v_j = sum_i alpha_ij phi(x_i),
where alpha_j = u_j / sqrt(nu_j) and (nu_j, u_j) is the j-th eigenpair of the (centred) kernel
matrix, and the code of x is f(x)_j = v_j . phi(x) = sum_i alpha_ij k(x, x_i).
"""

from __future__ import annotations

import warnings
from numbers import Integral, Real

import numpy as np
from scipy import linalg, sparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
    clone,
)
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils import check_array, gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import svd_flip
from sklearn.utils.validation import check_is_fitted, validate_data

from .distributed import DaskKernelOperator, is_dask_array, kernel_product
from .eigen import EIGEN_SOLVERS, leading_eigenpairs, operator_eigenpairs
from .kernels import BLOCK_ROWS, KERNELS, Kernel, make_kernel
from .operators import FeatureOperator, KernelOperator, has_features
from .preimage import PREIMAGES, CodeSpace, Preimage, make_preimage

# Relative residual at which a matrix-free solver stops by default: eigenvalues are then right to
# about the square of it.
MATRIX_FREE_TOL = 1e-3
# Up to so many explicit features their covariance matrix is formed and decomposed by LAPACK.
EXACT_FEATURES = 2000


class KernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Kernel PCA: f(x)_j = sum_i u_ij k(x, x_i) / sqrt(nu_j).

    A drop-in replacement of :class:`sklearn.decomposition.KernelPCA`: the same arguments with the
    same defaults, the same attributes, the same results up to rounding and the signs of near-ties.
    What it adds: `center`, `inverse_gamma`, explained variances, the kernels of
    :mod:`akpca.kernels`, a solver that is chosen by cost, and `transform` in blocks, whose memory
    does not grow with the number of new points.

    Parameters
    ----------
    n_components : int, default=None
        k, the size of the code; at most the number of samples. None keeps all components whose
        eigenvalue is not zero.
    kernel : {'linear', 'poly', 'rbf', 'sigmoid', 'cosine', 'laplacian', 'chi2', \
'precomputed'}, Kernel or callable, default='linear'
        A name, an object of :mod:`akpca.kernels` (whose own parameters hold), or a function of
        two samples that returns a number. 'precomputed' means that X is a kernel matrix.
    gamma : float, default=None
        Coefficient of the kernels that have one. None is 1 / n_features.
    degree : float, default=3
        Degree of 'poly'.
    coef0 : float, default=1
        Independent term of 'poly' and 'sigmoid'.
    kernel_params : dict, default=None
        Keyword arguments for a callable kernel.
    alpha : float, default=1.0
        Ridge penalty of the learned inverse.
    fit_inverse_transform : bool, default=False
        Learn `inverse_transform` by kernel ridge regression from codes to samples.
    eigen_solver : {'auto', 'dense', 'arpack', 'randomized', 'krylov', 'lobpcg'}, default='auto'
        'dense' (LAPACK), 'arpack' and 'randomized' hold the kernel matrix. 'krylov' (block
        Lanczos) and 'lobpcg' are matrix-free: they need O(n k) memory and compute each kernel
        value again in every sweep, or, where that is cheaper, the explicit features of the linear
        and the degree-2 kernel. 'auto' takes the cheapest that `memory_limit` allows.
    tol : float, default=0
        Of 'arpack', where 0 is machine precision, and largest relative residual
        ||K u - nu u|| / nu of the matrix-free solvers, where 0 is 1e-3.
    max_iter : int, default=None
        Iteration limit of 'arpack'; for the matrix-free solvers, sweeps over the kernel, 100 if
        None.
    iterated_power : int or 'auto', default='auto'
        Power iterations of 'randomized'.
    remove_zero_eig : bool, default=False
        Drop components of eigenvalue zero, so that fewer than n_components may be left.
    random_state : int, RandomState instance or None, default=None
        Starting vectors of 'arpack' and 'randomized'.
    copy_X : bool, default=True
        Keep a copy of X. False saves memory but holds on to X, which must then not be changed,
        and centres a precomputed kernel in place.
    n_jobs : int, default=None
        Parallel jobs for a callable kernel.
    center : bool, default=True
        Centre the data in feature space. False is the uncentred variant of the AKPCA report.
    inverse_gamma : float or 'scale', default=None
        Coefficient of the kernel of the learned inverse, which works on codes and not on samples
        and so deserves a width of its own. None is `gamma_`, as in scikit-learn; 'scale' is
        1 / (n_components * variance of the codes).

    preimage : {'ridge', 'eigenvector', 'fixed_point', 'distance'} or Preimage, default=None
        The decoder of `inverse_transform`, from :mod:`akpca.preimage`; it needs no
        `fit_inverse_transform`. None is scikit-learn's: kernel ridge regression with the same
        kernel, `alpha` and `inverse_gamma`, if `fit_inverse_transform`.
    memory_limit : float, default=2e9
        Bytes that 'auto' may spend on a kernel matrix. A larger one is never formed: a matrix-free
        solver sweeps over it, block by block.
    verbose : bool, default=False
        Show the progress of a matrix-free solver.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (n_components,)
        nu, of the (centred) kernel matrix, in descending order.
    eigenvectors_ : ndarray of shape (n_samples, n_components)
        u, of unit length; in each, the entry of largest size is positive. Of an eigenvalue zero,
        some unit vector or zeros.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of each code coordinate over the fitted samples, nu / (n - 1); uncentred,
        the mean square nu / n.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        nu divided by the trace of the (centred) kernel matrix, which is the total variance in
        feature space.
    eigen_solver_ : str
        The solver that was used.
    residuals_ : ndarray of shape (n_components,)
        Relative residuals of the eigenpairs, if the solver was matrix-free.
    gamma_ : float
        The value of gamma that was used.
    dual_coef_ : ndarray of shape (n_samples, n_features)
        Coefficients of the learned inverse, if `fit_inverse_transform`.
    inverse_gamma_ : float
        The gamma of the learned inverse, if `fit_inverse_transform`.
    preimage_ : Preimage
        The fitted decoder, if `preimage`.
    X_transformed_fit_ : ndarray of shape (n_samples, n_components)
        Codes of the fitted samples, if `fit_inverse_transform`.
    X_fit_ : {ndarray, sparse matrix} of shape (n_samples, n_features)
        The fitted samples.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Examples
    --------
    >>> from akpca import KernelPCA, load_dataset
    >>> circles = load_dataset("circles")
    >>> model = KernelPCA(n_components=1, kernel="poly", degree=2, coef0=0).fit(circles.X)
    >>> codes = model.transform(circles.X)
    >>> codes.shape
    (400, 1)
    """

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's convention)
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "kernel": [StrOptions(set(KERNELS) | {"precomputed"}), callable],
        "gamma": [Interval(Real, 0, None, closed="left"), None],
        "degree": [Interval(Real, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "kernel_params": [dict, None],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "fit_inverse_transform": ["boolean"],
        "eigen_solver": [StrOptions(set(EIGEN_SOLVERS))],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "iterated_power": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
        "remove_zero_eig": ["boolean"],
        "random_state": ["random_state"],
        "copy_X": ["boolean"],
        "n_jobs": [None, Integral],
        "center": ["boolean"],
        "inverse_gamma": [Interval(Real, 0, None, closed="left"), StrOptions({"scale"}), None],
        "preimage": [StrOptions(set(PREIMAGES)), Preimage, None],
        "memory_limit": [Interval(Real, 0, None, closed="left")],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_components=None,
        *,
        kernel="linear",
        gamma=None,
        degree=3,
        coef0=1,
        kernel_params=None,
        alpha=1.0,
        fit_inverse_transform=False,
        eigen_solver="auto",
        tol=0,
        max_iter=None,
        iterated_power="auto",
        remove_zero_eig=False,
        random_state=None,
        copy_X=True,
        n_jobs=None,
        center=True,
        inverse_gamma=None,
        preimage=None,
        memory_limit=2e9,
        verbose=False,
    ):
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.alpha = alpha
        self.fit_inverse_transform = fit_inverse_transform
        self.eigen_solver = eigen_solver
        self.tol = tol
        self.max_iter = max_iter
        self.iterated_power = iterated_power
        self.remove_zero_eig = remove_zero_eig
        self.random_state = random_state
        self.copy_X = copy_X
        self.n_jobs = n_jobs
        self.center = center
        self.inverse_gamma = inverse_gamma
        self.preimage = preimage
        self.memory_limit = memory_limit
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Find the components of X in feature space.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array} of shape (n_samples, n_features)
            With kernel='precomputed' the kernel matrix, of shape (n_samples, n_samples). A dask
            array stays on its cluster; see :mod:`akpca.distributed`.
        y : Ignored

        Returns
        -------
        self : object
        """
        if self.fit_inverse_transform and self.kernel == "precomputed":
            raise ValueError("Cannot fit_inverse_transform with a precomputed kernel.")
        if is_dask_array(X):
            return self._fit_dask(X)
        X = validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], copy=self.copy_X
        )
        if self.fit_inverse_transform and sparse.issparse(X):
            raise NotImplementedError("Inverse transform not implemented for sparse matrices!")
        self.X_fit_ = X
        self.gamma_ = 1 / X.shape[1] if self.gamma is None else self.gamma
        route = self._choose_route(X)
        if route == "matrix":
            self._decompose_matrix(self._fitted_kernel(X))
        else:
            self._decompose_operator(X, route)
        if self.preimage is not None:
            self.preimage_ = self._fit_preimage(self.preimage)
        elif self.fit_inverse_transform:
            self._fit_inverse(X)
        return self

    def _fit_dask(self, X):
        """Fit to data on a cluster: kernel values stay there, vectors come here."""
        if self.n_components is None or self.eigen_solver not in ("auto", "krylov", "lobpcg"):
            raise ValueError(
                "a dask array needs n_components and eigen_solver='auto', 'krylov' or 'lobpcg', "
                f"got n_components={self.n_components} and eigen_solver={self.eigen_solver!r}"
            )
        if self.fit_inverse_transform or self.preimage is not None:
            raise ValueError("an inverse of data in a dask array can't be learned")
        self.n_features_in_ = X.shape[1]
        self.gamma_ = 1 / X.shape[1] if self.gamma is None else self.gamma
        kernel = self._kernel_object()
        if kernel is None:
            raise ValueError(f"a dask array needs a kernel by name or object, got {self.kernel!r}")
        operator = DaskKernelOperator(X, kernel, center=self.center, progress=self.verbose)
        self.X_fit_ = operator.X
        self._set_from_operator(operator, *self._iterate(operator, self.n_components))
        return self

    def fit_transform(self, X, y=None, **params):
        """Fit to X and return its codes, which costs nothing more than the fit.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : Ignored
        **params : dict
            Passed to `fit`.

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_components)
        """
        return self.fit(X, **params)._fitted_codes()

    def transform(self, X):
        """Return the codes f(x) of the rows of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_new, n_features)
            With kernel='precomputed' the kernel values between the new and the fitted samples,
            of shape (n_new, n_samples).

        Returns
        -------
        X_new : ndarray of shape (n_new, n_components)
        """
        check_is_fitted(self)
        if is_dask_array(self.X_fit_):
            return self._transform_on_cluster(X)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        codes = np.empty((X.shape[0], self._n_features_out), np.result_type(X, self._alphas))
        for rows in gen_batches(X.shape[0], BLOCK_ROWS):
            K = self._kernel_values(X[rows], self.X_fit_)
            if self.center:
                K = K - self._column_means
                K -= K.mean(axis=1, keepdims=True)
            codes[rows] = K @ self._alphas
        if not np.isfinite(codes).all():
            raise ValueError(self._not_finite("X"))
        return codes

    def _transform_on_cluster(self, X):
        if not is_dask_array(X):
            X = check_array(X, dtype=[np.float64, np.float32], input_name="X", estimator=self)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        # (K - 1 m^T) H A, with the means m of the fitted columns
        weights = self._alphas - self._alphas.mean(axis=0) if self.center else self._alphas
        codes = kernel_product(X, self.X_fit_, self._kernel_object(), weights)
        if self.center:
            codes -= self._column_means @ weights
        return codes.astype(np.result_type(X.dtype, self._alphas))

    def inverse_transform(self, X, *, preimage=None):
        """Return samples whose codes are near X.

        Parameters
        ----------
        X : array-like of shape (n_new, n_components)
        preimage : str or Preimage, default=None
            Another decoder than the fitted one; see the parameter of that name.

        Returns
        -------
        X_original : ndarray of shape (n_new, n_features)
        """
        check_is_fitted(self)
        if preimage is None and self.preimage is None and not self.fit_inverse_transform:
            raise NotFittedError(
                "inverse_transform needs fit_inverse_transform=True or a preimage, "
                f"neither of which was given when this {type(self).__name__} was made."
            )
        X = check_array(X, dtype=[np.float64, np.float32], input_name="X", estimator=self)
        if X.shape[1] != self._n_features_out:
            raise ValueError(
                f"X has {X.shape[1]} columns, but the codes of this {type(self).__name__} have "
                f"{self._n_features_out} components"
            )
        if preimage is not None or self.preimage is not None:
            decoder = self.preimage_ if preimage is None else self._fit_preimage(preimage)
            return decoder.decode(X)
        K = self._kernel_values(X, self.X_transformed_fit_, gamma=self.inverse_gamma_)
        return K @ self.dual_coef_

    def _fit_preimage(self, preimage):
        """Return a decoder, by name or as an object, fitted to the codes of the samples."""
        if self.kernel == "precomputed" or sparse.issparse(self.X_fit_):
            raise ValueError(f"preimage={preimage!r} needs dense samples, not a precomputed kernel")
        decoder = make_preimage(preimage) if isinstance(preimage, str) else clone(preimage)
        means = self._column_means if self.center else np.zeros(len(self.X_fit_))
        space = CodeSpace(
            X=self.X_fit_,
            kernel=self._kernel_object(),
            alphas=self._alphas,
            codes=self._fitted_codes(),
            targets=self.X_fit_,
            column_means=means,
            grand_mean=float(means.mean(dtype=np.float64)),
            center=self.center,
        )
        return decoder.fit(space)

    def _kernel_object(self):
        """Return the kernel as an object, or None for a precomputed or callable one."""
        if isinstance(self.kernel, Kernel):
            return self.kernel
        if self.kernel == "precomputed" or callable(self.kernel):
            return None
        return make_kernel(self.kernel, gamma=self.gamma_, degree=self.degree, coef0=self.coef0)

    def _kernel_values(self, X, Y=None, gamma=None):
        """Return k(X, Y), or k(X, X) if Y is None, by whichever kind of kernel was given."""
        if self.kernel == "precomputed":
            return X.toarray() if sparse.issparse(X) else X
        if isinstance(self.kernel, Kernel):
            return self.kernel(X, Y)
        if callable(self.kernel):
            return pairwise_kernels(
                X, Y, metric=self.kernel, n_jobs=self.n_jobs, **(self.kernel_params or {})
            )
        gamma = self.gamma_ if gamma is None else gamma
        return make_kernel(self.kernel, gamma=gamma, degree=self.degree, coef0=self.coef0)(X, Y)

    def _fitted_kernel(self, X):
        """Return the kernel matrix of the fitted samples, centred, and note its means."""
        K = self._kernel_values(X)
        if self.kernel == "precomputed":
            _check_symmetric(K)
        means = K.mean(axis=1, dtype=np.float64)  # along rows, where numpy sums pairwise
        if not np.isfinite(means).all():
            raise ValueError(self._not_finite("X"))
        # what a few roundings of each entry can leave of a matrix of this size
        self._noise = 4 * np.finfo(K.dtype).eps * np.abs(K.diagonal()).sum(dtype=np.float64)
        self._column_means = means.astype(K.dtype)
        if self.center:
            half_centred = (means - means.mean() / 2).astype(K.dtype)
            for rows in gen_batches(len(K), BLOCK_ROWS):
                K[rows] -= half_centred
                K[rows] -= half_centred[rows, None]
        return K

    def _choose_route(self, X):
        """Return 'matrix', 'features' or 'krylov': hold K, write phi down, or do neither."""
        n, d = X.shape
        kernel = self._kernel_object()
        if kernel is None or self.eigen_solver in ("dense", "arpack", "randomized"):
            return "matrix"
        k = n if self.n_components is None else min(n, self.n_components)
        cost = {"krylov": _sweep_cost(n, d, k)}
        if has_features(kernel) and not sparse.issparse(X):
            n_features = FeatureOperator.count_features(kernel, d)
            if k <= n_features:
                cost["features"] = _feature_cost(n, n_features, k)
        if self.eigen_solver == "auto" and X.dtype.itemsize * n**2 <= self.memory_limit:
            # both are exact, so that an iterative solution would be no fair exchange
            exact = "features" in cost and n_features <= EXACT_FEATURES
            cost = {"features": cost["features"]} if exact else {}
            cost["matrix"] = _matrix_cost(n, d, k)
        elif self.n_components is None:
            raise ValueError(
                f"n_components=None asks for all components of {n} samples, whose kernel matrix "
                f"is larger than memory_limit={self.memory_limit:g} bytes: give n_components"
            )
        return min(cost, key=cost.get)

    def _decompose_matrix(self, K):
        n = len(K)
        k = n if self.n_components is None else min(n, self.n_components)
        total = float(np.trace(K, dtype=np.float64))
        if self.eigen_solver in ("krylov", "lobpcg"):  # of a precomputed or callable kernel
            values, vectors = self._iterate(K, k)
        else:
            values, vectors, self.eigen_solver_ = leading_eigenpairs(
                K,
                k,
                solver=self.eigen_solver,
                tol=self.tol,
                max_iter=self.max_iter,
                iterated_power=self.iterated_power,
                random_state=self.random_state,
                # a precomputed K is the caller's own if no copy was made
                overwrite=self.kernel != "precomputed" or self.copy_X,
            )
        self._set_components(values, vectors, total, K.dtype)

    def _decompose_operator(self, X, route):
        n = X.shape[0]
        k = n if self.n_components is None else min(n, self.n_components)
        make = FeatureOperator if route == "features" else KernelOperator
        operator = make(X, self._kernel_object(), center=self.center, progress=self.verbose)
        if route == "features":
            values, vectors = self._decompose_features(operator, k)
        else:
            values, vectors = self._iterate(operator, k)
        self._set_from_operator(operator, values, vectors)

    def _decompose_features(self, operator, k):
        found = min(k, operator.n_features)
        values, vectors = np.zeros(k), np.zeros((operator.shape[0], k))
        if found == 0:  # all samples are zero
            self.eigen_solver_ = "dense"
            return values, vectors
        if operator.n_features <= EXACT_FEATURES:
            self.eigen_solver_ = "dense"
            values[:found], W, _ = leading_eigenpairs(
                operator.covariance.dense(), found, solver="dense"
            )
        else:
            values[:found], W = self._iterate(operator.covariance, found)
        # u = Phi w / sqrt(nu); what is zero but for rounding stays out of the division, and the
        # data may span fewer features than components were asked for
        roots = np.sqrt(np.maximum(values, np.finfo(operator.dtype).eps * max(values[0], 0)))
        vectors[:, :found] = operator.from_features(W) / np.where(roots > 0, roots, 1)[:found]
        return values, vectors

    def _set_from_operator(self, operator, values, vectors):
        self._column_means = operator.means().astype(operator.dtype) if self.center else None
        diagonal = np.abs(operator.plain_diagonal()).sum(dtype=np.float64)
        self._noise = 4 * np.finfo(operator.dtype).eps * diagonal
        self._set_components(values, vectors, operator.trace(), operator.dtype)

    def _iterate(self, operator, k):
        solver = "krylov" if self.eigen_solver == "auto" else self.eigen_solver
        result = operator_eigenpairs(
            operator,
            k,
            solver=solver,
            tol=self.tol or MATRIX_FREE_TOL,
            max_products=self.max_iter or 100,
            random_state=self.random_state,
        )
        if not result.converged:
            warnings.warn(
                f"eigen_solver={solver!r} stopped after {result.n_products} products with relative "
                f"residuals up to {result.residuals.max():.1e}; raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=4,
            )
        self.eigen_solver_, self.residuals_ = solver, result.residuals
        return result.values, result.vectors

    def _set_components(self, values, vectors, total, dtype):
        n = len(vectors)
        values, vectors = values.astype(dtype), vectors.astype(dtype)
        values = _clean_eigenvalues(values, self._noise)
        vectors, _ = svd_flip(u=vectors, v=None)
        if self.remove_zero_eig or self.n_components is None:
            values, vectors = values[values > 0], vectors[:, values > 0]
        self.eigenvalues_, self.eigenvectors_ = values, np.ascontiguousarray(vectors)
        self.explained_variance_ = values / max(n - 1 if self.center else n, 1)
        self.explained_variance_ratio_ = values / total if total > 0 else np.zeros_like(values)
        # alpha = u / sqrt(nu); a component without variance has no direction: code 0
        scale = np.divide(1, np.sqrt(values), out=np.zeros_like(values), where=values > 0)
        self._alphas = self.eigenvectors_ * scale

    def _fitted_codes(self):
        return self.eigenvectors_ * np.sqrt(self.eigenvalues_)

    def _fit_inverse(self, X):
        codes = self._fitted_codes()
        self.inverse_gamma_ = self.gamma_ if self.inverse_gamma is None else self.inverse_gamma
        if self.inverse_gamma == "scale":
            variance = codes.var()
            self.inverse_gamma_ = 1 / (codes.shape[1] * variance) if variance > 0 else 1.0
        K = self._kernel_values(codes, gamma=self.inverse_gamma_)
        K.flat[:: len(K) + 1] += self.alpha
        try:
            self.dual_coef_ = linalg.solve(K, X, assume_a="pos", overwrite_a=True)
        except linalg.LinAlgError as error:
            raise ValueError(
                f"the inverse can't be learned with alpha={self.alpha}: its kernel matrix is "
                "singular; give a larger alpha"
            ) from error
        self.X_transformed_fit_ = codes

    def _not_finite(self, name):
        return (
            f"kernel={self.kernel!r} gives NaN or infinity on {name} (gamma={self.gamma_:g}, "
            f"degree={self.degree}, coef0={self.coef0}): scale the data or choose other parameters"
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self):
        return self.eigenvalues_.shape[0]


# Costs in floating-point operations, or what takes as long. The factors were measured; they decide
# only which of several right answers is computed. See benchmarks/bench_large.py.


def _matrix_cost(n, d, k):
    """Half of the kernel matrix, then about 3 k products that are bound by memory, or LAPACK."""
    return n**2 * d + min(20 * k * n**2, 4 * n**3)


def _feature_cost(n, n_features, k):
    """Form the covariance of few features, or sweep five times over many, using them twice."""
    if n_features <= EXACT_FEATURES:
        return n * n_features**2 + 4 * n_features**3
    return 5 * n * n_features * (4 * (1.25 * k + 8) + 60)


def _sweep_cost(n, d, k):
    """About five sweeps over half of the kernel matrix, whose values are used twice."""
    return 5 * n**2 * (d + 2 * (1.25 * k + 8) + 100)


def _check_symmetric(K):
    """Raise unless a precomputed kernel matrix is square and symmetric."""
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"Kernel matrix must be a square matrix. Input is a {K.shape[0]}x{K.shape[1]} matrix."
        )
    tolerance = 1e-3 * max(np.abs(K.diagonal()).max(), np.finfo(K.dtype).tiny)
    for rows in gen_batches(len(K), BLOCK_ROWS):
        if np.abs(K[rows] - K[:, rows].T).max() > tolerance:
            raise ValueError("X is not symmetric, as a precomputed kernel matrix must be")


def _clean_eigenvalues(values, noise):
    """Set eigenvalues that are zero but for rounding to zero; raise if some are negative.

    The thresholds are scikit-learn's, with `noise` besides: what rounding leaves of a kernel
    matrix that centring has all but cancelled.
    """
    double = values.dtype == np.float64
    largest, smallest = values.max(), values.min()
    if largest < -noise:
        raise ValueError(
            f"All eigenvalues are negative (maximum is {largest:g}): the kernel matrix is not "
            "positive semi-definite"
        )
    if smallest < -(1e-5 if double else 5e-3) * largest and smallest < -max(
        1e-10 if double else 1e-6, noise
    ):
        raise ValueError(
            f"There are significant negative eigenvalues ({-smallest / largest:g} of the maximum "
            "positive): the kernel is not positive semi-definite on these data; ask for fewer "
            "components or choose another kernel"
        )
    floor = max((1e-12 if double else 2e-7) * largest, noise)
    return np.where(values <= floor, 0, values).astype(values.dtype)
