"""Who failed first is blamed, not who was gone first: ranks of torch, in the middle of their collectives.

CI tries each case once; ``RANKDECK_SOAK=100`` tries each so often.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from launcher.distributor import Distributor
from launcher.state.outcome_rules import left_before
from launcher.state.run_state import Phase, RunState

TRIES = int(os.environ.get("RANKDECK_SOAK", "1"))

pytestmark = [pytest.mark.process, pytest.mark.frameworks, pytest.mark.timeout(120 * TRIES)]

GANGS = [(2, "all_reduce"), (3, "all_reduce"), (2, "backward")]


def ended(targets: Path, case: str, ranks: int, collective: str) -> RunState:
    job = Distributor(ranks, gpu=False, timeout_s=60).start(str(targets / "collective.py"), case, collective)
    state = job.wait(90)
    assert state.phase is Phase.FAILED, state.why
    return state


@pytest.mark.parametrize(("ranks", "collective"), GANGS)
def test_a_rank_that_is_killed(targets: Path, ranks: int, collective: str) -> None:
    for _ in range(TRIES):
        state = ended(targets, "killed", ranks, collective)

        assert (ranks - 1, 137) == (state.blamed, state.exit_code), state.why


@pytest.mark.parametrize(("ranks", "collective"), GANGS)
def test_a_rank_that_raises_and_leaves_late(targets: Path, ranks: int, collective: str) -> None:
    for _ in range(TRIES):
        state = ended(targets, "leaves_late", ranks, collective)

        assert (ranks - 1, 1) == (state.blamed, state.exit_code), state.why
        raised = state.ranks[ranks - 1].raised
        assert raised is not None
        assert raised.traceback.rstrip().endswith(f"ValueError: the cause of rank {ranks - 1}")


@pytest.mark.parametrize(("ranks", "collective"), GANGS)
def test_two_ranks_that_raise_at_once(targets: Path, ranks: int, collective: str) -> None:
    for _ in range(TRIES):
        state = ended(targets, "two_at_once", ranks, collective)

        assert state.blamed in (ranks - 2, ranks - 1), state.why
        assert 1 == state.exit_code
        raised = state.ranks[state.blamed].raised
        assert raised is not None
        assert raised.traceback.rstrip().endswith(f"ValueError: the cause of rank {state.blamed}")


@pytest.mark.parametrize(("ranks", "collective"), GANGS)
def test_a_rank_that_has_left_early_is_named(targets: Path, ranks: int, collective: str) -> None:
    for _ in range(TRIES):
        state = ended(targets, "left_early", ranks, collective)

        assert state.blamed is not None
        assert state.blamed > 0, state.why
        said = f"rank 0 had left with 0 before rank {state.blamed} failed in {collective}"
        assert said == left_before(state, state.ranks[state.blamed])
        assert state.why.startswith(said)
