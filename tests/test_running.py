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
        notebook.cells.append(nbformat.v4.new_code_cell(source, metadata={"tags": [tag]}))
    nbformat.write(notebook, tmp_path / "tiny.ipynb")
    return tmp_path / "tiny.ipynb"


@pytest.fixture
def nothing_runs(monkeypatch):
    """Fail if anything is executed."""

    def refuse(*_, **__):
        raise AssertionError("nothing should run")

    for name in ("run_task", "run_local", "run_on_cluster"):
        monkeypatch.setattr(command_line, name, refuse)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "10", 10),
        ("float", "3", 3.0),
        ("bool", "no", False),
        ("str", "10", "10"),
        ("tuple[int, ...]", "(10, 20)", [10, 20]),
        ("list[str]", "PCA, 'kernel PCA'", ["PCA", "kernel PCA"]),
        ("int | None", "None", None),
        ("int | None", "3", 3),
        ("dict", "{'a': 1}", {"a": 1}),
    ],
)
def test_texts_become_values_of_the_declared_type(kind, text, value):
    found = to_value(parameter(kind), text)
    assert (found, type(found)) == (value, type(value))
    wrong = {"int": "2.5", "float": "nan", "bool": "2", "tuple[int, ...]": "10, x"}.get(kind)
    if wrong:
        with pytest.raises(UsageError, match=re.escape(f"p={wrong!r} must be of type {kind}")):
            to_value(parameter(kind), wrong)


def test_values_of_a_sweep():
    """Commas separate values, semicolons those with commas; none is given twice or empty."""
    declared = {"k": parameter("int"), "s": parameter("str"), "t": parameter("tuple[int, ...]")}
    given = [("k", "5,10, 20"), ("s", "2, 5; 10"), ("t", "1,2;3")]
    expected = {"k": [5, 10, 20], "s": ["2, 5", "10"], "t": [[1, 2], [3]]}
    assert grid_values("n", declared, given) == expected
    assert run_values("n", declared, []) == {}
    for wrong in ([("k", "1,01")], [("k", "1"), ("k", "2")], [("k", ",")]):
        with pytest.raises(UsageError, match=r"given (twice|no value)"):
            grid_values("n", declared, wrong)


@pytest.mark.parametrize("command", ["run", "sweep"])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["n_componets", "3"], "did you mean 'n_components'?"),
        (["n_components", "2.5"], "n_components='2.5' must be of type int"),
        (["n_components=2.5"], "n_components='2.5' must be of type int"),
        (["n_components", "-3"], "n_components=-3 must not be negative"),
        (["dataset", "nowhere.npz"], "there is no file nowhere.npz"),
        (["dataset", "mnsit5k"], "did you mean 'mnist5k'?"),
    ],
)
def test_mistakes_are_found_before_anything_runs(
    command, given, words, nothing_runs, tmp_path, monkeypatch, capsys
):
    """The exit code is 2, all parameters are listed, and no folder is made."""
    monkeypatch.chdir(tmp_path)
    assert command_line.main([command, "01", "-p", *given]) == 2
    message = capsys.readouterr().err
    for word in (words, "dataset", "n_components", "size of the code", "seed"):
        assert word in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "99"], "no chapter '99'. There are:\n  00_start_here"),
        (["run", "akpka"], "did you mean 'akpca'?"),
        (["run", "nowhere/x.ipynb"], "nowhere/x.ipynb"),
        (["sweep", "01"], "needs parameters"),
        (["sweep", "01", "-p", "seed", "1", "--jobs", "0"], "--jobs 0"),
        (["run", "01", "--out", "notebooks"], "--out notebooks would overwrite"),
    ],
)
def test_what_can_not_be_done_is_said(arguments, message, nothing_runs, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert command_line.main(arguments) == 2
    assert message in capsys.readouterr().err


def test_what_is_not_there_is_named(tiny, tmp_path, monkeypatch, capsys):
    """A folder, a scheduler that does not answer, papermill, and the chapters themselves."""
    pytest.importorskip("distributed")
    monkeypatch.setattr(sweeping, "CONNECT_SECONDS", 0.5)
    monkeypatch.chdir(tmp_path)
    out, address = tiny / "runs", "tcp://127.0.0.1:1"
    assert command_line.main(["run", str(tiny), "-p", "k=3", "--out", str(out), "--quiet"]) == 2
    assert str(out) in capsys.readouterr().err
    assert command_line.main(["sweep", str(tiny), "-p", "k", "1", "--scheduler", address]) == 2
    assert address in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "papermill", None)
    assert command_line.main(["run", str(tiny)]) == 2
    assert 'pip install "akpca[notebooks]"' in capsys.readouterr().err
    monkeypatch.setattr(notebooks, "__file__", str(tmp_path / "a" / "b" / "rerun" / "n.py"))
    assert command_line.main(["list"]) == 2
    assert "clone of the repository" in capsys.readouterr().err


