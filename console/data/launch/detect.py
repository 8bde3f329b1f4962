"""What this machine and its environment offer a launch: cores, GPUs, Spark, Java; and lines that describe it.

`look` inspects the machine and must be called in a thread. `named_master` reads files; the rest is pure.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from launcher.errors import LauncherError
from launcher.spec.job import SparkSpec, world_size
from launcher.spec.modes import SPARK, Mode

from ...formatting import device_model, number
from .draft import Draft, fitting, spark_at

_ANSWER_S = 5.0
_IDLE_BYTES = 1 << 30
_IDLE_SHARE = 0.05
_CONNECT_NEEDS = {"pandas": "pandas", "pyarrow": "pyarrow", "grpcio": "grpc", "grpcio-status": "grpc_status"}
_SIZES = ("gpus_per_rank", "ranks_per_gpu", "gpus_per_task")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]")


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU that a local run could use, with its used and total memory in bytes; None if unknown."""

    name: str
    used: int | None = None
    total: int | None = None

    @property
    def free(self) -> bool | None:
        """Whether it is idle, judged by its used memory; None if that is unknown."""
        if self.used is None:
            return None
        return self.used < max(_IDLE_BYTES, _IDLE_SHARE * (self.total or 0))


@dataclass(frozen=True, slots=True)
class Detected:
    """What this machine offers.

    Attributes:
        cores: the number of cores that this process may use.
        gpus, gpu_reason: the GPUs that a local run may use, and why there are none.
        spark: the version of the installed pyspark; empty if there is none.
        home: the folder of the Spark that would run.
        java: why Spark has no usable Java; empty if it has one.
        connect: the missing packages that Spark Connect needs.
        environ: the environment variables.
        defaults: the settings of ``spark-defaults.conf``; None without pyspark.
    """

    cores: int
    gpus: tuple[Gpu, ...] = ()
    gpu_reason: str = ""
    spark: str = ""
    home: Path = Path()
    java: str = ""
    connect: tuple[str, ...] = ()
    environ: Mapping[str, str] | None = None
    defaults: Mapping[str, str] | None = None


def look(environ: Mapping[str, str]) -> Detected:
    """Inspect this machine. Imports neither pyspark nor its dependencies."""
    from launcher.backends.spark.config import spark_environment

    gpus, reason = _gpus(environ)
    has_pyspark = util.find_spec("pyspark") is not None
    home = _spark_home(environ) or Path()
    return Detected(
        cores=len(os.sched_getaffinity(0)),
        gpus=gpus,
        gpu_reason=reason,
        spark=_version("pyspark") if has_pyspark else "",
        home=home,
        java=_java_trouble(environ),
        connect=tuple(name for name, module in _CONNECT_NEEDS.items() if util.find_spec(module) is None),
        environ=dict(environ),
        defaults=spark_environment(environ, home).defaults if has_pyspark else None,
    )


def named_master(environ: Mapping[str, str] = os.environ) -> str:
    """The standalone master that the environment or ``spark-defaults.conf`` names; empty if there is none."""
    from launcher.backends.spark.config import choose_spark, spark_environment

    if not (home := _spark_home(environ)):
        return ""
    try:
        choice = choose_spark(SparkSpec(), spark_environment(environ, home), 1, server=False)
    except LauncherError:
        return ""
    return choice.url if choice.url.startswith("spark://") else ""


def _spark_home(environ: Mapping[str, str]) -> Path | None:
    """The folder of the Spark that would run; None if there is none."""
    pyspark = util.find_spec("pyspark")
    home = environ.get("SPARK_HOME") or (
        os.path.dirname(pyspark.origin) if pyspark and pyspark.origin else ""
    )
    return Path(home) if home else None


def _gpus(environ: Mapping[str, str]) -> tuple[tuple[Gpu, ...], str]:
    from launcher.agent import gpus, nvml

    inventory = gpus.discover(environ, limit_s=_ANSWER_S)
    if not inventory.devices:
        return (), inventory.reason
    try:
        session = nvml.open_session()
    except nvml.NoAnswer:
        return tuple(Gpu(d.name, total=d.memory) for d in inventory.devices), inventory.reason
    used = [session.read(device.uuid).memory_used for device in inventory.devices]
    session.close()
    pairs = zip(inventory.devices, used, strict=True)
    return tuple(Gpu(d.name, taken, d.memory) for d, taken in pairs), inventory.reason


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "of unknown version"


def _java_trouble(environ: Mapping[str, str]) -> str:
    home = environ.get("JAVA_HOME", "")
    if home:
        return "" if os.access(Path(home, "bin", "java"), os.X_OK) else f"JAVA_HOME={home} holds no bin/java"
    java = shutil.which("java", path=environ.get("PATH", os.defpath))
    return "" if java else "there is no java on PATH"


