"""What predicts in Spark's Python workers: a model loaded once per worker, on its task's device.

These functions are sent by value to workers without this package, so each is complete in itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Count = Callable[[int], None]
Watch = Callable[[], Count]
"""Called in a worker, which may do several tasks; what it returns is told the rows of each batch."""


def make_predictor(
    load: Callable[[str], Callable[..., Any]], watch: Watch | None = None, *, gpu: bool = True
) -> Callable[[], Callable[..., Any]]:
    """What pyspark's `predict_batch_udf` calls once per worker.

    A batch that fails says which rows of which partition it has; the exception itself is its cause.

    Args:
        load: loads the model onto a device, such as ``"cuda:1"`` or ``"cpu"``, and returns the function that
            predicts: a batch of numpy arrays, one for each column, into an array or a dictionary of arrays.
        watch: counts what the worker has done; None for nothing.
        gpu: whether a task's GPU is used.
    """
    device, rows_of_tasks = _device(), _rows_of_tasks()

    def make() -> Callable[..., Any]:
        import functools

        rows = rows_of_tasks()
        with rows.loading():
            predict = load(device() if gpu else "cpu")
        count = watch() if watch is not None else None

        @functools.wraps(predict)  # Spark counts its parameters
        def counted(*columns: Any) -> Any:
            size = len(columns[0])
            with rows.batch(size):
                made = predict(*columns)
            if count is not None:
                count(size)
            return made

        return counted

    return make


def unpickling(pickled: bytes) -> Callable[[str], Callable[..., Any]]:
    """What loads a model by a pickled function, which is unpickled in a worker only."""

    def load(device: str) -> Callable[..., Any]:
        import pickle

        return pickle.loads(pickled)(device)  # type: ignore[no-any-return]

    return load


def make_series(function: bytes, watch: Watch) -> Callable[..., Any]:
    """A pickled function of a Pandas UDF from series to a series, whose rows are counted."""
    rows_of_tasks = _rows_of_tasks()

    def each(*columns: Any) -> Any:
        import pickle

        kept = vars(each)  # it belongs to one task
        if not kept:
            kept.update(call=pickle.loads(function), rows=rows_of_tasks(), count=watch())
        size = len(columns[0])
        with kept["rows"].batch(size):
            made = kept["call"](*columns)
        kept["count"](size)
        return made

    return each


def make_iterator(function: bytes, watch: Watch) -> Callable[..., Any]:
    """A pickled function of a Pandas UDF from an iterator to an iterator, whose rows are counted."""
    rows_of_tasks = _rows_of_tasks()

    def each(batches: Iterator[Any]) -> Iterator[Any]:
        import pickle

        count, rows = watch(), rows_of_tasks()

        def taken() -> Iterator[Any]:
            for batch in batches:
                rows.take(len(batch[0] if isinstance(batch, tuple) else batch))
                yield batch

        made = iter(pickle.loads(function)(taken()))
        while True:
            with rows.last():
                batch = next(made, None)
            if batch is None:
                return
            count(len(batch))
            yield batch

    return each


def _device() -> Callable[[], str]:
    def device() -> str:
        from pyspark import TaskContext

        task = TaskContext.get()
        gpus = task.resources().get("gpu") if task is not None else None
        if gpus is None:
            return "cpu"
        import os

        # an executor that is shown some GPUs only numbers them from 0
        shown = [each for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each]
        address = gpus.addresses[0]
        return f"cuda:{shown.index(address) if address in shown else address}"

    return device


def _rows_of_tasks() -> Callable[[], Any]:
    def rows_of_tasks() -> Any:
        """The rows of a worker's present task, of which a batch may fail."""
        import contextlib
        import os
        import socket
        import traceback

        from pyspark import TaskContext

        class TaskRows:
            task, first, taken = -1, 0, 0

            def take(self, size: int) -> None:
                context = TaskContext.get()
                attempt = context.taskAttemptId() if context else 0
                if self.task != attempt:
                    self.task, self.first, self.taken = attempt, 0, 0
                self.first, self.taken = self.taken, self.taken + size

            @contextlib.contextmanager
            def batch(self, size: int) -> Iterator[None]:
                self.take(size)
                with self.last():
                    yield

            @contextlib.contextmanager
            def loading(self) -> Iterator[None]:
                """Say of a failure that it came before the first row."""
                try:
                    yield
                except Exception as error:
                    self.take(0)
                    raise RuntimeError(self.describe(error, "loading for")) from error

            @contextlib.contextmanager
            def last(self) -> Iterator[None]:
                try:
                    yield
                except Exception as error:
                    rows = f"rows {self.first} to {max(self.first, self.taken - 1)} of"
                    raise RuntimeError(self.describe(error, rows)) from error

            def describe(self, error: Exception, when: str) -> str:
                """Spark passes on the last exception only, so its text holds the traceback."""
                context = TaskContext.get()
                partition = context.partitionId() if context else 0
                frames, ours = error.__traceback__, {contextlib.__file__, self.describe.__code__.co_filename}
                while frames is not None and frames.tb_frame.f_code.co_filename in ours:
                    frames = frames.tb_next
                trace = "".join(traceback.format_exception(type(error), error, frames)).rstrip()
                place = f"  in worker {os.getpid()} of task {max(self.task, 0)} on {socket.gethostname()}"
                quoted = [f"  | {line}" for line in trace.splitlines()]
                return "\n".join(
                    [f"{when} partition {partition}: {type(error).__name__}: {error}", place, *quoted]
                )

        return TaskRows()

    return rows_of_tasks


