"""Kernel PCA in one pass and without a gain: merge what is known with the next block, exactly.

Components v_i = sum_p A_ip phi(z_p), orthonormal, come with the scatter lambda_i that they explain
of the n samples so far, relative to their mean mu. A block of b samples adds to the scatter

    D D^T,    D = (Phi - mu 1^T) (I - a 1 1^T / b),    a = 1 - sqrt(n / (n + b)),

which includes the move of the mean. With Y = V D, what the components miss of the block has the
Gram matrix D^T D - Y^T Y = L L^T, and in the basis of the components and of L^-1 (D - V^T Y)^T,
which is orthonormal, the scatter of everything seen is the small matrix

    diag(lambda, 0) + F F^T,    F = [Y; L^T].

Its eigenvectors are the new components. Nothing is approximated but by leaving out those that are
not kept, which are best many more than are asked for: a direction that is weak in every block may
be strong in all of them together. A step needs kernel values of the block with samples that came
before it, so that a pass computes half of the kernel matrix, and no row means.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Integral
from typing import ClassVar

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.utils import check_random_state, gen_batches

from .eigen import MAX_NEGATIVE_RATIO, clean_eigenvalues, indefinite_error, lapack_work
from .fitting import Interval, fit_method, moved
from .kernel_code import KernelCode, relative_to
from .kernel_estimator import KERNEL_CONSTRAINTS, KernelEstimator
from .kernels import Kernel, Linear, check_digits, check_finite
from .operators import TILE_COLUMNS, MatrixOperator
from .progress import FitProgress, progress_bar, warn_interrupted
from .threads import matmul, one_blas_thread

__all__ = ["IncrementalKernelPCA", "MergeState", "SampleBasis", "compress", "merge_block"]

DOUBLE, SINGLE = np.dtype(np.float64), np.dtype(np.float32)
# What the components miss of a sample has a direction if its square is more than this fraction of
# the largest k(x, x): it is divided by its root, and with ten times less, rounding would grow.
MIN_REST = {DOUBLE: 1e-12, SINGLE: 1e-5}
# Coefficients of a weak component are large, and multiply the errors of kernel values, of which
# sqrt(n) add up: its scatter must be this many times sqrt(n) k(x, x).
MIN_SCATTER = {DOUBLE: 1e-11, SINGLE: 7e-6}
# A point may carry projected components if the square of what it adds to the span of the others is
# more than this fraction of k(x, x): coefficients are divided by its root.
MIN_POINT = {DOUBLE: 1e-9, SINGLE: 1e-4}
# Components that are kept beyond those asked for: as many again, and at least these. Of 20
# components of windows of a noisy photograph, 100 more leave an excess error of .1 %, 200 more of
# .01 %. With axes, the eigenproblems of 200 more would be most of the work.
MORE_KEPT, MORE_AXES = 200, 100
# Samples in a block, in units of the components kept: fewer cost more in updates of coefficients,
# more in eigenproblems.
BLOCK_FACTOR = 2
# Part of a budget that is made free when it is used up, so that points are chosen now and then.
FREE_PART = 4
# Points that are chosen at a time, and how many times as many are compared for that.
GROUP, CANDIDATES = 8, 2


@dataclass(frozen=True, eq=False)
class SampleBasis:
    """Expansions in the first `size` of some samples; the others are those to come."""

    kernel: Kernel
    samples: np.ndarray | sparse.csr_matrix  # (at least size, d)
    size: int = 0

    @property
    def precision(self) -> np.dtype:
        """The type in which kernel values are computed."""
        return self.samples.dtype

    @property
    def points(self):
        """The samples of the expansions, shape (size, d)."""
        all_of_them = self.size == self.samples.shape[0]  # one array, also in a pickle
        return self.samples if all_of_them else self.samples[: self.size]

    @np.errstate(all="ignore")  # what overflows is reported by the checks
    def values(self, S: np.ndarray, X) -> tuple[np.ndarray, np.ndarray]:
        """Return S k(Z, X), (len(S), b), with the points Z, and k(X, X), (b, b), float64."""
        dtype = np.result_type(self.samples.dtype, X.dtype)
        X = X.astype(dtype, copy=False)
        own = check_finite(self.kernel.matrix(X), self.kernel)
        check_digits(np.abs(own).max(), dtype, self.kernel)
        products = np.zeros((len(S), X.shape[0]))
        for start in range(0, self.size, TILE_COLUMNS):
            rows = slice(start, min(start + TILE_COLUMNS, self.size))
            # in double precision: what kernel values have in common, which may be nearly all of
            # them, cancels in these sums
            K = self.kernel.values(self.points[rows], X).astype(np.float64, copy=False)
            products += S[:, rows] @ K
        return check_finite(products, self.kernel), own.astype(np.float64)

    def grown(self, X) -> SampleBasis:
        """Return the basis with the rows of X, which may be the next samples already."""
        size = self.size + X.shape[0]
        basis = self if size <= self.samples.shape[0] else self.followed_by(X)
        return replace(basis, size=size)

    def followed_by(self, X) -> SampleBasis:
        """Return the basis with the rows of X as samples to come."""
        Z, dtype = self.points, self.samples.dtype
        dense = isinstance(Z, np.ndarray)
        both = np.concatenate([Z, X]) if dense else sparse.vstack([Z, X], format="csr")
        return replace(self, samples=both.astype(dtype, copy=False))

    def coefficients(self, S: np.ndarray, change: np.ndarray, new: np.ndarray, X) -> np.ndarray:
        """Return the coefficients of change S + new Phi, with the features Phi of X."""
        return np.hstack([matmul(change, S), new])


@dataclass(frozen=True, eq=False)
class AxisBasis:
    """With the linear kernel, expansions in the axes of input space: coefficients are vectors."""

    kernel: Kernel
    n_features: int
    origin: np.ndarray | None = None  # (d,), subtracted from samples, to avoid cancellation
    precision: ClassVar[np.dtype] = DOUBLE  # samples are few at a time: no need for less

    @np.errstate(all="ignore")  # what overflows is reported by the checks
    def values(self, S: np.ndarray, X) -> tuple[np.ndarray, np.ndarray]:
        """As in `SampleBasis`."""
        X = self._vectors(X)
        products, own = (check_finite(matmul(A, X.T), self.kernel) for A in (S, X))
        check_digits(np.abs(own).max(), np.float64, self.kernel)
        return products, own

    def _vectors(self, X) -> np.ndarray:
        return relative_to(self.origin, X).astype(np.float64, copy=False)

    def grown(self, X) -> AxisBasis:
        """Return the basis, which has all directions."""
        return self

    def coefficients(self, S: np.ndarray, change: np.ndarray, new: np.ndarray, X) -> np.ndarray:
        """As in `SampleBasis`."""
        return matmul(change, S) + matmul(new, self._vectors(X))


@dataclass(frozen=True, eq=False)
class RowBasis:
    """Expansions in the samples of an operator, of which rows are known; blocks are indices."""

    operator: LinearOperator
    kernel: Kernel  # for messages
    seen: np.ndarray  # (m,), indices

    @property
    def precision(self) -> np.dtype:
        """As in `SampleBasis`."""
        return self.operator.dtype

    def values(self, S: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As in `SampleBasis`."""
        rows = check_finite(self.operator.plain_rows(X), self.kernel)
        products = matmul(S, rows[:, self.seen].T.astype(np.float64))
        own = rows[:, X].astype(np.float64)
        return check_finite(products, self.kernel), (own + own.T) / 2

    def grown(self, X: np.ndarray) -> RowBasis:
        """Return the basis with the samples of these indices."""
        return replace(self, seen=np.append(self.seen, X))

    coefficients = SampleBasis.coefficients


