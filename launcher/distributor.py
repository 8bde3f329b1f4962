"""`Distributor`: start a training on many ranks from Python, and get its return value or its error.

value = Distributor(num_processes=8).run(train, 1e-3)
job = Distributor(num_processes=2).start("train.py", "--lr=0.1")
"""

from __future__ import annotations

import contextlib
import inspect
import math
import os
import reprlib
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

from .backends.base import Backend
from .backends.registry import make_backend
from .errors import LauncherError, RecordError, SpecError
from .frameworks.registry import asked_for, require_framework
from .job import Job
from .placement.plan import Plan, make_plan
from .runs.catalog import create_folder
from .runs.paths import runs_root
from .runs.provenance import begin_origin, find_origin
from .runs.writer import RunWriter
from .spec.job import JobSpec, SparkSpec, Target, TargetKind, as_literal
from .spec.modes import Mode
from .spec.options import options_of, require_known
from .spec.prediction import Prediction
from .spec.request import Request, require_addresses, require_python, require_workdir
from .spec.target import resolve, resolve_call
from .state import events as ev
from .state.run_state import Phase
from .state.summary import preview
from .supervisor.attempt import submission
from .supervisor.run_loop import RunLoop
from .supervisor.supervisor import Supervisor

if TYPE_CHECKING:
    from .data.layout import Columns
    from .display.output import Output, Show


class LaunchOptions(TypedDict, total=False):
    """The launch options that `Distributor` takes by keyword, for type checkers.

    `JobSpec` declares their meanings and defaults.
    """

    min_processes: int | None
    gpu: bool | None
    workdir: str | os.PathLike[str] | None
    python: str | os.PathLike[str] | None
    name: str
    gpus_per_rank: int
    ranks_per_gpu: int
    gpus_per_task: int | None
    max_restarts: int
    start_timeout_s: float
    timeout_s: float | None
    no_progress_timeout_s: float | None
    grace_s: float
    sample_s: float
    env: Mapping[str, str] | None
    env_all: bool
    framework: str
    roles: Mapping[str, int] | None
    deepspeed_config: Mapping[str, Any] | str | os.PathLike[str] | None
    ray_options: Mapping[str, str] | None
    require_group: bool
    fresh: bool
    record_locals: bool
    track: str | Sequence[str]
    files: Sequence[str | os.PathLike[str]]
    artifacts_limit: int | str
    py_files: Sequence[str | os.PathLike[str]]


_BLOCKED_S = 5.0  # for output that nobody takes, after Ctrl-C
_OPTIONS = {each.name: each for each in options_of(JobSpec) if len(each.path) == 1}
ClassT = TypeVar("ClassT", bound=type)
ResultT = TypeVar("ResultT")


def _documented(kind: ClassT) -> ClassT:
    """Add every launch option to the class's docstring and signature, which `help` shows."""
    init = vars(kind)["__init__"]
    own = dict(inspect.signature(init).parameters)
    own.pop("options")
    last = [own.pop(name) for name in ("spark", "root", "output")]
    hints = inspect.get_annotations(LaunchOptions)
    generated = [
        inspect.Parameter(
            name,
            last[0].kind,
            default=each.default,
            annotation=getattr(hints.get(name), "__forward_arg__", Any),
        )
        for name, each in _OPTIONS.items()
        if name not in own
    ]
    init.__signature__ = inspect.Signature([*own.values(), *generated, *last])
    lines = [f"    {name}: {each.doc or each.help}" for name, each in _OPTIONS.items()]
    kind.__doc__ = (kind.__doc__ or "").replace("Args:\n", "\n    ".join(["Args:", *lines]) + "\n", 1)
    return kind


