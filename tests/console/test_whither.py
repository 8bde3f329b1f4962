from __future__ import annotations

import time

import pytest

from console.sources.whither import Whither, whither


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("1200", Whither(line=1200)),
        (" 1,204,511 ", Whither(line=1_204_511)),
        ("50%", Whither(share=0.5)),
        ("12:04", Whither(clock=43_440)),
        ("9:04:38.5", Whither(clock=32_678.5)),
    ],
)
def test_what_was_typed(text: str, where: Whither) -> None:
    assert where == whither(text)


@pytest.mark.parametrize("text", ["", "12:60", "24:00", "101%", "-3", "line", "1,2", "9" * 40])
def test_what_is_none_of_these_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no line, time or share"):
        whither(text)


def test_lines_are_counted_from_one_and_stay_within() -> None:
    assert [0, 0, 4, 4] == [Whither(line=line).ordinal(5) for line in (0, 1, 5, 9)]
    assert [0, 2, 4] == [Whither(share=share).ordinal(5) for share in (0, 0.5, 1)]
    assert 0 == Whither(line=3).ordinal(0)


def test_a_time_is_on_the_day_that_is_shown() -> None:
    near = 1_767_261_600.0
    moment = Whither(clock=3661.5).moment(near)

    assert time.localtime(near)[:3] == time.localtime(moment)[:3]
    assert (1, 1, 1) == time.localtime(moment)[3:6]
