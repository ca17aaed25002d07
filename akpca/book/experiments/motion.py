"""A walk with noise, cleaned by kernel PCA: section 5.1.5 of the paper.

A frame is the direction of every bone, a unit vector, from where it starts to where it ends. Noise
turns each of them, by its two angles. Frames are projected onto 25 components and decoded, and each
direction is made a unit vector again.

The CMU walk needs its files; `Walk.synthetic` is a walk by sines that needs none.

Günter, Schraudolph and Vishwanathan, "Fast iterative kernel principal component analysis", JMLR 8,
2007; after Tangkuampien and Suter, ICPR 2006.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...datasets import RandomLike, generator
from ...hebbian import Gain, HebbianProgress
from ...parameters import check_number
from ...preimage import FixedPointPreimage
from ..mocap import Skeleton, bone_directions, load_cmu_walk
from .projections import Samples
from .small_sets import Measure, follow_all, kept_passes
from .tables import ResultTable

__all__ = [
    "MEASURES",
    "PASSES",
    "READINGS",
    "SIGMA",
    "WALKS",
    "NoisyWalk",
    "Walk",
    "removed",
    "run",
    "turn",
    "unit_vectors",
]

#: Width of the paper's kernel.
SIGMA = float(np.sqrt(1.5))
#: What "a variance of 2 degrees" may mean -> the standard deviation of an angle, in degrees.
READINGS: dict[str, float] = {
    "standard deviation 2°": 2.0,
    "variance 2 square degrees": float(np.sqrt(2)),
    "variance 2° in radians": float(np.rad2deg(np.sqrt(np.deg2rad(2)))),
}
#: Passes of which rows are written.
PASSES = (1, 2, 3, 5, 10, 20, 50)
#: What is left of the noise: of the directions of bones, and of where joints are.
MEASURES = ("directions left", "joints left")
WALKS = ("synthetic", "cmu_walk")

# Name, parent, direction of rest and length of the bones of a small body; y is up, z is forward.
_BODY = [
    ("spine", "root", (0, 1, 0), 5.0),
    ("neck", "spine", (0, 1, 0.1), 1.5),
    ("head", "neck", (0, 1, 0.1), 1.5),
    *((f"{s}shoulder", "spine", (x, 0.1, 0), 1.8) for s, x in (("l", 1), ("r", -1))),
    *((f"{s}upperarm", f"{s}shoulder", (0.1 * x, -1, 0), 3.0) for s, x in (("l", 1), ("r", -1))),
    *((f"{s}forearm", f"{s}upperarm", (0, -1, 0.1), 2.6) for s in "lr"),
    *((f"{s}hip", "root", (x, -0.3, 0), 1.2) for s, x in (("l", 1), ("r", -1))),
    *((f"{s}thigh", f"{s}hip", (0.05 * x, -1, 0), 4.2) for s, x in (("l", 1), ("r", -1))),
    *((f"{s}shin", f"{s}thigh", (0, -1, 0), 4.2) for s in "lr"),
    *((f"{s}foot", f"{s}shin", (0, -0.4, 1), 1.5) for s in "lr"),
]
# Bone -> mean, amplitude and phase (in cycles, of the left side) of its swing about the x axis, in
# degrees; the second entry is that of twice the frequency.
_SWINGS = {
    "spine": ((4, 0, 0), (0, 1.5, 0.1)),
    "neck": ((0, 0, 0), (0, 2, 0.3)),
    "upperarm": ((5, 22, 0.5), (0, 3, 0.2)),
    "forearm": ((-25, 12, 0.55), (0, 4, 0.3)),
    "thigh": ((-6, 24, 0.0), (0, 4, 0.15)),
    "shin": ((28, 22, 0.3), (0, 14, 0.45)),
    "foot": ((-5, 12, 0.6), (0, 8, 0.1)),
}


@dataclass(frozen=True, eq=False)
class Walk:
    """A skeleton, and the direction of each of its bones in every frame.

    Attributes
    ----------
    skeleton : Skeleton
    directions : ndarray of shape (n_frames, n_bones, 3)
        Unit vectors.
    """

    skeleton: Skeleton
    directions: np.ndarray

    @classmethod
    def load(cls, name: str, *, n_frames: int = 343) -> Walk:
        """Return one of `WALKS`; the number of frames is that of the synthetic one."""
        if name == "synthetic":
            return cls.synthetic(n_frames)
        if name != "cmu_walk":
            raise ValueError(f"{name=} must be one of {', '.join(WALKS)}")
        return cls(*load_cmu_walk())

    @classmethod
    def synthetic(cls, n_frames: int = 343, *, n_steps: float = 2.6) -> Walk:
        """Return a walk whose joints swing by sines, each side half a cycle after the other.

        No cycle is quite like the one before, as in a real walk: swings grow by a fifth and the
        body turns by twenty degrees on the way.
        """
        check_number("n_frames", n_frames, integer=True, low=2)
        names, parents, directions, lengths = zip(*_BODY, strict=True)
        directions = unit_vectors(np.array(directions, dtype=float))
        dofs = tuple(("rx",) if _swing(name)[0] else () for name in names)
        order = ("tx", "ty", "tz", "rx", "ry", "rz")
        axes = np.zeros((len(names), 3))
        skeleton = Skeleton(names, parents, directions, np.array(lengths), axes, dofs, order)
        time = np.linspace(0, 1, n_frames)
        root = np.zeros((n_frames, 6))
        root[:, 2], root[:, 4] = 25 * time, 20 * time + 3 * np.sin(2 * np.pi * n_steps * time)
        frames = {"root": root}
        for name in (name for name, dof in zip(names, dofs, strict=True) if dof):
            swings, delay = _swing(name)
            angle = np.zeros(n_frames)
            for harmonic, (mean, size, phase) in enumerate(swings, start=1):
                cycle = harmonic * (n_steps * time + delay) + phase
                angle += mean + size * (1 + 0.2 * time) * np.sin(2 * np.pi * cycle)
            frames[name] = angle[:, None]
        return cls(skeleton, bone_directions(skeleton, frames))

    def positions(self, directions: np.ndarray | None = None) -> np.ndarray:
        """Return where bones start and end if the root stays in its place.

        Directions other than those of the walk have the same shape or are rows of numbers; the
        result has shape (n_frames, n_bones, 2, 3).
        """
        D = self.directions if directions is None else directions
        D = D.reshape(len(D), -1, 3) * self.skeleton.lengths[:, None]
        ends: dict[str, np.ndarray] = {"root": np.zeros((len(D), 3))}
        waiting = list(range(len(self.skeleton.names)))
        while waiting:  # parents first, in whatever order the file has them
            i = next(i for i in waiting if self.skeleton.parents[i] in ends)
            ends[self.skeleton.names[i]] = ends[self.skeleton.parents[i]] + D[:, i]
            waiting.remove(i)
        chains = zip(self.skeleton.parents, self.skeleton.names, strict=True)
        return np.stack([np.stack([ends[p], ends[n]], axis=1) for p, n in chains], axis=1)


def _swing(name: str) -> tuple[tuple, float]:
    """Return the swings of a bone, none if it is stiff, and how much its side is behind."""
    side, rest = (0.5, name[1:]) if name[0] == "r" else (0.0, name[1:])
    return _SWINGS.get(name, _SWINGS.get(rest, ())), side


def unit_vectors(X: np.ndarray) -> np.ndarray:
    """Return vectors, the last axis or triples of numbers in a row, divided by their lengths."""
    V = X.reshape(*X.shape[:-1], -1, 3)
    return (V / np.linalg.norm(V, axis=-1, keepdims=True)).reshape(X.shape)


def turn(directions: np.ndarray, degrees: float, *, random_state: RandomLike = 0) -> np.ndarray:
    """Return unit vectors, shape (..., 3), with noise added to both of their angles.

    The angles are that with the z axis and that about it; `degrees` is their standard deviation.
    """
    check_number("degrees", degrees)
    inclination = np.arccos(np.clip(directions[..., 2], -1, 1))
    azimuth = np.arctan2(directions[..., 1], directions[..., 0])
    noise = np.deg2rad(degrees) * generator(random_state).standard_normal((2, *azimuth.shape))
    inclination, azimuth = inclination + noise[0], azimuth + noise[1]
    level = np.sin(inclination)
    parts = level * np.cos(azimuth), level * np.sin(azimuth), np.cos(inclination)
    return np.stack(parts, axis=-1)


def removed(clean: np.ndarray, noisy: np.ndarray, denoised: np.ndarray) -> float:
    """Return which part of the noise is gone: 1 - ||denoised - clean||^2 / ||noisy - clean||^2."""
    return 1 - float(np.sum((denoised - clean) ** 2) / np.sum((noisy - clean) ** 2))


@dataclass(frozen=True, eq=False)
class NoisyWalk:
    """A walk with noise, whose frames are cleaned by components of kernel PCA.

    Attributes
    ----------
    walk : Walk
    degrees : float
        Standard deviation of the noise of each angle.
    seed : int
        Of the noise.
    learn_from : {'noisy', 'clean'}
        The frames that components are learned from. What is cleaned are the noisy ones.
    """

    walk: Walk
    degrees: float = 2.0
    seed: int = 0
    learn_from: str = "noisy"

    def __post_init__(self) -> None:
        """Check the frames to learn from."""
        if self.learn_from not in ("noisy", "clean"):
            raise ValueError(f"learn_from={self.learn_from!r} must be 'noisy' or 'clean'")

    @cached_property
    def noisy(self) -> np.ndarray:
        """The frames with noise, shape (n_frames, n_bones, 3)."""
        return turn(self.walk.directions, self.degrees, random_state=self.seed)

    @cached_property
    def samples(self) -> Samples:
        """The frames that components are learned from, as rows, with the paper's kernel."""
        frames = self.noisy if self.learn_from == "noisy" else self.walk.directions
        return Samples(frames.reshape(len(frames), -1), SIGMA)

    def cleaned(self, A: np.ndarray) -> np.ndarray:
        """Return what components with coefficients A, shape (r, l), make of the noisy frames."""
        rows = self.noisy.reshape(len(self.noisy), -1)
        decoded = self.samples.decoded(A, FixedPointPreimage(), rows)
        return unit_vectors(decoded).reshape(self.noisy.shape)

    def removed(self, cleaned: np.ndarray) -> tuple[float, float]:
        """Return which part of the noise is gone: of the directions, and of where joints are."""
        three = self.walk.directions, self.noisy, cleaned
        ends = (self.walk.positions(directions)[:, :, 1] for directions in three)
        return removed(*three), removed(*ends)

    def measure(self) -> dict[str, Measure]:
        """Return measures of `follow`: what is left of the noise, of directions and of joints."""

        def left(i: int) -> Measure:
            return Measure(lambda state: 1 - self.removed(self._of(state))[i])

        return {name: left(i) for i, name in enumerate(MEASURES)}

    def _of(self, state: HebbianProgress) -> np.ndarray:
        return self.cleaned(state.coefficients)


