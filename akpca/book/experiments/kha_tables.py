"""What chapter 13 shows of the experiments of `small_sets`: panels, tables and sentences.

Most functions take studies by their labels, such as 'this run' and 'paper scale', and set them
beside each other; experiments that a study has no rows of are left out. Runs of a study are those
with the gains by which it is judged, with automatic gains, and of one merge (`Study.lines`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ...hebbian import Gain
from ..sentences import Sentences, bullets, enumerated, table
from . import kha_claims, motion
from .digits import CLUSTERING, EXACT, GROUPED, RANDOM
from .hebbian import follow_passes
from .small_sets import (
    ACCELERATED,
    AUTO,
    INCREMENTAL,
    Study,
    paper_gains,
    parameter_of,
)
from .verdicts import Finding

__all__ = [
    "Curves",
    "Studies",
    "about_best_starts",
    "about_divergence",
    "about_merging",
    "coefficients_after",
    "end_table",
    "ends",
    "first_good",
    "from_best_start",
    "gain_panels",
    "group_panels",
    "group_table",
    "information_of",
    "listed",
    "medians",
    "noise_removed",
    "panels",
    "parameter_table",
    "selected",
    "tally",
    "tuning_table",
    "verdict_table",
    "verdicts",
    "with_rows",
]

Studies = Mapping[str, Study]
#: Variant -> passes, shape (m,), and results, shape (n_seeds, m).
Curves = dict[str, tuple[np.ndarray, np.ndarray]]
# A smaller excess is rounding.
SMALLEST = 1e-8
# A smaller excess is drawn as this.
LOWEST_DRAWN = 1e-6
ETS = ("KHA/et*", "KHA/et")


def with_rows(studies: Studies, experiment: str) -> dict[str, Study]:
    """Return the studies that have rows of an experiment."""
    return {label: study for label, study in studies.items() if study.parts(experiment)}


def _everywhere(studies: Studies, experiment: str) -> dict[str, tuple[Study, str]]:
    """Return 'label: part' -> study and part."""
    return {
        f"{label}: {part}": (study, part)
        for label, study in studies.items()
        for part in study.parts(experiment)
    }


def panels(
    studies: Studies, experiment: str, parts: Iterable[str] | None = None
) -> dict[str, Curves]:
    """Return 'label: part' -> excess errors, for :func:`akpca.book.plotting.plot_pass_panels`.

    Those below 1e-6, of one merge, are drawn there, so that the others have most of the axis.
    """
    kept = None if parts is None else set(parts)
    return {
        title: {
            name: (passes, np.maximum(values, LOWEST_DRAWN))
            for name, (passes, values) in study.lines(experiment, part).items()
        }
        for title, (study, part) in _everywhere(studies, experiment).items()
        if kept is None or part in kept
    }


def selected(
    study: Study,
    experiment: str,
    part: str,
    variants: Iterable[str],
    *gains: str,
    measure: str = "excess",
) -> Curves:
    """Return the curves of some variants in their order, leaving out those that were not run.

    `gains` are labels of sets, of which the first that has a variant counts; by default it is that
    by which the experiment is judged.
    """
    known: Curves = {}
    for label in gains or (study.gains.get(experiment, ""),):
        known = study.curves(experiment, part, gains=label, measure=measure) | known
    return {variant: known[variant] for variant in variants if variant in known}


def gain_panels(study: Study, experiments: Iterable[str]) -> dict[str, Curves]:
    """Return 'experiment, part' -> scalar gains of KHA/et* and KHA/et, where both were run.

    Of each experiment there are two parts at most, and the start, pass 0, stands at half a pass.
    """
    drawn = {}
    for experiment in experiments:
        for part in study.parts(experiment)[:2]:
            found = selected(study, experiment, part, ETS, measure="gain")
            if len(found) == len(ETS):
                moved = {v: (np.maximum(numbers, 0.5), x) for v, (numbers, x) in found.items()}
                drawn[f"{experiment}, {part}"] = moved
    return drawn


def listed(found: Mapping[str, Iterable[Finding]]) -> Sentences:
    """Return a list of claims, each with the verdicts that it has, by their labels."""
    told: dict[str, list[str]] = {}
    for label, findings in found.items():
        for finding in findings:
            told.setdefault(finding.claim, []).append(f"{label} {finding.sentence()}")
    return bullets(*(f"{claim}: {'; '.join(texts)}." for claim, texts in told.items()))


def verdicts(studies: Studies, *figures: int | str) -> Sentences:
    """Return what becomes of the paper's claims in some of its figures, as a list."""
    found = {label: kha_claims.claims(study) for label, study in studies.items()}
    return listed({k: [f for f in told if f.figure in figures] for k, told in found.items()})


