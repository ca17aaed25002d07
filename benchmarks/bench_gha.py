"""The generalised Hebbian algorithm against scikit-learn's IncrementalPCA, after one pass.

Both see each sample once. Excess is the squared error of reconstructing the data, relative to that
of exact PCA, minus 1; a cosine is that between a component and PCA's. The peer is run with batches
of 100 samples and with its default, 5 d. Then blocks against the literal rule with the same gain:
the same steps and the same result. Targets: after one pass the error is within 10 % of exact PCA's;
blocks are at least twice as fast.
"""

import sys

import numpy as np
from measure import costs, load_average, verdict
from sklearn.decomposition import PCA, IncrementalPCA

from akpca import load_dataset
from akpca.book import reference
from akpca.hebbian import Gain, GeneralizedHebbian

CASES = [("digits", 20), ("mnist5k", 10), ("mnist5k", 40)]
STREAM = 100  # samples in a batch of the stream


def stream(model, X):
    for batch in np.array_split(X, max(len(X) // STREAM, 1)):
        model.partial_fit(batch)
    return model.components_


def hebbian(X, r):
    return stream(GeneralizedHebbian(r, random_state=0), X)


def oja(X, r):
    return stream(GeneralizedHebbian(r, rule="oja", random_state=0), X)


def incremental(X, r):
    return stream(IncrementalPCA(r), X)


def incremental_default(X, r):
    return IncrementalPCA(r).fit(X).components_


METHODS = {
    "GHA, auto": hebbian,
    "Oja, auto": oja,
    "IncrementalPCA, 100": incremental,
    "IncrementalPCA, 5 d": incremental_default,
}


ETA = 1e-3


def literal(X, r):
    """The rule (7) as it is written, one sample at a time."""
    W = np.linalg.qr(np.random.RandomState(0).standard_normal((X.shape[1], r)))[0].T
    for x in X - X.mean(axis=0):
        W = reference.gha_step(W, x, ETA)
    return W / np.linalg.norm(W, axis=1, keepdims=True)


def blocks(X, r):
    options = dict(gain=Gain(ETA), n_passes=1, shuffle=False, random_state=0)
    return GeneralizedHebbian(r, **options).fit(X).components_


def quality(X, components, exact):
    """Return the excess error of the span and the least and mean cosine."""
    centred = X - X.mean(axis=0)
    basis = np.linalg.qr(components.T)[0]
    total = np.sum(centred**2)
    error = total - np.sum((centred @ basis) ** 2)
    best = total - np.sum((centred @ exact.components_.T) ** 2)
    cosines = np.abs(np.sum(components * exact.components_, axis=1))
    return error / best - 1, cosines.min(), cosines.mean()


def main() -> int:
    missed = 0
    print(f"one pass in random order, one thread, {load_average()}")
    for name, r in CASES:
        X = load_dataset(name).X
        X = X[np.random.default_rng(0).permutation(len(X))]
        exact = PCA(r, svd_solver="full").fit(X)
        found = costs(METHODS, X, r, repeat=2)
        peer = found["IncrementalPCA, 100"].seconds
        print(f"\n{name} {X.shape}, r = {r:<12d} excess   cosine least, mean   time / peer")
        for method, cost in found.items():
            excess, least, mean = quality(X, cost.result, exact)
            row = f"  {method:28s} {excess:9.1e} {least:11.3f} {mean:7.3f}"
            print(f"{row} {cost.seconds / peer:12.2f}  ({cost.seconds:.3f} s)", flush=True)
            if method == "GHA, auto":
                ok = excess < 0.1
                missed += not ok
        pair = costs({"literal": literal, "blocks": blocks}, X, r, repeat=2)
        ratio = pair["literal"].seconds / pair["blocks"].seconds
        same = np.allclose(pair["literal"].result, pair["blocks"].result, rtol=1e-8, atol=1e-10)
        missed += not (ratio >= 2 and same)
        print(f"  GHA within 10 % of PCA: {verdict(ok)}; blocks against (7) literally:", end="")
        print(f" {ratio:.1f} times faster {verdict(ratio >= 2)}, same result {verdict(same)}")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
