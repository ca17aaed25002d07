"""Data of one's own: what a file may hold, and what is said about one that is wrong."""

import numpy as np
import pytest

from akpca import load_dataset
from akpca.datasets import Dataset, one_of_each

X = np.arange(24.0).reshape(4, 6)


def save(path, **arrays):
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("ending", [".npz", ".npy"])
@pytest.mark.parametrize("shape", [(4, 6), (4, 2, 3), (2, 2, 2, 3)])
def test_arrays(tmp_path, shape, ending, capsys):
    """Examples come as float64, images with their shape, labels as integers if there are any."""
    path, images, y = tmp_path / f"mine{ending}", X.reshape(shape).astype("uint8"), None
    if ending == ".npz":
        y = [3, 1, 1, 3][: shape[0]]
        save(path, X=images, y=y, image_shape=shape[1:] if len(shape) > 2 else (3, 2))
    else:
        np.save(path, images)
    data = load_dataset(str(path))
    np.testing.assert_allclose(data.X, X.reshape(len(images), -1) / 23)
    assert "divided by the largest, 23" in capsys.readouterr().out
    assert data.X.dtype == np.float64
    without = (3, 2) if ending == ".npz" else None
    assert data.image_shape == (shape[1:] if len(shape) > 2 else without)
    assert (data.y if y is None else data.y.tolist()) == y


@pytest.mark.parametrize(
    ("text", "y"),
    [
        ("1,2\n3,4\n", None),
        ("a,b\n1,2\n3,4\n", None),
        ("\ufeffa,b,Label\n1,2,7\n3,4,5\n", [7, 5]),
        ('"y","a","b"\n"zwei",1,2\n"eins",3,4\n', [1, 0]),
        ("a,b,y\n1,2,0.5\n3,4,1.5\n", [0.5, 1.5]),
        ("a,b,y\n1,2,1.0\n3,4,2.0\n", [1, 2]),
        (",a,b,target\n0,1,2,7\n1,3,4,5\n", [7, 5]),
        ("0,1\n1,2\n3,4\n", None),
        (",0,1,label\nfirst,1,2,1e3\nsecond,3,4,1000\n", [1, 0]),
    ],
    ids=[
        *("bare", "names", "labels", "texts", "positions", "whole numbers"),
        *("an index", "counted columns", "texts that look alike"),
    ],
)
def test_csv(tmp_path, text, y):
    """A first line of names is optional; columns of labels, or of an index, may be anywhere."""
    path = tmp_path / "mine.csv"
    path.write_text(text, encoding="utf-8")
    data = load_dataset(path)
    np.testing.assert_array_equal(data.X, [[1, 2], [3, 4]])
    assert (None if data.y is None else data.y.tolist()) == y
    assert y is None or data.y.dtype == (np.float64 if y == [0.5, 1.5] else np.int64)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (dict(data=X, target=[1]), "has no array X; it has data, target"),
        (dict(X=X[0]), r"X must have the shape \(n, d\), .* got \(6,\)"),
        (dict(X=np.full((2, 2), "a")), "X must be numbers, got the type <U1"),
        (dict(X=np.where(X == 7, np.nan, X)), "got nan in row 1, column 1"),
        (dict(X=X, y=[1, 2]), r"y must have shape \(4,\), got \(2,\)"),
        (dict(X=X, y=[1, 2, np.inf, 4]), "y must be finite, got inf in row 2"),
        (dict(X=X, image_shape=[2, 2]), r"image_shape=\(2, 2\) does not fit X of \(4, 6\)"),
        (dict(X=X, image_shape=[1, 3, 2]), "must have 3 channels"),
        (dict(X=X, image_shape=6), r"image_shape must be \(height, width\)"),
        (dict(X=np.array([{}, []], dtype=object)), "Object arrays cannot be loaded"),
        (np.array([{}, []], dtype=object), "Object arrays cannot be loaded"),
        ("", "has no column of numbers"),
        ("a,b\n", "no data"),
        ("a,b\n1,2\n3,x\n", "'x'.* row 1, column 2"),
        ("1,,3\n4,5,6\n", "row 0, column 2"),
        ("a,b,y\n1,2,3\n1,2,3,4\n", "columns"),
        ("y,label,a\n1,2,3\n", "several columns of labels: y and label"),
    ],
)
def test_wrong_files_are_named(tmp_path, content, message):
    """What can't be right is named with the file; nothing is unpickled."""
    if isinstance(content, dict):
        path = save(tmp_path / "mine.npz", **content)
    elif isinstance(content, str):
        path = tmp_path / "mine.csv"
        path.write_text(content)
    else:
        path = tmp_path / "mine.npy"
        np.save(path, content, allow_pickle=True)
    with pytest.raises(ValueError, match=message) as caught:
        load_dataset(path)
    assert path.name in str(caught.value)


def test_a_missing_file_is_named_with_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError) as caught:
        load_dataset("mine.npz")
    assert "mine.npz" in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_completed_makes_up_what_lacks_and_says_so(capsys):
    """One class, and the rectangle nearest to a square."""
    data = Dataset("mine.npz", X, None, None, "").completed()
    assert data.y.tolist() == [0, 0, 0, 0]
    assert data.image_shape == (2, 3)
    said = capsys.readouterr().out
    assert "mine.npz has no labels y" in said
    assert "no image_shape: an example is drawn as 2 x 3 numbers" in said
    digits = load_dataset("digits")
    same = digits.completed()
    assert (same.X is digits.X, same.y is digits.y, same.image_shape) == (True, True, (8, 8))
    assert capsys.readouterr().out == ""


def test_one_of_each_takes_turns():
    """The first of each class, then the second, and no more than there are."""
    y = np.array([5, 5, 2, 9, 2, 5])
    assert one_of_each(y, 3).tolist() == [2, 0, 3]
    assert one_of_each(y, 4).tolist() == [2, 0, 3, 4]
    assert sorted(one_of_each(y).tolist()) == [0, 1, 2, 3, 4, 5]
    assert one_of_each(np.zeros(4), 3).tolist() == [0, 1, 2]
