from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from launcher.agent import telemetry as probe_module
from launcher.agent.telemetry import (
    Census,
    HostMeter,
    Probe,
    ProcessEntry,
    ProcessReading,
    Sampler,
    Tree,
    busy_and_all,
    cpu_seconds,
    pause,
    share,
    total,
)
from launcher.spec.places import Device
from launcher.state.events import DeviceSample, HostSample, RankSample, Sampled
from tests.fakes.nvml_build import FakeGpu, FakeNvml

pytest_plugins = ["tests.launcher.nvml_fixture"]

WAIT_S = 30


# --- a host made of a table ------------------------------------------------------------------------------


@dataclass
class Row:
    """One process of the table, changed in place by a test."""

    pid: int
    parent: int
    created: float = 100.0
    cpu: float = 0.0
    reaped: float = 0.0
    rss: int | None = 10
    io: tuple[int, int] | None = (0, 0)
    status: str = "running"


class FakePsutil:
    """What the census uses of psutil, over a table."""

    class Error(Exception):
        pass

    class NoSuchProcess(Error):
        pass

    class AccessDenied(Error):
        pass

    STATUS_ZOMBIE = "zombie"

    STATUS_DISK_SLEEP = "disk-sleep"

    def __init__(self, *rows: Row) -> None:
        self.rows = {row.pid: row for row in rows}
        self.met = 0

    def pids(self) -> list[int]:
        return list(self.rows)

    def put(self, *rows: Row) -> None:
        self.rows |= {row.pid: row for row in rows}

    def Process(self, pid: int) -> FakeProcess:  # noqa: N802 - psutil's own name
        self.met += 1
        return FakeProcess(self, pid)


class FakeProcess:
    def __init__(self, host: FakePsutil, pid: int) -> None:
        self.host, self.pid = host, pid
        self.created = self.row.created

    @property
    def row(self) -> Row:
        if self.pid not in self.host.rows:
            raise self.host.NoSuchProcess(self.pid)
        return self.host.rows[self.pid]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FakeProcess) and (other.pid, other.created) == (self.pid, self.created)

    def __hash__(self) -> int:
        return hash((self.pid, self.created))

    @contextmanager
    def oneshot(self) -> Iterator[None]:
        yield

    def is_running(self) -> bool:
        return self.pid in self.host.rows and self.row.created == self.created

    def ppid(self) -> int:
        return self.row.parent

    def create_time(self) -> float:
        return self.created

    def status(self) -> str:
        return self.row.status

    def cpu_times(self) -> SimpleNamespace:
        row = self.row
        return SimpleNamespace(user=row.cpu, system=0.0, children_user=row.reaped, children_system=0.0)

    def memory_info(self) -> SimpleNamespace:
        if self.row.rss is None:
            raise self.host.NoSuchProcess(self.pid)
        return SimpleNamespace(rss=self.row.rss)

    def io_counters(self) -> SimpleNamespace:
        if self.row.io is None:
            raise self.host.AccessDenied(self.pid)
        return SimpleNamespace(read_bytes=self.row.io[0], write_bytes=self.row.io[1])


@dataclass
class Watched:
    """A tree under observation, one second a look."""

    host: FakePsutil
    tree: Tree = field(default_factory=lambda: Tree((1,)))
    clock: float = 0.0

    def __post_init__(self) -> None:
        self.census = Census(self.host)

    def look(self) -> RankSample:
        self.clock += 1.0
        self.census.look()
        return self.tree.sample(0, self.census, self.clock)


def test_a_tree_is_the_main_process_and_all_its_descendants() -> None:
    host = FakePsutil(Row(1, 0), Row(2, 1, rss=5), Row(3, 2, rss=7), Row(9, 0, rss=1000))
    sample = Watched(host).look()
    assert (sample.processes, sample.rss) == (3, 22)


def test_cpu_is_unknown_at_first_and_then_counts_the_whole_tree() -> None:
    main, child = Row(1, 0, cpu=50.0), Row(2, 1, cpu=7.0)
    watched = Watched(FakePsutil(main, child))
    first = watched.look()
    main.cpu, child.cpu = 50.75, 8.0
    assert (first.cpu, watched.look().cpu) == (None, 175.0)


