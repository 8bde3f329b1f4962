"""One run of the past in full: why it ended, with all that its folder tells; and copying that."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from console.app import RankdeckApp
from console.data.history.run_list import RunRecord, RunRecordPoller, read_record
from console.export.runs_csv import write_runs
from console.settings import ConsoleSettings
from console.ui.history.panes import RunCard, RunsList, card_rows, card_text
from console.ui.history.screen import HistoryScreen
from console.ui.launch.screen import LaunchScreen
from console.ui.run.failure import collateral
from console.ui.run.screen import RunScreen
from launcher.errors import RecordError, SpecError
from launcher.runs.reader import status_of
from launcher.runs.status import Status
from launcher.state import events as ev
from launcher.state.ranks import Rank, RankPhase, Ranks
from launcher.state.run_state import Phase, RunState
from tests.commands import until as wait_until
from tests.console.scripted import START, Scripted

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tests.console.conftest import FakeCommands, Until

TRACEBACK = """Traceback (most recent call last):
  File "/p/train.py", line 41, in main
    loss = step(batch)
  File "/p/train.py", line 17, in step
    raise ValueError("loss is nan")
ValueError: loss is nan
"""


def failed(root: Path, *, traceback: str = TRACEBACK, note: str = "") -> Path:
    """A run that was near its limit once, was started again, and whose rank 2 then raised."""
    run = Scripted(root)
    run.place(1.0)
    run.add(ev.LimitNear(time=9.0, limit="progress", limit_s=30.0, at=START + 15.0))
    run.add(ev.ProgressResumed(time=10.0))
    run.restart(20.0, 1, "executor 3 was lost")
    run.place(21.0, 1)
    frames = (("/p/train.py", 41, "main"), ("/p/train.py", 17, "step"))
    run.add(
        ev.RankRaised(
            time=30.0, attempt=1, rank=2, kind="ValueError", message="loss is nan", traceback=traceback,
            frames=frames,
        ),
        ev.StacksTaken(time=30.0, attempt=1, rank=0, text="Thread 1:\n  train.py:17 in step"),
    )  # fmt: skip
    if note:
        run.add(ev.NoteMade(time=30.0, attempt=1, text=note))
    run.fail(31.0, 2, 1, code=1)
    why = "rank 2 on ip-10-0-12-32.ec2.internal raised ValueError: loss is nan"
    run.add(ev.RunEnded(time=33.0, attempt=1, state="failed", exit_code=1, why=why, rank=2))
    run.writer.close()
    return run.folder


def lines_of(run: Path, width: int) -> list[str]:
    rows = card_rows(status_of(run), read_record(run), width)
    return ["".join(text for text, _ in row) for row in rows]


def read_rows(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return [*csv.DictReader(file)]


async def history(app: RankdeckApp, pilot: Pilot[int], until: Until) -> RunCard:
    await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
    await pilot.press("f2")
    await until(pilot, lambda: isinstance(app.screen, HistoryScreen) and app.screen.query_one(RunsList).items)
    card = app.screen.query_one(RunCard)
    await until(pilot, lambda: card.record is not None)
    return card


def test_one_other_rank_is_named_and_several_are_counted() -> None:
    first, second, third = (Rank(n, phase=RankPhase.FAILED, exit_code=1) for n in range(3))
    assert "" == collateral(RunState(ranks=Ranks.of((first,))), first)
    assert "collateral: rank 0 exit 1" == collateral(RunState(ranks=Ranks.of((first, second))), second)
    assert "collateral: 2 exit 1" == collateral(RunState(ranks=Ranks.of((first, second, third))), second)


def test_the_card_tells_the_end_first_and_the_traceback_whole(root: Path) -> None:
    lines = lines_of(failed(root), 100)

    assert "✗ failed · exit 1" in lines[0]
    assert "rank 2 on ip-10-0-12-32.ec2.internal raised ValueError: loss is nan" in lines[1]
    assert "exit 1 after 10s · collateral: 3 SIGTERM" in lines[2]
    assert "in train.py:17 in step ← train.py:41 in main" in lines[3]
    assert "attempt 1 began because executor 3 was lost" in lines[4]
    assert "! after 9.0s the limit of 30 s without progress was near" in lines[5]
    for line in TRACEBACK.splitlines():
        assert f" {line}" in lines
    assert " Stacks of 1 rank" in lines
    assert any("train.py:17 in step" in line for line in lines[lines.index(" Stacks of 1 rank") :])


@pytest.mark.parametrize("width", [1, 10, 40, 78, 200])
def test_no_line_is_wider_than_the_pane_and_none_is_lost(root: Path, width: int) -> None:
    long = TRACEBACK + "  " + "x" * 500 + "\n" + " " * 300 + "deep\n"
    lines = lines_of(failed(root, traceback=long, note="mind the gap"), width)

    assert width < 40 or all(len(line) <= width for line in lines)
    assert 500 == sum(line.count("x") for line in lines if set(line.strip()) == {"x"})
    assert any("deep" in line for line in lines)
    assert "mind" in "".join(lines)


def test_what_is_copied_is_whole_plain_and_harmless(root: Path) -> None:
    run = failed(root, traceback=TRACEBACK + "\x1b]0;evil\x07\x1b[2J\u202eend\n")
    text = card_text(status_of(run), read_record(run))

    assert text.startswith(f"{run.name}\n✗ failed · exit 1")
    assert TRACEBACK.rstrip() in text
    assert "without progress was near" in text
    assert all(character.isprintable() or character == "\n" for character in text)


def test_without_a_record_the_summary_is_told() -> None:
    status = Status(id="20260101-000001-000abc", state=Phase.LOST, why="gone", name="n", num_processes=2)

    assert ["gone" in text for text in ("", card_text(status, None))] == [False, True]
    assert "2 ranks" in card_text(status, None)


def test_a_record_is_read_again_only_when_it_has_grown(root: Path) -> None:
    run = failed(root)
    told: list[RunRecord] = []
    records = RunRecordPoller(root, told.append)
    records.poller.look()
    assert told == []
    records.ask(run.name)
    records.poller.look()
    records.poller.look()
    assert [2] == [record.state.first_failure and record.state.first_failure.rank for record in told]
    with open(run / "events.jsonl", "ab") as file:
        file.write(b"torn {\n")
    records.poller.look()
    assert 2 == len(told)
    records.ask("20260101-000009-000abc")
    records.poller.look()

    assert ("20260101-000009-000abc", 0) == (told[-1].state.id, len(told[-1].state.ranks))


def test_records_near_are_read_ahead_unless_they_are_long(root: Path) -> None:
    run = failed(root)
    short, long = (root / f"20260101-00000{n}-000abc" for n in (1, 2))
    for folder in (short, long):
        shutil.copytree(run, folder)
    with open(long / "events.jsonl", "ab") as file:
        file.write(b"x" * (1 << 20))
    told: list[RunRecord] = []
    records = RunRecordPoller(root, told.append)
    assert records.ask(run.name, (short.name, long.name)) is None
    records.poller.look()

    assert [run.name] == [record.state.id for record in told]
    known = records.ask(short.name)
    assert known is not None
    assert short.name == known.state.id
    assert records.ask(long.name) is None
    assert told[0] is records.ask(run.name)
    records.poller.look()
    assert [run.name] * 2 == [record.state.id for record in told]


def test_a_record_that_cannot_be_read_says_why(root: Path) -> None:
    run = failed(root)
    (run / "events.jsonl").unlink()
    (run / "events.jsonl").mkdir()

    assert "unreadable: events.jsonl (is a folder)" in card_text(status_of(run), read_record(run))


def test_records_are_read_in_a_thread_until_it_is_closed(root: Path) -> None:
    run = failed(root)
    told: list[RunRecord] = []
    records = RunRecordPoller(root, told.append)
    records.poller.start()
    records.ask(run.name)
    wait_until(lambda: bool(told), within=60)
    records.poller.close()
    records.poller.look()

    assert 1 == len(told)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_why_a_run_failed_is_seen_without_opening_it(
    open_app: Callable[..., RankdeckApp], until: Until, root: Path, size: tuple[int, int]
) -> None:
    failed(root)
    app = open_app()
    async with app.run_test(size=size) as pilot:
        card = await history(app, pilot, until)
        seen = "\n".join(card.render_line(y).text for y in range(card.size.height))
        await pilot.press("2", "G")
        await until(pilot, lambda: card.scroll_offset.y > 0 or size[1] == 60)
        end = "\n".join(card.render_line(y).text for y in range(card.size.height))

    for part in ("raised ValueError: loss is nan", "collateral: 3 SIGTERM", "train.py:17 in step"):
        assert part in " ".join(seen.split())
    assert "Stacks of 1 rank" in end


async def test_in_a_low_terminal_the_list_has_more_rows_than_the_card(
    open_app: Callable[..., RankdeckApp], until: Until, root: Path
) -> None:
    failed(root)
    app = open_app()
    async with app.run_test(size=(60, 15)) as pilot:
        card = await history(app, pilot, until)
        heights = app.screen.query_one(RunsList).size.height, card.size.height

    assert heights[0] > heights[1] >= 3


async def test_the_card_the_id_and_the_folder_are_copied_and_the_run_opens_from_the_card(
    open_app: Callable[..., RankdeckApp], until: Until, root: Path
) -> None:
    run = failed(root)
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await history(app, pilot, until)
        await pilot.press("y")
        await until(pilot, lambda: "ValueError: loss is nan\n" in app.clipboard)
        await pilot.press("i")
        await until(pilot, lambda: run.name == app.clipboard)
        await pilot.press("p")
        await until(pilot, lambda: str(run) == app.clipboard)
        await pilot.press("2", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))


async def test_the_list_is_written_as_it_is_shown(
    open_app: Callable[..., RankdeckApp], until: Until, root: Path, project: Path
) -> None:
    failed(root)
    app = open_app()
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await history(app, pilot, until)
        await pilot.press("W")
        await until(pilot, lambda: any("written, 1 run:" in n.message for n in app._notifications))

    (file,) = project.glob("runs-*.csv")
    (row,) = read_rows(file)
    assert ("llama", "failed", "1", "4") == tuple(
        row[k] for k in ("name", "state", "exit_code", "num_processes")
    )


def test_a_list_of_hostile_runs_is_data_and_never_a_formula(tmp_path: Path) -> None:
    plain = Status(id="20260101-000001-000abc", metrics={"loss": float("nan")}, started=1e300)
    evil = replace(plain, name="=HYPERLINK(1)", why='a,"b"\nc', user="-2", args="\ud800")
    out = write_runs([plain, evil], tmp_path, START)
    rows = read_rows(out)

    assert "runs-20260101-100000.csv" == out.name
    assert ("'=HYPERLINK(1)", 'a,"b"\nc', "'-2") == tuple(rows[1][key] for key in ("name", "why", "user"))
    assert "" == rows[0]["started"] == rows[0]["exit_code"]
    assert 0o600 == out.stat().st_mode & 0o777
    with pytest.raises(SpecError, match="is there already"):
        write_runs([plain], tmp_path, START)
    with pytest.raises(RecordError, match="cannot write"):
        write_runs([plain], tmp_path / "nowhere", START)


async def test_sentences_name_the_keys_of_the_person(
    root: Path, project: Path, commands: FakeCommands, until: Until
) -> None:
    keys = {"history.stop": "ctrl+x", "history.filter": "F", "history.back": "B", "go.launch": "f9"}
    run = Scripted(root)
    run.place(1.0)
    app = RankdeckApp(root=root, workdir=project, commands=commands, settings=ConsoleSettings(keys=keys))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await history(app, pilot, until)
        runs = app.screen.query_one(RunsList)
        await pilot.press("d")
        await until(pilot, lambda: any("still running: ^x stops it" in n.message for n in app._notifications))
        await pilot.press("F", *"nowhere")
        await until(pilot, lambda: "F changes the filter, B removes it" in runs.empty)
        await pilot.press("enter", "B")
        await until(pilot, lambda: runs.items)
        await pilot.press("f1")
        await pilot.press("escape")
        run.writer.close()
