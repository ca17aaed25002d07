"""What the paper claims about images and motion, beside what came out: figures 5 to 9, 11 and 12.

Each function takes a :class:`.small_sets.Study` and yields findings; a claim about what was not run
has no comparisons. Errors of images and what is left of noise are measured as in `patches`,
`superresolution` and `motion`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from . import motion, patches
from .small_sets import ACCELERATED, Study, below
from .verdicts import Comparison, Finding

__all__ = ["claims", "last_meta_gains"]

# The paper's "three orders of magnitude", and "about" as many: to the nearest order.
THREE_ORDERS, ABOUT_THREE_ORDERS = 1e3, 10**2.5
# What the paper says that KHA/et* removes of the noise of a walk.
REMOVED = 0.875
# Panels of figure 6.
LEFT, RIGHT = "6 left", "6 right"
SMD_OF = {"KHA/et": "KHA-SMD", "KHA/et*": "KHA-SMD*"}


def claims(study: Study) -> Iterator[Finding]:
    """Yield the findings about the photograph, faces and the walk."""
    yield from _photograph(study)
    yield from _factors(study)
    yield from _meta_gains(study)
    yield from _faces(study)
    yield from _walk(study)


def _all(study: Study, experiment: str, pairs, number: int | None = None) -> list[Comparison]:
    """Return the comparisons of all pairs, the first below the second."""
    return [c for pair in pairs for c in study.below(experiment, *pair, number)]


def _times(study: Study, experiment: str, smaller: str, factor: float, larger: str):
    """Return comparisons: even a multiple of one error is below another, after the last pass."""
    found = []
    for part in _parts_with(study, experiment, smaller, larger):
        one, other = (study.value(experiment, part, variant) for variant in (smaller, larger))
        found.append(below(factor * one, other, part))
    return found


def _parts_with(study: Study, experiment: str, *variants: str) -> list[str]:
    """Return the parts for which all variants were run."""
    parts = study.parts(experiment)
    return [p for p in parts if set(variants) <= study.curves(experiment, p).keys()]


def _helps_more(study: Study, experiment: str) -> list[Comparison]:
    """Return comparisons: meta-descent lowers the error of KHA/et by more than that of KHA/et*."""
    found = []
    for part in _parts_with(study, experiment, *SMD_OF, *SMD_OF.values()):
        ratios = [
            _ratio(*(study.value(experiment, part, v) for v in (adapted, plain)))
            for plain, adapted in SMD_OF.items()
        ]
        found.append(below(*ratios, part))
    return found


def _ratio(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the ratio of errors: 1 if both are infinite, infinite if only the first one is."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(np.isinf(one) & np.isinf(other), 1.0, one / other)


def _at_last(study: Study, experiment: str, variants) -> list[Comparison]:
    """Return comparisons: each of the variants is below the gain decay of KHA/t."""
    return _all(study, experiment, [(name, "KHA/t") for name in variants])


def _photograph(study: Study) -> Iterator[Finding]:
    name = "patches"
    parts = _parts_with(study, name, "KHA-SMD")
    gained = []
    for part in parts:
        cleaned = study.value(name, part, "KHA-SMD", measure="error")
        noisy = study.value(name, part, "noisy", gains="reference", measure="error")
        gained.append(below(cleaned, np.repeat(noisy, len(cleaned)), part))
    yield Finding(5, "KHA-SMD cleans the photograph", gained)
    yield from _ranks(study, name, LEFT, "the photograph")
    far = [c for v in ("KHA-SMD", "KHA-SMD*") for c in _times(study, name, v, THREE_ORDERS, "KHA")]
    yield Finding(
        LEFT, "After 50 passes both SMD variants are three orders below a constant gain", far
    )
    long = []
    for part in (p for p in parts if "KHA" in study.curves(name, p, gains="long")):
        constant = study.value(name, part, "KHA", gains="long")
        smd = study.value(name, part, "KHA-SMD")[: len(constant)]
        long.append(below(100 * smd, constant, part))
    yield Finding(
        LEFT, "KHA-SMD after 50 passes is a hundred times below a constant gain after 800", long
    )
    early = [c for n in (1, 2, 3) for c in study.below(name, "KHA-SMD", "KHA", n, measure="error")]
    yield Finding(7, "After 1, 2 and 3 passes KHA-SMD's image has less error", early)
    ahead = []
    if whole := _parts_with(study, name, "KHA", "KHA-SMD"):  # the mean of quarters, as the paper
        three, fifty = (
            np.mean([study.value(name, part, *what) for part in whole], axis=0)
            for what in (("KHA-SMD", 3), ("KHA",))
        )
        ahead.append(below(three, fifty))
    yield Finding(7, "KHA-SMD after 3 passes is below a constant gain after 50", ahead)


def _ranks(study: Study, name: str, figure: str, what: str) -> Iterator[Finding]:
    """Yield what the paper says in figure 6 about both of its experiments."""
    said = f"On {what} "
    yield Finding(
        figure, f"{said}KHA/t is below a constant gain", study.below(name, "KHA/t", "KHA")
    )
    yield Finding(
        figure, f"{said}the paper's four are below KHA/t", _at_last(study, name, ACCELERATED)
    )
    star = study.below(name, "KHA/et*", "KHA/et")
    yield Finding(figure, f"{said}KHA/et* is below KHA/et", star)
    yield Finding(figure, f"{said}SMD helps KHA/et more than KHA/et*", _helps_more(study, name))


def _factors(study: Study) -> Iterator[Finding]:
    def value(variant: str, part: str) -> np.ndarray | None:
        for label in ("factors", None):
            if variant in study.curves("patches", part, gains=label):
                return study.value("patches", part, variant, gains=label)
        return None

    def pairs(*wanted: tuple[str, str]) -> list[Comparison]:
        found = []
        for part in study.parts("patches")[: patches.FIRST + 1]:
            for pair in wanted:
                one, other = (value(variant, part) for variant in pair)
                if one is not None and other is not None:
                    found.append(below(one, other, part))
        return found

    yield Finding(8, "s alone is below t alone", pairs(("KHA/s", "KHA/t")))
    both = pairs(("KHA/ts", "KHA/s"), ("KHA/ts", "KHA/t"))
    yield Finding(8, "t and s together are below each alone", both)
    with_e = pairs(("KHA/et*", "KHA/t"), ("KHA/es", "KHA/s"), ("KHA-SMD*", "KHA/ts"))
    yield Finding(8, "e lowers the error of t, of s and of both", with_e)


def last_meta_gains(study: Study, variant: str, count: int = 3) -> dict[float, np.ndarray]:
    """Return the last values of mu before some seed diverges -> excess errors in the end.

    A run whose error is more than twice the smallest one has diverged, even if it is finite.
    """
    kept: dict[float, np.ndarray] = {}
    for part in study.parts("patches")[: patches.FIRST + 1]:
        for mu in patches.META_GAINS:
            label = f"mu {mu:g}"
            if variant in study.curves("patches", part, gains=label):
                errors = study.value("patches", part, variant, gains=label)
                if (errors > 1).any():
                    break
                kept[mu] = errors
    return dict(list(kept.items())[-count:])


def _meta_gains(study: Study) -> Iterator[Finding]:
    last = {variant: last_meta_gains(study, variant) for variant in ("KHA/s", "KHA-SMD*")}
    fastest = [
        below(rows[max(rows)], rows[mu], variant)
        for variant, rows in last.items()
        for mu in rows
        if mu != max(rows)
    ]
    yield Finding(8, "Of the last three mu before divergence the largest is best", fastest)
    spread = []
    if all(len(rows) > 1 for rows in last.values()):
        spans = {
            name: np.max(list(rows.values()), axis=0) / np.min(list(rows.values()), axis=0)
            for name, rows in last.items()
        }
        spread = [below(spans["KHA-SMD*"], spans["KHA/s"])]
    yield Finding(8, "KHA-SMD* depends less on mu than s alone", spread)


def _faces(study: Study) -> Iterator[Finding]:
    name = "faces"
    yield from _ranks(study, name, RIGHT, "faces")
    others = [("KHA-SMD", v) for v in ("KHA", "KHA/t", "KHA/et*", "KHA/et", "KHA-SMD*")]
    yield Finding(RIGHT, "On faces KHA-SMD is the best of all", _all(study, name, others))
    far = [c for v in ACCELERATED for c in _times(study, name, v, ABOUT_THREE_ORDERS, "KHA")]
    yield Finding(
        RIGHT, "On faces the paper's four end about three orders below a constant gain", far
    )
    early = study.below(name, "KHA-SMD", "KHA", 1, measure="error")
    yield Finding(9, "After one pass KHA-SMD's large images have less error", early)


def _walk(study: Study) -> Iterator[Finding]:
    name = "motion"
    yield Finding(11, "KHA/et* is below KHA/et (walk)", study.below(name, "KHA/et*", "KHA/et"))
    yield Finding(11, "KHA/et is below KHA/t (walk)", study.below(name, "KHA/et", "KHA/t"))
    yield Finding(11, "SMD helps KHA/et more than KHA/et* (walk)", _helps_more(study, name))
    smd = study.below(name, "KHA/et*", "KHA-SMD")
    yield Finding(11, "KHA/et* stays below KHA-SMD (walk)", smd)
    for measure in motion.MEASURES:
        removed = []
        for part in _parts_with(study, name, "KHA/et*"):
            left = np.median(study.value(name, part, "KHA/et*", measure=measure), keepdims=True)
            removed.append(below(left, np.array([1 - REMOVED]), f"{part} frames"))
        what = measure.split()[0]
        yield Finding(12, f"KHA/et* removes 87.5 % of the noise of {what}", removed)
