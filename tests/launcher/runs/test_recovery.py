"""Folders of owners that were killed: readable at once, and whole once they were buried; never a live one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.runs import paths
from launcher.runs.catalog import list_runs
from launcher.runs.logs import writer
from launcher.runs.logs.line_index import LineIndex
from launcher.runs.logs.writer import Chunk
from launcher.runs.reader import FactTail, StateTail, read_state, read_summary, status_of
from launcher.runs.recovery import YOUNG_S, mark_lost, mark_lost_runs
from launcher.runs.status import Owner, read_status, stored_status, write_status
from launcher.runs.writer import RunWriter
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.places import Assignment
from launcher.state import events as ev
from launcher.state.ranks import RankPhase
from launcher.state.run_state import Phase

ROOT = Path(__file__).parents[3]
SPEC = JobSpec(Target(TargetKind.SCRIPT, "/w/t.py"), num_processes=2)
SUBMITTED = ev.RunSubmitted(time=1.0, name="n", target="t.py", mode="local", num_processes=2)
PLACED = ev.GangPlaced(time=2.0, ranks=tuple(Assignment(r, 2, r, 2, 0, 1, 0, "h") for r in (0, 1)))
UP: list[ev.Event] = [SUBMITTED, PLACED] + [ev.RankEntered(time=3.0, rank=r) for r in (0, 1)]
ENDED = ev.RunEnded(time=9.0, state="failed", exit_code=3, why="w", rank=1)
DEAD = Owner(socket.gethostname(), os.getpid(), 1)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that goes on, written by a writer that left without a word."""
    folder = tmp_path / "20260101-120000-000abc"
    folder.mkdir(mode=0o700)
    writer = RunWriter(folder, SPEC)
    for fact in UP:
        writer.append(fact)
    writer.output([(Chunk(10, 0, 4, 1), memoryview(b"one\n"))])
    writer.close()
    owned(folder, DEAD)
    return folder


def owned(folder: Path, owner: Owner) -> None:
    status = stored_status(folder)
    assert status is not None
    write_status(folder, replace(status, owner=owner))


def lines(folder: Path) -> Iterator[bytes]:
    index = LineIndex(folder)
    while index.poll():
        pass
    yield from (index.line(i).data for i in range(len(index)))
    yield from (line.data for line in index.open_lines())
    index.close()


def test_a_run_whose_owner_is_dead_is_lost(run: Path) -> None:
    assert mark_lost(run)
    state, status = read_state(run), stored_status(run)
    assert status is not None
    assert (Phase.LOST, 75) == (state.phase, state.exit_code)
    assert (Phase.LOST, 75, DEAD) == (status.state, status.exit_code, status.owner)
    assert {RankPhase.LOST} == {r.phase for r in state.ranks}
    assert "left no verdict" in status.why
    assert not mark_lost(run), "once is enough"
    assert 1 == sum(isinstance(f, ev.RunEnded) for f in FactTail(run).poll())


@pytest.mark.parametrize("owner", [Owner.this(), Owner("elsewhere", 1, 1)], ids=["alive", "another host"])
def test_a_run_that_may_go_on_is_left_alone(run: Path, owner: Owner) -> None:
    owned(run, owner)
    before = {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}
    assert not mark_lost(run)
    assert before == {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}


def test_a_folder_whose_writer_holds_the_lock_is_left_alone(tmp_path: Path) -> None:
    """Whatever the status says of the owner: the same pid may mean two processes in two containers."""
    folder = tmp_path / "20260101-120000-000abc"
    folder.mkdir()
    writer = RunWriter(folder, SPEC)
    writer.append(SUBMITTED)
    owned(folder, DEAD)
    assert not mark_lost(folder)
    writer.close()
    assert mark_lost(folder)


def test_a_lock_is_not_inherited_by_what_is_started(tmp_path: Path) -> None:
    folder = tmp_path / "20260101-120000-000abc"
    folder.mkdir()
    writer = RunWriter(folder, SPEC)
    writer.append(SUBMITTED)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False) as child:
        writer.close()
        owned(folder, DEAD)
        assert mark_lost(folder)
        child.communicate()


def test_a_verdict_that_did_not_reach_the_status_counts(run: Path) -> None:
    with open(run / paths.EVENTS, "ab") as file:
        file.write(ev.encode(ENDED, run.name))
    assert Phase.LOST is status_of(run).state
    assert mark_lost(run)
    assert (Phase.FAILED, 3) == (status_of(run).state, status_of(run).exit_code)
    assert 1 == sum(isinstance(f, ev.RunEnded) for f in FactTail(run).poll())


@pytest.mark.parametrize("torn", [b'{"schema":1,"event":"note_ma', b"\xff\x00", b"{"])
def test_a_torn_last_fact_hides_no_verdict(run: Path, torn: bytes) -> None:
    with open(run / paths.EVENTS, "ab") as file:
        file.write(torn)
    tail = StateTail(run)
    tail.poll()
    assert mark_lost(run)
    tail.poll()
    assert Phase.LOST is tail.state.phase
    assert [*UP] == FactTail(run).poll()[:-1]


