"""The results page: verdicts and ratios, computed from the tables that are committed.

A table that is not there is said to be missing, with the command that makes it.
"""

import csv
from collections.abc import Sequence
from pathlib import Path

from akpca.experiments import report

HEAD = ("figure", "claim", "holds", "ties", "fails", "ratio (by seed)", "verdict")
FIGURE = """```{image} summary.png
:alt: Left, CPU seconds of kernel PCA over the number of samples, ours, scikit-learn's and the \
kernel matrix once. Right, for each comparison with a rival, our time or error divided by the \
rival's.
:class: wide
```

"""
MAX_ROWS = 60  # of a table that is shown whole


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; columns of numbers are flush right."""
    numeric = [all(_is_number(row[i]) for row in rows) for i in range(len(head))]
    marks = ["---:" if right else "---" for right in numeric]
    lines = [head, marks, *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines) + "\n"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _cell(text: str) -> str:
    """Shorten long fractions; a bar would end the cell."""
    if _is_number(text) and "." in text:
        text = f"{float(text):.3g}"
    return text.replace("|", r"\|")


def read(path: Path) -> tuple[list[str], list[list[str]]]:
    head, *rows = csv.reader(path.read_text(encoding="utf-8").splitlines())
    return head, rows


def verdicts(folder: Path, plan: report.Plan) -> str:
    """Return what became of the AKPCA report's claims, from the rows of a plan in a folder."""
    results = report.read_results(plan, folder)
    if results is None:
        return ""
    rows = []
    for finding in report.findings(results.table, results.plan):
        counts = map(str, finding.counts) if finding.comparisons else "–––"
        rows.append([str(finding.figure), finding.claim, *counts, *finding.row()])
    seeds = len(results.plan.seeds)
    return f"{markdown(HEAD, rows)}\nMeans over {seeds} split{'s' * (seeds > 1)} of the data.\n"


def committed(folder: Path, *, first: Sequence[str] = (), without: Sequence[str] = ()) -> str:
    """Return all tables of a folder, each under its name; some columns come first, some not."""
    parts = []
    for path in sorted(folder.glob("*.csv")):
        head, rows = read(path)
        order = sorted(head, key=lambda name: first.index(name) if name in first else len(first))
        kept = [head.index(name) for name in order if name not in without]
        shown = [[row[i] for i in kept] for row in rows[:MAX_ROWS]]
        text = markdown([head[i] for i in kept], shown)
        if len(rows) > MAX_ROWS:
            text += f"\nThe first {MAX_ROWS} of {len(rows)} rows.\n"
        parts.append(f"`{path.name}`\n\n{text}")
    return "\n".join(parts)


def benchmarks(folder: Path) -> str:
    """Return the figure and the tables of the benchmarks; ratios, not the times of one machine."""
    figure = FIGURE if (folder / "summary.png").exists() else ""
    first = ("comparison", "ours", "rival", "measure", "ratio")
    return figure + committed(folder, first=first, without=("our_value", "rival_value"))


def or_missing(text: str, what: str, command: str = "") -> str:
    """Return the text or, if it is empty, that there is nothing yet, and what would make it."""
    if text:
        return text
    missing = f"There is no table of {what} among the committed files."
    return f"{missing} To make it:\n\n```bash\n{command}\n```\n" if command else f"{missing}\n"
