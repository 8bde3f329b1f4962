"""Recognise failures whose cause is a GPU, its driver, or how a program uses it. Pure.

The messages are CUDA's, NCCL's and torch's. A kernel runs after the call that started it has returned, so
the traceback of its error mostly shows a later call.
"""

from __future__ import annotations

import re

from ..errors import counted
from ..state.outcome_rules import brief
from ..state.xids import gpu_text, xid_text
from .failure import Certainty, Finding, FirstFailure, Recognised

# Errors of the GPU itself: memory, links, firmware. Others are those of programs (13, 31, 43, 45) or of no
# consequence (63, 92). https://docs.nvidia.com/deploy/xid-errors
BROKEN = frozenset({48, 61, 62, 64, 74, 79, 94, 95, 119, 120, 140, 143})
_BLOCKING = "run it once with --env CUDA_LAUNCH_BLOCKING=1: the traceback then shows the call that did it"


def lost_gpu(failure: FirstFailure) -> Finding | None:
    """CUDA told the rank that its GPU is broken."""
    found = _cuda_tells(failure, r"uncorrectable ECC error|GPU is lost|fallen off the bus")
    if found is None:
        return None
    text = f"a GPU of {failure.name} on {failure.rank.host} failed: {found.match[1]}"
    return Finding("gpu-fault", text, found.certainty, _logged(failure), _spared(failure))


_OF_CUDA = re.compile(r"[\s\S]*?\b(?:CUDA|NCCL|cuDNN|CUBLAS)", re.IGNORECASE)


def broken_gpu(failure: FirstFailure) -> Finding | None:
    """The driver logged a fault of the rank's GPU, and then the rank failed at using it, or by a signal."""
    faults = [each for each in failure.xids if each.xid in BROKEN]
    used = failure.rank.signal or failure.begins(_OF_CUDA)
    if not (faults and used):
        return None
    text = f"{gpu_text(faults[0])} failed under {failure.name}: {xid_text(faults[0].xid)}"
    return Finding("gpu-fault", text, Certainty.LIKELY, _logged(failure), _spared(failure))


def _spared(failure: FirstFailure) -> tuple[str, ...]:
    return (
        f"keep {failure.rank.host} out of the next run: such a GPU needs a reset or a replacement",
        "its administrator finds more in `dmesg` and `nvidia-smi -q`",
    )


def illegal_access(failure: FirstFailure) -> Finding | None:
    """A kernel used an address that is not its own."""
    found = _cuda_tells(failure, r"illegal memory access|misaligned address|illegal instruction")
    if found is None:
        return None
    return Finding(
        "cuda-illegal-access",
        f"a kernel of {failure.name} used memory that is not its own",
        found.certainty,
        evidence=("the traceback may show a later call than the one that started it", *_logged(failure)),
        remedy=(
            _BLOCKING,
            "`compute-sanitizer python train.py` on one GPU names the kernel and the address",
        ),
    )


def failed_assertion(failure: FirstFailure) -> Finding | None:
    """A check inside a kernel failed."""
    found = _cuda_tells(failure, r"device-side assert")
    if found is None:
        return None
    return Finding(
        "cuda-assert",
        f"a check inside a kernel of {failure.name} failed, such as that of an index or a label",
        found.certainty,
        evidence=("the traceback may show a later call than the one that started it", *_logged(failure)),
        remedy=(
            f"rankdeck logs {failure.run} -r {failure.rank.rank} --grep Assertion: which check it was",
            "run the same batch with --no-gpu: on the CPU the error names the index",
            _BLOCKING,
        ),
    )


_DUPLICATE = (
    r"[\s\S]*?ncclInvalidUsage[\s\S]*?"
    r"(Duplicate GPU detected ?: rank \d{1,7} and rank \d{1,7} both on CUDA device \w{1,16})"
)


