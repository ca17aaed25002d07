"""Bring notebooks to the form in which they are committed, without executing them.

    python notebooks/normalise.py notebooks/01_pca.ipynb ...

Names each file that it changes, and fails if there is one: a hook before a commit stops there, so
that the change can be looked at and added.
"""

import sys
from pathlib import Path

import nbformat

from build import normalise, write_if_changed


def main(paths: list[str]) -> int:
    changed = [
        path for path in paths if write_if_changed(normalise(nbformat.read(path, 4)), Path(path))
    ]
    for path in changed:
        print(f"{path}: normalised")
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
