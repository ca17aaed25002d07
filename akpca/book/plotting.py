"""The house style of figures: each method has one colour and marker, in all chapters.

Call `use_style` once at the top of a notebook. The same four figures are drawn for each method,
so that methods compare at a glance: `plot_geometry` (what a component is, in the plane),
`plot_codes` (digits by their first two code coordinates), `plot_extremes` (what the components
mean) and `show_images` (reconstructions and denoising as a grid). What does not draw on given axes
returns its matplotlib figure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import BytesIO

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from PIL import Image

__all__ = [
    "GAIN_STYLES",
    "METHOD_STYLES",
    "REPORT_STYLES",
    "STREAM_STYLES",
    "animate_skeletons",
    "plain_ticks",
    "plot_bands",
    "plot_best_line",
    "plot_bound",
    "plot_build_up",
    "plot_clouds",
    "plot_code_curve",
    "plot_codes",
    "plot_contours",
    "plot_cosines",
    "plot_curve_panels",
    "plot_curves",
    "plot_descents",
    "plot_error_curves",
    "plot_error_panels",
    "plot_extremes",
    "plot_gain_range",
    "plot_geometry",
    "plot_histograms",
    "plot_measures",
    "plot_pairs",
    "plot_pass_panels",
    "plot_paths",
    "plot_points",
    "plot_predictions",
    "plot_prices",
    "plot_progress",
    "plot_projections",
    "plot_report",
    "plot_rivals",
    "plot_roll",
    "plot_round_trip",
    "plot_skeletons",
    "plot_weight_paths",
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
    "kernel PCA": {"color": ORANGE, "marker": "s"},
    "kernel PCA, not centred": {"color": "#8C5A00", "marker": "s", "linestyle": "--"},
    "Nyström": {"color": PURPLE, "marker": "D"},
    "GHA": {"color": SKY, "marker": "v"},
    "KHA": {"color": RED, "marker": "v"},
    "AKPCA": {"color": GREEN, "marker": "^"},
    "DS-AKPCA": {"color": PURPLE, "marker": "P"},
    "ridge autoencoder": {"color": RED, "marker": "D"},
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
    "auto": {"color": PURPLE, "linestyle": "-."},
    "merged once": {"color": BLACK, "marker": "*", "linestyle": ""},
    "exact": {"color": "#555555", "linestyle": (0, (6, 2))},
    "random": {"color": "#999999", "linestyle": (0, (1, 1))},
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
            size = (np.abs(image).max() or 1) if signed else None
            _draw_image(ax, np.reshape(image, image_shape), size)
    for ax, title in zip(axes[0], column_titles or (), strict=False):
        ax.set_title(title, loc="center", fontsize=10)
    return fig


def plot_code_curve(
    codes: np.ndarray,
    values: np.ndarray,
    points: Mapping[str, np.ndarray],
    *,
    label: str,
) -> Figure:
    """Draw the codes of samples with one degree of freedom as a curve, and other codes around it.

    Parameters
    ----------
    codes : ndarray of shape (n, 2)
        Codes along the curve, in order.
    values : ndarray of shape (n,)
        What varies along the curve; its colour.
    points : mapping of str to ndarray of shape (m, 2)
        Name of some codes, as the legend shows it -> the codes.
    label : str
        What the values are.
    """
    fig, ax = plt.subplots(figsize=(6.4, 3.6))
    ax.plot(*codes.T, color="#888888", linewidth=1, zorder=1)
    dots = ax.scatter(*codes.T, c=values, s=16, cmap="viridis", zorder=2)
    fig.colorbar(dots, ax=ax, label=label)
    markers = zip(("o", "X", "s", "^"), (RED, BLACK, BLUE, PURPLE), strict=True)
    for (name, some), (marker, color) in zip(points.items(), markers, strict=False):
        ax.scatter(
            *some.T, s=90, marker=marker, color=color, edgecolor="white", zorder=3, label=name
        )
    ax.set(xlabel="component 1", ylabel="component 2")
    ax.legend(loc="best")
    return fig


def plot_progress(
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]] | np.ndarray],
    *,
    xlabel: str,
    ylabel: str,
    log: str = "y",
) -> Axes:
    """Draw what methods have reached after some work, and return the axes.

    `curves` maps the name of a curve, as the legend shows it, to its x and its y; unlike those of
    :func:`plot_curves`, curves may have different x. `log` is as there.
    """
    _, ax = plt.subplots(figsize=(7.4, 3.6))
    looks = zip((PURPLE, GREEN, ORANGE, BLACK), ("D", "^", "s", "x"), strict=True)
    for (name, (x, y)), (color, marker) in zip(curves.items(), looks, strict=False):
        ax.plot(x, y, label=name, color=color, marker=marker)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axis in log:
        ax.set(**{f"{axis}scale": "log"})
    plain_ticks(ax)
    ax.legend()
    return ax


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


def plot_round_trip(
    x: np.ndarray, y: np.ndarray, x_hat: np.ndarray, image_shape: tuple[int, ...]
) -> Figure:
    """Show what an encoder and a decoder do to an image: the image, its code, the image decoded.

    `x` and `x_hat` have shape (d,), `y` has shape (k,) and is drawn as bars.
    """
    fig, axes = plt.subplots(1, 3, figsize=(8.5, 2.2), width_ratios=(1, 2, 1))
    titles = ("$x$", "$y = f(x)$", "$\\hat x = g(y)$")
    for ax, title, image in zip(axes, titles, (x, None, x_hat), strict=True):
        ax.set_title(title, loc="center")
        if image is not None:
            _draw_image(ax, image.reshape(image_shape))
    axes[1].bar(np.arange(1, len(y) + 1), y, color=BLUE)
    axes[1].axhline(0, color=BLACK, linewidth=0.8)
    axes[1].xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes[1].set(xlabel="coordinate of the code", ylabel="value")
    return fig


def plot_best_line(
    points: np.ndarray, angles: np.ndarray, lost: np.ndarray, captured: np.ndarray
) -> Figure:
    """Draw points with the line through 0 that loses least, and what lines of all angles lose.

    `points`, shape (n, 2), are centred; `lost` and `captured` are sums of squares, in the order of
    `angles`, in radians.
    """
    best = angles[np.argmin(lost)]
    direction = np.array([np.cos(best), np.sin(best)])
    feet = np.outer(points @ direction, direction)
    ends = 1.15 * np.abs(points @ direction).max() * np.array([-1, 1])
    fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.3), width_ratios=(1, 1.2))
    left.plot(*np.stack([points, feet], axis=1).T, color="0.6", linewidth=1)
    left.plot(*np.outer(ends, direction).T, color=RED)
    left.scatter(*points.T, s=12, color=BLUE, zorder=3)
    left.set(xlabel="$x_1$", ylabel="$x_2$", aspect="equal", title="the best line")
    right.plot(np.degrees(angles), captured, color=GREEN, label="captured")
    right.plot(np.degrees(angles), lost, color=ORANGE, label="lost")
    right.axvline(np.degrees(best), color=RED, linewidth=1, label="the best line")
    right.set(
        xlabel="angle of the line (degrees)", ylabel="sum of squares", xticks=range(0, 181, 45)
    )
    right.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return fig


def plot_build_up(
    mean: np.ndarray,
    components: np.ndarray,
    code: np.ndarray,
    image_shape: tuple[int, ...],
    *,
    original: np.ndarray | None = None,
) -> Figure:
    """Show how an image is built: mean + y_1 v_1 + ... in one row, the sums so far in another.

    Parameters
    ----------
    mean : ndarray of shape (d,)
        Where the sum starts.
    components : ndarray of shape (k, d)
        v_1, ..., v_k.
    code : ndarray of shape (k,)
        y_1, ..., y_k. The terms y_j v_j share one blue-red scale about zero.
    image_shape : tuple of int
        As in :func:`show_images`.
    original : ndarray of shape (d,), default=None
        The image to compare with, in a last column.
    """
    terms = code[:, None] * components
    sums = mean + np.r_[np.zeros((1, len(mean))), np.cumsum(terms, axis=0)]
    n_columns, size = len(sums) + (original is not None), np.abs(terms).max() or 1
    fig, axes = plt.subplots(2, n_columns, figsize=(1.05 * n_columns + 0.6, 2.7), squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    for j, total in enumerate(sums):
        top, scale = (terms[j - 1], size) if j else (mean, None)
        _draw_image(axes[0, j], top.reshape(image_shape), scale)
        _draw_image(axes[1, j], total.reshape(image_shape))
        sign = "−" if j and code[j - 1] < 0 else "+"
        label = f"{sign} {abs(code[j - 1]):.1f} $v_{{{j}}}$" if j else "$\\bar x$"
        axes[0, j].set_title(label, loc="center", fontsize=10)
    for row, name in zip(axes, ("term", "sum so far"), strict=True):
        row[0].set_axis_on()
        row[0].set_ylabel(name, rotation=0, ha="right", va="center")
    if original is not None:
        _draw_image(axes[1, -1], original.reshape(image_shape))
        axes[1, -1].set_title("original", loc="center", fontsize=10)
    return fig


def _draw_image(ax: Axes, image: np.ndarray, size: float | None = None) -> None:
    """Draw an image without ticks, frame and grid: from 0 to 1 or, if signed, up to `size`."""
    colors = {"vmin": 0, "vmax": 1} if size is None else {"vmin": -size, "vmax": size}
    if size is None:
        image = np.clip(image, 0, 1)
    elif image.ndim == 3:  # colours have no colour map: zero is grey
        image = 0.5 + 0.5 * image / size
    else:
        colors["cmap"] = "RdBu_r"
    ax.imshow(image, interpolation="nearest", **colors)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.grid(False)


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


def plot_projections(
    points: np.ndarray,
    y: np.ndarray,
    numbers: Mapping[str, np.ndarray],
    *,
    names: Sequence[str],
    arrow: np.ndarray | None = None,
) -> Figure:
    """Draw points, and next to them how numbers that describe them are spread.

    `points`, shape (n, 2) or (n, 3), have two or three classes `y`, whose `names` the legend
    shows. `numbers` maps a panel's title to one number for each point. In space, `arrow` is a
    direction to draw from the origin.
    """
    labels, spatial = np.unique(y), points.shape[1] == 3
    fig = plt.figure(figsize=(3.2 + (2.9 if len(numbers) > 1 else 4.6) * len(numbers), 3.1))
    grid = fig.add_gridspec(1, 1 + len(numbers), width_ratios=(1.2, *[1.0] * len(numbers)))
    ax = fig.add_subplot(grid[0], projection="3d" if spatial else None)
    if spatial:
        for label, color in zip(labels, (RED, BLUE, GREEN), strict=False):
            ax.scatter(*points[y == label].T, s=6, color=color)
        if arrow is not None:
            ax.quiver(0, 0, 0, *arrow, color=GREEN, linewidth=3)
        ax.set(xlabel="$z_1$", ylabel="$z_2$", zlabel="$z_3$", title="feature space")
        ax.yaxis.labelpad = 9
        ax.locator_params(nbins=2)
        ax.set_box_aspect(None, zoom=0.8)
    else:
        plot_points(points, y, ax)
        ax.set(xlabel="$x_1$", ylabel="$x_2$", title="the plane", aspect="equal")
    for place, (title, z) in enumerate(numbers.items(), start=1):
        ax = fig.add_subplot(grid[place], xlabel="first component", title=title)
        bins = np.linspace(z.min(), z.max(), 31)
        for label, name, color in zip(labels, names, (RED, BLUE, GREEN), strict=False):
            ax.hist(z[y == label], bins, color=color, alpha=0.65, label=name)
        if place == 1:
            ax.set_ylabel("points")
            ax.legend(loc="upper center")
            ax.margins(y=0.3)
    return fig


def plot_clouds(X: np.ndarray, y: np.ndarray, codes: Mapping[str, np.ndarray]) -> Figure:
    """Draw points of the plane and, each in a panel of its own, codes of two numbers for them.

    `X`, shape (n, 2), has two or three classes `y`; `codes` maps a panel's title to an array of
    shape (n, 2 or more). :func:`plot_codes` is for more classes, which it names.
    """
    fig, axes = plt.subplots(1, 1 + len(codes), figsize=(2.9 * (1 + len(codes)), 2.9))
    plot_points(X, y, axes[0])
    axes[0].set(xlabel="$x_1$", ylabel="$x_2$", title="the plane")
    axes[0].set_aspect("equal", adjustable="datalim")
    for ax, (title, code) in zip(axes[1:], codes.items(), strict=True):
        plot_points(code[:, :2], y, ax)
        ax.set(xlabel="component 1", title=title)
        ax.margins(0.1)
    axes[1].set_ylabel("component 2")
    return fig


def plot_geometry(
    encode: Function, X: np.ndarray, y: np.ndarray, *, n_components: int = 3
) -> Canvas:
    """Draw each component of a code over the plane.

    A component of PCA is a linear function, whose contours are parallel lines; those of a
    non-linear method bend. `encode` maps points (m, 2) to codes (m, n_components or more); `X` and
    `y` are as in :func:`plot_contours`.
    """
    functions = {f"component {j + 1}": lambda Z, j=j: encode(Z)[:, j] for j in range(n_components)}
    return plot_contours(functions, X, y)


def plot_weight_paths(
    cloud: np.ndarray, axis: np.ndarray, paths: Mapping[str, np.ndarray]
) -> Figure:
    """Draw where the weights of a neuron go, in the plane of the data, and how long they are.

    `cloud`, shape (n, 2), are the samples and `axis`, shape (2,), is their first component. `paths`
    maps a name to weights after each sample, shape (n + 1, 2); what is longer than 2.3 is cut off.
    """
    radius = 2.3
    fig, (plane, lengths) = plt.subplots(1, 2, figsize=(9.6, 4.0), width_ratios=(1, 1.25))
    plane.scatter(*cloud.T, s=6, color="0.72", linewidth=0)
    plane.add_patch(plt.Circle((0, 0), 1, fill=False, color="0.35", linestyle="--"))
    plane.plot(*(radius * np.outer([-1, 1], axis)).T, color=BLACK, linewidth=1)
    for name, path in paths.items():
        (line,) = plane.plot(*path.T, linewidth=1.8)
        plane.plot(*path[0], "o", color=line.get_color(), markersize=7)
        lengths.plot(np.linalg.norm(path, axis=1), color=line.get_color(), label=name)
    lengths.axhline(1, color="0.35", linestyle="--", linewidth=1)
    limits = (-radius, radius)
    plane.set(xlabel="$w_1$", ylabel="$w_2$", aspect="equal", xlim=limits, ylim=limits)
    lengths.set(xlabel="samples", ylabel=r"length $\Vert w\Vert$", ylim=(0, radius))
    lengths.legend(loc="upper right")
    return fig


def plot_cosines(cosines: Mapping[str, np.ndarray], *, xlabel: str, ylabel: str) -> Figure:
    """Draw matrices of |cosines|, shape (k, k), as one panel each, on one scale from 0 to 1."""
    width = 3.7 * len(cosines) + 1
    fig, axes = plt.subplots(1, len(cosines), figsize=(width, 3.7), sharey=True, squeeze=False)
    for ax, (title, matrix) in zip(axes[0], cosines.items(), strict=True):
        rows, columns = matrix.shape
        extent = (0.5, columns + 0.5, rows + 0.5, 0.5)
        image = ax.imshow(matrix, vmin=0, vmax=1, cmap="Blues", extent=extent)
        ticks = [np.unique(np.linspace(1, size, min(size, 8)).astype(int)) for size in matrix.shape]
        ax.set(xlabel=xlabel, title=title, xticks=ticks[1], yticks=ticks[0])
        ax.grid(False)
    axes[0, 0].set_ylabel(ylabel)
    fig.colorbar(image, ax=axes, label="|cosine|")
    return fig


def plot_gain_range(
    x: Sequence[float] | np.ndarray,
    curves: Mapping[str, Sequence[float] | np.ndarray],
    *,
    xlabel: str,
    ylabel: str,
    top: float = np.inf,
    styles: Mapping[str, dict] = METHOD_STYLES,
) -> Axes:
    """Draw results over a logarithmic range of gains as :func:`plot_curves` does.

    Where a value is not finite, a run has diverged: a cross at the top of the figure says so, in
    the colour of its curve. Finite values above `top` are cut off.
    """
    _, ax = plt.subplots(figsize=(7.6, 3.8))
    plot_curves(x, curves, xlabel=xlabel, ylabel=ylabel, log="x", styles=styles, ax=ax)
    values = np.array(list(curves.values()), dtype=float)
    low, high = values[np.isfinite(values)].min(), min(values[np.isfinite(values)].max(), top)
    step = 0.08 * (high - low or 1)
    ax.set_ylim(low - step, high + step * (1 + len(curves)))
    crosses = {"marker": "x", "markersize": 8, "markeredgewidth": 2, "linestyle": "none"}
    for row, (line, results) in enumerate(zip(ax.get_lines(), values, strict=True)):
        gone = np.asarray(x)[~np.isfinite(results)]
        height = high + step * (len(curves) - row)
        ax.plot(gone, np.full(len(gone), height), color=line.get_color(), **crosses)
    if not np.isfinite(values).all():
        ax.plot([], [], color="0.35", label="diverged", **crosses)
    ax.legend()
    return ax


def plot_bands(
    x: Sequence[float] | np.ndarray,
    runs: Mapping[str, np.ndarray],
    *,
    xlabel: str,
    ylabel: str,
    log: str = "",
) -> Axes:
    """Draw medians as :func:`plot_curves` does, with bands from the least value to the largest.

    `runs` maps a name to values of shape (n_runs, n_points).
    """
    medians = {name: np.median(values, axis=0) for name, values in runs.items()}
    ax = plot_curves(x, medians, xlabel=xlabel, ylabel=ylabel, log=log)
    for line, values in zip(ax.get_lines(), runs.values(), strict=True):
        ends = np.min(values, axis=0), np.max(values, axis=0)
        ax.fill_between(x, *ends, color=line.get_color(), alpha=0.15, linewidth=0)
    return ax


def plot_codes(codes: Mapping[str, np.ndarray], y: np.ndarray) -> Figure:
    """Draw the first two code coordinates of labelled data, with one panel for each method.

    `codes` maps a panel's title to codes of shape (n, k). Each class of `y` is named at the median
    of its points, so that no legend is needed: names that cover each other belong to classes that
    do. A single class is not named. A code of one number is drawn against the class.
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
            if len(classes) == 1:
                break
            middle = np.median(points, axis=0)
            ax.text(*middle, str(label), color=color, path_effects=halo, zorder=3, **font)
        second = "component 2" if code.shape[1] > 1 else "class"
        ax.set(xlabel="component 1", ylabel=second, title=title)
        ax.locator_params(axis="x", nbins=6)  # more ticks would touch in a narrow panel
    return fig


