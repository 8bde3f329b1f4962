"""What a person types to narrow the list of runs, and the orders it can have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from console.data.history.columns import ORDERS, arranged
from console.data.history.query import parse_run_filter
from launcher.errors import SpecError
from launcher.runs.status import Status
from launcher.state.run_state import Phase

NOW = 1_767_348_000.0
RUN = Status(
    id="20260101-100000-000abc", name="Llama-7b", target="/p/train.py:main", args="lr=0.1 name=x", user="ada",
    mode="cluster", state=Phase.FAILED, started=NOW - 86_400, ended=NOW - 86_340, num_processes=8,
    why="rank 3 raised OutOfMemoryError",
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", True),
        ("   ", True),
        ("llama", True),
        ("LLAMA oom", False),
        ("outofmemory", True),
        ("000abc", True),
        ("state:failed", True),
        ("state:FAI", True),
        ("state:lost,failed", True),
        ("state:ended", True),
        ("state:live", False),
        ("state:s", False),
        ("name:7b", True),
        ("name:llama*", True),
        ("name:7b*", False),
        ("target:train.py", True),
        ("user:ada", True),
        ("user:ad", False),
        ("mode:cl", True),
        ("mode:local", False),
        ("since:2d", True),
        ("since:12h", False),
        ("since:2025-12-01", True),
        ("!user:ada", False),
        ("!user:bob llama", True),
        ("!llama", False),
        ("user:", True),
        ("!", True),
        ("!state:", True),
        ("lr=0.1", True),
        ('"lr=0.1 name"', True),
        ('"lr=0.1 na', True),
        ("host:x", False),
    ],
)
def test_a_run_is_shown_if_it_passes_every_word(text: str, *, wanted: bool) -> None:
    assert wanted is parse_run_filter(text, NOW).accepts(RUN)


@pytest.mark.parametrize(
    ("text", "said"),
    [("state:x", "state: takes live, ended"), ("mode:c", "mode: takes"), ("since:2", "since: takes 90m")],
)
def test_what_means_nothing_is_said_with_what_would(text: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        parse_run_filter(text, NOW)


def run(number: int, **known: Any) -> Status:
    return replace(RUN, id=f"20260101-10000{number}-000abc", name=f"n{number}", **known)


RUNS = (
    run(0, started=NOW, ended=NOW + 5, num_processes=1),
    run(1, started=NOW - 10, ended=NOW, num_processes=4),
    run(2, started=NOW - 20, ended=None, state=Phase.RUNNING, num_processes=2),
    run(3, started=NOW - 30, ended=NOW - 29, num_processes=3, user="bob"),
)


@pytest.mark.parametrize(
    ("order", "names"),
    [("started", "2013"), ("took", "2103"), ("ranks", "2130"), ("name", "2013"), ("user", "2013")],
)
def test_the_greatest_comes_first_and_what_goes_on_above_all(order: str, names: str) -> None:
    everything = parse_run_filter("", NOW)
    shown = arranged(RUNS, everything, order, reverse=False)
    turned = arranged(RUNS, everything, order, reverse=True)

    assert names == "".join(r.name[1:] for r in shown)
    assert "2" == turned[0].name[1:]
    assert {r.name for r in turned} == {r.name for r in RUNS}


def test_every_order_knows_a_run_of_which_only_the_id_is_left() -> None:
    bare = Status(id="20260101-100009-000abc")

    for order in ORDERS:
        assert bare in arranged((*RUNS, bare), parse_run_filter("", NOW), order, reverse=False)
