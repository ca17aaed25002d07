"""Chapters run again from the command line: what is refused, what is kept, and what goes on."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest

import akpca
from akpca.book.rerun import Parameter, figure, notebooks, results, running, sweeping
from akpca.book.rerun import command as command_line
from akpca.book.rerun.values import UsageError, grid_values, run_values, to_value
from akpca.datasets import load_dataset

ROOT = Path(akpca.__file__).parent.parent
TINY = """k: int = 1  # size
sizes: tuple[int, ...] = (1, 2)  # sizes
seed: int = 0  # seed
pause: float = 0.0  # seconds"""


def parameter(kind, default=None):
    return Parameter("p", kind, default, repr(default), "")


@pytest.fixture
def tiny(tmp_path):
    """Write a notebook that fails for k = 99, and return its path."""
    sources = {
        "parameters": TINY,
        "work": "import time\n\ntime.sleep(pause)\nassert k != 99, 'k is 99'",
        # What `emit_results` does, without the second that importing akpca takes.
        "results": "from IPython.display import JSON\n\n"
        "JSON({'third': 1 / (k + seed + 3), 'total': sum(sizes)})",
    }
    notebook = nbformat.v4.new_notebook()
    for tag, source in sources.items():
        cell = nbformat.v4.new_code_cell(source)
        cell.metadata["tags"] = [tag]
        notebook.cells.append(cell)
    nbformat.write(notebook, tmp_path / "tiny.ipynb")
    return tmp_path / "tiny.ipynb"


@pytest.fixture
def nothing_runs(monkeypatch):
    """Fail if anything is executed."""

    def refuse(*_, **__):
        raise AssertionError("nothing should run")

    for name in ("run_task", "run_local", "run_on_cluster"):
        monkeypatch.setattr(command_line, name, refuse)


# ------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "10", 10),
        ("float", "1e-3", 0.001),
        ("float", "3", 3.0),
        ("bool", "True", True),
        ("bool", "no", False),
        ("str", "10", "10"),
        ("tuple[int, ...]", "10, 20", [10, 20]),
        ("tuple[int, ...]", "(10,)", [10]),
        ("list[float]", "[1, 2.5]", [1.0, 2.5]),
        ("list[str]", "PCA, 'kernel PCA'", ["PCA", "kernel PCA"]),
        ("list[int]", "[]", []),
        ("int | None", "None", None),
        ("int | None", "3", 3),
        ("dict", "{'a': 1}", {"a": 1}),
        ("Any", "free text", "free text"),
    ],
)
def test_texts_become_values_of_the_declared_type(kind, text, value):
    found = to_value(parameter(kind), text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "2.5"),
        ("int", "ten"),
        ("int", "True"),
        ("float", "nan"),
        ("float", "inf"),
        ("float", "1,5"),
        ("bool", "2"),
        ("tuple[int, ...]", "10, x"),
        ("int | None", "none"),
    ],
)
def test_a_wrong_type_is_named(kind, text):
    message = f"p={text!r} must be of type {kind}"
    with pytest.raises(UsageError, match=re.escape(message)):
        to_value(parameter(kind), text)


def test_lists_without_annotation_follow_the_default():
    assert to_value(parameter("list", [1, 2]), "3,4") == [3, 4]
    assert to_value(parameter("tuple", (1, 2.5)), "3,4") == [3.0, 4.0]
    assert to_value(parameter("list", ["a"]), "3,4") == ["3", "4"]


def test_values_of_a_sweep():
    """Commas separate values, semicolons those that have commas."""
    declared = {"k": parameter("int"), "s": parameter("str"), "t": parameter("tuple[int, ...]")}
    given = [("k", "5,10, 20"), ("s", "2, 5; 10"), ("t", "1,2;3")]
    assert grid_values("n", declared, given) == {
        "k": [5, 10, 20],
        "s": ["2, 5", "10"],
        "t": [[1, 2], [3]],
    }
    assert grid_values("n", declared, [("t", "1,2")]) == {"t": [[1, 2]]}


@pytest.mark.parametrize("given", [[("k", "1,01")], [("k", "1"), ("k", "2")], [("k", ",")]])
def test_nothing_is_given_twice_or_empty(given):
    with pytest.raises(UsageError, match=r"given (twice|no value)"):
        grid_values("n", {"k": parameter("int")}, given)