def test_a_main_process_that_is_not_there_is_wholly_unknown() -> None:
    assert Watched(FakePsutil(Row(7, 0))).look() == RankSample(rank=0)


def test_a_new_child_counts_with_all_it_used() -> None:
    watched = Watched(FakePsutil(Row(1, 0)))
    watched.look()
    watched.host.put(Row(2, 1, cpu=0.5))
    assert watched.look().cpu == 50.0


def test_a_child_that_ends_makes_cpu_neither_negative_nor_a_spike() -> None:
    main, child = Row(1, 0, cpu=10.0), Row(2, 1, cpu=500.0)
    watched = Watched(FakePsutil(main, child))
    watched.look()
    del watched.host.rows[2]
    main.cpu, main.reaped = 10.25, 500.5
    assert watched.look().cpu == 75.0


def test_a_child_that_nobody_waited_for_takes_nothing_from_the_others() -> None:
    main = Row(1, 0, cpu=10.0)
    watched = Watched(FakePsutil(main, Row(2, 1, cpu=500.0)))
    watched.look()
    del watched.host.rows[2]
    main.cpu = 10.25
    assert watched.look().cpu == 25.0


def test_a_child_that_lived_between_two_samples_is_counted_when_it_was_waited_for() -> None:
    main = Row(1, 0)
    watched = Watched(FakePsutil(main))
    watched.look()
    main.reaped = 0.75
    assert watched.look().cpu == 75.0


def test_a_pid_used_again_is_a_new_process_not_a_jump_of_the_old_one() -> None:
    watched = Watched(FakePsutil(Row(1, 0), Row(2, 1, cpu=500.0)))
    watched.look()
    watched.host.put(Row(2, 1, created=200.0, cpu=0.5))
    assert watched.look().cpu == 50.0


def test_a_pid_used_again_by_a_stranger_leaves_the_tree() -> None:
    watched = Watched(FakePsutil(Row(1, 0), Row(2, 1)))
    assert watched.look().processes == 2
    watched.host.put(Row(2, 0, created=200.0, rss=9999))
    assert watched.look().processes == 1


def test_the_main_pid_used_again_by_a_stranger_is_unknown() -> None:
    watched = Watched(FakePsutil(Row(1, 0)))
    watched.look()
    watched.host.put(Row(1, 0, created=200.0))
    assert [watched.look(), watched.look()] == [RankSample(rank=0)] * 2


def test_an_orphan_stays_with_the_rank_it_came_from() -> None:
    orphan = Row(3, 2, rss=7)
    watched = Watched(FakePsutil(Row(1, 0), Row(2, 1), orphan))
    watched.look()
    del watched.host.rows[2]
    orphan.parent = 0
    assert watched.look().rss == 17


def test_a_process_older_than_its_parent_is_the_child_of_another_one() -> None:
    host = FakePsutil(Row(1, 0, created=500.0), Row(2, 1, created=100.0))
    assert Watched(host).look().processes == 1


def test_a_zombie_is_no_living_process_and_hides_no_figure() -> None:
    host = FakePsutil(Row(1, 0), Row(2, 1, status="zombie", rss=None, io=None))
    sample = Watched(host).look()
    assert (sample.processes, sample.rss, sample.read_bytes) == (1, 10, 0)


def test_a_process_that_vanishes_while_it_is_read_is_left_out() -> None:
    sample = Watched(FakePsutil(Row(1, 0), Row(2, 1, rss=None))).look()
    assert (sample.processes, sample.rss) == (1, 10)


def test_io_that_is_not_permitted_is_unknown_and_the_rest_known() -> None:
    sample = Watched(FakePsutil(Row(1, 0), Row(2, 1, io=None))).look()
    assert (sample.read_bytes, sample.write_bytes, sample.rss) == (None, None, 20)


