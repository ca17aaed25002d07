"""Figures: every axis is labelled, every image and class is there."""

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from akpca.book import plotting


@pytest.fixture(autouse=True)
def style():
    """Draw in the house style and close what was drawn."""
    with plt.rc_context():
        plotting.use_style()
        yield
        plt.close("all")


@pytest.fixture
def points():
    """Return 60 points of the plane in two classes."""
    X = np.random.default_rng(0).standard_normal((60, 2))
    return X, (X[:, 0] > 0).astype(int)


def test_images_are_a_labelled_grid():
    """A row for each label, images upright, on one grey scale from 0 to 1."""
    rows = {"original": np.eye(6)[:3], "decoded": np.full((2, 6), 0.5)}
    fig = plotting.show_images(rows, (2, 3), column_titles=["a", "b", "c"])
    assert len(fig.axes) == 6
    assert [fig.axes[0].get_ylabel(), fig.axes[3].get_ylabel()] == ["original", "decoded"]
    np.testing.assert_array_equal(fig.axes[1].images[0].get_array(), np.eye(6)[1].reshape(2, 3))
    assert fig.axes[0].images[0].get_clim() == fig.axes[3].images[0].get_clim() == (0, 1)
    assert not fig.axes[5].images  # the shorter row leaves its place empty
    assert [ax.get_title() for ax in fig.axes[:3]] == ["a", "b", "c"]


def test_signed_images_are_symmetric_about_zero():
    """Zero is the middle of the scale, also for an image of zeros."""
    fig = plotting.show_images({"v": np.array([[-3.0, 1.0], [0.0, 0.0]])}, (1, 2), signed=True)
    assert fig.axes[0].images[0].get_clim() == (-3, 3)
    assert fig.axes[1].images[0].get_clim() == (-1, 1)


def test_colours_stay_in_their_range(caplog):
    """Colours have no colour map: values beyond 0 and 1 are cut, and a signed zero is grey."""
    image = np.array([[-0.5, 0.0, 1.5]])
    grey = plotting.show_images({"x": image}, (1, 1, 3)).axes[0].images[0].get_array()
    np.testing.assert_allclose(grey.ravel(), [0, 0, 1])
    fig = plotting.show_images({"v": image}, (1, 1, 3), signed=True)
    np.testing.assert_allclose(fig.axes[0].images[0].get_array().ravel(), [1 / 3, 1 / 2, 1])
    assert not caplog.records


def test_code_curve_has_a_colour_bar_and_names_the_points():
    """The curve is complete, and every named code is drawn and in the legend."""
    codes = np.random.default_rng(0).standard_normal((30, 2))
    points = {"two": codes[:2] + 1, "one": codes[:1] - 1}
    fig = plotting.plot_code_curve(codes, np.arange(30), points, label="brightness")
    ax, bar = fig.axes
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), codes)
    assert [len(cloud.get_offsets()) for cloud in ax.collections] == [30, 2, 1]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(points)
    assert bar.get_ylabel() == "brightness"
    assert ax.get_xlabel() and ax.get_ylabel()


def test_sweeps_may_have_different_abscissas():
    """Every curve is drawn over its own x, with a legend and labelled axes."""
    curves = {"few": ([1, 2], [1.0, 0.1]), "many": np.array([[3, 40, 50], [1.0, 0.5, 0.1]])}
    ax = plotting.plot_progress(curves, xlabel="sweeps", ylabel="residual")
    assert [len(line.get_xdata()) for line in ax.lines] == [2, 3]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(curves)
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_yscale()) == ("sweeps", "residual", "log")


def test_geometry_has_one_panel_for_each_component(points):
    """Each component gets a labelled panel with all the points."""
    X, y = points
    fig = plotting.plot_geometry(lambda Z: np.c_[Z, Z**2], X, y, n_components=3)
    assert [ax.get_title("left") for ax in fig.axes] == [
        "component 1",
        "component 2",
        "component 3",
    ]
    assert all(ax.get_xlabel() == "$x_1$" for ax in fig.axes)
    drawn = sum(len(c.get_offsets()) for c in fig.axes[0].collections if len(c.get_offsets()) > 1)
    assert drawn == len(X)


