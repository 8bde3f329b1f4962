"""An engine whose agents are simulated: what it takes of a core for each, once they all train.

python -m tests.bench.simulated_engine AGENTS SECONDS

Prints a JSON line: CPU milliseconds a second and agent, the share of a core, by how much the agents were late
(which they are if the engine does not take what they send), and its memory in bytes.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from launcher.agent import linux
from launcher.backends.base import AgentsExpected, News, StageOver
from launcher.channel import handshake
from launcher.channel.connection import AgentConnection
from launcher.distributor import launch
from launcher.placement.plan import Plan
from launcher.selectable_queue import SelectableQueue
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.places import Offer
from launcher.spec.request import Request
from tests.bench.busy_run import PER_HOST

SETTLED_S = 3.0
MEMORY = "/dev/shm"  # whose files take no disk: CPU is what is measured


class SimulatedBackend:
    """A `Backend` whose agents are one process, and connect over loopback."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._token = handshake.new_token()
        self._door = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self._box: SelectableQueue[News] = SelectableQueue()
        port = self._door.getsockname()[1]
        command = [sys.executable, "-m", "tests.bench.simulated_gang", str(port), self._token, str(count)]
        self._gang = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def await_start(self) -> None:
        """Wait until all ranks have started."""
        assert self._gang.stdout is not None
        assert self._gang.stdout.readline() == "started\n"

    def end(self) -> float:
        """Have the ranks end; how many seconds behind the agents have been."""
        assert self._gang.stdin is not None
        assert self._gang.stdout is not None
        self._gang.stdin.write("end\n")
        self._gang.stdin.flush()
        return float(self._gang.stdout.readline().split()[1])

    def reserve(self, request: Request, *, whole: bool) -> bool:
        """There is room."""
        del request, whole
        return True

    def offers(self, request: Request) -> tuple[Sequence[Offer] | None, str]:
        """As many slots on each host as it has ranks."""
        del request
        hosts = range(self._count)
        return tuple(Offer(host, f"gpu-{host:03}", 64, slots=PER_HOST) for host in hosts), ""

    def launch(self, request: Request, plan: Plan | None, folder: Path, *, attempt: int) -> None:
        """Accept the agents."""
        del request, plan, folder, attempt
        self._box.put(AgentsExpected(self._count))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        for agent in range(self._count):  # they come one after another
            sock, _ = self._door.accept()
            self._box.put(AgentConnection(sock, agent, self._token, lost_after_s=60.0))
        self._box.put(StageOver())

    def fileno(self) -> int:
        """Readable while there is news."""
        return self._box.fileno()

    def news(self) -> list[News]:
        """The agents' connections."""
        return self._box.take()

    def abort(self) -> None:
        """End the gang."""
        self._gang.kill()

    def close(self, timeout_s: float) -> bool:
        """Wait for the gang."""
        self._box.close()
        return self._gang.wait(timeout_s) is not None

    def settings(self, names: Sequence[str]) -> Mapping[str, str]:
        return {}

    def complaint(self) -> str:
        """None."""
        return ""


def main(count: int, seconds: float) -> None:
    """Measure once the ranks have started, for some seconds."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as home:
        backend = SimulatedBackend(count)
        target = Target(TargetKind.SCRIPT, str(Path(__file__)))
        spec = JobSpec(target, num_processes=count * PER_HOST, workdir=home, gpu=False)
        job = launch(Request(spec), root=Path(home), backend=backend)
        backend.await_start()
        time.sleep(SETTLED_S)  # what the start left to do is not what is measured
        begin, before = time.monotonic(), time.process_time()
        time.sleep(seconds)
        used = (time.process_time() - before) / (time.monotonic() - begin)
        memory = linux.resident(os.getpid())
        late = backend.end()
        assert job.wait(120).exit_code == 0, job.state.why
    told = {"agent_ms": used * 1000 / count, "core": used, "late_s": late, "memory": memory}
    print(json.dumps(told))


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    main(int(sys.argv[1]), float(sys.argv[2]))
