"""The results of a sweep as one figure: a panel for each number, over the first parameter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["draw_sweep", "drawable_results"]

MAX_PANELS = 12


def drawable_results(frame: pd.DataFrame, parameters: Sequence[str]) -> list[str]:
    """Return the names of the results that are numbers in all runs that have them."""
    names = [name for name in frame.columns if name not in {"chapter", *parameters}]
    return [name for name in names if frame[name].notna().any() and _is_numeric(frame[name])]


def _is_numeric(column: pd.Series) -> bool:
    return all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in column.tolist()
    )


def draw_sweep(
    frame: pd.DataFrame, swept: Sequence[str], names: Sequence[str], path: Path
) -> list[str]:
    """Draw results of a sweep, and return the names of those that were drawn.

    The first swept parameter is the horizontal axis, and each combination of the others has a
    curve. A swept `seed` is neither, unless it is alone: the curve is the mean over the seeds and
    the band goes from the smallest to the largest value.
    """
    from matplotlib.figure import Figure

    from akpca import plotting

    axis, *others = [name for name in swept if name != "seed"] or list(swept)
    names = list(names)[:MAX_PANELS]
    columns = min(3, max(len(names), 1))
    rows = -(-len(names) // columns) or 1
    plotting.use_style()
    figure = Figure(figsize=(4 * columns, 3 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel, name in zip(panels, names, strict=False):
        _draw_panel(panel, frame, axis, others, name)
    for panel in panels[len(names) :]:
        panel.set_axis_off()
    if others:
        panels[0].legend(fontsize="small")
    figure.savefig(path, dpi=120)
    return names


def _draw_panel(
    panel: Any, frame: pd.DataFrame, axis: str, others: Sequence[str], name: str
) -> None:
    """Draw one result over one parameter, with a curve for each combination of the others."""
    texts = frame[axis].map(str)
    numeric = _is_numeric(frame[axis])
    positions = (
        frame[axis] if numeric else texts.map({t: i for i, t in enumerate(dict.fromkeys(texts))})
    )
    label = (
        frame[list(others)].map(str).agg(", ".join, axis=1) if others else texts.map(lambda _: "")
    )
    for curve in dict.fromkeys(label):
        rows = label == curve
        groups = frame[name][rows].astype(float).groupby(positions[rows])
        mean, low, high = groups.mean(), groups.min(), groups.max()
        x = mean.index.to_numpy(float)
        text = ", ".join(f"{o} = {v}" for o, v in zip(others, curve.split(", "), strict=False))
        (line,) = panel.plot(x, mean, marker="o", label=text or None)
        if (groups.count() > 1).any():
            panel.fill_between(x, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    if numeric:
        panel.set_xticks(np.unique(positions)[:8])
    else:
        panel.set_xticks(range(len(set(texts))), list(dict.fromkeys(texts)), rotation=20)
    panel.set(xlabel=axis, title=name)
