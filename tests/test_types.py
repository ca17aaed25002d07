"""The package is typed as far as its users see it."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "tests" / "typed_use.py"
WRONG = """import numpy as np
from akpca import KernelPCA
code: str = KernelPCA(2).fit(np.eye(3)).transform(np.eye(3))
"""


@pytest.mark.slow
@pytest.mark.once
def test_strict_mypy_accepts_a_use_and_notices_a_wrong_type(tmp_path):
    """py.typed is true: no public call of a user is untyped, and not all is Any."""

    def mypy(*command):
        result = subprocess.run(
            [sys.executable, "-m", "mypy", f"--cache-dir={tmp_path / 'cache'}", *command],
            cwd=ROOT,
            env=os.environ | dict.fromkeys(("PYTHONPATH", "MYPYPATH"), str(ROOT)),
            capture_output=True,
            text=True,
        )
        return result.returncode, result.stdout + result.stderr

    assert (ROOT / "akpca" / "py.typed").is_file()
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    for path, code in ((SCRIPT, 0), (wrong, 1)):
        found, text = mypy("--strict", "--follow-imports=silent", str(path))
        assert found == code, text
    assert 'variable has type "str"' in text


def test_the_code_of_a_user_runs():
    """What mypy has checked also works."""
    runpy.run_path(str(SCRIPT), run_name="__main__")
