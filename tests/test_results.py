"""Results leave a notebook unrounded, and those of many runs come back as one table."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from IPython.core.formatters import DisplayFormatter

import akpca
from akpca.book.rerun import declared_parameters, emit_results, results, versions


def cell(source, *tags, outputs=()):
    return {
        "cell_type": "code",
        "metadata": {"tags": list(tags)},
        "source": source,
        "outputs": list(outputs),
    }


def write_run(path, values, found, declared="seed: int = 0  # seed\nname = 'a'", **metadata):
    """Write a notebook as papermill leaves it, with results unless they are None."""
    bundle = {"output_type": "execute_result", "data": {"application/json": found}}
    record = {"parameters": values, "input_path": "notebooks/01_pca.ipynb", **metadata}
    notebook = {
        "metadata": {"papermill": record},
        "cells": [
            cell(declared, "parameters"),
            cell("emit_results()", "results", outputs=[] if found is None else [bundle]),
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook))


# ----------------------------------------------------------------------------------- emitting


def test_values_keep_every_digit():
    """NumPy's numbers and arrays become Python's, not one bit less."""
    third = np.float64(1) / 3
    found = emit_results(error=third, n=np.int64(7), curve=np.array([third, 2]), name="PCA")
    assert found == {"error": 1 / 3, "n": 7, "curve": [1 / 3, 2.0], "name": "PCA"}
    assert [type(v) for v in found.values()] == [float, int, list, str]
    assert json.loads(json.dumps(found)) == found


def test_mappings_become_one_result_for_each_entry():
    """The names of methods become the ends of names, and gains that differ by a star differ."""
    found = emit_results(error={"PCA": 1, "kernel PCA, not centred": {2: 2}, "KHA/et*": 3}, k=4)
    assert found == {
        "error_pca": 1,
        "error_kernel_pca_not_centred_2": 2,
        "error_kha_et_star": 3,
        "k": 4,
    }


def test_two_results_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two results are named 'error_pca'"):
        emit_results(error={"PCA": 1}, error_pca=2)


@pytest.mark.parametrize("value", [float("nan"), np.inf, [1.0, np.nan]])
def test_what_is_not_finite_is_none(value):
    """JSON has neither NaN nor infinity."""
    found = emit_results(error=value)["error"]
    assert None in found if isinstance(value, list) else found is None


def test_other_values_are_refused_by_name():
    with pytest.raises(TypeError, match="model is a set; results are numbers"):
        emit_results(model={1, 2})


def test_a_notebook_stores_json_and_shows_one_line():
    """The tree that JupyterLab draws is closed; all else shows the versions."""
    data, metadata = DisplayFormatter().format(emit_results(error=0.5))
    assert data["application/json"] == {"error": 0.5}
    assert metadata["application/json"]["expanded"] is False
    assert "\n" not in data["text/plain"]
    assert data["text/plain"].startswith("1 result, made with Python 3.")
    for name, version in versions().items():
        assert f"{name} {version}" in data["text/plain"]


def test_versions_are_those_in_use():
    assert versions()["numpy"] == np.__version__
    assert versions()["akpca"] == akpca.__version__
    assert set(versions()) == {"Python", "akpca", "numpy", "scipy", "scikit-learn", "BLAS"}


# ------------------------------------------------------------------------------------ reading


def test_results_are_one_row_for_each_run(tmp_path):
    """Each has its chapter, its parameters with the defaults, and its results."""
    write_run(tmp_path / "a.ipynb", {"seed": 3}, {"error": 0.125, "sizes": [1, 2]})
    write_run(tmp_path / "deep" / "b.ipynb", {}, {"error": 0.5, "other": "x"})
    frame = results(tmp_path)
    assert list(frame.index) == ["a.ipynb", "deep/b.ipynb"]
    assert list(frame.columns) == ["chapter", "seed", "name", "error", "sizes", "other"]
    assert list(frame["chapter"]) == ["01_pca", "01_pca"]
    assert list(frame["seed"]) == [3, 0]
    assert list(frame["error"]) == [0.125, 0.5]
    assert frame["sizes"].iloc[0] == [1, 2]
    assert pd.isna(frame["other"].iloc[0])


def test_a_result_never_hides_a_parameter(tmp_path):
    write_run(tmp_path / "a.ipynb", {}, {"seed": 0.5})
    assert results(tmp_path)[["seed", "result_seed"]].iloc[0].tolist() == [0, 0.5]


def test_runs_without_results_are_left_out(tmp_path):
    """What failed, and what an editor keeps, are no runs."""
    write_run(tmp_path / "failed.ipynb", {}, None)
    write_run(tmp_path / ".ipynb_checkpoints" / "a.ipynb", {}, {"error": 1})
    frame = results(tmp_path)
    assert frame.empty
    assert list(frame.columns) == ["chapter"]


def test_a_single_notebook_is_a_folder_of_one(tmp_path):
    write_run(tmp_path / "a.ipynb", {}, {"error": 1})
    assert list(results(tmp_path / "a.ipynb").index) == ["a.ipynb"]


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"folder='.*nowhere' does not exist"):
        results(tmp_path / "nowhere")
    (tmp_path / "broken.ipynb").write_text("{")
    with pytest.raises(ValueError, match=r"broken\.ipynb is not a notebook"):
        results(tmp_path)
    (tmp_path / "broken.ipynb").unlink()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"results.. needs pandas"):
        results(tmp_path)


# --------------------------------------------------------------------------------- parameters


def test_parameters_are_read_from_the_source():
    """With and without a type, over several lines, and without running anything."""
    source = """
k: int = 10  # size of the code
sizes: tuple[int, ...] = (
    5,
    10,
)  # sizes
name = "a"
later: float = 1 / 3  # computed
print("no parameter")
"""
    found = declared_parameters({"cells": [cell(source, "parameters")]})
    assert {p.name: (p.kind, p.default, p.help) for p in found.values()} == {
        "k": ("int", 10, "size of the code"),
        "sizes": ("tuple[int, ...]", (5, 10), "sizes"),
        "name": ("str", "a", ""),
        "later": ("float", None, "computed"),
    }
    assert declared_parameters({"cells": [cell("k = 1")]}) == {}