def plot_bound(
    clouds: Mapping[str, np.ndarray],
    x: Sequence[float] | np.ndarray,
    worst: Sequence[float] | np.ndarray,
    bound: float,
) -> Axes:
    """Draw what an inequality allows and what happens: points, the worst cases and the bound.

    `clouds` maps a name to points of shape (n, 2), whose first coordinate has a logarithmic axis;
    `worst` has a value for each `x`, and a dashed line is drawn at `bound`.
    """
    _, ax = plt.subplots(figsize=(7.4, 3.8))
    for (name, cloud), color in zip(clouds.items(), (SKY, ORANGE, GREEN), strict=False):
        ax.scatter(*cloud.T, s=9, color=color, alpha=0.8, linewidth=0, label=name)
    ax.plot(x, worst, color=RED, label="the worst")
    ax.axhline(bound, color="black", linestyle="--", linewidth=1.2, label="the bound")
    ax.set(xscale="log", xlim=(x[0], x[-1]), ylim=(0, 1.05 * bound))
    plain_ticks(ax)
    ax.legend(loc="center left")
    return ax


def plot_descents(
    passes: Sequence[float],
    steps: Sequence[float],
    curves: Mapping[str, np.ndarray],
    *,
    ylabel: str,
) -> Figure:
    """Draw how losses fall, at the best step, and how the last one depends on the step.

    `curves` maps a name to losses of shape (n_steps, n_passes). The first word of a name, the
    optimiser, tells the colour; names with "random" in them are dashed. Losses above 1.1 are left
    out: a descent that diverges goes off the top.
    """
    colors = {"SGD": RED, "SVRG": PURPLE, "Adam": GREEN}
    styles = {
        name: {
            "color": colors.get(name.split(",")[0], BLACK),
            "marker": "o",
            "linestyle": "--" if "random" in name else "-",
        }
        for name in curves
    }
    best = {name: losses[np.argmin(losses[:, -1])] for name, losses in curves.items()}
    ends = {name: losses[:, -1] for name, losses in curves.items()}
    fig, axes = plt.subplots(1, 2, figsize=(9.8, 3.6), sharey=True)
    plot_curves(
        passes, best, xlabel="passes, at the best step", ylabel=ylabel, styles=styles, ax=axes[0]
    )
    plot_curves(steps, ends, xlabel="step", ylabel="", log="x", styles=styles, ax=axes[1])
    axes[0].get_legend().remove()
    axes[0].set(xticks=passes, ylim=(0, 1.1))
    axes[1].set_xticks(steps, [f"{step:g}" for step in steps])
    axes[1].set_xticks([], minor=True)
    axes[1].legend(loc="upper left", bbox_to_anchor=(1, 1))
    return fig


