"""Where ARPACK overtakes LAPACK: the table behind `akpca.eigen.leading_eigenpairs`."""

import sys
import time

import measure
import numpy as np

from akpca import load_dataset
from akpca.eigen import leading_eigenpairs
from akpca.kernels import RBF


def seconds(K: np.ndarray, k: int, solver: str, repeat: int) -> float:
    times = []
    for _ in range(repeat):
        start = time.process_time()
        leading_eigenpairs(K, k, solver=solver, random_state=0)
        times.append(time.process_time() - start)
    return min(times)


def main() -> int:
    digits = load_dataset("digits").X
    print(f"8x8 digits, RBF kernel, float64, one thread, {measure.load_average()}")
    print(f"{'n':>6s}{'k':>6s}{'n / k':>7s}{'dense ms':>10s}{'arpack ms':>11s}  choice  regret")
    for n in (100, 300, 500, 1000, 1797):
        K = RBF(gamma=0.05)(digits[:n])
        for k in sorted({2, 10, n // 32, n // 16, n // 8, n // 4}):
            cost = {s: seconds(K, k, s, 3 if n < 1500 else 1) for s in ("dense", "arpack")}
            choice = leading_eigenpairs(K, k, random_state=0)[2]
            regret = cost[choice] / min(cost.values())
            dense, arpack = (1e3 * cost[s] for s in ("dense", "arpack"))
            row = f"{n:6d}{k:6d}{n / k:7.0f}{dense:10.1f}{arpack:11.1f}"
            print(f"{row}  {choice:7s}{regret:6.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
