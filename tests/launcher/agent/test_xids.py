"""Errors that the driver logs of a run's GPUs, from NVML's events to the facts of a run.

The driver's library is a fake under the real pynvml.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pynvml
import pytest

from launcher.agent import nvml
from launcher.agent.boot import Boot
from launcher.agent.telemetry import Sampling
from launcher.agent.xids import MOST, XidSession, XidWatcher
from launcher.spec.places import Device
from launcher.state import events as ev
from tests.commands import Foreground, Gate, facts, rankdeck, until
from tests.fakes.nvml_build import FakeGpu, FakeNvml

WAIT_S = 10.0
NOT_SUPPORTED, LOST = 3, 15
FIRST, SECOND = Device(0, "GPU-aaaa"), Device(1, "GPU-bbbb")


def gpu(*xids: int, **more: Any) -> FakeGpu:
    return FakeGpu("GPU-aaaa", xids=xids, **more)


def session(*devices: Device, library: Any = pynvml) -> XidSession:
    return XidSession(library, devices)


class Logged:
    """What a watcher delivers."""

    def __init__(self) -> None:
        self.xids: list[tuple[str, int]] = []

    def __call__(self, device: Device, xid: int) -> None:
        self.xids.append((device.uuid, xid))


def watcher(logged: Logged, *devices: Device) -> XidWatcher:
    thread = XidWatcher(devices or (FIRST,), logged, head_start_s=0.0, interval_s=0.001)
    thread.start()
    return thread


def test_each_error_of_a_watched_gpu_is_seen_once(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(gpu(31, 43), FakeGpu("GPU-bbbb", xids=(79,)), FakeGpu("GPU-cccc", xids=(13,)))
    seen = session(FIRST, SECOND)
    assert [(FIRST, 31), (FIRST, 43), (SECOND, 79)] == list(seen.look())
    assert [] == list(seen.look())
    fake_nvml.say(gpu(31, 43, 45))
    assert [(FIRST, 45)] == list(seen.look())
    seen.close()


def test_a_mig_instance_has_its_own_errors_and_those_of_no_instance(fake_nvml: FakeNvml) -> None:
    parts = tuple(FakeGpu(f"MIG-{i}", xids=(10 + i,)) for i in range(3))
    fake_nvml.say(FakeGpu("GPU-aaaa", xids=(79,), mig=parts))
    instances = [Device(0, f"MIG-{i}") for i in (0, 2)]
    seen = session(*instances)
    assert [(instances[0], 79), (instances[1], 79), (instances[0], 10), (instances[1], 12)] == list(
        seen.look()
    )
    seen.close()


def test_a_gpu_that_no_longer_tells_its_uuid_is_known_by_its_handle(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(gpu())
    seen = session(SECOND, FIRST)
    fake_nvml.say(gpu(79), fails={"nvmlDeviceGetUUID": LOST})
    assert [(FIRST, 79)] == list(seen.look())
    seen.close()


@pytest.mark.parametrize(
    "function", ["nvmlEventSetCreate", "nvmlDeviceRegisterEvents", "nvmlDeviceGetHandleByUUID"]
)
def test_where_events_are_not_supported_nothing_is_seen(fake_nvml: FakeNvml, function: str) -> None:
    fake_nvml.say(gpu(31), fails={function: NOT_SUPPORTED})
    seen = session(FIRST)
    assert not seen.sees_any
    seen.close()


def test_an_older_pynvml_waits_by_its_older_name(
    fake_nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_nvml.say(gpu(31))
    wait = pynvml.nvmlEventSetWait_v2
    monkeypatch.setattr(pynvml, "nvmlEventSetWait", wait)
    monkeypatch.delattr(pynvml, "nvmlEventSetWait_v2")
    seen = session(FIRST)
    assert [(FIRST, 31)] == list(seen.look())
    seen.close()


def test_a_session_frees_its_events_and_ends_no_other_one(fake_nvml: FakeNvml) -> None:
    log = fake_nvml.answers.with_name("calls")
    fake_nvml.say(gpu(), log=log)
    other, seen = nvml.open_session(), session(FIRST)
    seen.close()
    assert ["nvmlEventSetFree ", "nvmlShutdown "] == log.read_text().splitlines()[-2:]
    assert [0] == [found.index for found in other.gpus()]
    other.close()


def test_the_watcher_looks_once_more_when_the_ranks_have_ended(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(gpu())
    logged = Logged()
    thread = XidWatcher((FIRST,), logged, head_start_s=0.0, interval_s=WAIT_S)
    thread.start()
    until(lambda: thread._watching)
    fake_nvml.say(gpu(31))
    thread.finish()
    assert [("GPU-aaaa", 31)] == logged.xids
    thread.join(WAIT_S)
    assert not thread.is_alive()


def test_of_a_flood_only_the_first_are_delivered_and_the_watcher_ends(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(gpu(*range(1, 2 * MOST)))
    logged = Logged()
    thread = watcher(logged)
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert list(range(1, MOST + 1)) == [xid for _, xid in logged.xids]


def test_without_a_driver_the_watcher_ends(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(gpu(31), fails={"nvmlInitWithFlags": 9})
    logged = Logged()
    thread = watcher(logged)
    thread.join(WAIT_S)
    assert (thread.is_alive(), logged.xids) == (False, [])


def test_samples_that_wait_take_no_room_from_an_error(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(gpu(31))
    told: list[ev.Event] = []
    sampling = Sampling(Boot(3, "", host="alpha", sample_s=0.001), (FIRST,), told.append)
    sampling.start(dict)
    until(lambda: len(sampling._queue._items) == 16 and bool(sampling._xids))
    sampling.stop()
    sampling.deliver()
    xids = [(e.agent, e.host, e.uuid, e.index, e.xid) for e in told if isinstance(e, ev.XidLogged)]
    assert [(3, "alpha", "GPU-aaaa", 0, 31)] == xids


def test_without_gpus_nothing_is_watched() -> None:
    sampling = Sampling(Boot(0, ""), (), lambda _: None)
    sampling.start(dict)
    assert "xids" not in {thread.name for thread in threading.enumerate()}
    sampling.stop()


def waiting(targets: Path, gate: Gate) -> tuple[str, ...]:
    target = str(targets / "waiting.py")
    return ("run", target, "--gpu", "--sample-interval", "0.05", "--", "gate", str(gate.path))


@pytest.mark.process
@pytest.mark.usefixtures("mark")
def test_an_error_while_a_run_goes_on_is_said_and_recorded(
    nvml_elsewhere: FakeNvml, targets: Path, tmp_path: Path
) -> None:
    nvml_elsewhere.say(gpu())
    gate = Gate(tmp_path / "gate")
    with Foreground(*waiting(targets, gate), folder=tmp_path, env=nvml_elsewhere.environment) as run:
        run.await_line("r0 |")
        nvml_elsewhere.say(gpu(31))
        run.await_narration("Xid 31, MMU fault")
        gate.open()
        assert 0 == run.finish(), run.narrated

    logged = [e for e in facts(ev.XidLogged) if isinstance(e, ev.XidLogged)]
    assert [("GPU-aaaa", 0, 31, 0)] == [(e.uuid, e.index, e.xid, e.attempt) for e in logged]


FAULTY = """
import os, pathlib, sys
answers, log = pathlib.Path(os.environ["FAKE_NVML"]), pathlib.Path(sys.argv[1])
while "nvmlEventSetWait_v2" not in log.read_text():
    pass
