"""What this machine has and who uses it, by a library that answers as NVML does."""

from __future__ import annotations

import getpass
import os
import socket
import sys
import time
from pathlib import Path

import pytest

from launcher.agent import nvml
from launcher.placement.inventory import Inspector
from tests.fakes.nvml_build import FakeGpu, FakeNvml, write

pytest_plugins = ["tests.launcher.nvml_fixture"]
GIB = 1 << 30


def none() -> nvml.NvmlSession:
    raise nvml.NoAnswer("NVML: Driver Not Loaded")


def test_without_nvml_the_machine_is_told_and_why_there_are_no_gpus() -> None:
    inspector = Inspector(none)
    first, second = inspector.look(), inspector.look()
    inspector.close()

    assert (socket.gethostname(), os.cpu_count()) == (first.host, first.cores)
    assert ((), "NVML: Driver Not Loaded") == (second.gpus, second.reason)
    assert first.system.cpu is None
    assert 0 < (second.system.memory_used or 0) < (second.system.memory_total or 0)


def test_gpus_are_told_with_who_holds_them(fake_nvml: FakeNvml) -> None:
    me, nobody = os.getpid(), 4_194_304
    write(
        fake_nvml.answers,
        [
            FakeGpu("GPU-a", util=87, memory=(30 * GIB, 80 * GIB), temperature=66, power=350_000,
                    compute=((me, 2 * GIB), (nobody, -1))),
            FakeGpu("GPU-b"),
            FakeGpu("GPU-c", fail=15),
        ],
    )  # fmt: skip
    inspector = Inspector()
    inspector.look()
    machine = inspector.look()
    inspector.close()
    first, second, third = machine.gpus
    mine, other = first.holders

    assert ("GPU-a", 0, 87.0, 66.0) == (
        first.device.uuid, first.sample.index, first.sample.util, first.sample.temperature_c
    )  # fmt: skip
    assert (me, 2 * GIB, getpass.getuser()) == (mine.pid, mine.memory, mine.user)
    assert os.getppid() == mine.ancestors[0]
    assert (nobody, None, "", ()) == (other.pid, other.memory, other.user, other.ancestors)
    assert (None, ()) == (second.sample.util, second.holders)
    assert (2, "") == (third.device.index, third.device.uuid)
    assert third.error
    assert "" == machine.reason


def test_the_instances_of_a_gpu_stand_for_it(fake_nvml: FakeNvml) -> None:
    parts = (FakeGpu("MIG-1", memory=(1, GIB)), FakeGpu("MIG-2"))
    write(fake_nvml.answers, [FakeGpu("GPU-a", mig=parts)])
    inspector = Inspector()
    found = inspector.look().gpus
    inspector.close()

    assert ["MIG-1", "MIG-2"] == [gpu.device.uuid for gpu in found]
    assert ["GPU-a", "GPU-a"] == [gpu.whole.uuid for gpu in found if gpu.whole]
    assert GIB == found[0].sample.memory_total


def test_a_machine_on_which_nvml_lists_none_says_so(fake_nvml: FakeNvml) -> None:
    write(fake_nvml.answers, [])

    assert ("NVML lists no GPU", ()) == ((machine := Inspector().look()).reason, machine.gpus)


def test_a_gpu_that_falls_off_later_is_unknown_and_no_error(fake_nvml: FakeNvml) -> None:
    write(fake_nvml.answers, [FakeGpu("GPU-a", util=5)])
    inspector = Inspector()
    assert 5.0 == inspector.look().gpus[0].sample.util
    write(fake_nvml.answers, [FakeGpu("GPU-a", fail=15, fails={"nvmlDeviceGetUtilizationRates": 15})])

    assert inspector.look().gpus[0].sample.util is None
    inspector.close()


def test_errors_of_memory_are_those_of_the_whole_gpu(fake_nvml: FakeNvml) -> None:
    parts = (FakeGpu("MIG-1"),)
    write(
        fake_nvml.answers,
        [FakeGpu("GPU-a", mig=parts, ecc=(3, 1), remapped=(0, 1, 1, 0)), FakeGpu("GPU-b")],
    )
    inspector = Inspector()
    machine = inspector.look()
    inspector.close()

    assert [nvml.Health(3, 1, True, False), nvml.Health()] == [gpu.health for gpu in machine.gpus]
    assert "580.00.00" == machine.driver


def test_errors_of_memory_are_counted_seldom(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    write(fake_nvml.answers, [FakeGpu("GPU-a", ecc=(0, 0))], log=log)
    inspector = Inspector()
    for _ in range(11):
        inspector.look()
    inspector.close()

    assert 4 == log.read_text().count("nvmlDeviceGetTotalEccErrors")  # of two kinds, in two looks


def test_a_process_is_told_with_its_command_and_its_start(fake_nvml: FakeNvml) -> None:
    write(fake_nvml.answers, [FakeGpu("GPU-a", compute=((os.getpid(), 1),))])
    inspector = Inspector()
    (holder,) = inspector.look().gpus[0].holders
    inspector.close()

    assert sys.executable in holder.command
    assert 0 < (holder.since or 0) <= time.time() + 1


@pytest.mark.parametrize("looks", [1, 3])
def test_who_holds_a_gpu_is_asked_once_and_what_it_holds_each_time(fake_nvml: FakeNvml, looks: int) -> None:
    inspector = Inspector()
    for size in range(1, looks + 1):
        write(fake_nvml.answers, [FakeGpu("GPU-a", compute=((os.getpid(), size),))])
        (holder,) = inspector.look().gpus[0].holders
        assert (size, getpass.getuser()) == (holder.memory, holder.user)
    inspector.close()
