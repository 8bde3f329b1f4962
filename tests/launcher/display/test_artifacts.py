"""What is said of files that came home and of those that are on their way."""

from __future__ import annotations

from launcher.display.artifacts import new_artifacts, total_line
from launcher.state import events as ev
from launcher.state.fold import fold_all
from launcher.state.run_state import RunState

SUBMITTED = ev.RunSubmitted(time=1.0, name="n", target="t.py", mode="cluster", num_processes=2)


def kept(host: str = "a", *named: ev.NamedFile, files: int = 1, size: int = 400_001_648) -> ev.ArtifactsKept:
    return ev.ArtifactsKept(
        time=2.0, host=host, files=files, size=size, named=named, total_files=files, total_size=size
    )


def told(*facts: ev.Event, before: RunState | None = None) -> list[str]:
    return list(new_artifacts(before or RunState(), fold_all([SUBMITTED, *facts])))


SNAPSHOT = ev.NamedFile("snapshot.pt", 400_001_648, 0)


def test_the_rank_and_the_file_are_named() -> None:
    assert told(kept("a", SNAPSHOT)) == ["rank 0 wrote snapshot.pt, 381 MiB"]


def test_where_the_rank_is_not_known_the_host_is_named() -> None:
    assert told(kept("alpha", ev.NamedFile("x", 5))) == ["alpha wrote x, 5 B"]


def test_many_files_are_one_line() -> None:
    many = kept("a", SNAPSHOT, files=251, size=400_001_648 + 2048)
    assert told(many) == ["rank 0 wrote snapshot.pt, 381 MiB, and 250 files, 2.0 KiB"]


def test_two_hosts_are_two_lines() -> None:
    lines = told(kept("a", ev.NamedFile("x", 1, 0)), kept("b", ev.NamedFile("y", 1, 1)))
    assert lines == ["rank 0 wrote x, 1 B", "rank 1 wrote y, 1 B"]


def test_what_was_told_and_newer_versions_are_not_told_again() -> None:
    fact = kept("a", SNAPSHOT)
    assert told(fact, before=fold_all([SUBMITTED, fact])) == []
    assert told(kept("a", ev.NamedFile("snapshot.pt", 5, 0, again=True))) == []


def test_files_on_their_way_are_told_until_the_end() -> None:
    coming = ev.ArtifactsAwaited(time=3.0, host="alpha", files=2, size=3 << 30)
    assert told(coming) == ["2 files, 3.0 GiB, are coming home from alpha"]
    one = ev.ArtifactsAwaited(time=3.0, host="alpha", files=1, size=10)
    assert told(one) == ["1 file, 10 B, is coming home from alpha"]
    assert told(coming, ev.RunEnded(time=4.0, state="succeeded", exit_code=0, why="")) == []


def test_a_restart_forgets_what_was_on_its_way_and_keeps_what_came() -> None:
    coming = ev.ArtifactsAwaited(time=3.0, host="alpha", files=2, size=1)
    again = ev.GangRestarted(time=4.0, attempt=1, reason="r", in_place=True)
    state = fold_all([SUBMITTED, kept("a", SNAPSHOT), coming, again])
    assert state.coming == ()
    assert total_line(state) == "1 file, 381 MiB"


def test_without_files_there_is_no_total() -> None:
    assert total_line(RunState()) == ""
