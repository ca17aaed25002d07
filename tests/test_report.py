"""The report's protocols: rows that survive a kill, and conditions that mean what they say."""

import multiprocessing
import os
import re
import signal
import time
from itertools import pairwise
from pathlib import Path

import nbformat
import numpy as np
import pytest
from sklearn.decomposition import PCA

from akpca import pca, reconstruction_error
from akpca.book.experiments import report
from akpca.book.experiments.report import (
    COLUMNS,
    Comparison,
    Finding,
    Job,
    Results,
    Version,
    default_plan,
    evaluate,
    findings,
    load_split,
    paper_plan,
    run,
)
from akpca.book.experiments.tables import ResultTable, table_name

ROOT = Path(__file__).resolve().parent.parent
COMMITTED = ROOT / "notebooks" / report.RESULTS
CHAPTER = ROOT / "notebooks" / "12_akpca_experiments.ipynb"
TINY = {"tiny": Version(1, 20, 30)}
CONDITIONS = ("train", "held out", "gaussian 0.02", "speckle 0.3", "classify 5")


@pytest.fixture(scope="module")
def split():
    """Return a small version of the 8x8 digits."""
    return load_split("digits", TINY["tiny"], random_state=1)


def test_splits_are_balanced_disjoint_and_scaled(split):
    """The longest training example has norm 1; another seed draws other examples."""
    assert split.X.shape == (200, 64)
    assert np.linalg.norm(split.X, axis=1).max() == pytest.approx(1)
    assert (np.bincount(split.y_test) == 30).all()
    rows = {row.tobytes() for row in split.X}
    assert not any(row.tobytes() in rows for row in split.X_test)
    other = load_split("digits", TINY["tiny"], random_state=2)
    assert not np.array_equal(other.X, split.X)


def test_conditions_are_the_errors_that_they_name(split):
    """By hand; of a balanced part of the images, if only these are judged."""
    part = load_split("digits", Version(1, 20, 30, n_judged=7), random_state=1)
    np.testing.assert_array_equal(part.X_test, split.X_test)
    train, test = part.judged
    assert len(train) == 70 and (np.bincount(part.y_test[test]) == 7).all()
    model = PCA(5, random_state=0).fit(split.X)
    code = pca(split.X, 5)
    for data, seen, new in ((split, slice(None), slice(None)), (part, train, test)):
        for condition, X in (("train", data.X[seen]), ("held out", data.X_test[new])):
            expected = reconstruction_error(X, code.reconstruct(X))
            assert evaluate(model, data, condition) == pytest.approx(expected, rel=1e-5)
    assert evaluate(model, part, "classify 5") == evaluate(model, split, "classify 5")
    spread = np.sum((split.X_test - split.X.mean(axis=0)) ** 2, axis=1)
    assert evaluate(None, split, "variance") == pytest.approx(np.mean(spread), rel=1e-5)
    for kind, level in (("gaussian", 0.02), ("speckle", 0.3)):
        noisy = report.corrupt(split.X_test, kind, level, random_state=3)
        expected = reconstruction_error(split.X_test, code.reconstruct(noisy))
        value = evaluate(model, split, f"{kind} {level}", random_state=3)
        assert value == pytest.approx(expected, rel=1e-5)


def test_accuracy_grows_with_the_classifiers_training_set(split):
    """Codes carry the class, and more examples show more of it."""
    model = PCA(10, random_state=0).fit(split.X)
    few, many = (evaluate(model, split, f"classify {m}") for m in (3, 20))
    assert 0.4 < few < many < 1
    codes = model.transform(split.X_test)
    assert evaluate(None, split, "classify 20", codes=lambda: codes) == many
    with pytest.raises(ValueError, match="condition='blur 3'"):
        evaluate(model, split, "blur 3")


