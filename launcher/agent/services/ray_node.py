"""A Ray node: ``ray start --block``, its output, and why it ended.

Ray's own processes are children of that command, and all are below the agent. The command looks after them
once a second; this process learns of the end of the two that a node cannot do without by their pidfds, before
the driver and the other nodes do, so that the right one gets the blame.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import select
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...channel.connecting import endpoint
from .. import process
from . import AgentLine
from .ray_output import STDERR, STDOUT, WorkerOutput

_READY = b"This command will now block forever"
_DASHBOARD = b"dashboard at"
_VITAL = ("gcs_server", "raylet")
# What the command says of a raylet that has died or not registered within 30 s, which no option makes longer.
# A busy host needs more, so it is started again; all starts fit into the time that services have.
_GAVE_UP = "node timed out during startup"
_STARTS = 3
_EXIT = re.compile(r"(?:^|-- )\s*(\w+) \[exit code=(-?\d+)\]")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_TURN_S = 0.2
_WORDS_S = 2.0
_END_S = 8.0
_TAIL = 40
# not resolved: the zip that executors have is a file in memory, which has a path in /proc only
_PACKAGES = Path(__file__).parents[3]


def serve(line: AgentLine, **settings: Any) -> None:
    """Run the node until it is released or ends."""
    with Node(line, **settings) as node:
        node.run()


class Node:
    """One node of the cluster.

    Args:
        line: the line to the agent.
        head: whether it is the cluster's first node, which holds the global control service.
        cluster: the address of that service.
        address: this node's own address.
        ports: the ports that the agent holds: the global control service's, the dashboard's, the client's.
        cpus, gpus: what the node offers.
        python: the ranks' interpreter, which has Ray.
        folder: a folder of the agent's own with a short path.
        imports: the folders from which the driver imports, for the workers.
        options: further options of the command, and others for `cpus` and `gpus`.
    """

    def __init__(
        self,
        line: AgentLine,
        *,
        head: bool,
        cluster: str,
        address: str,
        ports: Sequence[int],
        cpus: int,
        gpus: int,
        python: str,
        folder: str,
        imports: str,
        options: Mapping[str, str],
    ) -> None:
        self._line = line
        self._python = python
        self._folder = os.path.join(folder, str(ports[0]))
        self._dashboard = f"http://{endpoint(address, ports[1])}"
        self._vital: dict[int, tuple[int, str]] = {}
        self._starts = 0
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        own = head_options(address, ports) if head else [f"--address={cluster}"]
        chosen = {"num-cpus": str(cpus), "num-gpus": str(gpus), **options}
        self._words = [*own, *node_options(address, chosen, self._folder)]
        self._environ = environ(os.environ, cluster, imports, self._folder)
        self._output = WorkerOutput(os.path.join(self._folder, "session_latest", "logs"), write)
        self._start()

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: object) -> None:
        """End the command, which ends Ray's processes; what is left then is the agent's to kill."""
        self._command.terminate()
        try:
            self._command.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._command.kill()
            self._command.wait()
        self._output.finish()
        self._stdout.close()
        for descriptor in self._vital:
            os.close(descriptor)

    def _start(self) -> None:
        """Start the command, of which nothing has been heard yet."""
        self._starts += 1
        self._tail: deque[str] = deque(maxlen=_TAIL)
        self._exits: dict[str, str] = {}
        self._rest = b""
        self._said = bytearray()
        self._ready, self._talks = False, True
        self._command = subprocess.Popen(
            [self._python, "-m", "ray.scripts.scripts", "start", "--block", *self._words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environ,
        )
        assert self._command.stdout is not None
        self._stdout = self._command.stdout
        self._pipe = self._stdout.fileno()
        os.set_blocking(self._pipe, False)

    def run(self) -> None:
        """Serve until the node is released, or has ended."""
        while True:
            watched = [self._line.fileno(), *([self._pipe] if self._talks else ()), *self._vital]
            readable = select.select(watched, [], [], _TURN_S)[0]
            if self._line.fileno() in readable:
                return None
            ended = self._command.poll() is not None
            self._listen()
            self._output.forward()
            dead = next((each for each in readable if each in self._vital), None)
            if dead is not None:
                return self._line.lost(self._why_lost(*self._vital[dead]))
            if ended and self._gave_up():  # and has ended its processes
                self._stdout.close()
                self._start()
            elif ended:
                return self._line.lost(self._why())

    def _gave_up(self) -> bool:
        """Whether the command has ended because it would not wait for its raylet, and may be tried again."""
        said = any(_GAVE_UP in line for line in self._tail)
        return said and not self._ready and self._starts < _STARTS

    def _listen(self) -> None:
        """Read what the command has said."""
        while data := process.read(self._pipe):
            *lines, self._rest = (self._rest + data).split(b"\n")
            said = [line.decode(errors="replace").rstrip() for line in lines]
            self._tail.extend(said)
            self._exits.update(exits(said))
            if not self._ready:
                self._said += data
                if _READY in self._said:
                    self._on_ready()
        self._talks = data is None

    def _on_ready(self) -> None:
        self._ready = True
        for pid in process.descendants(os.getpid()):
            if (name := name_of(pid)) in _VITAL:
                with contextlib.suppress(ProcessLookupError):
                    self._vital[os.pidfd_open(pid)] = pid, name
        self._line.ready(self._dashboard if _DASHBOARD in self._said else "")
        self._said.clear()

    def _why_lost(self, pid: int, name: str) -> str:
        """Why the node is lost with one of its two; how that ended, the command says if it was quicker."""
        if not (how := how_ended(pid)):
            limit = time.monotonic() + _WORDS_S
            while name not in self._exits and self._talks and (left := limit - time.monotonic()) > 0:
                select.select([self._pipe], [], [], left)
                self._listen()
            how = self._exits.get(name, "ended")
        return f"its {name} {how}"

    def _why(self) -> str:
        """Why the command has ended, from its words; the last are passed on too."""
        said = [*self._tail, self._rest.decode(errors="replace").rstrip()]
        sys.stderr.write("".join(f"{line}\n" for line in said))
        return reason(said, self._command.returncode, self._exits, python=self._python, started=self._ready)


def head_options(address: str, ports: Sequence[int]) -> list[str]:
    """The options of the first node."""
    control, dashboard, client = ports
    return [
        "--head",
        f"--port={control}",
        f"--dashboard-host={address}",
        f"--dashboard-port={dashboard}",
        f"--ray-client-server-port={client}",
    ]


def node_options(address: str, chosen: Mapping[str, str], folder: str) -> list[str]:
    """The options of every node. Ports that nobody need know are chosen by the kernel."""
    return [
        f"--node-ip-address={address}",
        *(f"--{name}={text}" if text else f"--{name}" for name, text in chosen.items()),
        f"--temp-dir={folder}",
        "--min-worker-port=0",
        "--max-worker-port=0",
        "--dashboard-agent-listen-port=0",
        "--disable-usage-stats",
    ]


def environ(own: Mapping[str, str], cluster: str, imports: str, folder: str) -> dict[str, str]:
    """The environment of Ray's processes, and so of every worker: it imports what the driver does.

    A node that is ready before the head waits for it, and so does not give up after Ray's own 40 seconds: the
    agent limits how long the cluster may take to start.
    A worker that asks for the cluster's address would find that of another run's, if it looked for processes
    of Ray on its host. A dashboard that is ended leaves a socket among the temporary files, so those are in a
    folder that ends with the node. A node that is ended need not wait for its work to end: the driver has
    ended, or must.
    """
    path = [*filter(None, (*imports.split(os.pathsep), *own.get("PYTHONPATH", "").split(os.pathsep)))]
    return {
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
        "RAY_NUM_REDIS_GET_RETRIES": "300",
        **compiled(own),
        **own,
        "RAY_ADDRESS": cluster,
        "TMPDIR": folder,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys([*path, library(folder)])),
    }


def compiled(own: Mapping[str, str]) -> dict[str, str]:
    """Where torch keeps what it has compiled: its usual place, so that the next run finds it."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        return {}
    return {"TORCHINDUCTOR_CACHE_DIR": os.path.join(own.get("TMPDIR") or "/tmp", f"torchinductor_{user}")}