def shared_by_nccl(failure: FirstFailure) -> Finding | None:
    """NCCL found two ranks on one GPU, which it refuses."""
    found = failure.begins(_DUPLICATE)
    if found is None:
        return None
    own = "torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before the first use of a GPU"
    gloo = "the backend gloo, if ranks are to share a GPU"
    return Finding(
        "nccl-duplicate-gpu",
        f"{failure.name} and another rank of its group use the same GPU, and NCCL takes one rank a GPU",
        found.certainty,
        evidence=(f"NCCL says, by ranks of the group: {found.match[1]}",),
        remedy=(gloo, "fewer ranks a GPU") if failure.shared else (own, gloo),
    )


def no_such_device(failure: FirstFailure) -> Finding | None:
    """The rank chose a GPU by a number that it does not have."""
    found = _cuda_tells(failure, r"invalid device ordinal")
    if found is None:
        return None
    rank = failure.rank
    return Finding(
        "cuda-no-such-device",
        f"{failure.name} chose a GPU by a number that it does not see",
        found.certainty,
        evidence=(
            f"its local rank is {rank.local_rank}, and it has {counted(len(rank.devices), 'GPU')} of its own",
        ),
        remedy=(
            "with a GPU for each rank, its number is LOCAL_RANK",
            "where ranks share GPUs, it is LOCAL_RANK % torch.cuda.device_count()",
            "a number that is written in the script means another GPU in every run",
        ),
    )


_OLD_DRIVER = (
    r"(?:The NVIDIA driver on your system is too old|CUDA error: CUDA driver version is insufficient"
    r"|Unexpected error from cudaGetDeviceCount\(\)[^\n]{0,300}driver version is insufficient)"
)


def old_driver(failure: FirstFailure) -> Finding | None:
    """The driver is older than the CUDA that torch was built for."""
    found = failure.begins(_OLD_DRIVER)
    if found is None:
        return None
    return Finding(
        "cuda-driver-too-old",
        f"the NVIDIA driver of {failure.rank.host} is older than the CUDA that torch was built for",
        found.certainty,
        evidence=(brief(found.error.message),),
        remedy=(
            "install a torch that was built for that driver: `nvidia-smi` shows the newest CUDA it supports",
            "or have the driver updated",
        ),
    )


def wrong_architecture(failure: FirstFailure) -> Finding | None:
    """A kernel was not compiled for this GPU."""
    found = _cuda_tells(failure, r"no kernel image is available")
    if found is None:
        return None
    model = next((device.name for device in failure.rank.devices if device.name), "this GPU")
    return Finding(
        "cuda-no-kernel",
        f"what {failure.name} runs was not compiled for {model}",
        found.certainty,
        evidence=("CUDA: no kernel image is available for execution on the device",),
        remedy=(
            "torch.cuda.get_arch_list() shows what torch was compiled for: install a build for this GPU",
            "an extension of your own: set TORCH_CUDA_ARCH_LIST where it is built",
        ),
    )


def torch_without_cuda(failure: FirstFailure) -> Finding | None:
    """This torch cannot use GPUs at all."""
    found = failure.begins("Torch not compiled with CUDA enabled")
    if found is None:
        return None
    return Finding(
        "torch-without-cuda",
        f"the torch of {failure.name} was built without CUDA",
        found.certainty,
        evidence=(brief(found.error.message),),
        remedy=(
            "install a build with CUDA, as pytorch.org/get-started tells",
            "--python PATH, if another interpreter has one; --no-gpu to train on the CPU",
        ),
    )


def _cuda_tells(failure: FirstFailure, pattern: str) -> Recognised | None:
    """An error of CUDA's with a pattern in its first line; torch's and Triton's errors begin so."""
    begin = rf"(?:CUDA error|Triton Error \[CUDA\]): [^\n]{{0,80}}?({pattern})"
    return failure.begins(re.compile(begin, re.IGNORECASE))


def _logged(failure: FirstFailure) -> tuple[str, ...]:
    """The Xids of the rank's GPUs."""
    return tuple(f"the driver logged {xid_text(each.xid)}, for {gpu_text(each)}" for each in failure.xids)
