"""The folder between two engines: who may be one, how it is known, what is said through it."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from launcher import events as ev
from launcher.backends.spool import FieldEnd, HomeEnd, check_spool, why_not_shared
from launcher.errors import SpecError
from tests.commands import until

STOP = ev.StopRequested(time=1.0, by="person", reason="enough", exit_code=130, grace_s=2.5)


@pytest.fixture
def home_end(tmp_path: Path) -> HomeEnd:
    return HomeEnd(str(tmp_path), "run-1", 0)


class Far:
    """The other end, and what it was told."""

    def __init__(self, home: HomeEnd, lost_after_s: float = 60.0) -> None:
        self.stops: list[ev.StopRequested] = []
        self.lost = threading.Event()
        home.run.mkdir(exist_ok=True)
        self.end = FieldEnd(home.folder, home.run, lost_after_s, stop=self.stops.append, lost=self.lost.set)
        self.end.start()


@pytest.mark.parametrize("folder", ["relative/spool", "/nowhere/at/all", __file__, "/proc"])
def test_what_cannot_be_a_spool_folder_is_refused(folder: str) -> None:
    with pytest.raises(SpecError, match="spool folder"):
        check_spool(folder)


def test_what_can_be_one_is_left_as_it_is(tmp_path: Path) -> None:
    check_spool(str(tmp_path))
    assert [] == list(tmp_path.iterdir())


def test_it_is_private_and_goes_without_a_trace(tmp_path: Path, home_end: HomeEnd) -> None:
    assert 0o700 == stat.S_IMODE(home_end.folder.stat().st_mode)
    assert {0o600} == {stat.S_IMODE(f.stat().st_mode) for f in home_end.folder.iterdir()}
    home_end.remove()
    assert [] == list(tmp_path.iterdir())


def test_it_is_known_by_what_is_in_it(tmp_path: Path, home_end: HomeEnd) -> None:
    assert "" == why_not_shared(home_end.folder, home_end.marker)
    assert {"marker", "beat"} == set(os.listdir(home_end.folder))
    assert "is another folder there" in why_not_shared(home_end.folder, "something else")
    assert "is not shared with it" in why_not_shared(tmp_path / "nowhere" / "x", home_end.marker)


def test_storage_that_cannot_append_is_no_spool(home_end: HomeEnd, monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of object stores that are mounted as file systems."""
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path)[-1:])
    assert "nothing can be appended" in why_not_shared(home_end.folder, home_end.marker)


def test_two_runs_share_no_marker(tmp_path: Path) -> None:
    assert HomeEnd(str(tmp_path), "a", 0).marker != HomeEnd(str(tmp_path), "b", 0).marker


def test_a_stop_is_passed_on_once_and_a_second_one_too(home_end: HomeEnd) -> None:
    far = Far(home_end)
    home_end.ask(STOP)
    until(lambda: far.stops == [STOP])
    forced = ev.StopRequested(time=2.0, by="person", reason="now", exit_code=130)
    home_end.ask(forced)
    until(lambda: far.stops == [STOP, forced])
    far.end.close()


@pytest.mark.parametrize(
    "said", [b"", b"{", b"[1]", b'{"event":"rank_exited","time":1,"rank":0,"exit_code":0}']
)
def test_what_is_no_stop_is_not_obeyed(home_end: HomeEnd, said: bytes) -> None:
    (home_end.folder / "stop").write_bytes(said)
    far = Far(home_end)
    home_end.ask(STOP)
    until(lambda: far.stops == [STOP])
    far.end.close()


def test_a_silent_home_counts_as_dead(home_end: HomeEnd) -> None:
    far = Far(home_end, lost_after_s=0.6)
    assert far.lost.wait(60)
    far.end.close()


def test_a_home_that_beats_does_not(home_end: HomeEnd) -> None:
    far = Far(home_end, lost_after_s=1.0)
    seen = threading.Event()

    def beats() -> bool:
        home_end.beat()
        return seen.wait(0.01) or home_end._beats > 120

    until(beats)
    assert not far.lost.is_set()
    far.end.close()


def test_what_is_written_is_pushed_to_the_storage_facts_last(
    home_end: HomeEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed: list[str] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        pushed.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    home_end.run.mkdir()
    (home_end.run / "events.jsonl").write_text("facts")
    (home_end.run / "logs").mkdir()
    (home_end.run / "logs" / "0.out").write_text("bytes")
    far = Far(home_end)
    until(lambda: len(pushed) >= 2)
    far.end.close()
    assert ["0.out", "events.jsonl"] == pushed