def test_no_value_is_the_default():
    assert run_values("n", {"k": parameter("int")}, []) == {}


# ---------------------------------------------------------------------------- before anything


@pytest.mark.parametrize("command", ["run", "sweep"])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["n_componets", "3"], ["no parameter 'n_componets' (did you mean 'n_components'?)"]),
        (["zzz", "3"], ["no parameter 'zzz'. It has:"]),
        (["n_components", "2.5"], ["n_components='2.5' must be of type int"]),
        (["progress", "maybe"], ["must be of type bool (true or false)"]),
    ],
)
def test_mistakes_are_found_before_anything_runs(
    command, given, words, nothing_runs, tmp_path, monkeypatch, capsys
):
    """The exit code is 2, all parameters are listed, and no folder is made."""
    monkeypatch.chdir(tmp_path)
    assert command_line.main([command, "01", "-p", *given]) == 2
    message = capsys.readouterr().err
    assert all(word in message for word in words)
    for name in ("dataset", "n_components", "size of the code", "seed"):
        assert name in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "99"], "no chapter '99'. There are:\n  00_start_here"),
        (["run", "akpka"], "no chapter 'akpka' (did you mean 'akpca'?)"),
        (["run", "nowhere/x.ipynb"], "there is no notebook nowhere/x.ipynb"),
        (["run", "x.ipynb"], "no chapter 'x.ipynb'"),
        (["sweep", "01"], "a sweep needs parameters"),
        (["sweep", "01", "-p", "seed", "1", "--jobs", "0"], "--jobs 0 must be at least 1"),
    ],
)
def test_what_can_not_be_done_is_said(arguments, message, nothing_runs, capsys):
    assert command_line.main(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.once
def test_a_mistake_takes_no_time(tmp_path):
    """Neither papermill nor a kernel is loaded to find it, and the exit code is the shell's."""
    code = (
        "import sys, akpca.__main__ as m; code = m.main(sys.argv[1:]); "
        "print(*{'papermill', 'jupyter_client', 'matplotlib'} & set(sys.modules)); sys.exit(code)"
    )
    command = [sys.executable, "-c", code, "sweep", "09", "-p", "n_component", "5,10"]
    result = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert result.returncode == 2
    assert "did you mean 'n_components'?" in result.stderr
    assert result.stdout.split() == []


@pytest.mark.parametrize("text", ["{", "[]", '{"cells": []}', None])
def test_other_files_are_no_notebooks_with_parameters(text, tmp_path, nothing_runs, capsys):
    path = tmp_path / "x.ipynb"
    path.write_text(text or json.dumps({"cells": [], "metadata": {}}))
    assert command_line.main(["run", str(path)]) == 2
    assert re.search("is not a notebook|no cell tagged 'parameters'", capsys.readouterr().err)


@pytest.mark.parametrize("out", ["notebooks", "notebooks/01_pca.ipynb"])
def test_a_chapter_never_overwrites_itself(out, nothing_runs, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert command_line.main(["run", "01", "--out", out]) == 2
    assert f"--out {out} would overwrite" in capsys.readouterr().err


def test_a_scheduler_that_does_not_answer_is_named(tiny, tmp_path, monkeypatch, capsys):
    pytest.importorskip("distributed")
    monkeypatch.setattr(sweeping, "CONNECT_SECONDS", 0.5)
    monkeypatch.chdir(tmp_path)
    arguments = ["sweep", str(tiny), "-p", "k", "1", "--scheduler", "tcp://127.0.0.1:1"]
    assert command_line.main(arguments) == 2
    assert "no dask scheduler answers at tcp://127.0.0.1:1" in capsys.readouterr().err


def test_without_papermill_there_is_advice(tiny, nothing_runs, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "papermill", None)
    assert command_line.main(["run", str(tiny)]) == 2
    assert 'pip install "akpca[notebooks]"' in capsys.readouterr().err


# -------------------------------------------------------------------------- names and places


@pytest.mark.parametrize("name", ["9", "09", "09_akpca", "09_akpca.ipynb"])
def test_chapters_have_numbers_and_names(name):
    assert running.find_notebook(name) == ROOT / "notebooks" / "09_akpca.ipynb"


def test_a_path_is_a_notebook(tiny, monkeypatch):
    monkeypatch.chdir(tiny.parent)
    assert running.find_notebook("tiny.ipynb") == tiny
    assert running.find_notebook(str(tiny)) == tiny


def test_chapters_are_looked_for_here_or_missed_clearly(tmp_path, monkeypatch, capsys):
    """A package without its repository has none; then the current folder is asked."""
    monkeypatch.setattr(notebooks, "__file__", str(tmp_path / "site" / "akpca" / "rerun" / "n.py"))
    monkeypatch.chdir(tmp_path)
    assert command_line.main(["list"]) == 2
    assert "clone of the repository" in capsys.readouterr().err
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "01_mine.ipynb").write_text("{}")
    assert notebooks.chapters() == [tmp_path / "notebooks" / "01_mine.ipynb"]


def test_two_runs_never_share_a_file():
    """What a file's name can't hold makes a difference all the same."""
    path = Path("01_pca.ipynb")
    assert running.output_name(path, {"seed": 1, "sigma": 0.5}) == "01_pca-seed=1-sigma=0.5.ipynb"
    values = [{"d": "a/b"}, {"d": "a b"}, {"d": "a_b"}, {"d": "ü" * 300}, {"d": "ü" * 301}]
    names = [running.output_name(path, value) for value in values]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[\w.=+-]{1,140}", name) for name in names)


def done_run(tiny, output, **values):
    """Write what papermill leaves of a run that went well."""
    notebook = json.loads(tiny.read_text())
    notebook["cells"][2]["outputs"] = [
        {"output_type": "execute_result", "data": {"application/json": {"third": 0.25}}}
    ]
    injected = {"cell_type": "code", "source": "k = 3", "outputs": []}
    injected["metadata"] = {"tags": ["injected-parameters"]}
    notebook["cells"].insert(1, injected)
    notebook["metadata"]["papermill"] = {"parameters": values, "input_path": str(tiny)}
    output.write_text(json.dumps(notebook))


def test_only_a_complete_run_of_the_notebook_as_it_is_counts_as_done(tiny, tmp_path):
    """Half a file, other parameters, and an earlier form of the notebook do not."""
    task = running.Task(tiny, tmp_path / "out.ipynb", {"k": 3}, tmp_path)
    assert not running.is_done(task)
    done_run(tiny, task.output, k=3)
    assert running.is_done(task)
    whole = task.output.read_text()
    task.output.write_text(whole[: len(whole) // 2])
    assert not running.is_done(task)
    done_run(tiny, task.output, k=4)
    assert not running.is_done(task)
    done_run(tiny, task.output, k=3)
    tiny.write_text(tiny.read_text().replace("time.sleep(pause)", "pass"))
    assert not running.is_done(task)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_keeps_what_was_done(error, tiny, tmp_path, monkeypatch):
    """As a failure does, and an earlier output stays as it was."""
    papermill = pytest.importorskip("papermill")

    def interrupted(source, output, *_, **__):
        Path(output).write_text("half")
        raise error

    monkeypatch.setattr(papermill, "execute_notebook", interrupted)
    task = running.Task(tiny, tmp_path / "runs" / "a.ipynb", {}, tmp_path)
    task.output.parent.mkdir()
    task.output.write_text("earlier")
    with pytest.raises(error):
        running.run_task(task)
    found = {path.name: path.read_text() for path in task.output.parent.iterdir()}
    assert found == {"a.ipynb": "earlier", "a.failed.ipynb": "half"}


def test_the_grid_has_all_combinations(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tasks = sweeping.grid_tasks(tiny, {"k": [1, 2], "seed": [0, 1, 2]}, Path("out"))
    assert [tuple(task.values.values()) for task in tasks] == [
        (k, seed) for k in (1, 2) for seed in (0, 1, 2)
    ]
    assert len({task.output for task in tasks}) == 6
    assert all(task.output.parent == tmp_path / "out" for task in tasks)
    assert tasks[0].label == "tiny k=1 seed=0"


# ------------------------------------------------------------------------------ list


def test_list_has_every_chapter_with_question_and_parameters(capsys):
    assert command_line.main(["list"]) == 0
    text = capsys.readouterr().out
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        assert path.name in text
    assert "How does one get back from a code to an image?" in text
    assert "n_components=10" in text


def test_list_of_one_chapter_explains_its_parameters(capsys):
    assert command_line.main(["list", "9"]) == 0
    assert re.search(r"n_components +int +10 +size of the code\n", capsys.readouterr().out)


# ------------------------------------------------------------------------------------- figure


def test_the_figure_has_a_panel_for_each_number(tmp_path):
    """Numbers are drawn over the first parameter, texts and lists are not."""
    rows = [
        dict(chapter="c", k=k, name=name, seed=seed, error=1 / (k + seed), text="a", all=[1])
        for k in (1, 2, 3)
        for name in ("a", "b, c")
        for seed in (0, 1)
    ]
    frame = pd.DataFrame(rows)
    names = figure.drawable_results(frame, ["k", "name", "seed"])
    assert names == ["error"]
    path = tmp_path / "figure.png"
    assert figure.draw_sweep(frame, ["k", "name", "seed"], names, path) == ["error"]
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("swept", [["seed"], ["name"], ["name", "k"]])
def test_any_parameter_can_be_the_axis(swept, tmp_path):
    frame = pd.DataFrame([dict(k=k, name=n, seed=k, x=1.0) for k in (1, 2) for n in ("a", None)])
    assert figure.draw_sweep(frame, swept, ["x"], tmp_path / "figure.png") == ["x"]


# -------------------------------------------------------------------------------------- import


@pytest.mark.once
def test_importing_the_package_stays_light():
    """What only re-running needs is loaded when it is needed."""
    code = "import sys, akpca; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in run.stdout.split()}
    assert "akpca" in loaded, run.stderr
    heavy = {"matplotlib", "dask", "distributed", "papermill", "nbformat", "nbconvert", "IPython"}
    assert not loaded & (heavy | {"numba", "sphinx", "jupyter_client", "multiprocessing.pool"})


# -------------------------------------------------------------------------- with real kernels


def environment():
    return os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


def python(folder, *arguments):
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True)


def call(folder, *arguments):
    return python(folder, "-m", "akpca", *arguments)


@pytest.mark.notebook
def test_run_prints_where_the_output_is(tiny, tmp_path):
    """From any folder, which is made, with lists among the parameters."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    result = call(folder, "run", tiny, "-p", "k", "3", "-p", "sizes", "4,5", "--out", "new/runs")
    assert result.returncode == 0, result.stderr
    output = folder / result.stdout.strip().splitlines()[-1].rpartition(": ")[2]
    assert output.parent == folder / "new" / "runs"
    assert [path.name for path in output.parent.iterdir()] == [output.name]
    row = results(output).iloc[0]
    assert (row["chapter"], row["k"], row["sizes"]) == ("tiny", 3, [4, 5])
    assert (row["third"], row["total"]) == (1 / 6, 9)
    assert "100%" in result.stderr


@pytest.mark.notebook
def test_what_a_failed_run_has_done_is_kept(tiny, tmp_path):
    """Under a name that is not that of a complete run, with exit code 1."""
    result = call(tmp_path, "run", tiny, "-p", "k", "99", "--out", "runs", "--quiet")
    assert result.returncode == 1
    assert "k is 99" in result.stderr
    assert "runs/tiny-k=99.failed.ipynb" in result.stderr
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["tiny-k=99.failed.ipynb"]
    assert results(tmp_path / "runs").empty


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.notebook
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_a_killed_sweep_goes_on_and_ends_with_the_same_table(tiny, tmp_path):
    """Three of six runs are there after kill -9; a second call does the other three only."""
    arguments = ["sweep", tiny, "-p", "k", "1,2", "-p", "seed", "0,1,2", "-p", "pause", "1"]
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "akpca", *map(str, arguments), "--out", str(out)]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL)
    # A run is over when its file is in its place, and the fourth one is then under way.
    wait_for(lambda: len(list(out.glob("[!.]*.ipynb"))) == 3 and list(out.glob(".*~*.ipynb")))
    process.kill()
    process.wait()
    time.sleep(3)  # nobody goes on without the parent
    done = {path: path.stat().st_mtime_ns for path in out.glob("[!.]*.ipynb")}
    assert len(done) == 3
    assert not list(out.glob("*.csv"))

    result = call(tmp_path, *arguments, "--out", out)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "6 runs, 3 done already" in result.stdout
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert not list(out.glob(".*"))

    whole = tmp_path / "whole"
    assert call(tmp_path, *arguments, "--out", whole, "--jobs", "2").returncode == 0
    name = "tiny-k-seed-pause.csv"
    assert (out / name).read_bytes() == (whole / name).read_bytes()
    table = pd.read_csv(out / name)
    assert table["third"].tolist() == [1 / (k + seed + 3) for k in (1, 2) for seed in (0, 1, 2)]
    assert (out / name).with_suffix(".png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.notebook
def test_the_others_go_on_when_a_run_fails(tiny, tmp_path):
    """The exit code is 1, the table has the runs that went well, and a later call tries again."""
    arguments = ["sweep", tiny, "-p", "k", "99,1", "--out", "runs"]
    result = call(tmp_path, *arguments)
    assert result.returncode == 1
    assert "k=99  FAILED" in result.stdout
    assert "1 of 2 runs failed" in result.stdout
    assert pd.read_csv(tmp_path / "runs" / "tiny-k.csv")["k"].tolist() == [1]
    assert "2 runs, 1 done already" in call(tmp_path, *arguments).stdout


@pytest.mark.notebook
def test_a_dask_cluster_does_the_same(tiny, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    options = dict(n_workers=1, threads_per_worker=1, dashboard_address=None)
    with distributed.LocalCluster(**options) as cluster:
        arguments = ["sweep", str(tiny), "-p", "seed", "0,1", "--out", "runs"]
        assert command_line.main([*arguments, "--scheduler", cluster.scheduler_address]) == 0
    assert pd.read_csv("runs/tiny-seed.csv")["third"].tolist() == [1 / 4, 1 / 5]


# -------------------------------------------------------------------------------- own data

FEW = dict(n_train=20, n_test=10)
SMALL = {
    "01_pca": dict(FEW, n_components=5),
    "03_centering": FEW,
    "05_gha": dict(FEW, n_components=3),
    "08_preimages": dict(FEW, n_components=5),
    "09_akpca": dict(FEW, n_components=5, n_components_curve=5, n_epochs=2, step=1),
    "10_ds_akpca": dict(FEW, n_components=3, n_landmarks=64, n_epochs=1, step=1),
}
ONE_CLASS = dict(n_train=100, n_test=50)
# Labelled images of one's own are what the bundled digits are, on which every chapter runs.
OWN = [("08_preimages", True), *((chapter, False) for chapter in SMALL)]


@pytest.mark.notebook
@pytest.mark.parametrize(
    ("chapter", "complete"),
    OWN,
    ids=[f"{c}-{'complete' if full else 'numbers'}" for c, full in OWN],
)
def test_own_data_run_through_chapters(chapter, complete, tmp_path):
    """A file of 500 x 64 numbers will do, with or without labels and an image shape."""
    digits = load_dataset("digits").subset(np.arange(500))
    arrays = dict(y=digits.y, image_shape=digits.image_shape) if complete else {}
    np.savez(tmp_path / "mine.npz", X=digits.X, **arrays)
    given = SMALL[chapter] | ({} if complete else ONE_CLASS)
    given["dataset"] = "mine.npz"  # relative to the folder in which the command is called
    options = [part for pair in given.items() for part in ("-p", *pair)]
    result = call(tmp_path, "run", chapter, *options, "--quiet")
    assert result.returncode == 0, result.stderr
    (output,) = (tmp_path / "runs").iterdir()
    cells = nbformat.read(output, as_version=4).cells
    said = "".join(o.get("text", "") for cell in cells for o in cell.get("outputs", []))
    assert ("mine.npz has no labels y" in said) == (not complete)
    assert ("mine.npz has no image_shape" in said) == (not complete)
    row = results(output).iloc[0]
    assert row["chapter"] == chapter
    errors = row.filter(like="error").to_numpy(float)
    assert len(errors) >= 2
    assert np.isfinite(errors).all()
