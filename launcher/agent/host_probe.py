"""The probes of a host before a run: what it has, what is in use, what it reaches. Standard library only.

Each probe has a thread of its own and all have one time limit: a file system or a driver that does not answer
leaves its own facts unknown, and no others. Only for an agent that starts no ranks: it must not be forked.
"""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import re
import resource
import selectors
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..channel import network
from ..channel.connecting import DialAddress, connect, dial_addresses
from ..selectable_queue import SelectableQueue
from ..state.host_facts import (
    DialFacts,
    DiskFacts,
    GpuFacts,
    GpuHolder,
    HostFacts,
    HostQuestions,
    Installed,
    PathFacts,
    PeerAddress,
)
from . import installed, leftovers, memory_groups, nvml

Probe = Callable[[], dict[str, Any]]
"""Returns fields of `HostFacts`."""

SHARED_MEMORY = "/dev/shm"
LIMITS = {
    "nofile": resource.RLIMIT_NOFILE,
    "nproc": resource.RLIMIT_NPROC,
    "memlock": resource.RLIMIT_MEMLOCK,
    "as": resource.RLIMIT_AS,
}
_BACKLOG = 128
_GREETING = 256
_REFUSED_S, _AGAIN_S, _LEAST_S = 1.0, 0.05, 0.3
_KERNEL_LOG, _LOG_BYTES, _RECORD = "/dev/kmsg", 4 << 20, 8 << 10
_XID = re.compile(rb"NVRM: Xid \([^)]*\): (\d{1,4}),")


class HostProbe:
    """All probes of this host, from its construction on. The descriptor is readable once there is an answer.

    Args:
        questions: what is asked.
        root: the folder or zip that holds `launcher`.
        agent: this agent's number.
        port: a bound socket, at which the other agents find this one.
        files: how many open files a rank may have; -1 for as many as this process.
    """

    def __init__(
        self, questions: HostQuestions, root: str, agent: int, port: socket.socket, files: int
    ) -> None:
        self._answers: SelectableQueue[HostFacts] = SelectableQueue()
        port.listen(_BACKLOG)
        threading.Thread(target=greet, args=(port, questions.nonce, agent), daemon=True).start()
        probes = probes_for(questions, root, files)
        threading.Thread(target=self._run, args=(probes, questions.limit_s), daemon=True).start()

    def fileno(self) -> int:
        """The descriptor for a selector."""
        return self._answers.fileno()

    def take(self) -> list[HostFacts]:
        """The answer, once it is there."""
        return self._answers.take()

    def _run(self, probes: Mapping[str, Probe], limit_s: float) -> None:
        self._answers.put(answer(probes, limit_s))


def probes_for(questions: HostQuestions, root: str, files: int) -> dict[str, Probe]:
    """The probes that answer these questions."""
    return {
        "interpreter": lambda: {"installed": interpreter(questions, root)},
        "memory": memory,
        "shared memory": shared_memory,
        "limits": lambda: {"limits": limits(files), "infiniband": has_infiniband()},
        "interfaces": lambda: {"interfaces": interfaces()},
        "scratch": lambda: {"scratch": disk(leftovers.scratch_place(os.environ))},
        "gpus": lambda: gpus(nvml.open_session),
        "kernel log": lambda: {"xids": logged_xids()},
        "dials": lambda: {"dials": dial(questions.peers, questions.nonce, questions.limit_s * 0.8)},
        "paths": lambda: {"paths": tuple(map(path_facts, questions.paths))},
    }


def answer(probes: Mapping[str, Probe], limit_s: float) -> HostFacts:
    """What the probes have found within the limit, and of each other one why there is nothing."""
    done: queue.Queue[tuple[str, dict[str, Any], str]] = queue.Queue()
    for name, probe in probes.items():
        threading.Thread(target=_probe, args=(name, probe, done), name=name, daemon=True).start()
    waiting, until = dict.fromkeys(probes), time.monotonic() + limit_s
    fields: dict[str, Any] = {}
    unanswered = {}
    while waiting:
        try:
            name, found, why = done.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            break
        del waiting[name]
        fields |= found
        if why:
            unanswered[name] = why
    unanswered |= dict.fromkeys(waiting, f"no answer within {limit_s:.3g} s")
    return HostFacts(**fields, unanswered=unanswered)


def _probe(name: str, probe: Probe, done: queue.Queue[tuple[str, dict[str, Any], str]]) -> None:
    try:
        done.put((name, probe(), ""))
    except Exception as error:  # noqa: BLE001  what a probe cannot find out is unknown, and it says why
        done.put((name, {}, f"{type(error).__name__}: {error}"[:200]))


def interpreter(questions: HostQuestions, root: str) -> Installed:
    """What the ranks' interpreter has."""
    if questions.python:
        limit_s = questions.limit_s * 0.9
        return installed.ask(questions.python, root, questions.modules, questions.folders, limit_s)
    return installed.look(questions.modules, questions.folders)


# --- memory, limits, disks ---------------------------------------------------------------------------


