"""How long launching takes, beside what people use today. Run with ``pytest -m bench``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from launcher.distributor import Distributor
from launcher.runs import paths
from tests.bench.ledger import interleave, record, wall
from tests.engines import end_all, pids

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1200)]

BIN = Path(sys.executable).parent
SETTLED, LAUNCHES = 50, 1000
TORCHRUN = [str(BIN / "torchrun"), "--standalone", "--nproc-per-node", "2"]


def test_version_against_an_empty_interpreter() -> None:
    result = interleave(
        lambda: wall([str(BIN / "rankdeck"), "--version"]),
        lambda: wall([sys.executable, "-c", "pass"]),
        rounds=25,
    )
    record("`rankdeck --version`", "`python -c pass`", result, bound=8)

    assert result.ratio <= 8


def test_two_trivial_ranks_against_torchrun(targets: Path) -> None:
    script = str(targets / "hello.py")
    result = interleave(
        lambda: wall([str(BIN / "rankdeck"), "run", script, "-n", "2"]),
        lambda: wall([str(BIN / "torchrun"), "--standalone", "--nproc-per-node", "2", script]),
        rounds=7,
    )
    record("two ranks that print a line, command start to exit", "torchrun", result, bound=0.8)

    assert result.ratio <= 0.8


def test_two_trivial_ranks_and_the_engine_against_torchrun(targets: Path) -> None:
    """The first run of a day: its engine has to be started too."""
    script = str(targets / "hello.py")

    def ours() -> float:
        end_all()
        return wall([str(BIN / "rankdeck"), "run", script, "-n", "2"])

    result = interleave(
        ours,
        lambda: wall([str(BIN / "torchrun"), "--standalone", "--nproc-per-node", "2", script]),
        rounds=7,
    )
    record("the same, without an engine yet", "torchrun", result, bound=0.8)

    assert result.ratio <= 0.8


def stamped(text: str, begin: float) -> float:
    """Seconds from `begin` until the last rank was past its first all-reduce."""
    return max(float(found) for found in re.findall(r"past ([\d.]+)", text)) - begin


def to_first_all_reduce(command: list[str]) -> float:
    """The same for a command, from its start."""
    begin = time.time()
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return stamped(done.stdout, begin)


def test_first_all_reduce_warm_against_torchrun(targets: Path) -> None:
    script = str(targets / "stamping.py")
    result = interleave(
        lambda: to_first_all_reduce([str(BIN / "rankdeck"), "run", script, "-n", "2"]),
        lambda: to_first_all_reduce([*TORCHRUN, script]),
        rounds=7,
    )
    record("warm: command start to the last rank past its first all-reduce", "torchrun", result, bound=0.15)

    assert result.ratio <= 0.15


def test_first_all_reduce_cold_against_torchrun(targets: Path) -> None:
    """The first run of a day: torch is imported once for the engine and all ranks."""
    script = str(targets / "stamping.py")

    def ours() -> float:
        end_all()
        return to_first_all_reduce([str(BIN / "rankdeck"), "run", script, "-n", "2"])

    result = interleave(ours, lambda: to_first_all_reduce([*TORCHRUN, script]), rounds=7)
    what = "cold: command start to the last rank past its first all-reduce"
    record(what, "torchrun", result, bound=0.45)

    assert result.ratio <= 0.45


def test_first_all_reduce_of_a_job_against_torchrun(targets: Path) -> None:
    script = str(targets / "stamping.py")

    def ours() -> float:
        begin = time.time()
        job = Distributor(2, gpu=False).start(script)
        assert 0 == job.wait(60).exit_code
        time.sleep(0.5)  # as a person would, before the next one
        outputs = [paths.log_file(job.folder, 0, rank, paths.STDOUT) for rank in (0, 1)]
        return stamped("".join(output.read_text() for output in outputs), begin)

    result = interleave(ours, lambda: to_first_all_reduce([*TORCHRUN, script]), rounds=7)
    record(
        "warm: start of a `Job` to the last rank past its first all-reduce", "torchrun", result, bound=0.03
    )

    assert result.ratio <= 0.03


def test_lines_to_disk_against_torchrun(targets: Path, tmp_path: Path) -> None:
    script, what = str(targets / "writing.py"), "write_lines"
    torchrun = [str(BIN / "torchrun"), "--standalone", "--nproc-per-node", "2", "--redirects", "3"]
    result = interleave(
        lambda: wall([str(BIN / "rankdeck"), "run", script, "-n", "2", "--ranks", "none", "--", what]),
        lambda: wall([*torchrun, "--log-dir", str(tmp_path / "logs"), script, what], env=dict(os.environ)),
        rounds=5,
    )
    record("2 × 500,000 lines of 100 bytes to disk", "torchrun --redirects 3", result, bound=1.3)

    assert result.ratio <= 1.3


def test_a_thousand_warm_launches_leave_nothing(targets: Path, home: Path) -> None:
    """Through one engine: no process, no descriptor, and no growth of the engine and its zygote."""
    script = str(targets / "hello.py")

    def launch(times: int) -> None:
        for _ in range(times):
            subprocess.run(
                [str(BIN / "rankdeck"), "run", script, "-n", "2"], check=True, stdout=subprocess.DEVNULL
            )

    def alive() -> list[psutil.Process]:
        engine = psutil.Process(pids()[0])
        return [engine, *engine.children(recursive=True)]

    def shape() -> list[tuple[str, int]]:
        return sorted((each.name(), each.num_fds()) for each in alive())

    def resident() -> int:
        return sum(int(each.memory_full_info().uss) for each in alive())

    def settled() -> list[tuple[str, int]]:
        """Its shape once it has been the same for a second, with an agent that waits under its warden."""
        seen = [shape()]
        while len(seen) < 3 or seen[-3:] != [seen[-1]] * 3 or spares(seen[-1]) != 2:
            time.sleep(0.5)
            seen.append(shape())
        return seen[-1]

    def spares(found: list[tuple[str, int]]) -> int:
        return sum(name == "rankdeck-spare" for name, _ in found)

    launch(SETTLED)
    before, size = settled(), resident()
    launch(LAUNCHES)
    assert before == settled()
    growth = resident() - size
    print(f"{LAUNCHES} launches: {growth / 1e6:+.1f} MB in {[name for name, _ in before]}")

    assert growth <= 10e6
