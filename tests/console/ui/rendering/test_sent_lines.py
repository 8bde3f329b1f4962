from __future__ import annotations

import pytest
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from console.ui.rendering.compositor import SentLines

RED, BOLD = Style(color="red"), Style(bold=True)


def strip(*pieces: str | tuple[str, Style]) -> Strip:
    return Strip([Segment(p) if isinstance(p, str) else Segment(p[0], p[1]) for p in pieces])


def sent_after(before: Strip, after: Strip, x: int = 0) -> tuple[int, str]:
    sent = SentLines()
    sent.changed(3, x, before)
    return told(sent, 3, x, after)


def told(sent: SentLines, y: int, x: int, line: Strip) -> tuple[int, str]:
    at, news = sent.changed(y, x, line)
    return at, news.text


@pytest.mark.parametrize(
    ("before", "after", "at", "text"),
    [
        ("step 168  loss 2.1", "step 176  loss 2.1", 6, "76"),
        ("short     ", "longer    ", 0, "longer"),
        ("longer    ", "short     ", 0, "short "),
        ("─── paused ─╯", "──── follow─╯", 3, "─ follow"),
        ("the same", "the same", 8, ""),
        ("aaab", "aaaa", 3, "a"),
    ],
)
def test_only_what_differs_is_sent(before: str, after: str, at: int, text: str) -> None:
    assert (at + 10, text) == sent_after(strip(before), strip(after), x=10)


def test_another_style_is_a_difference() -> None:
    assert (2, "b") == sent_after(strip("a ", ("b", RED), " c"), strip("a ", ("b", BOLD), " c"))


def test_the_same_cells_in_other_segments_may_be_sent_but_never_others_left_out() -> None:
    at, text = sent_after(strip("abc ", "def"), strip("abc dxf"))
    assert at <= 5 < at + len(text)
    assert "abc dxf"[at : at + len(text)] == text


@pytest.mark.parametrize("odd", ["模型", "e\u0301", "👩‍💻", "\u200b", "①"])
def test_a_line_whose_cells_are_uncertain_is_sent_whole(odd: str) -> None:
    plain = strip("x" * strip(f"{odd} 1").cell_length)
    assert (0, f"{odd} 2") == sent_after(strip(f"{odd} 1"), strip(f"{odd} 2"))
    assert (0, f"{odd} 1") == sent_after(plain, strip(f"{odd} 1"))
    assert (0, plain.text) == sent_after(strip(f"{odd} 1"), plain)


def test_what_was_painted_over_is_sent_again() -> None:
    sent, line = SentLines(), strip("0123456789")
    sent.changed(0, 0, line)
    sent.changed(0, 4, strip("xx"))
    assert (0, "0123456789") == told(sent, 0, 0, line)
    assert (4, "xx") == told(sent, 0, 4, strip("xx"))


def test_neighbours_and_other_lines_are_kept() -> None:
    sent, left, right = SentLines(), strip("left"), strip("right")
    for y in (0, 1):
        sent.changed(y, 0, left)
        sent.changed(y, 4, right)
    assert all(sent.changed(y, 0, left)[1].cell_length == 0 for y in (0, 1))
    assert all(sent.changed(y, 4, right)[1].cell_length == 0 for y in (0, 1))


def test_what_is_forgotten_is_sent_whole() -> None:
    sent = SentLines()
    sent.changed(0, 0, strip("line"))
    sent.forget()
    assert "line" == sent.changed(0, 0, strip("line"))[1].text
