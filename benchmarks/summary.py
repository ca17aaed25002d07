"""The benchmarks in a few minutes: one table and one figure, against named rivals in one run.

    python benchmarks/summary.py            # measure, write benchmarks/results, print the table
    python benchmarks/summary.py --draw     # only draw the figure again

Bundled data, double precision. Each comparison runs with one and with two BLAS threads, each in a
process of its own, in which ours and the rivals take turns. Times are the least of some turns: CPU
seconds with one thread, which other work on the machine hardly changes, and wall seconds with two.
A *limit* is no rival but work that nobody can do without: computing the kernel matrix once, which
is a product of matrices and an exponential.

The scripts ``bench_*.py`` measure the same in depth, one by one, with targets.
"""

import argparse
import csv
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import bench_gha
import bench_hebbian
import bench_nystrom
import matplotlib.pyplot as plt
import numpy as np
from measure import THREAD_VARIABLES, load_average, turns
from sklearn import decomposition
from sklearn.neural_network import MLPRegressor
from threadpoolctl import threadpool_limits

from akpca import (
    Autoencoder,
    IncrementalKernelPCA,
    KernelPCA,
    RidgeAutoencoder,
    load_dataset,
    pca,
    reconstruction_error,
)
from akpca.book import plotting
from akpca.book.rerun import versions
from akpca.datasets import balanced_split, scale_by_max_norm
from akpca.hebbian import make_gain
from akpca.hebbian.kernel import run_pass, start_state
from akpca.kernels import RBF
from akpca.operators import KernelOperator

FOLDER = Path(__file__).resolve().parent / "results"
THREADS = (1, 2)
GAMMA = 0.005  # a width of 10 on pixels between 0 and 1
SIZES = (1000, 2000, 4000)
LIMIT = "the kernel matrix once (limit)"
SWEEP = "all kernel values once (limit)"
KERNEL_PCA = "kernel PCA, RBF kernel, 25 components"
COLORS = ("#0072B2", "#D55E00", "#009E73", "#000000")


@dataclass
class Row:
    """One comparison; a `ratio` below 1 is in our favour."""

    comparison: str
    data: str
    ours: str
    rival: str
    measure: str
    threads: int
    our_value: float
    rival_value: float
    ratio: float


def rows_of_times(
    task: tuple[str, str, str],
    functions: dict[str, Callable],
    *arguments,
    repeat: int,
    threads: int,
) -> Iterator[Row]:
    """Yield a row for each rival; the first function is ours, `task` is comparison, data, ours."""
    found = turns(functions, *arguments, repeat=repeat)
    seconds = {name: c.seconds if threads == 1 else c.wall for name, c in found.items()}
    (ours, mine), *rivals = seconds.items()
    for rival, value in rivals:
        yield Row(*task, rival, "time", threads, mine, value, mine / value)
    assert ours == task[2]


# What is compared: functions of the data, ours first ---------------------------------------------


def images(n: int) -> np.ndarray:
    """Return digits in random order: the bundled ones are sorted by class."""
    X = load_dataset("mnist5k").X
    return X[np.random.default_rng(0).permutation(len(X))[:n]]


def kernel_pca(X):
    return KernelPCA(25, kernel="rbf", gamma=GAMMA, random_state=0).fit(X)


def kernel_pca_sklearn(X):
    return decomposition.KernelPCA(25, kernel="rbf", gamma=GAMMA, random_state=0).fit(X)


def kernel_pca_arpack(X):
    options = {"eigen_solver": "arpack", "random_state": 0}
    return decomposition.KernelPCA(25, kernel="rbf", gamma=GAMMA, **options).fit(X)


def kernel_matrix(X):
    return RBF(GAMMA)(X, X)


def there_and_back(KernelPCA, X):
    model = KernelPCA(25, kernel="rbf", gamma=GAMMA, fit_inverse_transform=True, random_state=0)
    return model.inverse_transform(model.fit_transform(X))


def there_and_back_ours(X):
    return there_and_back(KernelPCA, X)


def there_and_back_sklearn(X):
    return there_and_back(decomposition.KernelPCA, X)


