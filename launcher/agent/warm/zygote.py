"""The zygote: a process that only imports, and forks agents, which fork their ranks.

Started as ``python -u -c CODE ROOT SOCKET OWNER MODULE…``, like a rank, for its owner: an engine or a program
that starts runs itself, which has the other end of SOCKET; or the Python daemon of a Spark executor, whose
workers connect to SOCKET. It serves orders until its owner is gone. It must never run an operation of torch:
OpenMP's threads would be missing in its forks, and they would wait for them.

An agent is a fork of it, not of a lighter process, since ranks have to be children of their agent: the kernel
ends them with it, and what they leave behind becomes the agent's.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import re
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ... import serialization
from .. import agent, import_hooks, leftovers, linux, process, raising, torch_build
from ..boot import Boot
from . import forking, fresh
from .client import is_of_same_user
from .forking import Fork, Main, Zygote
from .starting import NAME

MESSAGE = 192 << 10
IDLE_S = 600.0  # of one that anybody may connect to
# What agents import that are not beside their engine.
_AFAR = (
    "encodings.idna",
    "importlib.metadata",
    "launcher.agent.files.preparation",
    "launcher.agent.gpus",
    "launcher.channel.dial",
)
SPARE_AFTER_S = 0.3
# The name of an agent without work and of its warden, who is told by a signal when there is some.
SPARE, _WORKS = "rankdeck-spare", signal.SIGUSR1
# What ranks of ours import, and what their agents do while the ranks start: imported when nobody waits.
_OURS = ("launcher.frameworks.torch",)
_LATER = ("launcher.agent.telemetry", "launcher.state.events", "psutil", "pynvml")
_PRINTED = 2000
_HELD: list[object] = []
"""What forks must not finalize: its descriptors have other owners there."""


def main() -> Main:
    """Serve the owner of the socket until it is gone; what is to run then. Returns in forks too.

    The collector is off when this begins, and on from when all is imported.
    """
    root, path = sys.path[0], (*([] if sys.flags.safe_path else [""]), *sys.path[1:])
    line = socket.socket(fileno=int(sys.argv[1]))
    line.set_inheritable(False)
    if _listens(line) and os.fork():
        os._exit(0)  # the worker that started it waits for no child of its own
    for descriptor in _kept(root):
        os.set_inheritable(descriptor, False)
    os.chdir("/")
    plain = linux.rename(NAME)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in (*_OURS, *sys.argv[3:], *(_AFAR if _listens(line) else ())):
        _import(name)
    if _listens(line):
        torch_build.torch_version()  # every agent tells these, and they take long to find out
        torch_build.torch_cuda()
    # a fork of this process could not say what an import has said
    printed = os.pread(sys.stderr.fileno(), _PRINTED, 0).decode(errors="replace")
    server = _Server(line, int(sys.argv[2]), root, path, plain, unfit=printed)
    _HELD.append(server)
    gc.enable()
    try:
        server.serve()
        return forking.main_of("")
    except _IsAgent as fork:
        line = fork.line  # it goes on below, as ranks must not run while an exception is handled
    return server.work_as_agent(line)()


def _kept(root: str) -> tuple[int, ...]:
    """The descriptor of the zip that modules are imported from, if they are."""
    return tuple(int(number) for number in re.findall(r"^/proc/self/fd/(\d+)$", root))


def _listens(line: socket.socket) -> bool:
    return bool(line.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def _import(name: str) -> None:
    """Import a module; what is missing or broken is the target's to find."""
    with contextlib.suppress(Exception):
        importlib.import_module(name)


def _received(line: socket.socket) -> tuple[bytes, list[int]]:
    """A message, and the descriptors that came with it; nothing where the other end is gone."""
    for _ in range(2):
        # who leaves without having read all resets the line: that is told first, and then what was sent
        with contextlib.suppress(OSError):
            data, descriptors, _, _ = socket.recv_fds(line, MESSAGE, 3)
            return data, descriptors
    return b"", []


def _send(line: socket.socket, document: Mapping[str, Any], descriptors: Iterable[int] = ()) -> None:
    socket.send_fds(line, [json.dumps(document).encode()], list(descriptors))


