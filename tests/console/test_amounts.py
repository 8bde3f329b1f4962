"""Ages, sizes and numbers, as people write them and as they are written for people."""

from __future__ import annotations

import pytest

from console.formatting import UNKNOWN, ago, date, number, seconds_of
from launcher.errors import SpecError, size_text
from launcher.spec.options import bytes_of


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("12h", 43200), ("30d", 2592000), ("2W", 1209600), ("1.5", 129600)]
)
def test_ages(text: str, seconds: float) -> None:
    assert seconds == seconds_of(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("500", 500),
        ("500 b", 500),
        ("10G", 10**10),
        ("1.5MB", 1_500_000),
        ("2Ki", 2048),
        ("1TiB", 1 << 40),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert size == bytes_of(text)


@pytest.mark.parametrize("text", ["", "soon", "-1d", "1y", "1 2", "d", "١d"])
def test_what_is_no_age_is_told(text: str) -> None:
    with pytest.raises(SpecError, match="no age"):
        seconds_of(text)


@pytest.mark.parametrize("text", ["", "much", "-1", "1X", "1i", "G", "1e9"])
def test_what_is_no_size_is_told(text: str) -> None:
    with pytest.raises(SpecError, match="no size"):
        bytes_of(text)


def test_a_bare_number_is_an_age_only_where_it_has_a_unit() -> None:
    assert [2.0, 7200.0] == [seconds_of("2", bare="s"), seconds_of("2h", bare="")]
    with pytest.raises(SpecError, match="no age"):
        seconds_of("2", bare="")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (2400, "2.3 KiB"),
        (5 << 20, "5.0 MiB"),
        (512 << 20, "512 MiB"),
        (3 << 30, "3.0 GiB"),
    ],
)
def test_a_size_in_a_sentence(size: int, text: str) -> None:
    assert text == size_text(size)


def test_a_number_goes_with_its_noun() -> None:
    assert ["0 ranks", "1 rank", "1,024 ranks"] == [number(n, "rank") for n in (0, 1, 1024)]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "just now"), (59, "just now"), (60, "1m ago"), (7200, "2h ago"), (49 * 3600, "2d ago")],
)
def test_how_long_ago_is_told_in_whole_units(seconds: float, text: str) -> None:
    assert text == ago(1000.0, 1000.0 + seconds)


def test_a_moment_that_no_calendar_has_is_unknown() -> None:
    assert {UNKNOWN} == {date(None), date(float("nan")), date(1e300), ago(None, 0.0)}
