"""Looking through blocks against a naive reference that reads line by line."""

from __future__ import annotations

from pathlib import Path

import pytest  # noqa: TC002  hypothesis reads annotations
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from console.data.logs.search import Level, LineFilter, Search, filter_of, line_filter_of, passing
from launcher.runs import paths
from launcher.runs.logs import writer as chunks
from launcher.runs.logs.line_index import LineIndex
from launcher.runs.logs.text import plain
from launcher.runs.logs.writer import LogWriter

PIECES = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from([paths.STDOUT, paths.STDERR]),
        st.lists(
            st.sampled_from(["loss", "Loss 1", "\n", "ERROR", " ", "\x1b[1m", "\r", "\t", "é"]), max_size=9
        ).map(lambda words: "".join(words).encode()),
    ),
    max_size=20,
)
SIEVES = st.sampled_from(
    [
        line_filter_of("loss"),
        line_filter_of("Loss"),
        line_filter_of("loss \\d"),
        line_filter_of("^\\s*$"),
        line_filter_of("o.?s$"),
        filter_of("!loss"),
        filter_of("", Level.ERROR),
        filter_of("loss", Level.ERROR),
    ]
)


@given(
    PIECES,
    SIEVES,
    st.sampled_from([1, 30, 1 << 20]),
    st.sampled_from([4, 100]),
    st.sampled_from([None, 0, 1]),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_passes_is_what_a_naive_reader_finds(
    tmp_path_factory: pytest.TempPathFactory,
    pieces: list[tuple[int, int, bytes]],
    sieve: LineFilter,
    block: int,
    longest: int,
    rank: int | None,
) -> None:
    run = tmp_path_factory.mktemp("run")
    index = LineIndex(written(run, pieces), longest=longest, block=block)
    while index.poll():
        pass
    lines = [index.line(i) for i in range(len(index))]
    expected = [
        i
        for i, line in enumerate(lines)
        if (rank is None or line.rank == rank) and sieve.passes(plain(line.data))
    ]

    found, at = [], 0
    while at < len(lines):
        end = min(index.stretch(at)[2], at + 5)
        found += passing(index, at, end, sieve, rank)
        at = end
    index.close()

    assert expected == found


def written(run: Path, pieces: list[tuple[int, int, bytes]]) -> Path:
    (run / paths.LOGS).mkdir()
    writer = LogWriter(run, 0)
    stamped = [
        (chunks.Chunk(i * 10**9, rank, len(data), stream), memoryview(data))
        for i, (rank, stream, data) in enumerate(pieces)
    ]
    writer.append(stamped)
    writer.close()
    return run


def test_what_is_found_among_rows_that_passed_is_counted_among_them() -> None:
    kept = Search(None, None)
    for position in (3, 5, 9):
        kept.add(position)
    search = Search(None, None, among=kept)
    for position in (4, 5, 9):
        search.add(position)

    assert [1, 2] == list(search.found)
