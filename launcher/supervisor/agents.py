"""The agents of one stage: who has joined or is gone, and their frames as facts, output and results.

Facts come with the agent's clock; they are written with the engine's, and carry both.
"""

from __future__ import annotations

import contextlib
import math
import selectors
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..channel.connection import AgentConnection, ConnectionClosed
from ..channel.frames import Frame, Kind, WireError
from ..channel.handshake import Hello
from ..runs.logs.writer import Chunk
from ..runs.results import ResultFile
from ..runs.writer import RunWriter
from ..serialization import LATEST, from_plain
from ..state import events as ev

POLL_S = 0.5
_BYTES = frozenset({Kind.OUTPUT, Kind.RESULT_BEGIN, Kind.RESULT_DATA, Kind.RESULT_END})


class Roster:
    """Links and their recorders, by agent. What happens to them is written as facts.

    Attributes:
        expected: how many agents will come; None while that is not known.
        ports: the port that each agent holds for rank 0's store.
        reached: which addresses each agent could reach, and by which of its interfaces.
        active_at: monotonic time of any rank's last sign of life; None before the gang began.
        activity_count: how many batches of frames have shown signs of life.
        stacked: the last round of stacks that each agent has told all of.
    """

    def __init__(
        self,
        writer: RunWriter,
        selector: selectors.BaseSelector,
        clock: Callable[[], float],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._writer = writer
        self._selector = selector
        self._clock = clock
        self._monotonic = monotonic
        self._polled = monotonic()
        self.expected: int | None = None
        self.activity_count = 0
        self._clear()

    def _clear(self) -> None:
        self._links: dict[int, AgentConnection] = {}
        self._recorders: dict[int, Recorder] = {}
        self._hellos: dict[int, Hello] = {}
        self._idle: set[int] = set()
        self._begun = self._dismissed = False
        self.ports: dict[int, int] = {}
        self.active_at: float | None = None
        self.stacked: dict[int, int] = {}
        self.reached: dict[int, dict[str, str]] = {}

    def __bool__(self) -> bool:
        return bool(self._links)

    @property
    def joined(self) -> int:
        """How many agents have come so far."""
        return len(self._hellos)

    @property
    def complete(self) -> bool:
        """Whether every agent that was expected has joined."""
        return self.expected is not None and len(self._hellos) >= self.expected

    @property
    def whole(self) -> bool:
        """Whether every agent that joined is still here."""
        return bool(self._links) and len(self._links) == len(self._hellos)

    @property
    def finished(self) -> bool:
        """Whether every agent that is here has proven that its ranks are gone."""
        return bool(self._links) and self._idle >= self._links.keys()

    @property
    def hellos(self) -> list[Hello]:
        """What the agents said when they joined, by number; those that left since included."""
        return [self._hellos[agent] for agent in sorted(self._hellos)]

    def reset(self) -> None:
        """Make ready for the agents of another stage; those of the last one have all left."""
        self._clear()
        self.expected = None

    def add(self, links: Iterable[AgentConnection]) -> None:
        """Begin to listen to agents. Who comes when the gang has begun, or in another's place, is let go."""
        for link in links:
            if self._begun or link.agent in self._links:
                link.close()
                continue
            self._selector.register(link, selectors.EVENT_READ, link)
            if link.hello is not None:
                self._join(link, link.hello)
            self._links[link.agent] = link

    def on_readable(self, link: AgentConnection) -> None:
        """Record what an agent has sent."""
        try:
            frames = link.receive()
        except ConnectionClosed as error:
            self.remove(link, str(error))
            return
        if link.hello is not None and link.agent not in self._recorders:
            self._join(link, link.hello)
        if frames:
            self._record(link.agent, frames)

    def send(
        self,
        kind: Kind,
        make: Callable[[int], Mapping[str, Any]],
        payloads: Mapping[Kind, bytes] | None = None,
    ) -> None:
        """Say something to every agent that has joined, after the large pieces that belong to it."""
        for agent in self._recorders.keys() & self._links.keys():
            for piece, data in (payloads or {}).items():
                self._links[agent].send_payload(data, kind=piece)
            self._links[agent].send(kind, make(agent))

    def begin(self) -> None:
        """A gang starts: nobody is idle, and who has not said hello is not waited for."""
        self._begun = True
        self.active_at = self._monotonic()
        self._idle.clear()
        for agent in self._links.keys() - self._recorders.keys():
            link = self._links.pop(agent)
            self._selector.unregister(link)
            link.close()

    def all_stacked(self, number: int) -> bool:
        """Whether every agent that has ranks has told all of their stacks in this round."""
        return all(self.stacked.get(agent) == number for agent in self._links.keys() - self._idle)

    def dismiss(self) -> None:
        """Tell all agents to leave, once."""
        if not self._dismissed:
            self._dismissed = True
            self.send(Kind.QUIT, lambda _: {})

    def flush(self) -> None:
        """Write what waits, and listen for room exactly where something still waits."""
        for link in self._links.values():
            link.flush()
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if link.wants_to_write else 0)
            self._selector.modify(link, events, link)

    def poll_timeouts(self) -> None:
        """Show agents that we live, and let go of those that do not, every so often."""
        now = self._monotonic()
        if now < self._polled + POLL_S:
            return
        self._polled = now
        for link in list(self._links.values()):
            try:
                link.tend(now)
            except ConnectionClosed as error:
                self.remove(link, str(error))

    def timeout(self) -> float | None:
        """Seconds until `poll_timeouts` has something to do; None: never."""
        now = self._monotonic()
        times = [t for link in self._links.values() if (t := link.deadline(now)) is not None]
        return max(min(times), self._polled + POLL_S - now, 0.0) if times else None

    def remove(self, link: AgentConnection, reason: str) -> None:
        """An agent's channel has ended: expected if it had finished.

        One that leaves before ranks have places takes its place with it, which no rank can tell.
        """
        self._selector.unregister(link)
        link.close()
        del self._links[link.agent]
        if recorder := self._recorders.pop(link.agent, None):
            recorder.close()
        expected, now, attempt = link.agent in self._idle, self._clock(), self._writer.state.attempt
        if not (self._writer.state.ranks or self._dismissed):
            lost = f"its agent went away: {reason}"
            self._writer.append(ev.TaskLost(time=now, attempt=attempt, task=link.agent, reason=lost))
        self._writer.append(
            ev.AgentDeparted(
                time=now,
                attempt=attempt,
                agent=link.agent,
                host=link.hello.host if link.hello else "",
                expected=expected,
                reason="" if expected else reason,
            )
        )

    def drop_all(self) -> None:
        """Close every channel; the agents then end their ranks by themselves."""
        self._dismissed = True
        for link in list(self._links.values()):
            self.remove(link, "the run was abandoned")

    def _record(self, agent: int, frames: list[Frame]) -> None:
        for frame in frames:
            if frame.kind is Kind.IDLE:
                self._idle.add(agent)
                self.ports[agent] = _port(frame.document().get("port", self.ports[agent]))
            elif frame.kind is Kind.REACHED:
                self.reached[agent] = _interfaces(frame.document().get("found"))
            elif frame.kind is Kind.STACKED:
                self.stacked[agent] = frame.document().get("round", 0)
        if self._recorders[agent].record([f for f in frames if f.kind not in (Kind.REACHED, Kind.STACKED)]):
            self.active_at, self.activity_count = self._monotonic(), self.activity_count + 1

    def _join(self, link: AgentConnection, hello: Hello) -> None:
        self._hellos[hello.agent] = hello
        self.ports[hello.agent] = hello.port
        self._recorders[hello.agent] = Recorder(self._writer, hello, self._clock)
        self._writer.append(
            ev.AgentJoined(
                time=self._clock(),
                attempt=self._writer.state.attempt,
                agent=hello.agent,
                host=hello.host,
                pid=hello.pid,
                python=hello.python,
                clock_offset=round(hello.clock_offset, 6),
                devices=hello.devices,
                address=hello.address,
                torch=hello.torch,
            )
        )
        if early := link.take_early():
            self._record(hello.agent, early)


