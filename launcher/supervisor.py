"""One run from plan to verdict, on one thread: the loop between the agents, the folder and the caller.

Everything that happens becomes a fact first; what to do next is read from the folded state by the pure
rules of `launcher.verdict`. Other threads only ask for a stop, and wait for news.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from launcher import events as ev
from launcher.backends import Backend
from launcher.channel.link import Link
from launcher.codec import to_plain
from launcher.control import ControlServer
from launcher.errors import InternalError, LauncherError, RecordError, RunStopped
from launcher.frameworks.torch import Rendezvous, base_environ
from launcher.mailbox import Mailbox
from launcher.plan import Plan, rank_environ, thread_note
from launcher.request import Request
from launcher.roster import Roster
from launcher.runs.writer import RunWriter
from launcher.state import RunState
from launcher.verdict import next_stop, verdict
from launcher.worker.gang import SELECT_LIMIT_S
from launcher.worker.wire import Kind, WireError

JOIN_LIMIT_S = 60.0
CLOSE_LIMIT_S = 60.0


class Supervisor:
    """Carries one run. `run` is the thread's work; `submit` comes before it, in the caller's thread."""

    def __init__(
        self,
        request: Request,
        plan: Plan,
        folder: Path,
        backend: Backend,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.mailbox = Mailbox()
        self._request = request
        self._spec = request.spec
        self._plan = plan
        self._backend = backend
        self._clock = clock
        self._writer = RunWriter(folder, request.spec, payload=request.payload)
        self._selector = selectors.DefaultSelector()
        self._roster = Roster(self._writer, plan, self._selector, clock)
        self._control: ControlServer | None = None
        self._base = base_environ(request.environ, self._spec.env, python=request.python)
        self._opened = 0.0

    @property
    def state(self) -> RunState:
        """The run as folded so far; a frozen value, so any thread may look."""
        return self._writer.state

    def stop(self, *, reason: str, exit_code: int, force: bool = False) -> None:
        """Ask for the end of the run, from any thread; `force` skips the grace period."""
        self.mailbox.post(
            ev.StopRequested(
                time=self._clock(),
                by="person",
                reason=reason,
                exit_code=exit_code,
                grace_s=0.0 if force else self._spec.grace_s,
            )
        )

    def submit(self) -> None:
        """Record that the run exists, and listen for commands.

        Raises:
            RecordError: the folder cannot be written.
        """
        spec = self._spec
        submitted = ev.RunSubmitted(
            time=self._clock(),
            name=spec.label,
            target=spec.target.label,
            mode=spec.mode.value,
            num_processes=spec.num_processes,
            user=self._request.environ.get("USER", ""),
            host=os.uname().nodename,
            pid=os.getpid(),
        )
        try:
            self._writer.append(submitted)
        except OSError as error:
            raise RecordError(f"cannot write to {self._writer.folder}: {error.strerror}") from error
        self._control = ControlServer(self._writer.id, self._on_command)

    def run(self) -> None:
        """Carry the run to its verdict. Never raises: what breaks becomes the verdict."""
        broken, code = "", InternalError.exit_code
        try:
            self._open()
            while self._roster:
                self._turn()
        except LauncherError as error:
            broken, code = str(error), error.exit_code
        except (OSError, WireError) as error:
            broken = f"the run could not be carried on: {error}"
        except BaseException as error:  # noqa: BLE001  a defect of ours must end the run and be told
            broken = f"rankdeck failed: {type(error).__name__}: {error}"
        finally:
            self._close(broken, code)

    def _open(self) -> None:
        """Place the ranks, start the agents and listen to all who may speak."""
        self._opened = self._clock()
        self._writer.append(ev.GangPlaced(time=self._opened, ranks=self._plan.ranks))
        for text in filter(None, (*self._plan.notes, thread_note(self._plan, self._base))):
            self._writer.append(ev.NoteMade(time=self._opened, text=text))
        self._selector.register(self.mailbox, selectors.EVENT_READ, lambda: None)
        if self._control:
            self._selector.register(self._control, selectors.EVENT_READ, self._control.serve)
        self._roster.enlist(self._backend.launch(self._request, self._plan, self._writer.folder))

    def _turn(self) -> None:
        for key, _ in self._selector.select(self._timeout()):
            if not isinstance(key.data, Link):
                key.data()
            elif self._roster.hear(key.data) and self._roster.complete:
                self._start_gang()
        self._decide()
        self._roster.flush()
        self._writer.settle()
        self.mailbox.tell()

    def _timeout(self) -> float | None:
        """Seconds until a limit is reached; None while nothing is limited."""
        limits = []
        if self._spec.timeout_s is not None and self.state.stop is None:
            limits.append((self.state.started or self._opened) + self._spec.timeout_s)
        if not self._roster.complete:
            limits.append(self._opened + JOIN_LIMIT_S)
        return min(SELECT_LIMIT_S, max(0.0, min(limits) - self._clock())) if limits else None

    def _start_gang(self) -> None:
        """All agents are here: rank 0's agent holds the port, and every agent gets its ranks."""
        first = self._roster.hello(self._plan.ranks[0].agent)
        if first is None:
            return
        rendezvous = Rendezvous(
            address=self._backend.rendezvous_host(self._plan), port=first.port, run_id=self._writer.id
        )
        self._roster.send(
            Kind.START, lambda agent: self._order(agent, rendezvous), payload=self._request.payload
        )
        if self.state.stop is not None:
            self._send_stop(self.state.stop.grace_s)

    def _order(self, agent: int, rendezvous: Rendezvous) -> dict[str, Any]:
        places = self._plan.on(agent)
        return {
            "program": {"target": to_plain(self._spec.target), "path": self._request.path},
            "python": self._request.python,
            "cwd": self._spec.workdir,
            "env": self._base,
            "ranks": {str(p.rank): rank_environ(p, rendezvous, self._base) for p in places},
            "grace_s": self._spec.grace_s,
        }

    def _decide(self) -> None:
        """Carry out what the rules call for, and then what people asked for: a failure is not their doing."""
        now = self._clock()
        timeout_s, grace_s = self._spec.timeout_s, self._spec.grace_s
        if rule := next_stop(self.state, now=now, timeout_s=timeout_s, grace_s=grace_s):
            self._stop(rule)
        for request in self.mailbox.take():
            self._stop(request)
        if not self._roster.complete and now >= self._opened + JOIN_LIMIT_S:
            raise InternalError(f"an agent did not join within {JOIN_LIMIT_S:g} s")
        if self._roster.finished:
            self._roster.dismiss()

    def _stop(self, request: ev.StopRequested) -> None:
        if self.state.stop is None:
            self._writer.append(request)
        self._send_stop(request.grace_s)

    def _send_stop(self, grace_s: float) -> None:
        self._roster.send(Kind.STOP, lambda _: {"grace_s": grace_s})

    def _on_command(self, command: dict[str, Any]) -> None:
        """A command from another process of the same user."""
        self.stop(
            reason=str(command.get("reason", "on request")),
            exit_code=int(command.get("exit_code", RunStopped.exit_code)),
            force=bool(command.get("force", False)),
        )

    def _close(self, broken: str, code: int) -> None:
        """Release everything, wait for the agents' processes, and pronounce; whoever waits is woken."""
        with contextlib.ExitStack() as ends:
            ends.callback(self.mailbox.close)
            ends.callback(self._selector.close)
            if self._control:
                ends.callback(self._control.close)
            ends.callback(self._record, self._writer.close)
            self._record(self._roster.drop_all)
            self._backend.close(CLOSE_LIMIT_S)
            if complaint := self._backend.complaint():
                note = ev.NoteMade(time=self._clock(), text=complaint, level="error")
                self._record(lambda: self._writer.append(note))
            self._record(self._writer.settle)
            ended = verdict(self.state, now=self._clock(), broken=broken, exit_code=code)
            self._record(lambda: self._writer.append(ended))

    def _record(self, write: Callable[[], object]) -> None:
        """Write if the disk lets us: at the end there is nobody left to tell that it did not."""
        with contextlib.suppress(OSError):
            write()
