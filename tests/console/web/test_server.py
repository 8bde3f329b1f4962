"""`rankdeck serve` without a browser: who comes in, what is refused, and that everything ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import aiohttp
import pytest

from console.demo import record_demo
from console.web.auth import tunnel
from launcher.runs.paths import runs_root
from launcher.runs.reader import status_of
from launcher.state.run_state import Phase
from tests.commands import Gate, last, rankdeck, until
from tests.console.served import UPGRADE, Served, Visitor, stopped
from tests.survivors import alive

pytestmark = pytest.mark.process

FORBIDDEN, OK = HTTPStatus.FORBIDDEN, HTTPStatus.OK
PATHS = ["/", "/ws", "/static/js/textual.js", "/static/", "/page/page.js", "/download/x", "/nothing"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with Served(folder=folder, env={"RANKDECK_HOME": str(folder)}) as served:
        yield served


def upgrade(server: Served, **more: str) -> dict[str, str]:
    return {**UPGRADE, "Origin": f"http://127.0.0.1:{server.port}", **more}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "cookie", ["", "rankdeck=x", "rankdeck-{port}=", "rankdeck-{port}={token}", "=;;\xff"]
)
def test_nothing_opens_without_a_session(server: Served, path: str, cookie: str) -> None:
    cookie = cookie.format(port=server.port, token=server.token)

    assert FORBIDDEN == server.ask(path, upgrade(server, Cookie=cookie)).status
    assert FORBIDDEN == server.ask(path, {"Cookie": cookie}).status


def test_an_address_opens_once(server: Served) -> None:
    token = server.invite()
    assert FORBIDDEN == server.ask(f"/?token={token[:-1]}").status
    assert FORBIDDEN == server.ask(f"/?token={token}", method="HEAD").status
    first, second = server.ask(f"/?token={token}"), server.ask(f"/?token={token}")

    assert (HTTPStatus.SEE_OTHER, "/") == (first.status, first.headers["Location"])
    name, *attributes = first.headers["Set-Cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} == set(attributes)
    assert token not in name
    assert FORBIDDEN == second.status
    assert "Set-Cookie" not in second.headers
    assert OK == server.ask("/", {"Cookie": name}).status


def test_another_address_replaces_one_that_nobody_used(server: Served) -> None:
    session = server.enter()
    old, new = server.invite(), server.invite()

    assert FORBIDDEN == server.ask(f"/?token={old}").status
    assert HTTPStatus.SEE_OTHER == server.ask(f"/?token={new}").status
    assert OK == server.ask("/", session).status


@pytest.mark.parametrize("host", ["evil.example:{port}", "127.0.0.1:1", "127.0.0.1", "localhost", ""])
def test_a_name_that_leads_here_by_deceit_is_refused(server: Served, host: str) -> None:
    session = server.enter()
    answer = server.ask("/", {**session, "Host": host.format(port=server.port)})

    assert FORBIDDEN == answer.status
    assert str(server.port).encode() in answer.body  # says how it is reached


@pytest.mark.parametrize("hosts", ["", "Host: 127.0.0.1:{port}\r\nHost: evil.example\r\n"])
def test_requests_without_one_host_are_refused(server: Served, hosts: str) -> None:
    cookie = server.enter()["Cookie"]
    text = f"GET / HTTP/1.0\r\n{hosts.format(port=server.port)}Cookie: {cookie}\r\n\r\n"

    assert server.say(text).split()[1] in (b"403", b"400")  # the second one is aiohttp's


@pytest.mark.parametrize("origin", ["null", "http://evil.example", "http://localhost:{port}", ""])
def test_another_sites_page_gets_no_websocket(server: Served, origin: str) -> None:
    headers = upgrade(server, **server.enter()) | {"Origin": origin.format(port=server.port)}
    if not origin:
        del headers["Origin"]

    assert FORBIDDEN == server.ask("/ws", headers).status


@pytest.mark.parametrize(
    "path",
    [
        "/page/../serving.py",
        "/page/%2e%2e/serving.py",
        "/page/..%2fserving.py",
        "/page//etc/passwd",
        "/page/%2fetc%2fpasswd",
        "/static/../server.py",
        "/static/%2e%2e%2fserver.py",
        "/static/..%5cserver.py",
        "/page/\\..\\serving.py",
        "/download/..%2f..%2fetc%2fpasswd",
        "/static/",
        "/page/",
    ],
)
def test_only_the_pages_own_files_are_given(server: Served, path: str) -> None:
    answer = server.ask(path, server.enter())

    assert answer.status in (FORBIDDEN, HTTPStatus.NOT_FOUND)
    assert b"import" not in answer.body
    assert b"root:" not in answer.body
    assert b"textual.js" not in answer.body  # nor are they listed


@pytest.mark.parametrize("path", ["/", "/page/page.js", "/static/js/textual.js", "/nothing", "/?token=x"])
def test_every_answer_keeps_other_sites_out(server: Served, path: str) -> None:
    headers = server.ask(path, server.enter()).headers
    policy = headers["Content-Security-Policy"]

    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert {"no-referrer", "nosniff", "DENY"} <= set(headers.values())
    assert headers["Cache-Control"] in ("no-store", "no-cache")


def test_nobody_reaches_it_but_by_loopback(server: Served) -> None:
    table = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    places = {line.split()[1] for line in table.splitlines() if f":{server.port:04X} " in line}
    listening = {place for place in places if place.endswith(f":{server.port:04X}")}

    assert {f"0100007F:{server.port:04X}"} == listening
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", server.port), 5)


def test_secrets_are_printed_once_and_never_narrated(server: Served) -> None:
    cookie = server.enter()["Cookie"].partition("=")[2]
    server.ask(f"/?token={server.token}")
    server.say(f"GET /?token={server.token} HTTP/9\r\n\r\n")

    assert server.token not in server.narrated
    assert cookie not in server.narrated + "".join(server.printed)
    assert 1 == sum(server.token in line for line in server.printed)


def test_a_port_that_is_taken_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = rankdeck("serve", "--port", str(port))

    assert (2, "") == (done.returncode, done.stdout)
    hint = "--port N takes another, --port 0 any free one"
    assert f"rankdeck: port {port} is taken ({hint})\n" == done.stderr


def test_without_textual_serve_it_says_what_to_install() -> None:
    code = """