@pytest.mark.slow
@pytest.mark.parametrize("method", [*report.METHODS, *report.NOISE_METHODS])
def test_every_method_does_its_job(method, tmp_path):
    """One finite row a condition, and nothing to do the second time."""
    noisy = method in report.NOISE_METHODS
    conditions = ("gaussian 0.04", "speckle 0.3") if noisy else CONDITIONS
    job = Job("tiny", method, 3, 0, conditions)
    table = ResultTable(tmp_path / "rows.csv", COLUMNS)
    run([job], table, "digits", TINY)
    assert [key[-1] for key in table] == list(conditions)
    assert all(np.isfinite(table[key]) for key in table)
    before = table.path.read_bytes()
    run([job], table, "digits", TINY)
    assert table.path.read_bytes() == before


@pytest.fixture
def plan():
    """Return a plan with two sizes of the code on the 8x8 digits."""
    return default_plan("digits", n_short=20, n_long=40, n_test=20, n_components=(3, 15))


@pytest.mark.parametrize("make", [default_plan, paper_plan])
def test_plans_load_a_split_once(make):
    """Jobs are unique and those on one split follow each other; all methods are there."""
    jobs = make().jobs
    assert len({job[:4] for job in jobs}) == len(jobs)
    splits = [(job.data, job.seed) for job in jobs]
    changes = sum(a != b for a, b in pairwise(splits))
    assert changes == len(set(splits)) - 1
    assert {job.method for job in jobs} == {*report.METHODS, *report.NOISE_METHODS}


def _fill(table, plan, value):
    for job in plan.jobs:
        for condition in job.conditions:
            table.add(*job[:4], condition, value=value(job, condition))


# The report's order of the four, from the smallest error.
ORDER = ["AKPCA (18)", "DS-AKPCA (18)", "PCA", "kernel PCA"]


def _as_claimed(job, condition):
    """Return a result that agrees with the report, but where it contradicts itself."""
    kind, _, level = condition.partition(" ")
    if condition == "norm":
        return 10.0
    place = ORDER.index(job.method) if job.method in ORDER else 4
    if kind == "classify":
        both_small = job.data.startswith("short") and int(level) < 11
        return 0.9 - 0.1 * place if both_small or job.k < 20 else 0.1 + 0.1 * place
    short = job.data.startswith("short")
    error = 1 + place + (0 if condition == "train" else (0.3 if short else 0.1))
    if condition == "held out" and short:
        error += 0.1 * (job.method == "AKPCA (18)")
    if kind == "gaussian" and float(level) > 0.04:
        error = 0.5 if job.method == "kernel PCA" else error
    return error


def test_rows_as_claimed_reproduce_the_claims(plan, tmp_path):
    """All but the claim that contradicts another one, and those that the plan can't test."""
    table = ResultTable(tmp_path / "rows.csv", COLUMNS)
    plan = plan._replace(n_components=(10, 20), noise_components=(10,), classify=(10, 14))
    _fill(table, plan, _as_claimed)
    found = findings(table, plan)
    verdicts = {finding.claim: finding.verdict for finding in found}
    in_part = [claim for claim, verdict in verdicts.items() if verdict == "in part"]
    untested = [claim for claim, verdict in verdicts.items() if verdict == "not tested"]
    assert in_part == ["DS-AKPCA (18) is ahead of PCA and kernel PCA above 0.04"]
    assert untested == [
        "With speckle up to 0.3 DS-AKPCA (18) is ahead of PCA and kernel PCA on 28x28 images"
    ]
    assert "not reproduced" not in verdicts.values()
    assert {finding.figure for finding in found} == {3, 4, 5, 6, 8, 10, 11}


def compared(smaller, larger):
    return Comparison(np.array(smaller), np.array(larger))


@pytest.mark.parametrize(
    ("smaller", "larger", "outcome"),
    [
        ([1.0, 1.0], [2.0, 2.0], "holds"),
        ([2.0, 2.0], [1.0, 1.0], "fails"),
        ([1.0], [1.009], "tie"),
        ([1.0], [1.011], "holds"),
        ([1.0, 3.0], [4.0, 2.0], "tie"),
        ([1.0, 1.0], [1.5, 0.99], "tie"),
        ([0.0], [0.0], "tie"),
        ([1.0, 10.0], [1.2, 12.0], "holds"),
    ],
)
def test_small_and_unsteady_differences_are_ties(smaller, larger, outcome):
    """Below 1 % of the larger in the mean, or seeds that disagree."""
    assert compared(smaller, larger).outcome == outcome


