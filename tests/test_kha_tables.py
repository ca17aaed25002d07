"""What chapter 13 shows: panels, tables and sentences, from studies of a few rows."""

import numpy as np
import pytest

from akpca.book.experiments import ResultTable, digits, follow_passes, motion
from akpca.book.experiments import kha_tables as shown
from akpca.book.experiments import small_sets as sets
from akpca.book.experiments.verdicts import Comparison, Finding
from akpca.hebbian import make_gain
from akpca.kernels import RBF
from akpca.operators import MatrixOperator

AUTO, MERGED = sets.AUTO, sets.INCREMENTAL


def made_up(folder, experiment, *rows):
    """Return a study of rows: part, gains, variant, measure, first pass, and values by seed."""
    table = ResultTable(folder / f"{experiment}.csv", sets.COLUMNS)
    for part, gains, variant, measure, first, *seeds in rows:
        for seed, values in enumerate(seeds):
            for number, value in enumerate(np.atleast_1d(values), start=first):
                table.add(experiment, part, gains, variant, seed, measure, number, value=value)
    return sets.Study({experiment: table}, {experiment: "set"})


def lines(text):
    """Return the cells of a table in Markdown, without the line under the headings."""
    found = [line.strip("| ").split(" | ") for line in text.splitlines()]
    return [found[0], *found[2:]]


@pytest.fixture
def small(tmp_path):
    """Return a study of one part: two gains, one of which diverges once, and the two others."""
    return made_up(
        tmp_path,
        "digits",
        ("RBF", "set", "KHA/t", "excess", 1, (0.9, 0.3), (0.8, 0.2), (0.7, np.inf)),
        ("RBF", "set", "KHA/et", "excess", 1, (0.5, 0.04), (0.6, 0.02), (0.7, 0.03)),
        ("RBF", "other", "KHA/et", "excess", 1, (0.1, 0.01)),
        ("RBF", "other", "KHA/s", "excess", 1, (0.2, 0.02)),
        ("RBF", AUTO, AUTO, "excess", 1, (0.4, 0.05)),
        ("RBF", MERGED, MERGED, "excess", 1, 0.001, 0.003),
    )


@pytest.fixture
def groups(tmp_path):
    """Return a study of clustering: exact groups from 2 to 3, and the best of their starts 2.5."""
    median, best = digits.GROUPED
    four = (
        row
        for i, v in enumerate(sets.ACCELERATED)
        for row in (
            ("RBF", "set", v, "excess", 1, (1, 0.1 * (i + 1)), (1, 0.1 * (i + 1))),
            ("RBF", "set", v, median, 1, (4, 3 - i / 10), (4, 2.9 - i / 10)),
            ("RBF", "set", v, best, 1, (4, 2.5 + i / 4), (4, 2.5 + i / 4)),
        )
    )
    return made_up(
        tmp_path,
        "clustering",
        ("RBF", "exact", "exact", median, 1, 2, 3),
        ("RBF", "random", "random", median, 1, 4.5, 4.6),
        ("RBF", "exact", "exact", best, 1, 2.5),
        ("RBF", "set", "KHA/t", "excess", 1, (2, 1), (2, 1)),
        ("RBF", "set", "KHA/t", median, 1, (4, 3.2), (4, np.inf)),
        ("RBF", "set", "KHA/t", best, 1, (4, 3.1), (4, np.inf)),
        ("RBF", MERGED, MERGED, "excess", 1, 0.0, 0.0),
        *four,
    )


def test_panels_have_the_lines_of_a_study(small, groups):
    """There is one for each study and part; parts that are not asked for have none."""
    (title,) = found = shown.panels({"x": small, "y": groups}, "digits")
    assert title == "x: RBF"
    assert list(found[title]) == ["KHA/t", "KHA/et", AUTO, MERGED]
    np.testing.assert_array_equal(found[title]["KHA/et"][1][:, -1], [0.04, 0.02, 0.03])
    assert shown.panels({"x": small}, "digits", ["dot product"]) == {}


def test_of_several_sets_the_first_one_counts(small):
    """Variants come in the order asked for, and those that were not run are missing."""
    wanted = "digits", "RBF", ("KHA/s", "KHA/et", "KHA-SMD", "KHA/t")
    assert list(shown.selected(small, *wanted)) == ["KHA/et", "KHA/t"]
    found = shown.selected(small, *wanted, "other", "set")
    assert list(found) == ["KHA/s", "KHA/et", "KHA/t"]
    assert found["KHA/et"][1][0, -1] == 0.01
    assert shown.selected(small, *wanted, "set", "other")["KHA/et"][1][0, -1] == 0.04
    assert shown.selected(small, *wanted, measure="gain") == {}


