"""A JVM of our own and the SparkContext in it: made and ended without output on the terminal.

The JVM's standard input is a pipe of ours. When the pipe closes, however this process ends, Spark's gateway
exits through its shutdown hooks.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import CannotPlace, InternalError, LauncherError, SpecError
from ...runs.files import opener
from ...spec import spark_address
from ...spec.job import SparkSpec
from ...spec.redaction import redacted
from . import config, connect, internals
from .config import SparkConfig, SparkEnvironment
from .failures import kubernetes_refusal, text_of

NO_JAVA = "cluster mode needs Java 17 or newer"
GET_JAVA = "install a JDK such as openjdk-17 and set JAVA_HOME; --mode local needs none"
_THROWN = re.compile(
    r"(?:Exception in thread \"[^\"]*\" |Caused by: )?(?:[\w$]+\.)+[\w$]*(?:Exception|Error): (.+)"
)
_GATEWAY = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
_connecting = threading.Lock()


class Jvm:
    """A process that runs Spark's gateway.

    Raises:
        CannotPlace: there is no Java, or the gateway did not start within `limit_s` seconds.
    """

    def __init__(
        self, around: SparkEnvironment, settings: Mapping[str, str], log: Path, limit_s: float, **extra: str
    ) -> None:
        need_java(around.environ)
        self.log = log
        self._log_start = log.stat().st_size if log.exists() else 0
        self.late = False
        with tempfile.TemporaryDirectory(prefix="rankdeck-") as folder:
            info = Path(folder, "gateway")
            self.process = self._spawn(around, settings, info, extra)
            try:
                self.port, self.secret = self._await_gateway(info, limit_s)
            except BaseException:
                self.kill()
                raise

    def gateway(self) -> Any:
        """pyspark's gateway object, connected to the JVM."""
        from pyspark.java_gateway import launch_gateway

        with _connecting:
            os.environ.update(zip(_GATEWAY, (str(self.port), self.secret), strict=True))
            try:
                gateway = launch_gateway()  # type: ignore[no-untyped-call]
            finally:
                for name in _GATEWAY:
                    os.environ.pop(name, None)
        gateway.proc = self.process
        return gateway

    @contextlib.contextmanager
    def deadline(self, limit_s: float) -> Iterator[None]:
        """Kill the JVM, and set `late`, if the block takes longer than `limit_s` seconds."""

        def too_late() -> None:
            self.late = True
            self.process.kill()

        timer = threading.Timer(limit_s, too_late)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def dismiss(self, limit_s: float) -> bool:
        """Close its standard input, which runs its shutdown hooks; kill it after `limit_s` seconds.

        Whether it ended by itself.
        """
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        return True

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()

    def complaint(self) -> str:
        """The first error in its log, as one sentence; empty if there is none."""
        return first_complaint(self.output())

    def output(self) -> str:
        """What it has written to its log."""
        with open(self.log, "rb") as file:
            file.seek(self._log_start)
            return file.read().decode(errors="replace")

    def _spawn(
        self, around: SparkEnvironment, settings: Mapping[str, str], info: Path, extra: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        submit = around.home / "bin" / "spark-submit"
        shown = redacted(settings)
        words = [w for k, v in settings.items() if shown[k] == v for w in ("--conf", f"{k}={v}")]
        own = {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info)}
        with open(self.log, "ab", opener=opener) as file:
            try:
                return subprocess.Popen(
                    [str(submit), *around.submit_words, *words, "pyspark-shell"],
                    stdin=subprocess.PIPE,
                    stdout=file,
                    stderr=file,
                    env={**extra, **around.environ, **own},
                    start_new_session=True,
                )
            except OSError as error:
                reason = f"{submit} cannot be run: {error.strerror}"
                raise CannotPlace(reason, hint="is SPARK_HOME right?") from error

    def _await_gateway(self, info: Path, limit_s: float) -> tuple[int, str]:
        deadline = time.monotonic() + limit_s
        while not info.exists():
            if self.process.poll() is not None:
                raise self._start_error()
            if time.monotonic() > deadline:
                raise CannotPlace(
                    f"Spark's JVM did not start in {limit_s:.0f} s", hint=f"its log: {self.log}"
                )
            time.sleep(0.02)  # polled: nothing notifies of the file. Once it exists, it is complete
        data = info.read_bytes()
        length = int.from_bytes(data[4:8], "big")
        return int.from_bytes(data[:4], "big"), data[8 : 8 + length].decode()

    def _start_error(self) -> CannotPlace:
        complaint = self.complaint()
        if "UnsupportedClassVersionError" in complaint or "class file version" in complaint:
            return CannotPlace(f"{NO_JAVA}, and the one found is older", hint=GET_JAVA)
        return CannotPlace(
            f"Spark's JVM did not start: {complaint or f'exit code {self.process.returncode}'}",
            hint=f"its log: {self.log}",
        )


