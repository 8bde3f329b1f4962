from __future__ import annotations

import time

import pytest

from console.data.logs.search import LogDestination, parse_destination


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("1200", LogDestination(line=1200)),
        (" 1,204,511 ", LogDestination(line=1_204_511)),
        ("50%", LogDestination(share=0.5)),
        ("12:04", LogDestination(clock=43_440)),
        ("9:04:38.5", LogDestination(clock=32_678.5)),
    ],
)
def test_what_was_typed(text: str, where: LogDestination) -> None:
    assert where == parse_destination(text)


@pytest.mark.parametrize("text", ["", "12:60", "24:00", "101%", "-3", "line", "1,2", "9" * 40])
def test_what_is_none_of_these_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no line, time or share"):
        parse_destination(text)


def test_lines_are_counted_from_one_and_stay_within() -> None:
    assert [0, 0, 4, 4] == [LogDestination(line=line).ordinal(5) for line in (0, 1, 5, 9)]
    assert [0, 2, 4] == [LogDestination(share=share).ordinal(5) for share in (0, 0.5, 1)]
    assert 0 == LogDestination(line=3).ordinal(0)


def test_a_time_is_on_the_day_that_is_shown() -> None:
    near = 1_767_261_600.0
    moment = LogDestination(clock=3661.5).moment(near)

    assert time.localtime(near)[:3] == time.localtime(moment)[:3]
    assert (1, 1, 1) == time.localtime(moment)[3:6]
