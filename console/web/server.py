"""The server of `rankdeck serve`: HTTP on this machine's loopback, and one console process for each page.

Scripts, fonts and the protocol are textual-serve's; who comes in, what a page may load and how consoles
begin and end are ours. Nothing is loaded from another machine.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shlex
import signal
import socket
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import WSCloseCode, web
from aiohttp.http_exceptions import HttpProcessingError
from textual_serve.app_service import AppService
from textual_serve.server import Server, to_int

from launcher.errors import SpecError

from ..echo import say
from .auth import LOOPBACK, Admission, AdmissionAnswer, Invitation, PageRequest

if TYPE_CHECKING:
    from textual_serve.download_manager import DownloadManager

_PAGE = Path(__file__).with_name("static")
_HEARTBEAT_S = 15.0
_CLOSE_S = 2.0
_RETRY = '<!doctype html><meta http-equiv="refresh" content="0;url=/"><title>rankdeck</title>'
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
    "img-src 'self' data:; connect-src 'self' ws://{name}:{port} ws://localhost:{port}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_MALFORMED = (ValueError, LookupError, TypeError, AttributeError, AssertionError)  # as theirs tells
_MESSAGE_BYTES = 1 << 20
MOST_PAGES = 16
"""Each page is a process of its own."""
_LASTING = ("/static/", "/page/")

_LOG = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def listen(port: int) -> socket.socket:
    """A socket that listens on the loopback interface; 0 is any free port.

    Raises:
        SpecError: the port is taken, or not ours to take.
    """
    try:
        return socket.create_server((LOOPBACK, port), backlog=128)
    except OSError as error:
        why = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be had: {error.strerror}"
        raise SpecError(f"port {port} {why}", hint="--port N takes another, --port 0 any free one") from error


def serve(
    sock: socket.socket, command: Sequence[str], *, open_page: bool, most_pages: int = MOST_PAGES
) -> int:
    """Serve until a signal says otherwise, and return the exit code for it.

    Each page runs `command` with its columns and rows behind it, at most `most_pages` of them at once. All of
    them are gone on return.
    """
    return asyncio.run(_serve(sock, command, open_page=open_page, most_pages=most_pages))


async def _serve(sock: socket.socket, command: Sequence[str], *, open_page: bool, most_pages: int) -> int:
    port = sock.getsockname()[1]
    admission = Admission(port)
    server = PageServer(admission, command, port, most_pages)
    _LOG.addFilter(_no_bad_request)
    runner = web.AppRunner(
        server.application(), access_log=None, logger=_LOG, shutdown_timeout=GRACE_S + _CLOSE_S
    )
    await runner.setup()
    try:
        ended = _on_signals(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        await web.SockSite(runner, sock).start()
        with Invitation(admission.issue, port, open_page=open_page):
            return await ended
    finally:
        await runner.cleanup()


def _no_bad_request(record: logging.LogRecord) -> bool:
    """Whether a defect of ours is told. What others send amiss is not: it is quoted, and may hold a token."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def _on_signals(*numbers: signal.Signals) -> asyncio.Future[int]:
    """The exit code for the first of these signals. One that was ignored before us, as by nohup, stays so."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()

    def end(number: int) -> None:
        if not ended.done():
            ended.set_result(128 + number)

    for number in numbers:
        if signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, end, number)
    return ended


class PageServer(Server):
    """Answers browsers. Every response passes the admission and carries the headers that keep pages apart."""

    def __init__(
        self, admission: Admission, command: Sequence[str], port: int, most_pages: int = MOST_PAGES
    ) -> None:
        self._most_pages = most_pages
        super().__init__("rankdeck", host=LOOPBACK, port=port)
        self._admission, self._words = admission, command
        self._headers = _HEADERS | {"Content-Security-Policy": _POLICY.format(name=LOOPBACK, port=port)}
        self._pages: dict[PageConsole, web.WebSocketResponse] = {}

    def application(self) -> web.Application:
        """What aiohttp is to run."""
        app = web.Application(middlewares=[self._admit])
        app.on_response_prepare.append(self._protect)
        app.on_shutdown.append(self._end_pages)
        app.add_routes(
            [
                web.get("/", self._index),
                web.get("/ws", self.handle_websocket),
                web.get("/download/{key}", self.handle_download),
                web.static("/static", self.statics_path),
                web.static("/page", _PAGE),
            ]
        )
        return app

    @web.middleware
    async def _admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        verdict = self._admission.judge(_asked(request, self._admission.cookie_name))
        if verdict.answer is AdmissionAnswer.ENTER:
            return await handler(request)
        if verdict.answer is AdmissionAnswer.RETRY:
            return web.Response(status=403, text=_RETRY, content_type="text/html")
        if verdict.answer is AdmissionAnswer.REFUSE:
            return web.Response(status=403, text=f"rankdeck: {verdict.text}\n")
        welcome = web.Response(status=303, headers={"Location": "/"})
        if verdict.text:
            name = self._admission.cookie_name
            welcome.set_cookie(name, verdict.text, path="/", httponly=True, samesite="Strict")
        return welcome

    async def _index(self, _request: web.Request) -> web.StreamResponse:
        return web.FileResponse(_PAGE / "index.html") if self._has_room else self._full()

    @property
    def _has_room(self) -> bool:
        return len(self._pages) < self._most_pages

    def _full(self) -> web.Response:
        count = "1 page is" if self._most_pages == 1 else f"{self._most_pages} pages are"
        return web.Response(status=503, text=f"rankdeck: {count} open already; close one\n")

    async def handle_websocket(self, request: web.Request) -> web.StreamResponse:  # type: ignore[override]
        """Run a console for as long as its page is there."""
        if not self._has_room:
            return self._full()
        websocket = web.WebSocketResponse(
            heartbeat=_HEARTBEAT_S, timeout=_CLOSE_S, max_msg_size=_MESSAGE_BYTES
        )
        await websocket.prepare(request)
        page = PageConsole(
            self._words,
            send=websocket.send_bytes,
            send_text=websocket.send_str,
            close=websocket.close,
            downloads=self.download_manager,
        )
        self._pages[page] = websocket
        try:
            query = request.query
            await page.start(to_int(query.get("width", ""), 80), to_int(query.get("height", ""), 24))
            await self._process_messages(websocket, page)
        except _MALFORMED:
            await websocket.close(code=WSCloseCode.PROTOCOL_ERROR)
        finally:
            await page.stop()
            del self._pages[page]
        return websocket

    async def _process_messages(self, websocket: web.WebSocketResponse, app_service: AppService) -> None:
        """Take what the page says; what is nested deeper than anything that a page says is passed over."""
        while not websocket.closed:
            with suppress(RecursionError):
                await super()._process_messages(websocket, app_service)
                return

    async def _protect(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(self._headers)
        if request.path.startswith(_LASTING) and response.status in (200, 304):
            response.headers["Cache-Control"] = "no-cache"  # kept, but asked for each time

    async def _end_pages(self, _app: web.Application) -> None:
        await asyncio.gather(*(page.stop() for page in self._pages))
        await asyncio.gather(*(websocket.close() for websocket in self._pages.values()))


def _asked(request: web.Request, cookie: str) -> PageRequest:
    headers = request.headers
    return PageRequest(
        path=request.path,
        method=request.method,
        hosts=tuple(headers.getall("Host", ())),
        origin=headers.get("Origin", ""),
        token=request.query.get("token"),
        cookie=request.cookies.get(cookie, ""),
        site=headers.get("Sec-Fetch-Site", ""),
        sort=headers.get("Sec-Fetch-Mode", ""),
        socket=request.path == "/ws",
    )


GRACE_S = 8.0
"""How long a console may take to leave when its page has gone."""

_BEGIN = b"__GANGLION__\n"  # what Textual's driver writes before its first packet
_LARGEST = 1000
_TOLD_LINES = 40


class PageConsole(AppService):
    """The console of one page. What goes to the page is written by `send`; `close` ends the page."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        send: Callable[[bytes], Awaitable[None]],
        send_text: Callable[[str], Awaitable[None]],
        close: Callable[[], Awaitable[object]],
        downloads: DownloadManager,
    ) -> None:
        super().__init__(
            shlex.join(command),
            write_bytes=send,
            write_str=send_text,
            close=close,  # type: ignore[arg-type]  # what it yields is not looked at
            download_manager=downloads,
        )
        self._words = command
        self._end: asyncio.Future[None] | None = None

    async def set_terminal_size(self, width: int, height: int) -> None:
        """Tell the console how large its page is now, in cells."""
        await super().set_terminal_size(_sane(width), _sane(height))

    async def stop(self) -> None:
        """End the console, and return when its process is gone."""
        if self._end is None:
            self._end = asyncio.ensure_future(self._finish())
        await asyncio.shield(self._end)

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        """Start the console: no shell, our environment as it is, and out of reach of our terminal's keys."""
        size = [str(_sane(width)), str(_sane(height))]
        self._process = await asyncio.create_subprocess_exec(
            *self._words, *size, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
        self._stdin = self._process.stdin
        return self._process

    async def run(self) -> None:
        """Pass on what the console draws, until it or its page has gone."""
        assert self._process is not None
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                await self._pass_on(_reader(self._process.stdout))
        finally:
            await self.remote_close()

    async def _pass_on(self, drawn: asyncio.StreamReader) -> None:
        takers = {b"D": self.on_data, b"M": self.on_meta, b"P": self.on_packed}
        await drawn.readuntil(_BEGIN)
        while True:
            take = takers[await drawn.readexactly(1)]
            await take(await drawn.readexactly(int.from_bytes(await drawn.readexactly(4), "big")))

    async def _finish(self) -> None:
        if self._process is None:
            return
        await self._download_manager.cancel_app_downloads(app_service_id=self.app_service_id)
        self.stdin.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        rest = asyncio.gather(_discard(_reader(self._process.stdout)), _tell(_reader(self._process.stderr)))
        try:
            await asyncio.wait_for(self._process.wait(), GRACE_S)
        except TimeoutError:
            os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
        await rest


def _sane(cells: object) -> int:
    return max(1, min(cells, _LARGEST)) if isinstance(cells, int) else 1


def _reader(stream: asyncio.StreamReader | None) -> asyncio.StreamReader:
    assert stream is not None
    return stream


async def _discard(stream: asyncio.StreamReader) -> None:
    """Read to the end, so that a console that still draws is not held up."""
    while await stream.read(1 << 16):
        pass


async def _tell(stream: asyncio.StreamReader) -> None:
    """Say what a console had to say at its end, in the terminal of the one who serves it."""
    text = (await stream.read()).decode("utf-8", "replace")
    for line in text.splitlines()[-_TOLD_LINES:]:
        say(line)