def test_io_of_a_tree_never_falls() -> None:
    watched = Watched(FakePsutil(Row(1, 0, io=(10, 20)), Row(2, 1, io=(5, 5))))
    watched.look()
    del watched.host.rows[2]
    sample = watched.look()
    assert (sample.read_bytes, sample.write_bytes) == (15, 25)


def test_known_processes_are_asked_again_only_now_and_then() -> None:
    host = FakePsutil(*(Row(pid, 0) for pid in range(1, 301)))
    census = Census(host)
    census.look()
    met = host.met
    for _ in range(30):
        census.look()
    assert (met, host.met) == (300, 600)


def test_a_total_with_an_unknown_part_is_unknown() -> None:
    assert (total([1, 2]), total([1, None]), total([])) == (3, None, None)


def test_a_process_that_joins_late_counts_from_then_on() -> None:
    def reading(pid: int, own: float, since: int) -> tuple[tuple[int, float], ProcessReading]:
        entry = ProcessEntry(SimpleNamespace(pid=pid), 0, 1.0, since)
        return entry.key, ProcessReading(entry, own)

    before, after = dict([reading(1, 5.0, 1)]), dict([reading(1, 5.5, 1), reading(2, 300.0, 1)])
    assert cpu_seconds(before, after, look=7) == 0.5


# --- the host --------------------------------------------------------------------------------------------


def test_host_cpu_is_the_busy_share_without_counting_guests_twice() -> None:
    times = {"user": 30.0, "guest": 10.0, "system": 10.0, "idle": 50.0, "iowait": 10.0}
    assert busy_and_all(times) == (40.0, 100.0)


def test_host_cpu_between_equal_moments_is_unknown() -> None:
    assert share((1.0, 2.0), (1.0, 2.0)) is None


def test_a_host_is_measured_with_psutil() -> None:
    meter = HostMeter(psutil)
    sample = meter.read()
    assert (sample.cpu, sample.memory_total) == (None, psutil.virtual_memory().total)
    assert 0 < (sample.memory_used or 0) < psutil.virtual_memory().total


# --- the probe -------------------------------------------------------------------------------------------

BURN = """
import os, sys, time
for _ in sys.stdin:
    end = time.process_time() + 0.3
    while time.process_time() < end: pass
    if sys.argv[1:] and os.fork() == 0:
        end = time.process_time() + 0.3
        while time.process_time() < end: pass
        os._exit(0)
    if sys.argv[1:]: os.wait()
    print("done", flush=True)
"""