def plot_rivals(sizes: Sequence[int], ratios: Mapping[str, Sequence[float]]) -> Axes:
    """Draw errors in units of PCA's against the size of the code, a line for each method.

    Lines of one family share a colour: PCA with another decoder, networks, forms of AKPCA. The
    name that begins a method's name tells the family.
    """
    families = {
        "PCA": "PCA",
        "kernel PCA": "kernel PCA",
        "a network": "MLP autoencoder",
        "AKPCA": "AKPCA",
        "ridge autoencoder": "ridge autoencoder",
    }
    dashes = {family: iter(("-", "--", ":")) for family in families}
    dashes["AKPCA"] = iter((":", "--"))
    styles = {}
    for name in ratios:
        family = next(f for f in families if name.startswith(f))
        styles[name] = METHOD_STYLES[families[family]] | {"linestyle": next(dashes[family])}
    _, ax = plt.subplots(figsize=(8.4, 4.2))
    labels = {"xlabel": "components", "ylabel": "held-out error / that of PCA"}
    plot_curves(sizes, ratios, styles=styles, ax=ax, **labels)
    ax.set(xticks=sizes)
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return ax


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


def plot_error_panels(panels: Mapping[str, Mapping[str, np.ndarray]]) -> Figure:
    """Draw `plot_error_curves` of several tasks, each in its own panel, by their titles."""
    shape = {"figsize": (4.9 * len(panels), 3.8), "sharey": True, "squeeze": False}
    fig, axes = plt.subplots(1, len(panels), **shape)
    for ax, (title, runs) in zip(axes[0], panels.items(), strict=True):
        plot_error_curves(runs, ax)
        ax.set(title=title, ylabel="" if ax is not axes[0, 0] else "excess relative error")
    axes[0, 0].legend()
    return fig