def library(folder: str) -> str:
    """A folder to import `launcher` from, and nothing else that lies beside it here.

    Workers import it last, for `launcher.report`, which does nothing in them.
    """
    if _PACKAGES.is_file():  # the zip that executors have holds nothing else
        return str(_PACKAGES)
    place = os.path.join(folder, "imports")
    os.makedirs(place, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.symlink(_PACKAGES / "launcher", os.path.join(place, "launcher"))
    return place


def write(stream: int, data: bytes) -> None:
    """Write a line of a worker to this node's own output."""
    view = memoryview(data)
    while view:
        view = view[os.write(STDOUT if stream == STDOUT else STDERR, view) :]


def name_of(pid: int) -> str:
    """The name of a process's program; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def how_ended(pid: int) -> str:
    """How a process ended, from the last field of its stat (proc(5)); empty if somebody has waited for it."""
    try:
        status = int(Path(f"/proc/{pid}/stat").read_text(errors="replace").split()[-1])
    except (OSError, ValueError):
        return ""
    code, name = process.outcome(status)
    return describe(code, name)


def describe(code: int, signal_name: str | None) -> str:
    """How a process ended, in words."""
    return f"was killed by {signal_name}" if signal_name else f"ended with code {code}"


def exits(said: Iterable[str]) -> dict[str, str]:
    """How processes of Ray's ended, from lines of the command, which is their parent."""
    found = (_EXIT.search(_COLOUR.sub("", line)) for line in said)
    codes = {match[1]: int(match[2]) for match in found if match}
    return {
        name: describe(code, process.signal_name(-code) if code < 0 else None) for name, code in codes.items()
    }


def reason(said: Sequence[str], code: int, ended: Mapping[str, str], *, python: str, started: bool) -> str:
    """Why ``ray start`` has ended, as far as its last words and those about its processes tell."""
    text = "\n".join(said)
    if "No module named 'ray" in text or "No module named ray" in text:
        return f"Ray is not installed for {python}"
    if ended:
        name, how = next(iter(ended.items()))
        return f"its {name} {how}"
    if code < 0:
        return f"ray start {describe(code, process.signal_name(-code))}"
    last = next((line for line in reversed(said) if line.strip()), "")
    return f"ray start ended with code {code}{f': {last.strip()}' if last and not started else ''}"
