r"""Motion capture: from Acclaim files to the unit direction of every bone in every frame.

An Acclaim recording is two text files. The skeleton (``.asf``) gives each bone a length, a
direction in the rest pose, the axes of its joint and the joint's degrees of freedom; the motion
(``.amc``) gives the angles of those degrees of freedom, frame by frame. This is the format of
the CMU motion capture library.

Forward kinematics turn angles into geometry. With :math:`C` the rotation to the bone's joint
axes and :math:`R_t` the rotation by the joint's angles in frame :math:`t`, a bone's rotation in
the world is that of its parent followed by its own, and its direction is the rotated rest
direction:

.. math::

    Q_t = Q_t^{\text{parent}} \, C R_t C^{-1}, \qquad \delta_t = Q_t \, d .

The contract of this module: all angles are in degrees, a rotation by angles (x, y, z) turns about
the fixed x axis first, then y, then z, vectors are columns, bones keep the order of the skeleton
file, and lengths are in the file's own units. A file that breaks the format raises a ValueError
that names the file and the line.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from ..datasets import data_folder

__all__ = [
    "Skeleton",
    "bone_directions",
    "load_cmu_walk",
    "read_amc",
    "read_asf",
]

_ROTATIONS = ("rx", "ry", "rz")
_TRANSLATIONS = ("tx", "ty", "tz")
_BONE_KEYS = ("name", "direction", "length", "axis")


class _Line(NamedTuple):
    """The words of a line, and where it is."""

    where: str
    words: list[str]

    def error(self, problem: str) -> ValueError:
        return ValueError(f"{self.where}: {problem}")

    def numbers(self, count: int | None = None) -> list[float]:
        """Return the numbers that follow the first word, `count` of them if given."""
        try:
            values = [float(word) for word in self.words[1:]]
        except ValueError:
            values = []
        if not values or not np.isfinite(values).all() or count not in (None, len(values)):
            wanted = "numbers" if count is None else f"{count} number{'s' * (count > 1)}"
            raise self.error(f"expected {wanted} in {' '.join(self.words)!r}")
        return values


@dataclass(frozen=True, eq=False)
class Skeleton:
    """The bones of an Acclaim skeleton, in the order of the file.

    Attributes
    ----------
    names, parents : tuple of str, length n_bones
        Name of each bone, and of the bone that it hangs on or ``"root"``, which is not a bone.
    directions : ndarray of shape (n_bones, 3)
        Unit direction of each bone in the rest pose.
    lengths : ndarray of shape (n_bones,)
        Length of each bone, in the file's units.
    axes : ndarray of shape (n_bones, 3)
        Angles (x, y, z), in degrees, of each bone's joint axes.
    dofs : tuple of tuple of str, length n_bones
        Rotations that a motion specifies for each joint, in this order, such as ``("rx", "rz")``.
    root_order : tuple of str, length 6
        Order of the root's values, such as ``("tx", "ty", "tz", "rx", "ry", "rz")``.
    """

    names: tuple[str, ...]
    parents: tuple[str, ...]
    directions: np.ndarray
    lengths: np.ndarray
    axes: np.ndarray
    dofs: tuple[tuple[str, ...], ...]
    root_order: tuple[str, ...]


def read_asf(path: str | os.PathLike[str]) -> Skeleton:
    """Read an Acclaim skeleton file (``.asf``).

    What CMU's files never use is a ValueError too: radians, an axis order other than XYZ, joints
    that slide, and a root that starts away from the origin.
    """
    sections: dict[str, list[_Line]] = {}
    for line in _lines(path):
        if line.words[0].startswith(":"):
            lines = sections.setdefault(line.words[0].lower(), [])
        elif not sections:
            raise line.error(f"expected a section such as :units, got {line.words[0]!r}")
        else:
            lines.append(line)
    for section in (":root", ":bonedata", ":hierarchy"):
        if not sections.get(section):
            raise line.error(f"the file ends here, the section {section} is missing or empty")
    for line in sections.get(":units", []):
        if line.words[0] == "angle" and line.words[1:] != ["deg"]:
            raise line.error("only 'angle deg' is supported")
    root_order = _read_root(sections[":root"])
    bones = _read_bones(sections[":bonedata"])
    hierarchy = _read_hierarchy(sections[":hierarchy"], set(bones))
    parents = tuple(hierarchy[name] for name in bones)
    directions, lengths, axes = (
        np.array([bone[key] for bone in bones.values()]) for key in ("direction", "length", "axis")
    )
    dofs = tuple(bone["dof"] for bone in bones.values())
    return Skeleton(tuple(bones), parents, directions, lengths, axes, dofs, root_order)


def read_amc(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Read an Acclaim motion file (``.amc``).

    The result maps the root and each moving bone to the values of all frames, shape (n_frames,
    n_values). What a column means is said by the skeleton's `root_order` and `dofs`.
    """
    frames: list[dict[str, list[float]]] = []
    expected = 0
    for line in _lines(path):
        first, *others = line.words
        if first.startswith(":"):
            if first.lower() == ":radians":
                raise line.error("only :DEGREES is supported")
        elif first.isdigit() and len(first) < 10 and not others:
            if frames:
                _check_frame(line, frames)
            expected = expected + 1 if frames else int(first)
            if int(first) != expected:
                raise line.error(f"expected frame {expected}, got {first}")
            frames.append({})
        elif not frames:
            raise line.error(f"expected a frame number, got {' '.join(line.words)!r}")
        elif first in frames[-1]:
            raise line.error(f"{first} is given twice in one frame")
        else:
            frames[-1][first] = line.numbers()
    if not frames:
        raise line.error("the file ends here, no frames found")
    _check_frame(line, frames)
    return {name: np.array([frame[name] for frame in frames]) for name in frames[0]}


