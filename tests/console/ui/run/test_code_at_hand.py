"""Frames that are selected, the editor that opens at them, the code beside stacks, and what is copied."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from console.app import RankdeckApp
from console.data.code.source import Spot
from console.ui import external
from console.ui.logs.view import LogView
from console.ui.run.frames import FrameSheet, fitted
from console.ui.run.result import ResultPane
from console.ui.run.stacks import StackSheet, stack_rows
from launcher.state import events as ev
from tests.console.looking import shown, text
from tests.console.run_views import view_of, words
from tests.console.scripted import Scripted

if TYPE_CHECKING:
    from tests.console.conftest import Until

Open = Callable[..., RankdeckApp]
LIBRARY = "/v/lib/python3.11/site-packages/torch/{}.py"
NATIVE = "".join(f'  File "{LIBRARY.format(name)}", line 3 in {name}\n' for name in ("a", "b", "c", "d", "e"))


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A file of the user's that is older than any run."""
    path = tmp_path / "train.py"
    path.write_text("def fit():\n    loss.backward()\nfit()\n")
    os.utime(path, (0, 0))
    return path


@pytest.fixture
def failed(root: Path, code: Path) -> Scripted:
    """A rank that failed in two frames of one file."""
    run = Scripted(root, hosts=("node1",))
    run.place(1.0)
    traceback = (
        "Traceback (most recent call last):\n"
        f'  File "{code}", line 3, in <module>\n    fit()\n'
        f'  File "{code}", line 2, in fit\n    loss.backward()\n'
        f'  File "{LIBRARY.format("autograd")}", line 9, in backward\n    run()\n'
        "ValueError: no\n"
    )
    frames = ((str(code), 3, "<module>"), (str(code), 2, "fit"))
    raised = ev.RankRaised(
        time=5.0, rank=1, kind="ValueError", message="no", traceback=traceback, frames=frames
    )
    run.add(raised, (5.05, 1, f"{code}:1: UserWarning: slow\n"))
    run.fail(5.1, 1, code=1)
    run.add(ev.RunEnded(time=7.0, state="failed", exit_code=1, why="rank 1 failed", rank=1))
    run.writer.close()
    return run


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An editor that notes its arguments, and has a terminal."""
    program, seen = tmp_path / "my editor", tmp_path / "seen"
    program.write_text(
        f'#!/bin/sh\n[ -t 0 ] && [ -t 1 ] && printf "%s\\n" "$@" > {seen}.new\nmv {seen}.new {seen}\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("VISUAL", f"'{program}' --fast")
    return seen


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    near, far = os.openpty()
    monkeypatch.setattr(external, "TERMINAL", os.ttyname(far))
    yield
    os.close(near)
    os.close(far)


@contextmanager
def suspended() -> Iterator[None]:
    yield


def notices(app: RankdeckApp) -> list[str]:
    return [each.message for each in app._notifications]


@pytest.mark.usefixtures("terminal")
async def test_frames_are_selected_and_open_in_the_editor(
    open_app: Open, until: Until, failed: Scripted, code: Path, editor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_app(run=failed.folder)
    monkeypatch.setattr(app, "suspend", suspended)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("4", "z")
        pane = app.screen.query_one(ResultPane)
        await until(pilot, lambda: '/train.py", line 2, in fit' in text(pane))
        assert '▸ File "' in line_of(pane, "line 2, in fit")
        await pilot.press("e")
        await until(pilot, editor.exists)
        assert ["--fast", "+2", str(code)] == editor.read_text().splitlines()

        editor.unlink()
        await pilot.press("p")
        assert '▸ File "' in line_of(pane, "line 3, in <module>")
        assert text(pane).count("▸") == 1
        await pilot.press("p", "p", "e")
        await until(pilot, editor.exists)
        assert ["--fast", "+3", str(code)] == editor.read_text().splitlines()
        await pilot.press("n", "n", "n")
        assert '▸ File "' in line_of(pane, "line 2, in fit"), "a folded frame is none to select"
        assert not notices(app)


@pytest.mark.usefixtures("terminal")
async def test_the_log_opens_what_it_names_and_other_panes_the_failure(
    open_app: Open, until: Until, failed: Scripted, code: Path, editor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_app(run=failed.folder)
    monkeypatch.setattr(app, "suspend", suspended)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app) and app.screen.query_one(LogView).spot is not None)
        await pilot.press("3", "e")
        await until(pilot, editor.exists)
        assert ["--fast", "+1", str(code)] == editor.read_text().splitlines()
        editor.unlink()
        await pilot.press("1", "e")
        await until(pilot, editor.exists)
        assert ["--fast", "+2", str(code)] == editor.read_text().splitlines()


@pytest.mark.parametrize("key", ["VISUAL", "elsewhere", "page", "gone"])
async def test_why_nothing_is_opened_is_said(
    open_app: Open, until: Until, failed: Scripted, code: Path, editor: Path, key: str,
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    why = {
        "VISUAL": "no editor is set",
        "elsewhere": "was not launched here",
        "page": "a page in a browser starts no programs",
        "gone": "train.py is not on this machine",
    }[key]
    if key == "VISUAL":
        monkeypatch.delenv("VISUAL")
        monkeypatch.delenv("EDITOR", raising=False)
    if key == "page":
        monkeypatch.setattr(RankdeckApp, "is_web", property(lambda _: True))
    if key == "gone":
        code.unlink()
    run = failed.folder
    if key == "elsewhere":
        run = run.rename(tmp_path / run.name)
    app = open_app(run=run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("4", "e")
        await until(pilot, lambda: any(why in notice for notice in notices(app)))

    assert not editor.exists()


def line_of(sheet: FrameSheet, words: str) -> str:
    return next(line for line in text(sheet).splitlines() if words in line)


async def test_stacks_show_their_code_and_fold_libraries(
    open_app: Open, until: Until, root: Path, code: Path
) -> None:
    run = Scripted(root, hosts=("node1",))
    run.place(2)
    app = open_app(run=run.folder)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("T")
        stack = f'Thread 0x1:\n{NATIVE}  File "{code}", line 2 in fit\n  File "{code}", line 3 in <module>'
        run.add(*(ev.StacksTaken(time=5, rank=r, text=stack) for r in range(3)))
        run.add(ev.StacksTaken(time=5, rank=3, text=f'Thread 0x1:\n  File "{code}", line 3 in <module>'))
        await until(pilot, lambda: "loss.backward()" in text(app.screen.query_one(StackSheet)))
        sheet = app.screen.query_one(StackSheet)
        lines = [line.strip() for line in text(sheet).splitlines()]

        assert lines[0] == "rank 3 on node1:", "the odd one out comes first"
        assert lines[2].startswith('▸ File "')
        assert lines[2].endswith('/train.py", line 3 in <module>'), "the path's head is cut, not the line"
        assert lines[3] == "fit()"
        assert lines.count("… 4 frames in torch") == 1
        assert f'File "{LIBRARY.format("a")}", line 3 in a' in lines, "what was called is shown"
        await pilot.press("a")
        assert "torch/e.py" in text(sheet)
        await pilot.press("n")
        assert sheet.spot is not None
        assert sheet.spot.file == LIBRARY.format("a")
        await pilot.press("y")
        await until(pilot, lambda: any("copied the stacks, " in notice for notice in notices(app)))

        assert f'    File "{code}", line 2 in fit\n      loss.backward()\n' in app.clipboard
        assert "torch/e.py" in app.clipboard, "all frames are copied"
        run.writer.close()


async def test_what_failed_is_copied_with_one_notice(open_app: Open, until: Until, failed: Scripted) -> None:
    app = open_app(run=failed.folder)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("4", "y")
        await until(pilot, lambda: notices(app))

        assert [notice for notice in notices(app) if notice.startswith("copied the failure, ")] == notices(
            app
        )
        assert "ValueError: no" in app.clipboard


@pytest.mark.parametrize(
    "stack",
    [
        'File "\x1b]0;x\x07", line 1 in f',
        f'  File "{"x" * 16_384}", line 1 in f',
        '  File "a", line ' + "9" * 30 + " in f",
        '  File "", line 0 in \x00',
        "\x1b[2J" * 4096,
        '  File "<string>", line 1 in f\n' * 3000,
    ],
)
async def test_hostile_stacks_are_shown_and_open_nothing(
    open_app: Open, until: Until, root: Path, editor: Path, stack: str
) -> None:
    run = Scripted(root, ranks=1, hosts=("node1",))
    run.place(2)
    run.add(ev.StacksTaken(time=5, rank=0, text=stack))
    app = open_app(run=run.folder)
    async with app.run_test(size=(50, 14), notifications=True) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("T", "n", "n", "e", "a", "p", "y")
        await until(pilot, lambda: notices(app))
        assert "\x1b" not in text(app.screen.query_one(StackSheet))
        assert not app.screen.query_one(StackSheet).covered
        assert all(notice.isprintable() and len(notice) <= 400 for notice in notices(app))
        run.writer.close()

    assert not editor.exists()


@pytest.mark.parametrize("width", [12, 30, 48, 60, 200])
def test_a_frame_in_little_room_keeps_its_file_and_line(width: int) -> None:
    spot = Spot("/home/ada/projects/llm/model/attention.py", 212)
    row = ((f'  File "{spot.file}", line 212 in forward', ""),)
    ((shown, _),) = fitted(row, spot, width)

    assert len(shown) <= width
    assert width < 48 or 'attention.py", line 212 in forward' in shown


def test_rows_of_a_sheet_name_their_frames(root: Path) -> None:
    run = Scripted(root, ranks=1, hosts=("node1",))
    run.place(2)
    run.add(ev.StacksTaken(time=5, rank=0, text='Thread 0x1:\n  File "/w/t.py", line 5 in fit'))
    spots: dict[int, Spot] = {}
    rows = stack_rows(view_of(run), {}, spots)

    assert ['File "/w/t.py", line 5 in fit'] == [words([rows[number]])[0] for number in spots]
    run.writer.close()