def memory(proc: Path = memory_groups.PROC, groups: Path = memory_groups.GROUPS) -> dict[str, Any]:
    """The host's memory, or that of our control group if it may have less."""
    pairs = (line.split()[:2] for line in (proc / "meminfo").read_text().splitlines())
    kib = {name.rstrip(":"): int(number) for name, number in pairs}
    total, free = kib["MemTotal"] << 10, kib["MemAvailable"] << 10
    for most, used in memory_groups.limits(proc, groups):
        total, free = min(total, most), max(0, min(free, most - used))
    return {"memory": total, "memory_free": free}


def shared_memory(place: str = SHARED_MEMORY) -> dict[str, Any]:
    """The size of /dev/shm, and what of it is free."""
    usage = shutil.disk_usage(place)
    return {"shm": usage.total, "shm_free": usage.free}


def limits(files: int) -> dict[str, int | None]:
    """A rank's soft limits; this agent may have raised its own limit of open files."""
    soft = {name: resource.getrlimit(number)[0] for name, number in LIMITS.items()}
    if files >= 0:
        soft["nofile"] = files
    return {name: None if value == resource.RLIM_INFINITY else value for name, value in soft.items()}


def has_infiniband(place: Path = Path("/sys/class/infiniband")) -> bool:
    """Whether this host has an adapter of InfiniBand or RoCE."""
    return place.is_dir() and any(place.iterdir())


def interfaces() -> dict[str, tuple[str, ...]]:
    """The interfaces that are up, each with its addresses."""
    found: dict[str, tuple[str, ...]] = {}
    for interface, address in network.addresses():
        found[interface] = (*found.get(interface, ()), address)
    return found


def disk(folder: str) -> DiskFacts:
    """The file system of a folder, and whether a file can be made there."""
    place = existing(folder)
    try:
        usage = shutil.disk_usage(place)
    except OSError as error:
        return DiskFacts(folder, trouble=error.strerror or str(error))
    writable = os.access(place, os.W_OK | os.X_OK)
    return DiskFacts(
        folder, usage.total, usage.free, "" if writable else f"nothing can be written to {place}"
    )


def existing(path: str) -> str:
    """The path, or the nearest folder above it that exists."""
    while not os.path.exists(path) and (parent := os.path.dirname(path)) != path:
        path = parent
    return path


def path_facts(path: str) -> PathFacts:
    """What this process may do with a path."""
    if not os.path.exists(path):
        return PathFacts(path)
    folder = os.path.isdir(path)
    search = os.X_OK if folder else 0
    readable, writable = os.access(path, os.R_OK | search), os.access(path, os.W_OK | search)
    return PathFacts(path, exists=True, is_folder=folder, readable=readable, writable=writable)


# --- GPUs --------------------------------------------------------------------------------------------


def gpus(open_nvml: Callable[[], nvml.NvmlSession]) -> dict[str, Any]:
    """The GPUs by NVML, and the driver's versions; or why there are none."""
    try:
        session = open_nvml()
    except nvml.NoAnswer as error:
        return {"gpu_trouble": str(error)}
    try:
        found = tuple(gpu_facts(session, gpu) for gpu in session.gpus())
        versions = {"driver": session.driver(), "driver_cuda": session.newest_cuda()}
    except nvml.NoAnswer as error:
        return {"gpu_trouble": str(error)}
    finally:
        session.close()
    return {"gpus": found, "gpu_trouble": "" if found else "NVML lists no GPU", **versions}


def gpu_facts(session: nvml.NvmlSession, gpu: nvml.Gpu) -> GpuFacts:
    """One GPU, with the processes on it."""
    if gpu.device is None:
        return GpuFacts(gpu.index, trouble=gpu.error)
    uuid = gpu.device.uuid
    sample, health = session.read(uuid), session.health(uuid)
    holders = tuple(holder(pid, used) for pid, used in sorted(session.process_memory(uuid).items()))
    return GpuFacts(
        gpu.index,
        uuid,
        gpu.device.name,
        sample.memory_total,
        sample.memory_used,
        holders,
        health.uncorrected,
        health.pending,
        health.broken,
        sample.throttle,
    )


def holder(pid: int, memory: int | None) -> GpuHolder:
    """A process on a GPU; only its pid where the driver counts pids of another namespace."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
        user = user_name(os.stat(f"/proc/{pid}").st_uid)
    except OSError:
        return GpuHolder(pid, memory)
    return GpuHolder(pid, memory, name, user)


def user_name(uid: int) -> str:
    """A user's name, or number."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def logged_xids(path: str = _KERNEL_LOG) -> tuple[int, ...] | None:
    """The Xids in the kernel's log, each once; None if it may not be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb", buffering=0) as log:
        found = (int(number) for record in _records(log.fileno()) for number in _XID.findall(record))
        return tuple(sorted(set(found)))


def _records(descriptor: int) -> Iterator[bytes]:
    """The kernel's records, one a read."""
    left = _LOG_BYTES
    while left > 0:
        try:
            record = os.read(descriptor, _RECORD)
        except BrokenPipeError:  # the next one was overwritten meanwhile
            continue
        except OSError:  # all are read, or none may be
            return
        if not record:
            return
        left -= len(record)
        yield record


