"""The store through which Horovod's ranks find each other: HTTP, as Horovod's gloo controller speaks it.

A key is ``/scope/name``. PUT stores bytes, GET returns them or 404 until they are there, and DELETE says that
a rank has done with a scope; ranks with the same scopes in another attempt would find old addresses, so each
attempt has a store of its own. The contract is that of `horovod/runner/http/http_server.py` (0.28).
"""

from __future__ import annotations

import socket
import threading
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

    Raises:
        OSError: it cannot listen there.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1024
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def __init__(self, port: int) -> None:
        self.values: dict[str, bytes] = {}
        self.lock = threading.Lock()
        super().__init__(("", port), _StoreConnection)

    def server_bind(self) -> None:
        """Listen on every address, of both families where there are two."""
        if self.address_family is socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that has gone: a rank that ends closes its connection when it likes."""


class _StoreConnection(BaseHTTPRequestHandler):
    server: Store
    timeout = _SILENT_S

    def do_GET(self) -> None:
        """Return a value; 404 until there is one."""
        with self.server.lock:
            value = self.server.values.get(self.path)
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
        with self.server.lock:
            self.server.values[self.path] = value
        return self._answer(HTTPStatus.OK)

    def do_DELETE(self) -> None:
        """Take note of nothing: the values of a scope are needed by those that come late."""
        self._answer(HTTPStatus.OK)

    def _answer(self, status: HTTPStatus, value: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(value)))
        self.end_headers()
        self.wfile.write(value)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is the base class's
        """Write no line for each request to rank 0's output."""


def serve(line: AgentLine, port: int) -> None:
    """Serve until the ranks have ended."""
    with Store(port) as store:
        threading.Thread(target=store.serve_forever, daemon=True).start()
        line.ready()
        released(line)
        store.shutdown()
