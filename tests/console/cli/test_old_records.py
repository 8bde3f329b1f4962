"""Runs that rankdeck 0.1.0 has recorded open in every later version: commands, console and values.

`tests/runs_of_0_1_0` holds run folders as 0.1.0 has left them, under their ids, and one exported file.
They are never made again: a version that cannot read them is wrong, not they. They come from trainings
of a few lines in `/tmp/trainings`, a git checkout, on a machine named `vm` without a GPU:

    rankdeck run fit.py:fit -n 2 --param lr=0.1 --name "first fit"  # a function: reports, a bar with \\r
    rankdeck run broken.py -n 2 --grace 2 -- --lr -1.0  # rank 1 raises, rank 0 is stopped
    rankdeck run flaky.py -n 2 --max-restarts 1 --grace 2  # rank 0 exits with 3, then all goes well
    rankdeck run endless.py -n 2 --detach --grace 5  # and then: rankdeck stop
    rankdeck run spread.py:spread -n 2 --param scale=10 --mode cluster  # an embedded Spark
    rankdeck export ID --results -o first_fit.zip  # of the first one

Git keeps no empty folders, so `result` is missing where no rank left a value.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from console.app import RankdeckApp
from console.ui.logs.view import LogView
from console.ui.run.header import Headline, RunHeader
from console.ui.run.rank_grid import RankGrid
from console.ui.run.result import ResultPane
from launcher.job import load_result
from launcher.runs.reader import FactTail
from launcher.state import events as ev
from tests.console.looking import shown, text
from tests.reading import Answer, Reader

if TYPE_CHECKING:
    from tests.console.conftest import Until

RECORDS = Path(__file__).parent.parent.parent / "runs_of_0_1_0"
EXPORTED = "first_fit.zip"
REVISION = "5e8323be305aa66e8e9140d700a5b66ecb347316"
TRACEBACK = """\
Traceback (most recent call last):
  File "/tmp/trainings/broken.py", line 21, in <module>
    check(-1.0)
  File "/tmp/trainings/broken.py", line 13, in check
    raise ValueError(f"bad learning rate {rate}")
