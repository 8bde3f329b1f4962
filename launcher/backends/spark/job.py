"""One barrier stage as a Spark job: what is sent to executors, what runs in a task, and cancelling it.

A task's functions are sent by value to Python workers without this package. They leave nothing there: no
module, no environment variable, no import path, since Spark uses the worker again for other people's work.
So each is complete in itself, with only the standard library and pyspark.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ...data import shares as share_files
from .by_value import module_by_value
from .forked_agents import forker
from .launcher_zip import Archive, by_broadcast, by_value
from .session import Session


@dataclass(frozen=True, slots=True)
class StageData:
    """A DataFrame of which each task has a partition.

    Attributes:
        dataframe: the DataFrame.
        shares: how many ranks each task deals its rows to.
        settings: what ranks must know of it, as JSON.
        spooled_first: whether agents begin only when their partition was read.
    """

    dataframe: Any
    shares: int
    settings: str
    spooled_first: bool


@dataclass(frozen=True, slots=True)
class StageJob:
    """A stage of `tasks` agents.

    Attributes:
        tag: the job's tag in Spark, which nothing else has.
        title: the job's description on Spark's pages.
        boot: the agents' boot document.
        program: the Python program that starts an agent from it.
        warm: what agents need of the zygote that forks them (`forked_agents.wanted`); None for fresh ones.
        profile: a pyspark ResourceProfile, or None for the session's own.
        data: what the tasks share; None for tasks without data.
    """

    tasks: int
    tag: str
    title: str
    boot: str
    program: str
    warm: dict[str, Any] | None = None
    profile: Any = None
    data: StageData | None = None


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """How a task's agent ended: its exit code, and what it wrote to its stderr."""

    agent: int
    code: int
    errors: str


def run_stage(session: Session, job: StageJob) -> list[TaskEnd]:
    """Run the stage in Spark and wait for its end; call this on the stage's own thread.

    Raises:
        Exception: whatever pyspark raises; `failures.read_failure` interprets it.
    """
    by_frame = session.remote or job.data is not None
    with titled(session, JobTitle(job.tag, job.title)):
        documents = _frame_rows(session, job) if by_frame else _classic_rows(session, job)
    ends = [TaskEnd(**json.loads(document)) for document in documents]
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


@dataclass(frozen=True, slots=True)
class JobTitle:
    """How jobs are called in Spark: their tag, which nothing else has, and the text on Spark's pages."""

    tag: str
    text: str


@contextlib.contextmanager
def titled(session: Session, job: JobTitle) -> Iterator[None]:
    """Give the jobs of this thread the tag, and a classic session's the title."""
    if session.remote:
        session.spark.addTag(job.tag)
        try:
            yield
        finally:
            session.spark.removeTag(job.tag)
        return
    context = session.context
    context.addJobTag(job.tag)
    context.setLocalProperty("spark.job.description", job.text)
    try:
        yield
    finally:
        context.removeJobTag(job.tag)
        context.setLocalProperty("spark.job.description", None)


def _classic_rows(session: Session, job: StageJob) -> list[str]:
    """Run the stage as an RDD's job, which needs nothing on executors but pyspark itself."""
    task = classic_task(job, by_broadcast(session.context))
    numbers = session.context.parallelize(range(job.tasks), job.tasks)
    numbers = numbers.withResources(job.profile) if job.profile is not None else numbers
    rows: list[str] = numbers.barrier().mapPartitions(task).collect()
    return rows


def _frame_rows(session: Session, job: StageJob) -> list[str]:
    """Run the stage as a DataFrame's job: through a Connect server, or on the caller's data."""
    task: Callable[[Iterator[Any]], Iterator[Any]]
    if job.data is None:
        frame, task = session.spark.range(0, job.tasks, 1, job.tasks), frame_task(job)
    else:
        frame, task = job.data.dataframe, partition_task(job, job.data)
    rows = frame.mapInArrow(task, ROW, barrier=True, profile=job.profile).collect()
    return [row["document"] for row in rows]


# The row that a task returns: how its agent ended, as a JSON text.
ROW = "document string"


