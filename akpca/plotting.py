"""The house style of figures: each method has one colour and marker, in all chapters.

Call `use_style` once at the top of a notebook. The same four figures are drawn for each method,
so that methods compare at a glance: `plot_geometry` (what a component is, in the plane),
`plot_codes` (digits by their first two code coordinates), `plot_extremes` (what the components
mean) and `show_images` (reconstructions and denoising as a grid). What does not draw on given axes
returns its matplotlib figure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

__all__ = [
    "GAIN_STYLES",
    "METHOD_STYLES",
    "plain_ticks",
    "plot_codes",
    "plot_contours",
    "plot_curves",
    "plot_error_curves",
    "plot_extremes",
    "plot_geometry",
    "plot_histograms",
    "plot_points",
    "plot_roll",
    "show_images",
    "use_style",
]

Canvas = Figure | SubFigure
Function = Callable[[np.ndarray], np.ndarray]

# Okabe and Ito's palette, which colour-blind readers can tell apart
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PURPLE, BLACK = "#56B4E9", "#CC79A7", "#000000"

# Tol's muted palette, for up to ten classes, its pale grey made dark enough to be seen
CLASS_COLORS = (
    *("#332288", "#CC6677", "#117733", "#AA4499", "#999933"),
    *("#88CCEE", "#882255", "#44AA99", "#DDAA33", "#555555"),
)

#: Line style of each method, for ``ax.plot(..., **METHOD_STYLES["PCA"])``.
METHOD_STYLES: dict[str, dict] = {
    "PCA": {"color": BLUE, "marker": "o"},
    "PCA, not centred": {"color": SKY, "marker": "o", "linestyle": "--"},
    "KPCA": {"color": ORANGE, "marker": "s"},
    "KPCA, not centred": {"color": "#8C5A00", "marker": "s", "linestyle": "--"},
    "Nyström": {"color": PURPLE, "marker": "D"},
    "GHA": {"color": SKY, "marker": "v"},
    "KHA": {"color": RED, "marker": "v"},
    "AKPCA": {"color": GREEN, "marker": "^"},
    "DS-AKPCA": {"color": PURPLE, "marker": "P"},
    "MLP autoencoder": {"color": BLACK, "marker": "x"},
}

#: Line style of each gain of the kernel Hebbian algorithm, by ``gain.name``.
GAIN_STYLES: dict[str, dict] = {
    "KHA": {"color": BLACK, "linestyle": ":"},
    "KHA/t": {"color": RED, "linestyle": "-"},
    "KHA/et*": {"color": BLUE, "linestyle": "-"},
    "KHA/et": {"color": GREEN, "linestyle": "-"},
    "KHA-SMD*": {"color": SKY, "linestyle": "--"},
    "KHA-SMD": {"color": ORANGE, "linestyle": "--"},
    "KHA/s": {"color": BLACK, "linestyle": "--"},
    "KHA/ts": {"color": PURPLE, "linestyle": "--"},
    "KHA/es": {"color": "#8C5A00", "linestyle": "--"},
}

_STYLE = {
    "figure.dpi": 90,
    "figure.constrained_layout.use": True,
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "axes.axisbelow": True,
    "axes.prop_cycle": plt.cycler(color=[BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK]),
    "legend.frameon": False,
    "lines.markersize": 5,
    "image.cmap": "gray_r",
}


def use_style() -> None:
    """Set matplotlib's defaults to the house style."""
    plt.rcParams.update(_STYLE)


