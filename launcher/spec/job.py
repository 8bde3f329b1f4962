"""What to run, where and with which limits: frozen values that are checked when they are made.

Nothing here touches the file system; `launcher.spec.target` checks whether a file exists and whether a
function takes a parameter.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from ..errors import SpecError, counted
from ..serialization import MOST_AMOUNT, MOST_INDEX, Amount, Index
from .modes import DEFAULT_MODE, SPARK, Mode, modes_taking
from .options import (
    BYTES,
    CONFIG,
    COUNTS,
    FLAG,
    INTERPRETER,
    PAIRS,
    PATH,
    PATHS,
    SECONDS,
    SHARED_PATH,
    SWITCH,
    TEXT,
    TRACKER,
    VARIABLES,
    WHOLE,
    Option,
    ValueKind,
    check_bounds,
    launch_option,
    one_of,
    options_of,
    texts_in,
    whole,
    with_texts_in,
)
from .prediction import PREDICT_OPTIONS, Prediction
from .redaction import REDACTED, Redactor, named_words


class TargetKind(StrEnum):
    """What the target is.

    A Python script, a module that is run as ``python -m`` would, any other program, a function found by name,
    or a pickled callable.
    """

    SCRIPT = "script"
    MODULE = "module"
    PROGRAM = "program"
    FUNCTION = "function"
    CALLABLE = "callable"

    @property
    def called(self) -> bool:
        """Whether it is a function, with values as arguments and a value as its result."""
        return self in (TargetKind.FUNCTION, TargetKind.CALLABLE)


MOST_WORKERS = 4096
"""Of so many workers of a prediction, at most, output is shown."""

RUN_MODULE = "-m"
"""What stands before the name of a module that is run as a program."""


def named_module(text: str) -> str | None:
    """The module of ``-m package.module``; None for other targets."""
    words = text.split()
    return words[1] if len(words) == 2 and words[0] == RUN_MODULE else None


@dataclass(frozen=True, slots=True)
class Target:
    """The program that every rank runs.

    Attributes:
        kind: what it is.
        source: path of a file, dotted name of a module, or name of a program on PATH; for a callable, where
            it was defined.
        name: the function's name; empty for any other kind.
        args: the argv of a script, module or program; a function's positional arguments as Python literals.
        kwargs: a function's keyword arguments as Python literals, in order; `launcher.spec.target.resolve`
            converts the texts of the option to them.
        pickled: the arguments (or the callable with them) are sent as a pickle beside this value, and
            `args` and `kwargs` are only their representations for people.
    """

    kind: TargetKind
    source: str
    name: str = ""
    args: tuple[str, ...] = ()
    kwargs: tuple[tuple[str, str], ...] = launch_option(
        (),
        "--param",
        PAIRS,
        name="param",
        metavar="K=V",
        help="Keyword argument of a function, a Python literal.",
        row="params",
        setting="",
    )
    pickled: bool = False

    @property
    def label(self) -> str:
        """The target as a person would type it, without arguments."""
        return " ".join(self.words)

    @property
    def words(self) -> tuple[str, ...]:
        """The same as words of a command."""
        if self.kind is TargetKind.MODULE:
            return (RUN_MODULE, self.source)
        return (f"{self.source}:{self.name}" if self.name else self.source,)

    @property
    def arguments(self) -> str:
        """Its arguments, in one line for people."""
        return " ".join([*map(shlex.quote, self.args), *(f"{k}={v}" for k, v in self.kwargs)])

    @property
    def is_file(self) -> bool:
        """Whether `source` is a path rather than a module's or program's name."""
        return self.source.endswith(".py") or "/" in self.source


def world_size(text: str) -> tuple[int | None, int]:
    """Parse ``4`` or ``2:4`` as the least number of ranks, None if it is not given, and the most.

    Raises:
        SpecError: the text has neither form.
    """
    match = re.fullmatch(r"\s*(?:(\d{1,9})\s*:\s*)?(-?\d{1,9})\s*", text)
    if match is None:
        raise SpecError(f"the number of processes must be a whole number, or MIN:MAX, not {text!r}")
    return (int(match[1]) if match[1] else None), int(match[2])


RANKS = ValueKind(
    "a number or MIN:MAX",
    lambda _, words, __: world_size(words[-1]),
    types=(int, str),
    from_python=whole,
    wanted="a whole number",
)
"""The value is a pair, the least and the most ranks, which are two fields of a spec."""


@dataclass(frozen=True, slots=True)
class SparkSpec:
    """Which Spark, and how its executors reach the run. An empty address is taken from the environment."""

    master: str = launch_option(
        "",
        "--master",
        TEXT,
        metavar="URL",
        help="Spark master, such as spark://host:7077.",
        row="spark",
        setting="spark",
        group=SPARK,
    )
    remote: str = launch_option(
        "",
        "--remote",
        TEXT,
        metavar="URL",
        help="Spark Connect server: sc://host:15002.",
        row="spark",
        setting="spark",
        group=SPARK,
    )
    listen: str = launch_option(
        "",
        "--listen",
        TEXT,
        metavar="HOST[:PORT[-PORT]]",
        help="Where executors find this machine.",
        doc="Where agents are waited for; empty for the driver's own address and any port.",
        label="Listen at",
        hint="HOST[:PORT[-PORT]]",
        group=SPARK,
    )
    spool: str = launch_option(
        "",
        "--spool",
        SHARED_PATH,
        metavar="DIR",
        help="Shared folder for output, where executors cannot reach this machine.",
        label="Spool",
        hint="a folder shared with executors",
        group=SPARK,
    )
    lost_after_s: float = launch_option(
        20.0,
        "--lost-after",
        SECONDS,
        metavar="S",
        help="Silence after which an executor's host counts as lost.",
        label="Lost after",
        hint="{} s of silence",
        group=SPARK,
        noun="silence of an agent",
        above=0,
    )
    conf: Mapping[str, str] = launch_option(
        dict,
        "--conf",
        PAIRS,
        metavar="K=V",
        help="A setting of Spark's own.",
        doc="Spark's own settings, on top of spark-defaults.",
        label="Spark conf",
        hint="spark.executor.memory=2g",
        group=SPARK,
    )

    def __post_init__(self) -> None:
        check_bounds(self)
        for value, option in ((self.master, "--master"), (self.remote, "--remote")):
            if not isinstance(value, str):
                raise SpecError(f"{option} takes an address as text, not {value!r}")
        if self.master and self.remote:
            raise SpecError("--master and --remote name two different Sparks: give one of them")
        if self.master.startswith("sc://"):
            raise SpecError(f"{self.master} is a Connect server, not a master", hint="give it with --remote")


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One run, as requested: what every rank runs, the launch options, and which Spark.

    The options are declared here and nowhere else; commands' help and forms show them in this order.
    `prediction` is what a run predicts that has workers in place of ranks; None for a training.
    `withheld` has the places, named as in `texts`, of values that were left out of the record.
    """

    target: Target
    num_processes: Index = launch_option(
        1,
        "--num-processes",
        RANKS,
        short="-n",
        metavar="N|MIN:MAX",
        help="World size; with MIN:MAX, as many as there is room for.",
        doc="The world size; with `min_processes`, the most.",
        row="processes",
    )
    min_processes: int | None = launch_option(
        None,
        "",
        WHOLE,
        doc="Go on with fewer ranks than `num_processes`, but no fewer than this.",
        row="processes",
        setting="",
    )
    mode: Mode = launch_option(
        DEFAULT_MODE,
        "--mode",
        one_of(Mode),
        help="Where: by default local, or what --master and --remote say.",
        doc='"local" (this machine), "cluster" (a Spark cluster) or "connect" (through a Spark Connect '
        "server). Cluster mode uses the Spark session that is active here, of either kind.",
        row="mode",
        noun="mode",
    )
    gpu: bool | None = launch_option(
        None,
        "--gpu/--no-gpu",
        SWITCH,
        help="Demand or hide GPUs; by default they are used if there are enough.",
        doc="True demands GPUs for every rank, False hides them, None takes GPUs if there are enough.",
        row="gpu",
    )
    workdir: str = launch_option(
        "",
        "--workdir",
        PATH,
        help="The ranks' working directory.",
        doc="The ranks' working directory; the caller's by default.",
        label="Work folder",
        hint="the ranks' own; empty: this one",
    )
    python: str = launch_option(
        "",
        "--python",
        INTERPRETER,
        metavar="PATH",
        help="The ranks' interpreter.",
        doc="The ranks' interpreter, Python 3.11 or newer: a path, or a name on their PATH. By default the "
        "caller's own on this machine, and the executors' own on a cluster.",
        label="Python",
        hint="the ranks' interpreter",
    )
    name: str = launch_option(
        "", "--name", TEXT, help="A label for people.", label="Name", hint="a label for people"
    )
    gpus_per_rank: int = launch_option(
        1,
        "--gpus-per-rank",
        WHOLE,
        metavar="K",
        help="GPUs of each rank.",
        doc="GPUs that each rank has for itself.",
        label="GPUs a rank",
        hint="{}",
        noun="number of GPUs of a rank",
        least=1,
        most=MOST_INDEX,
    )
    ranks_per_gpu: int = launch_option(
        1,
        "--ranks-per-gpu",
        WHOLE,
        metavar="K",
        help="Ranks on each GPU; with more than 1 they need gloo, not NCCL.",
        doc="Ranks that share each GPU. Each finds its own at its local rank modulo the number that it sees. "
        "They need gloo: NCCL refuses two ranks on one GPU.",
        label="Ranks a GPU",
        hint="{}",
        noun="number of ranks of a GPU",
        least=1,
        most=MOST_INDEX,
    )
    gpus_per_task: int | None = launch_option(
        None,
        "--gpus-per-task",
        WHOLE,
        metavar="K",
        help="GPUs of one Spark task, whose ranks share it.",
        label="GPUs a task",
        hint="one rank a task",
        group=SPARK,
        noun="number of GPUs of a task",
        least=1,
        most=MOST_INDEX,
    )
    max_restarts: int = launch_option(
        0,
        "--max-restarts",
        WHOLE,
        metavar="N",
        help="Start a failed gang again.",
        doc="How often the gang may be started again after a failure or a loss.",
        label="Restarts",
        hint="{}; after a failure or a loss",
        noun="number of restarts",
        least=0,
        most=MOST_INDEX,
    )
    start_timeout_s: float = launch_option(
        600.0,
        "--start-timeout",
        SECONDS,
        metavar="S",
        help="How long to wait for slots.",
        doc="Seconds that the run may wait for slots and agents.",
        label="Start limit",
        hint="{} s to wait for slots",
        noun="start limit",
        least=0,
    )
    timeout_s: float | None = launch_option(
        None,
        "--timeout",
        SECONDS,
        metavar="S",
        help="Stop the run after so many seconds (exit 124).",
        doc="The run's time limit in seconds.",
        label="Time limit",
        hint="seconds; none",
        noun="time limit",
        least=0,
    )
    no_progress_timeout_s: float | None = launch_option(
        None,
        "--no-progress-timeout",
        SECONDS,
        metavar="S",
        help="Stop it when no rank has written, reported or returned anything for so long (exit 125).",
        doc="Seconds without output, report or step after which the gang counts as hung.",
        label="No progress",
        hint="seconds; no limit",
        noun="limit without progress",
        least=0,
    )
    grace_s: float = launch_option(
        10.0,
        "--grace",
        SECONDS,
        metavar="S",
        help="From SIGTERM to SIGKILL.",
        doc="Seconds between SIGTERM and SIGKILL when a run is stopped.",
        label="Grace",
        hint="{} s from SIGTERM to SIGKILL",
        noun="grace period",
        least=0,
    )
    sample_s: float = launch_option(
        1.0,
        "--sample-interval",
        SECONDS,
        metavar="S",
        doc="Seconds between device samples.",
        label="Sampled each",
        hint="{} s",
        noun="sample interval",
        above=0,
    )
    env: Mapping[str, str] = launch_option(
        dict,
        "--env",
        VARIABLES,
        metavar="K=V|K",
        help="Addition to the ranks' environment; K alone copies yours.",
        doc="Additions to the ranks' environment, on top of the caller's.",
        label="Environment",
        hint="NCCL_DEBUG=WARN NAME='a b' COPIED",
    )
    env_all: bool = launch_option(
        False,
        "--env-all",
        FLAG,
        help="Copy your whole environment, but for what belongs to this host.",
        doc="Whether ranks on other hosts get all of the caller's variables that do not belong to its host, "
        "and not only those that configure training.",
        label="Whole environment",
        hint="yes: all that is not of this host",
        group=SPARK,
    )
    framework: str = launch_option(
        "",
        "--framework",
        TEXT,
        metavar="NAME",
        help="By whose rules ranks meet; by default that of the target's imports, else torch.",
        doc='The framework by whose rules ranks get their places: "torch", "deepspeed", "lightning" or '
        "another of the registry; by default the one that the target imports, else torch's. "
        '"none" is for ranks that are not meant to meet.',
        label="Framework",
        hint="by the target's imports",
    )
    roles: Mapping[str, Index] = launch_option(
        dict,
        "--role",
        COUNTS,
        metavar="NAME=N",
        help="How many ranks have another role: TensorFlow's chief=1 and evaluator=1.",
        doc="How many ranks have a role other than the usual one of their framework: TensorFlow's "
        '``{"chief": 1, "evaluator": 1}``.',
        label="Roles",
        hint="chief=1 evaluator=1",
        setting="",
    )
    deepspeed_config: str = launch_option(
        "",
        "--deepspeed-config",
        CONFIG,
        metavar="FILE",
        help="DeepSpeed's configuration, for scripts that take --deepspeed_config.",
        doc="DeepSpeed's configuration: a dict, or the path of a JSON file. A script that takes "
        "``--deepspeed_config`` gets it, on every host.",
        label="DeepSpeed",
        hint="a JSON file",
    )
    ray_options: Mapping[str, str] = launch_option(
        dict,
        "--ray-option",
        PAIRS,
        metavar="NAME=VALUE",
        help="An option of `ray start` for every Ray node: object-store-memory=2000000000.",
        doc='Options of ``ray start`` for every Ray node, such as ``{"object-store-memory": "2000000000"}``.',
        label="Ray",
        hint="object-store-memory=2000000000",
        setting="",
    )
    require_group: bool = launch_option(
        False,
        "--require-group",
        FLAG,
        help="Fail (exit 76) if no rank joins a group with others.",
        doc="Whether the run fails if all ranks end well, but none has joined a group with others.",
        label="Group",
        hint="yes: required",
    )
    fresh: bool = launch_option(
        False,
        "--fresh",
        FLAG,
        help="Start every rank in an interpreter of its own, and not as a fork.",
        doc="Whether every rank starts in a fresh interpreter, and not as a fork of a process that has "
        "imported torch already.",
        label="Fresh",
        hint="yes: no warm ranks",
    )
    record_locals: bool = launch_option(
        False,
        "--locals",
        FLAG,
        help="When a rank fails, record the values of the failing frame's variables.",
        doc="Whether an exception is recorded with the values of the failing frame's variables: numbers, "
        "texts and short collections of these. Their names, types and shapes are recorded in any case.",
        label="Locals",
        hint="yes: values where it fails",
    )
    track: tuple[str, ...] = launch_option(
        (),
        "--track",
        TRACKER,
        metavar="NAME[=DIR]",
        help="Write reported metrics to mlflow, or to tensorboard[=DIR].",
        doc="Trackers that get what the ranks report: ``mlflow``, ``tensorboard`` or ``tensorboard=DIR``.",
        label="Track",
        hint="mlflow tensorboard=DIR",
    )
    spark: SparkSpec = field(default_factory=SparkSpec)
    files: tuple[str, ...] = launch_option(
        (),
        "--files",
        PATHS,
        metavar="PATH",
        help="Files and folders of any kind to send along.",
        doc="Files and folders that other hosts get, of any kind and size. One below the working directory "
        "keeps its path there; any other lies there by its name.",
        label="Files sent",
        hint="data/ tokenizer.json",
        group=SPARK,
    )
    artifacts_limit: Amount = launch_option(
        10 << 30,
        "--artifacts-limit",
        BYTES,
        metavar="SIZE",
        help="How much of what ranks write on other hosts comes home.",
        doc="The bytes that all files together may have which ranks write in a working folder of ours and "
        "that come home; 0 for none.",
        label="Artifacts",
        hint="{}; 0 for none",
        group=SPARK,
        noun="limit of the artifacts",
        least=0,
        most=MOST_AMOUNT,
    )
    py_files: tuple[str, ...] = launch_option(
        (),
        "--py-files",
        PATHS,
        metavar="PATH",
        help="Python files, folders or zips to send along.",
        label="Sent along",
        hint="lib.zip more.py",
        group=SPARK,
    )
    prediction: Prediction | None = None
    withheld: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.num_processes < 1:
            raise SpecError(f"the number of processes must be at least 1, not {self.num_processes}")
        if self.num_processes > MOST_INDEX:
            raise SpecError(f"the number of processes must be {MOST_INDEX:,} or less")
        if self.min_processes is not None and not 1 <= self.min_processes <= self.num_processes:
            raise SpecError(
                f"the least number of processes must be 1 to {self.num_processes}, not {self.min_processes}"
            )
        self._check_gpus()
        self._check_roles()
        check_bounds(self)
        _check_environ(self.env)
        if self.prediction is not None and not self.mode.traits.scheduled:
            raise SpecError(
                "a prediction runs in tasks of Spark, and the mode is local",
                hint="--mode cluster or connect; a master of local[*] will do",
            )
        for text in (self.workdir, self.target.source, self.target.name, self.spark.spool, self.python):
            if "\0" in text:
                raise SpecError("no path and no name can hold a NUL character")

    def _check_gpus(self) -> None:
        if self.gpus_per_rank < 1:
            raise SpecError(f"a rank can have 1 GPU or more, not {self.gpus_per_rank}", hint="use --no-gpu")
        if self.ranks_per_gpu < 1:
            raise SpecError(f"a GPU can have 1 rank or more, not {self.ranks_per_gpu}", hint="use --no-gpu")
        if self.ranks_per_gpu > 1 and self.gpus_per_rank > 1:
            raise SpecError(
                f"a rank cannot have {self.gpus_per_rank} GPUs and share one",
                hint="give --gpus-per-rank or --ranks-per-gpu",
            )
        task = self.gpus_per_task
        if task is not None and (task < 1 or task % self.gpus_per_rank):
            raise SpecError(
                f"the GPUs of a task must be a multiple of a rank's {self.gpus_per_rank}, and not {task}"
            )
        in_tasks = self.mode.traits.scheduled and self.prediction is None
        if (task is not None or in_tasks) and self.num_processes % self.ranks_per_task:
            raise SpecError(
                f"{counted(self.num_processes, 'rank')} cannot be divided among tasks"
                f" of {counted(self.ranks_per_task, 'rank')} each"
            )

    def _check_roles(self) -> None:
        if wrong := next((name for name, count in self.roles.items() if count < 1), None):
            raise SpecError(f"a role is for 1 rank or more, not {self.roles[wrong]} as {wrong}")
        if (total := sum(self.roles.values())) > self.least:
            raise SpecError(f"{counted(self.least, 'rank')} cannot have {total} roles")

    @property
    def ranks_per_task(self) -> int:
        """How many ranks one Spark task holds."""
        return (self.gpus_per_task or self.gpus_per_rank) // self.gpus_per_rank * self.ranks_per_gpu

    @property
    def most(self) -> int:
        """How many ranks there may be; the workers of a prediction come as Spark starts them."""
        return self.num_processes if self.prediction is None else MOST_WORKERS

    @property
    def least(self) -> int:
        """The smallest acceptable world size."""
        return self.num_processes if self.min_processes is None else self.min_processes

    @property
    def label(self) -> str:
        """The run's name; without one, the name of what it runs."""
        return self.name or self.target.name or self.target.source.rpartition("/")[2]

    @property
    def texts(self) -> dict[str, str]:
        """All values that are text, by their place: ``env NAME``, ``param NAME``, ``args --option``, …"""
        target = self.target
        texts = {"source": target.source, "function": target.name}
        for each in options_of(JobSpec):
            texts |= texts_in(each, each.value(self))
        if self.prediction is not None:
            for each in PREDICT_OPTIONS:
                texts |= texts_in(each, each.value(self.prediction))
        texts |= {f"param {name}": value for name, value in target.kwargs}
        return texts | dict(zip(argument_places(target.args), target.args, strict=True))

    def with_texts(self, texts: Mapping[str, str]) -> JobSpec:
        """The same with other texts in some places; places that it does not have are ignored."""
        get, target = texts.get, self.target
        args = zip(argument_places(target.args), target.args, strict=True)
        other = replace(
            target,
            source=get("source", target.source),
            name=get("function", target.name),
            args=tuple(get(place, word) for place, word in args),
            kwargs=tuple((name, get(f"param {name}", value)) for name, value in target.kwargs),
        )
        options = options_of(JobSpec)
        values = {each.path: with_texts_in(each, each.value(self), texts) for each in options}
        prediction = self.prediction
        if prediction is not None:
            own = {e.name: with_texts_in(e, e.value(prediction), texts) for e in PREDICT_OPTIONS}
            prediction = replace(prediction, **own)
        return replace(self._with(values), target=other, prediction=prediction)

    def with_options(self, values: Mapping[str, Any]) -> JobSpec:
        """The same with other values of some options, by their names.

        Raises:
            SpecError: a value is not allowed.
        """
        by_path = {each.path: values[each.name] for each in options_of(JobSpec) if each.name in values}
        if ranks := by_path.pop(("num_processes",), None):
            by_path |= {("min_processes",): ranks[0], ("num_processes",): ranks[1]}
        return self._with(by_path)

    def _with(self, values: Mapping[tuple[str, ...], Any]) -> JobSpec:
        own = {path[0]: value for path, value in values.items() if len(path) == 1}
        of_spark = {path[1]: value for path, value in values.items() if len(path) == 2}
        return replace(self, spark=replace(self.spark, **of_spark) if of_spark else self.spark, **own)

    def redacted(self) -> JobSpec:
        """The same spec without its secrets; `withheld` names their places."""
        masked = _masked(self, Redactor())
        hidden = [place for place, text in self.texts.items() if masked[place] != text]
        spec = self.with_texts(masked)
        # places are named after the masked words: an option's name may contain the secret too
        renamed = dict(zip(self.texts, spec.texts, strict=True))
        kept = [place for place in self.withheld if REDACTED in spec.texts.get(place, "")]
        return replace(spec, withheld=tuple(dict.fromkeys([*kept, *(renamed[place] for place in hidden)])))

    def private(self) -> dict[str, str]:
        """What `redacted` leaves out, by its place."""
        written = self.redacted()
        return {
            place: text
            for place, text in zip(written.texts, self.texts.values(), strict=True)
            if place in written.withheld
        }

    def secrets(self) -> frozenset[str]:
        """The secrets that are long enough to be masked wherever they occur in other text."""
        redactor = Redactor()
        _masked(self, redactor)
        return frozenset(redactor.known)


