"""What crosses between widgets, screens and the app; and the values from the sources that they show.

Widgets take the values from here, so that they know of no source.
"""

from __future__ import annotations

from textual.message import Message

from console.sources.condition import Condition
from console.sources.drafts import MODES, Draft
from console.sources.logs import LogLine, Search
from console.sources.view import LogView, Progress, RankView, RunView

__all__ = [
    "MODES",
    "Condition",
    "Draft",
    "FeedFailed",
    "LogLine",
    "LogView",
    "Progress",
    "RankChosen",
    "RankHighlighted",
    "RankView",
    "RunChanged",
    "RunView",
    "Search",
]


class RunChanged(Message):
    """The run that is watched looks different now. A newer view replaces one not yet handled."""

    def __init__(self, view: RunView) -> None:
        super().__init__()
        self.view = view

    def can_replace(self, message: Message) -> bool:
        """Only the newest view is worth showing."""
        return isinstance(message, RunChanged)


class FeedFailed(Message):
    """The run folder could not be read this time."""

    def __init__(self, why: str) -> None:
        super().__init__()
        self.why = why


class RankHighlighted(Message):
    """The cursor is on another rank."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.rank = rank


class RankChosen(Message):
    """A person wants to see this rank."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.rank = rank
