"""BLAS threads: all of them for large products, one for loops over small matrices.

Threads that share a small product must wait for each other after each call. That costs nothing on
a quiet machine; beside another busy process, a thread waits until the scheduler runs the other one,
and a loop over small matrices takes several times as long as with one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

# Floating-point operations of a product, some 20 ms of work, above which several threads are faster
# even beside another busy process.
LARGE_PRODUCT = 5e8


@cache
def _controller() -> ThreadpoolController:
    """Return the controller of the loaded BLAS libraries; looking for them takes milliseconds."""
    return ThreadpoolController()


@contextmanager
def one_blas_thread(flops: float = 0.0) -> Iterator[None]:
    """Limit BLAS to one thread, for a loop over small matrices.

    There is no limit if a typical product in the loop takes `LARGE_PRODUCT` or more `flops`.
    """
    if flops >= LARGE_PRODUCT:
        yield
        return
    with _controller().limit(limits=1, user_api="blas"):
        yield


def blas_threads() -> int:
    """Return the number of threads that a matrix product may use at the moment."""
    pools = (pool["num_threads"] for pool in _controller().info() if pool["user_api"] == "blas")
    return max(pools, default=1)