def _port(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 65535:
        raise WireError(f"an agent named the port {value!r:.40}")
    return value


def _interfaces(value: object) -> dict[str, str]:
    """Addresses, each with an interface."""
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value.values()):
        raise WireError(f"an agent reached {value!r:.40}")
    return value


@contextlib.contextmanager
def _refusing_nonsense() -> Iterator[None]:
    """What decoding raises becomes a `WireError`: an agent has told what is no fact."""
    try:
        yield
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
        raise WireError(f"an agent told a fact that makes no sense: {error!r:.200}") from error


class Recorder:
    """Writes what one agent sends."""

    def __init__(self, writer: RunWriter, hello: Hello, clock: Callable[[], float]) -> None:
        self._writer = writer
        self._hello = hello
        self._clock = clock
        self._results: dict[int, ResultFile] = {}
        self._output: list[tuple[Chunk, memoryview]] = []

    def record(self, frames: list[Frame]) -> bool:
        """Record frames in their order; output is gathered into few writes.

        Returns:
            Whether any of them shows that a rank lives.

        Raises:
            WireError: an agent said what agents do not say.
        """
        shows_life = False
        for frame in frames:
            shows_life |= frame.kind in _BYTES
            if frame.kind is Kind.OUTPUT:
                self._output.append(self._piece(frame))
                continue
            self._flush()
            if frame.kind is Kind.FACT:
                shows_life |= self._record_fact(frame.document()).shows_life
            else:
                self._record_other(frame)
        self._flush()
        return shows_life

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

    def _record_other(self, frame: Frame) -> None:
        match frame.kind:
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
                raise WireError(f"a {frame.kind.name} frame from an agent")

    def _record_fact(self, fields: Mapping[str, Any]) -> ev.Event:
        """Write a fact; a note that another agent has made already says nothing new."""
        with _refusing_nonsense():
            fact = ev.from_wire(fields, "agent", self._origin(fields))
        notes = self._writer.state.notes
        if not (isinstance(fact, ev.NoteMade) and any(fact.text == note.text for note in notes)):
            self._writer.append(fact)
        return fact

    def _origin(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Who says it, when by both clocks, in which attempt. What has no time has just happened."""
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
            raise WireError(f"a piece of rank {rank}'s result before its beginning") from None

    def _commit(self, rank: int, fields: Mapping[str, Any]) -> None:
        result = self._result(rank)
        del self._results[rank]
        result.commit()
        with _refusing_nonsense():
            known = {**self._origin(fields), "rank": rank, "size": result.size}
            fact = from_plain(ev.RankReturned, {**fields, **known})
        self._writer.append(fact)

    def _discard(self, rank: int) -> None:
        with contextlib.suppress(KeyError):
            self._results.pop(rank).discard()
