"""From frames to the run folder: what an agent says becomes facts, output and results on disk.

Facts come with the agent's clock; they are written with the engine's, and carry both.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from typing import Any

from launcher import events as ev
from launcher.channel.link import Hello
from launcher.codec import LATEST
from launcher.runs.chunks import Chunk
from launcher.runs.writer import ResultFile, RunWriter
from launcher.worker import wire
from launcher.worker.wire import Frame, Kind

_FROM_AGENTS = {
    ev.RankStarted.tag,
    ev.RankEntered.tag,
    ev.RankReported.tag,
    ev.RankRaised.tag,
    ev.RankRaising.tag,
    ev.RankRecovered.tag,
    ev.RankExited.tag,
    ev.CleanupProven.tag,
    ev.Sampled.tag,
    ev.NoteMade.tag,
    ev.TaskLost.tag,
    ev.StacksTaken.tag,
}


class Recorder:
    """Writes what one agent sends."""

    def __init__(self, writer: RunWriter, hello: Hello, clock: Callable[[], float]) -> None:
        self._writer = writer
        self._hello = hello
        self._clock = clock
        self._results: dict[int, ResultFile] = {}
        self._output: list[tuple[Chunk, memoryview]] = []

    def take(self, frames: list[Frame]) -> None:
        """Record frames in their order; output is gathered into few writes.

        Raises:
            wire.WireError: an agent said what agents do not say.
        """
        for frame in frames:
            if frame.kind is Kind.OUTPUT:
                self._output.append(self._piece(frame))
            else:
                self._flush()
                self._other(frame)
        self._flush()

    def close(self) -> None:
        """Drop results that never became whole."""
        for result in self._results.values():
            result.discard()
        self._results.clear()

    def _piece(self, frame: Frame) -> tuple[Chunk, memoryview]:
        time_ns = frame.time_ns - int(self._hello.clock_offset * 1e9)
        return Chunk(time_ns, frame.rank, len(frame.payload), frame.stream), memoryview(frame.payload)

    def _flush(self) -> None:
        if self._output:
            self._writer.output(self._output)
            self._output = []

    def _other(self, frame: Frame) -> None:
        match frame.kind:
            case Kind.FACT:
                self._tell(self._fact(frame.document()))
            case Kind.RESULT_BEGIN:
                self._discard(frame.rank)
                self._results[frame.rank] = self._writer.open_result(frame.rank)
            case Kind.RESULT_DATA:
                self._result(frame.rank).write(memoryview(frame.payload))
            case Kind.RESULT_END:
                self._commit(frame.rank, frame.document())
            case Kind.RESULT_ABORT:
                self._discard(frame.rank)
            case Kind.IDLE:
                pass
            case _:
                raise wire.WireError(f"a {frame.kind.name} frame from an agent")

    def _tell(self, fact: ev.Event) -> None:
        """Write a fact; a note that another agent has made already says nothing new."""
        notes = self._writer.state.notes
        if not (isinstance(fact, ev.NoteMade) and any(fact.text == note.text for note in notes)):
            self._writer.append(fact)

    def _fact(self, fields: Mapping[str, Any]) -> ev.Event:
        if str(fields.get("event")) not in _FROM_AGENTS:
            raise wire.WireError(f"an agent told the fact {fields.get('event')!r}, which is not its to tell")
        return self._made(fields, {})

    def _made(self, fields: Mapping[str, Any], known: Mapping[str, Any]) -> ev.Event:
        """The fact that an agent's words mean, with what we know better.

        Raises:
            wire.WireError: they mean none.
        """
        try:
            return ev.from_dict({**fields, **self._origin(fields), **known})
        except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
            raise wire.WireError(f"an agent told a fact that makes no sense: {error!r:.200}") from error

    def _origin(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Who says it, when by both clocks, in which attempt. A `time` of 0 means now."""
        theirs = float(fields.get("time") or self._clock() + self._hello.clock_offset)
        if not math.isfinite(theirs):
            raise ValueError(f"the time {theirs}")
        return {
            "time": min(max(theirs - self._hello.clock_offset, 0.0), LATEST),
            "agent_time": theirs,
            "attempt": self._writer.state.attempt,
            "agent": self._hello.agent,
            "host": self._hello.host,
        }

    def _result(self, rank: int) -> ResultFile:
        try:
            return self._results[rank]
        except KeyError:
            raise wire.WireError(f"a piece of rank {rank}'s result before its beginning") from None

    def _commit(self, rank: int, fields: Mapping[str, Any]) -> None:
        result = self._result(rank)
        del self._results[rank]
        result.commit()
        known = {"rank": rank, "size": result.size, "event": ev.RankReturned.tag}
        self._writer.append(self._made(fields, known))

    def _discard(self, rank: int) -> None:
        with contextlib.suppress(KeyError):
            self._results.pop(rank).discard()
