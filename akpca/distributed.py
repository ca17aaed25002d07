"""The kernel matrix of data that do not fit on one machine, as an operator on a dask cluster.

The rows of X lie in chunks X_1, ..., X_c. A product is the sum over the pairs of chunks

    (K V)_i = sum_j k(X_i, X_j) V_j,

and K is symmetric, so that one task for each pair i <= j serves (K V)_i and (K V)_j. It computes
its part of K on a worker, tile by tile, and returns two thin matrices, which are added up in a
fixed order, in a tree on the cluster. When a worker dies, dask repeats what was lost.

X is a dense dask array; `from_file` reads one from a ``.npy`` file. Its chunks are resized, so that
two of them and a tile fit into a worker. Those of a lazy X are computed inside each task that needs
them, so that X may be larger than the memory of the cluster; ``X.persist()`` keeps chunks that are
expensive to compute, and sends them to the tasks. So are arrays in memory and chunks that depend on
each other. dask is the extra ``akpca[distributed]``; workers need this package as well.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from functools import partial
from itertools import pairwise, product
from operator import getitem
from pathlib import Path

import numpy as np
from sklearn.utils import gen_batches

from .kernels import Kernel, check_finite, check_samples
from .operators import TILE_COLUMNS, TILE_ROWS, SampleOperator, check_kernel, kernel_tiles
from .parameters import check_number
from .progress import progress_bar
from .threads import one_blas_thread

__all__ = ["DaskKernelOperator", "from_file"]

# Chunks have about MIN_CHUNK_ROWS rows, or more, so that there are at most MAX_CHUNKS: a sweep has
# MAX_CHUNKS^2 / 2 tasks, about a millisecond of scheduling each. None exceeds MAX_CHUNK_BYTES.
MIN_CHUNK_ROWS, MAX_CHUNKS, MAX_CHUNK_BYTES = 2048, 64, 2**25
# Largest array in the recipe of a lazy chunk; larger ones are data, not to be sent with every task.
MAX_RECIPE_BYTES = 2**16
# Largest number of terms that one task adds.
FAN_IN = 8


class DaskKernelOperator(SampleOperator):
    """The matrix K_ij = k(x_i, x_j), or H K H, of the rows of a dask array.

    Equal to `KernelOperator` up to rounding; the client holds only the (n, s) vectors. Estimators
    that take operators, with kernel='precomputed', encode by it.

    Parameters
    ----------
    X : dask array of shape (n, d)
        See the module's documentation for when to persist it.
    kernel, center, verbose
        As in :class:`akpca.operators.KernelOperator`.
    client : distributed.Client, default=None
        None is the active client or, if there is none, dask's scheduler: threads of this process.

    Examples
    --------
    >>> from akpca import KernelPCA
    >>> from akpca.distributed import DaskKernelOperator, from_file
    >>> from akpca.kernels import RBF
    >>> from dask.distributed import Client
    >>> client = Client()                                           # doctest: +SKIP
    >>> operator = DaskKernelOperator(from_file("X.npy"), RBF())    # doctest: +SKIP
    >>> model = KernelPCA(10, kernel="precomputed").fit(operator)   # doctest: +SKIP
    """

    def __init__(
        self, X, kernel: Kernel, *, center: bool = True, client=None, verbose: bool = False
    ) -> None:
        self.kernel = check_kernel(kernel)
        self.X = _in_row_chunks(X)
        self.client, self.verbose = client, verbose
        edges = np.cumsum((0, *self.X.chunks[0])).tolist()
        self._rows = [slice(*edge) for edge in pairwise(edges)]
        self._chunks = _chunk_nodes(self.X)
        super().__init__(self.X.shape[0], self.X.dtype, center)

    @property
    def points(self):
        """The operator itself: its samples stay on the cluster, and `encode` encodes new ones."""
        return self

    def plain_product(self, V):  # noqa: D102
        vectors = self._nodes(np.ascontiguousarray(V, dtype=self.dtype))
        terms: list[list] = [[] for _ in self._rows]
        for i, chunk in enumerate(self._chunks):
            terms[i].append(_task(_product, self.kernel, chunk, None, vectors[i]))
            for j in range(i + 1, len(self._chunks)):
                pair = chunk, self._chunks[j], vectors[j], vectors[i]
                products = _task(_product, self.kernel, *pair)
                # the sum selects one of the two: tasks for this would be most of the graph
                terms[i].append((products, 0))
                terms[j].append((products, 1))
        return self._joined([_tree_sum(row) for row in terms], "kernel sweep")

    def plain_diagonal(self):  # noqa: D102
        tasks = [_task(_apply, self.kernel.diag, chunk) for chunk in self._chunks]
        return np.concatenate(self._compute(tasks, "diagonal"))

    def frobenius_norm(self):  # noqa: D102
        shifts, sums = self._nodes(self.shift()), []
        for i, chunk in enumerate(self._chunks):
            others = zip([None, *self._chunks[i + 1 :]], shifts[i:], strict=True)
            arguments = ((self.kernel, chunk, other, shifts[i], shift) for other, shift in others)
            sums.append(_tree_sum([_task(_squares, *each) for each in arguments]))
        return float(np.sqrt(sum(self._compute(sums, "kernel sweep"))))

    def plain_rows(self, indices):  # noqa: D102
        samples = _dask().delayed(self.take(indices))
        tasks = [_task(_apply, self.kernel, chunk, samples) for chunk in self._chunks]
        return np.concatenate(self._compute(tasks, "kernel rows")).T

    def take(self, indices):  # noqa: D102
        order = np.argsort(indices, kind="stable")
        ordered, tasks = np.asarray(indices)[order], []
        for chunk, rows in zip(self._chunks, self._rows, strict=True):
            first, last = np.searchsorted(ordered, (rows.start, rows.stop))
            if first < last:
                tasks.append(_task(_apply, getitem, chunk, ordered[first:last] - rows.start))
        samples = np.empty((len(order), self.X.shape[1]), self.dtype)
        samples[order] = np.concatenate(self._compute(tasks, "sampled rows"))
        return samples

    def extend(self, landmarks, U):  # noqa: D102
        arguments = [_dask().delayed(array) for array in (landmarks, U)]
        tasks = [_task(_product, self.kernel, chunk, *arguments) for chunk in self._chunks]
        return self._joined(tasks, "cross product")

    def encode(self, X, W: np.ndarray) -> np.ndarray:
        """Return k(X, samples) @ W, shape (n_new, s), float64, such as the codes of new points.

        X is a dask array, an array or a sparse matrix, shape (n_new, d), and W has shape (n, s).
        """
        if isinstance(X, _dask().array.Array):
            X = _in_row_chunks(X)
            chunks = _chunk_nodes(X)
        else:
            X = check_samples(X, "X")
            chunks = [_dask().delayed(X[rows]) for rows in gen_batches(X.shape[0], _chunk_rows(X))]
        d, fitted = X.shape[1], self.X.shape[1]
        if d != fitted:
            raise ValueError(f"X has {d} features, but the fitted samples have {fitted}")
        weights = self._nodes(np.ascontiguousarray(W, dtype=np.result_type(X.dtype, self.dtype)))
        others = list(zip(self._chunks, weights, strict=True))
        sums = [_tree_sum([_task(_product, self.kernel, x, *y) for y in others]) for x in chunks]
        return self._joined(sums, "kernel product")

    def sum_over_samples(self, function, add):
        """Return ``add([function(chunk), ...])``, added in a tree; both functions are pickled."""
        # sent once, not with every task
        function = _dask().delayed(function, traverse=False)
        terms = [_task(_apply, function, chunk) for chunk in self._chunks]
        return self._compute([_tree_sum(terms, add)], "sum over chunks")[0]

    def _nodes(self, array: np.ndarray) -> list:
        """Return the parts of an array as nodes: each is sent once, not with every task."""
        return [_dask().delayed(array[rows]) for rows in self._rows]

    def _joined(self, tasks: list, description: str) -> np.ndarray:
        return check_finite(np.concatenate(self._compute(tasks, description)), self.kernel)

    def _compute(self, tasks: list, description: str) -> list:
        """Return the results of nodes, from the cluster or else from this process."""
        dask, client = _dask(), self.client
        if client is None:
            with suppress(ImportError, ValueError):  # not installed, or none is active
                from distributed import default_client

                client = default_client()
        if client is None:
            from dask.diagnostics import ProgressBar

            # threads of dask times threads of BLAS would be too many
            with one_blas_thread(), ProgressBar() if self.verbose else nullcontext():
                return list(dask.compute(*tasks))
        from distributed import as_completed

        # vectors are in the graph on purpose: no warning that it is large
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            futures = client.compute(tasks)
        try:
            done = as_completed(futures)
            bar = progress_bar(done, shown=self.verbose, desc=description, total=len(tasks))
            any(future.status == "error" for future in bar)  # the first one ends it
            return client.gather(futures)
        except BaseException:  # an error, or the user's interrupt
            client.cancel(futures)
            raise


def from_file(path, *, chunk_rows: int = MIN_CHUNK_ROWS):
    """Return the matrix in a ``.npy`` file as a dask array, shape (n, d), in chunks of these rows.

    The file is one of :func:`numpy.save`, of numbers. All workers must see it under the same path.
    """
    dask, path = _dask(), Path(path).resolve()
    check_number("chunk_rows", chunk_rows, integer=True, low=1)
    array = _open(path)
    shape, dtype = array.shape, array.dtype
    if len(shape) != 2 or 0 in shape or dtype.kind not in "fiub":
        needed = "a two-dimensional, non-empty array of real numbers"
        raise ValueError(f"{path} must hold {needed}, got shape {shape} and dtype {dtype}")
    # a file that has been rewritten is another array
    token = dask.base.tokenize(path, path.stat().st_mtime_ns, path.stat().st_size, chunk_rows)
    return dask.array.map_blocks(
        partial(_read_rows, path, shape),
        chunks=dask.array.core.normalize_chunks((chunk_rows, -1), shape),
        meta=np.empty((0, 0), dtype),
        name=f"file-{token}",
    )


def _load(chunk) -> np.ndarray:
    """Return a chunk of data, which may have come as a recipe, or None."""
    if isinstance(chunk, bytes):  # made by `_recipes`
        graph, key = pickle.loads(chunk)
        chunk = _dask().get(graph, key)
    return None if chunk is None else check_samples(chunk, "X")


def _open(path: Path) -> np.ndarray:
    if not path.exists():
        raise FileNotFoundError(f"no file {path}: all workers must see it by this name")
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except ValueError as error:
        raise ValueError(f"{path} is not a .npy file of plain numbers: {error}") from error


def _read_rows(path: Path, shape: tuple, *, block_info) -> np.ndarray:
    """Return the rows of a chunk of a file, whose place dask gives as `block_info`."""
    array = _open(path)
    if array.shape != shape:
        raise ValueError(f"{path} has changed: it had shape {shape}, now {array.shape}")
    return np.array(array[slice(*block_info[None]["array-location"][0])])


def _tiles(kernel: Kernel, X, Y) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Return the tiles of k(X, Y) as in `kernel_tiles`; Y=None means X."""
    n, m = X.shape[0], (X if Y is None else Y).shape[0]
    blocks = product(gen_batches(n, TILE_ROWS), list(gen_batches(m, TILE_COLUMNS)))
    terms = kernel.row_terms(X)
    if Y is None:
        return kernel_tiles(kernel, X, terms, blocks, diagonal=kernel.diag(X))
    return kernel_tiles(kernel, X, terms, blocks, Y, kernel.row_terms(Y))


