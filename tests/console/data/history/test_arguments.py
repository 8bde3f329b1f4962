"""The arguments in which runs of one target differ, and the orders and columns of the list of runs."""

from __future__ import annotations

import time
from typing import Any

import pytest

from console.data.history.arguments import MOST_WIDTH, NOTHING, Differences, options_of
from console.data.history.columns import ORDERS, USUAL, arranged, name_of, run_columns, run_columns_problem
from console.data.history.query import parse_run_filter
from launcher.errors import SpecError
from launcher.runs.status import Status
from launcher.state.run_state import Phase


def run(number: int = 0, args: str = "", target: str = "/p/train_lm.py", **known: Any) -> Status:
    return Status(id=f"20260101-1000{number:02}-000abc", target=target, args=args, **known)


@pytest.mark.parametrize(
    ("args", "options"),
    [
        ("", {}),
        ("--lr 0.1 --depth=4", {"lr": "0.1", "depth": "4"}),
        ("lr=0.1 model.size=7b +x=1", {"lr": "0.1", "model.size": "7b", "+x": "1"}),
        ("--amp --lr -0.1 -n 3", {"amp": "", "lr": "-0.1", "n": "3"}),
        ("data.csv other.csv --fast", {"1": "data.csv", "2": "other.csv", "fast": ""}),
        ("--tag a --tag b", {"tag": "a,b"}),
        ("name='a b' --text 'c d'", {"name": "a b", "text": "c d"}),
        ("--open 'quotation", {"open": "'quotation"}),
        ("- -- - --lr", {"1": "-", "2": "-", "3": "--lr"}),
        ("--gpus 0 1 --amp", {"gpus": "0 1", "amp": ""}),
        ("=x ==", {"1": "=x", "2": "=="}),
    ],
)
def test_arguments_are_options_with_values(args: str, options: dict[str, str]) -> None:
    assert options == options_of(args)


def test_runs_of_one_target_show_what_differs() -> None:
    runs = [
        run(1, "--lr 0.1 --data /c4 --amp"),
        run(2, "--lr 0.1 --data /c4 --depth 8"),
        run(3, "--data /c4"),
        run(4, "--lr 0.3", target="other.py"),
        run(5, "--lr 0.3", target="other.py"),
        run(6, target="third.py"),
    ]
    differing = Differences(runs)

    assert ["lr=0.1 amp", "lr=0.1 depth=8", NOTHING, "lr=0.3", "lr=0.3", ""] == [
        differing.text(each) for each in runs
    ]
    assert 14 == differing.width
    assert 0 == Differences([run()]).width


def test_twenty_runs_of_one_script_can_be_told_apart() -> None:
    runs = [run(n, f"--data /d --lr {n % 4} --depth {n // 4}") for n in range(20)]
    differing = Differences(runs)
    assert 20 == len({differing.text(each) for each in runs})


def test_hostile_arguments_take_no_long_time_and_no_room() -> None:
    runs = [run(n % 60, " ".join(f"--o{n}x{i} {'v' * 200}" for i in range(60))) for n in range(3000)]
    begun = time.thread_time()
    differing = Differences(runs)
    text = differing.text(runs[0])

    assert time.thread_time() - begun < 10.0, "no square of it"
    assert len(text) <= 400
    assert differing.width == MOST_WIDTH


def test_a_function_is_named_with_its_file() -> None:
    assert "digits.py:fit" == name_of(run(target="/p/digits.py:fit", name="fit"))
    assert "sweep-3" == name_of(run(target="/p/digits.py:fit", name="sweep-3"))
    assert "train_lm.py" == name_of(run(name="train_lm.py"))
    assert "20260101-100000-000abc" == name_of(run())


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("lr:0.1", True),
        ("lr:1e-1", True),
        ("lr:0.2", False),
        ("!lr:0.2", True),
        ("amp:", True),
        ("opt:adam", True),
        ("lr<0.2", True),
        ("lr>0.2", False),
        ("loss<2", True),
        ("loss>2", False),
        ("gone>2", False),
        ("took>1m", True),
        ("took>2m", False),
        ("ranks>=8 exit<1", True),
        ("s3://x", True),
    ],
)
def test_runs_are_filtered_by_arguments_and_figures(text: str, *, wanted: bool) -> None:
    one = run(
        args="--lr 0.1 --opt adam s3://x/y", metrics={"loss": 1.5}, num_processes=8, exit_code=0, started=1.0,
        ended=99.0, name="n", state=Phase.SUCCEEDED,
    )  # fmt: skip
    assert wanted is parse_run_filter(text, 0.0).accepts(one)


def test_a_comparison_with_a_word_is_told() -> None:
    with pytest.raises(SpecError, match="loss<75"):
        parse_run_filter("loss<much", 0.0)


RUNS = (
    run(1, "lr=0.003", metrics={"loss": 2.0}, exit_code=1, mode="local"),
    run(2, "lr=1e-4", metrics={"loss": float("nan")}, mode="cluster"),
    run(3, "lr=0.1", metrics={"accuracy": 0.5}, exit_code=0, mode="connect"),
)


@pytest.mark.parametrize(
    ("order", "runs"), [("args", "213"), ("curve", "312"), ("exit", "132"), ("mode", "231"), ("loss", "123")]
)
def test_every_column_sorts(order: str, runs: str) -> None:
    shown = arranged(RUNS, parse_run_filter("", 0.0), order, reverse=False)
    assert runs == "".join(each.id[14] for each in shown)


def test_columns_of_runs_are_checked() -> None:
    assert run_columns_problem(["name", "args", "who", "grad_norm"]) is None
    assert "did you mean started?" in (run_columns_problem(["start"]) or "")
    assert ["loss", "name"] == [c.name for c in run_columns(["state", "loss", "name"])]
    assert list(USUAL) == [c.name for c in run_columns()]
    assert set(USUAL) < {*ORDERS}
