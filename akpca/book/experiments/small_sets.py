"""The experiments of section 5.1 of the paper on fast iterative kernel PCA: sets in memory.

Each of them is a `Problem`, a kernel matrix of which r eigenvectors are sought. `follow` runs the
paper's variants on it, with one set of gains or several, and writes the excess error after a pass,
and whatever else is to be measured, as a row of a :class:`.tables.ResultTable`. A `Study` reads
them, for figures and for the comparisons that claims consist of. `TABLE_1` has the paper's
parameters.

Günter, Schraudolph and Vishwanathan, "Fast iterative kernel principal component analysis", JMLR 8,
2007.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...hebbian import Gain, HebbianProgress, make_gain
from ...incremental import IncrementalKernelPCA
from ...operators import MatrixOperator
from ...progress import progress_bar
from .hebbian import excess_error_curve, kernel_reconstruction_error, optimal_error, tune_gain
from .tables import ResultTable
from .verdicts import Comparison

__all__ = [
    "ACCELERATED",
    "AUTO",
    "COLUMNS",
    "EXPERIMENTS",
    "INCREMENTAL",
    "TABLE_1",
    "TUNED_COLUMNS",
    "VARIANTS",
    "Measure",
    "Problem",
    "Study",
    "alike",
    "below",
    "follow",
    "follow_all",
    "judged_gains",
    "kept_passes",
    "merge_once",
    "paper_gains",
    "parameter_of",
    "read_gains",
    "read_study",
    "recorded_passes",
    "tuned_on_other_seeds",
]

VARIANTS = ("KHA", "KHA/t", "KHA/et*", "KHA/et", "KHA-SMD*", "KHA-SMD")
#: The paper's own four.
ACCELERATED = VARIANTS[2:]
#: The experiments of section 5.1, and the files of their rows.
EXPERIMENTS = ("digits", "patches", "faces", "clustering", "motion")
#: The gains, and the variant, of rows about :class:`akpca.KernelHebbian` as it comes.
AUTO = "auto"
#: The gains, and the variant, of rows that are about one pass without a gain.
INCREMENTAL = "merged once"
COLUMNS = ("experiment", "part", "gains", "variant", "seed", "measure", "pass")
TUNED_COLUMNS = ("experiment", "part", "variant", "parameter")
# Passes after the tenth of which results are kept: about eight in a decade.
LATER = (12, 15, 20, 25, 30, 40, 50, 70)


def _row(t: tuple, star: tuple, plain: tuple, constant: float | None = None) -> dict[str, Gain]:
    """Return the gains of a row: (tau, eta0) of KHA/t, (tau, eta0, mu) and (eta0, mu) of ours."""
    tau, eta0, mu = star
    gains = {
        "KHA/t": make_gain("KHA/t", tau=t[0], eta0=t[1]),
        "KHA/et*": make_gain("KHA/et*", tau=tau, eta0=eta0),
        "KHA/et": make_gain("KHA/et", eta0=plain[0]),
        "KHA-SMD*": make_gain("KHA-SMD*", tau=tau, eta0=eta0, mu=mu),
        "KHA-SMD": make_gain("KHA-SMD", eta0=plain[0], mu=plain[1]),
    }
    return gains if constant is None else {"KHA": make_gain("KHA", eta0=constant), **gains}


#: The paper's table 1, experiment -> variant -> gain, with tau in passes and xi = 0.99. Constant
#: gains are those of Kim et al., which the paper names for the photograph and means for faces, too.
TABLE_1: dict[str, dict[str, Gain]] = {
    "USPS, dot product": _row((2, 0.002), (4, 5, 1e-5), (1e-3, 1e-4)),
    "USPS, RBF": _row((1, 1), (3, 5, 0.05), (0.2, 0.1)),
    "patches": _row((1, 2), (4, 5, 1), (0.1, 2), 0.05),
    "faces": _row((1, 0.2), (4, 5, 0.2), (0.02, 5), 0.05),
    "clustering": _row((1, 200), (1, 10, 20), (50, 1e3)),
    "motion": _row((1, 2), (3, 5, 0.1), (0.1, 1)),
}


@dataclass(frozen=True, eq=False)
class Problem:
    """A kernel matrix whose leading eigenvectors are sought.

    Attributes
    ----------
    experiment, part : str
        What it is called in tables; parts are kernels, or quarters of an image.
    K : ndarray of shape (l, l)
        The centred (or, for spectral clustering, normalised) kernel matrix; float64 or float32.
    n_components : int
        r, the number of eigenvectors.
    """

    experiment: str
    part: str
    K: np.ndarray
    n_components: int

    @cached_property
    def optimum(self) -> float:
        """E_min, the smallest error (38) that r components can have."""
        return optimal_error(self.K, self.n_components)

    def first_gain(self, gain: Gain | str) -> dict[int, float]:
        """Return {0: eta-hat (23) before the first pass}, nothing if the gain is "auto".

        A random start has ||A_i K'|| / ||A_i|| = ||K'||_F / sqrt(l) as its eigenvalues (20), but
        for terms that vanish with large l.
        """
        if isinstance(gain, str):
            return {}
        norm = np.sqrt(self.n_components / len(self.K)) * MatrixOperator(self.K).frobenius_norm()
        return {0: float(gain.eta0) * (float(norm) if gain.normalised else 1.0)}

    def excess(self, A: np.ndarray) -> float:
        """Return E(A) / E_min - 1 of coefficients A, shape (r, l)."""
        return kernel_reconstruction_error(MatrixOperator(self.K), A) / self.optimum - 1


class Measure(NamedTuple):
    """Something else that is measured after a pass, and what it is after a divergence."""

    function: Callable[[HebbianProgress], float]
    diverged: float = np.inf


def recorded_passes(n_passes: int) -> list[int]:
    """Return the passes after which results are kept: all up to 10, some later, and the last."""
    later = (b * 10**k for k in range(len(str(n_passes))) for b in (*LATER, 100, 150))
    return sorted({*range(1, min(n_passes, 10) + 1), n_passes, *(b for b in later if b < n_passes)})


def kept_passes(wanted: Iterable[int], n_passes: int) -> list[int]:
    """Return those of the wanted passes that a run of this length makes, and its last."""
    return sorted({number for number in wanted if number < n_passes} | {n_passes})


def follow(
    problem: Problem,
    gains: Mapping[str, Mapping[str, Gain | str]],
    table: ResultTable,
    *,
    seeds: Sequence[int],
    n_passes: int,
    measures: Mapping[str, Measure] | None = None,
    passes: Iterable[int] | None = None,
    eigenvalue_updates: str = "pass",
    verbose: bool = False,
) -> None:
    """Run variants, unless their rows are there, and write a row a measure and pass.

    Measures are 'excess', E(A) / E_min - 1, 'gain', the scalar eta-hat (23), which has a row for
    pass 0, the start, too, and those given. Rows are numbers, or infinite from the pass on in which
    a run diverges; never NaN.

    Parameters
    ----------
    problem : Problem
    gains : mapping of str to mapping of str to Gain or str
        Label of a set, such as 'table 1', 'tuned' or 'auto' -> variant -> its gain.
    table : ResultTable
        With the columns `COLUMNS`.
    seeds : sequence of int
        Of the start, and of the order of the samples.
    n_passes : int
        Length of the runs.
    measures : mapping of str to Measure, default=None
        What else is measured after a pass.
    passes : iterable of int, default=None
        Passes of which rows are written. None are those of `recorded_passes`.
    eigenvalue_updates : {'pass', 'iteration'}, default='pass'
        As in :class:`akpca.KernelHebbian`.
    verbose : bool, default=False
        Show a progress bar.
    """
    names = ("excess", "gain", *(measures or {}))
    kept = recorded_passes(n_passes) if passes is None else list(passes)
    runs = [(label, variant, s) for label, row in gains.items() for variant in row for s in seeds]
    where = problem.experiment, problem.part
    missing = [
        run for run in runs if any((*where, *run, m, p) not in table for m in names for p in kept)
    ]
    options = {"desc": " ".join(where), "unit": "run", "total": len(missing)}
    for label, variant, seed in progress_bar(missing, shown=verbose, **options):
        found = _one_run(
            problem,
            gains[label][variant],
            n_passes,
            set(kept),
            measures or {},
            eigenvalue_updates=eigenvalue_updates,
            random_state=int(seed),
        )
        found["gain"] |= problem.first_gain(gains[label][variant])
        for measure, results in ((name, found[name]) for name in names):
            for number, result in sorted(results.items()):
                key = (*where, label, variant, seed, measure, number)
                if key not in table:  # six digits: others are not the same on another machine
                    table.add(*key, value=float(f"{result:.6g}"))


def _one_run(problem, gain, n_passes, kept, measures, **options) -> dict[str, dict[int, float]]:
    """Return measure -> pass -> result of a run."""
    every = {"gain": Measure(lambda state: state.gain_scale), **measures}
    found = {m: dict.fromkeys(kept, measure.diverged) for m, measure in every.items()}

    def look(state: HebbianProgress) -> None:
        if state.n_iter in kept:
            for m, measure in every.items():
                found[m][state.n_iter] = measure.function(state)

    with np.errstate(over="ignore", invalid="ignore"):  # a divergence shows as an infinite error
        curve = excess_error_curve(
            problem.K,
            gain,
            problem.n_components,
            n_passes,
            optimum=problem.optimum,
            callback=look,
            **options,
        )
    found["excess"] = {number: max(float(curve[number - 1]), 0.0) for number in kept}
    return found


def merge_once(
    problem: Problem, table: ResultTable, *, seeds: Sequence[int]
) -> Mapping[int, IncrementalKernelPCA]:
    """Write the excess error of :class:`akpca.IncrementalKernelPCA` after its one pass.

    Return the models of rows that were missing, by seed.
    """
    models = {}
    for seed in seeds:
        key = (problem.experiment, problem.part, INCREMENTAL, INCREMENTAL, seed, "excess", 1)
        if key not in table:
            model = IncrementalKernelPCA(
                problem.n_components, kernel="precomputed", random_state=int(seed)
            )
            models[seed] = model.fit(MatrixOperator(problem.K))
            error = max(problem.excess(models[seed].components_), 0.0)
            table.add(*key, value=float(f"{error:.6g}"))
    return models


def follow_all(
    problem: Problem,
    gains: Mapping[str, Mapping[str, Gain | str]],
    table: ResultTable,
    **options,
) -> None:
    """Run variants with given gains, :class:`akpca.KernelHebbian` as it comes, and one merge.

    The run labelled 'auto' estimates eigenvalues at every step, as that does unless it is told
    otherwise. `options` are those of :func:`follow`.
    """
    follow(problem, gains, table, **options)
    default = {AUTO: {AUTO: AUTO}}
    follow(problem, default, table, **options | {"eigenvalue_updates": "iteration"})
    merge_once(problem, table, seeds=options["seeds"])


def tuned_on_other_seeds(
    problem: Problem,
    names: Iterable[str],
    table: ResultTable,
    *,
    seeds: Sequence[int],
    n_passes: int,
    verbose: bool = False,
) -> dict[str, Gain]:
    """Return gains by their names, tuned by :func:`.hebbian.tune_gain` unless they are in a table.

    Its columns are `TUNED_COLUMNS`; gains are written as they are found. `seeds` and `n_passes` are
    those of the runs that are compared.
    """
    names = list(names)
    for name in progress_bar(names, shown=verbose, desc=f"tuning, {problem.experiment}"):
        where = problem.experiment, problem.part, name
        if (*where, "eta0") not in table:
            found = tune_gain(problem.K, name, problem.n_components, n_passes, seeds=seeds)
            for parameter in ("tau", "mu", "eta0"):  # the last one says that all are there
                if (*where, parameter) not in table:
                    table.add(*where, parameter, value=parameter_of(found, parameter))
    known = read_gains(table)[problem.experiment, problem.part]
    return {name: known[name] for name in names}


def read_gains(table: ResultTable) -> dict[tuple[str, str], dict[str, Gain]]:
    """Return experiment and part -> variant -> gain of a table with the columns `TUNED_COLUMNS`."""
    gains: dict[tuple[str, str], dict[str, Gain]] = {}
    for experiment, part, name, last in table:
        if last == "eta0":
            where = experiment, part, name
            eta0, tau, mu = (table[(*where, parameter)] for parameter in ("eta0", "tau", "mu"))
            row = gains.setdefault((experiment, part), {})
            row[name] = make_gain(name, eta0=eta0, tau=tau or None, mu=mu)
    return gains


Index = dict[tuple[str, str, str], dict[str, dict[tuple[int, int], float]]]


@dataclass(frozen=True, eq=False)
class Study:
    """The rows of one scale, as figures and claims need them.

    Attributes
    ----------
    tables : mapping of str to ResultTable
        Experiment -> its rows.
    gains : mapping of str to str
        Experiment -> the label of the gains by which the paper's claims about it are judged.
    """

    tables: Mapping[str, ResultTable]
    gains: Mapping[str, str]
    _indexed: dict[str, tuple[int, Index]] = field(default_factory=dict, init=False, repr=False)

    def _index(self, experiment: str) -> Index:
        """Return (part, gains, measure) -> variant -> (seed, pass) -> result."""
        table = self.tables.get(experiment, ())
        if self._indexed.get(experiment, (-1,))[0] != len(table):  # there are new rows
            index: Index = {}
            for key in table:
                name, part, gains, variant, seed, measure, number = key
                if name == experiment:
                    runs = index.setdefault((part, gains, measure), {}).setdefault(variant, {})
                    runs[int(seed), int(number)] = table[key]
            self._indexed[experiment] = len(table), index
        return self._indexed[experiment][1]

    def parts(self, experiment: str) -> list[str]:
        """Return the parts of an experiment, none if it was not run."""
        return list(dict.fromkeys(part for part, _, _ in self._index(experiment)))

    def curves(
        self, experiment: str, part: str, *, gains: str | None = None, measure: str = "excess"
    ) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return variant -> passes, shape (m,), and results, shape (n_seeds, m).

        Only seeds that have all passes count.
        """
        label, drawn = gains or self.gains.get(experiment, ""), {}
        for variant, results in self._index(experiment).get((part, label, measure), {}).items():
            passes = sorted({number for _, number in results})
            seeds = sorted({seed for seed, _ in results})
            whole = [s for s in seeds if all((s, number) in results for number in passes)]
            values = [[results[s, number] for number in passes] for s in whole]
            drawn[variant] = np.array(passes), np.reshape(values, (len(whole), len(passes)))
        return drawn

    def last(self, experiment: str) -> int:
        """Return the number of passes of the longest run that is judged, 0 if there is none."""
        found = (self.curves(experiment, part) for part in self.parts(experiment))
        return max((int(n[-1]) for runs in found for n, _ in runs.values()), default=0)

    def lines(
        self, experiment: str, part: str, *, measure: str = "excess"
    ) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return `curves` of the gains that are judged, with those of `AUTO` and of one merge."""
        found = self.curves(experiment, part, measure=measure)
        for label in (AUTO, INCREMENTAL):
            others = self.curves(experiment, part, gains=label, measure=measure)
            found |= {label: others[label]} if label in others else {}
        return found

    def value(
        self,
        experiment: str,
        part: str,
        variant: str,
        number: int | None = None,
        *,
        gains: str | None = None,
        measure: str = "excess",
    ) -> np.ndarray:
        """Return a result for each seed, after the last pass, or the last up to a number."""
        passes, values = self.curves(experiment, part, gains=gains, measure=measure)[variant]
        within = np.flatnonzero(passes <= (number or passes[-1]))
        if not len(within):
            raise ValueError(f"{number=} must be at least {passes[0]}, the first pass with rows")
        return values[:, within[-1]]

    def below(
        self, experiment: str, smaller: str, larger: str, number: int | None = None, **where: str
    ) -> list[Comparison]:
        """Return the comparisons, one a part, that a variant is below another after a pass.

        Variants that were not run are not compared; `where` is passed on to `value`.
        """
        compared = []
        for part in self.parts(experiment):
            known = self.curves(experiment, part, **where)
            if smaller in known and larger in known:
                pair = (self.value(experiment, part, v, number, **where) for v in (smaller, larger))
                compared.append(below(*pair, part))
        return compared


def read_study(folder: Path, label: str = "table 1") -> Study | None:
    """Return what a folder has of the experiments, or None; claims are judged by gains `label`."""
    paths = {name: folder / f"{name}.csv" for name in EXPERIMENTS}
    tables = {name: ResultTable(p, COLUMNS) for name, p in paths.items() if p.exists()}
    return Study(tables, judged_gains(tables, label)) if tables else None


def judged_gains(experiments: Iterable[str], label: str) -> dict[str, str]:
    """Return experiment -> the label of the gains by which it is judged, for a `Study`.

    It is that given, but for faces 'tuned' at any scale: they are not the paper's, nor as many.
    """
    return {name: "tuned" if name == "faces" else label for name in experiments}


def paper_gains(experiment: str, part: str) -> dict[str, Gain]:
    """Return the row of `TABLE_1` for an experiment and its part."""
    return TABLE_1[f"USPS, {part}" if experiment == "digits" else experiment]


def parameter_of(gain: Gain, name: str) -> float:
    """Return eta0, tau in passes or mu of a gain, 0 if it does not have it."""
    if name == "tau":
        return float(gain.passes or 0.0)
    return float(getattr(gain, name) or 0.0)


def below(smaller: np.ndarray, larger: np.ndarray | float, data: str = "") -> Comparison:
    """Return the comparison of results that may be infinite: a diverged run is above all others."""
    pair = np.broadcast_arrays(smaller, larger)
    return Comparison(*(np.minimum(each, np.finfo(float).max / 4) for each in pair), data)


def alike(first: np.ndarray, second: np.ndarray, data: str = "", *, factor: float = 2.0):
    """Return the comparisons that two results are within a factor of each other."""
    return [below(first, factor * second, data), below(second, factor * first, data)]
