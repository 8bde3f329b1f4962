"""ASCII twins: every glyph has one, states stay apart, nothing moves, and locales are believed."""

from __future__ import annotations

import ast
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color

from console import glyphs
from console.data.run.model import PHASE_GLYPHS
from console.glyphs import TWINS, ascii_text, twin, wants_ascii
from console.ui.rendering.driver import AsciiFilter
from console.ui.run.rank_cells import GLYPHS as CONDITIONS

CONSOLE = Path(__file__).parents[2] / "console"
SHADES = "▁▂▃▄▅▆▇█"


def drawn() -> Iterator[tuple[str, str]]:
    """Every character beyond ASCII in what the console says and draws, and the module."""
    for path in sorted(CONSOLE.rglob("*.py")):
        if path.name == "glyphs.py":
            continue
        tree = ast.parse(path.read_text())
        told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
                yield from ((path.name, c) for c in node.value if c.isprintable() and not c.isascii())


def test_every_glyph_of_the_console_has_a_twin() -> None:
    lacking = {place for place in drawn() if not twin(place[1]).strip() or twin(place[1])[0] == "?"}

    assert lacking == set(), "add them to console/glyphs.py"


def test_twins_take_one_cell() -> None:
    assert {g: t for g, t in TWINS.items() if len(t) != 1 or not t.isascii() or cell_len(g) != 1} == {}


def test_states_and_shades_stay_apart() -> None:
    conditions = [ascii_text(glyph) for glyph in CONDITIONS.values()]
    shades = [ascii_text(shade) for shade in SHADES]
    phases = {ascii_text(glyph) for glyph, _ in PHASE_GLYPHS.values()}

    assert len(set(conditions)) == len(CONDITIONS)
    assert len(set(shades)) == len(SHADES)
    assert not set(conditions) & set(shades)
    assert len(phases) == len({glyph for glyph, _ in PHASE_GLYPHS.values()})


def test_bars_and_charts_keep_their_shape() -> None:
    assert ascii_text("╭─ 1 Ranks ─╮│┃") == "+- 1 Ranks -+||"
    assert ascii_text("━━╸──") == "==>--"
    assert ascii_text("⠉⠤⣀⣿⠀") == "'-.# "
    assert ascii_text("é ½ 日本 e\u0301") == "e 1 ???? e"


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40))
def test_nothing_moves_and_nothing_else_is_left(text: str) -> None:
    [after] = AsciiFilter().apply([Segment(text)], Color.parse("black"))

    assert after.text.isascii()
    assert len(after.text) == cell_len(text)


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        ({}, None),
        ({"LANG": "C.UTF-8"}, None),
        ({"LANG": "de_DE.utf8"}, None),
        ({"LANG": "C"}, "LANG=C"),
        ({"LANG": "en_US.ISO-8859-1"}, "LANG=en_US.ISO-8859-1"),
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, "LC_ALL=C"),
        ({"LC_ALL": "", "LANG": "en_US.UTF-8"}, None),
        ({"LC_CTYPE": "C.UTF-8", "LANG": "POSIX"}, "LANG=POSIX"),
        ({"LC_CTYPE": "C.UTF-8"}, None),
    ],
)
def test_a_locale_is_believed(environ: dict[str, str], why: str | None) -> None:
    assert wants_ascii(environ) == why


def test_a_stream_that_knows_ascii_only_is_written_twins() -> None:
    glyphs.register()
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors=glyphs.ERRORS)
    stream.write("✗ 3 › 4 · \udcff")
    stream.flush()

    assert stream.buffer.getvalue() == b"x 3 > 4 | ?"
