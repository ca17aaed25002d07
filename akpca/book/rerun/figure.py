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
    """Draw results of a sweep, and return the names of those that were drawn, twelve at most.

    The first swept parameter is the horizontal axis, and each combination of the others has a
    curve. A swept `seed` is neither, unless it is alone: the curve is the mean over the seeds and
    the band goes from the smallest to the largest value.
    """
    from matplotlib.figure import Figure

    from akpca.book import plotting

    plotting.use_style()
    axis, *others = [name for name in swept if name != "seed"] or list(swept)
    names = list(names)[:MAX_PANELS]
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    canvas = Figure(figsize=(4 * columns, 3 * rows), layout="constrained")
    panels = canvas.subplots(rows, columns, squeeze=False).ravel()
    for panel, name in zip(panels, names, strict=False):
        places, ticks = _places(frame[axis])
        panel.set_xticks(list(ticks), list(ticks.values()), rotation=0 if len(ticks) < 7 else 45)
        panel.set(xlabel=axis, title=name)
        for label, part in _curves(frame, others):
            _draw_curve(panel, places[part], frame[name][part], label)
    for panel in panels[len(names) :]:
        panel.set_axis_off()
    if others:
        panels[0].legend(fontsize="small")
    canvas.savefig(path, dpi=120)
    return names


def _places(column: pd.Series) -> tuple[pd.Series, dict[float, str]]:
    """Return where the values of a parameter are on the axis, and the labels of these places."""
    values = column if _is_numeric(column) else column.map(str)
    order = sorted(set(values)) if _is_numeric(column) else list(dict.fromkeys(values))
    places = order if _is_numeric(column) else range(len(order))
    where = dict(zip(order, places, strict=True))
    return values.map(where), {place: str(value) for value, place in where.items()}


def _curves(frame: pd.DataFrame, others: Sequence[str]) -> list[tuple[str, Any]]:
    """Return a label and the rows of each combination of the other parameters."""
    labels = [
        ", ".join(f"{name} = {value}" for name, value in zip(others, row, strict=True))
        for row in frame[list(others)].itertuples(index=False)
    ] or [""] * len(frame)
    return [(label, np.array(labels) == label) for label in dict.fromkeys(labels)]


def _draw_curve(panel: Any, places: pd.Series, values: pd.Series, label: str) -> None:
    """Draw the mean of the values at each place, and their range where there are several."""
    groups = values.astype(float).groupby(places.astype(float))
    mean, x = groups.mean(), groups.mean().index
    (line,) = panel.plot(x, mean, marker="o", label=label or None)
    if groups.count().max() > 1:
        low, high = groups.min(), groups.max()
        panel.fill_between(x, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
