"""The notebooks can be run by papermill with other parameters, and refuse impossible ones."""

import re
from pathlib import Path

import nbformat
import numpy as np
import papermill
import pytest
from click.testing import CliRunner
from papermill.cli import papermill as papermill_command

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MARKDOWN = "text/markdown"

SMALL = dict(dataset="digits", n_train=40, n_test=20, seed=1)

SHORT = dict(dataset="digits", n_short=10, n_long=15, n_test=10)

#: Chapter -> sets of parameters, each in a run of its own. Those that the README suggests and
#: that need no data from outside are among them.
CASES: dict[str, list[dict]] = {
    "00_start_here": [
        dict(dataset="digits", n_components=5, gamma=0.05, seed=1),
        dict(gamma=1.0, n_train=30, n_test=10, n_components=1),
    ],
    "01_pca": [
        dict(dataset="digits", n_components=3, seed=1),
        dict(dataset="digits", n_components=1, sigma=0.1),
    ],
    "02_kernel_trick": [
        dict(dataset="mnist5k", n_samples=500, gamma=0.01),
        dict(n_components=1, seed=2),
        dict(dataset="digits", n_samples=200, gamma=1.0),
    ],
    "03_centering": [
        dict(dataset="digits", seed=1),
        dict(SMALL, sigma=0.1),
        dict(dataset="digits", n_train=4, n_test=1, sigma=2.0),
    ],
    "04_nystrom": [
        dict(dataset="digits", step=1, n_train=130, n_test=20),
        dict(dataset="digits", n_components=1, gamma=30.0, seed=1),
    ],
    "05_gha": [
        dict(dataset="digits", n_components=4, eta0=0.05, seed=1),
        dict(n_train=20, n_test=10, n_components=1, seed=2),
    ],
    "06_kha": [
        dict(dataset="mnist5k", n_per_class=8, n_components=4, n_passes=12, n_seeds=2, n_starts=2),
        dict(dataset="digits", n_per_class=4, n_components=2, n_passes=5, gamma=2.0, n_seeds=1),
    ],
    "07_smd": [
        dict(dataset="mnist5k", n_per_class=25, n_components=5, n_passes=5, seed=1),
        dict(dataset="digits", n_per_class=4, n_components=2, n_passes=2, gamma=0.001, n_seeds=1),
    ],
    "08_preimages": [
        dict(dataset="digits"),
        dict(SMALL, n_components=2),
        dict(SMALL, gamma=10.0, sigma=0.5),
        dict(SMALL, n_components=1),
    ],
    "09_akpca": [
        dict(dataset="digits", step=1),
        dict(SMALL, step=1, n_components=1, n_components_curve="2", n_epochs=2),
    ],
    "10_ds_akpca": [
        dict(dataset="digits", step=1),
        dict(dataset="digits", step=1, n_train=20, n_test=10, n_landmarks=80, n_epochs=2, seed=1),
        dict(n_train=10, n_test=5, n_landmarks=64, n_epochs=1, n_components=1, seed=2),
    ],
    "11_autoencoders": [
        dict(dataset="digits", n_train=100, n_test=30, n_components=10),
        dict(SMALL, n_components=2, n_epochs=10, roll_epochs=30),
        dict(n_train=15, n_test=5, n_components=1, n_epochs=3, roll_epochs=3, sigma=0.0),
    ],
    "12_akpca_experiments": [
        dict(dataset="digits", n_short=30, n_long=60, n_test=20, n_components="4, 12", n_epochs=2),
        dict(SHORT, n_components="1", n_seeds=1, n_epochs=1, seed=1),
    ],
}
#: Chapters that do not run on numbers alone; 01, 03, 08 and 09 do (see test_running.py).
NEED_LABELLED_IMAGES = [
    *("02_kernel_trick", "04_nystrom", "05_gha", "06_kha", "07_smd"),
    *("10_ds_akpca", "11_autoencoders"),
]
RUNS = [(name, parameters) for name, cases in CASES.items() for parameters in cases]

pytestmark = pytest.mark.notebook


def run(path, tmp_path, parameters):
    """Run in an empty folder, as from anywhere; return the output's path."""
    output = tmp_path / "output.ipynb"
    papermill.execute_notebook(
        str(path),
        str(output),
        parameters,
        kernel_name="python3",
        progress_bar=False,
        cwd=str(tmp_path),
    )
    return output


def stem(value):
    return Path(value).stem


