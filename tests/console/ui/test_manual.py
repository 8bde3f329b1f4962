"""The manual in the console: the way from the keys to the topic of a screen, and from topic to topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from console.app import RankdeckApp
from console.manual import topics
from console.ui.finding.help import HelpScreen
from console.ui.keymap import known_bindings
from console.ui.manual import ManualScreen, TopicSheet, topic_of
from console.ui.run.screen import RunScreen
from tests.console.looking import shown, text

if TYPE_CHECKING:
    from tests.console.conftest import Until

Open = Callable[..., RankdeckApp]
TOPICS = {
    "runs": ("1",),
    "output": ("3",),
    "results": ("4",),
    "history": ("f2",),
    "cluster": ("f3",),
    "targets": ("f4",),
}
"""The keys that lead from a run to what a topic is about."""


@pytest.mark.parametrize("topic", TOPICS)
async def test_help_leads_to_the_topic_of_what_has_the_focus(
    open_app: Open, until: Until, topic: str
) -> None:
    app = open_app(seconds=20)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press(*TOPICS[topic])
        await until(pilot, lambda: topic_of(app.screen) == topic)
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await pilot.press("m")
        await until(pilot, lambda: isinstance(app.screen, ManualScreen))
        await until(pilot, lambda: topics()[topic].title in text(app.screen.query_one(TopicSheet)))


async def test_topics_are_turned_like_pages_and_left_the_way_they_were_come_by(
    open_app: Open, until: Until
) -> None:
    app = open_app(seconds=20)
    names = list(topics())
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("1", "question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await pilot.press("m")
        await until(pilot, lambda: isinstance(app.screen, ManualScreen))
        sheet = app.screen.query_one(TopicSheet)
        await pilot.press("G", "right_square_bracket")
        following = names[(names.index("runs") + 1) % len(names)]
        await until(pilot, lambda: topics()[following].title in text(sheet))
        top = sheet.scroll_offset.y
        await pilot.press(*["right_square_bracket"] * (len(names) - 1), "left_square_bracket")
        await until(pilot, lambda: topics()[names[names.index("runs") - 1]].title in text(sheet))
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))

    assert 0 == top


def test_every_topic_that_a_screen_names_is_there() -> None:
    owners = {known.owner for known in known_bindings(RankdeckApp).values()}
    named = {getattr(owner, "TOPIC", "") for owner in owners} - {""}

    assert "output" in named
    assert set() == named - set(topics())
