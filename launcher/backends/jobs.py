"""One barrier stage as a Spark job: handed over, waited for, cancelled. Classic and Connect differ here."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from launcher.backends import entry
from launcher.backends.sessions import Session


@dataclass(frozen=True, slots=True)
class StageJob:
    """A stage of `tasks` agents.

    Attributes:
        tag: what the job is known by in Spark; nothing else has it.
        title: what people see in Spark's pages.
        boot: the agents' boot document.
        archive: the zip of `launcher`.
        program: the Python program that starts an agent from it.
        standing: what lets the run go on where agents cannot reach us (`launcher.backends.standing`).
        profile: a pyspark ResourceProfile, or None for the session's own.
    """

    tasks: int
    tag: str
    title: str
    boot: str
    archive: bytes
    program: str
    standing: bytes = b""
    profile: Any = None


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """How a task's agent ended: its exit code, and what it wrote to its stderr."""

    agent: int
    code: int
    errors: str


Carried = Callable[[int, bytes], None]
Running = Callable[[int], None]


def run_stage(session: Session, job: StageJob, carried: Carried, running: Running) -> list[TaskEnd]:
    """Hand the stage to Spark and wait for its end, in a thread of its own.

    Args:
        session: where.
        job: what.
        carried: told of each piece that an agent sent home with its task, in order.
        running: told how many tasks run, every two seconds or so, where a Connect server says it.

    Raises:
        Exception: whatever pyspark raises; `failures.read_failure` knows what it means.
    """
    rows = _connect_rows(session, job, running) if session.remote else _classic_rows(session, job)
    ends = []
    for document, data in rows:
        said = json.loads(document)
        if "code" in said:
            ends.append(TaskEnd(said["agent"], said["code"], said["errors"]))
        else:
            carried(said["agent"], data)
    return sorted(ends, key=lambda end: end.agent)


def cancel_stage(session: Session, tag: str) -> None:
    """End the job: its Python workers are killed, and their agents end the ranks.

    Raises:
        Exception: whatever pyspark raises when the session is gone.
    """
    if session.remote:
        session.spark.interruptTag(tag)
    else:
        session.context.cancelJobsWithTag(tag)


def _classic_rows(session: Session, job: StageJob) -> Iterator[tuple[str, bytes]]:
    """An RDD's job: it needs nothing on executors but pyspark itself."""
    context = session.context
    task = entry.classic_task(job.boot, job.archive, job.program, job.standing)
    context.addJobTag(job.tag)
    context.setLocalProperty("spark.job.description", job.title)
    try:
        numbers = context.parallelize(range(job.tasks), job.tasks)
        numbers = numbers.withResources(job.profile) if job.profile is not None else numbers
        yield from numbers.barrier().mapPartitions(task).collect()
    finally:
        context.removeJobTag(job.tag)
        context.setLocalProperty("spark.job.description", None)


def running_tasks(session: Session, tag: str) -> int:
    """How many tasks of a classic session's job run now.

    Raises:
        Exception: whatever py4j raises when the session is gone.
    """
    tracker = session.context._jsc.sc().statusTracker()  # noqa: SLF001  # pyspark's own does not know tags
    jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForTag(tag)]
    stages = [tracker.getStageInfo(s) for job in jobs if job.isDefined() for s in job.get().stageIds()]
    return sum(int(stage.get().numActiveTasks()) for stage in stages if stage.isDefined())


def _connect_rows(session: Session, job: StageJob, running: Running) -> Iterator[tuple[str, bytes]]:
    """A DataFrame's job. Its rows come as they are made, so that what is carried home fits into no memory."""
    spark = session.spark
    task = entry.connect_task(job.boot, job.archive, job.program, job.standing)
    here = threading.get_ident()

    def progress(inflight_tasks: int, **_: Any) -> None:
        if threading.get_ident() == here:  # the handler is told of every query of the session
            running(inflight_tasks)

    spark.addTag(job.tag)
    spark.registerProgressHandler(progress)
    try:
        numbers = spark.range(0, job.tasks, 1, job.tasks)
        frame = numbers.mapInArrow(task, entry.ROW, barrier=True, profile=job.profile)
        for row in frame.toLocalIterator():
            yield row["document"], bytes(row["data"])
    finally:
        spark.removeProgressHandler(progress)
        spark.removeTag(job.tag)
