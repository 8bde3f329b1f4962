"""The demo: a recorded run replayed as if it were live, shown by the same code as every other run.

Its folders are temporary and are removed when the console is left. Only `run_demo` needs a terminal.
"""

from __future__ import annotations

import math
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.errors import SpecError
from launcher.runs.catalog import new_id
from launcher.runs.writer import RunWriter
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.request import Request
from launcher.state import events as ev

from .data.replay import Replay, Script, replay

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
    writer = RunWriter(folder, _spec(ranks, gpus))
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


def _spec(ranks: int, gpus: bool) -> JobSpec:
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


def run_demo(*, speed: float = 1.0, look: Mapping[str, object] | None = None) -> int:
    """Show the console with a recorded run that seems to happen now; leave no files behind.

    `look` is as for `run_console`.
    """
    from .app import run_console

    with tempfile.TemporaryDirectory(prefix="rankdeck-demo-") as temporary:
        base = Path(temporary)
        commands = DemoCommands(base / "recordings", base / "runs", speed=speed)
        past = record_demo(base / "runs", seconds=45, fail=True)
        past.rename(past.with_name(past.name[:-3] + "fa1"))
        spec = _spec(8, True)
        run = base / "runs" / commands.start(Request(spec, environ={}))
        try:
            return run_console(
                open_run=run,
                root=base / "runs",
                workdir=Path.cwd(),
                commands=commands,
                farewell=lambda _: None,
                look=look,
            )
        finally:
            commands.close()
