"""The deep autoencoder: ours against PyTorch's, and RidgeAutoencoder against both in equal time.

    python benchmarks/bench_autoencoder.py [--seeds 3] [--sets short] [torch] [ridge] [noise]

'torch' compares our NumPy network with the same network in PyTorch, which is no dependency of
akpca: it needs an environment that has both, and is skipped elsewhere. 'ridge' gives the network
the CPU time that :class:`akpca.RidgeAutoencoder` took. Errors are held-out reconstruction errors
divided by those of centred PCA with the same k; times are CPU seconds on one thread. The sets are
MNIST 14x14 with 300 ('short') and 3,500 images a class ('long', which needs `AKPCA_DATA`), scaled
by the largest norm, and 'usps' (16x16, 250 a class, `AKPCA_DATA`).

'noise' is not run unless it is named. It is denoising, on the versions 'short 14x14' and 'long
14x14' of :mod:`akpca.book.experiments.report`, which need `AKPCA_DATA`: the mean of
||g(f(x~)) - x||^2 for held-out x and noisy x~, of the ridge autoencoder trained with that noise, of
the network trained with it in the same CPU time, and of the best of those methods of the report
that are not.
"""

import argparse
import math
import time
from itertools import pairwise

import numpy as np
from measure import load_average, verdict

from akpca import Autoencoder, RidgeAutoencoder, load_dataset, pca, reconstruction_error
from akpca.book.experiments.report import (
    DENOISING,
    METHODS,
    NOISE_METHODS,
    PAPER_VERSIONS,
    evaluate,
    load_split,
)
from akpca.datasets import balanced_split, scale_by_max_norm

try:
    import torch
except ImportError:
    torch = None

SETS = {
    "short": ("mnist5k", 300, 200, 2),
    "long": ("mnist", 3500, 1000, 2),
    "usps": ("usps", 250, 100, 1),
}
SIZES = {"short": (2, 10, 20), "long": (2, 10, 20), "usps": (10,)}
# Passes of the comparison with PyTorch, and the part of its speed that we want at least.
N_EPOCHS, LEAST_SPEED = 60, 0.5
# Sizes of codes, and methods trained without noise, of the section on denoising.
NOISE_SIZES = (10, 20)
CLEAN_METHODS = tuple(method for method in METHODS if "(18)" not in method)


