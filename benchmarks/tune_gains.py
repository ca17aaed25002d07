"""Tune the gains of the kernel Hebbian algorithm by one rule, as chapters 06, 07 and 13 use them.

Prints rows of the table `TUNED` of `akpca.book.experiments`; a few minutes for each data set. USPS
and faces need AKPCA_DATA. Name data sets as arguments to run only those: mnist5k, digits, patches,
usps, photograph, sharp digits, walk, yale_faces.
"""

import sys

import numpy as np

from akpca import load_dataset
from akpca.book import reference
from akpca.book.experiments import motion, patches, superresolution, tune_gain
from akpca.book.experiments.digits import clustering_problem, first_images, kernel_problems
from akpca.kernels import RBF

NAMES = ("KHA", "KHA/t", "KHA/et*", "KHA/et", "KHA-SMD*", "KHA-SMD")
FACTORS = ("KHA/t", "KHA/s", "KHA/ts", "KHA/et*", "KHA/es", "KHA-SMD*")
SEEDS = range(1000, 1004)  # the chapters report others
N_PER_CLASS = {"mnist5k": 50, "digits": 50, "usps": 100}


def samples(name: str):
    """Return the samples of an experiment of chapter 13, with other noise, and how many r."""
    other = SEEDS[0]
    if name == "photograph":
        return patches.Photograph.load("flower.jpg", 88, random_state=other).samples[0], 20
    if name == "walk":
        walk = motion.Walk.load("synthetic")
        return motion.NoisyWalk(walk, seed=other).samples, 25
    if name == "sharp digits":
        return superresolution.Faces.load("digits", n_train=500, random_state=other).samples, 16
    return superresolution.Faces.load("yale_faces", random_state=other).samples, 16


def tune(name: str, kernel_name: str, K: np.ndarray, k: int, n_passes: int, names) -> None:
    """Print a row of the table."""
    print(f'    Task("{name}", "{kernel_name}", {len(K)}, {k}): _tuned(')
    print(f"        {n_passes},\n        {{")
    for gain_name in names:
        gain = tune_gain(K, gain_name, k, n_passes, seeds=SEEDS)
        values = (gain.eta0, gain.passes, gain.mu) if gain.adapts else (gain.eta0, gain.passes)
        print(f'            "{gain_name}": {values},', flush=True)
    print("        },\n    ),", flush=True)


SAMPLES = ("photograph", "sharp digits", "walk", "yale_faces")
for name in sys.argv[1:] or ("mnist5k", "digits", "patches", "usps", *SAMPLES):
    if name == "patches":  # others than those that a chapter reports
        data = load_dataset(name, random_state=SEEDS[0])
        K = reference.center_kernel(RBF(60.5 / 64)(data.X[data.y == 0][:500]))
        tune(name, "RBF", K, 20, 50, FACTORS)
    elif name in SAMPLES:
        found, k = samples(name)
        names = tuple(dict.fromkeys(NAMES + FACTORS)) if name == "photograph" else NAMES
        tune(name, "RBF", found.operator.K, k, 50, names)
    else:
        X, _ = first_images(load_dataset(name), N_PER_CLASS[name])
        for problem in reversed(kernel_problems(X, 16)):
            tune(name, problem.part, problem.K, 16, 100, NAMES)
        if name != "usps":  # where the paper clusters all digits
            tune(name, "clustering", clustering_problem(X, 10).K, 10, 30, NAMES)
