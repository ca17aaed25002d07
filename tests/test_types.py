"""The package is typed as far as its users see it, and modules say what is public."""

import ast
import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import akpca

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "tests" / "typed_use.py"
pytestmark = pytest.mark.once
MODULES = ["akpca", *(m.name for m in pkgutil.walk_packages(akpca.__path__, "akpca."))]


def run(*command):
    """Run Python on this work tree."""
    paths = {name: str(ROOT) for name in ("PYTHONPATH", "MYPYPATH")}
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=os.environ | paths,
        capture_output=True,
        text=True,
    )


def test_strict_mypy_accepts_the_code_of_a_user(tmp_path):
    """py.typed is true: no public call is untyped, and results have the types that are declared."""
    options = ["--strict", "--follow-imports=silent", f"--cache-dir={tmp_path}"]
    result = run("-m", "mypy", *options, str(SCRIPT))
    assert result.returncode == 0, result.stdout + result.stderr


def test_strict_mypy_notices_a_wrong_type(tmp_path):
    """The types are not all Any: a wrong use of a code is found."""
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import numpy as np\n"
        "from akpca import KernelPCA\n"
        "code: str = KernelPCA(2).fit(np.eye(3)).transform(np.eye(3))\n"
    )
    options = ["--strict", "--follow-imports=silent", f"--cache-dir={tmp_path}"]
    result = run("-m", "mypy", *options, str(wrong))
    assert 'variable has type "str"' in result.stdout


def test_the_code_of_a_user_runs():
    """What mypy has checked also works."""
    result = run(str(SCRIPT))
    assert result.returncode == 0, result.stderr


def test_the_marker_is_part_of_the_package():
    """Type checkers look at annotations only if there is a py.typed file."""
    assert (Path(akpca.__file__).parent / "py.typed").is_file()


@pytest.mark.parametrize("name", MODULES)
def test_modules_say_what_is_public(name):
    """Names in __all__ exist, and each public class or function of a module is among them."""
    module = importlib.import_module(name)
    assert all(hasattr(module, public) for public in module.__all__)
    assert len(set(module.__all__)) == len(module.__all__)
    body = ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body
    defined = [node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    assert {public for public in defined if public[0] != "_"} <= set(module.__all__)
