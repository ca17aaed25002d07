"""The report's protocols: rows that survive a kill, and conditions that mean what they say."""

import multiprocessing
import os
import signal
import time

import numpy as np
import pytest
from sklearn.decomposition import PCA

from akpca import pca, reconstruction_error
from akpca.experiments import report
from akpca.experiments.report import COLUMNS, Job, Version, evaluate, load_split, run
from akpca.experiments.tables import ResultTable

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


def test_every_second_pixel_of_labelled_images():
    """A step of 2 keeps a quarter of the pixels; data without images are refused."""
    assert load_split("digits", Version(2, 5, 5)).X.shape == (50, 16)
    with pytest.raises(ValueError, match="dataset='circles': the experiments need labelled"):
        load_split("circles", Version(1, 5, 5))


def test_conditions_are_the_errors_that_they_name(split):
    """Training, held-out and denoising error by hand."""
    model = PCA(5, random_state=0).fit(split.X)
    code = pca(split.X, 5)
    for condition, X in (("train", split.X), ("held out", split.X_test)):
        expected = reconstruction_error(X, code.reconstruct(X))
        assert evaluate(model, split, condition) == pytest.approx(expected, rel=1e-5)
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


def test_unknown_conditions_are_named(split):
    with pytest.raises(ValueError, match="condition='blur 3' must be"):
        evaluate(PCA(2).fit(split.X), split, "blur 3")


def test_pca_with_ridge_is_ahead_of_pca(split):
    """The same code, decoded by a regression, loses less of images that were not seen."""
    model = report.PCAWithRidge(5, random_state=0).fit(split.X)
    np.testing.assert_allclose(
        np.abs(model.transform(split.X)), np.abs(PCA(5).fit_transform(split.X)), atol=1e-4
    )
    assert evaluate(model, split, "held out") < evaluate(PCA(5).fit(split.X), split, "held out")


@pytest.mark.parametrize("method", [*report.METHODS, *report.NOISE_METHODS])
def test_every_method_does_its_job(method, split, tmp_path):
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


# Tables -----------------------------------------------------------------------------------------


def test_a_table_keeps_its_rows(tmp_path):
    """What was added is there when the file is opened again, to the last bit."""
    path = tmp_path / "deep" / "rows.csv"
    table = ResultTable(path, ["method", "k"])
    table.add("a, b", 3, value=0.1 + 0.2)
    table.add("c", 4, value=1)
    again = ResultTable(path, ["method", "k"])
    assert again[("a, b", 3)] == 0.1 + 0.2
    assert ("c", 4) in again and ("c", 5) not in again
    assert list(again) == [("a, b", "3"), ("c", "4")]
    assert again.select(method="c") == {("4",): 1.0}
    assert len(again) == 2


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


def test_bad_tables_and_rows_are_named(tmp_path):
    path = tmp_path / "rows.csv"
    table = ResultTable(path, ["k"])
    table.add(1, value=2)
    with pytest.raises(ValueError, match="already"):
        table.add(1, value=3)
    with pytest.raises(ValueError, match="must have a name for each"):
        table.add(1, 2, value=3)
    with pytest.raises(ValueError, match=r"\['m'\] must be among the columns"):
        table.select(m=1)
    with pytest.raises(ValueError, match="has the columns"):
        ResultTable(path, ["method"])
    path.write_text("k,value\n1\n")
    with pytest.raises(ValueError, match="has not the columns"):
        ResultTable(path, ["k"])


JOBS = [Job("tiny", "PCA", k, seed, CONDITIONS) for seed in (0, 1) for k in range(2, 40)]


def _work(path):
    run(JOBS, ResultTable(path, COLUMNS), "digits", TINY)


def test_a_run_that_was_killed_goes_on_where_it_stopped(tmp_path):
    """After kill -9 in mid-run, a second run ends with the table of an undisturbed one."""
    undisturbed, killed = tmp_path / "a.csv", tmp_path / "b.csv"
    _work(undisturbed)
    child = multiprocessing.get_context("spawn").Process(target=_work, args=(killed,))
    child.start()
    while not killed.exists() or killed.read_bytes().count(b"\n") < 20:
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    done = killed.read_bytes()
    assert done.count(b"\n") < undisturbed.read_bytes().count(b"\n")
    _work(killed)
    assert killed.read_bytes() == undisturbed.read_bytes()
    assert killed.read_bytes().startswith(done[: done.rfind(b"\n") + 1])
