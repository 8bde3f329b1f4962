"""Spark's GPU addresses as devices: through the executor's environment, NVML, or neither."""

from __future__ import annotations

import pytest

from launcher.agent.gpus import GrantedGpus, granted_gpus
from launcher.spec.places import Device
from tests.fakes.nvml_build import FakeGpu, FakeNvml

pytest_plugins = ["tests.launcher.nvml_fixture"]

NAME = "H100"
A, B, C, D = (Device(i, f"GPU-{name}", NAME) for i, name in enumerate(("aa11", "aa22", "bb33", "cc44")))
M0, M1 = Device(1, "MIG-55aa", "1g"), Device(1, "MIG-66bb", "1g")


@pytest.fixture
def four(fake_nvml: FakeNvml) -> FakeNvml:
    fake_nvml.say(*(FakeGpu(d.uuid, name=NAME) for d in (A, B, C, D)))
    return fake_nvml


@pytest.fixture
def no_driver(fake_nvml: FakeNvml) -> FakeNvml:
    fake_nvml.say(fails={"nvmlInitWithFlags": 9})
    return fake_nvml


def own(*devices: Device, reason: str = "") -> GrantedGpus:
    return GrantedGpus(devices, exclusive=True, reason=reason)


def none(reason: str) -> GrantedGpus:
    return own(reason=reason)


# --- where NVML answers --------------------------------------------------------------------------------


@pytest.mark.usefixtures("four")
@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        (["0"], (A,)),
        (["3", "1"], (D, B)),
        ([" 2 "], (C,)),
        (["GPU-bb33", "0"], (C, A)),
        (["GPU-cc44"], (D,)),
    ],
)
def test_addresses_count_in_the_order_of_the_bus_or_name_a_gpu(
    addresses: list[str], expected: tuple[Device, ...]
) -> None:
    assert own(*expected) == granted_gpus(addresses, {})