ValueError: bad learning rate -1.0
"""
BAR = "\r1/4 [#...]\r2/4 [##..]\r3/4 [###.]\r4/4 [####]\n"


@dataclass(frozen=True)
class Old:
    """What a run of 0.1.0 was: as `rankdeck` of that time told it.

    `out` and `err` are what `logs` prints; `raw` is what each rank wrote to each stream; `reports` is what
    rank 0 reported, step by step.
    """

    id: str
    name: str
    target: str
    state: str
    code: int
    why: str
    took: float
    ranks: Sequence[tuple[str, int, str | None]]
    steps: Sequence[int | None]
    metrics: Sequence[dict[str, float]]
    out: str
    err: str
    raw: dict[tuple[int, str], str]
    reports: dict[str, Sequence[float]] = field(default_factory=dict)
    args: str = ""
    mode: str = "local"
    host: str = "vm"
    values: Sequence[Any] = ()
    attempts: int = 1


DONE = ("succeeded", 0, None)
FIT = Old(
    id="20261122-121524-291b96",
    name="first fit",
    target="/tmp/trainings/fit.py:fit",
    args="lr=0.1",
    state="succeeded",
    code=0,
    why="every rank exited with 0",
    took=1.402,
    ranks=(DONE, DONE),
    steps=(4, 4),
    metrics=({"loss": 0.2, "total_steps": 4.0}, {"loss": 0.1111, "total_steps": 4.0}),
    reports={"loss": (0.5, 0.3333, 0.25, 0.2)},
    out=(
        "r0 | rank 0 of 2 trains with lr=0.1\n"
        "r1 | rank 1 of 2 trains with lr=0.1\n"
        "r0 | rank 0 done: größer als 0, no newline follows\n"
        "r1 | rank 1 done: größer als 0, no newline follows\n"
    ),
    err=("r0 | rank 0 warns: no GPU\nr1 | rank 1 warns: no GPU\nr0 | 4/4 [####]\nr1 | 4/4 [####]\n"),
    raw={
        (0, "out"): "rank 0 of 2 trains with lr=0.1\n"
        "rank 0 \x1b[32mdone\x1b[0m: größer als 0, no newline follows",
        (1, "out"): "rank 1 of 2 trains with lr=0.1\n"
        "rank 1 \x1b[32mdone\x1b[0m: größer als 0, no newline follows",
        (0, "err"): f"rank 0 warns: no GPU\n{BAR}",
        (1, "err"): f"rank 1 warns: no GPU\n{BAR}",
    },
    values=(
        {"rank": 0, "loss": 0.2, "steps": 4, "classes": ["cat", "dog"], "best": None},
        {"rank": 1, "loss": 0.1111, "steps": 4, "classes": ["cat", "dog"], "best": None},
    ),
)
BROKEN = Old(
    id="20261122-121526-006060",
    name="broken.py",
    target="/tmp/trainings/broken.py",
    args="--lr -1.0",
    state="failed",
    code=1,
    why="rank 1 on vm raised ValueError: bad learning rate -1.0",
    took=0.899,
    ranks=(("stopped", 143, "SIGTERM"), ("failed", 1, None)),
    steps=(1, 1),
    metrics=({"loss": 2.5, "total_steps": 10.0}, {"loss": 3.5, "total_steps": 10.0}),
    reports={"loss": (2.5,)},
    out="r0 | rank 0 begins\nr1 | rank 1 begins\nr1 | rank 1 is about to fail\n",
    err="".join(f"r1 | {line}\n" for line in TRACEBACK.splitlines()),
    raw={
        (0, "out"): "rank 0 begins\n",
        (1, "out"): "rank 1 begins\nrank 1 is about to fail\n",
        (0, "err"): "",
        (1, "err"): TRACEBACK,
    },
)
FLAKY = Old(
    id="20261122-121527-243842",
    name="flaky.py",
    target="/tmp/trainings/flaky.py",
    state="succeeded",
    code=0,
    why="every rank exited with 0, after 1 restart",
    took=1.522,
    ranks=(DONE, DONE),
    steps=(None, None),
    metrics=({}, {}),
    out=("r0 | rank 0, attempt 0\nr1 | rank 1, attempt 0\nr0 | rank 0, attempt 1\nr1 | rank 1, attempt 1\n"),
    err="r0 | rank 0 gives up\n── attempt 1 (rank 0 on vm exited with code 3) ──\n",
    raw={
        (0, "out"): "rank 0, attempt 0\nrank 0, attempt 1\n",
        (1, "out"): "rank 1, attempt 0\nrank 1, attempt 1\n",
        (0, "err"): "rank 0 gives up\n",
        (1, "err"): "",
    },
    values=({"attempt": 1, "rank": 0}, {"attempt": 1, "rank": 1}),
    attempts=2,
)
ENDLESS = Old(
    id="20261122-121529-114545",
    name="endless.py",
    target="/tmp/trainings/endless.py",
    state="stopped",
    code=143,
    why="stopped: on request",
    took=3.295,
    ranks=(DONE, DONE),
    steps=(15, 15),
    metrics=({"loss": 1 / 15}, {"loss": 1 / 15}),
    reports={"loss": tuple(1 / step for step in range(1, 16))},
    out=(
        "r0 | rank 0 trains\n"
        "r1 | rank 1 trains\n"
        "r0 | rank 0 leaves at signal 15\n"
        "r1 | rank 1 leaves at signal 15\n"
    ),
    err="",
    raw={
        (0, "out"): "rank 0 trains\nrank 0 leaves at signal 15\n",
        (1, "out"): "rank 1 trains\nrank 1 leaves at signal 15\n",
        (0, "err"): "",
        (1, "err"): "",
    },
)
SPREAD = Old(
    id="20261122-121533-58834f",
    name="spread",
    target="/tmp/trainings/spread.py:spread",
    args="scale=10",
    mode="cluster",
    host="127.0.0.1",
    state="succeeded",
    code=0,
    why="every rank exited with 0",
    took=8.986,
    ranks=(DONE, DONE),
    steps=(3, 3),
    metrics=({"accuracy": 0.75}, {"accuracy": 0.75}),
    reports={"accuracy": (0.25, 0.5, 0.75)},
    out=("r1 127.0.0.1 | rank 1 of 2 is local rank 1\nr0 127.0.0.1 | rank 0 of 2 is local rank 0\n"),
    err="",
    raw={
        (0, "out"): "rank 0 of 2 is local rank 0\n",
        (1, "out"): "rank 1 of 2 is local rank 1\n",
        (0, "err"): "",
        (1, "err"): "",
    },
    values=([0, 0], [1, 10]),
)
ALL = (FIT, BROKEN, FLAKY, ENDLESS, SPREAD)
every = pytest.mark.parametrize("old", ALL, ids=lambda old: old.name.partition(".")[0])


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the records, as the home of a person who has updated."""
    home = tmp_path_factory.mktemp("updated")
    shutil.copytree(RECORDS, home / "runs", ignore=shutil.ignore_patterns(".*", EXPORTED))
    shutil.copy(RECORDS / EXPORTED, home)
    return home


