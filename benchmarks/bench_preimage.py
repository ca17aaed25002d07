"""Held-out reconstruction of MNIST digits from ten numbers, decoder by decoder.

3,000 of the bundled digits train, 2,000 test. Every setting is chosen by three-fold
cross-validation on the training digits alone. Targets: our best pre-image at or below
scikit-learn's learned inverse at its best setting, and below linear PCA.
"""

import sys
from itertools import product

import numpy as np
from measure import load_average, verdict
from sklearn import decomposition
from sklearn.model_selection import KFold

from akpca import KernelPCA, load_dataset, pca, relative_error
from akpca.datasets import balanced_split
from akpca.preimage import DistancePreimage, FixedPointPreimage, RidgePreimage

K = 10
FOLDS = KFold(3, shuffle=True, random_state=0)
DEGREE_2 = {"kernel": "poly", "degree": 2, "gamma": 1, "coef0": 0, "center": False}


def ridge(model: KernelPCA, factor: float, alpha: float) -> RidgePreimage:
    """Return a ridge decoder whose width is a multiple of the scale of the codes."""
    codes = model.eigenvectors_ * np.sqrt(model.eigenvalues_)
    return RidgePreimage(gamma=factor / (K * codes.var()), alpha=alpha)


RIDGE = list(product((0.25, 0.5, 1.0, 2.0), (0.03, 0.1, 0.3, 1.0)))
# method -> encoders to choose from, and for each encoder decoders to choose from
METHODS = {
    "PCA code + ridge": ([{"kernel": "linear"}], [lambda m, s=s: ridge(m, *s) for s in RIDGE]),
    "KPCA RBF + ridge": (
        [{"kernel": "rbf", "gamma": g} for g in (0.005, 0.01, 0.02)],
        [lambda m, s=s: ridge(m, *s) for s in RIDGE],
    ),
    "KPCA RBF + fixed point": (
        [{"kernel": "rbf", "gamma": g} for g in (0.002, 0.005, 0.01)],
        [lambda m: FixedPointPreimage(max_iter=30)],
    ),
    "KPCA RBF + distance": (
        [{"kernel": "rbf", "gamma": g} for g in (0.002, 0.005, 0.01)],
        [lambda m, q=q: DistancePreimage(q) for q in (10, 30)],
    ),
    "KPCA degree 2 + eigenvector": ([DEGREE_2], [lambda m: "eigenvector"]),
    "KPCA degree 2 + ridge": ([DEGREE_2], [lambda m, s=s: ridge(m, *s) for s in RIDGE]),
}


def errors(X: np.ndarray, X_new: np.ndarray, options: dict, decoders: list) -> list[float]:
    """Return the error on X_new of one encoder with each of some decoders."""
    model = KernelPCA(K, random_state=0, **options).fit(X)
    codes = model.transform(X_new)
    return [
        relative_error(X_new, model.inverse_transform(codes, preimage=make(model)))
        for make in decoders
    ]


def chosen(X: np.ndarray, X_test: np.ndarray, encoders: list, decoders: list):
    """Choose encoder and decoder by cross-validation; return the choice and its test error."""
    scores = np.zeros((len(encoders), len(decoders)))
    if scores.size > 1:
        for train, valid in FOLDS.split(X):
            scores += [errors(X[train], X[valid], options, decoders) for options in encoders]
    i, j = np.unravel_index(np.argmin(scores), scores.shape)
    return (int(i), int(j)), errors(X, X_test, encoders[i], [decoders[j]])[0]


def scikit_learn(X: np.ndarray, X_test: np.ndarray):
    """Return scikit-learn's best setting and its test error."""

    def error(X, X_new, gamma, alpha):
        model = decomposition.KernelPCA(
            K,
            kernel="rbf",
            gamma=gamma,
            alpha=alpha,
            fit_inverse_transform=True,
            eigen_solver="arpack",
            random_state=0,
        ).fit(X)
        return relative_error(X_new, model.inverse_transform(model.transform(X_new)))

    grid = list(product((0.005, 0.01, 0.02), (1e-10, 1e-9, 1e-8, 1e-6, 1e-4)))
    folds = list(FOLDS.split(X))
    scores = [sum(error(X[t], X[v], *setting) for t, v in folds) for setting in grid]
    best = grid[int(np.argmin(scores))]
    return best, error(X, X_test, *best)


def main() -> int:
    data = load_dataset("mnist5k")
    train, test = balanced_split(data.y, 300, 200)
    X, X_test = data.X[train], data.X[test]
    print(
        f"{len(X)} + {len(X_test)} digits of 28x28, k = {K}, error / mean |x|^2, {load_average()}"
    )
    linear = relative_error(X_test, pca(X, K).reconstruct(X_test))
    print(f"{'linear PCA':30s}{linear:.4f}")
    best, peer = scikit_learn(X, X_test)
    print(f"{'scikit-learn RBF, learned':30s}{peer:.4f}  gamma, alpha = {best}", flush=True)
    ours = {}
    for name, (encoders, decoders) in METHODS.items():
        choice, ours[name] = chosen(X, X_test, encoders, decoders)
        print(f"{name:30s}{ours[name]:.4f}  encoder, decoder {choice} of the lists", flush=True)
    least = min(value for name, value in ours.items() if name.startswith("KPCA"))
    print(f"best kernel PCA pre-image <= scikit-learn's: {verdict(least <= peer)}")
    print(f"best kernel PCA pre-image < linear PCA: {verdict(least < linear)}")
    return int(not (least <= peer and least < linear))


if __name__ == "__main__":
    sys.exit(main())
