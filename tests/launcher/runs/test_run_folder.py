"""The run folder as written and as read: private, whole, and readable in any state it may be in."""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import signal
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.errors import RecordError
from launcher.runs import paths
from launcher.runs.logs.writer import Chunk, LogWriter
from launcher.runs.reader import (
    FactTail,
    LineTail,
    StateTail,
    read_restarts,
    read_spec,
    read_state,
    read_summary,
    status_of,
)
from launcher.runs.results import ResultFile, write_summaries
from launcher.runs.writer import RunWriter
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.places import Assignment
from launcher.state import events as ev
from launcher.state.run_state import Phase

SPEC = JobSpec(Target(TargetKind.SCRIPT, "/w/t.py"), num_processes=2, env={"HF_TOKEN": "hunter2", "A": "1"})
SUBMITTED = ev.RunSubmitted(time=1.0, name="n", target="t.py", mode="local", num_processes=2)
PLACED = ev.GangPlaced(time=2.0, ranks=tuple(Assignment(r, 2, r, 2, 0, 1, 0, "h") for r in (0, 1)))
UP: list[ev.Event] = [SUBMITTED, PLACED] + [ev.RankEntered(time=3.0, rank=r) for r in (0, 1)]
ENDED = ev.RunEnded(time=9.0, state="failed", exit_code=3, why="w", rank=1)


def returned(rank: int, value: Any = 1) -> ev.RankReturned:
    return ev.RankReturned(time=5.0, rank=rank, type="int", size=1, value=value, json=True)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[RunWriter]:
    folder = tmp_path / "20260101-120000-000abc"
    folder.mkdir(mode=0o700)
    made = RunWriter(folder, SPEC, payload=b"pickle")
    yield made
    made.close()


def write_all(writer: RunWriter, facts: list[ev.Event]) -> None:
    """What the loop does in one turn."""
    for fact in facts:
        writer.append(fact)
    writer.settle()


def test_everything_is_private(writer: RunWriter) -> None:
    os.umask(os.umask(0))
    write_all(writer, [*UP, ev.Sampled(time=4.0, agent=0, host="h"), returned(0), ENDED])
    writer.output([(Chunk(1, 0, 2, 1), memoryview(b"hi")), (Chunk(1, 1, 2, 2), memoryview(b"hi"))])
    result = writer.open_result(0)
    result.write(memoryview(b"p"))
    result.commit()

    found = list(writer.folder.rglob("*"))
    assert 14 <= len(found)
    assert {0o600} == {stat.S_IMODE(p.stat().st_mode) for p in found if p.is_file()}
    assert {0o700} == {stat.S_IMODE(p.stat().st_mode) for p in found if p.is_dir()}
    assert [] == [p.name for p in found if p.name.startswith(".")]


def test_no_secret_is_anywhere_in_the_folder(writer: RunWriter) -> None:
    write_all(writer, [*UP, ENDED])
    texts = [p.read_bytes() for p in writer.folder.rglob("*") if p.is_file()]
    assert not any(b"hunter2" in text for text in texts)
    assert {"HF_TOKEN": "***", "A": "1"} == read_spec(writer.folder).env


def test_a_spec_comes_back_as_it_was_but_for_its_secrets(writer: RunWriter) -> None:
    assert SPEC.redacted() == read_spec(writer.folder)


def test_facts_are_read_as_they_were_written(writer: RunWriter) -> None:
    write_all(writer, [*UP, ENDED])
    assert [*UP, ENDED] == FactTail(writer.folder).poll()
    assert writer.state == read_state(writer.folder)


def test_status_follows_the_phase(writer: RunWriter) -> None:
    seen = []
    for fact in [*UP, ev.StopRequested(time=4.0, by="person", reason="r"), ENDED]:
        writer.append(fact)
        seen.append(status_of(writer.folder).state)
    expected = [Phase.SUBMITTED, Phase.STARTING, Phase.RUNNING, Phase.RUNNING, Phase.STOPPING, Phase.FAILED]
    assert expected == seen
    assert (3, "w", 9.0) == (
        status_of(writer.folder).exit_code,
        status_of(writer.folder).why,
        status_of(writer.folder).ended,
    )


def test_telemetry_is_kept_apart_from_the_other_facts(writer: RunWriter) -> None:
    report = ev.RankReported(time=4.0, rank=0, step=1)
    write_all(writer, [*UP, report])
    assert UP == FactTail(writer.folder).poll()
    assert [*UP, report] == FactTail(writer.folder, samples=True).poll()


def test_a_new_fact_says_itself_that_it_is_telemetry(
    writer: RunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ev, "_kinds", dict(ev._kinds))

    @ev.event(telemetry=True)
    @dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
    class FanTurned(ev.Event):
        rpm: int

    turned = FanTurned(time=4.0, rpm=900)
    write_all(writer, [*UP, turned])
    assert UP == FactTail(writer.folder).poll()
    assert [*UP, turned] == FactTail(writer.folder, samples=True).poll()


