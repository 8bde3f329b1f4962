"""The JVM of a session that we make: started away from our terminal, and surely ended with us.

Its standard input is a pipe of ours. Spark's gateway leaves, through its shutdown hooks, when that pipe
ends, whatever way this process goes.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from launcher.backends.spark_choice import Surroundings
from launcher.errors import CannotPlace, InternalError
from launcher.redaction import redacted
from launcher.runs.private import opener

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
        CannotPlace: there is no Java, or it did not come up within `limit_s` seconds.
    """

    def __init__(
        self, around: Surroundings, settings: Mapping[str, str], log: Path, limit_s: float, **extra: str
    ) -> None:
        need_java(around.environ)
        self.log = log
        self._since = log.stat().st_size if log.exists() else 0
        self.late = False
        with tempfile.TemporaryDirectory(prefix="rankdeck-") as folder:
            told = Path(folder, "gateway")
            self.process = self._spawn(around, settings, told, extra)
            try:
                self.port, self.secret = self._await_gateway(told, limit_s)
            except BaseException:
                self.kill()
                raise

    def gateway(self) -> Any:
        """Spark's Python side of it, connected."""
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
        """Kill it when what is done with it takes longer; `late` tells."""

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
        """End it by its standard input, which runs its shutdown hooks; by force after `limit_s` seconds.

        Whether it went by itself.
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
        """The first thing that went wrong by its log, as one sentence; empty if nothing is said there."""
        with open(self.log, "rb") as file:
            file.seek(self._since)
            return first_complaint(file.read().decode(errors="replace"))

    def _spawn(
        self, around: Surroundings, settings: Mapping[str, str], told: Path, extra: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        submit = around.home / "bin" / "spark-submit"
        shown = redacted(settings)
        words = [w for k, v in settings.items() if shown[k] == v for w in ("--conf", f"{k}={v}")]
        own = {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(told)}
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

    def _await_gateway(self, told: Path, limit_s: float) -> tuple[int, str]:
        deadline = time.monotonic() + limit_s
        while not told.exists():
            if self.process.poll() is not None:
                raise self._never_came()
            if time.monotonic() > deadline:
                raise CannotPlace(
                    f"Spark's JVM did not start in {limit_s:.0f} s", hint=f"its log: {self.log}"
                )
            time.sleep(0.02)  # the file has no event of its own here; its existence is what counts
        data = told.read_bytes()
        length = int.from_bytes(data[4:8], "big")
        return int.from_bytes(data[:4], "big"), data[8 : 8 + length].decode()

    def _never_came(self) -> CannotPlace:
        said = self.complaint()
        if "UnsupportedClassVersionError" in said or "class file version" in said:
            return CannotPlace(f"{NO_JAVA}, and the one found is older", hint=GET_JAVA)
        return CannotPlace(
            f"Spark's JVM did not start: {said or f'exit code {self.process.returncode}'}",
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
