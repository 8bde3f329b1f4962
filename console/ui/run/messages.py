"""The messages between a run's feed, its panes and its screen.

Widgets receive their values by these messages, so that they do not depend on the feed.
"""

from __future__ import annotations

from textual.message import Message

from ...data.run.model import RunView


class RunChanged(Message):
    """There is a new view of the run. It replaces an older one that is not yet handled."""

    def __init__(self, view: RunView) -> None:
        super().__init__()
        self.view = view

    def can_replace(self, message: Message) -> bool:
        """Only the newest view needs to be shown."""
        return isinstance(message, RunChanged)


class FeedFailed(Message):
    """The run folder could not be read this time."""

    def __init__(self, why: str) -> None:
        super().__init__()
        self.why = why


class RankChosen(Message):
    """A person chose to see this rank."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.rank = rank
