from __future__ import annotations

from pathlib import Path

import pytest

from console.sources.logs import LogBook
from launcher.runs import chunks, paths
from launcher.runs.writer import LogWriter


class Talk:
    """Writes a run's output, a piece at a time."""

    def __init__(self, run: Path) -> None:
        run.joinpath(paths.LOGS).mkdir(parents=True)
        self._writer = LogWriter(run, 0)
        self._time = 0

    def __call__(self, rank: int, data: bytes, stream: int = paths.STDOUT) -> None:
        self._time += 10**9
        self._writer.append([(chunks.Chunk(self._time, rank, len(data), stream), memoryview(data))])


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    return Talk(tmp_path / "run")


@pytest.fixture
def book(tmp_path: Path, talk: Talk) -> LogBook:
    return LogBook(tmp_path / "run")


def drain(book: LogBook) -> None:
    while book.tick():
        pass


def test_lines_of_all_ranks_come_in_the_order_of_arrival(talk: Talk, book: LogBook) -> None:
    talk(1, b"one\n")
    talk(0, b"two\nthree\n")
    drain(book)

    assert [book.line(i).text for i in range(book.count())] == ["one", "two", "three"]
    assert [book.line(i).rank for i in range(book.count())] == [1, 0, 0]


def test_one_ranks_lines_are_counted_for_themselves(talk: Talk, book: LogBook) -> None:
    talk(1, b"one\n")
    talk(0, b"two\n")
    drain(book)
    talk(1, b"three\n")
    drain(book)

    assert book.count(1) == 2
    assert book.line(1, 1).text == "three"
    assert book.count(7) == 0


def test_an_unfinished_line_is_live_and_shows_its_last_state(talk: Talk, book: LogBook) -> None:
    talk(0, b"\r10%\r20%", paths.STDERR)
    drain(book)

    assert book.count() == 0
    assert [line.text for line in book.live()] == ["20%"]
    assert book.live(1) == []


def test_when_each_rank_last_wrote_is_known(talk: Talk, book: LogBook) -> None:
    talk(0, b"a\n")
    talk(1, b"half")
    drain(book)

    assert book.written == {0: 1.0, 1: 2.0}


def test_a_search_covers_what_there_is_and_what_comes(talk: Talk, book: LogBook) -> None:
    talk(0, b"loss 1\nother\n")
    drain(book)
    search = book.search("LOSS \\d".lower())
    drain(book)
    talk(1, b"\x1b[1mlo\x1b[0mss 2\n")
    drain(book)

    assert search is not None
    assert list(search.found) == [0, 2]
    assert book.view().searched == 1.0


def test_a_search_in_one_rank_gives_positions_in_that_rank(talk: Talk, book: LogBook) -> None:
    talk(0, b"loss\n")
    talk(1, b"other\nloss\n")
    drain(book)
    search = book.search("loss", 1)
    drain(book)

    assert search is not None
    assert list(search.found) == [1]


def test_small_letters_match_capitals_and_capitals_only_themselves(talk: Talk, book: LogBook) -> None:
    talk(0, b"Loss\nloss\n")
    drain(book)
    both, one = book.search("loss"), None
    drain(book)
    one = book.search("Loss")
    drain(book)

    assert both is not None
    assert one is not None
    assert (list(both.found), list(one.found)) == ([0, 1], [0])


def test_a_broken_expression_is_refused(book: LogBook) -> None:
    with pytest.raises(ValueError, match="not a regular expression"):
        book.search("(")


def test_next_and_previous_match_go_round(talk: Talk, book: LogBook) -> None:
    talk(0, b"x\no\nx\n")
    drain(book)
    search = book.search("x")
    drain(book)

    assert search is not None
    assert [search.after(-1), search.after(0), search.after(2)] == [0, 2, 0]
    assert [search.before(2), search.before(0)] == [0, 2]
    assert search.ordinal(2) == 2
