"""What the console asks of the launcher: start a run, stop one.

The seam that tests and the demo replace. Everything here may block and must run in a thread.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from launcher.spec.request import Request


class Commands(Protocol):
    """Starts and stops runs, and asks them. All raise `LauncherError`."""

    def start(self, request: Request) -> str:
        """Start a run that outlives the console, and return its id."""

    def stop(self, run: Path, *, force: bool) -> None:
        """Ask a run to end; with `force`, kill it."""

    def take_stacks(self, run: Path) -> None:
        """Ask what every rank is doing now; the answers are facts."""


class LauncherCommands:
    """The launcher itself."""

    def start(self, request: Request) -> str:
        """Start a detached process that owns the run."""
        from launcher.engine.client import start_detached

        return start_detached(request)

    def stop(self, run: Path, *, force: bool) -> None:
        """Tell the process that owns the run."""
        from launcher.engine.client import request_stop

        request_stop(run, force=force)

    def take_stacks(self, run: Path) -> None:
        """Tell the process that owns the run."""
        from launcher.engine.client import command_owner

        command_owner(run, {"stacks": True})
