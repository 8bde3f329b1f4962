from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from console.ui.widgets.lists import Column, fitting

NAME = Column[str]("name", 6, lambda item: item, keep=3, left=True)
SIZE = Column[str]("size", 4, lambda item: str(len(item)), keep=2)
END = Column[str]("end", 5, lambda item: item[::-1], keep=1, style="muted")


def test_texts_begin_at_the_left_and_figures_end_at_the_right() -> None:
    assert ("name  ", "size", "  end") == (NAME.head, SIZE.head, END.head)
    assert ("abc   ", "   3", "  cba") == (NAME.text("abc"), SIZE.text("abc"), END.text("abc"))


@pytest.mark.parametrize(("text", "shown"), [("abcdef", "abcdef"), ("abcdefg", "abcde…"), ("", "      ")])
def test_what_is_too_long_is_cut_and_says_so(text: str, shown: str) -> None:
    assert shown == NAME.text(text)


@given(st.text(st.characters(exclude_categories=["C", "M"]) | st.sampled_from("模型é"), max_size=20))
def test_every_cell_is_as_wide_as_its_column_whatever_is_in_it(text: str) -> None:
    assert {6, 5} == {cell_len(NAME.text(text)), cell_len(END.text(text))}


def test_the_least_important_leave_first_and_the_order_stays() -> None:
    def titles(room: int) -> list[str]:
        return [column.title for column in fitting((END, NAME, SIZE), room)]

    assert ["end", "name", "size"] == titles(18)
    assert ["name", "size"] == titles(17) == titles(12)
    assert ["name"] == titles(11)
    assert [] == titles(6) == titles(-5)