# --- the network -------------------------------------------------------------------------------------


def greet(port: socket.socket, nonce: str, agent: int) -> None:
    """Tell everyone that connects who listens here, until the socket is closed."""
    while True:
        try:
            connection, _ = port.accept()
        except OSError:
            return
        with contextlib.suppress(OSError), connection:
            connection.settimeout(1.0)
            connection.sendall(greeting(nonce, agent))


def greeting(nonce: str, agent: int) -> bytes:
    """What a listening agent sends."""
    return f"rankdeck {nonce} {agent}\n".encode()


def dial(peers: Iterable[PeerAddress], nonce: str, limit_s: float) -> tuple[DialFacts, ...]:
    """Connect to every address of every peer at once, and hear who is there; all share one limit.

    A refusal is tried again for a second, and at least once: an agent may have been asked a little later than
    this one.
    """
    peers, began, rounds = tuple(peers), time.monotonic(), 0
    results: dict[tuple[int, str], DialFacts] = {}
    while True:
        waiting = [p for p in peers if any((p.agent, a) not in results for a in p.addresses)]
        left = limit_s - (time.monotonic() - began)
        for facts in _round(waiting, results, nonce, max(_LEAST_S, left)):
            results[facts.agent, facts.address] = facts
        rounds += 1
        refused = {key for key, facts in results.items() if facts.error == _REFUSED}
        if not refused or (rounds > 1 and time.monotonic() - began > _REFUSED_S):
            return tuple(results.values())
        for key in refused:
            del results[key]
        time.sleep(_AGAIN_S)


_REFUSED = "connection refused"


def _round(
    peers: Iterable[PeerAddress], known: Mapping[tuple[int, str], DialFacts], nonce: str, limit_s: float
) -> Iterator[DialFacts]:
    """One attempt at each address that has no result yet; all end within the limit."""
    targets: dict[DialAddress, tuple[int, str]] = {}
    for peer in peers:
        for address in peer.addresses:
            if (peer.agent, address) in known:
                continue
            try:
                targets.update(dict.fromkeys(dial_addresses(address, peer.port), (peer.agent, address)))
            except (OSError, UnicodeError) as error:
                yield DialFacts(peer.agent, address, error=f"no such address: {error}")
    began = time.monotonic()
    with contextlib.ExitStack() as open_sockets:
        connected: dict[socket.socket, _Reached] = {}
        for target, outcome in connect(targets, limit_s):
            agent, address = targets[target]
            facts = DialFacts(agent, address, _interface_to(address), round(time.monotonic() - began, 4))
            if isinstance(outcome, socket.socket):
                open_sockets.enter_context(outcome)
                connected[outcome] = _Reached(facts, greeting(nonce, agent))
            else:
                refused = outcome.errno == errno.ECONNREFUSED
                yield replace(facts, error=_REFUSED if refused else outcome.strerror or str(outcome))
        # what was sent while others were being connected has waited here
        yield from _hear_all(connected, began + limit_s)


@dataclass(slots=True)
class _Reached:
    """A peer that was connected, what it has to say, and what it has said so far."""

    facts: DialFacts
    expected: bytes
    said: bytes = b""

    def hear(self, connection: socket.socket) -> str | None:
        """Read once. Why it is not the agent that was dialled; empty if it is, None while that is open."""
        try:
            piece = connection.recv(_GREETING)
        except BlockingIOError:
            return None
        except OSError as error:
            return f"connected, and then {error.strerror or 'nothing was heard'}"
        self.said += piece
        if piece and not self.said.endswith(b"\n") and len(self.said) < _GREETING:
            return None
        return "" if self.said == self.expected else "another program answers there"


def _hear_all(connected: Mapping[socket.socket, _Reached], until: float) -> Iterator[DialFacts]:
    """Listen to all at once until the monotonic time `until`; what each turned out to be."""
    waiting = dict(connected)
    with selectors.DefaultSelector() as selector:
        for connection in waiting:
            selector.register(connection, selectors.EVENT_READ)
        while waiting:
            left = until - time.monotonic()
            ready = selector.select(max(0.0, left))
            if not ready and left <= 0:
                break
            heard = {key.fileobj for key, _ in ready}
            for connection in [each for each in waiting if each in heard]:
                if (why := waiting[connection].hear(connection)) is not None:
                    selector.unregister(connection)
                    yield replace(waiting.pop(connection).facts, error=why)
    for silent in waiting.values():
        yield replace(silent.facts, error="connected, and then nothing was heard")


def _interface_to(address: str) -> str:
    """This host's interface on the way to an address; empty if there is no way."""
    try:
        return network.interface_of(network.source_for(address))
    except (OSError, UnicodeError):
        return ""
