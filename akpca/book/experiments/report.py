"""The experiments of section 6 of the AKPCA report, as functions that a run is made of.

A `Version` of a data set is split and scaled by `load_split`; a `Job` is one method of `METHODS` or
`NOISE_METHODS` fitted to it, with the conditions under which it is judged; `run` does jobs, in one
process or several, and writes one row a condition into a :class:`.tables.ResultTable`. The rivals
are those that a reader would try: PCA's code with a ridge decoder, and a deep autoencoder.

A `Plan` is a set of jobs, `default_plan` one of a minute and `paper_plan` that of the report.
`findings` compares what the report claims with the rows of a plan.

Cohen, Hazan and Ma, "Autoencoder kernel PCA", technical report, 2016.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import product
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ...autoencoding import AKPCA, Autoencoder, DataSpanAKPCA, RidgeAutoencoder
from ...datasets import (
    add_gaussian_noise,
    add_speckle,
    balanced_split,
    load_dataset,
    scale_by_max_norm,
)
from ...kernel_pca import KernelPCA
from ...kernels import RBF
from ...metrics import reconstruction_error
from ...nystrom import NystromKernelPCA
from ...preimage import kernel_ridge
from ...progress import progress_bar
from ...threads import one_blas_thread
from .tables import ResultTable, folder_of_results, table_name
from .verdicts import Comparison, Finding

__all__ = [
    "COLUMNS",
    "DENOISING",
    "METHODS",
    "NOISE_METHODS",
    "PAPER_VERSIONS",
    "REPORT_METHODS",
    "Comparison",
    "Finding",
    "Job",
    "PCAWithRidge",
    "Plan",
    "ReportKernelPCA",
    "Results",
    "Row",
    "Split",
    "Version",
    "corrupt",
    "default_plan",
    "evaluate",
    "findings",
    "load_split",
    "paper_plan",
    "photo_plan",
    "read_results",
    "results_folder",
    "run",
    "side_by_side",
]

COLUMNS = ("data", "method", "k", "seed", "condition")
#: The noise of the report's figures 7 to 10.
DENOISING = (
    *("gaussian 0.02", "gaussian 0.04", "gaussian 0.06", "gaussian 0.1"),
    *("speckle 0.2", "speckle 0.3", "speckle 0.4"),
)
# Where tables lie, as seen from the notebooks.
RESULTS = Path("results") / "akpca"
# Splits over which the accuracy of a classifier is averaged.
CLASSIFIER_SPLITS = 5


class Version(NamedTuple):
    """How the data are cut: one of `step` pixels in each direction, and examples of each class.

    Errors are means over `n_judged` of the training and of the held-out examples of each class, or
    over all if it is 0; the classifier sees all that are held out. Without `by_class`, numbers are
    those of all classes together, in which classes are as frequent as they happen to be.
    """

    step: int
    n_train: int
    n_test: int
    n_judged: int = 0
    by_class: bool = True


#: The report's three versions of MNIST, and the one that its authors wished for.
PAPER_VERSIONS = {
    "short 14x14": Version(2, 300, 2500, 300),
    "short 28x28": Version(1, 300, 2500, 100),
    "long 14x14": Version(2, 3500, 2500, 300),
    "long 28x28": Version(1, 3500, 2500, 100),
}


class Split(NamedTuple):
    """Training and held-out examples, scaled so that the longest training example has norm 1.

    `judged` are the indices of the training and of the held-out examples that errors are about.
    """

    X: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    image_shape: tuple[int, ...]
    judged: tuple[np.ndarray, np.ndarray]


def load_split(dataset: str, version: Version, *, random_state: int = 0) -> Split:
    """Return a version of a data set; `random_state` determines who is in it.

    Versions with as many held-out examples hold out the same ones, and a longer training set
    contains a shorter one.
    """
    data = load_dataset(dataset)
    if data.image_shape is None or data.y is None:
        raise ValueError(f"dataset={dataset!r}: the experiments need labelled images")
    # pixels are to begin at 0, as the report's methods can't tell x from -x
    data = replace(data, X=data.X - min(float(data.X.min()), 0.0))
    if version.step > 1:
        data = data.subsampled(step=version.step)
    y = data.y if version.by_class else np.zeros(len(data.y), int)
    least, needed = np.unique(y, return_counts=True)[1].min(), version.n_train + version.n_test
    if needed > least:
        raise ValueError(
            f"{version} needs {needed} examples of each class; a class of {dataset} has {least}"
        )
    # the first set drawn does not depend on the size of the second
    test, train = balanced_split(y, version.n_test, version.n_train, random_state=random_state)
    X, X_test = data.X[train], data.X[test]
    scaled = (scale_by_max_norm(Z, reference=X).astype(np.float32) for Z in (X, X_test))
    judged = _first_of_each(y[train], version.n_judged), _first_of_each(y[test], version.n_judged)
    return Split(*scaled, y[test], data.image_shape, judged)


def _first_of_each(y: np.ndarray, n: int) -> np.ndarray:
    """Return the indices of the first n examples of each class, or of all if n is 0."""
    places = [np.flatnonzero(y == label)[: n or None] for label in np.unique(y)]
    return np.sort(np.concatenate(places))


class PCAWithRidge(TransformerMixin, BaseEstimator):
    """PCA's code, decoded by kernel ridge regression.

    The regression is from codes, each divided by its standard deviation, to centred images, with a
    Gaussian kernel and up to `n_landmarks` codes as its centres. Width and ridge are those with the
    smallest error on a tenth of up to 3,000 examples, learned from the other nine tenths.
    """

    WIDTHS = (0.25, 0.5, 1.0)
    RIDGES = (0.01, 0.1, 1.0)

    def __init__(self, n_components=2, *, n_landmarks=3000, random_state=None) -> None:
        self.n_components = n_components
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def fit(self, X, y=None) -> Self:
        """Learn code and decoder. Return self."""
        self.pca_ = PCA(self.n_components, random_state=self.random_state).fit(X)
        self.spreads_ = np.sqrt(self.pca_.explained_variance_)
        Y, Z = self.transform(X) / self.spreads_, X - self.pca_.mean_
        order = np.random.default_rng(self.random_state).permutation(len(X))
        some = order[:3000]
        held, kept = np.split(some, [max(1, len(some) // 10)])

        def error(choice) -> float:
            kernel = self._kernel(choice[0])
            centers, weights = kernel_ridge(kernel, Y[kept], Z[kept], choice[1])
            return reconstruction_error(Z[held], kernel(Y[held], centers) @ weights)

        width, ridge = min(product(self.WIDTHS, self.RIDGES), key=error)
        self.kernel_ = self._kernel(width)
        centers = None if self.n_landmarks >= len(X) else Y[order[: self.n_landmarks]]
        self.centers_, self.dual_coef_ = kernel_ridge(self.kernel_, Y, Z, ridge, centers=centers)
        return self

    def _kernel(self, width):
        return RBF(gamma=width / self.n_components)

    def transform(self, X) -> np.ndarray:
        """Return PCA's codes."""
        return self.pca_.transform(X)

    def inverse_transform(self, X) -> np.ndarray:
        """Return what the regression makes of codes."""
        return self.kernel_(X / self.spreads_, self.centers_) @ self.dual_coef_ + self.pca_.mean_


