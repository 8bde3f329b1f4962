"""What cannot be read of a run is told with its place, and everything else of the run is read as ever."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.errors import RecordError
from launcher.runs import paths, reader
from launcher.runs.catalog import list_runs, require_ended
from launcher.runs.index import indexed_runs
from launcher.runs.logs import writer
from launcher.runs.logs.line_index import LineIndex
from launcher.runs.logs.tail import last_lines
from launcher.runs.reader import (
    LineTail,
    StateTail,
    examined,
    known_status,
    read_spec,
    read_state,
    read_summary,
)
from launcher.runs.status import Status
from launcher.serialization import to_plain
from launcher.state import events
from launcher.state.fold import fold, fold_all
from launcher.state.run_state import Phase, RunState
from tests.spoiling import failed, record, succeeded
from tests.strategies import instances

FACTS = sorted(events.kinds(), key=lambda cls: cls.tag)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return record(tmp_path / "runs" / "20260101-120000-000abc", failed())


def changed(path: Path, line: int, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the document on a line, counted from 1."""
    lines = path.read_bytes().splitlines()
    document = json.loads(lines[line - 1])
    change(document)
    lines[line - 1] = json.dumps(document).encode()
    path.write_bytes(b"\n".join(lines) + b"\n")


def line_of(run: Path, tag: str) -> int:
    lines = (run / paths.EVENTS).read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if f'"event":"{tag}"' in line)


def told(state: RunState) -> list[tuple[str, tuple[int, ...], int]]:
    return [(part.file, part.lines, part.count) for part in state.unreadable]


@pytest.mark.parametrize("value", ["q", None, -1, 10**18, 1.5, [], {}])
def test_a_fact_that_makes_no_sense_is_told_by_its_line(run: Path, value: Any) -> None:
    before, at = read_state(run), line_of(run, "rank_exited")
    changed(run / paths.EVENTS, at, lambda said: said.update(attempt=value))

    state = read_state(run)
    assert [("events.jsonl", (at,), 1)] == told(state)
    assert (before.phase, before.why, before.started) == (state.phase, state.why, state.started)
    assert [None, 143] == sorted((r.exit_code for r in state.ranks), key=str)[::-1]


def test_a_host_of_no_name_is_told(run: Path) -> None:
    at = line_of(run, "gang_placed")
    changed(run / paths.EVENTS, at, lambda said: said["ranks"][1].update(host=[]))

    state = read_state(run)
    assert [("events.jsonl", (at,), 1)] == told(state)
    assert "ranks[1].host: a text is expected, not a list" == state.unreadable[0].reason


def test_of_many_lines_a_few_are_named_and_all_are_counted(run: Path) -> None:
    with open(run / paths.EVENTS, "ab") as file:
        file.write(b"garbage\n" * 1000)
    tail = StateTail(run)
    tail.poll()
    first = len(failed()) + 1
    [(_, lines, count)] = [each for each in told(tail.state) if each[0] == paths.EVENTS]

    assert (3, 1000) == (len(lines), count)
    assert lines[0] < lines[1] < lines[2] <= first + 3
    with open(run / paths.EVENTS, "ab") as file:
        file.write(b"more\n")
    tail.poll()
    assert [lines, 1001] == [*told(tail.state)[0][1:]]


def test_what_a_newer_version_says_is_counted(run: Path) -> None:
    before = read_state(run)
    with open(run / paths.EVENTS, "ab") as file:
        file.write(b'{"schema":2,"event":"rank_levitated","time":4.0,"height":3}\n')
        file.write(b'{"schema":2,"event":"rank_exited","time":4.0,"rank":0,"exit_code":{"by":"itself"}}\n')

    assert replace(before, newer=2) == read_state(run)


