"""Sentences say what their numbers say."""

import pytest

from akpca.book.sentences import (
    Sentences,
    bullets,
    compare,
    enumerated,
    ranking,
    say,
    source,
    table,
)


def test_notebooks_show_markdown_and_terminals_the_text():
    text = say("One.", "", "Two.")
    assert text == "One. Two."
    assert text._repr_markdown_() == repr(text) == "One. Two."
    assert type(text) is Sentences


def test_bullets_leave_empty_items_out():
    assert bullets("a", "", "b") == "- a\n- b"


@pytest.mark.parametrize(
    ("first", "second", "word"),
    [
        (1, 2, "below"),
        (2, 1, "above"),
        (1, 1, "level with"),
        (1.0, 1.005, "level with"),
        (0, 0, "level with"),
    ],
)
def test_compare(first, second, word):
    """Equal within one per cent is level; else the order decides."""
    assert compare(first, second) == word


def test_compare_is_antisymmetric():
    """Exchanging the numbers exchanges the words, at any tolerance."""
    opposite = {"below": "above", "above": "below", "level with": "level with"}
    for first, second in [(1, 1.1), (1, 1.3), (-2, -2.1), (3, -3)]:
        for within in (0.0, 0.1, 0.5):
            one, other = (
                compare(first, second, within=within),
                compare(second, first, within=within),
            )
            assert one == opposite[other]


def test_ranking_orders_by_score():
    scores = {"a": 0.3, "b": 0.1, "c": 0.2}
    assert ranking(scores) == "b (0.10), c (0.20) and a (0.30)"
    assert ranking(scores, form=".1f", largest_first=True) == "a (0.3), c (0.2) and b (0.1)"


def test_enumerated():
    assert enumerated(["a"]) == "a"
    assert enumerated(["a", "b"], last="or") == "a or b"
    assert enumerated(iter("abc")) == "a, b and c"


def test_table_is_markdown():
    """Fractions are formatted, counts and words are not."""
    text = table({"PCA": [0.314, 10, "yes"]}, ["method", "error", "k", "ok"])
    assert text.splitlines() == [
        "| method | error | k | ok |",
        "| --- | ---: | ---: | ---: |",
        "| PCA | 0.31 | 10 | yes |",
    ]


def test_table_refuses_a_row_of_another_length():
    with pytest.raises(ValueError, match="'PCA' has 2 cells for 3 columns"):
        table({"PCA": [1.0]}, ["method", "error", "k"])


def test_source_is_the_function_without_its_docstring():
    def square(x):
        """Return x^2."""
        return x * x

    assert source(square) == "```python\ndef square(x):\n    return x * x\n```"
    assert source(test_enumerated).count("assert") == 3
