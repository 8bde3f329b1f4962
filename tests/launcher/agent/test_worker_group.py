"""What an agent makes of what its ranks tell of themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.distributor import Distributor
from launcher.state import events as ev

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("mark")]

LIAR = """
import time
from launcher.agent import rank_pipe, report
line = report._reporter._line
for tag, fields in [
    ("run_ended", {"time": time.time(), "state": "failed", "exit_code": 9, "why": "so"}),
    ("rank_exited", {"time": time.time(), "exit_code": 9}),
    ("rank_raised", {"time": time.time(), "kind": 7}),
    ("rank_reported", {"time": "noon"}),
    ("rank_levitated", {"time": time.time()}),
    ("rank_reported", {"time": time.time(), "rank": 1, "step": 5}),
]:
    line.send_fact(tag, fields)
line.send(rank_pipe.FACT, b'{"event"')
line.send(b"?", b"{}")
"""


def test_a_rank_tells_nothing_but_what_ranks_may_and_only_of_itself(tmp_path: Path) -> None:
    (tmp_path / "liar.py").write_text(LIAR)
    job = Distributor(1).start(str(tmp_path / "liar.py"))
    facts = list(job.events())

    state = job.wait(60)
    assert ("succeeded", 5) == (state.phase, state.ranks[0].step)
    assert [(0, 0)] == [(fact.rank, fact.exit_code) for fact in facts if isinstance(fact, ev.RankExited)]
    assert not [fact for fact in facts if isinstance(fact, (ev.RankRaised, ev.Unrecognised))]
