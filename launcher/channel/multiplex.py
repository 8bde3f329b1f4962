"""Many connections over exchanges of bytes, where no socket can be opened: the same code at both ends.

An exchange is a request and its response, both a piece of bytes. An exchange may fail, be repeated, or lose
its response: each end sends its position in the stream, and bytes that the other end lacks are sent again
(`MuxStream`). The stream holds frames of connections, each with a window, so that a connection that nobody
reads delays no other and no buffer grows without bound (`Multiplex`).
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
from collections.abc import Callable

WINDOW = 1 << 20
READ_BYTES = 128 << 10
_PLACE = struct.Struct("!QQ")
_FRAME = struct.Struct("!BII")
_OPEN, _DATA, _ROOM, _END, _RESET = range(1, 6)


class MuxStream:
    """One end of a stream of bytes in each direction. It keeps bytes until the other end has them."""

    def __init__(self) -> None:
        self._unacknowledged = bytearray()
        self._acknowledged = 0
        self._received = 0

    @property
    def pending(self) -> int:
        """How many bytes the other end has not acknowledged."""
        return len(self._unacknowledged)

    def put(self, *parts: bytes) -> None:
        """Queue bytes for the other end."""
        for part in parts:
            self._unacknowledged += part

    def pack(self, limit: int) -> bytes:
        """This end's half of an exchange: its positions, and at most `limit` unacknowledged bytes."""
        return _PLACE.pack(self._received, self._acknowledged) + self._unacknowledged[:limit]

    def unpack(self, message: bytes) -> bytes:
        """The new bytes in the other end's half.

        Raises:
            ValueError: it is not of this stream.
        """
        if len(message) < _PLACE.size:
            raise ValueError("half of an exchange is too short")
        has, begin = _PLACE.unpack_from(message)
        known = self._received - begin
        if not self._acknowledged <= has <= self._acknowledged + len(self._unacknowledged) or known < 0:
            raise ValueError("an exchange of another stream")
        del self._unacknowledged[: has - self._acknowledged]
        self._acknowledged = has
        new = message[_PLACE.size + known :]
        self._received += len(new)
        return new


class _Connection:
    """A socket at this end, with its counterpart at the other end.

    Attributes:
        waiting: received bytes that have no room in the socket yet.
        room: how many more bytes the other end accepts.
        read_end: whether the socket's peer has finished sending; `write_end`: whether the counterpart's has.
        watched: the events that the selector watches.
    """

    __slots__ = ("number", "read_end", "room", "sock", "waiting", "watched", "write_end")

    def __init__(self, sock: socket.socket, number: int) -> None:
        self.sock, self.number = sock, number
        self.waiting = bytearray()
        self.room = WINDOW
        self.read_end = self.write_end = False
        self.watched = 0


