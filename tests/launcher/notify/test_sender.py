"""What is sent, to a real server that answers, fails, redirects, is slow or is gone; and by a command."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from launcher.notify.notice import Notice
from launcher.notify.sender import StartedCommand, deliver
from tests.commands import until

NOTICE = Notice(
    kind="failure", id="20260101-100000-000abc", name="llama", target="train.py", state="failed",
    why="rank 3 raised ValueError", exit_code=1, num_processes=8, started=1.0, ended=2.0,
)  # fmt: skip


class Endpoint:
    """A server on this machine that answers with `codes` in turn, the last one again and again."""

    def __init__(self) -> None:
        self.codes = [200]
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.location = ""
        self.hold = threading.Event()
        self.hold.set()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.bodies.append(body)
                endpoint.headers.append(dict(self.headers))
                endpoint.hold.wait(30)
                codes = endpoint.codes
                self.send_response(codes.pop(0) if len(codes) > 1 else codes[0])
                if endpoint.location:
                    self.send_header("Location", endpoint.location)
                self.end_headers()

            do_GET = do_POST  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/hook?token=s3cr3t"

    def close(self) -> None:
        self.hold.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.close()


def sent(url: str, command: tuple[str, ...] = (), *, post_s: float = 8.0) -> dict[str, object]:
    return deliver(NOTICE.document, url, command, retry_s=0.0, post_s=post_s)


def test_a_document_is_posted_once(endpoint: Endpoint) -> None:
    outcome = sent(endpoint.url)

    assert "answered 200" == outcome["webhook"]
    (body,) = endpoint.bodies
    document = json.loads(body)
    assert {"kind": "failure", "exit_code": 1, "num_processes": 8}.items() <= document.items()
    assert "llama failed (exit 1): rank 3 raised ValueError" == document["text"]
    assert "application/json" == endpoint.headers[0]["Content-Type"]


@pytest.mark.parametrize(
    ("codes", "said", "tries"),
    [
        ([500, 204], "answered 204, at the second try", 2),
        ([503], "not sent: answered 503, twice", 2),
        ([429, 200], "answered 200, at the second try", 2),
        ([404], "not sent: answered 404", 1),
        ([401, 200], "not sent: answered 401", 1),
    ],
)
def test_only_what_may_pass_is_tried_again_and_once(
    endpoint: Endpoint, codes: list[int], said: str, tries: int
) -> None:
    endpoint.codes = codes

    assert said == sent(endpoint.url)["webhook"]
    assert tries == len(endpoint.bodies)


@pytest.mark.parametrize("to", ["file:///etc/passwd", "ftp://127.0.0.1/x", "same", "/elsewhere"])
@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_no_redirect_is_followed(endpoint: Endpoint, code: int, to: str) -> None:
    endpoint.codes, endpoint.location = [code], endpoint.url if to == "same" else to

    assert f"not sent: answered {code}, a redirect, which is not followed" == sent(endpoint.url)["webhook"]
    assert 1 == len(endpoint.bodies)


def test_a_slow_server_is_given_up_in_time(endpoint: Endpoint) -> None:
    endpoint.hold.clear()
    began = time.monotonic()
    outcome = sent(endpoint.url, post_s=0.3)

    assert "not sent: no answer within 0.3 s, twice" == outcome["webhook"]
    assert time.monotonic() - began < 5.0


def test_a_server_that_drips_is_given_up_in_time() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def drip() -> None:
        for _ in range(2):
            client, _ = listener.accept()
            with client:
                while not over.wait(0.05):
                    try:
                        client.sendall(b"H")
                    except OSError:
                        break

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    outcome = sent(f"http://127.0.0.1:{listener.getsockname()[1]}/", post_s=0.4)
    over.set()
    listener.close()

    assert "not sent: " in str(outcome["webhook"])
    assert str(outcome["webhook"]).endswith(", twice")


def test_a_dead_server_and_garbage_are_said_without_the_address() -> None:
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()

    assert "not sent: Connection refused, twice" == sent(f"http://127.0.0.1:{port}/s3cr3t")["webhook"]
    for url in ("http://[::1/s3cr3t", "http://no.such.host.invalid/s3cr3t", "http://\x7f/s3cr3t"):
        said = str(sent(url, post_s=2.0)["webhook"])
        assert said.startswith("not sent: ")
        assert "s3cr3t" not in said


def test_a_user_and_password_become_a_header(endpoint: Endpoint) -> None:
    sent(endpoint.url.replace("127.0.0.1", "ada:p%40ss@127.0.0.1"))

    assert "Basic YWRhOnBAc3M=" == endpoint.headers[0]["Authorization"]


def test_a_command_gets_its_words_and_no_shell(tmp_path: Path) -> None:
    (program := tmp_path / "note").write_text(f'#!/bin/sh\nprintf "%s|" "$@" > {tmp_path}/got\n')
    program.chmod(0o700)

    assert "ended with 0" == sent("", (str(program), "$(id)", "a b", "; rm x"))["command"]
    assert "$(id)|a b|; rm x|" == (tmp_path / "got").read_text()


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("/no/such/program",), "not started: No such file or directory"),
        (("false",), "ended with 1"),
        (("x\0y",), "not started: its words cannot be used"),
    ],
)
def test_a_command_that_fails_is_said(argv: tuple[str, ...], said: str) -> None:
    assert said == sent("", argv)["command"]


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    (program := tmp_path / "hang").write_text(f"#!/bin/sh\nsleep 1000 & echo $! > {tmp_path}/pid\nwait\n")
    program.chmod(0o700)
    started = StartedCommand.of((str(program),))
    until(lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text().strip()))

    assert "killed: it took more than 0.1 s" == started.end(0.1)
    child = int((tmp_path / "pid").read_text())
    until(lambda: _dead(child))


def _dead(pid: int) -> bool:
    """Whether a process is gone, or waits for its parent to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except OSError:
        return True
