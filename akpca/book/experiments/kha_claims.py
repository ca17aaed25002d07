"""What the paper on fast iterative kernel PCA claims in section 5.1, and what rows say about it.

`claims` has figures 1 to 12, `table_1_claims` its table of parameters, which `tuned_gains` sets
beside those of our own rule.

Günter, Schraudolph and Vishwanathan, "Fast iterative kernel principal component analysis", JMLR 8,
2007.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path

import numpy as np

from ...hebbian import Gain
from . import digits, image_claims
from .hebbian import TUNED, Task
from .small_sets import (
    TUNED_COLUMNS,
    Study,
    alike,
    below,
    paper_gains,
    parameter_of,
    read_gains,
)
from .tables import ResultTable
from .verdicts import Comparison, Finding

__all__ = ["claims", "gain_claims", "table_1_claims", "tuned_gains"]

ETS = ("KHA/et*", "KHA/et")


def claims(study: Study) -> list[Finding]:
    """Return the findings about figures 1 to 12, in their order."""
    found = [*gain_claims(study), *digits.claims(study), *image_claims.claims(study)]
    return sorted(found, key=lambda finding: int(str(finding.figure).split()[0]))


def tuned_gains(folder: Path) -> dict[tuple[str, str], Mapping[str, Gain]]:
    """Return experiment and part -> variant -> gain that our rule found at the paper's scale.

    Those of digits are in a table of the package, others in a file of the folder.
    """
    path = folder / "tuned.csv"
    found = read_gains(ResultTable(path, TUNED_COLUMNS)) if path.exists() else {}
    kernels = {kernel: Task("usps", kernel, 1000, 16) for kernel in ("dot product", "RBF")}
    return {("digits", kernel): TUNED[task].gains for kernel, task in kernels.items()} | found


def gain_claims(study: Study) -> Iterable[Finding]:
    """Yield what the paper says in figure 1 about the scalar gain of KHA/et* and KHA/et."""
    lower, longer, same = [], [], []
    for experiment, part in ((e, p) for e in study.tables for p in study.parts(e)):
        found = study.curves(experiment, part, measure="gain")
        if not all(v in found and found[v][0][0] == 0 for v in ETS):
            continue
        (passes, star), (_, plain) = (found[v] for v in ETS)
        whole = np.isfinite(star).all(axis=1) & np.isfinite(plain).all(axis=1)
        if not whole.any():  # a run that has diverged has no gain
            continue
        star, plain = star[whole], plain[whole]
        third, middle = (np.flatnonzero(passes <= p)[-1] for p in (3, passes[-1] // 2))
        where = f"{experiment}, {part}"
        lower.append(below(plain[:, 0], star[:, 0], where))
        longer.append(below(star[:, third] / star[:, 0], plain[:, third] / plain[:, 0], where))
        falls = (gain[:, -1] / gain[:, middle] for gain in (star, plain))
        same += alike(*falls, where, factor=1.25)
    yield Finding(1, "KHA/et starts with the smaller gain", lower)
    yield Finding(1, "KHA/et keeps more of its first gain for three passes than KHA/et*", longer)
    yield Finding(1, "In the second half of the passes both gains fall alike", same)


def table_1_claims(
    study: Study, tuned: Mapping[tuple[str, str], Mapping[str, Gain]]
) -> Iterable[Finding]:
    """Yield what follows for table 1 from gains of our own, by experiment and part.

    Two values are near if they are at most one rung of the ladder {1, 2, 5} 10^b apart.
    """
    near: dict[str, list[Comparison]] = {"eta0": [], "tau": [], "mu": []}
    good = []
    for (experiment, part), gains in tuned.items():
        row, where = paper_gains(experiment, part), f"{experiment}, {part}"
        for name, variant in product(near, row.keys() & gains.keys()):
            ours, paper = (parameter_of(each[variant], name) for each in (gains, row))
            if paper and not (name == "tau" and row[variant].normalised):
                near[name].append(below(np.abs(np.log([ours / paper])), np.log(2.6), where))
        if part in study.parts(experiment):
            known = {g: study.curves(experiment, part, gains=g) for g in ("table 1", "tuned")}
            for variant in known["table 1"].keys() & known["tuned"].keys():
                theirs, ours = (known[g][variant][1][:, -1] for g in known)
                good.append(below(theirs, 2 * ours, where))
    for name, found in near.items():
        yield Finding("table 1", f"Our rule finds the paper's {name}, to the next rung", found)
    yield Finding("table 1", "Table 1 ends with at most twice the error of our own gains", good)
