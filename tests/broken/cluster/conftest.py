"""Two real hosts on which one thing can be made wrong: Spark workers in network namespaces of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from launcher.runs.reader import read_state
from launcher.state import events as ev
from launcher.state.run_state import RunState
from tests import spark_net, survivors
from tests.commands import COMMAND, facts, last
from tests.fakes.clock_build import FakeClock
from tests.spark_cluster import Cluster
from tests.spark_runs import end_engines

_HOST = "RANKDECK_TEST_HOST"


@dataclass(frozen=True)
class Hosts:
    """A cluster of two hosts, of one slot each, and what can be changed of them.

    Attributes:
        clock: the time of day of the second host.
        python: the interpreter that executors are told to run; it runs that of `set_python`.
        absent: a folder that both hosts see empty.
    """

    cluster: Cluster
    clock: FakeClock
    python: Path
    absent: Path

    def set_python(self, host: int, python: str | Path) -> None:
        """Let one host's executors run another interpreter."""
        self.python.with_name(f"python{host}").write_text(f"{python}\n")

    def start(
        self, cwd: Path, *words: str | Path, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """`rankdeck run` on the driver's host, two ranks unless the words say otherwise."""
        conf = {**self.cluster.conf(), "spark.pyspark.python": str(self.python)}
        options = [w for key, value in conf.items() for w in ("--conf", f"{key}={value}")]
        options += ["--env", f"{survivors.MARK}={os.environ[survivors.MARK]}", "--start-timeout", "60"]
        run, (target, *others) = [*self.cluster.prefix(), COMMAND, "run"], map(str, words)
        return subprocess.Popen(
            [*run, target, "--master", self.cluster.url, "-n", "2", *options, *others],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env={**os.environ, **(env or {})},
        )

    def run(self, cwd: Path, *words: str | Path, env: Mapping[str, str] | None = None) -> Ended:
        """The same, to its end."""
        return ended(self.start(cwd, *words, env=env))


@dataclass(frozen=True)
class Ended:
    """How a run ended, and what was told of it."""

    code: int
    told: str
    state: RunState
    cause: ev.CauseFound | None

    def has(self, cause: str, certainty: str, *words: str) -> None:
        """It has this cause, and what was told has these words of it and of its remedies.

        Without a `certainty`, it may be either: which one depends on who reports first.
        """
        assert self.cause is not None, self.told
        assert (cause, certainty or self.cause.certainty) == (self.cause.id, self.cause.certainty), self.told
        for each in (self.cause.text, *self.cause.evidence, *self.cause.remedy, *words):
            assert each in self.told


def at_work(command: subprocess.Popen[str], ranks: int = 2) -> None:
    """Wait until so many ranks have printed `go`."""
    assert command.stdout is not None
    for line in command.stdout:
        ranks -= "go" in line
        if not ranks:
            return
    raise AssertionError(ended(command).told)


def ended(command: subprocess.Popen[str]) -> Ended:
    """What a run was once it is over."""
    _, told = command.communicate(timeout=120)
    found = [fact for fact in facts(ev.CauseFound) if isinstance(fact, ev.CauseFound)]
    return Ended(command.returncode, told, read_state(last()), found[-1] if found else None)


@pytest.fixture(scope="session")
def hosts(spark_here: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    if not spark_net.permitted():
        pytest.skip("needs network namespaces: not permitted here")
    if shutil.which("gcc") is None:
        pytest.skip("gcc is needed to build the fake clock")
    folder = tmp_path_factory.mktemp("hosts")
    python, absent = folder / "python", folder / "absent"
    python.write_text(f'#!/bin/sh\nread -r real < "$0${_HOST}"\nexec "$real" "$@"\n')
    python.chmod(0o755)
    absent.mkdir()
    clock = FakeClock.make(folder)
    environs = ({_HOST: "0"}, {_HOST: "1", **clock.environment})
    with Cluster(cores=1, gpus=0, netns=True, hidden=absent, environs=environs) as cluster:
        yield Hosts(cluster, clock, python, absent)


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """Writes a training script into the test's folder; its name."""

    def write(source: str) -> str:
        (tmp_path / "train.py").write_text(source)
        return "train.py"

    return write


@pytest.fixture(autouse=True)
def as_they_were(hosts: Hosts, mark: str) -> Iterator[None]:
    """Both hosts are sound before a test, and nothing of it is left there."""
    for host in (0, 1):
        hosts.set_python(host, sys.executable)
    hosts.clock.set(0)
    yield
    end_engines(hosts.cluster, mark)
