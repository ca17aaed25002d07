"""One and two BLAS threads, on a quiet machine and beside a busy process, for every estimator.

Threads that wait for each other over small matrices lose time whenever another process has a core;
people's machines are busy. Wall seconds, median of several rounds in which all cases take turns;
the ratios are two threads over one under the same conditions. Run it on a machine with two cores
and nothing else to do:

    python benchmarks/bench_threads.py             # all estimators
    python benchmarks/bench_threads.py AKPCA       # one of them
    python benchmarks/bench_threads.py notebooks   # chapters 03 and 06 by papermill
"""

import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

from measure import THREAD_VARIABLES, load_average, verdict
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import akpca
from akpca import load_dataset

ROUNDS, NOTEBOOK_ROUNDS = 5, 2
# Short fits are repeated for so many seconds.
SHORTEST = 1.0
BUSY_LIMIT = 1.3
NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"

ESTIMATORS = {
    "KernelPCA": {"n_components": 10, "kernel": "rbf"},
    "NystromKernelPCA": {"n_components": 10, "kernel": "rbf", "n_landmarks": 300},
    "GeneralizedHebbian": {"n_components": 10},
    "KernelHebbian": {"n_components": 10},
    "AKPCA": {"n_components": 10, "n_epochs": 3},
    "DataSpanAKPCA": {"n_components": 10, "n_epochs": 3, "n_landmarks": 500},
    "RidgeAutoencoder": {"n_components": 10, "n_rounds": 3},
}


def samples(name: str):
    """Return the data set called `name`, after its size."""
    if name == "569 x 30":
        return StandardScaler().fit_transform(load_breast_cancer().data)
    if name == "500 x 64":
        return load_dataset("digits").X[:500] / 16
    return load_dataset("mnist5k").subsampled().X[:3000] / 255


SAMPLES = ("569 x 30", "500 x 64", "3000 x 196")


def worker(pipe) -> None:
    """Answer each (estimator, data) with the wall seconds of a fit, until there are no more."""
    warnings.simplefilter("ignore")
    while (task := pipe.recv()) is not None:
        estimator, data = task
        cls = getattr(akpca, estimator.split(",")[0])
        model, X = cls(random_state=0, **ESTIMATORS[estimator]), samples(data)
        fits, start = 0, time.perf_counter()
        while not fits or time.perf_counter() - start < SHORTEST:
            model.fit(X)
            fits += 1
        pipe.send((time.perf_counter() - start) / fits)


class Workers:
    """A process for each number of BLAS threads, which measures on request."""

    def __enter__(self):
        context = multiprocessing.get_context("spawn")
        self.pipes = {}
        for threads in (1, 2):
            os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
            self.pipes[threads], theirs = context.Pipe()
            context.Process(target=worker, args=(theirs,), daemon=True).start()
        return self

    def __exit__(self, *_):
        for pipe in self.pipes.values():
            pipe.send(None)

    def seconds(self, threads: int, *task: str) -> float:
        """Return the wall seconds of a fit with so many BLAS threads."""
        self.pipes[threads].send(task)
        return self.pipes[threads].recv()


def notebook_seconds(threads: int, chapter: str) -> float:
    """Return the wall seconds of a chapter by plain papermill."""
    (path,) = NOTEBOOKS.glob(f"{chapter}_*.ipynb")
    variables = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads))}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "papermill", str(path), f"{folder}/out.ipynb"]
        start = time.perf_counter()
        subprocess.run(
            [*command, "--no-progress-bar"], check=True, capture_output=True, env=variables
        )
        return time.perf_counter() - start


class Busy:
    """A process that keeps one core busy."""

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, "-c", "while True: pass"])

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def compare(title: str, seconds, rounds: int, *task: str) -> bool:
    """Print a row: seconds with one thread, and ratios of two over one, quiet and busy."""
    measured: dict[tuple[str, int], list[float]] = {}
    for _ in range(rounds):
        for threads in (1, 2):
            measured.setdefault(("quiet", threads), []).append(seconds(threads, *task))
            with Busy():
                measured.setdefault(("busy", threads), []).append(seconds(threads, *task))
    median = {case: statistics.median(values) for case, values in measured.items()}
    quiet = median["quiet", 2] / median["quiet", 1]
    busy = median["busy", 2] / median["busy", 1]
    row = f"{title:<32}{median['quiet', 1]:>10.3f}{quiet:>9.2f}{median['busy', 1]:>10.3f}"
    print(f"{row}{busy:>9.2f}  {verdict(busy <= BUSY_LIMIT)}", flush=True)
    return busy <= BUSY_LIMIT


def main() -> int:
    """Print the table; return whether a ratio was missed."""
    names = sys.argv[1:] or list(ESTIMATORS)
    print(f"wall seconds, {load_average()}")
    print(f"{'':<32}{'quiet, 1':>10}{'2 / 1':>9}{'busy, 1':>10}{'2 / 1':>9}  at most {BUSY_LIMIT}")
    held = []
    with Workers() as workers:
        for name in names:
            if name == "notebooks":
                for chapter in ("03", "06"):
                    title = f"chapter {chapter} by papermill"
                    held.append(compare(title, notebook_seconds, NOTEBOOK_ROUNDS, chapter))
                continue
            for data in SAMPLES:
                workers.seconds(1, name, data), workers.seconds(2, name, data)  # compiles
                held.append(compare(f"{name}, {data}", workers.seconds, ROUNDS, name, data))
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main())