def test_a_follower_and_a_latecomer_fold_the_same_state(writer: RunWriter) -> None:
    """Facts of two hosts whose clocks disagree keep the order in which the verdict was folded from them."""
    follower = StateTail(writer.folder)
    facts: list[ev.Event] = [
        *UP,
        ev.RankExited(time=5.02, rank=1, exit_code=9),
        ev.StopRequested(time=5.0, by="rank", reason="r"),
        ev.RankReported(time=4.5, rank=0, step=3),
        ev.RankExited(time=5.01, rank=0, exit_code=1),
        ENDED,
        ev.NoteMade(time=8.0, text="late"),
    ]
    for fact in facts:
        writer.append(fact)
        follower.poll()
    latecomer = StateTail(writer.folder)
    latecomer.poll()
    assert writer.state == follower.state
    assert writer.state == latecomer.state


@given(st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"")), max_size=12), st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_tail_gives_each_whole_line_once(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("tail") / "f"
    whole = b"".join(line + b"\n" for line in lines) + b"torn"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    tail, seen = LineTail(path), list[bytes]()
    seen += tail.poll()
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        with path.open("ab") as file:
            file.write(whole[start:end])
        seen += tail.poll()
    assert lines == seen


def test_a_tail_takes_lines_of_any_length(tmp_path: Path) -> None:
    lines = [b"x" * (3 << 20), b"", b"y"]
    (tmp_path / "f").write_bytes(b"\n".join(lines) + b"\n")
    assert lines == list(LineTail(tmp_path / "f").poll())


def test_a_tail_that_is_left_halfway_goes_on_there(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\nb\nc\n")
    tail = LineTail(tmp_path / "f")
    for line in tail.poll():
        assert b"a" == line
        break
    assert [b"b", b"c"] == list(tail.poll())


def test_a_torn_fact_waits_for_its_rest(writer: RunWriter) -> None:
    write_all(writer, UP)
    path = writer.folder / paths.EVENTS
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    tail = FactTail(writer.folder)
    assert UP[:-1] == tail.poll()
    path.write_bytes(whole)
    assert UP[-1:] == tail.poll()


@pytest.mark.parametrize(
    "garbage", [b'{"event":"rank_exi\n', b"\0\0\0\n", b"[]\n", b'{"event":"rank_exited"}\n', b"\n"]
)
def test_a_line_that_is_no_fact_hides_no_other(writer: RunWriter, garbage: bytes) -> None:
    write_all(writer, UP)
    path = writer.folder / paths.EVENTS
    lines = path.read_bytes().splitlines(True)
    path.write_bytes(b"".join([*lines[:2], garbage, *lines[2:]]))
    assert UP == FactTail(writer.folder).poll()


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """As on a full disk: a write that does not fit is cut short, and the next one fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_a_full_disk_tears_one_fact_and_not_the_verdict(writer: RunWriter) -> None:
    write_all(writer, UP)
    size = (writer.folder / paths.EVENTS).stat().st_size
    note = ev.NoteMade(time=4.0, text="x" * 100)
    with file_size_limit(size + 20):
        writer.append(note)
        assert UP == FactTail(writer.folder).poll()
    writer.append(ENDED)
    facts = FactTail(writer.folder).poll()
    assert [*UP, note, ENDED] == [f for f in facts if not isinstance(f, ev.RecordingStopped)]
    assert "File too large" == (writer.state.recording and writer.state.recording.reason)


def test_the_last_value_that_a_rank_publishes_counts(writer: RunWriter) -> None:
    write_all(writer, [*UP, returned(1, "b"), returned(0, "a"), returned(1, "c")])
    assert [(0, "a"), (1, "c")] == [(s["rank"], s["value"]) for s in read_summary(writer.folder)]


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_summaries_are_strict_json(writer: RunWriter, number: float) -> None:
    write_all(writer, [*UP, returned(0, {"loss": number})])

    def refuse(constant: str) -> float:
        raise AssertionError(constant)

    text = (writer.folder / paths.SUMMARY).read_text()
    assert {"loss": str(number)} == json.loads(text, parse_constant=refuse)[0]["value"]


def test_without_values_there_is_no_summary(writer: RunWriter) -> None:
    assert [] == read_summary(writer.folder)


def test_who_has_read_the_verdict_finds_the_values(
    writer: RunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value and the verdict may come in one turn."""
    verdicts: list[bool] = []

    def write(run: Path, values: Iterable[ev.RankReturned]) -> None:
        verdicts.append(b"run_ended" in (run / paths.EVENTS).read_bytes())
        write_summaries(run, values)

    monkeypatch.setattr("launcher.runs.writer.write_summaries", write)
    for fact in [*UP, returned(0, "a"), ENDED]:
        writer.append(fact)
    assert ["a"] == [each["value"] for each in read_summary(writer.folder)]
    assert [False] == verdicts


def test_a_result_is_seen_only_when_it_is_whole(writer: RunWriter) -> None:
    path = paths.result_file(writer.folder, 1)
    result = writer.open_result(1)
    result.write(memoryview(b"ab"))
    assert not path.exists()
    result.write(memoryview(b"c"))
    result.commit()
    assert (b"abc", 3) == (path.read_bytes(), result.size)


def test_a_result_that_is_given_up_leaves_the_earlier_one(writer: RunWriter) -> None:
    path = paths.result_file(writer.folder, 0)
    for data, end in ((b"old", ResultFile.commit), (b"new", ResultFile.discard)):
        result = writer.open_result(0)
        result.write(memoryview(data))
        end(result)
    assert b"old" == path.read_bytes()
    assert ["00000.pickle"] == [p.name for p in path.parent.iterdir()]


def test_output_is_kept_byte_for_byte(writer: RunWriter) -> None:
    pieces = [(i % 3, 1 + i % 2, os.urandom(i % 50) + b"\0\xff\r\n") for i in range(2000)]
    writer.output([(Chunk(i, r, len(d), s), memoryview(d)) for i, (r, s, d) in enumerate(pieces)])
    for rank in range(3):
        for stream in (1, 2):
            expected = b"".join(d for r, s, d in pieces if (r, s) == (rank, stream))
            path = paths.log_file(writer.folder, 0, rank, stream)
            assert expected == (path.read_bytes() if path.exists() else b"")


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"\xff", b"{}", b'{"target":3}', b'{"target":{"kind":"x"}}']
)
def test_a_folder_whose_spec_cannot_be_read_is_told(tmp_path: Path, text: bytes) -> None:
    (tmp_path / paths.SPEC).write_bytes(text)
    with pytest.raises(RecordError, match="is not a run folder"):
        read_spec(tmp_path)


