"""Starting a past run again: it is shown first, and starts only if a person confirms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from textual import work

from launcher.errors import LauncherError
from launcher.runs.reader import read_spec
from launcher.spec.request import Request

from ..data.launch.rerun import FOREIGN, is_own, request_again, spec_lines, what_would_run
from .dialogs import ConfirmScreen, StartScreen
from .navigation import NavigableScreen, launch_screen


class StartsAgain(NavigableScreen):
    """A screen from which a past run can be started again unchanged."""

    _starting = False

    def ask_again(self, run: Path) -> None:
        """Show what `run` was, and start the same if a person confirms; one question at a time."""
        if not self._starting:
            self._starting = True
            self._read_again(run)

    @work(thread=True, group="again")
    def _read_again(self, run: Path) -> None:
        """Read the run and ask; in a thread, because the target's source may be on a slow file system."""
        site = launch_screen(self.app).site
        try:
            spec = read_spec(run)
            make: Callable[[], Request] = partial(request_again, run, root=site.root)
            if is_own(run, site.root):
                request = make()  # raises now, before the question, if something is missing
                make = lambda: request  # noqa: E731
                question: ConfirmScreen = StartScreen(spec_lines(spec))
            else:
                question = ConfirmScreen(
                    FOREIGN, what_would_run(spec), verb="run it as me", otherwise="do not run it"
                )
        except LauncherError as error:
            self._refuse_again(str(error))
        except BaseException:
            self._starting = False
            raise
        else:
            self.app.call_from_thread(self.app.push_screen, question, lambda yes: self._confirmed(make, yes))

    def _confirmed(self, make: Callable[[], Request], yes: bool | None) -> None:
        if yes:
            self.notify("starting …", markup=False)
            self._start_again(make)
        else:
            self._starting = False

    @work(thread=True, group="again")
    def _start_again(self, make: Callable[[], Request]) -> None:
        site = launch_screen(self.app).site
        try:
            run = site.root / site.commands.start(make())
        except LauncherError as error:
            self._refuse_again(str(error))
        else:
            self.app.call_from_thread(self._show_started, run)
        finally:
            self._starting = False

    def _refuse_again(self, problem: str) -> None:
        self._starting = False
        self.notify(problem, severity="error", markup=False)

    def _show_started(self, run: Path) -> None:
        from .run.screen import RunScreen

        self.app.push_screen(RunScreen(run, launch_screen(self.app).site.commands))