def texts(cell):
    """Return what a cell prints and says."""
    datas = [output.get("data", {}) for output in cell.get("outputs", [])]
    printed = [output.get("text", "") for output in cell.get("outputs", [])]
    return printed + [data.get(kind, "") for data in datas for kind in ("text/plain", MARKDOWN)]


def says(cell):
    """Return whether a cell shows sentences that it has computed."""
    return any(MARKDOWN in output.get("data", {}) for output in cell.get("outputs", []))


@pytest.mark.parametrize(
    ("name", "parameters"), RUNS, ids=[f"{name}-{'-'.join(p)}" for name, p in RUNS]
)
def test_other_parameters(name, parameters, tmp_path):
    """A run with other parameters ends with all its sentences, without a NaN or a warning."""
    path = FOLDER / f"{name}.ipynb"
    # Papermill only warns of a name that the notebook does not have.
    assert set(parameters) <= set(papermill.inspect_notebook(str(path)))
    executed = nbformat.read(run(path, tmp_path, parameters), as_version=4)
    committed = nbformat.read(path, as_version=4)
    spoken = {cell.id for cell in executed.cells if says(cell)}
    assert {cell.id for cell in committed.cells if says(cell)} <= spoken
    for cell in executed.cells:
        assert not any(output.get("name") == "stderr" for output in cell.get("outputs", [])), cell
        for text in texts(cell):
            assert not re.search(r"(?i)(?<![a-z])(nan|inf)(?![a-z])", text), text


def test_every_chapter_is_run_again():
    assert set(CASES) == {path.stem for path in NOTEBOOKS}


def suggestions():
    """Return chapters and parameters that the README suggests and that need no other data."""
    readme = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    for name, last in re.findall(r"(?m)^\| \[.*?\]\(notebooks/(\w+)\.ipynb\).*\| (.*) \|$", readme):
        for text in re.findall(r"`(\w+=[^`]*)`(?! \(with `AKPCA_DATA`\))", last):
            yield name, dict(pair.split("=") for pair in text.split())


def test_what_the_readme_suggests_is_run():
    """A reader's first experiment is one of ours."""
    suggested = list(suggestions())
    assert len(suggested) >= 8
    for name, wanted in suggested:
        runs = [{key: str(value) for key, value in case.items()} for case in CASES[name]]
        assert any(wanted.items() <= case.items() for case in runs), (name, wanted)


def early_error(name, tmp_path, parameters):
    """Return the message with which a notebook refuses parameters, in one of its first cells."""
    with pytest.raises(papermill.PapermillExecutionError) as caught:
        run(FOLDER / name, tmp_path, parameters)
    executed = nbformat.read(tmp_path / "output.ipynb", as_version=4)
    own = [
        cell
        for cell in executed.cells
        if cell.cell_type == "code" and "injected-parameters" not in cell.metadata.get("tags", [])
    ]
    failed = [any(o.output_type == "error" for o in cell.outputs) for cell in own]
    assert any(failed[:3])
    return caught.value.evalue


@pytest.mark.parametrize("name", sorted(path.name for path in NOTEBOOKS), ids=stem)
def test_unknown_dataset_fails_early(name, tmp_path):
    """The message names what there is, before any time is spent."""
    message = early_error(name, tmp_path, {"dataset": "no_such_data"})
    assert "no_such_data" in message
    assert "digits" in message
    assert "mnist5k" in message


@pytest.mark.parametrize("name", NEED_LABELLED_IMAGES)
def test_own_data_that_lack_something_are_refused_early(name, tmp_path):
    """A chapter that can't do without labels and images says so, and names the parameter."""
    np.savez(tmp_path / "mine.npz", X=np.random.default_rng(0).random((500, 64)))
    message = early_error(f"{name}.ipynb", tmp_path, {"dataset": "mine.npz"})
    assert "dataset='mine.npz'" in message
    assert re.search("labelled (grey )?images", message)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=stem)
def test_wrong_type_fails_early(path, tmp_path):
    """A number that should be an integer is named, before any time is spent."""
    message = early_error(path.name, tmp_path, {"seed": 2.5})
    assert "seed=2.5 must be an integer" in message


@pytest.mark.parametrize("path", NOTEBOOKS, ids=stem)
def test_help_lists_every_parameter(path):
    """``papermill --help-notebook`` shows names and types."""
    result = CliRunner().invoke(papermill_command, ["--help-notebook", str(path)])
    assert result.exit_code == 0
    text = result.output
    for name, parameter in papermill.inspect_notebook(str(path)).items():
        assert f"{name}: {parameter['inferred_type_name']}" in text
    assert "Unknown type" not in text
