"""The list of runs as it is kept up to date: what is read, what is published, when nothing is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from console.data.history import run_list
from console.data.history.query import parse_run_filter
from console.data.history.run_list import Listing, RunCache, RunListPoller, RunQuery
from launcher.runs.status import Owner, Status, read_status
from launcher.serialization import to_plain
from launcher.state.run_state import Phase


def put(root: Path, number: int, state: Phase = Phase.SUCCEEDED) -> str:
    run = f"20260101-{number:06d}-000abc"
    (root / run).mkdir(exist_ok=True)
    status = Status(id=run, name=f"n{number}", state=state, owner=Owner.this(), started=float(number))
    (root / run / "status.json").write_text(json.dumps(to_plain(status)))
    return run


@pytest.fixture
def published() -> list[Listing]:
    return []


@pytest.fixture
def past(root: Path, published: list[Listing]) -> RunListPoller:
    return RunListPoller(root, published.append)


def test_a_first_screen_comes_before_all_runs(root: Path) -> None:
    for number in range(300):
        put(root, number)

    assert [128, 300] == [len(runs) for runs in RunCache(root).look()]


def test_later_only_what_may_have_changed_is_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = RunCache(root)
    put(root, 1)
    live = put(root, 2, Phase.RUNNING)
    assert 2 == len(list(known.look())[-1])
    read: list[str] = []

    def noted(folder: Path) -> Status | None:
        read.append(folder.name)
        return read_status(folder)

    monkeypatch.setattr(run_list, "read_status", noted)
    new = put(root, 3)

    assert [[new, live]] == [[run.id for run in runs][:2] for runs in known.look()]
    assert [new, live] == read
    assert (live,) == tuple(run.id for run in known.live())


def test_nothing_is_published_while_nothing_changes(
    root: Path, past: RunListPoller, published: list[Listing]
) -> None:
    put(root, 1)
    live = put(root, 2, Phase.RUNNING)
    past.poller.look()
    past.poller.look()
    assert [2] == [listing.total for listing in published]

    put(root, 2, Phase.FAILED)
    past.poller.look()
    assert ("failed", 2) == (published[-1].runs[0].state, len(published))

    (root / live / "status.json").unlink()
    (root / live).rmdir()
    past.poller.look()
    assert 1 == published[-1].total


def test_a_question_is_answered_from_what_is_known(
    root: Path, past: RunListPoller, published: list[Listing]
) -> None:
    for number in range(3):
        put(root, number)
    past.poller.look()
    past.ask(RunQuery(parse_run_filter("n1", 0.0)))
    past.poller.look()
    past.ask(RunQuery(order="name", reverse=True))
    past.poller.look()

    assert [["n2", "n1", "n0"], ["n1"], ["n2", "n1", "n0"]] == [[r.name for r in p.runs] for p in published]
    assert 3 == published[1].total


def test_folders_that_cannot_be_read_are_said_and_looked_at_again(
    root: Path, past: RunListPoller, published: list[Listing]
) -> None:
    root.rmdir()
    root.write_text("")
    past.poller.look()
    root.unlink()
    root.mkdir()
    put(root, 1)
    past.poller.look()

    assert "cannot read" in published[0].problem
    assert (1, "") == (published[-1].total, published[-1].problem)
