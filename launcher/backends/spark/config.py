"""The choice of a run's Spark, its settings, and the addresses at which the run listens for agents."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import SpecError
from ...spec.job import SparkSpec

# A launcher's JVM lives for minutes and plans little: with the quick compiler alone it starts a quarter
# faster, in two thirds of the processor time.
_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:-UsePerfData"
_NO_REMOTE = "give it with --remote sc://host:15002, or set SPARK_REMOTE"
_PAIR = re.compile(r"\s*((?:\\.|[^\\=:\s])+)\s*[=:\s]?\s*(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SparkConfig:
    """A master or a Connect server, and the option that named it; `embedded` if none did."""

    master: str = ""
    remote: str = ""
    origin: str = ""
    embedded: bool = False

    @property
    def url(self) -> str:
        """The address of the server or of the master."""
        return self.remote or self.master


@dataclass(frozen=True, slots=True)
class SparkEnvironment:
    """The caller's environment, with its settings for Spark.

    Attributes:
        environ: its variables.
        home: where the Spark to run is installed.
        defaults: the settings in its ``spark-defaults.conf``.
    """

    environ: Mapping[str, str]
    home: Path
    defaults: Mapping[str, str] = field(default_factory=dict)

    @property
    def submit_words(self) -> list[str]:
        """PYSPARK_SUBMIT_ARGS without the program's name at its end."""
        words = shlex.split(self.environ.get("PYSPARK_SUBMIT_ARGS", ""))
        return words[:-1] if words[-1:] == ["pyspark-shell"] else words

    def value(self, key: str) -> str:
        """The value of a Spark setting before the request's own settings; empty if unset."""
        return {**self.defaults, **_submit_conf(self.submit_words)}.get(key, "")


def spark_environment(environ: Mapping[str, str], home: Path) -> SparkEnvironment:
    """The environment, with the ``spark-defaults.conf`` that it points to, if there is one."""
    folder = Path(environ.get("SPARK_CONF_DIR") or home / "conf")
    try:
        text = (folder / "spark-defaults.conf").read_text(errors="replace")
    except OSError:
        text = ""
    return SparkEnvironment(environ, home, parse_properties(text))


def parse_properties(text: str) -> dict[str, str]:
    """A Java properties file: ``key value``, ``key=value`` or ``key: value``; `#` and `!` begin comments."""
    joined = re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n\s*", r"\1", text)
    properties = {}
    for line in joined.splitlines():
        if not line.strip() or line.lstrip()[0] in "#!":
            continue
        match = _PAIR.fullmatch(line)
        if match:
            key, value = (re.sub(r"\\(.)", r"\1", part) for part in match.groups())
            properties[key] = value.strip()
    return properties


def choose_spark(spec: SparkSpec, around: SparkEnvironment, slots: int, *, server: bool) -> SparkConfig:
    """The first Spark that request, environment or spark-defaults name; else one embedded in this machine.

    Args:
        spec: the request's Spark options.
        around: the caller's environment.
        slots: how many tasks run at once, if Spark has to be embedded in this machine.
        server: whether it has to be a Connect server.

    Raises:
        SpecError: a Connect server is required and none is named, or a name is invalid.
    """
    from ...spec.spark_address import SERVER, check_address, named_addresses  # a local run needs none

    if server and spec.master:
        raise SpecError(
            f"connect mode needs a Connect server, and {spec.master} is a master", hint=_NO_REMOTE
        )
    named = (
        *named_addresses(spec),
        (around.environ.get("SPARK_REMOTE", ""), "SPARK_REMOTE"),
        (around.value("spark.master"), "spark-defaults.conf"),
        (around.value("spark.remote"), "spark-defaults.conf"),
        (around.environ.get("MASTER", ""), "MASTER"),
    )
    for value, origin in named:
        remote = value.startswith(SERVER)
        if value and (remote or not server or origin.lower().endswith("remote")):
            check_address(value, origin)
            return SparkConfig(*(("", value) if remote else (value, "")), origin=origin)
    if server:
        raise SpecError("connect mode needs a Spark Connect server, and none is named", hint=_NO_REMOTE)
    return SparkConfig(f"local[{slots}]", embedded=True)


