"""Merged lines against a naive reference: whatever the chunking, the polling and the state of the folder."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import operator
import os
import re
import resource
import shutil
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.runs import paths
from launcher.runs.logs import writer
from launcher.runs.logs import writer as chunks
from launcher.runs.logs.line_index import Line, LineIndex
from launcher.runs.logs.rows import last_segment
from launcher.runs.logs.tail import last_lines
from launcher.runs.logs.writer import LogWriter

Piece = tuple[int, int, bytes]

PIECES = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from([paths.STDOUT, paths.STDERR]),
        st.text(alphabet="ab\n\r\u00e9", max_size=12).map(str.encode),
    ),
    max_size=25,
)
KEEP_FOLDER = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def write(run: Path, pieces: list[Piece], *, at_once: int = 3, first: int = 0) -> LogWriter:
    run.mkdir(parents=True, exist_ok=True)
    (run / paths.LOGS).mkdir(exist_ok=True)
    writer = LogWriter(run, 0)
    append(writer, pieces, at_once=at_once, first=first)
    return writer


def append(writer: LogWriter, pieces: list[Piece], *, at_once: int = 3, first: int = 0) -> None:
    stamped = [
        (chunks.Chunk((first + i) * 10**9, rank, len(data), stream), memoryview(data))
        for i, (rank, stream, data) in enumerate(pieces)
    ]
    for start in range(0, len(stamped), at_once):
        writer.append(stamped[start : start + at_once])


def standing(line: bytes, longest: int, *, ended: bool) -> list[bytes]:
    """The rows of one line: what was cut off as too long, and what stands of it in the end."""
    rows, text = [], b""
    for text in re.split(rb"\r+(?=[^\r])", line):
        while (cut := _cut(text, longest)) is not None:
            rows.append(text[:cut])
            text = text[cut:]
    if not (line or ended):
        return []
    return [*rows, line if len(line) <= longest else text[: longest + 3]]


def _cut(text: bytes, longest: int) -> int | None:
    """Where the first row of a text that is too long ends: before a character, or four bytes on."""
    shown = text.rstrip(b"\r")
    within = range(longest, min(longest + 4, len(shown)))
    return next((at for at in within if shown[at] & 0xC0 != 0x80 or at == longest + 3), None)


def reference(pieces: list[Piece], longest: int) -> tuple[list[Line], list[Line]]:
    """Whole lines in the order in which their ends came, and what is unfinished, oldest first."""
    whole: list[Line] = []
    cut: dict[tuple[int, int], int] = {}
    rest: dict[tuple[int, int], bytes] = {}
    touched: dict[tuple[int, int], float] = {}
    for i, (rank, stream, data) in enumerate(pieces):
        key, time = (rank, stream), float(i)
        *ended, rest[key] = (rest.get(key, b"") + data).split(b"\n")
        touched[key] = time
        for line in ended:
            parts = standing(line, longest, ended=True)[cut.pop(key, 0) :]
            whole += [Line(time, rank, stream, part) for part in parts]
        parts = standing(rest[key], longest, ended=False)[cut.get(key, 0) : -1]
        whole += [Line(time, rank, stream, part) for part in parts]
        cut[key] = cut.get(key, 0) + len(parts)
    unfinished = [
        Line(touched[k], *k, standing(data, longest, ended=False)[-1], open=True)
        for k, data in rest.items()
        if data
    ]
    return whole, sorted(unfinished, key=lambda line: line.time)


def read(
    run: Path, *, longest: int = 1 << 16, limit: int = 8 << 20, block: int = 1 << 20
) -> tuple[list[Line], list[Line]]:
    index = LineIndex(run, longest=longest, block=block)
    try:
        while index.poll(limit):
            pass
        return [index.line(i) for i in range(len(index))], index.open_lines()
    finally:
        index.close()


BLOCKS = st.sampled_from([1, 9, 40, 1 << 20])


@given(PIECES, st.integers(1, 7), st.integers(1, 4), st.sampled_from([1, 5, 100, 8 << 20]), BLOCKS)
@KEEP_FOLDER
def test_lines_are_those_of_a_naive_reader(
    tmp_path_factory: pytest.TempPathFactory,
    pieces: list[Piece],
    longest: int,
    at_once: int,
    limit: int,
    block: int,
) -> None:
    run = tmp_path_factory.mktemp("run")
    pieces = [p for p in pieces if p[2]]
    write(run, pieces, at_once=at_once).close()
    assert reference(pieces, longest) == read(run, longest=longest, limit=limit, block=block)


@given(PIECES, st.integers(1, 7), BLOCKS)
@KEEP_FOLDER
def test_a_reader_that_follows_ends_where_one_that_came_late_does(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[Piece], longest: int, block: int
) -> None:
    run = tmp_path_factory.mktemp("run")
    index = LineIndex(run, longest=longest, block=block)
    writer = write(run, [])
    for i, piece in enumerate(pieces):
        append(writer, [piece], first=i)
        index.poll()
    writer.close()
    followed = [index.line(i) for i in range(len(index))], index.open_lines()
    index.close()
    assert read(run, longest=longest) == followed


@given(PIECES, st.data(), BLOCKS)
@KEEP_FOLDER
def test_a_folder_cut_anywhere_gives_only_bytes_that_are_there(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[Piece], data: st.DataObject, block: int
) -> None:
    """A folder copied while it grew: every file may end anywhere, and may be missing."""
    run = tmp_path_factory.mktemp("run")
    write(run, pieces).close()
    for file in sorted(paths.log_folder(run, 0).iterdir()):
        keep = data.draw(st.integers(-1, file.stat().st_size), label=file.name)
        if keep < 0:
            file.unlink()
        else:
            file.write_bytes(file.read_bytes()[:keep])

    whole, unfinished = read(run, longest=5, block=block)
    for rank in range(3):
        for stream in (paths.STDOUT, paths.STDERR):
            path = paths.log_file(run, 0, rank, stream)
            there = path.read_bytes() if path.exists() else b""
            mine = [line.data for line in (*whole, *unfinished) if (line.rank, line.stream) == (rank, stream)]
            at = 0
            for text in mine:
                at = there.index(text, at) + len(text)
            assert len([m for m in mine if m == b""]) <= there.count(b"\n")


def test_one_short_file_hides_nothing_of_the_others(tmp_path: Path) -> None:
    pieces = [(0, 1, b"a\n"), (1, 1, b"b\n"), (0, 1, b"c\n"), (1, 1, b"d\n")]
    write(tmp_path, pieces).close()
    paths.log_file(tmp_path, 0, 0, 1).unlink()
    assert [b"b", b"d"] == [line.data for line in read(tmp_path)[0]]


def test_bytes_that_come_after_their_record_are_found(tmp_path: Path) -> None:
    """A network file system may show the record first."""
    writer = write(tmp_path, [(0, 1, b"first\nsecond\n")])
    path = paths.log_file(tmp_path, 0, 0, 1)
    data = path.read_bytes()
    path.write_bytes(data[:8])
    index = LineIndex(tmp_path)
    index.poll()
    assert [b"first"] == [index.line(i).data for i in range(len(index))]
    path.write_bytes(data)
    append(writer, [(0, 1, b"third\n")], first=5)
    index.poll()
    assert [b"first", b"second", b"third"] == [index.line(i).data for i in range(len(index))]
    index.close()
    writer.close()


def test_a_torn_last_record_waits_for_its_rest(tmp_path: Path) -> None:
    write(tmp_path, [(0, 1, b"a\n"), (0, 1, b"b\n")]).close()
    records = paths.log_folder(tmp_path, 0) / paths.CHUNKS
    data = records.read_bytes()
    records.write_bytes(data[:-5])
    index = LineIndex(tmp_path)
    index.poll()
    assert [b"a"] == [index.line(i).data for i in range(len(index))]
    records.write_bytes(data)
    assert index.poll()
    assert [b"a", b"b"] == [index.line(i).data for i in range(len(index))]
    index.close()


@pytest.mark.parametrize("size", [0, 3, len(writer.MAGIC)])
def test_records_that_have_hardly_begun_are_empty(tmp_path: Path, size: int) -> None:
    write(tmp_path, [(0, 1, b"a\n")]).close()
    records = paths.log_folder(tmp_path, 0) / paths.CHUNKS
    records.write_bytes(records.read_bytes()[:size])
    assert ([], []) == read(tmp_path)


def test_a_folder_without_logs_is_empty(tmp_path: Path) -> None:
    assert ([], []) == read(tmp_path / "nothing")


def test_a_line_belongs_to_the_moment_of_its_end(tmp_path: Path) -> None:
    write(tmp_path, [(0, 1, b"be"), (1, 1, b"whole\n"), (0, 1, b"gin\n")]).close()
    assert [(1.0, b"whole"), (2.0, b"begin")] == [(line.time, line.data) for line in read(tmp_path)[0]]


def test_owners_are_known_without_reading(tmp_path: Path) -> None:
    write(tmp_path, [(300, 2, b"x\n"), (7, 1, b"y\n")]).close()
    index = LineIndex(tmp_path)
    index.poll()
    assert [(300, 2), (7, 1)] == [index.owner(i) for i in range(2)]
    index.close()


def test_an_open_line_shows_its_end(tmp_path: Path) -> None:
    write(tmp_path, [(0, 1, b"0123456789")]).close()
    assert [b"89"] == [line.data for line in read(tmp_path, longest=4)[1]]
    assert [b"0123", b"4567"] == [line.data for line in read(tmp_path, longest=4)[0]]


def test_a_carriage_return_ends_no_line(tmp_path: Path) -> None:
    write(tmp_path, [(0, 1, b" 10%\r 20%\r"), (0, 1, b" 30%")]).close()
    assert ([], [b" 10%\r 20%\r 30%"]) == (
        read(tmp_path)[0],
        [line.data for line in read(tmp_path)[1]],
    )


# --- several attempts


def write_attempt(run: Path, attempt: int, pieces: list[Piece], *, first: int = 0) -> None:
    (run / paths.LOGS).mkdir(parents=True, exist_ok=True)
    writer = LogWriter(run, attempt)
    append(writer, pieces, first=first)
    writer.close()


ATTEMPTS = st.lists(PIECES, min_size=1, max_size=4)


@given(ATTEMPTS, st.integers(1, 7), st.sampled_from([1, 5, 8 << 20]), BLOCKS)
@KEEP_FOLDER
def test_the_lines_of_all_attempts_come_one_attempt_after_the_other(
    tmp_path_factory: pytest.TempPathFactory,
    attempts: list[list[Piece]],
    longest: int,
    limit: int,
    block: int,
) -> None:
    """What an attempt left unfinished is a line once the next one has begun."""
    run = tmp_path_factory.mktemp("run")
    expected: list[Line] = []
    begins: list[tuple[int, int]] = []
    for number, attempt in enumerate(attempts):
        pieces = [p for p in attempt if p[2]]
        write_attempt(run, number, pieces)
        if number:
            begins.append((number, len(expected)))
        whole, rest = reference(pieces, longest)
        expected += whole
        if number < len(attempts) - 1:
            expected += [dataclasses.replace(line, open=False) for line in rest]

    index = LineIndex(run, longest=longest, block=block)
    while index.poll(limit):
        pass
    key = operator.attrgetter("time", "rank", "stream")
    found = [index.line(i) for i in range(len(index))]
    assert sorted(expected, key=key) == sorted(found, key=key)
    assert begins == list(index.begins)
    for (_, start), (_, end) in itertools.pairwise([(0, 0), *begins, (0, len(found))]):
        assert sorted(expected[start:end], key=key) == sorted(found[start:end], key=key)
    assert rest == index.open_lines()
    index.close()
    for number, attempt in enumerate(attempts):
        alone = LineIndex(run, number, longest=longest)
        while alone.poll(limit):
            pass
        assert reference([p for p in attempt if p[2]], longest) == (
            [alone.line(i) for i in range(len(alone))],
            alone.open_lines(),
        )
        alone.close()


def test_a_follower_goes_on_with_the_next_attempt(tmp_path: Path) -> None:
    writer = write(tmp_path, [(0, 1, b"one\nun")])
    index = LineIndex(tmp_path)
    assert index.poll()
    append(writer, [(0, 1, b"finished")], first=1)  # arrives while nobody looks, before the next attempt
    writer.close()
    write_attempt(tmp_path, 1, [])
    assert index.poll()
    assert [b"one", b"unfinished"] == [index.line(i).data for i in range(len(index))]
    assert ([(1, 2)], []) == (list(index.begins), index.open_lines())
    assert not index.poll()
    write_attempt(tmp_path, 3, [(0, 1, b"three\n")])  # of the attempt between, nothing was copied
    assert index.poll()
    assert [b"one", b"unfinished", b"three"] == [index.line(i).data for i in range(len(index))]
    assert [(1, 2), (3, 2)] == list(index.begins)
    index.close()


def test_bytes_of_an_old_attempt_that_come_late_are_found_before_the_next(tmp_path: Path) -> None:
    write_attempt(tmp_path, 0, [(0, 1, b"first\nsecond\n")])
    path = paths.log_file(tmp_path, 0, 0, 1)
    data = path.read_bytes()
    path.write_bytes(data[:8])
    index = LineIndex(tmp_path)
    index.poll()
    path.write_bytes(data)
    write_attempt(tmp_path, 1, [(0, 1, b"third\n")])
    index.poll()
    assert [b"first", b"second", b"third"] == [index.line(i).data for i in range(len(index))]
    index.close()


@contextlib.contextmanager
def open_files_allowed(count: int) -> Iterator[None]:
    """This process may open so many more files: the free numbers below its highest descriptor are taken."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    held: list[int] = []
    try:
        while not held or held[-1] < highest:
            held.append(os.dup(0))
        resource.setrlimit(resource.RLIMIT_NOFILE, (held[-1] + 1 + count, before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for descriptor in held:
            os.close(descriptor)


def test_a_run_with_more_ranks_than_files_may_be_open_is_written_and_read(tmp_path: Path) -> None:
    """Output of 300 ranks comes in turn, and 20 files may be open."""
    pieces = [(rank, paths.STDOUT, b"%d of %d\n" % (turn, rank)) for turn in range(3) for rank in range(300)]
    with open_files_allowed(20):
        write(tmp_path / "run", pieces, at_once=100).close()
        whole, unfinished = read(tmp_path / "run")

    assert [(rank, data.rstrip()) for rank, _, data in pieces] == [(line.rank, line.data) for line in whole]
    assert [] == unfinished


def test_ranks_files_leave_room_for_what_else_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launcher.runs.files.most_open", lambda: 10)
    before = len(os.listdir("/proc/self/fd"))
    for attempt in range(3):
        write_attempt(tmp_path, attempt, [(rank, 1, b"%d\n" % attempt) for rank in range(100)])
    writer = LogWriter(tmp_path, 3)
    append(writer, [(rank, 1, b"3\n") for rank in range(100)])
    assert len(os.listdir("/proc/self/fd")) <= before + 11  # and the file of records
    writer.close()
    index = LineIndex(tmp_path)
    while index.poll():
        assert len(os.listdir("/proc/self/fd")) <= before + 10
    assert [b"%d" % (i // 100) for i in range(400)] == [index.line(i).data for i in range(400)]
    assert len(os.listdir("/proc/self/fd")) <= before + 10
    index.close()
    assert before == len(os.listdir("/proc/self/fd"))


def test_a_reader_may_look_while_the_next_attempt_begins(tmp_path: Path) -> None:
    """A descriptor that is closed under a reader would show another file's bytes."""
    write_attempt(tmp_path, 0, [(rank, 1, b"old %d\n" % rank) for rank in range(8)])
    index = LineIndex(tmp_path)
    index.poll()
    wrong: list[bytes] = []
    enough = threading.Event()

    def look() -> None:
        while not enough.is_set():
            wrong.extend(d for i in range(8) if (d := index.line(i).data) != b"old %d" % i)

    reader = threading.Thread(target=look)
    reader.start()
    for attempt in range(1, 40):
        write_attempt(tmp_path, attempt, [(rank, 1, b"new %d\n" % rank) for rank in range(8)])
        index.poll()
    enough.set()
    reader.join()
    assert [] == wrong
    assert 320 == len(index)
    index.close()


# --- blocks


@given(ATTEMPTS, st.integers(3, 9), BLOCKS)
@KEEP_FOLDER
def test_lines_are_found_by_rank_and_time_and_in_their_streams(
    tmp_path_factory: pytest.TempPathFactory, attempts: list[list[Piece]], longest: int, block: int
) -> None:
    run = tmp_path_factory.mktemp("run")
    for number, pieces in enumerate(attempts):
        write_attempt(run, number, [p for p in pieces if p[2]], first=100 * number)
    index = LineIndex(run, longest=longest, block=block)
    while index.poll():
        pass
    lines = [index.line(i) for i in range(len(index))]

    for rank in range(3):
        own = [i for i, line in enumerate(lines) if line.rank == rank]
        assert own == [index.number(rank, k) for k in range(len(own))]
        assert [sum(n < i for n in own) for i in range(len(lines) + 1)] == [
            index.before(rank, i) for i in range(len(lines) + 1)
        ]
    times = [line.time for line in lines]
    if len(attempts) == 1:  # an attempt's unfinished lines come last, and are older
        for time in {*times, -1.0, 1e9}:
            assert sum(t < time for t in times) == index.at_time(time)
    at = 0
    while at < len(lines):
        number, first, end = index.stretch(at)
        assert first <= at < end
        spans = index.spans(number)
        if spans is not None:
            for key, start, stop in spans:
                mine = [x.data for x in lines[first:end] if (x.rank, x.stream) == (key >> 2, key & 3)]
                assert b"".join(data + b"\n" for data in mine) == index.read(number, key, start, stop)
        at = end
    index.close()


def test_what_is_kept_of_many_lines_is_little(tmp_path: Path) -> None:
    write(tmp_path, [(rank, 1, b"line\n" * 2000) for _ in range(20) for rank in range(8)]).close()
    tracemalloc.start()
    index = LineIndex(tmp_path, block=1 << 14)
    while index.poll():
        pass
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert 320_000 == len(index)
    assert kept < 320_000
    assert (b"line", 7) == (index.line(319_999).data, index.line(319_999).rank)
    index.close()


def test_a_folder_that_is_removed_meanwhile_has_empty_lines(tmp_path: Path) -> None:
    write(tmp_path, [(0, 1, b"line\n" * 10)]).close()
    index = LineIndex(tmp_path, block=8)
    while index.poll():
        pass
    index.close()
    shutil.rmtree(tmp_path / paths.LOGS)

    assert [b""] * 10 == [index.line(i).data for i in range(len(index))]
    index.close()


# --- the end, read backwards


@given(PIECES, st.sampled_from([4, 100]), st.integers(1, 6))
@KEEP_FOLDER
def test_the_last_lines_are_those_that_an_index_ends_with(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[Piece], longest: int, records: int
) -> None:
    run = tmp_path_factory.mktemp("run")
    write(run, [p for p in pieces if p[2]]).close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("launcher.runs.logs.tail._RECORDS", records)
        ending = last_lines(run, longest=longest)
    whole, unfinished = read(run, longest=longest)
    if ending is None:
        assert longest == 4 or not whole + unfinished
    else:
        lines = [line for line in ending if not line.open]
        assert whole[len(whole) - len(lines) :] == lines
        assert all(line in unfinished for line in ending if line.open)


def test_the_end_of_a_torn_folder_is_not_guessed(tmp_path: Path) -> None:
    write(tmp_path, [(0, 1, b"a\n"), (1, 1, b"b\n")]).close()
    path = paths.log_file(tmp_path, 0, 0, 1)
    path.write_bytes(b"")
    assert last_lines(tmp_path, longest=100) is None
    path.unlink()
    assert last_lines(tmp_path, longest=100) is None
    assert last_lines(tmp_path / "nothing", longest=100) is None


BAR = (
    "train: {:4d}/4000|███▌      | {:4d}it [00:04, 4.00it/s, loss=2.0] and more words to make it long enough"
)


def bar(updates: int) -> list[Piece]:
    return [(0, 2, b"\r" + BAR.format(n, n).encode()) for n in range(updates)]


@pytest.mark.parametrize("longest", [1 << 14, 1 << 16])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_bar_is_one_line_however_long_it_lives(tmp_path: Path, longest: int, end: bytes) -> None:
    ended = [(0, 2, end)] if end else []
    write(tmp_path, [(0, 2, b"before\n"), *bar(4000), *ended, (0, 1, b"out\n")]).close()
    whole, unfinished = read(tmp_path, longest=longest)

    lines = sorted(last_segment(line.data).decode() for line in (*whole, *unfinished))
    assert ["before", "out", BAR.format(3999, 3999)] == lines
    assert max(len(line.data) for line in (*whole, *unfinished)) < 300


def test_a_bar_of_ten_hours_is_found_as_fast_as_other_output_and_kept_in_little(tmp_path: Path) -> None:
    pieces = bar(4000)
    text = b"".join(data for _, _, data in pieces) * 90
    write(tmp_path, []).close()
    folder = paths.log_folder(tmp_path, 0)
    paths.log_file(tmp_path, 0, 0, 2).write_bytes(text)
    record = writer.pack_chunk(writer.Chunk(10**9, 0, len(pieces[0][2]), 2))
    (folder / paths.CHUNKS).write_bytes(writer.MAGIC + record * (len(text) // len(pieces[0][2])))
    index = LineIndex(tmp_path)
    tracemalloc.start()
    while index.poll():
        pass
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    (line,) = index.open_lines()
    index.close()

    assert pieces[-1][2].strip() == line.data
    assert most < 40 << 20
    last = last_lines(tmp_path, longest=1 << 14)
    assert last is not None
    assert [line.data] == [each.data for each in last]


def test_a_long_line_is_cut_between_characters(tmp_path: Path) -> None:
    text = "é漢🎉" * 30_000
    data = text.encode()
    write(tmp_path, [(0, 1, data[at : at + 1001]) for at in range(0, len(data), 1001)]).close()
    whole, unfinished = read(tmp_path, longest=1 << 14)

    assert text == "".join(line.data.decode() for line in (*whole, *unfinished))
    assert max(len(line.data) for line in whole) <= (1 << 14) + 3


def test_what_is_no_text_is_cut_too(tmp_path: Path) -> None:
    write(tmp_path, [(0, 1, b"\x80" * 100 + b"\n"), (0, 1, b"x" + b"\r" * 100 + b"\n")]).close()
    whole, _ = read(tmp_path, longest=10)

    assert b"\x80" * 100 == b"".join(line.data for line in whole[:-1])
    assert b"x" == last_segment(whole[-1].data)
    assert len(whole[-1].data) <= 13
