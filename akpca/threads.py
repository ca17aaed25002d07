"""BLAS threads: all of them for large products, one for loops over small matrices.

Threads that share a small product must wait for each other after each call. That costs nothing on
a quiet machine; beside another busy process, a thread waits until the other one gets its turn, and
a loop over small matrices takes several times as long as with one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

# Floating-point operations of a product, some 20 ms of work, from which on several threads pay
# even if they have to wait for a turn of another process.
LARGE_PRODUCT = 5e8


@cache
def _controller() -> ThreadpoolController:
    """Return the controller of the loaded BLAS libraries; looking for them takes milliseconds."""
    return ThreadpoolController()


@contextmanager
def one_blas_thread(flops: float = 0.0) -> Iterator[None]:
    """Limit BLAS to one thread, for a loop over small matrices.

    Parameters
    ----------
    flops : float, default=0.0
        Floating-point operations of a typical product in the loop. From `LARGE_PRODUCT` on there
        is no limit.
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
