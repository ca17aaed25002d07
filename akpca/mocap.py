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

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

_ROTATIONS = ("rx", "ry", "rz")
_TRANSLATIONS = ("tx", "ty", "tz")
_BONE_KEYS = ("name", "direction", "length", "axis")

_Line = tuple[int, list[str]]


@dataclass(frozen=True, eq=False)
class Skeleton:
    """The bones of an Acclaim skeleton, in the order of the file.

    Attributes
    ----------
    names : tuple of str, length n_bones
        Name of each bone. The root is not a bone.
    parents : tuple of str, length n_bones
        Name of the bone that each bone hangs on, or ``"root"``.
    directions : ndarray of shape (n_bones, 3)
        Unit direction of each bone in the rest pose.
    lengths : ndarray of shape (n_bones,)
        Length of each bone, in the file's units.
    axes : ndarray of shape (n_bones, 3)
        Angles (x, y, z), in degrees, of each bone's joint axes.
    dofs : tuple of tuple of str, length n_bones
        Rotations of each joint that a motion specifies, such as ``("rx", "rz")``, in the order of
        the motion file's values.
    root_order : tuple of str, length 6
        Order of the root's values in a motion file, such as ``("tx", "ty", "tz", "rx", "ry",
        "rz")``.
    """

    names: tuple[str, ...]
    parents: tuple[str, ...]
    directions: np.ndarray
    lengths: np.ndarray
    axes: np.ndarray
    dofs: tuple[tuple[str, ...], ...]
    root_order: tuple[str, ...]

    def __repr__(self) -> str:
        """Return one line with the number of bones and of degrees of freedom."""
        n_dofs = sum(len(dof) for dof in self.dofs) + len(self.root_order)
        return f"Skeleton: {len(self.names)} bones, {n_dofs} degrees of freedom"


def read_asf(path: str | os.PathLike[str]) -> Skeleton:
    """Read an Acclaim skeleton file.

    Parameters
    ----------
    path : str or path-like
        The ``.asf`` file.

    Returns
    -------
    Skeleton
        The bones, in the order of the file.

    Raises
    ------
    ValueError
        If the file is malformed, or uses what CMU's files never use: radians, an axis order other
        than XYZ, joints that slide, or a root that starts away from the origin.
    """
    path = Path(path)
    sections: dict[str, list[_Line]] = {}
    for number, words in _lines(path):
        if words[0].startswith(":"):
            lines = sections.setdefault(words[0].lower(), [])
        elif not sections:
            raise _malformed(path, number, f"expected a section such as :units, got {words[0]!r}")
        else:
            lines.append((number, words))
    for section in (":root", ":bonedata", ":hierarchy"):
        if not sections.get(section):
            raise ValueError(f"{path}: the section {section} is missing or empty")

    for number, words in sections.get(":units", []):
        if words[0] == "angle" and words[1:] != ["deg"]:
            raise _malformed(path, number, "only 'angle deg' is supported")
    root_order = _read_root(path, sections[":root"])
    bones = _read_bones(path, sections[":bonedata"])
    parents = _read_hierarchy(path, sections[":hierarchy"], set(bones))
    return Skeleton(
        names=tuple(bones),
        parents=tuple(parents[name] for name in bones),
        directions=np.array([bone["direction"] for bone in bones.values()]),
        lengths=np.array([bone["length"] for bone in bones.values()]),
        axes=np.array([bone["axis"] for bone in bones.values()]),
        dofs=tuple(bone["dof"] for bone in bones.values()),
        root_order=root_order,
    )


