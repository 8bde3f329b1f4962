"""An agent that can do without the engine that sent it: where executors cannot reach it, they make their own.

    dial home       all agents do so first; if all come, everything is as with any agent
    gather          if not, all tasks of the stage tell each other what they found, once, by way of Spark
    field           the agent of task 0 has an engine beside it, to which all agents go, its own included

What the field engine records goes to a folder that the home engine sees too, or home with task 0 at the end.
Standard library only, as all that runs on executors.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from launcher.worker import litter, network, warden
from launcher.worker.agent import Agent, Regroup, lasting
from launcher.worker.boot import STDIN, Boot, Endpoint, read_boot
from launcher.worker.dial import Unreachable, dial
from launcher.worker.engineline import EngineLine
from launcher.worker.greeting import Belongings, belongings

_STDOUT = 1
_ANSWER_BYTES = 1 << 16


def main() -> None:
    """Run as an agent, under a warden that outlives it."""
    root = sys.path[0]
    boot = read_boot()
    task = Task()
    if boot.agent and boot.standing >= 0:
        os.close(boot.standing)  # as much memory as the request is large, and only the first has use for it
    warden.split(keep_from_warden=task.descriptor)
    own = belongings(boot)
    try:
        at_home(boot, own, lasting(root))
    except (Unreachable, Regroup) as reason:
        if boot.standing < 0:
            sys.exit(str(reason))
        afield(boot, own, lasting(root), task, reason)


class Task:
    """The Spark task that started this agent: it is asked on standard output, which nothing else may use."""

    def __init__(self) -> None:
        self.descriptor = os.dup(_STDOUT)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, _STDOUT)
        os.close(null)

    def gather(self, said: dict[str, Any]) -> list[dict[str, Any]]:
        """What all agents say, by number, once all have said it.

        Raises:
            OSError: the task has gone.
        """
        self._ask({"gather": json.dumps(said)})
        answer = bytearray()
        while not answer.endswith(b"\n"):
            piece = os.read(STDIN, _ANSWER_BYTES)
            if not piece:
                raise ConnectionError("Spark ended the task")
            answer += piece
        return [json.loads(text) for text in json.loads(answer)]

    def carry(self, data: bytes) -> None:
        """Send bytes home with the task's rows.

        Raises:
            OSError: the task has gone.
        """
        self._ask({"carry": len(data)}, data)

    def _ask(self, document: dict[str, Any], data: bytes = b"") -> None:
        rest = memoryview(json.dumps(document).encode() + b"\n" + data)
        while rest:
            rest = rest[os.write(self.descriptor, rest) :]


def at_home(boot: Boot, own: Belongings, root: str) -> None:
    """Be an agent of the engine at home, to the end.

    Raises:
        Unreachable: there is no way to it.
        Regroup: it says that others have none.
    """
    _serve(boot, own, root, boot.endpoints)


def _serve(boot: Boot, own: Belongings, root: str, endpoints: Sequence[Endpoint]) -> None:
    with ending_with_the_task():
        stream = dial([(e.host, e.port) for e in endpoints], boot.credentials, boot.dial_s)
    with contextlib.closing(stream):  # the engine may be in this process, and would wait for its end
        Agent(boot, own, EngineLine(stream, boot.lost_after_s), root).run()


@contextlib.contextmanager
def ending_with_the_task() -> Iterator[None]:
    """While this lasts, the end of the Spark task is the end of this process: there are no ranks yet."""
    done, stop = os.pipe()

    def watch() -> None:
        if STDIN in select.select([STDIN, done], [], [])[0]:
            os._exit(1)

    watcher = threading.Thread(target=watch, name="rankdeck-lifeline", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        os.close(stop)
        watcher.join()
        os.close(done)


def afield(boot: Boot, own: Belongings, root: str, task: Task, reason: Unreachable | Regroup) -> None:
    """Agree with the others, and be an agent of the engine that stands beside the first of them.

    Raises:
        SystemExit: that is not possible; the message says why.
    """
    said: dict[str, Any] = {"agent": boot.agent, "host": network.host_name(), "why": str(reason)}
    said["leave"] = isinstance(reason, Regroup) and reason.leave
    said["unreachable"] = isinstance(reason, Unreachable)
    engine = None
    if boot.agent == 0:
        try:
            engine = FieldEngine(boot)
            said["endpoints"] = [[e.host, e.port] for e in engine.endpoints]
        except Exception as error:  # noqa: BLE001  the others wait, and must be told whatever it was
            said["failed"] = f"{type(error).__name__}: {error}"
    try:
        told = task.gather(said)
        if any(other["leave"] for other in told):
            return
        first = next(other for other in told if other["agent"] == 0)
        if "failed" in first:
            sys.exit(f"no engine could be started beside the agents: {first['failed']}")
        if engine:
            engine.start(why_afield(told))
        _serve(boot, own, root, [Endpoint(host, port) for host, port in first["endpoints"]])
    except Unreachable as error:
        sys.exit(f"executors do not reach each other: {error}")
    finally:
        if engine:
            engine.finish(task)


def why_afield(told: Sequence[dict[str, Any]]) -> str:
    """Who cannot reach whom, in a sentence."""
    away = [other for other in told if other["unreachable"]]
    if not away:
        return "not all executors reached the engine in time"
    which = f"{len(away)} of {len(told)} agents, such as that" if len(told) > 1 else "the agent"
    return f"{which} on {away[0]['host']}, {away[0]['why']}"


class FieldEngine:
    """The ordinary engine, on a thread beside the agent of task 0.

    Raises:
        LauncherError, OSError: it cannot listen.
    """

    def __init__(self, boot: Boot) -> None:
        from launcher.backends.field import FieldBackend
        from launcher.backends.standing import unseal

        with open(boot.standing, "rb") as file:
            self._standing, self._request = unseal(file.read())
        self._backend = FieldBackend(self._standing, boot.token)
        self._thread: threading.Thread | None = None
        self._spool: Any = None
        self._scratch = ""
        self._run = Path()

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Where agents reach it."""
        return self._backend.endpoints

    def start(self, reason: str) -> None:
        """Begin the run.

        Raises:
            LauncherError, OSError: there is nowhere to record it.
        """
        from launcher.supervisor import Supervisor

        way, why = self._choose_folder()
        self._backend.choose(way, "; ".join(filter(None, (reason, why))))
        supervisor = Supervisor(self._request, None, self._run, self._backend)
        standing = self._standing
        supervisor.submit(age_s=standing.age_s, past=standing.restarts, commands=False)
        if way == "spool":
            self._watch_spool(supervisor)
        self._thread = threading.Thread(target=supervisor.run, name="rankdeck-field", daemon=True)
        self._thread.start()

    def finish(self, task: Task) -> None:
        """The agent has ended: wait for the verdict, send home what is to be sent, and leave nothing."""
        self._backend.end()
        if self._thread is None:
            self._backend.close(0.0)
        else:
            self._thread.join()
        if self._spool is not None:
            self._spool.close()
        if self._scratch:
            self._send_home(task)

    def _send_home(self, task: Task) -> None:
        from launcher.backends.luggage import send_folder

        try:
            if self._thread is not None:
                send_folder(self._run, task.carry, limit=self._standing.carry_bytes)
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _choose_folder(self) -> tuple[str, str]:
        """The shared folder if it is shared indeed, else a temporary one: (way, why not the other)."""
        from launcher.backends.spool import why_not_shared

        standing = self._standing
        why = "there is no spool folder"
        if standing.spool:
            shared = Path(standing.spool)
            why = why_not_shared(shared, standing.marker)
            if not why:
                self._run = shared / standing.run
                self._run.mkdir(mode=0o700)
                return "spool", ""

        self._scratch = litter.make(os.environ, litter.RECORD)
        self._run = Path(self._scratch, standing.run)
        self._run.mkdir(mode=0o700)
        return "carried", f"the output is kept at {network.host_name()} until the end, for {why}"

    def _watch_spool(self, supervisor: Any) -> None:
        from launcher.backends.spool import FieldEnd

        def lost() -> None:
            supervisor.stop(reason="the engine that started it has gone", exit_code=75)

        self._spool = FieldEnd(
            Path(self._standing.spool),
            self._run,
            2 * self._standing.spec.spark.lost_after_s,
            stop=lambda request: supervisor.mailbox.post(replace(request, time=time.time())),
            lost=lost,
        )
        self._spool.start()
