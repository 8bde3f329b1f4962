"""A kind of fact that only this test knows: from an agent to `events.jsonl` and into the state."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from launcher.channel.frames import Kind
from launcher.distributor import launch
from launcher.runs.paths import EVENTS
from launcher.runs.reader import FactTail
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.places import Offer
from launcher.spec.request import Request
from launcher.state import events as ev
from launcher.state.fold import folds
from launcher.state.run_state import RunState
from launcher.testing import ScriptedAgent, ScriptedBackend

fold_module = importlib.import_module("launcher.state.fold")


@pytest.fixture(autouse=True)
def _forgotten_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ev, "_kinds", dict(ev._kinds))
    monkeypatch.setattr(fold_module, "_handlers", dict(fold_module._handlers))


def test_a_new_fact_is_a_class_a_handler_and_whoever_tells_it(tmp_path: Path) -> None:
    @ev.event(from_agent=True)
    @dataclass(frozen=True, slots=True, kw_only=True)
    class FanStopped(ev.Event):
        agent: int
        host: str
        fans: tuple[int, ...] = ()

    @folds(FanStopped)
    def _fan_stopped(state: RunState, e: FanStopped) -> RunState:
        return replace(state, name=f"{e.host} lost {len(e.fans)} fans")

    def tells(voice: ScriptedAgent) -> None:
        voice.join()
        voice.expect(Kind.START)
        voice.fact(FanStopped, fans=(3, 4), agent=7, host="elsewhere")
        voice.fact(ev.RankExited, rank=0, exit_code=0)
        voice.leave()

    target = Target(TargetKind.SCRIPT, "/w/train.py")
    request = Request(JobSpec(target, num_processes=1, workdir=str(tmp_path)), environ={}, python="")
    backend = ScriptedBackend([Offer(0, "alpha", 8)], [tells], skews=[3600.0])
    job = launch(request, root=tmp_path / "runs", backend=backend)
    state = job.wait(60)

    assert [] == backend.errors
    assert ("succeeded", "alpha lost 2 fans") == (state.phase, state.name)
    (line,) = [text for text in (job.folder / EVENTS).read_text().splitlines() if "fan_stopped" in text]
    written = json.loads(line)
    assert {
        "schema": 1,
        "event": "fan_stopped",
        "run": job.id,
        "agent": 0,
        "host": "alpha",
        "fans": [3, 4],
    } == {name: value for name, value in written.items() if name not in ("time", "agent_time", "attempt")}
    assert written["agent_time"] - written["time"] == pytest.approx(3600, abs=1)
    (read,) = [fact for fact in FactTail(job.folder).poll() if isinstance(fact, FanStopped)]
    assert ((3, 4), 0) == (read.fans, read.attempt)