def test_round_trip_shows_image_code_and_image():
    """Two images with the code between them, one bar for each of its numbers."""
    fig = plotting.plot_round_trip(np.zeros(6), np.array([2.0, -1.0]), np.ones(6), (2, 3))
    assert [len(ax.images) for ax in fig.axes] == [1, 0, 1]
    assert [bar.get_height() for bar in fig.axes[1].patches] == [2, -1]
    assert fig.axes[1].get_xlabel()


def test_best_line_is_where_least_is_lost():
    """The line is drawn at the angle that loses least, with a whisker for each point."""
    points = np.array([[-1.0, -1.0], [1.0, 1.0]])
    angles = np.radians([0, 45, 90])
    fig = plotting.plot_best_line(points, angles, np.array([2, 0, 2]), np.array([2, 4, 2]))
    left, right = fig.axes
    assert len(left.lines) == len(points) + 1
    x, y = left.lines[-1].get_data()
    np.testing.assert_allclose(x, y)
    np.testing.assert_allclose(right.lines[-1].get_xdata(), 45)
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in fig.axes)


def test_build_up_adds_term_after_term():
    """The lower row holds the partial sums, from the mean to the reconstruction."""
    mean, V = np.full(4, 0.5), np.eye(4)[:2]
    fig = plotting.plot_build_up(mean, V, np.array([0.3, -0.2]), (2, 2), original=mean)
    assert len(fig.axes) == 2 * 4
    sums = [fig.axes[4 + j].images[0].get_array().ravel() for j in range(3)]
    np.testing.assert_allclose(sums[0], mean)
    np.testing.assert_allclose(sums[2], [0.8, 0.3, 0.5, 0.5])
    assert fig.axes[2].get_title() == "− 0.2 $v_{2}$"


@pytest.mark.parametrize("size", [2, 3])
def test_projections_stand_next_to_the_points(points, size):
    """Each set of numbers has a labelled histogram of all points, and one legend names classes."""
    X, y = points
    numbers = {"one": X[:, 0], "two": X[:, 1]}
    Z, arrow = np.c_[X, X[:, 0] ** 2][:, :size], np.ones(3) if size == 3 else None
    fig = plotting.plot_projections(Z, y, numbers, names=["low", "high"], arrow=arrow)
    first, *others = fig.axes
    assert first.get_xlabel() and first.get_ylabel()
    assert [ax.get_title("left") for ax in others] == ["one", "two"]
    for ax in others:
        assert ax.get_xlabel() == "first component"
        assert sum(bar.get_height() for bar in ax.patches) == len(X)
    assert [text.get_text() for text in others[0].get_legend().get_texts()] == ["low", "high"]


def test_clouds_are_the_points_and_their_codes(points):
    """The plane comes first, then each code in a labelled panel with all the points."""
    X, y = points
    fig = plotting.plot_clouds(X, y, {"one": X**2, "two": np.c_[X, X]})
    assert [ax.get_title("left") for ax in fig.axes] == ["the plane", "one", "two"]
    assert [ax.get_xlabel() for ax in fig.axes] == ["$x_1$", "component 1", "component 1"]
    for ax in fig.axes:
        assert sum(len(cloud.get_offsets()) for cloud in ax.collections) == len(X)


def test_weight_paths_are_drawn_in_the_plane_and_by_length(points):
    """Each path has a line in both panels, of one colour, and a dot where it starts."""
    path = np.array([[2.0, 0.0], [0.0, 1.0]])
    fig = plotting.plot_weight_paths(points[0], np.array([0.6, 0.8]), {"a": path, "b": -path})
    plane, lengths = fig.axes
    np.testing.assert_array_equal(lengths.lines[0].get_ydata(), [2, 1])
    assert [text.get_text() for text in lengths.get_legend().get_texts()] == ["a", "b"]
    dots = [line for line in plane.lines if line.get_marker() == "o"]
    assert [dot.get_color() for dot in dots] == [line.get_color() for line in lengths.lines[:2]]
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in fig.axes)


