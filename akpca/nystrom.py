"""Kernel PCA of many points through a few of them: the Nyström method.

With m landmarks Z and L L^T = k(Z, Z), the features F(x) = L^-1 k(Z, x) are the coordinates of
phi(x) projected on the span of phi(z_1), ..., phi(z_m), in an orthonormal basis of it. Their inner
products are the Nyström approximation of the kernel,

    F(x).F(y) = k(x, Z) k(Z, Z)^-1 k(Z, y),

and PCA of F over all n points is kernel PCA within that span. It takes one sweep over the data in
blocks of rows, which gives an m x m matrix, in time O(n m (d + m)) and, for any n, with a peak
memory of 10 m^2 + 3 m d numbers. Only what the landmarks do not span is lost, and `error_` says how
much that is.
"""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from . import eigen
from .fitting import Interval, StrOptions, fit_method, moved
from .kernel_code import KernelCode, relative_to
from .kernel_estimator import KERNEL_CONSTRAINTS, KernelEstimator
from .kernels import BLOCK_ROWS, check_digits, check_finite
from .operators import KernelOperator
from .preimage import solve_factor
from .threads import one_blas_thread

__all__ = ["NystromKernelPCA", "cluster_centers"]

SAMPLINGS = ("uniform", "kmeans", "leverage")
# Largest default number of landmarks.
DEFAULT_LANDMARKS = 1000
# Number of k-means steps; more improve the result little.
KMEANS_STEPS = 3
# Fraction of a uniform sample that is added to leverage scores, so that m samples can be drawn.
UNIFORM_FRACTION = 1e-3
# A ridge below this fraction of the trace is rounding.
MIN_RIDGE_RATIO = 1e-12
# Parameters of the first edition, and what to do instead.
GONE = {
    "orthonormal": "False was KernelPCA(...).fit(landmarks), with eigenvalues times n / m",
    "fit_inverse_transform": "give preimage='ridge'",
    "alpha": "give preimage=RidgePreimage(alpha=...)",
    "inverse_gamma": "give preimage=RidgePreimage(gamma=...)",
}


class _Sums(NamedTuple):
    """Sums over samples: all that is kept of a stream."""

    n: int
    trace: float  # of k(x, x)
    missed: float  # of k(x, x) - F(x).F(x)
    total: np.ndarray  # of G(x) = F(x) - reference
    gram: np.ndarray  # of G(x) G(x)^T
    largest: float  # k(x, x), the largest, not a sum


def _add(parts: list[_Sums]) -> _Sums:
    """Return the sums over the samples of all parts."""
    *columns, largest = zip(*parts, strict=True)
    return _Sums(*map(sum, columns), max(largest))


