"""Data sets, splits, scalings and noise; neither the network nor the folder AKPCA_DATA is used."""

import pickle
import re
from dataclasses import replace
from urllib.error import URLError

import numpy as np
import pytest
import sklearn.datasets
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.utils import Bunch

from akpca.datasets import (
    Dataset,
    add_gaussian_noise,
    add_speckle,
    balanced_split,
    dataset_files,
    dataset_names,
    generator,
    load_dataset,
    scale_by_max_norm,
)

BUNDLED = ["circles", "swiss_roll", "digits", "patches", "mnist5k"]
DOWNLOADED = ["mnist", "usps", "cifar10", "lfw", "olivetti"]
FOLDER_ONLY = ["yale_faces"]
FETCHERS = ["fetch_openml", "fetch_lfw_people", "fetch_olivetti_faces"]


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """Start without the folder AKPCA_DATA and with fetchers that find no network."""
    monkeypatch.delenv("AKPCA_DATA", raising=False)

    def fetch(**options):
        raise URLError("no network")

    for fetcher in FETCHERS:
        monkeypatch.setattr(sklearn.datasets, fetcher, fetch)


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """Return an empty folder that AKPCA_DATA names."""
    monkeypatch.setenv("AKPCA_DATA", str(tmp_path))
    return tmp_path


def pixels(*shape):
    """Return reproducible bytes of a shape, with both extremes among them."""
    values = np.random.default_rng(1).integers(0, 256, size=shape, dtype=np.uint8)
    values.flat[:2] = 0, 255
    return values


@pytest.mark.parametrize(
    ("name", "text", "of_each"),
    [
        ("circles", "Dataset circles: 400 x 2, 2 classes", 200),
        ("swiss_roll", "Dataset swiss_roll: 1500 x 3", None),
        ("digits", "Dataset digits: 1797 x 64, 8x8 images, 10 classes", None),
        ("patches", "Dataset patches: 5000 x 64, 8x8 images, 2 classes", 2500),
        ("mnist5k", "Dataset mnist5k: 5000 x 784, 28x28 images, 10 classes", 500),
    ],
)
def test_bundled_sets_load_offline(name, text, of_each):
    """Each bundled set has the stated size, classes and pixel range, as contiguous float64."""
    dataset = load_dataset(name)
    assert repr(dataset) == text
    assert dataset.X.dtype == np.float64
    assert dataset.X.flags.c_contiguous
    assert dataset.description
    if of_each is not None:
        assert dataset.y.dtype == np.int64
        assert set(np.bincount(dataset.y)) == {of_each}
    if dataset.image_shape is not None:
        assert dataset.X.min() == 0
        assert 0.99 < dataset.X.max() <= 1


def test_unknown_name_lists_the_known_ones():
    """An unknown name is answered with all names."""
    assert dataset_names() == BUNDLED + DOWNLOADED + FOLDER_ONLY
    with pytest.raises(ValueError, match="name='mnits'") as caught:
        load_dataset("mnits")
    assert all(name in str(caught.value) for name in dataset_names())


@pytest.mark.parametrize("name", ["circles", "swiss_roll", "patches"])
def test_random_sets_depend_on_the_random_state(name):
    """The same seed draws the same examples, another seed or a RandomState others."""
    state = np.random.RandomState(0)
    draws = [load_dataset(name, random_state=seed).X for seed in (3, 3, 4, state, state)]
    np.testing.assert_array_equal(*draws[:2])
    assert not any(np.array_equal(draws[i], draws[i + 1]) for i in (1, 3))


