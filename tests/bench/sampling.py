"""The CPU that a sampler of all GPUs and a rank for each takes, as milliseconds a second: ours, or nvitop's.

python -m tests.bench.sampling (rankdeck|nvitop) SECONDS GPUS
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from launcher.agent.boot import Boot
from launcher.agent.gpus import discover
from launcher.agent.telemetry import Sampling
from launcher.state.events import Event, Sampled

INTERVAL_S = 1.0


@contextmanager
def ours(ranks: list[int]) -> Iterator[None]:
    """The agent's sampler."""
    told: list[Event] = []
    sampling = Sampling(Boot(0, "", sample_s=INTERVAL_S), discover(os.environ).devices, told.append)
    sampling.start(lambda: {rank: (pid,) for rank, pid in enumerate(ranks)})
    yield
    sampling.stop()
    sampling.deliver()
    samples = [fact for fact in told if isinstance(fact, Sampled)]
    assert samples
    utils = [device.util for device in samples[-1].devices]
    assert len(ranks) == len(utils)
    assert None not in utils
    if "FAKE_NVML" in os.environ:
        assert {90.0} == set(utils)


@contextmanager
def theirs(ranks: list[int]) -> Iterator[None]:
    """nvitop's collector."""
    from nvitop import Device, ResourceMetricCollector

    assert len(Device.all()) == len(ranks)
    collector = ResourceMetricCollector(root_pids=ranks, interval=INTERVAL_S)
    with collector("bench"):
        yield
        assert any("gpu_utilization" in name for name in collector.collect())


def main(who: str, seconds: float, gpus: int) -> None:
    """Measure after the first sample, which opens what the others use."""
    ranks = [subprocess.Popen(["sleep", "1000"]) for _ in range(gpus)]
    with {"rankdeck": ours, "nvitop": theirs}[who]([rank.pid for rank in ranks]):
        time.sleep(3 * INTERVAL_S)
        before = time.process_time()
        time.sleep(seconds)
        used = time.process_time() - before
    for rank in ranks:
        rank.kill()
        rank.wait()
    print(used * 1000 / seconds)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
