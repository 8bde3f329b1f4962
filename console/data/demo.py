"""The demo's run: recorded, and replayed as if it were live, for the same code that shows every other run."""

from __future__ import annotations

import math
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.errors import SpecError
from launcher.runs.catalog import new_id
from launcher.runs.writer import RunWriter
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.request import Request
from launcher.state import events as ev

from .replay import Replay, Script, replay

if TYPE_CHECKING:
    from launcher.diagnosis.checks.check import CheckReport

RECORDED_AT = 1_767_261_600.0


def record_demo(
    folder_root: Path,
    *,
    ranks: int = 8,
    gpus: bool = True,
    seconds: int = 90,
    fail: bool = False,
    until: float = math.inf,
) -> Path:
    """Write a run on two hosts, the same for the same arguments, and return its folder.

    With `until`, only its first seconds are written: it then counts as running while this process lives.
    """
    folder = folder_root / new_id(RECORDED_AT, "0de")
    folder.mkdir(parents=True, mode=0o700)
    writer = RunWriter(folder, demo_spec(ranks, gpus))
    script = Script(RECORDED_AT, ranks=ranks, gpus=gpus, seconds=seconds, fail=fail)
    for item in script.items(until):
        if isinstance(item, ev.Event):
            writer.append(item)
            if isinstance(item, ev.RankReturned):
                writer.open_result(item.rank).commit()
        else:
            chunk, data = item
            writer.output([(chunk, memoryview(data))])
    writer.close()
    return folder


def demo_spec(ranks: int, gpus: bool) -> JobSpec:
    """The request of the recorded run."""
    target = Target(TargetKind.FUNCTION, "train.py", "main", kwargs=(("lr", "3e-4"), ("model", "'7b'")))
    return JobSpec(
        target, num_processes=ranks, mode=Mode("cluster"), gpu=gpus, name="llama-ft", workdir="/home/ada/llm"
    )


class DemoCommands:
    """Starts replays instead of runs; stopping one records the same facts as a real stop."""

    def __init__(self, recordings: Path, root: Path, *, speed: float = 1.0) -> None:
        self._recordings, self._root, self._speed = recordings, root, speed
        self._replays: dict[str, Replay] = {}
        self._lock = threading.Lock()

    def check(self, request: Request) -> CheckReport:
        """Refuse: a recording has no hosts."""
        del request
        raise SpecError("this is a recording: it has no hosts to be checked")

    def start(self, request: Request) -> str:
        """Replay the recorded run, with the requested number of ranks."""
        ranks = request.spec.num_processes
        with self._lock:
            folder = self._recordings / str(ranks)
            recorded = next(folder.glob("*"), None) if folder.exists() else record_demo(folder, ranks=ranks)
            if recorded is None:
                raise SpecError("the recorded run is gone")
            started = replay(recorded, self._root, speed=self._speed)
            self._replays[started.run.name] = started
        return started.run.name

    def stop(self, run: Path, *, force: bool) -> None:
        """End one replay."""
        if started := self._replays.get(run.name):
            started.stop(force=force)

    def take_stacks(self, run: Path) -> None:
        """Refuse: the ranks of a replay have no processes."""
        raise SpecError("this is a recording: its ranks have no processes", run=run.name)

    def close(self) -> None:
        """End all replays, so that their folders can be removed."""
        for started in self._replays.values():
            started.stop()
            started.join(5.0)


class DemoStage:
    """A demo beside a console that goes on: its commands and its folders, which `close` removes."""

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="rankdeck-demo-")
        base = Path(self._temporary.name)
        self._root = base / "runs"
        self.commands = DemoCommands(base / "recordings", self._root)

    def start(self) -> Path:
        """Start the replay of a run of eight ranks, and return its folder. Blocks for a moment."""
        return self._root / self.commands.start(Request(demo_spec(8, True), environ={}))

    def close(self) -> None:
        """End the replay, and remove the folders."""
        self.commands.close()
        self._temporary.cleanup()
