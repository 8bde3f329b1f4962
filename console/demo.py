"""The demo: a recorded run watched as if it were live, through the same code as every other run.

Nothing of it outlives the terminal: its folders are temporary. Only `run_demo` needs a terminal.
"""

from __future__ import annotations

import math
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from launcher.errors import SpecError
from launcher.runs.catalog import new_id
from launcher.runs.writer import RunWriter
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.request import Request
from launcher.state import events as ev

from .data.replay import Replay, Script, replay

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

    It is whole, or as it was `until` seconds after its start: then it goes on for as long as this process.
    """
    folder = folder_root / new_id(RECORDED_AT, "0de")
    folder.mkdir(parents=True, mode=0o700)
    writer = RunWriter(folder, _spec(ranks, gpus))
    script = Script(RECORDED_AT, ranks=ranks, gpus=gpus, seconds=seconds, fail=fail)
    for happening in script.happenings(until):
        if isinstance(happening, ev.Event):
            writer.append(happening)
            if isinstance(happening, ev.RankReturned):
                writer.open_result(happening.rank).commit()
        else:
            chunk, data = happening
            writer.output([(chunk, memoryview(data))])
    writer.close()
    return folder


def _spec(ranks: int, gpus: bool) -> JobSpec:
    target = Target(TargetKind.FUNCTION, "train.py", "main", kwargs=(("lr", "3e-4"), ("model", "'7b'")))
    return JobSpec(
        target, num_processes=ranks, mode=Mode("cluster"), gpu=gpus, name="llama-ft", workdir="/home/ada/llm"
    )


class DemoCommands:
    """Launches replays instead of runs; a stop ends one as a real stop would."""

    def __init__(self, recordings: Path, root: Path, *, speed: float = 1.0) -> None:
        self._recordings, self._root, self._speed = recordings, root, speed
        self._replays: dict[str, Replay] = {}
        self._lock = threading.Lock()

    def start(self, request: Request) -> str:
        """Replay the recorded run, with as many ranks as were asked for."""
        ranks = request.spec.num_processes
        with self._lock:
            folder = self._recordings / str(ranks)
            recorded = next(folder.glob("*"), None) if folder.exists() else record_demo(folder, ranks=ranks)
            if recorded is None:
                raise SpecError("the recorded run is gone")
            again = replay(recorded, self._root, speed=self._speed)
            self._replays[again.run.name] = again
        return again.run.name

    def stop(self, run: Path, *, force: bool) -> None:
        """End one replay."""
        if again := self._replays.get(run.name):
            again.stop(force=force)

    def take_stacks(self, run: Path) -> None:
        """A replay has nobody to ask."""
        raise SpecError("this is a recording: its ranks have no processes", run=run.name)

    def close(self) -> None:
        """End all replays, so that their folders can be removed."""
        for again in self._replays.values():
            again.stop()
            again.join(5.0)


def run_demo(*, speed: float = 1.0, look: Mapping[str, object] | None = None) -> int:
    """Show the console with a recorded run that seems to happen now; leaves nothing behind.

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
