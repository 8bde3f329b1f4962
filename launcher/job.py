"""A run in this process, as a future with a story: its facts while they come, its values at the end."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from launcher.errors import RecordError, RunStopped, SpecError
from launcher.events import Event
from launcher.outcome import error_of, load_result
from launcher.runs.reader import FactTail
from launcher.state import RunState
from launcher.supervisor import Supervisor

# Not weak: a run whose `Job` was dropped is still this process's to stop when it ends.
_running: set[Job] = set()


class Job:
    """A started run.

    It belongs to this process: when the process ends, by itself or not, so do the ranks.

    Attributes:
        id: the run's id.
        folder: its run folder.
    """

    def __init__(self, supervisor: Supervisor, folder: Path) -> None:
        self.id = folder.name
        self.folder = folder
        self._supervisor = supervisor
        self._thread = threading.Thread(target=self._carry, name=f"rankdeck {self.id}", daemon=True)
        _running.add(self)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.state.phase}>"

    @property
    def state(self) -> RunState:
        """The run as known now."""
        return self._supervisor.state

    @property
    def done(self) -> bool:
        """Whether the verdict is written and nothing of the run is alive."""
        return self._supervisor.mailbox.done.is_set()

    def events(self, *, samples: bool = False) -> Iterator[Event]:
        """Every fact from the first, live, until the run's end. Any number of readers may do this."""
        tail, seen = FactTail(self.folder, samples=samples), -1
        while True:
            ended = self.done
            yield from tail.poll()
            if ended:
                return
            seen = self.wait_for_news(seen)

    def wait_for_news(self, seen: int, timeout: float | None = None) -> int:
        """Block until something new is in the folder; a version to pass as `seen` next time."""
        return self._supervisor.mailbox.wait_for_news(seen, timeout)

    def watch(self, watcher: Callable[[], None]) -> None:
        """Have this called on the run's own thread when there is news, and at the end. It must not wait."""
        self._supervisor.mailbox.watch(watcher)

    def unwatch(self, watcher: Callable[[], None]) -> None:
        """Call it no more."""
        self._supervisor.mailbox.unwatch(watcher)

    def wait(self, timeout: float | None = None) -> RunState:
        """Wait for the end and return the state, whatever it is.

        Raises:
            TimeoutError: it has not ended in `timeout` seconds; it goes on.
        """
        if not self._supervisor.mailbox.done.wait(timeout):
            raise TimeoutError(f"run {self.id} has not ended after {timeout:g} s")
        self._thread.join()
        return self.state

    def result(self, rank: int = 0, *, timeout: float | None = None) -> Any:
        """Wait, then a rank's return value; None for a script that published none.

        Raises:
            SpecError: there is no such rank.
            RankFailed: training failed.
            RecordError: the value could not be kept.
            LauncherError: the run was stopped, lost or never started.
            TimeoutError: it has not ended in `timeout` seconds.
        """
        if not 0 <= rank < self.state.num_processes:
            raise SpecError(f"there is no rank {rank}: the run has ranks 0 to {self.state.num_processes - 1}")
        return self._value(self._succeeded(timeout), rank)

    def results(self, *, timeout: float | None = None) -> list[Any]:
        """Wait, then every rank's return value, by rank. Raises like `result`."""
        state = self._succeeded(timeout)
        return [self._value(state, rank) for rank in range(state.num_processes)]

    def stop(
        self, *, force: bool = False, reason: str = "on request", exit_code: int = RunStopped.exit_code
    ) -> None:
        """Ask for the end: SIGTERM, the grace period, SIGKILL. `force` skips the grace. Does not wait."""
        self._supervisor.stop(reason=reason, exit_code=exit_code, force=force)

    def _carry(self) -> None:
        try:
            self._supervisor.run()
        finally:  # whatever became of the run's thread, nobody may wait for it any more
            self._supervisor.mailbox.done.set()
            self._supervisor.mailbox.tell()
            _running.discard(self)

    def _succeeded(self, timeout: float | None) -> RunState:
        state = self.wait(timeout)
        if error := error_of(state, self.folder):
            raise error
        return state

    def _value(self, state: RunState, rank: int) -> Any:
        returned = state.ranks[rank].returned
        if returned is not None and not returned.kept:
            reason = f"rank {rank}'s value was not kept: the run folder took no more"
            raise RecordError(reason, run=self.id)
        return load_result(self.folder, rank) if returned else None


def _stop_all() -> None:
    """At interpreter exit: a run belongs to the process that started it."""
    jobs = list(_running)
    for job in jobs:
        job.stop(reason="the process that started it ended")
    for job in jobs:
        job.wait()


atexit.register(_stop_all)
# A forked child has none of the threads that carry runs: they are its parent's to stop and to wait for.
os.register_at_fork(after_in_child=_running.clear)
