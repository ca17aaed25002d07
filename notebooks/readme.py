"""Fill in the parts of README.md that are computed: its tables of chapters and of results.

    python notebooks/readme.py

The chapters come from what each notebook says about itself (``akpca`` in its metadata: title,
question, minutes, parameters worth trying), the results from the table that ``make bench`` writes.
A part stands between ``<!-- name -->`` and ``<!-- end of name -->``.
"""

import csv
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "results" / "summary.csv"


def about(path: Path) -> dict:
    """Return what a notebook says about itself."""
    return json.loads(path.read_text(encoding="utf-8"))["metadata"]["akpca"]


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def chapters(folder: Path = ROOT / "notebooks") -> str:
    """Return the table of chapters."""
    rows = []
    for path in sorted(folder.glob("[0-9]*.ipynb")):
        chapter = about(path)
        tries = [f"`{text}`" for text in chapter.get("try", [])]
        tries += [f"`{text}` (with `AKPCA_DATA`)" for text in chapter.get("try_with_data", [])]
        link = f"[{chapter['title']}](notebooks/{path.name})"
        rows.append([link, chapter["question"], str(chapter["minutes"]), ", ".join(tries)])
    return table(["chapter", "the question that it answers", "minutes", "worth trying"], rows)


def questions(folder: Path = ROOT / "notebooks") -> str:
    """Return the shorter table of chapter 00, whose links start from its own folder."""
    found = [(path.name, about(path)) for path in sorted(folder.glob("[0-9]*.ipynb"))]
    rows = [[f"[{chapter['title']}]({name})", chapter["question"]] for name, chapter in found]
    return table(["chapter", "the question that it answers"], rows)


def results(path: Path = RESULTS) -> str:
    """Return the table of results, of the rows that are meant for it."""
    with path.open(encoding="utf-8", newline="") as file:
        chosen = [row for row in csv.DictReader(file) if row["headline"]]
    rows = [
        [
            row["headline"],
            f"`{row['ours']}`",
            row["rival"],
            f"{row['measure']}: **{float(row['ratio']):.2g}** of the rival's",
        ]
        for row in chosen
    ]
    return table(["task", "ours", "rival", "result"], rows)


def filled(text: str) -> str:
    """Return a README with all its computed parts as they should be."""
    for name, part in {"results": results(), "chapters": chapters()}.items():
        pattern = rf"(?s)(<!-- {name} -->\n).*?(\n<!-- end of {name} -->)"
        text, count = re.subn(pattern, lambda found, part=part: found[1] + part + found[2], text)
        if count != 1:
            raise ValueError(f"README.md needs one part {name!r} between comments, has {count}")
    return text


if __name__ == "__main__":
    README.write_text(filled(README.read_text(encoding="utf-8")), encoding="utf-8")
