"""What a paper claims beside what came out, as verdicts that are computed.

A claim orders results: this is below that. `Comparison` says of one such pair whether it holds,
and `Finding` counts the comparisons of a claim and calls it reproduced, reproduced in part or not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..sentences import enumerated

__all__ = ["Comparison", "Finding"]

# Results that differ by no more than this part of the larger one are a tie.
MARGIN = 0.01


class Comparison(NamedTuple):
    """Two results that a claim orders, each for every seed: the smaller and the larger one.

    `data` is the version of the data that they are about.
    """

    smaller: np.ndarray
    larger: np.ndarray
    data: str = ""

    @property
    def outcome(self) -> str:
        """'holds' or 'fails', by the mean over seeds, or 'tie'.

        It is a tie if seeds disagree about which is smaller, or if the results differ by no more
        than 1 % of the larger one in the mean over seeds.
        """
        sizes = np.maximum(abs(self.smaller), abs(self.larger))
        differences = (self.larger - self.smaller) / np.where(sizes > 0, sizes, 1)
        agreed = (differences > 0).all() or (differences < 0).all()
        if not agreed or abs(np.mean(differences)) <= MARGIN:
            return "tie"
        return "holds" if np.mean(differences) > 0 else "fails"


class Finding(NamedTuple):
    """A claim of a paper, and what came out.

    Attributes
    ----------
    figure : int or str
        The paper's figure, or 'table 1' and such.
    claim : str
        In our words: this is below that.
    comparisons : list of Comparison
        One for each version of the data, size of the code, level of noise, ... that it is about.
    """

    figure: int | str
    claim: str
    comparisons: list[Comparison]

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many comparisons hold, tie and fail."""
        outcomes = [c.outcome for c in self.comparisons]
        return outcomes.count("holds"), outcomes.count("tie"), outcomes.count("fails")

    @property
    def verdict(self) -> str:
        """All comparisons hold; most do and the others tie; at least one does; or none."""
        hold, tie, fail = self.counts
        if not self.comparisons:
            return "not tested"
        if not hold:
            return "not reproduced"
        if fail or hold <= tie:
            return "in part"
        return "reproduced, with ties" if tie else "reproduced"

    @property
    def ratios(self) -> list[float]:
        """The sum of all that should be smaller over that of all that should be larger, by seed."""
        smaller = np.sum([c.smaller for c in self.comparisons], axis=0)
        larger = np.sum([c.larger for c in self.comparisons], axis=0)
        return [float(a / b) if b else float(a > b) for a, b in zip(smaller, larger, strict=True)]

    def row(self) -> list[str]:
        """Return the mean ratio with its range over seeds, and the verdict."""
        if not self.comparisons:
            return ["–", self.verdict]
        low, high, mean = min(self.ratios), max(self.ratios), np.mean(self.ratios)
        return [f"{mean:.2f} ({low:.2f} to {high:.2f})", f"*{self.verdict}*"]

    def sentence(self) -> str:
        """Return verdict and counts as a sentence."""
        if not self.comparisons:
            return "*not tested* with these settings"
        hold, tie, fail = self.counts
        failed = dict.fromkeys(c.data for c in self.comparisons if c.outcome == "fails")
        where = f", on {enumerated(failed)}" if any(failed) else ""
        others = [f"{tie} tied"] * bool(tie) + [f"{fail} failed{where}"] * bool(fail)
        counted = ", ".join([f"{hold} of {len(self.comparisons)} comparisons held", *others])
        return f"**{self.verdict}** ({counted})"