def show_images(
    rows: Mapping[str, np.ndarray],
    image_shape: tuple[int, ...],
    *,
    column_titles: Sequence[str] | None = None,
    signed: bool = False,
    scale: float = 0.75,
    fig: Canvas | None = None,
) -> Canvas:
    """Draw images as a grid with one labelled row for each entry of `rows`.

    Parameters
    ----------
    rows : mapping of str to ndarray of shape (n_images, d)
        Row label -> images, each a row of pixels. Grey levels are shared by the whole grid.
    image_shape : tuple of int
        Height, width and, for colour, channels.
    column_titles : sequence of str, default=None
        A title over each column.
    signed : bool, default=False
        Values have a sign (components, differences): each image gets a blue-red scale of its own
        about zero. Otherwise white is 0 and black is 1.
    scale : float, default=0.75
        Size of an image in inches.
    fig : Figure or SubFigure, default=None
        Where to draw, by default on a new figure of fitting size.
    """
    n_columns = max(map(len, rows.values()))
    if fig is None:
        label_width = 0.085 * max(map(len, rows)) + 0.1
        height = (scale + 0.04) * len(rows) + (0.3 if column_titles else 0)
        fig = plt.figure(figsize=(scale * n_columns + label_width, height))
        fig.get_layout_engine().set(w_pad=0.04, h_pad=0.02, wspace=0.02, hspace=0.02)
    axes = fig.subplots(len(rows), n_columns, squeeze=False)
    for axes_row, (label, images) in zip(axes, rows.items(), strict=True):
        for ax in axes_row:
            ax.set(xticks=[], yticks=[])
            ax.spines[:].set_visible(False)
            ax.grid(False)
        axes_row[0].set_ylabel(label, rotation=0, ha="right", va="center")
        for ax, image in zip(axes_row, images, strict=False):
            size = np.abs(image).max() or 1
            colors = dict(cmap="RdBu_r", vmin=-size, vmax=size) if signed else dict(vmin=0, vmax=1)
            ax.imshow(np.reshape(image, image_shape), interpolation="nearest", **colors)
    for ax, title in zip(axes[0], column_titles or (), strict=False):
        ax.set_title(title, loc="center", fontsize=10)
    return fig


def plot_curves(
    x: Sequence[float] | np.ndarray,
    curves: Mapping[str, Sequence[float] | np.ndarray],
    *,
    xlabel: str,
    ylabel: str,
    log: str = "",
    styles: Mapping[str, dict] = METHOD_STYLES,
    ax: Axes | None = None,
) -> Axes:
    """Draw curves over one axis, each in the style of its method, and return the axes.

    Parameters
    ----------
    x : sequence of float
        Where all curves have their values.
    curves : mapping of str to sequence of float
        Name of a curve, as the legend shows it -> its values.
    xlabel, ylabel : str
        What the axes show.
    log : str, default=''
        The axes with a logarithmic scale, 'x', 'y' or 'xy', with plain numbers as ticks.
    styles : mapping of str to dict, default=METHOD_STYLES
        Line style of a curve by its name; others get the next colour of the palette.
    ax : Axes, default=None
        Where to draw, by default on a new figure.
    """
    if ax is None:
        _, ax = plt.subplots(figsize=(6, 3.4))
    for name, values in curves.items():
        ax.plot(x, values, label=name, **styles.get(name, {}))
    ax.set(xlabel=xlabel, ylabel=ylabel)
    for axis in log:
        ax.set(**{f"{axis}scale": "log"})
    plain_ticks(ax)
    if len(curves) > 1:
        ax.legend()
    return ax


def plain_ticks(ax: Axes) -> None:
    """Write the ticks of logarithmic axes as plain numbers, as far as these are short.

    An axis of less than two decades has ticks at 1, 2 and 5 as well.
    """

    def plain(value: float, _position: int) -> str:
        power = np.log10(value)
        return f"{value:g}" if -4 < power < 5 else f"$10^{{{power:.0f}}}$"

    for axis in (ax.xaxis, ax.yaxis):
        if axis.get_scale() == "log":
            low, high = sorted(axis.get_view_interval())
            steps = (1, 2, 5) if low > 0 and high / low < 100 else (1,)
            axis.set_major_locator(LogLocator(subs=steps))
            axis.set_major_formatter(FuncFormatter(plain))
            axis.set_minor_formatter(NullFormatter())


