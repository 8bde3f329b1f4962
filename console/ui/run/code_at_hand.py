"""Opening the user's editor at a line that a traceback, a stack or a line of output names."""

from __future__ import annotations

import subprocess
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from launcher.errors import SpecError

from ...data.code.editor import EditCommand, edit_command
from ...data.code.source import NotAtHand, Spot, file_of
from ...sanitize import escaped
from ..external import cannot_start, ended, may_run, run_in_terminal
from ..navigation import launch_screen

if TYPE_CHECKING:
    from textual.app import App
    from textual.screen import Screen

_STARTED_S = 3.0
_MOST_NOTICE = 400


class _Copies(Protocol):
    def copy_named(self, text: str, what: str) -> None: ...


def copy_named(app: App[Any], text: str, what: str) -> None:
    """Copy a text; the notice says what it is."""
    cast("_Copies", app).copy_named(text, what)


def root_of(app: App[Any]) -> Path:
    """The folder of the runs that were launched here."""
    return launch_screen(app).site.root


def edit(screen: Screen[Any], run: Path, spot: Spot | None) -> None:
    """Open a spot's file in the editor; a notice says why it cannot be."""
    why = "there is no line of code to open here" if spot is None else may_run(screen.app, run)
    if why or spot is None:
        _say(screen, why)
        return
    # in a thread, because the file may be on a slow file system
    find = partial(_find, screen, run, spot, root_of(screen.app))
    screen.run_worker(find, thread=True, group="edit", exclusive=True)


def _find(screen: Screen[Any], run: Path, spot: Spot, root: Path) -> None:
    try:
        command = edit_command(file_of(run, spot, root), spot.line)
    except (NotAtHand, SpecError) as error:
        _say(screen, str(error))
        return
    if command.terminal:
        screen.app.call_from_thread(_edit_in_terminal, screen, command)
    elif problem := start_windowed(command):
        _say(screen, problem, severity="error")
    else:
        _say(screen, f"opened {spot} in {Path(command.argv[0]).name}", severity="information")


def _say(
    screen: Screen[Any], text: str, severity: Literal["information", "warning", "error"] = "warning"
) -> None:
    """Show a notice; it may repeat a path from a record."""
    screen.notify(escaped(text)[:_MOST_NOTICE], severity=severity, markup=False)


def _edit_in_terminal(screen: Screen[Any], command: EditCommand) -> None:
    if problem := run_in_terminal(screen.app, command.argv):
        _say(screen, problem, severity="error")


def start_windowed(command: EditCommand) -> str | None:
    """Start an editor that has a window of its own; None if it runs or has ended well, else a sentence.

    It keeps no descriptor of the terminal and is in a session of its own: it outlives the console.
    """
    null = subprocess.DEVNULL
    try:
        started = subprocess.Popen(command.argv, stdin=null, stdout=null, stderr=null, start_new_session=True)
    except (OSError, ValueError) as error:
        return cannot_start(command.argv, error)
    try:
        return ended(command.argv, started.wait(_STARTED_S))
    except subprocess.TimeoutExpired:
        threading.Thread(target=started.wait, name="editor", daemon=True).start()
        return None
