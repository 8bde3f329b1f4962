"""The editor's command: how each is told the line, and that no text becomes a second argument."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.data.code.editor import UNSET, edit_command
from launcher.errors import SpecError

FILE = Path("/w/my train.py")


@pytest.mark.parametrize(
    ("editor", "argv", "terminal"),
    [
        ("vi", ["vi", "+12", "/w/my train.py"], True),
        ("nvim -p", ["nvim", "-p", "+12", "/w/my train.py"], True),
        ("nano", ["nano", "+12", "/w/my train.py"], True),
        ("emacsclient -t", ["emacsclient", "-t", "+12", "/w/my train.py"], True),
        ("emacsclient -n", ["emacsclient", "-n", "+12", "/w/my train.py"], False),
        ("emacs -nw", ["emacs", "-nw", "+12", "/w/my train.py"], True),
        ("code --wait", ["code", "--wait", "-g", "/w/my train.py:12"], False),
        ("/opt/bin/cursor", ["/opt/bin/cursor", "-g", "/w/my train.py:12"], False),
        ("subl -n", ["subl", "-n", "/w/my train.py:12"], False),
        ("hx", ["hx", "/w/my train.py:12"], True),
        ("kak", ["kak", "+12", "/w/my train.py"], True),
        ("micro", ["micro", "+12", "/w/my train.py"], True),
        ("pycharm", ["pycharm", "--line", "12", "/w/my train.py"], False),
        ("'/a folder/ed'", ["/a folder/ed", "+12", "/w/my train.py"], True),
        ("vim; rm -rf /", ["vim;", "rm", "-rf", "/", "+12", "/w/my train.py"], True),
        ("vim $(id)", ["vim", "$(id)", "+12", "/w/my train.py"], True),
    ],
)
def test_each_editor_is_told_the_line_in_its_own_way(editor: str, argv: list[str], terminal: bool) -> None:
    command = edit_command(FILE, 12, {"VISUAL": editor, "EDITOR": "ed"})

    assert argv == [*command.argv]
    assert terminal is command.terminal


def test_emacs_has_a_window_where_there_is_a_display() -> None:
    assert not edit_command(FILE, 1, {"EDITOR": "emacs", "DISPLAY": ":0"}).terminal
    assert edit_command(FILE, 1, {"EDITOR": "emacs -nw", "DISPLAY": ":0"}).terminal
    assert edit_command(FILE, 1, {"EDITOR": "emacs"}).terminal


def test_the_second_variable_counts_if_the_first_is_empty_and_lines_begin_with_1() -> None:
    assert ("ed", "+1", "/w/my train.py") == edit_command(FILE, 0, {"VISUAL": " ", "EDITOR": "ed"}).argv


@pytest.mark.parametrize("environ", [{}, {"VISUAL": ""}, {"EDITOR": "''"}])
def test_without_an_editor_that_is_said(environ: dict[str, str]) -> None:
    with pytest.raises(SpecError, match="no editor is set") as raised:
        edit_command(FILE, 1, environ)
    assert UNSET == str(raised.value)


def test_words_that_cannot_be_split_are_refused() -> None:
    with pytest.raises(SpecError, match="cannot be read: No closing quotation"):
        edit_command(FILE, 1, {"VISUAL": "vim 'x"})
