"""Whether cost grows in a straight line with the number of ranks. Run with ``pytest -m bench``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench.ledger import Comparison, interleave, record, wall

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]

RANKDECK = str(Path(sys.executable).with_name("rankdeck"))
PROJECT = Path(__file__).parents[2]
MANY, FEW = 1000, 125
FLAT = 1.2


def told(module: str, *words: object) -> dict[str, Any]:
    """What a program of this folder prints."""
    command = [sys.executable, "-m", f"tests.bench.{module}", *map(str, words)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=PROJECT)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def per_second(seconds: float) -> Comparison:
    """CPU seconds an agent and second, of many agents and of few."""
    late: list[float] = []

    def cost(agents: int) -> float:
        found = told("simulated_engine", agents, seconds)
        late.append(found["late_s"])
        print(agents, found)
        return float(found["agent_ms"]) / 1000

    return interleave(lambda: cost(MANY), lambda: cost(FEW), rounds=3)


def test_the_engine_takes_the_same_for_each_of_a_thousand_agents() -> None:
    result = per_second(15.0)
    what = "1,000 agents × 8 ranks, 1 Hz, 10 lines/s a rank: CPU of the engine for an agent, a second"
    record(what, "125 agents", result, bound=FLAT)

    assert result.ratio <= FLAT


def test_a_fact_of_a_large_gang_is_folded_as_fast_as_one_of_a_small_one() -> None:
    held = {ranks: told("folding", ranks, 1)["held"] / ranks for ranks in (8192, 1024)}
    result = interleave(
        lambda: float(told("folding", 8192, 20)["fact_us"]) / 1e6,
        lambda: float(told("folding", 1024, 160)["fact_us"]) / 1e6,
        rounds=7,
    )
    print(f"{held[8192]:.0f} and {held[1024]:.0f} bytes a rank")
    record("a fact of 8,192 ranks, folded", "of 1,024 ranks", result, bound=FLAT)

    assert result.ratio <= FLAT
    assert held[8192] / held[1024] <= FLAT


def test_many_ranks_on_one_host_take_no_longer_each(targets: Path, home: Path) -> None:
    def each(ranks: int) -> float:
        words = ["run", str(targets / "hello.py"), "-n", str(ranks), "--ranks", "none"]
        return wall([RANKDECK, *words]) / ranks

    result = interleave(lambda: each(256), lambda: each(64), rounds=7)
    record("256 ranks of one host that print a line: time a rank", "64 ranks", result, bound=FLAT)

    assert result.ratio <= FLAT
