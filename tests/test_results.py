"""Results leave a notebook unrounded, and those of many runs come back as one table."""

import json

import numpy as np
import pandas as pd
import pytest
from IPython.core.formatters import DisplayFormatter

from akpca.book.rerun import declared_parameters, emit_results, results, versions


def cell(source, *tags, outputs=()):
    return {
        "cell_type": "code",
        "metadata": {"tags": list(tags)},
        "source": source,
        "outputs": list(outputs),
    }


def write_run(path, values, found, declared="seed: int = 0  # seed\nname = 'a'"):
    """Write a notebook as papermill leaves it, with results unless they are None."""
    bundle = {"output_type": "execute_result", "data": {"application/json": found}}
    record = {"parameters": values, "input_path": "notebooks/01_pca.ipynb"}
    emitted = cell("emit_results()", "results", outputs=[] if found is None else [bundle])
    notebook = {"metadata": {"papermill": record}, "cells": [cell(declared, "parameters"), emitted]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook))


def test_values_keep_every_digit():
    """NumPy's numbers and arrays become Python's, not one bit less; what is not finite, and what
    JSON does not have, is None."""
    third = np.float64(1) / 3
    found = emit_results(error=third, n=np.int64(7), curve=np.array([third, np.nan]), name="PCA")
    assert found == {"error": 1 / 3, "n": 7, "curve": [1 / 3, None], "name": "PCA"}
    assert [type(v) for v in found.values()] == [float, int, list, str]
    assert json.loads(json.dumps(found)) == found
    with pytest.raises(TypeError, match="model"):
        emit_results(model={1, 2})


def test_mappings_become_one_result_for_each_entry():
    """The names of methods become the ends of names, and gains that differ by a star differ."""
    found = emit_results(error={"PCA": 1, "kernel PCA, not centred": {2: 2}, "KHA/et*": 3}, k=4)
    names = ["error_pca", "error_kernel_pca_not_centred_2", "error_kha_et_star", "k"]
    assert found == dict(zip(names, (1, 2, 3, 4), strict=True))
    with pytest.raises(ValueError, match="error_pca"):
        emit_results(error={"PCA": 1}, error_pca=2)


def test_a_notebook_stores_json_and_shows_one_line():
    """The tree that JupyterLab draws is closed; all else shows the versions that are in use."""
    data, metadata = DisplayFormatter().format(emit_results(error=0.5))
    assert data["application/json"] == {"error": 0.5}
    assert metadata["application/json"]["expanded"] is False
    assert "\n" not in data["text/plain"]
    assert versions()["numpy"] == np.__version__
    for name, version in versions().items():
        assert f"{name} {version}" in data["text/plain"]


def test_results_are_one_row_for_each_run(tmp_path):
    """Each has its chapter, its parameters with the defaults, and its results, which never hide a
    parameter; what failed, and what an editor keeps, are no runs."""
    write_run(tmp_path / "a.ipynb", {"seed": 3}, {"error": 0.125, "sizes": [1, 2]})
    write_run(tmp_path / "deep" / "b.ipynb", {}, {"error": 0.5, "seed": 0.25})
    write_run(tmp_path / "failed.ipynb", {}, None)
    write_run(tmp_path / ".ipynb_checkpoints" / "a.ipynb", {}, {"error": 1})
    frame = results(tmp_path)
    assert list(frame.index) == ["a.ipynb", "deep/b.ipynb"]
    assert list(frame.columns) == ["chapter", "seed", "name", "error", "sizes", "result_seed"]
    assert list(frame["chapter"]) == ["01_pca", "01_pca"]
    assert list(frame["seed"]) == [3, 0]
    assert list(frame["error"]) == [0.125, 0.5]
    assert frame["sizes"].iloc[0] == [1, 2]
    assert pd.isna(frame["result_seed"].iloc[0])
    assert list(results(tmp_path / "a.ipynb").index) == ["a.ipynb"]
    assert results(tmp_path / "failed.ipynb").empty


def test_what_is_missing_or_broken_is_named(tmp_path):
    """A broken file does not lose the others of its folder."""
    with pytest.raises(FileNotFoundError, match="nowhere"):
        results(tmp_path / "nowhere")
    write_run(tmp_path / "a.ipynb", {"seed": 3}, {"error": 0.125})
    for name, text in (("broken", "{"), ("empty", "")):
        (tmp_path / f"{name}.ipynb").write_text(text)
        with pytest.raises(ValueError, match=rf"{name}\.ipynb"):
            results(tmp_path / f"{name}.ipynb")
    with pytest.warns(UserWarning, match=r"left out: .*(broken|empty)\.ipynb"):
        assert list(results(tmp_path)["error"]) == [0.125]


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
