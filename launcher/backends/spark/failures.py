"""Interpretation of a failed Spark job's exception: a fact, or an error with a remedy.

Only the text counts, because a Py4JJavaError of a classic session and an exception of a Connect client have
the same. The caller keeps the whole text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ...errors import AgentLost, CannotPlace, InternalError, LauncherError, RowsFailed, SpecError, counted
from ...placement.refusals import EngineCutOff, VersionsDiffer
from ...spec.spark_address import shown
from ...state.events import Event, ExecutorLost, JobCancelled, ServerLost, TaskLost

_TASK = re.compile(r"barrier task \w+\((\d+), (\d+)\)")
_EXECUTOR = re.compile(r"ExecutorLostFailure \(executor (\S+) exited ([^)]*)\) Reason:\s*(.+)")
_API_REASON = re.compile(
    r"^\s*(?:The API gave the following brief reason|termination reason): (?!null\b|N/A\b)(\S.*?)\s*$",
    re.MULTILINE,
)
_WORKER = re.compile(r"worker lost: ([^\s,]+?):\d+")
_CANCELLED = re.compile(r"\[SPARK_JOB_CANCELLED\] (.+?)(?: SQLSTATE.*)?$", re.MULTILINE)
_STAGE_CANCELLED = re.compile(r"(Stage \d+ (?:was )?cancelled.*|Job \d+ cancelled.*)")
_OPERATION = re.compile(r"\[?OPERATION_CANCELED\]?")
_SHUT_DOWN = re.compile(
    r"SparkContext was shut down|Application has been killed|Master removed our application"
)
_VERSIONS = re.compile(
    r"worker has different version:? \(?([\d., ]+?)\)? than that in driver:? \(?([\d., ]*\d)", re.IGNORECASE
)
_PROGRAM = re.compile(r"Cannot run program \"([^\"]+)\"(?: \(in directory [^)]*\))?: (?:error=\d+, )?(.+)")
_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_WORKER_GONE = re.compile(
    r"Python worker exited unexpectedly[^\n]*|Python worker failed to connect back[^\n]*"
)
_KILLED = re.compile(r"TaskKilled \(([^)]*)\)|TaskKilledException: ?([^\n]*)")
_THROWN = re.compile(
    r"^:? ?(?:Caused by: )?(?:[\w$]+\.)+[\w$]*(?:Exception|Error|Failed)\b: (.+)$", re.MULTILINE
)
_KUBERNETES = "io.fabric8.kubernetes."
_LINK = re.compile(
    r"^:? ?(?P<caused>Caused by: )?(?:[\w$]+\.)+(?P<kind>[\w$]*(?:Exception|Error))(?:: (?P<message>.*))?$"
)
_API_ANSWER = re.compile(
    r"Failure executing: \S+ at: \S+\. Message: (?P<message>.+?)\."
    r"(?: Received status:.*?\bcode=(?P<code>\d+)| |$)"
)
_GONE = ("Py4JNetworkError", "ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError")
_TEXT_LOST = "its text was lost with Spark's JVM"
_NO_WAY = re.compile(r"rankdeck-unreachable: (agent \d+ on [^:\s]+): (.+)")
_PARTITIONS = re.compile(r"Error: rankdeck-partitions: (\d+) (\d+)")
_SPOOL = re.compile(r"Error: rankdeck-spool: ([^\n]+)")
_DATA = re.compile(r"Error: rankdeck-data: ([^\n]+)")
_OF_JOB = ("Job aborted", "Stage failed", "Could not recover", "An exception was thrown")
REPARTITION = "df.repartition(N) deals the rows to N tasks"
_ENDED = re.compile(r"NO_ACTIVE_SESSION|INVALID_HANDLE\.SESSION_|SESSION_CLOSED|SESSION_NOT_FOUND")
_REFUSED_CALL = re.compile(r"Py4JSecurityException: ([^\n]+)")
_UNREACHABLE = re.compile(r"StatusCode\.UNAVAILABLE|failed to connect to all addresses|RETRIES_EXCEEDED")


@dataclass(frozen=True, slots=True)
class Failure:
    """What happened to a job.

    Attributes:
        event: the fact, if Spark names one; the end of the run follows from it.
        error: the error that ends the run, if there is no fact.
        why: one sentence for a person.
    """

    event: Event | None
    error: LauncherError | None
    why: str


def text_of(error: BaseException | str) -> str:
    """An exception's type and text; that of a Java exception is read from its JVM, which may be gone."""
    if isinstance(error, str):
        return error
    try:
        message = str(error)
    except Exception as gone:  # noqa: BLE001  # py4j raises whatever the lost connection did
        message = f"{_TEXT_LOST}: {type(gone).__name__}"
    return f"{type(error).__name__}: {message}"


