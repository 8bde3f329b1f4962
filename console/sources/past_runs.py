"""The list of runs that a screen shows, kept up to date in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from console.sources.ledger import Ledger
from console.sources.wanted import Wanted, arranged
from console.sources.watch import Watch
from launcher.errors import LauncherError
from launcher.runs.status import Status

LOOK_S = 2.0


@dataclass(frozen=True, slots=True)
class Listing:
    """The runs that are asked for, in order; of how many; and why they cannot be read, if so."""

    runs: tuple[Status, ...] = ()
    total: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """Which runs, and in which order."""

    wanted: Wanted = field(default_factory=Wanted)
    order: str = "started"
    reverse: bool = False


class PastRuns:
    """Publishes a `Listing` whenever it differs, from its own thread, until closed."""

    def __init__(self, root: Path, publish: Callable[[Listing], None]) -> None:
        self._publish = publish
        self._ledger = Ledger(root)
        self._anew = threading.Event()
        self._question = self._answered = Question()
        self._runs: tuple[Status, ...] | None = None
        self._last: Listing | None = None
        self.watch = Watch(self.look, LOOK_S, name="rankdeck-history")

    def ask(self, question: Question) -> None:
        """Ask for other runs, or another order."""
        self._question = question
        self.watch.nudge()

    def reread(self) -> None:
        """Forget what is known: folders were changed."""
        self._anew.set()
        self.watch.nudge()

    def look(self) -> None:
        """Read what may have changed, and publish what is seen of it."""
        if self._anew.is_set():
            self._anew.clear()
            self._ledger.forget()
        try:
            for runs in self._ledger.look():
                self._show(runs)
        except (OSError, ValueError, LauncherError) as error:
            self._runs = None
            self._say(Listing(problem=str(error)))

    def _show(self, runs: tuple[Status, ...]) -> None:
        question = self._question
        if runs == self._runs and question == self._answered:
            return
        self._runs, self._answered = runs, question
        shown = arranged(runs, question.wanted, question.order, reverse=question.reverse)
        self._say(Listing(shown, len(runs)))

    def _say(self, listing: Listing) -> None:
        if listing != self._last and not self.watch.closed:
            self._last = listing
            self._publish(listing)
