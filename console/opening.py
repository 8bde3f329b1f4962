"""The way into the console and out of it: a person's settings, a clean terminal, words for the way back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from console.app import RankdeckApp
from console.commands import Commands
from console.settings import load
from console.sources.drafts import Draft
from console.terminal import quiet_descriptors


def run_console(
    *,
    root: Path,
    workdir: Path,
    open_run: Path | None = None,
    draft: Draft | None = None,
    commands: Commands | None = None,
    farewell: Callable[[str], None] | None = None,
    look: Mapping[str, object] | None = None,
) -> int:
    """Show the console until a person leaves it, and return the exit code.

    The form is filled from `draft`. `look` comes before a person's settings: theme, mouse and ascii, None
    for what is left to them. `farewell` is told the run that was open and goes on; without one, how to see
    it again is said on stderr.
    """
    settings = load(look)
    app = RankdeckApp(
        root=root,
        workdir=workdir,
        open_run=open_run,
        draft=draft,
        commands=commands,
        settings=settings,
        handle_signals=True,
    )
    with quiet_descriptors():
        code = app.run(mouse=settings.mouse)
    if app.left_running is not None:
        (farewell or _say_how_to_return)(app.left_running)
    return app.return_code or code or 0


def _say_how_to_return(run: str) -> None:
    sys.stderr.write(f"run {run} goes on; see it again with: rankdeck attach {run}\n")