def plot_pass_panels(
    panels: Mapping[str, Mapping[str, tuple[np.ndarray, np.ndarray]]],
    *,
    ylabel: str = "excess relative error",
    yscale: str = "log",
    n_columns: int = 2,
) -> Figure:
    """Draw results after passes in panels with one legend: medians, and bands over all seeds.

    Parameters
    ----------
    panels : mapping of str to mapping
        Title -> name of a gain -> passes, shape (m,), and results, shape (n_seeds, m). Infinite
        ones, of runs that diverged, count in the median, but no band is drawn for them.
    ylabel, yscale : str
        Of all panels, which share their axis.
    n_columns : int, default=2
        Panels beside each other.
    """
    n_rows, n_columns = -(-len(panels) // n_columns), min(n_columns, len(panels))
    width = min(4.9, 10.5 / n_columns)
    size = width * n_columns, (0.2 + 0.6 * width) * n_rows + 0.7
    fig, axes = plt.subplots(n_rows, n_columns, figsize=size, squeeze=False, sharey=True)
    fig.set_dpi(70)  # many lines make a large file
    handles: dict = {}
    for ax, (title, runs) in zip(axes.flat, panels.items(), strict=False):
        for name, (passes, values) in runs.items():
            # what is smaller is rounding, and would only stretch the axis
            values = np.maximum(values, 1e-9) if yscale == "log" else values
            style = GAIN_STYLES.get(name, {})
            (handles[name],) = ax.plot(passes, np.median(values, axis=0), **style)
            kept, color = values[np.isfinite(values).all(axis=1)], handles[name].get_color()
            if len(kept) and len(passes) > 1:
                bounds = kept.min(axis=0), kept.max(axis=0)
                ax.fill_between(passes, *bounds, color=color, alpha=0.12, linewidth=0)
        ax.set(title=title, xlabel="passes", xscale="log", yscale=yscale)
        plain_ticks(ax)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    for ax in axes[:, 0]:
        ax.set_ylabel(ylabel)
    fig.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5, fontsize=9)
    return fig