@dataclass(frozen=True, eq=False)
class MergeState:
    """Where a pass stands; a block makes a new one."""

    basis: SampleBasis | AxisBasis | RowBasis
    S: np.ndarray  # (q + 1, m), coefficients of the components and of the mean; float64
    values: np.ndarray  # (q,), scatter along the components, descending
    along: np.ndarray  # (q + 1,), inner products of the rows of S with the mean
    n: int = 0  # samples seen
    total: float = 0.0  # scatter of all of them, kept or not
    largest: float = 0.0  # k(x, x)
    lost: float = 0.0  # scatter along the first components, by projections on fewer points

    @classmethod
    def empty(cls, basis) -> MergeState:
        """Return the state before the first sample: no component, a mean of zero."""
        m = basis.n_features if isinstance(basis, AxisBasis) else 0
        return cls(basis, np.zeros((1, m)), np.zeros(0), np.zeros(1))


def merge_block(state: MergeState, X, keep: int, *, center: bool) -> MergeState:
    """Return the state after the samples X, or their indices, with at most `keep` components.

    With `center`, scatter is relative to the mean of all samples so far, or else to zero.
    """
    products, own = state.basis.values(state.S, X)
    n, (q, b) = state.n, (len(state.values), len(own))
    largest = max(state.largest, float(np.abs(own.diagonal()).max()))
    with one_blas_thread(flops=lapack_work(q + b, q + b)):
        a = 1 - np.sqrt(n / (n + b)) if center else 0.0
        Y = _mixed(products[:-1] - state.along[:-1, None], a)
        with_mean = products[-1]
        inner = own - with_mean - with_mean[:, None] + state.along[-1]
        inner = _mixed(_mixed(inner, a).T, a)
        kept, L = _factor(inner - Y.T @ Y, largest, state.basis)
        F = np.vstack([Y, L.T])
        M = F @ F.T
        M.flat[: q * len(M) : len(M) + 1] += state.values
    # alone it gains from threads from some 670 rows on
    with one_blas_thread(flops=2 * lapack_work(*M.shape)):
        found, U = np.linalg.eigh(M)
    with one_blas_thread(flops=lapack_work(q + b, q + b)):
        k = min(keep, np.count_nonzero(found > _noise(state.basis, n + b, largest)))
        found, U = found[::-1][:k], U[:, ::-1][:, :k]
        # components are change S + new Phi; rows of C are multiples of (D - V^T Y)^T
        C = _solved(L[kept], U[q:], trans=1).T
        change, new = np.zeros((k + 1, q + 1)), np.zeros((k + 1, b))
        change[:k, :q] = U[:q].T - C @ Y[:, kept].T
        new[:k, kept] = C
        new[:k] = _mixed(new[:k], a)
        if center:
            change[:k, q] = -(1 - a) * C.sum(axis=1)
            change[k, q], new[k] = n / (n + b), 1 / (n + b)
        along = np.zeros(k + 1)
        if center:
            old, others = change @ state.along + new @ with_mean, change @ products + new @ own
            along = (n * old + others.sum(axis=1)) / (n + b)
    S, basis = state.basis.coefficients(state.S, change, new, X), state.basis.grown(X)
    total = state.total + float(np.trace(inner))
    return MergeState(basis, S, found, along, n + b, total, largest, state.lost)


