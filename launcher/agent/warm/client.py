"""Having an executor's zygote fork an agent. Run in Spark's Python workers: imports nothing of `launcher`.

The zygote is a child of the first worker that needs it, and ends with the Python daemon of the executor, as
workers do. Workers find it by an address that no file has, and by which only the same user is served.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

_PATIENCE_S = 10.0
_MESSAGE = 4096
_PEER = struct.Struct("3i")
# Variables by which a worker is told its daemon's secrets.
_WORKERS_OWN = "PYTHON_WORKER_FACTORY"


@dataclass(frozen=True, slots=True)
class WorkersZygote:
    """The zygote that the workers of an executor share for one kind of run.

    Attributes:
        family: an executor keeps one zygote of each, as they take much memory.
        key: tells one kind of a family from another.
        environ: the variables that the zygote reads at its start.
        modules: what it imports.
        code: its first code.
        archive: gives the zip of `launcher`.
    """

    family: str
    key: str
    environ: dict[str, str]
    modules: Sequence[str]
    code: str
    archive: Callable[[], bytes]

    def fork(
        self, document: dict[str, Any], errors: Any, environ: dict[bytes, bytes]
    ) -> AgentOfWorker | None:
        """Have an agent forked; None without a zygote that is ready soon.

        Args:
            document: the agent's settings.
            errors: the file for its errors.
            environ: its environment.
        """
        own = {os.fsdecode(name): os.fsdecode(value) for name, value in environ.items()}
        own = {name: value for name, value in own.items() if not name.startswith(_WORKERS_OWN)}
        line = self._reach(own)
        if line is None or not _is_ready(line):
            return None
        order = {"boot": document, "modules": self.modules, "environ": own}
        return _ordered(line, {**order, "descriptors": ["stdin", "errors"]}, errors)

    def _name(self, key: str) -> str:
        return f"rankdeck-zygote-{os.getuid()}-{os.getppid()}-{self.family}-{key}"

    def _reach(self, environ: dict[str, str]) -> socket.socket | None:
        """A connection to the zygote, which is started if there is none."""
        name = self._name(self.key)
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            if (line := _connected(name)) is not None:
                return line if is_of_same_user(line) else None
            with _socket() as door, contextlib.suppress(OSError):  # another worker has just bound it
                door.bind(f"\0{name}")
                door.listen(64)
                self._retire_others(name)
                self._start(door, environ)
        return None

    def _retire_others(self, name: str) -> None:
        """Have the zygotes of other kinds end, once their agents have."""
        for other in _bound(self._name("")):
            if other != name and (line := _connected(other)) is not None:
                with line, contextlib.suppress(OSError):
                    line.send(b'{"retire": true}')

    def _start(self, door: socket.socket, environ: dict[str, str]) -> None:
        with open(os.memfd_create("rankdeck"), "wb") as program, open(os.memfd_create("out"), "wb") as output:
            program.write(self.archive())
            program.flush()
            root = f"/proc/self/fd/{program.fileno()}"
            numbers = (str(door.fileno()), str(os.getppid()))
            subprocess.Popen(
                [sys.executable, "-u", "-c", self.code, root, *numbers, *self.modules],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env={**environ, **self.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"},
                pass_fds=(program.fileno(), door.fileno()),
                start_new_session=True,
            ).wait()  # it goes on as a fork


@dataclass(slots=True)
class AgentOfWorker:
    """An agent, with the methods of a process. It ends when `keeper` is closed, as by this process's end."""

    line: socket.socket
    pidfd: int
    keeper: int
    code: int | None = field(default=None, init=False)

    def poll(self) -> int | None:
        """Its exit code; None while it lives."""
        has_ended = self.code is None and select.select([self.pidfd], [], [], 0)[0]
        return self.wait() if has_ended else self.code

    def wait(self) -> int:
        """Wait for its end; its exit code."""
        if self.code is None:
            select.select([self.pidfd], [], [])
            answer = self.line.recv(_MESSAGE)  # the zygote waits for it, or is gone
            self.code = int(json.loads(answer)["ended"]) if answer else 1
            os.close(self.keeper)
            os.close(self.pidfd)
            self.line.close()
        return self.code


def _socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _connected(name: str) -> socket.socket | None:
    line = _socket()
    try:
        line.connect(f"\0{name}")
    except OSError:
        line.close()
        return None
    return line


def is_of_same_user(line: socket.socket) -> bool:
    """Whether the other end is this user's process. Closes the connection if it is not."""
    credentials = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    if _PEER.unpack(credentials)[1] == os.getuid():
        return True
    line.close()
    return False


def _bound(prefix: str) -> Iterator[str]:
    """The addresses without a file that begin so, on this host."""
    with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
        names = {line.rpartition(" ")[2].strip() for line in file}
    return (name[1:] for name in names if name.startswith(f"@{prefix}"))


def _is_ready(line: socket.socket) -> bool:
    """Whether the zygote can fork agents now, or soon. Closes the connection if it cannot."""
    line.settimeout(_PATIENCE_S)
    with contextlib.suppress(OSError, ValueError):
        if json.loads(line.recv(_MESSAGE) or b"{}").get("ready"):
            return True
    line.close()
    return False


def _ordered(line: socket.socket, order: dict[str, Any], errors: Any) -> AgentOfWorker | None:
    """Give the zygote an order; the agent that it forks, if it does."""
    lifeline, keeper = os.pipe()
    try:
        socket.send_fds(line, [json.dumps(order).encode()], [lifeline, errors.fileno()])
        line.settimeout(None)
        _, descriptors, _, _ = socket.recv_fds(line, _MESSAGE, 1)
        return AgentOfWorker(line, descriptors[0], keeper)
    except (OSError, IndexError):
        os.close(keeper)  # an agent that began all the same ends
        line.close()
        return None
    finally:
        os.close(lifeline)
