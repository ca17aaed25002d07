"""BLAS threads: one inside loops over small matrices, all of them elsewhere."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from threadpoolctl import threadpool_limits

from akpca.threads import LARGE_PRODUCT, blas_threads, one_blas_thread, run_in_threads


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


def test_limits_of_several_threads_hold_until_the_last_ends():
    """Whatever thread sets a limit, it holds, also if one of another thread ends before it."""
    limits = [one_blas_thread() for _ in range(2)]
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        for pool, limit in zip((one, other), limits, strict=True):
            pool.submit(limit.__enter__).result()
            assert blas_threads() == 1
        one.submit(limits[0].__exit__, None, None, None).result()
        assert other.submit(blas_threads).result() == 1
        other.submit(limits[1].__exit__, None, None, None).result()
    assert blas_threads() == 3


def test_large_products_keep_all_threads():
    """From LARGE_PRODUCT flops on there is no limit."""
    with one_blas_thread(flops=LARGE_PRODUCT):
        assert blas_threads() == 3
    with one_blas_thread(flops=LARGE_PRODUCT / 2):
        assert blas_threads() == 1


@pytest.mark.parametrize("flops", [0.0, LARGE_PRODUCT])
def test_all_tasks_are_done_with_one_blas_thread_each(flops):
    """In one thread or several, each task is done once; then BLAS has its threads back."""
    done = []
    run_in_threads(lambda task: done.append((task, blas_threads())), list(range(7)), flops)
    assert sorted(done) == [(task, 1) for task in range(7)]
    assert blas_threads() == 3


def test_one_large_task_keeps_all_blas_threads():
    """A single task leaves the threads to its own products."""
    seen = []
    run_in_threads(lambda task: seen.append(blas_threads()), [0], LARGE_PRODUCT)
    assert seen == [3]


def test_an_error_in_a_task_reaches_the_caller_and_ends_the_rest():
    """What goes wrong in a thread is raised here, and tasks that wait are dropped."""
    started = []

    def work(task):
        started.append(task)
        time.sleep(0.02)
        if task == 1:
            raise KeyError(task)

    with pytest.raises(KeyError):
        run_in_threads(work, list(range(100)), LARGE_PRODUCT)
    assert len(started) < 50
    assert blas_threads() == 3