def _noise(basis, n: int, largest: float) -> float:
    """Return the scatter below which a direction is rounding."""
    return MIN_SCATTER[basis.precision] * np.sqrt(n) * largest


def _mixed(M: np.ndarray, a: float) -> np.ndarray:
    """Return M (I - a 1 1^T / b)."""
    return M - a * M.mean(axis=1, keepdims=True)


def _solved(L: np.ndarray, B: np.ndarray, trans: int = 0) -> np.ndarray:
    """Return L^-1 B, or L^-T B, of a triangular matrix, which may be empty."""
    if len(L) == 0:
        return np.zeros(B.shape)
    return linalg.solve_triangular(L, B, lower=True, trans=trans, check_finite=False)


def _factor(R: np.ndarray, largest: float, basis) -> tuple[np.ndarray, np.ndarray]:
    """Return rows, and L, shape (b, rank), triangular in these, with L L^T = R up to rounding."""
    floor = MIN_REST[basis.precision] * largest
    factor, order, rank, _ = linalg.lapack.dpstrf(R, tol=floor, lower=1)
    order = order - 1
    L = np.empty((len(R), rank))
    L[order] = np.tril(factor)[:, :rank]
    rest = order[rank:]
    left = R[np.ix_(rest, rest)] - L[rest] @ L[rest].T
    if np.abs(left).max(initial=0) > MAX_NEGATIVE_RATIO[basis.precision] * largest:
        raise indefinite_error(f"kernel={basis.kernel!r} on X")
    return order[:rank], L


