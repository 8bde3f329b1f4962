"""Keys by the ids of bindings: every binding has one, a person's keys hold, and wrong ones are told."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from textual.binding import Binding

from console import ui
from console.app import RankdeckApp
from console.demo import record_demo
from console.settings import ConsoleSettings
from console.ui.finding.bar import BarList, BarScreen
from console.ui.finding.help import HelpScreen, Keys
from console.ui.keymap import is_key, key_problems, key_text, keys_now, known_bindings, normal, usable
from console.ui.launch.panes import CommandLine
from console.ui.launch.screen import LaunchScreen
from console.ui.logs.pane import LogPane
from console.ui.logs.view import LogView
from console.ui.run.deck import Deck
from console.ui.run.screen import RunScreen
from console.ui.widgets.fields import Field
from tests.console.looking import shown

if TYPE_CHECKING:
    from tests.console.conftest import FakeCommands, Until

KNOWN = known_bindings(RankdeckApp)
Open = Callable[..., RankdeckApp]


@pytest.fixture
def keyed(root: Path, project: Path, commands: FakeCommands) -> Open:
    """Make an app with a person's keys, and an ended run in it."""

    def make(**keys: str) -> RankdeckApp:
        given = {name.replace("__", "."): text for name, text in keys.items()}
        run = record_demo(root, seconds=20)
        settings = ConsoleSettings(keys=given)
        return RankdeckApp(root=root, workdir=project, open_run=run, commands=commands, settings=settings)

    return make


def owners() -> list[type]:
    """Every class of the console with bindings of its own."""
    modules = [
        importlib.import_module(module.name) for module in pkgutil.walk_packages(ui.__path__, "console.ui.")
    ]
    found = [
        v for m in modules for v in vars(m).values() if isinstance(v, type) and v.__module__ == m.__name__
    ]
    return [RankdeckApp, *(owner for owner in found if vars(owner).get("BINDINGS"))]


@pytest.mark.parametrize("owner", owners(), ids=lambda owner: owner.__name__)
def test_every_binding_has_an_id_and_says_what_it_does(owner: Any) -> None:
    for binding in owner.BINDINGS:
        assert isinstance(binding, Binding)
        assert binding.id, f"{owner.__name__}: {binding.key}"
        assert binding.description, binding.id
        assert issubclass(owner, KNOWN[binding.id].owner), f"{binding.id} is not the only one"


def test_ids_are_a_place_and_a_deed() -> None:
    assert {name for name in KNOWN if len(name.split(".")) != 2 or not name.islower()} == set()


@pytest.mark.parametrize(
    "key",
    ["x", "X", "?", "slash", "ctrl+x", "ctrl+slash", "shift+tab", "f12", "space", "colon", "pageup", "é"],
)
def test_keys_that_there_are(key: str) -> None:
    assert is_key(key)


@pytest.mark.parametrize("key", ["", "nokey", "ctrl", "ctrl+", "bogus+x", "ctrl+nokey", "<any>", "x y", ","])
def test_keys_that_there_are_not(key: str) -> None:
    assert not is_key(key)


def test_keys_are_called_as_terminals_send_them() -> None:
    assert normal("?, ctrl+/,shift+a, ctrl+X") == ("question_mark", "ctrl+slash", "A", "ctrl+x")


def told(**keys: str) -> list[str]:
    given = {name.replace("__", "."): text for name, text in keys.items()}
    return [why for _, why in key_problems(given, KNOWN)]


def test_unknown_ids_and_keys_are_told() -> None:
    assert told(run__stopp="x") == ["keys.run.stopp names no binding; `rankdeck config print` lists them"]
    assert told(run__stop="ctrl+nokey") == ["keys.run.stop = 'ctrl+nokey' is no key"]
    assert told(run__stop="F,ctrl+k") == []


def test_clashes_are_told_where_both_keys_can_be_pressed() -> None:
    assert told(run__stop="q") == ["keys.run.stop = 'q' is also the key of run.detach (Detach)"]
    assert told(run__stop="j")[0].startswith("keys.run.stop = 'j' is also the key of ")
    assert told(run__stop="f1")[0].endswith("is also the key of app.help_anywhere (Help)")
    assert told(launch__copy="z") == [], "the run screen's keys are not the launch screen's"


