"""Fakes for tests of `launcher` and of code that uses it: a clock, and agents without processes.

A scripted agent uses the real protocol over a real pair of sockets, so all code above the agent runs as it
does in a cluster; a plain function decides what it sends and when. No other module of `launcher` imports this
one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .agent.rank_pipe import DATA
from .backends.base import AgentsExpected, News, StageOver
from .channel import frames, handshake
from .channel.connection import AgentConnection
from .channel.frames import Frame, Kind
from .errors import LauncherError
from .placement.plan import Plan
from .selectable_queue import SelectableQueue
from .spec.places import Offer
from .spec.request import Request
from .state import events as ev
from .state.summary import describe

Script = Callable[["ScriptedAgent"], None]


@dataclass(slots=True)
class FakeClock:
    """A clock that moves only by `advance`. Call it for the time in seconds."""

    now: float = 1_700_000_000.0

    def __call__(self) -> float:
        """The clock's time."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


@dataclass(slots=True)
class ScriptedAgent:
    """The methods by which a script acts as an agent. Each blocks until it is done.

    Attributes:
        agent: the agent's number.
        sock: its end of the channel.
        token: the run's token.
        host: the host name that it reports.
        skew: its clock minus the engine's, in seconds.
        received: every frame that was received, in order.
    """

    agent: int
    sock: socket.socket
    token: str
    host: str
    skew: float = 0.0
    received: list[Frame] = field(default_factory=list)
    _decoder: frames.Decoder = field(default_factory=frames.Decoder)
    _unread: list[Frame] = field(default_factory=list)

    def join(self, **changes: Any) -> None:
        """Authenticate and send the hello; `changes` replace parts of it."""
        nonce = handshake.new_nonce()
        self.send(Kind.READY, {"nonce": nonce, "agent": self.agent, "protocol": frames.PROTOCOL})
        theirs = str(self.expect(Kind.CHALLENGE).document()["nonce"])
        hello = {
            "proof": handshake.proof(self.token, "agent", nonce, theirs),
            "time": time.time() + self.skew,
            "host": self.host,
            "pid": 1000 + self.agent,
            "python": "3.11.0",
            "port": 40000 + self.agent,
            "address": self.host,
        }
        self.send(Kind.HELLO, {**hello, **changes})

    def send(self, kind: Kind, document: Mapping[str, Any]) -> None:
        """Send a JSON frame."""
        self.sock.sendall(frames.document(kind, document))

    def expect(self, kind: Kind) -> Frame:
        """Wait for the next frame of a kind; frames of other kinds are only added to `received`.

        To a script that does not wait for PREPARE, the run's files are there: it answers so.

        Raises:
            ConnectionError: the engine closed the channel first.
        """
        while True:
            while self._unread:
                frame = self._unread.pop(0)
                self.received.append(frame)
                if frame.kind is kind:
                    return frame
                if frame.kind is Kind.PREPARE:
                    self.send(Kind.PREPARED, {"folder": ""})
            data = self.sock.recv(1 << 16)
            if not data:
                raise ConnectionError(f"the engine left while a {kind.name} was expected")
            self._unread += self._decoder.feed(data)

    def fact(self, kind: type[ev.Event], /, **fields: Any) -> None:
        """Send a fact of a kind; by default it is about this agent, and has the time of the agent's clock."""
        own = {"time": self.clock(), "agent": self.agent, "host": self.host}
        known = {f.name: own[f.name] for f in dataclasses.fields(kind) if f.name in own}
        self.send(Kind.FACT, ev.to_wire(kind(**{**known, **fields})))

    def clock(self) -> float:
        """The time by the agent's clock."""
        return time.time() + self.skew

    def output(self, rank: int, stream: int, data: bytes) -> None:
        """Send a piece of a rank's output."""
        stamp = int(self.clock() * 1e9)
        self.sock.sendall(frames.encode(Frame(Kind.OUTPUT, data, rank, stream, stamp)))

    def result(self, rank: int, value: object) -> None:
        """Send a rank's complete return value."""
        data = pickle.dumps(value)
        self.sock.sendall(frames.encode(Frame(Kind.RESULT_BEGIN, rank=rank)))
        for start in range(0, len(data), DATA):
            self.sock.sendall(frames.encode(Frame(Kind.RESULT_DATA, data[start : start + DATA], rank)))
        self.sock.sendall(frames.document(Kind.RESULT_END, describe(value), rank=rank))

    def play(self, ranks: Sequence[int], *, codes: Mapping[int, int] | None = None) -> None:
        """Act as an agent whose ranks start, enter and exit with the given codes, and leave."""
        self.join()
        self.expect(Kind.START)
        for rank in ranks:
            self.fact(ev.RankStarted, rank=rank, pid=2000 + rank)
            self.fact(ev.RankEntered, rank=rank)
        for rank in ranks:
            self.fact(ev.RankExited, rank=rank, exit_code=(codes or {}).get(rank, 0))
        self.leave()

    def leave(self) -> None:
        """Report that nothing is left, and close the channel once the engine sends QUIT."""
        self.fact(ev.CleanupProven)
        self.send(Kind.IDLE, {})
        self.expect(Kind.QUIT)
        self.sock.close()