@pytest.mark.parametrize(
    ("name", "file", "shape", "labels", "values", "y"),
    [
        ("mnist", "mnist", (784,), "y", [5, 0, 4], [5, 0, 4]),
        ("usps", "usps", (256,), "y", [5, 0, 4], [5, 0, 4]),
        ("cifar10", "cifar10_5k", (32, 32, 3), "y", [6, 9, 9], [6, 9, 9]),
        ("lfw", "lfw_faces", (60, 60), "person", [127, 5659, 300], [0, 2, 1]),
        ("yale_faces", "yale_faces", (60, 60), "person", [1, 39, 2], [1, 39, 2]),
        ("olivetti", "olivetti", (64, 64), "y", [0, 1, 1], [0, 1, 1]),
    ],
)
def test_images_from_folder(folder, name, file, shape, labels, values, y):
    """The training set, then the test set; people are numbered; further arrays do no harm."""
    X, values = pixels(3, *shape), np.array(values)
    stored, expected = (X, X / 255) if name != "usps" else 2 * (X / 127.5 - 1,)
    stored = X / 255 if name == "olivetti" else stored
    arrays = {"X": stored, labels: values}
    if name in ("mnist", "usps"):
        arrays = {"X_train": stored[:2], "y_train": values[:2]}
        arrays |= {"X_test": stored[2:], "y_test": values[2:]}
    np.savez(folder / f"{file}.npz", **arrays, more=np.eye(2))
    dataset = load_dataset(name)
    np.testing.assert_array_equal(dataset.X, expected.reshape(3, -1))
    np.testing.assert_array_equal(dataset.y, y)
    assert (dataset.X.dtype, dataset.y.dtype) == (np.float64, np.int64)
    assert dataset.images.shape[1:] == dataset.image_shape


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({"X": pixels(2, 60, 60)}, "has no array person; expected person integer \\(n,\\)"),
        ({"X": pixels(2, 50, 60), "person": np.arange(2)}, "X is uint8 \\(2, 50, 60\\)"),
        ({"X": pixels(2, 60, 60) / 255, "person": np.arange(2)}, "X is float64"),
        ({"X": pixels(2, 60, 60), "person": np.arange(3)}, "expected a label for each"),
    ],
)
def test_wrong_arrays_name_file_and_array(folder, arrays, problem):
    """A file that lacks an array, or has it in another shape or type, is named with the array."""
    np.savez(folder / "yale_faces.npz", **arrays)
    with pytest.raises(ValueError, match=rf"yale_faces\.npz.*{problem}"):
        load_dataset("yale_faces")


@pytest.mark.parametrize("damage", [lambda whole: b"", lambda whole: whole[:5000], pickle.dumps])
def test_damaged_files_are_named(folder, damage):
    """Whatever is wrong with the bytes of a file, it is a ValueError that names the file."""
    path = folder / "yale_faces.npz"
    np.savez_compressed(path, X=pixels(2, 60, 60), person=[1, 2])
    assert len(load_dataset("yale_faces").X) == 2
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=rf"{re.escape(str(path))} can't be read: \w+: "):
        load_dataset("yale_faces")


@pytest.mark.parametrize(
    ("name", "fetcher", "shape", "target", "y"),
    [
        ("mnist", "fetch_openml", (784,), ["5", "0", "4"], [5, 0, 4]),
        ("usps", "fetch_openml", (256,), ["7", "10", "1"], [6, 9, 0]),  # classes "1" to "10"
        ("cifar10", "fetch_openml", (3, 32, 32), ["6", "9", "9"], [6, 9, 9]),
        ("lfw", "fetch_lfw_people", (60, 60), [1, 0, 1], [1, 0, 1]),
        ("olivetti", "fetch_olivetti_faces", (64, 64), [1, 0, 1], [1, 0, 1]),
    ],
)
def test_downloads(monkeypatch, name, fetcher, shape, target, y):
    """What scikit-learn's fetchers return becomes ours: bytes, colour planes, labels as strings."""
    planes, calls = pixels(3, *shape), []
    data = planes if name in ("mnist", "cifar10") else planes / 255
    bunch = Bunch(data=np.asfortranarray(data.reshape(3, -1)), target=np.array(target, object))
    monkeypatch.setattr(sklearn.datasets, fetcher, lambda **options: calls.append(options) or bunch)
    dataset = load_dataset(name)
    found = dataset.images.transpose(0, 3, 1, 2) if name == "cifar10" else dataset.images
    np.testing.assert_array_equal(found.reshape(3, -1), planes.reshape(3, -1) / 255)
    np.testing.assert_array_equal(dataset.y, y)
    assert dataset.X.flags.c_contiguous
    if name == "lfw":  # the crop that is asked for gives 60 x 60 pixels
        for side in calls[0]["slice_"]:
            assert (side.stop - side.start) * calls[0]["resize"] == 60
    numbers = {"mnist": 554, "usps": 41082, "cifar10": 40927}
    assert calls[0].get("data_id") == numbers.get(name)


