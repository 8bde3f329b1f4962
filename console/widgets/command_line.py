"""The command that does the same without the console, always in sight, and what is still wrong with it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from textual.widgets import Input

from console.widgets.hints import keys_of
from console.widgets.sheet import Row, Sheet, clip

_MOST_LINES = 3
_WORD = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*"|['"])+""")


class CommandLine(Sheet):
    """The command, and one line that says whether it can run."""

    DEFAULT_CSS = """
    CommandLine { height: 4; max-height: 6; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes="pane")
        self.command = ""
        self.problem: str | None = None
        self.doubt = ""
        self.busy = ""
        self.begun = True
        self._typing = False

    def on_mount(self) -> None:
        """Follow the focus: keys that a field would type are not those that are said."""
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self._follow_focus())

    def _follow_focus(self) -> None:
        typing = isinstance(self.screen.focused, Input)
        if typing != self._typing:
            self._typing = typing
            self.refresh_rows()

    def show(self, command: str) -> None:
        """Show another command; whether it can run is not known yet."""
        self.command = command
        self.refresh_rows()

    def judge(self, problem: str | None, doubt: str = "", *, begun: bool = True) -> None:
        """Say what is wrong, or with None that nothing is; `doubt` is what only the script can tell.

        What is missing from a form that was not begun is a hint, and no fault.
        """
        self.begun = begun
        self.problem, self.doubt, self.busy = problem, doubt, ""
        self.refresh_rows()

    def wait(self, for_what: str) -> None:
        """Say what is being done."""
        self.busy = for_what
        self.refresh_rows()

    def rows(self, width: int) -> Sequence[Row]:
        """The command on as many lines as it needs, and the verdict."""
        lines = wrapped(self.command, max(width - 3, 8))
        if len(lines) > _MOST_LINES:
            last = clip(((lines[_MOST_LINES - 1], ""),), max(width - 20, 8))[0][0].removesuffix(" \\")
            copy = keys_of(self, "launch.copy", "ctrl+y" if self._typing else "y")
            lines = [*lines[: _MOST_LINES - 1], f"{last} … {copy} copies it all"]
        height = len(lines) + 3
        if self.styles.height is None or self.styles.height.value != height:
            self.styles.height = height
        first: list[Row] = [
            ((" $ " if i == 0 else "   ", "muted"), (line, "bold")) for i, line in enumerate(lines)
        ]
        return [*first, clip(self._verdict(), width)]

    def _verdict(self) -> Row:
        if self.busy:
            return ((f" ◐ {self.busy}", "rank-waiting"),)
        if self.problem and not self.begun:
            return ((f" {self.problem} · {keys_of(self, 'launch.find', 'ctrl+f')} finds", "muted"),)
        if self.problem:
            return ((f" ✗ {self.problem}", "rank-behind"),)
        start = keys_of(self, "launch.start", "ctrl+r")
        check = keys_of(self, "launch.preflight", "f5" if self._typing else "p")
        if self.doubt:
            return ((f" ? {self.doubt}", "rank-behind"), (f" · {start} launches all the same", "muted"))
        return ((" ✓ ready", "rank-done"), (f" · {start} launches · {check} checks", "muted"))


def wrapped(text: str, width: int) -> list[str]:
    """`text` broken between words, with a backslash where it goes on, so that it can be pasted as it stands.

    What is in quotes is not broken: a backslash would be part of it there.
    """
    lines, line = [], ""
    for word in _WORD.findall(text):
        if line and len(line) + 1 + len(word) > width - 2:
            lines.append(line + " \\")
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]
