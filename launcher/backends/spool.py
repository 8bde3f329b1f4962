"""The engine's side of a spool folder: connections that agents have made there come to the engine's listener.

`launcher.worker.spool` tells what is in the folder. Beside that, its ``owner`` says who made it, so that a
later run can remove what an engine has left that was killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import shutil
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from launcher.errors import SpecError
from launcher.runs import paths
from launcher.runs.private import write_whole
from launcher.worker import network
from launcher.worker.spool import AGENT, BEAT, BUSY_S, CALM_S, DOWN, IDLE_S, MARKER, UP, FilePump

OWNER, PREFIX = "owner", "rankdeck-"
BEAT_S = 1.0
# What was made on another machine is nobody's when its number has not grown for so long.
ABANDONED_S = 24 * 3600.0


def check_spool(folder: str) -> None:
    """Refuse a spool folder that cannot be one.

    Raises:
        SpecError: it is not there, or cannot be written.
    """
    if not Path(folder).is_absolute():
        raise SpecError(f"the spool folder must be an absolute path, and not {folder}")
    if not Path(folder).is_dir():
        raise SpecError(f"there is no spool folder {folder}", hint="name a folder that executors see too")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise SpecError(f"nothing can be written to the spool folder {folder}: {error.strerror}") from error


class Spool:
    """One launch's folder. It is there until `close`.

    Args:
        spool: what the person named.
        run: the run's id.
        attempt: which attempt begins.

    Raises:
        SpecError: nothing can be made there.
    """

    def __init__(self, spool: str, run: str, attempt: int) -> None:
        self.folder = Path(spool, f"{PREFIX}{run}-{attempt}")
        self.marker = secrets.token_hex(32)
        self._engine: tuple[str, int] = ("", 0)
        self._own: set[Any] = set()
        self._pumps: dict[str, FilePump] = {}
        self._beats, self._next_beat = 0, 0.0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._carry, name="rankdeck-spool", daemon=True)
        clear_dead(Path(spool))
        try:
            self.folder.mkdir(mode=paths.FOLDER_MODE)
            write_whole(self.folder / OWNER, json.dumps(_self()).encode())
            write_whole(self.folder / BEAT, _number(0))
            write_whole(self.folder / MARKER, self.marker.encode())
        except OSError as error:
            raise SpecError(f"nothing can be made in the spool folder {spool}: {error.strerror}") from error

    def open(self, engine: tuple[str, int]) -> None:
        """Carry connections to the engine's listener."""
        self._engine = engine
        self._thread.start()

    def brings(self, peer: Any) -> bool:
        """Whether a connection to the engine, told by its other end's address, is one of these."""
        return peer in self._own

    def close(self) -> None:
        """Leave nothing there. It is moved away first: an agent that is still ending adds nothing to it."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()
        gone = self.folder.with_name(f"{self.folder.name}.gone")
        with contextlib.suppress(OSError):
            self.folder.rename(gone)
        for folder in (gone, self.folder):
            shutil.rmtree(folder, ignore_errors=True)

    # --- the thread ----------------------------------------------------------------------------------

    def _carry(self) -> None:
        active = 0.0
        while not self._closing.is_set():
            now = time.monotonic()
            self._beat(now)
            with contextlib.suppress(OSError):
                self._look()
            moved = [pump.turn() for pump in self._pumps.values()]
            active = now if any(moved) else active
            for name in [name for name, pump in self._pumps.items() if pump.over]:
                self._pumps.pop(name).close()
            pause_s = BUSY_S if now < active + CALM_S else IDLE_S
            if listening := [pump.sock for pump in self._pumps.values() if pump.listens]:
                select.select(listening, [], [], pause_s)
            else:
                self._closing.wait(pause_s)
        for pump in self._pumps.values():
            pump.sock.close()

    def _beat(self, now: float) -> None:
        """Show that we live, in place: a full disk has room for that. Storage that fails may come back."""
        if now >= self._next_beat:
            self._next_beat = now + BEAT_S
            self._beats += 1
            with contextlib.suppress(OSError), open(self.folder / BEAT, "r+b", buffering=0) as file:
                file.write(_number(self._beats))
                os.fsync(file.fileno())

    def _look(self) -> None:
        for name in os.listdir(self.folder):
            if name.startswith(AGENT) and name not in self._pumps:
                sock = socket.create_connection(self._engine, timeout=5)
                self._own.add(sock.getsockname())
                self._pumps[name] = FilePump(sock, str(self.folder / name), out=DOWN, into=UP)


def clear_dead(spool: Path) -> None:
    """Remove the folders of engines that have been killed, and of no other."""
    with contextlib.suppress(OSError):
        for folder in spool.glob(f"{PREFIX}*"):
            if _is_dead(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_dead(folder: Path) -> bool:
    try:
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            return False
        with contextlib.suppress(ValueError, FileNotFoundError):
            owner = json.loads((folder / OWNER).read_bytes())
            if isinstance(owner, dict) and owner.get("machine") == _self()["machine"]:
                return bool(owner != _self(owner["pid"]))
        beat = folder / BEAT
        seen = (beat if beat.exists() else folder).stat().st_mtime
    except (OSError, KeyError, TypeError):
        return False
    return time.time() - seen > ABANDONED_S


def _self(pid: int | None = None) -> dict[str, Any]:
    """What tells a process of this machine from all others; of one that is not there, an empty ``born``."""
    born = ""
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid or os.getpid()}/stat") as file:
        born = file.read().rpartition(")")[2].split()[19]
    space = os.stat("/proc/self/ns/pid").st_ino
    return {"machine": f"{network.boot()}|{space}", "pid": pid or os.getpid(), "born": born}


def _number(value: int) -> bytes:
    return b"%020d" % value
