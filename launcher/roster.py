"""The agents of one run: who has joined, who is done, who is gone, and how to speak to them all."""

from __future__ import annotations

import selectors
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from launcher import events as ev
from launcher.channel.link import Hello, Link, LinkClosed
from launcher.plan import Plan
from launcher.recorder import Recorder
from launcher.runs.writer import RunWriter
from launcher.worker.wire import Kind


class Roster:
    """Links and their recorders, by agent. What happens to them is written as facts."""

    def __init__(
        self,
        writer: RunWriter,
        plan: Plan,
        selector: selectors.BaseSelector,
        clock: Callable[[], float],
    ) -> None:
        self._writer = writer
        self._plan = plan
        self._selector = selector
        self._clock = clock
        self._links: dict[int, Link] = {}
        self._recorders: dict[int, Recorder] = {}
        self._idle: set[int] = set()
        self._dismissed = False

    def __bool__(self) -> bool:
        return bool(self._links)

    @property
    def complete(self) -> bool:
        """Whether every agent that is still here has joined."""
        return self._recorders.keys() >= self._links.keys()

    @property
    def finished(self) -> bool:
        """Whether every agent has proven that its ranks are gone."""
        return bool(self._links) and self._idle >= self._links.keys()

    def hello(self, agent: int) -> Hello | None:
        """What an agent said when it joined."""
        return self._links[agent].hello if agent in self._links else None

    def enlist(self, links: Iterable[Link]) -> None:
        """Begin to listen to agents that were started."""
        for link in links:
            self._links[link.agent] = link
            self._selector.register(link, selectors.EVENT_READ, link)

    def hear(self, link: Link) -> bool:
        """Record what an agent said; whether it joined just now."""
        try:
            frames = link.receive()
        except LinkClosed as error:
            self.depart(link, str(error))
            return False
        joined = link.hello is not None and link.agent not in self._recorders
        if link.hello is not None and joined:
            self._join(link.hello)
        if frames:
            self._recorders[link.agent].take(frames)
            if any(f.kind is Kind.IDLE for f in frames):
                self._idle.add(link.agent)
        return joined

    def send(
        self, kind: Kind, make: Callable[[int], Mapping[str, Any]], payload: bytes | None = None
    ) -> None:
        """Say something to every agent that has joined."""
        for agent in self._recorders.keys() & self._links.keys():
            if payload is not None:
                self._links[agent].send_payload(payload)
            self._links[agent].send(kind, make(agent))

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

    def depart(self, link: Link, reason: str) -> None:
        """An agent's channel has ended: expected if it had finished."""
        self._selector.unregister(link)
        link.close()
        del self._links[link.agent]
        if recorder := self._recorders.get(link.agent):
            recorder.close()
        expected = link.agent in self._idle
        self._writer.append(
            ev.AgentDeparted(
                time=self._clock(),
                agent=link.agent,
                host=link.hello.host if link.hello else "",
                expected=expected,
                reason="" if expected else reason,
            )
        )

    def drop_all(self) -> None:
        """Close every channel; the agents then end their ranks by themselves."""
        for link in list(self._links.values()):
            self.depart(link, "the run was abandoned")

    def _join(self, hello: Hello) -> None:
        self._recorders[hello.agent] = Recorder(self._writer, hello, self._clock)
        self._writer.append(
            ev.AgentJoined(
                time=self._clock(),
                agent=hello.agent,
                host=hello.host,
                pid=hello.pid,
                python=hello.python,
                clock_offset=round(hello.clock_offset, 6),
                devices=tuple(d for r in self._plan.on(hello.agent) for d in r.devices),
            )
        )
