"""The agents of one stage: which have joined or left, and their frames as facts, output and results.

Facts arrive with times of the agent's clock; they are recorded with the engine's, and keep both.
"""

from __future__ import annotations

import contextlib
import math
import selectors
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from ..channel.connection import AgentConnection, ConnectionClosed
from ..channel.frames import Frame, Kind, WireError
from ..channel.handshake import Hello
from ..channel.network import Way
from ..runs.logs.writer import Chunk
from ..runs.results import ResultFile
from ..runs.writer import RunWriter
from ..serialization import LATEST, from_plain
from ..state import events as ev
from .collection import AgentFiles, Collection
from .shares import GangShares, rows_note

POLL_S = 0.5
_ANSWERS = frozenset(
    {Kind.HELD, Kind.REACHED, Kind.STACKED, Kind.LACKS, Kind.PREPARED, Kind.SWEEPING, Kind.SWEPT, Kind.SHARES}
)
_FILES = frozenset({Kind.FILE_BEGIN, Kind.FILE_DATA, Kind.FILE_END, Kind.FILE_ABORT, Kind.FILES_GONE})
_BYTES = frozenset({Kind.OUTPUT, Kind.RESULT_BEGIN, Kind.RESULT_DATA, Kind.RESULT_END})


class Roster:
    """Connections and recorders by agent. Records joins and departures as facts.

    Attributes:
        expected: how many agents will join; None while that is not known.
        ports: the port that each agent holds for rank 0's store.
        held: the ports that each agent holds for the framework of its ranks.
        reached: the addresses that each agent could reach, with its way to each.
        lacking: the files that each agent lacks, by their numbers in the manifest.
        absent: what the caller's links lead to and the hosts of agents lack, by numbers in the manifest.
        prepared: the working folder of each agent that has its files; empty for the caller's own.
        unprepared: why an agent cannot take its files.
        active_at: monotonic time of any rank's last sign of life; None before the gang began.
        received: how many bytes agents have sent, in all.
        written: the time of each rank's last output, by the engine's clock.
        activity_count: how many batches of frames have shown signs of life.
        stacked: the last round in which each agent has reported all its stacks.
        collection: what comes home of the files that ranks write.
        shares: the ranks' shares of a DataFrame.
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
        self._polled_at = monotonic()
        self.expected: int | None = None
        self.activity_count = self.received = 0
        self.collection = Collection(writer, self.send_to, clock, monotonic=monotonic)
        self.shares = GangShares(lambda told: self.send(Kind.AGREED, lambda _: told), monotonic)
        self._clear()

    def _clear(self) -> None:
        self._links: dict[int, AgentConnection] = {}
        self._touched: set[AgentConnection] = set()
        self._deadline = -math.inf  # when `poll_timeouts` has something to do; -inf: to be found out
        self._recorders: dict[int, Recorder] = {}
        self._hellos: dict[int, Hello] = {}
        self._idle: set[int] = set()
        self._gang_started = self._dismissed = False
        self.ports: dict[int, int] = {}
        self.active_at: float | None = None
        self.written: dict[int, float] = {}
        self.stacked: dict[int, int] = {}
        self.held: dict[int, tuple[int, ...]] = {}
        self.reached: dict[int, dict[str, Way]] = {}
        self.lacking: dict[int, tuple[int, ...]] = {}
        self.absent: dict[int, tuple[int, ...]] = {}
        self.prepared: dict[int, str] = {}
        self.unprepared: dict[int, str] = {}
        self.collection.collectors.clear()
        self.shares.clear()

    def __bool__(self) -> bool:
        return bool(self._links)

    @property
    def joined(self) -> int:
        """How many agents have joined so far."""
        return len(self._hellos)

    @property
    def complete(self) -> bool:
        """Whether every expected agent has joined."""
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
        """The agents' hellos by number, also of those that have left since."""
        return [self._hellos[agent] for agent in sorted(self._hellos)]

    def reset(self) -> None:
        """Prepare for the agents of another stage, after all of the last one have left."""
        self._clear()
        self.expected = None

    def add(self, links: Iterable[AgentConnection]) -> None:
        """Serve new agents. Close a connection that comes after the gang's start, or with a number in use."""
        for link in links:
            if self._gang_started or link.agent in self._links:
                link.close()
                continue
            self._selector.register(link, selectors.EVENT_READ, link)
            self._deadline = -math.inf
            self._touched.add(link)
            if link.hello is not None:
                self._join(link, link.hello)
            self._links[link.agent] = link

    def on_readable(self, link: AgentConnection) -> None:
        """Record what an agent has sent."""
        self._touched.add(link)
        try:
            frames = link.receive()
        except ConnectionClosed as error:
            self.remove(link, str(error))
            return
        self.received += sum(len(frame.payload) for frame in frames)
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
        """Send a document to every agent that has joined, after the payloads that belong to it."""
        for agent in self._recorders.keys() & self._links.keys():
            self.send_to(agent, kind, make(agent), payloads)

    def send_to(
        self,
        agent: int,
        kind: Kind,
        document: Mapping[str, Any],
        payloads: Mapping[Kind, bytes] | None = None,
    ) -> None:
        """Send a document to an agent, after the payloads that belong to it; nothing if it has left."""
        if (link := self._links.get(agent)) is not None:
            self._touched.add(link)
            for payload_kind, data in (payloads or {}).items():
                link.send_payload(data, kind=payload_kind)
            link.send(kind, document)

    def is_here(self, agent: int) -> bool:
        """Whether an agent has not left."""
        return agent in self._links

    def has_room(self, agent: int) -> bool:
        """Whether an agent's connection takes more content at once; False if it has left."""
        link = self._links.get(agent)
        return link is not None and not link.wants_to_write

    def send_content(self, agent: int, piece: bytes | memoryview) -> None:
        """Send a piece of what an agent lacks; nothing if it has left."""
        if (link := self._links.get(agent)) is not None:
            self._touched.add(link)
            link.send_payload(piece, kind=Kind.CONTENT)
            link.flush()

    def begin(self) -> None:
        """Note that a gang starts: no agent is idle any more, and those without a hello are dropped."""
        self._gang_started = True
        self.active_at = self._monotonic()
        self.written.clear()
        self._idle.clear()
        for agent in self._links.keys() - self._recorders.keys():
            link = self._links.pop(agent)
            self._selector.unregister(link)
            link.close()

    def all_stacked(self, number: int) -> bool:
        """Whether every agent with ranks has reported all their stacks in this round."""
        return all(self.stacked.get(agent) == number for agent in self._links.keys() - self._idle)

    def dismiss(self) -> None:
        """Order all agents to quit, once."""
        if not self._dismissed:
            self._dismissed = True
            self.send(Kind.QUIT, lambda _: {})

    def flush(self) -> None:
        """Write what is queued, and watch for room only where something is still queued."""
        touched, self._touched = self._touched, set()
        for link in touched:
            link.flush()
            if link.wants_to_write:
                self._touched.add(link)
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if link.wants_to_write else 0)
            self._selector.modify(link, events, link)

    def poll_timeouts(self) -> None:
        """Send heartbeats and remove silent agents, at most every `POLL_S` seconds."""
        now = self._monotonic()
        if now < self._polled_at + POLL_S:
            return
        self._polled_at, self._deadline = now, -math.inf
        for link in list(self._links.values()):
            try:
                link.keep_alive(now)
            except ConnectionClosed as error:
                self.remove(link, str(error))
            else:
                self._touched.add(link)

    def timeout(self) -> float | None:
        """Seconds until `poll_timeouts` has something to do; None: never."""
        now = self._monotonic()
        if self._deadline == -math.inf:
            waits = (link.deadline(now) for link in self._links.values())
            self._deadline = min((now + wait for wait in waits if wait is not None), default=math.inf)
        due = max(self._deadline, self._polled_at + POLL_S)
        return None if due == math.inf else max(0.0, due - now)

    def remove(self, link: AgentConnection, reason: str) -> None:
        """Remove an agent whose channel has ended, and record that; it is expected if its ranks had finished.

        If ranks have no places yet, its task is recorded as lost too: no rank's end can show that.
        """
        self._selector.unregister(link)
        self._touched.discard(link)
        link.close()
        del self._links[link.agent]
        self.collection.on_departed(link.agent, finished=link.agent in self._idle)
        if recorder := self._recorders.pop(link.agent, None):
            recorder.close()
        expected, now, attempt = link.agent in self._idle, self._clock(), self._writer.state.attempt
        if not (self._writer.state.ranks or self._dismissed):
            why = f"its agent went away: {reason}"
            self._writer.append(ev.TaskLost(time=now, attempt=attempt, task=link.agent, reason=why))
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
            elif frame.kind is Kind.HELD:
                self.held[agent] = tuple(map(_port, _numbers(frame.document().get("ports"))))
            elif frame.kind is Kind.REACHED:
                self.reached[agent] = _ways(frame.document().get("found"))
            elif frame.kind is Kind.STACKED:
                self.stacked[agent] = frame.document().get("round", 0)
            elif frame.kind is Kind.LACKS:
                self.lacking[agent] = _numbers(frame.document().get("files"))
            elif frame.kind is Kind.PREPARED:
                self._prepared(agent, frame.document())
            elif frame.kind is Kind.SWEEPING:
                self.collection.on_sweeping(agent, frame.document())
            elif frame.kind is Kind.SHARES:
                self.shares.on_shares(agent, frame.document())
            elif frame.kind in _FILES:
                self.collection.on_pieces()
        if self._recorders[agent].record([f for f in frames if f.kind not in _ANSWERS]):
            self.active_at, self.activity_count = self._monotonic(), self.activity_count + 1
        for frame in frames:
            if frame.kind is Kind.SWEPT:  # after the files that came before it
                self.collection.on_swept(agent, frame.document())

    def tell_shares(self) -> None:
        """Tell agents what their ranks' shares have in common, and record all rows once they are known."""
        if (expected := self.expected) and (held := self.shares.advance(expected)):
            attempt = self._writer.state.attempt
            note = ev.NoteMade(time=self._clock(), attempt=attempt, text=rows_note(held.rows))
            self._writer.append(note)

    def _prepared(self, agent: int, document: Mapping[str, Any]) -> None:
        if "error" in document:
            self.unprepared[agent] = str(document["error"])
        else:
            self.prepared[agent] = str(document.get("folder", ""))
            if absent := _numbers(document.get("absent", [])):
                self.absent[agent] = absent
            if document.get("collects") is True:
                self.collection.collectors.add(agent)

    def _refuse_file(self, agent: int, path: str) -> None:
        self.send_to(agent, Kind.REFUSE, {"path": path})

    def _join(self, link: AgentConnection, hello: Hello) -> None:
        self._hellos[hello.agent] = hello
        self.ports[hello.agent] = hello.port
        incoming = AgentFiles(self._writer, hello, partial(self._refuse_file, hello.agent))
        self._recorders[hello.agent] = Recorder(self._writer, hello, self._clock, incoming, self.written)
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
                cuda=hello.cuda,
                clock_error=round(hello.clock_error, 6),
            )
        )
        if early := link.take_early():
            self._record(hello.agent, early)


