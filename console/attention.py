"""What makes a terminal call a person, as sequences: its title, its bell, and desktop notifications.

Texts come from runs, so that they may hold anything: no control character of theirs reaches the terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from .glyphs import ascii_text

if TYPE_CHECKING:
    from launcher.notify.settings import NotifySettings

Write = Callable[[str], object]

_KEEP_TITLE, _TITLE_BACK = "\x1b[22;0t", "\x1b[23;0t"
_LONGEST_TITLE, _LONGEST, _READ = 120, 240, 8 << 10
_PLAIN_TERMINALS = ("linux", "dumb")


class TerminalTitle:
    """The terminal's title while runs are open. The one before is kept by the terminal, and comes back.

    Args:
        wanted: whether it is set at all.
        ascii: whether the terminal shows ASCII only.
    """

    def __init__(self, environ: Mapping[str, str], *, wanted: bool, ascii: bool = False) -> None:  # noqa: A002
        self._wanted = wanted and environ.get("TERM", "") not in _PLAIN_TERMINALS
        self._ascii = ascii
        self._shown = self._paused = ""

    def show(self, text: str, write: Write) -> None:
        """Set the title; nothing is written if it is the same."""
        text = _one_line(text, _LONGEST_TITLE)
        text = ascii_text(text) if self._ascii else text
        if not self._wanted or text in ("", self._shown):
            return
        keep = "" if self._shown else _KEEP_TITLE
        self._shown = text
        write(f"{keep}\x1b]2;{text}\a")

    def restore(self, write: Write) -> None:
        """Give the terminal its own title back, if it was changed."""
        if self._shown:
            self._shown = ""
            write(_TITLE_BACK)

    def pause(self, write: Write) -> None:
        """Give it back while another program has the terminal."""
        self._paused = self._shown
        self.restore(write)

    def resume(self, write: Write) -> None:
        """Set it again after a pause."""
        paused, self._paused = self._paused, ""
        self.show(paused, write)


def call_of(chosen: NotifySettings, kind: str, text: str, environ: Mapping[str, str]) -> str:
    """The sequences that tell of one notice, as the settings want them; empty for none."""
    if kind not in chosen.on or environ.get("TERM", "") == "dumb":
        return ""
    line = _one_line(text, _LONGEST)
    calls = []
    if chosen.osc9:  # with a word before it, since a number there has another meaning
        calls.append(passed_on(f"\x1b]9;rankdeck: {line}\a", environ))
    if chosen.osc777:
        calls.append(passed_on(f"\x1b]777;notify;rankdeck;{line.replace(';', ',')}\a", environ))
    return "".join(calls) + "\a" * chosen.bell


def passed_on(sequence: str, environ: Mapping[str, str]) -> str:
    """A sequence as tmux or screen passes it on to its terminal; tmux needs ``allow-passthrough on``."""
    if environ.get("TMUX"):
        doubled = sequence.replace("\x1b", "\x1b\x1b")
        return f"\x1bPtmux;{doubled}\x1b\\"
    if environ.get("STY"):
        return f"\x1bP{sequence}\x1b\\"
    return sequence


def _one_line(text: str, most: int) -> str:
    """One line of visible characters; directional and other unseen ones are left out too."""
    from .sanitize import printable  # the console's first frame does not need it

    line = " ".join("".join(c if c.isprintable() else " " for c in printable(text[:_READ])).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
