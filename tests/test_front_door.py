"""What a visitor meets first is true: README, package text, citation, workflow, hooks."""

import csv
import importlib.util
import io
import json
import re
import shutil
import subprocess
import sys
import tomllib
from contextlib import redirect_stdout
from pathlib import Path

import nbformat
import pytest
import yaml
from packaging.requirements import Requirement

import akpca
from akpca import load_dataset, pca, relative_error
from akpca.book.rerun import declared_parameters, read_notebook
from akpca.book.rerun.results import emitted_results

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
START = ROOT / "notebooks" / "00_start_here.ipynb"
RESULTS = ROOT / "benchmarks" / "results"

# notebooks/ is not a package
spec = importlib.util.spec_from_file_location("readme", ROOT / "notebooks" / "readme.py")
readme = importlib.util.module_from_spec(spec)
spec.loader.exec_module(readme)


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(text, language):
    """Return the code blocks of a Markdown text."""
    return re.findall(rf"(?s)```{language}\n(.*?)```", text)


# Chapters and results ----------------------------------------------------------------------------


def test_readme_has_the_chapters_and_the_results_as_they_are():
    """Both tables are computed; a number that changed in a table of results changes here."""
    text = text_of("README.md")
    assert readme.filled(text) == text, "run `python notebooks/readme.py`"
    assert len(re.findall(r"(?m)^\| \[\d\d ", text)) == len(NOTEBOOKS)


def test_a_number_that_differs_is_noticed(tmp_path):
    """The results that the README shows are those of the table."""
    changed = tmp_path / "summary.csv"
    with (RESULTS / "summary.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["ratio"] = str(2 * float(row["ratio"]))
    with changed.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    assert readme.results(changed) != readme.results()


def test_a_part_that_is_missing_is_named():
    with pytest.raises(ValueError, match="'chapters'"):
        readme.filled(text_of("README.md").replace("<!-- chapters -->", ""))


def test_map_of_chapter_00_is_the_same():
    cells = nbformat.read(START, as_version=4).cells
    (chapter_map,) = [cell.source for cell in cells if "## The map" in cell.source]
    assert readme.questions() in chapter_map


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_a_chapter_says_about_itself(path):
    """Number, question, and parameters worth trying that it has."""
    about = readme.about(path)
    assert about["title"].startswith(path.name[:2] + " ")
    assert about["question"].endswith("?")
    assert re.fullmatch(r"(< )?\d+", about["minutes"])
    tries = [*about.get("try", []), *about.get("try_with_data", [])]
    assert tries
    names = {pair.split("=")[0] for text in tries for pair in text.split()}
    assert names <= set(declared_parameters(read_notebook(path)))


def test_what_the_picture_is_said_to_show():
    """The README says how long the codes are and who has the smallest error."""
    notebook = read_notebook(START)
    size = declared_parameters(notebook)["n_components"].default
    (alt,) = re.findall(r"!\[(.*)\]\(notebooks/overview.png\)", text_of("README.md"))
    assert f"by way of {size} numbers" in alt
    found = emitted_results(notebook)
    errors = {name: value for name, value in found.items() if name.startswith("error_with_noise_")}
    assert min(errors, key=errors.get) == "error_with_noise_akpca"
    assert "AKPCA has the smallest error" in alt


# Quick start, names, commands --------------------------------------------------------------------


def test_quick_start_runs():
    """Six lines, the same in the package's text, which do what their comments say."""
    code = blocks(text_of("README.md"), "python")[0]
    assert blocks(text_of("PACKAGE.md"), "python") == [code]
    assert len([line for line in code.splitlines() if line.strip()]) == 6
    assert "AKPCA" in code
    printed = io.StringIO()
    namespace: dict = {}
    with redirect_stdout(printed):
        exec(code, namespace)
    X = load_dataset("digits").X
    assert namespace["codes"].shape == (len(X) - 1500, 10)
    assert namespace["images"].shape == (len(X) - 1500, 64)
    linear = pca(X[:1500], 10).reconstruct(X[1500:])
    assert float(printed.getvalue()) < relative_error(X[1500:], linear) / 2


def test_every_public_estimator_and_function_is_in_the_table():
    text = text_of("README.md")
    table = text[text.index("| name | what it is |") : text.index("All estimators keep")]
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"(?m)^\| (.*?) \|", table))))
    assert named <= set(akpca.__all__)
    # what others return or raise needs no line
    assert set(akpca.__all__) - named == {"Dataset", "DivergenceError", "LinearCode"}


