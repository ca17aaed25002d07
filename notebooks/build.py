"""Execute the notebooks, for reading or for committing.

    python notebooks/build.py                  # execute all into build/notebooks, make build/book
    python notebooks/build.py 01_pca           # the same; the other chapters as they are committed
    python notebooks/build.py --as-committed   # make build/book, execute nothing
    python notebooks/build.py --in-place       # execute the notebooks and write them back

What is written back is normalised: a second run differs only where a result changed. Files are
written whole or not at all, and no process outlives this one, however it ends.
"""

import argparse
import base64
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import nbformat
import papermill
from papermill.exceptions import strip_color

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
OVERVIEW = HERE / "overview.png"
RENDER = ROOT / "book" / "render.py"

# Everything else in a notebook's metadata tells of the machine or the editor, not of the chapter.
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"file_extension": ".py", "mimetype": "text/x-python", "name": "python"},
}
# What a chapter says about itself: title, question, minutes, parameters worth trying.
ABOUT = "akpca"
# `alt` describes a figure to those who can't see it.
CELL_METADATA = {"alt", "tags", "jupyter", "mystnb"}
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
TRACEBACK_LINES = 15
SCRATCH = ".tmp"  # ending of a file that is being written


@dataclass
class Run:
    """One executed notebook; ``error`` is empty if it went well."""

    name: str
    seconds: float
    error: str = ""

    @property
    def status(self) -> str:
        return "FAILED" if self.error else "ok"


def chapters() -> list[Path]:
    return sorted(HERE.glob("[0-9]*.ipynb"))


# Normal form ------------------------------------------------------------------------------------


def normalise(nb: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Bring a notebook to the form in which it is committed, in place.

    Sources, outputs, execution counts, tags, alternative texts, cell ids and what the chapter says
    about itself stay.
    """
    about = {ABOUT: nb.metadata[ABOUT]} if ABOUT in nb.metadata else {}
    nb.metadata = nbformat.from_dict(about | METADATA)
    nb.nbformat, nb.nbformat_minor = 4, 5
    seen: set[str] = set()
    for number, cell in enumerate(nb.cells):
        # An id is kept for good, so that inserting a cell leaves the others' lines alone.
        if "id" not in cell or cell.id in seen:
            cell.id = next(i for i in _new_ids(number) if i not in seen)
        seen.add(cell.id)
        # Papermill gives every cell an empty list of tags.
        cell.metadata = nbformat.from_dict(
            {k: v for k, v in cell.metadata.items() if k in CELL_METADATA and v}
        )
        if cell.cell_type == "code":
            cell.outputs = _merge_streams(cell.outputs)
    return nb


def _new_ids(number: int):
    yield f"cell-{number}"
    for copy in range(1, 1000):
        yield f"cell-{number}-{copy}"


def _merge_streams(outputs: list) -> list:
    """Join neighbouring prints: how the kernel cuts them into messages is a matter of timing."""
    merged: list = []
    for output in outputs:
        last = merged[-1] if merged else None
        if last and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            merged.append(output)
    return merged


def to_text(nb: nbformat.NotebookNode) -> str:
    """Return the file content: sorted keys, one-space indent, a newline at the end."""
    return nbformat.writes(nb) + "\n"


def write_if_changed(nb: nbformat.NotebookNode, path: Path) -> bool:
    content = to_text(nb).encode()
    if path.exists() and path.read_bytes() == content:
        return False
    write_whole(path, content)
    return True


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file by new content, or leave it as it was: never half of it."""
    scratch = path.with_name(path.name + SCRATCH)
    try:
        scratch.write_bytes(content)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def remove_scratch() -> None:
    """Remove what a build that was killed while it wrote has left."""
    for path in HERE.glob("*" + SCRATCH):
        path.unlink(missing_ok=True)


def overview(nb: nbformat.NotebookNode) -> bytes | None:
    """Return the figure of the cell tagged `overview`, which the README shows, or None."""
    for cell in nb.cells:
        if "overview" in cell.metadata.get("tags", []):
            return base64.b64decode(cell.outputs[0].data["image/png"])
    return None


# Execution --------------------------------------------------------------------------------------


def execute(source: Path, target: Path, folder: Path) -> Run:
    """Run one notebook on its default parameters, in a working directory of its own."""
    start = time.perf_counter()
    error = ""
    target.unlink(missing_ok=True)  # an earlier result must not pass for this one
    folder.mkdir()
    try:
        papermill.execute_notebook(
            str(source),
            str(target),
            kernel_name="python3",
            cwd=str(folder),
            progress_bar=False,
            # ipykernel warns on every start that a local kernel is not encrypted.
            extra_arguments=["--log-level=ERROR"],
        )
    except papermill.PapermillExecutionError as exception:
        lines = "\n".join(exception.traceback).splitlines()[-TRACEBACK_LINES:]
        error = f"cell In [{exception.exec_count}] failed:\n" + strip_color("\n".join(lines))
    except Exception as exception:  # a broken file or a dead kernel: report it, do the others
        error = f"{type(exception).__name__}: {exception}"
    return Run(source.stem, time.perf_counter() - start, error)


def start_worker() -> None:
    """Let a worker process end with its parent, and only with it."""

    def follow() -> None:
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
    # Ctrl-C reaches all processes of a terminal: the parent answers it. Not SIG_IGN, which the
    # kernels would inherit.
    signal.signal(signal.SIGINT, lambda *_: None)


def execute_all(sources: list[Path], output: Path, jobs: int) -> list[Run]:
    """Execute into ``output``, with one line of progress each; return runs in chapter order."""
    output.mkdir(parents=True, exist_ok=True)
    width = max(len(path.stem) for path in sources)
    runs = []
    # Processes, not threads: papermill changes the working directory of its process. Spawned, not
    # forked: a fork would hold the pipes by which its siblings notice the end of the parent.
    spawn = multiprocessing.get_context("spawn")
    # Empty working directories prove that a chapter needs no file beside it.
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as neutral,
        ProcessPoolExecutor(jobs, spawn, start_worker) as pool,
    ):
        try:
            futures = [
                pool.submit(execute, path, output / path.name, Path(neutral) / path.stem)
                for path in sources
            ]
            for number, future in enumerate(as_completed(futures), start=1):
                run = future.result()
                runs.append(run)
                line = f"{run.name:<{width}}  {run.status:<6} {run.seconds:6.1f} s"
                print(f"[{number}/{len(sources)}] {line}", flush=True)
                if run.error:
                    print("    " + run.error.replace("\n", "\n    "), flush=True)
        except BaseException:
            # Killed, not asked: workers would go on with their notebook. Kernels end with them.
            for worker in multiprocessing.active_children():
                worker.kill()
            raise
    return sorted(runs, key=lambda run: run.name)


