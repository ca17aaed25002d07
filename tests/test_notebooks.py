"""The committed notebooks are well-formed, executed and normalised.

Nothing is executed here: that the numbers are right is nbval's part, that a notebook can be run
with other parameters is ``test_rerun.py``'s.
"""

import ast
import importlib.util
import json
import re
import statistics
from pathlib import Path

import nbformat
import papermill
import pytest

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MAX_LINES = 15
MAX_MEDIAN_LINES = 5
MAX_WORDS = 2_700
MAX_BYTES = 1_500_000
MACHINE = r"\bat 0x[0-9a-f]{6,}|/home/|/root/|/tmp/|/Users/|[A-Z]:\\"

# A result that somebody might have typed in: a number with a fraction, or one with a unit.
RESULT = re.compile(
    r"(?<![\w.,^-])(\d*\.\d+|\d+(?:\.\d+)?(?=(?:\s|-)?(?:%|per cent|times|seconds|minutes)))"
)
# What is quoted from somebody else's work belongs to that work.
QUOTED = re.compile(r"report|paper|Günter|Schraudolph|Schölkopf|Mika|Kim|Kloft|Wu|Erdem|Sanger|Oja")

# notebooks/ is not a package, and `build` is also the name of a well-known one.
spec = importlib.util.spec_from_file_location("notebooks_build", FOLDER / "build.py")
build = importlib.util.module_from_spec(spec)
spec.loader.exec_module(build)

# An empty list fails at collection, see `empty_parameter_set_mark` in pyproject.toml.
pytestmark = [
    pytest.mark.once,
    pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem),
]


def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(path):
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def outputs(path):
    return [output for cell in code_cells(path) for output in cell.outputs]


def tags(cell):
    return cell.metadata.get("tags", [])


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


def test_parameters_come_first_and_explain_themselves(path):
    """Behind a title, each with a type and a comment, so that ``list`` and papermill have a
    manual."""
    assert read(path).cells[0].source.startswith("# ")
    tagged = ["parameters" in tags(cell) for cell in code_cells(path)]
    assert tagged[0]
    assert sum(tagged) == 1
    parameters = papermill.inspect_notebook(str(path))
    assert {"seed", "progress"} <= set(parameters)
    for name, parameter in parameters.items():
        assert parameter["inferred_type_name"] != "None", f"{name} has no type"
        assert parameter["help"], f"{name} has no comment"


def test_imports_exist(path):
    """A chapter imports nothing that has moved or gone."""
    for cell in code_cells(path):
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("akpca"):
                module = importlib.import_module(node.module)
                for alias in node.names:
                    inside = f"{node.module}.{alias.name}"
                    found = hasattr(module, alias.name) or importlib.util.find_spec(inside)
                    assert found, inside


def test_executed_from_top_to_bottom(path):
    found = [cell.execution_count for cell in code_cells(path)]
    assert found == list(range(1, len(found) + 1))


def test_outputs_have_no_errors_and_nothing_of_a_machine(path):
    """Neither a traceback nor anything on stderr is published, nor an address or a folder."""
    for output in outputs(path):
        assert output.output_type != "error", output.get("evalue")
        assert output.get("name") != "stderr", output.get("text")
        text = output.get("text", "") + str(output.get("data", {}).get("text/plain", ""))
        assert not re.search(MACHINE, text), text


def test_some_output_is_checked(path):
    """At least one published result is compared by nbval."""
    checked = [cell for cell in code_cells(path) if "nbval-check-output" in tags(cell)]
    assert any(cell.outputs for cell in checked)


def test_cells_and_chapters_are_short(path):
    """A cell does one thing, and a chapter can be read in one sitting."""
    cells = [cell for cell in code_cells(path) if "parameters" not in tags(cell)]
    sizes = [sum(bool(line.strip()) for line in cell.source.splitlines()) for cell in cells]
    assert max(sizes) <= MAX_LINES
    assert statistics.median(sizes) <= MAX_MEDIAN_LINES
    assert len(prose(path).split()) <= MAX_WORDS
    assert path.stat().st_size < MAX_BYTES


def prose(path):
    """Return the text of the Markdown cells, without code, formulas and addresses."""
    text = "\n\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    for pattern in (r"(?s)```.*?```", r"(?s)\$\$.*?\$\$", r"`[^`]*`", r"\$[^$]*\$", r"\]\([^)]*\)"):
        text = re.sub(pattern, " ", text)
    return text


def test_figures_have_alternative_text(path):
    """Who can't see a figure is told what it shows."""
    for cell in code_cells(path):
        if any("image/png" in output.get("data", {}) for output in cell.outputs):
            alt = cell.metadata.get("alt", "")
            assert 20 <= len(alt) <= 400, cell.source
            assert not RESULT.search(alt), "a result changes with the parameters, a text does not"


def test_no_result_is_typed_in(path):
    """A number in the text is one that the notebook shows, or is quoted from a paper."""
    texts = [cell.source for cell in code_cells(path)]
    for output in outputs(path):
        data = output.get("data", {})
        texts += [output.get("text", ""), data.get("text/plain", ""), data.get("text/markdown", "")]
    known = set(re.findall(r"\d*\.\d+|\d+", "\n".join(texts)))
    for paragraph in prose(path).split("\n"):
        if not QUOTED.search(paragraph):
            typed = {found[1] for found in RESULT.finditer(paragraph)} - known
            assert not typed, f"{sorted(typed)} in: {paragraph}"


def test_what_holds_at_the_defaults_is_asserted_there(path):
    """A text that is true of the defaults only says so, and a cell below checks it."""
    cells = read(path).cells
    for i, cell in enumerate(cells):
        if cell.cell_type == "markdown" and "At the defaults" in cell.source:
            below = [other for other in cells[i:] if other.cell_type == "code"][:2]
            assert any("if at_defaults:" in other.source for other in below), cell.source


def test_figure_of_the_readme_is_the_committed_one(path):
    """The README shows the figure of the cell tagged `overview`, and one chapter has it."""
    figure = build.overview(read(path))
    assert (figure is not None) == (path.stem == "00_start_here")
    assert figure is None or figure == build.OVERVIEW.read_bytes()


def test_ends_with_its_results(path):
    """The last cell hands out numbers and names the versions; nbval compares neither."""
    cells = read(path).cells
    assert [cell for cell in cells if "results" in tags(cell)] == cells[-1:]
    assert "nbval-ignore-output" in tags(cells[-1])
    (output,) = cells[-1].outputs
    found = output.data["application/json"]
    assert len(found) >= 2
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in found)
    assert not set(found) & set(papermill.inspect_notebook(str(path)))
    assert all(value is not None for value in found.values())
    assert re.search(r"Python 3\..*akpca .*numpy .*scipy .*BLAS", output.data["text/plain"])


def test_links_to_files_resolve(path):
    """Relative links lead to files that exist, among them the next chapter."""
    text = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    targets = re.findall(r"\]\(\s*<?([^)\s>#]+)", text) + re.findall(r'href="([^"#]+)', text)
    for target in targets:
        if not re.match(r"[a-z]+:", target) and not target.startswith("attachment:"):
            assert (path.parent / target).exists(), target
    following = NOTEBOOKS[NOTEBOOKS.index(path) + 1 :]
    assert not following or following[0].name in targets, f"no link to {following[0].name}"
