"""Whatever one file of a run's folder holds, or is: no screen fails, nothing waits, and the rest is shown."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from console.app import RankdeckApp
from console.demo import record_demo
from console.ui.curves.screen import CurvesScreen
from console.ui.history.compare import ComparisonScreen, ComparisonSheet
from console.ui.history.screen import HistoryScreen
from console.ui.logs.view import LogView
from console.ui.rendering.containment import failure_log
from console.ui.run.rank_grid import RankGrid
from console.ui.run.screen import RunScreen
from console.ui.widgets.rows import Titled
from launcher.runs import paths
from launcher.serialization import to_plain
from launcher.state.artifacts import Artifact
from tests.reading import Reader

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tests.console.conftest import FakeCommands, Until

CODES = {0, 2, 69, 70, 75}
HOSTILE = "\x1b]0;PWNED\x07\x1b[2J\x00\u202e\r\n\ud800[red]"
HOSTILE_LINE = HOSTILE.replace("\n", "").encode("utf-8", "surrogatepass") * 700
KEPT = {"event", "schema"}
"""The fields that say what the others mean: without them a line is passed over as a whole."""


def _leaves(value: Any, other: Callable[[Any], Any]) -> Any:
    """A document with other values at all its ends."""
    if isinstance(value, dict):
        return {key: each if key in KEPT else _leaves(each, other) for key, each in value.items()}
    return [_leaves(each, other) for each in value] if isinstance(value, list) else other(value)


def _number(value: Any, number: float) -> Any:
    return number if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _text(value: Any, text: str) -> Any:
    return text if isinstance(value, str) else value


LEAVES: dict[str, Callable[[Any], Any]] = {
    "wrong types": lambda value: [[]] if isinstance(value, str) else "q",
    "objects and nulls": lambda value: {"q": {}} if isinstance(value, str) else None,
    "negative numbers": lambda _: -1,
    "no number": lambda value: _number(value, float("nan")),
    "infinite": lambda value: _number(value, float("-inf")),
    "a number without end": lambda value: _number(value, 10**400),
    "a late time": lambda value: _number(value, 1e308),
    "long texts": lambda value: _text(value, "x" * 16384),
    "hostile texts": lambda value: _text(value, HOSTILE),
}


def _with_leaves(data: bytes, other: Callable[[Any], Any], *, lines: bool) -> bytes:
    documents = data.splitlines() if lines else [data]
    made = (json.dumps(_leaves(json.loads(each), other), separators=(",", ":")) for each in documents)
    return "".join(f"{each}\n" for each in made).encode("utf-8", "surrogatepass")


BYTES: dict[str, Callable[[bytes], bytes]] = {
    "random bytes": lambda data: random.Random(1).randbytes(5000),
    "nothing": lambda data: b"",
    "a deep document": lambda data: b'[{"q":' * (1 << 18),
    "a long line of control characters": lambda data: HOSTILE_LINE,
    "half of it": lambda data: data[: len(data) // 2],
}


def _loop(path: Path) -> None:
    path.symlink_to(path)


OTHERS: dict[str, Callable[[Path], None]] = {
    "a folder": Path.mkdir,
    "a link to itself": _loop,
    "a FIFO": os.mkfifo,
}
KINDS = (*BYTES, *LEAVES, *OTHERS)


def spoil(path: Path, kind: str) -> None:
    """Put garbage of a kind in a file's place."""
    if kind in OTHERS:
        path.unlink()
        OTHERS[kind](path)
    elif kind in BYTES:
        path.write_bytes(BYTES[kind](path.read_bytes()))
    else:
        path.write_bytes(_with_leaves(path.read_bytes(), LEAVES[kind], lines=path.suffix == ".jsonl"))


def recorded_run(folder: Path) -> Path:
    """A run with a line in every file that a run may have."""
    run = record_demo(folder / "recorded", seconds=12)
    of = Artifact("out/model.pt", "gpu-01", 8, "0" * 64, rank=0, time=1.0)
    (run / paths.ARTIFACT_INDEX).write_text(json.dumps(to_plain(of)) + "\n")
    (run / paths.PRIVATE).write_text(json.dumps({"env.KEY": "secret"}))
    return run


READ = ("*.json*", "c*/*", "logs/0/chunks", "logs/0/00000.*", "samples/*", "result/*.json")
"""What the console reads of a run."""


def spoiled_runs(root: Path, recorded: Path, kind: str) -> Iterator[tuple[str, Path]]:
    """For each file of the recorded run a copy in which that one is spoiled, and the file's name."""
    files = sorted({path.relative_to(recorded) for pattern in READ for path in recorded.glob(pattern)})
    for number, name in enumerate(files):
        if kind not in LEAVES or ".json" in name.name:
            run = root / f"20260101-1000{number:02d}-000abc"
            shutil.copytree(recorded, run)
            spoil(run / name, kind)
            yield name.as_posix(), run


def covered(app: RankdeckApp) -> list[str]:
    """The panes of the present screen that have failed."""
    return [type(pane).__name__ for pane in app.screen.query(Titled) if pane.covered]


def painted(app: RankdeckApp) -> str:
    """All characters of the present screen."""
    return "".join(part.text for strip in app.screen._compositor.render_strips() for part in strip)


