"""Figures: every axis is labelled, every image and class is there."""

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from akpca import plotting


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
