"""Ranks on a real GPU: what they see of it, who is refused, what is shown of them, and that they train."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from launcher.runs.reader import read_state
from launcher.state.ranks import Rank
from tests.commands import last, rankdeck, until
from tests.gpu import smi
from tests.trainings import FOLDER

pytestmark = smi.needs_gpu


def result() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(rankdeck("result", "last", "--json").stdout)["value"]
    return found


def test_one_rank_has_the_gpu_by_its_uuid(targets: Path) -> None:
    done = rankdeck("run", targets / "gpu" / "together.py", "-n", "1", "--gpu", "--", "nccl")

    assert 0 == done.returncode, done.stderr
    assert {"visible": smi.query("uuid")[0], "devices": 1, "sum": 1.0} == result()


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_more_ranks_than_gpus_are_refused(ranks: int, targets: Path) -> None:
    done = rankdeck("run", targets / "gpu" / "together.py", "-n", str(ranks), "--gpu", "--", "gloo")

    assert 2 == done.returncode
    assert f"--gpu needs {ranks} GPUs, one a rank, and there is 1" in done.stderr
    assert f"--ranks-per-gpu {ranks}" in done.stderr


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_ranks_that_share_the_gpu_meet_with_gloo(ranks: int, targets: Path) -> None:
    words = ("-n", str(ranks), "--gpu", "--ranks-per-gpu", str(ranks), "--", "gloo")
    done = rankdeck("run", targets / "gpu" / "together.py", *words)

    assert 0 == done.returncode, done.stderr
    seen = {"visible": smi.query("uuid")[0], "devices": 1, "sum": ranks * (ranks + 1) / 2}
    values = [json.loads(rankdeck("result", "last", "-r", str(r), "--json").stdout) for r in range(ranks)]
    assert [seen] * ranks == [each["value"] for each in values]


def test_without_a_gpu_ranks_see_none(targets: Path) -> None:
    done = rankdeck("run", targets / "gpu" / "hold.py", "-n", "1", "--no-gpu", "--", "1")

    assert 1 == done.returncode
    assert "ZeroDivisionError" in done.stderr or "No CUDA GPUs are available" in done.stderr


def sampled() -> list[Rank]:
    return [rank for rank in read_state(last()).ranks if rank.sample is not None]


def test_the_memory_of_each_of_four_ranks_is_as_nvidia_smi_says(targets: Path) -> None:
    sizes = ("1024", "2048", "3072", "4096")
    words = ("-n", "4", "--gpu", "--ranks-per-gpu", "4", "--detach", "--", *sizes)
    assert 0 == rankdeck("run", targets / "gpu" / "hold.py", *words).returncode

    def held() -> list[int]:
        return [(rank.sample.device_memory or 0) // smi.MIB for rank in sampled() if rank.sample]

    until(lambda: len(held()) == 4 and all(h > int(s) for h, s in zip(held(), sizes, strict=True)))
    theirs = smi.used_by_process()
    assert [theirs[rank.pid or 0] for rank in sampled()] == held()
    assert 0 == rankdeck("stop", "last").returncode
    until(lambda: not smi.used_by_process(), within=5)


def test_a_killed_ranks_memory_is_free_again(targets: Path) -> None:
    before = smi.number("memory.used")
    assert 0 == rankdeck("run", targets / "gpu" / "hold.py", "-n", "1", "--detach", "--", "20480").returncode
    until(lambda: smi.number("memory.used") > before + 20480)
    [pid] = smi.used_by_process()

    os.kill(pid, signal.SIGKILL)
    until(lambda: smi.number("memory.used") < before + 64, within=5)
    until(lambda: read_state(last()).phase.final)
    assert 137 == read_state(last()).exit_code


@pytest.mark.parametrize("example", ["digits_ddp", "digits_fsdp"])
def test_an_example_trains_with_nccl(example: str) -> None:
    done = rankdeck("run", FOLDER / f"{example}.py", "-n", "1", "--gpu", "--", "--epochs", "10")

    assert 0 == done.returncode, done.stderr
    assert result()["test_accuracy"] > 0.95
    assert "on cuda:0" in done.stderr + done.stdout


def test_imagenette_trains() -> None:
    words = ("--epochs", "2", "--images", "640", "--image-size", "64", "--batch-size", "32", "--amp")
    done = rankdeck("run", FOLDER / "imagenette.py", "-n", "1", "--gpu", "--", *words)

    assert 0 == done.returncode, done.stderr
    assert result()["images_per_s"] > 100
    assert "on cuda:0" in done.stderr + done.stdout
