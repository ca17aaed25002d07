"""``environment.yml`` and ``pyproject.toml`` ask for the same packages in the same versions."""

import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]

# conda's name -> the name on PyPI, where they differ
PYPI_NAMES = {"matplotlib-base": "matplotlib"}


def bounds(lines):
    """Map each package to its version specifier, leaving out akpca's own extras."""
    requirements = [Requirement(line) for line in lines]
    return {PYPI_NAMES.get(r.name, r.name): r.specifier for r in requirements if r.name != "akpca"}


def conda_bounds():
    found = bounds(line for line in CONDA if isinstance(line, str))
    del found["pip"]
    return found


def test_same_bounds():
    """Core and all extras but book are what the conda environment installs."""
    extras = PROJECT["optional-dependencies"]
    chosen = [line for name in ("fast", "notebooks", "distributed", "dev") for line in extras[name]]
    expected = bounds([*PROJECT["dependencies"], *chosen])
    found = conda_bounds()
    del found["python"]
    assert found == expected


def test_same_python():
    """Both ask for the same Python."""
    assert str(conda_bounds()["python"]) == PROJECT["requires-python"]


def test_conda_installs_this_package():
    """The package itself comes from the work tree."""
    assert {"pip": ["-e ."]} in CONDA


def test_every_dependency_is_bounded_on_both_sides():
    """A lower bound that was tried, and an upper one that a new major release can't cross."""
    extras = PROJECT["optional-dependencies"].values()
    found = bounds([*PROJECT["dependencies"], *(line for extra in extras for line in extra)])
    for name, specifier in found.items():
        assert {s.operator for s in specifier} == {">=", "<"}, name
