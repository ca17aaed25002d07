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
pytestmark = pytest.mark.once
# Bytes that a process may take for other things, such as the work space of a library.
ALLOWANCE = 60e6
# A small first call loads what is loaded only once. Each size has a process of its own, forked,
# since a peak is that of the whole life of a process.
SCRIPT = """
import json, os, resource, sys
import numpy as np
from akpca import AKPCA, IncrementalKernelPCA, KernelHebbian, KernelOperator, KernelPCA
from akpca import NystromKernelPCA
from akpca import relative_error
from akpca.kernels import RBF
from akpca.preimage import RidgePreimage

def peak():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

rng, (setup, call, *sizes) = np.random.default_rng(0), sys.argv[1:]
for number in ["600", *sizes]:
    child = number in sizes and os.fork()
    if not child:
        n = int(number)
        exec(setup)
        before = peak()
        exec(call)
        if number in sizes:
            print(json.dumps(peak() - before), flush=True)
            os._exit(0)
    else:
        assert os.waitpid(child, 0)[1] == 0
"""
SAMPLES = "X = rng.random((n, 10))"
# For each case: what is prepared, what is measured, two sizes, the documented number of bytes.
CASES = {
    "KernelPCA, krylov": (
        SAMPLES,
        "KernelPCA(10, kernel='rbf', eigen_solver='krylov', tol=0.1, random_state=0).fit(X)",
        (4000, 12000),
        lambda n: 8 * n * (35 * 25 + 2 * 10) + 2 * 8 * min(2000, n // 4) ** 2,
    ),
    "KernelPCA, features": (
        SAMPLES,
        "KernelPCA(kernel='linear').fit(X)",
        (20_000, 300_000),
        lambda n: 8 * n * (4 * 10 + 6 * 10),
    ),
    "KernelPCA.transform": (
        SAMPLES + "; model = KernelPCA(5, kernel='rbf').fit(X[:500])",
        "model.transform(X)",
        (20_000, 150_000),
        lambda n: 8 * (n * 5 + 4 * 512 * 500),
    ),
    "NystromKernelPCA.fit": (
        SAMPLES,
        "NystromKernelPCA(5, n_landmarks=n // 60, random_state=0).fit(X)",
        (12_000, 48_000),
        lambda n: 8 * 10 * (n // 60) ** 2,
    ),
    "learned inverse": (
        SAMPLES,
        "RidgePreimage('rbf', memory_limit=4e7).fit_pairs(X[:, :5], X)",
        (4000, 16_000),
        lambda n: 4e7 + 8 * n * (5 + 2 * 10),
    ),
    "operator": (
        SAMPLES,
        "KernelOperator(X, RBF(1.0)) @ X",
        (4000, 16_000),
        lambda n: 8 * 2 * (2**20 + 4 * n * 11),
    ),
    "KernelHebbian": (
        SAMPLES,
        "KernelHebbian(5, n_passes=1, memory_limit=0, random_state=0).fit(X)",
        (3000, 9000),
        lambda n: 8 * n * (9 * 96 + 10 * 5),
    ),
    "IncrementalKernelPCA": (
        SAMPLES,
        "IncrementalKernelPCA(5, random_state=0).fit(X)",
        (3000, 9000),
        lambda n: 8 * (n * (3 * 105 + 10) + 2**19),
    ),
    "IncrementalKernelPCA, budget": (
        SAMPLES,
        "IncrementalKernelPCA(5, budget=200, n_kept=20, shuffle=False).fit(X)",
        (3000, 30_000),
        lambda n: 8 * (n * 10 + 10 * 200**2),
    ),
    "AKPCA, eigenvector": (
        SAMPLES,
        "AKPCA(3, decoder='eigenvector', n_epochs=1, random_state=0).fit(X)",
        (5000, 20_000),
        lambda n: 8 * n * 4 * 10,
    ),
    "AKPCA, ridge": (
        SAMPLES,
        "AKPCA(3, decoder='ridge', n_epochs=1, random_state=0).fit(X)",
        (5000, 30_000),
        lambda n: 4 * (3 * n * 11 + (6 * 11 + 8000) * max(1000, n // 10)) + 16 * (n // 10) ** 2,
    ),
    "metrics": (
        "X = rng.integers(0, 255, (n, 100), dtype=np.uint8)",
        "relative_error(X, X)",
        (20_000, 500_000),
        lambda n: 3 * 8 * 2**20 + 8 * n,
    ),
}


def measured(setup, call, sizes):
    """Return the increase of the resident set by a call, in bytes, for each size."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SCRIPT, setup, call, *map(str, sizes)]
    run = subprocess.run(command, capture_output=True, text=True, env=variables)
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.split()]


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has other units elsewhere")
@pytest.mark.parametrize("case", CASES)
def test_peak_memory_is_as_documented(case):
    """The peak is at most the documented formula, at two sizes, and grows no faster than it."""
    setup, call, sizes, formula = CASES[case]
    small, large = measured(setup, call, sizes)
    expected = [formula(n) for n in sizes]
    assert small <= 1.3 * expected[0] + ALLOWANCE
    assert large <= 1.3 * expected[1] + ALLOWANCE
    assert large - small <= 1.3 * (expected[1] - expected[0]) + ALLOWANCE / 2
