"""Real Spark for tests: a standalone cluster of the installed pyspark, and a Connect server on it.

Workers are hosts of their own in Spark's eyes: 127.0.0.2, 127.0.0.3, …, or network namespaces. Nothing of
it outlives the test, even if pytest is killed: `spark_guard` sees to that.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests import spark_net
from tests.spark_process import Daemon, Owner, jvm_options, missing

__all__ = ["Cluster", "ConnectServer", "Daemon", "missing", "press"]

_LOOPBACK = "127.0.0.1"


@dataclass
class _Shape:
    """What a cluster is made of."""

    cores: int = 2
    memory: str = "2g"
    gpus: int = 2
    options: tuple[str, ...] = ()
    hidden: Path | None = None
    environs: tuple[Mapping[str, str], ...] = ()


class Cluster(Owner):
    """A standalone master and its workers, up and registered when the constructor returns.

    Args:
        workers: how many, each a host of its own.
        cores: of each worker.
        memory: of each worker, in Spark's words.
        gpus: fake GPUs of each worker, named 0, 1, …; 0 for none.
        netns: hosts are network namespaces; needs root.
        hidden: a folder that workers find empty, so that they share nothing with the driver; needs root.
        master_options: more ``-D`` settings of the master, such as ``-Dspark.worker.timeout=5``.
        worker_options: more ``-D`` settings of the workers.
        environs: what is added to each worker's environment, and so to that of its executors.
    """

    def __init__(
        self,
        workers: int = 2,
        *,
        cores: int = 2,
        memory: str = "2g",
        gpus: int = 2,
        netns: bool = False,
        hidden: Path | None = None,
        master_options: Sequence[str] = (),
        worker_options: Sequence[str] = (),
        environs: Sequence[Mapping[str, str]] = (),
    ) -> None:
        super().__init__()
        self.workers: list[Daemon] = []
        self._shape = _Shape(cores, memory, gpus, tuple(worker_options), hidden, tuple(environs))
        try:
            self.net = spark_net.Network(workers, self.promise) if netns else None
            self.driver_host = self.net.address(-1) if self.net else _LOOPBACK
            self._start_master(master_options)
            self.add_workers(workers)
        except BaseException:
            self.close()
            raise

    def add_workers(self, number: int) -> None:
        """Start workers, side by side, and wait until the master knows them."""
        known = len(self.workers)
        self.workers += [self._start_worker(known + i) for i in range(number)]
        self.master.await_said("(Registering worker )", known + number)

    def restart_worker(self, index: int) -> None:
        """Start a worker again that was killed, and wait until the master knows it."""
        known = len(self.master.said("(Registering worker )"))
        self.workers[index] = self._start_worker(index)
        self.master.await_said("(Registering worker )", known + 1)

    @property
    def slots(self) -> int:
        """Cores of all workers."""
        return self._shape.cores * len(self.workers)

    def host(self, index: int) -> str:
        """A worker's address."""
        return self.net.address(index) if self.net else f"127.0.0.{index + 2}"

    @cached_property
    def discovery(self) -> Path:
        """The program that tells a worker which GPUs it has."""
        path = self.folder / "gpus.sh"
        names = json.dumps([str(i) for i in range(self._shape.gpus)])
        path.write_text(f'#!/bin/sh\necho \'{{"name":"gpu","addresses":{names}}}\'\n')
        path.chmod(0o755)
        return path

    def conf(self, *, cores: int = 0, gpus: int | None = None, task_gpus: str = "1") -> dict[str, str]:
        """Settings of an application here: light executors, one a worker, with `gpus` GPUs each.

        `cores` caps the application; `task_gpus` is the amount of one task, empty for none.
        """
        gpus = self._shape.gpus if gpus is None else gpus
        options = " ".join(jvm_options())
        conf = {
            "spark.executor.cores": str(self._shape.cores),
            "spark.executor.memory": "512m",
            "spark.driver.extraJavaOptions": options,
            "spark.executor.extraJavaOptions": options,
            "spark.driver.host": self.driver_host,
            "spark.driver.bindAddress": self.driver_host,
            "spark.ui.port": "0",
        }
        if cores:
            conf["spark.cores.max"] = str(cores)
        if gpus:
            conf["spark.executor.resource.gpu.amount"] = str(gpus)
            if task_gpus:
                conf["spark.task.resource.gpu.amount"] = task_gpus
        return conf

    def state(self) -> dict[str, Any]:
        """What the master's own page says: ``workers``, ``activeapps``, ``completedapps``, …"""
        body = self.fetch(f"{self.ui}/json/")
        found: dict[str, Any] = json.loads(body)
        return found

    def fetch(self, url: str) -> bytes:
        """A page, as the driver's host sees it."""

        def read() -> bytes:
            with urllib.request.urlopen(url, timeout=60) as answer:
                body: bytes = answer.read()
            return body

        return spark_net.inside(self.net.driver, read) if self.net else read()

    def executors(self, index: int | None = None) -> list[int]:
        """Pids of executors' JVMs, of all workers or of one."""
        backends = self.processes("CoarseGrainedExecutorBackend")
        host = "" if index is None else f"--hostname {self.host(index)} "
        return [pid for pid, line in backends.items() if host in line]

    def cut(self, index: int) -> None:
        """Pull a worker's cable; only with `netns`."""
        assert self.net is not None
        self.net.cut(index)

    def heal(self, index: int) -> None:
        """Plug it in again."""
        assert self.net is not None
        self.net.heal(index)

    def run_in(self, host: int, argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
        """Run a command on the driver's host (-1) or a worker's, to its end; as `subprocess.run`."""
        return subprocess.run([*self.prefix(host), *argv], check=False, **options)

    def prefix(self, host: int = -1) -> list[str]:
        """What to put before an argv so that it runs on the driver's host (-1) or a worker's."""
        if self.net is None:
            return []
        return self.net.prefix(self.net.driver if host < 0 else self.net.worker(host))

    def _start_master(self, options: Sequence[str]) -> None:
        host = self.driver_host
        self.master = self.java(
            "master",
            "org.apache.spark.deploy.master.Master",
            *("--host", host, "--port", "0", "--webui-port", "0"),
            options=options,
            env={"SPARK_LOCAL_IP": host, "SPARK_LOCAL_HOSTNAME": host},
            namespace=self.net.driver if self.net else "",
        )
        self.master.await_said("New state: (ALIVE)")
        self.url = f"spark://{host}:{self.master.port('sparkMaster')}"
        self.ui = f"http://{host}:{self.master.port('MasterUI')}"

    def _start_worker(self, index: int) -> Daemon:
        host = self.host(index)
        own = self._shape.environs[index] if index < len(self._shape.environs) else {}
        options = list(self._shape.options)
        if self._shape.gpus:
            options.append(f"-Dspark.worker.resource.gpu.amount={self._shape.gpus}")
            options.append(f"-Dspark.worker.resource.gpu.discoveryScript={self.discovery}")
        return self.java(
            f"worker{index}",
            "org.apache.spark.deploy.worker.Worker",
            *("--host", host, "--port", "0", "--webui-port", "0"),
            *("--cores", str(self._shape.cores), "--memory", self._shape.memory),
            *("--work-dir", str(self.folder / f"work{index}")),
            self.url,
            options=options,
            env={"SPARK_LOCAL_IP": host, "SPARK_LOCAL_HOSTNAME": host, **own},
            namespace=self.net.worker(index) if self.net else "",
            hidden=self._shape.hidden,
        )


class ConnectServer(Owner):
    """A Spark Connect server, on a cluster or by itself (``local[2]``), ready when the constructor returns.

    Args:
        cluster: where its executors are; None for its own process.
        cores: how many it may take of the cluster; 0 for all.
        conf: more settings of its application.
        python: the interpreter of its tasks.
    """

    def __init__(
        self,
        cluster: Cluster | None = None,
        *,
        cores: int = 2,
        conf: Mapping[str, str] | None = None,
        python: str = sys.executable,
    ) -> None:
        super().__init__()
        self.cluster = cluster
        self._cores, self._python = cores, python
        self._conf = {"spark.connect.grpc.binding.port": "0", **(conf or {})}
        self._starts = 0
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def restart(self) -> None:
        """Start it again at the same port, after it was killed."""
        self._conf["spark.connect.grpc.binding.port"] = self.url.rpartition(":")[2]
        self._start()

    def _start(self) -> None:
        cluster = self.cluster
        host = cluster.driver_host if cluster else _LOOPBACK
        settings = cluster.conf(cores=self._cores) if cluster else {"spark.ui.port": "0"}
        settings |= {
            "spark.connect.grpc.binding.address": host,
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            **self._conf,
        }
        master = cluster.url if cluster else f"local[{self._cores or 2}]"
        words = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        self._starts += 1
        self.daemon = self.java(
            f"connect{self._starts}",  # what it said in its last life is not to be read for this one
            "org.apache.spark.deploy.SparkSubmit",
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
            *("--name", "connect-server", "--master", master, *words, "spark-internal"),
            memory="1g",
            env={"SPARK_LOCAL_IP": host, "PYSPARK_PYTHON": self._python},
            namespace=cluster.net.driver if cluster and cluster.net else "",
        )
        self.url = "sc://" + self.daemon.await_said(r"Connect server started at: ([\d.:]+)")
        self.ui = f"http://{host}:{self.daemon.port('SparkUI')}"


def press(ui: str, page: str, action: str, **fields: str | int) -> None:
    """Press a button of Spark's pages, such as ``press(ui, "/jobs/", "/jobs/job/kill/", id=0)``."""
    with urllib.request.urlopen(ui + page, timeout=60) as answer:
        token = re.search(r'name="csrfToken" value="(\w+)"', answer.read().decode())
    form = urllib.parse.urlencode({**fields, **({"csrfToken": token[1]} if token else {})})
    with urllib.request.urlopen(ui + action, data=form.encode(), timeout=60) as answer:
        assert answer.status == 200
