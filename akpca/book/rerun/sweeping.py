"""All combinations of some parameters: many runs, one table and one figure.

The runs are those of `running`, each whole or not at all, and each in a file that its parameters
name. So a sweep that was killed goes on where it was: what is there is done. They run in a pool of
processes on this machine, or on a dask cluster that sees the same files.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, Any

from akpca.book.rerun.results import run_of, to_frame
from akpca.book.rerun.running import Outcome, Task, output_name, run_task
from akpca.book.rerun.values import UsageError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["collect", "grid_tasks", "run_local", "run_on_cluster", "write_whole"]

CONNECT_SECONDS = 5
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def grid_tasks(notebook: Path, grid: Mapping[str, Sequence[Any]], out: Path) -> list[Task]:
    """Return a task for each combination of values; the last parameter changes fastest."""
    tasks = []
    for values in itertools.product(*grid.values()):
        chosen = dict(zip(grid, values, strict=True))
        output = out.resolve() / output_name(notebook, chosen)
        tasks.append(Task(notebook, output, chosen, Path.cwd()))
    return tasks


def run_local(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[Task, Outcome]]:
    """Run tasks in so many processes, and yield each with its outcome as soon as it is done."""
    # Papermill changes the working directory of its process: no threads. And a forked process
    # would hold the pipes by which its siblings notice the end of their parent: spawned ones.
    spawn = multiprocessing.get_context("spawn")
    # One BLAS thread for each process, since the processes share the cores, and since the last
    # digits of a result depend on the number of threads. What a user has set stays.
    for variable in THREAD_VARIABLES:
        os.environ.setdefault(variable, "1")
    with ProcessPoolExecutor(min(jobs, max(len(tasks), 1)), spawn, _start_worker) as pool:
        try:
            futures = {pool.submit(run_task, task): task for task in tasks}
            for future in as_completed(futures):
                yield futures[future], _outcome(futures[future], future.result)
        except BaseException:
            # Killed, not asked: workers would go on with their notebook. Kernels end with them.
            for worker in multiprocessing.active_children():
                worker.kill()
            raise


def _start_worker() -> None:
    """Let a worker end with its parent, and only with it."""
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
    # Ctrl-C reaches all processes of a terminal: the parent answers it. Not SIG_IGN, which the
    # kernels would inherit.
    signal.signal(signal.SIGINT, lambda *_: None)


def run_on_cluster(tasks: Sequence[Task], scheduler: str) -> Iterator[tuple[Task, Outcome]]:
    """Run tasks on the dask cluster with a scheduler at this address, as `run_local` does.

    The workers must see the files under the same paths, and have akpca installed.
    """
    try:
        from distributed import Client, as_completed

        client = Client(scheduler, timeout=CONNECT_SECONDS)
    except ImportError as error:
        message = f'{error.name} is not installed: pip install "akpca[distributed]"'
        raise UsageError(message) from error
    except (OSError, ValueError) as error:  # a TimeoutError is an OSError
        raise UsageError(f"no dask scheduler answers at {scheduler}: {error}") from error
    with client:
        futures = client.map(run_task, tasks, pure=False, retries=0)
        by_key = {future.key: task for future, task in zip(futures, tasks, strict=True)}
        for future in as_completed(futures):
            yield by_key[future.key], _outcome(by_key[future.key], future.result)


def _outcome(task: Task, result: Callable[[], Outcome]) -> Outcome:
    """Return an outcome, also for a run whose process has died."""
    try:
        return result()
    except BrokenProcessPool as error:
        return Outcome(task.output, 0.0, f"a process died: {error}")
    except Exception as error:  # dask has its own names for a worker that was lost
        return Outcome(task.output, 0.0, f"{type(error).__name__}: {error}")


def collect(tasks: Sequence[Task]) -> pd.DataFrame:
    """Return the results of those tasks that are done, in their order."""
    rows = {task.output.name: run_of(task.output) for task in tasks if task.output.is_file()}
    return to_frame({name: row for name, row in rows.items() if row is not None})


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` make a file, which takes its place only when it is complete."""
    scratch = path.with_name(f".{path.stem}~{os.getpid()}{path.suffix}")
    try:
        write(scratch)
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)
