"""Hosts that are network namespaces: one for the driver and the master, one a worker, and a bridge between.

The bridge has no address, so that nothing outside reaches into it and several such networks can stand side
by side with the same addresses.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
_CLONE_NEWNET = 0x40000000


def hiding(folder: Path | None) -> list[str]:
    """What to put before an argv so that it runs with an empty folder in a place; None for nothing."""
    if folder is None:
        return []
    return ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs "$0" && exec "$@"', str(folder)]


class Network:
    """Namespaces `driver` and `worker(i)`, which reach one another by `address`.

    `promise` is told the name of everything before it is made, so that somebody else can remove it.
    """

    def __init__(self, workers: int, promise: Callable[[str, str], None]) -> None:
        token = secrets.token_hex(3)
        self._bridge = f"rk{token}b"
        self._names = [f"rk{token}-{'d' if i == 0 else f'w{i}'}" for i in range(workers + 1)]
        self._links = [f"rk{token}v{i}" for i in range(workers + 1)]
        for link in (*self._links, self._bridge):
            promise("link", link)
        for name in self._names:
            promise("netns", name)
        self._make()

    @property
    def driver(self) -> str:
        """The namespace of the driver and the master."""
        return self._names[0]

    def worker(self, index: int) -> str:
        """The namespace of a worker, counted from 0."""
        return self._names[index + 1]

    @staticmethod
    def address(index: int) -> str:
        """The address of the driver's namespace (-1) or of a worker's."""
        return f"10.77.0.{1 if index < 0 else 11 + index}"

    def cut(self, index: int) -> None:
        """Pull a worker's cable: what it sends is lost, and nobody is told."""
        _ip("link", "set", self._links[index + 1], "down")

    def heal(self, index: int) -> None:
        """Plug it in again."""
        _ip("link", "set", self._links[index + 1], "up")

    @contextmanager
    def refused(self, one: int, other: int) -> Iterator[None]:
        """What two workers send each other is refused at once: neither has a route to the other."""
        with self._either_way(one, other, "route add unreachable {}", "route del unreachable {}"):
            yield

    @contextmanager
    def lost(self, one: int, other: int) -> Iterator[None]:
        """What two workers send each other is lost, as in a firewall, and nobody is told."""
        nowhere = "neigh replace {} lladdr 02:00:00:00:00:01 dev eth0 nud permanent"
        with self._either_way(one, other, nowhere, "neigh del {} dev eth0"):
            yield

    @contextmanager
    def _either_way(self, one: int, other: int, begin: str, end: str) -> Iterator[None]:
        """A setting of `ip` in each of two workers' namespaces, with the address of the other one."""
        with ExitStack() as undone:
            for here, there in ((one, other), (other, one)):
                _batch([begin.format(self.address(there))], "-n", self.worker(here))
                undone.callback(_batch, [end.format(self.address(there))], "-n", self.worker(here))
            yield

    @staticmethod
    def prefix(namespace: str) -> list[str]:
        """What to put before an argv so that it runs there."""
        return ["ip", "netns", "exec", namespace] if namespace else []

    def _make(self) -> None:
        lines = [f"link add {self._bridge} type bridge", f"link set {self._bridge} up"]
        for name, link in zip(self._names, self._links, strict=True):
            _ip("netns", "add", name)
            lines += [
                f"link add {link} type veth peer name eth0 netns {name}",
                f"link set {link} master {self._bridge} up",
            ]
        _batch(lines)
        for index, name in enumerate(self._names):
            own = f"addr add {self.address(index - 1)}/24 dev eth0"
            _batch(["link set lo up", own, "link set eth0 up"], "-n", name)


def inside(namespace: str, work: Callable[[], T]) -> T:
    """Do something in a namespace, on a thread that moves there; sockets made there stay there."""
    results: list[T] = []
    errors: list[BaseException] = []

    def move_and_work() -> None:
        try:
            with open(f"/run/netns/{namespace}", "rb") as file:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(file.fileno(), _CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            results.append(work())
        except BaseException as error:  # noqa: BLE001  # it is the caller's
            errors.append(error)

    thread = threading.Thread(target=move_and_work)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def permitted() -> bool:
    """Whether this process may make namespaces."""
    name = f"rk{secrets.token_hex(3)}-try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    if made:
        _ip("netns", "del", name)
    return made


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _batch(lines: list[str], *options: str) -> None:
    text = "\n".join(lines) + "\n"
    subprocess.run(["ip", *options, "-batch", "-"], input=text, text=True, check=True, capture_output=True)
