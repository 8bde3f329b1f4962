"""The private folder for sockets and locks, and Unix sockets in it, however long its path is.

It is ``$RANKDECK_HOME/run``, else ``$XDG_RUNTIME_DIR/rankdeck``, else ``rankdeck-<uid>`` in the folder for
temporary files. Only its owner can enter it, and both ends of a socket get the other's user from the kernel.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import socket
import stat
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .errors import InternalError

_MODE = 0o700
_PEER = struct.Struct("3i")
_TIMEVAL = struct.Struct("@ll")


def runtime_folder() -> Path:
    """The folder, created if it does not exist, and made private.

    Raises:
        InternalError: it cannot be created, or belongs to another user.
    """
    folder = runtime_place()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=_MODE)
        found = folder.lstat()
    except OSError as error:
        raise InternalError(f"cannot make {folder}: {error.strerror}", hint="set RANKDECK_HOME") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        reason = f"{folder} belongs to somebody else"
        raise InternalError(reason, hint="set RANKDECK_HOME to a folder of yours")
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(_MODE)
    return folder


def runtime_place() -> Path:
    """The path of that folder, which may not exist."""
    if home := os.environ.get("RANKDECK_HOME"):
        return Path(home).expanduser().absolute() / "run"
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(base) and os.access(base, os.W_OK | os.X_OK):
        return Path(base) / "rankdeck"
    return Path(tempfile.gettempdir()) / f"rankdeck-{os.getuid()}"


def bind(path: Path, kind: socket.SocketKind) -> socket.socket:
    """A non-blocking socket that listens at `path`; the socket of a killed owner is replaced.

    Raises:
        OSError: it cannot be bound; `EADDRINUSE` if another process listens there.
    """
    sock = socket.socket(socket.AF_UNIX, kind)
    sock.setblocking(False)
    try:
        with _near(path) as name:
            if _is_stale(name, kind):
                Path(name).unlink(missing_ok=True)
            sock.bind(name)
            os.chmod(name, 0o600)
        sock.listen(128)
    except BaseException:
        sock.close()
        raise
    return sock


def connect(path: Path, kind: socket.SocketKind, timeout_s: float) -> socket.socket:
    """A socket connected to the process of the same user that listens at `path`.

    Raises:
        PermissionError: another user listens there.
        BlockingIOError: the queue of connections was still full after `timeout_s`.
        OSError: no process listens there.
    """
    sock = socket.socket(socket.AF_UNIX, kind)
    try:
        with _near(path) as name:
            _dial(sock, name, timeout_s)
        if peer(sock)[1] != os.getuid():
            raise PermissionError(f"{path} is held by another user")
    except BaseException:
        sock.close()
        raise
    return sock


def _dial(sock: socket.socket, name: str, timeout_s: float) -> None:
    """Connect, and wait for room in the queue of connections, which Python's own timeout does not do."""
    limit = _TIMEVAL.pack(int(timeout_s), int(timeout_s % 1 * 1e6))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    sock.connect(name)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.pack(0, 0))
    sock.settimeout(timeout_s)


def peer(sock: socket.socket) -> tuple[int, int]:
    """The pid and the user id of the other end, from the kernel."""
    pid, uid, _ = _PEER.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return int(pid), int(uid)


def has_left(sock: socket.socket) -> bool:
    """Whether the other end has closed its connection, and so no longer waits for an answer.

    A process that was suspended reads requests when it continues, minutes after their senders have given up.
    """
    poll = select.poll()
    poll.register(sock, select.POLLRDHUP)
    return bool(poll.poll(0))


def is_stale(path: Path, kind: socket.SocketKind) -> bool:
    """Whether there is a socket at `path` on which no process listens."""
    with _near(path) as name:
        return _is_stale(name, kind)


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold a file's lock, which the kernel releases however this process ends; whether it was free."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield _lock(descriptor, wait=wait)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, *, wait: bool) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _near(path: Path) -> Iterator[str]:
    """A short name for the same path: a socket's address holds 107 bytes, and paths may be longer."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _is_stale(name: str, kind: socket.SocketKind) -> bool:
    if not os.path.lexists(name):
        return False
    with socket.socket(socket.AF_UNIX, kind) as trial:
        try:
            _dial(trial, name, 1.0)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
