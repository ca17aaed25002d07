"""The kernel matrix of a data set as a linear operator that is never stored.

An operator stands for the n x n matrix K, or for H K H with H = I - 1 1^T / n, the kernel matrix
of the data centred in feature space. All are SciPy's ``LinearOperator`` and keep one contract:

- ``operator @ V`` is the product with (n,) or (n, s) vectors, float64, in one sweep over the
  kernel: a block of vectors costs little more than one vector;
- ``dtype`` is that of the kernel values, ``center`` tells whether the operator is H K H;
- ``rows(indices)``, ``diagonal()``, ``trace()``, ``frobenius_norm()`` and ``dense()`` are those of
  the operator itself; ``means()`` are the row means of the plain K;
- ``points`` are the samples, with which new ones can be encoded, or None.

Kernel values are computed in the precision of the data and summed in float64. A product with s
vectors on t threads takes t (TILE_VALUES + n s) + 3 n s numbers of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from threading import Event

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.utils import check_random_state, gen_batches

from .eigen import lapack_work, leading_eigenpairs
from .kernels import (
    Kernel,
    Linear,
    Polynomial,
    center_in_place,
    centering_shift,
    check_finite,
    check_samples,
    gamma_of,
    ignore_overflow,
)
from .progress import progress_bar
from .threads import blas_threads, matmul, one_blas_thread, run_in_threads

__all__ = [
    "TILE_COLUMNS",
    "TILE_ROWS",
    "FeatureOperator",
    "KernelOperator",
    "MatrixOperator",
    "SampleOperator",
    "check_kernel",
    "count_features",
    "kernel_tiles",
]

# A tile stays in the cache from the multiplication that computes it to the one that uses it.
TILE_ROWS, TILE_COLUMNS = 512, 2048
TILE_VALUES = TILE_ROWS * TILE_COLUMNS
Tile = tuple[slice, slice, np.ndarray]
# Eigenvalues of a sample are taken to be at least this fraction of the largest one.
MIN_EIGENVALUE_RATIO = 1e-6
# Asymmetry up to this many units of precision is rounding.
MAX_ASYMMETRY = 1e3


class CenteredOperator(LinearOperator):
    """Base class for n samples: symmetry, centring, and what follows from the plain K.

    A subclass defines ``plain_product(V)``, which is K @ V, (n, s), float64, ``plain_diagonal()``,
    (n,), ``plain_rows(indices)``, (len(indices), n), and ``frobenius_norm()``.
    """

    points = None

    def __init__(self, n: int, dtype: np.dtype, center: bool) -> None:
        super().__init__(dtype, (n, n))
        self.center = center
        self._means: np.ndarray | None = None

    def _adjoint(self):
        return self

    _transpose = _adjoint

    def _matmat(self, V):
        if not self.center:
            return self.plain_product(V)
        # H K H V needs no row means of K, but they cost only one more column
        V = V - V.mean(axis=0, dtype=np.float64)
        if self._means is None:
            V = np.column_stack([V, np.full(len(V), 1 / len(V))])
        result = self.plain_product(V)
        if self._means is None:
            self._means, result = result[:, -1], result[:, :-1]
        return result - result.mean(axis=0)

    def means(self) -> np.ndarray:
        """Return the row means of the plain K, shape (n,). The first call may take a sweep."""
        if self._means is None:
            self._means = self.plain_product(np.full((self.shape[0], 1), 1 / self.shape[0]))[:, 0]
        return self._means

    def shift(self) -> np.ndarray:
        """Return s, shape (n,): the entries of the operator are K_ij - s_i - s_j."""
        n, dtype = self.shape[0], self.dtype
        return centering_shift(self.means(), dtype) if self.center else np.zeros(n, dtype)

    def rows(self, indices: np.ndarray) -> np.ndarray:
        """Return rows of the operator by their indices, shape (len(indices), n)."""
        values = self.plain_rows(indices)
        if self.center:
            shift = centering_shift(self.means(), np.float64)
            for row, own in zip(values, shift[indices], strict=True):
                row -= (shift + own).astype(self.dtype)
        return values

    def diagonal(self) -> np.ndarray:
        """Return the diagonal, shape (n,)."""
        shift = 2 * centering_shift(self.means(), np.float64) if self.center else 0.0
        return self.plain_diagonal() - shift

    def trace(self) -> float:
        """Return the trace; with centring, the total variance in feature space times n."""
        return float(self.diagonal().sum(dtype=np.float64))

    def dense(self) -> np.ndarray:
        """Return the whole matrix, shape (n, n)."""
        return self.rows(np.arange(self.shape[0]))


class SampleOperator(CenteredOperator):
    """Base class of operators that hold samples, some of which give a start for solvers.

    A subclass also defines ``take(indices)``, which returns samples, (len(indices), d),
    ``extend(landmarks, U)``, which is k(X, landmarks) @ U, (n, s), float64, and
    ``sum_over_samples(function, add)``: ``add([function(part), ...])`` over parts of the samples.
    """

    kernel: Kernel

    def nystrom_vectors(
        self, width: int, *, n_landmarks: int = 2000, random_state=None
    ) -> np.ndarray:
        """Return approximate leading eigenvectors, shape (n, width), to start an iteration with.

        The eigenvectors U of the kernel matrix of `n_landmarks` samples Z are extended to all by
        k(x, Z) U / nu, a small part of a sweep. They are not orthonormal.
        """
        chosen, values, U = self.sampled_eigenpairs(width, n_landmarks, random_state)
        # bound the division by tiny eigenvalues
        U = (U / np.maximum(values, MIN_EIGENVALUE_RATIO * values[0] or 1.0)).astype(self.dtype)
        vectors = self.extend(self.take(chosen), U)
        return vectors - vectors.mean(axis=0) if self.center else vectors

    def sampled_eigenpairs(self, width, n_landmarks, random_state):
        """Return indices of some samples, and the leading eigenpairs of their kernel matrix."""
        rng = check_random_state(random_state)
        chosen = np.sort(rng.permutation(self.shape[0])[: max(n_landmarks, width)])
        held = MatrixOperator(self.kernel.matrix(self.take(chosen)), center=self.center)
        values, U, _ = leading_eigenpairs(held.K, width, random_state=rng)
        return chosen, values, U


class KernelOperator(SampleOperator):
    """The matrix K_ij = k(x_i, x_j), or H K H, computed tile by tile whenever it is needed.

    K is symmetric: a tile above the diagonal is used twice, and a product takes half of the values.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n, d)
    kernel : Kernel
        An object of :mod:`akpca.kernels`.
    center : bool, default=True
        Centre in feature space.
    verbose : bool, default=False
        Show a progress bar for every sweep.

    Examples
    --------
    >>> from akpca import KernelOperator, load_dataset
    >>> from akpca.kernels import RBF
    >>> X = load_dataset("circles").X
    >>> (KernelOperator(X, RBF(gamma=0.1)) @ X).shape
    (400, 2)
    """

    def __init__(self, X, kernel: Kernel, *, center: bool = True, verbose: bool = False) -> None:
        self.X = self.points = check_samples(X, "X")
        self.kernel, self.verbose = check_kernel(kernel), verbose
        self._terms = self.kernel.row_terms(self.X)
        super().__init__(self.X.shape[0], self.X.dtype, center)

    def _sweep(self, work: Callable[[Iterator[Tile]], np.ndarray]) -> np.ndarray:
        """Return the sum of ``work(tiles)`` over the threads' shares of the upper triangle.

        The shares are fixed, so that the sum is the same to the bit in every run.
        """
        strips = list(gen_batches(self.shape[0], TILE_ROWS))
        n_threads = min(blas_threads(), len(strips))
        results, stop = [None] * n_threads, Event()
        bar = progress_bar(shown=self.verbose, total=len(strips), desc="kernel sweep", unit="strip")

        def run(thread):
            try:
                results[thread] = work(self._tiles(strips[thread::n_threads], bar, stop))
            except BaseException:
                stop.set()
                raise

        try:
            with bar:
                run_in_threads(run, list(range(n_threads)), flops=np.inf)
        finally:
            stop.set()  # the user's interrupt reaches this thread only
        return sum(results)

    def _tiles(self, strips: list[slice], bar, stop: Event) -> Iterator[Tile]:
        """Return the tiles of some strips of the upper triangle, as in `kernel_tiles`."""

        def blocks():
            for rows in strips:
                # the tile on the diagonal is separate, because it is used only once
                edges = [rows.start, *range(rows.stop, self.shape[0], TILE_COLUMNS), self.shape[0]]
                for columns in (slice(*edge) for edge in pairwise(edges) if edge[0] < edge[1]):
                    if stop.is_set():
                        return
                    yield rows, columns
                bar.update()

        diagonal = self.plain_diagonal()
        return kernel_tiles(self.kernel, self.X, self._terms, blocks(), diagonal=diagonal)

    def plain_diagonal(self) -> np.ndarray:  # noqa: D102
        return self.kernel.diag(self.X)

    def plain_product(self, V) -> np.ndarray:  # noqa: D102
        V = np.ascontiguousarray(V, dtype=self.dtype)

        @ignore_overflow  # reported below
        def product(tiles):
            result = np.zeros(V.shape)
            for rows, columns, tile in tiles:
                result[rows] += tile @ V[columns]
                if columns.start > rows.start:
                    result[columns] += tile.T @ V[rows]
            return result

        return check_finite(self._sweep(product), self.kernel)

    def plain_rows(self, indices) -> np.ndarray:  # noqa: D102
        out = np.empty((len(indices), self.shape[0]), self.dtype)
        X, terms = self.X[indices], self._terms[indices]
        for columns in gen_batches(self.shape[0], TILE_COLUMNS):
            self.kernel.fill(out[:, columns], X, self.X[columns], terms, self._terms[columns])
        return out

    def frobenius_norm(self) -> float:  # noqa: D102
        shift = self.shift()

        def squares(tiles):
            total = 0.0
            for rows, columns, tile in tiles:
                tile -= shift[columns]
                tile -= shift[rows, None]
                square = float(np.einsum("ij,ij->", tile, tile, dtype=np.float64))
                total += square if columns.start == rows.start else 2 * square
            return total

        return float(np.sqrt(self._sweep(squares)))

    def take(self, indices) -> np.ndarray:  # noqa: D102
        return self.X[indices]

    def sum_over_samples(self, function, add):  # noqa: D102
        return add([function(self.X)])

    def extend(self, landmarks, U):  # noqa: D102
        blocks = (self.X[rows] for rows in gen_batches(self.shape[0], TILE_ROWS))
        return np.concatenate([self.kernel(X, landmarks) @ U for X in blocks], dtype=np.float64)

    def dense(self) -> np.ndarray:  # noqa: D102
        held = MatrixOperator(self.kernel.matrix(self.X), center=self.center)
        self._means = held.means()
        return held.K


class MatrixOperator(CenteredOperator):
    """A symmetric matrix in memory.

    The plain K is centred in place, if it should be, unless `means`, (n,), are given: the row means
    that it had before it was.
    """

    def __init__(
        self, K: np.ndarray, *, center: bool = False, means: np.ndarray | None = None
    ) -> None:
        super().__init__(len(K), K.dtype, center)
        self.K, self._means = K, means
        if means is None:
            with np.errstate(over="ignore", invalid="ignore"):
                self._means = K.mean(axis=1, dtype=np.float64)
                if center:
                    center_in_place(K, self._means)
        self._diagonal = K.diagonal().copy()  # a solver may overwrite K

    @classmethod
    def precomputed(cls, K: np.ndarray, *, center: bool) -> MatrixOperator:
        """Return the operator of a precomputed matrix, which is not copied and may be changed.

        If it is not symmetric, the lower triangle is used, after centring, as in scikit-learn.
        """
        if K.shape[0] != K.shape[1]:
            size = f"{K.shape[0]}x{K.shape[1]}"
            raise ValueError(f"Kernel matrix must be a square matrix. Input is a {size} matrix.")
        tolerance, means = MAX_ASYMMETRY * np.finfo(K.dtype).eps * np.abs(K.diagonal()).max(), None
        blocks = gen_batches(len(K), TILE_ROWS)
        if any(np.abs(K[rows] - K[:, rows].T).max() > tolerance for rows in blocks):
            if center:
                means = K.mean(axis=0, dtype=np.float64)
                rest = K.mean(axis=1, dtype=np.float64) - means.mean()
                K -= np.add.outer(rest, means).astype(K.dtype)
            K[:] = np.tril(K) + np.tril(K, -1).T
        return cls(K, center=center, means=means)

    def _matmat(self, V):
        return matmul(self.K, np.asarray(V, self.dtype)).astype(np.float64, copy=False)

    plain_product = _matmat  # only used if K is not centred

    def plain_diagonal(self) -> np.ndarray:  # noqa: D102
        return self._diagonal + self.center * (2 * self._means - self._means.mean())

    def rows(self, indices) -> np.ndarray:  # noqa: D102
        return self.K[indices]

    def plain_rows(self, indices) -> np.ndarray:  # noqa: D102
        shift = centering_shift(self._means, np.float64) * self.center
        return (self.K[indices] + shift[indices, None] + shift).astype(self.dtype)

    def diagonal(self) -> np.ndarray:  # noqa: D102
        return self._diagonal

    def frobenius_norm(self) -> float:  # noqa: D102
        return float(np.sqrt(np.einsum("ij,ij->", self.K, self.K, dtype=np.float64)))

    def dense(self) -> np.ndarray:  # noqa: D102
        return self.K


class FeatureOperator(KernelOperator):
    """K = Phi Phi^T for kernels whose features can be written down: linear and degree 2.

    For k(x, y) = (gamma x.y + c)^2 the features are the D = r (r + 1) / 2 products of the
    coordinates of z = (sqrt(gamma) x, sqrt(c)), those of two different ones times sqrt(2), along
    the r principal axes along which the data vary. K V = Phi (Phi^T V) costs O(n d^2) per vector
    instead of O(n^2 d), and eigenvectors can be computed in the D dimensions of `covariance`
    instead of n. Phi is computed in blocks of 4 TILE_VALUES numbers, and never stored.

    Parameters are as in `KernelOperator`, but X is dense and coef0 >= 0.
    """

    def __init__(self, X, kernel: Kernel, *, center: bool = True, verbose: bool = False) -> None:
        super().__init__(X, kernel, center=center, verbose=verbose)
        if count_features(kernel, 1) is None or sparse.issparse(self.X):
            raise ValueError(
                "explicit features need dense data and Linear() or Polynomial(degree=2) with "
                f"coef0 >= 0, got {kernel!r}"
            )
        # no entry of K and of the features' covariance is larger
        with np.errstate(over="ignore", invalid="ignore"):
            check_finite(self.shape[0] * self.plain_diagonal(), kernel)
        self._linear = isinstance(kernel, Linear)
        Z = self.X if self._linear else self._coordinates()
        # transposed, so that a feature of all samples is the product of two contiguous rows
        self._Zt, r = np.ascontiguousarray(Z.T), Z.shape[1]
        self.n_features = r if self._linear else r * (r + 1) // 2

    def _coordinates(self) -> np.ndarray:
        Z = self.X * np.sqrt(gamma_of(self.kernel, self.X.shape[1])).astype(self.dtype)
        if self.kernel.coef0 > 0:
            Z = np.hstack([Z, np.full((len(Z), 1), np.sqrt(self.kernel.coef0), self.dtype)])
        with one_blas_thread(flops=lapack_work(Z.shape[1], Z.shape[1])):
            values, axes = np.linalg.eigh((Z.T @ Z).astype(np.float64))
        # axes below the precision of an inner product do not change it
        floor = max(np.finfo(self.dtype).eps, 16 * np.finfo(np.float64).eps)
        return Z @ axes[:, values > floor * values[-1]].astype(self.dtype)

    def features(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return Phi^T for some of the samples, shape (n_features, len(rows))."""
        Zt = self._Zt[:, rows]
        if self._linear:
            return Zt
        out, start = np.empty((self.n_features, Zt.shape[1]), self.dtype), 0
        for i, row in enumerate(Zt):
            stop = start + len(Zt) - i
            np.multiply(Zt[i:], np.sqrt(self.dtype.type(2)) * row, out=out[start:stop])
            np.multiply(row, row, out=out[start])
            start = stop
        return out

    def mean_features(self) -> np.ndarray:
        """Return the mean of Phi over the samples, shape (n_features,), float64."""
        Z = self._Zt.astype(np.float64)
        if self._linear:
            return Z.mean(axis=1)
        first, other = np.triu_indices(len(Z))
        return np.where(first == other, 1, np.sqrt(2)) * (Z @ Z.T / self.shape[0])[first, other]

    def means(self) -> np.ndarray:  # noqa: D102
        if self._means is None:
            Z = self._Zt.astype(np.float64)
            M = Z.mean(axis=1) if self._linear else Z @ Z.T / self.shape[0]
            self._means = M @ Z if self._linear else np.sum((M @ Z) * Z, axis=0)
        return self._means

    def batches(self, *, center: bool = False, indices=None) -> Iterator:
        """Yield slices of samples, all or some, and their features, minus the mean if `center`."""
        n = self.shape[0] if indices is None else len(indices)
        mean = self.mean_features()[:, None] if center else None
        batches = list(gen_batches(n, max(64, 4 * TILE_VALUES // self.n_features)))
        for rows in progress_bar(batches, shown=self.verbose, desc="feature sweep"):
            features = self.features(rows if indices is None else indices[rows])
            if center:  # before any product, which would round what is left of the features
                features = (features - mean).astype(self.dtype, copy=False)
            yield rows, features

    def from_features(self, W: np.ndarray, *, center: bool | None = None) -> np.ndarray:
        """Return Phi W, or with centring, by default the operator's, (Phi - mean) W, float64."""
        batches = self.batches(center=self.center if center is None else center)
        W = np.asarray(W, self.dtype)
        return np.concatenate([features.T @ W for _, features in batches], dtype=np.float64)

    def to_features(self, V: np.ndarray, indices=None) -> np.ndarray:
        """Return Phi^T V, shape (D, s), float64, with the Phi of all samples or of some."""
        V, W = np.ascontiguousarray(V, dtype=self.dtype), np.zeros((self.n_features, V.shape[1]))
        for rows, features in self.batches(indices=indices):
            W += features @ V[rows]
        return W

    def plain_product(self, V) -> np.ndarray:  # noqa: D102
        return self.from_features(self.to_features(V), center=False)

    @property
    def covariance(self) -> FeatureCovariance:
        """The D x D matrix Phi^T Phi (of Phi - mean if centred), with K's non-zero eigenvalues."""
        return FeatureCovariance(self)


class FeatureCovariance:
    """C = Phi^T Phi, or Phi^T Phi - n mean mean^T, as an operator on the D features.

    A product computes Phi once, one with K twice. An eigenvector w gives K's Phi w / sqrt(nu).
    """

    def __init__(self, operator: FeatureOperator) -> None:
        self.operator, self.dtype = operator, operator.dtype
        self.shape = (operator.n_features, operator.n_features)
        self._mean = operator.mean_features() if operator.center else None

    def __matmul__(self, W):
        op, result, narrow = self.operator, np.zeros(W.shape), np.asarray(W, self.dtype)
        for _, features in op.batches():
            result += features @ (features.T @ narrow)
        if op.center:
            result -= np.outer(op.shape[0] * self._mean, self._mean @ W)
        return result

    def dense(self) -> np.ndarray:
        """Return the whole matrix, shape (D, D), float64."""
        C = np.zeros(self.shape)
        for _, features in self.operator.batches(center=self.operator.center):
            C += features @ features.T
        return C

    def nystrom_vectors(self, width: int, **options) -> np.ndarray:
        """Return approximate leading eigenvectors, shape (D, width); see `SampleOperator`."""
        chosen, _, U = self.operator.sampled_eigenpairs(width, **options)
        return self.operator.to_features(U, chosen)


def count_features(kernel: Kernel, d: int) -> int | None:
    """Return the largest number of features of data with d columns, None if it is infinite."""
    if isinstance(kernel, Linear):
        return d
    if isinstance(kernel, Polynomial) and kernel.degree == 2 and kernel.coef0 >= 0:
        r = d + (kernel.coef0 > 0)
        return r * (r + 1) // 2
    return None


def kernel_tiles(kernel: Kernel, X, terms, blocks, Y=None, y_terms=None, diagonal=None):
    """Yield (rows, columns, values) of k(X, Y) for pairs of slices; values are overwritten.

    `terms` and `y_terms` are the `Kernel.row_terms`. Y=None means X, whose k(x, x) is `diagonal`.
    """
    if Y is None:
        Y, y_terms = X, terms
    buffer = np.empty(TILE_VALUES, np.result_type(X.dtype, Y.dtype))
    for rows, columns in blocks:
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        tile = buffer[: shape[0] * shape[1]].reshape(shape)
        kernel.fill(tile, X[rows], Y[columns], terms[rows], y_terms[columns])
        if diagonal is not None:
            # the diagonal without the rounding of inner products, as in a stored matrix
            i = np.arange(max(rows.start, columns.start), min(rows.stop, columns.stop))
            tile[i - rows.start, i - columns.start] = diagonal[i]
        yield rows, columns, tile


def check_kernel(kernel) -> Kernel:
    """Return a kernel object; raise for anything else."""
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be a Kernel of akpca.kernels, got {kernel!r}")
    kernel.check_params()
    return kernel
