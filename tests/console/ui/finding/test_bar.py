"""The command bar: what it finds, that it opens it, and that nothing in it can harm."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual.widgets import Input

from console.app import RankdeckApp
from console.data.finding.entry import BarEntry, Kind
from console.data.finding.usage import read_uses, usage_file
from console.data.launch.draft import Draft
from console.data.launch.presets import presets_folder, save_preset
from console.settings import ConsoleSettings
from console.ui.cluster.machines import MachineMap
from console.ui.cluster.screen import ClusterScreen
from console.ui.dialogs import ConfirmScreen
from console.ui.finding.bar import BarList, BarScreen, Kinds
from console.ui.finding.deeds import deeds_of
from console.ui.history.screen import HistoryScreen
from console.ui.launch.screen import LaunchScreen
from console.ui.logs.view import LogView
from console.ui.manual import ManualScreen
from console.ui.run.rank_grid import RankGrid
from console.ui.run.screen import RunScreen
from console.ui.widgets.fields import Field
from launcher.runs.catalog import new_id
from launcher.runs.status import Owner, Status, write_status
from launcher.state.run_state import Phase
from tests.console.looking import shown

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from textual.pilot import Pilot

    from tests.console.conftest import FakeCommands, Until

Open = Callable[..., RankdeckApp]
HOSTILE = "\x1b[2J\x1b]52;c;x\a[red]\u202e'\n" + "x" * 16_384


def past(root: Path, number: int, **known: object) -> Status:
    run = Status(new_id(1.7e9 + number, f"{number:03x}"), owner=Owner.this(), started=1.7e9 + number)
    run = replace(run, **{"state": Phase.SUCCEEDED, "name": f"llama-{number}", **known})  # type: ignore[arg-type]
    (root / run.id).mkdir()
    write_status(root / run.id, run)
    return run


@asynccontextmanager
async def bar_over(
    app: RankdeckApp, until: Until, *, size: tuple[int, int] = (120, 40), key: str = "ctrl+p"
) -> AsyncIterator[Pilot[int]]:
    """The app with the bar open, and all its sources read."""
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: shown(app) if app._first else isinstance(app.screen, LaunchScreen))
        await pilot.press(key)
        await opened(pilot, until)
        yield pilot


async def opened(pilot: Pilot[int], until: Until) -> None:
    app = pilot.app
    await until(pilot, lambda: isinstance(app.screen, BarScreen) and app.screen.complete)


def found(app: RankdeckApp) -> list[BarEntry]:
    return list(app.screen.query_one(BarList).items)


def first_row(app: RankdeckApp) -> str:
    return app.screen.query_one(BarList).render_line(0).text


async def test_everything_that_there_is_is_found(
    open_app: Open, until: Until, root: Path, project: Path
) -> None:
    past(root, 1, state=Phase.FAILED, why="rank 3 raised ValueError")
    save_preset(presets_folder(), "smoke", Draft(target="score.py"))
    app = open_app(seconds=20)
    async with bar_over(app, until) as pilot:
        kinds = {entry.kind for entry in found(app)}
        names = {}
        for kind in Kind:
            app.screen.query_one(Input).value = f"{kind.value} "
            await pilot.pause()
            names[kind] = [entry.name for entry in found(app)]

    assert set(Kind) - {Kind.COMMAND} == kinds
    assert {"History", "Cluster", "Launch screen"} == {*names[Kind.SCREEN]}
    assert "llama-1" in names[Kind.RUN]
    assert [str(rank) for rank in range(8)] == names[Kind.RANK]
    assert ["smoke"] == names[Kind.PRESET]
    assert {"train.py", "train.py:main", "train.py:evaluate", "score.py"} <= {*names[Kind.TARGET]}
    assert "paper" in names[Kind.THEME]
    assert "security" in names[Kind.TOPIC]
    assert {"Zoom", "Stacks", "Follow", "Run again"} <= {*names[Kind.ACTION]}
    assert names[Kind.HOST]


@pytest.mark.parametrize(
    ("typed", "name"),
    [("run llama-1", "llama-1"), ("ValueError", "llama-1"), ("failed", "llama-1")],
)
async def test_a_run_is_found_by_its_name_and_by_why_it_ended(
    open_app: Open, until: Until, root: Path, typed: str, name: str
) -> None:
    past(root, 2)
    run = past(root, 1, state=Phase.FAILED, why="rank 3 raised ValueError")
    app = open_app()
    async with bar_over(app, until) as pilot:
        await pilot.press(*typed)
        assert name == found(app)[0].name
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))

        assert isinstance(app.screen, RunScreen)
        assert root / run.id == app.screen.run


async def test_a_run_is_found_by_its_id_and_replaces_the_run_that_is_shown(
    open_app: Open, until: Until, root: Path
) -> None:
    run = past(root, 1)
    app = open_app(seconds=20)
    async with bar_over(app, until) as pilot:
        before = len(app.screen_stack)
        await pilot.press(*run.id, "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.run.name == run.id)
        await pilot.press("ctrl+p")
        await opened(pilot, until)
        await pilot.press(*run.id, "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))

        assert before - 1 == len(app.screen_stack), "one run above the launch screen, however often"
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))


Check = Callable[[RankdeckApp], object]
WAYS: dict[str, tuple[str, Check]] = {
    "a screen": ("screen hist", lambda app: isinstance(app.screen, HistoryScreen)),
    "a topic": ("topic secu", lambda app: isinstance(app.screen, ManualScreen)),
    "a theme": ("theme paper", lambda app: app.theme == "paper"),
    "a rank": ("rank 5", lambda app: app.screen.query_one(RankGrid).cursor == 5),
    "an action": ("action zoom", lambda app: app.screen.query_one("#deck").zoomed),  # type: ignore[attr-defined]
    "a target": (
        "target score",
        lambda app: isinstance(app.screen, LaunchScreen) and app.screen.draft.target == "score.py",
    ),
    "a preset": (
        "preset smoke",
        lambda app: isinstance(app.screen, LaunchScreen) and app.screen.draft.processes == "3",
    ),
}


@pytest.mark.parametrize("way", WAYS)
async def test_what_is_chosen_is_opened_or_done(open_app: Open, until: Until, way: str) -> None:
    typed, done = WAYS[way]
    save_preset(presets_folder(), "smoke", Draft(target="train.py:main", processes="3"))
    app = open_app(seconds=20)
    async with bar_over(app, until) as pilot:
        await pilot.press(*typed, "enter")
        await until(pilot, lambda: not isinstance(app.screen, BarScreen) and done(app))


async def test_a_rank_takes_its_log_along(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20)
    async with bar_over(app, until) as pilot:
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await pilot.press("r", "ctrl+p")
        await opened(pilot, until)
        await pilot.press(*"rank 6", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))

        assert 6 == app.screen.query_one(LogView).rank


async def test_a_host_is_shown_on_the_cluster_screen(open_app: Open, until: Until) -> None:
    app = open_app()
    async with bar_over(app, until) as pilot:
        await pilot.press(*"host ")
        host = found(app)[0].name
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ClusterScreen) and app.screen.view)
        machines = app.screen.query_one(MachineMap)
        await until(pilot, lambda: machines.has_focus)

        assert machines.chosen is not None
        assert host == machines.chosen.host.host


async def test_what_is_used_most_comes_first_the_next_time(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20)
    async with bar_over(app, until) as pilot:
        await pilot.press(*"theme graphite", "enter")
        await until(pilot, lambda: app.theme == "graphite")
        await until(pilot, lambda: read_uses(usage_file()))
    again = open_app(run=app._first)
    async with bar_over(again, until):
        first = found(again)[0]

    assert ("theme:graphite", 1.0) == (first.used_as, read_uses(usage_file())["theme:graphite"][0])


@pytest.mark.parametrize("data", [b"\xff\x00garbage", b'{"used": {"theme:paper": ["x", null]}}'])
async def test_a_spoiled_record_of_uses_is_ignored(open_app: Open, until: Until, data: bytes) -> None:
    usage_file().parent.mkdir(parents=True, exist_ok=True)
    usage_file().write_bytes(data)
    app = open_app()
    async with bar_over(app, until) as pilot:
        await pilot.press(*"theme paper", "enter")
        await until(pilot, lambda: app.theme == "paper")
        await until(pilot, lambda: "theme:paper" in read_uses(usage_file()))


@pytest.mark.parametrize("size", [(50, 14), (80, 24), (200, 60), (20, 6)])
async def test_hostile_texts_of_any_length_are_drawn_as_a_line(
    open_app: Open, until: Until, root: Path, size: tuple[int, int]
) -> None:
    past(root, 1, name=HOSTILE, target=HOSTILE, why=HOSTILE, state=Phase.FAILED)
    app = open_app()
    async with bar_over(app, until, size=size) as pilot:
        await pilot.press(*"run ", "x")
        await pilot.pause()
        entries, rows = app.screen.query_one(BarList), [first_row(app)]

        assert entries.length == 1
        assert all(row.isprintable() for row in rows)
        assert entries.size.width == len(rows[0])
        assert app.screen.query_one("#bar").region.right <= size[0]


async def test_runs_that_cannot_be_read_leave_the_rest(open_app: Open, until: Until, root: Path) -> None:
    root.rmdir()
    root.write_text("no folder")
    app = open_app()
    async with bar_over(app, until):
        assert {Kind.ACTION, Kind.TARGET, Kind.THEME} <= {entry.kind for entry in found(app)}


async def test_tab_turns_the_kinds_and_a_click_takes_one(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20)
    async with bar_over(app, until) as pilot:
        field = app.screen.query_one(Field)
        await pilot.press("a", "tab")
        forth = field.value
        await pilot.press("tab", "shift+tab", "shift+tab")
        back = field.value
        row = app.screen.query_one(Kinds).render_line(0).text
        await pilot.click(Kinds, offset=(row.index("theme") + 1, 0))
        await until(pilot, lambda: field.value == "theme a")
        await pilot.click(BarList, offset=(5, 0))
        await until(pilot, lambda: not isinstance(app.screen, BarScreen))

        assert ("action a", "a") == (forth, back)
        assert app.theme.startswith("a")


async def test_the_cursor_stays_on_its_entry_when_more_are_found(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20)
    async with bar_over(app, until) as pilot:
        await pilot.press("down", "down", "down")
        here = app.screen.query_one(BarList).chosen
        app.screen.post_message(BarScreen.EntriesRead([BarEntry(Kind.COMMAND, "new", "new")]))
        await until(pilot, lambda: "new" in [entry.name for entry in found(app)])

        assert here == app.screen.query_one(BarList).chosen
        assert 4 == app.screen.query_one(BarList).cursor


async def test_the_bar_is_not_opened_over_a_dialog(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20)
    async with bar_over(app, until) as pilot:
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        app.push_screen(ConfirmScreen("Sure?", [], verb="do it"))
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        await pilot.press("ctrl+p", "ctrl+o", "colon")
        await pilot.pause()

        assert isinstance(app.screen, ConfirmScreen)


async def test_on_the_form_the_actions_of_letters_are_offered_though_letters_are_typed(
    open_app: Open, until: Until
) -> None:
    app = open_app()
    async with bar_over(app, until) as pilot:
        await pilot.press(*"action preset")
        assert {"Save as preset", "Presets"} == {entry.name for entry in found(app)[:2]}
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))

        assert app.screen.query_one("#target").has_focus
        assert "launch.save" in deeds_of(app.screen)


async def test_a_persons_keys_are_shown_while_letters_are_typed(
    root: Path, project: Path, commands: FakeCommands, until: Until
) -> None:
    settings = ConsoleSettings(keys={"launch.save": "f9"})
    app = RankdeckApp(root=root, workdir=project, commands=commands, settings=settings)
    async with bar_over(app, until) as pilot:
        await pilot.press(*"action save as")

        assert ("Save as preset", "f9") == (found(app)[0].name, found(app)[0].key)


async def test_the_picker_keeps_its_own_ctrl_p(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        await pilot.press("ctrl+f")
        await until(pilot, lambda: type(app.screen).__name__ == "PickerScreen")
        await pilot.press("ctrl+p")
        await pilot.pause()

        assert "PickerScreen" == type(app.screen).__name__


async def test_what_is_gone_meanwhile_is_told(open_app: Open, until: Until) -> None:
    save_preset(presets_folder(), "smoke", Draft(target="score.py"))
    app = open_app()
    async with bar_over(app, until) as pilot:
        (presets_folder() / "smoke.toml").unlink()
        await pilot.press(*"preset smoke", "enter")
        await until(pilot, lambda: any("cannot be read any more" in n.message for n in app._notifications))
