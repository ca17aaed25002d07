"""Figures: what is drawn is what was given, and every axis is labelled."""

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from akpca.book import plotting

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2))
Y = (X[:, 0] > 0).astype(int)
LABELS = dict(xlabel="x", ylabel="y")


@pytest.fixture(autouse=True)
def style():
    """Draw in the house style and close what was drawn."""
    with plt.rc_context():
        plotting.use_style()
        yield
        plt.close("all")


def legend(of):
    return [text.get_text() for text in of.get_texts()]


def titles(fig, location="left"):
    return [ax.get_title(location) for ax in fig.axes]


def shown(ax):
    return np.asarray(ax.images[0].get_array())


# Every function that draws on labelled axes, with a small input, and how many panels that gives.
DRAWN = {
    "bound": (lambda: plotting.plot_bound({"a": X**2}, [0.1, 1], [1, 2], bound=3), 0),
    "panels": (lambda: plotting.plot_curve_panels([1, 2], {"a": {"b": [1, 2]}}, **LABELS), 1),
    "code curve": (lambda: plotting.plot_code_curve(X, X[:, 0], {"a": X[:2]}, label="grey"), 1),
    "progress": (lambda: plotting.plot_progress({"a": ([1, 2], [1.0, 0.1])}, **LABELS), 1),
    "best line": (lambda: plotting.plot_best_line(X, np.array([0, 1.0]), Y[:2], Y[:2]), 2),
    "curves": (lambda: plotting.plot_curves([1, 9], {"a": [3, 4]}, log="xy", **LABELS), 1),
    "clouds": (lambda: plotting.plot_clouds(X, Y, {"one": X, "two": X}), 3),
    "geometry": (lambda: plotting.plot_geometry(lambda Z: Z**2, X, Y, n_components=2), 2),
    "weights": (lambda: plotting.plot_weight_paths(X, X[0], {"a": X[:5]}), 2),
    "cosines": (lambda: plotting.plot_cosines({"a": np.eye(1)}, **LABELS), 1),
    "gains": (lambda: plotting.plot_gain_range([0.1, 1], {"a": [1.0, np.inf]}, **LABELS), 1),
    "codes": (lambda: plotting.plot_codes({"a": X, "b": X[:, :1]}, Y), 2),
    "descents": (
        lambda: plotting.plot_descents((1, 2), (0.1, 1), {"SGD": X[:2], "SVRG": X[:2]}, ylabel="y"),
        2,
    ),
    "rivals": (lambda: plotting.plot_rivals([2, 5], {"PCA": [1, 1], "AKPCA": [1, 2]}), 1),
    "roll": (lambda: plotting.plot_roll(np.c_[X, Y], X[:, 0], {"a": X, "b": X[:, :1]}), 3),
    "histograms": (lambda: plotting.plot_histograms({"a": X, "b": 0 * X}, xlabel="x"), 1),
    "errors": (lambda: plotting.plot_error_panels({"a": {"KHA/t": X[:3] ** 2}}), 1),
    "prices": (lambda: plotting.plot_prices({"a": {"KHA": ([1], [0])}, "b": {}}, **LABELS), 1),
    "measures": (lambda: plotting.plot_measures([1, 2], {"y": {"a": [1, 2]}}, xlabel="x"), 1),
    "paths": (lambda: plotting.plot_paths(lambda a, b: a**2 + b**2, {"a": np.c_[X, Y]}), 1),
}


@pytest.mark.parametrize("name", DRAWN)
def test_axes_are_labelled_and_have_something_on_them(name):
    draw, n_panels = DRAWN[name]
    drawn = draw()
    fig = drawn if isinstance(drawn, plt.Figure) else drawn.figure
    fig.canvas.draw()
    panels = [ax for ax in fig.axes if ax.get_label() != "<colorbar>"]
    assert len(panels) >= n_panels
    for ax in panels[:n_panels]:
        assert ax.get_xlabel()
        assert ax.lines or ax.collections or ax.images or ax.patches
        assert panels[0].get_ylabel()


def test_images_are_a_labelled_grid():
    """A row for each label, images upright, on one grey scale from 0 to 1."""
    rows = {"original": np.eye(6)[:3], "decoded": np.full((2, 6), 0.5)}
    fig = plotting.show_images(rows, (2, 3), column_titles=["a", "b", "c"])
    assert len(fig.axes) == 6
    assert [fig.axes[0].get_ylabel(), fig.axes[3].get_ylabel()] == ["original", "decoded"]
    np.testing.assert_array_equal(shown(fig.axes[1]), np.eye(6)[1].reshape(2, 3))
    assert fig.axes[0].images[0].get_clim() == fig.axes[3].images[0].get_clim() == (0, 1)
    assert not fig.axes[5].images  # the shorter row leaves its place empty
    assert titles(fig, "center")[:3] == ["a", "b", "c"]