def test_keys_can_be_exchanged() -> None:
    assert told(run__stop="z", run__zoom="x") == []


def test_what_cannot_be_is_left_out_and_the_rest_holds() -> None:
    problems: list[str] = []

    taken = usable({"run.stop": "F, nokey", "run.zoom": "nokey", "nope": "x"}, KNOWN, problems)

    assert taken == {"run.stop": "F"}
    assert len(problems) == 3


def test_keys_now_are_the_persons_or_ours() -> None:
    now = keys_now(KNOWN.values(), {"run.stop": "?"})

    assert now["run.stop"] == ("question_mark",)
    assert now["list.down"] == ("j", "down")


def test_a_key_is_shown_short() -> None:
    assert key_text(Binding("ctrl+slash", "x")) == "^/"
    assert key_text(Binding("down", "x")) == "↓"
    assert key_text(Binding("down", "x"), ascii=True) == "down"
    assert key_text(Binding("pageup", "x")) == "pgup"
    assert key_text(Binding("slash", "x", key_display="/")) == "/"


async def test_a_persons_keys_hold_and_help_shows_them(keyed: Open, until: Until) -> None:
    app = keyed(run__zoom="Z", log__follow="ctrl+x", log__end="E", nope="x")
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: shown(app))
        deck, log = app.screen.query_one(Deck), app.screen.query_one(LogView)
        await pilot.press("3", "z")
        before = deck.zoomed
        await pilot.press("Z")
        after = deck.zoomed
        await pilot.press("g", "G")
        still = log.follow
        await pilot.press("E")
        following = log.follow
        await pilot.press("ctrl+x")
        paused = log.follow
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        keys = {line.ids: line.keys for line in app.screen.query_one(Keys).lines}
        notes = [note.message for note in app._notifications]

    assert (before, after) == (None, "logs")
    assert (still, following, paused) == (False, True, False)
    assert (keys["run.zoom"], keys["log.follow"], keys["log.end"]) == ("Z", "^x", "E")
    assert any("nope" in note for note in notes)


async def test_ctrl_c_names_the_keys_that_hold(keyed: Open, until: Until) -> None:
    app = keyed(run__stop="S")
    async with app.run_test(notifications=True) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("ctrl+c")

        assert any("S stops a run" in note.message for note in app._notifications)


async def test_help_can_be_searched(keyed: Open, until: Until) -> None:
    app = keyed()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        keys = app.screen.query_one(Keys)
        everything = len(keys.lines)
        await pilot.press("slash", *"AGAIN")
        await until(pilot, lambda: [line.ids for line in keys.lines] == ["run.again"])
        await pilot.press("enter")
        focused = app.focused
        await pilot.press("slash", "backspace", "q")
        typed = app.screen.query_one(Field).value
        await pilot.press("escape")

        assert everything > 20
        assert focused is keys
        assert typed == "q"
        assert isinstance(app.screen, RunScreen)


@pytest.mark.parametrize("key", ["ctrl+p", "colon"])
async def test_the_bar_offers_every_action_with_the_key_that_holds(
    keyed: Open, until: Until, key: str
) -> None:
    app = keyed(run__zoom="Z")
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("1", key)
        await until(pilot, lambda: isinstance(app.screen, BarScreen))
        await pilot.press(*"action ")
        offered = {entry.name: entry.key for entry in app.screen.query_one(BarList).items}
        await pilot.press("escape")

        assert offered["Zoom"] == "Z"
        assert offered["Run again"] == "R"
        assert {"Delete all to the left", "Down", "Scroll Up"}.isdisjoint(offered)


async def test_sentences_name_the_keys_that_hold(keyed: Open, until: Until) -> None:
    app = keyed(launch__start="f9", log__end="E")
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("3", "g")
        pane = app.screen.query_one(LogPane)
        await until(pilot, lambda: "E follows" in str(pane.border_subtitle))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        for key in "score.py":
            await pilot.press("full_stop" if key == "." else key)
        command = app.screen.query_one(CommandLine)

        def said() -> str:
            return "".join(text for text, _ in command._rows[-1])

        await until(pilot, lambda: "f9 launches" in said())
