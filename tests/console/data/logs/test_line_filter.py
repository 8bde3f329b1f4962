from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.data.logs.search import Level, filter_of, level_of, line_filter_of, required


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("step 3 loss 2.1", Level.ALL),
        ("12:00 WARN slow", Level.WARNING),
        ("a.py:3: UserWarning: old", Level.WARNING),
        ("ERROR disk", Level.ERROR),
        ("Traceback (most recent call last):", Level.ERROR),
        ("torch.OutOfMemoryError: CUDA", Level.ERROR),
        ("errors so far: 0", Level.ALL),
    ],
)
def test_a_line_is_as_bad_as_its_words(text: str, level: Level) -> None:
    assert level is level_of(text)


def test_levels_go_round() -> None:
    assert [Level.WARNING, Level.ERROR, Level.ALL] == [level.after for level in Level]


def test_what_passes() -> None:
    assert [True, False] == [filter_of("loss").passes(text) for text in ("Loss 1", "gain")]
    assert [False, True] == [filter_of("!loss").passes(text) for text in ("Loss 1", "gain")]
    assert [False, True] == [filter_of("Loss").passes(text) for text in ("loss", "Loss")]
    assert [False, True] == [filter_of("", Level.ERROR).passes(text) for text in ("WARN a", "ERROR a")]
    assert [False, True] == [filter_of("a", Level.WARNING).passes(text) for text in ("a", "WARN a")]
    assert filter_of("!").passes("what!")


@pytest.mark.parametrize("text", ["(", "*", "a{99999999999}", "!["])
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a regular expression"):
        filter_of(text)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("loss", "loss"),
        (r"loss \d+", "loss "),
        (r"rank [37]", ""),
        ("a|bcd", ""),
        ("abc?de", "ab"),
        ("ab+cde", "cde"),
        (r"^step\.9$", "step.9"),
        (r"a\tbc", ""),
        ("(?i)abc", ""),
        ("äbc", ""),
    ],
)
def test_what_every_match_has(expression: str, text: str) -> None:
    assert text == required(expression)


@given(st.text(alphabet=r"ab .^$\d*+?", max_size=8), st.text(alphabet="abABdD1 ", max_size=12))
def test_what_passes_has_what_it_must(expression: str, text: str) -> None:
    try:
        sieve, python = line_filter_of(expression), re.compile(expression, re.IGNORECASE)
    except (ValueError, re.error):
        return
    if sieve.needles and python.search(text):
        assert sieve.needles[0].decode() in text.lower()
