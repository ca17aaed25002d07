"""The operator on a dask cluster: the numbers of the one in memory, in little memory, whatever
happens to a worker."""

import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster
from scipy import sparse

from akpca import IncrementalKernelPCA, KernelHebbian, KernelPCA, NystromKernelPCA
from akpca import distributed as module
from akpca.distributed import DaskKernelOperator, from_file
from akpca.kernels import KERNELS, RBF, Cosine, Linear, Polynomial
from akpca.operators import KernelOperator

# All share one cluster, which takes as long to start as they take together.
pytestmark = pytest.mark.xdist_group("cluster")

# A worker with this package imported rests at about 170 MiB.
MEMORY_LIMIT = 400 * 2**20

# kernels of this file are unknown to the workers
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def client():
    """A scheduler in this process."""
    with Client(
        processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as client:
        yield client


@pytest.fixture(scope="module")
def cluster():
    """Two processes with little memory."""
    with (
        # A cluster looks for a lost worker's name after so long, and if it finds none gives the
        # worker up: even if that one had come back, and another of its name has just died.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            memory_limit=MEMORY_LIMIT,
            dashboard_address=None,
            silence_logs=50,
        ) as processes,
        Client(processes) as client,
    ):
        yield client


@pytest.fixture
def X():
    return np.random.default_rng(0).uniform(0, 1, (230, 6))


def centred(K):
    return K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()


def pids(client):
    return client.run(os.getpid)


def peaks(client):
    """The largest resident memory of each worker so far, in bytes; where Linux tells it."""

    def peak():  # not getrusage, which counts the process that started this one as well
        status = Path("/proc/self/status")
        lines = status.read_text().splitlines() if status.exists() else ["VmHWM: 0 kB"]
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

    return client.run(peak).values()


@pytest.mark.parametrize(("name", "center"), [*((name, True) for name in KERNELS), ("rbf", False)])
def test_product_is_that_of_the_matrix(X, name, center):
    """operator @ V is K V, or H K H V, for all kernels and for one vector as for many."""
    kernel = KERNELS[name]()
    K = centred(kernel(X)) if center else kernel(X)
    operator = DaskKernelOperator(da.from_array(X, chunks=(60, 4)), kernel, center=center)
    V = np.random.default_rng(1).standard_normal((len(X), 3))
    assert operator.shape == K.shape
    assert len(operator.X.chunks[0]) == 4
    np.testing.assert_allclose(operator @ V, K @ V, rtol=0, atol=1e-10)
    np.testing.assert_allclose(operator @ V[:, 0], K @ V[:, 0], rtol=0, atol=1e-10)


