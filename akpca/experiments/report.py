"""The experiments of section 6 of the AKPCA report, as functions that a run is made of.

A `Version` of a data set is split and scaled by `load_split`; a `Job` is one method of `METHODS` or
`NOISE_METHODS` fitted to it, with the conditions under which it is judged; `run` does jobs and
writes one row a condition into a :class:`.tables.ResultTable`. The rivals are those that a reader
would try: PCA's code with a ridge decoder, and a deep autoencoder.

Cohen, Hazan and Ma, "Autoencoder kernel PCA", technical report, 2016.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ..autoencoding import AKPCA, Autoencoder, DataSpanAKPCA
from ..datasets import (
    add_gaussian_noise,
    add_speckle,
    balanced_split,
    load_dataset,
    scale_by_max_norm,
)
from ..kernel_pca import KernelPCA
from ..metrics import reconstruction_error
from ..progress import progress_bar
from .tables import ResultTable

__all__ = [
    "COLUMNS",
    "DENOISING",
    "METHODS",
    "NOISE_METHODS",
    "PAPER_VERSIONS",
    "Job",
    "PCAWithRidge",
    "Split",
    "Version",
    "corrupt",
    "evaluate",
    "load_split",
    "run",
]

COLUMNS = ("data", "method", "k", "seed", "condition")
#: The noise of the report's figures 7 to 10.
DENOISING = (
    *("gaussian 0.02", "gaussian 0.04", "gaussian 0.06", "gaussian 0.1"),
    *("speckle 0.2", "speckle 0.3", "speckle 0.4"),
)
# Splits over which the accuracy of a classifier is averaged.
CLASSIFIER_SPLITS = 5


class Version(NamedTuple):
    """How the data are cut: one of `step` pixels in each direction, and examples per class."""

    step: int
    n_train: int
    n_test: int


#: The report's three versions of MNIST, and the one that its authors wished for.
PAPER_VERSIONS = {
    "short 14x14": Version(2, 300, 2500),
    "short 28x28": Version(1, 300, 2500),
    "long 14x14": Version(2, 3500, 2500),
    "long 28x28": Version(1, 3500, 2500),
}


class Split(NamedTuple):
    """Training and held-out examples, scaled so that the longest training example has norm 1."""

    X: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    image_shape: tuple[int, ...]


def load_split(dataset: str, version: Version, *, random_state: int = 0) -> Split:
    """Return a version of a data set; `random_state` determines who is in it."""
    data = load_dataset(dataset)
    if data.image_shape is None or data.y is None:
        raise ValueError(f"dataset={dataset!r}: the experiments need labelled images")
    if version.step > 1:
        data = data.subsampled(step=version.step)
    train, test = balanced_split(data.y, version.n_train, version.n_test, random_state=random_state)
    X, X_test = data.X[train], data.X[test]
    scaled = (scale_by_max_norm(Z, reference=X).astype(np.float32) for Z in (X, X_test))
    return Split(*scaled, data.y[test], data.image_shape)


class PCAWithRidge(TransformerMixin, BaseEstimator):
    """PCA's code, decoded by kernel ridge regression.

    The regression is from codes to images, with a Gaussian kernel in the span of `n_landmarks`
    codes. Width and ridge are those with the smallest error on a tenth of the examples, which
    take no part in the regressions that are compared.
    """

    WIDTHS = (0.25, 0.5, 1.0)
    RIDGES = (1e-3, 1e-2, 1e-1)

    def __init__(self, n_components=2, *, n_landmarks=2000, random_state=None) -> None:
        self.n_components = n_components
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def fit(self, X, y=None) -> Self:
        """Learn code and decoder. Return self."""
        self.pca_ = PCA(self.n_components, random_state=self.random_state).fit(X)
        codes = self.transform(X)
        cut = max(1, len(X) // 10)
        order = np.random.default_rng(self.random_state).permutation(len(X))
        held, kept = order[:cut], order[cut:]

        def error(choice) -> float:
            decoder = self._decoder(*choice, len(kept)).fit(codes[kept], X[kept])
            return reconstruction_error(X[held], decoder.predict(codes[held]))

        best = min(product(self.WIDTHS, self.RIDGES), key=error)
        self.decoder_ = self._decoder(*best, len(X)).fit(codes, X)
        return self

    def _decoder(self, width, ridge, n_samples):
        landmarks = Nystroem(
            gamma=width / self.n_components,
            n_components=min(self.n_landmarks, n_samples),
            random_state=self.random_state,
        )
        return make_pipeline(StandardScaler(), landmarks, Ridge(ridge))

    def transform(self, X) -> np.ndarray:
        """Return PCA's codes."""
        return self.pca_.transform(X)

    def inverse_transform(self, X) -> np.ndarray:
        """Return what the regression makes of codes."""
        return self.decoder_.predict(X)


def _kernel_pca(k: int, seed: int) -> KernelPCA:
    """Return kernel PCA of degree 2 with the report's decoder, the leading eigenvector."""
    degree_2 = {"kernel": "poly", "degree": 2, "gamma": 1, "coef0": 0, "center": False}
    return KernelPCA(k, **degree_2, preimage="eigenvector", random_state=seed)


