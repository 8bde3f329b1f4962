"""The jobs of a prediction: one for each unit of its input, or a single one that writes all rows or none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from ....errors import SpecError
from ....spec.job import JobSpec
from ....spec.prediction import IfExists, Location, Prediction
from ....state.events import PredictionAdvanced
from .. import internals
from ..job import JobTitle, starter, titled
from ..launcher_zip import by_value
from ..session import Session
from . import worker
from .frames import columns_of, make_udf, predicted, read, read_files
from .packing import PackedFunction
from .storage import OutputFolder
from .units import InputFile, how_predicted, plan_units
from .worker import Watch, make_watch

POLL_S = 0.5
_MODES = {IfExists.RESUME: "error", IfExists.OVERWRITE: "overwrite", IfExists.APPEND: "append"}


@dataclass(frozen=True, slots=True)
class PredictionJob:
    """What is predicted, and how it is told.

    Attributes:
        spec: the request.
        function: what predicts.
        dataframe: the rows, if the caller has a DataFrame; None for the input of the request.
        title: the tag and the title of its jobs.
        boot: the boot document of the agents beside workers, and the program that starts one.
        tell: called with how far it is.
        aborted: set when it is to end.
    """

    spec: JobSpec
    function: PackedFunction
    dataframe: Any
    title: JobTitle
    boot: str
    program: str
    tell: Callable[[PredictionAdvanced], None]
    aborted: threading.Event

    @property
    def prediction(self) -> Prediction:
        """What is read and written."""
        assert self.spec.prediction is not None
        return self.spec.prediction

    def watch(self) -> Watch:
        """What counts rows in workers."""
        start = starter(by_value(), self.program)
        return make_watch(self.boot, self.title.tag, start, after_s=worker.WATCH_AFTER_S)


def run_prediction(session: Session, job: PredictionJob) -> None:
    """Run the prediction to its end; call this on a thread of its own.

    Raises:
        SpecError: the input or the output is not what the request says.
        Exception: whatever pyspark raises; `reading.failure_in` interprets it.
    """
    prediction, now = job.prediction, PredictionAdvanced(time=0.0)
    source, result = prediction.source, prediction.result
    frame = job.dataframe if job.dataframe is not None else read(session.spark, source)
    columns = columns_of(frame, prediction)
    udf = make_udf(job.function, prediction, columns, job.watch(), gpu=job.spec.gpu is not False)
    folder = None
    if job.dataframe is None and source.has_files and result.has_files:
        folder = output_folder(session, result)
    if folder is None:
        made, mode = predicted(frame, udf, prediction, columns), _MODES[prediction.if_exists]
        rows = _write(session, job, made, result, now, mode=mode)
        return job.tell(replace(now, done=1.0, unit=1, rows=rows, output=result.name))
    how = how_predicted(prediction, job.spec.target)
    done = folder.begin(how, prediction.if_exists)
    slots = int(session.context.defaultParallelism)
    plan = plan_units(input_files(session.spark, source), how, done, slots=slots)
    now = replace(now, skipped=plan.skipped, units=len(plan.units))
    for number, unit in enumerate(plan.units):
        if job.aborted.is_set():
            return None
        now = replace(now, unit=number, done=plan.share(number))
        part = read_files(session.spark, source, unit.files, frame.schema)
        made = predicted(part, udf, prediction, columns)
        place = replace(result, name=folder.place_of(unit), format=result.source)
        rows = _write(session, job, made, place, now, mode="overwrite", until=plan.share(number + 1))
        folder.take(unit)
        now = replace(now, rows=now.rows + rows)
    return job.tell(replace(now, done=1.0, unit=len(plan.units), output=result.name))


def output_folder(session: Session, result: Location) -> OutputFolder | None:
    """The folder of the output, in which units can be told apart; None through a server, or if Spark refuses.

    Raises:
        SpecError: there is no such storage.
    """
    if session.remote:
        return None
    try:
        storage = internals.storage(session.spark, result.name)
    except ValueError as error:
        raise SpecError(f"the output {result.name} cannot be used: {error}") from error
    return None if storage is None else OutputFolder(storage)


def input_files(spark: Any, source: Location) -> list[InputFile]:
    """The files of the input, without a look into them."""
    hidden = {key: value for key, value in source.options.items() if key in _OF_FILES}
    listing = spark.read.format("binaryFile").options(**hidden).load(source.name)
    rows = listing.select("path", "length", "modificationTime").collect()
    return [InputFile(row["path"], int(row["length"]), str(row["modificationTime"])) for row in rows]


_OF_FILES = frozenset({"recursiveFileLookup", "pathGlobFilter", "modifiedBefore", "modifiedAfter"})


def _write(
    session: Session,
    job: PredictionJob,
    frame: Any,
    result: Location,
    now: PredictionAdvanced,
    *,
    mode: str,
    until: float = 1.0,
) -> int:
    """Write rows and return how many there were; tell meanwhile how far it is, from `now` to `until`."""
    from pyspark.sql import Observation, functions

    counted = Observation()
    frame = frame.observe(counted, functions.count(functions.lit(1)).alias("rows"))
    writer = frame.write.mode(mode).options(**result.options)
    with closing(TaskProgress(session, job, now, until)), titled(session, job.title):
        if result.is_table:
            writer.saveAsTable(result.name)
        else:
            writer.format(result.source).save(result.name)
    return int(counted.get["rows"])


class TaskProgress:
    """Tells on a thread of its own how far the job of a unit is, by its tasks."""

    def __init__(self, session: Session, job: PredictionJob, now: PredictionAdvanced, until: float) -> None:
        self._session, self._job, self._now, self._until = session, job, now, until
        self._began, self._over = now.done or 0.0, threading.Event()
        self._of_server: tuple[int, int] | None = None
        self._before = frozenset() if session.remote else self._jobs()  # those of earlier units
        if session.remote:
            session.spark.registerProgressHandler(self._on_progress)
        job.tell(now)
        self._thread = threading.Thread(target=self._run, name="rankdeck-progress", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Tell no more."""
        self._over.set()
        self._thread.join()
        if self._session.remote:
            self._session.spark.removeProgressHandler(self._on_progress)

    def _run(self) -> None:
        told = -1
        while not self._over.wait(POLL_S):
            tasks = self._of_server if self._session.remote else self._of_context()
            if tasks is None or not tasks[1]:
                continue
            done = self._began + (self._until - self._began) * tasks[0] / tasks[1]
            if int(100 * done) != told:
                told = int(100 * done)
                self._job.tell(replace(self._now, done=done))

    def _of_context(self) -> tuple[int, int] | None:
        return internals.tasks_of(self._session.context, self._jobs() - self._before)

    def _jobs(self) -> frozenset[int]:
        return internals.jobs_of(self._session.context, self._job.title.tag)

    def _on_progress(self, stages: Any, **_: Any) -> None:
        known = list(stages or ())
        self._of_server = sum(s.num_completed_tasks for s in known), sum(s.num_tasks for s in known)
