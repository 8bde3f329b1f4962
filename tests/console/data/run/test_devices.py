"""What figures of devices mean, and what sensors tell: unknown stays unknown."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from console.data.run.devices import Grade, Sensors, grade_of, rss_share, sensors_of
from console.data.run.metrics import CPU, HOST_CPU, MEMORY, POWER, TEMPERATURE, UTIL, Metric
from launcher.spec.places import Assignment, Device
from launcher.state import events as ev
from tests.console.run_views import view_of
from tests.console.scripted import Scripted

GIB = 1 << 30


@pytest.mark.parametrize(
    ("metric", "figure", "grade"),
    [
        (UTIL, 0.0, Grade.IDLE), (UTIL, 5.0, Grade.IDLE), (UTIL, 30.0, Grade.LOW), (UTIL, 76.0, Grade.OK),
        (UTIL, 99.0, Grade.BUSY), (CPU, 4.0, Grade.IDLE), (CPU, 300.0, Grade.BUSY),
        (MEMORY, 0.0, Grade.OK), (MEMORY, 89.0, Grade.OK), (MEMORY, 90.0, Grade.HIGH),
        (MEMORY, 97.0, Grade.FULL), (HOST_CPU, 95.0, Grade.HIGH), (TEMPERATURE, 70.0, Grade.OK),
        (TEMPERATURE, 85.0, Grade.HIGH), (TEMPERATURE, 88.0, Grade.FULL), (POWER, 100.0, Grade.OK),
        (UTIL, None, Grade.UNKNOWN), (MEMORY, math.nan, Grade.UNKNOWN), (UTIL, math.inf, Grade.UNKNOWN),
    ],
)  # fmt: skip
def test_little_work_and_much_memory_and_heat_stand_out(
    metric: Metric, figure: float | None, grade: Grade
) -> None:
    assert grade_of(metric, figure) is grade


def run_of(
    root: Path, *samples: ev.DeviceSample, rss: int | None = None, total: int | None = None
) -> Scripted:
    """A run of one rank with these devices, each sampled once."""
    run = Scripted(root, ranks=1, hosts=("node",))
    devices = tuple(Device(n, sample.uuid, "H100", 80 * GIB) for n, sample in enumerate(samples))
    run.add(
        ev.AgentJoined(time=1, agent=0, host="node", pid=1),
        ev.GangPlaced(time=1, ranks=(Assignment(0, 1, 0, 1, 0, 1, 0, "node", devices=devices),)),
        ev.RankStarted(time=2, rank=0, pid=9),
        ev.Sampled(
            time=3, agent=0, host="node", devices=samples, ranks=(ev.RankSample(rank=0, rss=rss),),
            system=ev.HostSample(memory_total=total),
        ),
    )  # fmt: skip
    return run


def test_sensors_of_several_devices_are_added_or_the_least_is_told(root: Path) -> None:
    one = ev.DeviceSample(
        uuid="a", sm_clock_mhz=1980, throttle=("power cap",), pcie_rx_kbs=5, nvlink_active=18
    )
    two = ev.DeviceSample(uuid="b", sm_clock_mhz=900, throttle=("heat", "power cap"), pcie_rx_kbs=7)
    view = view_of(run_of(root, one, two))
    told = sensors_of(view, view.ranks[0])
    assert told == Sensors(clock=900, slowed_by=("power cap", "heat"), links=18, received=12)


def test_what_no_sensor_tells_is_unknown(root: Path) -> None:
    view = view_of(run_of(root, ev.DeviceSample(uuid="a")))
    assert sensors_of(view, view.ranks[0]) == Sensors()


def test_a_rank_that_has_ended_has_no_clock(root: Path) -> None:
    run = run_of(root, ev.DeviceSample(uuid="a", sm_clock_mhz=1980))
    run.add(ev.RankExited(time=4, rank=0, exit_code=0))
    view = view_of(run)
    assert sensors_of(view, view.ranks[0]) == Sensors()


@pytest.mark.parametrize(
    ("rss", "total", "share"), [(GIB, 4 * GIB, 25.0), (GIB, None, None), (None, GIB, None)]
)
def test_memory_of_processes_is_a_share_of_the_hosts(
    root: Path, rss: int | None, total: int | None, share: float | None
) -> None:
    view = view_of(run_of(root, rss=rss, total=total))
    assert rss_share(view, view.ranks[0]) == share


def test_a_host_without_memory_is_no_error(root: Path) -> None:
    view = view_of(run_of(root, rss=GIB, total=0))
    assert rss_share(view, view.ranks[0]) is None
