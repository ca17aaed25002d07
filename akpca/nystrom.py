"""Kernel PCA of many points through a few of them: the Nyström method.

With m landmarks Z and L L^T = k(Z, Z), the features F(x) = L^-1 k(Z, x) are the coordinates of
phi(x) projected on the span of phi(z_1), ..., phi(z_m), in an orthonormal basis of it. Their inner
products are the Nyström approximation of the kernel,

    F(x).F(y) = k(x, Z) k(Z, Z)^-1 k(Z, y),

and PCA of F over all n points is kernel PCA within that span. It takes one sweep over the data, in
time O(n m (d + m)) and, for any n, with a peak memory of 10 m^2 + 3 m d numbers. Only what the
landmarks do not span is lost, and `error_` says how much that is.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.utils import check_array, check_random_state, gen_batches
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from . import eigen
from .fitting import Interval, StrOptions, fit_method, moved
from .kernel_code import KernelCode, relative_to
from .kernel_estimator import COUNT_OR_FRACTION, KERNEL_CONSTRAINTS, KernelEstimator
from .kernels import BLOCK_ROWS, check_digits, check_finite
from .operators import KernelOperator
from .preimage import solve_factor
from .threads import one_blas_thread

__all__ = ["NystromKernelPCA", "cluster_centers"]

DEFAULT_LANDMARKS = 1000
KMEANS_STEPS = 3  # more improve the result little
# Fraction of a uniform sample that is added to leverage scores, so that m samples can be drawn.
UNIFORM_FRACTION = 1e-3
# A ridge below this fraction of the trace is rounding.
MIN_RIDGE_RATIO = 1e-12


class _Sums(NamedTuple):
    """Sums over samples: all that is kept of a stream."""

    n: int
    whole: float  # of k(x, x)
    trace: float  # of k(x, x) relative to the origin of features
    missed: float  # of k(x, x) - F(x).F(x)
    total: np.ndarray  # of G(x) = F(x) - reference
    gram: np.ndarray  # of G(x) G(x)^T
    largest: float  # k(x, x), the largest, not a sum


def _add(parts: list[_Sums]) -> _Sums:
    *columns, largest = zip(*parts, strict=True)
    return _Sums(*map(sum, columns), max(largest))


class NystromKernelPCA(KernelEstimator):
    """Nyström kernel PCA: f(x) = V^T (F(x) - mean of F), with F(x) = L^-1 k(Z, x).

    V holds the leading eigenvectors of the m x m covariance of the features F over all n samples,
    so that the components are orthonormal in feature space, and codes are those of the approximated
    kernel matrix, centred by its own mean. With m = n it is exact kernel PCA.

    Parameters
    ----------
    n_components : int or float, default=None
        k, the size of the code; at most the number of landmarks. A fraction in (0, 1) takes as few
        components as explain at least that part of the variance. None keeps all components whose
        eigenvalue is not zero. More than there is is an error.
    n_landmarks : int, default=None
        m, at most n_samples (with `partial_fit`, of the first batch). None is 1000, or n_samples,
        or the number of landmarks that `sampling` gives.
    kernel, gamma, degree, coef0, kernel_params, n_jobs, center, preimage
        As in `KernelPCA`, with kernel='rbf' as default and positive semi-definite; 'precomputed' is
        for an operator with samples. Decoders know the landmarks.
    sampling : {'uniform', 'kmeans', 'leverage'} or {array-like, sparse matrix} of shape \
