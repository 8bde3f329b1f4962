"""Jump mode: every field and pane that is seen has letters of its own, and they lead there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import pytest
from textual.containers import Vertical
from textual.widgets import Input

from console.app import RankdeckApp
from console.ui.finding.jump import JumpLabel, JumpScreen, letters, targets_on
from console.ui.launch.screen import LaunchScreen
from console.ui.run.screen import RunScreen
from tests.console.looking import shown

if TYPE_CHECKING:
    from textual.pilot import Pilot
    from textual.widget import Widget

    from tests.console.conftest import Until

Open = Callable[..., RankdeckApp]

SCREENS = {
    "run": ((), {"ranks", "detail", "lines", "result"}),
    "launch": (("f4",), {"target", "processes", "recent"}),
    "history": (("f2",), {"runs", "card"}),
    "cluster": (("f3",), {"machines", "work", "detail"}),
}


def test_letters_are_one_or_two_and_no_two_are_alike() -> None:
    assert ["a", "s", "d"] == letters(3)
    assert {1} == {len(word) for word in letters(26)}
    assert {2} == {len(word) for word in letters(27)}
    for count in (1, 26, 27, 300, 676):
        assert count == len(set(letters(count)))


def has_focus(app: RankdeckApp, widget: Widget) -> bool:
    return app.focused is widget


async def jumping(pilot: Pilot[int], until: Until) -> list[JumpLabel]:
    await pilot.press("ctrl+o")
    await until(pilot, lambda: isinstance(pilot.app.screen, JumpScreen))
    await pilot.pause()
    return list(pilot.app.screen.query(JumpLabel))


@pytest.mark.parametrize("size", [(50, 14), (80, 24), (120, 40), (200, 60)])
@pytest.mark.parametrize("name", SCREENS)
async def test_every_letter_leads_to_its_place(
    open_app: Open, until: Until, name: str, size: tuple[int, int]
) -> None:
    app = open_app(seconds=20)
    way, expected = SCREENS[name]
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press(*way)
        screen = f"{name}screen"
        await until(pilot, lambda: type(app.screen).__name__.lower() == screen)
        await until(pilot, lambda: targets_on(app.screen))
        await pilot.pause()
        targets = targets_on(app.screen)
        seen = {target.widget.id for target in targets}
        if size == (200, 60):
            assert expected <= seen
        for target in targets:
            labels = await jumping(pilot, until)
            assert len(labels) == len(targets)
            assert len({label.region.offset for label in labels}) == len(labels), "none covers another"
            assert all(app.screen.region.contains_region(label.region) for label in labels)
            (label,) = [label for label in labels if label.target.widget is target.widget]
            await pilot.press(*label.letters)
            await until(pilot, partial(has_focus, app, target.widget))


async def test_escape_a_click_beside_and_another_size_leave_the_focus_where_it_was(
    open_app: Open, until: Until
) -> None:
    app = open_app(seconds=20)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        before = app.focused
        await jumping(pilot, until)
        await pilot.press("1", "$", "escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        by_escape = app.focused
        await jumping(pilot, until)
        await pilot.click(offset=(60, 30))
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        by_click = app.focused
        await jumping(pilot, until)
        await pilot.resize_terminal(100, 30)
        await until(pilot, lambda: isinstance(app.screen, RunScreen))

        assert before is by_escape is by_click is app.focused


async def test_a_click_on_a_letter_is_as_good_as_the_letter(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        labels = await jumping(pilot, until)
        (label,) = [label for label in labels if label.target.widget.id == "result"]
        await pilot.click(offset=(label.region.x + 1, label.region.y))
        await until(pilot, lambda: app.focused is label.target.widget)


async def test_with_more_than_the_alphabet_two_letters_lead_there(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        fields = [Input(id=f"more-{number}", compact=True) for number in range(30)]
        more = Vertical(*fields)
        more.styles.height = 30
        await app.screen.mount(more, before=0)
        await pilot.pause()
        labels = await jumping(pilot, until)
        assert len(labels) >= 27
        (label,) = [label for label in labels if label.target.widget.id == "more-28"]
        await pilot.press(label.letters[0])
        await pilot.pause()
        left = {each.letters for each in labels if each.display}
        await pilot.press(label.letters[1])
        await until(pilot, lambda: app.focused is fields[28])

        assert {label.letters[0]} == {word[0] for word in left}
