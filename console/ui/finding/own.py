"""Commands of the user: the values of their placeholders on a screen, and how they are run."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.errors import LauncherError

from ...data.cluster.model import EngineView, WorkView
from ...data.finding.own import OwnCommand, filled
from ...data.launch.draft import split_target
from ...formatting import one_line
from ...sanitize import escaped, printable
from ..cluster.screen import ClusterScreen
from ..external import cannot_start, ended, may_run, run_in_terminal
from ..history.screen import HistoryScreen
from ..launch.panes import RecentRuns
from ..launch.screen import LaunchScreen
from ..run.rank_grid import RankGrid
from ..run.screen import RunScreen

if TYPE_CHECKING:
    from textual.app import App
    from textual.screen import Screen

    from launcher.state.ranks import Rank

_SCREENS: Mapping[str, type[Screen[Any]]] = {
    "launch": LaunchScreen,
    "run": RunScreen,
    "history": HistoryScreen,
    "cluster": ClusterScreen,
}
_MOST_OUTPUT, _SAID = 4096, 200
_OF_A_RUN = frozenset({"run", "folder", "rank", "pid", "host", "file", "line"})


@dataclass(frozen=True, slots=True)
class Around:
    """What is under the cursor of a screen: the values of placeholders, and the run that they come from."""

    values: Mapping[str, str] = field(default_factory=dict)
    run: Path | None = None


def is_offered(command: OwnCommand, screen: Screen[Any]) -> bool:
    """Whether a command can be run on a screen."""
    return any(isinstance(screen, _SCREENS[place]) for place in command.where)


def around(screen: Screen[Any]) -> Around:
    """What is under the cursor of a screen."""
    if isinstance(screen, RunScreen):
        return _around_run(screen)
    if isinstance(screen, HistoryScreen):
        run = screen.chosen()
        return Around() if run is None else _of_run(screen.folder(run), {"host": run.host})
    if isinstance(screen, ClusterScreen):
        return _around_machine(screen)
    return _around_form(screen) if isinstance(screen, LaunchScreen) else Around()


def _of_run(folder: Path, values: Mapping[str, str]) -> Around:
    return Around({"run": folder.name, "folder": os.fspath(folder.absolute()), **values}, folder)


def _around_run(screen: RunScreen) -> Around:
    view = screen.view
    if view is None or not view.ranks:
        return _of_run(screen.run, {})
    number = screen.query_one(RankGrid).cursor
    rank = view.ranks[min(number, len(view.ranks) - 1)].rank
    values = {"rank": str(rank.rank), "host": rank.host}
    if rank.pid is not None and rank.alive:
        values["pid"] = str(rank.pid)
    place = _failed_at(rank) or _failed_at(view.state.first_failure)
    return _of_run(screen.run, values | place)


def _failed_at(rank: Rank | None) -> dict[str, str]:
    """Where a rank's own code raised; empty if it did not."""
    frames = rank.raised.frames if rank is not None and rank.raised is not None else ()
    if not frames:
        return {}
    file, line, _ = frames[-1]
    return {"file": file, "line": str(line)} if os.path.isabs(file) else {}


def _around_machine(screen: ClusterScreen) -> Around:
    chosen = screen.chosen
    if isinstance(chosen, WorkView):
        return _of_run(screen.site.root / chosen.run, {})
    if isinstance(chosen, EngineView):
        return Around({"pid": str(chosen.pid)})
    host = getattr(getattr(chosen, "host", None), "host", "")
    held = getattr(chosen, "held", ())
    if held:
        return _of_run(screen.site.root / held[0].run, {"host": host, "rank": str(held[0].ranks[0])})
    return Around({"host": host})


def _around_form(screen: LaunchScreen) -> Around:
    if isinstance(screen.focused, RecentRuns):
        run = screen.focused.chosen
        return Around() if run is None else _of_run(screen.site.root / run.id, {"host": run.host})
    source, _ = split_target(screen.draft.target)
    file = Path(screen.draft.base, os.path.expanduser(source)) if source else None
    if file is None or "\0" in source or not file.is_file():
        return Around()
    return Around({"file": os.fspath(file.absolute()), "line": "1"})


def run_own(app: App[Any], command: OwnCommand) -> None:
    """Run a command for what is under the cursor of the present screen, or tell why it is not run."""
    here = around(app.screen)
    problem = may_run(app, here.run if command.needs & _OF_A_RUN else None)
    argv: list[str] = []
    if not problem:
        try:
            argv = filled(command, here.values)
        except LauncherError as error:
            problem = str(error)
    if problem:
        app.notify(problem, severity="warning", markup=False)
    elif command.terminal:
        if outcome := run_in_terminal(app, argv):
            app.notify(outcome, severity="warning", markup=False)
    else:
        # a thread that nothing waits for: leaving the console must not wait for the program
        work = threading.Thread(
            target=_in_background, args=(app, command.name, argv), name="rankdeck-own", daemon=True
        )
        work.start()


def _in_background(app: App[Any], name: str, argv: Sequence[str]) -> None:
    """Run a program without a terminal, in a session of its own, and tell how it ended."""
    # a file, not a pipe: the program may outlive the console, and would end at its next line
    with tempfile.TemporaryFile() as output:
        try:
            program = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        except (OSError, ValueError) as error:
            app.notify(f"{name}: {cannot_start(argv, error)}", severity="warning", markup=False)
            return
        outcome = ended(argv, program.wait())
        said = _last_line(output.fileno())
    parts = (f"{name}: {outcome or 'done'}", said)
    app.notify(
        " · ".join(filter(None, parts)), severity="warning" if outcome else "information", markup=False
    )


def _last_line(output: int) -> str:
    size = os.lseek(output, 0, os.SEEK_END)
    text = os.pread(output, _MOST_OUTPUT, max(size - _MOST_OUTPUT, 0)).decode("utf-8", "replace")
    lines = printable(text).split("\n")
    return escaped(one_line(next((line for line in reversed(lines) if line.strip()), ""), _SAID))
