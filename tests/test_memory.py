"""Peak memory: what the docstrings promise, measured in processes of their own.

Sizes are such that what must not be formed, such as an n x n matrix, would be many times the limit.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = [pytest.mark.slow, pytest.mark.once]
# Bytes that a process may take for other things, such as the work space of a library.
ALLOWANCE = 60e6
# A small first call loads what is loaded only once. Each size has a process of its own, forked,
# since a peak is that of the whole life of a process.
SCRIPT = """
import json, os, resource, sys
import numpy as np
from akpca import AKPCA, IncrementalKernelPCA, KernelHebbian, KernelOperator, KernelPCA
from akpca import NystromKernelPCA, relative_error
from akpca.kernels import RBF

def peak():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

rng, (call, *sizes) = np.random.default_rng(0), sys.argv[1:]
for number in ["600", *sizes]:
    child = number in sizes and os.fork()
    if not child:
        n = int(number)
        X = rng.random((n, 10))
        before = peak()
        exec(call)
        if number in sizes:
            print(json.dumps(peak() - before), flush=True)
            os._exit(0)
    else:
        assert os.waitpid(child, 0)[1] == 0
"""
# What is measured, two sizes, the documented number of bytes.
CASES = [
    ("KernelPCA(kernel='linear').fit(X)", (20_000, 300_000), lambda n: 8 * n * (4 * 10 + 6 * 10)),
    (
        "KernelPCA(5, kernel='rbf').fit(X[:500]).transform(X)",
        (20_000, 150_000),
        lambda n: 8 * (n * 5 + 4 * 512 * 500),
    ),
    (
        "NystromKernelPCA(5, n_landmarks=n // 60, random_state=0).fit(X)",
        (12_000, 48_000),
        lambda n: 8 * 10 * (n // 60) ** 2,
    ),
    ("KernelOperator(X, RBF(1.0)) @ X", (4000, 16_000), lambda n: 8 * 2 * (2**20 + 4 * n * 11)),
    (
        "KernelHebbian(5, n_passes=1, memory_limit=0, random_state=0).fit(X)",
        (3000, 9000),
        lambda n: 8 * n * (9 * 96 + 10 * 5),
    ),
    (
        "IncrementalKernelPCA(5, random_state=0).fit(X)",
        (3000, 9000),
        lambda n: 8 * (n * (3 * 105 + 10) + 2**19),
    ),
    (
        "IncrementalKernelPCA(5, budget=200, n_kept=20, shuffle=False).fit(X)",
        (3000, 30_000),
        lambda n: 8 * (n * 10 + 10 * 200**2),
    ),
    ("AKPCA(3, n_epochs=1, random_state=0).fit(X)", (5000, 20_000), lambda n: 8 * n * 4 * 10),
    ("relative_error(X, X)", (20_000, 500_000), lambda n: 3 * 8 * 2**20 + 8 * n),
]


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has other units elsewhere")
@pytest.mark.parametrize(("call", "sizes", "formula"), CASES)
def test_peak_memory_is_as_documented(call, sizes, formula):
    """The peak is at most the documented formula, at two sizes, and grows no faster than it."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SCRIPT, call, *map(str, sizes)]
    run = subprocess.run(command, capture_output=True, text=True, env=variables)
    assert run.returncode == 0, run.stderr
    small, large = (json.loads(line) for line in run.stdout.split())
    expected = [formula(n) for n in sizes]
    assert small <= 1.3 * expected[0] + ALLOWANCE
    assert large <= 1.3 * expected[1] + ALLOWANCE
    assert large - small <= 1.3 * (expected[1] - expected[0]) + ALLOWANCE / 2
