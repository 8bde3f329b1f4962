"""Several people on one cluster: runs of two users and a notebook, and a watcher of who waits for whom."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launcher.backends.spark import pages
from launcher.backends.spark.waiters import waiting_applications
from tests.commands import COMMAND
from tests.spark_cluster import Cluster

SETTINGS: tuple[Mapping[str, str], ...] = (
    {},
    {"spark.executor.memory": "600m"},
    {"spark.executor.cores": "1"},
    {"spark.executor.cores": "2"},
)
NOTEBOOK = """
import json, sys
from pyspark.sql import SparkSession

for line in sys.stdin:
    conf = json.loads(line)
    builder = SparkSession.builder.appName("notebook")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    print(spark.sparkContext.parallelize(range(8), 8).sum(), flush=True)
    spark.stop()
"""
_LOOK_S = 0.2


@dataclass
class User:
    """Somebody with a home, engines and a name of their own."""

    name: str
    home: Path
    cluster: Cluster
    codes: list[int] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    @property
    def environ(self) -> dict[str, str]:
        return {**os.environ, "RANKDECK_HOME": str(self.home), "SPARK_USER": self.name}

    def run(self, script: Path, ranks: int, conf: Mapping[str, str], *more: str) -> int:
        """A run in the foreground; its exit code."""
        settings = {**light(self.cluster), **conf}
        words = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        done = subprocess.run(
            [COMMAND, "run", str(script), "-n", str(ranks), "--master", self.cluster.url, *words, *more],
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        self.codes.append(done.returncode)
        self.said.append(done.stderr)
        return done.returncode

    def end(self) -> None:
        """End this user's engines."""
        stop = [COMMAND, "engine", "stop", "--force"]
        subprocess.run(stop, env=self.environ, capture_output=True, check=True, timeout=120)

    def idle_applications(self) -> set[str]:
        """The applications of engines that have no run."""
        found = set()
        for path in (self.home / "run").glob("session-*.json"):
            try:
                record = json.loads(path.read_bytes())
            except (OSError, ValueError):
                continue
            if not record["runs"]:
                found.add(str(record["application"]))
        return found


def light(cluster: Cluster) -> dict[str, str]:
    """The settings of `Cluster.conf`, but executors as large as Spark makes them."""
    conf = cluster.conf(gpus=0)
    del conf["spark.executor.cores"]
    return conf


@contextmanager
def notebook(cluster: Cluster) -> Iterator[subprocess.Popen[str]]:
    """A plain pyspark program. Each line that it reads is the settings of a session that runs one job."""
    process = subprocess.Popen(
        [sys.executable, "-c", NOTEBOOK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "MASTER": cluster.url, "SPARK_USER": "nora"},
        text=True,
    )
    try:
        yield process
    finally:
        process.communicate(timeout=120)


def compute(process: subprocess.Popen[str], cluster: Cluster, cores: int = 0) -> str:
    """Have a notebook make a session of so many cores, 0 for all, and run a job; its answer."""
    conf = {**light(cluster), "spark.master": cluster.url}
    if cores:
        conf["spark.cores.max"] = str(cores)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(conf) + "\n")
    process.stdin.flush()
    return process.stdout.readline()


class Watcher:
    """Looks again and again which application waits while an idle session holds cores.

    Each change that it sees is a line of the file `diary`: the time in seconds, every application with its
    user, cores and state, and who waits for whom.

    Attributes:
        longest_s: the longest time for which one application waited while one idle session held cores.
        waits: the length of each such wait, in seconds.
    """

    def __init__(self, cluster: Cluster, users: list[User], diary: Path) -> None:
        self.waits: list[float] = []
        self._diary, self._began, self._last = diary, time.monotonic(), ""
        self._cluster, self._users = cluster, users
        self._limits: dict[str, int | None] = {}
        self._since: dict[tuple[str, str], float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    @property
    def longest_s(self) -> float:
        return max(self.waits, default=0.0)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._note(set())
        self._say(json.dumps({"waits_s": sorted(self.waits)}))

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_S):
            idle = set[str]().union(*(user.idle_applications() for user in self._users))
            state = self._cluster.state()
            pairs = self._pairs(state, idle)
            self._note(pairs)
            self._write(state, idle, pairs)

    def _write(self, state: dict[str, Any], idle: set[str], pairs: set[tuple[str, str]]) -> None:
        apps = [
            (app["id"][-4:], app["user"], app["cores"], "IDLE" if app["id"] in idle else app["state"])
            for app in pages.active_applications(state)
        ]
        line = json.dumps({"apps": apps, "waits": sorted(pairs)})
        if line != self._last:
            self._say(line)
        self._last = line

    def _say(self, line: str) -> None:
        with open(self._diary, "a") as file:
            file.write(f"{time.monotonic() - self._began:.1f} {line}\n")

    def _pairs(self, state: dict[str, Any], idle: set[str]) -> set[tuple[str, str]]:
        """Who waits, and which idle session holds something meanwhile."""
        for app in pages.active_applications(state):
            if app["id"] not in self._limits and app["state"] != "WAITING":
                self._limits[app["id"]] = pages.core_limit(self._cluster.ui, app["id"])
        waiting = [app["id"] for app in waiting_applications(state, idle, self._limits)]
        holding = [
            app["id"] for app in pages.active_applications(state) if app["id"] in idle and app["cores"]
        ]
        return {(who, holder) for who in waiting for holder in holding}

    def _note(self, pairs: set[tuple[str, str]]) -> None:
        now = time.monotonic()
        for pair in pairs:
            self._since.setdefault(pair, now)
        for pair in [pair for pair in self._since if pair not in pairs]:
            self.waits.append(now - self._since.pop(pair))


def mix(user: User, script: Path, runs: int, seed: int) -> None:
    """So many runs one after the other, of random size and settings."""
    chance = random.Random(seed)
    for _ in range(runs):
        user.run(script, chance.randint(1, 4), chance.choice(SETTINGS), "--start-timeout", "300")


def browse(process: subprocess.Popen[str], cluster: Cluster, over: threading.Event, seed: int) -> int:
    """A notebook's work until it is over: sessions of all or some cores, with pauses; how many."""
    chance, count = random.Random(seed), 0
    while not over.wait(chance.uniform(0.0, 8.0)):
        compute(process, cluster, chance.choice((0, 2, 4)))
        count += 1
    return count
