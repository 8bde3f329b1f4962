"""The keys at the bottom: which are shown where room is short, and whose they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from console.app import RankdeckApp
from console.demo import record_demo
from console.settings import ConsoleSettings
from console.ui.history.screen import HistoryScreen
from console.ui.widgets.key_line import Key, KeyLine, fitting_keys
from tests.console.looking import shown

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot

    from tests.console.conftest import FakeCommands, Until

Open = Callable[..., RankdeckApp]
KEYS = [
    Key("enter", "Open", "enter"),
    Key("c", "Compare", "c"),
    Key("s", "Sort", "s"),
    Key("?", "Help", "f1"),
]


def line(app: RankdeckApp) -> str:
    return app.screen.query_one(KeyLine).render_line(0).text.rstrip()


@pytest.mark.parametrize(
    ("width", "shown"),
    [(80, "enter c s ?"), (35, "enter c s ?"), (34, "enter c ?"), (28, "enter c ?"), (27, "enter s ?"),
     (18, "enter ?"), (17, "c ?"), (16, "s ?"), (7, "?"), (0, "?")],
)  # fmt: skip
def test_keys_are_shown_whole_or_not_at_all_and_help_always(width: int, shown: str) -> None:
    assert shown == " ".join(key.name for key in fitting_keys(KEYS, width))


def test_without_keys_there_is_nothing_to_show() -> None:
    assert [] == fitting_keys([], 80)


async def at_every_place(app: RankdeckApp, pilot: Pilot[int], until: Until) -> dict[str, set[str]]:
    """The lines of every screen, with every focus that a person reaches by the tab key."""
    await until(pilot, lambda: shown(app))
    seen: dict[str, set[str]] = {}
    for name, key in (("run", ""), ("history", "f2"), ("cluster", "f3"), ("launch", "f4")):
        if key:
            await pilot.press(key)
        await until(pilot, lambda: app.screen.query(KeyLine) and line(app))
        for _ in range(6):
            await pilot.press("tab")
            await pilot.pause()
            seen.setdefault(name, set()).add(line(app))
    return seen


async def test_at_eighty_columns_no_word_is_cut_and_the_most_useful_keys_are_there(
    open_app: Open, until: Until
) -> None:
    app = open_app(seconds=20)
    async with app.run_test(size=(80, 24)) as pilot:
        seen = await at_every_place(app, pilot, until)

    for lines in seen.values():
        assert all(text.endswith((" ? Help", " f1 Help")) and "…" not in text for text in lines)
    for place, keys in {
        "run": ("q Leave", "R Run again", "esc Back", "y Copy", "r Rank's log"),
        "history": ("enter Open", "/ Filter", "c Compare", "r Run again", "y Copy"),
        "cluster": ("enter Open", "y Copy"),
        "launch": ("^r Launch", "^f Find"),
    }.items():
        assert all(text.lstrip().startswith(keys[0]) for text in seen[place]), seen[place]
        assert all(key in text for key in keys for text in seen[place]), seen[place]


async def test_the_keys_are_those_of_the_focus_and_of_the_person(
    root: Path, project: Path, commands: FakeCommands, until: Until
) -> None:
    settings = ConsoleSettings(keys={"run.again": "K"})
    run = record_demo(root, seconds=20)
    app = RankdeckApp(root=root, workdir=project, commands=commands, open_run=run, settings=settings)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("3")
        await until(pilot, lambda: "f Follow" in line(app))
        assert "K Run again" in line(app)
        await pilot.press("1")
        await until(pilot, lambda: "m Metric" in line(app))

        assert "f Follow" not in line(app)


async def test_a_click_on_a_key_is_as_good_as_the_key(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, HistoryScreen) and "s Sort" in line(app))
        at = line(app).index("Sort")
        await pilot.click(KeyLine, offset=(at, 0))
        await until(pilot, lambda: "sorted by took" in str(app.screen.query_one("#runs").border_title))
        await pilot.click(KeyLine, offset=(79, 0))
        await pilot.pause()

        assert isinstance(app.screen, HistoryScreen)
