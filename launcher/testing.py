"""Fakes for code that is built on `launcher`, used by its own tests: a clock, and agents without processes.

A scripted agent speaks the real protocol over a real pair of sockets, so everything above the agent runs
as it does in a cluster; what it says and when is a plain function. Nothing here is imported by the rest.
"""

from __future__ import annotations

import pickle
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launcher.channel.link import Link
from launcher.plan import Plan
from launcher.request import Request
from launcher.spec import Offer
from launcher.worker import handshake, wire
from launcher.worker.rankline import DATA
from launcher.worker.summary import describe
from launcher.worker.wire import Frame, Kind


@dataclass(slots=True)
class FakeClock:
    """A clock that moves when told to. Call it for the time in seconds."""

    now: float = 1_700_000_000.0

    def __call__(self) -> float:
        """The time that it shows."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


@dataclass(slots=True)
class Voice:
    """A scripted agent's mouth and ears. Every method blocks until it is done.

    Attributes:
        agent: the agent's number.
        sock: its end of the channel.
        token: the run's token.
        host: the host that it says it is on.
        skew: its clock minus the engine's, in seconds.
        heard: every frame that came, in order.
    """

    agent: int
    sock: socket.socket
    token: str
    host: str
    skew: float = 0.0
    heard: list[Frame] = field(default_factory=list)
    _decoder: wire.Decoder = field(default_factory=wire.Decoder)
    _unread: list[Frame] = field(default_factory=list)

    def join(self, **changes: Any) -> None:
        """Prove itself and say hello; `changes` replace parts of the hello."""
        nonce = handshake.new_nonce()
        self.send(Kind.READY, {"nonce": nonce, "agent": self.agent, "protocol": wire.PROTOCOL})
        theirs = str(self.expect(Kind.CHALLENGE).document()["nonce"])
        hello = {
            "proof": handshake.proof(self.token, "agent", nonce, theirs),
            "time": time.time() + self.skew,
            "host": self.host,
            "pid": 1000 + self.agent,
            "python": "3.11.0",
            "port": 40000 + self.agent,
        }
        self.send(Kind.HELLO, {**hello, **changes})

    def send(self, kind: Kind, document: Mapping[str, Any]) -> None:
        """Send a JSON frame."""
        self.sock.sendall(wire.document(kind, document))

    def expect(self, kind: Kind) -> Frame:
        """The next frame of a kind; others are kept in `heard` and passed over.

        Raises:
            ConnectionError: the engine closed the channel first.
        """
        while True:
            while self._unread:
                frame = self._unread.pop(0)
                self.heard.append(frame)
                if frame.kind is kind:
                    return frame
            data = self.sock.recv(1 << 16)
            if not data:
                raise ConnectionError(f"the engine left while a {kind.name} was expected")
            self._unread += self._decoder.feed(data)

    def fact(self, event: str, *, time: float | None = None, **fields: Any) -> None:
        """Tell a fact, now on its own clock unless `time` is given on that clock."""
        self.send(Kind.FACT, {"event": event, "time": self.clock() if time is None else time, **fields})

    def clock(self) -> float:
        """The agent's own clock."""
        return time.time() + self.skew

    def output(self, rank: int, stream: int, data: bytes) -> None:
        """A piece of a rank's output."""
        stamp = int(self.clock() * 1e9)
        self.sock.sendall(wire.encode(Frame(Kind.OUTPUT, data, rank, stream, stamp)))

    def result(self, rank: int, value: object) -> None:
        """A rank's whole return value."""
        data = pickle.dumps(value)
        self.sock.sendall(wire.encode(Frame(Kind.RESULT_BEGIN, rank=rank)))
        for start in range(0, len(data), DATA):
            self.sock.sendall(wire.encode(Frame(Kind.RESULT_DATA, data[start : start + DATA], rank)))
        self.sock.sendall(wire.document(Kind.RESULT_END, describe(value), rank=rank))

    def play(self, ranks: Sequence[int], *, codes: Mapping[int, int] | None = None) -> None:
        """An ordinary life: join, start, enter, exit with the given codes, prove, leave when told to."""
        self.join()
        self.expect(Kind.START)
        for rank in ranks:
            self.fact("rank_started", rank=rank, pid=2000 + rank)
            self.fact("rank_entered", rank=rank)
        for rank in ranks:
            self.fact("rank_exited", rank=rank, exit_code=(codes or {}).get(rank, 0))
        self.leave()

    def leave(self) -> None:
        """Prove that nothing is left, and go when dismissed."""
        self.fact("cleanup_proven")
        self.send(Kind.IDLE, {})
        self.expect(Kind.QUIT)
        self.sock.close()


Script = Callable[[Voice], None]


class ScriptedBackend:
    """A `Backend` whose agents are threads that follow scripts, one for each offer."""

    def __init__(
        self, offers: Sequence[Offer], scripts: Sequence[Script], *, skews: Sequence[float] = ()
    ) -> None:
        self._offers = tuple(offers)
        self._scripts = tuple(scripts)
        self._skews = tuple(skews) or (0.0,) * len(self._offers)
        self._threads: list[threading.Thread] = []
        self.voices: list[Voice] = []
        self.errors: list[BaseException] = []

    def offers(self, request: Request) -> tuple[Sequence[Offer], str]:
        """What the test said there is."""
        del request
        return self._offers, ""

    def launch(self, request: Request, plan: Plan, folder: Path) -> Sequence[Link]:
        """Start the scripts."""
        del request, plan, folder
        links = []
        for offer, script, skew in zip(self._offers, self._scripts, self._skews, strict=True):
            near, far = socket.socketpair()
            voice = Voice(offer.agent, far, handshake.new_token(), offer.host, skew)
            self.voices.append(voice)
            links.append(Link(near, offer.agent, voice.token))
            self._threads.append(threading.Thread(target=self._follow, args=(script, voice)))
            self._threads[-1].start()
        return links

    def rendezvous_host(self, plan: Plan) -> str:
        """Rank 0's host, by name."""
        return plan.ranks[0].host

    def close(self, timeout_s: float) -> bool:
        """Wait for the scripts to end; whether all did."""
        for thread in self._threads:
            thread.join(timeout_s)
        return not any(thread.is_alive() for thread in self._threads)

    def complaint(self) -> str:
        """Scripts do not complain."""
        return ""

    def _follow(self, script: Script, voice: Voice) -> None:
        try:
            script(voice)
        except (ConnectionError, AssertionError) as error:
            self.errors.append(error)
        finally:
            voice.sock.close()
