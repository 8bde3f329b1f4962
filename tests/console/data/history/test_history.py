"""Which runs are wanted, and how they are listed and compared."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from console.cli.history import _STATES, compare, ps, show
from console.data.history.comparison import Difference, difference_row, shortened_ids
from console.data.history.query import flags_filter, recent_runs, since, submitted_at, took, took_text
from launcher.errors import LauncherError, RunNotFound, SpecError
from launcher.runs.paths import runs_root
from launcher.runs.status import Status
from launcher.state import events as ev
from launcher.state.run_state import Phase
from tests.console.scripted import START, Scripted

RUN = Status(
    id="20260101-100000-000abc", name="llama-7b", target="/p/train.py:main", args="lr=0.1", user="ada",
    mode="cluster", state=Phase.FAILED, started=START, ended=START + 60,
)  # fmt: skip
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def called(command: click.Command, *words: str) -> Result:
    return CliRunner().invoke(command, list(words), standalone_mode=False, catch_exceptions=False)


def as_json(command: click.Command, *words: str) -> Any:
    return json.loads(called(command, *words, "--json").stdout)


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        ({}, True),
        ({"state": None, "since": None}, True),
        ({"state": "failed,lost"}, True),
        ({"state": "lost"}, False),
        ({"name": "llama*"}, True),
        ({"name": "llama"}, False),
        ({"name": "LLAMA*"}, False),
        ({"name": "[l]*-?b"}, True),
        ({"target": "train.py"}, True),
        ({"target": "lr=0.1"}, True),
        ({"target": "lr=0.2"}, False),
        ({"user": "ada"}, True),
        ({"user": "ad"}, False),
        ({"mode": "cluster"}, True),
        ({"mode": "local"}, False),
        ({"since": "60s"}, True),
        ({"since": "59s"}, False),
        ({"state": "failed", "user": "bob"}, False),
    ],
)
def test_flags_accept_what_fits_all_of_them(flags: dict[str, str | None], *, wanted: bool) -> None:
    assert wanted is flags_filter(flags, START + 60).accepts(RUN)


@pytest.mark.parametrize(
    ("text", "then"), [("90s", 910), ("1.5h", 1000 - 5400), (" 2d ", 1000 - 2 * 86400), ("1w", 1000 - 604800)]
)
def test_a_time_may_be_told_by_how_long_ago_it_was(text: str, then: float) -> None:
    assert then == since(text, 1000.0)


def test_a_time_may_be_told_by_the_calendar() -> None:
    assert START == since("2026-01-01T10:00:00+00:00", 0.0)
    assert 86400 == since("2026-01-02", 0.0) - since("2026-01-01", 0.0)


@pytest.mark.parametrize("text", ["", "2", "2y", "-1d", "yesterday", "2026-13-01", "1e999d", "d"])
def test_what_tells_no_time_is_said(text: str) -> None:
    with pytest.raises(SpecError, match="--since takes 90m, 12h, 2d, 1w or a date such as 2026-11-20, not '"):
        flags_filter({"since": text}, 0.0)


def test_a_run_without_a_start_is_as_old_as_its_id_says() -> None:
    assert START == submitted_at(replace(RUN, started=None))
    assert 0.0 == submitted_at(Status(id="20269999-999999-000abc"))


def test_no_time_is_negative_though_clocks_are_set_back() -> None:
    assert [60.0, 0.0] == [took(RUN), took(replace(RUN, ended=START - 5))]
    assert [7.0, None, None] == [
        took(replace(RUN, state=Phase.RUNNING, ended=None), START + 7),
        took(replace(RUN, started=None)),
        took(replace(RUN, ended=None)),
    ]


def test_a_run_that_goes_on_has_taken_whole_minutes() -> None:
    run = replace(RUN, state=Phase.RUNNING, ended=None)
    said = [took_text(run, START + seconds) for seconds in (5, 59, 60, 3599, 3600, 90_000)]

    assert ["<1m", "<1m", "1m", "59m", "1h00m", "25h00m"] == said
    assert ["1.5s", "–"] == [took_text(replace(RUN, ended=end)) for end in (START + 1.5, None)]


def test_the_states_that_are_offered_are_those_there_are() -> None:
    assert tuple(Phase) == _STATES


def scripted(label: str, number: int, **known: Any) -> Path:
    """A run of two ranks that reported something and failed."""
    script = Scripted(runs_root() / label, ranks=2, hosts=("a", "b"))
    submitted = ev.RunSubmitted(
        time=START, name=label, target="/p/train.py:main", mode="local", num_processes=2
    )
    metrics = known.pop("metrics", {"loss": 0.5, "total_steps": 10.0})
    script.add(replace(submitted, **known), ev.OriginFound(time=1.0, revision="abc", dirty=False, root="/p"))
    script.place(2.0)
    script.add(ev.RankReported(time=5.0, rank=0, step=number, metrics=metrics))
    script.fail(6.0 + number, 1)
    script.add(ev.RunEnded(time=8.0 + number, state="failed", exit_code=7, why="rank 1 exited with code 7"))
    script.writer.close()
    folder = runs_root() / script.folder.name.replace("abc", f"{number:03x}")
    script.folder.rename(folder)
    return folder


def test_runs_are_listed_by_who_what_and_how_it_went(capsys: pytest.CaptureFixture[str]) -> None:
    scripted("one", 1, user="ada", host="login", args="lr=0.1")
    scripted("two", 2, user="bob", args="lr=0.2")
    listed = as_json(ps)

    assert ["two", "one"] == [run["name"] for run in listed]
    assert {
        "user": "ada",
        "host": "login",
        "args": "lr=0.1",
        "step": 1,
        "metrics": {"loss": 0.5},
    }.items() <= (listed[1].items())
    assert ("abc", False, 0) == (listed[1]["revision"], listed[1]["dirty"], listed[1]["attempt"])
    head, *rows = called(ps).stdout.splitlines()
    assert ["BY", "TARGET", "LAST", "WHY"] == head.split()[-4:]
    for part in ("bob", "train.py:main lr=0.2", "step 2 loss=0.5", "10s", "rank 1 exited with code 7"):
        assert part in rows[0]


def test_a_list_can_be_narrowed_and_cut() -> None:
    for number, user in enumerate(("ada", "bob", "ada"), 1):
        scripted(f"run-{number}", number, user=user)

    assert ["run-3", "run-1"] == [run["name"] for run in as_json(ps, "--user", "ada")]
    assert ["run-3"] == [run["name"] for run in as_json(ps, "--user", "ada", "--limit", "1")]
    assert ["run-2"] == [
        run["name"] for run in as_json(ps, "--name", "*-2", "--state", "lost", "--state", "failed")
    ]
    assert [] == as_json(ps, "--since", "1h")
    cut = called(ps, "--limit", "2")
    assert (3, "the newest 2; --all lists every run\n") == (len(cut.stdout.splitlines()), cut.stderr)
    assert (4, "") == (len(called(ps, "--all").stdout.splitlines()), called(ps, "--all").stderr)
    assert ("", "no such runs\n") == (
        called(ps, "--mode", "cluster").stdout,
        called(ps, "--mode", "cluster").stderr,
    )
    with pytest.raises(click.UsageError):
        called(ps, "--all", "--limit", "2")


def test_names_figures_and_reasons_control_no_terminal() -> None:
    evil = "\x1b]0;pwned\x07\x1b[2J\r\n\u202e\x9b31m"
    folder = scripted(
        "evil", 1, name=f"n{evil}", args=evil, user=f"u{evil}", metrics={f"loss{evil}": float("nan")}
    )
    status = json.loads((folder / "status.json").read_text())
    (folder / "status.json").write_text(json.dumps({**status, "why": evil * 10_000}))
    listed = called(ps)

    assert 2 == len(listed.stdout.splitlines())
    for text in (listed.stdout, called(show, "last").stdout, called(compare, "last", "last").stdout):
        assert [] == CONTROLS.findall(text)
    assert all(len(line) < 400 for line in listed.stdout.splitlines())
    assert "nan" == as_json(ps)[0]["metrics"][f"loss{evil}"]


def test_show_tells_who_and_which_code() -> None:
    scripted("one", 1, user="ada", host="login")
    text = called(show, "last").stdout
    document = as_json(show, "last")

    assert "by       ada on login" in text
    assert "code     abc, in /p" in text
    assert ("ada", "abc") == (document["submitted"]["user"], document["origin"]["revision"])


def test_two_runs_are_compared_for_people_and_for_programs() -> None:
    one = scripted("one", 1, user="ada").name
    two = scripted("two", 2, user="ada", metrics={"loss": 0.25}).name
    document = as_json(compare, one, two)
    text = called(compare, one, two).stdout

    assert (one, two) == (document["a"], document["b"])
    assert {"step": 1, "loss": -0.25, "total_steps": None} == {
        d["name"]: d["delta"] for d in document["metrics"]
    }
    assert [("duration_s", 9.0, 10.0)] == [(d["name"], d["a"], d["b"]) for d in document["outcome"]]
    assert [] == document["spec"] == document["code"] == document["packages"]
    assert re.search(r"metrics +loss +0\.5 +0\.25 +-0\.25 \(-50\.0%\)", text)
    assert text.splitlines()[-1].startswith("equal: spec ")
    with pytest.raises(RunNotFound):
        called(compare, one, "none")


def test_figures_have_separators_and_what_was_asked_stays_as_it_was_written() -> None:
    figure = Difference("tokens", (60159, 1234567.0), 1174408.0)

    assert ("60,159", "1,234,567", "+1,174,408 (+1952.2%)") == difference_row("metrics", figure)[2:]
    assert ("29500", "29501") == difference_row("spec", Difference("port", (29500, 29501)))[2:4]
    assert ("true", "–") == difference_row("outcome", Difference("x", (True, None)))[2:4]


@pytest.mark.parametrize(
    ("left", "right", "room", "shown"),
    [
        ("20260101-100000-a", "20260101-100000-b", 17, ("20260101-100000-a", "20260101-100000-b")),
        ("20260101-100000-a", "20260101-100000-b", 16, ("…a", "…b")),
        ("20260101-100000-a", "20260101-110000-a", 16, ("…100000-a", "…110000-a")),
        ("20260101-100000-0c0", "20260101-100001-0c1", 8, ("…000-0c0", "…001-0c1")),
        ("20260101-1-a", "20260102-1-a", 5, ("20260101-1-a", "20260102-1-a")),
        ("one-two", "one-two", 3, ("one-two", "one-two")),
    ],
)
def test_two_runs_are_told_apart_where_room_is_short(
    left: str, right: str, room: int, shown: tuple[str, str]
) -> None:
    assert shown == shortened_ids((left, right), room)


def test_a_run_without_a_record_of_what_was_asked_is_not_compared() -> None:
    one, two = scripted("one", 1), scripted("two", 2)
    (two / "spec.json").unlink()

    with pytest.raises(LauncherError, match=r"spec\.json"):
        called(compare, one.name, two.name)


def test_a_run_that_goes_on_is_listed_with_its_newest_figures() -> None:
    script = Scripted(runs_root(), ranks=3, hosts=("a",))
    script.place(2.0)
    for step in range(500):  # far more than is looked at
        for rank in (2, 1):
            script.add(ev.RankReported(time=3.0 + step, rank=rank, step=step, metrics={"loss": rank + step}))
    samples = max((script.folder / "samples").iterdir())
    with open(samples, "ab") as file:
        file.write(b'{"event": "rank_reported", "torn": \n')
    listed = as_json(ps)
    script.add(ev.RunEnded(time=9001.0, state="failed", exit_code=1, why="x"))
    script.writer.close()

    assert ("running", 499, {"loss": 500.0}) == tuple(listed[0][k] for k in ("state", "step", "metrics"))
    assert (499, 500.0) == (as_json(ps)[0]["step"], as_json(ps)[0]["metrics"]["loss"])


def test_where_there_are_no_runs_there_are_none_recently(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert () == recent_runs(tmp_path / "none") == recent_runs(tmp_path / "file")
