"""A browser's page and the process that draws it: one console a page, which ends with it and ends no run."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from textual_serve.app_service import AppService

from console.echo import say

if TYPE_CHECKING:
    from textual_serve.download_manager import DownloadManager

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