def samples(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return training and held-out images."""
    source, n_train, n_test, step = SETS[name]
    data = load_dataset(source)
    data = data.subsampled(step=step) if step > 1 else data
    train, test = balanced_split(data.y, n_train, n_test, random_state=seed)
    X = data.X[train]
    return scale_by_max_norm(X), scale_by_max_norm(data.X[test], reference=X)


def relative(model, X, X_new, k) -> float:
    """Return the held-out error of a fitted model, relative to PCA."""
    error = reconstruction_error(X_new, model.inverse_transform(model.transform(X_new)))
    return error / reconstruction_error(X_new, pca(X, k).reconstruct(X_new))


def fitted(model, X) -> tuple[object, float]:
    """Return the model after a fit, and the CPU seconds that it took."""
    start = time.process_time()
    model.fit(X)
    return model, time.process_time() - start


class TorchAutoencoder:
    """The same network, start, steps and choice of weights as `Autoencoder`, in PyTorch."""

    def __init__(self, k, n_epochs, seed):
        self.k, self.n_epochs, self.seed = k, n_epochs, seed

    def fit(self, X):
        """Train by Adam, with steps that fall as half a cosine."""
        torch.set_num_threads(1)
        torch.manual_seed(self.seed)
        d = X.shape[1]
        self.mean, self.scale = X.mean(axis=0), np.sqrt(np.mean((X - X.mean(axis=0)) ** 2))
        self.encoder = self._chain(d, 256, 128, self.k)
        self.decoder = self._chain(self.k, 128, 256, d)
        network = torch.nn.Sequential(self.encoder, self.decoder)
        Z = self._forward(X)[torch.randperm(len(X))]
        held_out, Z = Z[: len(X) // 10], Z[len(X) // 10 :]
        optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
        total = -(-len(Z) // 100) * self.n_epochs
        falling = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda t: 0.5 * (1 + math.cos(math.pi * t / total))
        )
        best = math.inf
        for _ in range(self.n_epochs):
            for rows in torch.randperm(len(Z)).split(100):
                loss = ((network(Z[rows]) - Z[rows]) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                falling.step()
            with torch.no_grad():
                error = float(((network(held_out) - held_out) ** 2).mean())
            if error < best:
                best = error
                weights = {name: value.clone() for name, value in network.state_dict().items()}
        network.load_state_dict(weights)

    def transform(self, X):
        """Return codes."""
        with torch.no_grad():
            return self.encoder(self._forward(X)).numpy()

    def inverse_transform(self, Y):
        """Return samples."""
        with torch.no_grad():
            return self.decoder(torch.tensor(Y)).numpy() * self.scale + self.mean

    def _forward(self, X):
        return torch.tensor(((X - self.mean) / self.scale).astype(np.float32))

    @staticmethod
    def _chain(*widths):
        layers = []
        for a, b in pairwise(widths):
            layers += [torch.nn.Linear(a, b), torch.nn.ELU()]
        return torch.nn.Sequential(*layers[:-1])


def against_torch(names, seeds) -> bool:
    """Print errors and times of both networks; return whether ours is fast enough."""
    if torch is None:
        print("PyTorch is not installed here: comparison skipped")
        return True
    held = True
    for name in names:
        for k in SIZES[name]:
            rows = []
            for seed in seeds:
                X, X_new = samples(name, seed)
                ours, cpu = fitted(Autoencoder(k, n_epochs=N_EPOCHS, random_state=seed), X)
                theirs, torch_cpu = fitted(TorchAutoencoder(k, N_EPOCHS, seed), X)
                errors = (relative(model, X, X_new, k) for model in (ours, theirs))
                rows.append((*errors, torch_cpu / cpu))
            ours, theirs, speed = np.median(rows, axis=0)
            spread = np.ptp(np.array(rows)[:, :2], axis=0).max()
            fast = speed >= LEAST_SPEED
            held &= fast
            print(
                f"  {name:6s}k = {k:<4d}ours {ours:.4f}  PyTorch {theirs:.4f}  (seeds differ by "
                f"{spread:.4f})  speed over PyTorch's {speed:.2f}  {verdict(fast)}",
                flush=True,
            )
    return held


def in_time(make, X, seconds):
    """Return a network after as many passes as take so many CPU seconds."""
    _, once = fitted(make(3), X)
    return fitted(make(max(1, round(seconds / (once / 3)))), X)[0]


def against_ridge(names, seeds) -> bool:
    """Print errors of RidgeAutoencoder and of networks in its CPU time; return whether it leads."""
    held = True
    for name in names:
        for k in SIZES[name]:
            rows = []
            for seed in seeds:
                X, X_new = samples(name, seed)
                model, cpu = fitted(RidgeAutoencoder(k, random_state=seed), X)
                makes = [lambda n, k=k, s=seed: Autoencoder(k, n_epochs=n, random_state=s)]
                if torch is not None:
                    makes.append(lambda n, k=k, s=seed: TorchAutoencoder(k, n, s))
                rivals = [in_time(make, X, cpu) for make in makes]
                rows.append([cpu, *(relative(m, X, X_new, k) for m in (model, *rivals))])
            (cpu, ours, *theirs), spread = np.median(rows, axis=0), np.ptp(np.array(rows)[:, 1])
            ahead = ours <= min(theirs)
            held &= ahead
            names_of = ("autoencoder", "PyTorch's")
            told = "  ".join(f"{n} {e:.4f}" for n, e in zip(names_of, theirs, strict=False))
            print(
                f"  {name:6s}k = {k:<4d}ridge {ours:.4f} (seeds differ by {spread:.4f})  {told}  "
                f"({cpu:.1f} s)  {verdict(ahead)}",
                flush=True,
            )
    return held


def against_noise(names, seeds) -> bool:
    """Print errors of denoising; return whether ours is ahead, and methods with noise."""
    held = True
    for name in names:
        version = PAPER_VERSIONS[f"{name} 14x14"]
        splits = [load_split("mnist", version, random_state=seed) for seed in seeds]
        for k in NOISE_SIZES:
            pairs = list(zip(seeds, splits, strict=True))
            clean = [
                {method: METHODS[method](k, seed).fit(split.X) for method in CLEAN_METHODS}
                for seed, split in pairs
            ]
            for condition in DENOISING:
                rows = [
                    denoised(split, k, seed, condition, models)
                    for (seed, split), models in zip(pairs, clean, strict=True)
                ]
                cpu, ours, theirs, *others = np.median(rows, axis=0)
                best = int(np.argmin(others))
                ahead = ours <= theirs and max(ours, theirs) <= others[best]
                held &= ahead
                print(
                    f"  {name:6s}k = {k:<4d}{condition:15s}ridge {ours:.4f}  autoencoder "
                    f"{theirs:.4f}  without noise {others[best]:.4f} ({CLEAN_METHODS[best]})  "
                    f"({cpu:.1f} s)  {verdict(ahead)}",
                    flush=True,
                )
    return held


def denoised(split, k, seed, condition, models) -> list[float]:
    """Return CPU seconds of our fit, and errors: its, the network's, those of `models`."""
    kind, level = condition.split()
    ours, network = (make(k, seed, kind, float(level)) for make in NOISE_METHODS.values())
    ours, cpu = fitted(ours, split.X)
    network = in_time(lambda n: network.set_params(n_epochs=n), split.X, cpu)
    every = (ours, network, *models.values())
    return [cpu, *(evaluate(model, split, condition, random_state=seed) for model in every)]


def main() -> int:
    """Run the sections that are named, or two; return whether a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", default=["torch", "ridge"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=["short"])
    arguments = parser.parse_args()
    seeds = range(arguments.seeds)
    print(f"medians of {arguments.seeds} seeds, {load_average()}")
    held = True
    if "torch" in arguments.sections:
        held &= against_torch(arguments.sets, seeds)
    if "ridge" in arguments.sections:
        held &= against_ridge(arguments.sets, seeds)
    if "noise" in arguments.sections:
        held &= against_noise([name for name in arguments.sets if name != "usps"], seeds)
    return int(not held)


if __name__ == "__main__":
    raise SystemExit(main())
