"""One barrier stage as a Spark job: handed over, waited for, cancelled. Classic and Connect differ here."""

from __future__ import annotations

import json
from collections.abc import Iterator
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
        profile: a pyspark ResourceProfile, or None for the session's own.
    """

    tasks: int
    tag: str
    title: str
    boot: str
    archive: bytes
    program: str
    profile: Any = None


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """How a task's agent ended: its exit code, and what it wrote to its stderr."""

    agent: int
    code: int
    errors: str


def run_stage(session: Session, job: StageJob) -> list[TaskEnd]:
    """Hand the stage to Spark and wait for its end, in a thread of its own.

    Raises:
        Exception: whatever pyspark raises; `failures.read_failure` knows what it means.
    """
    rows = _connect_rows(session, job) if session.remote else _classic_rows(session, job)
    ends = [TaskEnd(**json.loads(document)) for document in rows]
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


def _classic_rows(session: Session, job: StageJob) -> Iterator[str]:
    """An RDD's job: it needs nothing on executors but pyspark itself."""
    context = session.context
    task = entry.classic_task(job.boot, job.archive, job.program)
    context.addJobTag(job.tag)
    context.setLocalProperty("spark.job.description", job.title)
    try:
        numbers = context.parallelize(range(job.tasks), job.tasks)
        numbers = numbers.withResources(job.profile) if job.profile is not None else numbers
        yield from numbers.barrier().mapPartitions(task).collect()
    finally:
        context.removeJobTag(job.tag)
        context.setLocalProperty("spark.job.description", None)


def _connect_rows(session: Session, job: StageJob) -> Iterator[str]:
    """A DataFrame's job."""
    spark = session.spark
    task = entry.connect_task(job.boot, job.archive, job.program)
    spark.addTag(job.tag)
    try:
        numbers = spark.range(0, job.tasks, 1, job.tasks)
        frame = numbers.mapInArrow(task, entry.ROW, barrier=True, profile=job.profile)
        yield from [row["document"] for row in frame.collect()]
    finally:
        spark.removeTag(job.tag)
