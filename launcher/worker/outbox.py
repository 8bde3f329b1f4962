"""An agent's outgoing frames: bounded, in order, written when the socket has room.

When the engine is slower than the ranks the outbox fills, the agent stops reading the ranks' pipes, and
the ranks wait in `write`: nothing is dropped and nothing grows.
"""

from __future__ import annotations

from collections import deque

from launcher.worker.stream import Stream

HIGH = 4 << 20
LOW = 1 << 20
_IOV = 128


class Outbox:
    """Frames on their way out of a non-blocking socket."""

    def __init__(self, sock: Stream) -> None:
        self._sock = sock
        self._queue: deque[memoryview] = deque()
        self.pending = 0

    @property
    def full(self) -> bool:
        """Whether sources of frames should pause."""
        return self.pending >= HIGH

    @property
    def drained(self) -> bool:
        """Whether paused sources may go on."""
        return self.pending <= LOW

    def put(self, *parts: bytes) -> None:
        """Queue one frame, in parts that are not joined."""
        for part in parts:
            if part:
                self._queue.append(memoryview(part))
                self.pending += len(part)

    def flush(self) -> bool:
        """Write what the socket takes; whether everything is out.

        Raises:
            ConnectionError: the peer is gone.
        """
        while self._queue:
            buffers = [self._queue[i] for i in range(min(_IOV, len(self._queue)))]
            try:
                self._consume(self._sock.sendmsg(buffers))
            except BlockingIOError:
                return False
        return True

    def _consume(self, count: int) -> None:
        self.pending -= count
        while count:
            first = self._queue[0]
            if count < len(first):
                self._queue[0] = first[count:]
                return
            count -= len(first)
            self._queue.popleft()