def test_bytes_without_a_record_are_found_again(run: Path) -> None:
    folder = paths.log_folder(run, 0)
    for name, data in (("00000.out", b"two\nthr"), ("00001.err", b"oops\n")):
        with open(folder / name, "ab") as file:
            file.write(data)
    with open(folder / paths.CHUNKS, "ab") as file:
        file.write(writer.pack_chunk(Chunk(11, 0, 4, 1))[:-5])
    assert mark_lost(run)
    assert [b"one", b"oops", b"thr", b"two"] == sorted(lines(run))


def test_an_attempt_whose_record_was_never_begun_is_found(run: Path) -> None:
    folder = paths.log_folder(run, 1)
    folder.mkdir()
    (folder / "00000.out").write_bytes(b"new\n")
    assert mark_lost(run)
    assert [b"one", b"new"] == list(lines(run))


def test_what_was_half_made_goes_and_values_are_listed(run: Path) -> None:
    half = run / paths.RESULT / ".00001.pickle.partial"
    half.write_bytes(b"half")
    paths.result_file(run, 0).write_bytes(b"whole")
    returned = ev.RankReturned(time=5.0, rank=0, type="int", size=5, value=3, json=True)
    with open(run / paths.EVENTS, "ab") as file:
        file.write(ev.encode(returned, run.name))
    (run / paths.RESERVE).write_bytes(b"")
    assert mark_lost(run)
    assert ["00000.pickle", "summary.json"] == sorted(p.name for p in (run / paths.RESULT).iterdir())
    assert [3] == [entry["value"] for entry in read_summary(run)]
    assert not (run / paths.RESERVE).exists()


def test_a_folder_without_a_status_is_judged_by_its_age(tmp_path: Path) -> None:
    folder = tmp_path / "20260101-120000-000abc"
    folder.mkdir()
    now = folder.stat().st_mtime
    assert not mark_lost(folder, now + YOUNG_S - 5)
    assert [folder.name] == mark_lost_runs(tmp_path, now + YOUNG_S + 5)
    assert [Phase.LOST] == [status.state for status in list_runs(tmp_path)]


def test_all_that_are_dead_are_buried_and_no_other(run: Path, tmp_path: Path) -> None:
    (tmp_path / "20260101-120000-000abe").write_text("not a folder")
    folder = tmp_path / "20260101-120000-000abd"
    folder.mkdir()
    writer = RunWriter(folder, SPEC)
    writer.append(SUBMITTED)
    settled: set[str] = set()
    assert [run.name] == mark_lost_runs(tmp_path, settled=settled)
    assert [] == mark_lost_runs(tmp_path, settled=settled)
    assert {run.name} == settled
    writer.close()
    assert [] == mark_lost_runs(tmp_path / "nowhere")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Sixty writers, killed at random moments."""
    script = Path(__file__).parents[2] / "targets" / "killed_writers.py"
    command = [sys.executable, str(script), str(tmp_path_factory.mktemp("killed")), "60"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=200)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.process
def test_whatever_a_killed_writer_had_said_is_there(killed: list[dict[str, Any]]) -> None:
    assert 60 == len(killed)
    assert 20 < sum(life["facts"] > 1 for life in killed), "some must have come far"
    for life in killed:
        folder = Path(life["folder"])
        before = FactTail(folder, samples=True).poll()
        read_state(folder), read_summary(folder), list(lines(folder))
        known = read_status(folder)
        assert known is None or known.state is Phase.LOST

        assert mark_lost(folder, now=folder.stat().st_mtime + 2 * YOUNG_S)

        facts = FactTail(folder).poll()
        assert life["facts"] <= len(facts) - 1
        assert [f for f in before if not isinstance(f, ev.Sampled)] == facts[:-1]
        assert Phase.LOST is read_state(folder).phase
        assert not [p for p in folder.rglob("*") if p.name.startswith(".") or p.name == paths.RESERVE]
        for rank in (r.rank for r in read_state(folder).ranks if r.returned):
            assert 100_000 == paths.result_file(folder, rank).stat().st_size


@pytest.mark.process
def test_every_byte_that_a_killed_writer_left_is_in_the_merged_view(killed: list[dict[str, Any]]) -> None:
    for life in killed:
        folder = Path(life["folder"])
        mark_lost(folder, now=folder.stat().st_mtime + 2 * YOUNG_S)
        on_disk = sum(p.stat().st_size for p in folder.rglob("*.out"))
        assert life["output"] <= on_disk
        order = paths.log_folder(folder, 0) / paths.CHUNKS
        if order.exists():
            recorded = sum(c.length for c in writer.unpack_chunk(order.read_bytes()[len(writer.MAGIC) :]))
            assert on_disk == recorded