#: Line style of the methods of `akpca.book.experiments.report`: the report's own have solid lines.
REPORT_STYLES: dict[str, dict] = {
    "PCA": METHOD_STYLES["PCA"],
    "kernel PCA": METHOD_STYLES["kernel PCA"],
    "AKPCA (18)": METHOD_STYLES["AKPCA"],
    "DS-AKPCA (18)": METHOD_STYLES["DS-AKPCA"],
    "AKPCA (15)": {"color": "#005040", "marker": "v", "linestyle": "--"},
    "ridge autoencoder": METHOD_STYLES["ridge autoencoder"] | {"linestyle": "--"},
    "PCA + ridge": {"color": SKY, "marker": "o", "linestyle": "--"},
    "deep autoencoder": {"color": BLACK, "marker": "x", "linestyle": "--"},
    "ridge autoencoder, with noise": {"color": "#8C5A00", "marker": "D", "linestyle": ":"},
    "deep autoencoder, with noise": {"color": "#777777", "marker": "x", "linestyle": ":"},
}


def plot_report(
    panels: Mapping[str, tuple[Sequence[float], Mapping[str, Sequence[np.ndarray]]]],
    *,
    xlabel: str,
    ylabel: str,
    n_columns: int = 2,
) -> Figure:
    """Draw the results of methods in panels with one legend.

    `panels` maps a title to x and method -> for each x the results of all seeds. Lines are means,
    bands go from the smallest to the largest. An x without a result has an empty array.
    """
    n_rows = -(-len(panels) // n_columns)
    shape = {"figsize": (10, 2.2 * n_rows + 0.7), "squeeze": False, "sharey": True}
    fig, axes = plt.subplots(n_rows, min(n_columns, len(panels)), **shape)
    handles: dict = {}
    for ax, (title, (x, methods)) in zip(axes.flat, panels.items(), strict=False):
        for method, results in methods.items():
            kept = [(at, values) for at, values in zip(x, results, strict=True) if len(values)]
            at, rows = [at for at, _ in kept], [values for _, values in kept]
            style = REPORT_STYLES.get(method, {})
            (handles[method],) = ax.plot(at, [np.mean(row) for row in rows], **style)
            low, high = [np.min(row) for row in rows], [np.max(row) for row in rows]
            ax.fill_between(at, low, high, color=handles[method].get_color(), alpha=0.1, lw=0)
        ax.set(xticks=x, xlabel=xlabel)
        ax.set_title(title, fontsize=9)
        plain_ticks(ax)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    for ax in axes[:, 0]:
        ax.set_ylabel(ylabel)
    fig.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5, fontsize=9)
    fig.set_dpi(70)  # many lines make a large file
    return fig


