"""Kernel PCA of many points through a few of them: the Nyström method.

With m landmarks Z and L L^T = k(Z, Z), the features F(x) = L^-1 k(Z, x) are the coordinates of
phi(x) projected on the span of phi(z_1), ..., phi(z_m), in an orthonormal basis of it. Their inner
products are the Nyström approximation of the kernel,

    F(x).F(y) = k(x, Z) k(Z, Z)^-1 k(Z, y),

and PCA of F over all n points is kernel PCA within that span. It takes one sweep over the data in
blocks of rows, which leaves an m x m matrix: time O(n m (d + m)), memory O(m^2 + m d), whatever n
is. What is lost is only what the landmarks do not span, and `error_` says how much that is.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_array, check_random_state, gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import row_norms, safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from .distributed import is_dask_array, sum_over_chunks
from .eigen import leading_eigenpairs
from .kernel_pca import KernelPCA, _clean_eigenvalues
from .kernels import BLOCK_ROWS, KERNELS, Kernel, make_kernel

SAMPLINGS = ("uniform", "kmeans", "leverage")

DEFAULT_LANDMARKS = 1000

KMEANS_STEPS = 3

# A landmark is dropped if the others explain all but this part of the largest k(z, z). Rounding
# of the kernel blocks enters a feature divided by the square root of what is left.
PIVOT_FLOOR = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-5}

# What may be negative by rounding, relative to the largest k(x, x); scikit-learn's thresholds.
NEGATIVE = {np.dtype(np.float64): 1e-5, np.dtype(np.float32): 5e-3}


class _Sums(NamedTuple):
    """Sums over samples: all that is kept of a stream."""

    n: int
    trace: float  # of k(x, x)
    missed: float  # of k(x, x) - F(x).F(x)
    total: np.ndarray  # of F(x)
    gram: np.ndarray  # of F(x) F(x)^T


def _add(parts: list[_Sums]) -> _Sums:
    """Return the sums over the samples of all parts."""
    return _Sums(*map(sum, zip(*parts, strict=True)))


class NystromKernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Nyström kernel PCA: f(x) = V^T (F(x) - mean of F), with F(x) = L^-1 k(Z, x).

    V holds the leading eigenvectors of the m x m covariance of the features F over all n samples,
    so that the components are orthonormal in feature space, and the codes of the samples divided
    by the square roots of `eigenvalues_` are orthonormal eigenvectors of the approximated kernel
    matrix, centred by its own mean. With m = n it is exact kernel PCA.

    Parameters
    ----------
    n_components : int, default=None
        k, the size of the code; at most the number of landmarks. None keeps all components whose
        eigenvalue is not zero. More components than there are is an error.
    n_landmarks : int, default=None
        m, at most the number of samples (of the first batch, with `partial_fit`). None is 1000,
        or all samples if there are fewer.
    kernel : {'linear', 'poly', 'rbf', 'sigmoid', 'cosine', 'laplacian', 'chi2'}, Kernel or \
callable, default='linear'
        A name, an object of :mod:`akpca.kernels` (whose own parameters hold), or a function of
        two samples that returns a number. It must be positive semi-definite on the data.
    gamma : float, default=None
        Coefficient of the kernels that have one. None is 1 / n_features.
    degree : float, default=3
        Degree of 'poly'.
    coef0 : float, default=1
        Independent term of 'poly' and 'sigmoid'.
    kernel_params : dict, default=None
        Keyword arguments for a callable kernel.
    sampling : {'uniform', 'kmeans', 'leverage'}, default='uniform'
        How landmarks are chosen. 'uniform' draws samples without replacement. 'leverage' draws
        them with probabilities proportional to their ridge leverage scores, estimated from a
        uniform pilot sample of m, which costs about another fit and favours points that a uniform
        sample represents badly. 'kmeans' takes the centres of clusters of the samples.
    center : bool, default=True
        Centre the data in feature space.
    orthonormal : bool, default=True
        False is the version of the AKPCA report, equations (13) and (14): the eigenpairs of the
        landmarks' kernel matrix alone, extended to all points. It needs no sweep, but its
        eigenvectors are not orthonormal over the samples, its eigenvalues can be too large, and
        centring is by the mean of the landmarks. See the notes.
    fit_inverse_transform : bool, default=False
        Learn `inverse_transform` by kernel ridge regression from codes to samples, with the
        landmarks' codes as centres, fitted to all samples.
    alpha : float, default=1.0
        Ridge penalty of the learned inverse.
    inverse_gamma : float or 'scale', default=None
        Coefficient of the kernel of the learned inverse. None is `gamma_`; 'scale' is
        1 / (n_components * variance of the landmarks' codes).
    random_state : int, RandomState instance or None, default=None
        Choice of landmarks and starting vectors of the eigensolver.
    n_jobs : int, default=None
        Parallel jobs for a callable kernel.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (n_components,)
        Of the (centred) approximated kernel matrix, in descending order; none is above that of
        the exact matrix. With orthonormal=False, equation (14).
    explained_variance_ : ndarray of shape (n_components,)
        Eigenvalues divided by n - 1; uncentred, by n.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Eigenvalues divided by the trace of the kernel matrix less n times the squared norm of the
        mean of F: the total variance in feature space but for the part of the mean that the
        landmarks do not span, which makes a ratio too small, never too large. With
        orthonormal=False, shares of the landmarks' variance.
    error_ : float
        Relative error of the approximation, (tr K - tr F F^T) / tr K, between 0 and 1; not
        centred. Only with orthonormal=True.
    landmarks_ : {ndarray, sparse matrix} of shape (n_kept, n_features)
        Landmarks, the one that adds most to those before it first. Those that add nothing, such
        as duplicates, are left out, unless orthonormal=False.
    landmark_indices_ : ndarray of shape (n_kept,) or None
        Their rows in X (in the first batch, with `partial_fit`); None with sampling='kmeans'.
    n_samples_seen_ : int
        n.
    gamma_ : float
        The value of gamma that was used.
    inverse_gamma_ : float
        The gamma of the learned inverse, if `fit_inverse_transform`.
    inverse_centers_ : ndarray of shape (n_centers, n_components)
        Codes at which the learned inverse has its kernels, if `fit_inverse_transform`.
    dual_coef_ : ndarray of shape (n_centers, n_features)
        Coefficients of the learned inverse, if `fit_inverse_transform`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Notes
    -----
    The report's (13) approximates the unit eigenvectors of K by sqrt(m) / (n lambda) k(X, Z) v,
    with (lambda, v) an eigenpair of k(Z, Z). For m = n that should be v and is v / sqrt(n). The
    factor of Williams and Seeger, sqrt(m / n) / lambda, is right and is the one used. With it and
    (14), codes are k(x, Z) v / sqrt(lambda): kernel PCA of the landmarks. The scale n / m of (14)
    is that of a uniform sample, so that no other `sampling` is allowed with orthonormal=False.

    Examples
    --------
    >>> from akpca import load_dataset
    >>> from akpca.nystrom import NystromKernelPCA
    >>> digits = load_dataset("digits")
    >>> model = NystromKernelPCA(10, n_landmarks=200, kernel="rbf", random_state=0)
    >>> model.fit_transform(digits.X).shape
    (1797, 10)
    """

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's convention)
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "n_landmarks": [Interval(Integral, 1, None, closed="left"), None],
        "kernel": [StrOptions(set(KERNELS)), callable],
        "gamma": [Interval(Real, 0, None, closed="left"), None],
        "degree": [Interval(Real, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "kernel_params": [dict, None],
        "sampling": [StrOptions(set(SAMPLINGS))],
        "center": ["boolean"],
        "orthonormal": ["boolean"],
        "fit_inverse_transform": ["boolean"],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "inverse_gamma": [Interval(Real, 0, None, closed="left"), StrOptions({"scale"}), None],
        "random_state": ["random_state"],
        "n_jobs": [None, Integral],
    }

    def __init__(
        self,
        n_components=None,
        *,
        n_landmarks=None,
        kernel="linear",
        gamma=None,
        degree=3,
        coef0=1,
        kernel_params=None,
        sampling="uniform",
        center=True,
        orthonormal=True,
        fit_inverse_transform=False,
        alpha=1.0,
        inverse_gamma=None,
        random_state=None,
        n_jobs=None,
    ):
        self.n_components = n_components
        self.n_landmarks = n_landmarks
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.sampling = sampling
        self.center = center
        self.orthonormal = orthonormal
        self.fit_inverse_transform = fit_inverse_transform
        self.alpha = alpha
        self.inverse_gamma = inverse_gamma
        self.random_state = random_state
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Choose landmarks among X and find the components of X in their span.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : Ignored

        Returns
        -------
        self : object
        """
        if is_dask_array(X):
            return self._fit_dask(X)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32])
        K = self._choose_landmarks(X)
        if self.orthonormal:
            self._decompose(self._sweep(X))
        else:
            self._extend_landmarks(K, X.shape[0])
        if self.fit_inverse_transform:
            self._fit_inverse(X)
        return self

    def _fit_dask(self, X):
        """Fit to data on a cluster: only the landmarks and sums over the samples come here."""
        if self.sampling != "uniform" or not self.orthonormal or self.fit_inverse_transform:
            raise ValueError(
                "a dask array needs sampling='uniform', orthonormal=True and "
                "fit_inverse_transform=False"
            )
        self.n_features_in_ = X.shape[1]
        self._choose_landmarks(X.astype(np.result_type(X.dtype, np.float32)))
        self._decompose(sum_over_chunks(X, self._sweep, _add))
        return self

    def _takes_batches(self):
        if not self.orthonormal:
            raise AttributeError("partial_fit needs orthonormal=True, got orthonormal=False")
        if self.fit_inverse_transform:
            raise AttributeError(
                "partial_fit needs fit_inverse_transform=False: the inverse is learned from the "
                "codes of all samples, which change with every batch"
            )
        return True

    @available_if(_takes_batches)
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None):
        """Take in one more batch of a stream.

        Landmarks are chosen among the first batch and then stay; all else is as if `fit` had had
        those landmarks and all batches at once. A batch that is refused leaves no trace. Not with
        orthonormal=False or fit_inverse_transform=True.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : Ignored

        Returns
        -------
        self : object
        """
        first = not hasattr(self, "n_samples_seen_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=first)
        if first:
            self._choose_landmarks(X)
        sums = self._sweep(X)
        if not first:
            sums = _add([self._sums, sums])
        self._decompose(sums)
        return self

    def transform(self, X):
        """Return the codes f(x) of the rows of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_new, n_features)

        Returns
        -------
        X_new : ndarray of shape (n_new, n_components)
        """
        check_is_fitted(self, "eigenvalues_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return self._encode(X)

    def inverse_transform(self, X):
        """Return samples whose codes are near X, by the learned inverse.

        Parameters
        ----------
        X : array-like of shape (n_new, n_components)

        Returns
        -------
        X_original : ndarray of shape (n_new, n_features)
        """
        check_is_fitted(self, "eigenvalues_")
        if not hasattr(self, "dual_coef_"):
            raise NotFittedError(
                "inverse_transform needs fit_inverse_transform=True, "
                f"which was not set when this {type(self).__name__} was fitted."
            )
        X = check_array(X, dtype=[np.float64, np.float32], input_name="X", estimator=self)
        if X.shape[1] != self._n_features_out:
            raise ValueError(
                f"X has {X.shape[1]} columns, but the codes of this {type(self).__name__} have "
                f"{self._n_features_out} components"
            )
        result = np.empty((X.shape[0], self.n_features_in_), np.result_type(X, self.dual_coef_))
        for rows in gen_batches(X.shape[0], BLOCK_ROWS):
            K = self._kernel_values(X[rows], self.inverse_centers_, gamma=self.inverse_gamma_)
            result[rows] = K @ self.dual_coef_
        return result

    # The kernel options are KernelPCA's, and so is what is made of them.
    _kernel_values = KernelPCA._kernel_values
    _not_finite = KernelPCA._not_finite

    def _kernel_diagonal(self, X):
        """Return k(x, x) for each row of X, by whichever kind of kernel was given."""
        if isinstance(self.kernel, Kernel):
            return self.kernel.diag(X)
        if callable(self.kernel):
            samples = (X[[i]] if sparse.issparse(X) else X[i] for i in range(X.shape[0]))
            params = self.kernel_params or {}
            return np.array([float(self.kernel(x, x, **params)) for x in samples])
        options = {"gamma": self.gamma_, "degree": self.degree, "coef0": self.coef0}
        return make_kernel(self.kernel, **options).diag(X)

    # ---------------------------------------------------------------------------- landmarks

    def _choose_landmarks(self, X):
        """Set the landmarks and the factor L; return the kernel matrix of all landmarks."""
        n = X.shape[0]
        m = min(n, DEFAULT_LANDMARKS) if self.n_landmarks is None else self.n_landmarks
        if m > n:
            raise ValueError(
                f"n_landmarks={m}, but X has only {n} samples to choose them from: give at most "
                "that many"
            )
        if self.n_components is not None and self.n_components > m:
            raise ValueError(
                f"n_components={self.n_components}, but there can't be more components than the "
                f"{m} landmarks: give a smaller n_components or a larger n_landmarks"
            )
        if not self.orthonormal and self.sampling != "uniform":
            raise ValueError(
                "orthonormal=False takes the landmarks for a uniform sample, so that it needs "
                f"sampling='uniform', got sampling={self.sampling!r}"
            )
        # nothing of an earlier fit may outlive this one
        for name in ("eigenvalues_", "error_", "dual_coef_", "n_samples_seen_"):
            vars(self).pop(name, None)
        self._dtype = X.dtype
        self.gamma_ = 1 / X.shape[1] if self.gamma is None else self.gamma
        rng = check_random_state(self.random_state)
        if self.sampling == "kmeans":
            indices, landmarks = None, _cluster_centers(X, m, rng)
        else:
            if self.sampling == "uniform" or m == n:
                indices = rng.permutation(n)[:m]
            else:
                # a little of a uniform sample besides, so that there are always m to be drawn
                scores = self._leverage_scores(X, m, rng) + 1e-3 * m / n
                indices = rng.choice(n, m, replace=False, p=scores / scores.sum())
            if is_dask_array(X):  # which gathers sorted rows a chunk at a time
                indices = np.sort(indices)
            landmarks = X[indices].compute() if is_dask_array(X) else X[indices]
        # the small matrix in double precision, whatever the samples have
        K = self._kernel_values(landmarks.astype(np.float64))
        kept, self._factor = self._independent(K)
        if not self.orthonormal:
            kept = np.arange(m)
        self.landmarks_ = landmarks[kept]
        self.landmark_indices_ = None if indices is None else indices[kept]
        return K

    def _independent(self, K):
        """Return the rows of K that are independent, and the factor L of K among these.

        Pivoted Cholesky factorisation: it reveals the rank at a small part of the cost of an
        eigendecomposition, and what it leaves of a semi-definite matrix has no entry above the
        last pivot, so that anything else proves the kernel to be indefinite.
        """
        if not np.isfinite(K).all():
            raise ValueError(self._not_finite("X"))
        diagonal = K.diagonal()
        floor = PIVOT_FLOOR[self._dtype] * max(diagonal.max(), 0)
        factor, order, rank, _ = linalg.lapack.dpstrf(K, tol=floor, lower=1)
        order = order - 1
        rest = order[rank:]
        left = K[np.ix_(rest, rest)] - factor[rank:, :rank] @ factor[rank:, :rank].T
        if np.abs(left).max(initial=0) > NEGATIVE[self._dtype] * np.abs(diagonal).max():
            raise ValueError(self._indefinite())
        if rank == 0:  # phi(z) = 0 for all landmarks: any one of them makes the feature 0
            return order[:1], np.ones((1, 1), order="F")
        return order[:rank], np.asfortranarray(np.tril(factor[:rank, :rank]))

    def _leverage_scores(self, X, m, rng):
        """Estimate the ridge leverage scores, diag(K (K + ridge I)^-1), of all samples.

        One level of the recursion of Musco and Musco (2017): with a uniform sample S of m, K is
        replaced by what S leaves unexplained, (K - K_S (K_SS + m/n ridge I)^-1 K_S^T) / ridge.
        The ridge is theirs for m landmarks: the mean energy beyond rank k, m = 4 k log k or so.
        """
        n = X.shape[0]
        pilot = X[rng.permutation(n)[:m]]
        K = self._kernel_values(pilot.astype(np.float64))
        if not np.isfinite(K).all():
            raise ValueError(self._not_finite("X"))
        values = linalg.eigvalsh(K)[::-1]
        if values[-1] < -1e-5 * abs(values[0]):
            raise ValueError(self._indefinite())
        k = int(np.ceil(m / (4 * np.log(m + 2))))
        ridge = values[k:].sum() / k
        if ridge <= 1e-12 * values.sum():  # the pilot has rank k: all points are alike
            return np.ones(n)
        factor = linalg.cholesky(K + ridge * np.eye(m), lower=True)
        scores = np.empty(n)
        for rows in gen_batches(n, max(BLOCK_ROWS, 2 * m)):
            F = _solve_factor(factor, self._kernel_values(X[rows], pilot))
            scores[rows] = self._kernel_diagonal(X[rows]) - row_norms(F, squared=True)
        return np.clip(scores * (m / n) / ridge, 0, 1)

    # --------------------------------------------------------------------------- components

    def _features(self, X, diagonal):
        """Return F(x) for the rows of X, and k(x, x) - F(x).F(x), what the landmarks miss."""
        K = self._kernel_values(X, self.landmarks_)
        if not (np.isfinite(K).all() and np.isfinite(diagonal).all()):
            raise ValueError(self._not_finite("X"))
        F = _solve_factor(self._factor, K)
        missed = diagonal - row_norms(F, squared=True)
        if missed.min() < -NEGATIVE[self._dtype] * np.abs(diagonal).max():
            raise ValueError(self._indefinite())
        return F, missed

    def _sweep(self, X):
        """Return the sums over the samples X from which components are found."""
        m = self.landmarks_.shape[0]
        gram, total = np.zeros((m, m)), np.zeros(m)
        trace = missed = 0.0
        # a batch of single precision is not enough for landmarks that were kept in double
        dtype = np.result_type(X.dtype, self._dtype)
        for rows in gen_batches(X.shape[0], max(BLOCK_ROWS, 2 * m)):
            part = X[rows].astype(dtype, copy=False)
            diagonal = self._kernel_diagonal(part)
            F, left = self._features(part, diagonal)
            # The features, not the kernel values: their Gram matrix needs no division by the
            # small eigenvalues of k(Z, Z) afterwards, which would blow up rounding. NumPy takes
            # a matrix times its own transpose for what it is, at half the cost.
            gram += F.T @ F
            total += F.sum(axis=0, dtype=np.float64)
            trace += diagonal.sum(dtype=np.float64)
            missed += left.sum(dtype=np.float64)
        return _Sums(X.shape[0], trace, missed, total, gram)

    def _decompose(self, sums):
        """Find the components from the sums over all samples."""
        n, trace, missed, total, gram = sums
        mean = total / n
        scatter, variance = gram, trace
        if self.center:
            scatter = gram - n * np.outer(mean, mean)
            variance = trace - n * (mean @ mean)
        values, V = self._eigenpairs(scatter, trace, n)
        offset = mean @ V if self.center else np.zeros(len(values))
        coef = linalg.solve_triangular(self._factor, V, lower=True, trans=1)
        # L holds the features of the landmarks
        self._set_components(values, coef, offset, self._factor @ V - offset, variance, n)
        self.error_ = float(min(max(missed / trace, 0.0), 1.0)) if trace > 0 else 0.0
        self._sums = sums

    def _extend_landmarks(self, K, n):
        """Find the components from the kernel matrix of the landmarks alone: (13) and (14)."""
        m, trace, means = len(K), np.trace(K), K.mean(axis=0)
        centred = K - means - means[:, None] + means.mean() if self.center else K
        values, V = self._eigenpairs(centred, trace, n)
        coef = V / np.sqrt(values)
        if self.center:
            coef -= coef.mean(axis=0)  # zero but for rounding
        offset = means @ coef if self.center else np.zeros(len(values))
        scale = n / m  # (14)
        self._set_components(
            scale * values, coef, offset, K @ coef - offset, scale * np.trace(centred), n
        )

    def _eigenpairs(self, matrix, trace, n):
        """Return the leading eigenpairs of eigenvalue above zero."""
        k = len(matrix) if self.n_components is None else min(self.n_components, len(matrix))
        values, V, _ = leading_eigenpairs(matrix, k, random_state=self.random_state)
        values = _clean_eigenvalues(values, 4 * np.finfo(self._dtype).eps * trace)
        rank = np.count_nonzero(values)
        if self.n_components is not None and rank < self.n_components:
            raise ValueError(
                f"n_components={self.n_components}, but in the span of the landmarks the data "
                f"(n_samples = {n}) have only {rank} component(s) of non-zero eigenvalue: give at "
                "most that many, or None for all there are"
            )
        return values[:rank], V[:, :rank]

    def _set_components(self, values, coef, offset, landmark_codes, variance, n):
        # KernelPCA's convention for signs, as far as it goes without the codes of all samples
        largest = np.abs(landmark_codes).argmax(axis=0)
        signs = np.where(landmark_codes[largest, np.arange(len(values))] < 0, -1, 1)
        self._coef = np.ascontiguousarray(coef * signs, self._dtype)
        self._offset = (offset * signs).astype(self._dtype)
        self.n_samples_seen_ = n
        self.eigenvalues_ = values.astype(self._dtype)
        self.explained_variance_ = self.eigenvalues_ / max(n - 1 if self.center else n, 1)
        # without variance there are no components
        self.explained_variance_ratio_ = (values / variance).astype(self._dtype)

    def _encode(self, X):
        codes = np.empty((X.shape[0], self._n_features_out), np.result_type(X, self._coef))
        for rows in gen_batches(X.shape[0], BLOCK_ROWS):
            codes[rows] = self._kernel_values(X[rows], self.landmarks_) @ self._coef
        codes -= self._offset
        if not np.isfinite(codes).all():
            raise ValueError(self._not_finite("X"))
        return codes

    # ------------------------------------------------------------------------------ inverse

    def _fit_inverse(self, X):
        """Fit x = B^T k(C, f(x)) to all samples by ridge regression, C the landmarks' codes.

        The same features as above, now of codes: with F(y) = L^-1 k(C, y) the penalty is that of
        kernel ridge regression, and the normal equations are m x m.
        """
        centers = self._encode(self.landmarks_)
        if centers.shape[1] == 0:
            raise ValueError("fit_inverse_transform=True needs data that vary: there is no code")
        self.inverse_gamma_ = self.gamma_ if self.inverse_gamma is None else self.inverse_gamma
        if self.inverse_gamma == "scale":
            self.inverse_gamma_ = 1 / (centers.shape[1] * centers.var(dtype=np.float64))
        K = self._kernel_values(centers.astype(np.float64), gamma=self.inverse_gamma_)
        kept, factor = self._independent(K)
        centers = centers[kept]
        m = len(kept)
        gram, targets = np.zeros((m, m)), np.zeros((m, X.shape[1]))
        for rows in gen_batches(X.shape[0], max(BLOCK_ROWS, 2 * m)):
            codes = self._encode(X[rows])
            F = _solve_factor(
                factor, self._kernel_values(codes, centers, gamma=self.inverse_gamma_)
            )
            gram += F.T @ F
            targets += safe_sparse_dot(F.T, X[rows])
        gram.flat[:: m + 1] += self.alpha
        try:
            weights = linalg.solve(gram, targets, assume_a="pos", overwrite_a=True)
        except linalg.LinAlgError as error:
            raise ValueError(
                f"the inverse can't be learned with alpha={self.alpha}: its normal equations are "
                "singular; give a larger alpha"
            ) from error
        self.inverse_centers_ = centers
        dual = linalg.solve_triangular(factor, weights, lower=True, trans=1)
        self.dual_coef_ = dual.astype(self._dtype)

    def _indefinite(self):
        return (
            f"kernel={self.kernel!r} has significant negative eigenvalues on these data: it is "
            "not positive semi-definite, as the Nyström method needs; choose another kernel or "
            "other parameters"
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self):
        return self.eigenvalues_.shape[0]


def _solve_factor(factor, K):
    """Return K L^-T, overwriting K, a C-ordered block of kernel values with a sample a row."""
    (trsm,) = linalg.get_blas_funcs(("trsm",), (K,))
    # BLAS is column-major: to it the block is K^T, and this is L^-1 K^T in place
    return trsm(1, np.asarray(factor, K.dtype, order="F"), K.T, lower=1, overwrite_b=1).T


def _cluster_centers(X, m, rng):
    """Return the centres of m clusters of the rows of X, dense, after a few steps of k-means.

    Started at a uniform sample, as three steps get nearly all of what clusters can do here:
    k-means++ and steps till convergence cost several times the fit. By hand, since
    scikit-learn's threads add up in any order, and the same seed would not give the same bits.
    """
    n = X.shape[0]
    centers = X[rng.permutation(n)[:m]]
    centers = centers.toarray() if sparse.issparse(X) else centers
    nearest = np.empty(n, np.intp)
    for _ in range(KMEANS_STEPS):
        half_norms = row_norms(centers, squared=True) / 2
        for rows in gen_batches(n, BLOCK_ROWS):
            closeness = safe_sparse_dot(X[rows], centers.T, dense_output=True)
            closeness -= half_norms
            closeness.argmax(axis=1, out=nearest[rows])
        sizes = np.bincount(nearest, minlength=m)[:, None]
        members = sparse.csr_matrix((np.ones(n, X.dtype), (nearest, np.arange(n))), (m, n))
        sums = members @ X
        sums = sums.toarray() if sparse.issparse(sums) else sums
        # a cluster without members, as duplicates make them, stays where it was
        centers = np.where(sizes > 0, sums / np.maximum(sizes, 1), centers).astype(X.dtype)
    return centers
