"""A step whose key does nothing fails, whatever its effect, and so does one whose effect was there before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.ui.keys.pressing import (
    Desk,
    both,
    copies,
    draws_again,
    goes_to,
    key,
    leaves,
    lit,
    loses,
    paints,
    press_all,
    sees,
    writes,
)
from tests.console.ui.rendering.test_terminal import Terminal

pytestmark = [pytest.mark.terminal, pytest.mark.process]

DEAF = "stty -echo; echo; echo one two; echo '╭─ 1 Runs'; exec cat > /dev/null"
EFFECTS = [
    sees("three"),
    loses("one two"),
    lit("one two"),
    paints("one two"),
    goes_to("1 Runs"),
    draws_again("one two"),
    copies("one"),
    writes(".csv"),
    leaves(0),
    both(loses("three"), sees("three")),
]


@pytest.fixture
def deaf(tmp_path: Path) -> Iterator[Desk]:
    """A terminal with a screen, in which no key has an effect."""
    terminal = Terminal("sh", "-c", DEAF, size=(40, 10), cwd=tmp_path, env=dict(os.environ))
    with Desk(terminal, tmp_path) as desk:
        terminal.until("one two", "1 Runs")
        yield desk


def test_a_key_that_does_nothing_fails(deaf: Desk) -> None:
    for effect in EFFECTS:
        with pytest.raises(AssertionError, match="never saw"):
            press_all(deaf, [key("list.down", "down", effect)], limit_s=0.2)


def test_what_stood_there_before_the_key_proves_nothing(deaf: Desk) -> None:
    with pytest.raises(AssertionError, match="stood there before"):
        press_all(deaf, [key("list.down", "down", sees("one two"))])
