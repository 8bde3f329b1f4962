"""A large run that happens now, written by a process of its own: what the console is measured against.

Once a second every rank reports a step and every host its samples; output comes all the time.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from launcher.runs import paths
from launcher.runs.catalog import create_folder
from launcher.runs.logs import writer as chunks
from launcher.runs.writer import RunWriter
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.places import Assignment, Device
from launcher.state import events as ev

PER_HOST, TOGETHER, TICK_S = 8, 100, 0.05
GIB = 1 << 30


def main(root: Path, ranks: int, lines_per_s: int, seconds: float) -> None:
    """Write the run, and say where."""
    folder = create_folder(root, time.time())
    writer = RunWriter(folder, JobSpec(Target(TargetKind.FUNCTION, "train.py", "main"), num_processes=ranks))
    for fact in launch(ranks, time.time()):
        writer.append(fact)
    print(folder, flush=True)
    begin = due = time.monotonic()
    step = said = turn = 0
    while (now := time.monotonic()) < begin + seconds:
        if now >= due:
            due, step = due + 1.0, step + 1
            for fact in second(ranks, step, time.time()):
                writer.append(fact)
        pieces = []
        while said < (now - begin) * lines_per_s:
            rank, turn, said = turn % ranks, turn + 1, said + TOGETHER
            text = b"rank %d step %d loss 2.1134 lr 1.98e-04 tok/s 489k\n" % (rank, step) * TOGETHER
            chunk = chunks.Chunk(time.time_ns(), rank, len(text), paths.STDOUT)
            pieces.append((chunk, memoryview(text)))
        if pieces:
            writer.output(pieces)
        time.sleep(TICK_S)  # the rate is the point


def launch(ranks: int, now: float) -> Iterator[ev.Event]:
    """Everything up to the first step."""
    yield ev.RunSubmitted(time=now, name="big", target="train.py:main", mode="cluster", num_processes=ranks)
    for host in range(-(-ranks // PER_HOST)):
        yield ev.AgentJoined(time=now, agent=host, host=f"gpu-{host:03}", pid=1000 + host)
    yield ev.GangPlaced(time=now, ranks=tuple(_place(rank, ranks) for rank in range(ranks)))
    for rank in range(ranks):
        yield ev.RankStarted(time=now, rank=rank, pid=2000 + rank)
        yield ev.RankEntered(time=now, rank=rank)


def second(ranks: int, step: int, now: float) -> Iterator[ev.Event]:
    """What all hosts and ranks tell in one second."""
    for host in range(-(-ranks // PER_HOST)):
        yield from second_of_host(host, range(host * PER_HOST, min((host + 1) * PER_HOST, ranks)), step, now)


def second_of_host(host: int, ranks: Iterable[int], step: int, now: float) -> Iterator[ev.Event]:
    """What one host and its ranks tell in one second."""
    yield ev.Sampled(
        time=now,
        agent=host,
        host=f"gpu-{host:03}",
        system=ev.HostSample(cpu=12.0, memory_used=61 * GIB, memory_total=512 * GIB, load1=4.0),
        devices=tuple(map(_device_sample, ranks)),
        ranks=tuple(
            ev.RankSample(rank=r, cpu=random.uniform(90, 110), processes=5, rss=4 * GIB) for r in ranks
        ),
    )
    for rank in ranks:
        metrics = {"loss": 2 + 1 / step, "tokens_per_s": 489e3, "total_steps": 5e3}
        yield ev.RankReported(time=now, rank=rank, step=step, metrics=metrics)


def _device(rank: int) -> Device:
    return Device(index=rank % PER_HOST, uuid=f"GPU-{rank:06}", name="H100", memory=80 * GIB)


def _device_sample(rank: int) -> ev.DeviceSample:
    return ev.DeviceSample(
        uuid=f"GPU-{rank:06}", index=rank % PER_HOST, util=float(random.randint(70, 100)),
        memory_total=80 * GIB, memory_used=70 * GIB, power_w=random.uniform(500, 690), power_limit_w=700.0,
        temperature_c=65.0, sm_clock_mhz=1980, memory_clock_mhz=2619, throttle=(),
    )  # fmt: skip


def _place(rank: int, ranks: int) -> Assignment:
    host = rank // PER_HOST
    return Assignment(
        rank=rank, world_size=ranks, local_rank=rank % PER_HOST, local_world_size=min(PER_HOST, ranks),
        node_rank=host, node_count=-(-ranks // PER_HOST), agent=host, host=f"gpu-{host:03}",
        devices=(_device(rank),), threads=8,
    )  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
