"""What each check of `doctor` finds: nothing on a good cluster, and each is made to fail here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.diagnosis.checks import placing
from launcher.diagnosis.checks.check import CHECKS, Check, CheckReport, CheckState, failed, in_order, passed
from launcher.diagnosis.checks.facts import (
    CallerFacts,
    CapturedValue,
    CheckedLaunch,
    Examined,
    HostAnswer,
    RefusedLaunch,
)
from launcher.diagnosis.checks.rules import HOST_RULES, judge
from launcher.spec.job import JobSpec, SparkSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.places import Device
from launcher.state.host_facts import (
    DialFacts,
    DiskFacts,
    GpuFacts,
    GpuHolder,
    HostFacts,
    Installed,
    PathFacts,
)

MANUAL = Path(__file__).parents[4] / "console" / "manual" / "checks.md"
GIB, MIB = 1 << 30, 1 << 20
ROOM = DiskFacts("/var/tmp", 100 * GIB, 50 * GIB)
INSTALLED = Installed("3.11.7", "2.6.0+cu124", "12.4", "2.21.5", {"torch": True, "numpy": True, "ray": True})
SPEC = JobSpec(
    Target(TargetKind.SCRIPT, "/w/train.py"),
    num_processes=2,
    mode=Mode.CLUSTER,
    workdir="/w",
    env={"NCCL_SOCKET_IFNAME": "eth"},
    spark=SparkSpec(master="spark://m:7077", spool="/shared"),
)


def gpu(uuid: str, **more: Any) -> GpuFacts:
    figures = {
        "memory": 80 * GIB,
        "used": GIB,
        "uncorrected": 0,
        "pending": False,
        "broken": False,
        "throttle": (),
    }
    return GpuFacts(index=0, uuid=uuid, name="H100", **{**figures, **more})


def facts(name: str, other: int) -> HostFacts:
    return HostFacts(
        installed=INSTALLED,
        driver="550.54",
        driver_cuda="12.4",
        memory=256 * GIB,
        memory_free=200 * GIB,
        shm=128 * GIB,
        shm_free=128 * GIB,
        limits={"nofile": 65536, "nproc": None, "memlock": None, "as": None},
        infiniband=True,
        interfaces={"eth0": ("10.0.0.1",), "lo": ("127.0.0.1",)},
        scratch=ROOM,
        gpus=(gpu(f"GPU-{name}"),),
        xids=(),
        dials=(DialFacts(other, f"10.0.0.{other}", "eth0", 0.001),),
        paths=(
            PathFacts("/shared", exists=True, is_folder=True, readable=True, writable=True),
            PathFacts("/data", exists=True, is_folder=True, readable=True),
        ),
    )


def host(agent: int, name: str, found: HostFacts | None, **more: Any) -> HostAnswer:
    device = Device(0, f"GPU-{name}", "H100", 80 * GIB)
    fields = {
        "python": "3.11.7",
        "machine": name,
        "address": f"10.0.0.{agent}",
        "devices": (device,),
        "cores": 4,
    }
    return HostAnswer(agent=agent, host=name, facts=found, **{**fields, **more})


CALLER = CallerFacts(
    python="3.11.9",
    torch="2.6.0",
    java="",
    runs=ROOM,
    needed=("torch",),
    lazy=("ray",),
    parsed=True,
    pickle=1000,
    option_paths={"/shared": "--spool"},
    argument_paths=("/data",),
    workdir=DiskFacts("/w", 100 * GIB, 50 * GIB),
    sent="3 files",
)
EXAMINED = Examined(
    expected=2,
    hosts=(host(0, "a", facts("a", 1)), host(1, "b", facts("b", 0))),
    settings={placing.DYNAMIC: "false", placing.EXECUTOR_GPUS: "1", placing.TASK_GPUS: "1"},
    seconds=2.0,
)
GOOD = CheckedLaunch(SPEC, CALLER, EXAMINED)


def with_host(**changes: Any) -> CheckedLaunch:
    """The good launch, with other facts of host a."""
    first, second = EXAMINED.hosts
    assert first.facts is not None
    other = replace(first, facts=replace(first.facts, **changes))
    return replace(GOOD, examined=replace(EXAMINED, hosts=(other, second)))


def with_answer(**changes: Any) -> CheckedLaunch:
    first, second = EXAMINED.hosts
    return replace(GOOD, examined=replace(EXAMINED, hosts=(replace(first, **changes), second)))


def with_caller(**changes: Any) -> CheckedLaunch:
    return replace(GOOD, caller=replace(CALLER, **changes))


def with_examined(**changes: Any) -> CheckedLaunch:
    return replace(GOOD, examined=replace(EXAMINED, **changes))


def with_settings(**changes: str) -> CheckedLaunch:
    names = {"dynamic": placing.DYNAMIC, "executor": placing.EXECUTOR_GPUS, "task": placing.TASK_GPUS}
    settings = {**EXAMINED.settings, **{names[key]: value for key, value in changes.items()}}
    return with_examined(settings=settings)


def with_installed(**changes: Any) -> CheckedLaunch:
    return with_host(installed=replace(INSTALLED, **changes))


def with_gpu(**changes: Any) -> CheckedLaunch:
    return with_host(gpus=(gpu("GPU-a", **changes),))


def with_limit(name: str, value: int) -> CheckedLaunch:
    return with_host(limits={"nofile": 65536, "nproc": None, "memlock": None, "as": None, name: value})


def asking(**changes: Any) -> CheckedLaunch:
    return replace(GOOD, spec=replace(SPEC, **changes))


PICKLED = replace(SPEC, target=replace(SPEC.target, kind=TargetKind.CALLABLE, pickled=True))
FULL = Examined(waiting="needs 2 slots at once; 1 of 2 is free")
UNREACHED = RefusedLaunch(
    "EngineCutOff", "agent 1 on b has no way to this run's engine: (timed out)", "--listen"
)
NEVER = Examined(error=RefusedLaunch("CannotPlace", "the cluster has 1 slot", "use -n 1"))

# What is wrong, with the check that must find it, how bad it is, and what it must say.
BROKEN: Mapping[str, tuple[CheckedLaunch, str, str, str]] = {
    "no java": (with_caller(java="no java"), "java", "fail", "no java"),
    "dynamic allocation": (with_settings(dynamic="true"), "spark.dynamic-allocation", "fail", "is true"),
    "half an executor's GPU": (with_settings(executor="0.5"), "spark.gpu-amount", "fail", "is 0.5"),
    "too few GPUs": (with_settings(executor="0"), "spark.gpu-amount", "fail", "is 0"),
    "shared GPUs": (with_settings(task="0.25"), "spark.gpu-amount", "warn", "is 0.25"),
    "no free slots": (replace(GOOD, examined=FULL), "slots", "fail", "1 of 2 is free"),
    "too small a cluster": (replace(GOOD, examined=NEVER), "slots", "fail", "has 1 slot"),
    "no place here": (with_caller(placement=RefusedLaunch("SpecError", "no GPU")), "slots", "fail", "no GPU"),
    "an agent lacks": (with_examined(expected=3), "hosts", "fail", "2 of 3 agents came"),
    "an agent is silent": (
        with_answer(facts=None, trouble="has not answered within 5 s"),
        "hosts",
        "fail",
        "a has not answered",
    ),
    "a probe is silent": (with_host(unanswered={"paths": "no answer within 3 s"}), "hosts", "warn", "paths"),
    "GPUs on one host": (
        replace(with_answer(devices=(), gpu_reason="NVML is broken"), spec=replace(SPEC, gpu=True)),
        "gpus",
        "fail",
        "NVML is broken",
    ),
    "another Python": (with_installed(python="3.12.1"), "python", "warn", "3.12 on a"),
    "another Python reads no pickle": (
        replace(with_installed(python="3.12.1"), spec=PICKLED),
        "python",
        "fail",
        "pickled by Python 3.11",
    ),
    "no such interpreter": (
        with_installed(python="", trouble="py: not found"),
        "python",
        "fail",
        "not found",
    ),
    "another torch": (with_installed(torch="2.5.1"), "torch", "fail", "2.5.1 on a"),
    "no torch": (with_installed(torch=""), "torch", "fail", "missing on a"),
    "another torch here": (with_caller(torch="2.1.0"), "torch", "warn", "this process has 2.1.0"),
    "an old driver": (with_host(driver_cuda="11.8"), "cuda", "fail", "CUDA 11.8 at most"),
    "an older driver": (with_host(driver_cuda="12.2"), "cuda", "warn", "CUDA 12.2 at most"),
    "torch without CUDA": (with_installed(cuda=""), "cuda", "warn", "built without CUDA"),
    "two CUDAs": (with_installed(cuda="12.1"), "cuda", "fail", "for CUDA 12.1 on a"),
    "another NCCL": (with_installed(nccl="2.18.1"), "nccl", "fail", "2.18.1 on a"),
    "no way to the engine": (
        with_examined(hosts=(), error=UNREACHED),
        "network.engine",
        "fail",
        "agent 1 on b has no way",
    ),
    "a blocked port": (
        with_host(dials=(DialFacts(1, "10.0.0.1", "eth0", 2.4, "no answer within 2.4 s"),)),
        "network.hosts",
        "fail",
        "a cannot reach b: 10.0.0.1: no answer",
    ),
    "no such interface": (with_host(interfaces={"ib0": ()}), "network.interface", "fail", "a has no such"),
    "a fast clock": (with_answer(clock_offset=12.5), "clock", "warn", "12.5 s ahead"),
    "a clock of last year": (with_answer(clock_offset=-4e7), "clock", "fail", "behind"),
    "little memory": (with_host(memory_free=512 * MIB), "memory", "warn", "512 MiB of memory"),
    "no memory": (with_host(memory_free=10 * MIB), "memory", "fail", "10.0 MiB of memory"),
    "a container's /dev/shm": (
        with_host(shm=64 * MIB, shm_free=64 * MIB),
        "shared-memory",
        "warn",
        "64.0 MiB",
    ),
    "a full /dev/shm": (with_host(shm_free=0), "shared-memory", "fail", "0 B free"),
    "few files": (with_limit("nofile", 512), "limits.files", "warn", "512 open files"),
    "no files": (with_limit("nofile", 64), "limits.files", "fail", "64 open files"),
    "few processes": (with_limit("nproc", 100), "limits.processes", "fail", "100 processes"),
    "little locked memory": (with_limit("memlock", 64 << 10), "limits.locked-memory", "warn", "64.0 KiB"),
    "little address space": (with_limit("as", GIB), "limits.address-space", "fail", "1.0 GiB"),
    "a full disk here": (with_caller(runs=replace(ROOM, free=MIB)), "disk.runs", "fail", "1.0 MiB free"),
    "a full disk there": (
        with_host(scratch=replace(ROOM, free=200 * MIB)),
        "disk.scratch",
        "warn",
        "200 MiB",
    ),
    "a disk that is read only": (
        with_host(scratch=replace(ROOM, trouble="nothing can be written")),
        "disk.scratch",
        "fail",
        "nothing can be written",
    ),
    "a foreign process": (
        with_gpu(used=40 * GIB, holders=(GpuHolder(77, 39 * GIB, "python", "eve"),)),
        "gpu.processes",
        "warn",
        "process 77 (python, eve) holds it",
    ),
    "a full GPU": (with_gpu(used=79 * GIB), "gpu.processes", "fail", "no process that can be seen"),
    "ECC errors": (with_gpu(uncorrected=2), "gpu.memory-errors", "warn", "2 uncorrected errors"),
    "rows to be remapped": (with_gpu(pending=True), "gpu.memory-errors", "fail", "wait to be remapped"),
    "broken rows": (with_gpu(broken=True), "gpu.memory-errors", "fail", "could not be remapped"),
    "a hot GPU": (with_gpu(throttle=("hw_thermal_slowdown",)), "gpu.clocks", "warn", "hw_thermal_slowdown"),
    "an Xid": (with_host(xids=(79,)), "gpu.xid", "warn", "Xid 79, fallen off the bus"),
    "a function that cannot be pickled": (
        with_caller(target=RefusedLaunch("SpecError", "fn cannot be pickled: a lock")),
        "target",
        "fail",
        "a lock",
    ),
    "a missing module": (
        with_installed(modules={"torch": False, "ray": True}),
        "target.imports",
        "fail",
        "torch is not installed on a",
    ),
    "a module that is missing later": (
        with_installed(modules={"torch": True, "ray": False}),
        "target.imports",
        "warn",
        "ray, imported within a function",
    ),
    "a large function": (
        with_caller(pickle=200 * MIB, captured=(CapturedValue("frame", "DataFrame", 190 * MIB),)),
        "target.size",
        "warn",
        "frame (DataFrame, 190 MiB)",
    ),
    "a missing path": (with_host(paths=()), "paths", "fail", "--spool /shared does not exist on a"),
    "an unwritable path": (
        with_host(paths=(PathFacts("/shared", exists=True, is_folder=True, readable=True),)),
        "paths",
        "fail",
        "cannot be written to on a",
    ),
    "a path of this machine": (
        with_host(paths=(PathFacts("/data"), PathFacts("/shared", True, True, True, True))),
        "paths.arguments",
        "warn",
        "/data exists here, and not on a",
    ),
    "a working folder that is read only": (
        CheckedLaunch(
            replace(SPEC, mode=Mode.LOCAL, spark=SparkSpec()),
            with_caller(workdir=DiskFacts("/w", trouble="nothing can be written to /w")).caller,
            Examined(expected=1, hosts=EXAMINED.hosts[:1]),
        ),
        "workdir",
        "warn",
        "nothing can be written to /w",
    ),
}


def test_a_good_cluster_passes_every_check() -> None:
    report = judge(GOOD)

    assert [c for c in report.checks if c.state != CheckState.PASS] == []
    assert {c.id for c in report.checks} == CHECKS.keys()
    assert (report.ok, report.exit_code, report.unplaced) == (True, 0, False)


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_wrong_is_found(case: str) -> None:
    launch, check, state, text = BROKEN[case]
    found = [each for each in judge(launch).checks if each.id == check and each.state != CheckState.PASS]

    assert [each.state.value for each in found] == [state]
    assert text in found[0].text
    assert found[0].remedy


def test_every_check_is_made_to_find_something() -> None:
    assert {check for _, check, _, _ in BROKEN.values()} == CHECKS.keys()


@pytest.mark.parametrize("case", BROKEN)
def test_a_warning_is_no_failure(case: str) -> None:
    launch, check, state, _ = BROKEN[case]
    code = judge(launch).exit_code

    assert (code == 0) == (state == "warn")
    assert (code == 69) == (state == "fail" and check in ("slots", "gpus", "network.engine"))


UNKNOWN: Mapping[str, Callable[[], CheckedLaunch]] = {
    "memory": lambda: with_host(unanswered={"memory": "OSError: no /proc"}, memory_free=None),
    "shared-memory": lambda: with_host(unanswered={"shared memory": "no answer"}, shm_free=None),
    "limits.files": lambda: with_host(unanswered={"limits": "no answer"}, limits={}),
    "network.hosts": lambda: with_host(unanswered={"dials": "no answer"}, dials=()),
    "gpu.xid": lambda: with_host(xids=None),
    "nccl": lambda: with_installed(nccl=""),
    "paths": lambda: with_host(unanswered={"paths": "no answer within 3 s"}, paths=()),
    "target.imports": lambda: with_caller(parsed=False, needed=(), lazy=()),
}


@pytest.mark.parametrize("check", UNKNOWN)
def test_what_is_not_known_is_said_to_be_unknown(check: str) -> None:
    report = judge(UNKNOWN[check]())

    assert report[check].state == CheckState.UNKNOWN
    assert report.ok


def test_gpus_that_cannot_be_read_are_unknown() -> None:
    silent = GpuFacts(0, trouble="NVML: GPU is lost")
    quiet = gpu("GPU-a", uncorrected=None, broken=None, throttle=None)

    assert judge(with_host(gpus=(silent,)))["gpu.processes"].state == CheckState.UNKNOWN
    (first, second) = with_host(gpus=(quiet,)).examined.hosts
    alone = replace(GOOD, examined=replace(EXAMINED, hosts=(first, replace(second, facts=first.facts))))
    assert judge(alone)["gpu.memory-errors"].state == CheckState.UNKNOWN
    assert judge(alone)["gpu.clocks"].state == CheckState.UNKNOWN


def test_without_hosts_nothing_is_said_about_them() -> None:
    report = judge(replace(GOOD, examined=NEVER))

    assert {c.state for c in report.checks if c.id in HOST_RULES} == {CheckState.UNKNOWN}
    assert report.exit_code == 69
    assert "so are memory" in repr(report)


def test_a_run_without_gpus_asks_nothing_about_them() -> None:
    checks = {c.id for c in judge(asking(gpu=False)).checks}

    assert not [each for each in checks if each.startswith("gpu")]
    assert not {"cuda", "nccl", "spark.gpu-amount"} & checks


def test_a_host_without_another_is_not_asked_for_ways() -> None:
    launch = replace(GOOD, examined=replace(EXAMINED, expected=1, hosts=EXAMINED.hosts[:1]))

    assert "network.hosts" not in {
        c.id for c in judge(replace(launch, spec=replace(SPEC, num_processes=1))).checks
    }


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [("eth0", True), ("=eth", False), ("=eth0", True), ("ib,eth", True), ("^lo", True), ("^eth,lo", False)],
)
def test_interfaces_are_chosen_as_nccl_does(wanted: str, fits: bool) -> None:
    state = judge(asking(env={"NCCL_SOCKET_IFNAME": wanted}))["network.interface"].state

    assert (state == CheckState.PASS) is fits


def test_gloo_takes_whole_names() -> None:
    assert not judge(asking(env={"GLOO_SOCKET_IFNAME": "eth"})).ok
    assert judge(asking(env={"GLOO_SOCKET_IFNAME": "eth0"})).ok


def test_a_gang_that_may_be_smaller_is_told_what_it_gets() -> None:
    elastic = replace(SPEC, num_processes=9, min_processes=1)

    assert (
        judge(replace(GOOD, spec=elastic))["slots"].text == "there is room for 2 ranks, in 2 tasks of Spark"
    )


def test_where_others_did_not_come_a_host_cannot_be_asked_for_ways() -> None:
    report = judge(replace(GOOD, examined=replace(EXAMINED, expected=2, hosts=EXAMINED.hosts[:1])))

    assert report["network.hosts"].state == CheckState.UNKNOWN
    assert "cannot reach each other" in report["hosts"].remedy


def test_slots_that_spark_does_not_tell_are_unknown_until_all_agents_came() -> None:
    note = "how many slots are free is not known; Spark waits for them itself"
    report = judge(with_examined(expected=9, notes=(note,)))

    assert report["slots"].state == CheckState.UNKNOWN
    assert note in report["slots"].text
    assert report["hosts"].state == CheckState.FAIL


def test_its_text_cannot_control_a_terminal() -> None:
    report = CheckReport((failed("slots", "\x1b[2Jnothing", "\x07"),))

    assert "\x1b" not in repr(report)
    assert "\x07" not in repr(report)


def test_the_worst_comes_last_with_its_remedy() -> None:
    checks = in_order([failed("slots", "no room", "wait"), passed("java", "there is one")])
    report = CheckReport(checks, 1.5, unplaced=True)

    assert [line.split()[0] for line in report.lines()] == ["pass", "fail", "→"]
    assert report.summary == "1 check passes · 1 failure: no room"
    assert report.document()["checks"][1] == {
        "id": "slots",
        "state": "fail",
        "text": "no room",
        "remedy": "wait",
        "hosts": [],
    }
    with pytest.raises(KeyError):
        report["clock"]


def test_no_check_has_an_id_of_its_own() -> None:
    with pytest.raises(ValueError, match="no check 'slot'"):
        Check("slot", CheckState.PASS, "")


def test_the_manual_lists_every_check() -> None:
    listed = re.findall(r"^\| `([a-z.-]+)` \|", MANUAL.read_text(), re.MULTILINE)

    assert listed == list(CHECKS)
