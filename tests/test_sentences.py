"""Sentences say what their numbers say."""

import pytest

from akpca.book.sentences import bullets, compare, enumerated, ranking, say, table


def test_notebooks_show_markdown_and_terminals_the_text():
    """Empty parts are left out."""
    text = say("One.", "", "Two.")
    assert text == text._repr_markdown_() == repr(text) == "One. Two."
    assert bullets("a", "", "b") == "- a\n- b"


@pytest.mark.parametrize(
    ("first", "second", "word"),
    [
        (1, 2, "below"),
        (2, 1, "above"),
        (-2, -1, "below"),
        (1.0, 1.005, "level with"),
        (0, 0, "level with"),
    ],
)
def test_compare(first, second, word):
    """Equal within one per cent is level, or within what is given; else the order decides."""
    assert compare(first, second) == word
    assert compare(first, second, within=2.0) == "level with"


def test_lists_in_words():
    """The best comes first in a ranking."""
    scores = {"a": 0.3, "b": 0.1, "c": 0.2}
    assert ranking(scores) == "b (0.10), c (0.20) and a (0.30)"
    assert ranking(scores, form=".1f", largest_first=True) == "a (0.3), c (0.2) and b (0.1)"
    assert [enumerated("a"), enumerated("ab"), enumerated(iter("abc"))] == [
        "a",
        "a and b",
        "a, b and c",
    ]


def test_table_is_markdown():
    """Fractions are formatted, counts and words are not; a row of another length is refused."""
    text = table({"PCA": [0.314, 10, "yes"]}, ["method", "error", "k", "ok"])
    assert text.splitlines() == [
        "| method | error | k | ok |",
        "| --- | ---: | ---: | ---: |",
        "| PCA | 0.31 | 10 | yes |",
    ]
    with pytest.raises(ValueError, match="PCA"):
        table({"PCA": [1.0]}, ["method", "error", "k"])
