from __future__ import annotations

import time

import pytest

from console.ui.widgets.python_source import COMMENT, DECORATOR, KEYWORD, NAME, NUMBER, TEXT, coloured


def styled(source: str) -> dict[str, str]:
    return {
        text.strip(): style for row in coloured(source.split("\n")) for text, style in row if text.strip()
    }


def test_words_have_the_colours_of_their_kinds() -> None:
    found = styled("@wraps\ndef fit(lr=3e-4):  # note\n    return 'a\\'b' + other")

    assert {
        "@wraps": DECORATOR, "def": KEYWORD, "fit": NAME, "3e": NUMBER, "return": KEYWORD,
        "# note": COMMENT, "'a\\'b'": TEXT, "other": "",
    }.items() <= found.items()  # fmt: skip


def test_a_text_of_several_lines_goes_on() -> None:
    rows = list(coloured(['x = """a', "def", 'b""" + 1', "y"]))

    assert [("def", TEXT)] == list(rows[1])
    assert ('b"""', TEXT) == rows[2][0]
    assert ("1", NUMBER) in rows[2]
    assert [("y", "")] == list(rows[3])


@pytest.mark.parametrize(
    "line",
    [
        "",
        "'",
        '"""',
        "\\",
        "\x1b[31m",
        "é = 'ü'",
        "'" * 500,
        "\\" * 500,
        "((((",
        "#" * 300,
        "f'{x!r}'",
        "1_000.e5j",
        "¿?",
        "'a",
    ],
)
def test_nothing_is_lost_of_any_line(line: str) -> None:
    (row,) = coloured([line])

    assert line == "".join(text for text, _ in row)


def test_long_lines_take_little_time() -> None:
    began = time.thread_time()
    for line in ("'" + "\\" * 20_000, "a" * 20_000, '"' * 20_001, "1" * 20_000, "@" * 20_000):
        list(coloured([line]))

    assert time.thread_time() - began < 1.0
