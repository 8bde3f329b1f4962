"""A real standalone cluster: who holds which GPUs, what a run waits for, and what becomes of the silent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from console.data.cluster.model import ClusterView, Use
from console.data.cluster.monitor import MachinePoller
from console.data.cluster.spark_api import ask
from launcher.backends.spark import slot_wait
from launcher.distributor import Distributor
from launcher.placement.inventory import Machine
from launcher.runs.paths import runs_root
from tests.commands import until
from tests.spark_cluster import Cluster
from tests.spark_runs import classic_session

pytest_plugins = ["tests.spark_fixtures"]
pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

TARGET = Path(__file__).parents[3] / "targets" / "waiting.py"


class Nothing:
    """A machine of which nothing is known."""

    def look(self) -> Machine:
        return Machine("console")

    def close(self) -> None:
        pass


class Looking:
    """The cluster screen's sources, looked at when a test wants to."""

    def __init__(self, cluster: Cluster) -> None:
        self.views: list[ClusterView] = [ClusterView()]
        root = runs_root()
        root.mkdir(parents=True, exist_ok=True)
        self.machines = MachinePoller(
            root,
            self.views.append,
            inspector=Nothing(),
            engines=lambda: [{"pid": 1, "session": {"master": cluster.url, "pages": [cluster.ui]}}],
            ask=ask,
            named=str,
        )

    def until(self, condition: Callable[[ClusterView], object]) -> ClusterView:
        def look() -> bool:
            self.machines.poller.look()
            self.machines.sparks.poller.look()
            self.machines.poller.look()
            return bool(condition(self.views[-1]))

        until(look, within=90)
        return self.views[-1]


@pytest.fixture
def own_cluster(spark_here: None) -> Iterator[Cluster]:
    with Cluster(cores=1, gpus=1) as made:
        yield made


def uses(view: ClusterView) -> list[Use]:
    return [gpu.use for host in view.hosts for gpu in host.gpus]


def test_who_has_which_gpus_and_what_waits_and_who_is_silent(
    own_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the session can never have what the run needs: it is to wait until it was seen, however slow we look
    monkeypatch.setattr(slot_wait, "NEVER_S", 600.0)
    looking = Looking(own_cluster)
    free = looking.until(lambda view: len(uses(view)) == 2)
    assert [Use.FREE, Use.FREE] == uses(free)
    assert ["console", "127.0.0.2", "127.0.0.3"] == [host.host for host in free.hosts]

    with classic_session(own_cluster, **{"spark.cores.max": "1"}) as session:
        held = looking.until(lambda view: view.apps and view.apps[0].gpus == 1)
        assert [Use.FREE, Use.OTHER] == sorted(uses(held))
        (app,) = held.apps
        assert ("a notebook", 1, False) == (app.name, app.cores, app.waits)
        assert session.sparkContext.applicationId == app.number
        assert (1, 2, 1, 2) == (
            (spark := held.sparks[0]).gpus_free, spark.gpus, spark.cores_free, spark.cores
        )  # fmt: skip

        job = Distributor(2, "cluster", gpu=True, start_timeout_s=120).start(str(TARGET))
        try:
            waiting = looking.until(lambda view: view.work and view.work[0].waiting)
            assert waiting.work[0].waiting is not None
            assert "needs 2 GPU slots at once" in waiting.work[0].waiting.reason
            mine = looking.until(lambda view: Use.MINE in uses(view))
            assert () == mine.apps
            assert mine.work[0].spark is not None
            assert (own_cluster.ui,) == mine.work[0].spark.pages
        finally:
            job.stop()
            job.wait(60)

    own_cluster.master.pause()
    try:
        began = time.monotonic()
        looking.machines.poller.look()
        assert time.monotonic() - began < 2.0
        silent = looking.until(lambda view: view.sparks[0].problem)
    finally:
        own_cluster.master.resume()
    assert silent.sparks[0].since is not None
    assert 2 == silent.sparks[0].workers

    looking.until(lambda view: not view.sparks[0].problem)
    own_cluster.workers[1].kill()
    lost = looking.until(lambda view: any(host.lost for host in view.hosts))
    (host,) = (host for host in lost.hosts if host.lost)
    assert ("127.0.0.3", "Spark's worker is dead") == (host.host, host.lost)
    assert [Use.LOST] == [gpu.use for gpu in host.gpus]
    assert 1 == lost.sparks[0].lost
