"""The kernel matrix of a data set as a linear operator that is never stored.

An operator stands for the n x n matrix K, or for H K H with H = I - 1 1^T / n, the kernel matrix
of the data centred in feature space. All operators share one contract:

- ``operator @ V`` is the product with (n,) or (n, s) vectors, float64, in one sweep over the
  kernel: many vectors at once cost little more than one;
- ``shape``, ``dtype`` (of the kernel values), ``means()`` (row means of the plain K), ``trace()``
  and ``frobenius_norm()`` of the operator itself;
- memory is bounded by `TILE` kernel values besides the vectors.

Kernel values are computed in the precision of the data and summed in float64.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from threading import Event

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state, gen_batches
from threadpoolctl import threadpool_info, threadpool_limits
from tqdm import tqdm

from .eigen import leading_eigenpairs
from .kernels import Kernel, Linear, Polynomial, _check

# A tile of the kernel matrix: small enough to stay in cache between the matrix multiplication
# that makes it, the element-wise function and the multiplication that uses it.
TILE_ROWS, TILE_COLUMNS = 512, 2048
TILE = TILE_ROWS * TILE_COLUMNS
Tile = tuple[slice, slice, np.ndarray]


class CenteredOperator(ABC):
    """Base class: centring, and what follows from a product with K.

    Parameters
    ----------
    n : int
        Number of samples.
    dtype : dtype
        Of the kernel values.
    center : bool
        Stand for H K H instead of K.
    """

    def __init__(self, n: int, dtype: np.dtype, center: bool):
        self.shape = (n, n)
        self.dtype = np.dtype(dtype)
        self.center = center
        self._means: np.ndarray | None = None

    @abstractmethod
    def plain_product(self, V: np.ndarray) -> np.ndarray:
        """Return K @ V, shape (n, s), float64, with the plain K."""

    @abstractmethod
    def plain_diagonal(self) -> np.ndarray:
        """Return the diagonal of the plain K, shape (n,)."""

    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        """Return the product with V, of shape (n,) or (n, s), in float64."""
        V = np.asarray(V)
        if V.ndim not in (1, 2) or V.shape[0] != self.shape[0]:
            raise ValueError(f"V must have {self.shape[0]} rows, got shape {V.shape}")
        columns = V.reshape(len(V), -1)
        if not self.center:
            return self.plain_product(columns).reshape(V.shape)
        # H K H V needs the means of two thin matrices, not those of K; but they come nearly free
        columns = columns - columns.mean(axis=0)
        if self._means is None:
            columns = np.column_stack([columns, np.full(len(V), 1 / len(V))])
        result = self.plain_product(columns)
        if self._means is None:
            self._means, result = result[:, -1], result[:, :-1]
        return (result - result.mean(axis=0)).reshape(V.shape)

    def means(self) -> np.ndarray:
        """Return the row means of the plain K, shape (n,); at most one sweep, the first time."""
        if self._means is None:
            self._means = self.plain_product(np.full((self.shape[0], 1), 1 / self.shape[0]))[:, 0]
        return self._means

    def trace(self) -> float:
        """Return the trace; with centring, the total variance in feature space times n."""
        total = float(self.plain_diagonal().sum(dtype=np.float64))
        return total - float(self.means().sum()) if self.center else total

    @abstractmethod
    def _take(self, indices: np.ndarray) -> np.ndarray:
        """Return samples by their sorted indices."""

    @abstractmethod
    def _cross_product(self, landmarks: np.ndarray, U: np.ndarray) -> np.ndarray:
        """Return k(X, landmarks) @ U, shape (n, s), float64."""

    def nystrom_vectors(
        self, width: int, *, n_landmarks: int = 2000, random_state=None
    ) -> np.ndarray:
        """Return approximate leading eigenvectors from a sample, to start an iteration with.

        Eigenvectors U of the kernel matrix of some of the points, extended to all of them by
        k(x, Z) U / nu: as much work as a small part of a sweep.

        Parameters
        ----------
        width : int
            Number of vectors.
        n_landmarks : int, default=2000
            Size of the sample, at most n.
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        vectors : ndarray of shape (n, width)
            Neither orthogonal nor of unit length.
        """
        chosen, values, U = self._sample(width, n_landmarks, random_state)
        # directions that the sample does not know must not drown the others
        U = (U / np.maximum(values, 1e-6 * values[0])).astype(self.dtype)
        vectors = self._cross_product(self._take(chosen), U)
        return vectors - vectors.mean(axis=0) if self.center else vectors

    def _sample(self, width, n_landmarks, random_state):
        """Return indices of some samples and the leading eigenpairs of their kernel matrix."""
        rng = check_random_state(random_state)
        chosen = np.sort(rng.permutation(self.shape[0])[: max(n_landmarks, width)])
        K = KernelOperator(self._take(chosen), self.kernel, center=self.center).dense()
        values, U, _ = leading_eigenpairs(K, width, random_state=rng)
        return chosen, values, U


class KernelOperator(CenteredOperator):
    """The matrix K_ij = k(x_i, x_j), or H K H, computed tile by tile whenever it is needed.

    K is symmetric: a tile above the diagonal serves twice, so that a product costs half of the
    kernel values.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n, d)
    kernel : Kernel
        An object of :mod:`akpca.kernels`.
    center : bool, default=True
        Centre in feature space.
    progress : bool, default=False
        Show a progress bar for every sweep.

    Examples
    --------
    >>> import numpy as np
    >>> from akpca.kernels import RBF
    >>> from akpca.operators import KernelOperator
    >>> X = np.random.default_rng(0).standard_normal((1000, 5))
    >>> operator = KernelOperator(X, RBF(gamma=0.1))
    >>> (operator @ np.ones((1000, 3))).shape
    (1000, 3)
    """

    def __init__(self, X, kernel: Kernel, *, center: bool = True, progress: bool = False):
        if not isinstance(kernel, Kernel):
            raise TypeError(f"kernel must be a Kernel of akpca.kernels, got {kernel!r}")
        self.X = _check(X, "X")
        self.kernel = kernel
        self.progress = progress
        self._terms = kernel.row_terms(self.X)
        super().__init__(self.X.shape[0], self.X.dtype, center)

    def _sweep(self, work: Callable[[Iterator[Tile]], np.ndarray]) -> np.ndarray:
        """Return the sum of `work` over shares of the tiles on and above the diagonal.

        Threads get fixed shares of the strips and one BLAS thread each, so that element-wise
        functions run in parallel as well and the sum is the same to the bit in every run.
        """
        strips = list(gen_batches(self.shape[0], TILE_ROWS))
        n_threads = min(_blas_threads(), len(strips))
        description = {"desc": "kernel sweep", "unit": "strip", "disable": not self.progress}
        with (
            tqdm(total=len(strips), **description) as bar,
            threadpool_limits(1, user_api="blas"),
            ThreadPoolExecutor(n_threads) as pool,
        ):
            stop = Event()

            def guarded(share):
                try:
                    return work(share)
                except BaseException:
                    stop.set()
                    raise

            shares = [self._tiles(strips[t::n_threads], bar, stop) for t in range(n_threads)]
            try:
                return sum(list(pool.map(guarded, shares)))
            except BaseException:
                stop.set()  # the user's interrupt reaches this thread only
                raise

    def _tiles(self, strips: list[slice], bar: tqdm, stop: Event) -> Iterator[Tile]:
        """Yield (rows, columns, values) of the tiles of some strips; values are overwritten."""
        n = self.shape[0]
        buffer = np.empty(TILE, self.dtype)
        for rows in strips:
            # the square on the diagonal comes alone, as it is the only one used once
            edges = [rows.start, *range(rows.stop, n, TILE_COLUMNS), n]
            for first, last in pairwise(edges):
                if stop.is_set():
                    return
                if first < last:
                    columns = slice(first, last)
                    yield rows, columns, self._tile(rows, columns, buffer)
            bar.update()

    def _tile(self, rows: slice, columns: slice, buffer: np.ndarray) -> np.ndarray:
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        tile = buffer[: shape[0] * shape[1]].reshape(shape)
        part = (lambda s: None) if self._terms is None else (lambda s: self._terms[s])
        self.kernel.fill(tile, self.X[rows], self.X[columns], part(rows), part(columns))
        if rows.start == columns.start:
            # the diagonal without the rounding of inner products, as in a stored matrix
            np.fill_diagonal(tile, self._diagonal[rows])
        return tile

    @cached_property
    def _diagonal(self) -> np.ndarray:
        return self.kernel.diag(self.X)

    def plain_diagonal(self):  # noqa: D102
        return self._diagonal

    def plain_product(self, V):  # noqa: D102
        V = np.ascontiguousarray(V, dtype=self.dtype)

        def product(tiles):
            result = np.zeros(V.shape)
            for rows, columns, tile in tiles:
                result[rows] += tile @ V[columns]
                if columns.start > rows.start:
                    result[columns] += tile.T @ V[rows]
            return result

        result = self._sweep(product)
        if not np.isfinite(result).all():
            raise ValueError(f"{self.kernel!r} gives NaN or infinity on these data")
        return result

    def rows(self, indices) -> np.ndarray:
        """Return rows of the operator by their indices, shape (len(indices), n)."""
        indices = np.asarray(indices)
        out = np.empty((len(indices), self.shape[0]), self.dtype)
        X, terms = self.X[indices], None if self._terms is None else self._terms[indices]
        if self.center:
            means = self.means()
            shift, own = (means - means.mean()).astype(self.dtype), means[indices, None]
            own = own.astype(self.dtype)
        for columns in gen_batches(self.shape[0], TILE_COLUMNS):
            part = out[:, columns]
            # made where it fits into the cache, and centred before it leaves it
            tile = np.empty(part.shape, self.dtype)
            y_terms = None if self._terms is None else self._terms[columns]
            self.kernel.fill(tile, X, self.X[columns], terms, y_terms)
            if self.center:
                tile -= shift[columns]
                np.subtract(tile, own, out=part)
            else:
                part[:] = tile
        return out

    def columns(self, indices) -> np.ndarray:
        """Return columns of the operator by their indices, shape (n, len(indices))."""
        return self.rows(indices).T

    def frobenius_norm(self) -> float:
        """Return the Frobenius norm, from (centred) tiles so that nothing cancels; one sweep."""
        shift = np.zeros(self.shape[0], self.dtype)
        if self.center:
            shift = (self.means() - self.means().mean() / 2).astype(self.dtype)

        def squares(tiles):
            total = 0.0
            for rows, columns, tile in tiles:
                tile -= shift[columns]
                tile -= shift[rows, None]
                square = float(np.einsum("ij,ij->", tile, tile, dtype=np.float64))
                total += square if columns.start == rows.start else 2 * square
            return total

        return float(np.sqrt(self._sweep(squares)))

    def _take(self, indices):
        return self.X[indices]

    def _cross_product(self, landmarks, U):
        result = np.empty((self.shape[0], U.shape[1]))
        for rows in gen_batches(self.shape[0], TILE_ROWS):
            result[rows] = self.kernel(self.X[rows], landmarks) @ U
        return result

    def dense(self) -> np.ndarray:
        """Return the whole matrix, shape (n, n)."""
        K = self.kernel(self.X)
        if self._means is None:
            self._means = K.mean(axis=1, dtype=np.float64)  # along rows, where numpy sums pairwise
        if self.center:
            shift = (self.means() - self.means().mean() / 2).astype(self.dtype)
            K -= shift
            K -= shift[:, None]
        return K


class NormalizedOperator(KernelOperator):
    """P = D^-1/2 K D^-1/2 with the row sums D of K: the matrix of spectral clustering.

    Not centred. Its largest eigenvalue is 1 if the kernel is positive.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n, d)
    kernel : Kernel
        With values >= 0, such as RBF or Laplacian.
    progress : bool, default=False
        Show a progress bar for every sweep.
    """

    def __init__(self, X, kernel: Kernel, *, progress: bool = False):
        super().__init__(X, kernel, center=False, progress=progress)

    @cached_property
    def scale(self) -> np.ndarray:
        """D^-1/2, shape (n,); one sweep, the first time."""
        degrees = self.shape[0] * super().means()
        if degrees.min() <= 0:
            raise ValueError(
                f"{self.kernel!r} has rows whose sum is not positive: it can't be normalised"
            )
        return 1 / np.sqrt(degrees)

    def __matmul__(self, V):
        V = np.asarray(V)
        scale = self.scale.reshape(-1, *[1] * (V.ndim - 1))
        return scale * super().__matmul__(scale * V)

    def rows(self, indices):  # noqa: D102
        values = super().rows(indices)
        values *= self.scale.astype(self.dtype)
        values *= self.scale[np.asarray(indices), None].astype(self.dtype)
        return values

    def trace(self):  # noqa: D102
        return float(self.plain_diagonal() @ self.scale**2)

    def frobenius_norm(self):  # noqa: D102
        def squares(tiles):
            weights = self.scale**2
            return sum(
                (1 if rows.start == columns.start else 2)
                * float(weights[rows] @ (tile.astype(np.float64) ** 2 @ weights[columns]))
                for rows, columns, tile in tiles
            )

        return float(np.sqrt(self._sweep(squares)))

    def dense(self):  # noqa: D102
        return self.rows(np.arange(self.shape[0]))


class MatrixOperator:
    """A symmetric matrix in memory, with the contract of the operators.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Used as it is: centre it before.
    """

    def __init__(self, K: np.ndarray):
        self.K, self.shape, self.dtype = K, K.shape, K.dtype

    def __matmul__(self, V):
        return self.K @ V

    def rows(self, indices) -> np.ndarray:
        """Return rows by their indices, shape (len(indices), n)."""
        return self.K[indices]

    def columns(self, indices) -> np.ndarray:
        """Return columns by their indices, shape (n, len(indices))."""
        return self.K[:, indices]

    def trace(self) -> float:  # noqa: D102
        return float(np.trace(self.K, dtype=np.float64))

    def frobenius_norm(self) -> float:  # noqa: D102
        return float(np.sqrt(np.einsum("ij,ij->", self.K, self.K, dtype=np.float64)))

    def dense(self) -> np.ndarray:
        """Return the matrix itself."""
        return self.K


class FeatureOperator(KernelOperator):
    """K = Phi Phi^T for kernels whose features can be written down: linear and degree 2.

    For k(x, y) = (gamma x.y + c)^2 the features are the D = r (r + 1) / 2 products of the
    coordinates of z = (sqrt(gamma) x, sqrt(c)), those of different ones times sqrt(2). Inner
    products don't change when the data are turned, so z is taken along the r principal axes that
    the data really use. K V = Phi (Phi^T V) costs O(n d^2) a vector instead of O(n^2 d) for the
    kernel, and the eigenvectors can be sought in the D dimensions of `covariance` instead of n.
    Phi is made block by block and never held.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Dense.
    kernel : Linear or Polynomial of degree 2 with coef0 >= 0
    center, progress : bool
        As in `KernelOperator`.
    """

    def __init__(self, X, kernel: Kernel, *, center: bool = True, progress: bool = False):
        super().__init__(X, kernel, center=center, progress=progress)
        if not has_features(kernel) or sparse.issparse(self.X):
            raise ValueError(
                "explicit features need dense data and Linear() or Polynomial(degree=2) with "
                f"coef0 >= 0, got {kernel!r}"
            )
        # transposed: a feature of many samples is then a product of two contiguous rows
        self._Zt = np.ascontiguousarray(self._coordinates().T)
        r = len(self._Zt)
        self.n_features = r if isinstance(kernel, Linear) else r * (r + 1) // 2

    @staticmethod
    def count_features(kernel: Kernel, d: int) -> int:
        """Return how many features data of d columns have at most."""
        if isinstance(kernel, Linear):
            return d
        r = d + (kernel.coef0 > 0)
        return r * (r + 1) // 2

    def _coordinates(self) -> np.ndarray:
        Z = self.X
        if isinstance(self.kernel, Polynomial):
            gamma = 1 / Z.shape[1] if self.kernel.gamma is None else self.kernel.gamma
            Z = Z * np.sqrt(gamma).astype(self.dtype)
            if self.kernel.coef0 > 0:
                ones = np.full((len(Z), 1), np.sqrt(self.kernel.coef0), self.dtype)
                Z = np.hstack([Z, ones])
        values, axes = np.linalg.eigh((Z.T @ Z).astype(np.float64))
        # what is below the precision of an inner product adds nothing to it
        floor = max(np.finfo(self.dtype).eps, 16 * np.finfo(np.float64).eps)
        used = values > floor * values[-1]
        return Z @ axes[:, used].astype(self.dtype)

    def features(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return Phi^T for some of the samples, shape (n_features, len(rows))."""
        Zt = self._Zt[:, rows]
        if isinstance(self.kernel, Linear):
            return Zt
        r = len(Zt)
        out = np.empty((self.n_features, Zt.shape[1]), self.dtype)
        start = 0
        for i, row in enumerate(Zt):
            np.multiply(Zt[i:], np.sqrt(self.dtype.type(2)) * row, out=out[start : start + r - i])
            np.multiply(row, row, out=out[start])
            start += r - i
        return out

    def mean_features(self) -> np.ndarray:
        """Return the mean of Phi over the samples, shape (n_features,), float64."""
        if isinstance(self.kernel, Linear):
            return self._Zt.mean(axis=1, dtype=np.float64)
        second = self._Zt.astype(np.float64) @ self._Zt.T.astype(np.float64) / self.shape[0]
        first, other = np.triu_indices(len(self._Zt))
        return np.where(first == other, 1, np.sqrt(2)) * second[first, other]

    def means(self):  # noqa: D102
        if self._means is None:
            Z = self._Zt.T.astype(np.float64)
            linear = isinstance(self.kernel, Linear)
            product = Z.mean(axis=0)[:, None] if linear else Z.T @ Z / len(Z)
            self._means = (Z @ product)[:, 0] if linear else np.sum((Z @ product) * Z, axis=1)
        return self._means

    @property
    def batch_rows(self) -> int:
        """Number of samples whose features are made at a time."""
        return max(64, 4 * TILE // self.n_features)

    def _batches(self, description: str) -> Iterator[slice]:
        batches = list(gen_batches(self.shape[0], self.batch_rows))
        return tqdm(batches, desc=description, disable=not self.progress)

    def from_features(self, W: np.ndarray) -> np.ndarray:
        """Return Phi W, or with centring (Phi - mean) W, shape (n, s), float64."""
        result = np.empty((self.shape[0], W.shape[1]))
        narrow = np.asarray(W, self.dtype)
        for rows in self._batches("features to samples"):
            result[rows] = self.features(rows).T @ narrow
        return result - self.mean_features() @ W if self.center else result

    def plain_product(self, V):  # noqa: D102
        V = np.ascontiguousarray(V, dtype=self.dtype)
        weights = np.zeros((self.n_features, V.shape[1]))
        for rows in self._batches("samples to features"):
            weights += self.features(rows) @ V[rows]
        weights = weights.astype(self.dtype)
        result = np.empty(V.shape)
        for rows in self._batches("features to samples"):
            result[rows] = self.features(rows).T @ weights
        return result

    @property
    def covariance(self) -> FeatureCovariance:
        """The D x D matrix Phi^T Phi (centred: of Phi - mean), with the same eigenvalues."""
        return FeatureCovariance(self)


class FeatureCovariance:
    """C = Phi^T Phi, or Phi^T Phi - n mean mean^T, as an operator on the D features.

    A product needs Phi once, where a product with K needs it twice. An eigenvector w of C gives
    the eigenvector Phi w / sqrt(nu) of K.
    """

    def __init__(self, operator: FeatureOperator):
        self.operator = operator
        self.shape = (operator.n_features, operator.n_features)
        self.dtype = operator.dtype
        self._mean = operator.mean_features() if operator.center else None

    def __matmul__(self, W: np.ndarray) -> np.ndarray:
        """Return C @ W for W of shape (D, s), in float64."""
        op = self.operator
        result = np.zeros(W.shape)
        narrow = np.asarray(W, op.dtype)
        for rows in op._batches("feature sweep"):
            features = op.features(rows)
            result += features @ (features.T @ narrow)
        if self._mean is not None:
            result -= np.outer(op.shape[0] * self._mean, self._mean @ W)
        return result

    def dense(self) -> np.ndarray:
        """Return the whole matrix, shape (D, D), float64."""
        op = self.operator
        C = np.zeros(self.shape)
        for rows in op._batches("feature covariance"):
            features = op.features(rows)
            C += features @ features.T
        if self._mean is not None:
            C -= op.shape[0] * np.outer(self._mean, self._mean)
        return C

    def nystrom_vectors(
        self, width: int, *, n_landmarks: int = 2000, random_state=None
    ) -> np.ndarray:
        """Return approximate leading eigenvectors from a sample; see `CenteredOperator`."""
        op = self.operator
        chosen, _, U = op._sample(width, n_landmarks, random_state)
        U = U.astype(op.dtype)
        result = np.zeros((op.n_features, width))
        for rows in gen_batches(len(chosen), op.batch_rows):
            result += op.features(chosen[rows]) @ U[rows]
        return result


def has_features(kernel: Kernel) -> bool:
    """Tell whether `FeatureOperator` can stand for this kernel."""
    if isinstance(kernel, Polynomial):
        return kernel.degree == 2 and kernel.coef0 >= 0
    return isinstance(kernel, Linear)


def _blas_threads() -> int:
    """Return the number of threads that matrix multiplication may use at the moment."""
    pools = (pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
    return max(pools, default=1)
