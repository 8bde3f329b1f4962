"""The cause of a real run's failure: recorded, and told alike by the command, `show`, Python and history.

The GPU is the fake library's; the run, its ranks and its record are real.
"""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path

import pytest

from launcher import Distributor, RankFailed
from launcher.diagnosis import causes
from launcher.state import events as ev
from tests.commands import facts, rankdeck
from tests.fakes.nvml_build import FakeGpu, FakeNvml

pytestmark = pytest.mark.process

GIB = 1 << 30
SCRIPT = """
import concurrent.futures, os, sys, time
import torch
told = {"oom": (torch.OutOfMemoryError, "CUDA out of memory. Tried to allocate 6.00 GiB. GPU 0 has a total "
                "capacity of 79.18 GiB of which 588.19 MiB is free. Of the allocated memory 78.00 GiB is "
                "allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated."),
        "other": (ValueError, "no such batch")}
if os.environ["RANK"] == "1":
    kind, message = told[sys.argv[1]]
    ended = concurrent.futures.Future()  # a library raises it, and not the script
    ended.set_exception(kind(message))
    ended.result()
time.sleep(60)
"""
LOADER = """
import os
from torch.utils.data import DataLoader
class Items:
    def __len__(self): return 100
    def __getitem__(self, place):
        if place == 50: os.kill(os.getpid(), 9)
        return place
for batch in DataLoader(Items(), num_workers=2): pass
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def gpus(nvml: FakeNvml) -> None:
    held = {"memory": (78 * GIB, 80 * GIB), "util": 90}
    nvml.say(FakeGpu("GPU-aaaa", **held), FakeGpu("GPU-bbbb", **held))  # type: ignore[arg-type]


@pytest.mark.usefixtures("mark")
def test_a_cause_is_recorded_before_the_verdict_and_told_everywhere(
    nvml_elsewhere: FakeNvml, script: Path
) -> None:
    gpus(nvml_elsewhere)
    done = rankdeck("run", script, "-n", "2", "--gpu", "--", "oom", env=nvml_elsewhere.environment)

    assert 1 == done.returncode
    told = facts()
    assert [ev.CauseFound, ev.RunEnded] == [type(fact) for fact in told[-2:]]
    found = told[-2]
    assert isinstance(found, ev.CauseFound)
    assert ("cuda-oom", "certain", 1) == (found.id, found.certainty, found.rank)
    for shown in (done.stderr, rankdeck("show", "last").stdout):
        for sentence in (found.text, *found.evidence, *found.remedy):
            assert sentence in shown
    document = json.loads(rankdeck("show", "last", "--json").stdout)["cause"]
    assert {"id": "cuda-oom", "certainty": "certain", "rank": 1} == {
        name: document[name] for name in ("id", "certainty", "rank")
    }
    assert list(found.remedy) == document["remedy"]


@pytest.mark.usefixtures("mark")
def test_a_failure_without_a_known_cause_has_none(script: Path) -> None:
    done = rankdeck("run", script, "-n", "2", "--", "other")

    assert 1 == done.returncode
    assert [] == facts(ev.CauseFound)
    assert "cause" not in done.stderr
    assert json.loads(rankdeck("show", "last", "--json").stdout)["cause"] is None


@pytest.mark.usefixtures("mark")
def test_a_standstill_has_a_cause_that_is_told_everywhere(tmp_path: Path) -> None:
    script = tmp_path / "wait.py"
    script.write_text("import time\ndef await_rows():\n    time.sleep(600)\nawait_rows()\n")
    done = rankdeck("run", script, "-n", "2", "--no-progress-timeout", "2")

    assert 125 == done.returncode
    [found] = facts(ev.CauseFound)
    assert isinstance(found, ev.CauseFound)
    assert ("standstill", "likely", None) == (found.id, found.certainty, found.rank)
    shown = rankdeck("show", "last").stdout
    for sentence in (found.text, *found.evidence, *found.remedy):
        assert sentence in done.stderr
        assert sentence in shown
    assert "standstill" == json.loads(rankdeck("show", "last", "--json").stdout)["cause"]["id"]


@pytest.mark.usefixtures("mark")
def test_a_loader_whose_worker_is_killed(tmp_path: Path) -> None:
    """Its handler of SIGCHLD may raise while the rank reports what it found at the other end."""
    script = tmp_path / "train.py"
    script.write_text(LOADER)
    done = rankdeck("run", script, "-n", "1")

    [found] = facts(ev.CauseFound)
    assert isinstance(found, ev.CauseFound)
    assert "loader-worker-killed" == found.id
    assert found.text in done.stderr


def test_a_defect_in_a_rule_does_not_cost_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError("a rule")

    monkeypatch.setattr(causes, "RULES", (broken,))
    with pytest.raises(RankFailed, match="OutOfMemoryError"):
        Distributor(1, gpu=False).run(out_of_memory)
    notes = [fact.text for fact in facts(ev.NoteMade) if isinstance(fact, ev.NoteMade)]
    assert "rankdeck failed while it looked for the cause: ZeroDivisionError: a rule" in notes


@pytest.mark.usefixtures("mark")
def test_a_caller_in_python_is_told_the_cause() -> None:
    with pytest.raises(RankFailed, match="rank 0 ran out of GPU memory") as raised:
        Distributor(1, gpu=False).run(out_of_memory)
    assert "OutOfMemoryError" in str(raised.value)


def out_of_memory() -> None:
    import torch

    ended: Future[None] = Future()  # a library raises it, and not the caller's code
    ended.set_exception(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."))
    ended.result()
