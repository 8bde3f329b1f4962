"""The console's commands to the launcher: check a launch, start a run, stop it, take its stacks.

Tests and the demo replace these commands. Every one may block and must run in a thread.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from launcher.diagnosis.checks.check import CheckReport
    from launcher.spec.request import Request


class Commands(Protocol):
    """Starts and stops runs, and has their stacks taken. Every method raises `LauncherError`."""

    def check(self, request: Request) -> CheckReport:
        """Check a launch on all its hosts; nothing of it is started."""

    def start(self, request: Request) -> str:
        """Start a run that outlives the console, and return its id."""

    def stop(self, run: Path, *, force: bool) -> None:
        """Ask a run to end; with `force`, kill it."""

    def take_stacks(self, run: Path) -> None:
        """Request the stacks of every rank now; they are recorded as facts."""


class LauncherCommands:
    """The commands, executed by the launcher."""

    def check(self, request: Request) -> CheckReport:
        """Have agents look at the hosts, as `rankdeck doctor` does."""
        from launcher.engine.doctor import diagnose

        return diagnose(request)

    def start(self, request: Request) -> str:
        """Start a detached process that owns the run."""
        from launcher.engine.client import start_detached

        return start_detached(request)

    def stop(self, run: Path, *, force: bool) -> None:
        """Send a stop to the process that owns the run."""
        from launcher.engine.client import request_stop

        request_stop(run, force=force)

    def take_stacks(self, run: Path) -> None:
        """Send the request to the process that owns the run."""
        from launcher.engine.client import command_owner

        command_owner(run, {"stacks": True})