def bone_directions(skeleton: Skeleton, frames: dict[str, np.ndarray]) -> np.ndarray:
    """Return the direction of every bone in every frame, in world coordinates.

    The skeleton comes from :func:`read_asf`, the frames from :func:`read_amc`; the result is unit
    vectors of shape (n_frames, n_bones, 3).
    """
    wanted = {"root": skeleton.root_order, **dict(zip(skeleton.names, skeleton.dofs, strict=True))}
    if unknown := sorted(set(frames) - set(wanted)):
        raise ValueError(f"frames has values for {', '.join(unknown)}, unknown to the skeleton")
    for name, dof in wanted.items():
        count = frames[name].shape[1] if name in frames else 0
        if count != len(dof):
            found = f"{count} values per frame for {name}"
            raise ValueError(f"frames has {found}, the skeleton needs {len(dof)}")
    root = _euler(_columns(frames["root"], skeleton.root_order, _ROTATIONS))
    own = [np.eye(3)] * len(skeleton.names)
    for i, dof in enumerate(skeleton.dofs):
        if dof:
            C = _euler(skeleton.axes[i])
            own[i] = C @ _euler(_columns(frames[skeleton.names[i]], dof, _ROTATIONS)) @ C.T
    chains = [[own[i] for i in _chain(skeleton, name)] for name in skeleton.names]
    Q = np.stack([reduce(np.matmul, chain, root) for chain in chains], axis=1)
    return (Q @ skeleton.directions[:, :, None])[..., 0]


def load_cmu_walk() -> tuple[Skeleton, np.ndarray]:
    """Return subject 02, trial 01 of CMU motion capture: 30 bones in 343 frames of a walk.

    The files ``mocap/02.asf`` and ``mocap/02_01.amc`` (mocap.cs.cmu.edu, funded by NSF EIA-0196217)
    are read from the folder ``AKPCA_DATA``. The second result is that of `bone_directions`.
    """
    folder = data_folder()
    asf, amc = ((folder or Path()) / "mocap" / name for name in ("02.asf", "02_01.amc"))
    if folder is None or not (asf.is_file() and amc.is_file()):
        raise FileNotFoundError(
            "the walk is not there: put mocap/02.asf and mocap/02_01.amc into a folder, and name "
            "that folder in the environment variable AKPCA_DATA"
        )
    skeleton, frames = read_asf(asf), read_amc(amc)
    try:
        return skeleton, bone_directions(skeleton, frames)
    except ValueError as error:
        raise ValueError(f"{amc} does not fit {asf}: {error}") from error


def _chain(skeleton: Skeleton, name: str) -> list[int]:
    """Return the numbers of the bones on the way from the root to a bone, itself included."""
    if name == "root":
        return []
    i = skeleton.names.index(name)
    return [*_chain(skeleton, skeleton.parents[i]), i]


def _lines(path: str | os.PathLike[str]) -> Iterator[_Line]:
    """Yield each line that is not empty or a comment, at least one."""
    line = None
    with open(path, encoding="ascii", errors="replace") as file:  # comments may be in any encoding
        for number, text in enumerate(file, start=1):
            if words := text.split("#")[0].split():
                line = _Line(f"{path}, line {number}", words)
                yield line
    if line is None:
        raise ValueError(f"{path}, line 1: the file is empty, or has comments only")