@pytest.fixture(scope="module")
def reader(kept: Path) -> Iterator[Reader]:
    with Reader(kept) as started:
        yield started


def well(answer: Answer, code: int = 0) -> Answer:
    """What a command printed that did what was asked."""
    assert (code, "", False) == (answer.code, answer.fell, answer.hung)
    return answer


def as_json(reader: Reader, *words: str) -> Any:
    answer = well(reader.run(*words, "--json"))
    assert "" == answer.err
    return json.loads(answer.out)


def test_every_record_has_a_case() -> None:
    assert {*(old.id for old in ALL), EXPORTED} == {n for n in os.listdir(RECORDS) if not n.startswith(".")}


def test_old_runs_are_listed_with_what_became_of_them(reader: Reader) -> None:
    listed = as_json(reader, "ps")

    assert [old.id for old in reversed(ALL)] == [run["id"] for run in listed]
    for run, old in zip(listed, reversed(ALL), strict=True):
        assert (old.name, old.state, old.code) == (run["name"], run["state"], run["exit_code"])
        assert (old.why, old.mode, 2) == (run["why"], run["mode"], run["num_processes"])
        assert pytest.approx(old.took, abs=0.001) == run["ended"] - run["started"]
    assert "" == well(reader.run("ps")).err


def check_shown(told: dict[str, Any], old: Old) -> None:
    """All that `show` says of the run is as it was."""
    assert (old.id, old.state, old.code, old.why) == (
        told["id"],
        told["state"],
        told["exit_code"],
        told["why"],
    )
    assert [] == told["unreadable"]
    assert pytest.approx(old.took, abs=0.001) == told["ended"] - told["started"]
    by = told["submitted"]
    assert (old.name, old.target, old.args) == (by["name"], by["target"], by["args"])
    assert (old.mode, 2, "root", "vm") == (by["mode"], by["num_processes"], by["user"], by["host"])
    assert (old.mode, 2, "/tmp/trainings") == tuple(
        told["spec"][key] for key in ("mode", "num_processes", "workdir")
    )
    origin = told["origin"]
    assert (REVISION, "main", False) == (origin["revision"], origin["branch"], origin["dirty"])
    assert ("3.11.7", "0.1.0") == (origin["python"], origin["packages"]["rankdeck"])
    ranks = told["ranks"]
    assert [(0, old.host), (1, old.host)] == [(rank["rank"], rank["host"]) for rank in ranks]
    assert [*old.ranks] == [(rank["state"], rank["exit_code"], rank["signal"]) for rank in ranks]
    assert [*old.steps] == [rank["step"] for rank in ranks]
    assert [*old.metrics] == [rank["metrics"] for rank in ranks]
    assert old.attempts - 1 == told["attempt"] == len(told["restarts"])
    assert told["cleanup"]
    assert all([] == proof["survivors"] for proof in told["cleanup"])


@every
def test_a_run_is_shown_as_it_was(reader: Reader, kept: Path, old: Old) -> None:
    check_shown(as_json(reader, "show", old.id), old)
    check_shown(as_json(reader, "show", str(kept / "runs" / old.id)), old)
    for_people = well(reader.run("show", old.id))

    assert "" == for_people.err
    assert f"{old.id}  {old.name}\n" in for_people.out
    assert f"\nstate    {old.state}, exit {old.code}, took {old.took:.1f}s\n" in for_people.out


def test_the_first_failure_is_told_with_its_traceback(reader: Reader) -> None:
    failures = {old.name: as_json(reader, "show", old.id)["first_failure"] for old in ALL}
    failure = failures.pop(BROKEN.name)

    assert {None} == set(failures.values())
    assert (1, "vm", 1, None) == tuple(failure[key] for key in ("rank", "host", "exit_code", "signal"))
    assert ("ValueError", "bad learning rate -1.0") == (failure["exception"], failure["message"])
    assert TRACEBACK == failure["traceback"]


def test_why_a_gang_was_started_again_is_told(reader: Reader) -> None:
    (restart,) = as_json(reader, "show", FLAKY.id)["restarts"]

    assert (1, "rank 0 on vm exited with code 3", True) == tuple(
        restart[key] for key in ("attempt", "reason", "in_place")
    )
    first = well(reader.run("logs", FLAKY.id, "--attempt", "0"))
    assert "r0 | rank 0, attempt 0\nr1 | rank 1, attempt 0\n" == first.out
    assert "r0 | rank 0, attempt 1\n" == well(reader.run("logs", FLAKY.id, "--attempt", "1", "-r", "0")).out