def _port(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 65535:
        raise WireError(f"an agent reported the port {value!r:.40}")
    return value


def _numbers(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(each) is int for each in value):
        raise WireError(f"an agent lacks {value!r:.40}")
    return tuple(value)


def _ways(value: object) -> dict[str, Way]:
    """Ways by address."""
    if not isinstance(value, dict) or not all(map(_is_way, value.values())):
        raise WireError(f"an agent reached an invalid address: {value!r:.40}")
    return {address: Way(*way) for address, way in value.items()}


def _is_way(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(text, str) for text in value)


@contextlib.contextmanager
def _as_wire_errors() -> Iterator[None]:
    """Turn errors of decoding a fact into a `WireError`."""
    try:
        yield
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
        raise WireError(f"an agent sent an invalid fact: {error!r:.200}") from error


class Recorder:
    """Records the frames of one agent, whose files `incoming` takes; `written` gets their last output."""

    def __init__(
        self,
        writer: RunWriter,
        hello: Hello,
        clock: Callable[[], float],
        incoming: AgentFiles,
        written: dict[int, float],
    ) -> None:
        self._writer = writer
        self._incoming = incoming
        self._written = written
        self._hello = hello
        self._clock = clock
        self._results: dict[int, ResultFile] = {}
        self._output: list[tuple[Chunk, memoryview]] = []

    def record(self, frames: list[Frame]) -> bool:
        """Record frames in their order; output is gathered into few writes.

        Returns:
            Whether any of them is a rank's sign of life.

        Raises:
            WireError: a frame or fact that agents do not send.
        """
        shows_life = False
        for frame in frames:
            shows_life |= frame.kind in _BYTES
            if frame.kind is Kind.OUTPUT:
                self._output.append(self._chunk(frame))
                continue
            if frame.kind in _FILES:
                self._incoming.on_frame(frame)
                continue
            self._flush()
            if frame.kind is Kind.FACT:
                shows_life |= self._record_fact(frame.document()).shows_life
            else:
                self._record_other(frame)
        self._flush()
        return shows_life

    def close(self) -> None:
        """Discard incomplete results and files."""
        self._incoming.close()
        for result in self._results.values():
            result.discard()
        self._results.clear()

    def _chunk(self, frame: Frame) -> tuple[Chunk, memoryview]:
        time_ns = frame.time_ns - int(self._hello.clock_offset * 1e9)
        self._written[frame.rank] = time_ns / 1e9
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
        """Record a fact, except a note that another agent has sent already."""
        with _as_wire_errors():
            fact = ev.from_wire(fields, "agent", self._origin(fields))
        notes = self._writer.state.notes
        if not (isinstance(fact, ev.NoteMade) and any(fact.text == note.text for note in notes)):
            self._writer.append(fact)
        return fact

    def _origin(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """A fact's agent, attempt and time by both clocks. A fact without a time has just happened."""
        agent_time = float(fields.get("time") or self._clock() + self._hello.clock_offset)
        if not math.isfinite(agent_time):
            raise ValueError(f"the time {agent_time}")
        return {
            "time": min(max(agent_time - self._hello.clock_offset, 0.0), LATEST, self._clock()),
            "agent_time": agent_time,
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
        with _as_wire_errors():
            known = {**self._origin(fields), "rank": rank, "size": result.size}
            fact = from_plain(ev.RankReturned, {**fields, **known})
        self._writer.append(fact)

    def _discard(self, rank: int) -> None:
        with contextlib.suppress(KeyError):
            self._results.pop(rank).discard()
