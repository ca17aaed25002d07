"""Large images from small ones: section 5.1.3 of the paper.

Components are learned from sharp images. A test image is made small, by means over blocks of
pixels, and large again, each pixel repeated; what the components keep of it is decoded. They have
never seen such blocks, so that what comes out should look like a sharp image.

Günter, Schraudolph and Vishwanathan, "Fast iterative kernel principal component analysis", JMLR 8,
2007; after Kim, Franz and Schölkopf, IEEE TPAMI 27(9), 2005.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.ndimage import zoom

from ...datasets import Dataset, generator, load_dataset
from ...hebbian import Gain, HebbianProgress
from ...metrics import relative_error
from ...preimage import Preimage, RidgePreimage
from .projections import Samples
from .small_sets import Measure, follow_all, kept_passes
from .tables import ResultTable

__all__ = [
    "ALPHAS",
    "FACES",
    "PASSES",
    "Faces",
    "bicubic",
    "block_means",
    "repeat_pixels",
    "run",
]

#: Sets of images -> the factor by which they are made small, and how many of each class are held
#: out for the test, and as many to choose the decoder.
FACES: dict[str, tuple[int, int]] = {"digits": (2, 20), "olivetti": (3, 1), "yale_faces": (3, 4)}
#: Penalties of the ridge decoder, from which one is chosen.
ALPHAS = (1e-3, 1e-2, 0.1, 1.0, 3.0, 10.0)
#: Passes of which rows are written.
PASSES = (1, 2, 3, 4, 5, 10, 20, 50)
# Of the extended Yale set only these people, the ten of the paper.
YALE_PEOPLE = 10


def block_means(images: np.ndarray, factor: int) -> np.ndarray:
    """Return images whose pixels are means over factor x factor blocks of those given.

    Images have shape (n, height, width), and both sides must be multiples of the factor.
    """
    n, height, width = images.shape
    if height % factor or width % factor:
        raise ValueError(f"{factor=} must divide both sides of images of {height}x{width} pixels")
    blocks = images.reshape(n, height // factor, factor, width // factor, factor)
    return blocks.mean(axis=(2, 4))


def repeat_pixels(images: np.ndarray, factor: int) -> np.ndarray:
    """Return images in which each pixel has become a factor x factor block of the same."""
    return images.repeat(factor, axis=1).repeat(factor, axis=2)


def bicubic(images: np.ndarray, factor: int) -> np.ndarray:
    """Return images that are larger by cubic splines through the pixels."""
    larger = [zoom(image, factor, order=3, mode="nearest", grid_mode=True) for image in images]
    return np.array(larger)


@dataclass(frozen=True, eq=False)
class Faces:
    """Sharp images to learn from, and others to be made small and large again.

    Attributes
    ----------
    train, test, other : ndarray of shape (n, d)
        Images as rows: those that are learned from, those of the test, and those by which a decoder
        is chosen. The mean squared distance of a training image from their mean is 1.
    image_shape : tuple of int
        Height and width.
    factor : int
        How many times smaller test images are made, in each direction.
    unit : float
        What the pixels, which were in [0, 1], have been multiplied by.
    """

    train: np.ndarray
    test: np.ndarray
    other: np.ndarray
    image_shape: tuple[int, int]
    factor: int
    unit: float

    @classmethod
    def load(cls, name: str, *, n_train: int | None = None, random_state: int = 0) -> Faces:
        """Return the images of this name, those of the test drawn at random from each class.

        Names are the keys of `FACES`; `n_train` is the largest number of images to learn from.
        """
        if name not in FACES:
            raise ValueError(f"{name=} must be one of {', '.join(FACES)}")
        data, (factor, count) = load_dataset(name), FACES[name]
        if name == "yale_faces":
            data = data.subset(data.y <= YALE_PEOPLE)
        X, shape = _cropped(data, factor)
        rng = generator(random_state)
        orders = [rng.permutation(np.flatnonzero(data.y == c)) for c in np.unique(data.y)]
        test, other = (np.concatenate([o[i * count :][:count] for o in orders]) for i in (0, 1))
        train = rng.permutation(np.concatenate([o[2 * count :] for o in orders]))[:n_train]
        unit = 1 / np.sqrt(X[train].var(axis=0).sum())
        parts = (unit * X[rows] for rows in (train, test, other))
        return cls(*parts, shape, factor, float(unit))

    @cached_property
    def samples(self) -> Samples:
        """The images to learn from, with the paper's kernel."""
        return Samples(self.train)

    def small(self, X: np.ndarray) -> np.ndarray:
        """Return images, given as rows, made small: shape (n, height / factor, width / factor)."""
        return block_means(X.reshape(-1, *self.image_shape), self.factor)

    def blocks(self, X: np.ndarray) -> np.ndarray:
        """Return images made small and large again, as rows: what the components get."""
        return repeat_pixels(self.small(X), self.factor).reshape(X.shape)

    def smooth(self, X: np.ndarray) -> np.ndarray:
        """Return images made small and large again by cubic splines, as rows: what is usual."""
        return bicubic(self.small(X), self.factor).reshape(X.shape)

    def restored(self, A: np.ndarray, decoder: Preimage, X: np.ndarray) -> np.ndarray:
        """Return what components with coefficients A, shape (r, l), make of images made small."""
        return self.samples.decoded(A, decoder, self.blocks(X))

    def measure(self, decoder: Preimage) -> dict[str, Measure]:
        """Return the measure 'error' of `follow`: the relative error of restored test images."""

        def error(state: HebbianProgress) -> float:
            return relative_error(self.test, self.restored(state.coefficients, decoder, self.test))

        return {"error": Measure(error)}

    def best_decoder(self, n_components: int) -> RidgePreimage:
        """Return the ridge decoder with the best of `ALPHAS`, by images that are not of the test.

        Components are those of an eigensolver.
        """
        A = self.samples.exact(n_components)
        decoders = [RidgePreimage(alpha=alpha) for alpha in ALPHAS]
        errors = [relative_error(self.other, self.restored(A, d, self.other)) for d in decoders]
        return RidgePreimage(alpha=ALPHAS[int(np.argmin(errors))])