def verdict_table(found: Mapping[str, Sequence[Finding]]) -> Sentences:
    """Return a table with a row for each claim; labels must have the same claims in one order."""
    rows = {
        same[0].claim: [str(same[0].figure), *(f"*{finding.verdict}*" for finding in same)]
        for same in zip(*found.values(), strict=True)
    }
    return table(rows, ["claim", "figure", *found])


def tally(findings: Sequence[Finding]) -> str:
    """Return how many claims have which verdict, in words."""
    named = [finding.verdict for finding in findings]
    kinds = [f"{named.count(verdict)} *{verdict}*" for verdict in dict.fromkeys(named)]
    return f"of {len(named)} claims, {enumerated(kinds)}"


def ends(study: Study, experiment: str, part: str) -> dict[str, np.ndarray]:
    """Return variant -> excess errors after the last pass, one for each seed."""
    return {name: values[:, -1] for name, (_, values) in study.lines(experiment, part).items()}


def end_table(studies: Studies, experiment: str) -> Sentences:
    """Return a table of medians of excess errors after the last pass, and of their ranges."""
    columns = {
        title: ends(study, experiment, part)
        for title, (study, part) in _everywhere(studies, experiment).items()
    }
    names = dict.fromkeys(name for column in columns.values() for name in column)
    rows = {name: [_range(column.get(name)) for column in columns.values()] for name in names}
    return table(rows, ["excess error, last pass", *columns])


def _range(values: np.ndarray | None) -> str:
    if values is None:
        return "–"
    middle, low, high = (_digits(x) for x in (np.median(values), values.min(), values.max()))
    return f"{middle} ({low} to {high})"


def _digits(x: np.floating | float, form: str = ".2g") -> str:
    return format(x, form) if np.isfinite(x) else "diverged"


def tuning_table(studies: Studies, experiments: Iterable[str]) -> Sentences:
    """Return a table of median excess errors: of the best gain, of automatic ones and of one merge.

    The best gain is that of the least median; of each experiment there are two parts at most.
    """
    rows = {}
    for label, study in studies.items():
        for experiment in experiments:
            for part in study.parts(experiment)[:2]:
                found = {v: np.median(x) for v, x in ends(study, experiment, part).items()}
                others = [found.pop(name, None) for name in (AUTO, INCREMENTAL)]
                if found and None not in others:
                    row = [_digits(x, ".1e") for x in (min(found.values()), *others)]
                    rows[f"{label}: {experiment}, {part}"] = row
    return table(
        rows, ["median excess error", "best gain, last pass", "auto, last pass", "merged, one pass"]
    )


def about_divergence(studies: Studies, experiment: str) -> str:
    """Return a sentence on which runs diverged."""
    told = []
    for label, study in studies.items():
        lost = [
            f"{variant} with {np.isinf(values).sum()} of {len(values)} seeds ({part})"
            for part in study.parts(experiment)
            for variant, values in ends(study, experiment, part).items()
            if np.isinf(values).any()
        ]
        told.append(f"{label}: {enumerated(lost) if lost else 'none'}")
    return f"Runs that diverged, {'; '.join(told)}."


def about_merging(studies: Studies, experiment: str) -> str:
    """Return a sentence on the excess error of the best gain, in that of one merge.

    Both are medians over seeds, and the part counts in which they are nearest to each other.
    """
    told = []
    for label, study in with_rows(studies, experiment).items():
        ratios = []
        for part in study.parts(experiment):
            found = {v: np.median(values) for v, values in ends(study, experiment, part).items()}
            merged = max(found.pop(INCREMENTAL), SMALLEST)
            ratios.append(min(found.values()) / merged)
        told.append(f"{_rounded(min(ratios))} times ({label})")
    return f"The best of all gains ends at {enumerated(told)} the excess of one merge, or more."


def _rounded(x: float) -> str:
    """Return a number with two digits, and no exponent if it is large."""
    near = float(f"{x:.2g}")
    return f"{near:,.0f}" if near >= 10 else f"{near:g}"


def medians(
    studies: Studies,
    experiment: str,
    part: str,
    variant: str,
    number: int | None = None,
    **where: str,
) -> list[float]:
    """Return the median over seeds of a result after a pass, as `Study.value`, of each study."""
    there = with_rows(studies, experiment).values()
    found = (study.value(experiment, part, variant, number, **where) for study in there)
    return [float(np.median(values)) for values in found]


def coefficients_after(
    K: np.ndarray, gain: Gain, n_components: int, passes: Iterable[int], *, random_state: int
) -> dict[int, np.ndarray]:
    """Return pass -> coefficients A, shape (r, l), of one run.

    A run that diverges stands still after its last good pass; without any, it has found nothing,
    and A is 0.
    """
    wanted = list(passes)
    run = follow_passes(K, gain, n_components, max(wanted), random_state=random_state)
    nothing = np.zeros((n_components, len(K)))
    return {
        number: run[min(number, len(run)) - 1].coefficients if run else nothing for number in wanted
    }


