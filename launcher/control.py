"""Commands to the process that owns a run, from the same user on the same machine.

An abstract Unix socket named after the run: it has no file, so a killed owner leaves none behind, and
the kernel says who is at the other end. Both ends check that it is the same user.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
from collections.abc import Callable
from typing import Any

from launcher.errors import AgentLost, InternalError, LauncherError, SpecError

LIMIT = 64 << 10
_PEER = struct.Struct("3i")
_ANSWER_S = 5.0
_WORDS = 500


def address(run: str) -> str:
    """The run's control address; the leading NUL makes it abstract."""
    return f"\0rankdeck/{os.getuid()}/{run}"


def peer_uid(sock: socket.socket) -> int:
    """The user at the other end, by the kernel's word."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return int(_PEER.unpack(raw)[1])


class ControlServer:
    """The owner's end. `serve` handles one waiting client; strangers get nothing.

    Raises:
        InternalError: another process has the run's address.
    """

    def __init__(self, run: str, handle: Callable[[dict[str, Any]], None]) -> None:
        self._handle = handle
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._sock.setblocking(False)
        try:
            self._sock.bind(address(run))
        except OSError as error:
            self._sock.close()
            raise InternalError(f"another process has the control address of run {run}", run=run) from error
        self._sock.listen(8)

    def fileno(self) -> int:
        """The listening descriptor, for a selector."""
        return self._sock.fileno()

    def serve(self) -> None:
        """Accept one client and do what it asks, if it is ours and asks in time."""
        try:
            client, _ = self._sock.accept()
        except OSError:
            return
        with client:
            client.settimeout(0.2)  # the run's thread waits: a silent client is dropped soon
            if peer_uid(client) == os.getuid():
                self._answer(client)

    def close(self) -> None:
        """Stop listening; the name vanishes."""
        self._sock.close()

    def _answer(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the client has left, or says nothing
            client.send(json.dumps(self._obey(client.recv(LIMIT))).encode())

    def _obey(self, data: bytes) -> dict[str, Any]:
        try:
            command = json.loads(data)
            if not isinstance(command, dict):
                return {"error": "a command is an object"}
            self._handle(command)
        except Exception as error:  # noqa: BLE001  whatever a client says, it must not end the run
            return {"error": f"{type(error).__name__}: {error}"[:_WORDS]}
        return {"ok": True}


def send_command(run: str, command: dict[str, Any]) -> None:
    """Tell a run's owner something.

    Raises:
        AgentLost: nobody owns the run on this machine.
        SpecError: the address belongs to somebody else.
        LauncherError: the owner did not accept the command.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.settimeout(_ANSWER_S)
        try:
            sock.connect(address(run))
        except OSError as error:
            raise AgentLost(
                f"no process on this machine owns run {run}", hint="it may run on another host"
            ) from error
        if peer_uid(sock) != os.getuid():
            raise SpecError(f"the control address of run {run} is held by another user")
        try:
            sock.send(json.dumps(command).encode())
            answer = sock.recv(LIMIT)
        except OSError as error:
            raise AgentLost(f"the owner of run {run} does not answer", run=run) from error
    if refusal := json.loads(answer or b'{"error": "it said nothing"}').get("error"):
        raise LauncherError(f"the owner of run {run} did not accept the command: {refusal}", run=run)