def hebbian_pass(operator):
    gain, rng, n = make_gain("KHA/t", eta0=1), np.random.default_rng(0), operator.shape[0]
    state = start_state(operator, rng.standard_normal((50, n)) / np.sqrt(50 * n), gain)
    options = {"block_size": 128, "every_step": False}
    return bench_hebbian.last(run_pass(operator, state, gain, rng.permutation(n), **options))


def one_pass(X):
    return IncrementalKernelPCA(25, gamma=GAMMA, random_state=0).fit(X)


def all_kernel_values(X):
    return bench_hebbian.plain_sweep(KernelOperator(X, RBF(GAMMA)))


def one_linear_pass(X):
    model = IncrementalKernelPCA(25, kernel="linear", random_state=0)
    return model.fit(X).components_


def one_linear_pass_sklearn(X):
    return decomposition.IncrementalPCA(25).fit(X).components_


def pca_ours(X):
    return pca(X, 25)


def pca_exact(X):
    return decomposition.PCA(25, svd_solver="full").fit(X)


def pca_randomised(X):
    return decomposition.PCA(25, random_state=0).fit(X)


def of_kernel_pca(threads: int) -> Iterator[Row]:
    for n in SIZES:
        functions = {
            "KernelPCA": kernel_pca,
            "scikit-learn's KernelPCA, arpack": kernel_pca_arpack,
            LIMIT: kernel_matrix,
        }
        task, X = (KERNEL_PCA, f"{n} x 784 digits", "KernelPCA"), images(n)
        yield from rows_of_times(task, functions, X, repeat=3, threads=threads)
        functions = {"KernelPCA": kernel_pca, "scikit-learn's KernelPCA": kernel_pca_sklearn}
        yield from rows_of_times(task, functions, X, repeat=1, threads=threads)


def of_decoders(threads: int) -> Iterator[Row]:
    functions = {
        "KernelPCA": there_and_back_ours,
        "scikit-learn's KernelPCA": there_and_back_sklearn,
    }
    task = ("kernel PCA and a learned way back", "2000 x 784 digits", "KernelPCA")
    yield from rows_of_times(task, functions, images(2000), repeat=2, threads=threads)


def of_landmarks(threads: int) -> Iterator[Row]:
    functions = {
        "NystromKernelPCA": bench_nystrom.ours,
        "scikit-learn's Nystroem and PCA": bench_nystrom.theirs,
    }
    task = ("kernel PCA by 1000 landmarks", "5000 x 784 digits", "NystromKernelPCA")
    yield from rows_of_times(task, functions, images(5000), 1000, repeat=3, threads=threads)


def of_passes(threads: int) -> Iterator[Row]:
    operator = KernelOperator(images(5000), RBF(GAMMA))
    operator.means()  # kept, as the passes of a fit share them
    functions = {"KernelHebbian": hebbian_pass, SWEEP: bench_hebbian.plain_sweep}
    task = ("a pass of KHA/t, 50 components", "5000 x 784 digits", "KernelHebbian")
    yield from rows_of_times(task, functions, operator, repeat=3, threads=threads)


def of_pca(threads: int) -> Iterator[Row]:
    functions = {
        "pca": pca_ours,
        "scikit-learn's PCA, full": pca_exact,
        "scikit-learn's PCA, randomised": pca_randomised,
    }
    task = ("PCA, 25 components", "5000 x 784 digits", "pca")
    yield from rows_of_times(task, functions, images(5000), repeat=5, threads=threads)


def of_merges(threads: int) -> Iterator[Row]:
    """Yield one pass in blocks: against a sweep, and with the linear kernel against PCA's."""
    X, rival = images(5000), "scikit-learn's IncrementalPCA"
    ours = "IncrementalKernelPCA"
    task = ("kernel PCA in one pass, 25 components", "5000 x 784 digits", ours)
    functions = {ours: one_pass, SWEEP: all_kernel_values}
    yield from rows_of_times(task, functions, X, repeat=3, threads=threads)
    task = ("PCA in one pass, 25 components", "5000 x 784 digits", ours)
    functions = {ours: one_linear_pass, rival: one_linear_pass_sklearn}
    if threads == 1:
        centred = X - X.mean(axis=0)
        errors = [
            np.sum(centred**2) - np.sum((centred @ function(X).T) ** 2)
            for function in functions.values()
        ]
        yield Row(*task, rival, "error", 1, *errors, errors[0] / errors[1])
    yield from rows_of_times(task, functions, X, repeat=3, threads=threads)


