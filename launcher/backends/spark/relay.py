"""Agents' connections through the Connect server: a relay process beside it, and calls that carry the bytes.

The first call starts the relay (`launcher.channel.relay`), the others are exchanges with it. Each of the
relay's connections becomes one to the engine's own listener, so that engine and agent need not know of it.

The server runs a Python data source's `schema` while it analyses a query. So a call is a request for the
schema of our data source: the source's options are the arguments, a field's metadata is the result.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import selectors
import socket
import threading
import time
import uuid
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from ...channel.connecting import Endpoint
from ...channel.multiplex import Multiplex
from ...channel.relay import BOOT, HEAD, LEASE_S, LEAVE, SHUT
from . import connect
from .failures import server_is_gone
from .session import Session

UP_BYTES = 1 << 20
# Seconds that the relay may wait for bytes to send before it answers: with traffic, and without.
BUSY_HOLD_S, IDLE_HOLD_S = 0.05, 0.25
BUSY_S = 1.0
SETTLE_S = 0.01
RETRY_S = 0.2
CLOSE_S = 1.0


class Relay:
    """The relay of one launch. It starts on its own thread, as a server's first Python process takes seconds.

    Args:
        calls: the calls to the server's host.
        hosts: the addresses there at which the relay may listen, the best first.
        host: the address of the server's host for agents.
        agents: how many agents are expected.
        gone: whether the exception of a failed call means that the server is gone.
        on_gone: called when it is, on a thread of the relay.

    Attributes:
        why: why the relay has not started, in a sentence; else empty.
        lost: the error by which it ended early; else empty.
    """

    def __init__(
        self,
        calls: Calls,
        *,
        host: str,
        hosts: list[str],
        agents: int,
        gone: Callable[[Exception], object] = lambda _: False,
        on_gone: Callable[[], object] = bool,
    ) -> None:
        self.why = self.lost = ""
        self.endpoint: Endpoint | None = None
        self._calls, self._host, self._hosts, self._agents = calls, host, hosts, agents
        self._gone, self._on_gone = gone, on_gone
        self._name = ""
        self._engine: tuple[str, int] = ("", 0)
        self._selector = selectors.DefaultSelector()
        self._multiplex = Multiplex(self._selector, self._connect)
        self._addresses: set[Any] = set()
        self._shut = False
        self._closing = threading.Event()
        self._starter = threading.Thread(target=self._start, name="rankdeck-relay-start", daemon=True)
        self._pump = threading.Thread(target=self._pump_bytes, name="rankdeck-relay", daemon=True)

    def start(self) -> None:
        """Start the relay, without waiting until it is up."""
        self._starter.start()

    def open(self, engine: tuple[str, int], timeout_s: float) -> Endpoint | None:
        """Wait until it is up, and connect it to the engine; its address for agents, None if it is not up."""
        self._starter.join(timeout_s)
        self._engine = engine
        if self.endpoint is None:
            self.why = self.why or f"the Connect server has not started it within {timeout_s:.0f} s"
            return None
        self._pump.start()
        return self.endpoint

    def brings(self, peer: Any) -> bool:
        """Whether the listener's connection from the address `peer` came through the relay."""
        return peer in self._addresses

    def shut(self) -> None:
        """Refuse further connections: all agents are here."""
        self._shut = True

    def close(self) -> None:
        """End the relay and its connections, but wait at most `CLOSE_S` seconds for the server."""
        self._closing.set()
        if self._pump.ident is None:
            return self._selector.close()
        self._pump.join(CLOSE_S)
        for sock in self._multiplex.sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        return None

    # --- threads -------------------------------------------------------------------------------------

    def _start(self) -> None:
        try:
            reply = self._calls.start({"hosts": self._hosts, "agents": self._agents})
            self._name = str(reply["name"])
            self.endpoint = Endpoint(self._host, int(reply["port"]))
        except Exception as error:  # noqa: BLE001  whatever an old or strict server raises
            self.why = _brief(error)

    def _pump_bytes(self) -> None:
        try:
            active = time.monotonic()
            while not self._closing.is_set():
                if self._turn(busy=time.monotonic() < active + BUSY_S):
                    active = time.monotonic()
            with contextlib.suppress(Exception):  # else the relay ends by itself, only later
                self._calls.exchange(self._name, HEAD.pack(0.0, LEAVE) + self._multiplex.line.pack(0))
        except (ConnectionError, ValueError) as error:
            self.lost = "" if self._closing.is_set() else str(error)
        finally:
            self._multiplex.close()
            self._selector.close()

    def _turn(self, *, busy: bool) -> bool:
        """One exchange, and the transfer at this end; whether there were any bytes."""
        line = self._multiplex.line
        pending = line.pending
        hold_s = 0.0 if pending > UP_BYTES else BUSY_HOLD_S if busy else IDLE_HOLD_S
        answer = self._exchange(HEAD.pack(hold_s, SHUT if self._shut else 0) + line.pack(UP_BYTES))
        received = line.unpack(answer)
        self._multiplex.take(received)
        self._serve(SETTLE_S if pending or received else 0.0)
        return bool(pending or received)

    def _serve(self, wait_s: float) -> None:
        """Serve the engine's sockets until none is ready for `wait_s`, or one exchange is full."""
        until = time.monotonic() + wait_s
        while self._multiplex.line.pending < UP_BYTES:
            ready = self._selector.select(max(0.0, until - time.monotonic()))
            if not ready:
                break
            for key, events in ready:
                self._multiplex.on_ready(key.fd, events)

    def _exchange(self, request: bytes) -> bytes:
        """Try until it succeeds: an exchange may be repeated any number of times.

        Raises:
            ConnectionError: the server or the relay is gone, or no try succeeded for `LEASE_S` seconds.
        """
        until = time.monotonic() + LEASE_S
        while True:
            try:
                if answer := self._calls.exchange(self._name, request):
                    return answer
                raise ConnectionResetError("the relay has given no answer")  # it was killed meanwhile
            except Exception as error:
                if self._gone(error):
                    self._on_gone()
                    raise ConnectionError("the Connect server is gone") from error
                if "[Errno 111]" in str(error):  # raised by Python there, not by gRPC here
                    raise ConnectionError("the relay beside the Connect server has ended") from error
                if time.monotonic() >= until or self._closing.wait(RETRY_S):
                    raise ConnectionError(_brief(error)) from error

    def _connect(self) -> socket.socket:
        sock = socket.create_connection(self._engine, timeout=5)
        self._addresses.add(sock.getsockname())
        return sock


