"""Ranks that hang, compute or pause while others wait for them, as real processes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from console.cli.history import show
from console.data.run.narration import narrate
from launcher.diagnosis.silence import GAP_S
from launcher.distributor import Distributor
from launcher.job import Job
from launcher.runs.reader import FactTail
from launcher.state import events as ev
from launcher.state.run_state import RunState
from tests.commands import Gate, until

pytestmark = [pytest.mark.process, pytest.mark.frameworks, pytest.mark.usefixtures("mark")]

HUNG_S = 3.0


Start = Callable[..., Job]


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "gate")


@pytest.fixture
def start(targets: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts two ranks of which one is stuck; a rank hangs after `HUNG_S`."""
    monkeypatch.setenv("RANKDECK_HUNG_S", str(HUNG_S))
    jobs: list[Job] = []

    def start(how: str, **options: object) -> Job:
        chosen = {"gpu": False, "grace_s": 0.5, "sample_s": 0.25, **options}
        distributor = Distributor(2, **chosen)  # type: ignore[arg-type]
        jobs.append(distributor.start(str(targets / "stuck.py"), how, str(gate.path)))
        until(lambda: len(jobs[-1].state.ranks) == 2)
        return jobs[-1]

    yield start
    for job in jobs:
        job.stop(force=True)
        job.wait(30)


def silences(job: Job) -> list[ev.Event]:
    kinds = ev.RanksSilent, ev.RanksResumed, ev.RankPaused
    return [fact for fact in FactTail(job.folder).poll() if isinstance(fact, kinds)]


def test_a_rank_in_a_queue_hangs_the_one_in_all_reduce_waits_and_both_go_on(start: Start, gate: Gate) -> None:
    job = start("queue")
    until(lambda: job.state.ranks[1].hung, within=60)
    state = job.state
    assert (False, True) == (state.ranks[0].hung, state.ranks[0].waits)

    (line,) = [line for line in narrate(RunState(), state) if "HUNG" in line]
    assert re.fullmatch(
        r"HUNG \d+ s: rank 1 is in queue\.get \(stuck\.py:28\); "
        r"rank 0 waits in all_reduce \(stuck\.py:42\)",
        line,
    )
    told = CliRunner().invoke(show, [job.folder.name]).stdout
    assert re.search(r"^hangs    HUNG \d+ s: rank 1 is in queue\.get", told, re.MULTILINE)
    assert re.search(r"^1 .* HUNG ", told, re.MULTILINE)
    document = json.loads(CliRunner().invoke(show, [job.folder.name, "--json"]).stdout)
    assert [(False, True), (True, False)] == [(r["hung"], r["waits"]) for r in document["ranks"]]
    assert [1] == document["places"][0]["ranks"]

    gate.open()
    assert "succeeded" == job.wait(60).phase
    hung = [fact for fact in silences(job) if isinstance(fact, ev.RanksSilent) and fact.hung]
    assert [((1,), (0,))] == [(fact.ranks, fact.waiting) for fact in hung]


def test_a_rank_that_computes_is_not_hung_nor_is_the_one_that_waits(start: Start, gate: Gate) -> None:
    job = start("compile")
    until(lambda: job.state.ranks[0].silent_since is not None, within=60)
    since = job.state.ranks[0].silent_since or 0.0
    until(lambda: (job.state.ranks[0].sampled_at or 0.0) > since + 3 * HUNG_S, within=60)
    assert [False, False] == [rank.hung for rank in job.state.ranks]
    assert len(job.state.stacks) == 2, "the stacks were asked"
    gate.open()
    assert "succeeded" == job.wait(60).phase
    assert not any(fact.hung for fact in silences(job) if isinstance(fact, ev.RanksSilent))


def test_a_declared_pause_holds_back_the_limit_without_progress_too(start: Start, gate: Gate) -> None:
    job = start("pause", no_progress_timeout_s=HUNG_S + 5)
    until(lambda: job.state.ranks[1].paused is not None, within=60)
    paused = job.state.ranks[1].sampled_at or 0.0
    assert ["rank 1 is paused: debugging the loss"] == [
        line for line in narrate(RunState(), job.state) if "paused" in line
    ]
    until(lambda: (job.state.ranks[1].sampled_at or 0.0) > paused + HUNG_S + 5 + GAP_S / 5, within=60)
    assert [None, None] == [rank.silent_since for rank in job.state.ranks]
    assert job.state.stop is None
    gate.open()
    assert "succeeded" == job.wait(60).phase
    assert [False, True] == [fact.over for fact in silences(job) if isinstance(fact, ev.RankPaused)]
