"""Commands to the process that owns a run, from the same user on the same machine.

They go through a Unix socket in the run's own folder, which no other user may enter. If its file system has
no sockets, the socket is in our folder for sockets, which may be emptied when the user logs out. Both ends
check that the other one is the same user; the name that a killed owner left is replaced.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import runtime_dir
from ..errors import AgentLost, InternalError, LauncherError, SpecError
from ..runs import paths

LIMIT = 64 << 10
_ANSWER_S = 5.0
_ERROR_CHARACTERS = 500
_KIND = socket.SOCK_SEQPACKET


def control_addresses(run: Path) -> tuple[Path, ...]:
    """The paths at which a run's owner may listen, the preferred one first."""
    return run / paths.CONTROL, runtime_dir.runtime_place() / f"{run.name}.sock"


class ControlServer:
    """The owner's end. `serve` handles one waiting client; other users get no answer.

    Raises:
        InternalError: it cannot listen.
    """

    def __init__(self, run: Path, handle: Callable[[dict[str, Any]], None]) -> None:
        self._handle = handle
        self._path, self._sock = _listen(run)

    def fileno(self) -> int:
        """The listening descriptor, for a selector."""
        return self._sock.fileno()

    def serve(self) -> None:
        """Accept one client and execute its command, if it is the same user and sends in time."""
        try:
            client, _ = self._sock.accept()
        except OSError:
            return
        with client:
            client.settimeout(0.2)  # a silent client must not block the run's thread
            if runtime_dir.peer(client)[1] == os.getuid():
                self._answer(client)

    def close(self) -> None:
        """Stop listening and remove the socket's name."""
        with contextlib.suppress(OSError):  # the folder may be gone
            self._path.unlink()
        self._sock.close()

    def _answer(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the client has left, or sends nothing
            command = client.recv(LIMIT)
            # a client that has left has reported to its user that the command had no effect
            if not runtime_dir.has_left(client):
                client.send(json.dumps(self._execute(command)).encode())

    def _execute(self, data: bytes) -> dict[str, Any]:
        try:
            command = json.loads(data)
            if not isinstance(command, dict):
                return {"error": "a command is an object"}
            self._handle(command)
        except Exception as error:  # noqa: BLE001  no command may end the run
            return {"error": f"{type(error).__name__}: {error}"[:_ERROR_CHARACTERS]}
        return {"ok": True}


def send_command(run: Path, command: dict[str, Any]) -> None:
    """Send a command to a run's owner.

    Raises:
        AgentLost: nobody owns the run on this machine.
        SpecError: the address belongs to somebody else.
        LauncherError: the owner did not accept the command.
    """
    with _connect(run) as sock:
        try:
            sock.send(json.dumps(command).encode())
            answer = sock.recv(LIMIT)
        except OSError as error:
            raise AgentLost(f"the owner of run {run.name} does not answer", run=run.name) from error
    if refusal := _refusal(answer):
        raise LauncherError(
            f"the owner of run {run.name} did not accept the command: {refusal}", run=run.name
        )


def _refusal(answer: bytes) -> str:
    """Why a command was not accepted; empty if it was. The socket of a copied folder may be any program's."""
    try:
        document = json.loads(answer or b'{"error": "it sent no answer"}')
    except (ValueError, RecursionError):
        return "its answer is invalid"
    return str(document.get("error") or "") if isinstance(document, dict) else "its answer is invalid"


def _listen(run: Path) -> tuple[Path, socket.socket]:
    reasons = []
    for path in control_addresses(run):
        try:
            if path.parent != run:
                runtime_dir.runtime_folder()
            return path, runtime_dir.bind(path, _KIND)
        except OSError as error:
            reasons.append(f"{path}: {error.strerror}")
            if error.errno == errno.EADDRINUSE:
                break
    raise InternalError(f"cannot listen for commands at {', nor at '.join(reasons)}", run=run.name)


def _connect(run: Path) -> socket.socket:
    for path in control_addresses(run):
        try:
            return runtime_dir.connect(path, _KIND, _ANSWER_S)
        except PermissionError as error:
            raise SpecError(f"the control address of run {run.name} is held by another user") from error
        except OSError:
            continue
    raise AgentLost(
        f"no process on this machine owns run {run.name}", hint="it may run on another host", run=run.name
    )