def test_a_line_without_end_is_passed_over_and_not_held(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LONGEST_LINE", 1 << 20)
    path = run / paths.EVENTS
    before = path.read_bytes()
    path.write_bytes(before + b"A" * (5 << 20) + b"\n" + before)
    tail = LineTail(path)
    lines = list(tail.poll())

    assert [*before.splitlines(), b"", *before.splitlines()] == lines
    assert tail.number == len(lines)


@pytest.mark.parametrize("name", [paths.EVENTS, paths.SAMPLES, paths.SPEC, paths.SUMMARY])
def test_what_is_no_file_is_told(tmp_path: Path, name: str) -> None:
    run = record(tmp_path / "20260101-120000-000abc", succeeded())
    place = run / name
    place.rename(tmp_path / "away")
    place.symlink_to(tmp_path / "away")
    tail = StateTail(run)
    tail.poll()
    state = examined(run, tail.state)

    assert name in [part.file for part in state.unreadable]


def test_a_linked_log_is_told_and_nothing_of_it_is_shown(run: Path, tmp_path: Path) -> None:
    log = paths.log_file(run, 0, 1, paths.STDERR)
    log.rename(tmp_path / "away")
    log.symlink_to(tmp_path / "away")
    index = LineIndex(run)
    while index.poll():
        pass

    assert ["logs/0/00001.err"] == [part.file for part in index.unreadable]
    assert {0, 1} == {index.line(i).rank for i in range(len(index))}
    assert [part.file for part in examined(run, RunState()).unreadable] == ["logs/0/00001.err"]


def test_records_that_are_none_are_told_and_the_others_count(run: Path) -> None:
    path = paths.log_folder(run, 0) / paths.CHUNKS
    index = LineIndex(run)
    while index.poll():
        pass
    before = [index.line(i).data for i in range(len(index))]
    data = path.read_bytes()
    strange = writer.pack_chunk(writer.Chunk(1, 0, 5, 3)) + writer.pack_chunk(writer.Chunk(1, 1 << 31, 5, 1))
    path.write_bytes(data[:40] + strange + data[40:])
    index = LineIndex(run)
    while index.poll():
        pass

    assert before == [index.line(i).data for i in range(len(index))]
    assert [("logs/0/chunks", (2, 3), 2)] == [(p.file, p.lines, p.count) for p in index.unreadable]
    assert last_lines(run, longest=1 << 14) is None


def test_much_garbage_after_the_records_is_counted(run: Path) -> None:
    path = paths.log_folder(run, 0) / paths.CHUNKS
    with open(path, "ab") as file:
        file.write(b"A" * writer.SIZE * 50_000)
    index = LineIndex(run)
    while index.poll():
        pass

    assert 4 == len({index.line(i).rank * 4 + index.line(i).stream for i in range(len(index))})
    [part] = index.unreadable
    assert part.file == "logs/0/chunks"
    assert part.reason.startswith("ends in ") or part.count == 50_000


def test_records_may_promise_any_number_of_bytes(run: Path) -> None:
    path = paths.log_folder(run, 0) / paths.CHUNKS
    with open(path, "ab") as file:
        file.write(writer.pack_chunk(writer.Chunk(1, 0, writer.LONGEST, 1)) * 5000)
    index = LineIndex(run)
    while index.poll():
        pass
    assert b"hello from 0" in [index.line(i).data for i in range(len(index))]


# --- status.json


@pytest.mark.parametrize(
    ("field", "value"),
    [("user", 5), ("name", 5), ("mode", float("nan")), ("why", [1]), ("state", "q"), ("ended", [])],
)
def test_of_a_status_all_that_can_be_read_is_read(run: Path, field: str, value: Any) -> None:
    before = known_status(run)
    changed(run / paths.STATUS, 1, lambda said: said.update({field: value}))

    for found in (known_status(run), *list_runs(run.parent), *indexed_runs(run.parent)):
        assert before == replace(found, unreadable=None), "the facts say it too"
        assert found.unreadable is not None
        assert found.unreadable.startswith(f"status.json: {field}: ")


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b"[" * 5000, None])
def test_without_a_status_the_facts_tell(run: Path, data: bytes | None) -> None:
    before = known_status(run)
    (run / paths.STATUS).unlink()
    if data is not None:
        (run / paths.STATUS).write_bytes(data)
    found = known_status(run)

    assert before == replace(found, unreadable=None, owner=before.owner)
    assert str(found.unreadable).startswith("status.json: ")
    require_ended(run)


def test_nobody_can_write_that_a_status_is_unreadable(run: Path) -> None:
    changed(run / paths.STATUS, 1, lambda said: said.update(unreadable="hear, hear"))
    assert known_status(run).unreadable is None


def test_one_run_that_says_nothing_hides_no_other(run: Path) -> None:
    other = record(run.parent / "20260101-130000-000abc", succeeded())
    for name in (paths.STATUS, paths.EVENTS):
        (run / name).unlink()
        os.mkfifo(run / name)

    assert [(other.name, None), (run.name, "status.json: is a FIFO")] == [
        (found.id, found.unreadable) for found in list_runs(run.parent)
    ]
    assert Phase.SUBMITTED is known_status(run).state


# --- the request and the results


@pytest.mark.parametrize(
    "change",
    [{"target": 5}, {"num_processes": "2"}, {"env": {"A": 1}}, {"num_processes": -5}, {"workdir": "/\0"}],
)
def test_a_request_that_makes_no_sense_is_told(run: Path, change: dict[str, Any]) -> None:
    document = json.loads((run / paths.SPEC).read_bytes())
    (run / paths.SPEC).write_text(json.dumps({**document, **change}))

    with pytest.raises(RecordError, match=r"unreadable: spec\.json"):
        read_spec(run)
    assert ["spec.json"] == [part.file for part in examined(run, RunState()).unreadable]


@pytest.mark.parametrize(
    "data", [{}, [3], [{"rank": 0}], [{"rank": "0", "type": "int", "size": 1, "value": 3, "json": True}]]
)
def test_results_that_make_no_sense_are_told(tmp_path: Path, data: Any) -> None:
    run = record(tmp_path / "20260101-120000-000abc", succeeded())
    (run / paths.SUMMARY).write_text(json.dumps(data))

    with pytest.raises(RecordError, match=r"unreadable: result/summary\.json"):
        read_summary(run)


# --- facts that can be read, and make no sense together


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_state_is_folded_from_any_facts_in_any_order(data: st.DataObject) -> None:
    begun = data.draw(st.sampled_from([[], succeeded()[:7], failed()]))
    kinds = data.draw(st.lists(st.sampled_from(FACTS), max_size=6))
    state = fold_all(begun)
    for kind in kinds:
        state = fold(state, data.draw(instances(kind)))

    to_plain(state)
    assert state.first_failure is None or state.first_failure in state.ranks
    assert json.loads(json.dumps(to_plain(Status.of(state, Status(id="x").owner))))