def _product(kernel: Kernel, chunk, other, W: np.ndarray, V: np.ndarray | None = None):
    """Return k(X, Y) @ W in float64, and with V also k(X, Y).T @ V; other=None means Y = X."""
    X, Y = _load(chunk), _load(other)
    left = np.zeros((X.shape[0], W.shape[1]))
    right = None if V is None else np.zeros((Y.shape[0], V.shape[1]))
    for rows, columns, tile in _tiles(kernel, X, Y):
        left[rows] += tile @ W[columns]
        if V is not None:
            right[columns] += tile.T @ V[rows]
    return left if V is None else (left, right)


def _squares(kernel: Kernel, chunk, other, x_shift: np.ndarray, y_shift: np.ndarray) -> float:
    """Return the share of a pair of chunks in the sum of squares of the shifted matrix."""
    total = 0.0
    for rows, columns, tile in _tiles(kernel, _load(chunk), _load(other)):
        tile -= y_shift[columns]
        tile -= x_shift[rows, None]
        total += float(np.einsum("ij,ij->", tile, tile, dtype=np.float64))
    return total if other is None else 2 * total


def _apply(function: Callable, chunk, *arguments):
    return function(_load(chunk), *arguments)


def _sum(terms: list):
    """Return the sum of terms; a term (results, side) stands for one of two results."""
    first, *rest = (term[0][term[1]] if isinstance(term, tuple) else term for term in terms)
    return sum(rest, start=first)


