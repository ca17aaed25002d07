"""The kernel matrix of data that outgrow one machine, as an operator on a dask cluster.

The rows of X lie in chunks X_1, ..., X_c. A product is the sum over the pairs of chunks

    (K V)_i = sum_j k(X_i, X_j) V_j,

and K is symmetric, so that one task for each pair i <= j serves (K V)_i and (K V)_j. A task
makes its part of K on a worker, tile by tile, and returns two thin matrices, which are added up
in a tree on the cluster. The shared contract, besides that of :mod:`akpca.operators`:

- X is a dense dask array whose rows are samples; `from_file` makes one of a ``.npy`` file. Chunks
  are brought to a size of which two and a tile fit any worker.
- **X as given.** The chunks of a lazy X are made anew inside each task that needs them, which
  costs little beside their kernel values, so that a worker never holds more than two and X may
  be larger than the memory of the whole cluster. Chunks that are expensive to make,
  ``X.persist()`` keeps on the cluster, from where they travel to the tasks. So do those of an
  array in memory, and of a lazy one whose chunks depend on each other, such as
  ``X - X.mean(axis=0)``.
- The vectors are part of the task graph and no data of a worker's own: when a worker dies, dask
  repeats what was lost, and the sums are those of an undisturbed run. The order of all sums is
  fixed.
- ``client=None`` is the active client; without one, the threads of this process (or what dask is
  configured for) do the work. Workers need this package as well.

Nothing here imports dask before it is needed: it is the extra ``akpca[distributed]``.
"""

from __future__ import annotations

import io
import pickle
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import numpy as np
from sklearn.utils import gen_batches
from tqdm import tqdm

from .kernels import Kernel, check_finite, check_samples, half_shift, part
from .operators import TILE, TILE_COLUMNS, TILE_ROWS, SampleOperator, Tile, check_kernel
from .threads import one_blas_thread

# Chunks of data have about CHUNK_ROWS rows, or so many more that there are no more than MAX_CHUNKS
# of them, as a sweep has about MAX_CHUNKS^2 / 2 tasks of about a millisecond in the scheduler;
# and never more than CHUNK_BYTES, whatever that means for their number.
CHUNK_ROWS, MAX_CHUNKS, CHUNK_BYTES = 2048, 64, 2**25
# Arrays of a lazy chunk's recipe: more than that is data, which must not travel with every task.
RECIPE_BYTES = 2**16
# Terms added by one task of a sum.
FAN_IN = 8