def need_java(environ: Mapping[str, str]) -> None:
    """Check that there is a Java to run.

    Raises:
        CannotPlace: there is none.
    """
    home = environ.get("JAVA_HOME", "")
    if home and not os.access(Path(home, "bin", "java"), os.X_OK):
        raise CannotPlace(f"{NO_JAVA}, and JAVA_HOME={home} holds no bin/java", hint=GET_JAVA)
    if not home and shutil.which("java", path=environ.get("PATH", os.defpath)) is None:
        raise CannotPlace(f"{NO_JAVA}, and there is no java on PATH", hint=GET_JAVA)


def spark_home(environ: Mapping[str, str]) -> Path:
    """Where the Spark to run is: SPARK_HOME, or the installed pyspark.

    Raises:
        CannotPlace: pyspark is not installed.
    """
    try:
        import pyspark
    except ImportError as error:
        raise CannotPlace(
            "cluster mode needs pyspark, which this Python does not have",
            hint="pip install pyspark; --mode local needs none",
        ) from error
    if pyspark.__file__ is None:
        raise InternalError("pyspark is a namespace package: its installation is damaged")
    return Path(environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def first_complaint(text: str) -> str:
    """The first exception's message in a JVM's output, or its first error line, without class names."""
    for line in text.splitlines():
        if match := _THROWN.match(line.strip(": ")):
            return match[1].strip()
    for line in text.splitlines():
        if re.search(r"\b(error|invalid|cannot|not found|no such)\b", line, re.IGNORECASE):
            return line.strip()
    return ""


CLOSE_S = 10.0
REGISTER_S = 30.0
REFUSED_S = 2.0
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """What context to make: the request's options, the environment, and the Spark chosen from both."""

    spec: SparkSpec
    around: SparkEnvironment
    choice: SparkConfig
    log: Path
    app_name: str
    slots: int
    limit_s: float
    cores: int | None = None


@dataclass(frozen=True, slots=True)
class MadeContext:
    """A context, its JVM if that is ours too, and notes for people."""

    context: Any
    jvm: Jvm | None
    notes: tuple[str, ...]


def make_context(order: ContextRequest) -> MadeContext:
    """Make a context.

    Raises:
        SpecError: the master's name is invalid.
        CannotPlace: nothing listens there, there is no Java, or Spark refuses.
    """
    choice, around = order.choice, order.around
    masters = spark_address.standalone_hosts(choice.master)
    local = spark_address.is_local(choice.master)
    address = _LOOPBACK if local else connect.probe(masters, "Spark master") if masters else ""
    settings, notes = config.own_settings(
        order.spec,
        around,
        choice,
        app_name=order.app_name,
        slots=order.slots,
        limit_s=order.limit_s,
        address=address,
        cores=order.cores,
    )
    here = local or address.startswith("127.") or address == "::1"
    python = config.python_for(order.spec, around, here=here, own=sys.executable)
    if internals.gateway_in_use() is not None:  # a JVM of the caller's, whose session has ended
        return MadeContext(_new_context(settings, python), None, notes)
    extra = {"SPARK_LOCAL_IP": _LOOPBACK} if choice.embedded else {}
    jvm = Jvm(around, settings, order.log, order.limit_s, **extra)
    return MadeContext(_in_jvm(jvm, settings, python, order), jvm, notes)


def end_context(context: Any, jvm: Jvm) -> None:
    """End a JVM by its shutdown hooks, which is faster than stopping the context first, and as clean.

    Our sockets to it are closed first: py4j writes to the terminal when a JVM ends during a call.
    """
    accumulators = internals.accumulator_server(context)
    shutdown = threading.Thread(target=_end_accumulators, args=(accumulators,), daemon=True)
    shutdown.start()
    _disconnect(context, alive=jvm.process.poll() is None)
    jvm.dismiss(CLOSE_S)
    shutdown.join(CLOSE_S)


def _end_accumulators(server: Any) -> None:
    """End it first: it too reports the JVM's end as an error. None if this pyspark has none to show."""
    if server is not None:
        server.handle_error = lambda *_: None
        server.shutdown()


def _in_jvm(jvm: Jvm, settings: Mapping[str, str], python: str, order: ContextRequest) -> Any:
    try:
        with jvm.deadline(min(order.limit_s, REGISTER_S)):
            return _new_context(settings, python, jvm.gateway())
    except BaseException as error:  # noqa: BLE001  # an interrupt too must not leave a JVM behind
        refusal = _refusal(error, order.choice, jvm) if isinstance(error, Exception) else error
        _disconnect(None, alive=False)
        jvm.dismiss(REFUSED_S)
        raise refusal from None  # the text of a Java error was in the JVM, which is gone by now


def _new_context(settings: Mapping[str, str], python: str, gateway: Any = None) -> Any:
    from pyspark import SparkConf, SparkContext

    _silence_loggers()
    # a new JVM adds the defaults itself when the context is made; one that is there already adds them here
    conf = SparkConf(loadDefaults=gateway is None).setAll(list(settings.items()))
    with _kept_sigint_handler():
        context = SparkContext(conf=conf, gateway=gateway)
    context.pythonExec = python
    return context


def _silence_loggers() -> None:
    """Keep the loggers of py4j and pyspark off the terminal, unless the program has given them handlers."""
    root = logging.getLogger()
    if not any(isinstance(f, _GatewayErrorFilter) for f in root.filters):
        root.addFilter(_GatewayErrorFilter())
    for name in ("py4j", "pyspark"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())


@contextlib.contextmanager
def _kept_sigint_handler() -> Iterator[None]:
    """Keep this process's SIGINT handler: a new SparkContext on the main thread installs its own."""
    main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT) if main else None
    try:
        yield
    finally:
        if handler is not None:
            signal.signal(signal.SIGINT, handler)


