"""An engine's address: its socket, the file beside it that says who listens there, and the lock of both."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import select
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launcher import runtime
from launcher.runs.paths import is_run_id
from launcher.runs.private import write_whole


class EngineAddress:
    """Listens at `place`.

    Raises:
        OSError: it cannot; `EADDRINUSE` where another engine does.
    """

    def __init__(self, place: Path) -> None:
        self._place, self.folder = place, place.parent
        self._sock = runtime.bind(place, socket.SOCK_STREAM)
        self._inode = place.lstat().st_ino

    def fileno(self) -> int:
        """For a selector."""
        return self._sock.fileno()

    def accept(self, clients: int) -> socket.socket | None:
        """A client of the same user, if one waits, beside so many that are here.

        Raises:
            OSError: there is no room for one: most descriptors are kept for runs.
        """
        if clients >= resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 3:
            raise OSError(errno.EMFILE, "too many are here")
        try:
            sock = self._sock.accept()[0]
        except (BlockingIOError, ConnectionError):
            return None
        if runtime.peer(sock)[1] == os.getuid():
            return sock
        sock.close()
        return None

    def renew(self, identity: Mapping[str, Any]) -> bool:
        """Listen again if our name is gone: a folder for sockets is emptied when its user logs out.

        Whether clients find us, or may do so when the folder is there again; another engine may have come.
        """
        with contextlib.suppress(OSError):
            if self._is_ours():
                return True
            self.folder.mkdir(mode=0o700, exist_ok=True)
            with runtime.locked(self._place.with_suffix(".lock"), wait=False) as free:
                if not free or self._place.exists():
                    return not free
                old, self._sock = self._sock, runtime.bind(self._place, socket.SOCK_STREAM)
                self._inode = self._place.lstat().st_ino
                old.close()
            self.announce(identity)
        return True

    def _is_ours(self) -> bool:
        try:
            return self._place.lstat().st_ino == self._inode
        except FileNotFoundError:
            return False

    def announce(self, identity: Mapping[str, Any]) -> None:
        """Write down who listens here."""
        write_whole(self._place.with_suffix(".json"), json.dumps(identity).encode())

    def give_up(self) -> bool:
        """Hide, unless a client is about to come: it holds the lock, or waits to be let in."""
        try:
            with runtime.locked(self._place.with_suffix(".lock"), wait=False) as free:
                if not free or select.select([self._sock], [], [], 0)[0]:
                    return False
                self.hide()
        except OSError:  # the folder is gone: nobody can come
            return True
        return True

    def hide(self) -> None:
        """Take the address away, if it is still ours: another engine may have come after us."""
        with contextlib.suppress(OSError):
            if self._is_ours():
                self._place.unlink(missing_ok=True)
                self._place.with_suffix(".json").unlink(missing_ok=True)

    def close(self) -> None:
        """Listen no more."""
        self.hide()
        self._sock.close()


def sweep(folder: Path, *, older_s: float = 60.0) -> None:
    """Remove the sockets of owners that were killed; one that is new may only not listen yet."""
    for path in folder.glob("*.sock"):
        with contextlib.suppress(OSError):
            if time.time() - path.lstat().st_mtime < older_s:
                continue
            if is_run_id(path.stem) and runtime.is_stale(path, socket.SOCK_SEQPACKET):
                path.unlink()
            elif path.stem.startswith("engine-"):
                _sweep_engine(path)


def _sweep_engine(path: Path) -> None:
    """Under its lock: a client may be about to start one."""
    with runtime.locked(path.with_suffix(".lock"), wait=False) as free:
        if free and runtime.is_stale(path, socket.SOCK_STREAM):
            path.unlink()
            path.with_suffix(".json").unlink(missing_ok=True)
