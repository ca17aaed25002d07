"""All checks in order, and one summary: what ``make test``, ``make test-all`` and coverage run.

    python tests/run.py          # what every change needs, in a few minutes
    python tests/run.py --rest   # what takes longer: run it before a release

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
PYTEST = [sys.executable, "-m", "pytest", "-q", "-n", WORKERS]
QUICK = "not slow and not notebook and not book"
# What shares a cluster runs in one worker: a second cluster would take longer than it saves.
UNIT = ["-m", "pytest", "-q", "-n", WORKERS, "--dist", "loadgroup", "tests", "-m"]
# A notebook's cells need one kernel, hence loadfile.
NUMBERS = [*PYTEST, "--nbval-lax", "--nbval-current-env", "--dist", "loadfile"]
# PCA, landmarks and streams: quick chapters whose numbers come from most of the package.
FIRST = [ROOT / "notebooks" / f"{name}.ipynb" for name in ("01_pca", "04_nystrom", "05_gha")]
OTHERS = [path for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")) if path not in FIRST]
LOWEST, NEWEST = (str(Path(sys.prefix) / name / "bin" / "python") for name in ("lowest", "newest"))

STEPS = {
    "ruff check": [sys.executable, "-m", "ruff", "check", "."],
    "ruff format": [sys.executable, "-m", "ruff", "format", "--check", "."],
    "types": [
        *(sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"),
        "tests/typed_use.py",
    ],
    "unit tests": [sys.executable, *UNIT, QUICK],
    "numbers of three chapters": [*NUMBERS, *map(str, FIRST)],
    "one re-run": [
        *(sys.executable, "-m", "akpca", "run", "01", "-p", "dataset", "digits"),
        *("-p", "n_components", "3", "--out", "build/rerun", "--quiet"),
    ],
}
REST = {
    # kills, memory, processes, clusters
    "slow unit tests": [sys.executable, *UNIT, "slow and not notebook and not book"],
    # Not the tests marked `once`: what the command line, the README or a notebook's file says does
    # not depend on versions, and their processes take much of the time.
    "lowest versions": [LOWEST, *UNIT, f"{QUICK} and not once"],
    "newest Python": [NEWEST, *UNIT, f"{QUICK} and not once"],
    "numbers of the other chapters": [*NUMBERS, *map(str, OTHERS)],
    "re-runs of all chapters": [*PYTEST, "-m", "notebook", "tests"],
    # One process, for all tests read one book; -rs says what was skipped, as without a browser.
    "book": [sys.executable, "-m", "pytest", "-q", "-rs", "tests/test_book.py"],
}
COVERAGE_STEPS = {
    "unit tests": [sys.executable, "-m", "coverage", "run", *UNIT, "not notebook and not book"],
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
        print(f"skipped: there is no {command[0]}; `make test-all` makes it where it can")
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
    parser.add_argument("--rest", action="store_true", help="run what takes longer")
    parser.add_argument("--coverage", action="store_true", help="measure what unit tests reach")
    options, variables, start = parser.parse_args(), environment(), time.perf_counter()
    steps = REST if options.rest else STEPS
    if options.coverage:
        # What numba has compiled can't be seen.
        steps, variables = COVERAGE_STEPS, variables | {"NUMBA_DISABLE_JIT": "1"}
    # A polite kill should clean up as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        results = [run_step(step, command, variables) for step, command in steps.items()]
    except KeyboardInterrupt:
        print("\nInterrupted", file=sys.stderr)
        return 130
    print(f"\n{'step':<30}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for r in results:
        print(f"{r.step:<30}{r.passed:>8}{r.failed:>8}{r.skipped:>9}{r.seconds:>9.1f}")
    minutes, seconds = divmod(round(time.perf_counter() - start), 60)
    print(f"\n{', '.join(steps)}: {minutes} min {seconds} s")
    failed = sum(r.failed for r in results)
    print(f"{sum(r.passed for r in results)} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
