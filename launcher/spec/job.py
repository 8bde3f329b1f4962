"""What to run, and where each rank goes: frozen values, checked when they are made.

Nothing here touches the file system; whether a file exists or a function takes a parameter is
`launcher.spec.target`'s to say.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from ..errors import SpecError
from ..serialization import Index
from .modes import DEFAULT_MODE
from .modes import Mode as Mode
from .redaction import REDACTED, Redactor, named_words


class TargetKind(StrEnum):
    """What the target is: a script, a function found by name, or a pickled callable."""

    SCRIPT = "script"
    FUNCTION = "function"
    CALLABLE = "callable"


@dataclass(frozen=True, slots=True)
class Target:
    """The program that every rank runs.

    Attributes:
        kind: script, function or callable.
        source: path of a file, or dotted name of a module; for a callable, where it was defined.
        name: the function's name; empty for a script.
        args: a script's argv; a function's positional arguments as Python literals.
        kwargs: a function's keyword arguments as Python literals, in order.
        pickled: the arguments (or the callable with them) travel as a pickle beside this value, and
            `args` and `kwargs` are their representations, for people only.
    """

    kind: TargetKind
    source: str
    name: str = ""
    args: tuple[str, ...] = ()
    kwargs: tuple[tuple[str, str], ...] = ()
    pickled: bool = False

    @property
    def label(self) -> str:
        """The target as a person would type it, without arguments."""
        return f"{self.source}:{self.name}" if self.name else self.source

    @property
    def arguments(self) -> str:
        """What it is given, in one line for people."""
        return " ".join([*map(shlex.quote, self.args), *(f"{k}={v}" for k, v in self.kwargs)])

    @property
    def is_file(self) -> bool:
        """Whether `source` is a path rather than a dotted module name."""
        return self.source.endswith(".py") or "/" in self.source


@dataclass(frozen=True, slots=True)
class SparkSpec:
    """Which Spark, and how its executors reach the run.

    Attributes:
        master: a master URL such as ``spark://host:7077``; empty for what the environment says.
        remote: a Connect server such as ``sc://host:15002``; empty for what the environment says.
        conf: Spark's own settings, on top of spark-defaults.
        listen: ``host``, ``host:port`` or ``:port`` at which agents are waited for; empty for the driver's
            own address and any port.
        spool: a folder on storage that this machine and the executors share, for output where executors
            cannot reach this machine.
        lost_after_s: seconds of silence after which an agent's host counts as lost.
    """

    master: str = ""
    remote: str = ""
    conf: Mapping[str, str] = field(default_factory=dict)
    listen: str = ""
    spool: str = ""
    lost_after_s: float = 20.0

    def __post_init__(self) -> None:
        if not self.lost_after_s > 0:
            raise SpecError(f"an agent's silence must be allowed some seconds, not {self.lost_after_s}")
        if self.master and self.remote:
            raise SpecError("--master and --remote name two different Sparks: give one of them")
        if self.master.startswith("sc://"):
            raise SpecError(f"{self.master} is a Connect server, not a master", hint="give it with --remote")


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One run, as asked for.

    Attributes:
        target: what every rank runs.
        num_processes: the world size, at least 1; with `min_processes`, the most.
        min_processes: the least number of ranks that the run goes on with, or None for no fewer.
        mode: local, cluster or connect.
        gpu: True demands GPUs for every rank, False hides them, None takes GPUs if there are enough.
        gpus_per_rank: GPUs that each rank has for itself.
        gpus_per_task: GPUs of one Spark task; its ranks are this divided by `gpus_per_rank`. None: one
            rank a task.
        max_restarts: how often the gang may be started again after a failure or a loss.
        start_timeout_s: seconds that the run may wait for slots and agents.
        py_files: Python files, folders and zips that ranks can import, beyond what lies beside the target.
        spark: which Spark, for the cluster modes.
        name: a label for people; defaults to the target's own name.
        workdir: the ranks' working directory; an absolute path.
        env: additions to the ranks' environment, on top of the caller's.
        grace_s: seconds between SIGTERM and SIGKILL.
        timeout_s: wall-clock limit of the run, or None.
        sample_s: seconds between device samples.
        no_progress_timeout_s: seconds without output, report or step after which the gang counts as hung, or
            None.
        withheld: the places, as `texts` calls them, of values that were not written down.
    """

    target: Target
    num_processes: Index = 1
    mode: Mode = DEFAULT_MODE
    gpu: bool | None = None
    name: str = ""
    workdir: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    grace_s: float = 10.0
    timeout_s: float | None = None
    sample_s: float = 1.0
    min_processes: int | None = None
    gpus_per_rank: int = 1
    gpus_per_task: int | None = None
    max_restarts: int = 0
    start_timeout_s: float = 600.0
    py_files: tuple[str, ...] = ()
    spark: SparkSpec = field(default_factory=SparkSpec)
    no_progress_timeout_s: float | None = None
    withheld: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.num_processes < 1:
            raise SpecError(f"the number of processes must be at least 1, not {self.num_processes}")
        if self.min_processes is not None and not 1 <= self.min_processes <= self.num_processes:
            raise SpecError(
                f"the least number of processes must be 1 to {self.num_processes}, not {self.min_processes}"
            )
        limits = {
            "grace period": self.grace_s,
            "time limit": self.timeout_s,
            "start limit": self.start_timeout_s,
            "limit without progress": self.no_progress_timeout_s,
        }
        for label, value in limits.items():
            if value is not None and not value >= 0:
                raise SpecError(f"the {label} must be 0 or more seconds, not {value}")
        if self.max_restarts < 0:
            raise SpecError(f"the number of restarts must be 0 or more, not {self.max_restarts}")
        self._check_gpus()
        if not self.sample_s > 0:
            raise SpecError(f"the sample interval must be more than 0 seconds, not {self.sample_s}")
        _check_environ(self.env)
        for text in (self.workdir, self.target.source, self.target.name, self.spark.spool):
            if "\0" in text:
                raise SpecError("no path and no name can hold a NUL character")

    def _check_gpus(self) -> None:
        if self.gpus_per_rank < 1:
            raise SpecError(f"a rank can have 1 GPU or more, not {self.gpus_per_rank}", hint="use --no-gpu")
        task = self.gpus_per_task
        if task is None:
            return
        if task < 1 or task % self.gpus_per_rank:
            raise SpecError(
                f"the GPUs of a task must be a multiple of a rank's {self.gpus_per_rank}, and not {task}"
            )
        if self.num_processes % self.ranks_per_task:
            raise SpecError(
                f"{self.num_processes} ranks do not divide among tasks of {self.ranks_per_task} ranks each"
            )

    @property
    def ranks_per_task(self) -> int:
        """How many ranks one Spark task holds."""
        return (self.gpus_per_task or self.gpus_per_rank) // self.gpus_per_rank

    @property
    def least(self) -> int:
        """The least world size that will do."""
        return self.num_processes if self.min_processes is None else self.min_processes

    @property
    def label(self) -> str:
        """The run's name, or what it runs if it was given none."""
        return self.name or self.target.name or self.target.source.rpartition("/")[2]

    @property
    def texts(self) -> dict[str, str]:
        """All that was given as text, by its place: ``env NAME``, ``param NAME``, ``args --option``, …"""
        target, spark = self.target, self.spark
        found = {"name": self.name, "source": target.source, "function": target.name, "workdir": self.workdir}
        found |= {
            "master": spark.master,
            "remote": spark.remote,
            "listen": spark.listen,
            "spool": spark.spool,
        }
        for kind, values in (("env", self.env), ("conf", spark.conf), ("param", dict(target.kwargs))):
            found |= {f"{kind} {name}": value for name, value in values.items()}
        found |= {f"py-files {i}": path for i, path in enumerate(self.py_files)}
        return found | dict(zip(argument_places(target.args), target.args, strict=True))

    def with_texts(self, texts: Mapping[str, str]) -> JobSpec:
        """The same with other texts in some places; places that it does not have are passed over."""
        get, target, spark = texts.get, self.target, self.spark
        args = zip(argument_places(target.args), target.args, strict=True)
        return replace(
            self,
            name=get("name", self.name),
            workdir=get("workdir", self.workdir),
            env={name: get(f"env {name}", value) for name, value in self.env.items()},
            py_files=tuple(get(f"py-files {i}", path) for i, path in enumerate(self.py_files)),
            target=replace(
                target,
                source=get("source", target.source),
                name=get("function", target.name),
                args=tuple(get(place, word) for place, word in args),
                kwargs=tuple((name, get(f"param {name}", value)) for name, value in target.kwargs),
            ),
            spark=replace(
                spark,
                master=get("master", spark.master),
                remote=get("remote", spark.remote),
                listen=get("listen", spark.listen),
                spool=get("spool", spark.spool),
                conf={name: get(f"conf {name}", value) for name, value in spark.conf.items()},
            ),
        )

    def redacted(self) -> JobSpec:
        """The same spec without what is secret in it; `withheld` says where that was."""
        masked = _masked(self, Redactor())
        hidden = [place for place, text in self.texts.items() if masked[place] != text]
        spec = self.with_texts(masked)
        # places are called by the masked words: an option's name may hold the secret too
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
        """The secrets themselves, as far as they can be told from other text wherever they occur."""
        redactor = Redactor()
        _masked(self, redactor)
        return frozenset(redactor.known)


