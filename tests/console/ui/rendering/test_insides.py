"""Textual's insides are used where they are as we know them, and left alone elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from textual import _compositor
from textual.widget import Widget

from console.ui.rendering import insides
from console.ui.rendering.compositor import CroppingCompositor

CONSOLE = Path(insides.__file__).parents[2]


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    insides.may_use.cache_clear()
    yield
    insides.may_use.cache_clear()


def test_this_textual_has_all_that_is_needed() -> None:
    assert [] == insides.missing()
    assert insides.may_use()


@pytest.mark.parametrize(("value", "used"), [("1", False), ("yes", False), ("0", True), ("", True)])
def test_a_person_may_switch_them_off(value: str, used: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(insides.PLAIN, value)

    assert used == insides.may_use()


@pytest.mark.parametrize(
    ("owner", "name", "told"),
    [
        (_compositor.Compositor, "_regions_to_spans", "Compositor._regions_to_spans"),
        (_compositor, "ChopsUpdate", "ChopsUpdate"),
        (_compositor, "Compositor", "Compositor"),
        (Widget, "_on_blur", "Widget._on_blur"),
    ],
)
def test_another_textual_is_left_alone(
    owner: object, name: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(owner, name)

    assert [told] == insides.missing()
    assert not insides.may_use()


def test_an_update_that_is_made_otherwise_is_another_textual(monkeypatch: pytest.MonkeyPatch) -> None:
    class Update:
        def __init__(self, chops: object, ends: object) -> None: ...

    monkeypatch.setattr(_compositor, "ChopsUpdate", Update)

    assert ["ChopsUpdate"] == insides.missing()


def test_nobody_else_imports_them() -> None:
    private = ("from textual._", "import textual._", "from textual import _")
    users = {
        path.relative_to(CONSOLE).parts[:2]
        for path in CONSOLE.rglob("*.py")
        if any(text in path.read_text() for text in private)
    }

    assert {("ui", "rendering")} == users
    assert issubclass(CroppingCompositor, _compositor.Compositor)