def read_failure(
    error: BaseException | str,
    *,
    time: float,
    tasks: int = 0,
    attempt: int = 0,
    server: str = "",
    computes_rows: bool = False,
) -> Failure:
    """Find out what the exception of a barrier job means.

    Args:
        error: what ``collect()`` raised, or its text.
        time: the fact's time.
        tasks: how many tasks the stage had; 0 if that is not known.
        attempt: the number of the run's attempt.
        server: the Connect server that ran it; empty for none.
        computes_rows: whether it computed a DataFrame of the user's, whose functions may raise.
    """
    text = text_of(error)
    failure = _FailureReader(text, time, attempt, tasks, server, computes_rows).by_rule()
    if failure is not None:
        return failure
    why = first_line(text)
    return Failure(None, InternalError(f"the Spark job failed: {why}"), why)


def first_line(text: str) -> str:
    """The first message in a Java or Python error's text, without class names."""
    if match := _THROWN.search(text):
        return match[1].strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "it said nothing"


def causes_in(text: str) -> list[tuple[str, str]]:
    """The chain of the first Java exception in a text: the class, without its package, and message of each.

    Where a Kubernetes client's exception is among several, as in a log, it is the first of these.
    """
    lines = text.splitlines()
    starts = [i for i, line in enumerate(lines) if _LINK.match(line)]
    first = next((i for i in starts if _KUBERNETES in lines[i]), starts[0] if starts else len(lines))
    chain: list[tuple[str, str]] = []
    for line in lines[first:]:
        if match := _LINK.match(line):
            if chain and not match["caused"]:
                break
            chain.append((match["kind"], (match["message"] or "").strip()))
        elif not line.startswith(("\t", " ")):
            break
    return chain


def kubernetes_refusal(text: str, master: str) -> str:
    """Why the API server behind a Kubernetes master was of no use; empty if the text is about something else.

    The client's own exception says "An error has occurred."; the reason is at the end of its chain of causes.
    """
    if _KUBERNETES not in text:
        return ""
    chain = causes_in(text)
    server = f"the Kubernetes API server at {shown(master.removeprefix('k8s://'))}"
    if answer := _API_ANSWER.search(" ".join(message for _, message in chain)):
        code = f" {answer['code']}" if answer["code"] else ""
        return f"{server} refuses the application: it answers{code} {answer['message']}"
    for kind, message in chain:
        if kind == "UnknownHostException":
            return f"{server} cannot be reached: no host is known by the name of {message}"
        if kind == "NotSslRecordException":
            return f"{server} cannot be reached: what listens there does not speak TLS"
        if kind.endswith("TimeoutException"):
            return f"{server} cannot be reached: it does not answer"
    last = next((message for _, message in reversed(chain) if message), "it gives no reason")
    return f"{server} cannot be reached: {last}"


def partitions_differ(has: int, tasks: int) -> str:
    """The sentence about data with more or fewer partitions than the run has tasks."""
    return f"the DataFrame has {counted(has, 'partition')}, and the run has {counted(tasks, 'task')}"


def server_is_gone(error: Exception) -> bool:
    """Whether a Connect client's exception means that its server does not answer."""
    return bool(_UNREACHABLE.search(str(error)))


