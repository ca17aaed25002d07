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
SMALL = RESULTS.with_name("small.csv")

# Comparisons and rivals of the README's table, at the largest size; the book has all of them.
HEADLINES = [
    ("kernel PCA, RBF kernel, 25 components", "scikit-learn's KernelPCA, arpack"),
    ("kernel PCA, RBF kernel, 25 components", "scikit-learn's KernelPCA"),
    ("kernel PCA and a learned way back", "scikit-learn's KernelPCA"),
    ("kernel PCA by 1000 landmarks", "scikit-learn's Nystroem and PCA"),
    ("a pass of KHA/t, 50 components", "all kernel values once (limit)"),
    ("PCA, 25 components", "scikit-learn's PCA, randomised"),
    ("PCA in one pass, 25 components", "scikit-learn's IncrementalPCA"),
    ("autoencoding in equal time, code of 10", "akpca's Autoencoder"),
    ("autoencoding in equal time, code of 10", "scikit-learn's MLPRegressor"),
]


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
    """Return the table of results: the headlines, with one thread."""
    with path.open(encoding="utf-8", newline="") as file:
        found = {
            (row["comparison"], row["rival"]): row  # sizes ascend, and the last one stays
            for row in csv.DictReader(file)
            if row["threads"] == "1"
        }
    rows = []
    for row in map(found.__getitem__, HEADLINES):
        result = f"{float(row['ratio']):.2f} of its {row['measure']}"
        task = f"{row['comparison']} ({row['data']})"
        rows.append([task, f"`{row['ours']}`", row["rival"], result])
    return table(["task", "ours", "a rival", "ours needs, or makes"], rows)


def small(path: Path = SMALL) -> str:
    """Return the table of `KernelPCA` on small data, with the worst of all cells of each size."""
    with path.open(encoding="utf-8", newline="") as file:
        cells = list(csv.DictReader(file))
    rows = []
    for n in sorted({int(cell["n"]) for cell in cells}):
        row = [str(n)]
        for what in ("fit", "transform"):
            found = sorted((c for c in cells if int(c["n"]) == n), key=lambda c: float(c[what]))
            worst = found[-1]
            where = ", ".join([worst["kernel"], worst["dtype"], f"k = {worst['k']}"])
            row += [f"{float(found[len(found) // 2][what]):.2f}"]
            row += [f"{float(worst[what]):.2f} ({where})"]
        rows.append(row)
    return table(["samples", "`fit`, median", "worst", "`transform`, median", "worst"], rows)


def filled(text: str) -> str:
    """Return a README with all its computed parts as they should be."""
    for name, part in {"results": results(), "small": small(), "chapters": chapters()}.items():
        pattern = rf"(?s)(<!-- {name} -->\n).*?(<!-- end of {name} -->)"
        text, count = re.subn(
            pattern, lambda found, part=part: f"{found[1]}\n{part}\n\n{found[2]}", text
        )
        if count != 1:
            raise ValueError(f"README.md needs one part {name!r} between comments, has {count}")
    return text


if __name__ == "__main__":
    README.write_text(filled(README.read_text(encoding="utf-8")), encoding="utf-8")