class Multiplex:
    """The connections of one end. One thread uses it.

    Args:
        selector: watches their sockets, with this object as data; call `on_ready` for those.
        connect: opens the socket for a connection that the other end has accepted; None if it accepts none.
    """

    def __init__(
        self, selector: selectors.BaseSelector, connect: Callable[[], socket.socket] | None = None
    ) -> None:
        self.line = MuxStream()
        self._selector = selector
        self._connect = connect
        self._connections: dict[int, _Connection] = {}
        self._by_descriptor: dict[int, _Connection] = {}
        self._stream = bytearray()
        self._last = 0

    def __len__(self) -> int:
        return len(self._connections)

    @property
    def sockets(self) -> list[socket.socket]:
        """This end's open sockets."""
        return [connection.sock for connection in self._connections.values()]

    def accept(self, sock: socket.socket) -> None:
        """Forward a connection that was accepted at this end."""
        self._last += 1
        self._send_frame(_OPEN, self._last)
        self._add(sock, self._last)

    def on_ready(self, descriptor: int, events: int) -> None:
        """Read or write a socket that is ready."""
        connection = self._by_descriptor.get(descriptor)
        if connection is None:
            return
        try:
            if events & selectors.EVENT_WRITE:
                self._write(connection)
            if events & selectors.EVENT_READ:
                self._read(connection)
        except OSError:
            self._reset(connection)
        else:
            self._update(connection)

    def take(self, data: bytes) -> None:
        """Handle bytes from the other end.

        Raises:
            ValueError: they violate the protocol.
        """
        self._stream += data
        start = 0
        while len(self._stream) - start >= _FRAME.size:
            kind, number, value = _FRAME.unpack_from(self._stream, start)
            if kind == _DATA and value > WINDOW:
                raise ValueError(f"a frame of {value} bytes")
            end = start + _FRAME.size + (value if kind == _DATA else 0)
            if len(self._stream) < end:
                break
            payload = bytes(memoryview(self._stream)[start + _FRAME.size : end])
            start = end
            self._handle(kind, number, value, payload)
        del self._stream[:start]

    def close(self) -> None:
        """Close all sockets."""
        for connection in list(self._connections.values()):
            self._drop(connection)

    # --- frames --------------------------------------------------------------------------------------

    def _handle(self, kind: int, number: int, value: int, payload: bytes) -> None:
        if kind == _OPEN and self._connect is not None:
            return self._open(number)
        connection = self._connections.get(number)
        if not _OPEN < kind <= _RESET:
            raise ValueError(f"no such kind of frame: {kind}")
        if connection is None:  # this end has closed it meanwhile
            return None
        if kind == _RESET:
            return self._drop(connection)
        if kind == _ROOM:
            connection.room += value
        elif kind == _END:
            connection.write_end = True
        else:
            connection.waiting += payload
            if len(connection.waiting) > WINDOW:
                raise ValueError("more than there is room for")
        try:
            self._write(connection)
        except OSError:
            return self._reset(connection)
        return self._update(connection)

    def _open(self, number: int) -> None:
        assert self._connect is not None
        try:
            sock = self._connect()
        except OSError:
            self._send_frame(_RESET, number)
        else:
            self._add(sock, number)

    def _send_frame(self, kind: int, number: int, value: int = 0, payload: bytes = b"") -> None:
        self.line.put(_FRAME.pack(kind, number, value), payload)

    # --- sockets -------------------------------------------------------------------------------------

    def _add(self, sock: socket.socket, number: int) -> None:
        sock.setblocking(False)
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = _Connection(sock, number)
        self._connections[number] = self._by_descriptor[sock.fileno()] = connection
        self._update(connection)

    def _read(self, connection: _Connection) -> None:
        if connection.read_end or not connection.room:
            return
        try:
            data = connection.sock.recv(min(READ_BYTES, connection.room))
        except BlockingIOError:
            return
        if data:
            connection.room -= len(data)
            self._send_frame(_DATA, connection.number, len(data), data)
        else:
            connection.read_end = True
            self._send_frame(_END, connection.number)

    def _write(self, connection: _Connection) -> None:
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while sent < len(connection.waiting):
                sent += connection.sock.send(memoryview(connection.waiting)[sent:])
        del connection.waiting[:sent]
        if sent:
            self._send_frame(_ROOM, connection.number, sent)
        if connection.write_end and not connection.waiting:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_WR)

    def _update(self, connection: _Connection) -> None:
        """Watch for the events that matter now, or close a connection that has ended both ways."""
        if connection.read_end and connection.write_end and not connection.waiting:
            return self._drop(connection)
        reads = selectors.EVENT_READ if connection.room and not connection.read_end else 0
        events = reads | (selectors.EVENT_WRITE if connection.waiting else 0)
        if events and connection.watched:
            self._selector.modify(connection.sock, events, self)
        elif events:
            self._selector.register(connection.sock, events, self)
        elif connection.watched:
            self._selector.unregister(connection.sock)
        connection.watched = events
        return None

    def _reset(self, connection: _Connection) -> None:
        self._send_frame(_RESET, connection.number)
        self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        if connection.watched:
            self._selector.unregister(connection.sock)
        del self._connections[connection.number]
        del self._by_descriptor[connection.sock.fileno()]
        connection.sock.close()
