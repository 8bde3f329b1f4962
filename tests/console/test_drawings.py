"""Terminals as SVG: the text is in its cells, lines join, and of several screens what they share once."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from tests.console.drawings import Frame, Look, svg
from tests.console.glyph_shapes import shape_of

LOOK = Look("#101317", "#333c47", "#88929d", "#d0d4d8")
SVG = "{http://www.w3.org/2000/svg}"
PLAIN, RED = "#d0d4d8 on #101317", "#ff5f5f on #101317"
EMPTY = (" ", "on #101317")


def line(text: str, style: str = PLAIN, width: int = 20) -> list[tuple[str, str]]:
    return [EMPTY if c == " " else (c, style) for c in text.ljust(width)]


def drawn(*frames: Frame) -> ET.Element:
    return ET.fromstring(svg(frames, "a & b", LOOK))


def texts(root: ET.Element) -> list[tuple[str | None, str | None, str | None]]:
    found = [(each.text, each.get("x"), each.get("textLength")) for each in root.iter(f"{SVG}text")]
    return found[1:]  # the first one is the window's title


def test_words_have_the_place_and_the_length_of_their_cells() -> None:
    root = drawn(Frame([line("loss 2.1  <&>"), line("● ok")]))

    assert ("loss 2.1", "8", "64") in texts(root)
    assert ("<&>", "88", "24") in texts(root)
    assert ("●", "12", None) in texts(root)
    assert ("ok", "24", "16") in texts(root)
    assert "a & b" == root.findtext(f"{SVG}title")


def test_another_colour_is_another_group_and_reversed_cells_have_a_ground() -> None:
    root = drawn(Frame([line("ab", RED)[:2] + line("cd")[:2] + [("x", f"{PLAIN} reverse")]]))
    groups = {each.get("fill"): [t.text for t in each] for each in root.iter(f"{SVG}g") if each.get("fill")}

    assert {"#ff5f5f": ["ab"], "#d0d4d8": ["cd"], "#101317": ["x"]} == groups
    assert [("#d0d4d8", "M40 30h8v16h-8z")] == [(e.get("fill"), e.get("d")) for e in root.iter(f"{SVG}path")]


def test_lines_are_one_stroke_and_dots_have_their_places() -> None:
    root = drawn(Frame([line("╭──╮ ⡀⠁ ━━▁")]))
    paths = {each.get("class"): each.get("d") for each in root.iter(f"{SVG}path")}

    assert "M16 38h16" in (paths["s"] or "")
    assert "M50 44h0M58 32h0" in (paths["d"] or "")
    assert "M72 36.5h16v3h-16z" in (paths[None] or "")
    assert [] == texts(root)


@pytest.mark.parametrize("glyph", "─│┌┐└┘├┤┬┴┼╭╮╰╯━╸╺▀▁▂▃▄▅▆▇█▉▊▋▌▍▎▏▐░▒▓▔▕▖▙⣿⠁")
def test_every_line_block_and_dot_is_a_shape(glyph: str) -> None:
    assert shape_of(glyph) is not None


@pytest.mark.parametrize("glyph", [" ", "a", "●", "✓", "中", "\u2800"])
def test_a_letter_is_none(glyph: str) -> None:
    assert shape_of(glyph) is None


def test_what_frames_share_is_drawn_once_and_each_of_the_others_in_its_time() -> None:
    frames = [Frame([line(f"same   {word}")], seconds) for word, seconds in (("one", 1), ("two", 3))]
    text = svg(frames, "", LOOK, still=1)

    assert 1 == text.count(">same<")
    assert "animation:4s step-end infinite" in text
    assert re.search(r'<g class="k0" visibility="hidden">\n<g fill="#d0d4d8"><text[^>]*>one<', text)
    assert re.search(r'<g class="k1">\n<g fill="#d0d4d8"><text[^>]*>two<', text)
    assert "@keyframes k0{0%{visibility:visible}25%{visibility:hidden}}" in text
    assert "@keyframes k1{0%{visibility:hidden}25%{visibility:visible}}" in text


def test_one_frame_does_not_move() -> None:
    assert "animation" not in svg([Frame([line("still")])], "", LOOK)
