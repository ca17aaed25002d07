"""Measure time and memory (on Linux), each run in a process of its own, by default on one thread.

A benchmark is a script ``bench_*.py`` that prints *ratios* against a named peer, measured in the
same run: seconds depend on the machine and its load, ratios much less.
"""

import multiprocessing
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
threadpool_limits(1)  # this process; its children are told by the environment


@dataclass
class Cost:
    """CPU and wall seconds, extra peak memory in bytes, and the result of one call."""

    seconds: float
    wall: float
    memory: int
    result: object = None


def _child(pipe, function, arguments):
    function(*[_small(argument) for argument in arguments])  # imports and first-call costs
    # getrusage's maximum is inherited from the parent process; Linux lets us start it anew
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    start, wall = time.process_time(), time.perf_counter()
    result = function(*arguments)
    seconds, wall = time.process_time() - start, time.perf_counter() - wall
    pipe.send(Cost(seconds, wall, _status("VmHWM") - before, result))


def _status(field: str) -> int:
    """Return a memory field of this process in bytes."""
    (line,) = re.findall(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return 1024 * int(line)


def _small(argument):
    return argument[:50] if isinstance(argument, np.ndarray) else argument


def costs(
    functions: dict[str, Callable], *arguments, repeat: int = 5, threads: int = 1
) -> dict[str, Cost]:
    """Return the least times and the least extra peak memory of each function.

    The functions take turns, each call in a fresh process, so that a busy moment of the machine
    does not fall on one of them alone.

    Parameters
    ----------
    functions : dict of str to callable
        Functions of the top level of a module. Each is called once on the first 50 rows of its
        array arguments before it is measured.
    *arguments : object
        Passed to every function.
    repeat : int, default=5
        Number of turns.
    threads : int, default=1
        BLAS threads.
    """
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    context = multiprocessing.get_context("spawn")
    measured: dict[str, list[Cost]] = {name: [] for name in functions}
    for _ in range(repeat):
        for name, function in functions.items():
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_child, args=(sender, function, arguments))
            process.start()
            sender.close()
            measured[name].append(receiver.recv())
            process.join()
    return {
        name: Cost(
            min(c.seconds for c in runs),
            min(c.wall for c in runs),
            min(c.memory for c in runs),
            runs[0].result,
        )
        for name, runs in measured.items()
    }


def turns(functions: dict[str, Callable], *arguments, repeat: int = 3) -> dict[str, Cost]:
    """Return the least times of each function, measured in this process.

    Quicker than `costs`, whose processes take seconds to start, and blind to memory: the extra
    peak is given as 0. The functions take turns, after one call each that is not measured on the
    first 50 rows.
    """
    for function in functions.values():
        function(*[_small(argument) for argument in arguments])
    best: dict[str, Cost] = {}
    for _ in range(repeat):
        for name, function in functions.items():
            start, wall = time.process_time(), time.perf_counter()
            result = function(*arguments)
            seconds, wall = time.process_time() - start, time.perf_counter() - wall
            old = best.get(name, Cost(seconds, wall, 0))
            best[name] = Cost(min(seconds, old.seconds), min(wall, old.wall), 0, result)
    return best


def verdict(holds: bool) -> str:
    """Return a word for a table."""
    return "ok" if holds else "MISSED"


def load_average() -> str:
    """Return the machine's load, to be printed beside every result."""
    return "load average " + " ".join(f"{load:.1f}" for load in os.getloadavg())