def test_what_spark_said_is_told(reader: Reader) -> None:
    told = as_json(reader, "show", SPREAD.id)

    assert ("local-1795349737834", "local[64]", "4.3.0", False) == tuple(
        told["spark"][key] for key in ("application", "master", "version", "remote")
    )
    assert "live" == told["delivery"]["way"]


@every
def test_every_line_is_printed_again(reader: Reader, old: Old) -> None:
    printed = well(reader.run("logs", old.id))

    assert (old.out, old.err) == (printed.out, printed.err)
    for (rank, stream), written in old.raw.items():
        words = ("--stderr",) if stream == "err" else ()
        exact = well(reader.run("logs", old.id, "--raw", "-r", str(rank), *words))
        assert (written, "") == (exact.out, exact.err)


@every
def test_following_a_run_that_is_over_gives_its_exit_code(reader: Reader, old: Old) -> None:
    printed = well(reader.run("logs", "-f", old.id), old.code)

    assert (old.out, old.err) == (printed.out, printed.err)


@every
def test_values_are_still_there(reader: Reader, kept: Path, old: Old) -> None:
    for rank, value in enumerate(old.values):
        told = as_json(reader, "result", old.id, "-r", str(rank))
        assert {"rank": rank, "type": type(value).__name__, "value": value} == told
        assert value == load_result(kept / "runs" / old.id, rank)
    if not old.values:
        missing = reader.run("result", old.id, "--json")
        assert (2, "", "") == (missing.code, missing.out, missing.fell)
        assert "left no value" in missing.err


@every
def test_every_fact_and_every_sample_is_read(kept: Path, old: Old) -> None:
    folder = kept / "runs" / old.id
    files = [folder / "events.jsonl", *(folder / "samples").iterdir()]
    tail = FactTail(folder, samples=True)
    read = tail.poll()

    assert [] == tail.unreadable()
    assert sum(len(file.read_bytes().splitlines()) for file in files) == len(read)
    first = [fact for fact in read if isinstance(fact, ev.RankReported) and fact.rank == 0]
    assert [*range(1, len(first) + 1)] == [fact.step for fact in first]
    for name, values in old.reports.items():
        assert [*values] == [fact.metrics[name] for fact in first]


def test_an_exported_run_opens(reader: Reader, kept: Path) -> None:
    file = str(kept / EXPORTED)
    check_shown(as_json(reader, "show", file), FIT)
    printed = well(reader.run("logs", file))

    assert (FIT.out, FIT.err) == (printed.out, printed.err)
    assert FIT.values[1] == as_json(reader, "result", file, "-r", "1")["value"]


@every
def test_a_run_is_exported_by_the_new_version(reader: Reader, tmp_path: Path, old: Old) -> None:
    file = str(tmp_path / "again.zip")
    well(reader.run("export", old.id, "-o", file, "--results"))

    check_shown(as_json(reader, "show", file), old)
    assert old.out == well(reader.run("logs", file)).out


async def test_the_console_opens_a_run(
    open_app: Callable[..., RankdeckApp], until: Until, root: Path
) -> None:
    folder = shutil.copytree(RECORDS / BROKEN.id, root / BROKEN.id)
    app = open_app(run=folder)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        log = app.screen.query_one(LogView)

        def lines() -> list[str]:
            drawn = (log.render_line(y).text.strip() for y in range(log.size.height))
            return [line for line in drawn if line]

        await until(pilot, lambda: any("ValueError" in line for line in lines()))
        headline = text(app.screen.query_one(Headline)).splitlines()
        rows = [row.split() for row in text(app.screen.query_one(RankGrid)).splitlines()]

        printed = ["0  rank 0 begins", "1  rank 1 begins", "1  rank 1 is about to fail"]
        assert [*printed, *(f"1 ▎{line}" for line in TRACEBACK.splitlines())] == lines()
        assert text(app.screen.query_one(RunHeader)).startswith(" ✗ failed  broken.py  2 ranks")
        assert [" ✗ rank 1 on vm raised ValueError", "   bad learning rate -1.0"] == headline[:2]
        assert [["■", "0", "stopped"], ["✗", "1", "failed"]] == [row[:3] for row in rows[1:3]]
        assert "Traceback (most recent call last):" in text(app.screen.query_one(ResultPane))
