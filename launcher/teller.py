"""How an engine tells a client of its run's news without ever waiting for it."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import Any

from launcher.engine_wire import Conversation
from launcher.job import Job


class Teller:
    """Tells a client that there is news, and the next time only when it has asked: it may be slow or stopped.

    So no more than one word is on the way, and whoever has news never waits for the client: one who asks
    on and on and never listens is let go.
    """

    def __init__(self, talk: Conversation, job: Job) -> None:
        self._sock, self._job = talk.sock, job
        self._lock = threading.Lock()
        self._news, self._asked = False, True

    def on_news(self) -> None:
        """For the run's thread."""
        with self._lock:
            self._news = True
            self._tell()

    def on_next(self) -> None:
        """The client has looked, and asks for more."""
        with self._lock:
            self._asked = True
            self._tell()

    def _tell(self) -> None:
        if not (self._news and self._asked):
            return None
        self._news = self._asked = False
        with contextlib.suppress(OSError):  # it is gone: the thread that listens to it sees that
            if not self._job.done:
                return self._say({"news": 1})
            state = self._job.state
            self._say({"ended": state.phase.value, "exit_code": state.exit_code, "why": state.why})
            self._sock.shutdown(socket.SHUT_RD)  # that was all
        return None

    def _say(self, document: dict[str, Any]) -> None:
        line = json.dumps(document).encode() + b"\n"
        try:
            if self._sock.send(line, socket.MSG_DONTWAIT) == len(line):
                return
        except BlockingIOError:
            pass
        self._sock.shutdown(socket.SHUT_RDWR)