def of_streams(threads: int) -> Iterator[Row]:
    X, rival = images(5000), "scikit-learn's IncrementalPCA"
    functions = {"GeneralizedHebbian": bench_gha.hebbian, rival: bench_gha.incremental}
    task = ("PCA of a stream in batches of 100, 10 components", "5000 x 784 digits")
    task = (*task, "GeneralizedHebbian")
    yield from rows_of_times(task, functions, X, 10, repeat=3, threads=threads)
    if threads == 1:
        exact = decomposition.PCA(10, svd_solver="full").fit(X)
        errors = [
            1 + bench_gha.quality(X, function(X, 10), exact)[0] for function in functions.values()
        ]
        yield Row(*task, rival, "error", 1, *errors, errors[0] / errors[1])


# Autoencoders in the same time ------------------------------------------------------------------


def of_autoencoders(threads: int) -> Iterator[Row]:
    """Yield ratios of held-out errors, where rivals get the CPU time of RidgeAutoencoder's fit."""
    if threads > 1:
        return
    for k in (10, 20):
        errors = np.median([autoencoder_errors(k, seed) for seed in range(3)], axis=0)
        task = (f"autoencoding in equal time, code of {k}", "3000 x 196 digits", "RidgeAutoencoder")
        rivals = ("akpca's Autoencoder", "scikit-learn's MLPRegressor", "PCA (in less time)")
        for rival, error in zip(rivals, errors[1:], strict=True):
            yield Row(*task, rival, "error", 1, errors[0], error, errors[0] / error)


def autoencoder_errors(k: int, seed: int) -> list[float]:
    """Return held-out errors of ours, a deep network, scikit-learn's network and PCA."""
    data = load_dataset("mnist5k").subsampled()
    train, test = balanced_split(data.y, 300, 200, random_state=seed)
    X, X_new = (scale_by_max_norm(data.X[part], reference=data.X[train]) for part in (train, test))
    start = time.process_time()
    model = RidgeAutoencoder(k, random_state=seed).fit(X)
    seconds = time.process_time() - start
    start = time.process_time()
    Autoencoder(k, n_epochs=3, random_state=seed).fit(X)
    n_epochs = max(1, round(seconds / (time.process_time() - start) * 3))
    network = Autoencoder(k, n_epochs=n_epochs, random_state=seed).fit(X)
    found = [m.inverse_transform(m.transform(X_new)) for m in (model, network)]
    found += [perceptron(X, X_new, k, seconds, seed), pca(X, k).reconstruct(X_new)]
    return [reconstruction_error(X_new, X_hat) for X_hat in found]


def perceptron(X, X_new, k: int, seconds: float, seed: int) -> np.ndarray:
    """Return what scikit-learn's network rebuilds after so many CPU seconds of training."""
    mean, scale = X.mean(axis=0), X.std()
    Z = (X - mean) / scale
    network = MLPRegressor(hidden_layer_sizes=(256, 64, k, 64, 256), random_state=seed)
    start = time.process_time()
    while time.process_time() - start < seconds:
        network.partial_fit(Z, Z)
    return mean + scale * network.predict((X_new - mean) / scale)


SECTIONS = [
    *(of_kernel_pca, of_decoders, of_landmarks, of_passes),
    *(of_pca, of_merges, of_streams, of_autoencoders),
]


# Running, writing, drawing ----------------------------------------------------------------------


def measure(threads: int) -> list[Row]:
    """Measure all sections with a number of BLAS threads."""
    rows = []
    with threadpool_limits(threads):
        for section in SECTIONS:
            for row in section(threads):
                print(line(row), flush=True)
                rows.append(row)
    return rows


def line(row: Row) -> str:
    task = f"{row.comparison}, {row.data}"
    return f"{row.threads}  {task:75s}{row.rival:34s}{row.measure:6s}{row.ratio:6.2f}"


def measure_apart(threads: int) -> list[Row]:
    """Measure in a new process, to whose libraries the number of threads is told at the start."""
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (threads,))


