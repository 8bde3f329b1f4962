"""Facts that only a Spark cluster can produce."""

from __future__ import annotations

from dataclasses import dataclass

from launcher.fact import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkReady(Event):
    """There is a Spark session: which, and where its own pages and those of its standalone masters are."""

    application: str
    master: str
    version: str
    name: str = ""
    ui: str = ""
    remote: bool = False
    pages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSubmitted(Event):
    """A barrier stage of `tasks` tasks was handed to Spark; an agent comes from each."""

    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryChosen(Event):
    """How agents' output comes here: ``live`` by the channel, by a ``spool`` folder, or ``carried`` home."""

    way: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorLost(Event):
    """Spark says that an executor went away with the tasks that it ran; `reason` in Spark's words."""

    reason: str
    executor: str = ""
    host: str = ""
    task: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLost(Event):
    """One Spark task ended before its agent was done: its Python worker was killed or broke."""

    reason: str
    task: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelled(Event):
    """Somebody ended the job in Spark itself: its pages, its API, or the end of its application."""

    reason: str
