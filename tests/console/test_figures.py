from __future__ import annotations

import pytest

from console import formatting as fig


@pytest.mark.parametrize("write", [fig.count, fig.percent, fig.watts, fig.celsius, fig.memory, fig.duration])
def test_unknown_is_a_dash_and_never_zero(write: object) -> None:
    assert callable(write)
    assert write(None) == "–"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.004, "4ms"), (0.3, "0.3s"), (12.4, "12s"), (75, "1m15s"), (3725, "1h02m"), (200_000, "2d07h")],
)
def test_durations_take_two_units_at_most(seconds: float, text: str) -> None:
    assert fig.duration(seconds) == text


@pytest.mark.parametrize(("amount", "text"), [(5 << 20, "5M"), (3 << 29, "1.5G"), (500 << 30, "500G")])
def test_memory_is_short(amount: int, text: str) -> None:
    assert fig.memory(amount) == text


def test_a_strip_has_a_fixed_scale_and_shows_gaps() -> None:
    assert fig.strip([0.0, None, 50.0, 100.0], 6) == "  ▁ ▄▆"


def test_an_unknown_share_fills_nothing() -> None:
    assert fig.bar(None, 4) == ("", "────")
    assert fig.bar(0.5, 3) == ("━╸", "─")


def test_a_curve_spans_its_own_range() -> None:
    assert fig.curve([3.0, 2.0, 1.0], 4) == "█▅▁ "