def plot_pairs(
    panels: Mapping[str, Mapping[str, tuple[float, float]]],
    *,
    names: tuple[str, str],
    xlabel: str,
) -> Figure:
    """Draw two results of each method as a hollow and a full dot on one line, in panels.

    `panels` maps a title to method -> the two results, which `names` describes.
    """
    height = 0.34 * max(map(len, panels.values())) + 1.2
    shape = {"figsize": (2.1 * len(panels) + 2.4, height), "sharex": True, "sharey": True}
    fig, axes = plt.subplots(1, len(panels), squeeze=False, **shape)
    for ax, (title, methods) in zip(axes[0], panels.items(), strict=True):
        for i, (method, pair) in enumerate(methods.items()):
            color = REPORT_STYLES.get(method, {}).get("color", BLACK)
            ax.plot(pair, (i, i), color=color, linewidth=2, alpha=0.5)
            ax.plot(pair[0], i, "o", markersize=8, markerfacecolor="white", color=color)
            ax.plot(pair[1], i, "o", markersize=8, color=color)
        ax.set(title=title, yticks=range(len(methods)), yticklabels=methods)
        ax.locator_params(axis="x", nbins=4)
    axes[0, 0].invert_yaxis()
    fig.supxlabel(xlabel, fontsize=11)
    hollow, full = (
        plt.Line2D([], [], marker="o", linestyle="", color="#555555", markerfacecolor=face)
        for face in ("white", "#555555")
    )
    fig.legend((hollow, full), names, loc="outside upper center", ncols=2)
    return fig


def plot_curve_panels(
    x: Sequence[float] | np.ndarray,
    panels: Mapping[str, Mapping[str, Sequence[float] | np.ndarray]],
    *,
    sharey: bool = True,
    **options,
) -> Figure:
    """Draw `plot_curves` of several tasks, each in its own panel, by their titles.

    `options` are those of :func:`plot_curves` for all panels. Ticks of `x` are integers.
    """
    shape = {"figsize": (4.8 * len(panels), 3.4), "sharey": sharey, "squeeze": False}
    fig, axes = plt.subplots(1, len(panels), **shape)
    for ax, (title, curves) in zip(axes[0], panels.items(), strict=True):
        plot_curves(x, curves, ax=ax, **options)
        ax.set_title(title)
        if ax.get_xscale() == "linear":
            ax.xaxis.get_major_locator().set_params(integer=True)
        if sharey and ax is not axes[0, 0]:
            ax.set_ylabel("")
    return fig