def nearest_points(
    K: np.ndarray, W: np.ndarray, size: int, floor: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Choose points whose span is nearest to some vectors: orthogonal matching pursuit.

    Each time, a group of those comes next that explain most of what the points before them leave of
    the vectors, coefficients W, (q, m). Points that add less than `floor` to the span are no
    candidates. K is the kernel matrix of all points, (m, m). Returned are the indices of points
    that were chosen, (found,), fewer than `size` if those span all; the Cholesky factor L of their
    kernel matrix; and the coordinates of the projected vectors in the orthonormal basis that L^-1
    makes of the points, (q, found).
    """
    rest, Y, free = K.diagonal().copy(), W @ K, np.ones(len(K), bool)
    L, coordinates, chosen = np.zeros((len(K), size)), np.zeros((len(W), size)), np.zeros(0, int)
    while len(chosen) < size:
        j = len(chosen)
        explained = np.einsum("ij,ij->j", Y, Y) / np.where(rest > floor, rest, np.inf)
        possible = np.flatnonzero(free & (rest > floor))
        if len(possible) == 0:
            break
        best = possible[np.argsort(-explained[possible], kind="stable")[: CANDIDATES * GROUP]]
        left = K[np.ix_(best, best)] - L[best, :j] @ L[best, :j].T
        picked = _pursue(left, Y[:, best], min(GROUP, size - j), floor)
        if len(picked) == 0:  # rounding had left them a little more than there is
            free[best] = False
            continue
        new, T = best[picked], linalg.cholesky(left[np.ix_(picked, picked)], lower=True)
        columns, found = _solved(T, K[new] - L[new, :j] @ L[:, :j].T), _solved(T, Y[:, new].T)
        stop = j + len(new)
        L[:, j:stop], coordinates[:, j:stop] = columns.T, found.T
        Y, rest = Y - found.T @ columns, rest - np.einsum("ij,ij->j", columns, columns)
        free[new], chosen = False, np.append(chosen, new)
    return chosen, np.tril(L[chosen, : len(chosen)]), coordinates[:, : len(chosen)]


def _pursue(R: np.ndarray, Y: np.ndarray, count: int, floor: float) -> np.ndarray:
    """Return indices of at most `count` points, by their inner products R, and Y with vectors."""
    R, Y, picked = R.copy(), Y.copy(), []
    for _ in range(count):
        rest = R.diagonal()
        explained = np.where(rest > floor, np.sum(Y**2, axis=0) / np.maximum(rest, floor), -1)
        explained[picked] = -1
        i = int(explained.argmax())
        if explained[i] < 0:
            break
        column, picked = R[i] / np.sqrt(R[i, i]), [*picked, i]
        Y -= np.multiply.outer(Y[:, i] / column[i], column)
        R -= np.multiply.outer(column, column)
    return np.array(picked, int)


def compress(state: MergeState, size: int, r: int) -> MergeState:
    """Return the state projected on the span of at most `size` of its points.

    They are chosen to lose least of the scatter along the components, and of the mean; what is lost
    along the first r components is added up.
    """
    basis, points = state.basis, state.basis.points
    K = check_finite(basis.kernel(points), basis.kernel).astype(np.float64)
    weights = np.sqrt(np.append(state.values, state.n))
    with one_blas_thread(flops=2.0 * GROUP * K.size):
        floor = MIN_POINT[basis.precision] * state.largest
        chosen, L, rows = nearest_points(K, weights[:, None] * state.S, size, floor)
        # the scatter of the weighted rows is theirs: its eigenvectors are components again
        _, roots, V = np.linalg.svd(rows[:-1], full_matrices=False)
        k = np.count_nonzero(roots**2 > _noise(basis, state.n, state.largest))
        values, V = roots[:k] ** 2, V[:k]
        rows = np.vstack([V, rows[-1] / weights[-1]])
        S = _solved(L, rows.T, trans=1).T
    order, lost = np.argsort(chosen), float(state.values[:r].sum() - values[:r].sum())
    return replace(
        state,
        basis=SampleBasis(basis.kernel, points[chosen[order]], len(chosen)),
        S=np.ascontiguousarray(S[:, order]),
        along=rows @ rows[-1],
        values=values,
        lost=state.lost + max(lost, 0.0),
    )


class IncrementalKernelPCA(KernelEstimator):
    """Kernel PCA in one pass: the components of diag(lambda, 0) + F F^T, block after block.

    Each block of samples is merged with the components so far by an eigenproblem as large as both
    together, which is exact but for components that are left out. Nothing is to be tuned. `fit`
    computes half of the kernel matrix and keeps none of it; `partial_fit` follows a stream, with a
    `budget` of points if it has no end. With the linear kernel this is incremental PCA.

    Parameters
    ----------
    n_components : int, default=2
        r, the number of components.
    kernel, gamma, degree, coef0, kernel_params, n_jobs, preimage
        As in :class:`akpca.KernelPCA`, with 'rbf' as default and positive semi-definite. With
        kernel='precomputed', `fit` takes a kernel matrix, or an operator of :mod:`akpca.operators`
        or :mod:`akpca.distributed`, whose `center` is then used.
    center : bool, default=True
        Centre in feature space, by the mean of all samples so far.
    n_kept : int, default=None
        Components kept from block to block, at least r. None is 2 r, and at least r + 200, or
        r + 100 with the linear kernel.
    block_size : int, default=None
        Samples in a block. None is twice `n_kept`. With fewer, more is lost, but very little. With
        the linear kernel, at most the larger of n_features and twice `n_kept`.
    budget : int, default=None
        Largest number of points in which components are expanded, at least 2 r. None expands them
        in all samples seen. When it is used up, the quarter of the points is given up that costs
        the components least. The linear kernel needs none, and an operator has its own.
    shuffle : bool, default=True
        Whether `fit` takes the samples in random order. Sorted ones lose more.
    random_state : int, RandomState instance or None, default=None
        Determines the order of the samples.
    verbose : bool, default=False
        Show the progress of `fit` and `partial_fit`.
    callback : callable, default=None
        Called with an :class:`akpca.progress.FitProgress` after every block of `fit`, whose model
        has no `preimage`; a true answer ends the fit.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_points)
        Coefficients of components that have norm 1 in feature space; zeros where the data have
        fewer directions. With the linear kernel, the components themselves.
    eigenvalues_ : ndarray of shape (n_components,)
        Of the (centred) kernel matrix of all samples so far, none above the exact one.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,)
        As in :class:`akpca.KernelPCA`, for all samples so far.
    lost_ : float
        Part of all variance that a budget has taken from the components, added up.
    n_samples_seen_ : int
        Number of samples, fewer than were given if a fit was interrupted.
    X_fit_ : {ndarray, sparse matrix} of shape (n_points, n_features), or operator
        The points, or with the linear kernel, the unit vectors.
    kernel_, gamma_, preimage_
        As in :class:`akpca.KernelPCA`.

    Notes
    -----
    Time, with q components kept and m points: O(m (d + q)) for a sample. Peak memory of `fit`, in
    numbers, besides X and a copy of it: 3 n q, and with the linear kernel, or of a stream with a
    budget, O((q + b) (d + q + b) + m (m + d)).

    See Also
    --------
    KernelPCA : The components in closed form, or to any accuracy in several sweeps.
    NystromKernelPCA : Components in the span of some landmarks.

    References
    ----------
    Chin and Suter, "Incremental kernel principal component analysis", IEEE Transactions on Image
    Processing 16(6), 2007. Ross, Lim, Lin and Yang, "Incremental learning for robust visual
    tracking", IJCV 77, 2008, for the mean. The choice of points is akpca's own.

    Examples
    --------
    >>> import numpy as np
    >>> from akpca import IncrementalKernelPCA, KernelPCA, load_dataset
    >>> X = load_dataset("digits").X / 16
    >>> model = IncrementalKernelPCA(3, gamma=0.02, random_state=0).fit(X)
    >>> exact = KernelPCA(3, kernel="rbf", gamma=0.02).fit(X)
    >>> np.allclose(model.eigenvalues_, exact.eigenvalues_)
    True
    """

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's convention)
        **KERNEL_CONSTRAINTS,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "n_kept": [Interval(Integral, 1, None, closed="left"), None],
        "block_size": [Interval(Integral, 1, None, closed="left"), None],
        "budget": [Interval(Integral, 2, None, closed="left"), None],
        "shuffle": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "callback": [callable, None],
    }

    @moved({"warm_start": "call partial_fit with the rest of the samples"})
    def __init__(
        self,
        n_components=2,
        *,
        kernel="rbf",
        gamma=None,
        degree=3,
        coef0=1,
        kernel_params=None,
        n_jobs=None,
        center=True,
        n_kept=None,
        block_size=None,
        budget=None,
        shuffle=True,
        preimage=None,
        random_state=None,
        verbose=False,
        callback=None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.n_jobs = n_jobs
        self.center = center
        self.n_kept = n_kept
        self.block_size = block_size
        self.budget = budget
        self.shuffle = shuffle
        self.preimage = preimage
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    @fit_method
    def fit(self, X, y=None) -> IncrementalKernelPCA:
        """Make one pass over X; return self.

        An interrupt (Ctrl-C) ends it with a warning and keeps what was found so far.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or operator
            With kernel='precomputed' the kernel matrix, or an operator that stands for it.
        y : Ignored
        """
        center, operator = self.center, None
        if isinstance(X, LinearOperator):
            points, center, operator = self._check_operator(X), X.center, X
            X = None if points is None or hasattr(points, "encode") else points
        else:
            X = self._validate(X)
            self._resolve_kernel(X)
            if self.kernel == "precomputed":
                K = X.toarray() if sparse.issparse(X) else X.copy()
                operator, X = MatrixOperator.precomputed(K, center=False), None
        n, r = (operator if X is None else X).shape[0], self.n_components
        if r > n:
            raise ValueError(f"n_components={r} must not be larger than the {n} samples of X")
        rng = check_random_state(self.random_state)
        order = rng.permutation(n) if self.shuffle else np.arange(n)
        if X is None:
            data, basis = order, RowBasis(operator, self.kernel_, order[:0])
        else:
            data = X[order]  # a copy: the caller's may change
            basis = self._basis(data, center)
        self._dtype, state = (operator if X is None else X).dtype, MergeState.empty(basis)
        blocks = self._blocks(state, data, center)
        try:
            for count, (state, total) in enumerate(blocks, start=1):
                if self.callback is not None:
                    self._code, self._decoder = self._publish(state, data, center), None
                    if self.callback(FitProgress(count, total, None, self)):
                        break
        except KeyboardInterrupt:
            if state.n == 0:  # nothing has been learned
                raise
            warn_interrupted(f"after {state.n} of {n} samples")
        self._set_code(self._publish(state, data, center))
        return self

    @fit_method
    def partial_fit(self, X, y=None) -> IncrementalKernelPCA:
        """Merge the next samples of a stream, (n_samples, n_features); return self.

        It may go on after a `fit`. A call that fails or is interrupted leaves the model as it was.
        """
        if self.kernel == "precomputed":
            raise ValueError("a stream needs samples, not kernel='precomputed'")
        first = not hasattr(self, "_state")
        X = self._validate(X, reset=first, copy=True)  # the caller's may change
        if first:
            self._resolve_kernel(X)
            self._dtype, state = X.dtype, MergeState.empty(self._basis(X, self.center))
        else:
            state = self._state
            X = X.toarray() if sparse.issparse(X) else X
            with np.errstate(over="ignore"):  # kernel values will not be finite, which is reported
                X = X.astype(self._dtype, copy=False)
            if sparse.issparse(getattr(state.basis, "samples", None)):
                X = sparse.csr_matrix(X)
        if isinstance(state.basis, SampleBasis):  # what a pass that was stopped left is not used
            basis = state.basis.followed_by(X if self.budget is None else X[:0])
            state = replace(state, basis=basis)
        *_, (state, _) = self._blocks(state, X, self.center)
        self._set_code(self._publish(state, X, self.center))
        return self

    def _basis(self, X, center):
        """Return the basis for a pass that begins with the samples X."""
        kernel = self.kernel_
        if isinstance(kernel, Linear) and not sparse.issparse(X):
            return AxisBasis(kernel, X.shape[1], self._best_origin(X) if center else None)
        # few points, on which components are projected again and again, have double precision
        return SampleBasis(kernel, X if self.budget is None else X[:0].astype(np.float64))

    def _blocks(self, state, data, center) -> Iterator[tuple[MergeState, int]]:
        """Yield the state after every block of the data, and how many blocks there are."""
        r, n_kept, budget = self.n_components, self.n_kept, self.budget
        if n_kept is not None and n_kept < r:
            raise ValueError(f"n_kept={n_kept} must be at least n_components={r}")
        if budget is not None and budget < 2 * r:
            raise ValueError(f"budget={budget} must be at least 2 * n_components = {2 * r}")
        keep = n_kept or r + max(r, MORE_AXES if isinstance(state.basis, AxisBasis) else MORE_KEPT)
        size = self.block_size or BLOCK_FACTOR * keep
        if isinstance(state.basis, AxisBasis):  # whose products with larger blocks cost more
            size = min(size, max(state.basis.n_features, BLOCK_FACTOR * keep))
        budget = budget if isinstance(state.basis, SampleBasis) else None
        size = size if budget is None else min(size, max(1, budget // FREE_PART))
        if not isinstance(state.basis, RowBasis):  # one value too large would be noise to the rest
            with np.errstate(all="ignore"):
                check_finite(self.kernel_.diag(data), self.kernel_)
        blocks = list(gen_batches(data.shape[0], size))
        for rows in progress_bar(blocks, shown=self.verbose, desc="merge", unit="block"):
            X = data[rows]
            if budget is not None and state.basis.size + X.shape[0] > budget:
                state = compress(state, budget - max(1, budget // FREE_PART), r)
            state = merge_block(state, X, keep, center=center)
            yield state, len(blocks)

    def _publish(self, state: MergeState, data, center: bool) -> KernelCode:
        """Set the attributes to where a pass stands; return the code that belongs to them."""
        r, n, basis, dtype = self.n_components, state.n, state.basis, self._dtype
        k = min(r, len(state.values))
        values, rows, along = np.zeros(r), np.zeros((r + 1, state.S.shape[1])), np.zeros(r)
        values[:k], rows[:k], along[:k] = state.values[:k], state.S[:k], state.along[:k]
        rows[r] = state.S[-1]
        values = clean_eigenvalues(values, n, largest_entry=state.largest, dtype=basis.precision)
        rows[:r][values == 0] = along[values == 0] = 0  # no variance, no direction: code 0
        signs = np.where(rows[np.arange(r), np.abs(rows[:r]).argmax(axis=1)] < 0, -1, 1)
        rows[:r] *= signs[:, None]
        along *= signs
        if isinstance(basis, RowBasis):  # in the order of the operator
            rows, seen = np.zeros((r + 1, basis.operator.shape[0])), rows
            rows[:, basis.seen] = seen
        with np.errstate(over="ignore"):  # what overflows is reported by the check
            self.eigenvalues_ = check_finite(values.astype(dtype), basis.kernel)
        self.explained_variance_ = self.eigenvalues_ / max(n - 1 if center else n, 1)
        total = max(state.total, float(values.sum())) or 1.0
        self.explained_variance_ratio_ = (values / total).astype(dtype)
        self.components_ = rows[:r].astype(dtype)
        self.lost_, self.n_samples_seen_, self._state = state.lost / total, n, state
        code = [self.components_.T, along.astype(dtype)]
        code += [rows[r], float(state.along[-1])] if center else [None, 0.0]
        if isinstance(basis, RowBasis):
            self.X_fit_ = basis.operator
            return KernelCode(self.kernel_, basis.operator.points, *code)
        if isinstance(basis, AxisBasis):
            self.X_fit_ = sparse.identity(basis.n_features, dtype, format="csr")
            targets, shift = data[:n], basis.origin
        else:
            targets = self.X_fit_ = basis.points.astype(dtype, copy=False)
            shift = None
        return KernelCode(self.kernel_, self.X_fit_, *code, targets=targets, shift=shift)

    def _fit_preimage(self, preimage):
        if self._code.codes is None and isinstance(self._code.targets, np.ndarray):
            self._code = replace(self._code, codes=self._code.encode(self._code.targets))
        return super()._fit_preimage(preimage)
