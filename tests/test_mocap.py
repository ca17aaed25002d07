"""Acclaim files: a skeleton small enough for pencil and paper, and the real walk where it is."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from akpca.book.mocap import (
    bone_directions,
    joint_positions,
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
START = np.array(
    [
        [[4, 4, 3], [1, 2, 3], [1, 4, 3]],
        [[-2, 0, -3], [0, 0, 0], [-2, 0, 0]],
        [[0, 2, -3], [0, 0, 0], [0, 2, 0]],
        [[0, 3, 3], [0, 0, 1], [0, 0, 3]],
    ],
    dtype=float,
)
END = START + DIRECTIONS * np.array([1, 2, 3])[:, None]

REAL = Path(os.environ.get("AKPCA_DATA", "no such folder"))
REAL_FILES = ("mocap/02.asf", "mocap/02_01.amc", "mocap_walk.npz")
RECORDINGS = ["by hand"]
if all((REAL / file).is_file() for file in REAL_FILES):
    RECORDINGS.append("CMU walk")


def write(folder, asf=ASF, amc=AMC):
    """Write the two files and return their paths."""
    paths = folder / "body.asf", folder / "walk.amc"
    paths[0].write_text(asf)
    paths[1].write_text(amc)
    return paths


def read(folder, asf=ASF, amc=AMC):
    """Return the skeleton and the frames of two files with these texts."""
    asf_path, amc_path = write(folder, asf, amc)
    return read_asf(asf_path), read_amc(amc_path)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Return the skeleton and the frames that were worked out by hand."""
    return read(tmp_path_factory.mktemp("mocap"))


@pytest.mark.parametrize("recording", RECORDINGS)
def test_forward_kinematics(recording, tmp_path):
    """Directions and joints equal those found by another route, wherever there is one."""
    if recording == "by hand":
        skeleton, frames = read(tmp_path)
        names, parents = ("hand", "spine", "arm"), ("arm", "root", "spine")
        directions, start, end = DIRECTIONS, START, END
    else:
        skeleton, frames = read_asf(REAL / REAL_FILES[0]), read_amc(REAL / REAL_FILES[1])
        with np.load(REAL / REAL_FILES[2], allow_pickle=False) as walk:
            names, parents = tuple(walk["parts"]), tuple(walk["parents"])
            directions, start, end = walk["delta"], walk["start"], walk["end"]
    assert skeleton.names == names
    assert skeleton.parents == parents
    np.testing.assert_allclose(bone_directions(skeleton, frames), directions, atol=1e-12)
    found_start, found_end = joint_positions(skeleton, frames)
    np.testing.assert_allclose(found_start, start, atol=1e-11)
    np.testing.assert_allclose(found_end, end, atol=1e-11)


def test_skeleton_holds_what_the_file_says(small):
    """Lengths, axes and degrees of freedom are the file's, directions have norm 1."""
    skeleton, _ = small
    np.testing.assert_array_equal(skeleton.lengths, [1, 2, 3])
    np.testing.assert_array_equal(skeleton.axes, [[0, 0, 0], [0, 0, 30], [0, 0, 90]])
    np.testing.assert_array_equal(skeleton.directions, [[1, 0, 0], [0, 1, 0], [1, 0, 0]])
    assert skeleton.dofs == (("ry",), (), ("rx", "rz"))
    assert skeleton.root_order == ("tx", "ty", "tz", "rx", "ry", "rz")
    assert repr(skeleton) == "Skeleton: 3 bones, 9 degrees of freedom"


def test_frames_hold_one_row_per_frame(small):
    """A motion maps the root and each moving bone to its values, frames in rows."""
    _, frames = small
    assert list(frames) == ["root", "arm", "hand"]
    np.testing.assert_array_equal(frames["arm"], [[0, 0], [90, 0], [90, 90], [0, 0]])
    np.testing.assert_array_equal(frames["root"][0], [1, 2, 3, 0, 0, 0])


def test_windows_line_ends_change_nothing(tmp_path):
    """The original files end their lines with CR LF."""
    asf, amc = write(tmp_path)
    asf.write_bytes(ASF.replace("\n", "\r\n").encode())
    amc.write_bytes(AMC.replace("\n", "\r\n").encode())
    np.testing.assert_allclose(
        bone_directions(read_asf(asf), read_amc(amc)), DIRECTIONS, atol=1e-12
    )


def test_values_follow_the_stated_order(tmp_path):
    """The order of the root's values and of a joint's angles is read from the skeleton."""
    asf = ASF.replace("TX TY TZ RX RY RZ", "RZ RY RX TZ TY TX").replace("rx rz", "rz rx")
    lines = [line.split() for line in AMC.splitlines()]
    reversed_values = [
        [words[0], *reversed(words[1:])] if words[0] in ("root", "arm") else words
        for words in lines
    ]
    amc = "\n".join(" ".join(words) for words in reversed_values)
    skeleton, frames = read(tmp_path, asf, amc)
    np.testing.assert_allclose(bone_directions(skeleton, frames), DIRECTIONS, atol=1e-12)
    np.testing.assert_allclose(joint_positions(skeleton, frames)[1], END, atol=1e-12)


