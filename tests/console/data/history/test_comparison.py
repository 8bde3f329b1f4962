from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from console.data.history.comparison import (
    Comparison,
    Difference,
    Record,
    compare,
    difference_row,
    flat,
    options_of,
    section,
)
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.places import Assignment
from launcher.state import events as ev
from launcher.state.events import Checkout
from launcher.state.fold import fold_all
from launcher.state.run_state import Phase, RunState

SPEC = JobSpec(
    Target(TargetKind.FUNCTION, "/p/train.py", "f", kwargs=(("lr", "0.1"), ("note", "'a'"))),
    num_processes=2,
    workdir="/p",
    env={"API_TOKEN": "one", "A.B": "1"},
)
ORIGIN = ev.OriginFound(
    time=1.0, revision="abc", branch="main", dirty=False, root="/p", python="3.11.7",
    packages={"torch": "2.5", "numpy": "1.0"},
)  # fmt: skip


def state(
    *, metrics: dict[str, float] | None = None, origin: ev.OriginFound | None = ORIGIN, end: float = 9.0
) -> RunState:
    places = tuple(Assignment(r, 2, r, 2, 0, 1, 0, "h") for r in range(2))
    facts: list[ev.Event] = [
        ev.RunSubmitted(time=0.0, name="n", target="t", mode="local", num_processes=2, user="ada", host="h"),
        ev.GangPlaced(time=0.5, ranks=places),
        ev.RankEntered(time=2.0, rank=0),
    ]
    if origin:
        facts.append(origin)
    if metrics is not None:
        facts.append(ev.RankReported(time=3.0, rank=1, step=7, metrics=metrics))
    return fold_all([*facts, ev.RunEnded(time=end, state="succeeded", exit_code=0, why="fine")])


def record(spec: JobSpec = SPEC, **known: Any) -> Record:
    return Record(spec, state(**known), Phase.SUCCEEDED, 0, "fine")


def found(comparison: Comparison, name: str) -> dict[str, tuple[Any, ...]]:
    part = next(s for s in comparison.sections if s.name == name)
    return {d.name: (*d.values, d.delta) for d in part.differences}


def test_a_run_differs_in_nothing_from_itself() -> None:
    same = compare(record(metrics={"loss": float("nan")}), record(metrics={"loss": float("nan")}))

    assert [] == [d for s in same.sections for d in s.differences]
    assert {"options", "spec", "code", "packages", "outcome", "metrics"} == {
        s.name for s in same.sections if s.equal
    }
    assert () == same.notes


def test_what_was_asked_differs_by_dotted_paths_and_tells_no_secret() -> None:
    target = replace(SPEC.target, kwargs=(("lr", "0.2"), ("extra", "1")))
    other = replace(SPEC, target=target, num_processes=4, env={"API_TOKEN": "two", "A.B": "2"})
    asked = compare(record(), record(other))

    assert {"num_processes": (2, 4, 2), "env.A.B": ("1", "2", None)} == found(asked, "spec")
    assert {
        "lr": ("0.1", "0.2", None),
        "note": ("'a'", None, None),
        "extra": (None, "1", None),
    } == found(asked, "options")


@pytest.mark.parametrize(
    ("args", "options"),
    [
        (["--lr", "0.1", "-v", "--name=a=b"], {"--lr": "0.1", "-v": True, "--name": "a=b"}),
        (["data", "--size", "1", "2"], {"argument 1": "data", "--size": "1 2"}),
        (["--lr", "-1e-3", "--x", "1", "--x", "2"], {"--lr": "-1e-3", "--x": "1 2"}),
        (["--flag", "--", "--lr", "-1"], {"--flag": True, "argument 1": "--lr", "argument 2": "-1"}),
        (["--empty=", "lr=0.1"], {"--empty": True, "lr": "0.1"}),
        ([], {}),
    ],
)
def test_arguments_are_compared_by_the_names_of_their_options(
    args: list[str], options: dict[str, object]
) -> None:
    assert options == options_of(args)


def test_more_than_two_runs_have_a_value_each_and_no_difference_of_two() -> None:
    runs = [record(replace(SPEC, num_processes=n), metrics={"loss": 1.0 / n}) for n in (2, 4, 8)]
    three = compare(*runs)

    assert {"num_processes": (2, 4, 8, None)} == found(three, "spec")
    assert ("metrics", "loss", "0.5", "0.25", "0.125") == difference_row(
        "metrics", next(d for s in three.sections if s.name == "metrics" for d in s.differences)
    )
    assert {"lr": "0.1", "note": "'a'"} == next(s for s in three.sections if s.name == "options").same


@pytest.mark.parametrize(
    ("left", "right", "differences"),
    [
        (["--lr", "0.1"], ["--lr", "0.2"], [Difference("a[1]", ("0.1", "0.2"))]),
        (["-v", "--lr", "1"], ["--lr", "1"], [Difference("a", (["-v", "--lr", "1"], ["--lr", "1"]))]),
        (None, ["x"], [Difference("a", (None, ["x"]))]),
        (True, 1, [Difference("a", (True, 1))]),
        (float("nan"), 1.0, [Difference("a", (pytest.approx(float("nan"), nan_ok=True), 1.0))]),
        (1, 1.5, [Difference("a", (1, 1.5), 0.5)]),
        (float("inf"), 1.0, [Difference("a", (float("inf"), 1.0))]),
        ("1", "1", []),
    ],
)
def test_values_beside_each_other(left: Any, right: Any, differences: list[Difference]) -> None:
    part = section("x", {"a": left, "b": 1}, {"a": right, "b": 1})

    assert differences == list(part.differences)
    assert (1 if differences else 2) == part.equal


def test_the_code_and_its_packages_are_compared() -> None:
    other = replace(
        ORIGIN,
        revision="def",
        dirty=True,
        packages={"torch": "2.6"},
        beside=Checkout("/w", "123", "main", None),
    )
    comparison = compare(record(), record(origin=other))

    assert {
        "revision": ("abc", "def", None),
        "dirty": (False, True, None),
        "beside.root": (None, "/w", None),
        "beside.revision": (None, "123", None),
        "beside.branch": (None, "main", None),
    } == found(comparison, "code")
    assert {"torch": ("2.5", "2.6", None), "numpy": ("1.0", None, None)} == found(comparison, "packages")
    assert () == comparison.notes


def test_what_one_revision_does_not_say_is_noted() -> None:
    dirty = replace(ORIGIN, dirty=True)

    assert ["the revision is the same, but A and B had changes that were not committed"] == list(
        compare(record(origin=dirty), record(origin=dirty)).notes
    )
    assert ["the code and the packages of B are not known"] == list(
        compare(record(origin=dirty), record(origin=None)).notes
    )


def test_figures_differ_by_so_much() -> None:
    comparison = compare(
        record(metrics={"loss": 0.5, "acc": 0.5}), record(metrics={"loss": 0.25, "f1": 1.0}, end=10.5)
    )

    assert {
        "loss": (0.5, 0.25, -0.25),
        "acc": (0.5, None, None),
        "f1": (None, 1.0, None),
    } == found(comparison, "metrics")
    assert {"duration_s": (9.0, 10.5, 1.5)} == found(comparison, "outcome")


def test_nesting_is_flattened_and_what_is_empty_left_out() -> None:
    assert {"a.b.c": 1, "d": False, "e": [1], "f": 0} == flat(
        {"a": {"b": {"c": 1}, "x": {}}, "d": False, "e": [1], "f": 0, "g": "", "h": None, "i": []}
    )
