"""Choose what a caller of `Distributor.run` sees of the run, and show it while the run goes on."""

from __future__ import annotations

import contextlib
import contextvars
import sys
import threading
from collections.abc import Callable
from enum import StrEnum
from itertools import chain
from typing import Protocol

from ..errors import SpecError
from ..job import Job
from ..runs.logs.printer import Prefix, Printer, hosts_of
from ..runs.logs.text import plain_text
from ..runs.reader import FactTail
from ..state.events import MessageLogged
from ..state.run_state import RunState
from .artifacts import new_artifacts
from .hangs import new_hangs
from .rows import new_rows
from .streams import CallersStreams
from .waits import new_limits, new_waits

_PAUSE_S = 0.05
_CLOCK_S = 1.0


class Output(StrEnum):
    """What is shown: the best for where the caller is, all ranks' lines, those of rank 0, or nothing."""

    AUTO = "auto"
    ALL = "all"
    RANK0 = "rank0"
    NONE = "none"


def output_of(value: object) -> Output:
    """The choice that a caller named.

    Raises:
        SpecError: there is no such choice.
    """
    try:
        return Output(value)  # type: ignore[arg-type]  # what is no text is refused
    except ValueError:
        raise SpecError(f"the output must be one of {', '.join(Output)}, not {value!r:.80}") from None


class Display(Protocol):
    """Something that shows a run."""

    def advance(self) -> None:
        """Show what is new."""

    def finish(self) -> None:
        """Show the rest of a run that has ended."""


Show = Callable[[Job], Display]
"""Makes a display of a run."""


class Notices:
    """Says on the caller's error stream what the run waits for, and what came home."""

    def __init__(self, job: Job, streams: CallersStreams) -> None:
        self._job = job
        self._streams = streams
        self._seen = RunState()

    def advance(self) -> None:
        """Say what is new."""
        before, self._seen = self._seen, self._job.state
        kinds = (new_waits, new_rows, new_hangs, new_limits, new_artifacts)
        for line in chain(*(new(before, self._seen) for new in kinds)):
            self._streams.write(f"rankdeck: {line}", err=True)


class RankLines:
    """Prints ranks' lines with their prefixes on the streams of the caller, and what the run waits for.

    `prefix` makes the prefix of a line, if it is to be another one.
    """

    def __init__(
        self, job: Job, ranks: frozenset[int], streams: CallersStreams, prefix: Prefix | None = None
    ) -> None:
        self._notices = Notices(job, streams)
        self._printer = Printer(
            job.folder,
            job.state.requested,
            ranks,
            write=streams.write,
            coloured=streams.coloured,
            hosts=lambda: hosts_of(job.state),
            prefix=prefix,
        )

    def advance(self) -> None:
        """Print what is new."""
        self._notices.advance()
        self._printer.advance()

    def finish(self) -> None:
        """Print the rest of a run that has ended."""
        self._printer.finish()


class RankMessages:
    """Prints what ranks send to the caller, and nothing else of their output; and what the run waits for."""

    def __init__(self, job: Job, streams: CallersStreams) -> None:
        self._notices = Notices(job, streams)
        self._streams = streams
        self._facts = FactTail(job.folder)

    def advance(self) -> None:
        """Print what is new."""
        self._notices.advance()
        self.finish()

    def finish(self) -> None:
        """Print the rest of a run that has ended."""
        if texts := [
            plain_text(_lines_of(e.text)) for e in self._facts.poll() if isinstance(e, MessageLogged)
        ]:
            self._streams.write("\n".join(texts))


def _lines_of(text: str) -> str:
    """A message with the same line ends everywhere: it is no progress bar, which is drawn over itself."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def display_of(job: Job, output: Output | Show) -> Display | None:
    """What shows a run; None if nothing does."""
    if not isinstance(output, Output):
        return output(job)
    if output is Output.NONE:
        return None
    if output is Output.AUTO and in_notebook():
        from .live import LivePanel  # needs IPython

        return LivePanel(job)
    ranks = frozenset((0,) if output is Output.RANK0 else range(job.most_ranks))
    return RankLines(job, ranks, CallersStreams())


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this process; IPython in a terminal is none."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class Follower:
    """Shows a run until its end, on a thread of its own.

    The caller's thread stays free for Ctrl-C, also while a stream blocks. The thread has the caller's
    context, by which a notebook knows to which cell an output belongs. Whatever fails here, the run goes on.
    """

    def __init__(self, job: Job, output: Output | Show) -> None:
        self._job, self._output = job, output
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._follow,), name="rankdeck-show", daemon=True)
        self._display = self._made()
        if self._display is not None:
            self._thread.start()

    def join(self, timeout: float | None = None) -> None:
        """Wait until everything is shown, or `timeout` seconds; the run has ended."""
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _made(self) -> Display | None:
        try:
            return display_of(self._job, self._output)
        except Exception as error:  # noqa: BLE001  the run has begun, and must not end by this
            _give_up(error)
            return None

    def _follow(self) -> None:
        assert self._display is not None
        seen = -1
        try:
            while not self._job.done:
                seen = self._job.wait_for_news(seen, _CLOCK_S)
                self._display.advance()
                with contextlib.suppress(TimeoutError):
                    self._job.wait(_PAUSE_S)  # so that much output is printed in few pieces
            self._display.finish()
        except Exception as error:  # noqa: BLE001  a record that was deleted, a kernel that is gone
            _give_up(error)


def _give_up(error: Exception) -> None:
    """Say that nothing more will be shown."""
    CallersStreams().write(f"rankdeck: the output is no longer shown: {error}; the run goes on", err=True)