def relay_of(session: Session, agents: int, on_gone: Callable[[], object] = bool) -> Relay:
    """A relay beside a Connect session's server."""
    host = session.conf("spark.driver.host") or "127.0.0.1"
    hosts = [session.conf("spark.driver.bindAddress"), host, "0.0.0.0", "::"]
    return Relay(
        ServerCalls(session),
        host=host.strip("[]"),
        hosts=[name.strip("[]") for name in hosts if name],
        agents=agents,
        gone=lambda error: server_is_gone(error) or not connect.listens(session.master),
        on_gone=on_gone,
    )


def _brief(error: Exception) -> str:
    """The first line of an exception's text; of a Python traceback from the server, the last error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    trace = [line for line in lines if ("Error: " in line or "Exception: " in line) and line[0] != "["]
    return (trace[-1:] or lines[:1] or [type(error).__name__])[0][:300]


NAME = "rankdeck_relay"
_SHIPPED = ("channel/multiplex.py", "channel/relay.py")


class Calls(Protocol):
    """The calls to the server's host."""

    def start(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Start a relay; its reply has its ``name`` for exchanges and the ``port`` for agents."""
        ...

    def exchange(self, name: str, question: bytes) -> bytes:
        """Send a relay a request, and return its response."""
        ...


class ServerCalls:
    """Calls through a Connect session. Each has its own id, for the server remembers what it has analysed."""

    def __init__(self, session: Session) -> None:
        self._spark = session.spark

    def start(self, asked: dict[str, Any]) -> dict[str, Any]:
        """As in `Calls`.

        Raises:
            Exception: whatever pyspark raises if the server has no Python data sources, or no Python.
        """
        self._spark.dataSource.register(_data_source())
        program = base64.b64encode(_program()).decode()
        answer = self._call(op="start", body=json.dumps(asked), program=program, boot=BOOT)
        reply: dict[str, Any] = json.loads(answer)
        return reply

    def exchange(self, name: str, question: bytes) -> bytes:
        """As in `Calls`.

        Raises:
            Exception: whatever pyspark raises.
        """
        return base64.b64decode(
            self._call(op="exchange", body=base64.b64encode(question).decode(), relay=name)
        )

    def _call(self, **options: str) -> str:
        reader = self._spark.read.format(NAME).options(**options, call=uuid.uuid4().hex)
        return str(reader.load().schema[0].metadata["answer"])


def _program() -> bytes:
    """The relay's modules, in a zip."""
    root, buffer = Path(__file__).parents[2], io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as zipped:
        for package in ("launcher", "launcher/channel"):
            zipped.writestr(f"{package}/__init__.py", "")
        for name in _SHIPPED:
            zipped.writestr(f"launcher/{name}", (root / name).read_bytes())
    return buffer.getvalue()


def _data_source() -> Any:
    """The class that is sent to the server, by value: all that it needs is in its functions."""
    from pyspark.sql.datasource import DataSource

    start, exchange = _starter(), _exchanger()

    class RelayCall(DataSource):
        @classmethod
        def name(cls) -> str:
            return "rankdeck_relay"

        def schema(self) -> Any:
            import base64

            from pyspark.sql.types import StringType, StructField, StructType

            options = self.options
            if options["op"] == "start":
                answer = start(base64.b64decode(options["program"]), options["boot"], options["body"])
            else:
                response = exchange(options["relay"], base64.b64decode(options["body"]))
                answer = base64.b64encode(response).decode()
            return StructType([StructField("answer", StringType(), True, {"answer": answer})])

    return RelayCall


def _starter() -> Callable[[bytes, str, str], str]:
    def server() -> int:
        """The pid of the JVM above this process, with which the relay ends; 0 if unknown."""
        import os

        pid = os.getppid()
        try:
            while pid > 1:
                with open(f"/proc/{pid}/comm") as file:
                    if file.read().strip() == "java":
                        return pid
                with open(f"/proc/{pid}/stat") as file:
                    pid = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            pass
        return 0

    def start(program: bytes, boot: str, options: str) -> str:
        """Start a relay; leave nothing in this process, which Spark uses again."""
        import json
        import os
        import subprocess
        import sys

        descriptor = os.memfd_create("rankdeck")
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(program)
            done = subprocess.run(
                [sys.executable, "-I", "-S", "-c", boot, f"/proc/self/fd/{descriptor}"],
                input=json.dumps({**json.loads(options), "server": server()}).encode(),
                capture_output=True,
                pass_fds=(descriptor,),
                env={k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "SPARK"))},
                cwd="/",
                timeout=20,
                check=False,
            )
        finally:
            os.close(descriptor)
        if done.returncode:
            raise RuntimeError(done.stderr.decode(errors="replace").strip().rpartition("\n")[2])
        return done.stdout.decode()

    return start


def _exchanger() -> Callable[[str, bytes], bytes]:
    def exchange(name: str, request: bytes) -> bytes:
        import socket

        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(15)
            sock.connect("\0" + name)
            sock.sendall(request)
            sock.shutdown(socket.SHUT_WR)
            pieces = []
            while piece := sock.recv(1 << 20):
                pieces.append(piece)
        return b"".join(pieces)

    return exchange
