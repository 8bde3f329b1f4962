"""Merged lines against a naive reference: whatever the chunking, the polling and the state of the folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.runs import chunks, paths
from launcher.runs.lines import Line, LineIndex
from launcher.runs.writer import LogWriter

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


def reference(pieces: list[Piece], longest: int) -> tuple[list[Line], list[Line]]:
    """Whole lines in the order in which their ends came, and what is unfinished, oldest first."""
    whole: list[Line] = []
    rest: dict[tuple[int, int], bytes] = {}
    touched: dict[tuple[int, int], float] = {}
    for i, (rank, stream, data) in enumerate(pieces):
        key, time = (rank, stream), float(i)
        *ended, rest[key] = (rest.get(key, b"") + data).split(b"\n")
        touched[key] = time
        for line in ended:
            parts = [line[j : j + longest] for j in range(0, len(line), longest)] or [b""]
            whole += [Line(time, rank, stream, part) for part in parts]
        while len(rest[key]) > longest:
            whole.append(Line(time, rank, stream, rest[key][:longest]))
            rest[key] = rest[key][longest:]
    unfinished = [Line(touched[k], *k, data, open=True) for k, data in rest.items() if data]
    return whole, sorted(unfinished, key=lambda line: line.time)


def read(run: Path, *, longest: int = 1 << 16, limit: int = 8 << 20) -> tuple[list[Line], list[Line]]:
    index = LineIndex(run, longest=longest)
    try:
        while index.poll(limit):
            pass
        return [index.line(i) for i in range(len(index))], index.open_lines()
    finally:
        index.close()


@given(PIECES, st.integers(1, 7), st.integers(1, 4), st.sampled_from([1, 5, 100, 8 << 20]))
@KEEP_FOLDER
def test_lines_are_those_of_a_naive_reader(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[Piece], longest: int, at_once: int, limit: int
) -> None:
    run = tmp_path_factory.mktemp("run")
    pieces = [p for p in pieces if p[2]]
    write(run, pieces, at_once=at_once).close()
    assert reference(pieces, longest) == read(run, longest=longest, limit=limit)


@given(PIECES, st.integers(1, 7))
@KEEP_FOLDER
def test_a_reader_that_follows_ends_where_one_that_came_late_does(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[Piece], longest: int
) -> None:
    run = tmp_path_factory.mktemp("run")
    index = LineIndex(run, longest=longest)
    writer = write(run, [])
    for i, piece in enumerate(pieces):
        append(writer, [piece], first=i)
        index.poll()
    writer.close()
    followed = [index.line(i) for i in range(len(index))], index.open_lines()
    index.close()
    assert read(run, longest=longest) == followed


@given(PIECES, st.data())
@KEEP_FOLDER
def test_a_folder_cut_anywhere_gives_only_bytes_that_are_there(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[Piece], data: st.DataObject
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

    whole, unfinished = read(run, longest=5)
    for rank in range(3):
        for stream in (paths.STDOUT, paths.STDERR):
            path = paths.log_file(run, 0, rank, stream)
            there = path.read_bytes() if path.exists() else b""
            mine = [line.data for line in (*whole, *unfinished) if (line.rank, line.stream) == (rank, stream)]
            assert there.replace(b"\n", b"").startswith(b"".join(mine))
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


@pytest.mark.parametrize("size", [0, 3, len(chunks.MAGIC)])
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