def test_verdicts_count_comparisons():
    """The rule of the verdicts, and what is said of them."""
    yes, no = compared([1.0, 1.0], [2.0, 2.0]), compared([2.0, 2.0], [1.0, 1.0])
    tie = compared([1.0, 3.0], [4.0, 2.0])
    verdicts = [
        ("reproduced", [yes]),
        ("reproduced, with ties", [yes, yes, tie]),
        ("in part", [yes, tie]),
        ("in part", [yes, yes, yes, no]),
        ("not reproduced", [tie, tie]),
        ("not reproduced", [tie, no]),
        ("not tested", []),
    ]
    for verdict, comparisons in verdicts:
        assert Finding(3, "", comparisons).verdict == verdict
    finding = Finding(3, "This is so", [yes, tie, no])
    assert finding.counts == (1, 1, 1)
    np.testing.assert_allclose(finding.ratios, [4 / 7, 6 / 5])
    assert finding.row() == ["0.89 (0.57 to 1.20)", "*in part*"]
    assert "1 of 3 comparisons held, 1 tied, 1 failed" in finding.sentence()
    assert "not tested" in Finding(3, "This is so", []).sentence()


def test_results_by_hand(plan, tmp_path):
    """What figures are drawn from: shares, curves, noise with and without training for it."""
    table = ResultTable(tmp_path / "rows.csv", COLUMNS)
    value = {"norm": 10.0, "variance": 8.0, "train": 1.0, "held out": 2.0}
    plan = plan._replace(
        denoising=("gaussian 0.1", "speckle 0.2"), few_components={"long 8x8": (3,)}
    )
    _fill(table, plan, lambda job, c: value.get(c, 4.0) * (1 if job.method == "PCA" else 1.5))
    results = Results(table, plan)
    np.testing.assert_allclose(results.norm("long 8x8", condition="variance"), [8, 8])
    np.testing.assert_allclose(
        results.share("short 8x8", 3, "ridge autoencoder", "train"), [0.15, 0.15]
    )
    np.testing.assert_allclose(results.gap("short 8x8", 3, "PCA"), [0.1, 0.1])
    assert np.shape(results.curves("short 8x8", "train")["ridge autoencoder"]) == (2, 2)
    assert np.shape(results.curves("long 8x8", "train")["ridge autoencoder"]) == (1, 2)
    denoised = results.denoised("short 8x8", 3, "gaussian")
    assert set(denoised) == {*report.METHODS, *report.NOISE_METHODS}
    np.testing.assert_allclose(denoised["PCA"], [[2, 2], [4, 4]])
    assert [len(values) for values in denoised["ridge autoencoder, with noise"]] == [0, 2]
    assert set(results.denoised("short 8x8", 15, "speckle")) == set(report.METHODS)
    assert results.relative("train") == {m: 1.5 - 0.5 * (m == "PCA") for m in report.METHODS}
    assert results.small == [("short 8x8", 3), ("short 8x8", 15)]


def test_a_table_keeps_its_rows(tmp_path):
    """To the last bit, of two at once, in a file that a full disk has left empty."""
    path = tmp_path / "deep" / "rows.csv"
    path.parent.mkdir()
    path.touch()
    first, second = (ResultTable(path, ["method", "k"]) for _ in range(2))
    first.add("a\u2028, b", 3, value=0.1 + 0.2)
    second.add("c", 4, value=1)
    again = ResultTable(path, ["method", "k"])
    assert again[("a\u2028, b", 3)] == 0.1 + 0.2
    assert ("c", 4) in again and ("c", 5) not in again
    assert list(again) == [("a\u2028, b", "3"), ("c", "4")]
    assert again.select(method="c") == {("4",): 1.0}
    assert path.read_bytes().count(b"method,k,value") == 1
    assert not list(path.parent.glob("*.new"))
    with pytest.raises(ValueError, match="line breaks"):
        first.add("a\nb", 1, value=1)


