"""The records of a run in experiment trackers: each once, with the ranks that made it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from launcher.display.service import service_page
from launcher.spec.modes import recorded_traits
from launcher.state.events import TrackerLinked
from launcher.state.run_state import RunState

from .health import named_ranks

_NAMES = {"mlflow": "MLflow", "tensorboard": "TensorBoard", "wandb": "W&B"}
_PAGES = ("http://", "https://")


@dataclass(frozen=True, slots=True)
class TrackerRecord:
    """One record.

    Attributes:
        tracker: the tracker's name.
        id: the tracker's id of it, if it has one.
        group: the experiment or project that it is in.
        store: the tracking URI, or a folder.
        page: its page for browsers; empty if it has none.
        host: the host that has the folder; empty if that is this one, or not known.
        ranks: the ranks that made it; none if `rankdeck` did.
    """

    tracker: str
    id: str
    group: str
    store: str
    page: str
    host: str
    ranks: tuple[int, ...]

    @property
    def name(self) -> str:
        """The tracker's name for people."""
        return _NAMES.get(self.tracker, self.tracker)

    @property
    def place(self) -> str:
        """Where it is found: a page, or a run's id and its store, or a folder."""
        if self.page:
            return self.page
        on = f" on {self.host}" if self.host else ""
        return (
            f"run {self.id} in {self.store}{on}" if self.id and self.store else f"{self.store or self.id}{on}"
        )

    @property
    def makers(self) -> str:
        """Who made it."""
        return named_ranks(self.ranks) if self.ranks else "--track"

    @property
    def line(self) -> str:
        """All of it in one line."""
        return f"{self.name} {self.place} ({self.makers})"


def tracker_records(state: RunState) -> list[TrackerRecord]:
    """The records of a run, in the order in which they were made."""
    makers: dict[tuple[str, str, str, str, str, str], list[int]] = {}
    for link in state.trackers:
        ranks = makers.setdefault(_key(state, link), [])
        if link.rank is not None:
            ranks.append(link.rank)
    return [TrackerRecord(*key, ranks=tuple(sorted(ranks))) for key, ranks in makers.items()]


def pages(state: RunState) -> list[str]:
    """The addresses of the run in Spark, its framework and trackers; ids and folders without a page."""
    spark = [] if state.spark is None else [state.spark.ui or state.spark.application]
    spark += filter(None, [service_page(state)])
    found = (record.page or record.store or record.id for record in tracker_records(state))
    return [*spark, *dict.fromkeys(page for page in found if page)]


def tracker_record(state: RunState, link: TrackerLinked) -> TrackerRecord:
    """The record that one fact is about, as made by its rank."""
    return TrackerRecord(*_key(state, link), ranks=() if link.rank is None else (link.rank,))


def _key(state: RunState, link: TrackerLinked) -> tuple[str, str, str, str, str, str]:
    page = link.url if link.url.startswith(_PAGES) else ""
    return (link.tracker, link.id, link.group, link.store, page, "" if page else _host(state, link))


def _host(state: RunState, link: TrackerLinked) -> str:
    traits = recorded_traits(state.mode)
    if link.rank is None or link.rank >= len(state.ranks) or (traits is not None and traits.one_host):
        return ""
    return state.ranks[link.rank].host
