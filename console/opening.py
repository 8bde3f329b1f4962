"""The way into the console and out of it: a person's settings, a clean terminal, words for the way back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from console.app import RankdeckApp
from console.commands import Commands
from console.echo import say
from console.settings import load
from console.terminal import quiet_descriptors

if TYPE_CHECKING:
    from console.sources.drafts import Draft


def run_console(
    *,
    root: Path,
    workdir: Path,
    open_run: Path | None = None,
    draft: Draft | None = None,
    commands: Commands | None = None,
    farewell: Callable[[str], None] | None = None,
    look: Mapping[str, object] | None = None,
    page: tuple[int, int] | None = None,
) -> int:
    """Show the console until a person leaves it, and return the exit code.

    The form is filled from `draft`. `look` comes before a person's settings: theme, mouse and ascii, None
    for what is left to them. `farewell` is told the run that was open and goes on; without one, how to see
    it again is said on stderr. `page` is for a console in a browser: its columns and rows.
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
        paint_first=True,
        survives=True,
    )
    with quiet_descriptors(page=page is not None):
        code = app.run(mouse=settings.mouse, size=page)
    if app.left_running is not None:
        (farewell or _say_how_to_return)(app.left_running)
    return app.return_code or code or 0


def _say_how_to_return(run: str) -> None:
    say(f"run {run} goes on; see it again with: rankdeck attach {run}")
