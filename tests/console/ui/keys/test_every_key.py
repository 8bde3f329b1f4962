"""Each key that the help shows does what it says, on a real terminal; a binding without a step here fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.app import RankdeckApp
from console.ui.keymap import known_bindings
from tests.console.ui.keys.pressing import press_all
from tests.console.ui.keys.tables import SESSIONS, opened

ELSEWHERE = {("pane.again", "r")}
"""Keys that need a failing pane, pressed on a terminal in `rendering/test_containment.py`."""


def test_every_key_of_every_binding_is_pressed() -> None:
    there = {(known.id, key) for known in known_bindings(RankdeckApp).values() for key in known.keys}
    pressed = {(s.binding, s.keys) for session in SESSIONS.values() for s in session.steps if s.binding}

    assert [] == sorted(there - pressed - ELSEWHERE), "no step presses them"
    assert [] == sorted(pressed - there), "no binding has them"


@pytest.mark.terminal
@pytest.mark.process
@pytest.mark.parametrize("name", SESSIONS)
def test_each_key_has_its_effect(name: str, tmp_path: Path, rankdeck: str, mark: str) -> None:
    with opened(name, tmp_path, rankdeck) as desk:
        press_all(desk, SESSIONS[name].steps)