def test_every_room_is_in_the_table():
    rooms = {path.stem for path in (ROOT / "akpca").iterdir() if path.suffix == ".py"}
    rooms |= {path.parent.name for path in (ROOT / "akpca").glob("*/__init__.py")}
    linked = re.findall(r"\(akpca/(\w+)(?:\.py)?\)", text_of("README.md"))
    assert {room for room in rooms if not room.startswith("__")} <= set(linked)


@pytest.mark.once
def test_commands_of_the_readme_fit_the_chapters():
    """Chapters that are run by number exist and have the parameters."""
    text = text_of("README.md")
    found = re.findall(r"-m akpca (?:run|sweep) (\d\d) (.*)", text)
    assert len(found) >= 2
    for number, rest in found:
        (path,) = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
        assert set(re.findall(r"-p (\w+)", rest)) <= set(declared_parameters(read_notebook(path)))
    commands = set(re.findall(r"-m akpca (\w+)", text))
    result = subprocess.run(
        [sys.executable, "-m", "akpca", "--help"], capture_output=True, text=True, cwd=ROOT
    )
    assert commands <= set(re.findall(r"(?m)^    (\w+)", result.stdout))


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_to_files(name):
    for target in re.findall(r"\]\(([^)#]+)\)", text_of(name)):
        assert re.match(r"https?:", target) or (ROOT / target).exists(), target


def test_package_text_needs_no_repository():
    """On a page of an index, relative links and pictures lead nowhere."""
    assert PROJECT["readme"] == "PACKAGE.md"
    assert "](" not in text_of("PACKAGE.md")


def targets():
    return re.findall(r"(?m)^([a-z]+):.*##", text_of("Makefile"))


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_make_targets_exist(name):
    found = set(re.findall(r"(?m)(?:`|^)make ([a-z]+)", text_of(name)))
    assert found
    assert found <= set(targets())


# Habits ------------------------------------------------------------------------------------------


