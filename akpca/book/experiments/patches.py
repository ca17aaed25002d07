"""A photograph with noise, cleaned window by window: section 5.1.2 of the paper.

The photograph is cut into four quarters. Windows of each, 11x11 pixels on a grid of two, are the
samples of a kernel PCA of their own. Every window is projected onto 20 components and decoded, and
a pixel is the mean of all windows that have it. A quarter is given a margin of half a window, so
that its windows reach as far as those of its neighbours: of 256x256 pixels this makes the 3,844
windows in a quarter of which the paper speaks.

Günter, Schraudolph and Vishwanathan, "Fast iterative kernel principal component analysis", JMLR 8,
2007; after Kim, Franz and Schölkopf, IEEE TPAMI 27(9), 2005.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.decomposition import PCA

from ...datasets import add_gaussian_noise
from ...hebbian import Gain, HebbianProgress, make_gain
from ...parameters import check_number
from ...preimage import Preimage, RidgePreimage
from .projections import Samples
from .small_sets import TABLE_1, Measure, Study, follow, follow_all, kept_passes, merge_once
from .tables import ResultTable

__all__ = [
    "COMBINATIONS",
    "FIRST",
    "LONG_RUN",
    "META_GAINS",
    "META_PASSES",
    "PASSES",
    "PENALTIES",
    "SHOWN",
    "Photograph",
    "average_windows",
    "decibels",
    "meta_gains",
    "photograph",
    "run",
    "windows_of",
]

#: Gains of figure 8 on the left: the factors t, e and s and all combinations that the paper has.
COMBINATIONS: dict[str, Gain] = {
    "KHA/t": TABLE_1["patches"]["KHA/t"],
    "KHA/s": make_gain("KHA/s", eta0=0.5, mu=2),
    "KHA/ts": make_gain("KHA/ts", eta0=2, tau=1, mu=1),
    "KHA/et*": TABLE_1["patches"]["KHA/et*"],
    "KHA/es": make_gain("KHA/es", eta0=1, mu=2),
    "KHA-SMD*": TABLE_1["patches"]["KHA-SMD*"],
}
#: Values of mu that figure 8 tries on the right, until the iteration diverges.
META_GAINS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
#: Penalties of the ridge decoder, from which one is chosen.
PENALTIES = (0.01, 0.1, 1.0, 10.0)
# Bytes of its regression: on some 700 centres it is as good here, and many times faster.
_MEMORY = 4e7
#: Passes of which rows are written, and the quarter in which what is not about the image is tried.
PASSES, FIRST = (1, 2, 3, 5, 10, 20, 50), 0
#: Variants that are tried in all quarters, so that there are whole images of them.
SHOWN = ("KHA", "KHA/et*", "KHA-SMD")
#: Passes with each of `META_GAINS`.
META_PASSES = 20
#: How often Kim et al. went through the windows, with a constant gain.
LONG_RUN = 800


def photograph(name: str, size: int) -> np.ndarray:
    """Return the middle of one of scikit-learn's two photographs in grey, shape (size, size).

    Pixels are in [0, 1], and means over the area that they cover.
    """
    from PIL import Image

    if name not in ("china.jpg", "flower.jpg"):
        raise ValueError(f"{name=} must be 'china.jpg' or 'flower.jpg'")
    check_number("size", size, integer=True, low=1, high=427)
    picture = Image.fromarray(load_sample_image(name)).convert("L")
    side = min(picture.size)
    left, top = ((length - side) // 2 for length in picture.size)
    square = picture.crop((left, top, left + side, top + side))
    return np.asarray(square.resize((size, size), Image.Resampling.BOX)) / 255


def windows_of(image: np.ndarray, size: int, step: int) -> np.ndarray:
    """Return the windows of an image on a grid, a row each, shape (n, size^2)."""
    view = np.lib.stride_tricks.sliding_window_view(image, (size, size))
    return view[::step, ::step].reshape(-1, size**2)


def average_windows(
    windows: np.ndarray, shape: tuple[int, int], size: int, step: int
) -> np.ndarray:
    """Return the image of this shape of which each pixel is the mean of all windows that have it.

    Windows are as in :func:`windows_of`; a pixel that no window has is 0.
    """
    rows, columns = ((length - size) // step + 1 for length in shape)
    grid = np.reshape(windows, (rows, columns, size, size))
    total, count = np.zeros(shape), np.zeros(shape)
    for i in range(size):
        for j in range(size):
            place = np.s_[i : i + step * rows : step, j : j + step * columns : step]
            total[place] += grid[:, :, i, j]
            count[place] += 1
    return total / np.maximum(count, 1)


@dataclass(frozen=True, eq=False)
class Photograph:
    """A noisy image in four quarters, each with the windows of its own kernel PCA.

    Attributes
    ----------
    clean, noisy : ndarray of shape (height, height)
        The height less the window less 1 must be a multiple of twice the step.
    window, step : int
        Side of a window, and the distance of one to the next.
    sigma : float
        Width of the kernel.
    """

    clean: np.ndarray
    noisy: np.ndarray
    window: int = 11
    step: int = 2
    sigma: float = 1.0

    def __post_init__(self) -> None:
        """Check that windows fit into the quarters."""
        height, more = len(self.clean), self.window + 1
        if height < more or (height - more) % (2 * self.step):
            some = [more + 2 * self.step * i for i in (19, 23, 61)]
            raise ValueError(
                f"an image of {height} pixels has no quarters that windows of {self.window} pixels "
                f"on a grid of {self.step} cover: give it one of {some[0]}, {some[1]} or {some[2]}"
            )

    @classmethod
    def load(cls, name: str, size: int, *, snr: float = 8.0, random_state: int = 0) -> Photograph:
        """Return a photograph with Gaussian noise of so many decibels.

        The noisy image, and kernel matrices with it, is in single precision if it is large.
        """
        clean = photograph(name, size)
        spread = float(clean.std() * 10 ** (-snr / 20))
        noisy = add_gaussian_noise(clean, spread, random_state=random_state)
        return cls(clean, noisy.astype(np.float32) if size > 128 else noisy)

    def _quarter(self, image: np.ndarray, part: int, margin: int) -> np.ndarray:
        half = len(image) // 2
        rows, columns = (slice(None, half + margin), slice(half - margin, None))
        return image[(rows, columns)[part // 2], (rows, columns)[part % 2]]

    @cached_property
    def samples(self) -> list[Samples]:
        """The windows of each quarter."""
        quarters = [self._quarter(self.noisy, part, self.window // 2) for part in range(4)]
        return [Samples(windows_of(q, self.window, self.step), self.sigma) for q in quarters]

    def cleaned(self, part: int, A: np.ndarray, decoder: Preimage) -> np.ndarray:
        """Return a quarter of which all windows are projected onto components and decoded."""
        return self.averaged(part, self.samples[part].decoded(A, decoder))

    def averaged(self, part: int, windows: np.ndarray) -> np.ndarray:
        """Return a quarter whose pixels are means over its windows, given as rows."""
        margin = self.window // 2
        shape = self._quarter(self.noisy, part, margin).shape
        image = average_windows(windows, shape, self.window, self.step)
        rows, columns = (slice(None, shape[0] - margin), slice(margin, None))
        return image[(rows, columns)[part // 2], (rows, columns)[part % 2]]

    def joined(self, quarters: Iterable[np.ndarray]) -> np.ndarray:
        """Return the whole image of four quarters."""
        a, b, c, d = quarters
        return np.block([[a, b], [c, d]])

    def quarter_of(self, image: np.ndarray, part: int) -> np.ndarray:
        """Return a quarter of an image, without a margin."""
        return self._quarter(image, part, 0)

    def error(self, part: int, quarter: np.ndarray) -> float:
        """Return the mean squared error of a quarter."""
        return float(np.mean((quarter - self.quarter_of(self.clean, part)) ** 2))

    def quarter_name(self, part: int) -> str:
        """Return what a quarter is called in tables."""
        return ("upper left", "upper right", "lower left", "lower right")[part]

    def measure(self, part: int, decoder: Preimage) -> dict[str, Measure]:
        """Return the measure 'error' of `follow`: the mean squared error of a quarter."""

        def error(state: HebbianProgress) -> float:
            return self.error(part, self.cleaned(part, state.coefficients, decoder))

        return {"error": Measure(error)}

    def best_decoder(self, n_components: int = 20) -> RidgePreimage:
        """Return the ridge decoder with the best of `PENALTIES`, with exact components.

        It knows the clean image, so that the one that it is used for should be another.
        """
        exact = [samples.exact(n_components) for samples in self.samples]
        decoders = [
            RidgePreimage(alpha=alpha, memory_limit=_MEMORY, random_state=0) for alpha in PENALTIES
        ]
        errors = [
            sum(self.error(i, self.cleaned(i, A, decoder)) for i, A in enumerate(exact))
            for decoder in decoders
        ]
        return decoders[int(np.argmin(errors))]


def meta_gains(
    gains: Mapping[str, Gain], values: Iterable[float] = META_GAINS
) -> dict[str, dict[str, Gain]]:
    """Return sets of gains for `follow`, 'mu 0.1' and so on: the same ones with another mu."""
    return {
        f"mu {mu:g}": {name: replace(gain, mu=mu) for name, gain in gains.items()} for mu in values
    }


def run(
    photo: Photograph,
    gains: Mapping[str, Mapping[str, Gain | str]],
    factors: Mapping[str, Gain],
    table: ResultTable,
    *,
    decoder: Preimage,
    seeds: Sequence[int],
    n_passes: int = PASSES[-1],
    n_components: int = 20,
    long_run: int = 0,
    verbose: bool = False,
) -> None:
    """Write the rows of the experiment that are missing.

    Parameters
    ----------
    photo : Photograph
    gains : mapping of str to mapping of str to Gain or str
        One set of gains, as in `follow`. All of them are tried in the first quarter, and those of
        `SHOWN` in the others.
    factors : mapping of str to Gain
        Gains of figure 8 that the set does not have, and those of which mu is increased.
    table : ResultTable
        With the columns of `small_sets`.
    decoder : Preimage
    seeds : sequence of int
    n_passes : int, default=50
    n_components : int, default=20
    long_run : int, default=0
        Passes with a constant gain in the first quarter, for the first seed; 0 for no such run.
    verbose : bool, default=False
        Show progress bars.
    """
    ((label, row),) = gains.items()
    passes = kept_passes(PASSES, n_passes)
    options = {"seeds": seeds, "n_passes": n_passes, "passes": passes, "verbose": verbose}
    for part in range(4):
        problem = photo.samples[part].problem("patches", photo.quarter_name(part), n_components)
        _references(photo, part, table, decoder, n_components)
        errors = {"measures": photo.measure(part, decoder)}
        if part != FIRST:
            few = {label: {name: row[name] for name in SHOWN}}
            follow(problem, few, table, **options, **errors)
            merge_once(problem, table, seeds=seeds)
            continue
        follow_all(problem, gains, table, **options, **errors)
        new = {name: gain for name, gain in factors.items() if name not in row}
        follow(problem, {"factors": new}, table, **options)
        tried = meta_gains({name: factors[name] for name in ("KHA/s", "KHA-SMD*")})
        few = {"seeds": seeds[:1], "n_passes": META_PASSES, "passes": (META_PASSES,)}
        follow(problem, tried, table, **options | few)
        if long_run:
            ends = {"seeds": seeds[:1], "n_passes": long_run, "passes": (long_run,)}
            constant = {"long": {"KHA": row["KHA"]}}
            follow(problem, constant, table, **options | ends | errors)


def _references(photo, part, table, decoder, n_components) -> None:
    """Write errors of a quarter that need no iteration, as pass 0.

    They are those of the noisy quarter, of what exact components of kernel PCA and as many of plain
    PCA make of it, and of a flat image, which is its variance.
    """
    samples = photo.samples[part]
    found = {
        "flat": lambda: np.full((1, 1), photo.clean.mean()),
        "noisy": lambda: photo.quarter_of(photo.noisy, part),
        "exact": lambda: photo.cleaned(part, samples.exact(n_components), decoder),
        "plain PCA": lambda: photo.averaged(part, _projected(samples.X, n_components)),
    }
    for variant, quarter in found.items():
        key = ("patches", photo.quarter_name(part), "reference", variant, 0, "error", 0)
        if key not in table:
            table.add(*key, value=float(f"{photo.error(part, quarter()):.6g}"))


def _projected(X: np.ndarray, n_components: int) -> np.ndarray:
    model = PCA(n_components, random_state=0).fit(X)
    return model.inverse_transform(model.transform(X))


def decibels(
    study: Study, variant: str, number: int | None = None, *, gains: str | None = None
) -> np.ndarray:
    """Return the signal-to-noise ratio of the whole image after a pass, for each seed.

    Variants of the gains 'reference' are those of which no passes are made, such as 'noisy'.
    """

    def error(name: str, **where) -> np.ndarray:
        parts = study.parts("patches")
        values = [study.value("patches", p, name, measure="error", **where) for p in parts]
        return np.mean(values, axis=0)

    flat = error("flat", gains="reference")
    return 10 * np.log10(flat / error(variant, number=number, gains=gains))