@pytest.mark.parametrize("center", [True, False])
def test_the_contract_of_operators(X, center):
    """Sums, rows in any order and samples for the same seed are those in memory."""
    kernel = Polynomial(degree=2)
    ours = DaskKernelOperator(da.from_array(X, chunks=(60, -1)), kernel, center=center)
    theirs = KernelOperator(X, kernel, center=center)
    assert ours.trace() == pytest.approx(theirs.trace(), rel=1e-12)
    assert ours.frobenius_norm() == pytest.approx(theirs.frobenius_norm(), rel=1e-12)
    indices, options = np.array([200, 3, 77, 3, 0]), dict(n_landmarks=50, random_state=3)
    for found, expected in (
        (ours.means(), theirs.means()),
        (ours.diagonal(), theirs.diagonal()),
        (ours.rows(indices), theirs.rows(indices)),
        (ours.nystrom_vectors(5, **options), theirs.nystrom_vectors(5, **options)),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_tiles_smaller_than_chunks():
    """Chunks of several tiles in both directions, of odd sizes, give the same product."""
    X = np.random.default_rng(0).standard_normal((4500, 3))
    V = np.random.default_rng(1).standard_normal((len(X), 2))
    sizes = ((2047, 700, 1753), 3)
    operator = DaskKernelOperator(da.from_array(X, chunks=sizes), RBF(gamma=0.3))
    assert operator.X.chunks[0] == sizes[0]
    np.testing.assert_allclose(operator @ V, KernelOperator(X, RBF(gamma=0.3)) @ V, atol=1e-10)


def test_single_precision_and_integers(X):
    """Kernel values have the precision of the data; sums and results are float64."""
    single = X.astype(np.float32)
    operator = DaskKernelOperator(da.from_array(single, chunks=(60, -1)), RBF())
    V = np.random.default_rng(1).standard_normal((len(X), 3))
    product = operator @ V
    assert (operator.dtype, product.dtype) == (np.float32, np.float64)
    difference = np.abs(product - KernelOperator(X, RBF()) @ V).max()
    assert 1e-10 < difference < 1e-4
    X = np.arange(40).reshape(20, 2) % 7
    operator = DaskKernelOperator(da.from_array(X, chunks=(8, -1)), Linear(), center=False)
    np.testing.assert_allclose(operator @ np.eye(20), X @ X.T, atol=1e-12)


@pytest.mark.parametrize(
    "kind", [lambda X: da.from_array(X, chunks=(100, 2)), np.asarray, sparse.csr_array]
)
def test_products_with_new_points(X, kind):
    """k(X, Y) @ W for new points of any kind."""
    Y = np.random.default_rng(1).uniform(0, 1, (150, 6))
    W = np.random.default_rng(2).standard_normal((150, 4))
    operator = DaskKernelOperator(da.from_array(Y, chunks=(40, 6)), Cosine())
    np.testing.assert_allclose(operator.encode(kind(X), W), Cosine()(X, Y) @ W, atol=1e-10)


@pytest.mark.slow
def test_kernel_matrix_larger_than_the_cluster(cluster, tmp_path):
    """The product is that of the operator in memory, and no worker comes near its limit."""
    n = 12_000
    assert 8 * n**2 > 2 * MEMORY_LIMIT
    X = np.random.default_rng(0).standard_normal((n, 20))
    np.save(tmp_path / "X.npy", X)
    V = np.random.default_rng(1).standard_normal((n, 8))
    before = pids(cluster)
    product = DaskKernelOperator(from_file(tmp_path / "X.npy"), RBF()) @ V
    np.testing.assert_allclose(product, KernelOperator(X, RBF()) @ V, rtol=0, atol=1e-10)
    assert pids(cluster) == before
    assert max(peaks(cluster)) < 0.8 * MEMORY_LIMIT


@pytest.mark.slow
def test_data_larger_than_a_worker(cluster, tmp_path):
    """Lazy data of more than a worker's memory are swept with two chunks of them in it."""
    n, d = 250, 220_000
    assert 8 * n * d > MEMORY_LIMIT
    # a file with holes: mostly rows of zeros that take no place on the disk
    X = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", dtype=np.float64, shape=(n, d))
    filled = np.random.default_rng(0).choice(n, 20, replace=False)
    rows = np.random.default_rng(1).standard_normal((20, d))
    X[filled] = rows
    del X
    before = pids(cluster)
    X = from_file(tmp_path / "X.npy", chunk_rows=19)
    product = DaskKernelOperator(X, Linear(), center=False) @ np.ones(n)
    expected = np.zeros(n)
    expected[filled] = rows @ rows.sum(axis=0)
    np.testing.assert_allclose(product, expected, rtol=1e-10, atol=1e-8)
    assert pids(cluster) == before
    assert max(peaks(cluster)) < 0.8 * MEMORY_LIMIT


def test_lazy_chunks_travel_as_recipes(tmp_path, X):
    """Tasks get a few bytes to make a lazy chunk of, also after further lazy steps; the data if
    they are in memory or on the cluster, or if making one chunk would make them all."""
    np.save(tmp_path / "X.npy", X)
    on_disk = from_file(tmp_path / "X.npy", chunk_rows=40)

    def kinds(X):
        nodes = dask.compute(*module._chunk_nodes(X), scheduler="sync")
        return {type(node) for node in nodes}, nodes

    for recipe in (on_disk, on_disk[5:, ::2], 1 - on_disk / 2, on_disk.rechunk((90, -1))):
        types, nodes = kinds(recipe)
        assert types == {bytes}
        assert max(map(len, nodes)) < 10_000
        loaded = np.concatenate([module._load(node) for node in nodes])
        np.testing.assert_array_equal(loaded, recipe.compute(scheduler="sync"))
    for data in (da.from_array(np.ones((20_000, 6)), chunks=(5000, -1)), on_disk - on_disk.mean(0)):
        assert kinds(data)[0] == {np.ndarray}


def test_chunks_are_brought_to_size():
    """Huge chunks are cut, tiny ones merged, reasonable ones left, wide ones bounded in bytes."""

    def sizes(shape, chunks):
        X = module._in_row_chunks(da.zeros(shape, chunks=chunks))
        assert X.numblocks[1] == 1
        return X.chunks[0]

    assert sizes((9000, 4), (9000, 2)) == sizes((9000, 4), (10, 4)) == (2048,) * 4 + (808,)
    assert sizes((9000, 4), (1500, 4)) == (1500,) * 6
    assert len(sizes((2_000_000, 4), (2048, 4))) == module.MAX_CHUNKS
    rows = max(sizes((3000, 100_000), (3000, 1000)))
    assert rows * 800_000 <= module.MAX_CHUNK_BYTES < (rows + 1) * 800_000


@pytest.mark.parametrize("order", ["C", "F"])
def test_files(tmp_path, order):
    """The matrix of the file in chunks, nothing else in the graph; bad files are named."""
    values = np.asarray(np.arange(60, dtype=np.float32).reshape(20, 3), order=order)
    np.save(tmp_path / "good.npy", values)
    X = from_file(str(tmp_path / "good.npy"), chunk_rows=8)
    assert X.chunks == ((8, 8, 4), (3,))
    assert X.dtype == np.float32
    assert len(pickle.dumps(X)) < 5000
    np.testing.assert_array_equal(X.compute(), values)

    np.save(tmp_path / "objects.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "archive.npz", X=np.eye(2))
    np.save(tmp_path / "vector.npy", np.zeros(3))
    np.save(tmp_path / "text.npy", np.array([["a"]]))
    for name in ("objects.npy", "archive.npz"):
        with pytest.raises(ValueError, match=rf"{name} is not a \.npy file of plain numbers"):
            from_file(tmp_path / name)
    for name in ("vector.npy", "text.npy"):
        with pytest.raises(ValueError, match=f"{name} must hold a two-dimensional"):
            from_file(tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"missing\.npy"):
        from_file(tmp_path / "missing.npy")
    with pytest.raises(ValueError, match="chunk_rows=0 must be an integer of at least 1"):
        from_file(tmp_path / "good.npy", chunk_rows=0)


@dataclass
class Broken(Linear):
    def fill(self, out, X, Y, x_terms, y_terms):
        raise ZeroDivisionError("broken kernel")


def test_errors_of_a_worker_reach_the_caller(client, X):
    """A kernel that raises, gives NaN, or data with NaN: the same errors as in memory."""
    data = da.from_array(X, chunks=(60, -1))
    with pytest.raises(ZeroDivisionError, match="broken kernel"):
        DaskKernelOperator(data, Broken()) @ np.ones(len(X))
    bad = DaskKernelOperator(data, Polynomial(degree=0.5, coef0=-9))
    for use in (lambda: bad @ np.ones(len(X)), lambda: bad.encode(X, np.ones((len(X), 1)))):
        with pytest.raises(ValueError, match=r"Polynomial\(.*gives NaN or infinity"):
            use()
    X[100, 2] = np.nan
    with pytest.raises(ValueError, match="X contains NaN"):
        DaskKernelOperator(da.from_array(X, chunks=(60, -1)), RBF()) @ np.ones(len(X))


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (np.asarray, "X must be a dask array, got ndarray"),
        (lambda data: data[:, 0], "X must be a two-dimensional dask array of dense real"),
        (lambda data: data.astype(complex), "X must be a two-dimensional dask array of dense real"),
        (lambda data: data.map_blocks(sparse.csr_array), "a two-dimensional dask array of dense"),
        (lambda data: data[data[:, 0] > 0.5], r"of known number.* X\.compute_chunk_sizes\(\)"),
        (lambda data: data[:0], "must have rows"),
    ],
)
def test_bad_arguments(X, make, match):
    """The argument is named, and what is allowed."""
    with pytest.raises((TypeError, ValueError), match=match):
        DaskKernelOperator(make(da.from_array(X, chunks=(60, -1))), RBF())