@pytest.mark.parametrize("name", DOWNLOADED + FOLDER_ONLY)
def test_without_data_the_error_says_what_to_put_where(name, monkeypatch, tmp_path):
    """It names file, arrays and the environment variable, or the folder that that names."""
    with pytest.raises(FileNotFoundError, match=r"Put \w+\.npz with the arrays X.*AKPCA_DATA"):
        load_dataset(name)
    monkeypatch.setenv("AKPCA_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=re.escape(str(tmp_path))):
        load_dataset(name)
    there, text = dataset_files(name)
    assert not there
    assert ("scikit-learn may download" in text) == (name in DOWNLOADED)


def test_dataset_keeps_what_belongs_together():
    """Subsets have their labels; arrays that do not fit are refused."""
    X, y = np.arange(96.0).reshape(4, 24), np.arange(4)
    whole = Dataset("toy", X, y, (4, 6), "counts")
    for indices in (np.array([2, 0]), np.array([False, True, True, False]), slice(1, 3)):
        subset = whole.subset(indices)
        np.testing.assert_array_equal(subset.X, X[indices])
        np.testing.assert_array_equal(subset.y, y[indices])
        assert subset.image_shape == (4, 6)
    for changes, problem in (
        ({"X": np.zeros(4)}, "toy: X must have shape"),
        ({"y": np.zeros(3, dtype=int)}, "toy: y must have shape"),
        ({"image_shape": (5, 5)}, r"toy: image_shape=\(5, 5\) does not fit"),
    ):
        with pytest.raises(ValueError, match=problem):
            replace(whole, **changes)


def test_random_states_are_those_of_scikit_learn():
    """A RandomState gives another at each call, the same ones when it starts again."""
    assert generator(np.int64(3)).random() == np.random.default_rng(3).random()
    state = np.random.RandomState(0)
    first = generator(state).random()
    assert first != generator(state).random()
    assert first == generator(np.random.RandomState(0)).random()
    with pytest.raises(ValueError, match="'three' cannot be used to seed"):
        generator("three")


@given(
    st.lists(st.integers(3, 20), min_size=1, max_size=6),
    st.integers(1, 2),
    st.none() | st.integers(0, 1),
    st.integers(0, 2**32),
)
def test_split_is_disjoint_balanced_and_fixed_by_the_seed(counts, n_train, n_test, seed):
    """Each class gives as many examples as asked for, none twice, the same for the same seed."""
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)) * 3 - 4, counts))
    train, test = balanced_split(y, n_train, n_test, random_state=seed)
    assert len(np.unique([*train, *test])) == len(train) + len(test)
    for label in np.unique(y):
        assert np.sum(y[train] == label) == n_train
        rest = np.sum(y == label) - n_train
        assert np.sum(y[test] == label) == (rest if n_test is None else n_test)
    again = balanced_split(y, n_train, n_test, random_state=seed)
    np.testing.assert_array_equal(np.concatenate(again), np.concatenate([train, test]))
    np.testing.assert_array_equal(train, balanced_split(y, n_train, random_state=seed)[0])


@pytest.mark.parametrize(
    ("y", "n_train", "n_test", "problem"),
    [
        ([0, 0, 0, 7], 2, None, "n_train=2: class 7 has 1 examples"),
        ([0, 0, 0, 7, 7], 1, 2, "n_test=2: class 7 has 2 examples, of which n_train=1 leave 1"),
        ([0, 1], 0, None, "n_train=0"),
        (None, 1, None, "y must have shape"),
    ],
)
def test_impossible_split_names_the_argument(y, n_train, n_test, problem):
    """What can't be done is refused with the name and value of the argument."""
    with pytest.raises(ValueError, match=problem):
        balanced_split(y, n_train, n_test)


# Pixels

shapes = st.tuples(st.integers(0, 3), st.integers(1, 9), st.integers(1, 9), st.integers(1, 3))