def classic_task(job: StageJob, archive: Archive) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function of ``rdd.barrier().mapPartitions``; it yields JSON texts."""
    run = _runner(job, archive)

    def task(_rows: Iterator[Any]) -> Iterator[Any]:
        from pyspark import BarrierTaskContext

        yield from run(BarrierTaskContext.get())

    return task


def frame_task(job: StageJob) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The same as the function of ``DataFrame.mapInArrow``; it yields batches of `ROW`."""
    run, batch = _runner(job, by_value()), _batcher()

    def task(_batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import BarrierTaskContext

        yield from map(batch, run(BarrierTaskContext.get()))

    return task


def partition_task(job: StageJob, data: StageData) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The same for tasks of which each deals its partition of a DataFrame to its ranks.

    Ranks of `TorchDistributor._train_on_dataframe` (pyspark 4.3) find their rows and the schema by the
    variables of that class.
    """
    run, batch, tasks = _runner(job, by_value()), _batcher(), job.tasks
    schema = data.dataframe.schema.json() if data.spooled_first else ""
    writer, deal = _share_writer(data.shares, schema or data.settings), _dealer()

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        from functools import partial

        from pyspark import BarrierTaskContext, SparkFiles

        context = BarrierTaskContext.get()
        if (partitions := len(context.getTaskInfos())) != tasks:
            raise RuntimeError(f"rankdeck-partitions: {partitions} {tasks}")
        with writer(SparkFiles.getRootDirectory()) as rows:  # on the disks that Spark was given for data
            if not schema:
                ends = run(context, ledger=rows.path, feed=partial(deal, batches, rows))
            else:
                deal(batches, rows)
                if not rows.total:
                    number = context.partitionId()
                    raise RuntimeError(f"rankdeck-data: partition {number} of the DataFrame is empty")
                files = {
                    b"SPARK_PARTITION_ARROW_DATA_FILE": rows.ledger.data(0).encode(),
                    b"SPARK_DATAFRAME_SCHEMA_FILE": rows.ledger.settings.encode(),
                }
                ends = run(context, files)
            yield from map(batch, ends)

    return task


def _share_writer(shares: int, settings: str) -> Callable[[str], Any]:
    """A function that makes the writer of shares in a folder."""
    module = module_by_value(share_files)

    def writer(folder: str) -> Any:
        return module().ShareWriter(folder, shares, settings.encode())

    return writer


def _dealer() -> Callable[..., None]:
    def deal(batches: Iterator[Any], rows: Any, agent: Any = None) -> None:
        """Deal rows, to the end or until no rank is left that wants them."""
        try:
            for each in batches:
                if agent is not None and agent.poll() is not None:
                    return
                rows.write(each)
            rows.finish()
        except OSError as error:
            raise RuntimeError(f"rankdeck-spool: {error}") from error

    return deal


def _batcher() -> Callable[[str], Any]:
    """A function that makes a batch of `ROW` of a JSON text; nested, so that it is pickled by value."""

    def batch(document: str) -> Any:
        import pyarrow as pa

        return pa.RecordBatch.from_arrays([pa.array([document], pa.string())], ["document"])

    return batch


def _runner(job: StageJob, archive: Archive) -> Callable[..., Iterator[str]]:
    """A function of the task's context. All of these are nested, so that they are pickled by value."""
    boot, start = job.boot, starter(archive, job.program, job.warm)

    def run(
        context: Any, variables: dict[bytes, bytes] | None = None, *, ledger: str = "", feed: Any = None
    ) -> Iterator[str]:
        """Start an agent and wait for its end; `feed` is called meanwhile, with its process."""
        import json
        import tempfile

        number, granted = context.partitionId(), context.resources().get("gpu")
        gpus = list(granted.addresses) if granted else None
        document = {**json.loads(boot), "agent": number, "cores": context.cpus(), "gpus": gpus}
        with tempfile.TemporaryFile() as errors:
            process = start({**document, "ledger": ledger}, errors, variables or {})
            if feed is not None:
                feed(process)
            code = process.wait()
            errors.seek(max(0, errors.seek(0, 2) - 8192))
            output = errors.read().decode("utf-8", "replace")
        if code == 69:  # it could not reach the engine: the other agents would wait for it
            raise RuntimeError(f"rankdeck-unreachable: agent {number} on {output.strip()}")
        yield json.dumps({"agent": number, "code": code, "errors": output})

    return run


def starter(archive: Archive, agent: str, warm: dict[str, Any] | None = None) -> Callable[..., Any]:
    """A function that starts an agent in a Python worker, as a fork if it is `warm`; pickled by value."""
    fork = forker(archive, warm) if warm else None

    def in_memory(data: bytes) -> int:
        import os

        descriptor = os.memfd_create("rankdeck")
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def environment() -> dict[bytes, bytes]:
        """The environment, with CUDA_VISIBLE_DEVICES as at the start: an earlier task may have changed it."""
        import os

        name = b"CUDA_VISIBLE_DEVICES"
        with open("/proc/self/environ", "rb") as file:
            pairs = [pair.partition(b"=") for pair in file.read().split(b"\0")]
        preset = {key: value for key, _, value in pairs if key == name}
        return {key: value for key, value in os.environb.items() if key != name} | preset

    def start(
        document: dict[str, Any],
        errors: Any,
        variables: dict[bytes, bytes],
        descriptors: tuple[int, ...] = (),
    ) -> Any:
        """Start an agent with `variables` and `descriptors` too.

        Its standard input stays open: the end of it means that this process is gone.
        """
        import contextlib
        import json
        import os
        import subprocess
        import sys

        environ = {**environment(), **variables}
        if fork is not None and (forked := fork(document, errors, environ)) is not None:
            return forked
        program = in_memory(archive())
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", agent, f"/proc/self/fd/{program}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=(program, *descriptors),
            env=environ,
            start_new_session=True,
        )
        os.close(program)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # an agent that could not start writes why to its stderr
            process.stdin.write(json.dumps(document).encode() + b"\n")
            process.stdin.flush()
        return process

    return start