def plot_points(X: np.ndarray, y: np.ndarray, ax: Axes) -> None:
    """Draw two-dimensional points on `ax`, coloured by their (two or three) classes."""
    for label, color in zip(np.unique(y), (RED, BLUE, GREEN), strict=False):
        ax.scatter(*X[y == label].T, s=12, color=color, edgecolor="white", linewidth=0.3)


def plot_contours(
    functions: Mapping[str, Function], X: np.ndarray, y: np.ndarray, *, fig: Canvas | None = None
) -> Canvas:
    """Draw functions on the plane as contour lines, each in its own panel, with the points.

    `functions` maps a panel's title to a function of points (m, 2) with values (m,) or (m, k), of
    which the first column is drawn. The points `X`, shape (n, 2), are coloured by their classes
    `y`; `fig` is as in :func:`show_images`.
    """
    margin = 0.35 * np.ptp(X, axis=0)
    low, high = X.min(axis=0) - margin, X.max(axis=0) + margin
    grid = np.meshgrid(np.linspace(low[0], high[0], 120), np.linspace(low[1], high[1], 120))
    points = np.column_stack([g.ravel() for g in grid])
    fig = fig or plt.figure(figsize=(3.3 * len(functions), 3.2))
    axes = fig.subplots(1, len(functions), sharey=True, squeeze=False)
    for ax, (title, function) in zip(axes[0], functions.items(), strict=True):
        surface = function(points).reshape(len(points), -1)[:, 0].reshape(grid[0].shape)
        size = np.abs(surface).max() or 1
        ax.contourf(*grid, surface, levels=16, cmap="PuOr", vmin=-size, vmax=size, alpha=0.6)
        ax.contour(*grid, surface, levels=16, colors="white", linewidths=0.6)
        plot_points(X, y, ax)
        ax.set(xlabel="$x_1$", title=title, aspect="equal")
        ax.grid(False)
    axes[0, 0].set_ylabel("$x_2$")
    return fig


def plot_geometry(
    encode: Function, X: np.ndarray, y: np.ndarray, *, n_components: int = 3, title="component {}"
) -> Canvas:
    """Draw each component of a code over the plane.

    A component of PCA is a linear function, whose contours are parallel lines; those of a
    non-linear method bend. `encode` maps points (m, 2) to codes (m, n_components or more), `X` and
    `y` are as in :func:`plot_contours`, and `title` has a place for the component's number.
    """
    functions = {title.format(j + 1): lambda Z, j=j: encode(Z)[:, j] for j in range(n_components)}
    return plot_contours(functions, X, y)


def plot_codes(codes: Mapping[str, np.ndarray], y: np.ndarray) -> Figure:
    """Draw the first two code coordinates of labelled data, with one panel for each method.

    `codes` maps a panel's title to codes of shape (n, k). Each class of `y` is named at the median
    of its points, so that no legend is needed: names that cover each other belong to classes that
    do. A code of one number is drawn against the class.
    """
    classes = np.unique(y)
    colors = [CLASS_COLORS[j % len(CLASS_COLORS)] for j in range(len(classes))]
    halo = [patheffects.withStroke(linewidth=3.5, foreground="white")]
    font = {"fontsize": 13, "fontweight": "bold", "ha": "center", "va": "center"}
    fig, axes = plt.subplots(1, len(codes), figsize=(4.6 * len(codes), 4.0), squeeze=False)
    for ax, (title, code) in zip(axes[0], codes.items(), strict=True):
        planar = code[:, :2] if code.shape[1] > 1 else np.c_[code, np.searchsorted(classes, y)]
        clouds = [planar[y == label] for label in classes]
        for points, color in zip(clouds, colors, strict=True):
            ax.scatter(*points.T, s=11, color=color, alpha=0.75, linewidth=0)
        for label, color, points in zip(classes, colors, clouds, strict=True):
            middle = np.median(points, axis=0)
            ax.text(*middle, str(label), color=color, path_effects=halo, zorder=3, **font)
        second = "component 2" if code.shape[1] > 1 else "class"
        ax.set(xlabel="component 1", ylabel=second, title=title)
    return fig


