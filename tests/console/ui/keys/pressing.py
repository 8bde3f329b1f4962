"""Keys that are pressed on a real terminal, one after the other, and what must be seen after each.

An effect is something that was not so before the key: a step whose effect stands there already proves
nothing, and fails.
"""

from __future__ import annotations

import base64
import select
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.console.ui.rendering.test_terminal import Terminal

_BYTES = {
    "enter": "\r",
    "tab": "\t",
    "shift+tab": "\x1b[Z",
    "escape": "\x1b",
    "space": " ",
    "delete": "\x1b[3~",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "shift+right": "\x1b[1;2C",
    "shift+left": "\x1b[1;2D",
    "pageup": "\x1b[5~",
    "pagedown": "\x1b[6~",
    "f1": "\x1bOP",
    "f2": "\x1bOQ",
    "f3": "\x1bOR",
    "f4": "\x1bOS",
    "f5": "\x1b[15~",
    "f6": "\x1b[17~",
    "f7": "\x1b[18~",
    "slash": "/",
    "question_mark": "?",
    "colon": ":",
    "ampersand": "&",
    "plus": "+",
    "minus": "-",
    "equals_sign": "=",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "backspace": "\x7f",
    "ctrl+left": "\x1b[1;5D",
    "ctrl+right": "\x1b[1;5C",
    "ctrl+shift+left": "\x1b[1;6D",
    "ctrl+shift+right": "\x1b[1;6C",
    "shift+home": "\x1b[1;2H",
    "shift+end": "\x1b[1;2F",
    "ctrl+shift+a": "\x1b[97;6u",
    "ctrl+backspace": "\x1b[127;5u",
    "alt+backspace": "\x1b[127;3u",
}
"""What terminals send; for the last three, those with the keyboard protocol that Textual asks for."""

_QUIET_S = 0.03


def sent(key: str) -> str:
    """What a terminal sends for a key of Textual's name."""
    if key in _BYTES:
        return _BYTES[key]
    if key.startswith("ctrl+"):
        return chr(ord(key[-1]) & 0x1F)
    assert len(key) == 1, f"no bytes are known for {key}"
    return key


class Desk:
    """A terminal with the console in it, and the folder in which it was started."""

    def __init__(self, terminal: Terminal, folder: Path) -> None:
        self.terminal, self.folder = terminal, folder
        self.since = 0
        self.files = frozenset[str]()
        self.colours: list[list[tuple[str, str, bool, bool, bool]]] = []

    @property
    def text(self) -> str:
        """The screen."""
        return self.terminal.text

    @property
    def received(self) -> bytes:
        """What has come since the key."""
        return self.terminal.received[self.since :]

    def lit(self, text: str) -> bool:
        """Whether a line with this text is drawn on another ground than the lines around it."""
        screen = self.terminal._screen
        for y, line in enumerate(screen.display):
            if 0 < y < len(screen.display) - 1 and (x := line.find(text)) >= 0:
                here, above, below = (screen.buffer[n][x] for n in (y, y - 1, y + 1))
                if here.reverse or here.bg not in (above.bg, below.bg):
                    return True
        return False

    def painted(self, text: str) -> bool:
        """Whether the first line with this text has other colours than before the key."""
        for y, line in enumerate(self.terminal._screen.display):
            if (x := line.find(text)) >= 0:
                return self._colours(y)[x : x + len(text)] != self.colours[y][x : x + len(text)]
        return False

    def _colours(self, y: int) -> list[tuple[str, str, bool, bool, bool]]:
        row = self.terminal._screen.buffer[y]
        cells = (row[x] for x in range(self.terminal.columns))
        return [(c.fg, c.bg, c.bold, c.reverse, c.underscore) for c in cells]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.terminal.child.isalive():
            self.terminal.child.close(force=True)

    def remember(self) -> None:
        """Keep what there is now, when all that is under way has come: what follows is the next key's."""
        while select.select([self.terminal.child.child_fd], [], [], _QUIET_S)[0] and self.terminal._read():
            pass
        self.since = len(self.terminal.received)
        self.files = frozenset(path.name for path in self.folder.iterdir())
        self.colours = [self._colours(y) for y in range(len(self.terminal._screen.display))]


