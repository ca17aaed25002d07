"""Versions: pyproject.toml, environment.yml, constraints.txt and what is installed agree."""

import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
# conda's name -> the name on PyPI, where they differ
PYPI_NAMES = {"matplotlib-base": "matplotlib"}
IS_LOWEST = Path(sys.prefix).name == "lowest"


def bounds(*extras):
    """Map each package of the project and of some extras to its version specifier."""
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in EXTRAS[extra])]
    return {r.name: r.specifier for r in map(Requirement, lines) if r.name != "akpca"}


INSTALLED = bounds("fast", "notebooks", "distributed", "dev")


@pytest.mark.parametrize("name", INSTALLED)
def test_what_is_installed_is_allowed(name):
    """This environment has what pyproject.toml asks for, not what it asked for once; that of the
    lowest versions has the bounds themselves, so that none is too low for the others."""
    found = Version(version(name))
    assert INSTALLED[name].contains(found, prereleases=True)
    (lowest,) = (Version(s.version).release for s in INSTALLED[name] if s.operator == ">=")
    assert not IS_LOWEST or found.release[: len(lowest)] == lowest


def test_conda_has_the_same_bounds():
    """Core and all extras but book are what the conda environment installs, and this package."""
    lines = [Requirement(line) for line in CONDA if isinstance(line, str)]
    found = {PYPI_NAMES.get(r.name, r.name): r.specifier for r in lines if r.name != "pip"}
    assert str(found.pop("python")) == PROJECT["requires-python"]
    assert found == INSTALLED
    assert {"pip": ["-e ."]} in CONDA


def test_every_dependency_is_bounded_on_both_sides():
    """A lower bound that was tried, and an upper one that a new major release can't cross."""
    for name, specifier in bounds(*EXTRAS).items():
        assert {s.operator for s in specifier} == {">=", "<"}, name


def test_constraints_are_versions_within_the_bounds():
    """Whatever results depend on is pinned, to a version that the project allows."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pinned = {k.lower(): v for k, v in re.findall(r"(?m)^([\w.-]+)==([\w.]+)$", text)}
    assert set(bounds("fast", "notebooks")) <= set(pinned)
    every = bounds(*EXTRAS)
    assert all(every[name].contains(pinned[name]) for name in set(every) & set(pinned))
