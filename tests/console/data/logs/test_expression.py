"""Expressions that would take for ever: nothing waits for them, and nothing of them is left."""

from __future__ import annotations

import re
import threading
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.data.logs import search
from console.data.logs.search import Expression, TooSlowError
from tests.commands import until

ENDLESS, LINE = "(a|aa)+$", "a" * 5000 + "!"


@pytest.mark.parametrize("text", [ENDLESS, "(a+)+$", r"(a|a|b)*\d\d$"])
def test_an_expression_that_never_ends_is_given_up(text: str) -> None:
    slow = Expression(text)
    slow.begin()
    with pytest.raises(TooSlowError):
        slow.found_in(LINE)

    assert slow.slow
    with pytest.raises(TooSlowError):
        slow.found_in("a")


def test_others_go_on_while_it_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an engine that holds the interpreter nothing here would be counted before its end."""
    monkeypatch.setattr(search, "LINE_S", 3600.0)
    slow, caught = Expression(ENDLESS), threading.Event()

    def look() -> None:
        looked(slow, "a" * 32 + "!")
        caught.set()

    threading.Thread(target=look, daemon=True).start()

    steps = 0
    while steps < 200_000:
        steps += 1
    assert not caught.is_set()
    assert caught.wait(120)


def looked(wanted: Expression, line: str) -> bool:
    try:
        return wanted.found_in(line)
    except TooSlowError:
        return False


def test_what_nobody_wants_any_more_ends() -> None:
    wanted, ended, lines = Expression("a b"), threading.Event(), [0]

    def look() -> None:
        wanted.begin()
        while looked(wanted, "a b"):
            lines[0] += 1
        ended.set()

    threading.Thread(target=look, daemon=True).start()
    until(lambda: lines[0] > 0)
    wanted.drop()

    assert ended.wait(60)
    assert not wanted.slow


def test_many_lines_that_are_each_a_little_slow_are_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "STRETCH_S", 0.05)
    monkeypatch.setattr(search, "_CHECK_S", 0.0)
    slow = Expression(r"(.*)(.*)(.*)(.*)!$")
    slow.begin()

    with pytest.raises(TooSlowError):
        all(slow.found_in("a" * 60 + "!") for _ in count())
    assert slow.slow


def test_a_line_that_is_shown_is_looked_at_for_a_glance_only() -> None:
    slow = Expression(ENDLESS)

    assert [(0, 2)] == slow.spans("aa")
    assert [] == slow.spans(LINE)
    assert [] == slow.spans("aa")
    assert not slow.slow, "looking through the file is another matter"


@pytest.mark.parametrize(
    "text", ["(", "*", "[", "a{99999999999}", "(?:a{1000}){1000}{9}", "(" * 5000 + ")" * 5000]
)
def test_what_cannot_be_an_expression_is_said_at_once(text: str) -> None:
    with pytest.raises(ValueError, match="not a regular expression: "):
        Expression(text)


@given(st.text(alphabet=r"ab .^$\d*+?|()", max_size=8), st.text(alphabet="abABdD1 ", max_size=12))
def test_expressions_mean_what_they_mean_in_python(text: str, line: str) -> None:
    try:
        python = re.compile(text)
    except re.error:
        return
    assert (python.search(line) is not None) == Expression(text).found_in(line)
    assert [found.span() for found in python.finditer(line)] == Expression(text).spans(line)
