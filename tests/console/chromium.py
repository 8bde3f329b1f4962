"""A real Chromium, driven over its DevTools pipe: pages, what they ask for, the terminal that they show."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
MISSING = "no Chromium on PATH: Debian's package `chromium` brings one"
LIMIT_S = 60.0

_OPTIONS = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
]
_ALONE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
# It takes orders at descriptor 3 and answers at 4. Ours may have these numbers, the other way round even.
_START = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
# The page keeps its terminal to itself: whoever is given a `fitAddon` is the one that has it.
_REVEAL = """
Object.defineProperty(Object.prototype, "fitAddon", {
  configurable: true,
  set(addon) {
    window.revealed = this;
    Object.defineProperty(this, "fitAddon", {value: addon, writable: true});
  },
});
"""
# What it says of a page that goes to its next address while it is asked.
_ON_ITS_WAY = "Inspected target navigated or closed"
_TEXT = """
(() => {
  const terminal = window.revealed?.terminal, lines = [];
  for (let i = 0; terminal && i < terminal.rows; i++)
    lines.push(terminal.buffer.active.getLine(i)?.translateToString(true) ?? "");
  return lines.join("\\n");
})()
"""


class OnItsWay(AssertionError):
    """The page left for another address while it was asked."""


class Chromium:
    """A browser with a profile of its own in `folder`. Leaving the context kills it."""

    def __init__(self, folder: Path) -> None:
        told_read, self._orders = os.pipe()
        self._answers, answer_write = os.pipe()
        command = [str(CHROMIUM), *_OPTIONS, _ALONE, f"--user-data-dir={folder / 'profile'}", "about:blank"]
        if os.geteuid() == 0:
            command.insert(1, "--no-sandbox")
        self._noise = folder / "chromium.txt"
        with open(self._noise, "wb") as noise:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, str(told_read), str(answer_write), *command],
                pass_fds=(told_read, answer_write),
                stdin=subprocess.DEVNULL,
                stdout=noise,
                stderr=noise,
                start_new_session=True,
                env={**os.environ, "HOME": str(folder)},
            )
        os.close(told_read)
        os.close(answer_write)
        self._number, self._rest = 0, b""
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str = "", **params: object) -> dict[str, Any]:
        """Give an order and await its answer; events that come before it are kept."""
        self._number += 1
        order: dict[str, object] = {"id": self._number, "method": method, "params": params}
        if session:
            order["sessionId"] = session
        os.write(self._orders, json.dumps(order).encode() + b"\0")
        deadline = time.monotonic() + LIMIT_S
        while (message := self._message(deadline)).get("id") != self._number:
            self.events.append(message)
        error = message.get("error")
        if error and error["message"] == _ON_ITS_WAY:
            raise OnItsWay(message)
        assert not error, message
        answer: dict[str, Any] = message["result"]
        return answer

    def _message(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            left = deadline - time.monotonic()
            ready = left > 0 and select.select([self._answers], [], [], left)[0]
            assert ready, f"no answer from the browser: {self._noise.read_text()[-2000:]}"
            self._rest += os.read(self._answers, 1 << 20) or b"{}\0"
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        assert message, f"the browser has ended: {self._noise.read_text()[-2000:]}"
        return message

    def profile(self) -> str:
        """A profile without any cookie; pages are opened in it."""
        answer = self.call("Target.createBrowserContext")
        profile: str = answer["browserContextId"]
        return profile

    def open(self, profile: str, url: str) -> Page:
        """A new page at this address."""
        return Page(self, profile, url)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._orders)
        os.close(self._answers)


class Page:
    """One page of a browser."""

    def __init__(self, browser: Chromium, profile: str, url: str) -> None:
        self._browser, self.profile = browser, profile
        made = browser.call("Target.createTarget", url="about:blank", browserContextId=profile)
        self.target: str = made["targetId"]
        attached = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)
        self.session: str = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.addScriptToEvaluateOnNewDocument", source=_REVEAL)
        self.resize(1200, 800)
        self.call("Page.navigate", url=url)

    def call(self, method: str, **params: object) -> dict[str, Any]:
        return self._browser.call(method, self.session, **params)

    def events(self, method: str) -> list[dict[str, Any]]:
        """What came of one kind so far."""
        self.value("0")
        mine = [e for e in self._browser.events if e.get("sessionId") == self.session]
        return [e["params"] for e in mine if e["method"] == method]

    def value(self, expression: str) -> Any:
        """What the page makes of this, or the page that it was on its way to."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            try:
                done = self.call(
                    "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
                )
                break
            except OnItsWay:
                if time.monotonic() > deadline:
                    raise
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    @property
    def text(self) -> str:
        """What the page's terminal shows."""
        return str(self.value(_TEXT))

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of the page's terminal."""
        columns, rows = self.value("[revealed.terminal.cols, revealed.terminal.rows]")
        return columns, rows

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < deadline, f"it never came to that:\n{self.text}\n{self.problems}"

    def await_text(self, *texts: str) -> None:
        self.until(lambda: all(text in self.text for text in texts))

    def press(self, key: str, code: int = 0) -> None:
        """A key as from the keyboard: a character, or a named key with its code."""
        text = {"Enter": "\r", "Escape": ""}.get(key, key)
        named: dict[str, object] = {"windowsVirtualKeyCode": code, "text": text} if code else {"text": text}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **named)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def click(self, x: int, y: int) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def click_on(self, text: str) -> None:
        """Click on a text of the terminal, in its first row that has it."""
        rows = self.text.split("\n")
        row = next(number for number, line in enumerate(rows) if text in line)
        columns, lines = self.size
        left, top, width, height = self.value(
            "(r => [r.left, r.top, r.width, r.height])"
            "(document.querySelector('.xterm-screen').getBoundingClientRect())"
        )
        column = rows[row].index(text) + 1
        self.click(round(left + (column + 0.5) * width / columns), round(top + (row + 0.5) * height / lines))

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def close(self) -> None:
        self._browser.call("Target.closeTarget", targetId=self.target)

    def picture(self) -> bytes:
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    @property
    def asked(self) -> list[str]:
        """Every address that the page asked for."""
        asked = [event["request"]["url"] for event in self.events("Network.requestWillBeSent")]
        return asked + [event["url"] for event in self.events("Network.webSocketCreated")]

    @property
    def statuses(self) -> list[int]:
        """The status of each answer to the page's requests."""
        return [event["response"]["status"] for event in self.events("Network.responseReceived")]

    @property
    def problems(self) -> list[str]:
        """What the page complained of: refused loads, and errors of its scripts."""
        entries = [event["entry"] for event in self.events("Log.entryAdded")]
        thrown = [str(event["exceptionDetails"]) for event in self.events("Runtime.exceptionThrown")]
        return [entry["text"] for entry in entries if entry["level"] == "error"] + thrown
