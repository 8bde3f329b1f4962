"""What rankdeck takes from the ranks that it watches. Run with ``pytest -m bench``."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from launcher.runs import paths
from launcher.runs.reader import read_state
from tests.bench.ledger import interleave, record
from tests.bench.typist import Typist
from tests.commands import last, until
from tests.fakes.nvml_build import FakeGpu, FakeNvml

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1200)]

BIN = Path(sys.executable).parent
PROJECT = Path(__file__).parents[2]
TORCHRUN = [str(BIN / "torchrun"), "--standalone", "--nproc-per-node", "2"]
OURS = ("rankdeck-agent", "rankdeck-warden", "rankdeck-engine", "rankdeck-zygote", "rankdeck-store")
STEP_S, LINES = 8.0, 500_000


def cpu_times(pids: list[int]) -> dict[int, float]:
    """The CPU seconds of those processes that are alive."""
    found = {}
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            found[pid] = sum(psutil.Process(pid).cpu_times()[:2])
    return found


def of_a_core(pids: Callable[[], list[int]]) -> float:
    """The share of a core that processes take together for some seconds, after the first of a run."""
    time.sleep(STEP_S / 4)
    before, begun = cpu_times(pids()), time.perf_counter()
    time.sleep(STEP_S / 2)
    after, took = cpu_times(list(before)), time.perf_counter() - begun
    return sum(after[pid] - before[pid] for pid in after) / took


def ours_alive() -> list[int]:
    """Agents, wardens, engines, zygotes and stores, and the console."""
    found = psutil.process_iter(["name", "cmdline"])
    return [
        each.pid
        for each in found
        if each.info["name"] in OURS or "attach" in (each.info["cmdline"] or ())
        or any("launcher.engine" in word for word in each.info["cmdline"] or ())
    ]  # fmt: skip


def test_step_time_with_the_console_attached(targets: Path, home: Path) -> None:
    script = str(targets / "stepping.py")
    shares = []

    def median(folder: str) -> float:
        found = [float(path.read_text()) for path in Path(folder).iterdir()]
        assert 2 == len(found)
        return max(found)

    def ours() -> float:
        with tempfile.TemporaryDirectory() as folder:
            run = [str(BIN / "rankdeck"), "run", script, "-n", "2", "--detach", "--", folder, str(STEP_S)]
            subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
            with Typist([str(BIN / "rankdeck"), "attach", "last"]) as typist:
                typist.until("Ranks")
                drain = threading.Thread(target=typist.drain, daemon=True)
                drain.start()
                shares.append(of_a_core(ours_alive))
                while len(os.listdir(folder)) < 2:  # looked at seldom: what looks takes from the ranks, too
                    time.sleep(0.5)
            until(lambda: read_state(last()).phase.final)
            return median(folder)

    def theirs() -> float:
        with tempfile.TemporaryDirectory() as folder:
            # a rank in thirty aborts when it leaves its group, after it has written what it measured
            subprocess.run([*TORCHRUN, script, folder, str(STEP_S)], check=False)
            return median(folder)

    result = interleave(ours, theirs, rounds=7)
    record("two ranks with the console attached: a step, median", "torchrun", result, bound=1.05)
    print(f"agents, engine and console: {sorted(shares)[len(shares) // 2]:.1%} of a core")

    assert result.ratio <= 1.05


def test_sampling_of_eight_gpus(nvml_elsewhere: FakeNvml) -> None:
    pytest.importorskip("nvitop")
    gpus = [
        FakeGpu(f"GPU-{index}", util=90, memory=(40 << 30, 80 << 30), power=600_000, power_limit=700_000,
                temperature=60, sm_clock=1980, memory_clock=2619, throttle=0, compute=(), graphics=())
        for index in range(8)
    ]  # fmt: skip
    nvml_elsewhere.say(*gpus)

    def spent(who: str) -> float:
        words = [sys.executable, "-m", "tests.bench.sampling", who, "15", "8"]
        done = subprocess.run(
            words, check=True, stdout=subprocess.PIPE, env=nvml_elsewhere.environment, cwd=PROJECT
        )
        return float(done.stdout) / 1000

    result = interleave(lambda: spent("rankdeck"), lambda: spent("nvitop"), rounds=5)
    record(
        "eight GPUs and ranks at 1 Hz: CPU of the sampler, a second", "nvitop's collector", result, bound=0.5
    )

    assert result.ratio <= 0.5


def first_stamp(folder: Path) -> float:
    return min(float(path.read_text()) for path in folder.iterdir())


def test_lines_to_disk_against_plain_files(targets: Path, home: Path, tmp_path: Path) -> None:
    """From the first rank's first line until the logs are on the disk: what is between them, and no start."""
    script = str(targets / "writing.py")

    def stamps() -> Path:
        return Path(tempfile.mkdtemp(dir=tmp_path))

    def ours() -> float:
        began = stamps()
        words = ["run", script, "-n", "2", "--ranks", "none", "--env", f"STAMPS={began}", "--", "write_lines"]
        subprocess.run([str(BIN / "rankdeck"), *words], check=True, stdout=subprocess.DEVNULL)
        logs = [paths.log_file(last(), 0, rank, paths.STDOUT) for rank in (0, 1)]
        assert [100 * LINES] * 2 == [log.stat().st_size for log in logs]
        return max(log.stat().st_mtime for log in logs) - first_stamp(began)

    def theirs() -> float:
        began, folder = stamps(), stamps()
        ranks = []
        for rank in (0, 1):
            env = {**os.environ, "RANK": str(rank), "STAMPS": str(began)}
            with (folder / str(rank)).open("wb") as file:
                words = [sys.executable, "-u", script, "write_lines"]
                ranks.append(subprocess.Popen(words, stdout=file, env=env))
        assert [0, 0] == [rank.wait() for rank in ranks]
        return max(path.stat().st_mtime for path in folder.iterdir()) - first_stamp(began)

    result = interleave(ours, theirs, rounds=9)
    what = "2 × 500,000 lines of 100 bytes, first line to the last on disk"
    record(what, "plain files", result, bound=1.15)

    assert result.ratio <= 1.15
