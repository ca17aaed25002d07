"""Data-span AKPCA against PCA, kernel PCA and AKPCA, on MNIST digits of 14x14.

Errors are relative to centred PCA with as many components. With all 3,000 samples as landmarks, on
the report's objective and form, targets are: below PCA and kernel PCA and above AKPCA, on training
and on held-out digits, for every seed. With 1,500 landmarks and 35,000 samples (only if AKPCA_DATA
names a folder with all of MNIST): held-out at most .87, within 120 s of CPU.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
import time

from measure import load_average, verdict

from akpca import (
    AKPCA,
    DataSpanAKPCA,
    KernelPCA,
    load_dataset,
    pca,
    reconstruction_error,
)
from akpca.datasets import balanced_split, scale_by_max_norm

K = 10
SEEDS = (0, 1, 2)
DEGREE_2 = {"kernel": "poly", "degree": 2, "gamma": 1, "coef0": 0, "center": False}
REPORT = {"objective": "spectral", "offset": False}
LONG_TARGET, LONG_SECONDS = 0.87, 120


def split(name: str, n_train: int, n_test: int, seed: int):
    """Return training and held-out digits, scaled by the largest norm of the former."""
    data = load_dataset(name).subsampled()
    train, test = balanced_split(data.y, n_train, n_test, random_state=seed)
    parts = [scale_by_max_norm(data.X[part], reference=data.X[train]) for part in (train, test)]
    return [part.astype("float32") for part in parts]


def measured(model, parts: list, scales: list) -> tuple[list[float], float]:
    """Fit to the first part; return the errors on all, relative to PCA's, and CPU seconds."""
    start = time.process_time()
    model.fit(parts[0])
    seconds = time.process_time() - start
    errors = [
        reconstruction_error(X, model.inverse_transform(model.transform(X))) / scale
        for X, scale in zip(parts, scales, strict=True)
    ]
    return errors, seconds


def pca_errors(parts: list) -> list[float]:
    code = pca(parts[0], K)
    return [reconstruction_error(X, code.reconstruct(X)) for X in parts]


def show(name: str, errors: list[float], seconds: float) -> None:
    print(f"  {name:42s}{errors[0]:8.4f}{errors[1]:10.4f}{seconds:9.1f}", flush=True)


def short(seed: int) -> bool:
    """Compare on 300 digits a class; return whether the targets are met."""
    parts = split("mnist5k", 300, 200, seed)
    scales = pca_errors(parts)
    print(f"seed {seed}: {len(parts[0])} + {len(parts[1])} digits, k = {K}, {load_average()}")
    print(f"  {'relative to PCA':42s}{'train':>8s}{'held-out':>10s}{'CPU s':>9s}")
    models = {
        "kernel PCA, eigenvector": KernelPCA(K, **DEGREE_2, preimage="eigenvector"),
        "DS-AKPCA, spectral": DataSpanAKPCA(K, **REPORT, random_state=seed),
        "AKPCA, spectral": AKPCA(K, **REPORT, random_state=seed),
    }
    if seed == SEEDS[0]:  # no target: what the default objective and form add
        models["DS-AKPCA, reconstruction, offset"] = DataSpanAKPCA(K, random_state=seed)
        models["AKPCA, reconstruction, offset"] = AKPCA(K, random_state=seed)
    results = {}
    for name, model in models.items():
        results[name], seconds = measured(model, parts, scales)
        show(name, results[name], seconds)
    ours = results["DS-AKPCA, spectral"]
    below = all(e < 1 for e in ours)
    below_kpca = all(a < b for a, b in zip(ours, results["kernel PCA, eigenvector"], strict=True))
    above = all(a > b for a, b in zip(ours, results["AKPCA, spectral"], strict=True))
    print(f"  DS-AKPCA (spectral) below PCA: {verdict(below)}, below kernel PCA: ", end="")
    print(f"{verdict(below_kpca)}, above AKPCA: {verdict(above)}")
    return below and below_kpca and above


def long() -> bool:
    """Compare on 3,500 digits a class, with landmarks; return whether the target is met."""
    parts = split("mnist", 3500, 1000, 0)
    scales = pca_errors(parts)
    print(f"{len(parts[0])} + {len(parts[1])} digits, k = {K}, 1,500 landmarks, {load_average()}")
    print(f"  {'relative to PCA':42s}{'train':>8s}{'held-out':>10s}{'CPU s':>9s}")
    met = False
    for name, options in {
        "DS-AKPCA, spectral": REPORT,
        "DS-AKPCA, reconstruction, offset": {},
    }.items():
        model = DataSpanAKPCA(K, n_landmarks=1500, random_state=0, **options)
        errors, seconds = measured(model, parts, scales)
        show(name, errors, seconds)
        if options is REPORT:
            met = errors[1] <= LONG_TARGET and seconds <= LONG_SECONDS
    print(f"  spectral held-out <= {LONG_TARGET} within {LONG_SECONDS} s: {verdict(met)}")
    return met


def main() -> int:
    met = [short(seed) for seed in SEEDS]
    if os.environ.get("AKPCA_DATA"):
        met.append(long())
    else:
        print("AKPCA_DATA is not set: no run with 35,000 digits")
    return int(not all(met))


if __name__ == "__main__":
    sys.exit(main())
