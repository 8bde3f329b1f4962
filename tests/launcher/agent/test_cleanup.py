"""Nothing that a run started may be alive after it, whatever ended it and however its ranks cling.

CI tries each case a few times; ``RANKDECK_SOAK=100`` tries each so often.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from launcher.agent import process
from launcher.runs.catalog import find_run
from launcher.runs.paths import runs_root
from launcher.runs.reader import read_state
from tests import engines, survivors

pytestmark = pytest.mark.process

TRIES = int(os.environ.get("RANKDECK_SOAK", "1"))
ENDINGS = ("stop", "fail", "interrupt", "kill", "engine", "succeed")
# command, warden, agent and two ranks; and what each rank has started
ALIVE = {"ignore_sigterm": 5, "daemonise": 7, "subprocesses": 9, "dataloader": 9}
CODES = {"stop": 143, "fail": 7, "interrupt": 130, "kill": -9, "engine": 75, "succeed": 0}


class Clinging:
    """A foreground run whose ranks cling to life, up to the moment when both do."""

    def __init__(
        self, rankdeck: str, target: Path, behaviour: str, ending: str, pipes: Path, *options: str
    ) -> None:
        self.rankdeck, self.ending = rankdeck, ending
        self.pipes = [Path(f"{pipes}.{rank}") for rank in (0, 1)]
        for pipe in self.pipes:
            pipe.unlink(missing_ok=True)
            os.mkfifo(pipe)
        command = [rankdeck, "run", str(target), "-n", "2", "--grace", "0.3", *options, "--"]
        self.process = subprocess.Popen(
            [*command, behaviour, ending, str(pipes)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._await_ready()

    def _await_ready(self) -> None:
        assert self.process.stdout is not None
        ready: set[str] = set()
        while len(ready) < 2:
            line = self.process.stdout.readline()
            assert line, f"ended before both ranks were ready: {self.process.wait()}"
            if line.rstrip().endswith("ready"):
                ready.add(line[:2])

    def end(self) -> int:
        """Bring the end about, and the command's exit code."""
        if self.ending == "stop":
            subprocess.run([self.rankdeck, "stop", "last"], check=True, stderr=subprocess.DEVNULL)
        elif self.ending == "interrupt":
            self.process.send_signal(signal.SIGINT)
        elif self.ending == "kill":
            self.process.kill()
        elif self.ending == "engine":
            os.kill(engines.pids()[0], signal.SIGKILL)
        else:
            for pipe in self.pipes[self.ending == "fail" :]:
                pipe.write_text("go")
        self.process.communicate(timeout=30)
        return self.process.returncode


def cling_and_end(rankdeck: str, target: Path, behaviour: str, ending: str, pipes: Path, mark: str) -> None:
    """A run whose ranks cling, ended; proven alive before, and dead after."""
    run = Clinging(rankdeck, target, behaviour, ending, pipes)
    assert len(survivors.alive(mark)) >= ALIVE[behaviour]

    assert CODES[ending] == run.end()
    assert survivors.gone(mark, within={"kill": 5, "engine": 2}.get(ending, 0)) == {}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("behaviour", ["ignore_sigterm", "daemonise", "subprocesses"])
def test_nothing_is_alive_after_the_end(
    rankdeck: str, targets: Path, tmp_path: Path, mark: str, behaviour: str, ending: str
) -> None:
    for _ in range(TRIES):
        cling_and_end(rankdeck, targets / "clingy.py", behaviour, ending, tmp_path / "go", mark)


@pytest.mark.frameworks
@pytest.mark.parametrize("ending", ["stop", "fail", "interrupt", "kill", "engine"])
def test_dataloader_workers_do_not_survive(
    rankdeck: str, targets: Path, tmp_path: Path, mark: str, ending: str
) -> None:
    for _ in range(TRIES):
        cling_and_end(rankdeck, targets / "clingy.py", "dataloader", ending, tmp_path / "go", mark)


def test_the_proof_is_recorded(rankdeck: str, targets: Path, tmp_path: Path, mark: str) -> None:
    Clinging(rankdeck, targets / "clingy.py", "daemonise", "fail", tmp_path / "go").end()

    host = next(iter(read_state(find_run(runs_root(), "last")).hosts.values()))
    assert host.cleanup is not None
    assert host.cleanup.killed >= 2
    assert host.cleanup.survivors == ()


@pytest.mark.parametrize("options", [(), ("--fresh",)])
@pytest.mark.parametrize("victim", [process.WARDEN, process.AGENT])
def test_the_end_of_an_agent_ends_everything_below_it(
    rankdeck: str, targets: Path, tmp_path: Path, mark: str, victim: str, options: tuple[str, ...]
) -> None:
    run = Clinging(rankdeck, targets / "clingy.py", "daemonise", "none", tmp_path / "go", *options)
    (pid,) = survivors.named(mark, victim)
    os.kill(pid, signal.SIGKILL)
    run.process.communicate(timeout=30)

    assert 75 == run.process.returncode
    assert survivors.gone(mark, within=5) == {}