@dataclass(frozen=True, slots=True)
class _FailureReader:
    """A text and the rules to interpret it; each returns None where it does not apply."""

    text: str
    time: float
    attempt: int
    tasks: int
    server: str = ""
    computes_rows: bool = False

    def by_rule(self) -> Failure | None:
        """The result of the first rule that applies. Causes that a person can fix precede their effects."""
        rules: tuple[Callable[[], Failure | None], ...] = (
            self._unreachable, self._data, self._no_partitions, self._refused_call, self._too_few,
            self._dynamic, self._shut_down, self._executor, self._cancelled, self._versions, self._no_program,
            self._no_module, self._worker, self._killed, self._user, self._gone,
        )  # fmt: skip
        return next((failure for rule in rules if (failure := rule()) is not None), None)

    def _unreachable(self) -> Failure | None:
        match = _NO_WAY.search(self.text)
        if match is None:
            return None
        why = f"{match[1]} has no way to this run's engine: {match[2]}"
        return Failure(None, EngineCutOff(why), why)

    def _data(self) -> Failure | None:
        if match := _SPOOL.search(self.text):
            why = f"the rows cannot be spooled on an executor: {match[1].strip()}"
            hint = "spark.local.dir names the disks; fewer columns take less room"
            return Failure(None, RowsFailed(why, hint=hint), why)
        if match := _PARTITIONS.search(self.text):
            why = partitions_differ(int(match[1]), int(match[2]))
        elif match := _DATA.search(self.text):
            why = match[1].strip()
        else:
            return None
        return Failure(None, SpecError(why, hint=REPARTITION), why)

    def _no_partitions(self) -> Failure | None:
        if not self.computes_rows or "SPARK-24820" not in self.text:
            return None
        why = (
            "the DataFrame's partitions come from coalesce, limit or union, on which no barrier stage can run"
        )
        return Failure(None, SpecError(why, hint=REPARTITION), why)

    def _refused_call(self) -> Failure | None:
        match = _REFUSED_CALL.search(self.text)
        if match is None:
            return None
        why = f"this Spark session refuses what a barrier stage needs: {match[1].strip()}"
        return _refused(why, "use a Spark Connect session of the same cluster: --mode connect")

    def _too_few(self) -> Failure | None:
        if "SPARK-24819" not in self.text and "BarrierJobSlotsNumberCheckFailed" not in self.text:
            return None
        if self.computes_rows:
            why = (
                f"the DataFrame has more partitions than there are slots, and the run has {self.tasks} tasks"
            )
            return Failure(None, SpecError(why, hint=REPARTITION), why)
        count = counted(self.tasks, "slot") if self.tasks else "more slots"
        why = f"Spark has not the {count} at once that the barrier stage needs"
        return _refused(why, "give it more executors, or start fewer processes")

    def _dynamic(self) -> Failure | None:
        if "SPARK-24942" not in self.text:
            return None
        key = "spark.dynamicAllocation.enabled"
        return _refused(
            f"barrier stages cannot run with {key}=true", f"start the session with --conf {key}=false"
        )

    def _versions(self) -> Failure | None:
        match = _VERSIONS.search(self.text)
        if match is None:
            return None
        worker, driver = (part.replace(", ", ".") for part in match.groups())
        why = f"the executors' Python is {worker} and the driver's is {driver}"
        hint = "set PYSPARK_PYTHON, or spark.pyspark.python, to the same version on all hosts"
        return Failure(None, VersionsDiffer(f"{why}: Spark refuses to mix them", hint=hint), why)

    def _no_program(self) -> Failure | None:
        match = _PROGRAM.search(self.text)
        if match is None:
            return None
        why = f"executors cannot run {match[1]}: {match[2].strip()}"
        return _refused(why, "set PYSPARK_PYTHON to an interpreter that exists on every executor's host")

    def _no_module(self) -> Failure | None:
        match = _MODULE.search(self.text)
        if match is None and "PACKAGE_NOT_INSTALLED" not in self.text:
            return None
        name = match[1] if match else "pyarrow"
        return _refused(f"the executors' Python has no {name}", f"install {name} where executors run")

    def _shut_down(self) -> Failure | None:
        if not _SHUT_DOWN.search(self.text):
            return None
        return _fact(
            JobCancelled(reason="Spark's application was ended", time=self.time, attempt=self.attempt)
        )

    def _executor(self) -> Failure | None:
        match = _EXECUTOR.search(self.text)
        if match is None:
            return None
        host = _WORKER.search(match[3])
        fact = ExecutorLost(
            reason=_reason_in(match[3], self.text[match.end() :]),
            executor=match[1],
            host=host[1] if host else "",
            task=_task_in(self.text),
            time=self.time,
            attempt=self.attempt,
        )
        return _fact(fact, f"Spark lost executor {match[1]}: {fact.reason}")

    def _cancelled(self) -> Failure | None:
        match = _CANCELLED.search(self.text) or _STAGE_CANCELLED.search(self.text)
        if match:
            return _fact(JobCancelled(reason=match[1].strip(), time=self.time, attempt=self.attempt))
        if _OPERATION.search(self.text):
            reason = "the operation was cancelled through Spark Connect"
            return _fact(JobCancelled(reason=reason, time=self.time, attempt=self.attempt))
        return None

    def _worker(self) -> Failure | None:
        match = _WORKER_GONE.search(self.text)
        if match is None:
            return None
        reason = match[0].partition(". Consider")[0]
        return _fact(TaskLost(reason=reason, task=_task_in(self.text), time=self.time, attempt=self.attempt))

    def _killed(self) -> Failure | None:
        match = _KILLED.search(self.text)
        if match is None:
            return None
        reason = f"the task was killed in Spark: {(match[1] or match[2] or 'nobody said why').strip()}"
        return _fact(TaskLost(reason=reason, task=_task_in(self.text), time=self.time, attempt=self.attempt))

    def _gone(self) -> Failure | None:
        if self.text.startswith(_GONE) or _TEXT_LOST in self.text:
            return _lost("the JVM of the Spark session is gone")
        if self.server and _ENDED.search(self.text):
            return _fact(self._server_lost("its session with us has ended"))
        if self.server and _UNREACHABLE.search(self.text):
            return _fact(self._server_lost(""))
        if _UNREACHABLE.search(self.text):
            return _lost("the Spark Connect server is gone")
        return None

    def _server_lost(self, reason: str) -> ServerLost:
        return ServerLost(server=self.server, reason=reason, time=self.time, attempt=self.attempt)

    def _user(self) -> Failure | None:
        """A Python exception in a task is a defect of ours, if no function of a DataFrame runs there."""
        if self.computes_rows and (said := self._raised or self._thrown):
            why = f"Spark cannot compute the rows: {said}"
            return Failure(None, RowsFailed(why), why)
        if self._raised and (task := _task_in(self.text)) is not None:
            why = f"an agent could not be started in task {task}: {self._raised}"
        else:
            return None
        return Failure(None, InternalError(why), why)

    @property
    def _raised(self) -> str:
        """The last line of the first Python traceback; empty without one."""
        trace = self.text.partition("Traceback (most recent call last):")[2].splitlines()
        last = (line for line in trace if re.match(r"[A-Za-z_][\w.]*(?:: |$)", line))
        return next(last, first_line(self.text)) if trace else ""

    @property
    def _thrown(self) -> str:
        """What was thrown in a task, and not only that a job ended by that; empty if nothing was."""
        messages = (message.strip() for message in _THROWN.findall(self.text))
        return next((each for each in messages if not each.startswith(_OF_JOB)), "")


def _refused(why: str, hint: str) -> Failure:
    return Failure(None, CannotPlace(why, hint=hint), why)


def _lost(why: str) -> Failure:
    return Failure(None, AgentLost(why), why)


def _fact(fact: ExecutorLost | ServerLost | TaskLost | JobCancelled, why: str = "") -> Failure:
    return Failure(fact, None, why or fact.reason)


def _reason_in(first: str, after: str) -> str:
    """Why an executor was lost, in one line: Kubernetes tells it in several, between much else."""
    said = dict.fromkeys(_API_REASON.findall(after.partition("Driver stacktrace:")[0]))
    return "; ".join([first.strip(), *said])


def _task_in(text: str) -> int | None:
    """The number of the task that Spark names as the first that failed."""
    match = _TASK.search(text)
    return int(match[2]) if match else None
