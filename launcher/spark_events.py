"""Facts that only a Spark cluster can produce."""

from __future__ import annotations

from dataclasses import dataclass

from launcher.codec import Index
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

    tasks: Index


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryChosen(Event):
    """By which way agents came: ``live`` to this machine, a ``relay`` beside the Connect server, ``spool``.

    Older runs have ``carried`` too: what the ranks wrote came home with the stage.
    """

    way: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorLost(Event):
    """Spark says that an executor went away with the tasks that it ran; `reason` in Spark's words."""

    reason: str
    executor: str = ""
    host: str = ""
    task: Index | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLost(Event):
    """The Connect server at `server`, or our session on it, is gone; its executors go with it."""

    server: str
    reason: str = ""
    task: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLost(Event):
    """One Spark task ended before its agent was done: its Python worker was killed or broke."""

    reason: str
    task: Index | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelled(Event):
    """Somebody ended the job in Spark itself: its pages, its API, or the end of its application."""

    reason: str
