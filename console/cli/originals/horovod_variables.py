"""The options of horovodrun that become Horovod's variables, and their keys in its configuration file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.errors import SpecError

from .base import ParsedLine, Row, quoted

_WHO = "horovodrun"


@dataclass(frozen=True, slots=True)
class Knob:
    """An option that becomes a variable of Horovod's.

    Attributes:
        names: its spellings.
        variable: the variable.
        place: the section and the key of its value in a configuration file; the key of a switch that says the
            opposite begins with an exclamation mark.
        kind: converts the value; bool for a switch.
        opposite: the spellings that switch it off.
        factor: what the value is multiplied by; a switch that says the opposite of its variable has -1.
        only_with: the knob without whose value this one says nothing.
        most: the highest allowed value.
        choices: the allowed values; empty for any.
    """

    names: str
    variable: str
    place: str
    kind: Callable[[str], Any] = bool
    opposite: str = ""
    factor: int = 1
    only_with: str = ""
    most: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def dest(self) -> str:
        """The name of its value."""
        return self.names.split()[0].removeprefix("--").replace("-", "_")

    @property
    def rows(self) -> tuple[Row, ...]:
        """Its options."""
        does = f"Sets {self.variable}."
        if self.kind is not bool:
            return (Row(self.names, does, kind=self.kind, dest=self.dest, choices=self.choices),)
        yes = Row(self.names, does, words=0, value=True, dest=self.dest, excludes=self.dest)
        return yes, Row(self.opposite, does, words=0, value=False, dest=self.dest, excludes=self.dest)

    def text(self, value: Any) -> str:
        """A value as that of the variable.

        Raises:
            SpecError: it is out of bounds.
        """
        if self.kind is bool:
            return str(int(bool(value) is (self.factor > 0)))
        if self.kind in (int, float):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise SpecError(f"{_WHO} {self.names} takes a number, not {quoted(str(value))}")
            if not 0 <= value <= (self.most or float("inf")):
                most = f" to {self.most:g}" if self.most else " or more"
                raise SpecError(f"{_WHO} {self.names} takes 0{most}, not {value}")
            value *= self.factor
        elif not isinstance(value, str):
            raise SpecError(f"{_WHO} {self.names} takes a text, not {quoted(str(value))}")
        elif self.choices and value.upper() not in self.choices:
            allowed = ", ".join(self.choices)
            raise SpecError(f"{_WHO} {self.names} takes one of {allowed}, not {quoted(value)}")
        return str(value)


KNOBS = (
    Knob(
        "--fusion-threshold-mb", "HOROVOD_FUSION_THRESHOLD", "params.fusion_threshold_mb", int, factor=1 << 20
    ),
    Knob("--cycle-time-ms", "HOROVOD_CYCLE_TIME", "params.cycle_time_ms", float),
    Knob("--cache-capacity", "HOROVOD_CACHE_CAPACITY", "params.cache_capacity", int),
    Knob(
        "--hierarchical-allreduce",
        "HOROVOD_HIERARCHICAL_ALLREDUCE",
        "params.hierarchical_allreduce",
        opposite="--no-hierarchical-allreduce",
    ),
    Knob(
        "--hierarchical-allgather",
        "HOROVOD_HIERARCHICAL_ALLGATHER",
        "params.hierarchical_allgather",
        opposite="--no-hierarchical-allgather",
    ),
    Knob(
        "--torus-allreduce",
        "HOROVOD_TORUS_ALLREDUCE",
        "params.torus_allreduce",
        opposite="--no-torus-allreduce",
    ),
    Knob(
        "--autotune", "HOROVOD_AUTOTUNE", "autotune.enabled", opposite="--no-autotune", only_with="autotune"
    ),
    Knob("--autotune-log-file", "HOROVOD_AUTOTUNE_LOG", "autotune.log_file", str, only_with="autotune"),
    Knob(
        "--autotune-warmup-samples",
        "HOROVOD_AUTOTUNE_WARMUP_SAMPLES",
        "autotune.warmup_samples",
        int,
        only_with="autotune",
    ),
    Knob(
        "--autotune-steps-per-sample",
        "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE",
        "autotune.steps_per_sample",
        int,
        only_with="autotune",
    ),
    Knob(
        "--autotune-bayes-opt-max-samples",
        "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES",
        "autotune.bayes_opt_max_samples",
        int,
        only_with="autotune",
    ),
    Knob(
        "--autotune-gaussian-process-noise",
        "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE",
        "autotune.gaussian_process_noise",
        float,
        only_with="autotune",
        most=1,
    ),
    Knob("--timeline-filename", "HOROVOD_TIMELINE", "timeline.filename", str, only_with="timeline_filename"),
    Knob(
        "--timeline-mark-cycles",
        "HOROVOD_TIMELINE_MARK_CYCLES",
        "timeline.mark_cycles",
        opposite="--no-timeline-mark-cycles",
        only_with="timeline_filename",
    ),
    Knob(
        "--no-stall-check",
        "HOROVOD_STALL_CHECK_DISABLE",
        "stall_check.!enabled",
        opposite="--stall-check",
    ),
    Knob(
        "--stall-check-warning-time-seconds",
        "HOROVOD_STALL_CHECK_TIME_SECONDS",
        "stall_check.warning_time_seconds",
        int,
    ),
    Knob(
        "--stall-check-shutdown-time-seconds",
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
        "stall_check.shutdown_time_seconds",
        int,
    ),
    Knob(
        "--mpi-threads-disable",
        "HOROVOD_MPI_THREADS_DISABLE",
        "library_options.mpi_threads_disable",
        opposite="--no-mpi-threads-disable",
    ),
    Knob("--num-nccl-streams", "HOROVOD_NUM_NCCL_STREAMS", "library_options.num_nccl_streams", int),
    Knob("--thread-affinity", "HOROVOD_THREAD_AFFINITY", "library_options.thread_affinity", int),
    Knob(
        "--gloo-timeout-seconds", "HOROVOD_GLOO_TIMEOUT_SECONDS", "library_options.gloo_timeout_seconds", int
    ),
    Knob(
        "--log-with-timestamp --no-log-hide-timestamp",
        "HOROVOD_LOG_HIDE_TIME",
        "logging.with_timestamp",
        opposite="--log-without-timestamp --log-hide-timestamp",
        factor=-1,
    ),
    Knob(
        "--log-level",
        "HOROVOD_LOG_LEVEL",
        "logging.level",
        str,
        choices=("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL"),
    ),
)


def environ_of(line: ParsedLine, config: Mapping[str, Any]) -> dict[str, str]:
    """The variables that the line and the configuration file set.

    Raises:
        SpecError: a value is out of bounds, or the file has another form.
    """
    values = {knob.dest: line.get(knob.dest, _configured(knob, config)) for knob in KNOBS}
    environ = {
        knob.variable: knob.text(value)
        for knob in KNOBS
        if (value := values[knob.dest]) is not None and (not knob.only_with or values.get(knob.only_with))
    }
    if line.get("tcp"):
        environ["NCCL_IB_DISABLE"] = "1"
    if nics := [nic for text in line.get("nics", ()) for nic in text.split(",") if nic]:
        environ |= {"HOROVOD_GLOO_IFACE": nics[0], "NCCL_SOCKET_IFNAME": ",".join(dict.fromkeys(nics))}
    return environ


def _configured(knob: Knob, config: Mapping[str, Any]) -> Any:
    """The value of a knob in the configuration file; None if it has none."""
    name, _, key = knob.place.partition(".")
    section = config.get(name) or {}
    if not isinstance(section, dict):
        raise SpecError(f"{_WHO} --config-file: {name} holds no table")
    value = section.get(key.lstrip("!"))
    return not value if key.startswith("!") and value is not None else value