class Rank:
    """A real process that uses 0.3 s of CPU when asked; with a child, another 0.3 s in that."""

    def __init__(self, *args: str) -> None:
        command = [sys.executable, "-c", BURN, *args]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid

    def burn(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"

    def __enter__(self) -> Rank:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def new_probe(devices: tuple[Device, ...] = (), **more: Any) -> Probe:
    return Probe(agent=3, host="node-a", devices=devices, **more)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.process
def test_cpu_of_real_ranks_is_measured_with_the_children_they_waited_for() -> None:
    clock = Clock()
    probe = new_probe(clock=clock)
    with Rank() as alone, Rank("child") as parent:
        alone.burn()
        parent.burn()
        probe.sample(0.0, {0: (alone.pid,), 1: (parent.pid,)})
        alone.burn()
        parent.burn()
        clock.now = 1.0
        first, second = probe.sample(1.0, {0: (alone.pid,), 1: (parent.pid,)}).ranks
    assert 25 <= (first.cpu or 0) <= 45
    assert 55 <= (second.cpu or 0) <= 80
    assert (first.rss or 0) > 1_000_000


@pytest.mark.process
def test_a_rank_that_got_another_process_starts_anew() -> None:
    probe = new_probe()
    with Rank() as before, Rank() as after:
        before.burn()
        after.burn()
        probe.sample(0.0, {0: (before.pid,)})
        probe.sample(1.0, {0: (before.pid,)})
        (restarted,) = probe.sample(2.0, {0: (after.pid,)}).ranks
    assert (restarted.cpu, restarted.processes) == (None, 1)


def test_a_dead_rank_is_unknown_and_its_neighbour_is_not() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    dead, alive = new_probe().sample(0.0, {0: (gone.pid,), 1: (os.getpid(),)}).ranks
    assert dead == RankSample(rank=0)
    assert (alive.rank, (alive.processes or 0) >= 1) == (1, True)


def test_a_sample_says_whose_it_is() -> None:
    sample = new_probe().sample(12.5, {4: (os.getpid(),)})
    assert (sample.time, sample.agent, sample.host, sample.ranks[0].rank) == (12.5, 3, "node-a", 4)


def test_without_devices_the_driver_is_left_alone_and_the_reason_is_noted() -> None:
    probe = new_probe(reason="no GPU found (NVML: Driver Not Loaded)")
    assert probe.notes == ("no GPU found (NVML: Driver Not Loaded): showing CPU only",)
    assert probe.sample(0.0, {}).devices == ()


def test_without_psutil_figures_are_unknown_and_a_note_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    probe = new_probe()
    sample = probe.sample(0.0, {0: (os.getpid(),)})
    assert probe.notes == ("psutil is not installed here: CPU and memory figures are unknown",)
    assert sample.ranks == (RankSample(rank=0),)
    assert sample.system == HostSample(load1=sample.system.load1 if sample.system else None)


def test_a_process_list_that_cannot_be_read_makes_ranks_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> list[int]:
        raise PermissionError("/proc")

    probe = new_probe()
    monkeypatch.setattr(psutil, "pids", refuse)
    sample = probe.sample(0.0, {0: (os.getpid(),)})
    assert sample.ranks == (RankSample(rank=0),)
    assert sample.system is not None
    assert sample.system.memory_total is not None


GPU_A, GPU_B = Device(0, "GPU-a"), Device(1, "GPU-b")


def test_device_memory_of_a_rank_is_summed_over_its_tree_and_all_devices(fake_nvml: FakeNvml) -> None:
    mine, child, other = os.getpid(), 0, 1
    with Rank() as rank:
        rank.burn()
        child = rank.pid
        on_a = FakeGpu("GPU-a", util=40, compute=((mine, 100), (other, 7)), graphics=((mine, 100),))
        fake_nvml.say(on_a, FakeGpu("GPU-b", compute=((child, 20),)))
        sample = new_probe((GPU_A, GPU_B)).sample(0.0, {0: (mine,), 1: (child,)})
    assert [rank_sample.device_memory for rank_sample in sample.ranks] == [120, 20]
    assert [device.util for device in sample.devices] == [40.0, None]


def test_device_memory_that_the_driver_does_not_tell_is_unknown(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(FakeGpu("GPU-a", compute=((os.getpid(), -1),)))
    (rank,) = new_probe((GPU_A,)).sample(0.0, {0: (os.getpid(),)}).ranks
    assert rank.device_memory is None


def test_a_rank_that_the_driver_does_not_list_has_unknown_memory(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(FakeGpu("GPU-a", compute=((1, 5),)))
    (rank,) = new_probe((GPU_A,)).sample(0.0, {0: (os.getpid(),)}).ranks
    assert rank.device_memory is None


def test_a_driver_that_fails_to_start_is_noted_and_its_devices_are_unknown(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(fails={"nvmlInitWithFlags": 9})
    probe = new_probe((GPU_A,))
    assert probe.notes == ("NVML: Driver Not Loaded: GPU figures are unknown",)
    sample = probe.sample(0.0, {0: (os.getpid(),)})
    assert sample.devices == (DeviceSample(uuid="GPU-a", index=0),)
    assert sample.ranks[0].rss is not None


# --- the sampler -----------------------------------------------------------------------------------------


class ScriptedProbe:
    """A probe whose samples are what a test says."""

    notes: tuple[str, ...] = ("said once",)

    def __init__(self, take: Callable[[], Sampled]) -> None:
        self._take = take
        self.closed = threading.Event()

    def sample(self, now: float, ranks: Mapping[int, tuple[int, ...]]) -> Sampled:
        return self._take()

    def unknown(self, now: float, ranks: Mapping[int, tuple[int, ...]]) -> Sampled:
        return Sampled(time=now, agent=-1, host="unknown")

    def close(self) -> None:
        self.closed.set()


class Collected:
    """What a sampler delivered, and a way to wait for it."""

    def __init__(self) -> None:
        self.samples: list[Sampled] = []
        self.notes: list[str] = []
        self._changed = threading.Condition()

    def deliver(self, sample: Sampled) -> None:
        with self._changed:
            self.samples.append(sample)
            self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.samples) >= count, WAIT_S)


def sampler(probe: object, collected: Collected, interval_s: float = 0.001) -> Sampler:
    return Sampler(
        lambda: probe,  # type: ignore[arg-type, return-value]  # a scripted twin
        interval_s,
        dict,
        collected.deliver,
        clock=lambda: 5.0,
        note=collected.notes.append,
    )


def test_the_sampler_notes_once_and_samples_until_it_is_stopped() -> None:
    collected = Collected()
    probe = ScriptedProbe(lambda: Sampled(time=1.0, agent=0, host="a"))
    thread = sampler(probe, collected)
    thread.start()
    collected.wait_for(3)
    thread.stop()
    thread.join(WAIT_S)
    assert (thread.is_alive(), thread.daemon, probe.closed.is_set()) == (False, True, True)
    assert collected.notes == ["said once"]


def test_a_failing_sensor_gives_unknown_samples_and_one_note() -> None:
    def fail() -> Sampled:
        raise OSError("no such sensor")

    collected = Collected()
    thread = sampler(ScriptedProbe(fail), collected)
    thread.start()
    collected.wait_for(2)
    thread.stop()
    thread.join(WAIT_S)
    assert collected.samples[0] == Sampled(time=5.0, agent=-1, host="unknown")
    assert collected.notes[1:] == ["a sensor failed (no such sensor): its figures are unknown"]


def test_a_hung_sensor_holds_up_neither_stop_nor_start() -> None:
    asked, answer = threading.Event(), threading.Event()

    def hang() -> Sampled:
        asked.set()
        assert answer.wait(WAIT_S)
        return Sampled(time=1.0, agent=0, host="a")

    collected = Collected()
    thread = sampler(ScriptedProbe(hang), collected)
    thread.start()
    assert asked.wait(WAIT_S)
    thread.stop()
    answer.set()
    thread.join(WAIT_S)
    assert collected.samples == []


def test_a_sampler_stopped_at_once_makes_no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_module, "HEAD_START_S", WAIT_S)
    collected = Collected()
    thread = sampler(None, collected, interval_s=WAIT_S)
    thread.start()
    thread.stop()
    thread.join(WAIT_S)
    assert (thread.is_alive(), collected.notes) == (False, [])


@pytest.mark.parametrize(("took", "rest"), [(0.0, 1.0), (0.3, 0.7), (5.0, 0.25)])
def test_the_pace_makes_up_for_slow_sensors_but_always_rests(took: float, rest: float) -> None:
    assert pause(1.0, took) == rest


HUNG = """
import os, sys
from launcher.spec.places import Device
from launcher.agent.telemetry import Probe, Sampler
device = Device(0, "GPU-a")
make = lambda: Probe(agent=0, host="a", devices=(device,))
Sampler(make, 0.01, lambda: {0: (os.getpid(),)}, lambda sample: print("sample", flush=True)).start()
sys.stdin.readline()
"""


@pytest.mark.process
def test_a_process_ends_although_the_driver_never_answers(nvml_elsewhere: FakeNvml) -> None:
    log = nvml_elsewhere.answers.with_name("calls")
    nvml_elsewhere.say(FakeGpu("GPU-a", util=1))
    process = subprocess.Popen(
        [sys.executable, "-c", HUNG],
        env=nvml_elsewhere.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout
    assert process.stdout.readline() == b"sample\n"
    nvml_elsewhere.say(FakeGpu("GPU-a"), hangs={"nvmlDeviceGetUtilizationRates": 3600}, log=log)
    while not (log.exists() and b"UtilizationRates" in log.read_bytes()):
        assert process.poll() is None
    process.communicate(b"\n", timeout=WAIT_S)
    assert process.returncode == 0