angles = st.lists(st.floats(-360, 360), min_size=6, max_size=6)


@given(pose=angles, place=st.lists(st.floats(-100, 100), min_size=3, max_size=3))
def test_any_pose_is_rigid(small, pose, place):
    """Bones keep their length, moving the root shifts and turning it turns the whole body."""
    skeleton, _ = small
    turn, arm, hand = pose[:3], pose[3:5], pose[5:]
    frames = {
        "root": np.array([[0, 0, 0, 0, 0, 0], [*place, *turn]], dtype=float),
        "arm": np.array([arm, arm]),
        "hand": np.array([hand, hand]),
    }
    still, turned = bone_directions(skeleton, frames)
    np.testing.assert_allclose(np.linalg.norm(turned, axis=1), 1, atol=1e-12)
    rotation = Rotation.from_euler("xyz", turn, degrees=True)
    np.testing.assert_allclose(turned, rotation.apply(still), atol=1e-12)
    start, end = joint_positions(skeleton, frames)
    np.testing.assert_allclose(end[1], place + rotation.apply(end[0]), atol=1e-10)
    np.testing.assert_allclose(np.linalg.norm(end - start, axis=2), [[1, 2, 3]] * 2, atol=1e-10)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("    length 1\n", "    length one\n", "expected 1 number"),
        ("    length 1\n", "    length inf\n", "expected 1 number"),
        ("    direction 1 0 0\n", "    direction 1 0\n", "expected 3 numbers"),
        ("    length 1\n", "    length -1\n", "can't be negative"),
        ("    direction 1 0 0\n", "    direction 0 0 0\n", "can't be zero"),
        ("    direction 1 0 0\n", "    direction 1.7e308 1.7e308 0\n", "too long"),
        ("    axis 0 0 30 XYZ\n", "    axis 0 0 30 ZYX\n", "axis order XYZ"),
        ("    axis 0 0 30 XYZ\n", "    axis 0 30 XYZ\n", "axis order XYZ"),
        ("    dof ry\n", "    dof ry tz\n", "only rx, ry and rz"),
        ("    dof ry\n", "    dof ry ry\n", "only rx, ry and rz"),
        ("  angle deg\n", "  angle rad\n", "angle deg"),
        ("  axis XYZ\n", "  axis ZYX\n", "axis order XYZ"),
        ("TX TY TZ RX RY RZ\n", "TX TY TZ RX RY RY\n", "each of TX TY TZ RX RY RZ once"),
        ("  position 0 0 0\n", "  position 0 1 0\n", "root position of 0 0 0"),
        ("    spine arm\n", "    tail arm\n", "'tail' has not been connected"),
        ("    spine arm\n", "    spine arm leg\n", "'leg' is not a bone"),
        ("    arm hand\n", "    arm hand spine\n", "'spine' has two parents"),
        ("    name arm\n", "    name arm\n  begin\n", "expected 'end'"),
        (":bonedata\n", ":bonedata\n  id 0\n", "expected 'begin'"),
        ("# a comment\n", "# a comment\nbones\n", "expected a section"),
    ],
)
def test_malformed_skeleton_names_file_and_line(tmp_path, old, new, problem):
    """An error in a skeleton file says in which line of which file it is."""
    assert old in ASF
    asf = ASF.replace(old, new, 1)
    line = asf[: asf.index(new) + len(new)].count("\n")
    path, _ = write(tmp_path, asf)
    with pytest.raises(ValueError, match=rf"body\.asf, line {line}: .*{problem}"):
        read_asf(path)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("    length 1\n", "", "line 19: this bone has no length"),
        ("    name spine\n", "    name hand\n", "line 27: a second bone has the name 'hand'"),
        ("    arm hand\n", "", "line 42: no parent is given for hand"),
        ("  order TX TY TZ RX RY RZ\n", "", "line 9: .* no line 'order'"),
        (":hierarchy\n", ":tree\n", "line 43: .* the section :hierarchy is missing"),
        ("  end\n:hierarchy", ":hierarchy", "line 36: the last bone has no 'end'"),
    ],
)
def test_incomplete_skeleton_is_refused(tmp_path, old, new, problem):
    """What a skeleton file lacks is named, with the line where it was missed."""
    assert old in ASF
    path, _ = write(tmp_path, ASF.replace(old, new, 1))
    with pytest.raises(ValueError, match=rf"body\.asf.*{problem}"):
        read_asf(path)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (":DEGREES\n", ":RADIANS\n", "line 3: only :DEGREES"),
        ("\n1\n", "\n", "line 4: expected a frame number"),
        ("\n3\n", "\n4\n", "line 12: expected frame 3, got 4"),
        ("arm 90 0\n", "arm 90 x\n", "line 10: expected numbers"),
        ("arm 90 0\n", "arm\n", "line 10: expected numbers"),
        ("arm 90 0\n", "arm 90 0\narm 90 0\n", "line 11: arm is given twice"),
        ("arm 90 0\n", "arm 90\n", "line 12: .* 1 values for arm, the first frame has 2"),
        ("hand 90\n", "", "line 11: .* 0 values for hand, the first frame has 1"),
        ("hand 90\n", "hand 90\nleg 1\n", "line 13: .* 1 values for leg, the first frame has 0"),
        ("90 0 90\narm 0 0\nhand 0\n", "90 0 90\narm 0 0\n", "line 18: .* 0 values for hand"),
        (AMC[AMC.index("1\n") :], "", "line 3: .* no frames"),
        ("\n3\n", f"\n{'9' * 5000}\n", "line 12: expected numbers"),
        ("1\nroot 1 2 3 0 0 0\narm 0 0\nhand 0\n2\n", "1\n2\n", "line 5: the first frame is empty"),
    ],
)
def test_malformed_motion_names_file_and_line(tmp_path, old, new, problem):
    """An error in a motion file says in which line of which file it was noticed."""
    assert old in AMC
    _, path = write(tmp_path, amc=AMC.replace(old, new, 1))
    with pytest.raises(ValueError, match=rf"walk\.amc.*{problem}"):
        read_amc(path)


