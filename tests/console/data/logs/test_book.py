from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from console.data.logs.book import LogBook
from console.data.logs.search import Level
from launcher.runs import paths
from launcher.runs.logs import writer
from launcher.runs.logs import writer as chunks
from launcher.runs.logs.writer import LogWriter
from launcher.state import events as ev


class Talk:
    """Writes a run's output, a piece at a time."""

    def __init__(self, run: Path) -> None:
        run.joinpath(paths.LOGS).mkdir(parents=True)
        self._writer = LogWriter(run, 0)
        self._time = 0

    def __call__(self, rank: int, data: bytes, stream: int = paths.STDOUT) -> None:
        self._time += 10**9
        self._writer.append([(writer.Chunk(self._time, rank, len(data), stream), memoryview(data))])


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


def again(run: Path, attempt: int, reason: str | None = None) -> LogWriter:
    """Another attempt's logs, after the fact that says why, as the run's writer leaves them."""
    if reason is not None:
        fact = ev.GangRestarted(time=90.0, attempt=attempt, reason=reason, in_place=True)
        with (run / paths.EVENTS).open("ab") as file:
            file.write(ev.encode(fact, run.name))
    return LogWriter(run, attempt)


def say(writer: LogWriter, rank: int, data: bytes) -> None:
    writer.append([(chunks.Chunk(100 * 10**9, rank, len(data), paths.STDOUT), memoryview(data))])


def test_another_attempt_begins_with_a_row_that_is_no_line(talk: Talk, book: LogBook, tmp_path: Path) -> None:
    talk(0, b"one\nhalf")
    talk(1, b"other\n")
    drain(book)
    writer = again(tmp_path / "run", 1, "rank 1 on b raised \x1b[31mred\x07")
    drain(book)
    say(writer, 1, b"two\n")
    say(writer, 2, b"three\n")
    drain(book)

    assert book.written == {1: 100.0, 2: 100.0}
    rows = [book.line(i) for i in range(book.count())]
    mark = "── attempt 1 (rank 1 on b raised red) ──"
    assert [r.text for r in rows] == ["one", "other", "half", mark, "two", "three"]
    assert [r.mark for r in rows] == [False, False, False, True, False, False]
    assert [book.line(i, 0).text for i in range(book.count(0))] == ["one", "half", mark]
    assert [book.line(i, 1).text for i in range(book.count(1))] == ["other", mark, "two"]
    assert [book.line(i, 2).text for i in range(book.count(2))] == [mark, "three"]
    assert [book.total(r) for r in (None, 0, 1, 2, 3)] == [5, 2, 2, 1, 0]
    assert book.view().lines == 5


def test_a_row_stays_where_it_was_when_another_attempt_begins(
    talk: Talk, book: LogBook, tmp_path: Path
) -> None:
    seen: dict[tuple[int | None, int], str] = {}
    writer: LogWriter | None = None
    for number in range(4):
        writer = again(tmp_path / "run", number) if number else None
        for rank in (0, 1, 0):
            data = f"{number} of {rank}\n".encode()
            say(writer, rank, data) if writer else talk(rank, data)
            drain(book)
            for of in (None, 0, 1):
                for position in range(book.count(of)):
                    text = book.line(position, of).text
                    assert seen.setdefault((of, position), text) == text
    assert book.count() == 12 + 3


def test_a_mark_is_found_by_no_search(talk: Talk, book: LogBook, tmp_path: Path) -> None:
    talk(0, b"attempt\nother\n")
    drain(book)
    say(again(tmp_path / "run", 1, "attempt"), 0, b"attempt\n")
    drain(book)
    everywhere = book.search("attempt")
    drain(book)
    assert everywhere is not None
    assert list(everywhere.found) == [0, 3]
    of_rank = book.search("attempt", 0)
    drain(book)
    assert of_rank is not None
    assert list(of_rank.found) == [0, 3]


