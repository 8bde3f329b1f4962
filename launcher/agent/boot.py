"""An agent's two inputs: the boot line on its standard input, and the engine's START order."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from .. import serialization
from ..channel.connecting import Endpoint
from ..channel.frames import Kind
from ..spec.inherited import Inherited
from ..spec.places import Device
from . import process, program

if TYPE_CHECKING:
    from ..state.events import Event
    from .files.working_folder import Layout

STDIN = 0
_LIMIT = 64 << 20


@dataclass(frozen=True, slots=True)
class Boot:
    """The agent's settings: a JSON line on standard input, so that no secret is in a command line or file.

    Attributes:
        agent: the agent's number; in Spark, its task's partition.
        token: the secret that proves that both ends belong to one run.
        descriptor: an inherited socket to the engine, or -1 for one that must be dialled.
        endpoints: the engine's addresses, where there is no such socket.
        namespace: the engine's network namespace, in which alone its loopback addresses are its own; empty if
            unknown.
        credentials: the channel's certificates and key as PEM texts (`launcher.channel.tls`).
        lost_after_s: seconds of silence after which the other end counts as gone; None: never.
        dial_s: seconds for reaching the engine.
        watch: a process that ends with the engine, whose socket forked children may keep open; 0 for none.
        lifeline: whether standard input stays open, and its end means that Spark ended the task.
        sample_s: seconds between samples.
        host: the host's name for people.
        address: the agent's address for other agents; empty for the channel's.
        cores: how many cores the agent may use.
        devices: the GPUs that the engine has assigned.
        gpus: the addresses of the GPUs that Spark has granted to the task; None if Spark schedules no GPUs.
        find_gpus: whether the agent has to find its GPUs itself.
        spool: the folder of this launch on storage that may be shared, for an agent that can connect to no
            address of the engine; empty for none. `marker` is the content of its marker file.
        inherited: the shell's settings of the run's caller, to apply here; None where Spark starts the agent.
        ledger: the path of the ledger of the ranks' rows (`launcher.data.shares`); empty without such rows.
        worker: the Python worker that the agent watches, by its pid; 0 for one that starts ranks.
        counters: a descriptor of the memory in which that worker counts its rows and batches.
    """

    agent: int
    token: str
    descriptor: int = -1
    endpoints: tuple[Endpoint, ...] = ()
    namespace: str = ""
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
    ledger: str = ""
    worker: int = 0
    counters: int = -1


def read_boot() -> Boot:
    """Read the line from standard input and not a byte more: the rest is the lifeline."""
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
class ServiceOrder:
    """A service that the engine orders to start beside a rank.

    Attributes:
        name: what people call it.
        program: a descriptor from which it reads its order.
        is_rank: whether the rank is this service and runs no target.
    """

    name: str
    program: int
    is_rank: bool = False


@dataclass(frozen=True, slots=True)
class StartOrder:
    """The ranks that the engine orders to start.

    Attributes:
        python: the ranks' interpreter.
        root: the folder or zip that holds `launcher`.
        cwd: the ranks' working directory.
        env: the environment that all ranks share; `ranks` holds each rank's additions.
        program: a descriptor from which every rank reads its target.
        grace_s: seconds between SIGTERM and SIGKILL.
        files: how many open files a rank may have; -1 leaves the limit alone.
        copied: the folder into which the target's sources were unpacked; empty if they were not.
        shared_memory: a pattern for the names of the segments that the ranks leave; empty for none.
        services: the services to start, by the rank beside which they run.
        awaits: whether the ranks wait for the order to proceed.
        folders: the folders from which the target's modules are imported first.
        fresh: whether every rank is to be a fresh process.
        store: whether this agent hosts torch's store for the gang.
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
    shared_memory: str = ""
    services: Mapping[int, ServiceOrder] = field(default_factory=dict)
    awaits: bool = False
    folders: Sequence[str] = ()
    fresh: bool = False
    store: bool = False


class Emit(Protocol):
    """Where facts and ranks' bytes are sent."""

    def fact(self, fact: Event) -> None:
        """Send a fact; its time is on the agent's clock."""

    def raw(self, kind: Kind, data: bytes, *, rank: int, stream: int = 0) -> None:
        """Send a rank's bytes."""


