"""The console as it is served: the real command, what HTTP it answers, and a page without a browser."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Self

import aiohttp
import pyte

from tests.commands import LIMIT_S, Foreground

UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
}


@dataclass(frozen=True)
class Answer:
    status: HTTPStatus
    headers: http.client.HTTPMessage
    body: bytes


class Served(Foreground):
    """`rankdeck serve` on a port of its own."""

    def __init__(
        self,
        *look: str,
        folder: Path,
        env: dict[str, str] | None = None,
        opening: bool = False,
        pages: int = 16,
    ) -> None:
        choice = "--open" if opening else "--no-open"
        super().__init__(*look, "serve", "--port", "0", f"--pages={pages}", choice, folder=folder, env=env)
        self.url = self.await_line("/?token=")
        self.port = int(re.findall(r":(\d+)/", self.url)[0])
        self.await_narration("the address opens once")

    def __enter__(self) -> Self:
        return self

    @property
    def token(self) -> str:
        return self.url.partition("token=")[2]

    def invite(self) -> str:
        """Have it make another address; its token."""
        self.signal(signal.SIGUSR1)
        self.url = self.await_line("/?token=")
        return self.token

    def enter(self) -> dict[str, str]:
        """Come in by a new address; the header that lets one in from then on."""
        answer = self.ask(f"/?token={self.invite()}")
        assert HTTPStatus.SEE_OTHER == answer.status
        return {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}

    def ask(self, path: str, headers: dict[str, str] | None = None, method: str = "GET") -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        try:
            connection.request(method, path, headers=headers or {})
            response = connection.getresponse()
            upgraded = response.status == HTTPStatus.SWITCHING_PROTOCOLS
            body = b"" if upgraded else response.read()
            return Answer(HTTPStatus(response.status), response.headers, body)
        finally:
            connection.close()

    def say(self, text: str) -> bytes:
        """The answer to exactly this, which no client of HTTP would send."""
        with socket.create_connection(("127.0.0.1", self.port), LIMIT_S) as raw:
            raw.sendall(text.encode())
            return b"".join(iter(lambda: raw.recv(1 << 16), b""))

    @property
    def consoles(self) -> list[int]:
        """The processes that draw pages."""
        return [pid for pid, parent in _parents() if parent == self.process.pid]


def _parents() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield int(entry.name), int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue


class Page:
    """A page of the console as a browser without a screen has it: a websocket, and a terminal's picture."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, columns: int, rows: int) -> None:
        self._socket = socket
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.received = b""

    @property
    def text(self) -> str:
        return "\n".join(self._screen.display)

    async def until(self, condition: Callable[[str], object]) -> str:
        """Take what is drawn until the page is so."""
        deadline = time.monotonic() + LIMIT_S
        while not condition(self.text):
            message = await self._socket.receive(timeout=max(deadline - time.monotonic(), 0.1))
            assert aiohttp.WSMsgType.BINARY == message.type, (message, self.text)
            self.received += message.data
            self._stream.feed(message.data)
        return self.text

    async def type(self, text: str) -> None:
        await self.send(["stdin", text])

    async def resize(self, columns: int, rows: int) -> None:
        self._screen.resize(rows, columns)
        await self.send(["resize", {"width": columns, "height": rows}])

    async def send(self, message: object) -> None:
        await self._socket.send_str(json.dumps(message))

    async def ended(self) -> int | None:
        """Await the end that the console puts to the page; the code it is closed with."""
        async with asyncio.timeout(LIMIT_S):
            while (await self._socket.receive()).type is aiohttp.WSMsgType.BINARY:
                pass
        return self._socket.close_code

    async def leave(self) -> None:
        await self._socket.close()


class Visitor:
    """Somebody whom the server let in. Leaving the context drops all pages."""

    def __init__(self, server: Served) -> None:
        self._server = server

    async def __aenter__(self) -> Self:
        self._client = aiohttp.ClientSession(headers=self._server.enter())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def page(self, columns: int = 120, rows: int = 40) -> Page:
        here = f"127.0.0.1:{self._server.port}"
        address = f"ws://{here}/ws?width={columns}&height={rows}"
        return Page(await self._client.ws_connect(address, origin=f"http://{here}"), columns, rows)


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Hold a process up, as a machine that swaps does."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        if Path(f"/proc/{pid}").exists():
            os.kill(pid, signal.SIGCONT)
