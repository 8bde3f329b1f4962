"""What we read of a real GPU through NVML, beside what `nvidia-smi` says of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import fields
from pathlib import Path

import pytest

from console.data.replay import Script
from launcher.agent import nvml
from launcher.agent.gpus import discover
from launcher.placement.inventory import Inspector
from launcher.state import events as ev
from tests.commands import until
from tests.gpu import smi

pytestmark = smi.needs_gpu


@pytest.fixture
def session() -> Iterator[nvml.NvmlSession]:
    with closing(nvml.open_session()) as opened:
        yield opened


@contextmanager
def program(path: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A program that runs beside the test."""
    process = subprocess.Popen([sys.executable, "-u", str(path), *words], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_who_it_is(session: nvml.NvmlSession) -> None:
    uuid, name, driver, mig, total = smi.query(
        "uuid", "name", "driver_version", "mig.mode.current", "memory.total"
    )
    [gpu, *_] = session.gpus()

    assert gpu.device is not None
    assert (uuid, name, int(total)) == (gpu.device.uuid, gpu.device.name, (gpu.device.memory or 0) // smi.MIB)
    assert driver == session.driver()
    assert (mig == "Enabled") is (gpu.instances is not None)


def test_mig_instances_are_those_that_nvidia_smi_lists(session: nvml.NvmlSession) -> None:
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    instances = [word.strip(" )") for line in listed.splitlines() for word in line.split("UUID:")[1:]]

    ours = [each.uuid for gpu in session.gpus() for each in gpu.instances or ()]
    assert [uuid for uuid in instances if uuid.startswith("MIG-")] == ours


def test_what_a_run_is_offered(session: nvml.NvmlSession) -> None:
    [uuid] = smi.query("uuid")

    assert uuid in [device.uuid for device in discover({}).devices]
    assert [uuid] == [device.uuid for device in discover({"CUDA_VISIBLE_DEVICES": uuid[:12]}).devices]
    assert [uuid] == [device.uuid for device in discover({"CUDA_VISIBLE_DEVICES": "0"}).devices][:1]


def test_memory_of_a_gpu_and_of_its_processes(session: nvml.NvmlSession, targets: Path) -> None:
    [uuid] = smi.query("uuid")
    with program(targets / "gpu" / "hold.py", "4096") as holder:
        first_line(holder)

        used = session.read(uuid).memory_used
        assert used is not None
        assert abs(used / smi.MIB - smi.number("memory.used")) <= 2
        theirs = smi.used_by_process()
        ours = {pid: round((held or 0) / smi.MIB) for pid, held in session.process_memory(uuid).items()}
        assert theirs == ours
        assert 4096 < ours[holder.pid] < 4096 + 1024

        with closing(Inspector()) as inspector:
            [use] = [each for each in inspector.look().gpus if each.device.uuid == uuid]
        [who] = [each for each in use.holders if each.pid == holder.pid]
        assert os.getpid() in who.ancestors
        assert "hold.py" in who.command


def test_figures_under_load(session: nvml.NvmlSession, targets: Path) -> None:
    [uuid] = smi.query("uuid")
    with program(targets / "gpu" / "busy.py", "60"):
        until(lambda: (session.read(uuid).util or 0) >= 90)

        def pairs() -> list[tuple[float | None, float, float]]:
            ours = session.read(uuid)
            return [
                (ours.util, smi.number("utilization.gpu"), 5),
                (ours.power_w, smi.number("power.draw"), 40),
                (ours.power_limit_w, smi.number("enforced.power.limit"), 0.1),
                (ours.temperature_c, smi.number("temperature.gpu"), 3),
                (ours.sm_clock_mhz, smi.number("clocks.sm"), 60),
                (ours.memory_clock_mhz, smi.number("clocks.mem"), 0),
            ]

        smi.agree(pairs)


def test_why_its_clocks_are_lowered(session: nvml.NvmlSession, targets: Path) -> None:
    [uuid] = smi.query("uuid")
    with program(targets / "gpu" / "busy.py", "60"):
        until(lambda: (session.read(uuid).util or 0) >= 90)
        for _ in range(20):
            theirs = nvml.throttle_names(int(smi.query("clocks_event_reasons.active")[0], 16))
            ours = session.read(uuid).throttle
            if ours == theirs:
                break
        assert ours == theirs
        assert ours is not None


def test_its_health(session: nvml.NvmlSession) -> None:
    [uuid, corrected, uncorrected, pending, failed] = smi.query(
        "uuid", "ecc.errors.corrected.volatile.total", "ecc.errors.uncorrected.volatile.total",
        "remapped_rows.pending", "remapped_rows.failure",
    )  # fmt: skip
    seen = session.health(uuid)

    assert [corrected, uncorrected] == [str(seen.corrected), str(seen.uncorrected)]
    assert [pending != "No", failed != "No"] == [seen.pending, seen.broken]


def test_the_demo_shows_no_figure_that_a_real_gpu_lacks(session: nvml.NvmlSession) -> None:
    """But for NVLink: a virtual machine may have none."""
    [uuid] = smi.query("uuid")
    real = session.read(uuid)
    shown = next(
        device for item in Script(0.0).items() if isinstance(item, ev.Sampled) for device in item.devices
    )

    names = {each.name for each in fields(ev.DeviceSample) if not each.name.startswith("nvlink_")}
    assert [] == [name for name in names if getattr(shown, name) is not None and getattr(real, name) is None]
    assert [] == [name for name in names if getattr(real, name) is not None and getattr(shown, name) is None]
    if "H100" in smi.query("name")[0]:
        assert (real.memory_total, real.power_limit_w) == (shown.memory_total, shown.power_limit_w)