def run(
    walk: Walk,
    gains: Mapping[str, Mapping[str, Gain | str]],
    table: ResultTable,
    *,
    seeds: Sequence[int],
    n_passes: int = PASSES[-1],
    n_components: int = 25,
    verbose: bool = False,
) -> None:
    """Write the rows of the experiment that are missing; `gains` are sets as in `follow`.

    Parts are the frames that components are learned from, 'noisy' and 'clean'. The noise has the
    first seed; what exact components leave of it is written for all `READINGS`.
    """
    passes = kept_passes(PASSES, n_passes)
    options = {"seeds": seeds, "n_passes": n_passes, "passes": passes, "verbose": verbose}
    for part in ("noisy", "clean"):
        for reading, degrees in READINGS.items():
            _exactly(NoisyWalk(walk, degrees, int(seeds[0]), part), reading, table, n_components)
        noisy = NoisyWalk(walk, seed=int(seeds[0]), learn_from=part)
        problem = noisy.samples.problem("motion", part, n_components)
        follow_all(problem, gains, table, measures=noisy.measure(), **options)


def _exactly(noisy: NoisyWalk, reading: str, table: ResultTable, n_components: int) -> None:
    """Write what exact components leave of the noise, as pass 0."""
    keys = [
        ("motion", noisy.learn_from, "reference", reading, 0, measure, 0) for measure in MEASURES
    ]
    if any(key not in table for key in keys):
        cleaned = noisy.cleaned(noisy.samples.exact(n_components))
        for key, part in zip(keys, noisy.removed(cleaned), strict=True):
            table.add(*key, value=float(f"{1 - part:.6g}"))