@pytest.mark.parametrize("read_file", [read_asf, read_amc])
@pytest.mark.parametrize("content", [b"", b"\n\n# a comment\n", bytes(range(256)) * 20])
def test_files_without_text_are_refused(tmp_path, read_file, content):
    """An empty file, or one of arbitrary bytes, is named with a line as well."""
    path = tmp_path / "body.asf"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"body\.asf, line \d+: "):
        read_file(path)


def test_motion_must_fit_the_skeleton(small):
    """A motion of another skeleton is refused, with the name of the bone."""
    skeleton, frames = small
    with pytest.raises(ValueError, match="frames has values for leg"):
        bone_directions(skeleton, {**frames, "leg": np.zeros((4, 1))})
    with pytest.raises(ValueError, match="1 values per frame for arm, the skeleton needs 2"):
        bone_directions(skeleton, {**frames, "arm": np.zeros((4, 1))})
    with pytest.raises(ValueError, match="0 values per frame for root, the skeleton needs 6"):
        joint_positions(skeleton, {"arm": frames["arm"], "hand": frames["hand"]})


def test_cmu_walk_from_folder(tmp_path, monkeypatch):
    """A row is the x, y and z of each bone's direction in one frame."""
    monkeypatch.setenv("AKPCA_DATA", str(tmp_path))
    (tmp_path / "mocap").mkdir()
    bone = "begin\nname {}\ndirection {}\nlength 1\naxis 0 0 0 XYZ\nend\n"
    (tmp_path / "mocap" / "02.asf").write_text(
        ":root\norder TX TY TZ RX RY RZ\n:bonedata\n"
        + bone.format("up", "0 1 0")
        + bone.format("out", "0 0 1")
        + ":hierarchy\nbegin\nroot up out\nend\n"
    )
    (tmp_path / "mocap" / "02_01.amc").write_text("1\nroot 0 0 0 0 0 0\n2\nroot 0 0 0 90 0 0\n")
    skeleton, directions = load_cmu_walk()
    assert skeleton.names == ("up", "out")
    rows = directions.reshape(2, 6)
    np.testing.assert_allclose(rows, [[0, 1, 0, 0, 0, 1], [0, 0, 1, 0, -1, 0]], atol=1e-15)


def test_motion_of_another_skeleton_names_both_files(tmp_path, monkeypatch):
    """A motion that does not fit the skeleton is told with the names of both files."""
    monkeypatch.setenv("AKPCA_DATA", str(tmp_path))
    (tmp_path / "mocap").mkdir()
    bone = "begin\nname up\ndirection 0 1 0\nlength 1\naxis 0 0 0 XYZ\nend\n"
    (tmp_path / "mocap" / "02.asf").write_text(
        f":root\norder TX TY TZ RX RY RZ\n:bonedata\n{bone}:hierarchy\nbegin\nroot up\nend\n"
    )
    (tmp_path / "mocap" / "02_01.amc").write_text("1\nroot 0 0 0 0 0 0\nleg 1\n")
    with pytest.raises(ValueError, match=r"02_01\.amc does not fit .*02\.asf: .* leg"):
        load_cmu_walk()
