"""`horovod.spark.run` (Horovod 0.28) as a run of rankdeck."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..distributor import Distributor, attend
from ..job import Job
from ..runs import paths
from .originals import CallersSpark, originals_errors, whole_number
from .wrapping import WithNames

if TYPE_CHECKING:
    from ..display.output import Output, RankLines, Show
    from ..runs.logs.line_index import Line

_PARALLELISM = "spark.default.parallelism"
_START_TIMEOUT = "HOROVOD_SPARK_START_TIMEOUT"
_STREAMS = {paths.STDOUT: "stdout", paths.STDERR: "stderr"}


def run(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int | None = None,
    start_timeout: float | None = None,
    use_mpi: bool | None = None,
    use_gloo: bool | None = None,
    extra_mpi_args: str | None = None,
    env: Mapping[str, str] | None = None,
    stdout: Any = None,
    stderr: Any = None,
    verbose: int = 1,
    nics: Iterable[str] | None = None,
    prefix_output_with_timestamp: bool = False,
    executable: str | None = None,
) -> list[Any]:
    """Call ``fn(*args, **kwargs)`` in `num_proc` ranks on the active Spark session.

    Args:
        fn: the function.
        args, kwargs: its arguments.
        num_proc: the number of ranks; by default the session's ``spark.default.parallelism``.
        start_timeout: seconds until all ranks must have started; by default those of the variable
            HOROVOD_SPARK_START_TIMEOUT, or 600.
        use_mpi, use_gloo, extra_mpi_args: of no effect; ranks always meet by gloo, and use NCCL for GPUs.
        env: variables of the ranks.
        stdout, stderr: text streams that get ranks' lines, each after ``[rank]<stdout>:``. With one of them,
            the other is the caller's own. With none, lines are shown as `launcher.Distributor` shows them.
        verbose: 0 to show nothing if no stream is named.
        nics: the network interfaces of ranks. Gloo uses the first, NCCL all.
        prefix_output_with_timestamp: whether a line of the streams begins with the time at which it came.
        executable: the ranks' interpreter, a path on the executors' hosts.

    Returns:
        The ranks' values, by rank.

    Raises:
        ValueError: an argument is not allowed.
        RuntimeError: there is no active Spark session, or training failed; the text then has the user's
            traceback, and the cause is `RankFailed`.
    """
    del use_gloo
    _tell_what_has_no_meaning(use_mpi=use_mpi, extra_mpi_args=extra_mpi_args)
    spark = CallersSpark.require("horovod.spark.run")
    distributor = Distributor(
        _parallelism(spark) if num_proc is None else whole_number(num_proc, "num_proc", least=1),
        "cluster",
        spark=spark.session,
        framework="horovod",
        start_timeout_s=_start_limit() if start_timeout is None else start_timeout,
        env={**_interfaces(nics), **(env or {})},
        python=executable,
    )
    show = _shown(stdout, stderr, with_time=prefix_output_with_timestamp, quiet=not verbose)
    with originals_errors():
        return attend(distributor.start(WithNames(fn), *args, **(kwargs or {})), show, Job.results)


def _tell_what_has_no_meaning(**given: object) -> None:
    for name, value in given.items():
        if value:
            warnings.warn(f"{name} has no meaning under rankdeck: ranks meet by gloo", stacklevel=3)


def _parallelism(spark: CallersSpark) -> int:
    """The session's default number of tasks.

    Raises:
        ValueError: a Connect server does not tell it.
    """
    if setting := spark.setting(_PARALLELISM):
        return int(setting)
    if spark.remote:
        raise ValueError(f"name num_proc: this Spark Connect session does not tell its {_PARALLELISM}")
    return int(spark.session.sparkContext.defaultParallelism)


def _start_limit() -> float:
    """Seconds until all ranks must have started, by the caller's environment.

    Raises:
        ValueError: the variable is no number.
    """
    text = os.environ.get(_START_TIMEOUT, "600")
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{_START_TIMEOUT} must be a number of seconds, not {text!r:.80}") from None


def _interfaces(nics: Iterable[str] | None) -> dict[str, str]:
    """The variables that name the ranks' network interfaces; a text names them between commas."""
    listed = nics.split(",") if isinstance(nics, str) else nics or ()
    names = [name for each in listed if (name := each.strip())]
    if not names:
        return {}
    return {"HOROVOD_GLOO_IFACE": names[0], "NCCL_SOCKET_IFNAME": ",".join(names)}


def _shown(stdout: Any, stderr: Any, *, with_time: bool, quiet: bool) -> Output | Show:
    from ..display.output import Output  # executors have none of it

    if stdout is not None or stderr is not None:
        return partial(_lines, stdout=stdout, stderr=stderr, prefix=_timed if with_time else _prefix)
    return Output.NONE if quiet else Output.AUTO


def _lines(job: Job, *, stdout: Any, stderr: Any, prefix: Callable[[Line], str]) -> RankLines:
    from ..display.output import RankLines  # executors have none of it
    from ..display.streams import CallersStreams

    return RankLines(job, frozenset(range(job.state.requested)), CallersStreams(stdout, stderr), prefix)


def _prefix(line: Line) -> str:
    """What `horovodrun` puts before a line."""
    return f"[{line.rank}]<{_STREAMS[line.stream]}>:"


def _timed(line: Line) -> str:
    """The same with the local time before it."""
    return f"{time.asctime(time.localtime(line.time))}{_prefix(line)}"
