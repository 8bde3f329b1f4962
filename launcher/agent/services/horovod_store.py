"""The store through which Horovod's ranks find each other: HTTP, as Horovod's gloo controller speaks it.

A key is ``/scope/name``. PUT stores bytes, and GET returns them, or 404 until they are there. DELETE of
``/scope/rank`` says that a rank has met the others of a scope. When all have, the scope is emptied: after a
shutdown ranks may initialise again, and would find old addresses. Of a scope without known members, DELETE
removes the key. Each attempt has a store of its own. The contract is that of
`horovod/runner/http/http_server.py` (0.28).
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from . import AgentLine, released

_VALUE = 16 << 20
_SILENT_S = 60.0


class Store(ThreadingHTTPServer):
    """Texts by key, in memory, for as long as the process lives.

    Args:
        port: a port that the agent holds without listening on it.
        members: how many ranks meet in each scope, where that is known.

    Raises:
        OSError: it cannot listen there.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1024
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def __init__(self, port: int, members: Mapping[str, int]) -> None:
        self._values: dict[str, dict[str, bytes]] = {}
        self._members = members
        self._done: dict[str, set[str]] = {}
        self._lock = threading.Lock()
        super().__init__(("", port), _StoreConnection)

    def server_bind(self) -> None:
        """Listen on every address, of both families where there are two."""
        if self.address_family is socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def get(self, scope: str, name: str) -> bytes | None:
        """A value; None until there is one."""
        with self._lock:
            return self._values.get(scope, {}).get(name)

    def put(self, scope: str, name: str, value: bytes) -> None:
        """Store a value, in place of an older one."""
        with self._lock:
            self._values.setdefault(scope, {})[name] = value

    def delete(self, scope: str, name: str) -> None:
        """Note that a rank has met the others of the scope; elsewhere remove the value."""
        with self._lock:
            if scope not in self._members:
                self._values.get(scope, {}).pop(name, None)
                return
            done = self._done.setdefault(scope, set())
            done.add(name)
            if len(done) >= self._members[scope]:
                del self._done[scope]
                self._values.pop(scope, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that has gone: a rank that ends closes its connection when it likes."""


class _StoreConnection(BaseHTTPRequestHandler):
    server: Store
    timeout = _SILENT_S

    def do_GET(self) -> None:
        """Return a value; 404 until there is one."""
        value = self.server.get(*self._key())
        self._answer(HTTPStatus.NOT_FOUND if value is None else HTTPStatus.OK, value or b"")

    def do_PUT(self) -> None:
        """Store a value."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _VALUE:
            self.close_connection = True
            return self._answer(HTTPStatus.BAD_REQUEST)
        value = self.rfile.read(int(length))
        if len(value) < int(length):  # its rank has ended in the middle
            return None
        self.server.put(*self._key(), value)
        return self._answer(HTTPStatus.OK)

    def do_DELETE(self) -> None:
        """Remove a value, or note that a rank needs its scope no more."""
        self.server.delete(*self._key())
        self._answer(HTTPStatus.OK)

    def _key(self) -> tuple[str, str]:
        """The scope and the name in the path."""
        scope, _, name = self.path.removeprefix("/").partition("/")
        return scope, name

    def _answer(self, status: HTTPStatus, value: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(value)))
        self.end_headers()
        self.wfile.write(value)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is the base class's
        """Write no line for each request to rank 0's output."""


def serve(line: AgentLine, port: int, members: Mapping[str, int]) -> None:
    """Serve until the ranks have ended."""
    with Store(port, members) as store:
        threading.Thread(target=store.serve_forever, daemon=True).start()
        line.ready()
        released(line)
        store.shutdown()