def _read_root(lines: list[_Line]) -> tuple[str, ...]:
    """Return the order of the root's values."""
    order: tuple[str, ...] = ()
    for line in lines:
        key, *words = line.words
        if key == "order":
            order = tuple(word.lower() for word in words)
            if sorted(order) != sorted(_TRANSLATIONS + _ROTATIONS):
                raise line.error("expected each of TX TY TZ RX RY RZ once")
        elif key == "axis" and words != ["XYZ"]:
            raise line.error("only the axis order XYZ is supported")
        elif key in ("position", "orientation") and any(line.numbers(3)):
            raise line.error(f"only a root {key} of 0 0 0 is supported")
    if not order:
        raise line.error("the section :root has no line 'order'")
    return order


def _read_bones(lines: list[_Line]) -> dict[str, dict]:
    """Return direction, length, axis and dof of each bone, by name."""
    bones: dict[str, dict] = {}
    bone: dict | None = None
    for line in lines:
        key, *words = line.words
        if key == "begin" and bone is None:
            bone = {"dof": ()}
        elif bone is None or key == "begin":
            expected = "begin" if bone is None else "end"
            raise line.error(f"expected {expected!r}, got {' '.join(line.words)!r}")
        elif key == "end":
            if missing := [wanted for wanted in _BONE_KEYS if wanted not in bone]:
                raise line.error(f"this bone has no {' and no '.join(missing)}")
            if bone["name"] in bones or bone["name"] == "root":
                raise line.error(f"a second bone has the name {bone['name']!r}")
            bones[bone["name"]] = bone
            bone = None
        elif key == "name":
            bone["name"] = " ".join(words)
        elif key == "direction":
            direction = np.array(line.numbers(3))
            norm = math.hypot(*direction)  # does not overflow on the way
            if not 0 < norm < math.inf:
                raise line.error("a bone's direction can't be zero, nor too long to be measured")
            bone["direction"] = direction / norm  # the file rounds to six digits
        elif key == "length":
            bone["length"] = line.numbers(1)[0]
            if bone["length"] < 0:
                raise line.error("a bone's length can't be negative")
        elif key == "axis":
            if words[3:] != ["XYZ"]:
                raise line.error("expected three angles and the axis order XYZ")
            bone["axis"] = line._replace(words=line.words[:4]).numbers(3)
        elif key == "dof":
            bone["dof"] = tuple(word.lower() for word in words)
            if len(set(bone["dof"]) & set(_ROTATIONS)) != len(words):
                raise line.error("only rx, ry and rz, each once, are supported")
    if bone is not None:
        raise line.error("the last bone has no 'end'")
    return bones


def _read_hierarchy(lines: list[_Line], names: set[str]) -> dict[str, str]:
    """Return the parent of each bone, by name."""
    parents: dict[str, str] = {}
    for line in lines:
        parent, *children = line.words
        if parent in ("begin", "end"):
            continue
        # Hence every bone leads to the root, without loops.
        if parent != "root" and parent not in parents:
            raise line.error(f"{parent!r} has not been connected to the root")
        for child in children:
            if child not in names:
                raise line.error(f"{child!r} is not a bone of this file")
            if child in parents:
                raise line.error(f"{child!r} has two parents")
            parents[child] = parent
    if loose := sorted(names - set(parents)):
        raise line.error(f"no parent is given for {', '.join(loose)}")
    return parents


def _check_frame(line: _Line, frames: list[dict[str, list[float]]]) -> None:
    """Check that the last frame gives the same bones as the first, as many values each."""
    first, last = (Counter({name: len(v) for name, v in frames[i].items()}) for i in (0, -1))
    for name in sorted(first | last):
        if first[name] != last[name]:
            numbers = f"{last[name]} values for {name}, the first frame has {first[name]}"
            raise line.error(f"the frame that ends here has {numbers}")
    if not first:
        raise line.error("the first frame is empty")


def _columns(values: np.ndarray, order: tuple[str, ...], wanted: tuple[str, ...]) -> np.ndarray:
    """Return the columns `wanted` of `values`, whose columns are `order`; zero if absent."""
    absent = np.zeros(len(values))
    return np.stack([values[:, order.index(w)] if w in order else absent for w in wanted], axis=1)


def _euler(angles: np.ndarray) -> np.ndarray:
    """Return the matrices, shape (..., 3, 3), of rotations about fixed x, then y, then z."""
    return Rotation.from_euler("xyz", angles, degrees=True).as_matrix()