def test_two_runs_never_share_a_file():
    """What a file's name can't hold makes a difference all the same."""
    path = Path("01_pca.ipynb")
    assert running.output_name(path, {"seed": 1, "sigma": 0.5}) == "01_pca-seed=1-sigma=0.5.ipynb"
    values = [{"d": "a/b"}, {"d": "a b"}, {"d": "a_b"}, {"d": "ü" * 300}, {"d": "ü" * 301}]
    names = [running.output_name(path, value) for value in values]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[\w.=+-]+", name) for name in names)
    assert max(len(name.encode()) for name in names) <= 140


def test_only_a_complete_run_of_the_notebook_as_it_is_counts_as_done(tiny, tmp_path):
    """Half a file, other parameters, and an earlier form of the notebook do not."""
    task = running.Task(tiny, tmp_path / "out.ipynb", {"k": 3}, tmp_path)
    assert not running.is_done(task)
    # what papermill leaves of a run that went well
    notebook = json.loads(tiny.read_text())
    injected = {"cell_type": "code", "source": "k = 3", "outputs": []}
    injected["metadata"] = {"tags": ["injected-parameters"]}
    notebook["cells"].insert(1, injected)
    notebook["metadata"]["papermill"] = {"parameters": {"k": 3}, "input_path": str(tiny)}
    whole = json.dumps(notebook)
    task.output.write_text(whole)
    assert running.is_done(task)
    for other in (whole[: len(whole) // 2], whole.replace('"k": 3', '"k": 4')):
        task.output.write_text(other)
        assert other != whole and not running.is_done(task)
    task.output.write_text(whole)
    tiny.write_text(tiny.read_text().replace("time.sleep(pause)", "pass"))
    assert not running.is_done(task)


def test_an_interrupt_keeps_what_was_done(tiny, tmp_path, monkeypatch):
    """As a failure does, and an earlier output stays as it was."""
    papermill = pytest.importorskip("papermill")

    def interrupted(source, output, *_, **__):
        Path(output).write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(papermill, "execute_notebook", interrupted)
    task = running.Task(tiny, tmp_path / "runs" / "a.ipynb", {}, tmp_path)
    task.output.parent.mkdir()
    task.output.write_text("earlier")
    with pytest.raises(KeyboardInterrupt):
        running.run_task(task)
    found = {path.name: path.read_text() for path in task.output.parent.iterdir()}
    assert found == {"a.ipynb": "earlier", "a.failed.ipynb": "half"}


def test_the_grid_has_all_combinations(tiny):
    tasks = sweeping.grid_tasks(tiny, {"k": [1, 2], "seed": [0, 1, 2]}, Path("out"))
    combinations = [(k, seed) for k in (1, 2) for seed in (0, 1, 2)]
    assert [tuple(task.values.values()) for task in tasks] == combinations
    assert len({task.output for task in tasks}) == 6


def test_list_has_every_chapter_and_explains_the_parameters_of_one(capsys):
    assert command_line.main(["list"]) == 0
    text = capsys.readouterr().out
    assert all(path.name in text for path in (ROOT / "notebooks").glob("*.ipynb"))
    assert "How does one get back from a code to an image?" in text
    assert command_line.main(["list", "9"]) == 0
    assert re.search(r"n_components +int +10 +size of the code\n", capsys.readouterr().out)


@pytest.mark.parametrize("swept", [["seed"], ["name"], ["k", "name", "seed"]])
def test_the_figure_of_a_sweep(swept, tmp_path):
    """Any parameter can be the axis; numbers are drawn, texts and lists are not."""
    frame = pd.DataFrame(
        dict(chapter="c", k=k, name=name, seed=seed, error=1 / (k + seed), text="a", all=[1])
        for k in (1, 2)
        for name in ("a", None)
        for seed in (0, 1)
    )
    names = figure.drawable_results(frame, ["k", "name", "seed"])
    assert names == ["error"]
    path = tmp_path / "figure.png"
    assert figure.draw_sweep(frame, swept, names, path) == names
    assert path.read_bytes().startswith(b"\x89PNG")


def environment():
    return os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


def call(folder, *arguments):
    command = [sys.executable, "-m", "akpca", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True)


@pytest.mark.notebook
def test_run_prints_where_the_output_is(tiny, tmp_path):
    """From any folder, which is made, with lists among the parameters; what a run that failed has
    done is kept under another name, with exit code 1."""
    result = call(tmp_path, "run", tiny, "-p", "k", "3", "-p", "sizes", "4,5", "--out", "new/runs")
    assert result.returncode == 0, result.stderr
    output = tmp_path / result.stdout.strip().splitlines()[-1].rpartition(": ")[2]
    assert [path.name for path in (tmp_path / "new" / "runs").iterdir()] == [output.name]
    row = results(output).iloc[0]
    assert (row["chapter"], row["k"], row["sizes"]) == ("tiny", 3, [4, 5])
    assert (row["third"], row["total"]) == (1 / 6, 9)
    result = call(tmp_path, "run", tiny, "-p", "k", "99", "--out", "runs", "--quiet")
    assert result.returncode == 1
    assert "k is 99" in result.stderr
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["tiny-k=99.failed.ipynb"]


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.notebook
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_a_killed_sweep_goes_on_and_ends_with_the_same_table(tiny, tmp_path):
    """Two of four runs are there after kill -9; a second call does the other two only."""
    arguments = ["sweep", tiny, "-p", "k", "1,2", "-p", "seed", "0,1", "-p", "pause", "1"]
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "akpca", *map(str, arguments), "--out", str(out)]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL)
    # A run is over when its file is in its place, and the next one is then under way.
    wait_for(lambda: len(list(out.glob("[!.]*.ipynb"))) == 2 and list(out.glob(".*~*.ipynb")))
    process.kill()
    process.wait()
    time.sleep(3)  # nobody goes on without the parent
    done = {path: path.stat().st_mtime_ns for path in out.glob("[!.]*.ipynb")}
    assert len(done) == 2
    assert not list(out.glob("*.csv"))

    result = call(tmp_path, *arguments, "--out", out)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "4 runs, 2 done already" in result.stdout
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert not list(out.glob(".*"))

    whole = tmp_path / "whole"
    assert call(tmp_path, *arguments, "--out", whole, "--jobs", "2").returncode == 0
    name = "tiny-k-seed-pause.csv"
    assert (out / name).read_bytes() == (whole / name).read_bytes()
    table = pd.read_csv(out / name)
    assert table["third"].tolist() == [1 / (k + seed + 3) for k in (1, 2) for seed in (0, 1)]
    assert (out / name).with_suffix(".png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.notebook
def test_the_others_go_on_when_a_run_fails(tiny, tmp_path):
    """The exit code is 1, the table has the runs that went well, and a later call tries again."""
    arguments = ["sweep", tiny, "-p", "k", "99,1", "--out", "runs"]
    result = call(tmp_path, *arguments)
    assert result.returncode == 1
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


@pytest.mark.notebook
@pytest.mark.parametrize("complete", [True, False])
def test_own_data_run_through_a_chapter(complete, tmp_path):
    """A file of 500 x 64 numbers will do, with or without labels and an image shape."""
    digits = load_dataset("digits").subset(np.arange(500))
    arrays = dict(y=digits.y, image_shape=digits.image_shape) if complete else {}
    np.savez(tmp_path / "mine.npz", X=digits.X, **arrays)
    # relative to the folder in which the command is called
    given = dict(n_train=20, n_test=10, n_components=5, dataset="mine.npz")
    options = [part for pair in given.items() for part in ("-p", *pair)]
    result = call(tmp_path, "run", "08", *options, "--quiet")
    assert result.returncode == 0, result.stderr
    row = results(tmp_path / "runs").iloc[0]
    assert np.isfinite(row.filter(like="error").to_numpy(float)).all()
