"""The experiments of section 6 of the AKPCA report, as functions that a run is made of.

A `Version` of a data set is split and scaled by `load_split`; a `Job` is one method of `METHODS` or
`NOISE_METHODS` fitted to it, with the conditions under which it is judged; `run` does jobs and
writes one row a condition into a :class:`.tables.ResultTable`. The rivals are those that a reader
would try: PCA's code with a ridge decoder, and a deep autoencoder.

A `Plan` is a set of jobs, `default_plan` one of a minute and `paper_plan` that of the report.
`findings` compares what the report claims with the rows of a plan.

Cohen, Hazan and Ma, "Autoencoder kernel PCA", technical report, 2016.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from math import prod
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
    "REPORT_METHODS",
    "Comparison",
    "Finding",
    "Job",
    "PCAWithRidge",
    "Plan",
    "Split",
    "Version",
    "corrupt",
    "default_plan",
    "evaluate",
    "findings",
    "load_split",
    "paper_plan",
    "run",
    "values",
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
    """Return a version of a data set; `random_state` determines who is in it.

    Versions with as many held-out examples hold out the same ones, and a longer training set
    contains a shorter one.
    """
    data = load_dataset(dataset)
    if data.image_shape is None or data.y is None:
        raise ValueError(f"dataset={dataset!r}: the experiments need labelled images")
    if version.step > 1:
        data = data.subsampled(step=version.step)
    least, needed = np.unique(data.y, return_counts=True)[1].min(), version.n_train + version.n_test
    if needed > least:
        raise ValueError(
            f"{version} needs {needed} examples of each class; a class of {dataset} has {least}"
        )
    # the first set drawn does not depend on the size of the second
    test, train = balanced_split(data.y, version.n_test, version.n_train, random_state=random_state)
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
    "kernel PCA": _kernel_pca,
    "AKPCA (18)": lambda k, seed: _report(AKPCA, k, seed),
    "DS-AKPCA (18)": lambda k, seed: _report(DataSpanAKPCA, k, seed),
    "AKPCA (15)": lambda k, seed: AKPCA(k, decoder="eigenvector", random_state=seed),
    "AKPCA": lambda k, seed: AKPCA(k, random_state=seed),
    "PCA + ridge": lambda k, seed: PCAWithRidge(k, random_state=seed),
    "deep autoencoder": lambda k, seed: Autoencoder(k, random_state=seed),
}

#: The report's own four.
REPORT_METHODS = tuple(METHODS)[:4]

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
        the accuracy of a classifier trained with that many codes of each class; 'norm', whatever
        the model, the mean of ||x||^2 of held-out examples, by which versions can be compared.
    random_state : int, default=0
        Of noise and of the classifier's splits.
    """
    kind, _, level = condition.partition(" ")
    if condition == "train":
        return reconstruction_error(split.X, model.inverse_transform(model.transform(split.X)))
    X = split.X_test
    if condition == "norm":
        return reconstruction_error(X, np.zeros_like(X))
    if kind == "classify":
        return _accuracy(model.transform(X), split.y_test, int(level), random_state)
    if condition == "held out":
        noisy = X
    elif kind in ("gaussian", "speckle"):
        noisy = corrupt(X, kind, float(level), random_state=random_state)
    else:
        raise ValueError(
            f"condition={condition!r} must be 'train', 'held out', 'norm', 'gaussian s', "
            "'speckle p' or 'classify m' with a number"
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


Options = Mapping[str, Mapping[str, Any]]


def run(
    jobs: Iterable[Job],
    table: ResultTable,
    dataset: str,
    versions: Mapping[str, Version],
    *,
    options: Options | None = None,
    verbose: bool = False,
) -> None:
    """Do what is missing in the table, a row at a time, in the order of the jobs.

    `options` maps a method to parameters of its estimator that replace those of `METHODS`.
    """
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
        _run_job(job, table, split, (options or {}).get(job.method, {}))


def _run_job(job: Job, table: ResultTable, split: Split, options: Mapping[str, Any]) -> None:
    model = None
    for condition in job.conditions:
        if job.method in NOISE_METHODS:
            kind, level = condition.split()
            model = NOISE_METHODS[job.method](job.k, job.seed, kind, float(level))
            model.set_params(**options).fit(split.X)
        elif model is None:
            model = METHODS[job.method](job.k, job.seed).set_params(**options).fit(split.X)
        value = evaluate(model, split, condition, random_state=job.seed)
        table.add(*job[:4], condition, value=value)


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
    """

    name: str
    dataset: str
    versions: Mapping[str, Version]
    n_components: tuple[int, ...]
    seeds: tuple[int, ...]
    denoising: tuple[str, ...]
    classify: tuple[int, int]
    noise_versions: tuple[str, ...]
    noise_components: tuple[int, ...]
    options: Options

    @property
    def shown(self) -> tuple[int, ...]:
        """The sizes of the code in the report's figures 8 and 10, or else all."""
        return tuple(k for k in self.n_components if k in (10, 20)) or self.n_components

    @property
    def jobs(self) -> list[Job]:
        """All jobs, those on one split in succession; noise with the sizes that are `shown`."""
        accuracies = tuple(f"classify {m}" for m in self.classify)

        def conditions(k):
            noise = self.denoising if k in self.shown else ()
            return ("train", "held out", "norm", *noise, *accuracies)

        jobs = []
        for seed, data in product(self.seeds, self.versions):
            places = product(self.n_components, METHODS)
            jobs += [Job(data, method, k, seed, conditions(k)) for k, method in places]
            if data in self.noise_versions:
                places = product(self.noise_components, NOISE_METHODS)
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
    if data.y is None or data.image_shape is None or data.X.min() < 0:
        raise ValueError(f"{dataset=} must be labelled images without negative pixels")
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
    single = {"n_epochs": n_epochs, "precision": "single"}
    span = single | {"n_landmarks": min(600, n_samples)}
    descents = dict.fromkeys(("AKPCA (18)", "AKPCA (15)", "AKPCA, with noise"), single)
    return Plan(
        name=f"{dataset}-{n_short}-{n_long}-{n_test}-epochs-{n_epochs}",
        dataset=dataset,
        versions={
            f"short {size}": Version(step, n_short, n_test),
            f"long {size}": Version(step, n_long, n_test),
        },
        n_components=tuple(n_components),
        seeds=tuple(seeds),
        denoising=("gaussian 0.04", "gaussian 0.1", "speckle 0.2", "speckle 0.4"),
        classify=(min(18, n_test // 2), 7 * n_test // 10),
        noise_versions=(f"short {size}",),
        noise_components=(10 if 10 in n_components else min(n_components),),
        options=descents | {"DS-AKPCA (18)": span, "PCA + ridge": {"n_landmarks": 500}},
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
        noise_versions=("short 14x14", "short 28x28", "long 14x14"),
        noise_components=(10, 20),
        options={},
    )


# Findings ---------------------------------------------------------------------------------------


class Comparison(NamedTuple):
    """Two results that a claim orders, each for every seed: the smaller and the larger one."""

    smaller: np.ndarray
    larger: np.ndarray

    @property
    def holds(self) -> bool:
        """Whether the mean over seeds is as claimed."""
        return bool(np.mean(self.smaller) < np.mean(self.larger))


class Finding(NamedTuple):
    """A claim of the report, and what came out.

    Attributes
    ----------
    figure : int
        The report's figure.
    claim : str
        In our words: this is below that.
    comparisons : list of Comparison
        One for each version of the data, size of the code, level of noise, ... that it is about.
    """

    figure: int
    claim: str
    comparisons: list[Comparison]

    @property
    def count(self) -> str:
        """In how many comparisons the claim holds."""
        return f"{sum(c.holds for c in self.comparisons)} of {len(self.comparisons)}"

    @property
    def verdict(self) -> str:
        """All comparisons hold, some or none."""
        held = [c.holds for c in self.comparisons]
        if not held:
            return "not tested"
        return "reproduced" if all(held) else "in part" if any(held) else "not reproduced"

    @property
    def counts(self) -> list[int]:
        """In how many comparisons the claim holds for each seed."""
        smaller, larger = (np.array(side) for side in zip(*self.comparisons, strict=True))
        return [int(n) for n in np.sum(smaller < larger, axis=0)]

    @property
    def ratios(self) -> list[float]:
        """The sum of all that should be smaller over that of all that should be larger, by seed."""
        smaller, larger = (np.sum(side, axis=0) for side in zip(*self.comparisons, strict=True))
        return [float(a / b) if b else float(a > b) for a, b in zip(smaller, larger, strict=True)]

    def row(self) -> list[str]:
        """Return figure, counts, the mean ratio, its range over seeds, and the verdict."""
        if not self.comparisons:
            return [str(self.figure), "–", "–", "–", self.verdict]
        low, high, mean = min(self.ratios), max(self.ratios), np.mean(self.ratios)
        spread = f"{low:.2f} to {high:.2f}"
        return [str(self.figure), self.count, f"{mean:.2f}", spread, f"*{self.verdict}*"]

    def sentence(self) -> str:
        """Return claim, verdict and counts as a sentence."""
        if not self.comparisons:
            return f"{self.claim}: *not tested* with these settings."
        seeds = len(self.comparisons[0].smaller)
        by_seed = f"; by seed {', '.join(map(str, self.counts))}" if seeds > 1 else ""
        return f"{self.claim}: **{self.verdict}**, in {self.count} comparisons{by_seed}."


def values(
    table: ResultTable, plan: Plan, data: str, method: str, k: int, condition: str
) -> np.ndarray:
    """Return a result for each seed of a plan."""
    return np.array([table[(data, method, k, seed, condition)] for seed in plan.seeds])


class _Rows(NamedTuple):
    """The rows of a plan, as the claims need them."""

    table: ResultTable
    plan: Plan

    def value(self, data, k, method, condition):
        return values(self.table, self.plan, data, method, k, condition)

    def share(self, data, k, method, condition):
        return self.value(data, k, method, condition) / self.value(data, k, method, "norm")

    def gap(self, data, k, method):
        return self.share(data, k, method, "held out") - self.share(data, k, method, "train")

    def below(self, first, others, condition, places):
        return [
            Comparison(self.value(*at, first, condition), self.value(*at, other, condition))
            for at, other in product(places, others)
        ]

    def denoising(self, kind, first, others, chosen, places):
        levels = [c for c in self.plan.denoising if c.startswith(kind)]
        levels = [c for c in levels if chosen(float(c.split()[1]))]
        return [c for level in levels for c in self.below(first, others, level, places)]

    @property
    def everywhere(self):
        return list(product(self.plan.versions, self.plan.n_components))

    @property
    def small(self):
        return [place for place in self.everywhere if place[0].startswith("short")]


def findings(table: ResultTable, plan: Plan) -> list[Finding]:
    """Return what the report claims of its four methods, and what the rows of a plan say."""
    rows = _Rows(table, plan)
    parts = (_reconstruction, _training_sets, _gaussian, _speckle, _classification)
    return [finding for part in parts for finding in part(rows)]


def _reconstruction(rows: _Rows) -> Iterable[Finding]:
    pca, kpca, akpca, span = REPORT_METHODS
    for figure, condition, where in ((3, "train", "training"), (4, "held out", "held-out")):
        for first, others in ((pca, (kpca,)), (span, (pca, kpca)), (akpca, (span,))):
            claim = f"{first} is below {' and '.join(others)} on {where} images"
            yield Finding(figure, claim, rows.below(first, others, condition, rows.everywhere))


def _training_sets(rows: _Rows) -> Iterable[Finding]:
    pca, kpca, akpca, span = REPORT_METHODS
    sizes = list(product(rows.plan.pairs(), rows.plan.n_components, REPORT_METHODS))
    less = [
        Comparison(rows.gap(long, k, m), rows.gap(short, k, m)) for (short, long), k, m in sizes
    ]
    yield Finding(5, "The gap is smaller for the long training set", less)
    widest = [
        Comparison(rows.gap(*at, other), rows.gap(*at, akpca))
        for at, other in product(rows.small, (pca, kpca, span))
    ]
    yield Finding(5, f"With few images {akpca} has the largest gap of the four", widest)
    for unit, error in (("", rows.value), (", as a share of the squared norm", rows.share)):
        better = [
            Comparison(error(long, k, m, "held out"), error(short, k, m, "held out"))
            for (short, long), k, m in sizes
        ]
        yield Finding(6, f"The long training set leaves less held-out error{unit}", better)


def _gaussian(rows: _Rows) -> Iterable[Finding]:
    pca, kpca, akpca, span = REPORT_METHODS
    places = list(product(rows.plan.versions, rows.plan.shown))

    def ahead(first, others, chosen):
        return rows.denoising("gaussian", first, others, chosen, places)

    low = ahead(akpca, (pca, kpca, span), lambda sigma: sigma <= 0.04)
    yield Finding(8, f"{akpca} is the best of the four up to a noise of 0.04", low)
    high = ahead(kpca, (pca, akpca, span), lambda sigma: sigma > 0.04)
    yield Finding(8, f"{kpca} is the best of the four above 0.04", high)
    high = ahead(span, (pca, kpca), lambda sigma: sigma > 0.04)
    yield Finding(8, f"{span} is ahead of {pca} and {kpca} above 0.04", high)


def _speckle(rows: _Rows) -> Iterable[Finding]:
    pca, kpca, akpca, span = REPORT_METHODS
    places = list(product(rows.plan.versions, rows.plan.shown))
    fine = [place for place in places if "28x28" in place[0]]
    coarse = [place for place in places if place not in fine]
    for first in (akpca, span):
        speckled = rows.denoising("speckle", first, (pca, kpca), lambda _: True, coarse)
        claim = f"With speckle {first} is ahead of {pca} and {kpca} on small images"
        yield Finding(10, claim, speckled)
    speckled = rows.denoising("speckle", span, (pca, kpca), lambda p: p <= 0.3, fine)
    claim = f"With speckle up to 0.3 {span} is ahead of {pca} and {kpca} on 28x28 images"
    yield Finding(10, claim, speckled)


def _classification(rows: _Rows) -> Iterable[Finding]:
    pca, kpca, akpca, span = REPORT_METHODS
    few, many = (f"classify {m}" for m in rows.plan.classify)
    ahead = [
        Comparison(rows.value(*at, other, few), rows.value(*at, akpca, few))
        for at, other in product(rows.small, (pca, kpca, span))
    ]
    yield Finding(11, f"Codes of {akpca} classify best if both training sets are small", ahead)
    behind = []
    for at, condition in product(rows.everywhere, (few, many)):
        if at[1] >= 20 and not (at in rows.small and condition == few):
            rivals = [rows.value(*at, method, condition) for method in (pca, kpca)]
            behind.append(Comparison(rows.value(*at, akpca, condition), np.maximum(*rivals)))
    claim = f"Elsewhere {pca} or {kpca} is ahead of {akpca} from 20 components on"
    yield Finding(11, claim, behind)
