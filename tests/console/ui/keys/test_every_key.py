"""Each key that the help shows does what it says, on a real terminal; one without a step here fails."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from textual.binding import ActiveBinding, Binding
from textual.dom import DOMNode

from console import ui
from console.app import RankdeckApp
from console.ui.finding.help import key_lines
from console.ui.keymap import known_bindings
from tests.console.ui.keys.pressing import press_all
from tests.console.ui.keys.tables import SESSIONS, opened


def owners() -> Iterator[type[DOMNode]]:
    """The app, and each screen and widget that modules of screens have or use, also Textual's own."""
    yield RankdeckApp
    for module in pkgutil.walk_packages(ui.__path__, "console.ui."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, DOMNode):
                yield value


def in_help(binding: Binding) -> bool:
    """Whether the help has a line for a binding that is active."""
    node = cast("Any", None)
    return bool(key_lines([ActiveBinding(node, binding, True, "")], lambda shown: shown.key, {}))


def shown_keys() -> set[tuple[str, str]]:
    """Every key that the help can show, with the id of its binding, or the action of one without an id.

    Textual's own copying by ctrl+c is never among them: the app's ctrl+c comes before it everywhere.
    """
    bindings = {(b.id or b.action, b.key): b for owner in owners() for b in bindings_of(owner)}
    first = {b.key for b in bindings_of(RankdeckApp) if b.action == "interrupt"}
    return {which for which, b in bindings.items() if in_help(b) and (b.priority or b.key not in first)}


def bindings_of(owner: type[DOMNode]) -> Iterator[Binding]:
    """The bindings of a class and of those that it inherits from."""
    for bindings in owner._merge_bindings().key_to_bindings.values():
        yield from bindings


def pressed_keys() -> set[tuple[str, str]]:
    """The keys that have a step."""
    return {
        (step.binding, step.keys) for session in SESSIONS.values() for step in session.steps if step.binding
    }


def test_every_key_in_the_help_has_a_step_and_no_step_is_of_another() -> None:
    there, pressed = shown_keys(), pressed_keys()

    assert [] == sorted(there - pressed), "no step presses them"
    assert [] == sorted(pressed - there), "the help does not have them"


def test_every_key_that_a_person_can_change_is_among_them() -> None:
    there = {(known.id, key) for known in known_bindings(RankdeckApp).values() for key in known.keys}

    assert [] == sorted(there - shown_keys())


@pytest.mark.terminal
@pytest.mark.process
@pytest.mark.takes(8)
@pytest.mark.parametrize("name", SESSIONS)
def test_each_key_has_its_effect(name: str, tmp_path: Path, rankdeck: str, mark: str) -> None:
    with opened(name, tmp_path, rankdeck) as desk:
        press_all(desk, SESSIONS[name].steps)
