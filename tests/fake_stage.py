"""A barrier stage without Spark: every task is a process that runs what a Spark task runs.

Used as a module by tests, and as a program by itself: ``python fake_stage.py PARTITION DESCRIPTOR``.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_LENGTH = struct.Struct("<I")
NOBODY = {"host": "127.0.0.1", "port": 9}
CANCELLED = "[OPERATION_CANCELED] Operation has been canceled."
LOST = (
    "Job aborted due to stage failure: Could not recover from a failed barrier ResultStage. "
    "Most recent failure reason: Stage failed because barrier task ResultTask(0, {task}) finished "
    "unsuccessfully.\n"
    "ExecutorLostFailure (executor {task} exited caused by one of the running tasks) "
    "Reason: Command exited with code 137"
)


@dataclass
class FakeStage:
    """Stands in for `jobs.run_stage` and `jobs.cancel_stage`.

    Attributes:
        blind: tasks whose agents cannot reach the home engine.
        tasks: the processes of the stage that runs.
        stages: how many there have been.
    """

    blind: Collection[int] = ()
    tasks: list[subprocess.Popen[bytes]] = field(default_factory=list)
    stages: int = 0
    _pipes: list[socket.socket] = field(default_factory=list)
    _cancelled: bool = False

    def run(self, _session: Any, job: Any, carried: Any, running: Callable[[int], None]) -> list[Any]:
        from launcher.backends.jobs import TaskEnd

        self.stages += 1
        self._cancelled = False
        self._pipes, self.tasks = [], []
        for number in range(job.tasks):
            self._start(number, job)
        running(job.tasks)
        gathered = _Gathering(self._pipes)
        rows: list[list[tuple[str, bytes]]] = [[] for _ in range(job.tasks)]
        ears = [threading.Thread(target=gathered.hear, args=(i, rows[i])) for i in range(job.tasks)]
        for ear in ears:
            ear.start()
        failed = self._await()
        for ear in ears:
            ear.join()
        for pipe in self._pipes:
            pipe.close()
        if failed is not None:
            raise RuntimeError(CANCELLED if self._cancelled else LOST.format(task=failed))
        ends = []
        for document, data in (row for own in rows for row in own):
            said = json.loads(document)
            if "code" in said:
                ends.append(TaskEnd(said["agent"], said["code"], said["errors"]))
            else:
                carried(said["agent"], data)
        return ends

    def cancel(self, _session: Any, _tag: str) -> None:
        """As Spark does it: Python workers are killed."""
        self._cancelled = True
        for task in self.tasks:
            task.kill()

    def kill(self, number: int) -> None:
        """The end of one executor."""
        self.tasks[number].kill()

    def _start(self, number: int, job: Any) -> None:
        near, far = socket.socketpair()
        boot = json.loads(job.boot)
        if number in self.blind:
            boot["endpoints"] = [NOBODY]
        task = subprocess.Popen(
            [sys.executable, __file__, str(number), str(far.fileno())],
            pass_fds=[far.fileno()],
            cwd="/",
        )
        far.close()
        _send(near, pickle.dumps((json.dumps(boot), job.archive, job.program, job.standing)))
        self._pipes.append(near)
        self.tasks.append(task)

    def _await(self) -> int | None:
        """Wait for all; one that fails takes the others with it. Which failed first, if one did."""
        failed: int | None = None
        waiting = {os.pidfd_open(task.pid): number for number, task in enumerate(self.tasks)}
        import select

        while waiting:
            for descriptor in select.select(list(waiting), [], [])[0]:
                number = waiting.pop(descriptor)
                os.close(descriptor)
                if self.tasks[number].wait() and failed is None:
                    failed = number
                    for task in self.tasks:
                        task.kill()
        return failed


class _Gathering:
    """`allGather` of the tasks, and their rows."""

    def __init__(self, pipes: list[socket.socket]) -> None:
        self._pipes = pipes
        self._lock = threading.Lock()
        self._said: dict[int, str] = {}

    def hear(self, number: int, rows: list[tuple[str, bytes]]) -> None:
        while (data := _receive(self._pipes[number])) is not None:
            kind, value = pickle.loads(data)
            if kind == "row":
                rows.append(value)
                continue
            with self._lock:
                self._said[number] = value
                if len(self._said) == len(self._pipes):
                    answer = pickle.dumps([self._said[i] for i in sorted(self._said)])
                    self._said.clear()
                    for pipe in self._pipes:
                        _send(pipe, answer)


def _send(sock: socket.socket, data: bytes) -> None:
    sock.sendall(_LENGTH.pack(len(data)) + data)


def _receive(sock: socket.socket) -> bytes | None:
    try:
        head = sock.recv(_LENGTH.size, socket.MSG_WAITALL)
        if len(head) < _LENGTH.size:
            return None
        return sock.recv(_LENGTH.unpack(head)[0], socket.MSG_WAITALL)
    except ConnectionError:
        return None


def task(number: int, descriptor: int) -> None:
    """The Python worker of one task."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path.insert(0, str(ROOT))
    from launcher.backends import entry

    sock = socket.socket(fileno=descriptor)
    given = _receive(sock)
    assert given is not None

    def gather(text: str) -> list[str]:
        _send(sock, pickle.dumps(("gather", text)))
        answer = _receive(sock)
        assert answer is not None
        told: list[str] = pickle.loads(answer)
        return told

    context = SimpleNamespace(partitionId=lambda: number, cpus=lambda: 1, resources=dict, allGather=gather)
    for row in entry._runner(*pickle.loads(given))(context):
        _send(sock, pickle.dumps(("row", row)))


if __name__ == "__main__":
    task(int(sys.argv[1]), int(sys.argv[2]))
