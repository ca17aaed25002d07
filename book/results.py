"""The results page: verdicts and ratios, computed from the tables that are committed.

A table that is not there is said to be missing, with the command that makes it.
"""

import csv
from collections.abc import Sequence
from pathlib import Path

from akpca.book.experiments import report

HEAD = ("claim", "verdict", "ratio (by seed)", "figure", "holds", "ties", "fails")
FIGURE = """```{image} summary.png
:alt: Above, CPU seconds of kernel PCA over the number of samples, ours, scikit-learn's and the \
kernel matrix once. Below, for each comparison with a rival, our time or error divided by the \
rival's.
:class: wide
```

"""


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; columns of numbers are flush right."""
    numeric = [all(_is_number(row[i]) or row[i] == "–" for row in rows) for i in range(len(head))]
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
        ratio, verdict = finding.row()
        rows.append([finding.claim, verdict, ratio, str(finding.figure), *counts])
    seeds = len(results.plan.seeds)
    return f"{markdown(HEAD, rows)}\nMeans over {seeds} split{'s' * (seeds > 1)} of the data.\n"


def ratios(path: Path) -> str:
    """Return a line for each comparison and rival of a table, with a column for each thread count.

    Ratios alone, not the times of one machine.
    """
    head, rows = read(path)
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        of = dict(zip(head, row, strict=True))
        key = (f"{of['comparison']}, {of['data']}", of["ours"], of["rival"], of["measure"])
        found.setdefault(key, {})[of["threads"]] = of["ratio"]
    threads = sorted({number for by_threads in found.values() for number in by_threads}, key=int)
    columns = [f"{number} thread{'s' * (number != '1')}" for number in threads]
    lines = [[*key, *(values.get(t, "–") for t in threads)] for key, values in found.items()]
    return markdown(("comparison", "ours", "rival", "ratio of", *columns), lines)


def benchmarks(folder: Path) -> str:
    """Return the figure and the ratios of the benchmarks, and what they were measured on."""
    if not (folder / "summary.csv").exists():
        return ""
    figure = FIGURE if (folder / "summary.png").exists() else ""
    about = folder / "machine.csv"
    items = [": ".join(row) for row in read(about)[1]] if about.exists() else []
    machine = f"\nMeasured with {'; '.join(items)}.\n" if items else ""
    return figure + ratios(folder / "summary.csv") + machine


def or_missing(text: str, what: str, command: str = "") -> str:
    """Return the text or, if it is empty, that there is nothing yet, and what would make it."""
    if text:
        return text
    missing = f"There is no table of {what} among the committed files."
    return f"{missing} To make it:\n\n```bash\n{command}\n```\n" if command else f"{missing}\n"
