"""All checks in order, and one summary: what ``make test`` and ``make coverage`` run.

Every step runs, even after a failure. The last line is ``N passed, M failed``.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORKERS = str(min(4, os.cpu_count() or 1))
PYTEST = ["-m", "pytest", "-q", "-n", WORKERS]
# What shares a cluster runs in one worker: a second cluster would take longer than it saves.
UNIT = [*PYTEST, "--dist", "loadgroup", "tests", "-m", "not notebook and not book"]
# Not the tests marked `once`: what the command line, the README or a notebook's file says does not
# depend on versions, and their processes take much of the time. Types depend on the versions of
# mypy and of NumPy's annotations, numbers in notebooks on all.
OTHER_VERSIONS = [*UNIT[:-1], "not notebook and not book and not once"]
# Of the inputs that are drawn for estimators, the first fifth: all were tried in the first step.
FEWER = {"AKPCA_BATTERY": "short"}
LOWEST, NEWEST = (str(Path(sys.prefix) / name / "bin" / "python") for name in ("lowest", "newest"))

STEPS = {
    "ruff check": [sys.executable, "-m", "ruff", "check", "."],
    "ruff format": [sys.executable, "-m", "ruff", "format", "--check", "."],
    "unit tests": [sys.executable, *UNIT],
    "lowest versions": [LOWEST, *OTHER_VERSIONS],
    "newest Python": [NEWEST, *OTHER_VERSIONS],
    # The numbers in the committed notebooks; a notebook's cells need one kernel, hence loadfile.
    "notebook outputs": [
        *(sys.executable, *PYTEST),
        *("--nbval-lax", "--nbval-current-env", "--dist", "loadfile", "notebooks"),
    ],
    "notebook re-runs": [sys.executable, *PYTEST, "-m", "notebook", "tests"],
    # One process, for all tests read one book; -rs says what was skipped, as without a browser.
    "book": [sys.executable, "-m", "pytest", "-q", "-rs", "tests/test_book.py"],
}
VARIABLES = {"lowest versions": FEWER, "newest Python": FEWER}
COVERAGE_STEPS = {
    "unit tests": [sys.executable, "-m", "coverage", "run", *UNIT],
    "all processes": [sys.executable, "-m", "coverage", "combine"],
    "coverage": [sys.executable, "-m", "coverage", "report"],
}


@dataclass
class Result:
    step: str
    passed: int
    failed: int
    skipped: int
    seconds: float


def environment() -> dict[str, str]:
    """Return the variables for all steps: workers share the cores, data are the bundled ones."""
    variables = dict(os.environ)
    variables.pop("AKPCA_DATA", None)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        variables[name] = "1"
    return variables


def call(command: list[str], variables: dict[str, str]) -> int:
    """Run a command in a process group of its own, which goes when we go."""
    child = subprocess.Popen(command, cwd=ROOT, env=variables, start_new_session=True)
    try:
        return child.wait()
    except BaseException:  # Ctrl-C, or SIGTERM turned into SystemExit
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(child.pid, number)
                child.wait(timeout=5)
            except subprocess.TimeoutExpired:
                continue
            except ProcessLookupError:
                break
        raise


def counts(report: Path) -> tuple[int, int, int]:
    """Read passed, failed and skipped from a JUnit file."""
    total = failed = skipped = 0
    for suite in ElementTree.parse(report).iter("testsuite"):
        total += int(suite.get("tests", 0))
        failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped += int(suite.get("skipped", 0))
    return total - failed - skipped, failed, skipped


def run_step(step: str, command: list[str], variables: dict[str, str]) -> Result:
    print(f"\n== {step}: {' '.join(['python', *command[1:]])}", flush=True)
    start = time.perf_counter()
    if not Path(command[0]).exists():
        print(f"skipped: there is no {command[0]}; `make test` makes it where it can")
        return Result(step, 0, 0, 1, 0)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        is_pytest = "pytest" in command
        code = call([*command, f"--junitxml={report}"] if is_pytest else command, variables)
        if is_pytest and report.exists():
            passed, failed, skipped = counts(report)
        else:
            passed, failed, skipped = int(code == 0), 0, 0
    if code and not failed:
        failed = 1  # a linter's finding, a crash, or no tests found
    return Result(step, passed, failed, skipped, time.perf_counter() - start)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--coverage", action="store_true", help="measure what unit tests reach")
    steps, variables = STEPS, environment()
    if parser.parse_args().coverage:
        # What numba has compiled can't be seen.
        steps, variables = COVERAGE_STEPS, variables | {"NUMBA_DISABLE_JIT": "1"}
    # A polite kill should clean up as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        results = [
            run_step(step, command, variables | VARIABLES.get(step, {}))
            for step, command in steps.items()
        ]
    except KeyboardInterrupt:
        print("\nInterrupted", file=sys.stderr)
        return 130
    print(f"\n{'step':<18}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for r in results:
        print(f"{r.step:<18}{r.passed:>8}{r.failed:>8}{r.skipped:>9}{r.seconds:>9.1f}")
    failed = sum(r.failed for r in results)
    print(f"\n{sum(r.passed for r in results)} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
