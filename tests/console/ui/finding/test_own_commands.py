"""Commands of the user on the screens: where they are, what they get, and where they are off."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from console.app import RankdeckApp
from console.data.finding.own import OwnCommand
from console.data.launch.draft import Draft
from console.demo import record_demo
from console.settings import ConsoleSettings, load
from console.ui import external
from console.ui.finding.bar import BarList, BarScreen
from console.ui.finding.own import around
from console.ui.history.screen import HistoryScreen
from console.ui.keymap import known_bindings, own_key_problems
from console.ui.launch.screen import LaunchScreen
from tests.console.looking import shown

if TYPE_CHECKING:
    from tests.console.conftest import FakeCommands, Until

KNOWN = known_bindings(RankdeckApp)
WRITES = (
    "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text('|'.join(sys.argv[2:])); print('wrote it')"
)
Make = Callable[..., RankdeckApp]


@pytest.fixture
def make(root: Path, project: Path, commands: FakeCommands) -> Make:
    """Make an app with commands of a user, and perhaps a run."""

    def made(*own: OwnCommand, run: Path | None = None, target: str = "") -> RankdeckApp:
        return RankdeckApp(
            root=root,
            workdir=project,
            open_run=run,
            draft=Draft(target=target, workdir=project) if target else None,
            commands=commands,
            settings=ConsoleSettings(commands={each.name: each for each in own}),
        )

    return made


def writes(out: Path, *words: str, **options: object) -> OwnCommand:
    argv = (sys.executable, "-c", WRITES, str(out), *words)
    return OwnCommand("writes", argv, **{"keys": "ctrl+g", **options})  # type: ignore[arg-type]


def notes(app: RankdeckApp) -> list[str]:
    return [note.message for note in app._notifications]


async def test_a_key_runs_it_with_what_is_under_the_cursor(
    make: Make, root: Path, tmp_path: Path, until: Until
) -> None:
    run, out = record_demo(root, seconds=60, fail=True), tmp_path / "out"
    app = make(writes(out, "{run}", "{folder}", "{rank}", "{host}", "{file}:{line}"), run=run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: shown(app))
        values = around(app.screen).values
        await pilot.press("ctrl+g")
        await until(pilot, lambda: any("writes: done · wrote it" in note for note in notes(app)))

    assert f"{run.name}|{run}|{values['rank']}|{values['host']}|" in out.read_text()
    assert out.read_text().endswith("/model.py:212")


async def test_it_is_in_the_bar_where_it_can_be_run_and_nowhere_else(
    make: Make, root: Path, tmp_path: Path, until: Until
) -> None:
    out = tmp_path / "out"
    app = make(writes(out, "x", where=("history",), about="writes a file"), run=record_demo(root, seconds=5))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("ctrl+g", "ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, BarScreen))
        await pilot.press(*"command ")
        assert 0 == app.screen.query_one(BarList).length
        await pilot.press("escape", "f2")
        await until(pilot, lambda: isinstance(app.screen, HistoryScreen))
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, BarScreen))
        await pilot.press(*"command ")
        row = app.screen.query_one(BarList).render_line(0).text
        assert not out.exists(), "the key did nothing on the other screen"
        await pilot.press("enter")
        await until(pilot, lambda: any("writes: done" in note for note in notes(app)))

    assert ["command", "writes", "writes", "a", "file", "^g"] == row.split()
    assert "x" == out.read_text()


async def test_on_the_form_the_file_is_that_of_the_target(make: Make, project: Path, until: Until) -> None:
    app = make(target="train.py:main")
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen) and app.screen.draft.target)

        assert {"file": str(project / "train.py"), "line": "1"} == around(app.screen).values


async def test_what_is_not_known_is_told_and_starts_nothing(
    make: Make, root: Path, tmp_path: Path, until: Until
) -> None:
    app = make(writes(tmp_path / "out", "{file}"), run=record_demo(root, seconds=5))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("ctrl+g")
        await until(pilot, lambda: any("needs {file}" in note for note in notes(app)))

    assert not (tmp_path / "out").exists()


async def test_a_run_from_elsewhere_and_a_page_in_a_browser_start_nothing(
    make: Make, tmp_path: Path, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = record_demo(tmp_path / "elsewhere", seconds=5)
    app = make(writes(tmp_path / "out", "{run}"), run=foreign)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("ctrl+g")
        await until(pilot, lambda: external.FOREIGN in notes(app))
        monkeypatch.setattr(RankdeckApp, "is_web", property(lambda _: True))
        await pilot.press("ctrl+g")
        await until(pilot, lambda: external.IN_A_PAGE in notes(app))

    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("/no/such/program",), "own: cannot start program: No such file"),
        ((sys.executable, "-c", "raise SystemExit('sorry')"), "ended with exit code 1 · sorry"),
        ((sys.executable, "-c", "print('\\x1b[2J' + 'x' * 99999)"), "own: done · xxx"),
        ((sys.executable, "-c", "print(repr(open(0).read()))"), "own: done · ''"),
    ],
)
async def test_how_it_ended_is_told(make: Make, until: Until, argv: tuple[str, ...], said: str) -> None:
    app = make(OwnCommand("own", argv, "ctrl+g"))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        await pilot.press("ctrl+g")
        await until(pilot, lambda: any(said in note for note in notes(app)))

        assert all(note.isprintable() and len(note) < 400 for note in notes(app))


async def test_leaving_the_console_does_not_wait_for_it(make: Make, tmp_path: Path, until: Until) -> None:
    out = tmp_path / "out"
    waits = f"import os, signal; open({str(out)!r}, 'w').write(str(os.getpid())); signal.pause()"
    app = make(OwnCommand("own", (sys.executable, "-c", waits), "ctrl+g"))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        await pilot.press("ctrl+g")
        await until(pilot, lambda: out.exists() and out.read_text())
        await pilot.press("ctrl+q")

    pid = int(out.read_text())
    assert pid == os.getsid(pid), "it has a session of its own, which the terminal's end does not end"
    os.kill(pid, signal.SIGKILL)


def told(where: tuple[str, ...], keys: str, own: dict[str, OwnCommand] | None = None) -> list[str]:
    commands = {**(own or {}), "mine": OwnCommand("mine", ("x",), keys, where=where)}
    return [why for *_, why in own_key_problems(commands, {}, KNOWN)]


def test_keys_that_are_taken_where_it_can_be_run_are_told() -> None:
    assert ["commands.mine.keys = 'x' is also the key of run.stop (Stop)"] == told(("run",), "x, ctrl+g")
    assert [] == told(("launch",), "x"), "the form has no such key"
    assert ["commands.mine.keys = 'nokey' is no key"] == told(("run",), "nokey")
    assert "is also the key of app.palette" in told(("launch",), "ctrl+p")[0]
    assert "is also the key of log." in told(("run",), "f")[0], "the keys of a screen's panes count"


def test_two_commands_may_share_a_key_on_different_screens() -> None:
    other = {"other": OwnCommand("other", ("x",), "ctrl+g", where=("run",))}

    assert [] == told(("history",), "ctrl+g", other)
    assert ["commands.mine.keys = 'ctrl+g' is also the key of commands.other"] == told(
        ("run", "history"), "ctrl+g", other
    )


def test_a_key_that_a_person_has_freed_can_be_taken() -> None:
    commands = {"mine": OwnCommand("mine", ("x",), "x", where=("run",))}

    assert [] == list(own_key_problems(commands, {"run.stop": "F"}, KNOWN))


async def test_a_taken_key_is_told_at_the_start_and_keeps_its_meaning(
    home: Path, root: Path, project: Path, commands: FakeCommands, until: Until
) -> None:
    (home / "config").mkdir(parents=True)
    (home / "config" / "config.toml").write_text('[commands.mine]\nkeys = "x, f9"\nargv = ["true"]\n')
    run = record_demo(root, seconds=5)
    app = RankdeckApp(root=root, workdir=project, open_run=run, commands=commands, settings=load())
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: shown(app))
        bound = {key: active.binding.action for key, active in app.screen.active_bindings.items()}

        assert any("commands.mine.keys = 'x' is also the key of " in note for note in notes(app))
        assert "app.own('mine')" == bound["f9"]
        assert "app.own('mine')" != bound.get("x")
