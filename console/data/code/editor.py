"""The command that opens a file at a line in the user's editor: an argv, never a line for a shell.

Editors are told the line in different ways. One that is not known gets ``+LINE FILE``, which vi, nano, emacs,
micro, kak and most others take, and is assumed to need the terminal.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from launcher.errors import SpecError

UNSET = "no editor is set: export VISUAL, for example VISUAL=vim"


@dataclass(frozen=True, slots=True)
class EditCommand:
    """A command, and whether it needs the terminal for itself: an editor with a window does not."""

    argv: tuple[str, ...]
    terminal: bool


Places = Callable[[str, int], list[str]]


def _plus(file: str, line: int) -> list[str]:
    return [f"+{line}", file]


def _colon(file: str, line: int) -> list[str]:
    return [f"{file}:{line}"]


def _goto(file: str, line: int) -> list[str]:
    return ["-g", f"{file}:{line}"]


def _option(file: str, line: int) -> list[str]:
    return ["--line", str(line), file]


def _short_option(file: str, line: int) -> list[str]:
    return ["-l", str(line), file]


_WAYS: Mapping[Places, Sequence[str]] = {
    _goto: ("code", "code-insiders", "codium", "vscodium", "cursor", "windsurf", "positron"),
    _colon: ("subl", "sublime_text", "zed", "zeditor", "hx", "helix"),
    _option: (
        *("idea", "idea.sh", "pycharm", "pycharm.sh", "charm", "clion", "goland", "webstorm"),
        *("kate", "kwrite"),
    ),
    _short_option: ("mate",),
}
_WAY_OF = {name: way for way, names in _WAYS.items() for name in names}
_WINDOWED = frozenset(
    {*_WAY_OF, "gvim", "mvim", "nvim-qt", "neovide", "gedit", "gnome-text-editor", "pluma", "geany"}
) - {"hx", "helix"}
_IN_TERMINAL = frozenset({"-nw", "-t", "-tty", "--tty", "--no-window-system"})
_FRAMES = frozenset({"-c", "--create-frame", "-n", "--no-wait"})


def edit_command(path: Path, line: int, environ: Mapping[str, str] = os.environ) -> EditCommand:
    """The command that opens a file at a line, by ``$VISUAL``, else by ``$EDITOR``.

    Args:
        path: the file; an absolute path, so that it cannot be taken for an option.
        line: counted from 1.
        environ: the environment.

    Raises:
        SpecError: no editor is set, or its words cannot be split.
    """
    text = environ.get("VISUAL", "").strip() or environ.get("EDITOR", "").strip()
    if not text:
        raise SpecError(UNSET)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise SpecError(f"the editor {text!r} cannot be read: {error}") from None
    if not words or not words[0]:
        raise SpecError(UNSET)
    name = Path(words[0]).name
    way = _WAY_OF.get(name, _plus)
    return EditCommand((*words, *way(str(path), max(line, 1))), not _has_window(name, words[1:], environ))


def _has_window(name: str, options: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether it shows a window of its own; emacs does so by its options, and where there is a display."""
    if name in ("emacs", "emacsclient"):
        display = bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))
        windowed = display if name == "emacs" else bool(_FRAMES.intersection(options))
        return windowed and not _IN_TERMINAL.intersection(options)
    return name in _WINDOWED
