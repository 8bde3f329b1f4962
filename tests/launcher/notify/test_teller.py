"""The owner's side: what is told once, of which runs, and what is in it."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.distributor import Distributor
from launcher.notify import teller
from launcher.notify.notice import Notice, alert_in, end_notice
from launcher.notify.teller import FOLDER, RunTeller, tell, tell_lost
from launcher.runs.recovery import mark_lost_runs
from launcher.settings import config_file
from launcher.state import events as ev
from launcher.state.run_state import Phase, RunState
from tests.commands import rankdeck, until
from tests.console.scripted import Scripted
from tests.launcher.notify.test_sender import Endpoint

FAILED = RunState(id="x", name="llama", phase=Phase.FAILED, exit_code=3, why="rank 1 failed")


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[Notice]:
    """The notices that would be sent."""
    kept: list[Notice] = []

    def keep(order: bytes) -> bool:
        document = json.loads(order)["document"]
        del document["text"]
        kept.append(Notice(**document))
        return True

    monkeypatch.setattr(teller, "_started", keep)
    return kept


@pytest.fixture
def settle(home: Path) -> Callable[[str], None]:
    def write(text: str) -> None:
        config_file().parent.mkdir(parents=True, exist_ok=True)
        config_file().write_text(text)

    return write


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.close()


def test_an_end_is_told_once_by_whoever_asks(
    tmp_path: Path, orders: list[Notice], settle: Callable[[str], None]
) -> None:
    settle('[notify]\ncommand = ["true"]\n')

    assert tell(end_notice(FAILED), tmp_path)
    assert not tell(end_notice(FAILED), tmp_path)
    RunTeller(lambda: FAILED, tmp_path).on_news()
    assert ["failure"] == [notice.kind for notice in orders]
    assert 0o600 == stat.S_IMODE((tmp_path / FOLDER / "failure.json").stat().st_mode)


@pytest.mark.parametrize(
    ("on", "phase", "told"),
    [
        ('"end"', Phase.FAILED, []),
        ('"end"', Phase.STOPPED, ["end"]),
        ('"end"', Phase.SUCCEEDED, ["end"]),
        ('"failure"', Phase.SUCCEEDED, []),
        ('"failure"', Phase.LOST, ["failure"]),
        ("", Phase.FAILED, []),
    ],
)
def test_only_what_is_wanted_is_told(
    tmp_path: Path,
    orders: list[Notice],
    settle: Callable[[str], None],
    on: str,
    phase: Phase,
    told: list[str],
) -> None:
    settle(f'[notify]\ncommand = ["true"]\non = [{on}]\n')
    RunTeller(lambda: replace(FAILED, phase=phase), tmp_path).on_news()

    assert told == [notice.kind for notice in orders]


def test_without_a_way_nothing_is_written(tmp_path: Path, orders: list[Notice]) -> None:
    RunTeller(lambda: FAILED, tmp_path).on_news()

    assert [] == [*orders, *tmp_path.glob(FOLDER)]


def test_a_folder_that_is_gone_costs_no_notice(
    tmp_path: Path, orders: list[Notice], settle: Callable[[str], None]
) -> None:
    settle('[notify]\ncommand = ["true"]\n')
    told = RunTeller(lambda: FAILED, tmp_path / "gone")
    told.on_news()
    told.on_news()

    assert 1 == len(orders)


def test_the_first_alert_is_told_once_and_looked_for_once_a_second(
    tmp_path: Path, root: Path, orders: list[Notice], settle: Callable[[str], None]
) -> None:
    settle('[notify]\ncommand = ["true"]\n')
    run, now = Scripted(root, hosts=("node1",)), [0.0]
    run.place(1.0)
    told = RunTeller(lambda: run.writer.state, run.folder, monotonic=lambda: now[0])
    told.on_news()
    run.add(ev.RanksSilent(time=64.0, ranks=(2,), since=2.0, hung=True, waiting=(0, 1, 3)))
    told.on_news()
    assert [] == orders
    now[0] = 1.5
    told.on_news()
    run.add(ev.LimitNear(time=70.0, limit="progress", limit_s=90.0, at=100.0))
    now[0] = 9.0
    told.on_news()

    assert ["alert"] == [notice.kind for notice in orders]
    assert orders[0].why.startswith("HUNG ")
    run.writer.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("fact", "why"),
    [
        (ev.LimitNear(time=9.0, limit="run", limit_s=60.0, at=20.0), "the time limit of 60 s is near"),
        (ev.RecordingStopped(time=9.0, reason="No space left"), "cannot be written: No space left"),
        (ev.GangRestarted(time=9.0, attempt=1, reason="rank 1 failed", in_place=True), "rank 1 failed"),
    ],
)
def test_what_is_an_alert(root: Path, fact: ev.Event, why: str) -> None:
    run = Scripted(root, hosts=("node1",))
    run.place(1.0)
    assert "" == alert_in(run.writer.state, 5.0)
    run.add(fact)

    assert why in alert_in(run.writer.state, 12.0)
    run.writer.close()


def test_an_error_of_a_gpu_is_an_alert() -> None:
    xid = ev.XidLogged(time=9.0, agent=0, host="node1", uuid="GPU-1", xid=79)

    assert "a GPU of node1 logged Xid 79" == alert_in(RunState(xids=(xid,)), 12.0)
    assert "" == alert_in(RunState(xids=(xid,), phase=Phase.FAILED), 12.0)


def test_a_notice_is_one_line_without_control_characters_and_secrets() -> None:
    hostile = "\x1b]0;x\x07 token=ghp_0123456789abcdef0123456789abcdef0123 \x00\u202e" + "y\n" * 16_384
    notice = end_notice(replace(FAILED, name=hostile, why=hostile, target=hostile, id=hostile))

    for text in (notice.name, notice.why, notice.target, notice.id, notice.text):
        assert text.isprintable()
        assert "ghp_0123456789" not in text
        assert len(text) < 1300


@pytest.mark.process
def test_a_run_of_this_process_is_told_by_webhook_and_command(
    tmp_path: Path, settle: Callable[[str], None], endpoint: Endpoint, mark: str, targets: Path
) -> None:
    (program := tmp_path / "note").write_text(f'#!/bin/sh\nprintf "%s|" "$@" > {tmp_path}/got\n')
    program.chmod(0o700)
    words = ", ".join(f'"{word}"' for word in (program, "{name}", "{state}", "{exit_code}", "{why}"))
    settle(f'[notify]\nwebhook = "{endpoint.url}"\ncommand = [{words}]\n')
    (script := tmp_path / "fails.py").write_text("raise SystemExit(5)\n")
    job = Distributor(2, name="a $(id) run").start(str(script))
    assert Phase.FAILED is job.wait(60).phase
    report = job.folder / FOLDER / "failure.json"
    until(lambda: "kind" in json.loads(report.read_text()))

    assert {"webhook": "answered 200", "command": "ended with 0"}.items() <= json.loads(
        report.read_text()
    ).items()
    assert (tmp_path / "got").read_text().startswith("a $(id) run|failed|5|rank ")
    (body,) = endpoint.bodies
    assert 5 == json.loads(body)["exit_code"]
    assert b"s3cr3t" not in report.read_bytes()


@pytest.mark.process
def test_an_engine_that_leaves_at_once_has_told(
    tmp_path: Path, settle: Callable[[str], None], endpoint: Endpoint, mark: str
) -> None:
    settle(f'[notify]\nwebhook = "{endpoint.url}"\n[engine]\nidle_s = 0\n')
    endpoint.hold.clear()
    (script := tmp_path / "well.py").write_text("print('done')\n")
    done = rankdeck("run", "--name", "well", script)
    assert 0 == done.returncode, done.stderr
    assert 0 == rankdeck("engine", "stop").returncode
    until(lambda: bool(endpoint.bodies))
    endpoint.hold.set()

    assert ("end", "succeeded", "well") == tuple(
        json.loads(endpoint.bodies[0])[key] for key in ("kind", "state", "name")
    )
    assert 1 == len(endpoint.bodies)


def test_a_run_whose_owner_was_killed_is_told_once_by_who_marks_it(
    root: Path, orders: list[Notice], settle: Callable[[str], None]
) -> None:
    settle('[notify]\ncommand = ["true"]\n')
    run = Scripted(root, hosts=("node1",))
    run.place(1.0)
    run.writer.close()
    status = json.loads((run.folder / "status.json").read_text())
    status["owner"] |= {"pid": 2**22 - 1, "started": 1}
    (run.folder / "status.json").write_text(json.dumps(status))
    assert [run.folder.name] == mark_lost_runs(root)
    tell_lost(run.folder)
    tell_lost(run.folder)

    assert [("failure", "lost")] == [(notice.kind, notice.state) for notice in orders]
