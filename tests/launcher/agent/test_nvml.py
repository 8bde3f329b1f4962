from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pynvml
import pytest

from launcher.agent import nvml
from launcher.spec.places import Device
from launcher.state.events import DeviceSample
from tests.fakes.nvml_build import FakeGpu, FakeNvml

pytest_plugins = ["tests.launcher.nvml_fixture"]

GIB = 1 << 30
NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, NO_FUNCTION, LOST = 3, 4, 9, 13, 15
FULL = FakeGpu(
    "GPU-aaaa",
    util=87,
    memory=(30 * GIB, 80 * GIB),
    power=350_500,
    power_limit=700_000,
    temperature=66,
    sm_clock=1980,
    memory_clock=2619,
    throttle=0x44,
    pcie_rx=1200,
    pcie_tx=800,
    nvlink=(1, 1, 0, 1),
    compute=((101, 2 * GIB), (102, -1)),
    graphics=((101, 2 * GIB), (103, 5)),
)


def test_throttle_bits_become_the_names_that_nvidia_smi_uses() -> None:
    assert nvml.throttle_names(0x44) == ("sw_power_cap", "hw_thermal_slowdown")


def test_an_idle_gpu_is_not_throttled() -> None:
    assert nvml.throttle_names(0x1) == ()


def test_a_throttle_bit_without_a_name_is_shown_as_a_number() -> None:
    assert nvml.throttle_names(0x8008) == ("hw_slowdown", "0x8000")


def test_unknown_throttle_bits_stay_unknown() -> None:
    assert nvml.throttle_names(None) is None


def test_watts_come_from_milliwatts_and_unknown_stays_unknown() -> None:
    assert (nvml.watts(350_500), nvml.watts(None)) == (350.5, None)


@pytest.mark.parametrize("value", [None, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF])
def test_values_that_mean_not_available_are_unknown(value: int | None) -> None:
    assert nvml.known(value) is None


def test_zero_is_a_known_value() -> None:
    assert nvml.known(0) == 0


@pytest.mark.parametrize("devices", [1, 2, 3, 8, 16])
def test_slow_readings_take_turns_at_most_two_a_round(devices: int) -> None:
    rounds = [[p for p in range(devices) if nvml.is_turn(n, p, devices)] for n in range(8)]
    assert max(map(len, rounds)) <= 2
    assert {p for turn in rounds for p in turn} == set(range(devices))


def test_a_process_in_both_lists_counts_once_and_in_two_instances_twice() -> None:
    compute: list[tuple[int, int | None]] = [(1, 10), (2, 5), (2, 7)]
    assert nvml.merged_memory([compute, [(1, 10)]]) == {1: 10, 2: 12}


def test_memory_that_one_list_does_not_tell_is_taken_from_the_other() -> None:
    assert nvml.merged_memory([[(1, None), (2, None)], [(1, 10)]]) == {1: 10, 2: None}