def own_settings(
    spec: SparkSpec,
    around: SparkEnvironment,
    choice: SparkConfig,
    *,
    app_name: str,
    slots: int,
    limit_s: float,
    address: str,
    cores: int | None = None,
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Settings of a session that we make, and notes for people about them.

    `address` is this machine's own towards the master; empty if unknown. `cores` limits a standalone
    application. Settings of the request and of
    spark-defaults take precedence, but dynamic allocation in spark-defaults, which makes barrier stages
    impossible, is switched off.
    """
    ours = {
        "spark.app.name": app_name,
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": _QUICK_JVM,
        "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
        "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": str(max(40, round(limit_s) + 1)),
    }
    if address and not any(around.environ.get(k) for k in ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME")):
        ours["spark.driver.host"] = address
    if cores is not None:
        ours["spark.cores.max"] = str(cores)
    settings = {k: v for k, v in ours.items() if not around.value(k)} | dict(spec.conf)
    settings["spark.master"] = choice.master
    settings.pop("spark.remote", None)
    notes = []
    dynamic = "spark.dynamicAllocation.enabled"
    if dynamic not in spec.conf and around.value(dynamic).lower() == "true":
        settings[dynamic] = "false"
        notes.append(
            f"{dynamic}=true in spark-defaults.conf is off for this session: barrier stages need that"
        )
        instances = "spark.executor.instances"
        if instances not in spec.conf and not around.value(instances):
            settings[instances] = str(_executors(slots, spec, around))
    return settings, tuple(notes)


def _executors(slots: int, spec: SparkSpec, around: SparkEnvironment) -> int:
    """The number of executors that hold so many slots."""

    def number(key: str) -> int:
        text = spec.conf.get(key) or around.value(key)
        return int(text) if text.isdigit() and int(text) else 1

    each = max(1, number("spark.executor.cores") // number("spark.task.cpus"))
    return -(-slots // each)


def python_for(spec: SparkSpec, around: SparkEnvironment, *, here: bool, own: str) -> str:
    """The interpreter of Python tasks, for a session that we make.

    ``spark.pyspark.python`` or PYSPARK_PYTHON, if set. Otherwise `own`, the driver's, if executors are on
    this machine, and else Spark's own default, ``python3`` of the executor's PATH: the path of the driver's
    interpreter means nothing on another machine.
    """
    key = "spark.pyspark.python"
    configured = spec.conf.get(key) or around.value(key) or around.environ.get("PYSPARK_PYTHON")
    return configured or (own if here else "python3")


def _submit_conf(words: list[str]) -> dict[str, str]:
    """The settings in the words of a spark-submit command."""
    settings: dict[str, str] = {}
    short = {"--master": "spark.master", "--remote": "spark.remote"}
    for position, word in enumerate(words):
        option, equals, value = word.partition("=")
        if not equals or option not in (*short, "--conf", "-c"):
            option, value = word, next(iter(words[position + 1 :]), "")
        if option in short:
            settings[short[option]] = value
        elif option in ("--conf", "-c"):
            key, _, text = value.partition("=")
            settings[key] = text
    return settings


_FORM = re.compile(r"(?:\[(?P<six>[^]\s]+)\]|(?P<host>[^:\[\]\s]*))(?::(?P<first>\d+)(?:-(?P<last>\d+))?)?")


@dataclass(frozen=True, slots=True)
class ListenAt:
    """The address and the ports to listen at.

    Attributes:
        host: the address to bind; empty for the driver's own.
        ports: the ports to try; ``range(1)`` for any.
    """

    host: str = ""
    ports: range = range(1)

    @classmethod
    def parse(cls, text: str) -> ListenAt:
        """Parse ``host``, ``host:port``, ``:4000-4010`` or ``[fe80::1]:port``.

        Raises:
            SpecError: it has none of these forms, or a port is out of range.
        """
        match = _FORM.fullmatch(text.strip())
        if match is None:
            raise SpecError(f"--listen takes HOST, HOST:PORT or HOST:FIRST-LAST, not {text!r}")
        host, first = match["six"] or match["host"] or "", match["first"]
        if first is None:
            return cls(host)
        ports = range(int(first), int(match["last"] or first) + 1)
        if not ports or ports[0] < 1 or ports[-1] > 65535:
            raise SpecError(f"--listen takes ports from 1 to 65535, and not {text!r}")
        return cls(host, ports)


def listen_addresses(wanted: ListenAt, *, driver: str, bind: str) -> tuple[str, tuple[str, ...]]:
    """The address to bind, and those that agents try in this order.

    Args:
        wanted: the value of ``--listen``.
        driver: the driver's host for executors.
        bind: the address that the driver itself binds; empty if unknown.

    Where the driver binds another address than its host for executors (behind a translation of addresses),
    so do we. Spark writes IPv6 addresses in brackets.
    """
    driver, bind = driver.strip("[]"), bind.strip("[]")
    if wanted.host:
        advertised = (driver,) if wanted.host in ("0.0.0.0", "::") else (wanted.host, driver)
        return wanted.host, tuple(dict.fromkeys(advertised))
    return bind or driver, (driver,)


LEAST_SLOTS = 64


def embedded_slots(num_processes: int) -> int:
    """The slots of an embedded Spark: threads, which cost nothing while they are not used."""
    return max(LEAST_SLOTS, 1 << (num_processes - 1).bit_length())