def test_cosines_are_on_one_scale_and_counted_from_one():
    """Fields are centred at their numbers, also if there is a single one."""
    matrices = {"one": np.eye(3), "two": np.full((3, 3), 0.5)}
    fig = plotting.plot_cosines(matrices, xlabel="eigenvector", ylabel="row")
    assert [ax.get_title("left") for ax in fig.axes[:2]] == ["one", "two"]
    assert {ax.images[0].get_clim() for ax in fig.axes[:2]} == {(0, 1)}
    assert list(fig.axes[0].images[0].get_extent()) == [0.5, 3.5, 3.5, 0.5]
    plotting.plot_cosines({"one": np.eye(1)}, xlabel="x", ylabel="y").canvas.draw()


def test_sweep_marks_what_diverged_by_crosses():
    """Crosses have the curve's colour and lie within the axes; only runs that diverged have one."""
    curves = {"PCA": [1.0, 5.0, np.inf], "other": [1.2, np.inf, np.inf]}
    ax = plotting.plot_gain_range([0.1, 1, 10], curves, xlabel="gain", ylabel="error", top=2.0)
    crosses = [line for line in ax.lines if line.get_marker() == "x" and len(line.get_xdata())]
    assert [list(cross.get_xdata()) for cross in crosses] == [[10], [1, 10]]
    assert [cross.get_color() for cross in crosses] == [line.get_color() for line in ax.lines[:2]]
    low, high = ax.get_ylim()
    heights = [float(cross.get_ydata()[0]) for cross in crosses]
    assert low < 1 and 2 < heights[1] < heights[0] < high
    assert [text.get_text() for text in ax.get_legend().get_texts()][-1] == "diverged"
    whole = plotting.plot_gain_range([1, 2], {"PCA": [1, 1]}, xlabel="gain", ylabel="error")
    assert len(whole.get_legend().get_texts()) == 1


def test_bands_reach_from_the_least_to_the_largest():
    """The line is the median, the band has the colour of its line."""
    runs = {"a": np.array([[1.0, 2.0], [3.0, 4.0], [2.0, 9.0]])}
    ax = plotting.plot_bands([1, 2], runs, xlabel="steps", ylabel="error", log="y")
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [2, 4])
    corners = ax.collections[0].get_paths()[0].vertices
    assert corners[:, 1].min() == 1 and corners[:, 1].max() == 9


def test_codes_name_every_class_at_its_median():
    """A name stands where its class is, not where there is room: it must not suggest structure."""
    codes = np.random.default_rng(0).standard_normal((200, 3))
    y = np.repeat(np.arange(10), 20)
    fig = plotting.plot_codes({"one": codes, "two": codes}, y)
    assert [ax.get_title("left") for ax in fig.axes] == ["one", "two"]
    for ax in fig.axes:
        assert ax.get_xlabel() == "component 1"
        assert ax.get_ylabel() == "component 2"
        assert [text.get_text() for text in ax.texts] == [str(c) for c in range(10)]
        medians = [np.median(codes[y == c, :2], axis=0) for c in range(10)]
        np.testing.assert_allclose([text.get_position() for text in ax.texts], medians)


def test_codes_of_one_number_are_drawn_against_the_class(points):
    X, y = points
    ax = plotting.plot_codes({"one": X[:, :1]}, y).axes[0]
    assert ax.get_ylabel() == "class"
    for label, cloud in zip(np.unique(y), ax.collections, strict=True):
        assert (cloud.get_offsets()[:, 1] == label).all()


def test_bound_lies_above_points_and_worst_cases():
    """The line of the bound is drawn, and in view."""
    clouds = {"some": np.array([[0.1, 1.0], [1.0, 2.0]])}
    ax = plotting.plot_bound(clouds, [0.1, 1, 10], [0, 2.9, 1], bound=3)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "some",
        "the worst",
        "the bound",
    ]
    assert ax.get_ylim()[1] > 3
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), clouds["some"])