(n_landmarks, n_features), default='uniform'
        How landmarks are chosen, or the landmarks themselves. 'uniform' draws samples; 'leverage'
        with probabilities proportional to their ridge leverage scores: it costs about another fit
        and favours points that a uniform sample represents badly. 'kmeans' takes the centres of
        clusters.
    random_state : int, RandomState instance or None, default=None
        Determines the landmarks and the starting vectors of the eigensolver.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (n_components,)
        Of the (centred) approximated kernel matrix, descending, none above that of the exact one.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,)
        As in `KernelPCA`; ratios are to the variance about the mean that landmarks span, which is
        not smaller.
    error_ : float
        Relative error, (tr K - tr F F^T) / tr K, not centred, 0 to 1.
    landmarks_ : {ndarray, sparse matrix} of shape (n_kept, n_features)
        Landmarks, in the order in which they add most to those before them. Those that add
        nothing, such as duplicates, are left out.
    landmark_indices_ : ndarray of shape (n_kept,) or None
        Their rows in X (with `partial_fit`, in the first batch). None if they are no samples.
    n_samples_seen_ : int
        Number of samples, n.
    kernel_, gamma_, preimage_
        As in `KernelPCA`.

    Notes
    -----
    With the centred linear kernel, dense samples are taken relative to their mean, which keeps
    digits: landmarks span an affine space through it, and `error_` is a little smaller than with
    sparse samples, where they span a space through zero.

    The report's (13) and (14) extend the eigenpairs of the landmarks' kernel matrix alone: that is
    ``KernelPCA(...).fit(landmarks)``, with eigenvalues n / m times as large.

    A decoder that is learned from all samples, with the landmarks' codes as centres:
    ``RidgePreimage().fit_pairs(Y, X, centers=model.transform(model.landmarks_))`` with the codes Y.

    See Also
    --------
    KernelPCA : Exact kernel PCA, also if the kernel matrix does not fit into memory.
    DataSpanAKPCA : Autoencoding within the span of landmarks.

    References
    ----------
    Williams and Seeger, "Using the Nyström method to speed up kernel machines", NIPS 13, 2001.
    Cohen, Hazan and Ma, "Autoencoder kernel PCA", technical report, 2016.

    Examples
    --------
    >>> from akpca import NystromKernelPCA, load_dataset
    >>> digits = load_dataset("digits")
    >>> model = NystromKernelPCA(10, n_landmarks=200, kernel="rbf", random_state=0)
    >>> model.fit_transform(digits.X).shape
    (1797, 10)
    """

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's convention)
        **KERNEL_CONSTRAINTS,
        "n_components": COUNT_OR_FRACTION,
        "n_landmarks": [Interval(Integral, 1, None, closed="left"), None],
        "sampling": [StrOptions({"uniform", "kmeans", "leverage"}), "array-like", "sparse matrix"],
        "random_state": ["random_state"],
    }

    @moved(
        {
            "orthonormal": "False was KernelPCA(...).fit(landmarks), with eigenvalues times n / m",
            "fit_inverse_transform": "give preimage='ridge'",
            "alpha": "give preimage=RidgePreimage(alpha=...)",
            "inverse_gamma": "give preimage=RidgePreimage(gamma=...)",
        }
    )
    def __init__(
        self,
        n_components=None,
        *,
        n_landmarks=None,
        kernel="rbf",
        gamma=None,
        degree=3,
        coef0=1,
        kernel_params=None,
        n_jobs=None,
        center=True,
        sampling="uniform",
        preimage=None,
        random_state=None,
    ) -> None:
        self.n_components = n_components
        self.n_landmarks = n_landmarks
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_jobs = n_jobs
        self.center = center
        self.sampling = sampling
        self.preimage = preimage
        self.random_state = random_state

    @fit_method
    def fit(self, X, y=None) -> NystromKernelPCA:
        """Choose landmarks and find the components of X in their span; return self.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or operator
        y : Ignored
        """
        if isinstance(X, LinearOperator):  # only landmarks and sums over samples are gathered
            if self._check_operator(X) is None:
                raise ValueError("the Nyström method needs an operator that has samples")
            if isinstance(self.sampling, str) and self.sampling != "uniform":
                problem = f"an operator needs sampling='uniform', got {self.sampling!r}"
                raise ValueError(f"{problem}: draw samples, or give landmarks")
            operator = X
        else:
            operator = self._as_operator(X)
        self._set_landmarks(operator)
        self._decompose(operator.sum_over_samples(self._sweep, _add))
        return self

    def _as_operator(self, X, reset=True):
        """Return samples as an operator, with the kernel that the parameters ask for."""
        if self.kernel == "precomputed":
            problem = "kernel='precomputed' takes an operator that has samples, not a kernel matrix"
            raise ValueError(f"{problem}: once that is computed, KernelPCA is exact")
        X = self._validate(X, reset=reset)
        return KernelOperator(X, self._resolve_kernel(X) if reset else self.kernel_)

    @fit_method
    def partial_fit(self, X, y=None) -> NystromKernelPCA:
        """Update the model with one batch of a stream, shape (n_samples, n_features); return self.

        The result is that of `fit` with all batches and landmarks of the first.
        """
        first = not hasattr(self, "n_samples_seen_")
        operator = self._as_operator(X, reset=first)
        if first:
            self._set_landmarks(operator)
        sums = self._sweep(operator.X)
        self._decompose(sums if first else _add([self._sums, sums]))
        return self

    def _set_landmarks(self, operator):
        """Set the landmarks and the factor L."""
        self._dtype, self._shift = operator.dtype, self._best_origin(operator.X)
        landmarks, indices = self._choose_landmarks(operator, operator.X)
        k, m = self.n_components, landmarks.shape[0]
        if isinstance(k, Integral) and k > m:
            raise ValueError(f"n_components={k}, but there can't be more than the {m} landmarks")
        points = relative_to(self._shift, landmarks)
        check_finite(self.kernel_.diag(points), self.kernel_)  # as new samples will be encoded
        # the small matrix is always in double precision
        K = check_finite(self.kernel_(points.astype(np.float64)), self.kernel_)
        kept, self._factor = eigen.independent_rows(K, self._dtype)
        self.landmarks_ = landmarks[kept]
        self._points = relative_to(self._shift, self.landmarks_)
        self.landmark_indices_ = None if indices is None else indices[kept]

    def _choose_landmarks(self, operator, X):
        """Return the landmarks, and their indices or None."""
        n, m, rng = operator.shape[0], self.n_landmarks, check_random_state(self.random_state)
        if not isinstance(self.sampling, str):
            try:
                Z = check_array(self.sampling, accept_sparse="csr", dtype=self._dtype)
            except ValueError as error:
                raise ValueError(f"sampling must hold landmarks: {error}") from error
            if m not in (None, Z.shape[0]):
                raise ValueError(f"n_landmarks={m}, but sampling has {Z.shape[0]}: give None")
            if Z.shape[1] != X.shape[1]:
                raise ValueError(f"sampling has {Z.shape[1]} features, but X has {X.shape[1]}")
            return Z.toarray() if sparse.issparse(Z) and not sparse.issparse(X) else Z, None
        m = min(n, DEFAULT_LANDMARKS) if m is None else m
        if m > n:
            raise ValueError(f"n_landmarks={m}, but X has only {n} samples: give at most that many")
        if self.sampling == "kmeans":
            return check_finite(cluster_centers(X, m, rng), self.kernel_), None
        if self.sampling == "leverage" and m < n:
            scores = self._leverage_scores(X, m, rng) + UNIFORM_FRACTION * m / n
            indices = rng.choice(n, m, replace=False, p=scores / scores.sum())
        else:
            indices = rng.permutation(n)[:m]
        return operator.take(indices), indices

    def _leverage_scores(self, X, m, rng):
        """Estimate the ridge leverage scores, diag(K (K + ridge I)^-1), of all samples.

        One level of the recursion of Musco and Musco (2017), with their ridge: with a sample S of
        m, K is replaced by what S leaves, (K - K_S (K_SS + m/n ridge I)^-1 K_S^T) / ridge.
        """
        n = X.shape[0]
        pilot = X[rng.permutation(n)[:m]]
        K = check_finite(self.kernel_(pilot.astype(np.float64)), self.kernel_)
        values = linalg.eigvalsh(K)[::-1]
        if values[-1] < -eigen.MAX_NEGATIVE_RATIO[K.dtype] * abs(values[0]):
            raise eigen.indefinite_error(f"kernel={self.kernel!r}")
        k = int(np.ceil(m / (4 * np.log(m + 2))))
        ridge = values[k:].sum() / k
        if ridge <= MIN_RIDGE_RATIO * values.sum():  # rank k: all samples are equally important
            return np.ones(n)
        factor = linalg.cholesky(K + ridge * np.eye(m), lower=True)
        scores = np.empty(n)
        for rows in gen_batches(n, max(BLOCK_ROWS, 2 * m)):
            F = solve_factor(factor, self.kernel_(X[rows], pilot))
            scores[rows] = self.kernel_.diag(X[rows]) - row_norms(F, squared=True)
        return np.clip(scores * (m / n) / ridge, 0, 1)

    def _sweep(self, X):
        """Return the sums over the samples X from which components are found."""
        m, kernel, reference = self.landmarks_.shape[0], self.kernel_, self._reference()
        gram, total, largest = np.zeros((m, m)), np.zeros(m), 0.0
        whole = trace = missed = 0.0
        # landmarks in double precision need batches in double precision
        dtype, size = np.result_type(X.dtype, self._dtype), max(BLOCK_ROWS, 2 * m)
        with one_blas_thread(flops=2.0 * size * m * max(m, X.shape[1])):
            for rows in gen_batches(X.shape[0], size):
                part = relative_to(self._shift, X[rows].astype(dtype, copy=False))
                diagonal = plain = check_finite(kernel.diag(part), kernel)
                if self._shift is not None:
                    plain = kernel.diag(X[rows].astype(np.float64))
                F = solve_factor(self._factor, check_finite(kernel(part, self._points), kernel))
                rest = diagonal - row_norms(F, squared=True)
                if rest.min() < -eigen.MAX_NEGATIVE_RATIO[self._dtype] * np.abs(diagonal).max():
                    raise eigen.indefinite_error(f"kernel={self.kernel!r}")
                # Features, not kernel values, are summed: dividing the latter by small eigenvalues
                # of k(Z, Z) would amplify rounding. F.T @ F costs half of a general product.
                F -= reference.astype(F.dtype)
                with np.errstate(over="ignore"):
                    gram += check_finite(F.T @ F, kernel)
                total += F.sum(axis=0, dtype=np.float64)
                largest = max(largest, float(np.abs(diagonal).max()))
                whole += plain.sum(dtype=np.float64)
                trace += diagonal.sum(dtype=np.float64)
                missed += rest.sum(dtype=np.float64)
        return _Sums(X.shape[0], whole, trace, missed, total, gram, largest)

    def _reference(self):
        """Return the features' mean over the landmarks, to which sums lose fewer digits."""
        return self._factor.mean(axis=0) * self.center

    def _decompose(self, sums):
        """Find the components from the sums over all samples."""
        n, whole, trace, missed, total, gram, largest = sums
        k, rest, scatter, variance = self.n_components, total / n, gram, trace
        mean = rest + self._reference().astype(self._dtype)
        if self.center:
            scatter, variance = gram - n * np.outer(rest, rest), trace - n * (mean @ mean)
        check_digits(largest, self._dtype, self.kernel_)
        wanted = min(k, len(gram)) if isinstance(k, Integral) else len(gram)
        values, V, _ = eigen.leading_eigenpairs(scatter, wanted, random_state=self.random_state)
        values = eigen.clean_eigenvalues(values, n, largest_entry=largest, dtype=self._dtype)
        rank = np.count_nonzero(values)
        variance = max(variance, values.sum())  # which rounding can make smaller
        if isinstance(k, Integral) and rank < k:
            found = f"in the span of the landmarks the data (n_samples = {n}) have only {rank}"
            problem = f"n_components={k}, but {found} component(s) of non-zero eigenvalue"
            raise ValueError(f"{problem}: give at most that many, or None for all")
        if isinstance(k, Real) and k < 1:
            if values.sum() < k * variance:
                spanned = f"the landmarks span only {values.sum() / variance:.3g} of the variance"
                raise ValueError(f"n_components={k}, but {spanned}: give less, or more landmarks")
            rank = eigen.enough_components(values[:rank], variance, k)
        values, V = values[:rank], V[:, :rank]
        offset = mean @ V if self.center else np.zeros(rank)
        # L holds the features of the landmarks; L^-T V and L^-T mean expand components and mean
        columns = np.column_stack([V, mean])
        with one_blas_thread(flops=float(len(V)) ** 2 * columns.shape[1]):
            columns = linalg.solve_triangular(self._factor, columns, lower=True, trans=1)
            codes = self._factor @ V - offset
        # KernelPCA's convention for signs, applied to the codes of the landmarks
        signs = np.where(codes[np.abs(codes).argmax(axis=0), np.arange(rank)] < 0, -1, 1)
        dtype, self.n_samples_seen_, self._sums = self._dtype, n, sums
        self.error_ = float(min(max(missed / whole, 0.0), 1.0)) if whole > 0 else 0.0
        self.eigenvalues_ = values.astype(dtype)
        self.explained_variance_ = self.eigenvalues_ / max(n - 1 if self.center else n, 1)
        # without variance there are no components
        self.explained_variance_ratio_ = (values / variance).astype(dtype)
        weights, codes = (np.ascontiguousarray(a * signs, dtype) for a in (columns[:, :-1], codes))
        code = [weights, (offset * signs).astype(dtype)]
        code += [columns[:, -1], float(mean @ mean)] if self.center else [None, 0.0]
        code += [codes, self.landmarks_]
        self._set_code(KernelCode(self.kernel_, self._points, *code, shift=self._shift))