def test_a_folder_that_holds_nothing_is_told_or_empty(tmp_path: Path) -> None:
    with pytest.raises(RecordError):
        read_spec(tmp_path)
    with pytest.raises(RecordError):
        status_of(tmp_path)
    assert [] == FactTail(tmp_path, samples=True).poll()
    assert [] == read_summary(tmp_path)


@pytest.mark.parametrize("text", [b"", b"[{", b"\xff"])
def test_a_summary_that_cannot_be_read_is_told(tmp_path: Path, text: bytes) -> None:
    (tmp_path / paths.RESULT).mkdir()
    (tmp_path / paths.SUMMARY).write_bytes(text)
    with pytest.raises(RecordError):
        read_summary(tmp_path)


# --- attempts

RESTARTED = ev.GangRestarted(time=10.0, attempt=1, reason="rank 1 failed", in_place=True)


def test_a_restart_begins_new_logs_and_forgets_old_results(writer: RunWriter) -> None:
    write_all(writer, [*UP, returned(0, "old"), returned(1, "old")])
    for rank in (0, 1):
        result = writer.open_result(rank)
        result.write(memoryview(b"old"))
        result.commit()
    writer.output([(Chunk(1, 0, 4, 1), memoryview(b"old\n"))])
    assert 2 == len(read_summary(writer.folder))

    writer.append(RESTARTED)
    assert [] == read_summary(writer.folder)
    assert [] == sorted((writer.folder / paths.RESULT).iterdir())
    writer.output([(Chunk(2, 0, 4, 1), memoryview(b"new\n"))])
    write_all(writer, [dataclasses.replace(PLACED, attempt=1), dataclasses.replace(returned(1), attempt=1)])

    assert [0, 1] == paths.attempts(writer.folder)
    assert [b"old\n", b"new\n"] == [paths.log_file(writer.folder, a, 0, 1).read_bytes() for a in (0, 1)]
    assert [1] == [entry["rank"] for entry in read_summary(writer.folder)]
    assert {1: RESTARTED} == read_restarts(writer.folder)
    assert writer.state == read_state(writer.folder)


def test_a_result_that_is_on_its_way_when_the_gang_restarts_can_still_be_dropped(writer: RunWriter) -> None:
    write_all(writer, UP)
    half = writer.open_result(0)
    half.write(memoryview(b"half"))
    writer.append(RESTARTED)
    half.discard()
    assert [] == sorted((writer.folder / paths.RESULT).iterdir())


def test_a_reader_that_sees_new_logs_can_read_why_they_began(writer: RunWriter) -> None:
    write_all(writer, UP)
    seen: list[dict[int, ev.GangRestarted]] = []

    def look(folder: Path, attempt: int) -> LogWriter:
        seen.append(read_restarts(folder))
        return LogWriter(folder, attempt)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("launcher.runs.writer.LogWriter", look)
        writer.append(RESTARTED)
    assert [{1: RESTARTED}] == seen


def test_attempts_are_those_folders_that_are_numbered(tmp_path: Path) -> None:
    assert [] == paths.attempts(tmp_path)
    for name in ("10", "2", "0", "x", "-1", "\u0663"):
        (tmp_path / paths.LOGS / name).mkdir(parents=True)
    assert [0, 2, 10] == paths.attempts(tmp_path)
