"""Programs of the user, started from the console: where that is allowed, and with the terminal to themselves.

A program is an argv, never a line for a shell, so that no text of a run can become a command.
"""

from __future__ import annotations

import os
import signal
import subprocess
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.app import SuspendNotSupported

from ..sanitize import escaped

if TYPE_CHECKING:
    from textual.app import App

TERMINAL = "/dev/tty"
IN_A_PAGE = "a page in a browser starts no programs on the host of its console"
FOREIGN = "this run was not launched here: no program is started with what it says"


def may_run(app: App[Any], run: Path | None) -> str:
    """Why no program of the user may be started here; empty if one may.

    Args:
        app: the console; one in a browser's page starts no programs.
        run: the folder of the run whose texts (files, hosts, ids) the program would get; None without one.
    """
    from ..data.launch.rerun import is_own
    from .navigation import launch_screen

    if app.is_web:
        return IN_A_PAGE
    if run is not None and not is_own(run, launch_screen(app).site.root):
        return FOREIGN
    return ""


def run_in_terminal(app: App[Any], argv: Sequence[str], *, cwd: Path | None = None) -> str | None:
    """Suspend the console, run `argv` in its terminal until it ends, and show the console again.

    It blocks: nothing of the console is shown meanwhile. Ctrl-C goes to the program alone.

    Args:
        app: the console.
        argv: the program and its arguments; no shell reads them.
        cwd: the folder that it runs in; None for the console's own.

    Returns:
        None if it ended with 0, else a sentence: it could not be started, or how it ended.
    """
    try:
        with app.suspend():  # an exception in here would leave the console suspended
            return _run(argv, cwd)
    except SuspendNotSupported:
        return f"{_name(argv)} needs a terminal of its own"


def _run(argv: Sequence[str], cwd: Path | None) -> str | None:
    try:
        with open(TERMINAL, "r+b", buffering=0) as terminal, _kept(terminal.fileno()):
            code = subprocess.run(
                argv, stdin=terminal, stdout=terminal, stderr=terminal, cwd=cwd, check=False
            ).returncode
    except (OSError, ValueError, IndexError) as error:  # a NUL character in an argument; no argument
        return cannot_start(argv, error)
    return ended(argv, code)


@contextmanager
def _kept(terminal: int) -> Iterator[None]:
    """Restore the terminal's modes, which a killed program leaves as they are; ignore Ctrl-C meanwhile.

    A handler that does nothing is used instead of SIG_IGN, which the program would inherit.
    """
    modes = None
    with suppress(termios.error):
        modes = termios.tcgetattr(terminal)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGQUIT)}
    for number in before:
        signal.signal(number, lambda *_: None)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if modes is not None:
            with suppress(termios.error):
                termios.tcsetattr(terminal, termios.TCSADRAIN, modes)


def cannot_start(argv: Sequence[str], error: Exception) -> str:
    """The sentence for a program that could not be started."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"cannot start {_name(argv)}: {why}"


def ended(argv: Sequence[str], code: int) -> str | None:
    """How a program ended; None if it ended with 0."""
    if code < 0:
        with suppress(ValueError):
            return f"{_name(argv)} was ended by {signal.Signals(-code).name}"
        return f"{_name(argv)} was ended by signal {-code}"
    return f"{_name(argv)} ended with exit code {code}" if code else None


def _name(argv: Sequence[str]) -> str:
    return escaped(os.path.basename(argv[0])) if argv else "an empty command"
