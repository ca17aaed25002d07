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


def test_codes_name_every_class_without_hiding_one():
    """One label for each class, and no two in the same place even if the classes are."""
    codes = np.random.default_rng(0).standard_normal((200, 3))
    y = np.repeat(np.arange(10), 20)
    fig = plotting.plot_codes({"one": codes, "two": codes}, y)
    assert [ax.get_title("left") for ax in fig.axes] == ["one", "two"]
    for ax in fig.axes:
        assert ax.get_xlabel() == "component 1"
        assert ax.get_ylabel() == "component 2"
        assert [text.get_text() for text in ax.texts] == [str(c) for c in range(10)]
        places = np.array([t.get_position() for t in ax.texts]) / np.ptp(codes[:, :2], axis=0)
        gaps = np.linalg.norm(places[:, None] - places, axis=2) + np.eye(10)
        assert gaps.min() > 0.05


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
