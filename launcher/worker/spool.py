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
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import threading
import time

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


class Watch:
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


def connect(folder: str, agent: int, lease_s: float = LEASE_S) -> socket.socket:
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
    pump, watch = FilePump(far, own, out=UP, into=DOWN), Watch(os.path.join(folder, BEAT), lease_s)
    threading.Thread(target=_carry, args=(pump, watch, folder), name="rankdeck-spool").start()
    return near


def _carry(pump: FilePump, watch: Watch, folder: str) -> None:
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