def information_of(
    study: Study, variant: str, number: int | None = None, *, measure: str = GROUPED[0]
) -> np.ndarray:
    """Return the variation of information after a pass, or the last before it.

    There is a value for each run, or for each start of k-means if the variant is 'exact' or
    'random', which need no passes; `measure` is one of `digits.GROUPED`.
    """
    gains = variant if variant in (EXACT, RANDOM) else None
    return study.value(CLUSTERING, "RBF", variant, number, gains=gains, measure=measure)


def group_panels(studies: Studies) -> dict[str, Curves]:
    """Return label -> variation of information, as `panels`.

    Groups by exact eigenvectors, and random ones, are the same after the first pass and the last.
    """
    drawn = {}
    for label, study in with_rows(studies, CLUSTERING).items():
        level = np.array([1, study.last(CLUSTERING)])
        fixed = {
            v: (level, np.stack([information_of(study, v)] * 2, axis=1)) for v in (EXACT, RANDOM)
        }
        drawn[label] = study.lines(CLUSTERING, "RBF", measure=GROUPED[0]) | fixed
    return drawn


def group_table(studies: Studies, number: int) -> Sentences:
    """Return a table of the variation of information after a pass, or the last before it.

    Of the starts of k-means there are the median and the best, and of both the median over runs.
    """
    there = with_rows(studies, CLUSTERING)
    rows = {
        variant: [
            _digits(
                float(np.median(information_of(study, variant, number, measure=measure))), ".3f"
            )
            for study in there.values()
            for measure in GROUPED
        ]
        for variant in (EXACT, "KHA/t", *ACCELERATED)
    }
    columns = [f"{label}: {kind} start" for label in there for kind in ("median", "best")]
    return table(rows, ["variation of information", *columns])


def from_best_start(study: Study, number: int) -> dict[str, float]:
    """Return variant -> how far its best starts are above the exact one, relative to that.

    That is the variation of information after a pass, or the last before it, in the median over
    runs. Variants are the paper's four, without those whose median is that of a divergence.
    """
    (exact,) = information_of(study, EXACT, measure=GROUPED[1])
    found = {
        v: float(np.median(information_of(study, v, number, measure=GROUPED[1])))
        for v in ACCELERATED
    }
    return {variant: value / exact - 1 for variant, value in found.items() if np.isfinite(value)}


def about_best_starts(study: Study, number: int) -> str:
    """Return a sentence on the range of `from_best_start`, in per cent."""
    found = [100 * x for x in from_best_start(study, number).values()]
    if not found:
        return f"after {number} passes all of the four have diverged"
    who = "the four" if len(found) == len(ACCELERATED) else f"{len(found)} of the four"
    span = f"{min(found):+.1f} % to {max(found):+.1f} %"
    return (
        f"after {number} passes best starts of {who} differ from the exact one's by {span} "
        "(less is better)"
    )


def first_good(study: Study, variant: str) -> tuple[int, float] | None:
    """Return the first pass whose groups are as good as those by exact eigenvectors, or None.

    Their variation of information, in the median over runs, is then within the spread of the exact
    ones: no worse than their worst start. The second number is the median excess error there.
    """
    numbers, values = study.curves(CLUSTERING, "RBF", measure=GROUPED[0])[variant]
    inside = numbers[np.median(values, axis=0) <= information_of(study, EXACT).max()]
    if not len(inside):
        return None
    errors = study.value(CLUSTERING, "RBF", variant, int(inside[0]))
    return int(inside[0]), float(np.median(errors))


def noise_removed(
    study: Study, part: str, variant: str, *, gains: str | None = None
) -> list[float]:
    """Return how much of a walk's noise is gone, in per cent: of directions and of joints.

    Numbers are medians over seeds after the last pass; `gains` are as in `Study.value`.
    """
    left = (
        study.value("motion", part, variant, gains=gains, measure=measure)
        for measure in motion.MEASURES
    )
    return [100 * (1 - float(np.median(values))) for values in left]


def parameter_table(own: Mapping[tuple[str, str], Mapping[str, Gain]]) -> Sentences:
    """Return table 1 of the paper beside our own gains, by experiment and part."""
    rows = {}
    for experiment, part in sorted(own):
        paper, ours = paper_gains(experiment, part), own[experiment, part]
        for variant in (v for v in ours if v in paper):
            pair = [_parameters(gains[variant]) for gains in (paper, ours)]
            rows[f"{experiment}, {part}: {variant}"] = pair
    return table(rows, ["$\\eta_0$, $\\tau$ in passes, $\\mu$", "table 1", "our rule"])


def _parameters(gain: Gain) -> str:
    found = (parameter_of(gain, name) for name in ("eta0", "tau", "mu"))
    return ", ".join(f"{x:g}" for x in found if x)