answers.with_suffix(".more").write_text(answers.read_text() + "gpu0.xids = 31\\n")
os.replace(answers.with_suffix(".more"), answers)
os._exit(7)
"""


@pytest.mark.process
@pytest.mark.usefixtures("mark")
def test_an_error_at_the_moment_at_which_the_rank_ends_is_recorded(
    nvml_elsewhere: FakeNvml, tmp_path: Path
) -> None:
    log, target = tmp_path / "calls", tmp_path / "faulty.py"
    log.touch()
    target.write_text(FAULTY)
    nvml_elsewhere.say(FakeGpu("GPU-aaaa"), log=log)
    done = rankdeck("run", target, "--gpu", "--", str(log), env=nvml_elsewhere.environment)
    assert 7 == done.returncode, done.stderr
    kinds = [type(e) for e in facts()]
    assert kinds.index(ev.XidLogged) < kinds.index(ev.RunEnded)


@pytest.mark.process
@pytest.mark.usefixtures("mark")
def test_a_driver_that_never_answers_does_not_hold_up_the_end_of_a_run(
    nvml_elsewhere: FakeNvml, targets: Path, tmp_path: Path
) -> None:
    log = tmp_path / "calls"
    nvml_elsewhere.say(gpu(31), hangs={"nvmlEventSetWait_v2": 3600}, log=log)
    gate = Gate(tmp_path / "gate")
    with Foreground(*waiting(targets, gate), folder=tmp_path, env=nvml_elsewhere.environment) as run:
        run.await_line("r0 |")
        until(lambda: log.exists() and "nvmlEventSetWait_v2" in log.read_text())
        gate.open()
        assert 0 == run.finish(), run.narrated
    assert [] == facts(ev.XidLogged)
