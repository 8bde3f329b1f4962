"""What ranks do in tests of clusters."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

CONTRACT = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "NODE_RANK",
    "MASTER_ADDR", "MASTER_PORT", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME",
    "NCCL_SOCKET_IFNAME", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID",
)  # fmt: skip


def places() -> dict[str, Any]:
    """What a rank sees of its place."""
    return {name: os.environ.get(name) for name in CONTRACT} | {"pid": os.getpid(), "cwd": os.getcwd()}


def tick(count: int = 600, every: float = 0.05) -> int:
    """Numbers, one a line, for as long as it takes."""
    for number in range(count):
        print(number, flush=True)
        time.sleep(every)  # the training's own pace
    return count


def stubborn() -> None:
    """Work on, whatever one is asked."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    tick(100_000)


def all_reduce(times: int = 1, every: float = 0.0) -> float:
    """The sum of all ranks, by gloo."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    total = torch.tensor(0.0)
    for _ in range(times):
        total = torch.tensor(float(dist.get_rank()))
        dist.all_reduce(total)
        time.sleep(every)  # the training's own pace
    dist.destroy_process_group()
    return float(total)


def fail(rank: int = 1, how: str = "raise", until: int = 10**6) -> int:
    """Rank `rank` goes wrong in every attempt before `until`; the others wait for it."""
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    print(f"attempt {attempt}", flush=True)
    if int(os.environ["RANK"]) != rank or attempt >= until:
        if attempt < until:
            tick(100_000)
        return attempt
    if how == "raise":
        raise ValueError(f"bad luck in attempt {attempt}")
    if how == "exit":
        sys.exit(7)
    os.kill(os.getpid(), getattr(signal, how))
    return tick(100_000)


def large(size: int) -> bytes:
    """A value of so many bytes."""
    return os.urandom(1) * size


def noise(count: int) -> int:
    """Bytes that are hard to carry: no UTF-8, no line ends, both streams."""
    data = bytes(range(256)) * 64
    for _ in range(count):
        sys.stdout.buffer.write(data)
        sys.stderr.buffer.write(data[::-1])
    sys.stdout.flush()
    return count * len(data)


def write_then_wait(path: str) -> None:
    """Leave a file when asked to end, as a checkpoint on preemption."""

    def save(*_: object) -> None:
        Path(f"{path}.{os.environ['RANK']}").write_text("saved")
        sys.exit(0)

    signal.signal(signal.SIGTERM, save)
    tick(100_000)


def copy(number: int) -> None:
    """Write what was sent several times, one after another."""
    data, rank = Path("tokens.bin").read_bytes(), os.environ["RANK"]
    Path("out").mkdir(exist_ok=True)
    for each in range(number):
        Path(f"out/{rank}.{each}.bin").write_bytes(data)
