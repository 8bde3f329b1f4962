"""An exception that was merely handled need not be why a rank failed: no rule calls it certain."""

from __future__ import annotations

import pytest

from launcher.state import events as ev

from .gangs import TORCH, by_user, cause_of, found, killed, raised, stopped

DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"
DIRECT = "\nThe above exception was the direct cause of the following exception:\n\n"
DIST = "torch.distributed.DistStoreError"
BACKEND = "torch.distributed.DistBackendError"
FRAME = f'  File "{TORCH}/somewhere.py", line 5, in call\n    check()\n'
READER = "PytorchStreamReader failed reading zip archive: failed finding central directory"

SAID = [
    ("cuda-oom", "torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has"),
    ("gpu-fault", "RuntimeError", "CUDA error: uncorrectable ECC error encountered"),
    ("cuda-illegal-access", "RuntimeError", "CUDA error: an illegal memory access was encountered"),
    ("cuda-assert", "torch.AcceleratorError", "CUDA error: device-side assert triggered"),
    ("nccl-duplicate-gpu", BACKEND,
     "NCCL error: ncclInvalidUsage\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA device 1a000"),
    ("cuda-no-such-device", "RuntimeError", "CUDA error: invalid device ordinal"),
    ("cuda-driver-too-old", "RuntimeError", "The NVIDIA driver on your system is too old (found 11040)."),
    ("cuda-no-kernel", "RuntimeError", "CUDA error: no kernel image is available for execution"),
    ("torch-without-cuda", "AssertionError", "Torch not compiled with CUDA enabled"),
    ("collective-mismatch", "RuntimeError", "Error when verifying shape tensors for collective ALLREDUCE"),
    ("collective-timeout", "RuntimeError",
     "[/pytorch/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 20000ms for recv operation"),
    ("ranks-missing", DIST, "Timed out after 60 seconds waiting for clients. 1/2 clients joined."),
    ("group-missing", "ValueError", "Default process group has not been initialized, please call init"),
    ("group-twice", "ValueError", "trying to initialize the default process group twice!"),
    ("nccl-without-gpu", "RuntimeError", "Distributed package doesn't have NCCL built in"),
    ("ddp-ready-twice", "RuntimeError", "Expected to mark a variable ready only once. This error"),
    ("checkpoint-torn", "RuntimeError", READER),
    ("port-in-use", "OSError", "[Errno 98] binding on ('::', 80): address already in use"),
    ("disk-full", "OSError", "[Errno 28] No space left on device: '/data/a'"),
    ("memory-limit", "MemoryError", ""),
    ("too-many-files", "OSError", "[Errno 24] Too many open files: '/data/a'"),
]  # fmt: skip


def earlier(kind: str, message: str, frame: str = FRAME) -> str:
    return f"Traceback (most recent call last):\n{frame}{kind}: {message}\n"


def passed_on(before: str) -> list[ev.Event]:
    """The failure of a rank that raised one of its own, with another one before it."""
    return [
        *raised("RuntimeError", "no", frames=by_user('raise RuntimeError("no")'), before=before),
        *stopped(0),
    ]


@pytest.mark.parametrize(("cause", "kind", "message"), SAID, ids=[each[0] for each in SAID])
def test_it_is_certain_only_if_it_is_the_failure_or_its_direct_cause(
    cause: str, kind: str, message: str
) -> None:
    facts = [*raised(kind, message, frames=FRAME), *stopped(0)]
    assert (cause, "certain") == _told(facts)
    assert (cause, "certain") == _told(passed_on(earlier(kind, message) + DIRECT))
    assert (cause, "likely") == _told(passed_on(earlier(kind, message) + DURING))


def _told(facts: list[ev.Event]) -> tuple[str, str]:
    cause = found(facts)
    return cause.id, cause.certainty


@pytest.mark.parametrize(("cause", "kind", "message"), SAID, ids=[each[0] for each in SAID])
def test_what_came_up_while_it_was_handled_may_be_of_its_own(cause: str, kind: str, message: str) -> None:
    own = raised("KeyError", "'step'", frames=FRAME, before=earlier(kind, message) + DURING)
    told = cause_of([*own, *stopped(0)])
    assert told is None or told.id != cause


def test_a_checkpoint_that_was_not_there_is_no_cause_of_what_failed_later() -> None:
    """`torch.load` of a half archive was handled, and the training failed at something else."""
    reader = (
        f'  File "{TORCH}/serialization.py", line 1530, in _is_torchscript_zip\n'
        "    magic_number = pickle_module.load(f, **pickle_load_args)\n"
    )
    handled = earlier("EOFError", "", reader) + DURING
    assert cause_of([*raised("KeyError", "'step'", frames=FRAME, before=handled), *stopped(0)]) is None
    alone = found([*raised("ValueError", "x", frames=reader), *stopped(0)])
    assert ("checkpoint-torn", "likely") == (alone.id, alone.certainty)


def test_a_child_that_ran_the_script_again_is_certain_only_with_its_end() -> None:
    wrote = {1: ("An attempt has been made to start a new process before the",
                 "current process has finished its bootstrapping phase.")}  # fmt: skip
    ended = "process 0 terminated with exit code 1"
    kind = "torch.multiprocessing.spawn.ProcessExitedException"
    direct = found([*raised(kind, ended, frames=FRAME), *stopped(0)], output=wrote)
    assert ("main-guard-missing", "certain") == (direct.id, direct.certainty)
    handled = found(passed_on(earlier(kind, ended) + DURING), output=wrote)
    assert ("main-guard-missing", "likely") == (handled.id, handled.certainty)


def test_what_gloo_prints_as_it_aborts_the_process_is_certain() -> None:
    said = "[enforce fail at /pytorch/gloo/transport/tcp/pair.cc:446] op.preamble.length <= op.nbytes. 8 vs 4"
    cause = found([*killed("SIGABRT", 134), *stopped(0)], output={1: (f"  what():  {said}",)})
    assert ("collective-mismatch", "certain") == (cause.id, cause.certainty)
