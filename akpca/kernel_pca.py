"""Kernel principal component analysis, interchangeable with scikit-learn's.

PCA of phi(x_1), ..., phi(x_n) without phi: the components are v_j = sum_i alpha_ij phi(x_i),
where alpha_j = u_j / sqrt(nu_j) and (nu_j, u_j) is the j-th eigenpair of the (centred) kernel
matrix, and the code of x is f(x)_j = v_j . phi(x) = sum_i alpha_ij k(x, x_i).
"""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.utils.extmath import svd_flip

from .eigen import block_krylov, clean_eigenvalues, enough_components, leading_eigenpairs
from .fitting import Interval, StrOptions, fit_method
from .kernel_code import KernelCode, relative_to
from .kernel_estimator import COUNT_OR_FRACTION, KERNEL_CONSTRAINTS, KernelEstimator
from .kernels import CallableKernel, check_finite, with_gamma
from .operators import FeatureOperator, KernelOperator, MatrixOperator, count_features
from .preimage import RidgePreimage, scale_gamma
from .progress import warn_user

__all__ = ["KernelPCA"]

# Default relative residual of a matrix-free solver; the error of eigenvalues is about its square.
MATRIX_FREE_TOL = 1e-3
# Largest number of explicit features whose covariance matrix is decomposed as a whole.
MAX_DENSE_FEATURES = 2000
# Solvers that need the matrix in memory.
MATRIX_SOLVERS = ("dense", "arpack", "randomized")
# Components that are tried first where a fraction of the variance is asked for; then four times
# as many, and so on.
FIRST_COMPONENTS, MORE_COMPONENTS = 32, 4


