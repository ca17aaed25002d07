"""Tune the gains of the kernel Hebbian algorithm, all by one rule, as chapters 06 and 07 use them.

Prints rows of the table `TUNED` of `akpca.experiments`; a few minutes for each data set. USPS needs
AKPCA_DATA. Name data sets as arguments to run only those: mnist5k, digits, patches, usps.
"""

import sys

import numpy as np

from akpca import load_dataset, reference
from akpca.experiments import tune_gain
from akpca.hebbian import Annealing
from akpca.kernels import RBF, Linear

NAMES = ("KHA", "KHA/t", "KHA/et*", "KHA/et", "KHA-SMD*", "KHA-SMD")
FACTORS = ("KHA/t", "KHA/s", "KHA/ts", "KHA/et*", "KHA/es", "KHA-SMD*")
SEEDS = range(1000, 1004)  # the chapters report others
N_PER_CLASS = {"mnist5k": 50, "digits": 50, "usps": 100}


def images(name: str) -> np.ndarray:
    """Return the first images of each class, with grey levels from -1 to 1."""
    data = load_dataset(name)
    first = [np.flatnonzero(data.y == label)[: N_PER_CLASS[name]] for label in np.unique(data.y)]
    X = data.X[np.sort(np.concatenate(first))]
    return X if X.min() < 0 else 2 * X - 1


def tune(name: str, kernel_name: str, X: np.ndarray, kernel, k: int, n_passes: int, names) -> None:
    """Print a row of the table."""
    K = reference.center_kernel(kernel(X))
    print(f'    Task("{name}", "{kernel_name}", {len(X)}, {k}): _tuned(')
    print(f"        {n_passes},\n        {{")
    for gain_name in names:
        gain = tune_gain(K, gain_name, k, n_passes, seeds=SEEDS)
        tau = getattr(gain.get(Annealing), "passes", None)
        values = (gain.eta0, tau, gain.mu) if gain.adapts else (gain.eta0, tau)
        print(f'            "{gain_name}": {values},', flush=True)
    print("        },\n    ),", flush=True)


for name in sys.argv[1:] or ("mnist5k", "digits", "patches", "usps"):
    if name == "patches":  # others than those that a chapter reports
        data = load_dataset(name, random_state=SEEDS[0])
        tune(name, "RBF", data.X[data.y == 0][:500], RBF(60.5 / 64), 20, 50, FACTORS)
    else:
        X = images(name)
        tune(name, "RBF", X, RBF(2 / X.shape[1]), 16, 100, NAMES)
        tune(name, "dot product", X, Linear(), 16, 100, NAMES)
