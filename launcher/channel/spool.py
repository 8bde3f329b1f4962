"""A connection through files on storage that both ends see: each piece of the stream a file.

A piece is whole before it has its name, never changes, and is removed by its reader: so it does not matter
how late a network file system shows it. A few at most wait in each direction. What is in them is what would
be on a socket: TLS.

<spool>/rankdeck-<run>-<attempt>/   made by the engine
    marker      random; who reads the same shares the folder, whatever its path means there
    beat        a number that grows while the engine lives
    agent-…/    made by an agent: one connection
        up/     pieces from the agent, named by number; an empty one is the end of the stream
        down/   pieces from the engine

`launcher.channel.spool` tells what is in the folder. Beside that, its ``owner`` says who made it, so that a
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

from ..errors import SpecError
from ..runs import paths
from ..runs.files import write_whole
from . import network

MARKER, BEAT, AGENT = "marker", "beat", "agent-"
UP, DOWN = "up", "down"
PIECE_BYTES = 1 << 20
MOST_PIECES = 8
BUSY_S, IDLE_S = 0.02, 0.2
CALM_S = 1.0
# The engine counts as dead when its number has stood still for so long, as far as this host could see it.
LEASE_S = 10.0
LOOK_S = 1.0


class FilePump:
    """Carries between a socket and the folder of its connection. It owns the socket; one thread uses it.

    Args:
        sock: this end of the connection.
        folder: the connection's.
        out: the folder below it that this end writes to; `into` the one that it reads from.
    """

    def __init__(self, sock: socket.socket, folder: str, *, out: str, into: str) -> None:
        sock.setblocking(False)
        self.sock, self.folder = sock, folder
        self._out, self._in = os.path.join(folder, out), os.path.join(folder, into)
        self._written = self._read = 0
        self._held: bytes | None = None  # taken from the socket, and not yet with the storage
        self._waiting = bytearray()
        self._said_end = self._heard_end = self._gone = False
        self._unread = 0

    @property
    def over(self) -> bool:
        """Whether the connection has ended."""
        return self.sock.fileno() < 0

    @property
    def listens(self) -> bool:
        """Whether there is room for what the socket may say."""
        return not (self.over or self._said_end) and self._unread < MOST_PIECES

    def turn(self) -> bool:
        """Carry what there is; whether there was any. Storage that fails now may be back later."""
        if self.over:
            return False
        if self._gone:
            return self._finish()
        try:
            self._unread = len(self._names(self._out))
            moved = self._from_socket() | self._from_files()
            if self._said_end and self._heard_end and not (self._waiting or self._unread):
                self.sock.close()
        except FileNotFoundError:  # the other end has removed all of it
            self._gone = self._said_end = True
            return self._finish()
        except ConnectionError:
            self._said_end = self._heard_end = True
            self._waiting.clear()
            self._leave()
            return True
        except OSError:
            return False
        return moved

    def close(self) -> None:
        """Close the socket and remove the connection's folder."""
        self.sock.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _finish(self) -> bool:
        """There are no files any more: what came by them is still passed on."""
        try:
            moved = self._flush()
        except OSError:
            self._waiting.clear()
            moved = False
        if not self._waiting:
            self.sock.close()
        return moved

    def _leave(self) -> None:
        """The socket broke: the other end shall know."""
        with contextlib.suppress(OSError):
            self._write(b"")
        self.sock.close()

    def _from_socket(self) -> bool:
        moved = False
        while self._held is not None or self.listens:
            if self._held is None:
                try:
                    self._held = self.sock.recv(PIECE_BYTES)
                except BlockingIOError:
                    break
            self._write(self._held)
            self._said_end, self._held, moved = not self._held, None, True
        return moved

    def _write(self, data: bytes) -> None:
        name = f"{self._written:012d}"
        hidden = os.path.join(self._out, f".{name}")
        descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb", buffering=0) as file:
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(descriptor)
        os.rename(hidden, os.path.join(self._out, name))
        self._written += 1
        self._unread += 1

    def _from_files(self) -> bool:
        moved = self._flush()
        if self._heard_end or self._waiting:
            return moved
        for name in self._names(self._in):
            if int(name) != self._read or len(self._waiting) >= PIECE_BYTES:
                break
            path = os.path.join(self._in, name)
            with open(path, "rb") as file:
                data = file.read()
            self._read += 1
            self._waiting += data
            self._heard_end = not data
            with contextlib.suppress(OSError):
                os.unlink(path)
            moved = True
        return self._flush() or moved

    def _names(self, folder: str) -> list[str]:
        return sorted(name for name in os.listdir(folder) if name.isdigit())

    def _flush(self) -> bool:
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while sent < len(self._waiting):
                sent += self.sock.send(memoryview(self._waiting)[sent:])
        del self._waiting[:sent]
        if self._heard_end and not self._waiting:
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_WR)
        return sent > 0


