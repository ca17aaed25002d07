"""What a visitor meets first is true: README, citation, change log, hooks, benchmarks' table."""

import csv
import importlib.util
import re
import tomllib
from pathlib import Path

import pytest
import yaml

import akpca
from akpca.book.rerun import declared_parameters, read_notebook

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RESULTS = ROOT / "benchmarks" / "results"
TEXTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "PACKAGE.md")

# notebooks/ is not a package
spec = importlib.util.spec_from_file_location("readme", ROOT / "notebooks" / "readme.py")
readme = importlib.util.module_from_spec(spec)
spec.loader.exec_module(readme)


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def python_blocks(name):
    return re.findall(r"(?s)```python\n(.*?)```", text_of(name))


@pytest.mark.once
def test_tables_are_those_of_chapters_and_benchmarks():
    """They are computed: a question or a number that changed elsewhere changes here."""
    text = text_of("README.md")
    assert readme.filled(text) == text, "run `python notebooks/readme.py`"
    assert len(re.findall(r"(?m)^\| \[\d\d ", text)) == len(NOTEBOOKS)
    start = read_notebook(NOTEBOOKS[0])
    assert any(readme.questions() in "".join(cell["source"]) for cell in start["cells"])


@pytest.mark.once
def test_what_chapters_say_about_themselves():
    """Number, question, and parameters worth trying that they have."""
    for path in NOTEBOOKS:
        about = readme.about(path)
        assert about["title"].startswith(path.name[:2] + " ")
        assert about["question"].endswith("?")
        tries = [*about.get("try", []), *about.get("try_with_data", [])]
        names = {pair.split("=")[0] for text in tries for pair in text.split()}
        assert names and names <= set(declared_parameters(read_notebook(path)))


@pytest.mark.once
@pytest.mark.parametrize("name", ["README.md", "PACKAGE.md"])
def test_python_runs(name):
    """What a visitor copies first."""
    blocks = python_blocks(name)
    assert blocks
    exec("\n".join(blocks), {})


@pytest.mark.once
def test_commands_and_paths_exist():
    """Chapters that are run by number, targets of make, and files that links lead to."""
    for number, rest in re.findall(r"-m akpca (?:run|sweep) (\d\d) (.*)", text_of("README.md")):
        (path,) = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
        assert set(re.findall(r"-p (\w+)", rest)) <= set(declared_parameters(read_notebook(path)))
    targets = set(re.findall(r"(?m)^([a-z-]+):.*##", text_of("Makefile")))
    workflow = yaml.safe_load(text_of(".github/workflows/ci.yml"))
    steps = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    for text in (*map(text_of, TEXTS), text_of(".ci/run"), *steps):
        named = re.findall(r"(?m)(?:`|^|exec )make ([a-z-]+)", text)
        assert set(named) <= targets
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            assert re.match(r"https?:", target) or (ROOT / target).exists(), target
    for hook in yaml.safe_load(text_of(".pre-commit-config.yaml"))["repos"][0]["hooks"]:
        for path in re.findall(r"\w+/\w+\.py", hook["entry"]):
            assert (ROOT / path).exists(), path


@pytest.mark.once
def test_names_of_the_readme_are_public():
    """What its table of names has can be imported."""
    rows = re.findall(r"(?m)^\| (`.*?) \|", text_of("README.md"))
    named = {name for row in rows for name in re.findall(r"`([A-Z]\w+)`", row)}
    assert named and named <= set(akpca.__all__)


@pytest.mark.once
def test_one_version():
    """Package, project, citation and change log have the same."""
    citation = yaml.safe_load(text_of("CITATION.cff"))
    assert citation["version"] == akpca.__version__ == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert f"\n## {akpca.__version__} " in text_of("CHANGELOG.md")


@pytest.mark.once
def test_ratios_of_benchmarks_are_those_of_their_values():
    """And the machine is named."""
    with (RESULTS / "summary.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["threads"] for row in rows} == {"1", "2"}
    for row in rows:
        ratio = float(row["our_value"]) / float(row["rival_value"])
        assert float(row["ratio"]) == pytest.approx(ratio)
    assert "\nprocessor," in (RESULTS / "machine.csv").read_text(encoding="utf-8")
