"""What user code inside a rank tells of itself: `report`, `pause`, `publish` and `log_message`.

Outside a run they do nothing. All send through this module's reporter, which `launcher.agent.rank_main`
installs.
"""

from __future__ import annotations

import contextlib
import math
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

from ..pacing import Allowance
from ..spec.pickles import unpicklable_part
from ..state.summary import describe, qualified_type
from . import rank_pipe
from .rank_pipe import RankPipe

EACH_S, AT_ONCE = 0.2, 20
LATE_S = 1.0
"""How long a report may wait for the next one."""
METRICS = 256
MESSAGE = 4000
"""Characters of a message, as sparkdl's `log_to_driver` documents; as JSON, they fit one packet."""
_NAME = 100
_LARGEST_STEP = 2.0**62  # a step beyond it, or NaN, counts as unknown


class UnpicklableResult(Exception):
    """A rank's value cannot be pickled; the message names its type and the reason."""


class Reporter:
    """Sends reports and results. Many reports in quick succession are merged; the newest always arrives."""

    def __init__(self, line: RankPipe, on_report: Callable[[], None]) -> None:
        self._line = line
        self._on_report = on_report
        self._lock = threading.Lock()
        self._publishing = threading.Lock()
        self._pending: dict[str, Any] = {}
        self._allowance = Allowance(EACH_S, AT_ONCE)
        self._late: threading.Thread | None = None
        self._not_finite: set[str] = set()

    def report(self, step: int | None, metrics: dict[str, float]) -> None:
        """Send progress, or keep it for the next call if many were just sent."""
        if not self._line.mine:  # in a fork: the lock may have been held at that moment
            return
        self._on_report()
        with self._lock:
            not_finite = {k for k, v in metrics.items() if not math.isfinite(v)} - self._not_finite
            merged = dict([*{**self._pending.get("metrics", {}), **metrics}.items()][-METRICS:])
            last = self._pending.get("step") if step is None else step
            self._pending = {"time": time.time(), "step": last, "metrics": merged}
            if self._allowance.take(time.monotonic()) or not_finite:
                self._not_finite |= not_finite  # the first NaN of each metric is sent with its own step
                self._send()
            if self._pending and self._late is None:
                self._start_late()

    def log(self, text: str) -> None:
        """Send a message, waiting for room: none is merged with others, or dropped."""
        if self._line.mine:
            self._on_report()
            self._line.send_fact("message_logged", {"time": time.time(), "text": cut_message(text)})

    def pause(self, reason: str, *, over: bool) -> None:
        """Say that a pause begins or is over, after the progress that was made before it."""
        self.flush()
        if self._line.mine:
            self._line.send_fact("rank_paused", {"time": time.time(), "reason": reason, "over": over})

    def flush(self) -> None:
        """Send the pending report."""
        if self._line.mine:
            with self._lock:
                self._send()

    def publish(self, value: object) -> None:
        """Stream a value's pickle to the run folder.

        Raises:
            UnpicklableResult: the value, or something in it, cannot be pickled.
        """
        if self._line.mine:
            with self._publishing:
                self._publish(value)

    def _publish(self, value: object) -> None:
        self._line.send(rank_pipe.RESULT_BEGIN)
        stream = _ResultStream(self._line)
        try:
            _pickler(stream).dump(value)
        except Exception as error:
            # pickle reports an unpicklable value as PicklingError, TypeError, AttributeError or
            # whatever a __reduce__ raised; all of them mean the same to the user
            self._line.send(rank_pipe.RESULT_ABORT)
            part = unpicklable_part(value, can_pickle)
            where = f"; that is value{part}" if part else ""
            raise UnpicklableResult(
                f"a value of type {qualified_type(value)} cannot be pickled: {_message(error)}{where}"
            ) from error
        stream.flush()
        self._line.send_document(
            rank_pipe.RESULT_END, {"time": time.time(), "size": stream.size, **describe(value)}
        )

    def _start_late(self) -> None:
        self._late = threading.Thread(target=self._send_late, name="rankdeck-report", daemon=True)
        try:
            self._late.start()
        except RuntimeError:  # no more threads, or the interpreter ends: the next report is sent, or the last
            self._late = None

    def _send_late(self) -> None:
        """Send what the next report does not take along: this may be the last one before a rank hangs."""
        while True:
            time.sleep(LATE_S)
            with self._lock:
                if not self._pending:
                    self._late = None
                    return
                self._send()

    def _send(self) -> None:
        if self._pending and self._line.offer_fact("rank_reported", self._pending):
            self._pending = {}


def cut_message(text: str) -> str:
    """At most `MESSAGE` characters, the last of which then shows that there were more."""
    return text if len(text) <= MESSAGE else f"{text[: MESSAGE - 1]}…"


