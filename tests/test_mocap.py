"""Acclaim files: a skeleton small enough for pencil and paper, and the real walk where it is."""

import os
from pathlib import Path

import numpy as np
import pytest

from akpca.book.mocap import (
    bone_directions,
    load_cmu_walk,
    read_amc,
    read_asf,
)

# The hand is listed before the arm that it hangs on. The arm's joint axes are turned by 90 degrees
# about z, so that its rx turns about the world's y.
ASF = """\
# a comment
:version 1.10
:units
  length 0.45
  angle deg
:root
  order TX TY TZ RX RY RZ
  axis XYZ
  position 0 0 0
  orientation 0 0 0
:bonedata
  begin
    id 1
    name hand
    direction 1 0 0
    length 1
    axis 0 0 0 XYZ
    dof ry
    limits (-90.0 90.0)
  end
  begin
    id 2
    name spine
    direction 0 1.000001 0
    length 2
    axis 0 0 30 XYZ
  end
  begin
    id 3
    name arm
    direction 1 0 0
    length 3
    axis 0 0 90 XYZ
    dof rx rz
    limits (-90.0 90.0)
           (-90.0 90.0)
  end
:hierarchy
  begin
    root spine
    spine arm
    arm hand
  end
"""

AMC = """\
# a comment
:FULLY-SPECIFIED
:DEGREES
1
root 1 2 3 0 0 0
arm 0 0
hand 0
2
root 0 0 0 0 0 90
arm 90 0
hand 90
3
root 0 0 0 0 0 0
arm 90 90
hand 0
4
root 0 0 1 90 0 90
arm 0 0
hand 0
"""

# Hand, spine and arm in the four frames, worked out on paper.
DIRECTIONS = np.array(
    [
        [[1, 0, 0], [0, 1, 0], [1, 0, 0]],
        [[0, -1, 0], [-1, 0, 0], [0, 0, -1]],
        [[0, 0, -1], [0, 1, 0], [0, 0, -1]],
        [[0, 1, 0], [0, 0, 1], [0, 1, 0]],
    ],
    dtype=float,
)
REAL = Path(os.environ.get("AKPCA_DATA", "no such folder"))
REAL_FILES = ("mocap/02.asf", "mocap/02_01.amc", "mocap_walk.npz")
RECORDINGS = ["by hand"]
if all((REAL / file).is_file() for file in REAL_FILES):
    RECORDINGS.append("CMU walk")


def read(folder, asf=ASF, amc=AMC):
    """Return the skeleton and the frames of two files with these texts."""
    paths = folder / "body.asf", folder / "walk.amc"
    paths[0].write_text(asf)
    paths[1].write_text(amc)
    return read_asf(paths[0]), read_amc(paths[1])


@pytest.mark.parametrize("recording", RECORDINGS)
def test_forward_kinematics(recording, tmp_path):
    """Directions equal those found by another route, wherever there is one."""
    if recording == "by hand":
        skeleton, frames = read(tmp_path)
        names, parents = ("hand", "spine", "arm"), ("arm", "root", "spine")
        directions = DIRECTIONS
    else:
        skeleton, frames = read_asf(REAL / REAL_FILES[0]), read_amc(REAL / REAL_FILES[1])
        with np.load(REAL / REAL_FILES[2], allow_pickle=False) as walk:
            names, parents = tuple(walk["parts"]), tuple(walk["parents"])
            directions = walk["delta"]
    assert skeleton.names == names
    assert skeleton.parents == parents
    np.testing.assert_allclose(bone_directions(skeleton, frames), directions, atol=1e-12)


def test_values_follow_the_stated_order(tmp_path):
    """The order of the root's values and of a joint's angles is read from the skeleton."""
    asf = ASF.replace("TX TY TZ RX RY RZ", "RZ RY RX TZ TY TX").replace("rx rz", "rz rx")
    lines = [line.split() for line in AMC.splitlines()]
    for words in lines:
        if words[0] in ("root", "arm"):
            words[1:] = words[:0:-1]
    skeleton, frames = read(tmp_path, asf, "\n".join(" ".join(words) for words in lines))
    np.testing.assert_allclose(bone_directions(skeleton, frames), DIRECTIONS, atol=1e-12)


@pytest.mark.parametrize(
    ("file", "old", "new", "line"),
    [
        ("body.asf", "    length 1\n", "    length one\n", None),
        ("body.asf", "    direction 1 0 0\n", "    direction 0 0 0\n", None),
        ("body.asf", "    axis 0 0 30 XYZ\n", "    axis 0 0 30 ZYX\n", None),
        ("body.asf", "  angle deg\n", "  angle rad\n", None),
        ("body.asf", "    spine arm\n", "    tail arm\n", None),
        ("body.asf", "    name arm\n", "    name arm\n  begin\n", None),
        ("walk.amc", ":DEGREES\n", ":RADIANS\n", None),
        ("walk.amc", "\n3\n", "\n4\n", None),
        ("walk.amc", "arm 90 0\n", "arm 90 x\n", None),
        ("walk.amc", "arm 90 0\n", "arm 90 0\narm 90 0\n", None),
        ("walk.amc", "arm 90 0\n", "arm 90\n", 12),  # noticed in the next frame
        ("walk.amc", "hand 90\n", "", 11),
        ("walk.amc", AMC[AMC.index("1\n") :], "", 3),
    ],
)
def test_malformed_files(tmp_path, file, old, new, line):
    """An error says in which line of which file it was noticed."""
    text, reader = (ASF, read_asf) if file == "body.asf" else (AMC, read_amc)
    text = text.replace(old, new, 1)
    line = line or text[: text.index(new) + len(new)].count("\n")
    (tmp_path / file).write_text(text)
    with pytest.raises(ValueError, match=rf"{file}, line {line}: "):
        reader(tmp_path / file)


def test_cmu_walk_from_folder(tmp_path, monkeypatch):
    """A row is the x, y and z of each bone's direction in one frame; a motion that does not fit is
    told with the names of both files, and a missing folder with the variable."""
    monkeypatch.setenv("AKPCA_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="AKPCA_DATA"):
        load_cmu_walk()
    (tmp_path / "mocap").mkdir()
    bone = "begin\nname {}\ndirection {}\nlength 1\naxis 0 0 0 XYZ\nend\n"
    (tmp_path / "mocap" / "02.asf").write_text(
        ":root\norder TX TY TZ RX RY RZ\n:bonedata\n"
        + bone.format("up", "0 1 0")
        + bone.format("out", "0 0 1")
        + ":hierarchy\nbegin\nroot up out\nend\n"
    )
    motion = tmp_path / "mocap" / "02_01.amc"
    motion.write_text("1\nroot 0 0 0 0 0 0\n2\nroot 0 0 0 90 0 0\n")
    skeleton, directions = load_cmu_walk()
    assert skeleton.names == ("up", "out")
    rows = directions.reshape(2, 6)
    np.testing.assert_allclose(rows, [[0, 1, 0, 0, 0, 1], [0, 0, 1, 0, -1, 0]], atol=1e-15)
    motion.write_text("1\nroot 0 0 0 0 0 0\nleg 1\n")
    with pytest.raises(ValueError, match=r"02_01\.amc does not fit .*02\.asf: .* leg"):
        load_cmu_walk()
