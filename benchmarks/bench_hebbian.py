"""Passes of the kernel Hebbian family, in blocks, against one sample at a time and a kernel sweep.

First the kernel matrix in memory: seconds a step, against a lean loop over samples (buffers used
again, no avoidable temporaries). Then all digits of MNIST with the kernel computed on the fly
(with AKPCA_DATA; else the bundled 5,000): one pass of every variant against a plain sweep over the
same kernel values. Name sections as arguments to run only those: memory, sweep.
"""

import os
import resource
import sys
import time
from collections import deque

import numpy as np
from measure import load_average, verdict
from sklearn.utils import gen_batches
from threadpoolctl import threadpool_limits

from akpca import load_dataset
from akpca.hebbian import make_gain
from akpca.hebbian.kernel import run_pass, start_state
from akpca.kernels import RBF
from akpca.operators import KernelOperator, MatrixOperator

VARIANTS = ("KHA/t", "KHA/et*", "KHA-SMD*", "KHA/et", "KHA-SMD")


def lean_annealed(K: np.ndarray, A: np.ndarray, order: np.ndarray, eta0: float) -> np.ndarray:
    """KHA/t with tau = l, one sample at a time."""
    r, n = A.shape
    triangle, buffer = np.tril(np.ones((r, r))), np.empty_like(A)
    for t, p in enumerate(order, start=1):
        eta = eta0 * n / (t + n)
        y = A @ K[p]
        L = np.multiply.outer(eta * y, y)
        L *= triangle
        A -= np.matmul(L, A, out=buffer)
        A[:, p] += eta * y
    return A


def lean_meta_descent(K: np.ndarray, A: np.ndarray, order: np.ndarray, eta0: float, mu: float):
    """KHA-SMD with eigenvalues at every step, one sample at a time, A K' kept by (34)."""
    (r, n), xi = A.shape, 0.99
    S = np.concatenate([A, np.zeros_like(A)])
    A, B = S[:r], S[r:]
    AK, rho = A @ K, np.zeros(r)
    triangle, buffer, GK = np.tril(np.ones((r, r))), np.empty_like(A), np.empty_like(A)
    for t, p in enumerate(order, start=1):
        values = np.sqrt(np.einsum("ij,ij->i", AK, AK) / np.einsum("ij,ij->i", A, A))
        eta = np.linalg.norm(values) / values * n / (t + n) * eta0
        s = S @ K[p]
        y, z = s[:r], s[r:]
        L = np.multiply.outer(y, y)
        L *= triangle
        np.matmul(-L, AK, out=GK)
        GK += np.multiply.outer(y, K[p], out=buffer)
        rho += mu * np.einsum("ij,ij->i", GK, B)
        d = np.exp(rho) * eta
        N = np.multiply.outer(z, y)
        N += N.T
        N *= triangle
        L *= d[:, None]
        B -= np.matmul(L, B, out=buffer)
        B *= xi
        B -= np.matmul(L + xi * d[:, None] * N, A, out=buffer)
        B[:, p] += d * (y + xi * z)
        GK *= d[:, None]
        AK += GK
        A -= np.matmul(L, A, out=buffer)
        A[:, p] += d * y
    return A


def last(states):
    """Return the last of some states, of which no other is kept."""
    return deque(states, maxlen=1).pop()