@_documented
class Distributor:
    """How to launch: the world size, where, and with what. It holds no resources and may be reused.

    Args:
        spark: the Spark session to use, or a `SparkSpec` of one to make; by default the active session, else
            one for the address in the environment.
        root: the folder of run folders, if not the usual one.
        output: what `run` shows: ``"all"`` lines that ranks print, each with its rank, those of ``"rank0"``,
            ``"none"``, or ``"auto"``: a live panel in a notebook, and all lines elsewhere.

    Raises:
        SpecError: a value is not allowed, or an option is unknown.
    """

    def __init__(
        self,
        num_processes: int = 1,
        mode: str = "local",
        *,
        spark: Any = None,
        root: Path | None = None,
        output: str = "auto",
        **options: Unpack[LaunchOptions],
    ) -> None:
        require_known(options, _OPTIONS, "Distributor")
        described = isinstance(spark, SparkSpec)
        if described:
            require_addresses(spark)
        self._session = None if described else _session(spark)
        passed = {"num_processes": num_processes, **options}
        values = {name: each.take(passed.get(name, each.default)) for name, each in _OPTIONS.items()}
        self._options = {
            **values,
            "mode": _mode(mode),
            "spark": spark if described else SparkSpec(),
        }
        # refuses what no target could be run with
        asked_for(JobSpec(Target(TargetKind.SCRIPT, ""), **self._options))
        self._root = root if root is None else Path(root)
        self._output = _output(output)

    def run(self, target: Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> Any:
        """Start a run, show it, wait for it, and return rank 0's value; see `start` for the target.

        What ranks print is shown while they run, on the caller's own streams, and is complete at the end.
        On Ctrl-C, the run is stopped; once none of its processes is alive, KeyboardInterrupt is raised again.

        Raises:
            RankFailed: training failed.
            LauncherError: the run ended for another reason.
        """
        return attend(self.start(target, *args, **kwargs), self._output, Job.result)

    def start(self, target: Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> Job:
        """Start a run and return at once.

        Args:
            target: a callable (closures, lambdas and functions of a notebook included), ``"train.py:fn"`` or
                ``"package.module:fn"``; or ``"train.py"``, ``"-m package.module"`` or another program.
            *args: the function's positional arguments, or the program's argv.
            **kwargs: the function's keyword arguments.

        Raises:
            SpecError: the target does not exist, or its arguments do not fit; nothing was started.
        """
        return launch(self.request(target, *args, **kwargs), root=self._root)

    def run_on_dataframe(
        self, function: Callable[..., Any] | str, dataframe: Any, /, *args: Any, **kwargs: Any
    ) -> Any:
        """Start a run whose ranks share a DataFrame's rows, show it, wait for it, and return rank 0's value.

        See `start_on_dataframe` for the arguments.

        Raises:
            RankFailed: training failed.
            LauncherError: the run ended for another reason.
        """
        job = self.start_on_dataframe(function, dataframe, *args, **kwargs)
        return attend(job, self._output, Job.result)

    def start_on_dataframe(
        self,
        function: Callable[..., Any] | str,
        dataframe: Any,
        /,
        *args: Any,
        columns: Columns | None = None,
        batch_size: int | None = None,
        uneven: str = "drop",
        repartition: bool | None = None,
        **kwargs: Any,
    ) -> Job:
        """Start a run whose ranks share a DataFrame's rows, and return at once.

        Each rank reads its rows by `launcher.data.partition_loader`, from the moment when the first arrive.

        Args:
            function: the function, as for `start`.
            dataframe: a DataFrame of Spark; the run uses its session.
            *args: the function's positional arguments.
            columns: the columns that travel; or the name of each field of a batch with its column or columns,
                where several make a matrix. None for all.
            batch_size: the rows of a batch, which a loader may also choose itself.
            uneven: what happens where ranks have different numbers of rows (`launcher.data.steps.MEANINGS`).
            repartition: whether the rows are dealt anew to as many partitions as there are Spark tasks, by a
                shuffle; None for only if their number differs, or is not known before they are computed.
            **kwargs: the function's keyword arguments.

        Raises:
            SpecError: this is no DataFrame, it has no such column, or the mode has no Spark tasks.
        """
        from .data.sharing import shared  # executors have none of it

        data = shared(
            dataframe, columns=columns, batch_size=batch_size, uneven=uneven, repartition=repartition
        )
        if not self._options["mode"].traits.scheduled:
            raise SpecError(
                "the rows of a DataFrame come from tasks of Spark, and local ranks have none",
                hint='mode="cluster", or mode="connect" for a Connect session; a session of local[N] will do',
            )
        request = self.request(function, *args, **kwargs)
        return launch(replace(request, data=data, session=dataframe.sparkSession), root=self._root)

    def request(self, target: Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> Request:
        """The checked request of a run, which `launch` starts; arguments and errors are those of `start`."""
        packed, payload = pack(target, args, kwargs, workdir=Path(self._options["workdir"]))
        spec = self.spec_of(packed)
        return Request(spec, payload=payload, path=_import_path(spec), session=self._session)

    def spec_of(self, target: Target, prediction: Prediction | None = None) -> JobSpec:
        """The spec of a run of a target, or of a prediction.

        Raises:
            SpecError: the options do not fit it.
        """
        options = dict(self._options)
        if prediction is not None:
            options |= {"num_processes": prediction.workers or 1, "min_processes": None}
        return JobSpec(target=target, prediction=prediction, **options)

    @property
    def session(self) -> Any:
        """The Spark session that was given; None for the active one, or one to make."""
        return self._session


def _import_path(spec: JobSpec) -> tuple[str, ...]:
    """The folders of this process that the target is imported from: a function needs them, a script does not.

    Another interpreter has packages of its own; those that are installed here may not even load there.
    """
    if not spec.target.kind.called:
        return ()
    from .spec.files.packing import is_installed  # executors have none of it

    return tuple(folder for folder in sys.path if not (spec.python and is_installed(f"{folder}{os.sep}")))


def attend(job: Job, output: Output | Show, wanted: Callable[[Job], ResultT]) -> ResultT:
    """Show a run while `wanted` waits for it, and return what that returns; Ctrl-C stops the run.

    Args:
        job: the run.
        output: what is shown, or a function that makes its display.
        wanted: what waits for the end.

    Raises:
        KeyboardInterrupt: the run was interrupted, and none of its processes is alive.
        LauncherError: whatever `wanted` raises.
    """
    from .display.output import Follower  # the engine needs none of it

    follower = shown_within = None
    try:
        follower = Follower(job, output)
        return wanted(job)
    except KeyboardInterrupt:
        shown_within = _BLOCKED_S
        job.stop(reason="interrupted", exit_code=130)
        _wait_or_kill(job)
        raise
    finally:
        if follower is not None:
            follower.join(shown_within)


def launch(request: Request, *, root: Path | None = None, backend: Backend | None = None) -> Job:
    """Start a checked request; this process owns the run.

    Raises:
        SpecError, CannotPlace: it cannot be placed.
        RecordError: the run folder cannot be made.
    """
    from .spec.files.packing import with_bundle  # executors have none of it

    root = root or runs_root()
    original, request = request, with_bundle(_with_trackers(request))
    backend = backend or make_backend(request.spec.mode)
    try:
        plan = plan_for(request, backend)
    except SpecError:
        raise
    except LauncherError as error:  # another time it might have worked, so it belongs in the history
        record_refusal(request, error, root)
        raise
    folder = create_folder(root, time.time(), request.spec)
    supervisor = _supervisor(request, plan, folder, backend)
    supervisor.submit()
    begin_origin(original, supervisor.mailbox.post)
    job = Job(supervisor, folder)
    from .notify.teller import watch_run  # executors have none of it

    watch_run(job)
    return job


def _supervisor(request: Request, plan: Plan | None, folder: Path, backend: Backend) -> RunLoop:
    if request.spec.prediction is None:
        return Supervisor(request, plan, folder, backend)
    from .supervisor.prediction import PredictionSupervisor  # trainings need none of it

    return PredictionSupervisor(request, folder, backend)


def plan_for(request: Request, backend: Backend | None = None) -> Plan | None:
    """The placement of every rank, which ``--dry-run`` prints. None if only the agents can find it out."""
    if backend is None:
        backend = make_backend(request.spec.mode)
        try:
            return plan_for(_with_trackers(request), backend)
        finally:
            backend.close(0.0)
    offers, reason = backend.offers(request)
    require_workdir(request.spec)
    require_python(request)
    require_framework(request.spec)
    return None if offers is None else make_plan(request.spec, offers, gpu_reason=reason)


def _session(value: Any) -> Any:
    """A Spark session, told by what its class has: pyspark is not imported."""
    if value is not None and not hasattr(type(value), "conf"):
        raise SpecError(f"spark takes a Spark session or a SparkSpec, not {reprlib.repr(value)}")
    return value


def _output(value: object) -> Output:
    from .display.output import output_of  # the engine needs none of it

    return output_of(value)


def _with_trackers(request: Request) -> Request:
    """The request with the interpreter that has the packages of its trackers.

    Raises:
        SpecError: there is none.
    """
    if not request.spec.track:
        return request
    from .tracking.packages import require_trackers  # only runs with trackers need it

    return replace(request, trackers_python=require_trackers(request))


def _mode(text: str) -> Mode:
    try:
        return Mode(text)
    except ValueError:
        raise SpecError(f"the mode must be one of {', '.join(Mode)}, not {text!r}") from None


def _wait_or_kill(job: Job) -> None:
    try:
        job.wait()
    except KeyboardInterrupt:
        job.stop(force=True, reason="interrupted twice", exit_code=130)
        job.wait()


_SHORT = 80
_LONG = 64 << 10
_DEPTH = 20
_BITS = 12_000  # Python does not convert longer integers to text


def pack(
    target: Callable[..., Any] | str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    workdir: Path,
) -> tuple[Target, bytes | None]:
    """The target and, if it needs one, its pickle.

    Raises:
        SpecError: there is no such file or function, its arguments do not fit, or they cannot be pickled.
    """
    if callable(target):
        return _pack_callable(target, args, kwargs)
    if not isinstance(target, str):
        raise SpecError(f"a target is a function or a path, not {type(target).__name__}")
    if ":" not in target.rpartition("/")[2]:
        return _pack_script(target, args, kwargs, workdir), None
    return _pack_named(target, args, kwargs, workdir)


def _pack_script(target: str, args: Sequence[Any], kwargs: Mapping[str, Any], workdir: Path) -> Target:
    if kwargs:
        raise SpecError(
            f"a script takes no keyword arguments ({', '.join(kwargs)})",
            hint='pass them as argv: start("train.py", "--lr=0.1")',
        )
    return resolve(target, params={}, args=[str(a) for a in args], workdir=workdir)


def _pack_named(
    target: str, args: Sequence[Any], kwargs: Mapping[str, Any], workdir: Path
) -> tuple[Target, bytes | None]:
    """A function found by name. Literal arguments are recorded as they are; others are pickled."""
    function = resolve_call(target, count=len(args), names=kwargs, workdir=workdir)
    if all(map(_is_literal, (*args, *kwargs.values()))):
        named = tuple((k, as_literal(v)) for k, v in kwargs.items())
        literals = replace(function, args=tuple(map(as_literal, args)), kwargs=named)
        if len(str(literals)) <= _LONG:
            return literals, None
    return _described(function, args, kwargs), _dumps((tuple(args), dict(kwargs)), "an argument")


def _pack_callable(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Target, bytes]:
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise SpecError(f"the arguments do not fit {_name_of(function)}: {error}") from error
    except ValueError:  # a builtin without a signature: nothing to check against
        pass
    target = Target(TargetKind.CALLABLE, _source_of(function), _name_of(function))
    return _described(target, args, kwargs), _dumps((function, tuple(args), dict(kwargs)), _name_of(function))


def described(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> Target:
    """A callable and its keyword arguments for people; they are packed elsewhere."""
    inner = getattr(function, "func", function)  # of a Pandas UDF
    target = Target(TargetKind.CALLABLE, _source_of(inner), _name_of(inner))
    return _described(target, (), kwargs)


def _source_of(function: Callable[..., Any]) -> str:
    """The file that defines a function; without one, as for a builtin, its module."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return (inspect.getsourcefile(code) if code else None) or getattr(function, "__module__", "") or ""


def _described(target: Target, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Target:
    return Target(
        target.kind,
        target.source,
        target.name,
        args=tuple(map(_short, args)),
        kwargs=tuple((k, _short(v)) for k, v in kwargs.items()),
        pickled=True,
    )


def _short(value: object) -> str:
    text = as_literal(value) if _is_literal(value) else preview(value)
    return text if len(text) <= _SHORT else text[: _SHORT - 1] + "…"


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def _is_literal(value: object, depth: int = _DEPTH) -> bool:
    """Whether a value's repr is Python source of the same value, down to its exact types."""
    kind = type(value)
    if isinstance(value, (list, tuple, set)):
        return kind in (list, tuple, set) and depth > 0 and all(_is_literal(v, depth - 1) for v in value)
    if isinstance(value, dict):
        parts = (part for item in value.items() for part in item)
        return kind is dict and depth > 0 and all(_is_literal(p, depth - 1) for p in parts)
    if isinstance(value, float):
        return kind is float and math.isfinite(value)
    if isinstance(value, int):
        return kind in (int, bool) and value.bit_length() < _BITS
    return kind in (str, bytes, type(None))


def _dumps(value: object, what: str) -> bytes:
    import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(value)
    except Exception as error:  # a user's __reduce__ may raise anything
        raise SpecError(f"{what} cannot be pickled: {error}") from error
    return data


def record_refusal(request: Request, error: LauncherError, root: Path) -> Path | None:
    """Make a run folder for a request that was refused: the request, who submitted it, and the error.

    None if that cannot be written: the caller raises the refusal's own error, which matters more.
    """
    now = time.time()
    with contextlib.suppress(OSError, RecordError):
        folder = create_folder(root, now, request.spec)
        try:
            _write(folder, request, error, now)
        except (OSError, RecordError):
            shutil.rmtree(folder, ignore_errors=True)  # half a record would look like a running run
            raise
        return folder
    return None


def _write(folder: Path, request: Request, error: LauncherError, now: float) -> None:
    writer = RunWriter(folder, request.spec, payload=request.payload)
    with contextlib.closing(writer):
        for fact in (submission(request, now), find_origin(request), _ended(error)):
            writer.append(fact)


def _ended(error: LauncherError) -> ev.RunEnded:
    return ev.RunEnded(time=time.time(), state=Phase.FAILED.value, exit_code=error.exit_code, why=str(error))
