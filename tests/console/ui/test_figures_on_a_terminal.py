"""What stands on a real terminal while a training goes wrong, and when it is over."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Gate
from tests.commands import rankdeck as command
from tests.console.ui.rendering.test_terminal import Terminal

pytestmark = [pytest.mark.terminal, pytest.mark.process]

NAN = """
import os
from launcher import report

for step in range(40):
    loss = float("nan") if step >= 30 else 2.0 - step / 40
    report(step=step, loss=loss, scale=float("inf"), tokens=12860.4)
open(f"{os.environ['GATE']}.0").read()
"""
BAR = """
import os, sys

for n in range(4000):
    sys.stderr.write(f"\\rtrain: {n:4d}/4000|{'█' * (n // 400):10}| {n:4d}it [00:04, 4.00it/s] and more")
    if n == 2000:
        sys.stderr.flush()
        print("half", flush=True)
sys.stderr.flush()
open(f"{os.environ['GATE']}.0").read()
"""
HANG = """
import os, time
from launcher import report
def all_reduce():
    time.sleep(1000)
def main():
    for n in range(20):
        report(step=n, loss=1.0 + n)
        time.sleep(0.05)
    if os.environ["RANK"] == "0":
        all_reduce()
    time.sleep(1000)
main()
"""
STRAGGLER = """
import os, time
from launcher import report

rank = int(os.environ["RANK"])
for step in range(41 if rank == 1 else 80):
    report(step=step, loss=1.0, total_steps=80)
    time.sleep(0.06)
if rank:
    open(f"{os.environ['GATES']}.{rank - 1}").read()
"""
CURVE = """
import os, time
from launcher import report

for step in range(40):
    report(step=step, loss=2.0 - step / 40, tokens=12860.4)
    time.sleep(0.06)
open(f"{os.environ['GATE']}.0").read()
"""
BLOCKS = "▁▂▃▄▅▆▇█"
ODD = ("10**400", "-0.0", "-1e308", "5e-324", "True", "'nan'", "'words'", "None", "float('-inf')")
Attach = Callable[..., Terminal]


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "gate")


@pytest.fixture
def start(tmp_path: Path, gate: Gate, mark: str) -> Callable[..., str]:
    """Starts a script in the background; the id of its run."""

    def started(script: str, *options: str) -> str:
        (tmp_path / "script.py").write_text(script)
        env = ("--env", f"GATE={gate.path}")
        done = command("run", *options, *env, "--detach", tmp_path / "script.py", cwd=tmp_path)
        assert 0 == done.returncode, done.stderr
        return done.stdout.strip()

    return started


@pytest.fixture
def attach(tmp_path: Path, rankdeck: str) -> Iterator[Attach]:
    env = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
    with ExitStack() as stack:

        def attached(*words: str, size: tuple[int, int] = (120, 40)) -> Terminal:
            terminal = Terminal(rankdeck, *words, size=size, cwd=tmp_path, env=env)
            stack.callback(terminal.child.close, force=True)
            return terminal

        yield attached


def strict(text: str) -> Any:
    """JSON as the standard has it: without a word for NaN."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def colour_of(terminal: Terminal, text: str) -> str:
    """The colour of the first place where a text stands."""
    for y, line in enumerate(terminal._screen.display):
        if (x := line.find(text)) >= 0:
            return str(terminal._screen.buffer[y][x].fg)
    raise AssertionError(f"{text} is not there:\n{terminal.text}")


def test_a_nan_is_shown_in_its_place_while_it_runs_and_ever_after(
    start: Callable[..., str], attach: Attach, gate: Gate
) -> None:
    run = start(NAN)
    terminal = attach("attach", run)
    terminal.until("2 alerts:", "loss nan", "scale inf", "tokens 12,860")
    terminal.until("loss is not finite since step 30 (rank 0)", "scale is not finite since step 0")
    assert colour_of(terminal, "loss nan") != colour_of(terminal, "tokens 12,860")
    gate.open()
    terminal.until("✓ succeeded", "loss nan", "not finite since step 30")
    terminal.press("q")
    assert 0 == terminal.exit_code()

    again = attach("attach", run, size=(80, 24))
    again.until("✓ succeeded", "loss nan")
    again.press("5")
    again.until("scale", "inf", "loss", "nan")
    again.press("q")
    assert 0 == again.exit_code()

    assert "loss=nan" in command("ps").stdout
    for words in (("ps",), ("show", run), ("compare", run, run)):
        told = strict(command(*words, "--json").stdout)
        assert "nan" in json.dumps(told) or words[0] == "compare"


def test_no_value_that_is_reported_harms_the_console(start: Callable[..., str], attach: Attach) -> None:
    told = ", ".join(f"m{n}={value}" for n, value in enumerate(ODD))
    run = start(f"from launcher import report\nfor n in range(3): report(step=n, loss=1e308, {told})\n")
    terminal = attach("attach", run)
    terminal.until("✓ succeeded", "step 2", "1e+308")
    terminal.press("5")
    terminal.press("q")
    assert 0 == terminal.exit_code()
    strict(command("ps", "--json").stdout)
    strict(command("show", run, "--json").stdout)