class ReportKernelPCA(TransformerMixin, BaseEstimator):
    """Kernel PCA of degree 2, not centred, with the report's decoder, the leading eigenvector.

    With more than `n_landmarks` examples it is Nyström's approximation, as in the report.
    """

    def __init__(self, n_components=2, *, n_landmarks=3000, random_state=None) -> None:
        self.n_components = n_components
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def fit(self, X, y=None) -> Self:
        """Learn components. Return self."""
        degree_2 = {"kernel": "poly", "degree": 2, "gamma": 1, "coef0": 0, "center": False}
        options = {**degree_2, "preimage": "eigenvector", "random_state": self.random_state}
        if len(X) <= self.n_landmarks:
            model = KernelPCA(self.n_components, **options)
        else:
            model = NystromKernelPCA(self.n_components, n_landmarks=self.n_landmarks, **options)
        self.model_ = model.fit(X)
        return self

    def transform(self, X) -> np.ndarray:
        """Return codes."""
        return self.model_.transform(X)

    def inverse_transform(self, X) -> np.ndarray:
        """Return the images of codes."""
        return self.model_.inverse_transform(X)


def _report(estimator: type, k: int, seed: int, **options: Any):
    """Return an estimator that minimises the report's objective (18) for its quadratic code."""
    return estimator(k, objective="spectral", offset=False, random_state=seed, **options)


def _noise(kind: str, level: float):
    """Return the noise of a kind and level as estimators take it."""
    if kind == "gaussian":
        return level
    return lambda X, rng: np.where(rng.random_sample(X.shape) < level, X.dtype.type(0), X)


Maker = Callable[[int, int], Any]