def in_memory() -> bool:
    good = True
    data = load_dataset("mnist" if os.environ.get("AKPCA_DATA") else "mnist5k")
    for n, r in ((5000, 16), (10000, 50)):
        if n > len(data.X):
            continue
        X = data.X[np.random.default_rng(0).permutation(len(data.X))[:n]].astype(np.float64)
        K = KernelOperator(X / X.max(), RBF(gamma=0.005)).dense()
        rng = np.random.default_rng(0)
        A, order = rng.standard_normal((r, n)) / np.sqrt(r * n), rng.permutation(n)
        for name, lean, values in (
            ("KHA/t", lean_annealed, dict(eta0=1.0)),
            ("KHA-SMD", lean_meta_descent, dict(eta0=0.05, mu=0.01)),
        ):
            gain, every_step = make_gain(name, **values), name == "KHA-SMD"
            operator, block_size = MatrixOperator(K), 96 if r <= 32 else 128
            options = dict(block_size=block_size, every_step=every_step)
            few = order[:512]
            blocks = last(
                run_pass(
                    operator,
                    start_state(operator, A, gain),
                    gain,
                    few,
                    **options,
                )
            )
            single = lean(K, A.copy(), few, **values)
            difference = np.abs(blocks.A - single).max() / np.abs(single).max()
            ratios = []
            for _ in range(5):  # turn by turn, so that both meet the same load
                began = time.process_time()
                lean(K, A.copy(), few, **values)
                slow = (time.process_time() - began) / len(few)
                state = start_state(operator, A, gain)
                began = time.process_time()
                state = last(run_pass(operator, state, gain, order, **options))
                fast = (time.process_time() - began) / n
                ratios.append(slow / fast)
            print(
                f"l = {n:6d}, r = {r}, {name:8s}: {1e6 * slow:6.0f} us a sample, in blocks of "
                f"{block_size:3d} {1e6 * fast:4.0f} us: {np.median(ratios):5.1f} times as fast "
                f"({min(ratios):.1f} to {max(ratios):.1f}); difference {difference:.0e}"
            )
            holds = np.median(ratios) >= 10 and difference < 1e-9
            print(f"    at least 10 times, same numbers: {verdict(holds)}")
            good &= holds
    return good


def plain_sweep(operator: KernelOperator) -> float:
    """Seconds to compute every kernel value once, a block of rows at a time, and do nothing."""
    began = time.process_time()
    for rows in gen_batches(operator.shape[0], 512):
        operator.kernel(operator.X[rows], operator.X)
    return time.process_time() - began


def on_the_fly() -> bool:
    data = load_dataset("mnist" if os.environ.get("AKPCA_DATA") else "mnist5k")
    X = (data.X[:60000] / data.X.max()).astype(np.float32)
    r, n = 50, len(X)
    operator = KernelOperator(X, RBF(gamma=0.005))  # sigma = 10
    began = time.process_time()
    operator.means()
    centring = time.process_time() - began
    A = np.random.default_rng(0).standard_normal((r, n)) / np.sqrt(r * operator.trace())
    order = np.random.default_rng(1).permutation(n)
    sweep = plain_sweep(operator)
    print(
        f"{n} x {X.shape[1]}, r = {r}, one thread: plain sweep {sweep:.1f} s, "
        f"means {centring:.1f} s"
    )
    good = True
    for name in VARIANTS:
        gain = make_gain(
            name, eta0={"KHA/t": 1, "KHA/et": 0.02, "KHA-SMD": 0.02}.get(name, 2), mu=0.01, tau=0.05
        )
        began = time.process_time()
        state = start_state(operator, A, gain)
        start = time.process_time() - began
        began = time.process_time()
        state = last(run_pass(operator, state, gain, order, block_size=128, every_step=True))
        ratio = (time.process_time() - began) / sweep
        print(
            f"{name:8s}: one pass {ratio:.2f} sweeps (start {start / sweep:.2f} more)", flush=True
        )
        holds = ratio <= 2.0 and bool(np.isfinite(state.S).all())
        print(f"    at most 2 sweeps: {verdict(holds)}")
        good &= holds
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory {peak:.2f} GiB, below 3: {verdict(peak < 3)}")
    return good and peak < 3


if __name__ == "__main__":
    print(load_average())
    sections = {"memory": in_memory, "sweep": on_the_fly}
    chosen = sys.argv[1:] or list(sections)
    with threadpool_limits(1):
        results = [sections[name]() for name in chosen]
    sys.exit(0 if all(results) else 1)