_OPTION = re.compile(r"[-+~]*[\w.-]+")


def argument_places(args: Sequence[str]) -> list[str]:
    """The name of each argument's place: its option, if it has one, so that it does not depend on others."""
    seen: Counter[str] = Counter()
    places = []
    for i, (option, word) in enumerate(named_words(args)):
        name = option or ("=" in word and word.partition("=")[0]) or ""
        place = f"args {name if _OPTION.fullmatch(name) else i}"
        seen[place] += 1
        places.append(place if seen[place] == 1 else f"{place} #{seen[place]}")
    return places


def _masked(spec: JobSpec, redactor: Redactor) -> dict[str, str]:
    """The texts without their secrets; a secret that is found in one place is masked in all places."""
    options = iter(named_words(spec.target.args))
    names = {
        place: next(options)[0] if place.startswith("args ") else place.partition(" ")[2]
        for place in spec.texts
    }
    for place, text in spec.texts.items():
        redactor.mask(text, names[place])
    return {place: redactor.mask(text, names[place]) for place, text in spec.texts.items()}


def _check_environ(env: Mapping[Any, Any]) -> None:
    """Refuse variables with which no process can be started; a notebook may pass numbers instead of text."""
    for key, value in env.items():
        if not isinstance(key, str) or not key or "=" in key or "\0" in key:
            raise SpecError(f"{key!r} cannot be the name of an environment variable")
        if not isinstance(value, str) or "\0" in value:
            raise SpecError(f"the environment variable {key} must be text without NUL, not {value!r}")


LAUNCH_OPTIONS = (*options_of(JobSpec), *options_of(Target, "target"))
"""All launch options."""


def applies(option: Option, mode: Mode) -> bool:
    """Whether an option has an effect in a mode."""
    return not option.group or option.group in mode.traits.takes


def without_effect(option: Option, mode: Mode) -> SpecError:
    """The error for an option that is given and does not apply in a mode."""
    return SpecError(
        f"{option.flag_name} is for {option.group.capitalize()}, and the mode is {mode}",
        hint=f"add --mode {' or '.join(modes_taking(option.group))}",
    )


def as_literal(value: Any) -> str:
    """A value as Python source that `ast.literal_eval` turns back into it."""
    return repr(value)