def test_descents_are_drawn_at_their_best_step():
    """Left the run with the lowest last loss, right the last loss of each step."""
    curves = {
        "SGD, random start": np.array([[3.0, 0.9], [2.0, 0.5]]),
        "Adam, kernel PCA start": np.array([[0.6, 0.4], [1.0, 0.8]]),
    }
    left, right = plotting.plot_descents((1, 2), (0.1, 1), curves, ylabel="loss").axes
    for lines, name, best in zip(left.lines, curves, ([2.0, 0.5], [0.6, 0.4]), strict=True):
        assert lines.get_label() == name
        assert lines.get_ydata().tolist() == best
    assert [line.get_ydata().tolist() for line in right.lines] == [[0.9, 0.5], [0.4, 0.8]]
    assert [line.get_linestyle() for line in right.lines] == ["--", "-"]


def test_rivals_of_one_family_share_a_colour():
    """Forms of a method differ by their dashes."""
    names = ["PCA", "kernel PCA", "PCA + ridge", "a network", "AKPCA, one", "AKPCA, two"]
    ax = plotting.plot_rivals([2, 5], {name: [1.0, 0.5] for name in names})
    lines = {line.get_label(): line for line in ax.lines}
    assert list(lines) == names
    assert lines["PCA"].get_color() == lines["PCA + ridge"].get_color()
    assert lines["AKPCA, one"].get_color() == lines["AKPCA, two"].get_color()
    assert lines["AKPCA, one"].get_linestyle() != lines["AKPCA, two"].get_linestyle()
    assert lines["kernel PCA"].get_color() == plotting.METHOD_STYLES["kernel PCA"]["color"]


def test_curves_have_labelled_axes_and_a_legend():
    """A known method is drawn in its style, and one curve alone needs no legend."""
    options = dict(xlabel="k", ylabel="error")
    ax = plotting.plot_curves([1, 2], {"PCA": [3, 4], "other": [5, 6]}, **options)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("k", "error")
    assert ax.lines[0].get_color() == plotting.METHOD_STYLES["PCA"]["color"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["PCA", "other"]
    assert plotting.plot_curves([1, 2], {"PCA": [3, 4]}, **options).get_legend() is None


def test_logarithmic_ticks_are_plain_numbers():
    """A reader sees 0.01 and 100, and powers only of what would be long."""
    ax = plotting.plot_curves([1, 1000], {"PCA": [1e-8, 1]}, xlabel="x", ylabel="y", log="xy")
    ax.figure.canvas.draw()
    assert {"1", "10", "100", "1000"} <= {t.get_text() for t in ax.get_xticklabels()}
    labels = {t.get_text() for t in ax.get_yticklabels()}
    assert "1" in labels and "$10^{-8}$" in labels
    ax = plotting.plot_curves([1, 2], {"PCA": [1, 6]}, xlabel="x", ylabel="y", log="y")
    ax.figure.canvas.draw()
    assert {"1", "2", "5"} <= {t.get_text() for t in ax.get_yticklabels()}


def test_extremes_are_the_lowest_and_the_highest():
    """The left end shows the smallest codes, the right end the largest."""
    X = np.linspace(0, 1, 20)[:, None] * np.ones(4)
    fig = plotting.plot_extremes(X[::-1, :1], X, (2, 2), n_components=1)
    shown = [float(ax.images[0].get_array()[0, 0]) for ax in fig.axes]
    np.testing.assert_allclose(shown, X[[*range(19, 13, -1), *range(5, -1, -1)], 0])


def test_methods_can_be_told_apart():
    """No two methods share colour and marker; every style is one that matplotlib knows."""
    looks = {(s["color"], s["marker"]) for s in plotting.METHOD_STYLES.values()}
    assert len(looks) == len(plotting.METHOD_STYLES)
    ax = plt.figure().subplots()
    for name, style in plotting.METHOD_STYLES.items():
        (line,) = ax.plot([0, 1], label=name, **style)
        assert line.get_color() == style["color"]


def test_error_curves_are_medians_over_the_seeds():
    """A line for each gain; runs that diverged count in the median, but have no band."""
    runs = {
        "KHA/t": np.array([[1.0, 0.5], [2.0, 0.4], [3.0, np.inf]]),
        "KHA-SMD": np.full((3, 2), np.inf),
    }
    ax = plt.subplots()[1]
    plotting.plot_error_curves(runs, ax)
    assert [line.get_label() for line in ax.lines] == list(runs)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [2.0, 0.5])
    assert len(ax.collections) == 1
    assert ax.get_xlabel()
    assert ax.get_ylabel()


