"""The same picture in fewer bytes, as a real terminal emulator sees it."""

from __future__ import annotations

import pyte
from hypothesis import given
from hypothesis import strategies as st

from console.ui.rendering.driver import squeezed

STYLES = (
    *("1", "2;3", "7", "4;9", "31", "97", "31;42", "39", "49;31", "38;5;200", "38;2;1;2;3", "48;5;3"),
    "1;38;2;9;8;7;48;2;1;1;1",
)
PIECES = st.lists(
    st.tuples(st.sampled_from(STYLES), st.sampled_from(["a", "bc", "é", "\x1b[2;3H", "\n", ""])), max_size=12
)


def screen(text: str) -> list[list[pyte.screens.Char]]:
    terminal = pyte.Screen(20, 5)
    pyte.Stream(terminal).feed(text)
    return [[terminal.buffer[y][x] for x in range(20)] for y in range(5)]


@given(PIECES)
def test_the_picture_stays_the_same(pieces: list[tuple[str, str]]) -> None:
    text = "".join(f"\x1b[{style}m{piece}\x1b[0m" for style, piece in pieces)

    assert screen(squeezed(text)) == screen(text)
    assert len(squeezed(text)) <= len(text)


def test_only_what_changes_is_said() -> None:
    text = "\x1b[38;2;1;1;1;48;2;9;9;9ma\x1b[0m\x1b[38;2;2;2;2;48;2;9;9;9mb\x1b[0m"

    assert squeezed(text) == "\x1b[38;2;1;1;1;48;2;9;9;9ma\x1b[38;2;2;2;2mb\x1b[0m"


def test_an_attribute_that_ends_costs_a_reset() -> None:
    assert squeezed("\x1b[1;31ma\x1b[0m\x1b[31mb\x1b[0m") == "\x1b[1;31ma\x1b[0;31mb\x1b[0m"


def test_what_has_no_style_passes_untouched() -> None:
    assert squeezed("\x1b[?2026hplain\x1b[?2026l") == "\x1b[?2026hplain\x1b[?2026l"
