"""One run from plan to verdict, on one thread: the loop between the agents, the folder and the caller.

Everything that happens becomes a fact first; what to do next is read from the folded state by the pure
rules of `launcher.verdict`. Other threads only ask for a stop, and wait for news.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from launcher import events as ev
from launcher.backends import Backend
from launcher.channel.link import Hello, Link, LinkClosed
from launcher.codec import to_plain
from launcher.control import ControlServer
from launcher.errors import LauncherError, RecordError
from launcher.frameworks.torch import Rendezvous, base_environ
from launcher.plan import Plan, rank_environ, thread_note
from launcher.recorder import Recorder
from launcher.request import Request
from launcher.runs.writer import RunWriter
from launcher.state import RunState
from launcher.verdict import next_stop, verdict
from launcher.worker.wire import Kind, WireError

JOIN_LIMIT_S = 60.0
CLOSE_LIMIT_S = 60.0
LOST_CLOSE_LIMIT_S = 5.0


class Supervisor:
    """Carries one run. `run` is the thread's work; `stop` and `wait_for_news` are for others."""

    def __init__(
        self,
        request: Request,
        plan: Plan,
        folder: Path,
        backend: Backend,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._request = request
        self._spec = request.spec
        self._plan = plan
        self._backend = backend
        self._clock = clock
        self._writer = RunWriter(folder, request.spec, payload=request.payload)
        self._selector = selectors.DefaultSelector()
        self._links: dict[int, Link] = {}
        self._recorders: dict[int, Recorder] = {}
        self._idle: set[int] = set()
        self._asked: list[ev.StopRequested] = []
        self._quitting = False
        self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._news = threading.Condition()
        self._version = 0
        self._broken = ""
        self.done = threading.Event()

    @property
    def state(self) -> RunState:
        """The run as folded so far; a frozen value, so any thread may look."""
        return self._writer.state

    # --- for other threads ---------------------------------------------------------------------------

    def stop(self, *, reason: str, exit_code: int, force: bool = False) -> None:
        """Ask for the end of the run; a second time with `force` to skip the grace period."""
        request = ev.StopRequested(
            time=self._clock(),
            by="person",
            reason=reason,
            exit_code=exit_code,
            grace_s=0.0 if force else self._spec.grace_s,
        )
        self._asked.append(request)
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._wake[1], b"s")

    def wait_for_news(self, seen: int, timeout: float | None = None) -> int:
        """Block until something was recorded after version `seen`, or time is up; the version now."""
        with self._news:
            self._news.wait_for(lambda: self._version != seen or self.done.is_set(), timeout)
            return self._version

    # --- the run -------------------------------------------------------------------------------------

    def run(self) -> None:
        """Carry the run to its verdict. Never raises: what breaks becomes the verdict."""
        try:
            self._open()
            self._loop()
        except LauncherError as error:
            self._broken = str(error)
        except (OSError, WireError) as error:
            self._broken = f"the run could not be recorded: {error}"
        except BaseException as error:  # noqa: BLE001  a defect of ours must end the run and be told
            self._broken = f"rankdeck failed: {type(error).__name__}: {error}"
        finally:
            self._close()

    def submit(self) -> None:
        """Record that the run exists. Done by the caller's thread, so that its errors are the caller's.

        Raises:
            RecordError: the folder cannot be written.
        """
        spec = self._spec
        try:
            self._writer.append(
                ev.RunSubmitted(
                    time=self._clock(),
                    name=spec.label,
                    target=spec.target.label,
                    mode=spec.mode.value,
                    num_processes=spec.num_processes,
                    user=self._request.environ.get("USER", ""),
                    host=os.uname().nodename,
                    pid=os.getpid(),
                )
            )
        except OSError as error:
            raise RecordError(f"cannot write to {self._writer.folder}: {error.strerror}") from error

    def _open(self) -> None:
        """Place the ranks, start the agents and listen."""
        self._append(ev.GangPlaced(time=self._clock(), ranks=self._plan.ranks))
        base = self._base_environ()
        notes = [*self._plan.notes, thread_note(self._plan, base)]
        for text in filter(None, notes):
            self._append(ev.NoteMade(time=self._clock(), text=text))
        self._selector.register(self._wake[0], selectors.EVENT_READ, self._on_wake)
        control = ControlServer(self._writer.id, self._on_command)
        self._selector.register(control, selectors.EVENT_READ, control.serve)
        self._control = control
        for link in self._backend.launch(self._request, self._plan, self._writer.folder):
            self._links[link.agent] = link
            self._selector.register(link, selectors.EVENT_READ, link)

    def _base_environ(self) -> dict[str, str]:
        request = self._request
        return base_environ(request.environ, self._spec.env, python=request.python)

    def _loop(self) -> None:
        started = self._clock()
        while self._links:
            for key, _ in self._selector.select(self._timeout(started)):
                if isinstance(key.data, Link):
                    self._hear(key.data)
                else:
                    key.data()
            self._decide(started)
            for link in self._links.values():
                link.flush()
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE * link.wants_to_write)
                self._selector.modify(link, events, link)
            self._tell()

    def _timeout(self, started: float) -> float | None:
        """Seconds until a limit is reached; None while nothing is limited."""
        limits = []
        if self._spec.timeout_s is not None and self.state.stop is None:
            limits.append((self.state.started or started) + self._spec.timeout_s)
        if len(self._recorders) < len(self._links):
            limits.append(started + JOIN_LIMIT_S)
        return max(0.0, min(limits) - self._clock()) if limits else None

    def _hear(self, link: Link) -> None:
        """Record what one agent said; the end of its channel is a fact too."""
        try:
            frames = link.receive()
        except LinkClosed as error:
            self._depart(link, str(error))
            return
        if link.hello and link.agent not in self._recorders:
            self._join(link, link.hello)
        if frames:
            self._recorders[link.agent].take(frames)
            if any(f.kind is Kind.IDLE for f in frames):
                self._idle.add(link.agent)

    def _join(self, link: Link, hello: Hello) -> None:
        self._recorders[link.agent] = Recorder(self._writer, hello, self._clock)
        self._append(
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
        if len(self._recorders) == len(self._links):
            self._start_gang()

    def _start_gang(self) -> None:
        """All agents are here: rank 0's agent holds the port, and every agent gets its ranks."""
        first = self._links[self._plan.ranks[0].agent].hello
        assert first is not None
        rendezvous = Rendezvous(
            address=self._backend.rendezvous_host(self._plan), port=first.port, run_id=self._writer.id
        )
        base = self._base_environ()
        for link in self._links.values():
            if self._request.payload is not None:
                link.send_payload(self._request.payload)
            link.send(Kind.START, self._order(link.agent, rendezvous, base))
        if self.state.stop is not None:
            self._send_stop(self.state.stop.grace_s)

    def _order(self, agent: int, rendezvous: Rendezvous, base: dict[str, str]) -> dict[str, Any]:
        places = self._plan.on(agent)
        return {
            "target": to_plain(self._spec.target),
            "python": self._request.python,
            "cwd": self._spec.workdir,
            "env": base,
            "ranks": {str(p.rank): rank_environ(p, rendezvous, base) for p in places},
            "grace_s": self._spec.grace_s,
        }

    # --- decisions -----------------------------------------------------------------------------------

    def _decide(self, started: float) -> None:
        for request in self._asked:
            self._stop(request)
        self._asked = []
        now = self._clock()
        if len(self._recorders) < len(self._links) and now >= started + JOIN_LIMIT_S:
            self._broken = f"an agent did not join within {JOIN_LIMIT_S:g} s"
            self._drop_all()
            return
        rule = next_stop(self.state, now=now, timeout_s=self._spec.timeout_s, grace_s=self._spec.grace_s)
        if rule is not None:
            self._stop(rule)
        if not self._quitting and self._links and self._idle.issuperset(self._links):
            self._quitting = True
            for link in self._links.values():
                link.send(Kind.QUIT, {})

    def _stop(self, request: ev.StopRequested) -> None:
        if self.state.stop is None:
            self._append(request)
        self._send_stop(request.grace_s)

    def _send_stop(self, grace_s: float) -> None:
        for agent, link in list(self._links.items()):
            if agent in self._recorders:
                link.send(Kind.STOP, {"grace_s": grace_s})

    def _depart(self, link: Link, reason: str) -> None:
        self._selector.unregister(link)
        link.close()
        del self._links[link.agent]
        if recorder := self._recorders.get(link.agent):
            recorder.close()
        hello = link.hello
        expected = link.agent in self._idle
        self._append(
            ev.AgentDeparted(
                time=self._clock(),
                agent=link.agent,
                host=hello.host if hello else "",
                expected=expected,
                reason="" if expected else reason,
            )
        )

    def _drop_all(self) -> None:
        for link in list(self._links.values()):
            self._depart(link, "dropped")

    def _on_wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake[0], 4096):
                pass

    def _on_command(self, command: dict[str, Any]) -> None:
        """A command from another process of the same user."""
        self.stop(
            reason=str(command.get("reason", "on request")),
            exit_code=int(command.get("exit_code", 143)),
            force=bool(command.get("force", False)),
        )

    # --- the end -------------------------------------------------------------------------------------

    def _close(self) -> None:
        """Release everything, wait for the agents' processes, and pronounce."""
        with contextlib.suppress(OSError):
            self._drop_all()
        for recorder in self._recorders.values():
            recorder.close()
        self._backend.close(LOST_CLOSE_LIMIT_S if self._broken else CLOSE_LIMIT_S)
        with contextlib.suppress(OSError):
            self._append(verdict(self.state, now=self._clock(), broken=self._broken))
        with contextlib.suppress(OSError):
            self._writer.close()
        for key in list(self._selector.get_map().values()):
            self._selector.unregister(key.fileobj)
        if control := getattr(self, "_control", None):
            control.close()
        self._selector.close()
        for descriptor in self._wake:
            os.close(descriptor)
        self.done.set()
        self._tell()

    def _append(self, event: ev.Event) -> None:
        self._writer.append(event)

    def _tell(self) -> None:
        with self._news:
            self._version += 1
            self._news.notify_all()
