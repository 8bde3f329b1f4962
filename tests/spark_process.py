"""Spark's daemons as processes of a test: started light, followed by their logs, and sure to end with it."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from tests import spark_archive, spark_guard, spark_net

LIMIT_S = 60.0
LIGHT = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xshare:auto")
_OPEN = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs",
    "sun.security.action", "sun.util.calendar",
)  # fmt: skip
_MODULES = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPEN),
    "-Dio.netty.tryReflectionSetAccessible=true",
)


def spark_home() -> Path:
    """The folder of the installed pyspark."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def java_command() -> str:
    """The JVM that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else "java"


def missing() -> str:
    """Why there can be no Spark here; empty if there can."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed"
    return "" if shutil.which(java_command()) else "there is no Java"


def jvm_options() -> tuple[str, ...]:
    """What makes the JVMs of tests start soon and stay small."""
    return (*LIGHT, *spark_archive.archive_options(spark_home(), java_command(), LIGHT))


@dataclass
class Daemon:
    """One of Spark's own processes, and where it says what it does."""

    process: subprocess.Popen[bytes]
    log: Path
    namespace: str = ""

    @property
    def pid(self) -> int:
        return self.process.pid

    def said(self, pattern: str) -> list[str]:
        """What a pattern's first group matched in its log so far."""
        return re.findall(pattern, self.log.read_text(errors="replace"))

    def await_said(self, pattern: str, times: int = 1) -> str:
        """Wait until it has said something, so many times; what the first group matched then."""
        deadline = time.monotonic() + LIMIT_S
        while len(found := self.said(pattern)) < times:
            assert self.process.poll() is None, self.log.read_text(errors="replace")[-3000:]
            assert time.monotonic() < deadline, (
                f"no {pattern!r} in {self.log.read_text(errors='replace')[-3000:]}"
            )
            time.sleep(0.02)  # a log file has no event; what it says is what counts
        return found[-1]

    def port(self, service: str) -> int:
        """The port that it gave to one of its services."""
        return int(self.said(rf"'{service}' on port (\d+)")[0])

    def kill(self) -> None:
        """SIGKILL, as the kernel would."""
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        """Stop it in its tracks, as a machine that hangs."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)


class Owner:
    """A folder, processes that carry a mark, and the guard that removes both."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rankdeck-spark-"))
        self.mark = secrets.token_hex(16)
        self._daemons: list[Daemon] = []
        self._guard = subprocess.Popen(
            [sys.executable, "-P", spark_guard.__file__, self.mark, str(self.folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )

    def promise(self, kind: str, name: str) -> None:
        """Have the guard remove a namespace or a link at the end."""
        assert self._guard.stdin is not None
        self._guard.stdin.write(f"{kind} {name}\n")
        self._guard.stdin.flush()

    def java(
        self,
        name: str,
        *arguments: str,
        memory: str = "256m",
        options: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        namespace: str = "",
        hidden: Path | None = None,
    ) -> Daemon:
        """Start one of Spark's main classes; its log is ``name.log``. It finds the folder `hidden` empty."""
        folders = f"-Djava.io.tmpdir={self.folder}"
        command = [java_command(), f"-Xmx{memory}", *jvm_options(), *_MODULES, folders, *options]
        command += ["-cp", spark_archive.class_path(spark_home()), *arguments]
        log = self.folder / f"{name}.log"
        with open(log, "ab") as file:
            process = subprocess.Popen(
                [*spark_net.Network.prefix(namespace), *spark_net.hiding(hidden), *command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=self.environ | dict(env or {}),
                cwd=self.folder,
                start_new_session=True,
            )
        daemon = Daemon(process, log, namespace)
        self._daemons.append(daemon)
        return daemon

    @property
    def environ(self) -> dict[str, str]:
        """The environment of the daemons: nothing of the developer's Spark."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
        return kept | {
            spark_guard.MARK: self.mark,
            "SPARK_HOME": str(spark_home()),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "PYSPARK_PYTHON": sys.executable,
        }

    def processes(self, holding: str = "") -> dict[int, str]:
        """pid and command line of what runs under the mark, where the line holds a text."""
        found = {}
        for pid in spark_guard.marked(self.mark):
            with contextlib.suppress(OSError):
                line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if holding in line:
                    found[pid] = line
        return found

    def close(self) -> None:
        """Kill all of it and remove what it left."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        for daemon in self._daemons:
            with contextlib.suppress(ProcessLookupError):
                daemon.process.kill()
            daemon.process.wait()
        assert self._guard.wait(LIMIT_S) == 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()
