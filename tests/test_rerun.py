"""The notebooks can be run by papermill with other parameters, and refuse impossible ones."""

from pathlib import Path

import nbformat
import papermill
import pytest
from click.testing import CliRunner
from papermill.cli import papermill as papermill_command

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

CASES = [
    ("00_start_here.ipynb", dict(dataset="digits", n_components=5, gamma=0.05, seed=1)),
    ("01_pca.ipynb", dict(dataset="digits", n_components=3, seed=1)),
    ("02_kernel_trick.ipynb", dict(dataset="mnist5k", n_samples=500, gamma=0.01)),
    ("03_centering.ipynb", dict(dataset="digits", seed=1)),
    ("04_nystrom.ipynb", dict(dataset="digits", step=1, seed=1)),
    ("05_gha.ipynb", dict(dataset="digits", n_components=4, eta0=0.05, seed=1)),
    (
        "06_kha.ipynb",
        dict(dataset="mnist5k", n_per_class=8, n_components=4, n_passes=12, n_seeds=2, n_starts=2),
    ),
    ("07_smd.ipynb", dict(dataset="mnist5k", n_per_class=25, n_components=5, n_passes=5, seed=1)),
    (
        "08_akpca.ipynb",
        dict(
            dataset="digits",
            step=1,
            n_train=40,
            n_test=20,
            n_components=4,
            n_components_curve="2",
            n_epochs=2,
            seed=1,
        ),
    ),
    (
        "09_ds_akpca.ipynb",
        dict(dataset="digits", step=1, n_train=20, n_test=10, n_landmarks=80, n_epochs=2, seed=1),
    ),
]

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


@pytest.mark.parametrize(
    ("name", "parameters"), CASES, ids=[f"{stem(n)}-{'-'.join(p)}" for n, p in CASES]
)
def test_other_parameters(name, parameters, tmp_path):
    """A run with other parameters finishes, and papermill knows each of them."""
    path = FOLDER / name
    assert path.exists()
    # Papermill only warns of a name that the notebook does not have.
    assert set(parameters) <= set(papermill.inspect_notebook(str(path)))
    run(path, tmp_path, parameters)


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


@pytest.mark.parametrize("name", [name for name, p in CASES if "dataset" in p], ids=stem)
def test_unknown_dataset_fails_early(name, tmp_path):
    """The message names what there is, before any time is spent."""
    message = early_error(name, tmp_path, {"dataset": "no_such_data"})
    assert "no_such_data" in message
    assert "digits" in message
    assert "mnist5k" in message


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
