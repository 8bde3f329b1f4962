"""The owner's side of the process that writes a run to trackers: start it, record what it says, end it."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from typing import IO, Any

from ..backends.zygotes import ROOT
from ..runs.writer import RunWriter
from ..serialization import from_plain
from ..spec.redaction import redacted_text
from ..spec.request import Request
from ..state import events as ev
from . import main
from .packages import around, names

END_LIMIT_S, FORCED_LIMIT_S = 30.0, 1.0
_SILENT_S = 1.0
_MARGIN_S = 1.0
_TAIL = 4096
_BLOCK = 1 << 16
Turn = Callable[[float], bool]


class TrackingProcess:
    """The process of one run.

    Args:
        request: the run; its `trackers_python` has the packages.
        writer: records notes and links as facts.
        selector: is told of the process's output, with what reads it as data.
        clock: the time of day.
    """

    def __init__(
        self,
        request: Request,
        writer: RunWriter,
        selector: selectors.BaseSelector,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._request = request
        self._writer = writer
        self._selector = selector
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._tracks = " and ".join(names(request))
        self._lines = self._errors = b""

    def start(self) -> None:
        """Start it. That it cannot be started is a note: no training fails for its trackers."""
        request = self._request
        try:
            self._process = subprocess.Popen(
                [request.trackers_python, "-P", "-c", main.BOOT, ROOT],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=request.spec.workdir,
                env=around(request),
                start_new_session=True,
            )
        except OSError as error:
            return self._note(f"nothing is written to {self._tracks}: {error.strerror}")
        order = {"run": str(self._writer.folder), "track": list(request.spec.track), "owner": os.getpid()}
        self._tell(order)
        for stream, read in ((self._process.stdout, self._on_line), (self._process.stderr, self._on_error)):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ, lambda s=stream, r=read: self._pump(s, r))
        return None

    def end(self, ended: ev.RunEnded, *, forced: bool, turn: Turn) -> None:
        """Tell the trackers how the run ended, within bounded time, and leave nothing of the process.

        Args:
            ended: the verdict.
            forced: whether somebody wants the end at once.
            turn: waits on the selector for so many seconds; returns whether somebody wants it now.
        """
        process = self._process
        if process is None:
            return
        limit_s = FORCED_LIMIT_S if forced else END_LIMIT_S
        verdict = {"state": ended.state, "exit_code": ended.exit_code, "time": ended.time}
        self._tell({**verdict, "limit_s": limit_s})
        assert process.stdout is not None
        in_time = self._drain(process.stdout, time.monotonic() + limit_s + _MARGIN_S, turn)
        with contextlib.suppress(ProcessLookupError):  # what it started is in its group, and ends too
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            self._close(stream)
        if not in_time or code:
            last = self._errors.decode(errors="replace").strip().splitlines()[-1:]
            why = f": {redacted_text(last[0])}" if in_time and last else ""
            self._note(f"not all of the run was written to {self._tracks}{why}")

    def _drain(self, out: IO[bytes], deadline: float, turn: Turn) -> bool:
        """Read what it says until it ends; whether it did so in time."""
        told = time.monotonic() + _SILENT_S
        while not out.closed:
            now = time.monotonic()
            if now >= told:
                told = deadline
                rest = f"the ranks have ended; {self._tracks} may take {deadline - now:.0f} s for the rest"
                self._note(rest, "info")
            if now >= deadline or turn(min(told, deadline) - now):
                return False
        return True

    def _pump(self, stream: IO[bytes], read: Callable[[bytes], None]) -> None:
        """Read what is there; at its end, close the stream."""
        try:
            data = os.read(stream.fileno(), _BLOCK)
        except BlockingIOError:
            return
        if data:
            read(data)
            return
        self._close(stream)

    def _close(self, stream: IO[bytes] | None) -> None:
        if stream is not None and not stream.closed:
            with contextlib.suppress(KeyError):  # standard input is written only
                self._selector.unregister(stream)
            with contextlib.suppress(OSError):
                stream.close()

    def _on_error(self, data: bytes) -> None:
        self._errors = (self._errors + data)[-_TAIL:]

    def _on_line(self, data: bytes) -> None:
        *lines, self._lines = (self._lines + data)[-_BLOCK:].split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, TypeError, LookupError, AttributeError):
                self._record(json.loads(line))

    def _record(self, said: dict[str, Any]) -> None:
        if "note" in said:
            self._note(str(said["note"]))
            return
        known = {"time": self._clock(), "attempt": self._writer.state.attempt}
        self._writer.append(from_plain(ev.TrackerLinked, {**said["linked"], **known}))

    def _note(self, text: str, level: str = "warning") -> None:
        attempt = self._writer.state.attempt
        self._writer.append(ev.NoteMade(time=self._clock(), attempt=attempt, text=text, level=level))

    def _tell(self, document: dict[str, Any]) -> None:
        """Send a line; a process that is gone is noticed at its end."""
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps(document).encode() + b"\n")
            self._process.stdin.flush()