def test_progress_and_cleanliness(client, X, capsys):
    """A bar if asked for; a sweep gives the same bits every time and leaves nothing behind."""
    data = da.from_array(X, chunks=(60, -1))
    quiet = DaskKernelOperator(data, RBF()) @ np.ones(len(X))
    assert capsys.readouterr() == ("", "")
    loud = DaskKernelOperator(data, RBF(), client=client, verbose=True) @ np.ones(len(X))
    assert "kernel sweep: 100%" in capsys.readouterr().err
    np.testing.assert_array_equal(loud, quiet)
    deadline = time.monotonic() + 10  # futures are released in the background
    while client.futures or any(client.has_what().values()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


SCRIPT = """
import sys
import akpca, akpca.distributed
assert "dask" not in sys.modules and "distributed" not in sys.modules
import numpy as np
from akpca.distributed import DaskKernelOperator, from_file
from akpca.kernels import RBF
X = np.random.default_rng(0).standard_normal((50, 3))
if sys.argv[1] == "missing":
    sys.modules["dask"] = None
    for call, argument in ((from_file, "X.npy"), (lambda X: DaskKernelOperator(X, RBF()), X)):
        try:
            call(argument)
        except ImportError as error:
            assert 'pip install "akpca[distributed]"' in str(error)
        else:
            raise AssertionError
else:
    import dask.array as da
    operator = DaskKernelOperator(da.from_array(X, chunks=(20, -1)), RBF(), center=False)
    np.testing.assert_allclose(operator @ np.eye(50), RBF()(X), atol=1e-12)
print("done")
"""


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("case", ["missing", "no cluster"])
def test_without_dask_or_cluster(case):
    """What needs dask says what to install; without a cluster the process does the work."""
    run = subprocess.run([sys.executable, "-c", SCRIPT, case], capture_output=True, text=True)
    assert run.stdout == "done\n", run.stderr


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (KernelPCA, {"eigen_solver": "auto", "tol": 1e-9}),
        (KernelPCA, {"eigen_solver": "dense"}),
        (NystromKernelPCA, {"n_landmarks": 40}),
        (IncrementalKernelPCA, {"n_kept": 12, "block_size": 100}),
    ],
)
def test_estimators(X, cls, options, center):
    """They fit and encode on a cluster as they do in memory, new points in any form too."""
    operator = DaskKernelOperator(da.from_array(X, chunks=(60, 6)), RBF(gamma=1), center=center)
    options = {"center": center, "random_state": 0, **options}
    ours = cls(3, kernel="precomputed", **options).fit(operator)
    expected = cls(3, kernel=RBF(gamma=1), **options).fit(X)
    for name in ("eigenvalues_", "explained_variance_ratio_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(expected, name), rtol=1e-8)
    new = X[:7] + 0.1
    codes = np.abs(expected.transform(new))
    np.testing.assert_allclose(np.abs(ours.transform(new)), codes, atol=1e-6)
    if cls is KernelPCA:
        lazy = da.from_array(new, chunks=(3, 6))
        np.testing.assert_allclose(np.abs(ours.transform(lazy)), codes, atol=1e-6)
        assert ours.transform(new.astype(np.float32)).dtype == np.float64


def test_estimators_say_what_they_can_not_do_on_a_cluster(X):
    """A bare dask array, and options that would need the samples here, are refused by name."""
    lazy = da.from_array(X, chunks=(60, 6))
    operator = DaskKernelOperator(lazy, RBF())
    with pytest.raises(TypeError, match=r"kernel must be a Kernel .* 'rbf'"):
        DaskKernelOperator(lazy, "rbf")
    with pytest.raises(ValueError, match="X has 4 features, but the fitted samples have 6"):
        operator.encode(X[:, :4], np.ones((230, 1)))
    options = {"kernel": "precomputed"}
    for estimator in (KernelPCA(2), NystromKernelPCA(2), KernelHebbian(2)):
        with pytest.raises(TypeError, match=r"pass akpca.distributed.DaskKernelOperator\(X"):
            estimator.fit(lazy)
    with pytest.raises(ValueError, match="give n_components"):
        KernelPCA(**options).fit(operator)
    with pytest.raises(ValueError, match="needs dense samples"):
        KernelPCA(2, preimage="ridge", **options).fit(operator)
    with pytest.raises(ValueError, match="sampling='uniform'"):
        NystromKernelPCA(2, n_landmarks=9, sampling="kmeans", **options).fit(operator)
    with pytest.raises(ValueError, match="X has 5 features"):
        KernelPCA(2, **options).fit(operator).transform(X[:, :5])


@dataclass
class Deadly(RBF):
    """An RBF kernel that kills its process, the worker, when it fills its tenth tile."""

    count: str = ""

    def fill(self, out, X, Y, x_terms, y_terms):
        with open(self.count, "ab") as file:
            file.write(b".")
            file.flush()
            if file.tell() == 10:
                os.kill(os.getpid(), signal.SIGKILL)
        super().fill(out, X, Y, x_terms, y_terms)


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("persisted", [False, True])
def test_a_worker_that_dies_in_mid_sweep(cluster, tmp_path, X, persisted):
    """Its part of the work and of the data is made again: the product is the same to the bit."""
    np.save(tmp_path / "X.npy", X)
    data = from_file(tmp_path / "X.npy", chunk_rows=30)
    V = np.random.default_rng(1).standard_normal((len(X), 3))
    expected = DaskKernelOperator(data, RBF()) @ V
    data = data.persist() if persisted else data
    before = set(pids(cluster).values())
    count = tmp_path / "tiles"
    product = DaskKernelOperator(data, Deadly(count=str(count))) @ V
    assert count.stat().st_size > 8 * 9 // 2  # some tiles were made twice
    np.testing.assert_array_equal(product, expected)
    cluster.wait_for_workers(2, timeout=120)
    assert len(before & set(pids(cluster).values())) == 1