def mode_line(detected: Detected, draft: Draft) -> tuple[bool, str]:
    """Whether the draft's mode can work here as far as known, and a line on where it runs or why not."""
    traits = draft.mode.traits
    if traits.one_host:
        return True, f"{traits.place}: {cores(detected)}, {_gpu_words(detected)}"
    if SPARK not in traits.takes:
        return True, traits.place
    if missing := _missing(detected, draft.mode):
        return False, missing
    try:
        address = _spark_address(detected, draft)
    except LauncherError as error:
        return False, error.message
    return True, f"Spark {detected.spark}, {address}"


def _missing(detected: Detected, mode: Mode) -> str:
    if not detected.spark:
        return "pyspark is not installed (pip install pyspark)"
    if mode.traits.needs_java and detected.java:
        return f"Java 17 or newer is needed: {detected.java}"
    if mode.traits.through_server and detected.connect:
        return f"not installed: {', '.join(detected.connect)} (pip install 'pyspark[connect]')"
    return ""


def _spark_address(detected: Detected, draft: Draft) -> str:
    """The Spark that a launch would use, and the source of its address."""
    from launcher.backends.spark.config import SparkEnvironment, choose_spark

    spec = spark_at(draft.mode, draft.spark.strip())
    environment = SparkEnvironment(detected.environ or {}, detected.home, detected.defaults or {})
    choice = choose_spark(spec, environment, _max_ranks(draft), server=draft.mode.traits.through_server)
    if choice.embedded:
        return f"no master is named: {choice.url} in this machine"
    return "as filled in" if choice.origin in ("--master", "--remote") else f"{choice.url} by {choice.origin}"


def room_line(detected: Detected | None, draft: Draft) -> str:
    """How the ranks are divided into nodes or tasks, and which GPUs, cores or slots are free for them."""
    try:
        least, most = world_size(draft.processes)
        tasks, each = tasks_of(draft, most)
    except LauncherError:
        return ""
    upto = "" if least is None else f"{least} to "
    if draft.mode.traits.one_host:
        free = f" · {_free_words(detected)}" if detected else ""
        return f"1 node × {upto}{most}{free}"
    slots = slots_of(draft.spark.strip())
    room = f" · {slots}" if slots else " · free slots: Spark will say"
    return f"{number(tasks, 'task')} × {number(each, 'rank')}{room}"


def tasks_of(draft: Draft, most: int) -> tuple[int, int]:
    """The number of tasks, and of ranks in each."""
    sizes = ((e, text) for e, text in fitting(draft.extras, draft.mode) if e.name in _SIZES)
    counts = {e.name: e.read_text(text, draft.workdir) for e, text in sizes}
    task, rank = counts.get("gpus_per_task"), counts.get("gpus_per_rank", 1)
    each = max(1, (task or rank) // max(rank, 1)) * max(1, counts.get("ranks_per_gpu", 1))
    return -(-most // each), each


def _max_ranks(draft: Draft) -> int:
    try:
        return max(1, world_size(draft.processes)[1])
    except LauncherError:
        return 1


def slots_of(master: str) -> str:
    """The slots that a local master's URL names; empty for other masters."""
    if match := _LOCAL_CLUSTER.fullmatch(master):
        return f"{number(int(match[1]), 'host')} × {number(int(match[2]), 'slot')}"
    match = re.fullmatch(r"local\[(\d+)\]", master)
    return number(int(match[1]), "slot") if match else ""


def cores(detected: Detected) -> str:
    """The number of cores, as text."""
    return f"{number(detected.cores, 'core')}"


def _gpu_words(detected: Detected) -> str:
    if not detected.gpus:
        return detected.gpu_reason or "no GPU"
    return _free_gpus(detected.gpus)


def _free_words(detected: Detected) -> str:
    return _free_gpus(detected.gpus) if detected.gpus else cores(detected)


def _free_gpus(gpus: Sequence[Gpu]) -> str:
    count = f"{number(len(gpus), 'GPU')}"
    states = [gpu.free for gpu in gpus]
    return f"{sum(map(bool, states))} of {count} free" if None not in states else count


def machine_line(detected: Detected) -> str:
    """What this machine has, in a line: its GPUs, how many are free, its cores."""
    models = sorted({device_model(gpu.name) for gpu in detected.gpus})
    gpus = f"{_free_gpus(detected.gpus)}, {', '.join(models)}" if detected.gpus else "no GPU"
    return f"{gpus} · {cores(detected)}"


Line = tuple[str, str]
