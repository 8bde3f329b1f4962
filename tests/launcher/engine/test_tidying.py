"""What an engine puts in order, and when."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from launcher import settings
from launcher.engine.server import Housekeeping
from launcher.runs import catalog, recovery
from tests.commands import until


class Idle:
    """Sessions that count how often they are tended, and can be made to take their time."""

    def __init__(self) -> None:
        self.tended = 0
        self.go_on = threading.Event()
        self.go_on.set()

    def close_idle(self) -> None:
        self.tended += 1
        assert self.go_on.wait(60)


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What has been done to the folders, in order."""
    done: list[str] = []

    def bury(root: Path) -> list[str]:
        done.append("buried")
        return []

    monkeypatch.setattr(recovery, "mark_lost_runs", bury)
    monkeypatch.setattr(catalog, "prune", lambda root, policy: done.append("pruned"))
    return done


def round_of(tidying: Housekeeping, sessions: Idle) -> None:
    before = sessions.tended
    tidying.start(sessions)
    until(lambda: sessions.tended == before + 1)
    until(lambda: not any(thread.name == "rankdeck-tidy" for thread in threading.enumerate()))


def test_folders_are_looked_at_first_and_then_only_after_a_run(done: list[str], tmp_path: Path) -> None:
    tidying, sessions = Housekeeping(tmp_path), Idle()
    round_of(tidying, sessions)
    round_of(tidying, sessions)
    assert ["buried", "pruned"] == done

    tidying.run_ended()
    round_of(tidying, sessions)
    round_of(tidying, sessions)
    assert ["buried", "pruned", "pruned"] == done
    assert 4 == sessions.tended


def test_a_round_that_takes_long_is_not_overtaken(done: list[str], tmp_path: Path) -> None:
    tidying, sessions = Housekeeping(tmp_path), Idle()
    sessions.go_on.clear()
    tidying.start(sessions)
    until(lambda: 1 == sessions.tended)
    tidying.start(sessions)
    sessions.go_on.set()
    until(lambda: "pruned" in done)
    until(lambda: not any(thread.name == "rankdeck-tidy" for thread in threading.enumerate()))
    assert 1 == sessions.tended


def test_what_goes_wrong_is_logged_and_the_next_round_comes(
    done: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> settings.Settings:
        raise OSError("the disk is gone")

    with monkeypatch.context() as patched:
        patched.setattr(settings, "load", fail)
        tidying, sessions = Housekeeping(tmp_path), Idle()
        round_of(tidying, sessions)
        assert "the disk is gone" in caplog.text

    tidying.run_ended()
    round_of(tidying, sessions)
    assert ["buried", "pruned"] == done