#: Method -> function of k and a seed that returns an estimator. The first four are the report's.
METHODS: dict[str, Maker] = {
    "PCA": lambda k, seed: PCA(k, random_state=seed),
    "kernel PCA": lambda k, seed: ReportKernelPCA(k, random_state=seed),
    "AKPCA (18)": lambda k, seed: _report(AKPCA, k, seed),
    "DS-AKPCA (18)": lambda k, seed: _report(DataSpanAKPCA, k, seed),
    "AKPCA (15)": lambda k, seed: AKPCA(k, random_state=seed),
    "ridge autoencoder": lambda k, seed: RidgeAutoencoder(k, random_state=seed),
    "PCA + ridge": lambda k, seed: PCAWithRidge(k, random_state=seed),
    "deep autoencoder": lambda k, seed: Autoencoder(k, random_state=seed),
}

#: The report's own four.
REPORT_METHODS = tuple(METHODS)[:4]

#: Methods that are trained with the noise that they are judged by, for its kind and level.
NOISE_METHODS: dict[str, Callable[[int, int, str, float], Any]] = {
    "ridge autoencoder, with noise": lambda k, seed, kind, level: RidgeAutoencoder(
        k, noise=_noise(kind, level), random_state=seed
    ),
    "deep autoencoder, with noise": lambda k, seed, kind, level: Autoencoder(
        k, noise=_noise(kind, level), random_state=seed
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


def evaluate(
    model,
    split: Split,
    condition: str,
    *,
    random_state: int = 0,
    codes: Callable[[], np.ndarray] | None = None,
) -> float:
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
        the accuracy of a classifier trained with that many codes of each class; whatever the
        model, 'norm', the mean of ||x||^2 of held-out examples, by which versions can be compared,
        and 'variance', that of their squared distance from the mean of the training examples.
    random_state : int, default=0
        Of noise and of the classifier's splits.
    codes : callable, default=None
        Returns the codes of all held-out examples, if they are known.
    """
    kind, _, level = condition.partition(" ")
    if kind == "classify":
        Y = codes() if codes else model.transform(split.X_test)
        return _accuracy(Y, split.y_test, int(level), random_state)
    train, test = split.judged
    X = split.X[train] if condition == "train" else split.X_test[test]
    if condition == "norm":
        return reconstruction_error(X, np.zeros_like(X))
    if condition == "variance":
        return reconstruction_error(X, np.broadcast_to(split.X.mean(axis=0), X.shape))
    if condition in ("train", "held out"):
        noisy = X
    elif kind in ("gaussian", "speckle"):
        noisy = corrupt(X, kind, float(level), random_state=random_state)
    else:
        raise ValueError(
            f"condition={condition!r} must be 'train', 'held out', 'norm', 'variance', "
            "'gaussian s', 'speckle p' or 'classify m' with a number"
        )
    with warnings.catch_warnings():
        # noise may make a sample's sum negative, and that is part of the experiment
        warnings.filterwarnings("ignore", message=".*negative sum")
        return reconstruction_error(X, model.inverse_transform(model.transform(noisy)))


class Job(NamedTuple):
    """A method fitted to a version of the data, and the conditions under which it is judged."""

    data: str
    method: str
    k: int
    seed: int
    conditions: tuple[str, ...]


class Row(NamedTuple):
    """A result, and the CPU seconds of the fit if it is the first one of a fitted model."""

    job: Job
    condition: str
    value: float
    seconds: float | None

    @property
    def key(self) -> tuple:
        """What names the result: the entries of `COLUMNS`."""
        return (*self.job[:4], self.condition)

    @property
    def fit_key(self) -> tuple:
        """What names the fit: one for all conditions, unless the method learns from its noise."""
        return self.key if self.job.method in NOISE_METHODS else (*self.job[:4], "fit")


Options = Mapping[str | tuple[str, str], Mapping[str, Any]]


# The split of the last job is kept for the next.
_kept_split = lru_cache(maxsize=1)(load_split)


def _rows(job: Job, dataset: str, version: Version, options: Options) -> list[Row]:
    """Return the results of a job."""
    split = _kept_split(dataset, version, random_state=job.seed)
    # one fitted model for all conditions, unless the method learns from its noise
    each = [(c,) for c in job.conditions] if job.method in NOISE_METHODS else [job.conditions]
    with one_blas_thread():
        return [row for conditions in each for row in _fit(job, split, conditions, options)]


def _fit(job: Job, split: Split, conditions: tuple[str, ...], options: Options) -> Iterator[Row]:
    """Fit the model of a job, and yield its results under some conditions."""
    if job.method in NOISE_METHODS:
        kind, level = conditions[0].split()
        model = NOISE_METHODS[job.method](job.k, job.seed, kind, float(level))
    else:
        model = METHODS[job.method](job.k, job.seed)
    start = time.process_time()
    model.set_params(**options.get((job.method, job.data), options.get(job.method, {})))
    model.fit(split.X)
    seconds = time.process_time() - start
    codes = cache(lambda: model.transform(split.X_test))
    for condition in conditions:
        value = evaluate(model, split, condition, random_state=job.seed, codes=codes)
        # six digits: the others are not the same on another machine
        yield Row(job, condition, float(f"{value:.6g}"), seconds)
        seconds = None


def run(
    jobs: Iterable[Job],
    table: ResultTable,
    dataset: str,
    versions: Mapping[str, Version],
    *,
    options: Options | None = None,
    n_jobs: int = 1,
    times: ResultTable | None = None,
    verbose: bool = False,
) -> None:
    """Do what is missing in the table, and write the rows of each job as they come.

    In the end rows are in the order of the jobs, however many processes there were, and whatever
    interrupted an earlier run. All arithmetic is done by one thread of a process.

    Parameters
    ----------
    jobs : iterable of Job
    table : ResultTable
        With the columns `COLUMNS`.
    dataset : str
    versions : mapping of str to Version
        By the names that jobs have for them.
    options : mapping, default=None
        Method, or pair of method and version -> parameters of its estimator that replace those of
        `METHODS`.
    n_jobs : int, default=1
        Number of processes.
    times : ResultTable, default=None
        Where to write the CPU seconds of each fit, with 'fit' or its noise as the condition.
    verbose : bool, default=False
        Show a progress bar.
    """
    if n_jobs < 1:
        raise ValueError(f"{n_jobs=} must be at least 1")
    jobs, missing = list(jobs), []
    for job in jobs:
        conditions = tuple(c for c in job.conditions if (*job[:4], c) not in table)
        if conditions:
            missing.append(job._replace(conditions=conditions))
    work = (delayed(_rows)(job, dataset, versions[job.data], options or {}) for job in missing)
    rows = (row for done in Parallel(n_jobs, return_as="generator")(work) for row in done)
    total = sum(len(job.conditions) for job in missing)
    for row in progress_bar(rows, shown=verbose, desc="experiments", unit="row", total=total):
        if times is not None and row.seconds is not None and row.fit_key not in times:
            times.add(*row.fit_key, value=round(row.seconds, 2))
        table.add(*row.key, value=row.value)
    table.sort((*job[:4], condition) for job in jobs for condition in job.conditions)
    if times is not None:
        times.sort((*job[:4], c) for job in jobs for c in ("fit", *job.conditions))


# Plans ------------------------------------------------------------------------------------------


class Plan(NamedTuple):
    """What is to be run.

    Attributes
    ----------
    name : str
        Of the file of its rows: rows of plans that differ must not be mixed.
    dataset : str
    versions : mapping of str to Version
        Those whose names begin with 'short' and 'long' and else agree are compared.
    n_components, seeds : tuple of int
    denoising : tuple of str
        Noise, as in `DENOISING`.
    classify : tuple of int
        Examples per class of a small and of a large training set of the classifier.
    noise_versions : tuple of str
    noise_components : tuple of int
        Where, and with which sizes of the code, `NOISE_METHODS` are run.
    options : mapping
        As in `run`.
    methods, noise_methods : tuple of str
        Among `METHODS` and `NOISE_METHODS`.
    few_components : mapping of str to tuple of int
        Version -> sizes of the code, where they are not `n_components`.
    noise_seeds : tuple of int
        The seeds of `NOISE_METHODS`; None is all.
    """

    name: str
    dataset: str
    versions: Mapping[str, Version]
    n_components: tuple[int, ...]
    seeds: tuple[int, ...]
    denoising: tuple[str, ...]
    classify: tuple[int, ...]
    noise_versions: tuple[str, ...]
    noise_components: tuple[int, ...]
    options: Options
    methods: tuple[str, ...] = tuple(METHODS)
    noise_methods: tuple[str, ...] = tuple(NOISE_METHODS)
    few_components: Mapping[str, tuple[int, ...]] = MappingProxyType({})
    noise_seeds: tuple[int, ...] | None = None

    def sizes(self, data: str) -> tuple[int, ...]:
        """Return the sizes of the code for a version: `n_components`, unless it has its own."""
        return self.few_components.get(data, self.n_components)

    def seeds_of(self, methods: Sequence[str]) -> tuple[int, ...]:
        """Return the seeds that methods have in common."""
        few = self.noise_seeds is not None and set(methods) & set(NOISE_METHODS)
        return tuple(s for s in self.seeds if s in self.noise_seeds) if few else self.seeds

    @property
    def shown(self) -> tuple[int, ...]:
        """The sizes of the code in the report's figures 8 and 10, or else all."""
        return tuple(k for k in self.n_components if k in (10, 20)) or self.n_components

    @property
    def jobs(self) -> list[Job]:
        """All jobs, those on one split in succession; noise with the sizes that are `shown`."""
        accuracies = tuple(f"classify {m}" for m in self.classify)

        def conditions(data, k, method):
            # what does not depend on the method is measured with the first one
            first = (k, method) == (self.sizes(data)[0], self.methods[0])
            sizes = ("norm", "variance") if first else ()
            noise = self.denoising if k in self.shown else ()
            return (*sizes, "train", "held out", *noise, *accuracies)

        jobs = []
        for seed, data in product(self.seeds, self.versions):
            jobs += [
                Job(data, method, k, seed, conditions(data, k, method))
                for k, method in product(self.sizes(data), self.methods)
            ]
            if data in self.noise_versions and seed in self.seeds_of(self.noise_methods):
                places = product(self.noise_components, self.noise_methods)
                jobs += [Job(data, method, k, seed, self.denoising) for k, method in places]
        return jobs

    def levels(self, kind: str) -> list[float]:
        """Return the levels of a kind of noise."""
        return [float(c.split()[1]) for c in self.denoising if c.startswith(kind)]

    def pairs(self) -> list[tuple[str, str]]:
        """Return the names of versions that differ in the number of training examples."""
        pairs = [(name, name.replace("short", "long")) for name in self.versions]
        return [pair for pair in pairs if pair[0] != pair[1] and pair[1] in self.versions]


def default_plan(
    dataset: str = "mnist5k",
    *,
    n_short: int = 60,
    n_long: int = 150,
    n_test: int = 40,
    n_components: Sequence[int] = (10, 20),
    seeds: Sequence[int] = (0, 1),
    n_epochs: int = 6,
) -> Plan:
    """Return the report's experiments at the size of a minute: two small versions, short fits.

    Sizes are examples of each class. Images of 14 pixels a side and more lose every other row and
    column. `n_epochs` is for the methods that descend on the eigenvector's error.
    """
    data = load_dataset(dataset)
    if data.y is None or data.image_shape is None:
        raise ValueError(f"{dataset=} must be labelled images")
    step = 2 if min(data.image_shape[:2]) >= 14 else 1
    shape = data.subsampled(step=step).image_shape
    most = min(prod(shape), n_short * len(np.unique(data.y))) // 4
    if not n_components or not 1 <= min(n_components) <= max(n_components) <= most:
        raise ValueError(f"n_components={tuple(n_components)} must be from 1 to {most}")
    if not (1 <= n_short < n_long and n_test >= 10 and seeds):
        raise ValueError(
            f"{n_short=} must be below {n_long=}, {n_test=} at least 10, and there must be a seed"
        )
    size = f"{shape[0]}x{shape[1]}"
    n_samples = n_short * len(np.unique(data.y))
    passes = {"n_epochs": n_epochs}
    span = passes | {"n_landmarks": min(600, n_samples)}
    descents = dict.fromkeys(("AKPCA (18)", "AKPCA (15)"), passes)
    return Plan(
        name=table_name(dataset, n_short, n_long, n_test, n_epochs),
        dataset=dataset,
        versions={
            f"short {size}": Version(step, n_short, n_test, n_test),
            f"long {size}": Version(step, n_long, n_test, n_test),
        },
        n_components=tuple(n_components),
        seeds=tuple(seeds),
        denoising=("gaussian 0.04", "gaussian 0.1", "speckle 0.2", "speckle 0.4"),
        classify=(min(18, n_test // 2), 7 * n_test // 10),
        noise_versions=(f"short {size}",),
        noise_components=(10 if 10 in n_components else min(n_components),),
        options=descents | {"DS-AKPCA (18)": span},
    )


def paper_plan(dataset: str = "mnist", *, seeds: Sequence[int] = (0, 1, 2)) -> Plan:
    """Return the report's experiments at their own size, and with the long 28x28 version."""
    return Plan(
        name=f"{dataset}-paper",
        dataset=dataset,
        versions=PAPER_VERSIONS,
        n_components=(5, 10, 15, 20, 25),
        seeds=tuple(seeds),
        denoising=DENOISING,
        classify=(18, 1750),
        noise_versions=("long 14x14",),
        noise_components=(10, 20),
        options=_paper_options(),
        few_components={"long 28x28": (10, 20)},
        noise_seeds=tuple(seeds)[:2],
    )


def _paper_options() -> Options:
    """Return passes over the images, and landmarks.

    On long 14x14 with k = 10, twice as many passes lower the held-out error by 0.2 % (AKPCA (18),
    from 2), and the second one by 0.8 % (DS-AKPCA (18)). AKPCA (15) gains 5 % from 2 to 4. Kernel
    PCA with 2,000 landmarks has 0.02 % more error than without an approximation.
    """
    epochs = {  # short 14x14, short 28x28, long 14x14, long 28x28
        "AKPCA (18)": (14, 5, 2, 1),
        "AKPCA (15)": (14, 5, 4, 1),
        "DS-AKPCA (18)": (7, 5, 2, 1),
        "deep autoencoder": (50, 50, 30, 30),
    }
    options: dict[tuple[str, str], dict[str, Any]] = {
        (method, data): {"n_epochs": n}
        for method, numbers in epochs.items()
        for data, n in zip(PAPER_VERSIONS, numbers, strict=True)
    }
    for (method, data), given in options.items():
        if method == "DS-AKPCA (18)" and data.startswith("long"):
            given["n_landmarks"] = 2000
    for data in ("long 14x14", "long 28x28"):
        options["kernel PCA", data] = {"n_landmarks": 2000}
    # at least the CPU time that the ridge autoencoder takes with noise, 22 seconds
    options["deep autoencoder, with noise", "long 14x14"] = {"n_epochs": 60}
    return options


def photo_plan(dataset: str, *, seeds: Sequence[int] = (0, 1, 2)) -> Plan:
    """Return reconstruction of photographs, on which the report says its methods did not do well.

    'cifar10' has 16x16 pixels in three colours, 'lfw' grey faces of 20x20 from all people together,
    since there are too few of most of them; training sets have about 2,000 images.
    """
    versions = {
        "cifar10": Version(2, 200, 100),
        "lfw": Version(3, 2000, 1000, by_class=False),
    }
    if dataset not in versions:
        raise ValueError(f"{dataset=} must be one of {', '.join(versions)}")
    return Plan(
        name=f"{dataset}-paper",
        dataset=dataset,
        versions={dataset: versions[dataset]},
        n_components=(10, 20),
        seeds=tuple(seeds),
        denoising=(),
        classify=(),
        noise_versions=(),
        noise_components=(),
        options={"AKPCA (18)": {"n_epochs": 8}},
        methods=("PCA", "kernel PCA", "AKPCA (18)", "ridge autoencoder", "PCA + ridge"),
        noise_methods=(),
    )


# Findings ---------------------------------------------------------------------------------------


class Results(NamedTuple):
    """The rows of a plan, as figures and claims need them: arrays with an entry for each seed."""

    table: ResultTable
    plan: Plan

    def value(
        self, data: str, k: int, method: str, condition: str, *, beside: Sequence[str] = ()
    ) -> np.ndarray:
        """Return a result, for the seeds that the method has in common with those `beside` it."""
        seeds = self.plan.seeds_of((method, *beside))
        return np.array([self.table[(data, method, k, seed, condition)] for seed in seeds])

    def lowest(
        self, data: str, k: int, methods: Sequence[str], condition: str, *, beside: Sequence[str]
    ) -> np.ndarray:
        """Return the result of the method with the smallest mean, as `value` does."""
        found = [self.value(data, k, m, condition, beside=beside) for m in methods]
        return min(found, key=np.mean)

    def norm(self, data: str, *, condition: str = "norm") -> np.ndarray:
        """Return the mean squared norm of held-out images, or their variance."""
        return self.value(data, self.plan.sizes(data)[0], self.plan.methods[0], condition)

    def share(self, data: str, k: int, method: str, condition: str) -> np.ndarray:
        """Return an error as a share of the mean squared norm."""
        return self.value(data, k, method, condition) / self.norm(data)

    def gap(self, data: str, k: int, method: str) -> np.ndarray:
        """Return how much the held-out error is above the training error, as such shares."""
        return self.share(data, k, method, "held out") - self.share(data, k, method, "train")

    def curves(self, data: str, condition: str) -> dict[str, list[np.ndarray]]:
        """Return method -> results for all sizes of the code."""
        sizes = self.plan.sizes(data)
        return {m: [self.value(data, k, m, condition) for k in sizes] for m in self.plan.methods}

    def denoised(self, data: str, k: int, kind: str) -> dict[str, list[np.ndarray]]:
        """Return method -> errors without noise and with all levels of a kind of it.

        Methods that are trained with noise have an empty array where there is none.
        """
        levels = [c for c in self.plan.denoising if c.startswith(kind)]
        clean = {m: self.value(data, k, m, "held out") for m in self.plan.methods}
        if data in self.plan.noise_versions and k in self.plan.noise_components:
            clean |= dict.fromkeys(self.plan.noise_methods, np.array([]))
        return {m: [clean[m], *(self.value(data, k, m, c) for c in levels)] for m in clean}

    def relative(self, condition: str) -> dict[str, float]:
        """Return method -> mean error over that of PCA, over versions and sizes of codes."""
        means = {
            m: np.array([np.mean(self.value(*at, m, condition)) for at in self.everywhere])
            for m in self.plan.methods
        }
        return {m: float(np.mean(means[m] / means["PCA"])) for m in means}

    def below(self, first: str, others, condition: str, places) -> list[Comparison]:
        """Return the comparisons that a method is below others, in places: versions and sizes."""
        return [
            Comparison(*(self.value(*at, method, condition) for method in (first, other)), at[0])
            for at, other in product(places, others)
        ]

    def below_with_noise(self, kind: str, first: str, others, chosen, places) -> list[Comparison]:
        """Return such comparisons for the levels of noise that are `chosen`."""
        levels = [c for c in self.plan.denoising if c.startswith(kind)]
        levels = [c for c in levels if chosen(float(c.split()[1]))]
        return [c for level in levels for c in self.below(first, others, level, places)]

    @property
    def everywhere(self) -> list[tuple[str, int]]:
        """All versions, with their sizes of the code."""
        return [(data, k) for data in self.plan.versions for k in self.plan.sizes(data)]

    @property
    def small(self) -> list[tuple[str, int]]:
        """Those with a short training set."""
        return [place for place in self.everywhere if place[0].startswith("short")]


def read_results(plan: Plan, folder: str | Path) -> Results | None:
    """Return what the table of a plan in a folder has, or None if there is nothing to be judged.

    A run that is not complete has the seeds for which there are all rows. Methods trained with
    noise have the versions, and the seeds, for which there are all of theirs.
    """
    path = Path(folder) / f"{plan.name}.csv"
    if not path.exists():
        return None
    table = ResultTable(path, COLUMNS)

    def complete(plan, noisy):
        jobs = [job for job in plan.jobs if (job.method in NOISE_METHODS) == noisy]
        absent = {j.seed for j in jobs for c in j.conditions if (*j[:4], c) not in table}
        return tuple(seed for seed in plan.seeds if seed in {j.seed for j in jobs} - absent)

    plan = plan._replace(seeds=complete(plan, False))
    each = {data: plan._replace(noise_versions=(data,)) for data in plan.noise_versions}
    seeds = {data: complete(one, True) for data, one in each.items()}
    known = tuple(data for data in seeds if seeds[data])
    common = tuple(seed for seed in plan.seeds if all(seed in seeds[data] for data in known))
    noise = {"noise_versions": known, "noise_seeds": common}
    noise["noise_methods"] = plan.noise_methods if known and common else ()
    return Results(table, plan._replace(**noise)) if plan.seeds else None


def results_folder() -> Path:
    """Return the folder with the tables that belong to the notebooks."""
    return folder_of_results(RESULTS.name)


def side_by_side(
    studies: Mapping[str, Results],
    panel: Callable[[Results, str, Any], tuple[str, tuple]],
    choices: Iterable[Any] = ("",),
) -> dict[str, tuple]:
    """Return the panels of a figure: studies beside each other, short training sets above long.

    Parameters
    ----------
    studies : mapping of str to Results
        By what they are called in titles.
    panel : callable
        Function of results, version and choice that returns the end of a title, and what is drawn.
    choices : iterable, default=('',)
        Each has rows of its own, in this order.
    """
    panels = {}
    for choice, length, (name, results) in product(choices, ("short", "long"), studies.items()):
        for data in results.plan.versions:
            if data.startswith(length):
                title, drawn = panel(results, data, choice)
                panels[f"{name}: {data}{title}"] = drawn
    return panels


def findings(table: ResultTable, plan: Plan) -> list[Finding]:
    """Return what the report claims of its four methods, and what the rows of a plan say."""
    results = Results(table, plan)
    parts = (_reconstruction, _training_sets, _gaussian, _speckle, _classification)
    return [finding for part in parts for finding in part(results)]


def _reconstruction(rows: Results) -> Iterable[Finding]:
    pca, kpca, akpca, span = REPORT_METHODS
    for figure, condition, where in ((3, "train", "training"), (4, "held out", "held-out")):
        for first, others in ((pca, (kpca,)), (span, (pca, kpca)), (akpca, (span,))):
            claim = f"{first} is below {' and '.join(others)} on {where} images"
            yield Finding(figure, claim, rows.below(first, others, condition, rows.everywhere))


def _training_sets(rows: Results) -> Iterable[Finding]:
    pca, kpca, akpca, span = REPORT_METHODS
    sizes = [
        ((short, long), k, method)
        for short, long in rows.plan.pairs()
        for k, method in product(rows.plan.sizes(long), REPORT_METHODS)
    ]
    less = [
        Comparison(rows.gap(long, k, m), rows.gap(short, k, m)) for (short, long), k, m in sizes
    ]
    yield Finding(5, "The gap is smaller for the long training set", less)
    widest = [
        Comparison(rows.gap(*at, other), rows.gap(*at, akpca), at[0])
        for at, other in product(rows.small, (pca, kpca, span))
    ]
    yield Finding(5, f"With few images {akpca} has the largest gap of the four", widest)
    for unit, error in (("", rows.value), (", as a share of the squared norm", rows.share)):
        better = [
            Comparison(error(long, k, m, "held out"), error(short, k, m, "held out"))
            for (short, long), k, m in sizes
        ]
        yield Finding(6, f"The long training set leaves less held-out error{unit}", better)


def _gaussian(rows: Results) -> Iterable[Finding]:
    pca, kpca, akpca, span = REPORT_METHODS
    places = list(product(rows.plan.versions, rows.plan.shown))

    def ahead(first, others, chosen):
        return rows.below_with_noise("gaussian", first, others, chosen, places)

    low = ahead(akpca, (pca, kpca, span), lambda sigma: sigma <= 0.04)
    yield Finding(8, f"{akpca} is the best of the four up to a noise of 0.04", low)
    high = ahead(kpca, (pca, akpca, span), lambda sigma: sigma > 0.04)
    yield Finding(8, f"{kpca} is the best of the four above 0.04", high)
    high = ahead(span, (pca, kpca), lambda sigma: sigma > 0.04)
    yield Finding(8, f"{span} is ahead of {pca} and {kpca} above 0.04", high)


def _speckle(rows: Results) -> Iterable[Finding]:
    pca, kpca, akpca, span = REPORT_METHODS
    places = list(product(rows.plan.versions, rows.plan.shown))
    fine = [place for place in places if "28x28" in place[0]]
    coarse = [place for place in places if place not in fine]
    for first in (akpca, span):
        speckled = rows.below_with_noise("speckle", first, (pca, kpca), lambda _: True, coarse)
        claim = f"With speckle {first} is ahead of {pca} and {kpca} on small images"
        yield Finding(10, claim, speckled)
    speckled = rows.below_with_noise("speckle", span, (pca, kpca), lambda p: p <= 0.3, fine)
    claim = f"With speckle up to 0.3 {span} is ahead of {pca} and {kpca} on 28x28 images"
    yield Finding(10, claim, speckled)


def _classification(rows: Results) -> Iterable[Finding]:
    pca, kpca, akpca, span = REPORT_METHODS
    few, many = (f"classify {m}" for m in rows.plan.classify)
    ahead = [
        Comparison(rows.value(*at, other, few), rows.value(*at, akpca, few), at[0])
        for at, other in product(rows.small, (pca, kpca, span))
    ]
    yield Finding(11, f"Codes of {akpca} classify best if both training sets are small", ahead)
    behind = []
    for at, condition in product(rows.everywhere, (few, many)):
        if at[1] >= 20 and not (at in rows.small and condition == few):
            rivals = [rows.value(*at, method, condition) for method in (pca, kpca)]
            ours = rows.value(*at, akpca, condition)
            behind.append(Comparison(ours, np.maximum(*rivals), at[0]))
    claim = f"Elsewhere {pca} or {kpca} is ahead of {akpca} from 20 components on"
    yield Finding(11, claim, behind)
