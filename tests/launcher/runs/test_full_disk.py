"""A folder that takes no more: what is there stays true, what is lost is counted, and no run ends of it."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from launcher.errors import RecordError
from launcher.runs import paths
from launcher.runs.files import Growing
from launcher.runs.logs.line_index import LineIndex
from launcher.runs.logs.writer import Chunk
from launcher.runs.reader import FactTail, read_state, read_summary, status_of
from launcher.runs.writer import LAST, RESERVE, RunWriter
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.places import Assignment
from launcher.state import events as ev
from launcher.state.run_state import Phase
from launcher.testing import FakeClock
from tests.small_disk import fill, small_disk

SPEC = JobSpec(Target(TargetKind.SCRIPT, "/w/t.py"), num_processes=2)
SUBMITTED = ev.RunSubmitted(time=1.0, name="n", target="t.py", mode="local", num_processes=2)
PLACED = ev.GangPlaced(time=2.0, ranks=tuple(Assignment(r, 2, r, 2, 0, 1, 0, "h") for r in (0, 1)))
ENDED = ev.RunEnded(time=9.0, state="succeeded", exit_code=0, why="all ranks ended")


def shown_bytes(folder: Path, attempt: int) -> int:
    """How many bytes a merged view finds."""
    index = LineIndex(folder, attempt, longest=1 << 30)
    while index.poll():
        pass
    whole = sum(len(index.line(i).data) + 1 for i in range(len(index)))
    unfinished = sum(len(line.data) for line in index.open_lines())
    index.close()
    return whole + unfinished


@dataclass
class Record:
    """A writer on a small disk, and what it was given."""

    disk: Path
    writer: RunWriter
    clock: FakeClock
    given: int = 0
    time: int = 0

    @property
    def folder(self) -> Path:
        return self.writer.folder

    def say(self, data: bytes, rank: int = 0) -> None:
        self.time += 1
        self.given += len(data)
        self.writer.output([(Chunk(self.time, rank, len(data), 1), memoryview(data))])
        self.writer.settle()

    def on_disk(self) -> int:
        return sum(p.stat().st_size for p in self.folder.rglob("*.out"))

    def later(self, seconds: float = 2.0) -> None:
        self.clock.advance(seconds)
        self.writer.settle()

    def check(self) -> None:
        """Every byte on disk has its record, no record promises more, and what is missing was counted."""
        lost = self.writer.state.lost
        assert self.given - self.on_disk() == (lost.output_bytes if lost else 0)
        assert self.on_disk() == sum(shown_bytes(self.folder, a) for a in paths.attempts(self.folder))


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Record]:
    with small_disk(tmp_path / "disk", 2 << 20) as disk:
        folder = disk / "20260101-120000-000abc"
        folder.mkdir(mode=0o700)
        clock = FakeClock()
        writer = RunWriter(folder, SPEC, clock=clock, monotonic=clock)
        for fact in (SUBMITTED, PLACED, *(ev.RankEntered(time=3.0, rank=r) for r in (0, 1))):
            writer.append(fact)
        yield Record(disk, writer, clock)
        writer.close()


def kinds(folder: Path) -> list[str]:
    return [type(fact).__name__ for fact in FactTail(folder).poll()]


@pytest.mark.parametrize("piece", [7, 4096, 300_001])
def test_a_disk_that_fills_to_the_last_byte_loses_output_and_nothing_else(record: Record, piece: int) -> None:
    line = b"x" * (piece - 1) + b"\n"
    room = shutil.disk_usage(record.disk).free
    while record.given < room + 10 * piece + 50_000:
        record.say(line, rank=record.time % 2)
    assert record.writer.state.recording is not None
    for rank in (0, 1):
        record.writer.append(ev.RankExited(time=8.0, rank=rank, exit_code=0))
    record.writer.append(ENDED)

    assert ["RecordingStopped", "RankExited", "RankExited", "RecordsLost", "RunEnded"] == kinds(
        record.folder
    )[-5:]
    state = read_state(record.folder)
    assert (Phase.SUCCEEDED, 0) == (state.phase, state.exit_code)
    assert "No space left on device" == (state.recording and state.recording.reason)
    assert Phase.SUCCEEDED is status_of(record.folder).state
    record.check()


def test_a_disk_that_somebody_else_fills_takes_the_verdict(record: Record) -> None:
    record.say(b"before\n")
    fill(record.disk)
    record.say(b"x" * 5000)
    record.say(b"y" * 5000)
    for rank in (0, 1):
        record.writer.append(ev.RankExited(time=8.0, rank=rank, exit_code=3))
    record.writer.append(ev.RunEnded(time=9.0, state="failed", exit_code=3, why="w", rank=1))
    record.writer.close()
    state, status = read_state(record.folder), status_of(record.folder)
    assert (3, 3) == (state.exit_code, status.exit_code)
    assert [3, 3] == [r.exit_code for r in state.ranks]
    assert state.lost is not None
    assert 5000 < state.lost.output_bytes <= 10_000  # the page that "before" began took some
    record.check()
    assert not (record.folder / paths.RESERVE).exists()


def test_facts_beyond_the_reserve_wait_and_leave_room_for_the_verdict(record: Record) -> None:
    fill(record.disk)
    notes = [ev.NoteMade(time=4.0, text=f"{i} " + "x" * 4000) for i in range(200)]
    for note in notes:
        record.writer.append(note)
    record.writer.append(ENDED)
    facts = FactTail(record.folder).poll()
    kept = [f for f in facts if isinstance(f, ev.NoteMade)]
    assert notes[: len(kept)] == kept
    assert (RESERVE - LAST) // 5000 < len(kept) < 200
    lost = read_state(record.folder).lost
    assert 200 - len(kept) == (lost and lost.facts)
    assert facts[-1] == ENDED


def test_recording_goes_on_when_there_is_room_again(record: Record) -> None:
    record.say(b"one\n")
    filler = fill(record.disk)
    record.say(b"x" * 9000)
    record.later()
    assert record.writer.state.recording is not None
    filler.unlink()
    record.say(b"dropped before anybody looked\n")
    record.later()
    record.say(b"two\n")
    assert record.writer.state.recording is None
    record.writer.append(ENDED)
    assert 1 == kinds(record.folder).count("RecordsLost")
    record.check()
    data = paths.log_file(record.folder, 0, 0, 1).read_bytes()
    assert data.startswith(b"one\nxxx")
    assert data.endswith(b"xtwo\n")


def test_a_disk_that_is_full_again_and_again_is_asked_less_and_less(record: Record) -> None:
    stops = []
    for second in range(200):
        filler = fill(record.disk)
        record.say(b"x" * 9000)
        filler.unlink()
        record.later(1.0)
        stops.append((second, kinds(record.folder).count("RecordingStopped")))
    assert stops[-1][1] < 15
    record.writer.append(ENDED)
    record.check()


def test_a_value_that_was_not_kept_is_not_claimed(record: Record) -> None:
    path = paths.result_file(record.folder, 0)
    old = record.writer.open_result(0)
    old.write(memoryview(b"old"))
    old.commit()
    filler = fill(record.disk, leave=40_000)
    value = record.writer.open_result(0)
    for _ in range(30):
        value.write(memoryview(b"v" * 4096))
    value.commit()
    record.writer.append(ev.RankReturned(time=5.0, rank=0, type="bytes", size=value.size, preview="b'v'"))
    assert [] == list(path.parent.iterdir()), "neither the old value nor a part of the new one"
    filler.unlink()
    record.later()
    record.writer.append(ENDED)
    state = read_state(record.folder)
    assert state.ranks[0].returned is not None
    assert not state.ranks[0].returned.kept
    assert 30 * 4096 == (state.lost and state.lost.result_bytes)
    record.writer.close()
    assert ["bytes"] == [entry["type"] for entry in read_summary(record.folder)]


def test_a_restart_on_a_full_disk_has_its_logs_when_there_is_room(record: Record) -> None:
    record.say(b"first\n")
    filler = fill(record.disk)
    record.say(b"x" * 9000)
    record.writer.append(ev.GangRestarted(time=5.0, attempt=1, reason="r", in_place=True))
    record.say(b"lost\n")
    filler.unlink()
    record.later()
    record.say(b"second\n")
    record.writer.append(ENDED)
    assert b"second\n" == paths.log_file(record.folder, 1, 0, 1).read_bytes()
    record.check()


def test_a_folder_that_is_removed_ends_nothing(record: Record) -> None:
    record.say(b"one\n")
    shutil.rmtree(record.folder)
    record.given = 0
    record.later()
    for _ in range(3):
        record.say(b"x" * 1000, rank=1)
        record.later()
    state = record.writer.append(ENDED)
    assert Phase.SUCCEEDED is state.phase
    assert "the run folder was removed" == (state.recording and state.recording.reason)
    assert 3000 == (state.lost and state.lost.output_bytes)
    assert not record.folder.exists()


def test_a_run_cannot_begin_on_a_full_disk(record: Record) -> None:
    fill(record.disk)
    (record.disk / "20260101-120000-000abd").mkdir()
    with pytest.raises(RecordError, match="No space left"):
        RunWriter(record.disk / "20260101-120000-000abd", SPEC, payload=b"x" * 100_000)


def test_what_is_lost_beside_the_agents_is_added_to_what_is_lost_here(record: Record) -> None:
    fill(record.disk)
    record.say(b"x" * 10_000)
    record.writer.append(ev.RecordsLost(time=5.0, output_bytes=7, facts=2))
    ours = record.given - record.on_disk()
    record.writer.append(ENDED)
    lost = read_state(record.folder).lost
    assert (ours + 7, 2) == (lost and (lost.output_bytes, lost.facts))


def test_more_files_than_a_process_may_open_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: set[Growing] = set()

    class Scarce(Growing):
        def __init__(self, path: Path) -> None:
            if len(opened) >= 5:
                raise OSError(errno.EMFILE, "Too many open files")
            super().__init__(path)
            opened.add(self)

        def close(self) -> None:
            opened.discard(self)
            super().close()

    monkeypatch.setattr("launcher.runs.logs.writer.Growing", Scarce)
    clock = FakeClock()
    folder = tmp_path / "20260101-120000-000abc"
    folder.mkdir()
    record = Record(tmp_path, RunWriter(folder, SPEC, clock=clock, monotonic=clock), clock)
    record.writer.append(SUBMITTED)
    for turn in range(3):
        pieces = [(Chunk(turn, r, 6, 1), memoryview(b"%5d\n" % turn)) for r in range(20)]
        record.given += 120
        record.writer.output(pieces)
    record.writer.append(ENDED)
    record.writer.close()
    assert record.writer.state.lost is None
    record.check()
    assert {b"    0\n    1\n    2\n"} == {p.read_bytes() for p in folder.rglob("*.out")}


@pytest.mark.parametrize("code", [errno.EIO, errno.EDQUOT, errno.EROFS])
def test_any_error_of_a_disk_is_one_that_a_run_outlives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    clock = FakeClock()
    folder = tmp_path / "20260101-120000-000abc"
    folder.mkdir()
    record = Record(tmp_path, RunWriter(folder, SPEC, clock=clock, monotonic=clock), clock)
    record.writer.append(SUBMITTED)
    record.say(b"fine\n")

    def broken(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr("launcher.runs.files.os.writev", broken)
        record.say(b"lost\n")
        record.writer.append(ev.NoteMade(time=4.0, text="waits"))
    record.later(70.0)
    record.say(b"again\n")
    record.writer.append(ENDED)
    record.writer.close()
    assert ["RunSubmitted", "RecordingStopped", "NoteMade", "RecordsLost", "RunEnded"] == kinds(folder)
    assert b"fine\nagain\n" == paths.log_file(folder, 0, 0, 1).read_bytes()
    record.check()


def test_a_write_that_stops_halfway_leaves_only_whole_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever in bytes and records the disk ends, the bytes on disk are those that were recorded."""
    write = Growing.write
    for budget in range(0, 200, 3):
        left = budget

        def some(self: Growing, buffers: list[bytes]) -> None:
            nonlocal left
            for buffer in map(bytes, buffers):
                write(self, [buffer[:left]])
                if len(buffer) > left:
                    left = 0
                    raise OSError(errno.EIO, "broken")
                left -= len(buffer)

        clock = FakeClock()
        folder = tmp_path / f"20260101-120000-{budget:03d}abc"
        folder.mkdir()
        record = Record(tmp_path, RunWriter(folder, SPEC, clock=clock, monotonic=clock), clock)
        record.writer.append(SUBMITTED)
        pieces = [(Chunk(i, i % 2, 20, 1), memoryview(b"%19d\n" % i)) for i in range(5)]
        record.given = 100
        with monkeypatch.context() as patch:
            patch.setattr(Growing, "write", some)
            record.writer.output(pieces)
        record.later(70.0)
        record.say(b"after\n")
        record.writer.append(ENDED)
        record.writer.close()
        record.check()
