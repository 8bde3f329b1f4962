"""What an agent is born with, and what the engine's START tells it to start."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from .. import serialization
from ..channel.dial import Endpoint
from ..channel.frames import Kind
from ..spec.bundle import UnpackedBundle
from ..spec.places import Device
from ..spec.request import Inherited
from . import process

if TYPE_CHECKING:
    from ..state.events import Event

STDIN = 0
_LIMIT = 64 << 20


@dataclass(frozen=True, slots=True)
class Boot:
    """One JSON line on the agent's standard input, so that no secret is on a command line or in a file.

    Attributes:
        agent: the agent's number; in Spark, its task's partition.
        token: what proves that both ends belong to one run.
        descriptor: an inherited socket to the engine, or -1 for one that must be dialled.
        endpoints: the engine's addresses, where there is no such socket.
        credentials: the channel's certificates and key as PEM texts (`launcher.channel.tls`).
        lost_after_s: seconds of silence after which the other end counts as gone; None: never.
        dial_s: seconds for reaching the engine.
        watch: a process whose end is the engine's end (its socket may live on in forked children).
        lifeline: whether standard input stays open, and its end means that Spark ended the task.
        sample_s: seconds between samples.
        host: the host's name for people.
        address: the agent's address for other agents; empty to take that of the channel.
        cores: the cores that are the agent's.
        devices: the GPUs that it has been given by the engine.
        gpus: the addresses of the GPUs that Spark has granted to the task; None: it grants none.
        find_gpus: whether the agent has to find out what its GPUs are.
        spool: the folder of this launch on storage that may be shared, for an agent that no address of the
            engine lets in; empty for none. `marker`: what it then holds.
        inherited: what the run's caller had from its shell; nothing to take on where Spark starts the agent.
    """

    agent: int
    token: str
    descriptor: int = -1
    endpoints: tuple[Endpoint, ...] = ()
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    lost_after_s: float | None = None
    dial_s: float = 10.0
    watch: int = 0
    lifeline: bool = False
    sample_s: float = 1.0
    host: str = field(default_factory=socket.gethostname)
    address: str = ""
    cores: int = 1
    devices: tuple[Device, ...] = ()
    gpus: tuple[str, ...] | None = None
    find_gpus: bool = False
    spool: str = ""
    marker: str = field(default="", repr=False)
    inherited: Inherited | None = None


def read_boot() -> Boot:
    """Take the line from standard input, and not a byte more: what follows is the lifeline's."""
    boot = serialization.from_plain(Boot, json.loads(_line(STDIN)))
    if not boot.lifeline:
        os.close(STDIN)
        os.open(os.devnull, os.O_RDONLY)
    return boot


def _line(descriptor: int) -> bytes:
    data = bytearray()
    while not data.endswith(b"\n"):
        piece = os.read(descriptor, 1)
        if not piece or len(data) > _LIMIT:
            raise ValueError("no boot line on standard input")
        data += piece
    return bytes(data)


@dataclass(frozen=True, slots=True)
class StartOrder:
    """What the engine asked to be started.

    Attributes:
        python: the ranks' interpreter.
        root: the folder or zip that holds `launcher`.
        cwd: the ranks' working directory.
        env: what all ranks share; `ranks` holds what each has beyond it.
        program: a descriptor that every rank reads its target from.
        grace_s: seconds between SIGTERM and SIGKILL.
        files: how many open files a rank may have; -1 to leave that alone.
        copied: the folder in which the target's sources were unpacked; empty where they lie as they are.
    """

    python: str
    root: str
    cwd: str
    env: Mapping[str, str]
    ranks: Mapping[int, Mapping[str, str]]
    program: int
    grace_s: float
    copied: str = ""
    files: int = -1


class Emit(Protocol):
    """Where frames go."""

    def fact(self, fact: Event) -> None:
        """A fact; its time is on the agent's clock."""

    def raw(self, kind: Kind, data: bytes, *, rank: int, stream: int = 0) -> None:
        """Bytes of a rank."""


# How Spark's Python daemon and the JVM know each other: nothing for a rank to hand on.
_SPARK_ONLY = frozenset(
    {"PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SECRET", "PYTHON_WORKER_FACTORY_SOCK_PATH"}
)


def base_environ(own: Mapping[str, str], extra: Mapping[str, str], *, python: str) -> dict[str, str]:
    """An environment to start from, the spec's additions, and unbuffered output.

    The interpreter's folder goes first on PATH, because frameworks run tools (ninja) that a virtual
    environment holds and that an absolute interpreter path does not lead to.

    Args:
        own: the caller's environment, or that of an agent on an executor.
        extra: what the spec adds; it wins.
        python: the ranks' interpreter.
    """
    env = {**{name: value for name, value in own.items() if name not in _SPARK_ONLY}, **extra}
    folder = os.path.dirname(python)
    path = env.get("PATH", os.defpath)
    leads = folder in ("", path.split(os.pathsep)[0])  # an empty entry would mean the working directory
    env["PATH"] = path if leads else f"{folder}{os.pathsep}{path}"
    env["PYTHONUNBUFFERED"] = "1"
    return env


def yielding(rank: Mapping[str, str], own: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """A rank's variables, less those among `names` that a host's own environment has chosen.

    These name the network's interface: an administrator who set them for the executors knows more than what
    a connection has shown.
    """
    return {name: value for name, value in rank.items() if name not in names or name not in own}


def prepare(
    start: Mapping[str, Any], payload: bytes, bundle: UnpackedBundle | None, root: str, *, files: int = -1
) -> StartOrder:
    """The order that a START frame stands for.

    With `inherit`, ranks get this process's own environment and interpreter, as what Spark started here
    would; without it, exactly what the engine says.

    Args:
        start: the document of the frame.
        payload: the pickle that came before it.
        bundle: the target's sources, where it came with some.
        root: the folder or zip that holds `launcher`.
        files: how many open files a rank may have; -1 leaves it what we have.

    Raises:
        OSError: there is no memory for the program.
    """
    python, cwd = start["python"] or sys.executable, _cwd(start["cwd"], bundle)
    env, ranks = start["env"], start["ranks"]
    if start.get("inherit"):
        env = base_environ(os.environ, env, python=python)
        ranks = {rank: yielding(own, os.environ, start.get("yields", ())) for rank, own in ranks.items()}
    return StartOrder(
        python=python,
        root=root,
        cwd=cwd,
        env=env,
        ranks={int(rank): own for rank, own in ranks.items()},
        program=process.memory_file(b"%s\n%s" % (_program(start["program"], bundle, cwd), payload)),
        grace_s=float(start["grace_s"]),
        copied=bundle.copied if bundle else "",
        files=files,
    )


def _program(program: Mapping[str, Any], bundle: UnpackedBundle | None, cwd: str) -> bytes:
    """What ranks read: the target, where to import from, and how to name files in tracebacks."""
    document = dict(program)
    if bundle:
        # what came with the run goes before what lies here under the same name, and may be older
        beyond = [] if bundle.source else [cwd]
        document["path"] = [*bundle.path, *document["path"], *beyond]
        document["lead"] = bundle.lead
        document["names"] = [bundle.copied, ""]
        if bundle.source:
            document["target"] = {**document["target"], "source": bundle.source}
    return json.dumps(document).encode()


def _cwd(wanted: str, bundle: UnpackedBundle | None) -> str:
    """The caller's working directory where this host has it, else the folder of the target's sources."""
    here = os.path.isdir(wanted) and os.access(wanted, os.X_OK)
    return bundle.lead if bundle and not here else wanted
