"""BLAS threads: all of them for large products, one for loops over small matrices.

Threads that share a small product must wait for each other after each call. That costs nothing on
a quiet machine; beside another busy process, a thread waits until the scheduler runs the other one,
and a loop over small matrices takes several times as long as with one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from operator import attrgetter
from threading import Lock

import numpy as np
from threadpoolctl import LibController, ThreadpoolController

__all__ = ["LARGE_PRODUCT", "blas_threads", "matmul", "one_blas_thread", "run_in_threads"]

# Floating-point operations of a product, some 6 ms of work, above which several threads are nearly
# twice as fast on a quiet machine and lose little beside another busy process.
LARGE_PRODUCT = 2e8


# Limits that hold, of all threads of the process, and what BLAS had before the first of them.
_lock, _limits, _before = Lock(), set(), []


@cache
def _libraries() -> list[LibController]:
    """Return the loaded BLAS libraries; looking for them takes milliseconds."""
    return ThreadpoolController().select(user_api="blas").lib_controllers


def _set_threads(library: LibController, number: int) -> None:
    # by itself, threadpoolctl 3.8 ignores all threads but the first that has set a limit
    getattr(library, "_real_set_num_threads", library.set_num_threads)(number)


@contextmanager
def one_blas_thread(flops: float = 0.0) -> Iterator[None]:
    """Limit BLAS to one thread, for a loop over small matrices; this takes microseconds.

    There is no limit if a typical product in the loop takes `LARGE_PRODUCT` flops or more. Where
    the number is that of the whole process, it is one until the last thread has left its loop.
    """
    limit, changed = object(), []
    try:
        if flops < LARGE_PRODUCT:
            with _lock:
                _limits.add(limit)
                for library in _libraries():
                    if (number := library.num_threads) > 1:
                        own = getattr(library, "threading_layer", None) == "openmp"
                        (changed if own else _before).append((library, number))
                        _set_threads(library, 1)
        yield
    finally:
        with _lock:
            _limits.discard(limit)
            if not _limits:
                changed += _before
                _before.clear()
            for library, number in changed:
                _set_threads(library, number)


def matmul(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return A @ B, for products that may be small and come one after another."""
    with one_blas_thread(flops=2.0 * A.size * B.shape[-1]):
        return A @ B


def blas_threads() -> int:
    """Return the number of threads that a matrix product may use at the moment."""
    return max(map(attrgetter("num_threads"), _libraries()), default=1)


def run_in_threads(work: Callable, tasks: list, flops: float) -> None:
    """Call ``work(task)`` for all tasks, which take so many flops together.

    If they are worth it, there are as many threads as BLAS would have, with one BLAS thread each.
    A thread that is done takes the next task, so that none waits for one that another process
    holds up, and element-wise functions run in parallel as well.
    """
    n_threads = min(blas_threads(), len(tasks)) if flops >= LARGE_PRODUCT else 1
    with one_blas_thread(flops if len(tasks) == 1 else 0.0):
        if n_threads == 1:
            for task in tasks:
                work(task)
            return
        with ThreadPoolExecutor(n_threads) as pool:
            futures = [pool.submit(work, task) for task in tasks]
            try:
                for future in futures:
                    future.result()
            except BaseException:  # an error, or the user's interrupt
                pool.shutdown(wait=False, cancel_futures=True)
                raise