_OPTION = re.compile(r"[-+~]*[\w.-]+")


def argument_places(args: Sequence[str]) -> list[str]:
    """What each argument's place is called: by its option, if it has one, so that others may come and go."""
    seen: Counter[str] = Counter()
    places = []
    for i, (option, word) in enumerate(named_words(args)):
        name = option or ("=" in word and word.partition("=")[0]) or ""
        place = f"args {name if _OPTION.fullmatch(name) else i}"
        seen[place] += 1
        places.append(place if seen[place] == 1 else f"{place} #{seen[place]}")
    return places


def _masked(spec: JobSpec, redactor: Redactor) -> dict[str, str]:
    """The texts without their secrets, each of which may stand in several places."""
    options = iter(named_words(spec.target.args))
    names = {
        place: next(options)[0] if place.startswith("args ") else place.partition(" ")[2]
        for place in spec.texts
    }
    for place, text in spec.texts.items():
        redactor.mask(text, names[place])
    return {place: redactor.mask(text, names[place]) for place, text in spec.texts.items()}


def world_size(text: str) -> tuple[int | None, int]:
    """What ``4`` and ``2:4`` mean as a number of ranks: the least if one was given, and the most.

    Raises:
        SpecError: neither form.
    """
    match = re.fullmatch(r"\s*(?:(\d{1,9})\s*:\s*)?(-?\d{1,9})\s*", text)
    if match is None:
        raise SpecError(f"the number of processes must be a whole number, or MIN:MAX, not {text!r}")
    return (int(match[1]) if match[1] else None), int(match[2])


