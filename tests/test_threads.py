"""BLAS threads: one inside loops over small matrices, all of them elsewhere."""

import pytest
from threadpoolctl import threadpool_limits

from akpca.threads import LARGE_PRODUCT, blas_threads, one_blas_thread


@pytest.fixture(autouse=True)
def three_threads():
    """Let BLAS have three threads, whatever the machine has."""
    with threadpool_limits(3, user_api="blas"):
        yield


def test_one_thread_inside_and_as_before_afterwards():
    """The limit holds inside, also of one limit within another, and ends with the block."""
    with one_blas_thread():
        assert blas_threads() == 1
        with one_blas_thread():
            assert blas_threads() == 1
        assert blas_threads() == 1
    assert blas_threads() == 3


def test_the_limit_ends_with_an_error():
    """What goes wrong inside does not leave the process with one thread."""
    with pytest.raises(KeyError), one_blas_thread():
        raise KeyError
    assert blas_threads() == 3


def test_large_products_keep_all_threads():
    """From LARGE_PRODUCT flops on there is no limit."""
    with one_blas_thread(flops=LARGE_PRODUCT):
        assert blas_threads() == 3
    with one_blas_thread(flops=LARGE_PRODUCT / 2):
        assert blas_threads() == 1
