"""A connection through files on shared storage: each piece of the stream is a file.

A piece is complete before it gets its name, never changes, and is removed by its reader: so a network file
system may show it late. At most `MOST_PIECES` wait in each direction. Their content is that of a socket: TLS.

<spool>/rankdeck-<run>-<attempt>/   made by the engine
    marker      random; a host that reads the same text shares the folder, not another one at that path
    owner       the engine's process, so that a later run can remove the folder of a killed engine
    beat        a number that grows while the engine lives
    agent-…/    made by an agent: one connection
        up/     pieces from the agent, named by number; an empty one is the end of the stream
        down/   pieces from the engine
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
# The engine counts as dead when this host has seen the same number for so long.
LEASE_S = 10.0
READ_S = 1.0


class FilePump:
    """Transfers bytes between a socket and its connection's folder. It owns the socket; one thread uses it.

    Args:
        sock: this end of the connection.
        folder: the connection's folder.
        out: the folder below it that this end writes to; `into`: the one that it reads from.
    """

    def __init__(self, sock: socket.socket, folder: str, *, out: str, into: str) -> None:
        sock.setblocking(False)
        self.sock, self.folder = sock, folder
        self._out, self._in = os.path.join(folder, out), os.path.join(folder, into)
        self._written = self._read = 0
        self._unwritten: bytes | None = None  # read from the socket, and not yet written
        self._unsent = bytearray()
        self._out_ended = self._in_ended = self._folder_gone = False
        self._unread = 0

    @property
    def over(self) -> bool:
        """Whether the connection has ended."""
        return self.sock.fileno() < 0

    @property
    def wants_to_read(self) -> bool:
        """Whether there is room for more bytes from the socket."""
        return not (self.over or self._out_ended) and self._unread < MOST_PIECES

    def transfer(self) -> bool:
        """Transfer what there is; return whether there was any. Failing storage is tried again later."""
        if self.over:
            return False
        if self._folder_gone:
            return self._finish()
        try:
            self._unread = len(self._names(self._out))
            moved = self._from_socket() | self._from_files()
            if self._out_ended and self._in_ended and not (self._unsent or self._unread):
                self.sock.close()
        except FileNotFoundError:  # the other end has removed the folder
            self._folder_gone = self._out_ended = True
            return self._finish()
        except ConnectionError:
            self._out_ended = self._in_ended = True
            self._unsent.clear()
            self._end_stream()
            return True
        except OSError:
            return False
        return moved

    def close(self) -> None:
        """Close the socket and remove the connection's folder."""
        self.sock.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _finish(self) -> bool:
        """Send what was read before the folder was removed, then close the socket."""
        try:
            moved = self._flush()
        except OSError:
            self._unsent.clear()
            moved = False
        if not self._unsent:
            self.sock.close()
        return moved

    def _end_stream(self) -> None:
        """Write the end of the stream for the other end, because the socket broke."""
        with contextlib.suppress(OSError):
            self._write(b"")
        self.sock.close()

    def _from_socket(self) -> bool:
        moved = False
        while self._unwritten is not None or self.wants_to_read:
            if self._unwritten is None:
                try:
                    self._unwritten = self.sock.recv(PIECE_BYTES)
                except BlockingIOError:
                    break
            self._write(self._unwritten)
            self._out_ended, self._unwritten, moved = not self._unwritten, None, True
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
        if self._in_ended or self._unsent:
            return moved
        for name in self._names(self._in):
            if int(name) != self._read or len(self._unsent) >= PIECE_BYTES:
                break
            path = os.path.join(self._in, name)
            with open(path, "rb") as file:
                data = file.read()
            self._read += 1
            self._unsent += data
            self._in_ended = not data
            with contextlib.suppress(OSError):
                os.unlink(path)
            moved = True
        return self._flush() or moved

    def _names(self, folder: str) -> list[str]:
        return sorted(name for name in os.listdir(folder) if name.isdigit())

    def _flush(self) -> bool:
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while sent < len(self._unsent):
                sent += self.sock.send(memoryview(self._unsent)[sent:])
        del self._unsent[:sent]
        if self._in_ended and not self._unsent:
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_WR)
        return sent > 0


