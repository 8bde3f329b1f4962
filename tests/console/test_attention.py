"""The sequences that call a person: exactly these, whatever is in a run's texts."""

from __future__ import annotations

import re

import pytest

from console.attention import TerminalTitle, call_of
from launcher.notify.settings import NotifySettings

ALL = NotifySettings(bell=True, osc9=True, osc777=True)
HOSTILE = [
    "\x1b]0;owned\x07",
    "\x1b]52;c;ZXZpbA==\x07",
    "a\x07b\x1b\\c\x9c\x9d",
    "\x1bP\x1b\\",
    "\u202eevil\u200b",
    "y" * 16_384,
    "\x1b[2J" * 4096,
    "4;1;50",
]


def shown(title: TerminalTitle, *texts: str) -> str:
    out: list[str] = []
    for text in texts:
        title.show(text, out.append)
    title.restore(out.append)
    return "".join(out)


def test_the_title_is_kept_set_and_given_back() -> None:
    title = TerminalTitle({"TERM": "xterm"}, wanted=True)

    assert "\x1b[22;0t\x1b]2;a: running\a\x1b]2;a: failed\a\x1b[23;0t" == shown(
        title, "a: running", "a: running", "a: failed"
    )
    assert "" == shown(title), "it is given back once"


def test_the_title_is_given_back_while_an_editor_has_the_terminal() -> None:
    title, out = TerminalTitle({}, wanted=True), list[str]()
    title.pause(out.append)
    title.resume(out.append)
    assert [] == out
    title.show("a", out.append)
    title.pause(out.append)
    title.resume(out.append)

    assert ["\x1b[22;0t\x1b]2;a\a", "\x1b[23;0t", "\x1b[22;0t\x1b]2;a\a"] == out


@pytest.mark.parametrize("environ", [{"TERM": "linux"}, {"TERM": "dumb"}])
def test_a_terminal_without_a_title_gets_none(environ: dict[str, str]) -> None:
    assert "" == shown(TerminalTitle(environ, wanted=True), "a")


def test_nothing_unwanted_is_written() -> None:
    assert "" == shown(TerminalTitle({}, wanted=False), "a")
    assert "" == call_of(NotifySettings(), "end", "a", {})
    assert "" == call_of(NotifySettings(bell=True, on=("failure",)), "end", "a", {})
    assert "" == call_of(ALL, "end", "a", {"TERM": "dumb"})


@pytest.mark.parametrize("text", HOSTILE)
def test_no_control_character_of_a_run_reaches_the_terminal(text: str) -> None:
    title = TerminalTitle({}, wanted=True)
    found = re.fullmatch(r"(\x1b\[22;0t\x1b\]2;([^\x00-\x1f\x7f-\x9f]*)\a\x1b\[23;0t)?", shown(title, text))
    assert found
    assert len(found[2] or "") <= 120
    calls = call_of(ALL, "end", text, {})
    assert re.fullmatch(
        r"\x1b\]9;rankdeck: [^\x00-\x1f\x7f-\x9f]{0,240}\a"
        r"\x1b\]777;notify;rankdeck;[^\x00-\x1f\x7f-\x9f;]{0,240}\a\a",
        calls,
    )
    assert "\u202e" not in calls


def test_ascii_terminals_get_ascii() -> None:
    assert "\x1b]2;cafe: running\a" in shown(TerminalTitle({}, wanted=True, ascii=True), "café: running")


def test_tmux_and_screen_pass_notifications_on() -> None:
    one = NotifySettings(osc9=True)

    assert "\x1bPtmux;\x1b\x1b]9;rankdeck: a\a\x1b\\" == call_of(one, "end", "a", {"TMUX": "/x,1,0"})
    assert "\x1bP\x1b]9;rankdeck: a\a\x1b\\" == call_of(one, "end", "a", {"STY": "1.x"})
    assert "\a" == call_of(NotifySettings(bell=True), "end", "a", {"TMUX": "/x,1,0"})
