"""Which cause a failure has, from what was recorded of it; and that none is named without evidence."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.diagnosis.causes import Evidence, find_cause
from launcher.diagnosis.failure import Course
from launcher.diagnosis.gpu_memory import course_text, told
from launcher.diagnosis.wording import cause_lines
from launcher.spec.places import Assignment, Device
from launcher.state import events as ev
from launcher.state.fold import fold_all
from launcher.state.outcome_rules import verdict

ROOT = Path(__file__).parents[3]
MANUAL = ROOT / "console" / "manual" / "results.md"
GIB, MIB = 1 << 30, 1 << 20
GPU = Device(index=3, uuid="GPU-3", name="NVIDIA H100 80GB HBM3", memory=80 * GIB)

# As torch 2.11 wrote them on an H100, with driver 580.
OOM = (
    "CUDA out of memory. Tried to allocate 6.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 588.19 "
    "MiB is free. Including non-PyTorch memory, this process has 78.60 GiB memory in use. Of the allocated "
    "memory 78.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated. If "
    "reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "
    "to avoid fragmentation.  See documentation for Memory Management  (https://docs.pytorch.org/docs/stable/"
    "notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
)
ILLEGAL = (
    "CUDA error: an illegal memory access was encountered\nSearch for `cudaErrorIllegalAddress' in "
    "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.\nCUDA "
    "kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to "
    "enable device-side assertions.\n"
)
ASSERT = ILLEGAL.replace("an illegal memory access was encountered", "device-side assert triggered")
# From the sources of torch 2.0, NCCL 2.27, torch 2.11 and Triton 3.6.
OLD_OOM = (
    "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.90 GiB total capacity; 9.50 GiB already "
    "allocated; 200.00 MiB free; 14.50 GiB reserved in total by PyTorch) If reserved memory is >> allocated "
    "memory try setting max_split_size_mb to avoid fragmentation."
)
DUPLICATE = (
    "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, invalid usage (run with "
    "NCCL_DEBUG=WARN for details), NCCL version 2.28.9\nncclInvalidUsage: This usually reflects invalid "
    "usage of NCCL library.\nLast error:\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA device 60"
)
OLD_DRIVER = (
    "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver by "
    "downloading and installing a new version from the URL: http://www.nvidia.com/Download/index.aspx"
)


def failed(
    kind: str = "RuntimeError",
    message: str = "",
    *,
    xids: Sequence[int] = (),
    signal: str | None = None,
    oom_kills: int = 0,
    uuid: str = GPU.uuid,
) -> list[ev.Event]:
    """The facts of a gang of two whose rank 1 failed first."""
    places = tuple(
        Assignment(rank=r, world_size=2, local_rank=r, local_world_size=2, node_rank=0, node_count=1, agent=0,
                   host="gpu-01", devices=(dataclasses.replace(GPU, index=r + 2, uuid=f"GPU-{r + 2}"),))
        for r in (0, 1)
    )  # fmt: skip
    code = 137 if signal else 1
    return [
        ev.RunSubmitted(time=1.0, name="t", target="t.py", mode="local", num_processes=2),
        ev.AgentJoined(time=1.0, agent=0, host="gpu-01", pid=9),
        ev.GangPlaced(time=1.0, ranks=places),
        *(ev.RankStarted(time=2.0, rank=r, pid=10 + r) for r in (0, 1)),
        ev.Sampled(time=3.0, agent=0, host="gpu-01",
                   system=ev.HostSample(memory_used=15 * GIB, memory_total=16 * GIB),
                   ranks=(ev.RankSample(rank=1, rss=14 * GIB),)),
        *(ev.XidLogged(time=4.0, agent=0, host="gpu-01", uuid=uuid, index=3, xid=xid) for xid in xids),
        *([] if signal else [ev.RankRaised(time=5.0, rank=1, kind=kind, message=message, traceback=message)]),
        ev.RankExited(time=6.0, rank=1, exit_code=code, signal=signal, oom_kills=oom_kills),
    ]  # fmt: skip


def cause(facts: list[ev.Event], memory: Course = ()) -> ev.CauseFound | None:
    state = fold_all(facts, run="r1")
    return find_cause(state, Evidence(memory_of=lambda _: memory), verdict(state, now=7.0))


TELLING = [
    ("torch.OutOfMemoryError", OOM, "cuda-oom", "certain"),
    ("torch.cuda.OutOfMemoryError", OLD_OOM, "cuda-oom", "certain"),
    ("RuntimeError", "CUDA error: out of memory\nCUDA kernel errors might be…", "cuda-oom", "certain"),
    ("RuntimeError", "Triton Error [CUDA]: out of memory", "cuda-oom", "certain"),
    (
        "RuntimeError",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuda-oom",
        "likely",
    ),
    ("torch.AcceleratorError", ILLEGAL, "cuda-illegal-access", "certain"),
    (
        "RuntimeError",
        "Triton Error [CUDA]: an illegal memory access was encountered",
        "cuda-illegal-access",
        "certain",
    ),
    ("torch.AcceleratorError", ASSERT, "cuda-assert", "certain"),
    ("torch.distributed.DistBackendError", DUPLICATE, "nccl-duplicate-gpu", "certain"),
    ("torch.AcceleratorError", "CUDA error: invalid device ordinal\nGPU device may be…",
     "cuda-no-such-device", "certain"),
    ("RuntimeError", OLD_DRIVER, "cuda-driver-too-old", "certain"),
    ("RuntimeError", "CUDA error: no kernel image is available for execution on the device",
     "cuda-no-kernel", "certain"),
    ("AssertionError", "Torch not compiled with CUDA enabled", "torch-without-cuda", "certain"),
    ("RuntimeError", "CUDA error: uncorrectable ECC error encountered", "gpu-fault", "certain"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "message", "rule", "certainty"), TELLING)
def test_an_exception_that_tells_its_cause(kind: str, message: str, rule: str, certainty: str) -> None:
    found = cause(failed(kind, message))

    assert found is not None
    assert (rule, certainty, 1) == (found.id, found.certainty, found.rank)
    assert "rank 1" in found.text or "gpu-01" in found.text
    assert found.remedy


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("RuntimeError", "the CUDA out of memory handler was called twice"),
        ("mypackage.OutOfMemoryError", "the cache is full"),
        ("ValueError", "an illegal memory access was encountered in the emulator"),
        ("AssertionError", "device-side assert expected"),
        ("RuntimeError", "invalid device ordinal"),
        ("ValueError", "expected the CUDA kernel to raise an illegal memory access, got none"),
        ("ImportError", "cannot import apex\n(Torch not compiled with CUDA enabled)"),
        ("ValueError", "skipped because the NVIDIA driver on your system is too old"),
        ("RuntimeError", "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 60"),
        ("RuntimeError", "Connection closed by peer [127.0.0.1]:3021"),
        ("java.lang.OutOfMemoryError", "Java heap space"),
    ],
)
def test_an_exception_that_only_sounds_like_one_has_no_known_cause(kind: str, message: str) -> None:
    assert cause(failed(kind, message)) is None


def test_a_run_in_which_nothing_failed_has_no_cause() -> None:
    assert cause(failed()[:5]) is None


def test_out_of_memory_tells_who_held_it_and_how_it_went() -> None:
    course = [(float(i), i * 11 * GIB) for i in range(8)]
    found = cause(failed("torch.OutOfMemoryError", OOM), course)

    assert found is not None
    assert found.text == "rank 1 ran out of GPU memory on gpu-01"
    assert found.evidence == (
        "it asked for 6.0 GiB, and 588 MiB of the 79.2 GiB of cuda:0 were free",
        "its tensors held 78.0 GiB",
        "its memory went 0 B, 11.0 GiB, 22.0 GiB, 33.0 GiB, 44.0 GiB, 55.0 GiB, 66.0 GiB, 77.0 GiB over 7 s",
    )
    assert found.remedy[0].startswith("see whether memory grows with every step")


def test_a_leak_is_seen_however_slow_and_a_start_is_no_leak() -> None:
    leak = [(float(i), (40 + i) * GIB) for i in range(40)]
    start = [(float(i), size * GIB) for i, size in enumerate((0, 1, 20, 60, 70, 70, 71, 70, 78))]
    short = [(float(i), i * 20 * GIB) for i in range(5)]

    for course, grows in ((leak, True), (start, False), (short, False)):
        found = cause(failed("torch.OutOfMemoryError", OOM), course)
        assert found is not None
        assert grows is ("grows with every step" in found.remedy[0])


def test_memory_that_another_rank_holds_points_to_the_choice_of_the_device() -> None:
    """Its pid is that of rank 0: both have allocated on cuda:0."""
    message = OOM.replace("78.60", "38.60").replace("Incl", "Process 10 has 40.00 GiB memory in use. Incl")
    found = cause(failed("torch.OutOfMemoryError", message))

    assert found is not None
    assert "rank 0 held 40.0 GiB of the same GPU" in found.evidence
    assert found.remedy[0].startswith("torch.cuda.set_device(int(os.environ['LOCAL_RANK']))")
    assert not any("other processes" in each for each in found.remedy)


def test_an_exception_that_a_replica_passed_on() -> None:
    quoted = (
        "Caught OutOfMemoryError in replica 0 on device 0.\nOriginal Traceback (most recent call last):\n"
        '  File "/x/parallel_apply.py", line 97, in _worker\n    output = module()\n'
        f"torch.OutOfMemoryError: {OOM}"
    )
    found = cause(failed("torch.OutOfMemoryError", quoted))

    assert found is not None
    assert ("cuda-oom", "certain") == (found.id, found.certainty)


def test_memory_that_does_not_grow_points_to_the_batch() -> None:
    found = cause(failed("torch.OutOfMemoryError", OOM), [(float(i), 70 * GIB) for i in range(30)])

    assert found is not None
    assert found.remedy[0].startswith("a smaller batch")


def test_memory_in_pieces_points_to_the_allocator() -> None:
    pieces = OOM.replace("0 bytes is reserved", "9.50 GiB is reserved")
    found = cause(failed("torch.OutOfMemoryError", pieces))

    assert found is not None
    assert "expandable_segments" in found.remedy[0]
    assert "its tensors held 78.0 GiB, and torch kept 9.5 GiB for later ones" in found.evidence


@pytest.mark.parametrize(
    "message",
    [
        OOM.replace("Including", "Process 4711 has 40.00 GiB memory in use. Including").replace(
            "78.60", "38.6"
        ),
        OOM.replace("this process has 78.60 GiB", "this process has 40.00 GiB"),
    ],
)
def test_memory_that_others_hold_points_to_them(message: str) -> None:
    found = cause(failed("torch.OutOfMemoryError", message))

    assert found is not None
    assert found.remedy[0].startswith("free the GPU of the other processes")
    assert ("process 4711 held 40.0 GiB of the same GPU" in found.evidence) is ("4711" in message)


def test_the_words_of_older_versions_of_torch() -> None:
    seen = told(OLD_OOM)

    assert (2 * GIB, int(15.9 * GIB), 200 * MIB) == (seen.tried, seen.total, seen.free)
    assert (int(9.5 * GIB), None, None) == (seen.tensors, seen.cached, seen.own)


def test_a_message_that_tells_nothing_more() -> None:
    assert told("CUDA out of memory.") == told("")


@given(
    st.text(max_size=40),
    st.sampled_from([OOM, OLD_OOM, ILLEGAL, ASSERT, DUPLICATE, OLD_DRIVER, "CUDA error: "]),
    st.integers(0, 10**30),
    st.text(max_size=40),
)
def test_no_message_breaks_a_rule(before: str, message: str, number: int, after: str) -> None:
    """Numbers of any length among them."""
    changed = re.sub(r"\d+", lambda _: str(number), message)
    for text in (before + changed + after, changed + after, message[: len(message) // 2] + str(number) * 300):
        cause(failed("torch.OutOfMemoryError", text))


def test_a_message_as_long_as_one_may_be_takes_no_time_worth_mentioning() -> None:
    text = ("CUDA " * 3000 + "Process 1 has 1 GiB rank 0 and " * 500)[:16384]

    assert cause(failed("RuntimeError", text)) is None
    assert cause(failed("torch.OutOfMemoryError", f"CUDA out of memory. {text}")) is not None


def test_a_long_course_is_told_in_eight_points_from_its_first_to_its_last() -> None:
    text = course_text([(float(i), i * MIB) for i in range(1001)])

    assert text.startswith("0 B, 143 MiB")
    assert text.endswith("1,000 MiB over 1000 s")
    assert 8 == text.count("B")


@pytest.mark.parametrize("xid", [48, 74, 79, 95, 119])
def test_a_fault_of_the_gpu_is_likely_where_the_rank_failed_at_using_it(xid: int) -> None:
    for facts in (
        failed("torch.distributed.DistBackendError", "NCCL error: remote process exited", xids=(31, xid)),
        failed("RuntimeError", "CUDA error: unspecified launch failure", xids=(31, xid)),
        failed(signal="SIGABRT", xids=(31, xid)),
    ):
        found = cause(facts)
        assert found is not None
        assert ("gpu-fault", "likely") == (found.id, found.certainty)
        assert f"GPU 3 on gpu-01 failed under rank 1: Xid {xid}" in found.text
        assert any("Xid 31" in each for each in found.evidence)


@pytest.mark.parametrize("xid", [48, 79])
def test_a_fault_of_the_gpu_does_not_explain_everything(xid: int) -> None:
    assert cause(failed("ValueError", "no such column", xids=(xid,))) is None
    found = cause(failed("torch.OutOfMemoryError", OOM, xids=(xid,)))
    assert found is not None
    assert "cuda-oom" == found.id


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 63, 92, 4242])
def test_an_error_of_a_program_is_no_fault_of_the_gpu(xid: int) -> None:
    assert cause(failed("RuntimeError", "CUDA error: unspecified launch failure", xids=(xid,))) is None
    found = cause(failed("torch.AcceleratorError", ILLEGAL, xids=(xid, xid)))
    assert found is not None
    assert "cuda-illegal-access" == found.id
    assert 1 == sum(f"Xid {xid}" in each for each in found.evidence)


def test_a_flood_of_one_error_hides_no_other() -> None:
    found = cause(failed(signal="SIGABRT", xids=(*[13] * 100, 79)))

    assert found is not None
    assert "gpu-fault" == found.id


def test_a_fault_of_another_gpu_does_not_count() -> None:
    """Of another rank, or of another job on the host."""
    assert cause(failed(signal="SIGABRT", xids=(79,), uuid="GPU-2")) is None
    assert cause(failed(signal="SIGABRT", xids=(79,), uuid="GPU-7")) is None


def test_the_kernel_that_killed_for_lack_of_memory() -> None:
    found = cause(failed(signal="SIGKILL", oom_kills=2))

    assert found is not None
    assert ("oom-killer", "likely") == (found.id, found.certainty)
    assert "rank 1 and its children held 14.0 GiB when last seen" in found.evidence
    assert "15.0 GiB of the host's 16.0 GiB were in use" in found.evidence
    assert cause(failed(signal="SIGKILL")) is None
    assert cause(failed(signal="SIGSEGV", oom_kills=1)) is None


def test_a_cause_in_words() -> None:
    found = cause(failed(signal="SIGKILL", oom_kills=1))
    lines = list(cause_lines(found))

    assert lines[0] == (
        "cause    likely: the kernel killed rank 1 because memory had run out for its container or host"
    )
    assert all(line.startswith(("cause    ", "remedy   ", "         ")) for line in lines)
    assert 1 == sum(line.startswith("remedy") for line in lines)
    assert [] == list(cause_lines(None))


def test_the_manual_lists_every_cause_and_no_other() -> None:
    section = MANUAL.read_text().partition("## Why it failed")[2]
    listed = {name for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in row.split(", ")}
    sources = "".join(path.read_text() for path in (ROOT / "launcher" / "diagnosis").glob("*.py"))
    found = re.findall(r'\bFinding\(\s*"([a-z-]+)"', sources)
    assert {f"`{name}`" for name in found} <= listed
    assert [name for name in listed if f'"{name[1:-1]}"' not in sources] == []