class EngineHeartbeat:
    """Whether the engine's number still grows. Time in which the file cannot be read does not count."""

    def __init__(self, path: str, lease_s: float) -> None:
        self._path, self._lease_s = path, lease_s
        self._beat = b""
        self._silent_s, self._read_at = 0.0, time.monotonic()

    def lost(self, now: float) -> bool:
        """Read the number, at most once a second; return whether it has been the same for the whole lease.

        Raises:
            FileNotFoundError: the folder has been removed.
        """
        since = now - self._read_at
        if since < READ_S:
            return False
        self._read_at = now
        try:
            with open(self._path, "rb") as file:
                beat = file.read()
        except FileNotFoundError:
            raise
        except OSError:
            return False
        self._silent_s = 0.0 if beat != self._beat else self._silent_s + min(since, 2 * READ_S)
        self._beat = beat
        return self._silent_s >= self._lease_s


def why_not_shared(folder: str, marker: str) -> str:
    """Why this host cannot use the folder; empty if it is the one that the engine has marked."""
    above = os.path.dirname(folder)
    try:
        with open(os.path.join(folder, MARKER), encoding="utf-8") as file:
            content = file.read()
    except OSError as error:
        return f"{above} is not shared with it ({error.strerror})"
    return "" if content == marker else f"{above} is another folder there"


def connect_by_files(folder: str, agent: int, lease_s: float = LEASE_S) -> socket.socket:
    """A connection to the engine through its folder; a thread transfers the bytes until it ends.

    Raises:
        OSError: the folder cannot be written.
    """
    name = f"{AGENT}{agent}-{os.urandom(8).hex()}"
    hidden, own = os.path.join(folder, f".{name}"), os.path.join(folder, name)
    for made in (hidden, os.path.join(hidden, UP), os.path.join(hidden, DOWN)):
        os.mkdir(made, 0o700)
    os.rename(hidden, own)
    near, far = socket.socketpair()
    pump, watch = FilePump(far, own, out=UP, into=DOWN), EngineHeartbeat(os.path.join(folder, BEAT), lease_s)
    threading.Thread(target=_forward, args=(pump, watch, folder), name="rankdeck-spool").start()
    return near


def _forward(pump: FilePump, watch: EngineHeartbeat, folder: str) -> None:
    """Transfer until the connection ends; if the engine is dead, remove what it left."""
    active = time.monotonic()
    while not pump.over:
        now = time.monotonic()
        if pump.transfer():
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
        if pump.wants_to_read:
            select.select([pump.sock], [], [], pause_s)
        else:
            time.sleep(pause_s)


def clear(folder: str) -> None:
    """Remove a dead engine's folder if no connection is left in it."""
    with contextlib.suppress(OSError):
        if not any(name.startswith(AGENT) for name in os.listdir(folder)):
            shutil.rmtree(folder, ignore_errors=True)


OWNER, PREFIX = "owner", "rankdeck-"
BEAT_S = 1.0
# A folder made on another machine is abandoned when its number has not grown for so long.
ABANDONED_S = 24 * 3600.0