def plot_predictions(
    panels: Mapping[str, tuple[Mapping, Mapping[str, Function]]], *, xlabel: str
) -> Figure:
    """Draw measured points and the curves that a theory predicts, on logarithmic scales.

    `panels` maps the label of a y axis to `measured` and `predicted`: name -> x and y, and the same
    name -> a function of x. Points that are 0 are not drawn. An x axis begins at 0, a y axis at
    half of the smallest y.
    """
    fig, axes = plt.subplots(1, len(panels), figsize=(5 * len(panels), 3.6), squeeze=False)
    for ax, (ylabel, (measured, predicted)) in zip(axes[0], panels.items(), strict=True):
        widest = max((x.max() for x, _ in measured.values() if len(x)), default=1.0)
        grid = np.linspace(0, 1.05 * widest, 100)
        for (name, (x, y)), color, mark in zip(
            measured.items(), (BLUE, ORANGE, GREEN, RED), "osD^", strict=False
        ):
            ax.plot(x[y > 0], y[y > 0], mark, color=color, label=name)
            ax.plot(grid, predicted[name](grid), color=color, label=f"{name}, predicted")
        ax.set(yscale="log", xlim=(0, grid[-1]), xlabel=xlabel, ylabel=ylabel)
        values = np.concatenate([y[y > 0] for _, y in measured.values()])
        if len(values):
            ax.set_ylim(bottom=values.min() / 2)
        plain_ticks(ax)
        ax.legend(fontsize=9)
    return fig