def test_a_sample_holds_every_figure_that_the_driver_gives(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(FULL)
    assert nvml.open_session().read("GPU-aaaa") == DeviceSample(
        uuid="GPU-aaaa",
        index=0,
        util=87.0,
        memory_used=30 * GIB,
        memory_total=80 * GIB,
        power_w=350.5,
        power_limit_w=700.0,
        temperature_c=66.0,
        sm_clock_mhz=1980,
        memory_clock_mhz=2619,
        throttle=("sw_power_cap", "hw_thermal_slowdown"),
        pcie_rx_kbs=1200,
        pcie_tx_kbs=800,
        nvlink_active=3,
    )


def test_the_traffic_of_all_links_that_are_up_is_a_rate_from_the_second_reading_on(
    fake_nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = FakeGpu("GPU-aaaa", nvlink=(1, 0, 1), nvlink_kib=((1000, 500), (7, 7), (2000, 500)))
    clock = iter([10.0, 12.0, 13.0, 14.0])
    monkeypatch.setattr(nvml, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    fake_nvml.say(links)
    session = nvml.open_session()

    def rates(*kib: tuple[int, int]) -> tuple[int | None, int | None]:
        fake_nvml.say(replace(links, nvlink_kib=kib))
        sample = session.read("GPU-aaaa")
        assert sample.nvlink_active == 2
        return sample.nvlink_rx_kbs, sample.nvlink_tx_kbs

    assert rates((1000, 500), (7, 7), (2000, 500)) == (None, None)
    assert rates((2000, 500), (99, 99), (3000, 1500)) == (1024, 512)
    assert rates((0, 700), (0, 0), (0, 1500)) == (None, 205), "a counter that was reset"
    assert rates((0, 700)) == (None, None), "a link without a counter"


def test_what_a_gpu_does_not_support_is_unknown_not_zero(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(FakeGpu("GPU-aaaa", util=0))
    assert nvml.open_session().read("GPU-aaaa") == DeviceSample(uuid="GPU-aaaa", index=0, util=0.0)


def test_one_failing_call_leaves_the_other_figures(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(FULL, fails={"nvmlDeviceGetUtilizationRates": 999})
    sample = nvml.open_session().read("GPU-aaaa")
    assert (sample.util, sample.power_w) == (None, 350.5)


def test_a_gpu_that_is_lost_while_watched_becomes_unknown_and_others_stay(fake_nvml: FakeNvml) -> None:
    other = FakeGpu("GPU-bbbb", util=50)
    fake_nvml.say(FULL, other)
    session = nvml.open_session()
    assert session.read("GPU-aaaa").util == 87.0
    fake_nvml.say(FakeGpu("GPU-aaaa", fail=LOST), other)
    lost = session.read("GPU-aaaa")
    assert (lost.util, lost.memory_used, lost.temperature_c, lost.throttle) == (None, None, None, None)
    assert session.process_memory("GPU-aaaa") == {}
    assert session.read("GPU-bbbb").util == 50.0


def test_a_uuid_that_no_gpu_has_gives_an_unknown_sample(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(FULL)
    assert nvml.open_session().read("GPU-zzzz") == DeviceSample(uuid="GPU-zzzz")


def test_a_handle_is_fetched_once_for_many_samples(fake_nvml: FakeNvml) -> None:
    log = fake_nvml.answers.with_name("calls")
    fake_nvml.say(FULL, log=log)
    session = nvml.open_session()
    for _ in range(5):
        session.read("GPU-aaaa")
        session.process_memory("GPU-aaaa")
    calls = log.read_text().splitlines()
    assert sum("GetHandle" in call for call in calls) == 1
    assert sum("UtilizationRates" in call for call in calls) == 5


def test_process_memory_merges_compute_and_graphics(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(FULL)
    assert nvml.open_session().process_memory("GPU-aaaa") == {101: 2 * GIB, 102: None, 103: 5}


def test_an_older_driver_without_the_newest_functions_is_still_read(fake_nvml: FakeNvml) -> None:
    newest = (
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetGraphicsRunningProcesses_v3",
        "nvmlDeviceGetCurrentClocksEventReasons",
    )
    fake_nvml.say(FULL, fails=dict.fromkeys(newest, NO_FUNCTION))
    session = nvml.open_session()
    sample = session.read("GPU-aaaa")
    assert sample.throttle == ("sw_power_cap", "hw_thermal_slowdown")
    assert sample.memory_used == 30 * GIB + (512 << 20)
    assert session.process_memory("GPU-aaaa")[101] == 2 * GIB


def test_a_newer_driver_without_the_old_temperature_call_is_still_read(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(FULL, fails={"nvmlDeviceGetTemperature": NO_FUNCTION})
    assert nvml.open_session().read("GPU-aaaa").temperature_c == 66.0


def test_an_older_pynvml_without_a_function_leaves_that_figure_unknown(fake_nvml: FakeNvml) -> None:
    class Older:
        def __getattr__(self, name: str) -> object:
            if name in {"nvmlDeviceGetPcieThroughput", "NVMLLibraryMismatchError", "nvmlMemory_v2"}:
                raise AttributeError(name)
            return getattr(pynvml, name)

    fake_nvml.say(FULL)
    sample = nvml.NvmlSession(Older()).read("GPU-aaaa")
    assert (sample.pcie_rx_kbs, sample.util) == (None, 87.0)


def test_a_driver_that_is_not_loaded_is_said_in_its_own_words(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(fails={"nvmlInitWithFlags": DRIVER_NOT_LOADED})
    with pytest.raises(nvml.NoAnswer, match=r"^NVML: Driver Not Loaded$"):
        nvml.open_session()


def test_gpus_lists_names_memory_and_bus_order(fake_nvml: FakeNvml) -> None:
    fake_nvml.say(FakeGpu("GPU-b", name="T4", memory=(0, 16 * GIB)), FakeGpu("GPU-a", name="T4"))
    assert nvml.open_session().gpus() == [
        nvml.Gpu(0, Device(0, "GPU-b", "T4", 16 * GIB)),
        nvml.Gpu(1, Device(1, "GPU-a", "T4", None)),
    ]


def test_gpus_lists_the_instances_of_a_gpu_in_mig_mode(fake_nvml: FakeNvml) -> None:
    part = FakeGpu("MIG-1", name="A100 MIG 3g.20gb", memory=(0, 20 * GIB))
    fake_nvml.say(FakeGpu("GPU-a", name="A100", mig=(part,)))
    (gpu,) = nvml.open_session().gpus()
    assert gpu.instances == (Device(0, "MIG-1", "A100 MIG 3g.20gb", 20 * GIB),)


def test_a_mig_instance_is_read_by_its_own_uuid(fake_nvml: FakeNvml) -> None:
    part = FakeGpu("MIG-1", memory=(3 * GIB, 20 * GIB), compute=((7, 3 * GIB),))
    fake_nvml.say(FakeGpu("GPU-a", mig=(FakeGpu("MIG-0"), part)))
    session = nvml.open_session()
    assert (session.read("MIG-1").memory_used, session.read("MIG-1").util) == (3 * GIB, None)
    assert session.process_memory("MIG-1") == {7: 3 * GIB}


def test_gpus_leaves_out_those_of_others_and_names_those_that_are_lost(fake_nvml: FakeNvml) -> None:
    hidden = FakeGpu("GPU-a", fails={"nvmlDeviceGetHandleByIndex": NO_PERMISSION})
    lost = FakeGpu("GPU-b", fails={"nvmlDeviceGetHandleByIndex": LOST})
    fake_nvml.say(hidden, lost, FakeGpu("GPU-c", name="H100"))
    assert nvml.open_session().gpus() == [
        nvml.Gpu(1, None, error="NVML: GPU is lost"),
        nvml.Gpu(2, Device(2, "GPU-c", "H100")),
    ]