class _Scripted:
    """The common part of the backends of scripted agents."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self.box: SelectableQueue[News] = SelectableQueue()
        self.agents: list[ScriptedAgent] = []
        self.errors: list[BaseException] = []
        self.aborts = 0

    def reserve(self, request: Request, *, whole: bool) -> bool:
        """There is room for every run."""
        del request, whole
        return True

    def fileno(self) -> int:
        """Readable while there is news."""
        return self.box.fileno()

    def news(self) -> list[News]:
        """The scripts' connections; tests may put other news into `box`."""
        return self.box.take()

    def abort(self) -> None:
        """Shut down every script's connection."""
        self.aborts += 1
        self._disconnect()

    def close(self, timeout_s: float) -> bool:
        """Wait for the scripts to end; whether all did."""
        self.box.close()
        for thread in self._threads:
            thread.join(timeout_s)
        return not any(thread.is_alive() for thread in self._threads)

    def settings(self, names: Sequence[str]) -> Mapping[str, str]:
        """Scripts have no scheduler."""
        del names
        return {}

    def complaint(self) -> str:
        """Scripts write nothing to stderr."""
        return ""

    def _begin(self, agent: int, host: str, script: Script, skew: float = 0.0) -> None:
        near, far = socket.socketpair()
        scripted = ScriptedAgent(agent, far, handshake.new_token(), host, skew)
        self.agents.append(scripted)
        self.box.put(AgentConnection(near, agent, scripted.token))
        self._threads.append(threading.Thread(target=self._follow, args=(script, scripted)))
        self._threads[-1].start()

    def _follow(self, script: Script, scripted: ScriptedAgent) -> None:
        try:
            script(scripted)
        except ConnectionError as error:
            self.errors.append(error)
        except Exception as error:  # noqa: BLE001  whatever it is, no other script may wait for this one
            self.errors.append(error)
            self._disconnect()
        finally:
            scripted.sock.close()

    def _disconnect(self) -> None:
        for scripted in self.agents:
            with contextlib.suppress(OSError):  # the script has closed it already
                scripted.sock.shutdown(socket.SHUT_RDWR)


class ScriptedBackend(_Scripted):
    """A `Backend` whose agents are threads that follow scripts, one for each offer, as in local mode."""

    def __init__(
        self, offers: Sequence[Offer], scripts: Sequence[Script], *, skews: Sequence[float] = ()
    ) -> None:
        super().__init__()
        self._offers = tuple(offers)
        self._scripts = tuple(scripts)
        self._skews = tuple(skews) or (0.0,) * len(self._offers)

    def offers(self, request: Request) -> tuple[Sequence[Offer] | None, str]:
        """The test's offers."""
        del request
        return self._offers, ""

    def launch(self, request: Request, plan: Plan | None, folder: Path, *, attempt: int) -> None:
        """Start the scripts."""
        del request, plan, folder, attempt
        self.box.put(AgentsExpected(len(self._offers)))
        for offer, script, skew in zip(self._offers, self._scripts, self._skews, strict=True):
            self._begin(offer.agent, offer.host, script, skew)
        self.box.put(StageOver())


@dataclass(frozen=True, slots=True)
class ScriptedStage:
    """What one launch of a `ScriptedCluster` does.

    Attributes:
        scripts: one for each agent, by number; each on its own host, ``host0`` and so on.
        expect: the number of agents that is reported to the engine; None for the number of scripts.
        facts: the news that is reported when all scripts have ended, before the end of the stage.
        error: the error with which the stage ends.
        stuck: whether the stage does not end with its agents, but only by `ScriptedCluster.end`.
    """

    scripts: Sequence[Script]
    expect: int | None = None
    facts: Sequence[News] = ()
    error: LauncherError | None = None
    stuck: bool = False


class ScriptedCluster(_Scripted):
    """A `Backend` of scripted agents as in the cluster modes: it cannot say before what agents will offer.

    Each launch is the next of the stages; a stage ends when its scripts have ended.
    """

    def __init__(self, *stages: ScriptedStage) -> None:
        super().__init__()
        self._stages = list(stages)
        self._may_end = threading.Event()
        self.launches = 0

    def offers(self, request: Request) -> tuple[Sequence[Offer] | None, str]:
        """No offers are known before the agents join."""
        del request
        return None, ""

    def launch(self, request: Request, plan: Plan | None, folder: Path, *, attempt: int) -> None:
        """Start the scripts of the next stage."""
        del request, plan, folder, attempt
        stage = self._stages[self.launches]
        self._may_end.clear()
        self.launches += 1
        self.box.put(AgentsExpected(len(stage.scripts) if stage.expect is None else stage.expect))
        for agent, script in enumerate(stage.scripts):
            self._begin(agent, f"host{agent}", script)
        mine = self._threads[len(self._threads) - len(stage.scripts) :]
        self._threads.append(threading.Thread(target=self._end, args=(stage, mine)))
        self._threads[-1].start()

    def abort(self) -> None:
        """Shut down every script's connection, and let the stage end."""
        super().abort()
        self.end()

    def end(self) -> None:
        """Let a stage end that is stuck, or has no scripts."""
        self._may_end.set()

    def close(self, timeout_s: float) -> bool:
        """Wait for scripts and stages to end; whether all did."""
        self.abort()
        return super().close(timeout_s)

    def _end(self, stage: ScriptedStage, threads: Sequence[threading.Thread]) -> None:
        for thread in threads:
            thread.join()
        if stage.stuck or not threads:
            self._may_end.wait()
        self.box.put(*stage.facts, StageOver(stage.error))
