"""What the run screen would show of a made-up run: its view, and its rows as words."""

from __future__ import annotations

import pytest

from console.data.run.feed import RunFeed
from console.data.run.model import RunView
from console.ui.widgets.rows import Row
from tests.console.scripted import START, Scripted


def words(rows: list[Row]) -> list[str]:
    return [" ".join("".join(text for text, _ in row).split()) for row in rows]


def view_of(run: Scripted) -> RunView:
    views: list[RunView] = []
    feed = RunFeed(run.folder, publish=views.append, failed=pytest.fail, clock=lambda: START + 31)
    while feed.look():
        pass
    feed.close()
    return views[-1]