def _refusal(error: Exception, choice: SparkConfig, jvm: Jvm) -> LauncherError:
    if isinstance(error, LauncherError):
        return error
    where = f"the log of its JVM is {jvm.log}"
    if why := kubernetes_refusal(jvm.output() if jvm.late else text_of(error), choice.url):
        return CannotPlace(why, hint=where)
    if jvm.late:
        return CannotPlace(f"Spark at {choice.url} did not take the application within its time", hint=where)
    text = _message_of(error) or jvm.complaint()
    if "parse Master URL" in text or "Invalid master URL" in text:
        return SpecError(f"{choice.url} is no Spark master", hint="such as spark://host:7077")
    return CannotPlace(f"Spark at {choice.url} refuses the application: {text}", hint=where)


def _message_of(error: Exception) -> str:
    """The message of an error; a Java error's is read from the JVM: empty if that is gone."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # py4j raises whatever the lost connection did
        return ""
    return first_complaint(text) or text.strip().partition("\n")[0]


def _disconnect(context: Any, *, alive: bool) -> None:
    """Reset pyspark, so that this process can make another JVM, and close our sockets to this one."""
    gateway = internals.gateway_in_use()
    internals.forget(context)
    if gateway is not None:
        internals.disconnect(gateway, alive=alive)


class _GatewayErrorFilter(logging.Filter):
    """Drops what py4j logs to the root logger, with a traceback, when a JVM dies during a call."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is another message."""
        return record.msg != "Exception while sending command."
