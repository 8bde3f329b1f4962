"""`Job`, a run of this process as a future: its facts as they happen, its values or its error at the end."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import (
    AgentLost,
    CannotPlace,
    InternalError,
    LauncherError,
    NoGroup,
    NoProgress,
    RankFailed,
    RecordError,
    RowsFailed,
    RunStopped,
    SpecError,
    TimeLimit,
)
from .runs import files, paths
from .runs.reader import FactTail
from .spec import pickles
from .state.events import Event
from .state.outcome_rules import describe_cause, exit_code_of
from .state.ranks import Rank
from .state.run_state import Phase, RunState
from .state.separate import describe_separate

if TYPE_CHECKING:
    from .supervisor.run_loop import RunLoop

_PACKAGE = os.path.dirname(__file__)
# Not weak references: at exit, this process must stop even a run whose `Job` was dropped.
_running: set[Job] = set()


class Job:
    """A started run.

    It belongs to this process: when the process ends, however that happens, so do the ranks.

    Attributes:
        id: the run's id.
        folder: its run folder.
    """

    def __init__(self, supervisor: RunLoop, folder: Path) -> None:
        self.id = folder.name
        self.folder = folder
        self._supervisor = supervisor
        self._thread = threading.Thread(target=self._supervise, name=f"rankdeck {self.id}", daemon=True)
        _running.add(self)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.state.phase}>"

    @property
    def state(self) -> RunState:
        """The run's present state."""
        return self._supervisor.state

    @property
    def most_ranks(self) -> int:
        """How many ranks it may have (`JobSpec.most`)."""
        return self._supervisor.spec.most

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
        """Block until the folder has something newer than `seen`; the version to pass as `seen` next time."""
        return self._supervisor.mailbox.wait_for_news(seen, timeout)

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` on the run's own thread at all news and at the end. It must not block."""
        self._supervisor.mailbox.watch(watcher)

    def unwatch(self, watcher: Callable[[], None]) -> None:
        """Stop calling `watcher`."""
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
        """Wait for the end and return a rank's value; None for a script that published none.

        Warns if all ranks ended well, but each had trained by itself.

        Raises:
            SpecError: there is no such rank.
            RankFailed: training failed.
            RecordError: the value could not be kept.
            LauncherError: the run was stopped, lost or never started.
            TimeoutError: it has not ended in `timeout` seconds.
        """
        if not 0 <= rank < self.state.num_processes:
            raise SpecError(f"there is no rank {rank}: the run has ranks 0 to {self.state.num_processes - 1}")
        return self._value(self.succeeded(timeout), rank)

    def results(self, *, timeout: float | None = None) -> list[Any]:
        """Wait for the end and return every rank's value, by rank. Raises like `result`."""
        state = self.succeeded(timeout)
        return [self._value(state, rank) for rank in range(state.num_processes)]

    def stop(
        self, *, force: bool = False, reason: str = "on request", exit_code: int = RunStopped.exit_code
    ) -> None:
        """Stop the run: SIGTERM, the grace period, SIGKILL. `force` skips the grace. Does not wait."""
        self._supervisor.stop(reason=reason, exit_code=exit_code, force=force)

    def _supervise(self) -> None:
        try:
            self._supervisor.run()
        finally:  # even if the run's thread failed, whoever waits for the run must go on
            self._supervisor.mailbox.done.set()
            self._supervisor.mailbox.notify()
            _running.discard(self)

    def succeeded(self, timeout: float | None = None) -> RunState:
        """Wait for the end and return the state. Raises like `result`."""
        state = self.wait(timeout)
        if error := error_of(state, self.folder):
            raise error
        if state.separate is not None:
            warnings.warn(describe_separate(state.separate), stacklevel=_callers_level())
        return state

    def _value(self, state: RunState, rank: int) -> Any:
        returned = state.ranks[rank].returned
        if returned is not None and not returned.kept:
            reason = f"rank {rank}'s value was not kept: the run folder could not be written"
            raise RecordError(reason, run=self.id)
        return load_result(self.folder, rank) if returned else None


def _callers_level() -> int:
    """The level of the stack, for a warning, at which this library was called."""
    frame, level = sys._getframe(1), 1  # noqa: SLF001  the documented way to one's own caller
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


def _stop_all() -> None:
    """At interpreter exit: a run belongs to the process that started it."""
    jobs = list(_running)
    for job in jobs:
        job.stop(reason="the process that started it ended")
    for job in jobs:
        job.wait()


atexit.register(_stop_all)
# A forked child has none of the runs' threads, and must not stop its parent's runs.
os.register_at_fork(after_in_child=_running.clear)


TAIL_LINES = 20

_LIMITS = {cls.exit_code: cls for cls in (TimeLimit, NoProgress)}
_BROKEN = {cls.exit_code: cls for cls in (SpecError, RowsFailed, CannotPlace, AgentLost, NoGroup)}


def error_of(state: RunState, folder: Path) -> LauncherError | None:
    """The error of an ended run, or None if it succeeded."""
    if state.phase is Phase.SUCCEEDED:
        return None
    if state.phase is Phase.STOPPED:
        return RunStopped(
            f"the run was {state.why}", run=state.id, exit_code=state.exit_code or RunStopped.exit_code
        )
    if state.phase is Phase.LOST:
        return AgentLost(state.why, run=state.id, hint=_cause(state))
    if state.blamed is not None and state.blamed < len(state.ranks):
        return rank_failed(state.ranks[state.blamed], folder, state)
    if limit := _LIMITS.get(state.exit_code or 0):
        return limit(f"the run was {state.why}", run=state.id, hint=_cause(state))
    return _BROKEN.get(state.exit_code or 0, InternalError)(state.why, run=state.id, hint=_cause(state))


def _cause(state: RunState) -> str | None:
    from .diagnosis.wording import cause_text  # only a failure needs it

    return cause_text(state.found) if state.found is not None else None


def rank_failed(rank: Rank, folder: Path, state: RunState) -> RankFailed:
    """The first failing rank's error, with its traceback or the end of its stderr."""
    from .runs.logs.tail import tail_of  # only a failure needs it

    tail = tail_of(folder, state.attempt, rank.rank, paths.STDERR, most=TAIL_LINES)
    return RankFailed(
        describe_cause(state, rank),
        rank=rank.rank,
        host=rank.host,
        exit_code=exit_code_of(rank),
        signal=rank.signal,
        traceback=rank.raised.traceback if rank.raised else None,
        tail="\n".join(line.decode("utf-8", "replace") for line in tail),
        run=state.id,
        hint=_cause(state),
    )


def load_result(folder: Path, rank: int) -> Any:
    """A rank's return value, unpickled: only for the caller's own runs.

    Raises:
        RecordError: the rank left no value, or one that cannot be read or unpickled here.
    """
    path = paths.result_file(folder, rank)
    try:
        file = files.open_file(folder, path)
    except FileNotFoundError:
        raise RecordError(f"rank {rank} left no value", run=folder.name) from None
    except OSError as error:
        raise RecordError(f"rank {rank}'s value cannot be read: {error.strerror}", run=folder.name) from error
    with file:
        try:
            return pickles.load(file)
        except Exception as error:  # a user's __setstate__ may raise anything
            why = f"{type(error).__name__}: {error}"
            raise RecordError(f"rank {rank}'s value cannot be loaded here: {why}", run=folder.name) from error
