"""Whose each GPU is, what each run waits for; and that engines are asked seldom."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console.data.cluster.model import ClusterView, GpuView, Held, Use
from console.data.cluster.monitor import EngineCache, MachinePoller
from console.data.cluster.occupancy import cluster_view, known_sparks
from console.data.cluster.spark_api import (
    Application,
    Executor,
    KnownSpark,
    Master,
    OwnExecutor,
    PageAnswer,
    SparkNow,
    Worker,
)
from console.data.run.metrics import UTIL
from console.ui.cluster.machines import gpu_row
from launcher.placement.inventory import GpuUse, Holder, Machine
from launcher.spec.places import Device
from launcher.state import events as ev
from launcher.state.ranks import Rank, RankPhase, Ranks
from launcher.state.run_state import Host, Loss, Phase, RunState
from tests.console.scripted import SPARK, START, Scripted

GIB = 1 << 30


def sample(uuid: str, **known: Any) -> ev.DeviceSample:
    return ev.DeviceSample(uuid=uuid, **known)


def gpu(index: int, *holders: Holder, **known: Any) -> GpuUse:
    device = Device(index, f"GPU-{index}", "NVIDIA H100", 80 * GIB)
    return GpuUse(device, sample(device.uuid, index=index, **known), holders)


def rank(number: int, host: str, pid: int, *devices: int, phase: RankPhase = RankPhase.RUNNING) -> Rank:
    held = tuple(Device(index, f"GPU-{index}") for index in devices)
    return Rank(number, phase, host=host, pid=pid, devices=held)


def running(*ranks: Rank, **known: Any) -> RunState:
    state = RunState(id="20260101-100000-000abc", name="llama", phase=Phase.RUNNING, num_processes=len(ranks))
    return replace(state, ranks=Ranks.of(ranks), **known)


def seen(machine: Machine, *runs: RunState) -> ClusterView:
    return cluster_view(machine, runs, (), START)


def one(use: GpuUse, *runs: RunState) -> GpuView:
    return seen(Machine("here", gpus=(use,)), *runs).hosts[0].gpus[0]


@pytest.mark.parametrize(
    ("use", "whose"),
    [
        (gpu(0, util=0.0, memory_used=1), Use.FREE),
        (gpu(0), Use.UNKNOWN),
        (gpu(0, util=90.0), Use.TAKEN),
        (gpu(0, util=0.0, memory_used=2 * GIB), Use.TAKEN),
        (gpu(0, Holder(7, user="bo")), Use.OTHER),
        (gpu(0, Holder(100)), Use.MINE),
        (gpu(0, Holder(7, ancestors=(6, 100, 1))), Use.MINE),
        (gpu(0, Holder(7, ancestors=(6, 1))), Use.OTHER),
        (gpu(3, util=0.0), Use.MINE),
    ],
)
def test_a_gpu_belongs_to_who_works_on_it(use: GpuUse, whose: Use) -> None:
    assert whose is one(use, running(rank(0, "here", 100, 3))).use


def test_a_rank_and_a_stranger_on_one_gpu_are_both_told() -> None:
    stranger = Holder(7, user="bo", name="python")
    found = one(gpu(0, Holder(100), stranger), running(rank(0, "here", 99, 1), rank(1, "here", 100)))

    assert (Use.MINE, (stranger,)) == (found.use, found.foreign)
    assert (Held("20260101-100000-000abc", "llama", (1,), (100,)),) == found.held


def test_a_rank_that_has_ended_or_lives_elsewhere_holds_nothing() -> None:
    ended = running(rank(0, "here", 100, 0, phase=RankPhase.FAILED), rank(1, "there", 100, 0))
    view = seen(Machine("here", gpus=(gpu(0, Holder(100), util=1.0),)), ended)

    assert Use.OTHER is view.hosts[0].gpus[0].use
    assert () == view.hosts[0].held


def test_other_machines_are_known_by_the_agents_of_live_runs() -> None:
    there = Host(
        1, "there", system=ev.HostSample(cpu=5.0), sampled_at=2.0,
        devices={"GPU-4": sample("GPU-4", index=4, util=50.0), "GPU-5": sample("GPU-5", index=5, util=0.0)},
    )  # fmt: skip
    gone = Host(2, "gone", present=False)
    view = seen(
        Machine("here", reason="no driver"),
        running(rank(0, "there", 100, 4), rank(1, "there", 101, 6), hosts={1: there, 2: gone}),
    )
    here, other = view.hosts

    assert (True, "no driver", False, "") == (here.here, here.reason, other.here, other.reason)
    assert (5.0, ((0, 1),)) == (other.system.cpu, tuple(held.ranks for held in other.held))
    assert [(4, Use.MINE), (5, Use.FREE), (6, Use.MINE)] == [(g.device.index, g.use) for g in other.gpus]
    assert [2, 0, 1] == [view.count(use) for use in (Use.MINE, Use.OTHER, Use.FREE)]


def test_gpus_that_tell_nothing_stay_apart() -> None:
    dead = tuple(GpuUse(Device(i, ""), sample("", index=i), error="lost") for i in range(2))
    (host,) = seen(Machine("here", gpus=dead)).hosts

    assert [(0, "lost"), (1, "lost")] == [(g.device.index, g.error) for g in host.gpus]


def test_a_run_that_waits_comes_first_and_says_for_what() -> None:
    awaited = ev.SlotsAwaited(time=START - 12, have=56, need=64, limit_s=600.0, reason="gpu-16 is lost")
    waiting = replace(running(), id="9", requested=64, phase=Phase.WAITING, waiting=awaited)
    waiting = replace(waiting, since=((Phase.WAITING, START - 12.5),))
    lost: Loss = ev.ExecutorLost(time=1.0, reason="OOM")
    works = running(
        rank(0, "a", 1), rank(1, "a", 2), rank(2, "b", 3), spark=SPARK, losses=(lost,), waiting=awaited
    )
    first, second = seen(Machine("here"), works, waiting).work

    assert ("9", awaited, 12, 64) == (first.run, first.waiting, first.waited_s, first.size)
    assert ({"a": 2, "b": 1}, SPARK, None, None) == (
        second.places, second.spark, second.waiting, second.waited_s
    )  # fmt: skip
    assert ("OOM",) == second.lost


def test_engines_say_what_they_say_and_old_ones_less() -> None:
    session = {"application": "app-1", "master": "spark://h:7077", "ui": "http://h:4040"}
    slots = {"local_runs": 1, "of": 4}
    told = [
        {"pid": 1, "target": "local", "version": "1", "runs": [{}], "clients": 2, "slots": slots},
        {"pid": 2, "target": "spark://h:7077", "version": "1", "runs": [], "session": session},
        {"pid": 3, "target": "local", "runs": [], "silent": "timed out"},
        {"pid": 4, "slots": {"new": 1}, "session": None},
    ]
    engines = cluster_view(Machine("here"), (), told, START).engines

    assert ["1/4", "", "", ""] == [engine.slots for engine in engines]
    assert ("app-1 on spark://h:7077", "http://h:4040") == (engines[1].session, engines[1].ui)
    assert "timed out" == engines[2].silent


# --- Spark -----------------------------------------------------------------------------------------


def spark_worker(host: str, *executors: Executor, free: tuple[str, ...] = (), **more: Any) -> Worker:
    known: dict[str, Any] = {"cores": 4, "cores_free": 2, "gpus": ("0", "1"), "page": f"http://{host}:8081"}
    return Worker(
        f"worker-{host}", host, **{"state": "ALIVE", "free": free, "executors": executors, **known, **more}
    )


def standalone(*workers: Worker, apps: tuple[Application, ...] = (), **more: Any) -> SparkNow:
    return SparkNow(SPARK.master, "http://head:8080", Master(SPARK.master, "ALIVE", workers, apps), **more)


ETL = Application("app-7", "nightly etl", "bo", "RUNNING", 2, 1, START)


def by_spark(spark: SparkNow, *runs: RunState, here: Machine | None = None) -> ClusterView:
    return cluster_view(here or Machine("here"), runs, (), START, (spark,))


def test_spark_tells_whose_gpus_are_that_no_agent_measures() -> None:
    theirs, ours = Executor("0", "app-7", ("0",)), Executor("1", SPARK.application, ("1",))
    view = by_spark(
        standalone(spark_worker("a", theirs, free=("1",)), spark_worker("b", ours, free=()), apps=(ETL,)),
        running(spark=SPARK),
    )
    uses = {host.host: [gpu.use for gpu in host.gpus] for host in view.hosts}

    assert {"here": [], "a": [Use.OTHER, Use.FREE], "b": [Use.TAKEN, Use.MINE]} == uses
    (first, second), (unnamed, mine) = view.hosts[1].gpus, view.hosts[2].gpus
    assert (False, True, False) == (first.lent, unnamed.lent, mine.lent)
    assert "held by a Spark application" in "".join(text for text, _ in gpu_row(unnamed, 120, UTIL))
    assert ("nightly etl", "0", None) == (
        first.executor and first.executor.name,
        first.address,
        second.executor,
    )
    assert mine.executor is not None
    assert mine.executor.mine
    (app,) = view.apps
    assert ("nightly etl", "bo", 2, 1, ("a",)) == (app.name, app.user, app.cores, app.gpus, app.hosts)
    assert "http://head:8080/app/?appId=app-7" == app.page


def test_what_is_measured_and_what_spark_says_are_one_gpu() -> None:
    machine = Machine("here", gpus=(gpu(0, util=50.0), gpu(1, util=0.0)))
    handed = spark_worker("localhost", Executor("0", "app-7", ("GPU-1",)), gpus=("GPU-1", "0"), free=("0",))
    (host,) = by_spark(standalone(handed, apps=(ETL,)), here=machine).hosts

    assert [("0", Use.TAKEN), ("GPU-1", Use.OTHER)] == [(g.address, g.use) for g in host.gpus]
    assert not any(g.lent for g in host.gpus)


def test_a_stranger_on_a_gpu_that_spark_calls_free_is_told() -> None:
    machine = Machine("here", gpus=(gpu(0, Holder(7, user="bo")),))
    (host,) = by_spark(standalone(spark_worker("here", gpus=("0",), free=("0",))), here=machine).hosts

    assert Use.OTHER is host.gpus[0].use


@pytest.mark.parametrize("name", ["gpu-1", "10.0.0.5", "gpu-1.ec2.internal"])
def test_a_worker_and_an_agent_with_other_names_for_a_machine_are_on_one(name: str) -> None:
    agent = Host(1, "gpu-1.ec2.internal", address="10.0.0.5", sampled_at=START)
    view = by_spark(standalone(spark_worker(name)), running(rank(0, agent.host, 5), hosts={1: agent}))

    assert ["here", agent.host] == [host.host for host in view.hosts]
    assert (1, 4) == (len(view.hosts[1].workers), view.hosts[1].workers[0].cores)


def test_machines_whose_short_names_are_alike_stay_apart() -> None:
    agents = {n: Host(n, f"gpu-1.{zone}", sampled_at=START) for n, zone in enumerate(("east", "west"))}
    view = by_spark(standalone(spark_worker("gpu-1")), running(hosts=agents))

    assert ["here", "gpu-1.east", "gpu-1.west", "gpu-1"] == [host.host for host in view.hosts]


def test_loopback_workers_are_not_this_machine_but_its_names_are() -> None:
    view = by_spark(standalone(spark_worker("127.0.0.2"), spark_worker("127.0.0.1")))

    assert ["here", "127.0.0.2"] == [host.host for host in view.hosts]
    assert 1 == len(view.hosts[0].workers)


def test_a_dead_worker_is_lost_with_its_gpus() -> None:
    (spark,) = (view := by_spark(standalone(spark_worker("a", state="DEAD", heard=START - 70)))).sparks
    lost = view.hosts[1]

    assert ("Spark's worker is dead", START - 70) == (lost.lost, lost.workers[0].heard)
    assert [Use.LOST, Use.LOST] == [gpu.use for gpu in lost.gpus]
    assert (0, 1, 0) == (spark.workers, spark.lost, spark.gpus)


def test_a_machine_whose_agents_fall_silent_says_for_how_long() -> None:
    agents = {n: Host(n, f"h{n}", sampled_at=START - age) for n, age in enumerate((3.0, 45.0))}
    _, fresh, silent = by_spark(standalone(), running(hosts=agents)).hosts

    assert (None, 45) == (fresh.silent_s, silent.silent_s)


def test_a_machine_whose_agent_is_gone_stays_as_long_as_its_ranks_are_missed() -> None:
    gone = Host(1, "h1", present=False)
    lost = running(
        rank(0, "h1", 5, phase=RankPhase.LOST), rank(1, "h2", 6), hosts={1: gone, 2: Host(2, "h2")}
    )
    hosts = {host.host: host.lost for host in seen(Machine("here"), lost).hosts}

    assert {"here": "", "h2": "", "h1": "its agent is gone"} == hosts


def test_of_a_spark_that_does_not_tell_what_it_has_that_is_said() -> None:
    own = OwnExecutor("app-1", "3", "h3", 4, 1, ("0",))
    ready = replace(SPARK, application="app-1", master="yarn")
    view = by_spark(SparkNow("yarn", own=(own,)), running(spark=ready))
    (spark,) = view.sparks
    executor = view.hosts[1].executors[0]

    assert (None, "what else the cluster has is not known here") == (spark.workers, spark.note)
    assert ("h3", True, 4, 1) == (view.hosts[1].host, executor.mine, executor.cores, executor.tasks)
    assert [Use.MINE] == [gpu.use for gpu in view.hosts[1].gpus]


def test_applications_that_wait_come_first_and_ours_are_no_others() -> None:
    apps = (
        ETL,
        Application("app-8", "b", "al", "WAITING"),
        Application(SPARK.application, "x", "me", "RUNNING"),
    )
    view = by_spark(standalone(spark_worker("a", executors=None), apps=apps), running(spark=SPARK))

    assert [("app-8", True), ("app-7", False)] == [(app.number, app.waits) for app in view.apps]
    assert [None, None] == [app.gpus for app in view.apps]


def test_the_sparks_to_ask_are_those_of_runs_and_engines_and_the_named_one() -> None:
    session = {"application": "app-9", "master": "spark://n:7077", "ui": "", "pages": ["http://n:8080"]}
    ready = replace(SPARK, pages=("http://head:8080",))
    again = replace(ready, application="app-2", ui="http://head:4041", pages=("http://head:8080",))
    runs = [running(spark=ready), running(spark=again), running()]
    found = known_sparks(runs, [{"session": session}, {"session": None}, {}], SPARK.master)

    apps = {SPARK.application: SPARK.ui, "app-2": "http://head:4041"}
    assert (
        KnownSpark(SPARK.master, ("http://head:8080",), apps),
        KnownSpark("spark://n:7077", ("http://n:8080",), {"app-9": ""}),
    ) == found


class Asked:
    """Engines that count how often they are asked."""

    def __init__(self, *told: Mapping[str, Any]) -> None:
        self.told, self.times = told, 0

    def __call__(self) -> Iterable[Mapping[str, Any]]:
        self.times += 1
        return self.told


def test_idle_engines_are_asked_once_and_busy_ones_now_and_then() -> None:
    now = [0.0]
    asked = Asked({"pid": os.getpid()}, {"pid": 4_194_304})
    roll = EngineCache(asked, lambda: now[0])
    for second in range(20):
        now[0] = float(second)
        assert [os.getpid()] == [engine["pid"] for engine in roll.look(())]
    assert 1 == asked.times

    for second in range(20, 30):
        now[0] = float(second)
        roll.look(("run",))
    assert 3 == asked.times
    roll.look(())
    assert 4 == asked.times


def mute(url: str) -> PageAnswer:
    return PageAnswer(problem="nobody is there")


class Still:
    """A machine on which nothing moves."""

    closed = False

    def look(self) -> Machine:
        return Machine("ip-10-0-47-5.ec2.internal", gpus=(gpu(0, util=1.0),))

    def close(self) -> None:
        self.closed = True


def test_runs_are_followed_and_published_only_when_something_changes(root: Path) -> None:
    script = Scripted(root)
    script.add(ev.SlotsAwaited(time=1.0, have=2, need=4, limit_s=600.0, reason="executors come"))
    published: list[ClusterView] = []
    machines = MachinePoller(
        root,
        published.append,
        inspector=Still(),
        engines=Asked(),
        ask=mute,
        named=str,
        clock=lambda: START + 5,
    )
    machines.poller.look()
    machines.poller.look()
    assert [(4, "executors come", 4)] == [
        (v.work[0].size, v.work[0].waiting.reason, v.work[0].waited_s) for v in published if v.work[0].waiting
    ]

    script.place(2.0)
    devices = (sample("GPU-9", index=9, util=7.0),)
    for time in (3.0, 4.0):
        script.add(
            ev.Sampled(
                time=time, agent=0, host=script.hosts[0], devices=devices, system=ev.HostSample(cpu=time)
            )
        )
    machines.poller.look()
    hosts = {host.host: host for host in published[-1].hosts}
    assert set(script.hosts) == hosts.keys()
    assert (4.0, 9) == (hosts[script.hosts[0]].system.cpu, hosts[script.hosts[0]].gpus[0].device.index)
    assert (True, 1, Use.FREE) == (
        (here := hosts[script.hosts[2]]).here, len(here.gpus), here.gpus[0].use
    )  # fmt: skip

    script.add(ev.RunEnded(time=9.0, state="succeeded", exit_code=0, why=""))
    script.writer.close()
    machines.poller.look()
    machines.poller.look()
    assert ((), 3) == (published[-1].work, len(published))


def test_what_cannot_be_read_is_said(root: Path) -> None:
    root.rmdir()
    root.write_text("")
    published: list[ClusterView] = []
    machines = MachinePoller(root, published.append, inspector=Still(), engines=Asked(), ask=mute, named=str)
    machines.poller.look()

    assert "cannot read" in published[0].problem


def test_a_master_that_never_answers_holds_nothing_up(root: Path) -> None:
    script, never, shown = Scripted(root), threading.Event(), threading.Event()
    script.add(SPARK)

    def publish(view: ClusterView) -> None:
        if view.work and not view.sparks:
            shown.set()

    def ask(url: str) -> PageAnswer:
        never.wait(60)
        return PageAnswer(problem="never")

    machines = MachinePoller(root, publish, inspector=Still(), engines=Asked(), ask=ask, named=str)
    machines.start()
    assert shown.wait(60)
    machines.close()
    never.set()


def test_a_master_that_the_environment_names_is_asked_though_nothing_runs(root: Path) -> None:
    asked: list[str] = []

    def ask(url: str) -> PageAnswer:
        asked.append(url)
        return PageAnswer(problem="refused")

    published: list[ClusterView] = []
    machines = MachinePoller(
        root, published.append, inspector=Still(), engines=Asked(), ask=ask, named=lambda: "spark://m:7077"
    )
    machines.poller.look()
    machines.sparks.poller.look()
    machines.poller.look()
    assert ["http://m:8080/json/"] == asked
    assert ["http://m:8080: refused"] == [spark.problem for spark in published[-1].sparks]
