"""The keys of every field in which one types, pressed in the launch form's first field."""

from __future__ import annotations

from tests.console.ui.keys.pressing import Step, copies, key, leaves, loses, paints, sees, typed

_HERE, _GONE = sees("Target        one two"), loses("Target        one two")


def _deletes(name: str, keys: str, what: str) -> list[Step]:
    """A key that deletes at the right: pressed at the start, and what it deleted is typed again."""
    return [typed("\x01", paints("one two")), key(name, keys, _GONE), typed(what, _HERE)]


TYPING = [
    typed("one two", _HERE),
    key("home", "home", paints("one two")),
    key("end", "end", paints("one two")),
    key("home", "ctrl+a", paints("one two")),
    key("end", "ctrl+e", paints("one two")),
    key("cursor_left", "left", paints("one two")),
    key("cursor_right", "right", paints("one two")),
    key("cursor_left_word", "ctrl+left", paints("one two")),
    key("cursor_right_word", "ctrl+right", paints("one two")),
    key("cursor_left(True)", "shift+left", paints("one two")),
    key("cursor_right(True)", "shift+right", paints("one two")),
    key("cursor_left_word(True)", "ctrl+shift+left", paints("one two")),
    key("cursor_right_word(True)", "ctrl+shift+right", paints("one two")),
    key("select_all", "ctrl+shift+a", paints("one two")),
    typed("\x01", paints("one two")),
    key("end(True)", "shift+end", paints("one two")),
    key("home(True)", "shift+home", paints("one two")),
    typed("\x1b[97;6u", paints("one two")),
    key("cut", "ctrl+x", copies("one two")),
    key("paste", "ctrl+v", _HERE),
    key("delete_left", "backspace", _GONE),
    typed("o", _HERE),
    key("delete_left_word", "ctrl+w", _GONE),
    typed("two", _HERE),
    key("delete_left_all", "ctrl+u", _GONE),
    key("paste", "ctrl+v", _HERE),
    *_deletes("delete_right", "delete", "o"),
    *_deletes("delete_right", "ctrl+d", "o"),
    *_deletes("delete_right_word", "ctrl+backspace", "one "),
    *_deletes("delete_right_word", "alt+backspace", "one "),
    *_deletes("delete_right_all", "ctrl+k", "one two"),
    key("launch.leave", "ctrl+q", leaves(0)),
]