def test_indices_among_different_models_are_not_doubted(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(FakeGpu("GPU-a", name="T4"), FakeGpu("GPU-b", name=NAME))
    assert own(Device(1, "GPU-b", NAME)) == granted_gpus(["1"], {})


def test_mig_instances_are_granted_by_name(fake_nvml: FakeNvml) -> None:
    parts = tuple(FakeGpu(d.uuid, name="1g") for d in (M0, M1))
    fake_nvml.say(FakeGpu(A.uuid, name=NAME), FakeGpu(B.uuid, name=NAME, mig=parts))
    assert own(M1, M0) == granted_gpus(["MIG-66bb", "MIG-55aa"], {})


@pytest.mark.usefixtures("four")
@pytest.mark.parametrize(
    ("addresses", "left", "said"),
    [
        (["0", "7"], (A,), "'7' is no GPU here"),
        (["4"], (), "'4' is no GPU here"),
        (["GPU-zz"], (), "'GPU-zz' is no GPU here"),
        (["GPU-aa"], (), "'GPU-aa' is no GPU here"),
        (["gpu0"], (), "'gpu0' is no GPU here"),
        (["0", "GPU-aa11"], (), "names a GPU twice"),
    ],
)
def test_addresses_that_this_host_does_not_have_are_a_reason(
    addresses: list[str], left: tuple[Device, ...], said: str
) -> None:
    found = granted_gpus(addresses, {})
    assert (left, True) == (found.devices, found.exclusive)
    assert f"Spark granted GPU {', '.join(addresses)}, and NVML lists 4 here (" in found.reason
    assert said in found.reason


@pytest.mark.usefixtures("four")
@pytest.mark.parametrize(
    ("addresses", "reason"),
    [
        ([], "Spark granted this task no GPU"),
        ([""], "Spark granted a GPU with the address '', which names none"),
        (["-1"], "Spark granted a GPU with the address '-1', which names none"),
        (["0,1"], "Spark granted a GPU with the address '0,1', which names none"),
        (["1", "1"], "Spark granted GPU 1 twice to one task"),
    ],
)
def test_addresses_that_name_nothing_anywhere_are_a_reason(addresses: list[str], reason: str) -> None:
    assert none(reason) == granted_gpus(addresses, {})


# --- through what the executor presets -----------------------------------------------------------------


@pytest.mark.usefixtures("four")
@pytest.mark.parametrize(
    ("preset", "addresses", "expected"),
    [
        ("2,3", ["0"], (C,)),
        ("2,3", ["1", "0"], (D, C)),
        ("3,1,0", ["1"], (B,)),  # a place in the list, though the list also has an entry of that name
        ("2,3", ["3"], (D,)),  # no place in the list, but the entry of that name
        ("GPU-bb33,GPU-aa11", ["1"], (A,)),
        ("GPU-bb, 0", ["0", "1"], (C, A)),
        ("2,3", ["GPU-aa11"], (A,)),
    ],
)
def test_an_address_is_a_place_in_the_list_that_the_executor_presets(
    preset: str, addresses: list[str], expected: tuple[Device, ...]
) -> None:
    assert own(*expected) == granted_gpus(addresses, {"CUDA_VISIBLE_DEVICES": preset})


@pytest.mark.usefixtures("four")
@pytest.mark.parametrize(
    ("preset", "address"), [("2,3", "7"), ("", "0"), ("-1", "0"), ("2,-1,3", "3"), ("2,3", "gpu0")]
)
def test_an_address_that_the_preset_list_does_not_show_is_a_reason(preset: str, address: str) -> None:
    reason = (
        f"Spark granted GPU {address}, which the executor's CUDA_VISIBLE_DEVICES={preset!r} does not show"
    )
    assert none(reason) == granted_gpus([address], {"CUDA_VISIBLE_DEVICES": preset})


@pytest.mark.usefixtures("four")
def test_two_addresses_that_mean_one_entry_are_a_reason() -> None:
    found = granted_gpus(["1", "3"], {"CUDA_VISIBLE_DEVICES": "2,3"})
    assert () == found.devices
    assert "names a GPU twice" in found.reason


def test_a_preset_list_of_different_models_is_doubted_unless_its_order_is_the_bus(
    fake_nvml: FakeNvml,
) -> None:
    fake_nvml.say(FakeGpu("GPU-a", name="T4"), FakeGpu("GPU-b", name=NAME))
    preset = {"CUDA_VISIBLE_DEVICES": "1,0"}
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in granted_gpus(["0"], preset).reason
    assert own(Device(1, "GPU-b", NAME)) == granted_gpus(["0"], {**preset, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})


# --- where NVML shows nothing --------------------------------------------------------------------------


@pytest.mark.usefixtures("no_driver")
@pytest.mark.parametrize(
    ("environ", "addresses", "expected"),
    [
        ({}, ["1", "0"], (Device(1, "1"), Device(0, "0"))),
        ({}, ["GPU-x", "MIG-y"], (Device(0, "GPU-x"), Device(1, "MIG-y"))),
        ({}, ["made-up"], (Device(0, "made-up"),)),
        ({"CUDA_VISIBLE_DEVICES": "4,6"}, ["1"], (Device(6, "6"),)),
        ({"CUDA_VISIBLE_DEVICES": "4,6"}, ["1", "6"], (Device(6, "6"),)),
    ],
)
def test_without_a_driver_an_address_stands_for_itself(
    environ: dict[str, str], addresses: list[str], expected: tuple[Device, ...]
) -> None:
    assert own(*expected) == granted_gpus(addresses, environ)


def test_a_driver_that_lists_no_gpu_does_not_contradict_spark(fake_nvml: FakeNvml) -> None:
    fake_nvml.say()
    assert own(Device(1, "1")) == granted_gpus(["1"], {})


def test_a_driver_that_does_not_answer_counts_as_none(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(FakeGpu("GPU-a"), hangs={"nvmlDeviceGetCount": 3600})
    assert own(Device(0, "0")) == granted_gpus(["0"], {}, limit_s=0.05)


# --- where Spark schedules none ------------------------------------------------------------------------


@pytest.mark.usefixtures("four")
def test_without_scheduling_all_that_the_host_shows_is_common_to_its_agents() -> None:
    assert GrantedGpus((A, B, C, D), exclusive=False) == granted_gpus(None, {})
    assert GrantedGpus((C, A), exclusive=False) == granted_gpus(None, {"CUDA_VISIBLE_DEVICES": "2,0"})


@pytest.mark.usefixtures("no_driver")
def test_without_scheduling_and_without_a_driver_there_is_a_reason() -> None:
    assert GrantedGpus((), exclusive=False, reason="no GPU found (NVML: Driver Not Loaded)") == granted_gpus(
        None, {}
    )
