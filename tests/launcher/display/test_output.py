"""What `Distributor.run` shows: ranks' lines on the caller's streams, whatever those are."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from launcher.display.output import Follower, Output, RankLines, in_notebook, output_of
from launcher.display.streams import CallersStreams
from launcher.distributor import Distributor
from launcher.errors import LauncherError, RankFailed, SpecError
from launcher.runs import paths
from launcher.runs.reader import read_state
from launcher.state import events as ev
from launcher.state.run_state import Phase, RunState
from tests import commands, survivors
from tests.commands import Gate, until

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("mark")]


@pytest.fixture
def printing(targets: Path) -> str:
    return str(targets / "printing.py")


def lines(text: str) -> list[str]:
    return sorted(text.splitlines())


def test_what_ranks_print_is_shown_with_its_rank(printing: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "value" == Distributor(2).run(f"{printing}:speak")
    out, err = capsys.readouterr()

    assert ["r0 | from 0", "r1 | from 1"] == lines(out)
    assert ["r0 | to stderr", "r1 | to stderr"] == lines(err)


@pytest.mark.parametrize(
    ("output", "shown"), [("all", ["r0 | from 0", "r1 | from 1"]), ("rank0", ["r0 | from 0"]), ("none", [])]
)
def test_the_caller_chooses_whose_lines(
    printing: str,
    output: str,
    shown: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    Distributor(2, output=output).run(f"{printing}:speak")

    assert shown == lines(capsys.readouterr().out)


@pytest.mark.parametrize("value", ["al", "", None, 3, ["all"], "x" * 10_000])
def test_an_output_that_there_is_not_is_refused(value: Any) -> None:
    with pytest.raises(SpecError, match=r"^the output must be one of auto, all, rank0, none, not ") as error:
        Distributor(2, output=value)

    assert len(str(error.value)) < 200
    assert Output.ALL is output_of("all")


def test_what_a_run_waits_for_is_said_once_on_the_error_stream(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = SimpleNamespace(folder=tmp_path, state=RunState(requested=2))
    shown = RankLines(job, frozenset((0, 1)), CallersStreams())  # type: ignore[arg-type]
    slots = ev.SlotsAwaited(time=1, need=2, have=1, limit_s=60, reason="other applications have the rest")
    job.state = replace(job.state, waiting=slots)

    for _ in range(3):
        shown.advance()

    line = "rankdeck: waiting for slots: 1 of 2, at most 60 s (other applications have the rest)\n"
    assert ("", line) == capsys.readouterr()


def test_a_limit_that_is_near_is_said(targets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LauncherError):
        Distributor(1, timeout_s=1.5).run(str(targets / "waiting.py"), "impolite")

    assert "rankdeck: the time limit of 1.5 s is near: ends in" in capsys.readouterr().err


def test_output_is_complete_when_run_raises(printing: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RankFailed):
        Distributor(1).run(f"{printing}:fail")
    out, err = capsys.readouterr()

    assert [f"r0 | {i}" for i in range(2000)] == out.splitlines()
    assert "r0 | ValueError: no" in err.splitlines()


def test_lines_come_while_the_ranks_run(targets: Path, tmp_path: Path) -> None:
    gate, shown = Gate(tmp_path / "gate", ranks=2), io.StringIO()
    target = str(targets / "waiting.py")

    def run() -> None:
        with contextlib.redirect_stdout(shown):
            Distributor(2).run(target, "gate", str(gate.path))

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: ["r0 | ready", "r1 | ready"] == lines(shown.getvalue()))
    gate.open()
    thread.join()

    assert ["r0 | passed", "r0 | ready", "r1 | passed", "r1 | ready"] == lines(shown.getvalue())


def test_lines_cannot_control_the_terminal_and_bars_are_one_line(
    printing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Distributor(1).run(f"{printing}:attack")

    assert "r0 | red text\nr0 | 999 of 1000\n" == capsys.readouterr().out


def test_a_long_line_is_shown_whole(printing: str, capsys: pytest.CaptureFixture[str]) -> None:
    Distributor(1).run(f"{printing}:at_length")

    assert f"r0 | {'é' * (16 << 10)}\n" == capsys.readouterr().out


# --- streams of any kind


class Broken:
    """A stream of which everything fails."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class Counting(io.StringIO):
    """A stream that fails from the second write on."""

    writes = 0

    def write(self, text: str) -> int:
        self.writes += 1
        if self.writes > 1:
            raise OSError(28, "No space left on device")
        return super().write(text)


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("stream", [None, closed, Broken, Counting, object])
def test_a_stream_that_cannot_be_written_ends_no_run(
    printing: str, stream: Callable[[], Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = stream() if stream else None
    monkeypatch.setattr(sys, "stdout", made)
    monkeypatch.setattr(sys, "stderr", made)

    assert "value" == Distributor(2).run(f"{printing}:speak")


def test_a_stream_that_lacks_letters_gets_their_escapes() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", errors="strict")
    with contextlib.redirect_stdout(stream):
        CallersStreams().write("naïve 日本")

    assert b"na\\xefve \\u65e5\\u672c\n" == raw.getvalue()


def test_the_streams_are_those_of_the_call_and_not_of_another_thread(
    capsys: pytest.CaptureFixture[str],
) -> None:
    streams, other = CallersStreams(), io.StringIO()
    with contextlib.redirect_stdout(other):
        streams.write("to the caller")

    assert ("to the caller\n", "") == (capsys.readouterr().out, other.getvalue())


def test_a_display_that_fails_ends_no_run(
    printing: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launcher.display.output.Printer.advance", lambda _: 1 / 0)

    assert "value" == Distributor(2).run(f"{printing}:speak")
    said = "rankdeck: the output is no longer shown: division by zero; the run goes on\n"
    assert ("", said) == capsys.readouterr()


def test_here_is_no_notebook() -> None:
    assert not in_notebook()


def test_nothing_follows_a_run_that_shows_nothing(targets: Path) -> None:
    job = Distributor(1).start(str(targets / "hello.py"))
    before = set(threading.enumerate())
    follower = Follower(job, Output.NONE)
    job.wait()
    follower.join()

    assert {t.name for t in set(threading.enumerate()) - before} == set()


# --- the end


def embedding(targets: Path, way: str, **streams: Any) -> subprocess.Popen[str]:
    command = [sys.executable, str(targets / "embedding.py"), way]
    return subprocess.Popen(command, text=True, **streams)


def test_ctrl_c_ends_a_run_whose_output_nobody_takes(targets: Path, mark: str) -> None:
    with embedding(targets, "flooded", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
        until(lambda: bool(commands.runs()))
        until(lambda: log_size() >= 1_000_000)
        program.send_signal(signal.SIGINT)
        until(lambda: read_state(commands.last()).phase.final)
        program.wait(60)

    assert 130 == commands.facts(ev.RunEnded)[0].exit_code  # type: ignore[attr-defined]
    assert {} == survivors.alive(mark)


def log_size() -> int:
    path = paths.log_file(commands.last(), 0, 0, paths.STDOUT)
    return path.stat().st_size if path.exists() else 0


def test_a_reader_that_leaves_ends_no_run(targets: Path, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "import sys\nfrom rankdeck import Distributor\n"
        f"value = Distributor(2).run({str(targets / 'functions.py')!r} + ':rank')\n"
        "print('the value is', value, file=sys.stderr)\n"
    )
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, str(script)], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)

    assert "the value is 0\n" in done.stderr
    assert Phase.SUCCEEDED is read_state(commands.last()).phase
