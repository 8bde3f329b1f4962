"""Metrics as a TensorBoard event file.

Only TensorBoard's own messages and framing are used: its writer would import TensorFlow where that is
installed, and waits forever once its thread has failed on a full disk.
"""

from __future__ import annotations

import io
import math
import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .base import Record, TrackedRun, Verdict
from .reports import Point

_LARGEST = 3.4028234663852886e38  # a 32-bit float; TensorBoard's values have no more


class TensorBoardWriter:
    """Appends to one event file in a folder.

    Args:
        folder: made when the first metric or the end of the run is written.
    """

    name = "TensorBoard"
    most = 10_000
    any_order = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._attempt = 0
        self._file: Any = None
        self._size = 0

    def begin(self, run: TrackedRun) -> Record:
        """Make the folder and the file."""
        from tensorboard.compat.proto.event_pb2 import Event

        del run
        self._folder.mkdir(parents=True, exist_ok=True)
        now = time.time()
        name = f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}.{os.getpid()}.0"
        if self._file is None:
            self._file = open(self._folder / name, "ab", buffering=0)  # noqa: SIM115  it stays open
        self._append([Event(wall_time=now, file_version="brain.Event:2")])
        return Record(store=str(self._folder))

    def tag(self, tags: dict[str, str]) -> None:
        """TensorBoard has no tags."""

    def write(self, points: Sequence[Point]) -> list[str]:
        """Append points. Where an attempt begins, TensorBoard forgets later steps of the last one."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary

        events, attempt = [], self._attempt
        for point in points:
            if point.attempt > attempt:
                attempt = point.attempt
                began = SessionLog(status=SessionLog.START)
                events.append(Event(wall_time=point.time, step=point.step, session_log=began))
            value = Summary(value=[Summary.Value(tag=point.name, simple_value=_narrow(point.value))])
            events.append(Event(wall_time=point.time, step=point.step, summary=value))
        self._append(events)
        self._attempt = attempt
        return []

    def end(self, verdict: Verdict) -> None:
        """Close the file."""
        del verdict
        self._file.close()

    def _append(self, events: Sequence[Any]) -> None:
        """Append all events, or none of them."""
        from tensorboard.summary.writer.record_writer import RecordWriter

        buffer = io.BytesIO()
        framed = RecordWriter(buffer)
        for event in events:
            framed.write(event.SerializeToString())
        data = buffer.getbuffer()
        written = 0
        try:
            while written < len(data):
                written += self._file.write(data[written:])
        except OSError:
            os.ftruncate(self._file.fileno(), self._size)
            raise
        self._size += written


def _narrow(value: float) -> float:
    """The value within the range of 32 bits: what is beyond it is infinite there."""
    if abs(value) <= _LARGEST or math.isnan(value):
        return value
    return float("inf") if value > 0 else float("-inf")