@dataclass(frozen=True, slots=True)
class Effect:
    """What is so after a key, and in words."""

    what: str
    holds: Callable[[Desk], bool]


def sees(*texts: str) -> Effect:
    """These texts stand on the screen."""
    return Effect(f"sees {texts}", lambda desk: all(text in desk.text for text in texts))


def loses(*texts: str) -> Effect:
    """None of these texts stands on the screen any more."""
    return Effect(f"loses {texts}", lambda desk: not any(text in desk.text for text in texts))


def lit(text: str) -> Effect:
    """The cursor is on the row with this text."""
    return Effect(f"the cursor on {text!r}", lambda desk: desk.lit(text))


def goes_to(title: str) -> Effect:
    """The focus is in the pane with this title."""
    return Effect(f"goes to {title!r}", lambda desk: desk.painted(f"╭─ {title}"))


def paints(text: str) -> Effect:
    """A text is drawn in other colours, as where the cursor or the focus comes or goes."""
    return Effect(f"paints {text!r}", lambda desk: desk.painted(text))


def both(*effects: Effect) -> Effect:
    """All of them."""
    what = " and ".join(effect.what for effect in effects)
    return Effect(what, lambda desk: all(effect.holds(desk) for effect in effects))


def copies(text: str) -> Effect:
    """The terminal is told to put a text with these words into the clipboard (OSC 52)."""

    def holds(desk: Desk) -> bool:
        parts = desk.received.split(b"\x1b]52;c;")[1:]
        whole = [part.partition(b"\x07")[0] for part in parts if b"\x07" in part]
        return any(text in base64.b64decode(part).decode() for part in whole)

    return Effect(f"copies {text!r}", holds)


def writes(ending: str) -> Effect:
    """A new file stands in the folder."""
    return Effect(
        f"writes *{ending}",
        lambda desk: any(
            path.name.endswith(ending) and path.name not in desk.files for path in desk.folder.iterdir()
        ),
    )


def draws_again(text: str) -> Effect:
    """The whole screen is sent once more, this unchanged text with it."""
    return Effect(f"draws {text!r} again", lambda desk: text.encode() in desk.received)


def leaves(code: int) -> Effect:
    """The console has ended."""

    def holds(desk: Desk) -> bool:
        if desk.terminal.child.isalive():
            return False
        assert code == desk.terminal.exit_code(), desk.text
        return True

    return Effect(f"ends with {code}", holds)


@dataclass(frozen=True, slots=True)
class Step:
    """A key of a binding, or keys that are merely typed, and the effect."""

    binding: str
    keys: str
    effect: Effect

    @property
    def bytes(self) -> str:
        """What is sent."""
        return sent(self.keys) if self.binding else self.keys


def key(binding: str, keys: str, effect: Effect) -> Step:
    """A key of a binding."""
    return Step(binding, keys, effect)


def typed(keys: str, effect: Effect) -> Step:
    """Keys as a terminal sends them, which only lead to where the next step begins."""
    return Step("", keys, effect)


def swings(there: str, keys: str, away: Effect, back: str, back_keys: str, home: Effect) -> list[Step]:
    """Keys of a binding, each taken back by a key of another: all keys of both, separated by spaces."""
    pairs = zip(keys.split(), back_keys.split(), strict=True)
    return [step for one, other in pairs for step in (key(there, one, away), key(back, other, home))]


def press_all(desk: Desk, steps: Iterable[Step], limit_s: float = 30.0) -> None:
    """Press the key of each step, and wait until its effect is seen, which must not be so before."""
    for number, step in enumerate(steps):
        where = f"step {number}, {step.binding or 'typed'} {step.keys!r}: {step.effect.what}"
        desk.remember()
        assert not step.effect.holds(desk), f"{where}, stood there before the key:\n{desk.text}"
        desk.terminal.press(step.bytes)
        desk.terminal.wait(lambda _, step=step: step.effect.holds(desk), where, limit_s)  # type: ignore[misc]