class KernelPCA(KernelEstimator):
    """Kernel PCA: f(x)_j = sum_i u_ij k(x, x_i) / sqrt(nu_j).

    A drop-in replacement for :class:`sklearn.decomposition.KernelPCA`, with the same arguments,
    defaults, attributes and results, up to rounding. It adds the parameters from `center` on, a
    solver that is chosen by cost, explained variances, kernel objects, and operators.

    Parameters
    ----------
    n_components : int or float, default=None
        k, the size of the code, at most n_samples. A number between 0 and 1 asks for the smallest k
        that explains this fraction of the variance, None for all of non-zero eigenvalue.
    kernel : {'linear', 'poly', 'rbf', 'sigmoid', 'cosine', 'laplacian', 'chi2', \
'precomputed'}, Kernel or callable, default='linear'
        A name, an object of :mod:`akpca.kernels`, which has its own parameters, or a function of
        two samples that returns a number. 'precomputed' means that X is a kernel matrix.
    gamma : float or 'median', default=None
        Coefficient of the kernels that have one. None is 1 / n_features; 'median', for 'rbf',
        'laplacian' and 'chi2', 1 / the median distance (squared for 'rbf') of up to 1,000 samples.
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
    eigen_solver : {'auto', 'dense', 'arpack', 'randomized', 'krylov'}, default='auto'
        'dense' (LAPACK), 'arpack' and 'randomized' hold the kernel matrix. 'krylov' (block
        Lanczos) needs O(n k) memory: it recomputes kernel values in every sweep or, where that is
        cheaper, uses the explicit features of the linear and the degree-2 kernel. 'auto' takes
        what costs least within `memory_limit`. The result is exact, unless there are more than
        2,000 features or the matrix exceeds the limit: then residuals are at most `tol`.
    tol : float, default=0
        Of 'arpack'; 0 is machine precision. For 'krylov', ||K u - nu u|| / nu at most; 0 is 1e-3.
    max_iter : int, default=None
        Limit of ARPACK's iterations, or of sweeps of 'krylov', for which None is 100.
    iterated_power : int or 'auto', default='auto'
        Power iterations of 'randomized'.
    remove_zero_eig : bool, default=False
        Drop components of eigenvalue zero, so that fewer than n_components may be left.
    random_state : int, RandomState instance or None, default=None
        Determines the starting vectors of all solvers but 'dense', and the centres of a learned
        inverse above `memory_limit`.
    copy_X : bool, default=True
        Copy X. False saves memory; do not change X then. A precomputed kernel is centred in place.
    n_jobs : int, default=None
        Parallel jobs for a callable kernel.
    center : bool, default=True
        Centre the data in feature space. The AKPCA report does not.
    inverse_gamma : float or 'scale', default=None
        Coefficient of the kernel of the learned inverse, on codes, which may need another width.
        None is `gamma_`, as in scikit-learn; 'scale' is 1 / (n_components * variance of the codes).
    preimage : {'ridge', 'eigenvector', 'fixed_point', 'distance'} or Preimage, default=None
        Decoder of `inverse_transform`, from :mod:`akpca.preimage`, which needs no
        `fit_inverse_transform`. None is the learned inverse, if there is one.
    memory_limit : float, default=2e9
        Bytes that 'auto' may spend on a kernel matrix, before it uses a matrix-free solver, and
        that the learned inverse and preimage='ridge' may spend, before they take some of the
        samples as centres instead of all.
    verbose : bool, default=False
        Show the progress of what takes several sweeps or blocks.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (n_components,)
        nu, of the (centred) kernel matrix, in descending order.
    eigenvectors_ : ndarray of shape (n_samples, n_components)
        u, of unit length (perhaps 0 if nu = 0). The entry of largest absolute value is positive.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,)
        Variance of each code coordinate, nu / (n - 1), or without centring the mean square nu / n;
        and its share in the total in feature space, the trace of the (centred) kernel matrix.
    n_components_ : int
        k, as it was found.
    eigen_solver_, kernel_, gamma_, inverse_gamma_
        The solver, the kernel object and the gammas that were used.
    residuals_ : ndarray of shape (n_components,)
        Relative residuals of the eigenpairs, if the solver was matrix-free.
    dual_coef_, X_transformed_fit_ : ndarrays of shape (n_centers, n_features or n_components)
        Coefficients and centres of the learned inverse: codes of the samples, above `memory_limit`
        of some of them.
    preimage_ : Preimage
        The fitted decoder, if `preimage`.
    X_fit_ : {ndarray, sparse matrix} of shape (n_samples, n_features), or operator
        What was fitted.

    Notes
    -----
    Peak memory of `fit` in numbers, besides X and a copy of it: with a kernel matrix n^2 + 3 n k,
    or 3 n^2 for all components; with D explicit features n (4 d + 6 k) + 2 D^2; matrix-free at most
    n (35 w + 2 d) + 2 * 2000^2 in float64, where w = k + max(15, k // 3).

    See Also
    --------
    NystromKernelPCA : The same within the span of some landmarks, in one pass over the data.
    KernelHebbian : The same components, learned one sample at a time.
    AKPCA : Codes chosen to rebuild samples rather than their features.

    References
    ----------
    Schölkopf, Smola and Müller, "Nonlinear component analysis as a kernel eigenvalue problem",
    Neural Computation 10, 1998.

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
        **KERNEL_CONSTRAINTS,
        "fit_inverse_transform": ["boolean"],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "inverse_gamma": [Interval(Real, 0, None, closed="left"), StrOptions({"scale"}), None],
        "n_components": COUNT_OR_FRACTION,
        "eigen_solver": [StrOptions({"auto", "krylov", *MATRIX_SOLVERS})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "iterated_power": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
        "remove_zero_eig": ["boolean"],
        "random_state": ["random_state"],
        "copy_X": ["boolean"],
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
    ) -> None:
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

    @fit_method
    def fit(self, X, y=None) -> KernelPCA:
        """Find the components of X in feature space; return self.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or operator
            With kernel='precomputed' the kernel matrix, of shape (n_samples, n_samples), or an
            operator of :mod:`akpca.operators` or :mod:`akpca.distributed`, with its own `center`.
        y : Ignored
        """
        if self.fit_inverse_transform and self.kernel == "precomputed":
            raise ValueError("Cannot fit_inverse_transform with a precomputed kernel.")
        if self.eigen_solver == "randomized" and (self.n_components or 1) < 1:
            raise ValueError(
                f"n_components={self.n_components} needs exact eigenvalues, which "
                "eigen_solver='randomized' has not: take another, or an int"
            )
        shift = None
        if isinstance(X, LinearOperator):
            operator, points = X, self._check_operator(X)
            targets = None if hasattr(points, "encode") else points
            if self.eigen_solver in MATRIX_SOLVERS and not isinstance(X, MatrixOperator):
                operator = MatrixOperator(X.dense(), center=X.center, means=X.means())
        else:
            X = self._validate(X, copy=self.copy_X)
            if self.fit_inverse_transform and sparse.issparse(X):
                raise NotImplementedError("Inverse transform not implemented for sparse matrices!")
            kernel, shift = self._resolve_kernel(X), self._best_origin(X)
            points, targets = X if shift is None else relative_to(shift, X), X
            route = self._choose_route(X)
            if self.kernel == "precomputed":
                operator = MatrixOperator.precomputed(kernel.matrix(X), center=self.center)
                points = targets = None
            elif route == "matrix":
                operator = MatrixOperator(kernel.matrix(points), center=self.center)
            else:
                make = FeatureOperator if route == "features" else KernelOperator
                operator = make(points, kernel, center=self.center, verbose=self.verbose)
            if isinstance(operator, MatrixOperator):
                check_finite(operator.means(), kernel)
        self.X_fit_ = X
        pairs = self._decompose(operator)
        self._set_components(operator, *pairs, points=points, targets=targets, shift=shift)
        if self.fit_inverse_transform and self.preimage is None:
            self._fit_inverse(self._code.codes, targets)
        return self

    def fit_transform(self, X, y=None, **params) -> np.ndarray:
        """Fit to X, as `fit` does, and return its codes, which costs nothing more."""
        return self.fit(X, **params)._code.codes.copy()

    def _fit_inverse(self, codes, targets):
        """Learn the inverse by kernel ridge regression from codes to samples, with our kernel."""
        if codes.shape[1] == 0:
            raise ValueError("fit_inverse_transform=True needs data that vary: there is no code")
        gamma = self.gamma_ if self.inverse_gamma is None else self.inverse_gamma
        self.inverse_gamma_ = scale_gamma(codes) if gamma == "scale" else gamma
        kernel = self.kernel_
        if self.inverse_gamma_ != getattr(kernel, "gamma", None):  # also None, or in parts
            kernel = with_gamma(kernel, self.inverse_gamma_)
        options = {"alpha": self.alpha, "fit_intercept": False, "memory_limit": self.memory_limit}
        options |= {"random_state": self.random_state, "verbose": self.verbose}
        decoder = RidgePreimage(kernel, gamma=self.inverse_gamma_, **options)
        self._decoder = decoder.fit_pairs(codes, targets)
        self.X_transformed_fit_, self.dual_coef_ = decoder.centers_, decoder.dual_coef_

    def _choose_route(self, X):
        """Return 'matrix', 'features' or 'krylov': hold K, write phi down, or do neither."""
        if self.eigen_solver in MATRIX_SOLVERS or self.kernel == "precomputed":
            return "matrix"
        # costs in floating-point operations, with factors measured by benchmarks/bench_large.py
        (n, d), cost = X.shape, {}
        wanted = self.n_components or n
        k = min(n, FIRST_COMPONENTS if wanted < 1 else wanted)
        block = 1.25 * k + 8
        D = None if sparse.issparse(X) else count_features(self.kernel_, d)
        # of all components, no more than D have an eigenvalue
        enough = D and (k <= D or not isinstance(self.n_components, Integral))
        if enough and D <= MAX_DENSE_FEATURES:
            # their covariance, then ARPACK or LAPACK, always in double precision
            solving = min(20 * k * D**2, 5 * D**3) * 8 / X.dtype.itemsize
            cost["features"] = (n + 1500) * D**2 + solving
        elif D and k <= D:  # five sweeps over the features, each used twice
            cost["features"] = 5 * n * D * (4 * block + 60)
        if isinstance(self.kernel_, CallableKernel) or (
            self.eigen_solver == "auto" and X.dtype.itemsize * n**2 <= self.memory_limit
        ):  # half of the kernel matrix and its mirror image, then about 3 k products, or LAPACK
            cost["matrix"] = n**2 * (d + 600) + min(20 * k * n**2, 4 * n**3)
        elif self.n_components is not None or not cost:
            # five sweeps over half of the kernel matrix, each value used twice
            cost["krylov"] = 5 * n**2 * (d + 2 * block + 100)
        return min(cost, key=cost.get)

    def _decompose(self, operator, k=None):
        """Return eigenvalues, eigenvectors and residuals, which are None if not iterative."""
        n, wanted = operator.shape[0], self.n_components or operator.shape[0]
        if k is None and wanted < 1:
            k = n if self.eigen_solver == "dense" else FIRST_COMPONENTS
            total = wanted * operator.trace()
            while (pairs := self._decompose(operator, min(k, n)))[0].sum() < total and k < n:
                k *= MORE_COMPONENTS
                if k > n / 8 and isinstance(operator, MatrixOperator):
                    k = n  # LAPACK, which needs about as long for some as for all
            return pairs
        k = k or min(n, wanted)
        if isinstance(operator, FeatureOperator):
            return self._decompose_features(operator, k)
        if isinstance(operator, MatrixOperator) and self.eigen_solver != "krylov":
            options = {"solver": self.eigen_solver, "tol": self.tol, "max_iter": self.max_iter}
            options |= {"iterated_power": self.iterated_power, "random_state": self.random_state}
            # an operator's K, and a precomputed one that was not copied, are the caller's
            own = operator is not self.X_fit_ and (self.kernel != "precomputed" or self.copy_X)
            own = own and (wanted >= 1 or k == n)  # or K may be needed again
            values, vectors, used = leading_eigenpairs(operator.K, k, overwrite=own, **options)
            self.eigen_solver_ = used
            return values, vectors, None
        if self.n_components is None:
            raise ValueError(
                f"n_components=None asks for all components of {n} samples, whose kernel matrix "
                f"is larger than memory_limit={self.memory_limit:g} bytes: give n_components"
            )
        return self._iterate(operator, k)

    def _decompose_features(self, operator, k):
        found, residuals = min(k, operator.n_features), None
        k = k if isinstance(self.n_components, Integral) else found
        values, vectors = np.zeros(k), np.zeros((operator.shape[0], k))
        self.eigen_solver_ = "dense"
        if found == 0:  # all samples are zero
            return values, vectors, residuals
        if operator.n_features <= MAX_DENSE_FEATURES:
            values[:found], W, self.eigen_solver_ = leading_eigenpairs(
                operator.covariance.dense(), found, random_state=self.random_state
            )
        else:
            values[:found], W, residuals = self._iterate(operator.covariance, found)
        # u = Phi w / sqrt(nu), whose length a QR decomposition sets to 1. It also removes rounding
        # errors of w along earlier components, which count for more than w itself if nu is small.
        vectors[:, :found] = np.linalg.qr(operator.from_features(W))[0]
        return values, vectors, residuals

    def _iterate(self, operator, k):
        options = {"tol": self.tol or MATRIX_FREE_TOL, "max_products": self.max_iter or 100}
        with np.errstate(over="ignore", invalid="ignore"):  # eigenvalues are checked below
            result = block_krylov(operator, k, random_state=self.random_state, **options)
        check_finite(result.residuals, self.kernel_)
        if not result.converged:
            warn_user(
                f"eigen_solver='krylov' stopped after {result.n_products} products with relative "
                f"residuals up to {result.residuals.max():.1e}; raise max_iter or tol"
            )
        self.eigen_solver_ = "krylov"
        return result.values, result.vectors, result.residuals

    def _set_components(self, operator, values, vectors, residuals, *, points, targets, shift):
        n, dtype, center = len(vectors), operator.dtype, operator.center
        largest = float(np.abs(operator.plain_diagonal()).max())
        with np.errstate(over="ignore"):
            values = values.astype(dtype)
        check_finite(values, self.kernel_)
        values = clean_eigenvalues(values, n, largest_entry=largest, dtype=dtype)
        vectors, _ = svd_flip(u=vectors.astype(dtype), v=None)
        k, wanted = len(values), self.n_components
        if self.remove_zero_eig or not isinstance(wanted, Integral):
            k = np.count_nonzero(values)
        # rounding, or negative eigenvalues, can make the trace smaller than what was found of it
        trace = float(operator.diagonal().sum(dtype=np.float64))
        total = max(trace, float(values.sum(dtype=np.float64)))
        if wanted is not None and wanted < 1:
            k = enough_components(values[:k], total, wanted)
        values, vectors = values[:k], vectors[:, :k]
        self.n_components_, self.eigenvalues_ = k, values
        self.eigenvectors_ = np.ascontiguousarray(vectors)
        self.explained_variance_ = values / max(n - 1 if center else n, 1)
        self.explained_variance_ratio_ = values / total if total > 0 else np.zeros_like(values)
        if residuals is not None:
            self.residuals_ = residuals[:k]
        # alpha = u / sqrt(nu); a component without variance has no direction: code 0
        scale = np.divide(1, np.sqrt(values), out=np.zeros_like(values), where=values > 0)
        weights, offset, mean = self.eigenvectors_ * scale, np.zeros(len(values), dtype), {}
        if center:
            means = operator.means()
            weights -= weights.mean(axis=0, dtype=np.float64)
            offset = (means @ weights).astype(dtype)
            mean = {"mean_weights": np.full(n, 1 / n), "mean_square": float(means.mean())}
            mean["means"] = means.astype(dtype)
        known = {"codes": self.eigenvectors_ * np.sqrt(values), "targets": targets, "shift": shift}
        self._set_code(KernelCode(self.kernel_, points, weights, offset, **mean, **known))