def _message(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  a user's __str__ may raise anything
        return type(error).__name__


class _ResultStream:
    """A file for the pickler: divides its output into packets, copying only small writes."""

    def __init__(self, line: RankPipe) -> None:
        self._line = line
        self._buffer = bytearray()
        self.size = 0

    def write(self, data: bytes | memoryview) -> int:
        """Buffer small writes; send large ones at once, without a copy."""
        view = memoryview(data).cast("B")
        self.size += len(view)
        if len(view) < rank_pipe.DATA:
            self._buffer += view
            if len(self._buffer) >= rank_pipe.DATA:
                self.flush()
            return len(view)
        self.flush()
        self._send(view)
        return len(view)

    def flush(self) -> None:
        """Send the buffered bytes."""
        if self._buffer:
            self._send(memoryview(bytes(self._buffer)))
            self._buffer.clear()

    def _send(self, view: memoryview) -> None:
        for start in range(0, len(view), rank_pipe.DATA):
            self._line.send(rank_pipe.RESULT_DATA, view[start : start + rank_pipe.DATA])


def _pickler(stream: Any) -> Any:
    """cloudpickle's pickler, which can pickle classes of `__main__`; without cloudpickle, plain pickle's."""
    file: IO[bytes] = stream
    try:
        from cloudpickle import Pickler
    except ImportError:
        return pickle.Pickler(file, protocol=5)
    return Pickler(file, protocol=5)


class _Discarded:
    def write(self, data: bytes | memoryview) -> int:
        return len(data)


def can_pickle(value: object) -> bool:
    """Whether `publish` could send a value."""
    try:
        _pickler(_Discarded()).dump(value)
    except Exception:  # noqa: BLE001  whatever a __reduce__ raises
        return False
    return True


_reporter: Reporter | None = None


def install(line: RankPipe, on_report: Callable[[], None] = lambda: None) -> Reporter:
    """Make `report` and `publish` send from this process.

    Args:
        line: the pipe to the agent.
        on_report: called at every report.
    """
    global _reporter
    _reporter = Reporter(line, on_report)
    return _reporter


def report(*, step: int | None = None, loss: float | None = None, **metrics: float) -> None:
    """Report the training's progress to the console; does nothing outside a run.

    Args:
        step: the global step, for progress and for finding ranks that lag.
        loss: the loss, charted.
        metrics: any other numbers. Tensors are converted, which waits for their device. One called
            `total_steps` is the number of all steps, and gives a progress bar and the time left. One called
            `checkpoint` is the step that was saved last; the console shows how long ago that was.

    It may be called at every step: of a rank that reports often, some reports are sent at once, and then five
    a second, each with what has changed since. The last one always arrives.

    A value that is no number is left out, and so are more than 256 metrics: telemetry never ends a training.
    """
    if _reporter is None:
        return
    named = metrics if loss is None else {"loss": loss, **metrics}
    numbers = {name[:_NAME]: n for name, value in named.items() if (n := _number(value)) is not None}
    at = None if step is None else _number(step)
    _reporter.report(int(at) if at is not None and abs(at) <= _LARGEST_STEP else None, numbers)


def _number(value: object) -> float | None:
    try:
        return float(value)  # type: ignore[arg-type]  # handled below
    except Exception:  # noqa: BLE001  a user's __float__ may raise anything, and telemetry ends no training
        return None


_pauses = 0
_pausing = threading.Lock()


@contextlib.contextmanager
def pause(reason: str = "") -> Iterator[None]:
    """Declare that this rank does nothing for a while on purpose, as ``with launcher.pause("debugging"):``.

    Meanwhile no rank of the gang counts as hung, and the limit without progress does not apply; the time
    limit does. Does nothing outside a run. Pauses may be nested: the gang goes on after the outermost.
    """
    _change_pause(cut_reason(reason), begins=True)
    try:
        yield
    finally:
        _change_pause(cut_reason(reason), begins=False)


def _change_pause(reason: str, *, begins: bool) -> None:
    global _pauses
    with _pausing:
        outermost = _pauses == (0 if begins else 1)
        _pauses += 1 if begins else -1
        if outermost and _reporter is not None:
            _reporter.pause(reason, over=not begins)


def cut_reason(text: object) -> str:
    """A reason on one line, of at most `_NAME` characters."""
    return " ".join(str(text).split())[:_NAME]


def publish(value: object) -> None:
    """Make `value` this rank's result, as a function's return value would be; the last one counts.

    Does nothing outside a run.

    Raises:
        UnpicklableResult: the value cannot be pickled.
    """
    if _reporter is None:
        return
    try:
        _reporter.publish(value)
    except UnpicklableResult as error:
        raise error.with_traceback(None) from None


def log_message(text: str) -> None:
    """Send a message to whoever started the run, who sees its first 4,000 characters while the ranks run.

    Does nothing outside a run, nor in a process that the rank has forked.
    """
    if _reporter is not None:
        _reporter.log(text)
