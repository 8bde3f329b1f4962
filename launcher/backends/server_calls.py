"""Calls of functions on a Connect server's host, which need no slot and no task.

A Python data source's `schema` runs there while a query is analysed: so to ask for the schema of a data
source of ours is to call a function, with its options for arguments and a field's metadata for the answer.
"""

from __future__ import annotations

import base64
import io
import json
import uuid
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import launcher
from launcher.backends.sessions import Session
from launcher.worker.relay import BOOT

NAME = "rankdeck_relay"
_SHIPPED = ("worker/multiplex.py", "worker/relay.py")


class Calls(Protocol):
    """What is asked of the server's host."""

    def start(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Start a relay; what it says of itself: its ``name`` for exchanges and the ``port`` for agents."""
        ...

    def exchange(self, name: str, question: bytes) -> bytes:
        """Ask a relay."""
        ...


class ServerCalls:
    """Calls of a Connect session. Each is unlike any other, for the server remembers what it has analysed."""

    def __init__(self, session: Session) -> None:
        self._spark = session.spark

    def start(self, asked: dict[str, Any]) -> dict[str, Any]:
        """As in `Calls`.

        Raises:
            Exception: whatever pyspark raises where the server knows no such things, or has no Python.
        """
        self._spark.dataSource.register(_data_source())
        program = base64.b64encode(_program()).decode()
        answer = self._call(op="start", body=json.dumps(asked), program=program, boot=BOOT)
        said: dict[str, Any] = json.loads(answer)
        return said

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
    root, buffer = Path(launcher.__file__).parent, io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as zipped:
        for package in ("launcher", "launcher/worker"):
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

            asked = self.options
            if asked["op"] == "start":
                answer = start(base64.b64decode(asked["program"]), asked["boot"], asked["body"])
            else:
                said = exchange(asked["relay"], base64.b64decode(asked["body"]))
                answer = base64.b64encode(said).decode()
            return StructType([StructField("answer", StringType(), True, {"answer": answer})])

    return RelayCall


def _starter() -> Callable[[bytes, str, str], str]:
    def server() -> int:
        """The JVM above this process, whose end is the relay's too; 0 if it cannot be told."""
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

    def start(program: bytes, boot: str, asked: str) -> str:
        """Start a relay that leaves nothing in this process, which Spark uses again."""
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
                input=json.dumps({**json.loads(asked), "server": server()}).encode(),
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
    def exchange(name: str, question: bytes) -> bytes:
        import socket

        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(15)
            sock.connect("\0" + name)
            sock.sendall(question)
            sock.shutdown(socket.SHUT_WR)
            pieces = []
            while piece := sock.recv(1 << 20):
                pieces.append(piece)
        return b"".join(pieces)

    return exchange
