"""Failures of ranks on a real GPU: the cause that is found, what shows it, and the remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from launcher.state import events as ev
from tests.commands import facts, rankdeck, until
from tests.gpu import smi

pytestmark = smi.needs_gpu


def found() -> ev.CauseFound:
    [cause] = facts(ev.CauseFound)
    assert isinstance(cause, ev.CauseFound)
    return cause


def xids() -> list[int]:
    return [fact.xid for fact in facts(ev.XidLogged) if isinstance(fact, ev.XidLogged)]


def test_a_rank_out_of_gpu_memory(targets: Path) -> None:
    done = rankdeck("run", targets / "gpu" / "grow.py", "-n", "1", "--sample-interval", "0.25")

    assert 1 == done.returncode
    cause = found()
    assert ("cuda-oom", "certain", 0) == (cause.id, cause.certainty, cause.rank)
    asked, held, course = cause.evidence
    assert asked.startswith("it asked for 6.0 GiB, and ")
    assert asked.endswith(" of cuda:0 were free")
    assert held.startswith("its tensors held ")
    assert course.startswith("its memory went ")
    assert course.count("GiB") >= 3
    assert "see whether memory grows with every step" in cause.remedy[0]
    for shown in (done.stderr, rankdeck("show", "last").stdout):
        assert cause.text in shown
        assert cause.remedy[0] in shown
    assert "cuda-oom" == json.loads(rankdeck("show", "last", "--json").stdout)["cause"]["id"]
    assert [] == xids()
    until(lambda: not smi.used_by_process(), within=5)


@pytest.mark.parametrize(
    ("script", "rule", "xid"), [("poke.py", "cuda-illegal-access", 31), ("index.py", "cuda-assert", 43)]
)
def test_an_error_in_a_kernel(script: str, rule: str, xid: int, targets: Path) -> None:
    done = rankdeck("run", targets / "gpu" / script, "-n", "1")

    assert 1 == done.returncode
    assert [rule] == [cause.id for cause in facts(ev.CauseFound) if isinstance(cause, ev.CauseFound)], (
        done.stderr
    )
    assert "certain" == found().certainty
    assert [xid] == xids()
    assert any(f"Xid {xid}" in sentence for sentence in found().evidence)


def test_nccl_refuses_two_ranks_on_one_gpu(targets: Path) -> None:
    words = ("-n", "2", "--gpu", "--ranks-per-gpu", "2", "--", "nccl")
    done = rankdeck("run", targets / "gpu" / "together.py", *words)

    assert 1 == done.returncode
    assert "nccl-duplicate-gpu" == found().id, done.stderr


def test_a_rank_that_takes_a_gpu_which_it_does_not_have(targets: Path) -> None:
    done = rankdeck("run", targets / "gpu" / "ordinal.py", "-n", "2", "--gpu", "--ranks-per-gpu", "2")

    assert 1 == done.returncode
    assert ("cuda-no-such-device", 1) == (found().id, found().rank), done.stderr