class EngineHeartbeat:
    """Whether the engine's number still grows. Time in which it cannot be read does not count."""

    def __init__(self, path: str, lease_s: float) -> None:
        self._path, self._lease_s = path, lease_s
        self._beat = b""
        self._silent, self._looked = 0.0, time.monotonic()

    def lost(self, now: float) -> bool:
        """Look, once a second at most; whether it has been silent for the whole lease.

        Raises:
            FileNotFoundError: the folder has been removed.
        """
        since = now - self._looked
        if since < LOOK_S:
            return False
        self._looked = now
        try:
            with open(self._path, "rb") as file:
                beat = file.read()
        except FileNotFoundError:
            raise
        except OSError:
            return False
        self._silent = 0.0 if beat != self._beat else self._silent + min(since, 2 * LOOK_S)
        self._beat = beat
        return self._silent >= self._lease_s


def why_not_shared(folder: str, marker: str) -> str:
    """Why this host cannot use the folder; empty if it can: it is the one that the engine has marked."""
    above = os.path.dirname(folder)
    try:
        with open(os.path.join(folder, MARKER), encoding="utf-8") as file:
            found = file.read()
    except OSError as error:
        return f"{above} is not shared with it ({error.strerror})"
    return "" if found == marker else f"{above} is another folder there"


def connect_by_files(folder: str, agent: int, lease_s: float = LEASE_S) -> socket.socket:
    """A connection to the engine by the folder that it has made; a thread carries it, to its end.

    Raises:
        OSError: nothing can be written there.
    """
    name = f"{AGENT}{agent}-{os.urandom(8).hex()}"
    hidden, own = os.path.join(folder, f".{name}"), os.path.join(folder, name)
    for made in (hidden, os.path.join(hidden, UP), os.path.join(hidden, DOWN)):
        os.mkdir(made, 0o700)
    os.rename(hidden, own)
    near, far = socket.socketpair()
    pump, watch = FilePump(far, own, out=UP, into=DOWN), EngineHeartbeat(os.path.join(folder, BEAT), lease_s)
    threading.Thread(target=_carry, args=(pump, watch, folder), name="rankdeck-spool").start()
    return near


def _carry(pump: FilePump, watch: EngineHeartbeat, folder: str) -> None:
    """To the end of the connection or of the engine, after which nothing of it is left."""
    active = time.monotonic()
    while not pump.over:
        now = time.monotonic()
        if pump.turn():
            active = now
        pause_s = BUSY_S if now < active + CALM_S else IDLE_S
        try:
            if watch.lost(now):
                pump.close()
                clear(folder)
                return
        except FileNotFoundError:
            pump.close()
            return
        if pump.listens:
            select.select([pump.sock], [], [], pause_s)
        else:
            time.sleep(pause_s)


def clear(folder: str) -> None:
    """Remove a dead engine's folder, with the last of its connections."""
    with contextlib.suppress(OSError):
        if not any(name.startswith(AGENT) for name in os.listdir(folder)):
            shutil.rmtree(folder, ignore_errors=True)


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