def test_a_bar_is_one_row_while_it_lives_and_when_it_has_ended(
    start: Callable[..., str], attach: Attach, gate: Gate
) -> None:
    run = start(BAR)
    terminal = attach("attach", run)
    screen = terminal.until("train: 3999/4000", "half")
    assert 1 == screen.count("train:")
    assert "�" not in screen
    gate.open()
    screen = terminal.until("✓ succeeded", "train: 3999/4000", "half")
    assert 1 == screen.count("train:")
    terminal.press("q")
    assert 0 == terminal.exit_code()

    told = command("logs", run)
    assert ["half"] == [line.partition("| ")[2] for line in told.stdout.splitlines()]
    (line,) = told.stderr.splitlines()
    assert "train: 3999/4000|█████████ | 3999it" in line
    raw = command("logs", run, "-r", "0", "--raw", "--stderr")
    assert 4000 == raw.stdout.count("train:")


def test_a_hang_ends_with_its_evidence_and_is_seen_before(
    start: Callable[..., str], attach: Attach, gate: Gate
) -> None:
    run = start(HANG, "-n", "3", "--no-progress-timeout", "15")
    terminal = attach("attach", run)
    terminal.until("silent", "T Stacks")
    terminal.until("✗ stopped: no progress for 15 s", "q Leave", "T Stacks")
    screen = terminal.until("rank 0 is in all_reduce (script.py:5); ranks 1-2 are in main (script.py:12)")
    assert 2 == screen.count("rank 0 is in all_reduce (script.py:5)"), "in headline and result"
    terminal.press("q")
    assert 125 == terminal.exit_code()
    assert "rank 0 is in all_reduce (script.py:5); ranks 1-2 are in main" in command("show", run).stdout


def test_progress_is_that_of_the_slowest_rank_that_lives(
    start: Callable[..., str], attach: Attach, tmp_path: Path
) -> None:
    gates = Gate(tmp_path / "two", ranks=2)
    run = start(STRAGGLER, "-n", "3", "--env", f"GATES={gates.path}")
    terminal = attach("attach", run)
    terminal.until("step 40…79/80", "50%", "lag")
    terminal.wait(lambda screen: "left" not in screen, "no time left where nothing moves")
    terminal.until("r1 39 steps behind", "rank 1 behind")
    gates.open()
    terminal.until("✓ succeeded")
    terminal.press("q")
    assert 0 == terminal.exit_code()


def test_an_ended_run_looks_ended_and_keeps_its_curve(
    start: Callable[..., str], attach: Attach, gate: Gate
) -> None:
    run = start(CURVE)
    terminal = attach("attach", run, size=(160, 45))
    screen = terminal.until("● running", "loss 1.025", "tokens 12,860", "q Detach", "4 Result")
    assert 1 >= rows_of(screen, "4 Result"), "nothing yet needs no room"
    assert set(line_with(screen, "loss 1.025")) & set(BLOCKS)
    running = colour_of(terminal, "● running")
    gate.open()
    screen = terminal.until("✓ succeeded", "loss 1.025", "q Leave", "CPU mean")
    assert "Detach" not in screen
    assert set(line_with(screen, "loss 1.025")) & set(BLOCKS), "the curve stays"
    succeeded = colour_of(terminal, "✓ succeeded")
    assert running != succeeded
    red, green, blue = bytes.fromhex(succeeded)
    assert green > max(red, blue)
    terminal.press("q")
    assert 0 == terminal.exit_code()

    hours, minutes, seconds = map(int, re.search(r"(\d\d):(\d\d):(\d\d)", screen).groups())  # type: ignore[union-attr]
    (listed,) = strict(command("ps", "--json").stdout)
    assert int(listed["ended"] - listed["started"]) == 3600 * hours + 60 * minutes + seconds


def test_a_refusal_is_told_at_its_field_and_with_the_command(
    rankdeck: str, tmp_path: Path, attach: Attach
) -> None:
    (tmp_path / "train.py").write_text("print()\n")
    terminal = attach()
    terminal.until("1 New run")
    terminal.press("gone.py\x12")
    screen = terminal.until("there is no")
    assert 2 >= screen.count("there is no")
    terminal.press("\x11")
    assert 0 == terminal.exit_code()


def line_with(screen: str, text: str) -> str:
    return next(line for line in screen.splitlines() if text in line)


def rows_of(screen: str, title: str) -> int:
    """How many rows a pane has between its borders."""
    lines = screen.splitlines()
    top = next(n for n, line in enumerate(lines) if f" {title} " in line)
    return next(n for n, line in enumerate(lines[top + 1 :]) if "╰" in line or "╯" in line)
