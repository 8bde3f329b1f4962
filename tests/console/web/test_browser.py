"""The served console in a real Chromium: what its page shows, what it takes, and whom it lets in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from console.demo import record_demo
from launcher.runs.paths import runs_root
from tests.commands import until
from tests.console.chromium import CHROMIUM, MISSING, Chromium
from tests.console.served import Served

pytestmark = [
    pytest.mark.browser,
    pytest.mark.process,
    pytest.mark.skipif(CHROMIUM is None, reason=MISSING),
]

ENTER, ESCAPE = ("Enter", 13), ("Escape", 27)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("chromium")) as started:
        yield started


@pytest.fixture
def server(tmp_path: Path, mark: str) -> Iterator[Served]:
    runs_root().mkdir(parents=True, mode=0o700)
    record_demo(runs_root(), fail=True)
    with Served(folder=tmp_path) as served:
        yield served


def test_the_page_shows_the_console(browser: Chromium, server: Served) -> None:
    page = browser.open(browser.profile(), server.url)
    page.await_text("1 New run", "llama-ft", "choose a file or a function to run")

    assert page.value("location.href") == f"http://127.0.0.1:{server.port}/"
    assert page.value("document.fonts.check('15px \"Roboto Mono\"')")
    assert [] == page.problems
    assert len(page.picture()) > 8_000  # a page of one colour has less
    assert "" == page.value("document.cookie")  # no script can read it


def test_it_loads_nothing_from_another_machine(browser: Chromium, server: Served) -> None:
    page = browser.open(browser.profile(), server.url)
    page.await_text("llama-ft")

    here = f"127.0.0.1:{server.port}"
    assert {here} == {urlsplit(url).netloc for url in page.asked if not url.startswith("data:")}
    assert f"ws://{here}/ws" in {url.partition("?")[0] for url in page.asked}
    refused = page.value("fetch('http://localhost:1/').then(() => 'went', () => 'stayed')")
    assert "stayed" == refused
    assert any("Content Security Policy" in problem for problem in page.problems)


def test_keys_and_clicks_reach_the_console(browser: Chromium, server: Served) -> None:
    page = browser.open(browser.profile(), server.url)
    page.await_text("llama-ft", "choose a file")
    page.press("z")
    page.await_text("rankdeck run z -n 1")
    page.click_on("llama-ft")
    page.await_text("enter Open")
    page.press(*ENTER)
    page.await_text("rank 5", "3 Logs")
    page.press("?")
    page.await_text("Keys here")
    page.press(*ESCAPE)
    page.until(lambda: "Keys here" not in page.text)
    page.press("q")
    page.until(lambda: page.value("document.body.classList.contains('-closed')"))
    assert "runs go on" in page.value("document.getElementById('closed').innerText")
    until(lambda: not server.consoles)

    assert "again" == page.value("document.activeElement.id")
    page.press(*ENTER)
    page.await_text("llama-ft", "choose a file")


def test_the_console_has_the_size_of_the_page(browser: Chromium, server: Served) -> None:
    page = browser.open(browser.profile(), server.url)
    page.await_text("llama-ft")
    wide = page.size
    page.resize(700, 480)
    page.until(lambda: page.size < wide and _fits(page.text, page.size))
    narrow = page.size
    page.resize(1200, 800)
    page.until(lambda: page.size == wide and _fits(page.text, page.size))

    assert narrow[0] < 80 < wide[0]


def _fits(text: str, size: tuple[int, int]) -> bool:
    """Whether a frame ends at the last column, and the keys stand in the last row."""
    lines = text.splitlines()
    return any(len(line) == size[0] and line.endswith("╮") for line in lines) and "Help" in lines[-1]


def test_what_is_copied_is_in_the_browsers_clipboard(
    browser: Chromium, tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMUX", "/nowhere,1,1")  # that would be the server's, not the page's
    runs_root().mkdir(parents=True, mode=0o700)
    record_demo(runs_root(), fail=True)
    with Served(folder=tmp_path) as server:
        profile = browser.profile()
        granted = ["clipboardReadWrite", "clipboardSanitizedWrite"]
        browser.call("Browser.grantPermissions", permissions=granted, browserContextId=profile)
        page = browser.open(profile, server.url)
        page.call("Page.bringToFront")
        page.await_text("llama-ft", "choose a file")
        page.click_on("llama-ft")
        page.await_text("enter Open")
        page.press(*ENTER)
        page.await_text("3 Logs", "y Copy")
        page.press("y")
        page.until(lambda: "rank 5" in page.value("navigator.clipboard.readText()"))


def test_each_page_is_a_console_of_its_own(browser: Chromium, server: Served) -> None:
    profile = browser.profile()
    one = browser.open(profile, server.url)
    one.await_text("llama-ft", "choose a file")
    other = browser.open(profile, server.url)  # whoever is in may use the address again
    other.await_text("llama-ft", "choose a file")
    one.press("z")
    one.await_text("rankdeck run z -n 1")

    assert 2 == len(server.consoles)
    assert "rankdeck run TARGET -n 1" in other.text
    one.close()
    until(lambda: 1 == len(server.consoles))
    other.press("w")
    other.await_text("rankdeck run w -n 1")


def test_somebody_else_with_the_address_comes_too_late(browser: Chromium, server: Served) -> None:
    browser.open(browser.profile(), server.url).await_text("llama-ft")
    late = browser.open(browser.profile(), server.url)
    late.until(lambda: late.statuses)

    assert [403] == late.statuses[:1]
    assert "was used" in late.value("document.body.innerText")
    assert 1 == len(server.consoles)


def test_an_address_in_a_file_leads_in(browser: Chromium, server: Served, tmp_path: Path) -> None:
    link = tmp_path / "link.html"
    link.write_text(f'<meta http-equiv="refresh" content="0;url={server.url}">')
    page = browser.open(browser.profile(), link.as_uri())
    page.await_text("llama-ft")

    assert page.value("location.href") == f"http://127.0.0.1:{server.port}/"


def test_a_page_of_another_port_gets_no_console(browser: Chromium, server: Served, tmp_path: Path) -> None:
    profile = browser.profile()
    browser.open(profile, server.url).await_text("llama-ft")
    with Served(folder=tmp_path) as neighbour:  # any other program that serves pages on this machine
        page = browser.open(profile, neighbour.url)
        page.await_text("llama-ft")
        page.call("Page.setBypassCSP", enabled=True)
        page.call("Page.reload")
        page.await_text("llama-ft")
        there = f"127.0.0.1:{server.port}"
        tried = page.value(
            f"new Promise(done => {{ const socket = new WebSocket('ws://{there}/ws');"
            " socket.onopen = () => done('in'); socket.onerror = () => done('out'); })"
        )
        assert "out" == tried
        got = page.value(
            f"fetch('http://{there}/', {{credentials: 'include', mode: 'no-cors'}})"
            ".then(() => 'in', () => 'out')"
        )
        assert "out" == got
        assert 1 == len(server.consoles)