import sys
sys.modules["textual_serve"] = None  # an import of it now fails as if it were not installed
sys.modules["textual_serve.server"] = None
from console.cli.main import main
main(["serve", "--port", "0"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (2, "") == (done.returncode, done.stdout)
    assert "pip install 'rankdeck[serve]'" in done.stderr
    assert 1 == len(done.stderr.splitlines())


def test_over_ssh_it_says_how_to_tunnel(tmp_path: Path, mark: str) -> None:
    env = {"SSH_CONNECTION": "10.0.0.9 5000 10.0.0.5 2222"}
    with Served(folder=tmp_path, env=env) as server:
        assert f"ssh -N -p 2222 -L {server.port}:127.0.0.1:{server.port} " in server.narrated


@pytest.mark.parametrize("told", ["", "10.0.0.9 5000", "a b c d e"])
def test_no_tunnel_is_made_up(told: str) -> None:
    assert "" == tunnel({"SSH_CONNECTION": told}, 1)


def test_what_a_tunnel_is_told_is_one_word() -> None:
    assert tunnel({"SSH_CONNECTION": "a 1 x;reboot 22"}, 1).endswith("@x;reboot'")


def test_a_browser_is_not_given_the_address_on_its_command_line(tmp_path: Path, mark: str) -> None:
    seen, script = tmp_path / "seen", tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho "$@" >> {seen}.part\nmv {seen}.part {seen}\n')
    script.chmod(0o755)
    with Served(folder=tmp_path, env={"BROWSER": str(script)}, opening=True) as server:
        until(seen.exists)
        address = seen.read_text().strip()
        file = Path(address.removeprefix("file://"))

        assert server.token not in address
        assert f"url=http://127.0.0.1:{server.port}/?token={server.token}" in file.read_text()
        assert 0o600 == stat.S_IMODE(file.stat().st_mode)
        server.signal(signal.SIGTERM)
        server.finish()
    assert not file.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
async def test_its_end_ends_every_console(tmp_path: Path, mark: str, number: signal.Signals) -> None:
    record_demo(_runs())
    with Served(folder=tmp_path) as server:
        async with Visitor(server) as visitor:
            for page in [await visitor.page(), await visitor.page(80, 24)]:
                await page.until(lambda text: "llama-ft" in text)
            consoles = server.consoles
            assert 2 == len(consoles)
            server.signal(number)
            code = server.finish()

        assert (-9 if number == signal.SIGKILL else 128 + number) == code
        until(lambda: not any(pid in alive(mark) for pid in consoles))
        assert "Traceback" not in server.narrated


async def test_a_console_that_hangs_is_killed(tmp_path: Path, mark: str) -> None:
    with Served(folder=tmp_path) as server:
        async with Visitor(server) as visitor:
            page = await visitor.page()
            await page.until(lambda text: "New run" in text)
            [console] = server.consoles
            with stopped(console):
                await page.leave()
                until(lambda: console not in alive(mark))
            assert OK == server.ask("/", server.enter()).status


async def test_pages_are_consoles_of_their_own(tmp_path: Path, mark: str) -> None:
    record_demo(_runs())
    with Served(folder=tmp_path) as server:
        async with Visitor(server) as visitor:
            one, other = await visitor.page(), await visitor.page()
            await one.until(lambda text: "llama-ft" in text)
            await other.until(lambda text: "llama-ft" in text)
            await one.type("?")
            await one.type("\x11")  # ctrl+q
            assert 1000 == await one.ended()
            until(lambda: 1 == len(server.consoles))
            await other.resize(80, 24)
            await other.until(lambda text: "New run" in text.splitlines()[1][:40])
            await other.leave()
            until(lambda: not server.consoles)


@pytest.mark.parametrize(
    "message", ["{", "[]", '["stdin"]', '["stdin", 5]', '["stdin", "\\ud800"]', '["resize", {}]', '"x"', "5"]
)
async def test_a_malformed_message_ends_its_page_and_no_more(server: Served, message: str) -> None:
    async with Visitor(server) as visitor:
        page = await visitor.page()
        await page._socket.send_str(message)

        assert 1002 == await page.ended()
    assert OK == server.ask("/", server.enter()).status
    assert "Traceback" not in server.narrated


@pytest.mark.parametrize("size", [(0, 0), (-5, 10**9), (10**30, 1)])
async def test_no_size_of_a_page_harms(server: Served, size: tuple[int, int]) -> None:
    async with Visitor(server) as visitor:
        page = await visitor.page(120, 40)
        await page.send(["resize", {"width": size[0], "height": size[1]}])
        await page.resize(120, 40)
        await page.until(lambda text: "New run" in text)


async def test_a_run_outlives_its_page_and_inherits_nothing_of_it(tmp_path: Path, mark: str) -> None:
    gate = Gate(tmp_path / "gate")
    program = tmp_path / "telling.py"
    program.write_text(
        "import os\n"
        "names = [n for n in os.environ if n.startswith('TEXTUAL') or n in ('COLUMNS', 'ROWS', 'LINES')]\n"
        "print('inherited', sorted(names), flush=True)\n"
        f"open({str(gate.path)!r} + '.0').read()\n"
    )
    with Served(folder=tmp_path) as server:
        async with Visitor(server) as visitor:
            page = await visitor.page()
            await page.until(lambda text: "choose a file" in text)
            await page.type(str(program))
            await page.until(lambda text: "telling.py -n 1" in text.replace("\n", ""))
            await page.type("\x12")  # ctrl+r
            await page.until(lambda text: "inherited" in text)
            await page.leave()
        until(lambda: not server.consoles)
        run = last()
        assert Phase.RUNNING is status_of(run).state
        gate.open()
        until(lambda: Phase.SUCCEEDED is status_of(run).state)

    assert "inherited []" in rankdeck("logs", "last").stdout


async def test_a_page_survives_what_is_nested_too_deep(tmp_path: Path, mark: str) -> None:
    with Served(folder=tmp_path) as server:
        async with Visitor(server) as visitor:
            page = await visitor.page()
            await page.until(lambda text: "choose a file" in text)
            await page._socket.send_str("[" * 50_000)
            await page._socket.send_str("[" * 50_000 + "]" * 50_000)
            await page.type("zebra.py")
            await page.until(lambda text: "zebra.py" in text)
        assert "Traceback" not in server.narrated


async def test_so_many_pages_and_no_more(tmp_path: Path, mark: str) -> None:
    with Served(folder=tmp_path, pages=1) as server:
        async with Visitor(server) as visitor:
            page = await visitor.page()
            await page.until(lambda text: "choose a file" in text)
            here = f"http://127.0.0.1:{server.port}"
            async with visitor._client.get(here) as answer:
                assert 503 == answer.status
                assert "rankdeck: 1 page is open already; close one\n" == await answer.text()
            with pytest.raises(aiohttp.WSServerHandshakeError, match="503"):
                await visitor.page()
            await page.leave()
            await asyncio.to_thread(until, lambda: not server.consoles)
            status = 503
            async with asyncio.timeout(20):  # the page's place is free a moment after its console has ended
                while status != 200:
                    async with visitor._client.get(here) as answer:
                        status = answer.status


async def test_how_it_looks_is_passed_on(tmp_path: Path, mark: str) -> None:
    with Served("--ascii", "--no-mouse", "--theme", "high-contrast", folder=tmp_path) as server:
        async with Visitor(server) as visitor:
            page = await visitor.page()
            text = await page.until(lambda text: "choose a file" in text)

    assert text.isascii()
    assert page.received.rindex(b"\x1b[?1003l") > page.received.rindex(b"\x1b[?1003h")


def _runs() -> Path:
    runs_root().mkdir(parents=True, mode=0o700)
    return runs_root()


def test_the_driver_is_not_left_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    from console.web.command import _temporarily_set

    monkeypatch.setenv("TEXTUAL_DRIVER", "mine")
    monkeypatch.delenv("TEXTUAL_COLOR_SYSTEM", raising=False)
    before = dict(os.environ)
    with _temporarily_set({"TEXTUAL_DRIVER": "theirs", "TEXTUAL_COLOR_SYSTEM": "truecolor"}):
        assert "theirs" == os.environ["TEXTUAL_DRIVER"]
    assert before == dict(os.environ)
