"""What chapter 13 shows: panels, tables and sentences, from studies of a few rows."""

import numpy as np
import pytest

from akpca.book.experiments import ResultTable, digits, follow_passes, kha_claims, motion
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


def test_studies_without_rows_are_left_out(small, groups):
    """Labels and their order are kept."""
    both = {"a": groups, "b": small, "c": small}
    assert list(shown.with_rows(both, "digits")) == ["b", "c"]
    assert shown.with_rows(both, "motion") == {}


def test_panels_have_the_lines_of_a_study(small, groups):
    """There is one for each study and part; parts that are not asked for have none."""
    (title,) = found = shown.panels({"x": small, "y": groups}, "digits")
    assert title == "x: RBF"
    assert list(found[title]) == ["KHA/t", "KHA/et", AUTO, MERGED]
    np.testing.assert_array_equal(found[title]["KHA/et"][1][:, -1], [0.04, 0.02, 0.03])
    assert shown.panels({"x": small}, "digits", ["dot product"]) == {}


def test_panels_end_where_a_merge_would_rule_them(groups):
    """What is below 1e-6 is drawn there, and no other number is changed."""
    found = shown.panels({"x": groups}, "clustering")["x: RBF"]
    assert (found[MERGED][1] == 1e-6).all()
    np.testing.assert_array_equal(found["KHA/et*"][1], [[1, 0.1], [1, 0.1]])


def test_of_several_sets_the_first_one_counts(small):
    """Variants come in the order asked for, and those that were not run are missing."""
    wanted = "digits", "RBF", ("KHA/s", "KHA/et", "KHA-SMD", "KHA/t")
    assert list(shown.selected(small, *wanted)) == ["KHA/et", "KHA/t"]
    found = shown.selected(small, *wanted, "other", "set")
    assert list(found) == ["KHA/s", "KHA/et", "KHA/t"]
    assert found["KHA/et"][1][0, -1] == 0.01
    assert shown.selected(small, *wanted, "set", "other")["KHA/et"][1][0, -1] == 0.04
    assert shown.selected(small, *wanted, measure="gain") == {}


def test_gains_are_drawn_where_both_were_run(tmp_path):
    """The start, pass 0, has a place on a logarithmic axis."""
    study = made_up(
        tmp_path,
        "motion",
        *(("noisy", "set", v, "gain", 0, (5, 4)) for v in ("KHA/et", "KHA/et*")),
        ("clean", "set", "KHA/et", "gain", 0, (5, 4)),
    )
    (title,) = found = shown.gain_panels(study, ["digits", "motion"])
    assert title == "motion, noisy"
    assert list(found[title]) == ["KHA/et*", "KHA/et"]
    assert found[title]["KHA/et"][0].tolist() == [0.5, 1]


def test_claims_are_listed_with_all_verdicts(small):
    """A claim has one entry, in which all labels have their say; figures are chosen by number."""
    holds = Finding(1, "a is below b", [Comparison(np.array([1.0]), np.array([2.0]))])
    fails = Finding(1, "a is below b", [Comparison(np.array([2.0]), np.array([1.0]))])
    other = Finding("1 left", "c is below d", [])
    text = str(shown.listed({"x": [holds], "y": [fails, other]}))
    assert text.splitlines() == [
        f"- a is below b: x {holds.sentence()}; y {fails.sentence()}.",
        f"- c is below d: y {other.sentence()}.",
    ]
    told = str(shown.verdicts({"x": small}, 2, 11)).splitlines()
    expected = [f.claim for f in kha_claims.claims(small) if f.figure in (2, 11)]
    assert [line[2:].split(": x ")[0] for line in told] == expected


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


def test_a_variant_of_one_study_has_no_entry_in_another(small, groups, tmp_path):
    """Rows are those of all studies together."""
    more = made_up(tmp_path / "more", "digits", ("RBF", "set", "KHA", "excess", 1, (2, 1)))
    _, *rows = lines(shown.end_table({"x": small, "y": groups, "z": more}, "digits"))
    assert rows[-1] == ["KHA", "–", "1 (1 to 1)"]
    assert rows[0][-1] == "–"


def test_without_tuning_beside_the_best_gain(small, groups):
    """The best gain is that of the least median; parts without automatic gains are left out."""
    head, *rows = lines(shown.tuning_table({"x": small, "y": groups}, sets.EXPERIMENTS))
    assert head[1:] == ["best gain, last pass", "auto, last pass", "merged, one pass"]
    assert rows == [["x: digits, RBF", "3.0e-02", "5.0e-02", "2.0e-03"]]


def test_sentences_on_divergence_and_on_merging(small, groups):
    """Who diverged, with how many seeds; and how far the best gain is from one merge."""
    told = shown.about_divergence({"x": small, "y": groups}, "digits")
    assert told == "Runs that diverged, x: KHA/t with 1 of 3 seeds (RBF); y: none."
    assert "at 15 times (x) the excess" in shown.about_merging({"x": small}, "digits")
    # no more than rounding is left of it
    assert "at 10,000,000 times (y)" in shown.about_merging({"y": groups}, "clustering")


def test_medians_are_those_of_studies_with_rows(small, groups):
    """After a pass, or the last one."""
    both = {"x": small, "y": groups}
    assert shown.medians(both, "digits", "RBF", "KHA/et") == [0.03]
    assert shown.medians(both, "digits", "RBF", "KHA/et", 1) == [0.6]
    assert shown.medians(both, "digits", "RBF", "KHA/et", gains="other") == [0.01]


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


def test_information_is_read_from_its_own_rows(groups):
    """Exact and random groups have a value a start, others one a run, after a pass."""
    assert shown.information_of(groups, "exact").tolist() == [2, 3]
    assert shown.information_of(groups, "random", 10).tolist() == [4.5, 4.6]
    assert shown.information_of(groups, "KHA/et", 1).tolist() == [4, 4]
    assert shown.information_of(groups, "exact", measure=digits.GROUPED[1]).tolist() == [2.5]


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


def test_a_divergence_has_no_distance(groups, tmp_path):
    """The sentence says of how many variants it speaks."""
    assert "starts of the four differ from the exact one's by +0.0 % to +30.0 %" in (
        shown.about_best_starts(groups, 10)
    )
    rows = [("RBF", "exact", "exact", digits.GROUPED[1], 1, 2)]
    for v, value in zip(sets.ACCELERATED, (np.inf, 3, np.inf, np.inf), strict=True):
        rows.append(("RBF", "set", v, digits.GROUPED[1], 1, value))
    lost = made_up(tmp_path / "lost", "clustering", *rows)
    assert shown.from_best_start(lost, 10) == {"KHA/et": 0.5}
    assert "starts of 1 of the four differ" in shown.about_best_starts(lost, 10)
    rows = [(*row[:-1], np.inf) if row[2] == "KHA/et" else row for row in rows]
    lost = made_up(tmp_path / "all", "clustering", *rows)
    assert shown.about_best_starts(lost, 10).endswith("all of the four have diverged")


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


def test_parameters_beside_those_of_the_paper():
    """Variants without a row in table 1 are left out, as are parameters that a gain hasn't got."""
    own = {
        ("clustering", "RBF"): {
            "KHA": make_gain("KHA", eta0=3),
            "KHA-SMD*": make_gain("KHA-SMD*", eta0=7, tau=2, mu=30),
        }
    }
    head, *rows = lines(shown.parameter_table(own))
    assert head[1:] == ["table 1", "our rule"]
    assert rows == [["clustering, RBF: KHA-SMD*", "10, 1, 20", "7, 2, 30"]]