WATCH_AFTER_S = 5.0
"""How long a worker predicts before it gets an agent: what is over in a moment need not pay for one."""


def make_watch(boot: str, tag: str, start: Callable[..., Any], *, after_s: float = WATCH_AFTER_S) -> Watch:
    """A function that counts what its worker has done, for an agent beside it that tells the engine.

    Args:
        boot: the agent's boot document, without what only the worker knows.
        tag: names the run; a worker has one agent in each run.
        start: starts an agent with a document and descriptors (`launcher.backends.spark.job.starter`).
        after_s: seconds after the first batch before which no agent is started.
    """

    start_agent = _agent_starter(boot, start)

    def begin() -> Count:
        import mmap
        import os
        import time

        counters = os.memfd_create("rankdeck-counters")
        os.ftruncate(counters, mmap.PAGESIZE)
        shared = memoryview(mmap.mmap(counters, mmap.PAGESIZE)).cast("Q")
        # the agent ends with the worker: when nobody holds the other end of its standard input any more
        agents: list[Any] = []
        since = time.monotonic()

        def count(rows: int) -> None:
            shared[0] += rows
            shared[1] += 1
            if not agents and time.monotonic() - since >= after_s:
                agents.append(start_agent(counters))

        return count

    def watch() -> Count:
        from pyspark.ml.model_cache import ModelCache

        key: Any = f"rankdeck {tag}"
        count: Any = ModelCache.get(key)  # what outlives a task in a worker
        if count is None:
            count = begin()
            ModelCache.add(key, count)
        return count  # type: ignore[no-any-return]

    return watch


def _agent_starter(boot: str, start: Callable[..., Any]) -> Callable[[int], Any]:
    def start_agent(counters: int) -> Any:
        import json
        import os

        from pyspark import TaskContext

        context = TaskContext.get()
        granted = context.resources().get("gpu") if context else None
        document = {
            **json.loads(boot),
            "agent": context.taskAttemptId() % (1 << 20) if context else 0,
            "cores": context.cpus() if context else 1,
            "gpus": list(granted.addresses) if granted else None,
            "worker": os.getpid(),
            "counters": counters,
        }
        try:
            with open(os.devnull, "wb") as nowhere:
                return start(document, nowhere, {}, (counters,))
        except OSError:  # no memory for an agent: the rows count more than their number
            return None

    return start_agent
