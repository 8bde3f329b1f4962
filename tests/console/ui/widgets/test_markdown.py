"""Markdown as rows: what is filled anew, what stays as it is, and that nothing is lost."""

from __future__ import annotations

import pytest

from console.manual import readable, topics
from console.ui.widgets.markdown import markdown_rows
from console.ui.widgets.rows import width_of

TABLE = "| code | meaning |\n|---|---|\n| 0 | every `rank` ended well |\n| 124 | time limit |\n"


def lines(text: str, width: int) -> list[str]:
    return ["".join(part for part, _ in row).rstrip() for row in markdown_rows(text, width)]


def test_paragraphs_are_filled_and_list_items_hang() -> None:
    text = "one two\nthree four\n\n- five six\n  seven\n- eight\n\n10. nine\n"

    assert lines(text, 12) == [
        *("one two", "three four", ""),
        *("- five six", "  seven", "- eight", ""),
        "10. nine",
    ]


def test_code_keeps_its_lines_and_goes_on_below() -> None:
    text = "```sh\nrun  a.py\n\n# -- not a heading\n- not an item but longer\n```\n"

    assert lines(text, 20) == [
        *("  run  a.py", "", "  # -- not a heading"),
        *("  - not an item but", "    longer"),
    ]


def test_a_table_has_columns_where_there_is_room_and_paragraphs_where_not() -> None:
    assert lines(TABLE, 40) == ["code  meaning", "0     every rank ended well", "124   time limit"]
    assert lines(TABLE, 16) == ["0", "  every rank", "  ended well", "124", "  time limit"]


def test_a_wide_table_names_its_columns() -> None:
    text = "| what | ours | peer |\n|---|---|---|\n| `ps` of many | 1 ms | 2 ms |\n"

    assert lines(text, 22) == ["ps of many", "  ours: 1 ms; peer: 2", "  ms"]


def test_styles_are_those_of_what_is_written() -> None:
    heading, _, row = markdown_rows("# Title\n\na `b c`, **d**\n", 40)

    assert (("Title", "bold underline"),) == heading
    assert {("b", "accent"), ("c", "accent"), ("d", "bold"), (",", "")} <= set(row)


@pytest.mark.parametrize("name", topics())
@pytest.mark.parametrize("width", [24, 74, 200])
def test_no_topic_loses_a_word_or_leaves_the_pane(name: str, width: int) -> None:
    text = readable(topics()[name].text)
    rows = markdown_rows(text, width)
    written = "".join(part for row in rows for part, _ in row).split()

    assert all(width_of(row) <= width for row in rows)
    if width > 24 and "|--" not in text:
        marks = str.maketrans("", "", "`*#")
        plain = "".join(line for line in text.splitlines() if not line.startswith("```")).translate(marks)
        assert "".join(plain.split()) == "".join(written).translate(marks)
