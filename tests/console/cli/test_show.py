"""`ps`, `show` and `result`, for people and for programs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from console.cli.output import _standing_block
from console.data.run.narration import value_text
from console.formatting import one_line, table, time_between
from console.sanitize import printable
from launcher.runs.reader import read_state
from launcher.state import events as ev
from tests import commands
from tests.commands import Gate, rankdeck, until
from tests.console.scripted import SPARK, Scripted
from tests.targets import lookalikes

PS_KEYS = ["id", "name", "state", "exit_code", "mode", "num_processes", "started", "ended", "why"]
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def as_json(*words: str | Path) -> Any:
    done = rankdeck(*words, "--json")
    assert (0, "") == (done.returncode, done.stderr)
    return json.loads(done.stdout)


@pytest.mark.process
@pytest.mark.usefixtures("mark")
def test_runs_are_listed_newest_first_with_what_became_of_them(targets: Path, tmp_path: Path) -> None:
    assert [] == as_json("ps")
    assert "no runs yet" in rankdeck("ps").stderr
    gate = Gate(tmp_path / "gate")
    rankdeck("run", targets / "functions.py:nothing", "--name", "first")
    rankdeck("run", targets / "failing.py", "-n", "2", "--grace", "0.2", "--", "exit_7")
    third = rankdeck("run", targets / "waiting.py", "--detach", "--", "gate", gate.path).stdout.strip()
    until(lambda: as_json("ps")[0]["state"] == "running")
    listed = as_json("ps")

    assert [PS_KEYS] * 3 == [list(run)[: len(PS_KEYS)] for run in listed]
    assert ["waiting.py", "failing.py", "first"] == [run["name"] for run in listed]
    assert ["running", "failed", "succeeded"] == [run["state"] for run in listed]
    assert [None, 7, 0] == [run["exit_code"] for run in listed]
    assert [1, 2, 1] == [run["num_processes"] for run in listed]
    assert "exited with code 7" in listed[1]["why"]
    assert listed[0]["ended"] is None
    assert listed[2]["started"] < listed[2]["ended"] < listed[1]["started"]
    rows = rankdeck("ps").stdout.splitlines()
    assert [third, "waiting.py", "1", "local", "running"] == rows[1].split()[:5]
    gate.open()
    rankdeck("logs", "-f", third)


@pytest.mark.process
@pytest.mark.usefixtures("mark")
def test_a_run_of_ray_is_shown_with_its_nodes_and_its_dashboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookalikes.write(tmp_path / "site")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.setenv("RAY_NODES", str(tmp_path / "nodes"))
    (tmp_path / "driver.py").write_text("import ray\nray.init()\n")
    done = rankdeck("run", tmp_path / "driver.py", "-n", "2")
    text, shown = rankdeck("show", "last").stdout, as_json("show", "last")

    assert 0 == done.returncode, done.stderr
    line = r"^service  Ray's head node on \S+ and 1 more node, http://127.0.0.2:\d+$"
    assert re.search(line, text, re.MULTILINE)
    assert "group    2 nodes in one cluster\n" in text
    assert re.search(r"^RANK +ROLE ", text, re.MULTILINE)
    assert ["head", "node"] == [rank["role"] for rank in shown["ranks"]]
    assert ["Ray's head node", "Ray's node"] == [each["name"] for each in shown["services"]]


@pytest.mark.process
@pytest.mark.usefixtures("mark")
def test_a_failed_run_is_shown_with_its_ranks_and_its_first_failure(targets: Path) -> None:
    words = ("--env", "API_TOKEN=hunter2", "--grace", "0.2")
    rankdeck("run", targets / "failing.py", "-n", "2", *words, "--", "wrong_value")
    shown = as_json("show", "last")
    first = shown["first_failure"]

    assert ("failed", 1) == (shown["state"], shown["exit_code"])
    assert [0, 1] == [rank["rank"] for rank in shown["ranks"]]
    assert ["stopped", "failed"] == [rank["state"] for rank in shown["ranks"]]
    assert ["SIGTERM", None] == [rank["signal"] for rank in shown["ranks"]]
    assert all(rank["pid"] > 0 and rank["host"] for rank in shown["ranks"])
    assert {"host", "pid", "devices", "exit_code", "signal"} <= set(shown["ranks"][0])
    assert (1, "ValueError", "bad learning rate -1.0") == (
        first["rank"],
        first["exception"],
        first["message"],
    )
    assert "in wrong_value" in first["traceback"]
    assert {"API_TOKEN": "***"} == shown["spec"]["env"]
    assert [] == shown["cleanup"][0]["survivors"]
    for text in (rankdeck("show", "last").stdout, (commands.last() / "spec.json").read_text()):
        assert "hunter2" not in text
    assert "ValueError: bad learning rate" in rankdeck("show", "last").stdout


@pytest.mark.process
@pytest.mark.usefixtures("mark")
def test_a_result_is_printed_again_for_each_rank(targets: Path) -> None:
    done = rankdeck("run", targets / "functions.py:rank", "-n", "2")
    identity = commands.last().name

    assert "0" == done.stdout.splitlines()[-1]
    assert {"rank": 0, "type": "int", "value": 0} == as_json("result", identity)
    assert {"rank": 1, "type": "int", "value": 1} == as_json("result", identity[:18], "-r", "1")
    assert "1\n" == rankdeck("result", "last", "-r", "1").stdout
    missing = rankdeck("result", "last", "-r", "2")
    assert (2, "") == (missing.returncode, missing.stdout)
    assert "rank 2 of run" in missing.stderr


@pytest.mark.process
@pytest.mark.usefixtures("mark")
@pytest.mark.parametrize(
    ("name", "plain", "printed"),
    [
        ("odd_text", True, '"\\udcff \\u009b31m \\u007f \\u202e é"'),
        ("loud", False, "red  ("),
        ("nothing", True, "null"),
    ],
)
def test_a_value_cannot_control_the_terminal(targets: Path, name: str, plain: bool, printed: str) -> None:
    from tests.targets import functions

    for done in (rankdeck("run", targets / f"functions.py:{name}"), rankdeck("result", "last")):
        assert 0 == done.returncode
        assert done.stdout.splitlines()[-1].startswith(printed)
        assert [] == CONTROLS.findall(done.stdout)
    if plain:
        expected = None if name == "nothing" else getattr(functions, name)()
        assert expected == as_json("result", "last")["value"]
        assert expected == json.loads(rankdeck("result", "last").stdout)


@pytest.mark.process
@pytest.mark.usefixtures("mark")
def test_a_failures_words_cannot_control_the_terminal(targets: Path) -> None:
    name = "\x1b[31mname\x07"
    done = [rankdeck("run", targets / "failing.py", "--name", name, "--", "control_sequences")]
    done += [rankdeck(*words) for words in (("ps",), ("show", "last"), ("logs", "last"))]

    assert [1, 0, 0, 0] == [each.returncode for each in done]
    for each in done:
        assert [] == CONTROLS.findall(each.stdout + each.stderr)
    assert "cleared" in done[0].stderr


def test_durations_are_short() -> None:
    assert ["", "0ms", "59s", "1m00s", "59m59s", "1h00m", "27h46m"] == [
        time_between(0.0, end) for end in (None, -1.0, 59.94, 60.0, 3599.0, 3600.0, 100_000.0)
    ]


def test_text_is_shortened_to_one_line() -> None:
    assert "a b c" == one_line("a\n  b\tc", 60)
    assert "abc…" == one_line("abcdef", 4)


def test_columns_are_as_wide_as_what_is_printed() -> None:
    assert "A       B\nre d    1\nlonger  2" == table(
        ("A", "B"), [("\x1b[31mre\nd\x1b[0m", "1"), ("longer", "2")]
    )


def test_printable_text_keeps_its_lines() -> None:
    assert "a\n  b\n" == printable("a\n\x1b[2J  b\n")
    assert "?" == printable("\udcff")


def test_values_for_people_are_valid_json() -> None:
    value = {"text": "\x7f\x9b\u2028\ud800 é\n", "list": [1, None, True]}

    assert value == json.loads(value_text({"json": True, "value": value}))


@pytest.mark.process
@pytest.mark.usefixtures("mark")
def test_a_run_is_shown_with_the_steps_that_its_ranks_reported(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import launcher\nfor step in range(5):\n    launcher.report(step=step, loss=1.5)\n")
    rankdeck("run", script, "-n", "2")

    assert [(4, {"loss": 1.5})] * 2 == [(r["step"], r["metrics"]) for r in as_json("show", "last")["ranks"]]
    assert " 4\n" in rankdeck("show", "last").stdout


def test_restarts_spark_and_the_way_of_the_output_are_shown(home: Path) -> None:
    run = Scripted(home / "runs", ranks=2, hosts=("node1", "node2"))
    run.add(SPARK, ev.DeliveryChosen(time=1.5, way="spool", reason="the executors cannot reach this machine"))
    run.place(2.0)
    run.fail(4.0, 1)
    run.restart(6.0, 1, "rank 1 on node2 raised \x1b[31mred")
    run.place(6.0, 1)
    run.restart(8.0, 2, "executor 1 was lost", in_place=False)
    run.writer.close()

    shown = rankdeck("show", "last").stdout
    assert "spark    app-20260101100000-0042 on spark://head:7077, Spark 4.0.1  http://head:4040\n" in shown
    assert "output   spool: the executors cannot reach this machine\n" in shown
    assert "attempt  1 in place, because rank 1 on node2 raised red\n" in shown
    assert "attempt  2 with new agents, because executor 1 was lost\n" in shown
    document = as_json("show", "last")
    assert (2, [1, 2], [True, False]) == (
        document["attempt"],
        [r["attempt"] for r in document["restarts"]],
        [r["in_place"] for r in document["restarts"]],
    )
    assert "app-20260101100000-0042" == document["spark"]["application"]
    assert "spool" == document["delivery"]["way"]
    assert "cluster" == as_json("ps")[0]["mode"]


IDLE = [
    ev.RanksSilent(time=60.0, ranks=(0, 1), since=30.0),
    *(ev.StacksTaken(time=90.0, rank=r, text='  File "/w/t.py", line 5 in compiles') for r in (0, 1)),
]
LIMIT = ev.StopRequested(time=3600.0, by="limit", reason="the time limit of 3600 s", exit_code=124)


@pytest.mark.parametrize("goes_on", [True, False])
def test_where_ranks_stood_is_shown_of_the_end_and_not_of_an_idle_spell_before(
    home: Path, goes_on: bool
) -> None:
    run = Scripted(home / "runs", ranks=2, hosts=("node1",))
    run.place(2.0)
    run.add(*IDLE, *([ev.RanksResumed(time=99.0, ranks=(0, 1))] if goes_on else []), LIMIT)
    run.add(*(ev.RankExited(time=3601.0, rank=r, exit_code=143, signal="SIGTERM") for r in (0, 1)))
    run.add(ev.RunEnded(time=3602.0, state="failed", exit_code=124, why=LIMIT.reason))
    run.writer.close()

    shown, old = rankdeck("show", "last").stdout, rankdeck("stacks", "last")
    assert goes_on != ("stood    ranks 0-1 are in compiles (t.py:5)\n" in shown)
    assert ([] if goes_on else [[0, 1]]) == [place["ranks"] for place in as_json("show", "last")["places"]]
    assert "compiles" in old.stdout
    assert goes_on == ("these stacks are 3512 s older than the end" in old.stderr)
    assert goes_on == ("compiles" not in _standing_block(read_state(run.folder)))


@pytest.mark.process
@pytest.mark.usefixtures("mark")
def test_a_run_on_this_machine_has_no_spark_to_show(targets: Path) -> None:
    rankdeck("run", targets / "hello.py")
    document = as_json("show", "last")
    assert (0, [], None, None) == tuple(document[k] for k in ("attempt", "restarts", "spark", "delivery"))
    assert "spark " not in rankdeck("show", "last").stdout
