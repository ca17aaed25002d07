"""Print the newest Python of this machine that is newer than this one and can be used, if any.

Looked for on the path and among the versions that pyenv has installed.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NEWEST = 14  # the last minor release that all dependencies are built for


def candidates(minor: int) -> list[str]:
    """Return interpreters of Python 3.minor, working or not."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [shutil.which(f"python3.{minor}")]
    found += map(str, pyenv.glob(f"versions/3.{minor}.*/bin/python3"))
    return [path for path in found if path]


def works(python: str) -> bool:
    """Return whether an interpreter starts: a shim of pyenv may not."""
    return subprocess.run([python, "-c", ""], capture_output=True).returncode == 0


if __name__ == "__main__":
    minors = range(NEWEST, sys.version_info.minor, -1)
    print(next(filter(works, (path for minor in minors for path in candidates(minor))), ""))