def _check_environ(env: Mapping[Any, Any]) -> None:
    """What no process can be started with is refused here; a notebook may give numbers for text."""
    for key, value in env.items():
        if not isinstance(key, str) or not key or "=" in key or "\0" in key:
            raise SpecError(f"{key!r} cannot be the name of an environment variable")
        if not isinstance(value, str) or "\0" in value:
            raise SpecError(f"the environment variable {key} must be text without NUL, not {value!r}")


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU of a host, as NVML names it."""

    index: Index
    uuid: str
    name: str = ""
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """What one agent can hold.

    Attributes:
        agent: its number.
        host: which host it is on; agents that name the same host share it.
        cores: the cores that are its own.
        devices: the GPUs that it may use.
        slots: how many ranks it can hold; None for any number.
        exclusive: whether `devices` are this agent's alone, because a scheduler granted them to it; else
            they are all that the host has, and the agents of that host divide them.
    """

    agent: int
    host: str
    cores: int
    devices: tuple[Device, ...] = ()
    slots: int | None = None
    exclusive: bool = True


@dataclass(frozen=True, slots=True)
class Assignment:
    """One rank's place. Local ranks are counted by host, and ranks of one host are contiguous.

    Attributes:
        rank, world_size: place in the gang.
        local_rank, local_world_size: place on the host.
        node_rank, node_count: place of the host.
        agent: the agent that supervises it.
        devices: the GPUs that are this rank's own; empty on CPU.
        visible: what CUDA_VISIBLE_DEVICES says, or None to leave it alone. With one GPU a rank, every GPU
            of the gang on this host is named, in local-rank order, because scripts select
            ``cuda:LOCAL_RANK``; a rank with several GPUs sees its own alone.
        threads: the rank's share of the host's cores.
    """

    rank: Index
    world_size: Index
    local_rank: Index
    local_world_size: Index
    node_rank: Index
    node_count: Index
    agent: Index
    host: str
    devices: tuple[Device, ...] = ()
    visible: str | None = None
    threads: int = 1


def as_literal(value: Any) -> str:
    """A value as Python source that `ast.literal_eval` turns back into it."""
    return repr(value)
