from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from launcher.agent import nvml
from launcher.agent.gpus import Inventory, discover, select
from launcher.spec.places import Device
from tests.fakes.nvml_build import FakeGpu, FakeNvml

pytest_plugins = ["tests.launcher.nvml_fixture"]

A, B, C = (Device(i, f"GPU-{name}", "H100") for i, name in enumerate(("aa11", "aa22", "bb33")))
GPUS = [nvml.Gpu(device.index, device) for device in (A, B, C)]
M0, M1 = Device(1, "MIG-55aa", "1g"), Device(1, "MIG-66bb", "1g")
WITH_MIG = [GPUS[0], nvml.Gpu(1, B, instances=(M0, M1))]
LOST = nvml.Gpu(1, None, error="NVML: GPU is lost")


def seen(visible: str | None, gpus: list[nvml.Gpu] = GPUS) -> tuple[Device, ...]:
    return select(gpus, visible, bus_order=True).devices


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, (A, B, C)),
        ("0", (A,)),
        ("2,0", (C, A)),
        (" 1, 2", (B, C)),
        ("GPU-bb33", (C,)),
        ("GPU-bb", (C,)),
        ("GPU-aa22,GPU-aa11", (B, A)),
        ("1gpu,2", (B, C)),
        ("GPU-bb,0", (C, A)),
    ],
)
def test_visible_devices_are_taken_in_their_order(visible: str | None, expected: tuple[Device, ...]) -> None:
    assert seen(visible) == expected


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("0,7,1", (A,)),
        ("7", ()),
        ("0,GPU-zz,1", (A,)),
        ("GPU-aa", ()),
        ("0,-1,1", (A,)),
        ("none", ()),
        ("0,,1", (A,)),
    ],
)
def test_an_entry_that_is_no_device_hides_itself_and_what_follows(
    visible: str, expected: tuple[Device, ...]
) -> None:
    assert seen(visible) == expected


def test_a_wrong_entry_is_named_in_the_reason() -> None:
    reason = select(GPUS, "0,7,1", bus_order=True).reason
    assert reason == "CUDA_VISIBLE_DEVICES=0,7,1: '7' is no GPU here; CUDA stops there"


def test_a_list_ended_by_a_negative_number_is_nothing_wrong() -> None:
    assert select(GPUS, "1,-1", bus_order=True) == Inventory((B,))


@pytest.mark.parametrize("visible", ["1,1", "0,GPU-aa11"])
def test_a_gpu_named_twice_hides_all(visible: str) -> None:
    inventory = select(GPUS, visible, bus_order=True)
    assert inventory == Inventory((), f"CUDA_VISIBLE_DEVICES={visible} names a GPU twice, so CUDA shows none")


@pytest.mark.parametrize("visible", ["", " ", "-1"])
def test_an_empty_or_negative_setting_hides_all_without_asking_the_driver(visible: str) -> None:
    inventory = discover({"CUDA_VISIBLE_DEVICES": visible}, limit_s=0)
    assert inventory == Inventory((), f"CUDA_VISIBLE_DEVICES={visible} hides every GPU")


def test_a_gpu_in_mig_mode_is_offered_as_its_instances() -> None:
    assert seen(None, WITH_MIG) == (A, M0, M1)


@pytest.mark.parametrize(
    ("visible", "expected"),
    [("MIG-66", (M1,)), ("MIG-66bb,MIG-55aa", (M1, M0)), ("1", (M0,)), ("GPU-aa22", (M0,)), ("0,1", (A, M0))],
)
def test_mig_instances_are_found_by_uuid_and_first_by_their_gpu(
    visible: str, expected: tuple[Device, ...]
) -> None:
    assert seen(visible, WITH_MIG) == expected


def test_an_older_mig_name_is_found_whole() -> None:
    old = Device(0, "MIG-GPU-aa11/1/0", "1g")
    assert seen("MIG-GPU-aa11/1/0", [nvml.Gpu(0, A, instances=(old,))]) == (old,)


def test_mig_mode_without_instances_is_a_reason() -> None:
    inventory = select([nvml.Gpu(0, A, instances=())], None, bus_order=True)
    assert inventory == Inventory((), "GPU 0 is in MIG mode and has no instances")