def test_a_row_that_was_cut_off_is_dropped(tmp_path):
    """At every byte of the last row: the rows before it stay, and the file is whole again."""
    path = tmp_path / "rows.csv"
    table = ResultTable(path, ["k"])
    table.add(1, value=0.25)
    start = path.stat().st_size
    table.add(2, value=0.5)
    whole = path.read_bytes()
    for size in range(start, len(whole)):
        path.write_bytes(whole[:size])
        cut = ResultTable(path, ["k"])
        assert len(cut) == 1
        cut.add(2, value=0.5)
        assert path.read_bytes() == whole


def test_tables_are_named_by_what_is_in_the_data(tmp_path):
    """Not by where they are: another file, or another number, has another table."""
    X = np.random.default_rng(0).random((5, 4))
    (tmp_path / "other").mkdir()
    np.save(tmp_path / "mine.npy", X)
    np.save(tmp_path / "other" / "mine.npy", X + 1)
    np.savez(tmp_path / "mine.npz", X=X, y=np.arange(5))
    given = [("mine.npy", 0.5), ("other/mine.npy", 0.5), ("mine.npy", 0.5000001), ("mine.npz", 0.5)]
    names = [table_name(str(tmp_path / file), 10, number) for file, number in given]
    assert len(set(names)) == 4
    assert all(re.fullmatch(r"mine-[0-9a-f]{8}-10-0\.5\d*", name) for name in names)
    assert table_name("digits", 3) == table_name("digits", 3)


JOBS = [Job("tiny", "PCA", k, seed, CONDITIONS[:4]) for seed in (0, 1) for k in range(2, 14)]


def _work(path, n_jobs=1):
    run(JOBS, ResultTable(path, COLUMNS), "digits", TINY, n_jobs=n_jobs)


@pytest.mark.slow
@pytest.mark.once
def test_a_run_that_was_killed_goes_on_where_it_stopped(tmp_path):
    """After kill -9 a second run ends with the table of an undisturbed one."""
    _work(tmp_path / "whole.csv")
    undisturbed = (tmp_path / "whole.csv").read_bytes()
    path = tmp_path / "rows.csv"
    child = multiprocessing.get_context("spawn").Process(target=_work, args=(path,))
    child.start()
    while not path.exists() or path.read_bytes().count(b"\n") < 9:
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    done = path.read_bytes()
    # what was done is kept: each row is in the table of the undisturbed run, and is not redone
    rows = set(done[: done.rfind(b"\n") + 1].splitlines())
    assert rows < set(undisturbed.splitlines())
    _work(path, n_jobs=2)
    assert path.read_bytes() == undisturbed


@pytest.mark.slow
def test_rows_of_bundled_data_come_out_again(tmp_path):
    """But for the few examples that rounding may move."""
    plan = default_plan("digits", n_short=30, n_long=60, n_test=40, n_components=(4,), seeds=(0,))
    plan = plan._replace(methods=("PCA", "kernel PCA", "PCA + ridge"), noise_methods=())
    jobs = [job for job in plan.jobs if job.data == next(iter(plan.versions))]
    table = ResultTable(tmp_path / "rows.csv", COLUMNS)
    run(jobs, table, plan.dataset, plan.versions, options=plan.options)
    committed = ResultTable(COMMITTED / f"{plan.name}.csv", COLUMNS)
    both = [key for key in table if key in committed]
    assert len(both) > 4
    for key in both:
        assert table[key] == pytest.approx(committed[key], rel=5e-3), key


def test_verdicts_of_the_chapter_are_those_of_the_tables():
    """What the closing table says of the paper scale follows from the rows that are committed."""
    study = report.read_results(paper_plan(), COMMITTED)
    cells = nbformat.read(CHAPTER, as_version=4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    texts = [output.get("data", {}).get("text/markdown", "") for output in outputs]
    (text,) = [text for text in texts if "verdict, paper scale" in text]
    lines = [[part.strip() for part in line.split("|")[1:-1]] for line in text.splitlines()[2:]]
    found = findings(*study)
    assert [line[0] for line in lines] == [finding.claim for finding in found]
    assert [line[-2:] for line in lines] == [finding.row() for finding in found]
