"""The process that sends one notice: to a webhook, and by a command. It ends within a minute and a half.

Addresses are never written anywhere, since many are secrets; what became of it stands in the run folder.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from .. import __version__
from ..runs.files import write_whole

POST_S, RETRY_S, COMMAND_S = 8.0, 2.0, 30.0
_SOCKET_S, _ALL_S = 5.0, 90.0
_READ = 1024
_TRANSIENT = (408, 425, 429)


class NotSent(Exception):
    """An endpoint did not take a notice; `again` means that it may take it later."""

    def __init__(self, why: str, *, again: bool = True) -> None:
        super().__init__(why)
        self.again = again


def main() -> None:
    """Send what standard input orders, and write down what became of it."""
    end = threading.Timer(_ALL_S, os._exit, (1,))  # a resolver of host names heeds no alarm
    end.daemon = True
    end.start()
    order = json.load(sys.stdin)
    outcome = deliver(order["document"], order["webhook"], order["command"])
    with contextlib.suppress(OSError):  # the run folder may be gone, or full
        write_whole(Path(order["report"]), json.dumps(outcome).encode() + b"\n")


def deliver(
    document: Mapping[str, Any],
    webhook: str,
    command: Sequence[str],
    *,
    retry_s: float = RETRY_S,
    post_s: float = POST_S,
) -> dict[str, object]:
    """Send a notice both ways at once, as far as they are wanted; what became of each. Never raises.

    Args:
        document: the notice, as a webhook gets it.
        webhook: the address; empty for none.
        command: the argv; empty for none.
        retry_s: how long to wait before the second and last try, in seconds.
        post_s: how long one try may take.
    """
    outcome: dict[str, object] = {"kind": document["kind"], "time": time.time()}
    started = StartedCommand.of(command) if command else None
    if webhook:
        outcome["webhook"] = post_with_retry(webhook, document, retry_s=retry_s, post_s=post_s)
    if started is not None:
        outcome["command"] = started.end()
    return outcome


def post_with_retry(url: str, document: Mapping[str, Any], *, retry_s: float, post_s: float) -> str:
    """Post a document, at most twice; what became of it."""
    body = json.dumps(document).encode()
    try:
        return post(url, body, limit_s=post_s)
    except NotSent as error:
        if not error.again:
            return f"not sent: {error}"
    time.sleep(retry_s)
    try:
        return f"{post(url, body, limit_s=post_s)}, at the second try"
    except NotSent as error:
        return f"not sent: {error}, twice"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Leaves redirects as they are: one could lead to another scheme, or take the body elsewhere."""

    def redirect_request(self, *_: Any) -> None:
        return None


def post(url: str, body: bytes, *, limit_s: float) -> str:
    """Post a body once.

    Raises:
        NotSent: it was not taken, or not in time.
    """
    opener = urllib.request.build_opener(_NoRedirects)
    try:
        address, headers = _without_login(url)
        request = urllib.request.Request(address, data=body, method="POST", headers=headers)
        with _alarm(limit_s), opener.open(request, timeout=min(_SOCKET_S, limit_s)) as answer:
            answer.read(_READ)
            return f"answered {answer.status}"
    except urllib.error.HTTPError as error:
        error.close()
        what = ", a redirect, which is not followed" if 300 <= error.code < 400 else ""
        raise NotSent(
            f"answered {error.code}{what}", again=error.code >= 500 or error.code in _TRANSIENT
        ) from None
    except TimeoutError:
        raise NotSent(f"no answer within {limit_s:g} s") from None
    except urllib.error.URLError as error:
        reason = error.reason
        late = isinstance(reason, TimeoutError)
        why = reason.strerror if isinstance(reason, OSError) else None
        raise NotSent("no answer in time" if late else why or "it cannot be reached") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NotSent(f"no proper answer ({type(error).__name__})") from None


def _without_login(url: str) -> tuple[str, dict[str, str]]:
    """The address without a user and password, and the headers with them."""
    parts = urlsplit(url)
    headers = {"Content-Type": "application/json", "User-Agent": f"rankdeck/{__version__}"}
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        parts = parts._replace(netloc=parts.netloc.rpartition("@")[2])
    return urlunsplit(parts), headers


@contextmanager
def _alarm(limit_s: float) -> Iterator[None]:
    """Raise TimeoutError after a while: a timeout of a socket begins anew with every byte."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@dataclass(slots=True)
class StartedCommand:
    """A command that runs beside the webhook, or why it could not be started."""

    process: subprocess.Popen[bytes] | None
    problem: str = ""

    @classmethod
    def of(cls, argv: Sequence[str]) -> StartedCommand:
        """Start it, without a shell, a terminal or a descriptor of ours."""
        null = subprocess.DEVNULL
        try:
            return cls(
                subprocess.Popen(argv, stdin=null, stdout=null, stderr=null, cwd="/", start_new_session=True)
            )
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "its words cannot be used"
            return cls(None, f"not started: {why}")

    def end(self, limit_s: float = COMMAND_S) -> str:
        """Wait for its end, and kill it after a while with all that it has started in its session."""
        if self.process is None:
            return self.problem
        try:
            return f"ended with {self.process.wait(limit_s)}"
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            return f"killed: it took more than {limit_s:g} s"