def test_a_lost_gpu_leaves_the_others_and_is_named() -> None:
    inventory = select([GPUS[0], LOST, GPUS[2]], None, bus_order=True)
    assert inventory == Inventory((A, C), "GPU 1 does not answer (NVML: GPU is lost)")


def test_a_lost_gpu_keeps_its_number() -> None:
    assert seen("2,1,0", [GPUS[0], LOST, GPUS[2]]) == (C,)


def test_indices_among_different_models_are_doubted_unless_the_order_is_the_bus() -> None:
    mixed = [GPUS[0], nvml.Gpu(1, Device(1, "GPU-cc", "T4"))]
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in select(mixed, "1", bus_order=False).reason
    assert select(mixed, "1", bus_order=True).reason == ""
    assert select(mixed, "GPU-cc", bus_order=False).reason == ""


def test_no_gpu_listed_is_a_reason() -> None:
    assert select([], "0", bus_order=False) == Inventory((), "no GPU found (NVML lists none)")


def test_discover_asks_the_driver_and_honours_the_environment(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(FakeGpu("GPU-a", name="H100", memory=(0, 80)), FakeGpu("GPU-b", name="H100"))
    assert discover({}) == Inventory((Device(0, "GPU-a", "H100", 80), Device(1, "GPU-b", "H100")))
    assert discover({"CUDA_VISIBLE_DEVICES": "1"}).devices == (Device(1, "GPU-b", "H100"),)


def test_discover_says_why_there_is_no_gpu(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(fails={"nvmlInitWithFlags": 9})
    assert discover({}) == Inventory((), "no GPU found (NVML: Driver Not Loaded)")


def test_a_driver_that_fails_while_listing_is_a_reason(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(FakeGpu("GPU-a"), fails={"nvmlDeviceGetCount": 999})
    assert discover({}) == Inventory((), "no GPU found (NVML: Unknown Error)")


def test_a_driver_that_does_not_answer_counts_as_no_gpu(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(FakeGpu("GPU-a"), hangs={"nvmlDeviceGetCount": 3600})
    assert discover({}, limit_s=0.05) == Inventory((), "no GPU found (NVML did not answer within 0.05 s)")


ASK = """
import dataclasses, json, os, sys
{before}
from launcher.agent.gpus import discover
found = discover(os.environ)
print(json.dumps([[device.uuid for device in found.devices], found.reason, "pynvml" in sys.modules]))
"""


def ask_elsewhere(environment: dict[str, str], *, before: str = "") -> tuple[list[str], str, bool]:
    done = subprocess.run(
        [sys.executable, "-c", ASK.format(before=before)], env=environment, capture_output=True, check=True
    )
    uuids, reason, imported = json.loads(done.stdout)
    return uuids, reason, imported


@pytest.mark.process
def test_a_process_finds_the_driver_on_its_library_path(nvml_elsewhere: FakeNvml) -> None:
    nvml_elsewhere.say(FakeGpu("GPU-a"), FakeGpu("GPU-b"))
    environment = {**nvml_elsewhere.environment, "CUDA_VISIBLE_DEVICES": "1,0"}
    assert ask_elsewhere(environment) == (["GPU-b", "GPU-a"], "", True)


@pytest.mark.process
def test_a_host_without_the_library_is_told_so_and_pays_for_no_import() -> None:
    environment = {
        k: v for k, v in os.environ.items() if k not in {"CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH"}
    }
    uuids, reason, imported = ask_elsewhere(environment)
    if uuids:
        pytest.skip("this host has a GPU")
    assert (reason, imported) == ("no GPU found (NVML: NVML Shared Library Not Found)", False)


@pytest.mark.process
def test_a_host_without_pynvml_is_told_so(nvml_elsewhere: FakeNvml) -> None:
    nvml_elsewhere.say(FakeGpu("GPU-a"))
    lacking = "sys.modules['pynvml'] = None"
    expected: tuple[list[str], str, bool] = ([], "no GPU found (pynvml is not installed here)", True)
    assert ask_elsewhere(nvml_elsewhere.environment, before=lacking) == expected
