"""The server of `rankdeck serve`: HTTP on this machine's loopback, and one console process for each page.

Scripts, fonts and the protocol are textual-serve's; access control, the pages' security headers, and the
start and end of consoles are ours. Nothing is loaded from another machine.
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
_MALFORMED = (ValueError, LookupError, TypeError, AttributeError, AssertionError)  # textual-serve's errors
_MESSAGE_BYTES = 1 << 20
MAX_PAGES = 16
"""Each page has its own process."""
_CACHED = ("/static/", "/page/")

_LOG = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def listen(port: int) -> socket.socket:
    """A socket that listens on the loopback interface; port 0 takes any free one.

    Raises:
        SpecError: the port is taken or not permitted.
    """
    try:
        return socket.create_server((LOOPBACK, port), backlog=128)
    except OSError as error:
        why = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be had: {error.strerror}"
        raise SpecError(f"port {port} {why}", hint="--port N takes another, --port 0 any free one") from error


def serve(sock: socket.socket, command: Sequence[str], *, open_page: bool, max_pages: int = MAX_PAGES) -> int:
    """Serve until a signal, and return the exit code for it.

    Each page runs `command` with its columns and rows appended; at most `max_pages` run at once. On return
    all of them have ended.
    """
    return asyncio.run(_serve(sock, command, open_page=open_page, max_pages=max_pages))


async def _serve(sock: socket.socket, command: Sequence[str], *, open_page: bool, max_pages: int) -> int:
    port = sock.getsockname()[1]
    admission = Admission(port)
    server = PageServer(admission, command, port, max_pages)
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
    """Whether to log a record; not for malformed requests: the text quotes them, and may contain a token."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def _on_signals(*numbers: signal.Signals) -> asyncio.Future[int]:
    """A future of the exit code for the first of these signals; those ignored, as by nohup, stay ignored."""
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
    """Answers browsers. Every request passes access control; every response gets the security headers."""

    def __init__(
        self, admission: Admission, command: Sequence[str], port: int, max_pages: int = MAX_PAGES
    ) -> None:
        self._max_pages = max_pages
        super().__init__("rankdeck", host=LOOPBACK, port=port)
        self._admission, self._command = admission, command
        self._headers = _HEADERS | {"Content-Security-Policy": _POLICY.format(name=LOOPBACK, port=port)}
        self._pages: dict[PageConsole, web.WebSocketResponse] = {}

    def application(self) -> web.Application:
        """The aiohttp application."""
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
        verdict = self._admission.judge(_page_request(request, self._admission.cookie_name))
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
        return len(self._pages) < self._max_pages

    def _full(self) -> web.Response:
        count = "1 page is" if self._max_pages == 1 else f"{self._max_pages} pages are"
        return web.Response(status=503, text=f"rankdeck: {count} open already; close one\n")

    async def handle_websocket(self, request: web.Request) -> web.StreamResponse:  # type: ignore[override]
        """Run a console until its page closes."""
        if not self._has_room:
            return self._full()
        websocket = web.WebSocketResponse(
            heartbeat=_HEARTBEAT_S, timeout=_CLOSE_S, max_msg_size=_MESSAGE_BYTES
        )
        await websocket.prepare(request)
        page = PageConsole(
            self._command,
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
        """Process the page's messages; a message nested too deeply to parse is skipped."""
        while not websocket.closed:
            with suppress(RecursionError):
                await super()._process_messages(websocket, app_service)
                return

    async def _protect(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(self._headers)
        if request.path.startswith(_CACHED) and response.status in (200, 304):
            response.headers["Cache-Control"] = "no-cache"  # cached, but validated each time

    async def _end_pages(self, _app: web.Application) -> None:
        await asyncio.gather(*(page.stop() for page in self._pages))
        await asyncio.gather(*(websocket.close() for websocket in self._pages.values()))


def _page_request(request: web.Request, cookie: str) -> PageRequest:
    headers = request.headers
    return PageRequest(
        path=request.path,
        method=request.method,
        hosts=tuple(headers.getall("Host", ())),
        origin=headers.get("Origin", ""),
        token=request.query.get("token"),
        cookie=request.cookies.get(cookie, ""),
        site=headers.get("Sec-Fetch-Site", ""),
        fetch_mode=headers.get("Sec-Fetch-Mode", ""),
        socket=request.path == "/ws",
    )


GRACE_S = 8.0
"""Seconds that a console may take to exit after its page has closed."""

_BEGIN = b"__GANGLION__\n"  # Textual's driver writes this before its first packet
_MAX_CELLS = 1000
_MAX_ERROR_LINES = 40


class PageConsole(AppService):
    """The console of one page. `send` writes to the page; `close` ends it."""

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
            close=close,  # type: ignore[arg-type]  # its result is not used
            download_manager=downloads,
        )
        self._command = command
        self._end: asyncio.Future[None] | None = None

    async def set_terminal_size(self, width: int, height: int) -> None:
        """Send the console the new size of its page, in cells."""
        await super().set_terminal_size(_clamped(width), _clamped(height))

    async def stop(self) -> None:
        """End the console, and return when its process has ended."""
        if self._end is None:
            self._end = asyncio.ensure_future(self._finish())
        await asyncio.shield(self._end)

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        """Start the console: no shell, our environment, and its own session, so that our Ctrl-C misses it."""
        size = [str(_clamped(width)), str(_clamped(height))]
        self._process = await asyncio.create_subprocess_exec(
            *self._command, *size, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
        self._stdin = self._process.stdin
        return self._process

    async def run(self) -> None:
        """Forward the console's output to the page, until one of them ends."""
        assert self._process is not None
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                await self._forward(_reader(self._process.stdout))
        finally:
            await self.remote_close()

    async def _forward(self, output: asyncio.StreamReader) -> None:
        handlers = {b"D": self.on_data, b"M": self.on_meta, b"P": self.on_packed}
        await output.readuntil(_BEGIN)
        while True:
            handle = handlers[await output.readexactly(1)]
            await handle(await output.readexactly(int.from_bytes(await output.readexactly(4), "big")))

    async def _finish(self) -> None:
        if self._process is None:
            return
        await self._download_manager.cancel_app_downloads(app_service_id=self.app_service_id)
        self.stdin.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        rest = asyncio.gather(
            _discard(_reader(self._process.stdout)), _report_errors(_reader(self._process.stderr))
        )
        try:
            await asyncio.wait_for(self._process.wait(), GRACE_S)
        except TimeoutError:
            os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
        await rest


def _clamped(cells: object) -> int:
    return max(1, min(cells, _MAX_CELLS)) if isinstance(cells, int) else 1


def _reader(stream: asyncio.StreamReader | None) -> asyncio.StreamReader:
    assert stream is not None
    return stream


async def _discard(stream: asyncio.StreamReader) -> None:
    """Read to the end, so that a console that still draws does not block."""
    while await stream.read(1 << 16):
        pass


async def _report_errors(stream: asyncio.StreamReader) -> None:
    """Print the last lines of a console's standard error in the terminal of `rankdeck serve`."""
    text = (await stream.read()).decode("utf-8", "replace")
    for line in text.splitlines()[-_MAX_ERROR_LINES:]:
        say(line)
