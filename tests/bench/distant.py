"""A person at the far end of a link: a typist whose keys and frames are late by its delay."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Sequence

from tests.bench.typist import Typist


class Link(threading.Thread):
    """Carries bytes between a terminal and `far`, each way late by `delay` seconds, until one end closes.

    Attributes:
        far: where the person reads and writes.
        shown: all that has come from the terminal.
    """

    def __init__(self, terminal: int, delay: float) -> None:
        super().__init__(daemon=True)
        self._terminal, self._delay = terminal, delay
        self._near, self.far = socket.socketpair()
        self.shown = bytearray()

    def run(self) -> None:
        """Carry bytes; the delay is what is modelled, nothing else waits."""
        near = self._near.fileno()
        under_way: dict[int, deque[tuple[float, bytes]]] = {self._terminal: deque(), near: deque()}
        other = {self._terminal: near, near: self._terminal}
        try:
            while True:
                due = min((queue[0][0] for queue in under_way.values() if queue), default=None)
                wait = None if due is None else max(due - time.monotonic(), 0.0)
                for end in select.select([*other], [], [], wait)[0]:
                    if not (piece := os.read(end, 1 << 16)):
                        return
                    under_way[other[end]].append((time.monotonic() + self._delay, piece))
                for end, queue in under_way.items():
                    while queue and queue[0][0] <= time.monotonic():
                        self._hand_over(end, queue.popleft()[1])
        except OSError:  # as a terminal says that nobody is there any more
            return
        finally:
            self._near.close()

    def _hand_over(self, end: int, piece: bytes) -> None:
        if end != self._terminal:
            self.shown += piece
        while piece:
            piece = piece[os.write(end, piece) :]


class Distant(Typist):
    """A typist at the far end of a link that takes `delay` seconds each way."""

    def __init__(self, command: Sequence[str], *, delay: float, size: tuple[int, int]) -> None:
        super().__init__(command, size=size)
        self.link = Link(self._terminal, delay)
        self._terminal = self.link.far.detach()
        self.link.start()