def test_verdicts_are_tabulated_and_counted():
    """Counts add up to the number of claims; labels with other claims are refused."""
    holds = Finding(1, "a is below b", [Comparison(np.array([1.0]), np.array([2.0]))])
    untested = Finding("1 left", "c is below d", [])
    text = shown.verdict_table({"x": [holds, untested], "y": [holds, holds]})
    assert lines(text) == [
        ["claim", "figure", "x", "y"],
        ["a is below b", "1", "*reproduced*", "*reproduced*"],
        ["c is below d", "1 left", "*not tested*", "*reproduced*"],
    ]
    told = shown.tally([holds, untested, holds])
    assert told == "of 3 claims, 2 *reproduced* and 1 *not tested*"
    with pytest.raises(ValueError, match="shorter"):
        shown.verdict_table({"x": [holds, untested], "y": [holds]})


def test_ends_are_those_of_the_last_pass(small):
    """A value for each seed; in the table a run that diverged is called so."""
    found = shown.ends(small, "digits", "RBF")
    assert found["KHA/t"].tolist() == [0.3, 0.2, np.inf]
    assert found[MERGED].tolist() == [0.001, 0.003]
    head, *rows = lines(shown.end_table({"x": small}, "digits"))
    assert head == ["excess error, last pass", "x: RBF"]
    assert rows[0] == ["KHA/t", "0.3 (0.2 to diverged)"]
    assert rows[1] == ["KHA/et", "0.03 (0.02 to 0.04)"]


def test_coefficients_are_those_of_a_run():
    """A run that diverges stands still; if it does so at once, it has found nothing."""
    X = np.random.default_rng(0).standard_normal((40, 4))
    K = MatrixOperator(RBF(gamma=0.2)(X), center=True).K
    gain = make_gain("KHA/et", eta0=0.2)
    found = shown.coefficients_after(K, gain, 3, (1, 4), random_state=5)
    run = follow_passes(K, gain, 3, 4, random_state=5)
    assert list(found) == [1, 4]
    for number, A in found.items():
        np.testing.assert_array_equal(A, run[number - 1].coefficients)
    assert not np.array_equal(found[1], found[4])
    late = make_gain("KHA", eta0=3)
    run = follow_passes(K, late, 3, 30, random_state=5)
    assert 0 < len(run) < 30
    found = shown.coefficients_after(K, late, 3, (30,), random_state=5)
    np.testing.assert_array_equal(found[30], run[-1].coefficients)
    at_once = make_gain("KHA", eta0=1e4)
    found = shown.coefficients_after(K, at_once, 3, (1, 2), random_state=5)
    assert all(A.shape == (3, 40) and not A.any() for A in found.values())


def test_groups_beside_exact_and_random_ones(groups):
    """Those two are flat over all passes, with a line for each start."""
    found = shown.group_panels({"x": groups})["x"]
    assert list(found) == ["KHA/t", *sets.ACCELERATED, "exact", "random"]
    numbers, values = found["exact"]
    assert numbers.tolist() == [1, 2]
    np.testing.assert_array_equal(values, [[2, 2], [3, 3]])


def test_table_of_groups(groups):
    """Median and best start for the exact eigenvectors, KHA/t and the four."""
    head, *rows = lines(shown.group_table({"x": groups}, 10))
    assert head == ["variation of information", "x: median start", "x: best start"]
    assert [row[0] for row in rows] == ["exact", "KHA/t", *sets.ACCELERATED]
    assert rows[0] == ["exact", "2.500", "2.500"]
    assert rows[1] == ["KHA/t", "diverged", "diverged"]
    assert rows[3] == ["KHA/et", "2.850", "2.750"]
    _, *early = lines(shown.group_table({"x": groups}, 1))
    assert early[3] == ["KHA/et", "4.000", "4.000"]


def test_distance_of_the_best_starts(groups):
    """It is relative to the exact one, and positive if that is better."""
    found = shown.from_best_start(groups, 10)
    assert list(found.values()) == pytest.approx([0, 0.1, 0.2, 0.3])
    assert shown.from_best_start(groups, 1)["KHA/et*"] == pytest.approx(0.6)


def test_first_pass_within_the_spread(groups):
    """The worst exact start is the limit; the error is that of the same pass."""
    assert shown.first_good(groups, "KHA/et*") == (2, 0.1)
    assert shown.first_good(groups, "KHA-SMD") == (2, 0.4)
    assert shown.first_good(groups, "KHA/t") is None


def test_noise_that_is_gone(tmp_path):
    """Rows say what is left, in parts; the result is what is not, in per cent."""
    study = made_up(
        tmp_path,
        "motion",
        *(
            ("noisy", gains, variant, measure, 0, (1.0, x), (1.0, x + 0.1), (1.0, x + 0.3))
            for gains, variant, low in (("set", "KHA/et*", 0.1), ("reference", "2°", 0.4))
            for measure, x in zip(motion.MEASURES, (low, low + 0.2), strict=True)
        ),
    )
    assert shown.noise_removed(study, "noisy", "KHA/et*") == pytest.approx([80, 60])
    found = shown.noise_removed(study, "noisy", "2°", gains="reference")
    assert found == pytest.approx([50, 30])