@given(shapes, st.integers(1, 4))
def test_subsample_is_a_strided_slice(shape, step):
    """Of the images, every step-th row and column is left, for grey and colour."""
    images = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    rows = images.reshape(shape[0], int(np.prod(shape[1:])))
    small = Dataset("toy", rows, None, shape[1:], "").subsampled(step=step)
    assert small.X.dtype == np.float32
    np.testing.assert_array_equal(small.images, images[:, ::step, ::step])


def test_grey_is_the_weighted_mean_of_the_channels():
    """Pure red, green and blue weigh 0.299, 0.587 and 0.114; white stays white."""
    colours = np.array([[1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1]], dtype=float)
    for dtype in (np.float64, np.float32):
        grey = Dataset("toy", colours.astype(dtype), None, (2, 2, 3), "").to_grey()
        assert grey.image_shape == (2, 2)
        assert grey.X.dtype == dtype
        np.testing.assert_allclose(grey.X, np.array([[0.299, 0.587, 0.114, 1]], dtype))
    with pytest.raises(ValueError, match=r"image_shape=\(3, 4\)"):
        Dataset("toy", colours, None, (3, 4), "").to_grey()


# Scaling and noise

matrices = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 8), st.integers(1, 5)),
    elements=st.floats(-1e3, 1e3).map(lambda x: round(x, 3)),
).filter(np.any)


@given(matrices, st.floats(1e-3, 1e3))
def test_max_norm_scaling(X, factor):
    """The longest example gets norm 1, and the unit in which X is measured does not matter."""
    scaled, largest = scale_by_max_norm(X), np.linalg.norm(X, axis=1).max()
    np.testing.assert_allclose(scaled * largest, X, rtol=1e-12)
    np.testing.assert_allclose(scale_by_max_norm(factor * X), scaled, rtol=1e-12)
    np.testing.assert_allclose(scale_by_max_norm(X[:1], reference=X), scaled[:1])
    with pytest.raises(ValueError, match="the largest norm is"):
        scale_by_max_norm(0 * X)


@settings(max_examples=25)
@given(st.floats(0.01, 100), st.integers(0, 2**32))
def test_gaussian_noise_has_the_stated_deviation(sigma, seed):
    """The noise has mean 0 and standard deviation sigma."""
    noise = add_gaussian_noise(np.ones((200, 200)), sigma, random_state=seed) - 1
    assert abs(noise.mean()) < 6 * sigma / 200  # six standard errors of 40000 draws
    assert abs(noise.std() / sigma - 1) < 6 / np.sqrt(2 * 40000)


@settings(max_examples=25)
@given(st.floats(0, 1), st.floats(0, 1), st.integers(0, 2**32))
def test_speckle_only_zeroes_and_more_so_for_larger_p(p, q, seed):
    """A share p of the pixels is lost, the others stay, and a larger p loses more of the same."""
    X = np.random.default_rng(0).uniform(0.1, 1, size=(200, 200))
    lost = {}
    for probability in (p, q):
        noisy = add_speckle(X, probability, random_state=seed)
        lost[probability] = noisy == 0
        np.testing.assert_array_equal(noisy[noisy != 0], X[noisy != 0])
        error = 6 * np.sqrt(probability * (1 - probability) / 40000) + 1e-4
        assert abs(lost[probability].mean() - probability) < error
    assert not np.any(lost[min(p, q)] & ~lost[max(p, q)])


@pytest.mark.parametrize("add", [add_gaussian_noise, add_speckle])
def test_noise_makes_a_new_array_of_the_same_type(add):
    """The clean examples stay, float32 stays float32, and the seed decides."""
    for dtype, expected in [(np.float32, np.float32), (np.float64, np.float64), (int, np.float64)]:
        X = np.ones((20, 30), dtype=dtype)
        noisy = add(X, 0.5, random_state=1)
        assert noisy.dtype == expected
        np.testing.assert_array_equal(X, 1)
        np.testing.assert_array_equal(noisy, add(X, 0.5, random_state=1))
        assert not np.array_equal(noisy, add(X, 0.5, random_state=2))