def _dask():
    try:
        import dask
        import dask.array
    except ImportError as error:
        needed = "dask is needed for data on a cluster"
        raise ImportError(f'{needed}: pip install "akpca[distributed]"') from error
    return dask


def _task(function: Callable, *arguments):
    """Return the node of a call; arguments that are nodes become their results."""
    return _dask().delayed(function)(*arguments)


def _chunk_rows(X) -> int:
    """Return the number of rows of a chunk of these data."""
    n, d = X.shape
    rows = max(MIN_CHUNK_ROWS, -(-n // MAX_CHUNKS))
    return max(1, min(rows, MAX_CHUNK_BYTES // (d * X.dtype.itemsize)))


def _in_row_chunks(X):
    """Return a dask array of float32 or float64 in chunks of whole rows of a suitable size."""
    if not isinstance(X, _dask().array.Array):
        raise TypeError(
            f"X must be a dask array, got {type(X).__name__}: see dask.array.from_array, "
            "akpca.distributed.from_file, or akpca.operators for an array in memory"
        )
    if X.ndim != 2 or not isinstance(X._meta, np.ndarray) or X.dtype.kind not in "fiub":
        raise ValueError(f"X must be a two-dimensional dask array of dense real numbers, got {X!r}")
    if np.isnan(X.shape).any() or 0 in X.shape:
        counted = "rows and columns of known number, which X.compute_chunk_sizes() counts"
        raise ValueError(f"X must have {counted}, got {X.shape}")
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    n, sizes = X.shape[0], X.chunks[0]
    rows = _chunk_rows(X)
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    # keep the chunks, unless one is too large or empty, or there are too many
    if max(sizes) > rows or min(sizes) < 1 or len(sizes) > max(MAX_CHUNKS, 2 * -(-n // rows)):
        X = X.rechunk({0: rows})
    return X


def _chunk_nodes(X) -> list:
    """Return a node for each chunk, for `_load`: its recipe if it is lazy, or else the chunk."""
    # dask 2026.8 loses persisted chunks if asked to optimise here
    chunks = list(X.to_delayed(optimize_graph=False).ravel())
    recipes = _recipes(X, [chunk.key for chunk in chunks])
    return chunks if recipes is None else [_dask().delayed(recipe) for recipe in recipes]


def _recipes(X, keys: list) -> list[bytes] | None:
    """Return the pickled graph of each chunk of a lazy array, if it holds no data, else None.

    Nor if one can't be pickled, or would repeat work that chunks share.
    """
    import cloudpickle
    from dask.optimization import cull

    class Pickler(cloudpickle.Pickler):
        def persistent_id(self, obj):  # called for every object before it is written
            on_cluster = type(obj).__module__.startswith("distributed")  # a future
            if on_cluster or getattr(obj, "nbytes", 0) > MAX_RECIPE_BYTES:
                raise pickle.PicklingError("a recipe must not contain data")

    graph, recipes = dict(X.__dask_graph__()), []
    parts = [cull(graph, [key])[0] for key in keys]
    # allow for a node for the source and for chunks that were cut in two
    if sum(map(len, parts)) > 2 * len(graph) + len(keys):
        return None
    for chunk_graph, key in zip(parts, keys, strict=True):
        file = io.BytesIO()
        try:
            Pickler(file).dump((chunk_graph, key))
        except Exception:  # dask may be able to send what cloudpickle cannot
            return None
        recipes.append(file.getvalue())
    return recipes


def _tree_sum(terms: list, add: Callable = _sum):
    """Return the node of the sum of nodes, `FAN_IN` at a time, in their order."""
    while len(terms) > 1 or isinstance(terms[0], tuple):
        terms = [_task(add, terms[group]) for group in gen_batches(len(terms), FAN_IN)]
    return terms[0]