def plot_paths(objective: Callable, paths: Mapping[str, np.ndarray]) -> Figure:
    """Draw how methods descend in a plane: their paths, gains and losses.

    `objective` is a function of the two coordinates, which may be arrays. `paths` maps a name to an
    array with a row for each step: both coordinates and the logarithm of the gain. Losses are means
    over 20 steps.
    """
    fig, axes = plt.subplots(1, 3, figsize=(12, 3.6), width_ratios=(1.2, 1, 1))
    every = np.concatenate([path[:, :2] for path in paths.values()])
    low, high = every.min(axis=0) - 0.6, every.max(axis=0) + 0.6
    grid = np.meshgrid(*np.linspace(low, high, 150).T)
    heights = np.log10(objective(*grid) + 0.01)
    axes[0].contour(*grid, heights, levels=12, cmap="Greys", linewidths=0.7)
    for (name, path), color in zip(paths.items(), (BLACK, ORANGE, BLUE, GREEN), strict=False):
        axes[0].plot(*path[:, :2].T, ".-", color=color, markersize=2, linewidth=1)
        axes[1].plot(np.arange(1, len(path) + 1), np.exp(path[:, 2]), color=color, label=name)
        losses = objective(*path[:, :2].T)
        means = [part.mean() for part in np.array_split(losses, len(losses) // 20)]
        axes[2].plot(20 * np.arange(1, len(means) + 1), means, color=color, label=name)
    axes[0].set(xlabel="$\\theta_1$", ylabel="$\\theta_2$", title="paths")
    axes[1].set(xlabel="step", yscale="log", title="gain $e^\\rho$")
    axes[2].set(xlabel="step", yscale="log", title="loss, mean of 20 steps")
    for ax in axes[1:]:
        plain_ticks(ax)
    axes[1].legend(fontsize=9)
    return fig


def plot_skeletons(panels: Mapping[str, Mapping[str, np.ndarray]]) -> Figure:
    """Draw bodies as lines, several on top of each other in a panel.

    Parameters
    ----------
    panels : mapping of str to mapping of str to ndarray of shape (n_bones, 2, 3)
        Title of a panel -> name of a body -> where its bones start and end, the second coordinate
        upwards. The first body of a panel is black and thick, the second red and thin.
    """
    bodies = [_seen(bones) for panel in panels.values() for bones in panel.values()]
    low, high = np.min(bodies, axis=(0, 1, 2)), np.max(bodies, axis=(0, 1, 2))
    width = 0.6 + 3.4 * (high[0] - low[0]) / (high[1] - low[1])
    fig, axes = plt.subplots(1, len(panels), figsize=(width * len(panels), 4), squeeze=False)
    for ax, (title, panel) in zip(axes[0], panels.items(), strict=True):
        _draw_bodies(ax, panel, (low, high))
        ax.set_title(title, loc="center", fontsize=10)
    lines = {
        name: line
        for ax in axes[0]
        for line, name in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    fig.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=3)
    return fig


def _seen(bones: np.ndarray) -> np.ndarray:
    """Return both ends of bones, shape (n_bones, 2, 2), as they are seen from the side."""
    angle = np.deg2rad(50)  # between the direction from which they are seen and the third axis
    sideways = np.cos(angle) * bones[..., 0] + np.sin(angle) * bones[..., 2]
    return np.stack([sideways, bones[..., 1]], axis=-1)


def _draw_bodies(ax: Axes, bodies: Mapping[str, np.ndarray], limits) -> None:
    (left, bottom), (right, top) = limits
    margin = 0.04 * (top - bottom)
    looks = ({"color": BLACK, "linewidth": 2.6}, {"color": RED, "linewidth": 1.4})
    for (name, bones), look in zip(bodies.items(), looks, strict=False):
        x, y = _seen(bones).transpose(2, 1, 0)  # a line for each bone
        lines = ax.plot(x, y, solid_capstyle="round", **look)
        lines[0].set_label(name)
    ax.set(xlim=(left - margin, right + margin), ylim=(bottom - margin, top + margin))
    ax.set(xticks=[], yticks=[], aspect="equal")
    ax.spines[:].set_visible(False)
    ax.grid(False)


def animate_skeletons(motions: Mapping[str, Mapping[str, np.ndarray]]) -> bytes:
    """Return a moving picture, as PNG: panels of bodies, as in :func:`plot_skeletons`.

    `motions` maps a title to name -> bones in every frame, shape (n_frames, n_bones, 2, 3). What
    can't show a moving PNG shows its first frame.
    """
    bodies = [_seen(bones) for panel in motions.values() for bones in panel.values()]
    low, high = np.min(bodies, axis=(0, 1, 2, 3)), np.max(bodies, axis=(0, 1, 2, 3))
    width = 0.4 + 2.6 * (high[0] - low[0]) / (high[1] - low[1])
    size = {"figsize": (width * len(motions), 3.2), "dpi": 70}
    fig, axes = plt.subplots(1, len(motions), squeeze=False, **size)
    pictures = []
    for frame in range(len(bodies[0])):
        for ax, (title, panel) in zip(axes[0], motions.items(), strict=True):
            ax.clear()
            now = {name: bones[frame] for name, bones in panel.items()}
            _draw_bodies(ax, now, (low, high))
            ax.set_title(title, loc="center", fontsize=10)
        fig.canvas.draw()
        picture = Image.fromarray(np.asarray(fig.canvas.buffer_rgba())).convert("RGB")
        # one palette for all frames, which is that of the first
        pictures.append(
            picture.quantize(16) if not frame else picture.quantize(palette=pictures[0])
        )
    plt.close(fig)
    file = BytesIO()
    more = {"save_all": True, "append_images": pictures[1:], "duration": 120, "loop": 0}
    # with fewer bits, as for few colours, Pillow 10.3 can't write several frames
    pictures[0].save(file, format="PNG", optimize=True, bits=8, **more)
    return file.getvalue()


#: Line style of the methods of `akpca.book.experiments.streaming`.
STREAM_STYLES: dict[str, dict] = {
    "IncrementalKernelPCA, budget": {"color": BLACK, "marker": "*", "markersize": 9},
    "Nyström, first samples": {"color": PURPLE, "marker": "D"},
    "IncrementalKernelPCA, all": {"color": "#777777", "marker": "*", "linestyle": "--"},
    "KernelPCA, refitted": {"color": ORANGE, "marker": "s", "linestyle": "--"},
}

# Style of methods whose price is drawn, besides the gains.
_PRICE_STYLES: dict[str, dict] = {
    "IncrementalKernelPCA": {"color": BLACK, "marker": "*", "markersize": 12},
    "Nyström": {"color": PURPLE, "marker": "D", "linestyle": ":"},
    "block Krylov": {"color": "#8C5A00", "marker": "s", "linestyle": ":"},
    "KernelHebbian": {"color": BLACK, "marker": "h", "markersize": 9, "markerfacecolor": "none"},
}
_GAIN_MARKERS = ("v", "o", "P", "^", "X")


def plot_prices(
    panels: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]],
    *,
    xlabel: str,
    ylabel: str,
    floor: float = 1e-7,
) -> Figure:
    """Draw what methods reach against what they cost, on logarithmic scales, in panels.

    `panels` maps a title to method -> costs and results, which are joined by a line. Results below
    `floor` are drawn there.
    """
    shape = {"figsize": (4.9 * len(panels) + 0.4, 4.2), "sharey": True, "squeeze": False}
    fig, axes = plt.subplots(1, len(panels), **shape)
    handles: dict = {}
    for ax, (title, methods) in zip(axes[0], panels.items(), strict=True):
        gains = [name for name in methods if name in GAIN_STYLES]
        for name, (x, y) in methods.items():
            marker = _GAIN_MARKERS[gains.index(name) % 5] if name in gains else "o"
            style = {"marker": marker, "markersize": 7, **GAIN_STYLES.get(name, {})}
            style |= _PRICE_STYLES.get(name, {})
            (handles[name],) = ax.loglog(x, np.maximum(y, floor), **style)
        ax.set(title=title, xlabel=xlabel)
        plain_ticks(ax)
    axes[0, 0].set_ylabel(ylabel)
    fig.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, fontsize=9)
    return fig


def plot_measures(
    x: Sequence[float],
    panels: Mapping[str, Mapping[str, Sequence[float]]],
    *,
    xlabel: str,
    styles: Mapping[str, dict] = STREAM_STYLES,
) -> Figure:
    """Draw several measures of the same methods over one axis, all logarithmic, with one legend.

    `panels` maps the label of a y axis to method -> its values.
    """
    fig, axes = plt.subplots(1, len(panels), figsize=(3.6 * len(panels), 3.6), squeeze=False)
    handles: dict = {}
    for ax, (ylabel, curves) in zip(axes[0], panels.items(), strict=True):
        for name, values in curves.items():
            (handles[name],) = ax.loglog(x, values, **styles.get(name, {}))
        ax.set(xlabel=xlabel, ylabel=ylabel, xticks=x)
        plain_ticks(ax)
        ax.set_xticks(x, labels=[f"{value:g}" for value in x])
        ax.minorticks_off()
    fig.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, fontsize=9)
    return fig
