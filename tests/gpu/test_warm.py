"""A warm start with CUDA: ranks are forked from a process that has imported torch and never used the GPU."""

from __future__ import annotations

from pathlib import Path

import psutil

from launcher.state import events as ev
from tests.commands import facts, rankdeck, until
from tests.gpu import smi

pytestmark = smi.needs_gpu


def zygotes() -> list[psutil.Process]:
    found = psutil.process_iter(["name"])
    return [each for each in found if each.info["name"] == "rankdeck-zygote"]


def test_a_forked_rank_uses_the_gpu_and_what_it_was_forked_from_never_does(
    targets: Path, tmp_path: Path
) -> None:
    script = targets / "gpu" / "kernel.py"
    for number in range(3):
        done = rankdeck("run", script, "-n", "1", "--", tmp_path / str(number))
        assert 0 == done.returncode, done.stderr
        assert not smi.used_by_process()
        until(lambda: bool(zygotes()))

    maps = [Path(f"/proc/{each.pid}/maps").read_text() for each in zygotes()]
    assert not any("/dev/nvidia" in each for each in maps)
    began = next(fact.time for fact in facts(ev.RunSubmitted))
    entered = next(fact.time for fact in facts(ev.RankEntered))
    assert entered - began < 1.0  # an interpreter that imports torch takes longer


def test_a_fresh_rank_has_the_same_result(targets: Path, tmp_path: Path) -> None:
    script = targets / "gpu" / "together.py"
    values = []
    for more in ((), ("--fresh",)):
        assert 0 == rankdeck("run", script, "-n", "1", *more, "--", "nccl").returncode
        values.append(rankdeck("result", "last", "--json").stdout)
    assert values[0] == values[1]