class DaskKernelOperator(SampleOperator):
    """The matrix K_ij = k(x_i, x_j), or H K H, of the rows of a dask array.

    Equal to `KernelOperator` up to rounding. The vectors, of shape (n, s), are all that the
    client holds. `KernelPCA`, `NystromKernelPCA` and `KernelHebbian` take it with
    kernel='precomputed', and encode new samples by it.

    Parameters
    ----------
    X : dask array of shape (n, d)
        See the module's documentation for when to persist it.
    kernel : Kernel
        An object of :mod:`akpca.kernels`.
    center : bool, default=True
        Centre in feature space.
    client : distributed.Client, default=None
        None is the active client, or the threads of this process if there is none.
    verbose : bool, default=False
        Show a progress bar for every sweep.

    Attributes
    ----------
    X : dask array of shape (n, d)
        The data in the chunks that are used.

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
    ):
        self.kernel = check_kernel(kernel)
        self.X = _in_row_chunks(X, "X")
        self.client = client
        self.verbose = verbose
        self._rows = _row_slices(self.X)
        self._chunks = _chunk_nodes(self.X)
        super().__init__(self.X.shape[0], self.X.dtype, center)

    @property
    def points(self):
        """The operator itself: its samples stay where they are, and it encodes by `encode`."""
        return self

    def plain_product(self, V):  # noqa: D102
        delayed = _dask().delayed
        V = np.ascontiguousarray(V, dtype=self.dtype)
        # a node of the graph each, so that a block of vectors is sent once and not with every task
        vectors = [delayed(V[rows]) for rows in self._rows]
        terms: list[list] = [[] for _ in self._rows]
        for i, chunk in enumerate(self._chunks):
            terms[i].append(delayed(_product)(self.kernel, chunk, None, vectors[i]))
            for j in range(i + 1, len(self._chunks)):
                products = delayed(_two_products)(
                    self.kernel, chunk, self._chunks[j], vectors[i], vectors[j]
                )
                # a sum picks its side, as tasks that only do so would be most of the graph
                terms[i].append((products, 0))
                terms[j].append((products, 1))
        sums = [_tree_sum(row) for row in terms]
        return check_finite(np.concatenate(self._compute(sums, "kernel sweep")), self.kernel)

    def plain_diagonal(self):  # noqa: D102
        return np.concatenate(self._compute(self._each_chunk(_diagonal, self.kernel), "diagonal"))

    def frobenius_norm(self):  # noqa: D102
        delayed = _dask().delayed
        shift = np.zeros(self.shape[0], self.dtype)
        if self.center:
            shift = half_shift(self.means(), self.dtype)
        shifts = [delayed(shift[rows]) for rows in self._rows]
        sums = []
        for i, chunk in enumerate(self._chunks):
            terms = [delayed(_squares)(self.kernel, chunk, None, shifts[i], shifts[i])]
            for j in range(i + 1, len(self._chunks)):
                other = self._chunks[j]
                terms.append(delayed(_squares)(self.kernel, chunk, other, shifts[i], shifts[j]))
            sums.append(_tree_sum(terms))
        return float(np.sqrt(sum(self._compute(sums, "kernel sweep"))))

    def rows(self, indices):  # noqa: D102
        samples = _dask().delayed(self.take(indices))
        tasks = self._each_chunk(_kernel_rows, self.kernel, samples)
        values = np.concatenate(self._compute(tasks, "kernel rows"), axis=1)
        if self.center:
            means = self.means()
            values -= (means - means.mean()).astype(self.dtype)
            values -= means[indices, None].astype(self.dtype)
        return values

    def take(self, indices):  # noqa: D102
        order = np.argsort(indices, kind="stable")
        ordered, tasks = np.asarray(indices)[order], []
        for chunk, rows in zip(self._chunks, self._rows, strict=True):
            first, last = np.searchsorted(ordered, (rows.start, rows.stop))
            if first < last:
                task = _dask().delayed(_take_rows)
                tasks.append(task(chunk, ordered[first:last] - rows.start))
        samples = np.empty((len(order), self.X.shape[1]), self.dtype)
        samples[order] = np.concatenate(self._compute(tasks, "sampled rows"))
        return samples

    def extend(self, landmarks, U):  # noqa: D102
        delayed = _dask().delayed
        tasks = self._each_chunk(_extend, self.kernel, delayed(landmarks), delayed(U))
        return check_finite(np.concatenate(self._compute(tasks, "cross product")), self.kernel)

    def encode(self, X, W: np.ndarray) -> np.ndarray:
        """Return k(X, samples) @ W, such as the codes of new points X.

        Parameters
        ----------
        X : dask array, array-like or sparse matrix of shape (n_new, d)
        W : ndarray of shape (n, s)

        Returns
        -------
        products : ndarray of shape (n_new, s), float64
        """
        delayed = _dask().delayed
        if is_dask_array(X):
            X = _in_row_chunks(X, "X")
            chunks = _chunk_nodes(X)
        else:
            X = check_samples(X, "X")
            batches = gen_batches(X.shape[0], _chunk_rows(*X.shape, X.dtype.itemsize))
            chunks = [delayed(X[rows]) for rows in batches]
        if X.shape[1] != self.X.shape[1]:
            raise ValueError(
                f"X has {X.shape[1]} features, but the fitted samples have {self.X.shape[1]} "
                "features"
            )
        W = np.ascontiguousarray(W, dtype=np.result_type(X.dtype, self.dtype))
        weights = [delayed(W[rows]) for rows in self._rows]
        others = list(zip(self._chunks, weights, strict=True))
        sums = [
            _tree_sum([delayed(_product)(self.kernel, chunk, other, W) for other, W in others])
            for chunk in chunks
        ]
        return check_finite(np.concatenate(self._compute(sums, "kernel product")), self.kernel)

    def sum_over_samples(self, function, add):
        """Return the sum of ``function(chunk)`` over the chunks of rows, added on the cluster.

        Parameters
        ----------
        function : callable
            Of an array of some rows. It travels to the workers with what it refers to.
        add : callable
            Of a list of values of `function`; returns their sum.
        """
        delayed = _dask().delayed
        # sent once, not with every task
        function = delayed(function, traverse=False)
        terms = [delayed(_apply)(function, chunk) for chunk in self._chunks]
        while len(terms) > 1:
            terms = [delayed(add)(terms[group]) for group in gen_batches(len(terms), FAN_IN)]
        return self._compute(terms, "sum over chunks")[0]

    def _each_chunk(self, function: Callable, *arguments) -> list:
        return [_dask().delayed(function)(chunk, *arguments) for chunk in self._chunks]

    def _compute(self, tasks: list, description: str) -> list:
        return _compute(tasks, self.client, description, self.verbose)


def from_file(path, *, chunk_rows: int = CHUNK_ROWS):
    """Return the matrix in a ``.npy`` file as a dask array that is read a chunk at a time.

    Only the header is read here. A task maps the file and copies its rows, so that the file is
    in no process as a whole; all workers must see it under the same path.

    Parameters
    ----------
    path : str or Path
        A file written by :func:`numpy.save`: two-dimensional, of numbers; pickles are refused.
    chunk_rows : int, default=2048
        Rows of a chunk, the least that is read at once.

    Returns
    -------
    X : dask array of shape (n, d)
    """
    _dask()
    import dask.array

    if chunk_rows < 1:
        raise ValueError(f"chunk_rows must be at least 1, got {chunk_rows}")
    rows = _FileRows(path)
    return dask.array.from_array(
        rows, chunks=(chunk_rows, -1), meta=np.empty((0, 0), rows.dtype), fancy=False
    )


class _FileRows:
    """The array-like that dask slices: the name of a file, opened for each slice."""

    def __init__(self, path):
        self.path = Path(path).resolve()
        array = self._open()
        if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "fiub":
            raise ValueError(
                f"{self.path} must hold a two-dimensional, non-empty array of real numbers, got "
                f"shape {array.shape} and dtype {array.dtype}"
            )
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

    def _open(self) -> np.ndarray:
        if not self.path.exists():
            raise FileNotFoundError(f"no file {self.path}: all workers must see it by this name")
        try:
            array = np.lib.format.open_memmap(self.path, mode="r")
        except ValueError as error:
            raise ValueError(
                f"{self.path} is not a .npy file of plain numbers, which can be mapped: {error}"
            ) from error
        return array

    def __getitem__(self, index) -> np.ndarray:
        array = self._open()
        if array.shape != self.shape or array.dtype != self.dtype:
            raise ValueError(
                f"{self.path} has changed: it had shape {self.shape} and dtype {self.dtype}, now "
                f"{array.shape} and {array.dtype}"
            )
        return np.array(array[index])

    def __dask_tokenize__(self):
        # a file that was written anew is another array
        status = self.path.stat()
        return (str(self.path), status.st_mtime_ns, status.st_size)


def run_notebooks(
    notebook, parameters: Sequence[dict], output_folder, *, client=None
) -> list[Path]:
    """Run a notebook once for each set of parameters, on the workers of a cluster.

    A notebook travels to the worker and back as text, so that no folder need be shared; it runs
    in an empty temporary folder, with the Jupyter kernel ``python3`` of the worker.

    Parameters
    ----------
    notebook : str or Path
        With a cell tagged ``parameters``, as papermill wants it.
    parameters : sequence of dict
        The parameters that differ from the notebook's own, for each run.
    output_folder : str or Path
        Of the executed notebooks, which are named after the notebook and the parameters, such as
        ``01_pca_dataset=digits_seed=1.ipynb``; made if missing. Files of an earlier run with the
        same parameters are replaced.
    client : distributed.Client, default=None
        None is the active client.

    Returns
    -------
    paths : list of Path
        The executed notebooks, in the order of `parameters`.

    Raises
    ------
    ExceptionGroup
        After all runs, if some failed: a RuntimeError for each of those, with its parameters,
        what went wrong and the notebook as far as it got.
    """
    _dask()
    try:
        import papermill
    except ImportError as error:
        raise ImportError(
            'papermill runs the notebooks: pip install "akpca[notebooks]" on all workers'
        ) from error
    client = _active_client(client)
    if client is None:
        raise ValueError(
            "run_notebooks needs a cluster: pass client=, or start one in this process with "
            "`from dask.distributed import Client; client = Client()`"
        )
    notebook, output_folder = Path(notebook), Path(output_folder)
    text = notebook.read_text(encoding="utf-8")
    parameters = [dict(run) for run in parameters]
    known = set(papermill.inspect_notebook(str(notebook)))
    for run in parameters:
        if unknown := sorted(set(run) - known):
            raise ValueError(f"{notebook} has the parameters {sorted(known)}, got also {unknown}")
    paths = [output_folder / _output_name(notebook.stem, run) for run in parameters]
    if twice := sorted({path.name for path in paths if paths.count(path) > 1}):
        raise ValueError(f"parameters must differ from run to run, got these twice: {twice}")
    output_folder.mkdir(parents=True, exist_ok=True)
    futures = [client.submit(_run_notebook, text, run, pure=False) for run in parameters]
    failures = []
    for run, path, future in zip(parameters, paths, futures, strict=True):
        try:
            executed, problem = future.result()
        except Exception as error:  # the worker's own trouble is also the trouble of one run only
            executed, problem = None, f"{type(error).__name__}: {error}"
        if executed is None:
            path.unlink(missing_ok=True)  # what an earlier run left is not this run's
        else:
            path.write_text(executed, encoding="utf-8")
        if problem:
            seen = f"; see {path}" if executed else ""
            failures.append(RuntimeError(f"{run}: {problem}{seen}"))
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {len(paths)} runs of {notebook} failed", failures)
    return paths


def is_dask_array(X) -> bool:
    """Tell whether X is a dask array, without importing dask."""
    return any(
        cls.__name__ == "Array" and cls.__module__.split(".")[:2] == ["dask", "array"]
        for cls in type(X).__mro__
    )


# -------------------------------------------------------------------------------- on the workers


def _load(chunk) -> np.ndarray:
    """Return a chunk of data, which may have come as a recipe."""
    if isinstance(chunk, bytes):
        graph, key = pickle.loads(chunk)
        chunk = _dask().get(graph, key)
    return check_samples(chunk, "X")


def _tiles(kernel: Kernel, X, Y) -> Iterator[Tile]:
    """Yield (rows, columns, values) of k(X, Y), Y None meaning X; values are overwritten."""
    same = Y is None
    Y = X if same else Y
    x_terms = kernel.row_terms(X)
    y_terms = x_terms if same else kernel.row_terms(Y)
    diagonal = kernel.diag(X) if same else None
    buffer = np.empty(TILE, np.result_type(X.dtype, Y.dtype))
    for rows in gen_batches(X.shape[0], TILE_ROWS):
        for columns in gen_batches(Y.shape[0], TILE_COLUMNS):
            shape = (rows.stop - rows.start, columns.stop - columns.start)
            tile = buffer[: shape[0] * shape[1]].reshape(shape)
            kernel.fill(tile, X[rows], Y[columns], part(x_terms, rows), part(y_terms, columns))
            if same:
                # the diagonal without the rounding of inner products, as in a stored matrix
                i = np.arange(max(rows.start, columns.start), min(rows.stop, columns.stop))
                tile[i - rows.start, i - columns.start] = diagonal[i]
            yield rows, columns, tile


def _product(kernel: Kernel, chunk, other, W: np.ndarray) -> np.ndarray:
    """Return k(X, Y) @ W in float64."""
    X = _load(chunk)
    result = np.zeros((X.shape[0], W.shape[1]))
    for rows, columns, tile in _tiles(kernel, X, None if other is None else _load(other)):
        result[rows] += tile @ W[columns]
    return result


def _two_products(kernel: Kernel, chunk, other, V: np.ndarray, W: np.ndarray):
    """Return k(X, Y) @ W and k(X, Y).T @ V in float64."""
    X, Y = _load(chunk), _load(other)
    left, right = np.zeros((X.shape[0], W.shape[1])), np.zeros((Y.shape[0], V.shape[1]))
    for rows, columns, tile in _tiles(kernel, X, Y):
        left[rows] += tile @ W[columns]
        right[columns] += tile.T @ V[rows]
    return left, right


def _squares(kernel: Kernel, chunk, other, x_shift: np.ndarray, y_shift: np.ndarray) -> float:
    """Return the share of a pair of chunks in the sum of squares of the shifted matrix."""
    total = 0.0
    for rows, columns, tile in _tiles(
        kernel, _load(chunk), None if other is None else _load(other)
    ):
        tile -= y_shift[columns]
        tile -= x_shift[rows, None]
        total += float(np.einsum("ij,ij->", tile, tile, dtype=np.float64))
    return total if other is None else 2 * total


def _apply(function: Callable, chunk):
    return function(_load(chunk))


def _diagonal(chunk, kernel: Kernel) -> np.ndarray:
    return kernel.diag(_load(chunk))


def _extend(chunk, kernel: Kernel, landmarks: np.ndarray, U: np.ndarray) -> np.ndarray:
    return _product(kernel, chunk, landmarks, U)


def _kernel_rows(chunk, kernel: Kernel, samples: np.ndarray) -> np.ndarray:
    return kernel(samples, _load(chunk))


def _take_rows(chunk, indices: np.ndarray) -> np.ndarray:
    return _load(chunk)[indices]


def _sum(terms: list):
    """Return the sum of results, of which (results, side) means one of two."""
    first, *rest = (term[0][term[1]] if isinstance(term, tuple) else term for term in terms)
    return sum(rest, start=first)


def _run_notebook(text: str, parameters: dict) -> tuple[str | None, str | None]:
    """Return the executed notebook as far as it got, and what went wrong."""
    import papermill

    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder, "notebook.ipynb"), Path(folder, "executed.ipynb")
        source.write_text(text, encoding="utf-8")
        problem = None
        try:
            papermill.execute_notebook(
                str(source),
                str(output),
                parameters,
                kernel_name="python3",
                progress_bar=False,
                cwd=folder,
            )
        except papermill.PapermillExecutionError as error:
            problem = f"{error.ename}: {error.evalue}"
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        return output.read_text(encoding="utf-8") if output.exists() else None, problem


# --------------------------------------------------------------------------------- on the client


def _dask():
    try:
        import dask
        import dask.array
    except ImportError as error:
        raise ImportError(
            'dask is needed for data on a cluster: pip install "akpca[distributed]"'
        ) from error
    return dask


def _chunk_rows(n: int, d: int, itemsize: int) -> int:
    """Return the number of rows of a chunk of n x d data."""
    rows = max(CHUNK_ROWS, -(-n // MAX_CHUNKS))
    return max(1, min(rows, CHUNK_BYTES // (d * itemsize)))


def _in_row_chunks(X, name: str):
    """Return a dask array as one of float32 or float64 in chunks of whole rows of a fit size."""
    _dask()
    if not is_dask_array(X):
        raise TypeError(
            f"{name} must be a dask array, got {type(X).__name__}: see dask.array.from_array, "
            "akpca.distributed.from_file, or akpca.operators for an array in memory"
        )
    if X.ndim != 2 or not isinstance(X._meta, np.ndarray) or X.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} must be a two-dimensional dask array of dense real numbers, got {X!r}"
        )
    if np.isnan(X.shape).any():
        raise ValueError(
            f"{name} has chunks of unknown size: call {name}.compute_chunk_sizes() first"
        )
    if 0 in X.shape:
        raise ValueError(f"{name} must have at least one row and one column, got {X.shape}")
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    n, d = X.shape
    rows = _chunk_rows(n, d, X.dtype.itemsize)
    sizes = X.chunks[0]
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    # chunks of another size are welcome if none is too large or empty, nor are there too many
    if max(sizes) > rows or min(sizes) < 1 or len(sizes) > max(MAX_CHUNKS, 2 * -(-n // rows)):
        X = X.rechunk({0: rows})
    return X


def _output_name(stem: str, parameters: dict) -> str:
    """Return a file name that tells the parameters, and differs if they do."""
    told = "_".join(f"{key}={value}" for key, value in parameters.items()) or "defaults"
    name = re.sub(r"[^\w.=+-]+", "-", told)[:100]
    # a name that does not tell everything gets a digest of it
    digest = "" if name == told else "_" + sha256(repr(parameters).encode()).hexdigest()[:8]
    return f"{stem}_{name}{digest}.ipynb"


def _row_slices(X) -> list[slice]:
    edges = np.cumsum((0, *X.chunks[0])).tolist()
    return [slice(*edge) for edge in pairwise(edges)]


def _chunk_nodes(X) -> list:
    """Return the nodes of a graph, one for each chunk, that tasks pass to `_load`.

    They are recipes of lazy chunks, or else the chunks themselves, which dask then makes once a
    sweep and keeps on the workers while they are needed.
    """
    # dask 2026.8 loses persisted chunks if asked to optimise here
    chunks = list(X.to_delayed(optimize_graph=False).ravel())
    recipes = _recipes(X, [chunk.key for chunk in chunks])
    return chunks if recipes is None else [_dask().delayed(recipe) for recipe in recipes]


def _recipes(X, keys: list) -> list[bytes] | None:
    """Return what makes each chunk of a lazy array, pickled, or None if it is not lazy.

    None as well if a recipe would hold data, can't be pickled, or if chunks share their making,
    so that making each alone would repeat it.
    """
    from dask.optimization import cull

    graph = dict(X.__dask_graph__())
    if any(_is_future(node) for node in graph.values()):
        return None
    parts = [cull(graph, [key])[0] for key in keys]
    # besides a node for the source, and chunks that were cut in two
    if sum(map(len, parts)) > 2 * len(graph) + len(keys):
        return None
    recipes = []
    for chunk_graph, key in zip(parts, keys, strict=True):
        file = io.BytesIO()
        try:
            _recipe_pickler(file).dump((chunk_graph, key))
        except Exception:  # whatever it is, dask may have a way of its own to send it
            return None
        recipes.append(file.getvalue())
    return recipes


def _recipe_pickler(file):
    import cloudpickle

    class Pickler(cloudpickle.Pickler):
        def persistent_id(self, obj):  # called for every object before it is written
            if _is_future(obj) or getattr(obj, "nbytes", 0) > RECIPE_BYTES:
                raise pickle.PicklingError("data are no part of a recipe")

    return Pickler(file)


def _is_future(obj) -> bool:
    return type(obj).__name__ == "Future" and type(obj).__module__.startswith("distributed")


def _tree_sum(terms: list):
    """Return the node of the sum of nodes, `FAN_IN` at a time, in their order."""
    while len(terms) > 1 or isinstance(terms[0], tuple):
        groups = gen_batches(len(terms), FAN_IN)
        terms = [_dask().delayed(_sum)(terms[group]) for group in groups]
    return terms[0]


def _active_client(client):
    if client is not None:
        return client
    try:
        from distributed import default_client

        return default_client()
    except (ImportError, ValueError):
        return None


def _compute(tasks: list, client, description: str, verbose: bool) -> list:
    """Return the results of nodes, from the cluster or else from this process."""
    dask = _dask()
    client = _active_client(client)
    if client is None:
        from dask.diagnostics import ProgressBar

        # threads of dask times threads of BLAS would be too many
        with one_blas_thread(), ProgressBar() if verbose else nullcontext():
            return list(dask.compute(*tasks))
    from distributed import as_completed

    # vectors are in the graph on purpose: no warning that it is large
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
        futures = client.compute(tasks)
    try:
        bar = tqdm(as_completed(futures), description, len(tasks), disable=not verbose)
        for future in bar:
            if future.status == "error":
                break
        return client.gather(futures)
    except BaseException:
        # an error, or the user's interruption: don't leave the cluster with the rest of a sweep
        client.cancel(futures)
        raise