@np.errstate(over="ignore", invalid="ignore")  # kernel values of the centres are checked
def cluster_centers(X, m: int, rng) -> np.ndarray:
    """Return the centres of m clusters of the rows of X, shape (m, d), dense, by k-means.

    The start is a uniform sample: k-means++ and steps until convergence cost several times the fit.
    The threads of scikit-learn's k-means add in arbitrary order: no two results would be equal.
    """
    n = X.shape[0]
    centers = X[rng.permutation(n)[:m]]
    centers = centers.toarray() if sparse.issparse(X) else centers
    for _ in range(KMEANS_STEPS):
        half_norms = row_norms(centers, squared=True) / 2
        blocks = (X[rows] for rows in gen_batches(n, BLOCK_ROWS))
        closeness = (safe_sparse_dot(B, centers.T, dense_output=True) - half_norms for B in blocks)
        nearest = np.concatenate([values.argmax(axis=1) for values in closeness])
        sizes = np.bincount(nearest, minlength=m)[:, None]
        members = sparse.csr_matrix((np.ones(n, X.dtype), (nearest, np.arange(n))), (m, n))
        sums = members @ X
        sums = sums.toarray() if sparse.issparse(sums) else sums
        # an empty cluster, as with duplicates, keeps its centre
        centers = np.where(sizes > 0, sums / np.maximum(sizes, 1), centers).astype(X.dtype)
    return centers