def test_workflow_runs_the_make_targets():
    """Continuous integration has no commands of its own."""
    jobs = yaml.safe_load(text_of(".github/workflows/ci.yml"))["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    ran = [re.fullmatch(r"make ([a-z]+) PYTHON=python", command) for command in commands]
    assert all(ran), commands
    assert {found[1] for found in ran} == {"test", "book"}
    assert {found[1] for found in ran} <= set(targets())
    versions = jobs["test"]["strategy"]["matrix"]["python"]
    assert ">=" + versions[0] == PROJECT["requires-python"]
    # the lowest versions of all dependencies are a part of `make test`
    assert "$(LOWEST)/.complete" in re.search(r"(?m)^test:.*", text_of("Makefile"))[0]
    assert '"lowest versions"' in text_of("tests/run.py")


def test_hooks_call_what_there_is():
    (local,) = yaml.safe_load(text_of(".pre-commit-config.yaml"))["repos"]
    entries = {hook["id"]: hook["entry"].split() for hook in local["hooks"]}
    assert entries["normalise-notebooks"] == [".venv/bin/python", "notebooks/normalise.py"]
    assert all(hook["language"] == "system" for hook in local["hooks"])


@pytest.mark.once
def test_hook_normalises_a_notebook(tmp_path):
    """What an editor adds goes, the file is named, and a second call has nothing to do."""
    path = tmp_path / START.name
    shutil.copy(START, path)
    notebook = json.loads(path.read_text(encoding="utf-8"))
    notebook["metadata"]["language_info"]["version"] = "3.99"
    notebook["cells"][0]["metadata"]["collapsed"] = True
    path.write_text(json.dumps(notebook), encoding="utf-8")
    command = [sys.executable, str(ROOT / "notebooks" / "normalise.py"), str(path)]
    first = subprocess.run(command, capture_output=True, text=True)
    assert first.returncode == 1, first.stderr
    assert str(path) in first.stdout
    assert path.read_bytes() == START.read_bytes()
    assert subprocess.run(command, capture_output=True).returncode == 0


def test_constraints_are_names_and_versions_within_the_bounds():
    """Whatever results depend on is pinned, to a version that the project allows."""
    lines = [line for line in text_of("constraints.txt").splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)
    pinned = {name.lower(): version for name, _, version in (x.partition("==") for x in lines)}
    extras = PROJECT["optional-dependencies"]
    needed = [*PROJECT["dependencies"], *extras["fast"], *extras["notebooks"]]
    every = [*needed, *(line for extra in extras.values() for line in extra)]
    needed, every = ([Requirement(line) for line in part] for part in (needed, every))
    assert {r.name for r in needed if r.name != "akpca"} <= set(pinned)
    for requirement in every:
        if requirement.name in pinned:
            assert requirement.specifier.contains(pinned[requirement.name]), requirement


def test_citation_names_this_version_and_the_papers():
    citation = yaml.safe_load(text_of("CITATION.cff"))
    assert citation["version"] == akpca.__version__ == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert citation["title"] == PROJECT["name"]
    assert {"cff-version", "message", "authors"} <= set(citation)
    citing = text_of("README.md").partition("## Citing")[2]
    assert len(citation["references"]) == 3
    for paper in citation["references"]:
        assert paper["title"] in citing
        assert f"{paper['year']};" in citing
        assert all(author["family-names"] in citing for author in paper["authors"])


def test_changelog_knows_this_version():
    assert f"\n## {akpca.__version__} " in text_of("CHANGELOG.md")


# Benchmarks --------------------------------------------------------------------------------------


def test_table_of_benchmarks_is_consistent():
    """Ratios are those of the values, threads are one and two, and the machine is named."""
    with (RESULTS / "summary.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["threads"] for row in rows} == {"1", "2"}
    for row in rows:
        ratio = float(row["our_value"]) / float(row["rival_value"])
        assert float(row["ratio"]) == pytest.approx(ratio)
    machine = (RESULTS / "machine.csv").read_text(encoding="utf-8")
    for name in ("processor", "cores", "Python", "numpy", "scikit-learn", "BLAS"):
        assert f"\n{name}," in machine


SMALL = """
import summary
summary.SIZES = (60,)
whole = summary.images
summary.images = lambda n: whole(min(n, 120))
sections = [summary.of_kernel_pca, summary.of_pca, summary.of_passes, summary.of_streams]
for section in [*sections, summary.of_merges]:
    for row in section(1):
        print(section.__name__, row.rival, row.measure, row.ratio > 0, sep="; ")
"""


@pytest.mark.once
def test_summary_compares_with_named_rivals():
    """The sections run on few samples; in a process of its own, which limits its threads."""
    command = [sys.executable, "-c", SMALL]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT / "benchmarks")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert all(line.endswith("True") for line in lines)
    assert "of_kernel_pca; scikit-learn's KernelPCA, arpack; time; True" in lines
    assert "of_pca; scikit-learn's PCA, full; time; True" in lines
    assert "of_passes; all kernel values once (limit); time; True" in lines
    assert "of_streams; scikit-learn's IncrementalPCA; error; True" in lines
    assert "of_merges; scikit-learn's IncrementalPCA; error; True" in lines


@pytest.mark.once
def test_figure_of_benchmarks_is_drawn_from_the_table(tmp_path):
    code = f"""
import shutil
from pathlib import Path
import summary
folder = Path({str(tmp_path)!r})
for name in ("summary.csv", "machine.csv"):
    shutil.copy(summary.FOLDER / name, folder)
summary.FOLDER = folder
summary.draw(summary.read(), {{"processor": "none"}})
"""
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT / "benchmarks")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "summary.png").read_bytes().startswith(b"\x89PNG")