def test_signed_images_are_symmetric_about_zero():
    """Zero is the middle of the scale, also for an image of zeros, and grey in colours."""
    fig = plotting.show_images({"v": np.array([[-3.0, 1.0], [0.0, 0.0]])}, (1, 2), signed=True)
    assert fig.axes[0].images[0].get_clim() == (-3, 3)
    assert fig.axes[1].images[0].get_clim() == (-1, 1)
    colours = plotting.show_images({"v": np.array([[-0.5, 0, 1.5]])}, (1, 1, 3), signed=True)
    np.testing.assert_allclose(shown(colours.axes[0]).ravel(), [1 / 3, 1 / 2, 1])


def test_best_line_is_where_least_is_lost():
    """The line is drawn at the angle that loses least, with a whisker for each point."""
    points, angles = np.array([[-1.0, -1.0], [1.0, 1.0]]), np.radians([0, 45, 90])
    fig = plotting.plot_best_line(points, angles, np.array([2, 0, 2]), np.array([2, 4, 2]))
    x, y = fig.axes[0].lines[-1].get_data()
    np.testing.assert_allclose(x, y)
    np.testing.assert_allclose(fig.axes[1].lines[-1].get_xdata(), 45)


def test_images_are_built_term_after_term_and_go_round():
    """The lower row holds the partial sums, from the mean to the reconstruction."""
    mean, V = np.full(4, 0.5), np.eye(4)[:2]
    fig = plotting.plot_build_up(mean, V, np.array([0.3, -0.2]), (2, 2), original=mean)
    sums = [shown(fig.axes[4 + j]).ravel() for j in range(3)]
    np.testing.assert_allclose(sums, [mean, [0.8, 0.5, 0.5, 0.5], [0.8, 0.3, 0.5, 0.5]])
    assert fig.axes[2].get_title() == "− 0.2 $v_{2}$"
    fig = plotting.plot_round_trip(np.zeros(6), np.array([2.0, -1.0]), np.ones(6), (2, 3))
    assert [len(ax.images) for ax in fig.axes] == [1, 0, 1]
    assert [bar.get_height() for bar in fig.axes[1].patches] == [2, -1]


def test_sweep_marks_what_diverged_by_crosses():
    """Crosses have the curve's colour and lie within the axes; only runs that diverged have one."""
    curves = {"PCA": [1.0, 5.0, np.inf], "other": [1.2, np.inf, np.inf]}
    ax = plotting.plot_gain_range([0.1, 1, 10], curves, top=2.0, **LABELS)
    crosses = [line for line in ax.lines if line.get_marker() == "x" and len(line.get_xdata())]
    assert [list(cross.get_xdata()) for cross in crosses] == [[10], [1, 10]]
    assert [cross.get_color() for cross in crosses] == [line.get_color() for line in ax.lines[:2]]
    low, high = ax.get_ylim()
    heights = [float(cross.get_ydata()[0]) for cross in crosses]
    assert low < 1 and 2 < heights[1] < heights[0] < high


def test_lines_are_medians_and_bands_all_runs():
    """Runs that diverged count in the median, but have no band."""
    runs = np.array([[1.0, 2.0], [3.0, 4.0], [2.0, 9.0]])
    ax = plotting.plot_bands([1, 2], {"a": runs}, log="y", **LABELS)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [2, 4])
    heights = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (1, 9)
    diverged = np.array([[1.0, 0.5], [2.0, 0.4], [3.0, np.inf]])
    fig = plotting.plot_error_panels({"a": {"KHA/t": diverged, "KHA": np.full((3, 2), np.inf)}})
    np.testing.assert_array_equal(fig.axes[0].lines[0].get_ydata(), [2.0, 0.5])
    assert len(fig.axes[0].collections) == 1
    once = np.array([1]), np.array([[1e-12], [1e-5]])
    panels = {t: {"KHA": (np.array([1, 2]), diverged), "merged once": once} for t in "abc"}
    fig = plotting.plot_pass_panels(panels)
    assert titles(fig)[:3] == ["a", "b", "c"]
    np.testing.assert_array_equal(fig.axes[2].lines[0].get_ydata(), [2, 0.5])
    assert legend(fig.legends[0]) == ["KHA", "merged once"]


def test_logarithmic_ticks_are_plain_numbers():
    """A reader sees 0.01 and 100, and powers only of what would be long."""
    ax = plotting.plot_curves([1, 1000], {"PCA": [1e-8, 1]}, log="xy", **LABELS)
    ax.figure.canvas.draw()
    assert {"1", "10", "100", "1000"} <= {t.get_text() for t in ax.get_xticklabels()}
    labels = {t.get_text() for t in ax.get_yticklabels()}
    assert "1" in labels and "$10^{-8}$" in labels