def test_predictions_run_through_their_points():
    """Points and the curve of their theory have a colour; zeros have no place on the scale."""
    x, y = np.array([0.1, 0.2, 0.3]), np.array([0.5, 0.0, 0.125])
    measured = {"a": (x, y), "b": (x[:0], y[:0])}
    fig = plotting.plot_predictions({"share": (measured, dict.fromkeys("ab", np.exp))}, xlabel="g")
    (ax,) = fig.axes
    points, curve = ax.lines[:2]
    assert points.get_color() == curve.get_color() != ax.lines[2].get_color()
    np.testing.assert_array_equal(points.get_xdata(), [0.1, 0.3])
    np.testing.assert_allclose(curve.get_ydata(), np.exp(curve.get_xdata()))
    assert curve.get_xdata()[0] == 0
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_yscale()) == ("g", "share", "log")
    assert ax.get_ylim()[0] == 0.0625


def test_panels_have_titles_and_one_label():
    """Curves of each task are in its panel; a shared axis is labelled once."""
    runs = {"KHA/t": np.geomspace(1, 0.1, 10).reshape(2, 5)}
    curves = {"a": [1, 2, 3], "b": [3, 2, 1]}
    for fig in (
        plotting.plot_error_panels({"one": runs, "two": runs}),
        plotting.plot_curve_panels(
            [1, 2, 3], {"one": curves, "two": curves}, xlabel="x", ylabel="y"
        ),
    ):
        assert [ax.get_title("left") for ax in fig.axes] == ["one", "two"]
        assert all(ax.get_xlabel() for ax in fig.axes)
        assert [bool(ax.get_ylabel()) for ax in fig.axes] == [True, False]
        assert len(fig.axes[0].lines) == len(fig.axes[1].lines) > 0


def test_descents_show_paths_gains_and_losses():
    """Every method is in every panel, and contour lines are below the paths."""
    steps = np.c_[np.linspace(-1, 1, 40), np.zeros(40), np.log(np.linspace(0.1, 0.2, 40))]
    fig = plotting.plot_paths(lambda a, b: a**2 + b**2, {"one": steps, "two": steps[:, [1, 0, 2]]})
    assert [len(ax.lines) for ax in fig.axes] == [2, 2, 2]
    np.testing.assert_allclose(fig.axes[1].lines[0].get_ydata(), np.linspace(0.1, 0.2, 40))
    expected = (steps[:, 0] ** 2).reshape(2, 20).mean(axis=1)
    np.testing.assert_allclose(fig.axes[2].lines[0].get_ydata(), expected)


@pytest.mark.parametrize("k", [1, 2])
def test_roll_has_a_panel_for_itself_and_for_each_code(points, k):
    """All points are there, coloured by their position, also for a code of one number."""
    X, _ = points
    position = np.arange(len(X))
    codes = {"PCA": X[:, :k], "KPCA": -X[:, :k]}
    fig = plotting.plot_roll(np.c_[X, X[:, 0]], position, codes)
    assert [ax.get_title("left") for ax in fig.axes[1:3]] == ["PCA", "KPCA"]
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in fig.axes[:3])
    assert fig.axes[3].get_ylabel() == "position along the roll"
    for ax in fig.axes[:3]:
        np.testing.assert_array_equal(ax.collections[0].get_array(), position)
    np.testing.assert_array_equal(fig.axes[1].collections[0].get_offsets()[:, 0], X[:, 0])


def test_histograms_are_of_values_in_units_of_their_spread():
    """Ten times the same numbers have the same histogram; numbers that do not vary have one."""
    numbers = np.random.default_rng(0).standard_normal((40, 5))
    ax = plotting.plot_histograms({"a": numbers, "b": 10 * numbers}, xlabel="code value")
    first, second = (patch.get_xy() for patch in ax.patches)
    np.testing.assert_allclose(first, second)
    assert ax.get_xlabel() == "code value / standard deviation"
    assert ax.get_ylabel() == "density"
    plotting.plot_histograms({"none": np.zeros((3, 2))}, xlabel="code value")


