"""Real agents without Spark: started from the zip in memory, as Spark's tasks start them, on this machine."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from launcher.agent import agent
from launcher.agent.boot import Boot
from launcher.backends.base import AgentsExpected, News, StageOver
from launcher.backends.spark.launcher_zip import launcher_zip
from launcher.channel import handshake
from launcher.channel.connection import AgentConnection, ConnectionClosed
from launcher.placement.plan import Plan
from launcher.selectable_queue import SelectableQueue
from launcher.serialization import to_plain
from launcher.spec.places import Offer
from launcher.spec.request import Request


class Agents:
    """A back end of agents that know nothing of the caller's world but what the engine tells them.

    Args:
        count: how many.
        env: what their environment has beyond the least.
        python: their interpreter.
        before: called when the run's sources have been packed and no agent has been started.
    """

    def __init__(
        self,
        count: int = 1,
        *,
        env: Mapping[str, str] | None = None,
        before: Callable[[], object] = bool,
        python: str = sys.executable,
    ) -> None:
        self._count, self._before, self._python = count, before, python
        self._env = {"PATH": os.defpath, **(env or {})}
        self._box: SelectableQueue[News] = SelectableQueue()
        self._waiter: threading.Thread | None = None
        self.launches: list[list[subprocess.Popen[bytes]]] = []
        self.errors: list[str] = []

    @property
    def processes(self) -> list[subprocess.Popen[bytes]]:
        """The wardens of the last launch."""
        return self.launches[-1]

    def offers(self, request: Request) -> tuple[Sequence[Offer] | None, str]:
        return None, ""

    def reserve(self, request: Request, *, whole: bool) -> bool:
        return True

    def launch(self, request: Request, plan: Plan | None, folder: Path, *, attempt: int) -> None:
        self._before()
        self._box.put(AgentsExpected(self._count))
        errors = [folder / f"agent{attempt}.{number}.err" for number in range(self._count)]
        self.launches.append([self._start(number, path) for number, path in enumerate(errors)])
        self._waiter = threading.Thread(target=self._wait, args=(self.processes, errors))
        self._waiter.start()

    def fileno(self) -> int:
        return self._box.fileno()

    def news(self) -> list[News]:
        return self._box.take()

    def abort(self) -> None:
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.close()

    def close(self, timeout_s: float) -> bool:
        if self._waiter is not None:
            self.abort()
            self._waiter.join(timeout_s)
        self._box.close()
        return self._waiter is None or not self._waiter.is_alive()

    def settings(self, names: Sequence[str]) -> Mapping[str, str]:
        return {}

    def complaint(self) -> str:
        return ""

    def _start(self, number: int, errors: Path) -> subprocess.Popen[bytes]:
        near, far = socket.socketpair()
        token = handshake.new_token()
        boot = Boot(agent=number, token=token, descriptor=far.fileno(), lifeline=True, address="127.0.0.1")
        program = os.memfd_create("agent")
        with open(program, "wb", closefd=False) as file:
            file.write(launcher_zip())
        with open(errors, "wb") as file:
            process = subprocess.Popen(
                [self._python, "-P", "-c", agent.BOOT, f"/proc/self/fd/{program}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=file,
                cwd="/",
                env=self._env,
                pass_fds=(far.fileno(), program),
                start_new_session=True,
            )
        os.close(program)
        far.close()
        assert process.stdin is not None
        process.stdin.write(json.dumps(to_plain(boot)).encode() + b"\n")
        process.stdin.flush()
        threading.Thread(target=self._admit, args=(AgentConnection(near, None, token),), daemon=True).start()
        return process

    def _admit(self, link: AgentConnection) -> None:
        """As the listener does: an agent is told of when it has proven itself."""
        try:
            while not link.join():
                select.select([link], [], [])
        except ConnectionClosed:
            return
        self._box.put(link)

    def _wait(self, processes: list[subprocess.Popen[bytes]], errors: list[Path]) -> None:
        for process, path in zip(processes, errors, strict=True):
            process.wait()
            self.errors += path.read_text().splitlines()
        self._box.put(StageOver())