def read_amc(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Read an Acclaim motion file.

    Parameters
    ----------
    path : str or path-like
        The ``.amc`` file.

    Returns
    -------
    dict of str to ndarray of shape (n_frames, n_values)
        For the root and each moving bone the values of all frames, angles in degrees. What a
        column means is said by the skeleton's `root_order` and `dofs`.

    Raises
    ------
    ValueError
        If the file is malformed, for example if a frame is missing or lacks a bone.
    """
    path = Path(path)
    frames: list[dict[str, list[float]]] = []
    first_number = number = 0
    for number, words in _lines(path):
        if words[0].startswith(":"):
            if words[0].lower() == ":radians":
                raise _malformed(path, number, "only :DEGREES is supported")
        elif len(words) == 1 and words[0].isdigit():
            if frames:
                _check_frame(path, number, frames)
                expected = first_number + len(frames)
                if int(words[0]) != expected:
                    raise _malformed(path, number, f"expected frame {expected}, got {words[0]}")
            else:
                first_number = int(words[0])
            frames.append({})
        elif not frames:
            raise _malformed(path, number, f"expected a frame number, got {' '.join(words)!r}")
        elif words[0] in frames[-1]:
            raise _malformed(path, number, f"{words[0]} is given twice in one frame")
        else:
            frames[-1][words[0]] = _numbers(path, number, words)
    if not frames:
        raise ValueError(f"{path}: no frames found")
    _check_frame(path, number, frames)
    return {name: np.array([frame[name] for frame in frames]) for name in frames[0]}


def bone_directions(skeleton: Skeleton, frames: dict[str, np.ndarray]) -> np.ndarray:
    """Direction of every bone in every frame, in world coordinates.

    Parameters
    ----------
    skeleton : Skeleton
        The bones, from :func:`read_asf`.
    frames : dict of str to ndarray of shape (n_frames, n_values)
        The motion, from :func:`read_amc`.

    Returns
    -------
    ndarray of shape (n_frames, n_bones, 3)
        Unit vectors, bones in the skeleton's order.
    """
    _check_motion(skeleton, frames)
    rotations = {"root": _euler(_columns(frames["root"], skeleton.root_order, _ROTATIONS))}
    index = {name: i for i, name in enumerate(skeleton.names)}

    def rotation(name: str) -> np.ndarray:
        # A recursion, because a file may list a bone before the one that it hangs on.
        if name not in rotations:
            i = index[name]
            own = np.eye(3)
            if skeleton.dofs[i]:
                C = _euler(skeleton.axes[i])
                own = C @ _euler(_columns(frames[name], skeleton.dofs[i], _ROTATIONS)) @ C.T
            rotations[name] = rotation(skeleton.parents[i]) @ own
        return rotations[name]

    directions = zip(skeleton.names, skeleton.directions, strict=True)
    return np.stack([rotation(name) @ direction for name, direction in directions], axis=1)


def joint_positions(
    skeleton: Skeleton, frames: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Both ends of every bone in every frame, in world coordinates.

    Parameters
    ----------
    skeleton : Skeleton
        The bones, from :func:`read_asf`.
    frames : dict of str to ndarray of shape (n_frames, n_values)
        The motion, from :func:`read_amc`.

    Returns
    -------
    start, end : ndarray of shape (n_frames, n_bones, 3)
        Where each bone starts (the root's position or the end of its parent) and ends, in the
        file's units.
    """
    offsets = bone_directions(skeleton, frames) * skeleton.lengths[:, None]
    ends = {"root": _columns(frames["root"], skeleton.root_order, _TRANSLATIONS)}
    index = {name: i for i, name in enumerate(skeleton.names)}

    def end(name: str) -> np.ndarray:
        if name not in ends:
            ends[name] = end(skeleton.parents[index[name]]) + offsets[:, index[name]]
        return ends[name]

    stop = np.stack([end(name) for name in skeleton.names], axis=1)
    start = np.stack([ends[parent] for parent in skeleton.parents], axis=1)
    return start, stop


def _lines(path: Path) -> Iterator[_Line]:
    """Yield the number and the words of each line that is not empty or a comment."""
    # Comments may hold bytes of any encoding; the data are ASCII.
    with path.open(encoding="ascii", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            words = line.split("#")[0].split()
            if words:
                yield number, words


def _malformed(path: Path, number: int, problem: str) -> ValueError:
    return ValueError(f"{path}, line {number}: {problem}")


def _numbers(path: Path, number: int, words: list[str], count: int | None = None) -> list[float]:
    """Return the numbers that follow the first word of a line, `count` of them if given."""
    try:
        values = [float(word) for word in words[1:]]
    except ValueError:
        values = []
    if not values or not np.isfinite(values).all() or count not in (None, len(values)):
        wanted = "numbers" if count is None else f"{count} number{'s' * (count > 1)}"
        raise _malformed(path, number, f"expected {wanted} in {' '.join(words)!r}")
    return values


def _read_root(path: Path, lines: list[_Line]) -> tuple[str, ...]:
    """Return the order of the root's values."""
    order: tuple[str, ...] = ()
    for number, words in lines:
        if words[0] == "order":
            order = tuple(word.lower() for word in words[1:])
            if sorted(order) != sorted(_TRANSLATIONS + _ROTATIONS):
                raise _malformed(path, number, "expected each of TX TY TZ RX RY RZ once")
        elif words[0] == "axis" and words[1:] != ["XYZ"]:
            raise _malformed(path, number, "only the axis order XYZ is supported")
        elif words[0] in ("position", "orientation") and any(_numbers(path, number, words, 3)):
            raise _malformed(path, number, f"only a root {words[0]} of 0 0 0 is supported")
    if not order:
        raise _malformed(path, lines[-1][0], "the section :root has no line 'order'")
    return order


def _read_bones(path: Path, lines: list[_Line]) -> dict[str, dict]:
    """Return direction, length, axis and dof of each bone, by name."""
    bones: dict[str, dict] = {}
    bone: dict | None = None
    for number, words in lines:
        key = words[0]
        if key == "begin" and bone is None:
            bone = {"dof": ()}
        elif bone is None or key == "begin":
            expected = "begin" if bone is None else "end"
            raise _malformed(path, number, f"expected {expected!r}, got {' '.join(words)!r}")
        elif key == "end":
            missing = [wanted for wanted in _BONE_KEYS if wanted not in bone]
            if missing:
                raise _malformed(path, number, f"this bone has no {' and no '.join(missing)}")
            if bone["name"] in bones or bone["name"] == "root":
                raise _malformed(path, number, f"a second bone has the name {bone['name']!r}")
            bones[bone["name"]] = bone
            bone = None
        elif key == "name":
            bone["name"] = " ".join(words[1:])
        elif key == "direction":
            direction = np.array(_numbers(path, number, words, 3))
            norm = np.linalg.norm(direction)
            if norm == 0:
                raise _malformed(path, number, "a bone's direction can't be zero")
            # The file rounds to six digits.
            bone["direction"] = direction / norm
        elif key == "length":
            bone["length"] = _numbers(path, number, words, 1)[0]
        elif key == "axis":
            if words[4:] != ["XYZ"]:
                raise _malformed(path, number, "expected three angles and the axis order XYZ")
            bone["axis"] = _numbers(path, number, words[:4], 3)
        elif key == "dof":
            bone["dof"] = tuple(word.lower() for word in words[1:])
            if len(set(bone["dof"]) & set(_ROTATIONS)) != len(words) - 1:
                raise _malformed(path, number, "only rx, ry and rz, each once, are supported")
    if bone is not None:
        raise _malformed(path, lines[-1][0], "the last bone has no 'end'")
    return bones


def _read_hierarchy(path: Path, lines: list[_Line], names: set[str]) -> dict[str, str]:
    """Return the parent of each bone, by name."""
    parents: dict[str, str] = {}
    for number, (parent, *children) in lines:
        if parent in ("begin", "end"):
            continue
        # Hence every bone leads to the root, without loops.
        if parent != "root" and parent not in parents:
            raise _malformed(path, number, f"{parent!r} has not been connected to the root")
        for child in children:
            if child not in names:
                raise _malformed(path, number, f"{child!r} is not a bone of this file")
            if child in parents:
                raise _malformed(path, number, f"{child!r} has two parents")
            parents[child] = parent
    loose = sorted(names - set(parents))
    if loose:
        raise _malformed(path, lines[-1][0], f"no parent is given for {', '.join(loose)}")
    return parents


def _check_frame(path: Path, number: int, frames: list[dict[str, list[float]]]) -> None:
    """Check that the last frame gives the same bones as the first, as many values each."""
    first, last = frames[0], frames[-1]
    for name in sorted(first.keys() | last.keys()):
        if len(first.get(name, [])) != len(last.get(name, [])):
            raise _malformed(
                path,
                number,
                f"the frame that ends here has {len(last.get(name, []))} values for {name}, "
                f"the first frame has {len(first.get(name, []))}",
            )
    if not first:
        raise _malformed(path, number, "the first frame is empty")


def _check_motion(skeleton: Skeleton, frames: dict[str, np.ndarray]) -> None:
    """Check that a motion gives each joint of a skeleton the values that it needs."""
    wanted = {"root": skeleton.root_order, **dict(zip(skeleton.names, skeleton.dofs, strict=True))}
    unknown = sorted(set(frames) - set(wanted))
    if unknown:
        raise ValueError(f"frames has values for {', '.join(unknown)}, unknown to the skeleton")
    for name, dof in wanted.items():
        count = frames[name].shape[1] if name in frames else 0
        if count != len(dof):
            raise ValueError(
                f"frames has {count} values a frame for {name}, the skeleton needs {len(dof)}"
            )


def _columns(values: np.ndarray, order: tuple[str, ...], wanted: tuple[str, ...]) -> np.ndarray:
    """Return the columns `wanted` of `values`, whose columns are `order`; zero if absent."""
    absent = np.zeros(len(values))
    return np.stack([values[:, order.index(w)] if w in order else absent for w in wanted], axis=1)


def _euler(angles: np.ndarray) -> np.ndarray:
    """Return the matrices, shape (..., 3, 3), of rotations about fixed x, then y, then z."""
    return Rotation.from_euler("xyz", angles, degrees=True).as_matrix()