def prepare_environment() -> None:
    """Set what the kernels will inherit."""
    # The defaults must do with the data that come with the installed packages, on any machine.
    os.environ.pop("AKPCA_DATA", None)
    # Left over from a script, it would keep figures out of the notebooks.
    os.environ.pop("MPLBACKEND", None)
    # The chapters make many small calls, which more threads slow down, most of all on a busy
    # machine; and the last digits of a result depend on their number.
    for variable in THREAD_VARIABLES:
        os.environ.setdefault(variable, "1")


# Book -------------------------------------------------------------------------------------------


def render(output: Path, executed: Iterable[str] = ()) -> bool:
    """Make the book in ``output``, of chapters that were executed there and of committed ones.

    In a process of its own: a build that only executes needs none of the book's packages.
    """
    fresh = {name: output / "notebooks" / f"{name}.ipynb" for name in executed}
    paths = [fresh[p.stem] if p.stem in fresh and fresh[p.stem].exists() else p for p in chapters()]
    print("Making the book ...", flush=True)
    command = [sys.executable, RENDER, output, *paths]
    if code := subprocess.run([str(part) for part in command], check=False).returncode:
        print(f"The book could not be made (exit code {code})", file=sys.stderr)
        return False
    print(f"Read {output / 'book' / 'index.html'}")
    return True


# Command line -----------------------------------------------------------------------------------


def select(names: list[str]) -> list[Path]:
    """Find chapters by name, with or without folder and ending."""
    known = {path.stem: path for path in chapters()}
    if not known:
        sys.exit(f"No notebooks in {HERE}")
    wanted = [Path(name).name.removesuffix(".ipynb") for name in names] or list(known)
    if unknown := [name for name in wanted if name not in known]:
        sys.exit(f"No notebook {', '.join(unknown)}; there are: {', '.join(known)}")
    return [known[name] for name in wanted]


def print_table(runs: list[Run]) -> None:
    width = max(len("total"), *(len(run.name) for run in runs))
    print(f"\n{'notebook':<{width}}  {'':<6}  seconds")
    for run in runs:
        print(f"{run.name:<{width}}  {run.status:<6}  {run.seconds:7.1f}")
    print(f"{'total':<{width}}  {'':<6}  {sum(run.seconds for run in runs):7.1f}")


def write_back(sources: list[Path], jobs: int) -> list[Run]:
    """Execute notebooks and replace those that went well by their normal form."""
    remove_scratch()
    with tempfile.TemporaryDirectory() as scratch:
        runs = execute_all(sources, Path(scratch), jobs)
        failed = {run.name for run in runs if run.error}
        for path in sources:
            if path.stem in failed:
                print(f"{path.name}: failed, left as it was")
                continue
            nb = normalise(nbformat.read(Path(scratch) / path.name, as_version=4))
            print(f"{path.name}: {'written' if write_if_changed(nb, path) else 'unchanged'}")
            if figure := overview(nb):
                write_whole(OVERVIEW, figure)
    return runs


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="chapters, e.g. 01_pca (default: all)")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--in-place", action="store_true", help="write the notebooks back")
    mode.add_argument(
        "--as-committed", action="store_true", help="make the book, but execute nothing"
    )
    parser.add_argument(
        "--output", type=Path, default=ROOT / "build", help="folder for results (default: build)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="notebooks at a time (default: 1)")
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    sources = select(arguments.names)
    output = arguments.output.resolve()
    if arguments.as_committed:
        return int(not render(output))
    prepare_environment()
    if arguments.in_place:
        runs, made = write_back(sources, arguments.jobs), True
    else:
        runs = execute_all(sources, output / "notebooks", arguments.jobs)
        made = render(output, [run.name for run in runs])
    print_table(runs)
    return int(not made or any(run.error for run in runs))


if __name__ == "__main__":
    # A polite kill should clean up as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("Interrupted")
