"""What crosses between widgets, screens and the app; and the values from the sources that they show.

Widgets take the values from here, so that they know of no source.
"""

from __future__ import annotations

from textual.message import Message

from console.sources.alerts import Alert
from console.sources.cluster import (
    AppView,
    ClusterView,
    EngineView,
    ExecutorView,
    GpuView,
    Held,
    HostView,
    SparkView,
    Use,
    WorkView,
)
from console.sources.cluster_query import METRICS, ORDERS, Item, MapQuery, arranged, troubles
from console.sources.completion import complete_options, complete_path, describe, names_path, takes_path
from console.sources.condition import Condition
from console.sources.detected import Detected, mode_line, room_line
from console.sources.drafts import MODES, Draft
from console.sources.expression import Expression
from console.sources.extras import EXTRAS, PATHS, split_pairs, words_of
from console.sources.history import took
from console.sources.log_copy import Rows, copy_rows, new_file
from console.sources.log_line import LogLine
from console.sources.not_finite import NotFinite, named_ranks
from console.sources.readings import Metric, usual_metric
from console.sources.scan import Search
from console.sources.sieve import Level, level_of
from console.sources.stacks import spans, stacks_block
from console.sources.standstill import standstill_line, standstills
from console.sources.view import LogView, Progress, RankView, RunView
from console.sources.whither import Whither, whither
from launcher.options import Option

__all__ = [
    "EXTRAS",
    "METRICS",
    "MODES",
    "ORDERS",
    "PATHS",
    "Alert",
    "AppView",
    "ClusterView",
    "Condition",
    "Detected",
    "Draft",
    "EngineView",
    "ExecutorView",
    "Expression",
    "FeedFailed",
    "GpuView",
    "Held",
    "HostView",
    "Item",
    "Level",
    "LogLine",
    "LogView",
    "MapQuery",
    "Metric",
    "NotFinite",
    "Option",
    "Progress",
    "RankChosen",
    "RankView",
    "Rows",
    "RunChanged",
    "RunView",
    "Search",
    "SparkView",
    "Use",
    "Whither",
    "WorkView",
    "arranged",
    "complete_options",
    "complete_path",
    "copy_rows",
    "describe",
    "level_of",
    "mode_line",
    "named_ranks",
    "names_path",
    "new_file",
    "room_line",
    "spans",
    "split_pairs",
    "stacks_block",
    "standstill_line",
    "standstills",
    "takes_path",
    "took",
    "troubles",
    "usual_metric",
    "whither",
    "words_of",
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


class RankChosen(Message):
    """A person wants to see this rank."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.rank = rank
