"""A disk that is filled to the last byte during a training, which has its own verdict; losses are told."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.runs import paths
from launcher.runs.reader import FactTail, read_state, status_of
from launcher.runs.status import stored_status
from launcher.state import events as ev
from launcher.state.run_state import Phase
from tests import commands, engines
from tests.commands import Foreground, Gate, rankdeck, until
from tests.small_disk import fill, small_disk

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("mark")]

DELETED = r"the run's record was deleted while it ran: output and verdict after \d\d:\d\d:\d\d are lost"
FLOOD = """
import os, sys
rank = int(os.environ["RANK"])
for i in range(400):
    os.write(1 + i % 2, b"%019d\\n" % i * 1000)
if rank:  # the other one is told to end as soon as this one has failed
    open(sys.argv[1]).read()
    sys.exit(7)
open(sys.argv[1], "w").close()
"""
GATES = """
import os, sys
from launcher import report
rank = os.environ["RANK"]
def wait(gate):
    with open(f"{sys.argv[1]}{gate}.{rank}") as pipe:
        pipe.read()
def write(text, times):
    for _ in range(times):
        os.write(1, text)
write(b"before\\n", 1)
wait(1)
write(b"during\\n" * 1000, 100)
wait(2)
write(b"after\\n", 1)
"""
VALUE = """
import sys
def train(gate):
    with open(f"{gate}1.0") as pipe:
        pipe.read()
    return "v" * 3_000_000
"""


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The home of all runs."""
    with small_disk(tmp_path / "disk", 6 << 20) as mounted:
        monkeypatch.setenv("RANKDECK_HOME", str(mounted))
        yield mounted
        engines.end_all()


def script(folder: Path, text: str) -> Path:
    path = folder / "train.py"
    path.write_text(text)
    return path


def on_disk(run: Path) -> int:
    return sum(p.stat().st_size for p in run.rglob("*") if p.suffix in (".out", ".err"))


def check_losses(run: Path, written: int, narrated: str) -> ev.RecordsLost:
    """What was lost is exactly what was written and is not there, in the facts and in the narration."""
    lost = read_state(run).lost
    assert lost is not None
    assert written - on_disk(run) == lost.output_bytes > 0
    assert f"not recorded: {lost.output_bytes:,} bytes of output" in narrated
    assert 0 == lost.facts
    assert "Traceback" not in narrated
    assert not (run / paths.RESERVE).exists()
    return lost


def test_ranks_that_fill_the_disk_end_as_they_would_have(disk: Path, tmp_path: Path) -> None:
    done_too = tmp_path / "done"
    os.mkfifo(done_too)
    done = rankdeck("run", script(tmp_path, FLOOD), "-n", "2", "--ranks", "none", "--", done_too)
    assert 7 == done.returncode, done.stderr
    run = commands.last()
    check_losses(run, 2 * 400 * 20_000, done.stderr)
    assert "recording stopped: No space left on device; the training goes on" in done.stderr
    state = read_state(run)
    assert (Phase.FAILED, 7, 1) == (state.phase, state.exit_code, state.blamed)
    assert 2 == sum(rank.phase.ended for rank in state.ranks)
    assert (Phase.FAILED, 7) == (status_of(run).state, status_of(run).exit_code)
    for words in ("show last", "show last --json", "logs last -r 1", "ps", "export last -o /dev/null/x"):
        assert "Traceback" not in rankdeck(*words.split()).stderr
    assert "not recorded" in rankdeck("show", "last").stdout


def test_a_disk_that_others_fill_loses_output_until_there_is_room_again(disk: Path, tmp_path: Path) -> None:
    gates = [Gate(tmp_path / f"gate{i}", ranks=2) for i in (1, 2)]
    program = script(tmp_path, GATES)
    with Foreground("run", program, "-n", "2", "--", str(tmp_path / "gate"), folder=tmp_path) as run:
        run.await_line("before")
        run.await_line("before")
        filler = fill(disk)
        gates[0].open()
        run.await_narration("recording stopped")
        filler.unlink()
        run.await_narration("recording again")
        gates[1].open()
        assert 0 == run.finish()
        narrated = run.narrated
    folder = commands.last()
    check_losses(folder, 2 * (7 + 700_000 + 6), narrated)
    assert 1 == len(re.findall("recording stopped", narrated))
    state = read_state(folder)
    assert (Phase.SUCCEEDED, None) == (state.phase, state.recording)
    assert 2 == sum(line.endswith("after") for line in run.printed)
    assert json.loads(rankdeck("show", "last", "--json").stdout)["lost"]["output_bytes"]


def test_a_value_that_has_no_room_is_lost_and_the_run_is_not(disk: Path, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate1")
    program = f"{script(tmp_path, VALUE)}:train"
    with Foreground("run", program, "--param", f"gate='{tmp_path / 'gate'}'", folder=tmp_path) as run:
        until(lambda: commands.runs() != [] and commands.facts(ev.RankEntered) != [])
        fill(disk)
        gate.open()
        assert 0 == run.finish()
        assert re.search(r"not recorded: .*3,000,\d\d\d bytes of return values", run.narrated), run.narrated
    state = read_state(commands.last())
    assert state.ranks[0].returned is not None
    assert not state.ranks[0].returned.kept
    assert not paths.result_file(commands.last(), 0).exists()


def test_a_folder_that_is_removed_under_a_run_does_not_end_it(tmp_path: Path) -> None:
    gates = [Gate(tmp_path / f"gate{i}", ranks=2) for i in (1, 2)]
    program = script(tmp_path, GATES)
    with Foreground("run", program, "-n", "2", "--", str(tmp_path / "gate"), folder=tmp_path) as run:
        run.await_line("before")
        run.await_line("before")
        folder = commands.last()
        with Foreground("logs", "-f", "last", folder=_made(tmp_path / "follower")) as follower:
            follower.await_line("before")
            folder.rename(tmp_path / "moved")
            (tmp_path / "moved" / paths.EVENTS).unlink()
            for gate in gates:
                gate.open()
            assert 0 == run.finish()
            assert 70 == follower.finish()
        assert re.search(rf"\nsucceeded after \d.*\n{DELETED}\n$", run.narrated)
        assert re.search(DELETED, follower.narrated)
        assert "Traceback" not in run.narrated + follower.narrated


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_killed_owner_leaves_a_folder_that_can_be_read(home: Path, tmp_path: Path) -> None:
    Gate(tmp_path / "gate1", ranks=2)
    program = script(tmp_path, GATES)
    with Foreground("run", program, "-n", "2", "--", str(tmp_path / "gate"), folder=tmp_path) as run:
        run.await_line("before")
        run.await_line("before")
        owner = status_of(commands.last()).owner.pid
        os.kill(owner, signal.SIGKILL)
        run.process.wait()
    shown = json.loads(rankdeck("show", "last", "--json").stdout)
    assert ("lost", 75) == (shown["state"], shown["exit_code"])
    assert 2 == rankdeck("logs", "last").stdout.count("before")
    assert 75 == rankdeck("logs", "last", "-f").returncode

    folder = commands.last()
    assert 0 == rankdeck("run", script(tmp_path, "print('next')")).returncode
    until(lambda: Phase.LOST is getattr(stored_status(folder), "state", None))
    assert 1 == sum(isinstance(fact, ev.RunEnded) for fact in FactTail(folder).poll())