class NystromKernelPCA(KernelEstimator):
    """Nyström kernel PCA: f(x) = V^T (F(x) - mean of F), with F(x) = L^-1 k(Z, x).

    V holds the leading eigenvectors of the m x m covariance of the features F over all n samples,
    so that the components are orthonormal in feature space, and the codes of the samples divided
    by the square roots of `eigenvalues_` are orthonormal eigenvectors of the approximated kernel
    matrix, centred by its own mean. With m = n it is exact kernel PCA.

    Parameters
    ----------
    n_components : int, default=None
        k, the size of the code; at most the number of landmarks. None keeps all components whose
        eigenvalue is not zero. Asking for more components than there are is an error.
    n_landmarks : int, default=None
        m, at most n_samples (with `partial_fit`, of the first batch). None is 1000, or n_samples.
    kernel : {'linear', 'poly', 'rbf', 'sigmoid', 'cosine', 'laplacian', 'chi2', \
'precomputed'}, Kernel or callable, default='rbf'
        As in `KernelPCA`, but positive semi-definite; 'precomputed': an operator with samples.
    gamma, degree, coef0, kernel_params, n_jobs, center
        As in `KernelPCA`.
    sampling : {'uniform', 'kmeans', 'leverage'}, default='uniform'
        How landmarks are chosen. 'uniform' draws samples. 'leverage' draws them with probabilities
        proportional to their ridge leverage scores, estimated from a uniform pilot sample: it costs
        about another fit and favours points that a uniform sample represents badly. 'kmeans' takes
        the centres of clusters.
    preimage : {'ridge', 'eigenvector', 'fixed_point', 'distance'} or Preimage, default=None
        As in `KernelPCA`, with the landmarks as known samples.
    random_state : int, RandomState instance or None, default=None
        Determines the landmarks and the starting vectors of the eigensolver.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (n_components,)
        Of the (centred) approximated kernel matrix, descending, none above that of the exact one.
    explained_variance_ : ndarray of shape (n_components,)
        Eigenvalues divided by n - 1. Without centring, by n.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Eigenvalues divided by the total variance in feature space, which lacks what the landmarks
        do not span of the mean: never too large.
    error_ : float
        Relative error, (tr K - tr F F^T) / tr K, not centred, 0 to 1.
    landmarks_ : {ndarray, sparse matrix} of shape (n_kept, n_features)
        Landmarks, in the order in which they add most to those before them. Those that add
        nothing, such as duplicates, are left out.
    landmark_indices_ : ndarray of shape (n_kept,) or None
        Their rows in X (with `partial_fit`, in the first batch). None with sampling='kmeans'.
    n_samples_seen_ : int
        Number of samples, n.
    kernel_, gamma_, preimage_, n_features_in_, feature_names_in_
        As in `KernelPCA`.

    Notes
    -----
    The report's (13) and (14) extend the eigenpairs of the landmarks' kernel matrix alone: that is
    ``KernelPCA(...).fit(landmarks)``, with eigenvalues n / m times as large. It needs no sweep, but
    its eigenvectors are not orthonormal.

    A decoder that is learned from all samples, with the landmarks' codes Y as centres:
    ``RidgePreimage().fit_pairs(model.transform(X), X, centers=Y)`` with
    ``Y = model.transform(model.landmarks_)``.

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
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "n_landmarks": [Interval(Integral, 1, None, closed="left"), None],
        "sampling": [StrOptions(set(SAMPLINGS))],
        "random_state": ["random_state"],
    }

    @moved(GONE)
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
        """Choose landmarks among X and find the components of X in their span; return self.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or operator
            With kernel='precomputed' an operator of :mod:`akpca.operators` or
            :mod:`akpca.distributed` that has samples.
        y : Ignored
        """
        if isinstance(X, LinearOperator):  # only landmarks and sums over samples are gathered
            if self._check_operator(X) is None:
                raise ValueError("the Nyström method needs an operator that has samples")
            if self.sampling != "uniform":
                raise ValueError(f"an operator needs sampling='uniform', got {self.sampling!r}")
            operator = X
        else:
            operator = self._as_operator(X)
        self._choose_landmarks(operator)
        self._decompose(operator.sum_over_samples(self._sweep, _add))
        return self

    def _as_operator(self, X, reset=True):
        """Return samples as an operator, with the kernel that the parameters ask for."""
        if self.kernel == "precomputed":
            raise ValueError(
                "kernel='precomputed' takes an operator that has samples, not a kernel matrix: "
                "once that is computed, KernelPCA is exact"
            )
        X = self._validate(X, reset=reset)
        return KernelOperator(X, self._resolve_kernel(X) if reset else self.kernel_)

    @fit_method
    def partial_fit(self, X, y=None) -> NystromKernelPCA:
        """Update the model with one batch of a stream, shape (n_samples, n_features); return self.

        The result is that of `fit` with all batches and landmarks of the first. An error leaves the
        model unchanged.
        """
        first = not hasattr(self, "n_samples_seen_")
        operator = self._as_operator(X, reset=first)
        if first:
            self._choose_landmarks(operator)
        sums = self._sweep(operator.X)
        self._decompose(sums if first else _add([self._sums, sums]))
        return self

    def _choose_landmarks(self, operator):
        """Set the landmarks and the factor L."""
        n, X = operator.shape[0], operator.X
        m = min(n, DEFAULT_LANDMARKS) if self.n_landmarks is None else self.n_landmarks
        if m > n:
            raise ValueError(f"n_landmarks={m}, but X has only {n} samples: give at most that many")
        if self.n_components is not None and self.n_components > m:
            raise ValueError(
                f"n_components={self.n_components}, but there can't be more than the {m} landmarks"
            )
        self._dtype, self._shift = operator.dtype, self._best_origin(X)
        rng = check_random_state(self.random_state)
        if self.sampling == "kmeans":
            indices, landmarks = None, check_finite(cluster_centers(X, m, rng), self.kernel_)
        else:
            if self.sampling == "leverage" and m < n:
                scores = self._leverage_scores(X, m, rng) + UNIFORM_FRACTION * m / n
                indices = rng.choice(n, m, replace=False, p=scores / scores.sum())
            else:
                indices = rng.permutation(n)[:m]
            landmarks = operator.take(indices)
        points = relative_to(self._shift, landmarks)
        check_finite(self.kernel_.diag(points), self.kernel_)  # as new samples will be encoded
        # the small matrix is always in double precision
        K = check_finite(self.kernel_(points.astype(np.float64)), self.kernel_)
        kept, self._factor = eigen.independent_rows(K, self._dtype)
        self._features, self._kept = solve_factor(self._factor, K[:, kept]), kept
        self.landmarks_, self._points = landmarks[kept], points[kept]
        self.landmark_indices_ = None if indices is None else indices[kept]
        # Sums of squares of features relative to their mean over the landmarks lose fewer digits.
        self._reference = self._features.mean(axis=0) * self.center

    def _leverage_scores(self, X, m, rng):
        """Estimate the ridge leverage scores, diag(K (K + ridge I)^-1), of all samples.

        One level of the recursion of Musco and Musco (2017): with a uniform sample S of m, K is
        replaced by what S leaves unexplained, (K - K_S (K_SS + m/n ridge I)^-1 K_S^T) / ridge.
        The ridge is theirs: the eigenvalues beyond the first k, summed, over k; m is ~4 k log k.
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
        m, kernel = self.landmarks_.shape[0], self.kernel_
        gram, total, trace, missed, largest = np.zeros((m, m)), np.zeros(m), 0.0, 0.0, 0.0
        # landmarks in double precision need batches in double precision
        dtype, size = np.result_type(X.dtype, self._dtype), max(BLOCK_ROWS, 2 * m)
        with one_blas_thread(flops=2.0 * size * m * max(m, X.shape[1])):
            for rows in gen_batches(X.shape[0], size):
                part = relative_to(self._shift, X[rows].astype(dtype, copy=False))
                diagonal = check_finite(kernel.diag(part), kernel)
                F = solve_factor(self._factor, check_finite(kernel(part, self._points), kernel))
                rest = diagonal - row_norms(F, squared=True)
                if rest.min() < -eigen.MAX_NEGATIVE_RATIO[self._dtype] * np.abs(diagonal).max():
                    raise eigen.indefinite_error(f"kernel={self.kernel!r}")
                # Features, not kernel values, are summed: dividing the latter by small eigenvalues
                # of k(Z, Z) would amplify rounding. F.T @ F costs half of a general product.
                F -= self._reference.astype(F.dtype)
                with np.errstate(over="ignore"):
                    gram += check_finite(F.T @ F, kernel)
                total += F.sum(axis=0, dtype=np.float64)
                largest = max(largest, float(np.abs(diagonal).max()))
                trace += diagonal.sum(dtype=np.float64)
                missed += rest.sum(dtype=np.float64)
        return _Sums(X.shape[0], trace, missed, total, gram, largest)

    def _decompose(self, sums):
        """Find the components from the sums over all samples."""
        n, trace, missed, total, gram, largest = sums
        rest, scatter, variance = total / n, gram, trace
        mean = rest + self._reference.astype(self._dtype)
        if self.center:
            scatter, variance = gram - n * np.outer(rest, rest), trace - n * (mean @ mean)
        check_digits(largest, self._dtype, self.kernel_)
        k = len(scatter) if self.n_components is None else min(self.n_components, len(scatter))
        values, V, _ = eigen.leading_eigenpairs(scatter, k, random_state=self.random_state)
        values = eigen.clean_eigenvalues(values, n, largest_entry=largest, dtype=self._dtype)
        rank = np.count_nonzero(values)
        if self.n_components is not None and rank < self.n_components:
            raise ValueError(
                f"n_components={self.n_components}, but in the span of the landmarks the data "
                f"(n_samples = {n}) have only {rank} component(s) of non-zero eigenvalue: "
                "give at most that many, or None for all"
            )
        values, V = values[:rank], V[:, :rank]
        offset = mean @ V if self.center else np.zeros(rank)
        # L holds the features of the landmarks; L^-T V and L^-T mean expand components and mean
        columns = np.column_stack([V, mean])
        with one_blas_thread(flops=float(len(V)) ** 2 * columns.shape[1]):
            columns = linalg.solve_triangular(self._factor, columns, lower=True, trans=1)
            codes = self._features @ V - offset
        # KernelPCA's convention for signs, applied to the codes of all landmarks that were chosen
        signs = np.where(codes[np.abs(codes).argmax(axis=0), np.arange(rank)] < 0, -1, 1)
        dtype, self.n_samples_seen_, self._sums = self._dtype, n, sums
        self.error_ = float(min(max(missed / trace, 0.0), 1.0)) if trace > 0 else 0.0
        self.eigenvalues_ = values.astype(dtype)
        self.explained_variance_ = self.eigenvalues_ / max(n - 1 if self.center else n, 1)
        # without variance there are no components
        variance = max(variance, values.sum())  # which rounding can make smaller
        self.explained_variance_ratio_ = (values / variance).astype(dtype)
        weights, codes = (
            np.ascontiguousarray(a * signs, dtype) for a in (columns[:, :-1], codes[self._kept])
        )
        code = [weights, (offset * signs).astype(dtype)]
        code += [columns[:, -1], float(mean @ mean)] if self.center else [None, 0.0]
        code += [codes, self.landmarks_]
        self._set_code(KernelCode(self.kernel_, self._points, *code, shift=self._shift))


@np.errstate(over="ignore", invalid="ignore")  # kernel values of the centres are checked
def cluster_centers(X, m: int, rng) -> np.ndarray:
    """Return the centres of m clusters of the rows of X, shape (m, d), dense, by k-means.

    The start is a uniform sample, and `KMEANS_STEPS` steps are enough: k-means++ and steps until
    convergence cost several times the fit. scikit-learn's k-means is not used, because its threads
    add in arbitrary order, so that results would not be reproducible to the bit.
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