def check_spool(folder: str) -> None:
    """Refuse a folder that cannot be used as a spool.

    Raises:
        SpecError: the path is not absolute, or the folder is missing or cannot be written.
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
    """The engine's end: one launch's folder, which exists until `close`.

    Args:
        spool: the user's spool folder.
        run: the run's id.
        attempt: the number of the attempt.

    Raises:
        SpecError: the folder cannot be made.
    """

    def __init__(self, spool: str, run: str, attempt: int) -> None:
        self.folder = Path(spool, f"{PREFIX}{run}-{attempt}")
        self.marker = secrets.token_hex(32)
        self._engine: tuple[str, int] = ("", 0)
        self._addresses: set[Any] = set()
        self._pumps: dict[str, FilePump] = {}
        self._beats, self._next_beat = 0, 0.0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._forward, name="rankdeck-spool", daemon=True)
        clear_dead(Path(spool))
        try:
            self.folder.mkdir(mode=paths.FOLDER_MODE)
            write_whole(self.folder / OWNER, json.dumps(_process_identity()).encode())
            write_whole(self.folder / BEAT, _number(0))
            write_whole(self.folder / MARKER, self.marker.encode())
        except OSError as error:
            raise SpecError(f"nothing can be made in the spool folder {spool}: {error.strerror}") from error

    def open(self, engine: tuple[str, int]) -> None:
        """Start to connect agents to the engine's listener."""
        self._engine = engine
        self._thread.start()

    def brings(self, peer: Any) -> bool:
        """Whether the listener's connection from the address `peer` came through this folder."""
        return peer in self._addresses

    def close(self) -> None:
        """Remove the folder. It is renamed first, so that an agent that still runs adds nothing to it."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()
        gone = self.folder.with_name(f"{self.folder.name}.gone")
        with contextlib.suppress(OSError):
            self.folder.rename(gone)
        for folder in (gone, self.folder):
            shutil.rmtree(folder, ignore_errors=True)

    # --- the thread ----------------------------------------------------------------------------------

    def _forward(self) -> None:
        active = 0.0
        while not self._closing.is_set():
            now = time.monotonic()
            self._beat(now)
            with contextlib.suppress(OSError):
                self._accept_new()
            moved = [pump.transfer() for pump in self._pumps.values()]
            active = now if any(moved) else active
            for name in [name for name, pump in self._pumps.items() if pump.over]:
                self._pumps.pop(name).close()
            pause_s = BUSY_S if now < active + CALM_S else IDLE_S
            if listening := [pump.sock for pump in self._pumps.values() if pump.wants_to_read]:
                select.select(listening, [], [], pause_s)
            else:
                self._closing.wait(pause_s)
        for pump in self._pumps.values():
            pump.sock.close()

    def _beat(self, now: float) -> None:
        """Increase the number, in place because that works on a full disk. Failing storage may recover."""
        if now >= self._next_beat:
            self._next_beat = now + BEAT_S
            self._beats += 1
            with contextlib.suppress(OSError), open(self.folder / BEAT, "r+b", buffering=0) as file:
                file.write(_number(self._beats))
                os.fsync(file.fileno())

    def _accept_new(self) -> None:
        for name in os.listdir(self.folder):
            if name.startswith(AGENT) and name not in self._pumps:
                sock = socket.create_connection(self._engine, timeout=5)
                self._addresses.add(sock.getsockname())
                self._pumps[name] = FilePump(sock, str(self.folder / name), out=DOWN, into=UP)


def clear_dead(spool: Path) -> None:
    """Remove the folders of killed engines only."""
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
            if isinstance(owner, dict) and owner.get("machine") == _process_identity()["machine"]:
                return bool(owner != _process_identity(owner["pid"]))
        beat = folder / BEAT
        seen = (beat if beat.exists() else folder).stat().st_mtime
    except (OSError, KeyError, TypeError):
        return False
    return time.time() - seen > ABANDONED_S


def _process_identity(pid: int | None = None) -> dict[str, Any]:
    """A unique identity of a process of this machine; ``born`` is empty for a process that does not exist."""
    born = ""
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid or os.getpid()}/stat") as file:
        born = file.read().rpartition(")")[2].split()[19]
    space = os.stat("/proc/self/ns/pid").st_ino
    return {"machine": f"{network.boot()}|{space}", "pid": pid or os.getpid(), "born": born}


def _number(value: int) -> bytes:
    return b"%020d" % value