def processor() -> str:
    """Return the name of the processor, where the system tells it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((text.partition(":")[2].strip() for text in lines if "model name" in text), "")


def machine(load: str) -> dict[str, str]:
    """Return what results depend on."""
    about = {"processor": processor(), "cores": str(os.cpu_count()), "other work": load}
    return about | versions()


def write(path: Path, rows: list[dict]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read() -> list[Row]:
    """Return the rows of the table that was written last."""
    kinds = Row.__annotations__
    with (FOLDER / "summary.csv").open(encoding="utf-8", newline="") as file:
        return [
            Row(**{name: kinds[name](value) for name, value in row.items()})
            for row in csv.DictReader(file)
        ]


def draw(rows: list[Row], about: dict[str, str]) -> None:
    """Draw times against the number of samples, and below them all ratios."""
    plotting.use_style()
    # Below each other: beside each other, their letters would be too small for a page.
    fig, (upper, lower) = plt.subplots(2, 1, figsize=(9, 11), height_ratios=[4, 7])
    draw_times(rows, upper)
    draw_ratios(rows, lower)
    fig.supxlabel(" · ".join(f"{name} {value}" for name, value in about.items()), fontsize=6)
    fig.savefig(FOLDER / "summary.png", dpi=100)


def draw_times(rows: list[Row], ax) -> None:
    """Draw seconds of kernel PCA with one thread."""
    chosen = [row for row in rows if row.comparison == KERNEL_PCA and row.threads == 1]
    mine = [row.our_value for row in chosen if row.rival == LIMIT]
    curves = {"akpca's KernelPCA": mine}
    for row in chosen:
        curves.setdefault(row.rival, []).append(row.rival_value)
    for (name, values), color, marker in zip(curves.items(), COLORS, "os^x", strict=True):
        ax.plot(SIZES, values, color=color, marker=marker, label=name)
    ax.set(xscale="log", yscale="log", xlabel="samples", ylabel="CPU seconds, one thread")
    ax.set_title(KERNEL_PCA)
    plotting.plain_ticks(ax)
    ax.set_xticks(SIZES, [f"{n:,}" for n in SIZES])
    ax.minorticks_off()
    ax.legend()


def draw_ratios(rows: list[Row], ax) -> None:
    """Draw each ratio to a rival as a dot, with one and with two threads."""
    rows = [row for row in rows if row.comparison != KERNEL_PCA or f"{SIZES[-1]} x" in row.data]
    labels = list(dict.fromkeys(label(row) for row in rows))
    for threads, marker, shift in ((1, "o", -0.12), (2, "D", 0.12)):
        for measure_, color in (("time", COLORS[0]), ("error", COLORS[1])):
            chosen = [r for r in rows if (r.threads, r.measure) == (threads, measure_)]
            if chosen:
                heights = [labels.index(label(row)) + shift for row in chosen]
                text = f"{measure_}, {threads} thread{'s' * (threads > 1)}"
                style = {"color": color, "marker": marker, "linestyle": "none"}
                ax.plot([row.ratio for row in chosen], heights, label=text, **style)
    ax.axvline(1, color="black", linewidth=1)
    ax.set(xscale="log", xlabel="ours divided by the rival's: left of 1 is better")
    ax.set_yticks(range(len(labels)), labels, fontsize=8)
    ax.invert_yaxis()
    plotting.plain_ticks(ax)
    ticks = [tick for tick in (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5) if _within(tick, ax.get_xlim())]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.legend(loc="best", fontsize=8)


def _within(value: float, limits: tuple[float, float]) -> bool:
    return limits[0] <= value <= limits[1]


def label(row: Row) -> str:
    return f"{row.comparison}\n{row.ours} against {row.rival}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draw", action="store_true", help="draw the last table again")
    if not parser.parse_args().draw:
        about = machine(load_average())
        rows = [asdict(row) for threads in THREADS for row in measure_apart(threads)]
        FOLDER.mkdir(exist_ok=True)
        write(FOLDER / "summary.csv", rows)
        items = [{"name": name, "value": value} for name, value in about.items()]
        write(FOLDER / "machine.csv", items)
    with (FOLDER / "machine.csv").open(encoding="utf-8", newline="") as file:
        about = {row["name"]: row["value"] for row in csv.DictReader(file)}
    draw(read(), about)
    print(f"Written to {FOLDER}. The README's table: python notebooks/readme.py")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
