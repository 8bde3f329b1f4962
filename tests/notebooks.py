"""Notebooks for tests: a real Jupyter kernel, driven over its own protocol."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from tempfile import TemporaryDirectory
from typing import Any

from jupyter_client.manager import KernelManager

LIMIT_S = 120.0


@dataclass
class Ran:
    """What a notebook shows of one cell that has run.

    Attributes:
        ok: whether it ended without an error.
        displays: the outputs with an id, as they are at the end.
        updates: when the kernel sent them and each of their updates, in seconds since the epoch.
        value: the value of the cell as text.
        streams: what came on each standard stream.
        error: an error's name, its message, and what is shown of it.
    """

    ok: bool = False
    displays: dict[str, dict[str, str]] = field(default_factory=dict)
    updates: list[float] = field(default_factory=list)
    value: str = ""
    streams: dict[str, str] = field(default_factory=dict)
    error: tuple[str, str, str] = ("", "", "")

    @property
    def html(self) -> str:
        (display,) = self.displays.values()
        return display["text/html"]

    @property
    def text(self) -> str:
        (display,) = self.displays.values()
        return display["text/plain"]


class Notebook:
    """A notebook whose cells are run one after the other."""

    def __init__(self, manager: Any, client: Any) -> None:
        self._manager, self._client = manager, client

    def run(self, code: str) -> Ran:
        return self.finish(self.begin(code))

    def begin(self, code: str) -> str:
        """Run a cell, and do not wait for it; what to pass to `finish`."""
        request: str = self._client.execute(code)
        return request

    def finish(self, request: str) -> Ran:
        ran, deadline = Ran(), time.monotonic() + LIMIT_S
        while True:
            try:
                message = self._client.get_iopub_msg(timeout=deadline - time.monotonic())
            except Empty:
                raise AssertionError(f"a cell did not end: {ran}") from None
            if message["parent_header"].get("msg_id") == request and _take(ran, message):
                break
        reply: dict[str, Any] = {"parent_header": {}}
        while reply["parent_header"].get("msg_id") != request:
            reply = self._client.get_shell_msg(timeout=LIMIT_S)
        ran.ok = reply["content"]["status"] == "ok"
        return ran

    def interrupt(self) -> None:
        """What the notebook's stop button does."""
        self._manager.interrupt_kernel()


def _take(ran: Ran, message: dict[str, Any]) -> bool:
    """Add a message of the kernel; whether it is the last one of a cell."""
    kind, content = message["msg_type"], message["content"]
    if kind in ("display_data", "update_display_data"):
        shown = content["transient"]["display_id"]
        assert (shown in ran.displays) == (kind == "update_display_data")
        ran.displays[shown] = content["data"]
        ran.updates.append(message["header"]["date"].timestamp())
    elif kind == "execute_result":
        ran.value = content["data"]["text/plain"]
    elif kind == "stream":
        ran.streams[content["name"]] = ran.streams.get(content["name"], "") + content["text"]
    elif kind == "error":
        ran.error = content["ename"], content["evalue"], "\n".join(content["traceback"])
    return bool(kind == "status" and content["execution_state"] == "idle")


@contextmanager
def notebook(folder: Path) -> Iterator[Notebook]:
    """A notebook in a folder; its kernel ends with the context, and writes to the folder only."""
    own = {
        name: str(folder / "jupyter") for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR")
    }
    env = {**os.environ, **own, "NO_COLOR": "1"}
    # sockets with names, which must be short: ports are only guessed, and another kernel may take them first
    with TemporaryDirectory(prefix="nb", dir="/tmp") as sockets:
        manager = KernelManager(kernel_name="python3", transport="ipc", ip=f"{sockets}/kernel")
        manager.start_kernel(cwd=str(folder), env=env)
        client = manager.client()
        try:
            client.start_channels()
            client.wait_for_ready(timeout=LIMIT_S)
            yield Notebook(manager, client)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=False)