def _report(estimator: type, k: int, seed: int, **options: Any):
    """Return an estimator that minimises the report's objective (18) for its quadratic code."""
    return estimator(
        k, decoder="eigenvector", objective="spectral", offset=False, random_state=seed, **options
    )


Maker = Callable[[int, int], Any]

#: Method -> function of k and a seed that returns an estimator. The first four are the report's.
METHODS: dict[str, Maker] = {
    "PCA": lambda k, seed: PCA(k, random_state=seed),
    "KPCA": _kernel_pca,
    "AKPCA (18)": lambda k, seed: _report(AKPCA, k, seed),
    "DS-AKPCA (18)": lambda k, seed: _report(DataSpanAKPCA, k, seed),
    "AKPCA (15)": lambda k, seed: AKPCA(k, decoder="eigenvector", random_state=seed),
    "AKPCA": lambda k, seed: AKPCA(k, random_state=seed),
    "PCA + ridge": lambda k, seed: PCAWithRidge(k, random_state=seed),
    "deep autoencoder": lambda k, seed: Autoencoder(k, random_state=seed),
}

#: Methods that are trained with the noise that they are judged by, for its kind and level.
NOISE_METHODS: dict[str, Callable[[int, int, str, float], Any]] = {
    "AKPCA, with noise": lambda k, seed, kind, level: AKPCA(
        k, noise=kind, noise_level=level, random_state=seed
    ),
    "deep autoencoder, with noise": lambda k, seed, kind, level: Autoencoder(
        k, noise=kind, noise_level=level, random_state=seed
    ),
}


def corrupt(X: np.ndarray, kind: str, level: float, *, random_state: int = 0) -> np.ndarray:
    """Add Gaussian noise, or speckle, of a level."""
    add = {"gaussian": add_gaussian_noise, "speckle": add_speckle}
    return add[kind](X, level, random_state=random_state)


def _accuracy(codes: np.ndarray, y: np.ndarray, per_class: int, seed: int) -> float:
    """Return the mean accuracy of logistic regression on codes, over several splits."""
    size = per_class * len(np.unique(y))
    splits = StratifiedShuffleSplit(CLASSIFIER_SPLITS, train_size=size, random_state=seed)
    scores = []
    for train, test in splits.split(codes, y):
        classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        scores.append(classifier.fit(codes[train], y[train]).score(codes[test], y[test]))
    return float(np.mean(scores))


def evaluate(model, split: Split, condition: str, *, random_state: int = 0) -> float:
    """Judge a fitted model under one condition.

    Parameters
    ----------
    model : estimator
        With `transform` and `inverse_transform`.
    split : Split
        The data that it was fitted to, and those held out.
    condition : str
        'train' or 'held out', the mean of ||g(f(x)) - x||^2; 'gaussian 0.02', 'speckle 0.3' and
        such, the mean of ||g(f(x + noise)) - x||^2 on held-out examples; 'classify 18' and such,
        the accuracy of a classifier trained with that many codes of each class.
    random_state : int, default=0
        Of noise and of the classifier's splits.
    """
    kind, _, level = condition.partition(" ")
    if condition == "train":
        return reconstruction_error(split.X, model.inverse_transform(model.transform(split.X)))
    X = split.X_test
    if kind == "classify":
        return _accuracy(model.transform(X), split.y_test, int(level), random_state)
    if condition == "held out":
        noisy = X
    elif kind in ("gaussian", "speckle"):
        noisy = corrupt(X, kind, float(level), random_state=random_state)
    else:
        raise ValueError(
            f"condition={condition!r} must be 'train', 'held out', 'gaussian s', 'speckle p' or "
            "'classify m' with a number"
        )
    return reconstruction_error(X, model.inverse_transform(model.transform(noisy)))


class Job(NamedTuple):
    """A method fitted to a version of the data, and the conditions under which it is judged."""

    data: str
    method: str
    k: int
    seed: int
    conditions: tuple[str, ...]


def run(
    jobs: Iterable[Job],
    table: ResultTable,
    dataset: str,
    versions: Mapping[str, Version],
    *,
    verbose: bool = False,
) -> None:
    """Do what is missing in the table, a row at a time, in the order of the jobs."""
    missing = []
    for job in jobs:
        conditions = tuple(c for c in job.conditions if (*job[:4], c) not in table)
        if conditions:
            missing.append(job._replace(conditions=conditions))
    split, current = None, None
    for job in progress_bar(missing, shown=verbose, desc="experiments"):
        if (job.data, job.seed) != current:
            split = load_split(dataset, versions[job.data], random_state=job.seed)
            current = job.data, job.seed
        _run_job(job, table, split)


def _run_job(job: Job, table: ResultTable, split: Split) -> None:
    model = None
    for condition in job.conditions:
        if job.method in NOISE_METHODS:
            kind, level = condition.split()
            make = NOISE_METHODS[job.method]
            model = make(job.k, job.seed, kind, float(level)).fit(split.X)
        elif model is None:
            model = METHODS[job.method](job.k, job.seed).fit(split.X)
        value = evaluate(model, split, condition, random_state=job.seed)
        table.add(*job[:4], condition, value=value)
