"""The notebooks can be run by papermill with other parameters, and refuse impossible ones."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import papermill
import pytest

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MARKDOWN = "text/markdown"

SMALL = dict(dataset="digits", n_train=40, n_test=20, seed=1)

SHORT = dict(dataset="digits", n_short=10, n_long=15, n_test=10)
STREAM = dict(dataset="digits", n_samples=200, n_stream=320, budget=40)

#: Chapter -> sets of parameters, each in a run of its own. Those that the README suggests and
#: that need no data from outside are among them.
CASES: dict[str, list[dict]] = {
    "00_start_here": [
        dict(dataset="digits", n_train=100, n_components=5, gamma=0.05, seed=1),
        dict(gamma=1.0, n_train=30, n_test=10, n_components=1, sigma=0.0),
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
        dict(SMALL, gamma=10.0, sigma=0.5, n_components=1),
    ],
    "09_akpca": [
        dict(dataset="digits", step=1, n_train=60, n_test=40),
        dict(SMALL, step=1, n_components=1, n_components_curve="2", n_epochs=2),
    ],
    "10_ds_akpca": [
        dict(dataset="digits", step=1, n_epochs=6),
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
    "13_kha_experiments": [
        dict(dataset="digits", n_per_class=20, n_passes=3, n_seeds=1),
        dict(n_per_class=20, n_passes=2, n_seeds=2, seed=1),
    ],
    "14_kha_mnist": [
        dict(dataset="digits", n_samples=600, n_components=10, sigma=2, n_stream=800, budget=100),
        dict(STREAM, n_components=1, n_passes=1, n_seeds=1, slant=0.0, seed=1),
    ],
}
#: Chapters that run on numbers alone, and parameters that fit 500 of one class.
NUMBERS = {
    "01_pca": {},
    "02_kernel_trick": dict(n_samples=200),
    "03_centering": {},
    "04_nystrom": dict(step=1, n_landmarks=100),
    "05_gha": {},
    "06_kha": dict(n_per_class=80),
    "07_smd": dict(n_per_class=200),
    "08_preimages": {},
    "09_akpca": dict(step=1),
    "10_ds_akpca": dict(step=1, n_train=300),
    "11_autoencoders": dict(n_components=5),
}
RUNS = [(name, parameters) for name, cases in CASES.items() for parameters in cases]

STRANGERS = "so that new samples get codes of 0: scale the data, or try gamma="

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
        for output in cell.get("outputs", []):
            # a width at which samples are strangers to each other is told, as it should be
            assert output.get("name") != "stderr" or STRANGERS in output.text, cell
        for text in texts(cell):
            assert not re.search(r"(?i)(?<![a-z])(nan|inf)(?![a-z])", text), text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_the_readme_suggests_is_run(path):
    """A reader's first experiment is one of ours, unless it needs data from outside."""
    notebook = nbformat.read(path, as_version=4)
    runs = [{key: str(value) for key, value in case.items()} for case in CASES[path.stem]]
    for text in notebook.metadata["akpca"].get("try", []):
        wanted = dict(pair.split("=") for pair in text.split())
        assert any(wanted.items() <= case.items() for case in runs), wanted


@pytest.fixture
def start(tmp_path, monkeypatch):
    """A function that runs the first cells of a chapter with parameters, in an empty folder.

    Without a kernel, which would take seconds for each of the dozens of tests.
    """
    monkeypatch.chdir(tmp_path)

    def run_first_cells(name, parameters):
        cells = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4).cells
        first, *others = [cell.source for cell in cells if cell.cell_type == "code"][:3]
        namespace = {"__name__": "__main__"}
        with plt.rc_context():
            exec(first, namespace)
            namespace.update(parameters)  # as papermill does, behind the cell of the parameters
            for source in others:
                exec(source, namespace)

    return run_first_cells


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("given", [{"dataset": "no_such_data"}, {"seed": 2.5}], ids=str)
def test_what_is_wrong_is_named_early(name, given, start):
    """A data set that does not exist, and a number that should be an integer."""
    with pytest.raises(ValueError, match=r"no_such_data.*digits|seed=2\.5 must be"):
        start(name, given)


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_without_labels_and_images_are_taken(name, start, capsys):
    """The first cells say what the data lack, and what is done about it."""
    np.savez("mine.npz", X=np.random.default_rng(0).random((500, 64)))
    start(name, NUMBERS[name] | {"dataset": "mine.npz"})
    said = capsys.readouterr().out
    assert "mine.npz has no labels y: all its examples count as one class" in said
    assert "mine.npz has no image_shape: an example is drawn as 8 x 8 numbers" in said


@pytest.mark.parametrize(
    ("name", "given", "values"),
    [
        ("04_nystrom", {"step": 2}, 1.0),
        ("09_akpca", {"step": 2}, 1.0),
        ("10_ds_akpca", {}, -1.0),
        ("11_autoencoders", {}, 2.0),
        ("00_start_here", {}, 1.0),
    ],
)
def test_numbers_that_do_not_fit_a_chapter_are_refused(name, given, values, start):
    """They have no pixels to leave out, must have the range that a formula needs, and are no
    labelled images: the message names the parameter."""
    np.savez("mine.npz", X=np.full((500, 64), values))
    with pytest.raises(ValueError, match=r"dataset='mine\.npz'|step=2"):
        start(name, NUMBERS.get(name, {}) | given | {"dataset": "mine.npz"})
