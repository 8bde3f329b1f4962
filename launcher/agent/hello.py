"""How an agent connects to its engine, and the HELLO by which it introduces itself.

The connection is an inherited socket, one to an address of the engine, or one through a spool folder's files.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from .. import serialization
from ..channel.connecting import Unreachable
from ..spec.places import Device
from .boot import STDIN, Boot
from .torch_build import torch_cuda, torch_version

if TYPE_CHECKING:
    from ..channel.tls import SocketLike

# The exit code of an agent that cannot reach its engine: Spark's stage then fails before any rank has run.
UNREACHABLE = 69


def connect_to_engine(boot: Boot) -> SocketLike:
    """The stream to the engine. If there is none, report the reasons on standard error and exit."""
    if boot.descriptor >= 0:
        os.set_inheritable(boot.descriptor, False)
        return socket.socket(fileno=boot.descriptor)

    try:
        with _ending_with_the_task():
            return _remote_stream(boot)
    except Unreachable as error:
        _give_up(str(error))


def _remote_stream(boot: Boot) -> SocketLike:
    """The stream by an address of the engine, or else through the spool folder.

    Raises:
        Unreachable: neither works.
    """
    from ..channel.dial import dial, secure

    try:
        addresses = [(e.host, e.port) for e in boot.endpoints]
        return dial(addresses, boot.credentials, boot.dial_s, namespace=boot.namespace)
    except Unreachable as error:
        if not boot.spool:
            raise
        from ..channel import spool  # few need it

        if why := spool.why_not_shared(boot.spool, boot.marker):
            raise Unreachable(f"{error}; {why}") from error
        try:
            sock = spool.connect_by_files(boot.spool, boot.agent)
        except OSError as failed:
            why = f"nothing can be written to {boot.spool}: {failed.strerror}"
            raise Unreachable(f"{error}; {why}") from failed
    return secure(sock, boot.credentials, boot.dial_s)


def _give_up(why: str) -> NoReturn:
    from ..channel import network

    sys.stderr.write(f"{network.host_name()}: {why}\n")
    sys.exit(UNREACHABLE)


@contextlib.contextmanager
def _ending_with_the_task() -> Iterator[None]:
    """Exit at once if the Spark task ends within the context: there are no ranks to stop yet."""
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


@dataclass(frozen=True, slots=True)
class AgentGpus:
    """The GPUs that an agent may use, whether no other agent uses them, and why there are none."""

    devices: tuple[Device, ...] = ()
    exclusive: bool = True
    reason: str = ""


def agent_gpus(boot: Boot) -> AgentGpus:
    """The GPUs that the engine assigned, or that Spark granted, or that this host has."""
    if not boot.find_gpus:
        return AgentGpus(boot.devices)
    from .gpus import granted_gpus

    granted = granted_gpus(boot.gpus, os.environ)
    return AgentGpus(granted.devices, granted.exclusive, granted.reason)


def greeting(boot: Boot, gpus: AgentGpus, *, port: int, address: str, store: bool = False) -> dict[str, Any]:
    """The fields of a HELLO, except the proof. `store` is whether torch's store can be hosted here.

    An agent on its engine's host leaves out the fields that the engine knows.
    """
    fields: dict[str, Any] = {
        "agent": boot.agent,
        "time": time.time(),
        "host": boot.host,
        "pid": os.getpid(),
        "warden": os.getppid(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "port": port,
        "address": boot.address or address,
        "cores": boot.cores,
        "store": store,
        "devices": [serialization.to_plain(device) for device in gpus.devices],
    }
    return {**fields, **_remote_fields(gpus)} if boot.lifeline else fields


def _remote_fields(gpus: AgentGpus) -> dict[str, Any]:
    from ..channel import network

    return {
        "host": network.host_name(),
        "machine": network.machine(),
        "addresses": [address for _, address in network.addresses()],
        "executable": sys.executable or "",
        "torch": torch_version(),
        "cuda": torch_cuda(),
        "exclusive": gpus.exclusive,
        "gpu_reason": gpus.reason,
    }