def test_a_long_log_shows_its_end_while_it_is_counted(
    talk: Talk, book: LogBook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        talk(number % 2, b"line %d\n" % number)
    talk(1, b"\r10%")
    monkeypatch.setattr("console.data.logs.book._POLL_BYTES", 1)
    book = LogBook(tmp_path / "run", clock=itertools.count().__next__)
    book.tick()
    begun = book.view()
    first = [line.text for line in book.live()]
    counted = book.count()
    drain(book)

    assert begun.behind
    assert 0 < counted < 20
    assert "still being counted" in first[0]
    assert ["line 18", "line 19", "10%"] == first[-3:]
    assert not book.view().behind
    assert (["10%"], 20) == ([line.text for line in book.live()], book.count())


def test_lines_are_found_by_number_and_time_across_attempts(
    talk: Talk, book: LogBook, tmp_path: Path
) -> None:
    for number in range(6):
        talk(number % 2, b"line %d\n" % number)
    say(again(tmp_path / "run", 1, "again"), 1, b"later\n")
    drain(book)

    assert ["line 0", "line 5", "later"] == [book.line(book.at_ordinal(n)).text for n in (0, 5, 6)]
    assert ["line 1", "line 5", "later"] == [book.line(book.at_ordinal(n, 1), 1).text for n in (0, 2, 3)]
    assert ["line 0", "line 3", "later"] == [book.line(book.at_time(t)).text for t in (0.5, 3.5, 99.0)]


def test_a_filter_grows_with_the_log_and_keeps_its_rows(talk: Talk, book: LogBook, tmp_path: Path) -> None:
    talk(0, b"loss 1\nother\nloss 2\n")
    drain(book)
    kept = book.filtered("loss", Level.ALL)
    drain(book)
    talk(0, b"other\nloss 3\n\rloss 4")
    drain(book)

    assert kept is not None
    assert ["loss 1", "loss 2", "loss 3"] == [kept.line(i).text for i in range(kept.count())]
    assert ["loss 4"] == [line.text for line in kept.live()]
    assert (3, 1.0, 5) == (book.view().passed, book.view().filtered, kept.total())
    assert [0, 1, 1, 2, 3] == [kept.at_ordinal(n) for n in (0, 1, 2, 3, 5)]
    assert book.filtered("", Level.ALL) is None


def texts(book: LogBook, rank: int | None = None) -> list[str]:
    return [book.line(i, rank).text for i in range(book.count(rank))]


def test_at_the_end_an_unfinished_line_stands_where_it_was_written(talk: Talk, book: LogBook) -> None:
    talk(0, b"zero\n")
    talk(2, b"\r90%")
    talk(0, b"\r50%", paths.STDERR)
    talk(1, b"bad one\nbad two\n")
    talk(1, b"prompt> ")
    search = book.search("o|b")
    drain(book)
    before = texts(book), [line.text for line in book.live()]
    assert search is not None
    found = list(search.found)
    book.end()
    drain(book)
    kept = book.filtered("bad", Level.ALL)
    drain(book)

    assert before == (["zero", "bad one", "bad two"], ["90%", "50%", "prompt> "])
    assert texts(book) == ["zero", "90%", "50%", "bad one", "bad two"]
    assert [texts(book, rank) for rank in range(3)] == [["zero", "50%"], ["bad one", "bad two"], ["90%"]]
    assert [line.text for line in book.live()] == ["prompt> "]
    assert (found, list(search.found)) == ([0, 1, 2], [0, 3, 4])
    assert kept is not None
    assert [kept.line(i).text for i in range(kept.count())] == ["bad one", "bad two"]
    assert (book.total(), book.view().settled, book.at_ordinal(1)) == (3, True, 3)


def test_what_was_found_of_a_rank_moves_only_for_its_own_lines(talk: Talk, book: LogBook) -> None:
    talk(0, b"\r50%")
    talk(1, b"\r60%")
    talk(1, b"one\n", paths.STDERR)
    search = book.search("one", 1)
    drain(book)
    book.end()
    drain(book)

    assert search is not None
    assert [book.line(row, 1).text for row in search.found] == ["one"]
    assert texts(book, 1) == ["60%", "one"]