def run(
    faces: Faces,
    gains: Mapping[str, Mapping[str, Gain | str]],
    table: ResultTable,
    *,
    decoder: Preimage,
    seeds: Sequence[int],
    n_passes: int = PASSES[-1],
    n_components: int = 16,
    verbose: bool = False,
) -> None:
    """Write the rows of the experiment that are missing; `gains` are sets as in `follow`."""
    problem = faces.samples.problem("faces", "all", n_components)
    passes = kept_passes(PASSES, n_passes)
    options = {"seeds": seeds, "n_passes": n_passes, "passes": passes, "verbose": verbose}
    follow_all(problem, gains, table, measures=faces.measure(decoder), **options)
    found = {
        "blocks": lambda: faces.blocks(faces.test),
        "bicubic": lambda: faces.smooth(faces.test),
        "exact": lambda: faces.restored(faces.samples.exact(n_components), decoder, faces.test),
    }
    for variant, images in found.items():
        key = ("faces", "all", "reference", variant, 0, "error", 0)
        if key not in table:
            table.add(*key, value=float(f"{relative_error(faces.test, images()):.6g}"))


def _cropped(data: Dataset, factor: int) -> tuple[np.ndarray, tuple[int, int]]:
    """Return the images as rows, and their shape, without what the factor does not divide."""
    height, width = (length - length % factor for length in data.image_shape[:2])
    height, width = (min(length, 60) for length in (height, width))  # Olivetti faces have 64
    top, left = (data.image_shape[0] - height) // 2, (data.image_shape[1] - width) // 2
    images = data.images[:, top : top + height, left : left + width]
    return images.reshape(len(images), -1), (height, width)
