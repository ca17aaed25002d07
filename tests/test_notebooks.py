"""The committed notebooks are well-formed, executed and normalised.

Nothing is executed here: that the numbers are right is nbval's part, that a notebook can be run
with other parameters is ``test_rerun.py``'s.
"""

import importlib.util
import json
import re
from pathlib import Path

import nbformat
import papermill
import pytest

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MAX_LINES = 20
MAX_BYTES = 1_500_000
MACHINE = r"\bat 0x[0-9a-f]{6,}|/home/|/root/|/tmp/|/Users/|[A-Z]:\\"

# notebooks/ is not a package, and `build` is also the name of a well-known one.
spec = importlib.util.spec_from_file_location("notebooks_build", FOLDER / "build.py")
build = importlib.util.module_from_spec(spec)
spec.loader.exec_module(build)

# An empty list fails at collection, see `empty_parameter_set_mark` in pyproject.toml.
pytestmark = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(path):
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def outputs(path):
    return [output for cell in code_cells(path) for output in cell.outputs]


def tags(cell):
    return cell.metadata.get("tags", [])


def test_name_has_a_chapter_number(path):
    """Chapters sort by name, and only numbered notebooks are built."""
    assert re.fullmatch(r"\d\d_[a-z0-9_]+\.ipynb", path.name)


def test_valid(path):
    """The file keeps to the schema of notebooks, and its cells have ids that differ."""
    notebook = json.loads(path.read_text(encoding="utf-8"))  # reading would mend some errors
    assert not list(nbformat.validator.iter_validate(notebook))
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)


def test_normalised(path):
    """Executing again can change results only, no metadata."""
    text = path.read_text(encoding="utf-8")
    assert text == build.to_text(build.normalise(read(path))), "run `make notebooks`"


def test_opens_with_a_title(path):
    first = read(path).cells[0]
    assert first.cell_type == "markdown"
    assert first.source.startswith("# ")


def test_first_code_cell_holds_the_parameters(path):
    tagged = ["parameters" in tags(cell) for cell in code_cells(path)]
    assert tagged[0]
    assert sum(tagged) == 1


def test_parameters_explain_themselves(path):
    """Each has a type and a comment, so that ``papermill --help-notebook`` is a manual."""
    parameters = papermill.inspect_notebook(str(path))
    assert {"seed", "progress"} <= set(parameters)
    for name, parameter in parameters.items():
        assert parameter["inferred_type_name"] != "None", f"{name} has no type"
        assert parameter["help"], f"{name} has no comment"


def test_executed_from_top_to_bottom(path):
    found = [cell.execution_count for cell in code_cells(path)]
    assert found == list(range(1, len(found) + 1))


def test_no_errors_and_no_warnings(path):
    """Neither a traceback nor anything on stderr is published."""
    for output in outputs(path):
        assert output.output_type != "error", output.get("evalue")
        assert output.get("name") != "stderr", output.get("text")


def test_outputs_are_the_same_on_every_machine(path):
    """No memory address, home or temporary folder is printed."""
    for output in outputs(path):
        text = output.get("text", "") + str(output.get("data", {}).get("text/plain", ""))
        assert not re.search(MACHINE, text), text


def test_some_output_is_checked(path):
    """At least one published result is compared by nbval."""
    checked = [cell for cell in code_cells(path) if "nbval-check-output" in tags(cell)]
    assert any(cell.outputs for cell in checked)


def test_code_cells_are_short(path):
    for cell in code_cells(path):
        assert len(cell.source.splitlines()) <= MAX_LINES, cell.source


def test_figure_of_the_readme_is_the_committed_one(path):
    """The README shows the figure of the cell tagged `overview`, and one chapter has it."""
    figure = build.overview(read(path))
    assert (figure is not None) == (path.stem == "00_start_here")
    assert figure is None or figure == build.OVERVIEW.read_bytes()


def test_file_is_small(path):
    assert path.stat().st_size < MAX_BYTES


def test_links_to_files_resolve(path):
    """Relative links lead to files that exist, among them the next chapter."""
    text = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    targets = re.findall(r"\]\(\s*<?([^)\s>#]+)", text) + re.findall(r'href="([^"#]+)', text)
    for target in targets:
        if not re.match(r"[a-z]+:", target) and not target.startswith("attachment:"):
            assert (path.parent / target).exists(), target
    following = NOTEBOOKS[NOTEBOOKS.index(path) + 1 :]
    assert not following or following[0].name in targets, f"no link to {following[0].name}"
