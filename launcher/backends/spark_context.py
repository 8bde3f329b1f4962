"""A SparkContext of our own, in a JVM of our own, made and ended without a word on the terminal."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.backends import spark_choice, spark_jvm, spark_server
from launcher.backends.spark_choice import Choice, Surroundings
from launcher.errors import CannotPlace, LauncherError, SpecError
from launcher.spec import SparkSpec

CLOSE_S = 10.0
REGISTER_S = 30.0
REFUSED_S = 2.0
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Order:
    """What context to make: the request's words, the surroundings, and what was chosen from both."""

    spec: SparkSpec
    around: Surroundings
    choice: Choice
    log: Path
    app_name: str
    slots: int
    limit_s: float


@dataclass(frozen=True, slots=True)
class Made:
    """A context; its JVM if that is ours too, and what a person should know."""

    context: Any
    jvm: spark_jvm.Jvm | None
    notes: tuple[str, ...]


def make(order: Order) -> Made:
    """Make a context.

    Raises:
        SpecError: the master's name cannot be right.
        CannotPlace: nothing listens there, there is no Java, or Spark refuses.
    """
    choice, around = order.choice, order.around
    masters = spark_choice.standalone_hosts(choice.master)
    local = spark_choice.is_local(choice.master)
    address = _LOOPBACK if local else spark_server.probe(masters, "Spark master") if masters else ""
    settings, notes = spark_choice.own_settings(
        order.spec,
        around,
        choice,
        app_name=order.app_name,
        slots=order.slots,
        limit_s=order.limit_s,
        address=address,
    )
    here = local or address.startswith("127.") or address == "::1"
    python = spark_choice.python_for(order.spec, around, here=here, own=sys.executable)
    from pyspark import SparkContext

    if SparkContext._gateway is not None:  # noqa: SLF001  # a JVM of the caller's, whose session has ended
        return Made(_new_context(settings, python), None, notes)
    extra = {"SPARK_LOCAL_IP": _LOOPBACK} if choice.embedded else {}
    jvm = spark_jvm.Jvm(around, settings, order.log, order.limit_s, **extra)
    return Made(_in_jvm(jvm, settings, python, order), jvm, notes)


def end(context: Any, jvm: spark_jvm.Jvm) -> None:
    """End a JVM by its hooks, which is faster than to stop the context first, and as clean.

    Our side of it goes first: py4j writes to the terminal when a JVM leaves in the middle of its talk.
    """
    accumulators = context._accumulatorServer  # noqa: SLF001  # it too complains of the JVM's end
    accumulators.handle_error = lambda *_: None
    ender = threading.Thread(target=accumulators.shutdown, daemon=True)
    ender.start()
    _forget(context, alive=jvm.process.poll() is None)
    jvm.dismiss(CLOSE_S)
    ender.join(CLOSE_S)


def _in_jvm(jvm: spark_jvm.Jvm, settings: Mapping[str, str], python: str, order: Order) -> Any:
    try:
        with jvm.deadline(min(order.limit_s, REGISTER_S)):
            return _new_context(settings, python, jvm.gateway())
    except BaseException as error:  # noqa: BLE001  # an interrupt too must not leave a JVM behind
        refusal = _refusal(error, order.choice, jvm) if isinstance(error, Exception) else error
        _forget(None, alive=False)
        jvm.dismiss(REFUSED_S)
        raise refusal from None  # Java's error has its text in the JVM that is gone by now


def _new_context(settings: Mapping[str, str], python: str, gateway: Any = None) -> Any:
    from pyspark import SparkConf, SparkContext

    _hush()
    jvm = gateway.jvm if gateway is not None else SparkContext._jvm  # noqa: SLF001
    conf = SparkConf(loadDefaults=True, _jvm=jvm).setAll(list(settings.items()))
    with _undisturbed():
        context = SparkContext(conf=conf, gateway=gateway)
    context.pythonExec = python
    return context


def _hush() -> None:
    """Keep the loggers of Spark's Python side off the terminal, where nobody else listens to them."""
    root = logging.getLogger()
    if not any(isinstance(f, _Unheard) for f in root.filters):
        root.addFilter(_Unheard())
    for name in ("py4j", "pyspark"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Keep this process's answer to Ctrl-C: a new SparkContext on the main thread puts its own there."""
    main = threading.current_thread() is threading.main_thread()
    kept = signal.getsignal(signal.SIGINT) if main else None
    try:
        yield
    finally:
        if kept is not None:
            signal.signal(signal.SIGINT, kept)


def _refusal(error: Exception, choice: Choice, jvm: spark_jvm.Jvm) -> LauncherError:
    if isinstance(error, LauncherError):
        return error
    where = f"the log of its JVM is {jvm.log}"
    if jvm.late:
        return CannotPlace(f"Spark at {choice.url} did not take the application within its time", hint=where)
    text = _said(error) or jvm.complaint()
    if "parse Master URL" in text or "Invalid master URL" in text:
        return SpecError(f"{choice.url} is no Spark master", hint="such as spark://host:7077")
    return CannotPlace(f"Spark at {choice.url} refuses the application: {text}", hint=where)


def _said(error: Exception) -> str:
    """The message of an error that may be Java's, whose text only the JVM has; empty if that is gone."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # py4j raises whatever the lost connection did
        return ""
    return spark_jvm.first_complaint(text) or text.strip().partition("\n")[0]


def _forget(context: Any, *, alive: bool) -> None:
    """Let pyspark make another JVM in this process, and close our side's sockets to this one."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway  # noqa: SLF001
    if context is not None:
        context._jsc = context._accumulatorServer = None  # noqa: SLF001
    with SparkContext._lock:  # noqa: SLF001
        SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    if (sql := sys.modules.get("pyspark.sql.session")) is not None:
        sql.SparkSession._instantiatedSession = sql.SparkSession._activeSession = None  # noqa: SLF001
    if gateway is not None:
        if alive:
            gateway.shutdown()
        gateway._gateway_client.is_connected = False  # noqa: SLF001  # what is collected later stays silent
        gateway.close()


class _Unheard(logging.Filter):
    """Drops what py4j says to the root logger, with a traceback, when a JVM dies in the middle of a call."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether anybody else said it."""
        return record.msg != "Exception while sending command."