def test_report_figures_draw_all_methods():
    """One legend names each method once; what was not measured is left out; means are drawn."""
    some = {"PCA": [np.array([1.0, 3.0]), np.array([1.0, 1.0])]}
    more = some | {"AKPCA": [np.array([]), np.array([0.5])]}
    panels = {"one": ([10, 20], some), "two": ([10, 20], more), "three": ([5, 30], some)}
    fig = plotting.plot_report(panels, xlabel="k", ylabel="error")
    assert [text.get_text() for text in fig.legends[0].get_texts()] == ["PCA", "AKPCA"]
    assert [ax.axison for ax in fig.axes] == [True, True, True, False]
    np.testing.assert_array_equal(fig.axes[0].lines[0].get_ydata(), [2, 1])
    np.testing.assert_array_equal(fig.axes[1].lines[1].get_xdata(), [20])
    np.testing.assert_array_equal(fig.axes[2].get_xticks(), [5, 30])
    pairs = {"PCA": (1.0, 2.0), "kernel PCA": (2.0, 3.0)}
    fig = plotting.plot_pairs({"one": pairs, "two": pairs}, names=("a", "b"), xlabel="error")
    labels = [label.get_text() for label in fig.axes[0].get_yticklabels()]
    assert labels == ["PCA", "kernel PCA"]
    assert [text.get_text() for text in fig.legends[0].get_texts()] == ["a", "b"]


def test_plot_pass_panels():
    """Medians over seeds in one panel a title, one legend; runs that diverged have no band."""
    runs = np.array([[1.0, 0.5, 0.1], [2.0, 0.4, np.inf], [3.0, 0.6, 0.3]])
    once = np.array([1]), np.array([[1e-12], [1e-5]])
    panels = {t: {"KHA": (np.array([1, 2, 5]), runs), "merged once": once} for t in "abc"}
    fig = plotting.plot_pass_panels(panels, lines={"exact": 0.2})
    drawn = [ax for ax in fig.axes if ax.lines]
    assert [ax.get_title(loc="left") for ax in drawn] == ["a", "b", "c"]
    np.testing.assert_allclose(drawn[0].lines[0].get_ydata(), [2, 0.5, 0.3])
    assert drawn[0].lines[1].get_ydata()[0] == pytest.approx((1e-9 + 1e-5) / 2)
    assert [text.get_text() for text in fig.legends[0].get_texts()] == ["KHA", "merged once"]
    assert len(drawn[0].collections) == 1


def test_prices_are_joined_and_have_one_legend():
    """A line for each method of each panel, results of zero at the floor, one entry a method."""
    methods = {"KHA/t": ([1.0], [0.5]), "Nyström": ([0.1, 1.0], [0.2, 0.0])}
    fig = plotting.plot_prices({"a": methods, "b": methods}, xlabel="x", ylabel="y", floor=1e-3)
    assert [ax.get_title(loc="left") for ax in fig.axes] == ["a", "b"]
    np.testing.assert_allclose(fig.axes[1].lines[1].get_ydata(), [0.2, 1e-3])
    assert [text.get_text() for text in fig.legends[0].get_texts()] == list(methods)
    assert (fig.axes[0].get_xlabel(), fig.axes[0].get_ylabel()) == ("x", "y")


def test_measures_of_the_same_methods():
    """A panel for each measure, ticks where the values are, one legend."""
    curves = {"IncrementalKernelPCA, budget": [1.0, 2.0], "other": [3.0, 4.0]}
    fig = plotting.plot_measures([100, 200], {"error": curves, "points": curves}, xlabel="n")
    assert [ax.get_ylabel() for ax in fig.axes] == ["error", "points"]
    for ax in fig.axes:
        assert [tick.get_text() for tick in ax.get_xticklabels()] == ["100", "200"]
    assert [text.get_text() for text in fig.legends[0].get_texts()] == list(curves)
