"""What crosses between the panes of a run, its screen and the app.

Widgets take the values from here, so that they know of no source.
"""

from __future__ import annotations

from textual.message import Message

from ...data.run.model import RunView


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


class RankChosen(Message):
    """A person wants to see this rank."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.rank = rank