def plot_extremes(
    codes: np.ndarray, X: np.ndarray, image_shape: tuple[int, ...], *, n_components: int = 3
) -> Figure:
    """Show what components mean: the six images at the low and at the high end of each.

    `codes`, shape (n, k), are those of the images `X`, shape (n, d).
    """
    order = np.argsort(codes[:, :n_components], axis=0)
    ends = np.r_[order[:6], order[-6:]].T
    rows = {f"component {j}": X[end] for j, end in enumerate(ends, start=1)}
    titles = ["← low"] + [""] * 10 + ["high →"]
    return show_images(rows, image_shape, column_titles=titles)


def plot_roll(X: np.ndarray, position: np.ndarray, codes: Mapping[str, np.ndarray]) -> Figure:
    """Draw a Swiss roll from its side, and what methods have made of it, one panel each.

    `X`, shape (n, 3), are points of the roll and `position`, shape (n,), where they lie along it,
    which is their colour. `codes` maps a panel's title to codes of shape (n, k), of which the
    first two coordinates are drawn; a code of one number is drawn against the position.
    """
    fig, axes = plt.subplots(1, 1 + len(codes), figsize=(3.0 * (1 + len(codes)), 3.0))
    planes = {"the roll, from its side": X[:, [0, 2]]} | dict(codes)
    for ax, (title, points) in zip(axes, planes.items(), strict=True):
        planar = points[:, :2] if points.shape[1] > 1 else np.c_[points, position]
        drawn = ax.scatter(*planar.T, c=position, s=9, cmap="viridis", linewidth=0)
        second = "component 2" if points.shape[1] > 1 else "position"
        ax.set(xlabel="component 1", ylabel=second, title=title)
    axes[0].set(xlabel="$x_1$", ylabel="$x_3$", aspect="equal")
    fig.colorbar(drawn, ax=axes[-1], label="position along the roll")
    return fig


def plot_histograms(values: Mapping[str, np.ndarray], *, xlabel: str) -> Axes:
    """Draw histograms of numbers, each divided by its standard deviation, and return the axes.

    `values` maps a name to an array of any shape. Densities are logarithmic, since it is the rare
    large values that tell a sparse code from others.
    """
    _, ax = plt.subplots(figsize=(6, 3.2))
    bins = np.linspace(-6, 6, 49)
    for name, numbers in values.items():
        scaled = np.ravel(numbers) / (np.std(numbers) or 1)
        ax.hist(scaled, bins, density=True, histtype="step", linewidth=1.8, label=name)
    ax.set(xlabel=f"{xlabel} / standard deviation", ylabel="density", yscale="log")
    plain_ticks(ax)
    ax.legend()
    return ax


def plot_error_curves(runs: Mapping[str, np.ndarray], ax: Axes) -> None:
    """Draw errors after every pass: medians as lines, bands from the best seed to the worst.

    `runs` maps the name of a gain, a key of `GAIN_STYLES`, to errors of shape (n_seeds, n_passes).
    Infinite ones, of runs that diverged, count in the median, but no band is drawn for them.
    """
    for name, curves in runs.items():
        passes, style = np.arange(1, curves.shape[1] + 1), GAIN_STYLES[name]
        ax.loglog(passes, np.median(curves, axis=0), label=name, **style)
        kept = curves[np.isfinite(curves).all(axis=1)]
        if len(kept):
            low, high = kept.min(axis=0), kept.max(axis=0)
            ax.fill_between(passes, low, high, color=style["color"], alpha=0.12, linewidth=0)
    ax.set(xlabel="passes", ylabel="excess relative error")
    plain_ticks(ax)
