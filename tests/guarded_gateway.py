"""A Spark session as managed Spark gives one: its JVM serves pyspark's public interface, and nobody else.

Every command to the JVM whose sender is not pyspark itself is refused with a ``Py4JSecurityException``. So is
every private attribute of a context or a session for a reader outside pyspark.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

# py4j's garbage collection, which runs in whatever frame is on top at that moment, and the text of an
# exception that was thrown: the gateway's own services, which call no method.
_SERVICES = ("m\n", "p\n")


@dataclass
class GuardedGateway:
    """What was refused, by whom it was asked for: ``file:function`` of the first frame outside py4j.

    Attributes:
        closed: public names of SparkContext and SparkSession that are refused too.
    """

    closed: Collection[str] = ()
    refused: list[str] = field(default_factory=list)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Refuse from now on until the test's end; sessions that exist are affected too."""
        from py4j.java_gateway import GatewayClient  # type: ignore[import-untyped]
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        send = GatewayClient.send_command

        def guarded(client: Any, command: str, *more: Any, **named: Any) -> Any:
            if not command.startswith(_SERVICES):
                self._check(sys._getframe(1), "this call")
            return send(client, command, *more, **named)

        monkeypatch.setattr(GatewayClient, "send_command", guarded)
        for kind in (SparkContext, SparkSession):
            monkeypatch.setattr(kind, "__getattribute__", self._reader())

    def install_remote(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The same for clients of Connect servers."""
        from pyspark.sql.connect.client import SparkConnectClient
        from pyspark.sql.connect.session import SparkSession

        for kind in (SparkConnectClient, SparkSession):
            monkeypatch.setattr(kind, "__getattribute__", self._reader())

    def _reader(self) -> Any:
        def read(instance: Any, name: str) -> Any:
            private = name.startswith("_") and not name.startswith("__")
            if private or name in self.closed:
                self._check(sys._getframe(1), name)
            return object.__getattribute__(instance, name)

        return read

    def _check(self, frame: FrameType | None, what: str) -> None:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]

        sender = _sender(frame)
        if sender is None or "pyspark" in Path(sender.f_code.co_filename).parts:
            return
        self.refused.append(f"{Path(sender.f_code.co_filename).name}:{sender.f_code.co_name}")
        raise Py4JError(
            "An error occurred while calling o17.ask. Trace:\n"
            f"py4j.security.Py4JSecurityException: Method public {what} is not whitelisted on class X\n"
        )


def _sender(frame: FrameType | None) -> FrameType | None:
    """The first frame that is neither py4j's nor one of Python's own below it, as of an iteration."""
    while frame is not None and _passes_on(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _passes_on(file: str) -> bool:
    return file.startswith("<frozen ") or "py4j" in Path(file).parts