# By these Spark's Python daemon and the JVM authenticate each other; ranks must not have them.
_SPARK_ONLY = frozenset(
    {"PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SECRET", "PYTHON_WORKER_FACTORY_SOCK_PATH"}
)


def base_environ(own: Mapping[str, str], extra: Mapping[str, str], *, python: str) -> dict[str, str]:
    """The environment that all ranks share: `own`, the spec's additions, and unbuffered output.

    The interpreter's folder goes first on PATH, because frameworks run tools (ninja) from the virtual
    environment, which an absolute interpreter path does not put on PATH.

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
    """A rank's variables without those among `names` that the host's own environment `own` sets.

    `names` are a framework's defaults, such as the network interface: an administrator who set them for the
    executors knows more than rankdeck found out.
    """
    return {name: value for name, value in rank.items() if name not in names or name not in own}


def prepare(
    start: Mapping[str, Any],
    payload: bytes,
    layout: Layout | None,
    root: str,
    *,
    files: int = -1,
    config: str = "",
    ledger: str = "",
    folder: Callable[[], str] = lambda: "",
) -> StartOrder:
    """The order in a START frame.

    With `inherit`, ranks start from this process's own environment and interpreter, as Spark's own workers
    here would; without it, they get exactly what the engine sent.

    Args:
        start: the document of the frame.
        payload: the pickle that came before it.
        layout: where the run's files are, if the engine sent them.
        root: the folder or zip that holds `launcher`.
        files: how many open files a rank may have; -1 for as many as this process.
        config: the path of the framework's configuration file; empty without one.
        ledger: the path of the ledger of the ranks' rows; empty without such rows.
        folder: makes a folder of the agent's own with a short path; called if there are services.

    Raises:
        OSError: there is no memory for the program, or no such folder.
    """
    python, cwd = start["python"] or sys.executable, _cwd(start["cwd"], layout)
    env, ranks = start["env"], start["ranks"]
    if start.get("inherit"):
        env = base_environ(os.environ, env, python=python)
        ranks = {rank: yielding(own, os.environ, start.get("yields", ())) for rank, own in ranks.items()}
    is_program = start["program"]["target"]["kind"] == "program"
    words = {program.PYTHON: python}
    imports = program.import_folders(start["program"], layout, cwd)
    if start.get("services"):
        words |= {program.FOLDER: folder(), program.IMPORTS: os.pathsep.join(imports)}
    return StartOrder(
        # a program is started through this interpreter, whatever interpreter it may use itself
        python=sys.executable if is_program else python,
        root=root,
        cwd=cwd,
        env=env,
        ranks=_with_shares({int(rank): own for rank, own in ranks.items()}, ledger),
        program=process.memory_file(
            program.encode(start["program"], payload, layout, cwd=cwd, root=root, config=config)
        ),
        grace_s=float(start["grace_s"]),
        copied=layout.copied if layout else "",
        files=files,
        shared_memory=start.get("shared_memory", ""),
        services=_services(start, words),
        awaits=bool(start.get("awaits")),
        folders=imports,
        # a program becomes another process at once
        fresh=is_program or bool(start.get("fresh")),
        store=bool(start.get("store")),
    )


def _with_shares(ranks: Mapping[int, Mapping[str, str]], ledger: str) -> dict[int, Mapping[str, str]]:
    """Each rank's variables with its share of the task's rows, by the order of the ranks."""
    if not ledger:
        return dict(ranks)
    from ..data.shares import SHARE  # most runs have no such rows

    return {rank: {**ranks[rank], SHARE: f"{ledger}:{place}"} for place, rank in enumerate(sorted(ranks))}


def _services(start: Mapping[str, Any], words: Mapping[str, str]) -> dict[int, ServiceOrder]:
    """What runs beside each rank; `words` stand for what only the agent knows."""
    return {
        int(rank): ServiceOrder(
            name=order["name"],
            program=process.memory_file(program.encode_service(order, words)),
            is_rank=order["is_rank"],
        )
        for rank, order in start.get("services", {}).items()
    }


def _cwd(callers: str, layout: Layout | None) -> str:
    """The caller's working directory if its files are here, else that of the copies."""
    if layout is None:
        return callers
    usable = layout.shared and os.path.isdir(callers) and os.access(callers, os.X_OK)
    return callers if usable else layout.cwd or layout.lead
