"""The command line: ``python -m akpca run``, ``sweep`` and ``list``.

    python -m akpca list                                   # chapters and their parameters
    python -m akpca run 01 -p dataset digits -p n_components 3
    python -m akpca sweep 09 -p n_components 5,10,20 -p seed 0,1,2 --jobs 2

The exit code is 0 if all went well, 1 if a run failed, and 2 if what was asked for can't be done,
in which case nothing was run.
"""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from akpca.book.rerun.figure import draw_sweep, drawable_results
from akpca.book.rerun.notebooks import (
    chapters,
    declared_parameters,
    read_notebook,
    title_and_question,
)
from akpca.book.rerun.running import (
    Outcome,
    Task,
    check_notebook,
    find_notebook,
    is_done,
    output_name,
    run_task,
)
from akpca.book.rerun.sweeping import collect, grid_tasks, run_local, run_on_cluster, write_whole
from akpca.book.rerun.values import UsageError, describe, grid_values, run_values

__all__ = ["main"]

WIDTH = 96


def _run_command(options: argparse.Namespace) -> int:
    """Run one notebook."""
    notebook = find_notebook(options.notebook)
    parameters = declared_parameters(check_notebook(notebook))
    values = run_values(notebook.stem, parameters, options.parameter)
    out = Path(options.out)
    output = out if out.suffix == ".ipynb" else out / output_name(notebook, values)
    task = Task(notebook, output.resolve(), values, Path.cwd())
    if task.output == notebook:
        raise UsageError(f"--out {options.out} would overwrite {notebook}")
    _check_packages()
    print(task.label, flush=True)
    outcome = run_task(task, progress_bar=not options.quiet)
    return _report(outcome, output.with_name(outcome.path.name))


def _report(outcome: Outcome, path: Path) -> int:
    """Say how a run ended and where its output is; return the exit code."""
    if outcome.error:
        print(outcome.error, file=sys.stderr)
        kept = f"what was done is in {path}" if outcome.path.exists() else "nothing was written"
        print(f"failed after {outcome.seconds:.1f} s; {kept}", file=sys.stderr)
        return 1
    print(f"done in {outcome.seconds:.1f} s: {path}")
    return 0


def _sweep_command(options: argparse.Namespace) -> int:
    """Run all combinations of parameters."""
    notebook = find_notebook(options.notebook)
    parameters = declared_parameters(check_notebook(notebook))
    grid = grid_values(notebook.stem, parameters, options.parameter)
    if not grid:
        raise UsageError("a sweep needs parameters: -p n_components 5,10,20")
    if options.jobs < 1:
        raise UsageError(f"--jobs {options.jobs} must be at least 1")
    _check_packages()
    out = Path(options.out)
    tasks = grid_tasks(notebook, grid, out)
    left = [task for task in tasks if options.again or not is_done(task)]
    print(f"{notebook.stem}: {len(tasks)} runs, {len(tasks) - len(left)} done already", flush=True)
    if options.scheduler:
        outcomes = run_on_cluster(left, options.scheduler)
    else:
        outcomes = run_local(left, options.jobs)
    failed = 0
    for number, (task, outcome) in enumerate(outcomes, start=len(tasks) - len(left) + 1):
        status = "FAILED" if outcome.error else "ok"
        line = f"[{number}/{len(tasks)}] {task.label}  {status}  {outcome.seconds:.1f} s"
        print(line, flush=True)
        if outcome.error:
            failed += 1
            print(textwrap.indent(outcome.error, "    "), flush=True)
    _write_collection(tasks, list(grid), out, notebook.stem)
    if failed:
        print(f"{failed} of {len(tasks)} runs failed; the same command tries them again")
    return int(failed > 0)


def _write_collection(tasks: Sequence[Task], swept: Sequence[str], out: Path, stem: str) -> None:
    """Write the table of a sweep, and the figure if there is something to draw."""
    frame = collect(tasks)
    if frame.empty:
        print("no run has results, so there is neither a table nor a figure")
        return
    base = out / "-".join([stem, *swept])
    table, picture = (base.with_name(f"{base.name}.{ending}") for ending in ("csv", "png"))
    write_whole(table, lambda path: frame.to_csv(path))
    print(f"table: {table}")
    parameters = declared_parameters(read_notebook(tasks[0].notebook))
    if names := drawable_results(frame, list(parameters)):
        write_whole(picture, lambda path: draw_sweep(frame, swept, names, path))
        print(f"figure: {picture}")


def _list_command(options: argparse.Namespace) -> int:
    """Print chapters, their questions and their parameters."""
    paths = [find_notebook(options.notebook)] if options.notebook else chapters()
    for path in paths:
        notebook = read_notebook(path)
        title, question = title_and_question(notebook)
        parameters = declared_parameters(notebook)
        print(f"{title}  ({path.name})")
        print(textwrap.fill(question, WIDTH, initial_indent="  ", subsequent_indent="  "))
        if options.notebook:
            print(describe(parameters))
        else:
            given = ", ".join(f"{p.name}={p.text}" for p in parameters.values())
            print(textwrap.fill(given, WIDTH, initial_indent="  -p ", subsequent_indent="     "))
    return 0


def _check_packages() -> None:
    """Refuse to start without papermill."""
    try:
        import papermill  # noqa: F401
    except ImportError as error:
        message = f'{error.name} is not installed: pip install "akpca[notebooks]"'
        raise UsageError(message) from error


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(prog="python -m akpca", description="Run the chapters again.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run one notebook with other parameters")
    sweep = commands.add_parser("sweep", help="run all combinations of parameters")
    for command, text in ((run, "VALUE"), (sweep, "VALUES")):
        command.add_argument("notebook", help="a chapter's number or name, or a notebook's path")
        command.add_argument(
            *("-p", "--parameter"),
            nargs=2,
            action="append",
            default=[],
            metavar=("NAME", text),
            help="VALUES are separated by commas, or by semicolons if a value has commas"
            if command is sweep
            else "also NAME=VALUE; may be given several times",
        )
        command.add_argument("--out", default="runs", help="folder of the output (default: runs)")
    run.add_argument("--quiet", action="store_true", help="show no progress bar")
    sweep.add_argument("--jobs", type=int, default=1, help="runs at a time (default: 1)")
    sweep.add_argument("--scheduler", default="", help="address of a dask scheduler to run on")
    sweep.add_argument("--again", action="store_true", help="run also what is done")
    listing = commands.add_parser("list", help="chapters, their questions and parameters")
    listing.add_argument("notebook", nargs="?", help="show one chapter, with all it can be told")
    run.set_defaults(function=_run_command)
    sweep.set_defaults(function=_sweep_command)
    listing.set_defaults(function=_list_command)
    return top


def _split_pairs(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with ``-p NAME=VALUE`` as ``-p NAME VALUE``."""
    split: list[str] = []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        is_pair = split[-1:] in (["-p"], ["--parameter"]) and equals and name.isidentifier()
        split += [name, value] if is_pair else [argument]
    return split


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks for, and return the exit code."""
    options = _parser().parse_args(_split_pairs(sys.argv[1:] if arguments is None else arguments))
    try:
        return options.function(options)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (UsageError, OSError) as error:  # also of a folder that can't be written to
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; a sweep goes on with the same command", file=sys.stderr)
        return 130