class Reading:
    """A console that opens spoiled runs."""

    def __init__(self, app: RankdeckApp, pilot: Pilot[int], until: Until) -> None:
        self.app, self.pilot, self.until = app, pilot, until
        self.wrong: list[str] = []

    async def look(self, name: str, run: Path) -> None:
        """See a run on its screen, at another moment, its devices and its curves."""
        await self.app.open_run(run)
        screen = self.app.screen
        assert isinstance(screen, RunScreen)
        await self.until(self.pilot, lambda: screen.view is not None)
        for keys in (("6",), ("t", "left"), ("t", "0")):
            await self.pilot.press(*keys)
            self._note(name)
        self._rest(screen, name)
        await self.pilot.press("c", "v")
        assert isinstance(self.app.screen, CurvesScreen)
        self._note(name)
        self.app.screen.dismiss()
        screen.dismiss()
        await self.until(self.pilot, lambda: self.app.screen is not screen)

    def _rest(self, screen: RunScreen, name: str) -> None:
        """What does not depend on the file is there."""
        view = screen.view
        assert view is not None
        if name != paths.EVENTS and len(screen.query_one(RankGrid)._rows) < 8:
            self.wrong.append(f"{name}: without it, the ranks are not shown")
        if not name.startswith(paths.LOGS) and not screen.query_one(LogView)._total:
            self.wrong.append(f"{name}: without it, no output is shown")
        if not name.startswith(paths.CURVES) and not view.curves.names:
            self.wrong.append(f"{name}: without it, no curves are shown")

    def _note(self, name: str) -> None:
        """Note what has failed, and what would reach the terminal."""
        self.wrong += [f"{name}: {pane} failed" for pane in covered(self.app)]
        if not painted(self.app).isprintable():
            self.wrong.append(f"{name}: a control character")

    async def list_all(self, runs: list[Path]) -> None:
        """See all runs in the list, each in full, and compared with others."""
        await self.pilot.press("f2")
        await self.until(self.pilot, lambda: isinstance(self.app.screen, HistoryScreen))
        history = self.app.screen
        assert isinstance(history, HistoryScreen)
        await self.until(self.pilot, lambda: len(history.shown()) == len(runs))
        for _ in runs:
            await self.pilot.press("down")
        self._note("the list")
        for first in range(0, len(runs), 8):
            await self.app.push_screen(ComparisonScreen([*runs[first : first + 8], runs[0]][:8]))
            sheet = self.app.screen.query_one(ComparisonSheet)
            await self.until(self.pilot, lambda sheet=sheet: sheet.found or sheet.problem)  # type: ignore[misc]
            await self.pilot.pause()
            self._note("the comparison")
            await self.pilot.press("escape")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_spoiled_file_spoils_only_what_it_says(
    kind: str, root: Path, tmp_path: Path, project: Path, commands: FakeCommands, until: Until, home: Path
) -> None:
    spoiled = dict(spoiled_runs(root, recorded_run(tmp_path), kind))
    app = RankdeckApp(root=root, workdir=project, commands=commands, survives=True)
    async with app.run_test(size=(120, 40)) as pilot:
        reading = Reading(app, pilot, until)
        for name, run in spoiled.items():
            await reading.look(name, run)
        await reading.list_all([*spoiled.values()])
        await pilot.press("ctrl+c", "ctrl+c")

    told = failure_log().read_text() if failure_log().exists() else ""
    failure_log().unlink(missing_ok=True)
    assert "" == told
    assert [] == reading.wrong
    assert 0 == app.return_code


async def test_notices_and_titles_send_no_control_characters(
    root: Path, tmp_path: Path, project: Path, commands: FakeCommands, until: Until
) -> None:
    app = RankdeckApp(root=root, workdir=project, open_run=record_demo(root, seconds=12), commands=commands)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: getattr(app.screen, "view", None))
        app.screen.notify(f"copied {HOSTILE} here", markup=False)
        app.screen.query_one(RankGrid).entitle(f"above {HOSTILE}", f"below {HOSTILE}")
        await until(pilot, lambda: all(word in painted(app) for word in ("copied", "above", "below")))
        assert "[red]" in painted(app)
        assert painted(app).isprintable()


@pytest.mark.process
@pytest.mark.timeout(120)
def test_commands_say_what_they_cannot_read(tmp_path: Path, home: Path) -> None:
    recorded, wrong = recorded_run(tmp_path), list[str]()
    export = ("-o", f"{tmp_path}/x.zip", "--force")
    with Reader(home) as reader:
        for kind in KINDS:
            for name, run in spoiled_runs(home / "runs", recorded, kind):
                for words in (("show",), ("logs",), ("artifacts",), ("export", *export)):
                    answer = reader.run(words[0], run.name, *words[1:])
                    said = answer.out or answer.err or words[0] == "logs"
                    if answer.hung or answer.fell or answer.code not in CODES or not said:
                        wrong.append(f"{kind} in {name}, {words[0]}: {answer}")
            for flags in ((), ("--json",)):
                answer = reader.run("ps", *flags)
                if answer.hung or answer.fell or answer.code:
                    wrong.append(f"{kind}, ps {flags}: {answer}")
            shutil.rmtree(home / "runs")

    assert [] == wrong
