"""Which exceptions follow from another rank's end, by the real words of gloo, torch's stores and NCCL."""

from __future__ import annotations

import pytest

from launcher.state.peer_loss import doubt, is_transport_error, operation

PAIR = "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:"
BUFFER = "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:"
# From gloo as of torch 2.13, a rank killed, gone or stopped in the middle of each collective.
GLOO = (
    PAIR + "553] Connection closed by peer [127.0.0.1]:48285. This is typically caused by a remote worker "
    "crashing. Check the logs of the remote worker before reporting an error. GLHF! 🏖️",
    PAIR
    + "537] Read error [127.0.0.1]:12207: Connection reset by peer. This is typically caused by a remote "
    "worker hanging or bugs in the application.",
    PAIR + "448] writev [127.0.0.1]:5002: Broken pipe",
    BUFFER + "129] Timed out waiting 4000ms for send operation to complete",
    BUFFER + "78] Timed out waiting 4000ms for recv operation to complete",
    "Application timeout caused pair closure",
    "[gloo/rendezvous/context.cc:30] connect [10.0.0.2]:29500: Interrupted system call",
    "[Rank 0]: Rank 2 failed to pass monitoredBarrier in 1800000 ms\n Original exception: \n"
    + PAIR
    + "553] x",
    "Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv.",
    "Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:144] timeout",
)
STORES = (
    "recvValue failed on SocketImpl(fd=4, remote=[localhost]:29500): Connection reset by peer",
    "failed to recv, got 0 bytes",
    "sendBytes failed on SocketImpl(fd=3, addr=[localhost]:5, remote=[localhost]:29500): Broken pipe",
    "wait timeout after 300000ms, keys: /default_pg/0//cpu//0/2",
    "Timed out after 21 seconds waiting for clients. 1/3 clients joined.",
    "The client socket has timed out after 60s while trying to connect to (10.0.0.1, 29500).",
    "The client socket has failed to connect to [node-1]:29500 (errno: 111 - Connection refused).",
)
NCCL = (
    "ProcessGroupNCCL.cpp:1970, remote process exited or there was a network error, NCCL version 2.21.5",
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
    "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
    "NCCL communicator was aborted on rank 1.",
    "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE)",
    "WorkNCCL(SeqNum=5, Timeout(ms)=600000) ran for 600123 milliseconds before timing out.",
)
OWN = (
    "the true cause",
    "CUDA out of memory. Tried to allocate 2.00 GiB",
    "mat1 and mat2 shapes cannot be multiplied (4x256 and 128x10)",
    "Expected to have finished reduction in the prior iteration before starting a new one.",
    "[Errno 2] No such file or directory: 'data/gloo.bin'",
    "the loss is nan at step 7",
    "DataLoader timed out after 60 seconds",
    "peer review failed",
    "[Errno 4] Interrupted system call",
    "",
)


@pytest.mark.parametrize("message", [*GLOO, *STORES, *NCCL])
def test_words_of_the_transport(message: str) -> None:
    assert is_transport_error(message)


@pytest.mark.parametrize("message", OWN)
def test_words_of_the_training(message: str) -> None:
    assert not is_transport_error(message)


FRAMES = 'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\n    step()\n    ^^^^^^\n'
DIRECT = "\n\nThe above exception was the direct cause of the following exception:\n\n"
DURING = "\n\nDuring handling of the above exception, another exception occurred:\n\n"
LOST, OURS = f"RuntimeError: {GLOO[0]}", "ValueError: the true cause"


@pytest.mark.parametrize(
    ("first", "link", "last", "expected"),
    [
        (OURS, "", "", 0),
        (LOST, "", "", 2),
        (LOST, DIRECT, "TrainingError: the step failed", 2),
        (LOST, DURING, LOST, 2),
        (LOST, DURING, OURS, 1),
        (OURS, DURING, LOST, 1),
        (OURS, DIRECT, LOST, 1),
        (OURS, DURING, "KeyError: 3", 0),
    ],
)
def test_a_chain_of_exceptions(first: str, link: str, last: str, expected: int) -> None:
    traceback = FRAMES + first + (link + FRAMES + last if link else "") + "\n"
    message = (last or first).partition(": ")[2]

    assert expected == doubt(message, traceback)


def frame(file: str, name: str) -> str:
    return f'  File "/site-packages/{file}", line 83, in {name}\n    return func(*args, **kwargs)\n'


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        (frame("torch/distributed/c10d_logger.py", "wrapper") + frame(
            "torch/distributed/distributed_c10d.py", "all_reduce"), "all_reduce"),
        (frame("torch/distributed/distributed_c10d.py", "all_gather_object") + frame(
            "torch/distributed/distributed_c10d.py", "all_gather"), "all_gather_object"),
        (frame("torch/distributed/distributed_c10d.py", "_new_group_with_tag"), ""),
        (frame("torch/_tensor.py", "backward") + frame("torch/autograd/__init__.py", "backward"), "backward"),
        (frame("mine.py", "step"), ""),
    ],
)  # fmt: skip
def test_the_collective_is_named_as_torch_calls_it(frames: str, expected: str) -> None:
    assert expected == operation(f"Traceback (most recent call last):\n{frames}RuntimeError: x\n")
