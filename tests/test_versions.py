"""The versions that pyproject.toml allows are those with which the tests run."""

import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import newest_python
import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = ("fast", "notebooks", "distributed", "dev")
LINES = [
    *PROJECT["dependencies"],
    *(line for extra in EXTRAS for line in PROJECT["optional-dependencies"][extra]),
]
REQUIREMENTS = [r for r in map(Requirement, LINES) if r.name != "akpca"]
IS_LOWEST = Path(sys.prefix).name == "lowest"


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=lambda r: r.name)
def test_what_is_installed_is_allowed(requirement):
    """This environment has what pyproject.toml asks for, not what it asked for once; that of the
    lowest versions has the bounds themselves, so that none is too low for the others."""
    found = Version(version(requirement.name))
    assert requirement.specifier.contains(found, prereleases=True)
    (lowest,) = (Version(s.version).release for s in requirement.specifier if s.operator == ">=")
    assert not IS_LOWEST or found.release[: len(lowest)] == lowest


def test_newest_python_is_a_newer_one(monkeypatch, tmp_path):
    """Interpreters are found on the path and among pyenv's, and those that don't start are not
    taken."""
    minor = sys.version_info.minor + 1
    for folder, code in {"bin": 1, f"versions/3.{minor}.0/bin": 0}.items():
        (tmp_path / folder).mkdir(parents=True)
        for name in ("python3", f"python3.{minor}"):
            (tmp_path / folder / name).write_text(f"#!/bin/sh\nexit {code}\n")
            (tmp_path / folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    found = newest_python.candidates(minor)
    expected = [tmp_path / f"bin/python3.{minor}", tmp_path / f"versions/3.{minor}.0/bin/python3"]
    assert found == [str(path) for path in expected]
    assert [newest_python.works(path) for path in found] == [False, True]