class _IsAgent(BaseException):
    """This process is a fork that is to be an agent: it leaves the zygote's stack.

    Attributes:
        line: where it gets its order.
    """

    def __init__(self, line: socket.socket) -> None:
        self.line = line


@dataclass(frozen=True, slots=True)
class _Spare:
    """An agent that waits for its order, under its warden: a run need not wait for two forks."""

    warden: int
    pidfd: int
    line: socket.socket

    def close(self) -> None:
        """Forget it; without an order, it ends."""
        self.line.close()
        os.close(self.pidfd)


class _Server:
    """The zygote's loop.

    An order holds the agent's settings (`boot`), the `modules` that later runs of the kind need too, the
    agent's environment (`environ`; None for the zygote's own), and what the `descriptors` are that come with
    it: the agent's ``channel``, its ``errors``, its ``stdin``.
    """

    def __init__(
        self, line: socket.socket, owner: int, root: str, path: tuple[str, ...], name: str, *, unfit: str
    ) -> None:
        self._root, self._path, self._name, self._unfit = root, path, name, unfit
        self._tried: set[str] = set()
        self._spare: _Spare | None = None
        self._agents: dict[int, socket.socket] = {}
        self._waiting = select.poll()
        self._lines: dict[int, socket.socket] = {}
        self._owner = -1
        self._listens = _listens(line)
        self._belong_to(owner)
        self._door = line if self._listens else None
        self._listen(line)
        self._wake = process.wake_on(signal.SIGCHLD)
        self._waiting.register(self._wake, select.POLLIN)
        self._look()
        if not self._listens:
            self._say_ready(line)

    def _listen(self, line: socket.socket) -> None:
        self._lines[line.fileno()] = line
        self._waiting.register(line, select.POLLIN)

    def _accept(self, door: socket.socket) -> None:
        """Serve whoever connects, if it is the same user."""
        line, _ = door.accept()
        if is_of_same_user(line):
            self._say_ready(line)
            self._listen(line)

    def _say_ready(self, line: socket.socket) -> None:
        with contextlib.suppress(OSError):  # whoever asked is gone
            _send(line, {"ready": not self._unfit, "printed": self._unfit})

    def _retire(self) -> None:
        """Serve nobody else, and end with the last agent."""
        if self._door is not None:
            self._waiting.unregister(self._door)
            del self._lines[self._door.fileno()]
            self._door.close()
            self._door = None
        self._unfit = self._unfit or "it is retired"

    def _belong_to(self, owner: int) -> None:
        """End with that process, whoever else may have its end of the socket.

        A command may have ended while this process was importing, and have given its end to an engine, which
        says so in its first message; if it has not, the socket is at its end.
        """
        if self._owner >= 0:
            self._waiting.unregister(self._owner)
            os.close(self._owner)
            self._owner = -1
        try:
            self._owner = os.pidfd_open(owner)
        except ProcessLookupError:
            if self._listens:
                sys.exit()
            return
        self._waiting.register(self._owner, select.POLLIN)

    def _look(self) -> None:
        """See what has been imported, for all forks from now on."""
        import_hooks.note_holders(raising.GROUPS)
        self._ours = this_process(self._path, self._name, self._root)
        gc.freeze()

    def serve(self) -> None:
        """Serve orders until the owner is gone, nobody has come for long, or an imported file has changed."""
        while self._lines and not self._ours.changed():
            wants_spare = self._spare is None and not self._unfit
            ready = self._waiting.poll((SPARE_AFTER_S if wants_spare else IDLE_S) * 1000)
            if not ready and not wants_spare and self._listens and not self._agents:
                return
            if not ready and wants_spare:
                self._import(_LATER)
                self._spare = self._new_spare()
            for descriptor, _ in ready:
                if descriptor == self._owner:
                    return
                if descriptor == self._wake:
                    self._reap()
                elif (line := self._lines.get(descriptor)) is not None:
                    self._on_readable(line)

    def _reap(self) -> None:
        """Wait for wardens that have ended, and tell those who wait for their agents."""
        process.drain(self._wake)
        for pid, status in process.reap():
            if (line := self._agents.pop(pid, None)) is not None:
                with contextlib.suppress(OSError):
                    _send(line, {"ended": process.outcome(status)[0]})

    def _on_readable(self, line: socket.socket) -> None:
        if line is self._door:
            return self._accept(line)
        data, descriptors = _received(line)
        if not data:
            self._waiting.unregister(line)
            del self._lines[line.fileno()]
            self._agents = {pid: each for pid, each in self._agents.items() if each is not line}
            return line.close()
        order = json.loads(data)
        if "owner" in order:
            return self._belong_to(order["owner"])
        if "retire" in order:
            return self._retire()
        self._answer(line, data, descriptors)
        return self._import(order["modules"])

    def _answer(self, line: socket.socket, order: bytes, descriptors: list[int]) -> None:
        """Make an agent of the spare one, or of a new one if that has ended."""
        try:
            if self._unfit:
                return _send(line, {"refused": self._unfit})
            for last in (False, True):
                spare, self._spare = self._spare or self._new_spare(), None
                with contextlib.closing(spare):
                    if not _give(spare, order, descriptors, required=last):
                        continue
                    if self._listens:
                        self._agents[spare.warden] = line
                    _send(line, {"pid": spare.warden}, [spare.pidfd])
                    return None
        except OSError as error:
            with contextlib.suppress(OSError):  # whoever asked is gone
                _send(line, {"refused": error.strerror})
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return None

    def _import(self, modules: Iterable[str]) -> None:
        """Import what later runs of the kind need too."""
        wanted = {*modules} - sys.modules.keys() - self._tried
        self._tried |= wanted
        for name in sorted(wanted):
            _import(name)
        if wanted:
            if self._spare is not None:
                self._spare.close()
                self._spare = None
            self._look()

    def _new_spare(self) -> _Spare:
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            warden = forking.fork_quietly()
        except OSError:
            near.close()
            far.close()
            raise
        if warden == 0:
            near.close()
            raise _IsAgent(far)
        far.close()
        return _Spare(warden, os.pidfd_open(warden), near)

    def work_as_agent(self, line: socket.socket) -> Fork:
        """Be an agent under its warden, with the order that comes, and end with it. Returns in forks only."""
        code = 1
        try:
            gc.freeze()
            os.setsid()
            linux.rename(SPARE)
            null = os.open(os.devnull, os.O_WRONLY)
            forking.replace_descriptors((null, null), [line.fileno(), *self._ours.kept])
            leftovers.rename()
            signal.signal(_WORKS, lambda *_: linux.rename(process.WARDEN))
            process.fork_warden(keep_from_warden=line.fileno())
            signal.signal(_WORKS, signal.SIG_DFL)
            data, descriptors, _, _ = socket.recv_fds(line, MESSAGE, 3)
            line.close()
            if data and (fork := self._work(json.loads(data), descriptors)):
                return fork
            # as Python's own exit does: one thread may be clearing a spool folder
            threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:  # noqa: BLE001  it must not go on as the zygote
            traceback.print_exc()
        os._exit(code)

    def _work(self, order: dict[str, Any], descriptors: list[int]) -> Fork | None:
        """Be an agent, as ordered."""
        os.kill(os.getppid(), _WORKS)
        given = dict(zip(order["descriptors"], descriptors, strict=True))
        for number, name in ((0, "stdin"), (2, "errors")):
            if name in given:
                os.dup2(given[name], number)
                os.close(given[name])
        if order["environ"] is not None:
            forking.replace_environ(order["environ"])
        boot = serialization.from_plain(Boot, order["boot"])
        return agent.work(replace(boot, descriptor=given.get("channel", -1)), self._root, self._ours)


def _give(spare: _Spare, order: bytes, descriptors: list[int], *, required: bool) -> bool:
    """Whether a spare agent took an order; False if it has ended.

    Raises:
        OSError: it did not, and that is `required`.
    """
    try:
        socket.send_fds(spare.line, [order], descriptors)
    except OSError:
        if required:
            raise
        return False
    return True


def this_process(path: tuple[str, ...], name: str, root: str) -> Zygote:
    """The calling process as a zygote.

    Args:
        path: `sys.path` as its interpreter has made it.
        name: the name that the kernel gives such a process.
        root: the folder or zip that holds `launcher`.
    """
    return Zygote(path, fresh.packages() - fresh.PACKAGES, name, root, _kept(root))
