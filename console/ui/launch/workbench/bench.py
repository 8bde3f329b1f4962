"""The launch screen's panes together: which are shown, and what they show for the target that is filled in.

While Target is empty, or names nothing, the trainings found here are shown with a preview of one; then what
differs from the last run of it, and the map of its ranks. All reading happens in threads.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on, work
from textual.message import Message
from textual.worker import get_current_worker

from launcher.errors import LauncherError
from launcher.runs.status import Status

from ....data.history.query import all_runs
from ....data.launch.detect import Detected
from ....data.launch.draft import Draft, Misfit
from ....data.launch.targets import Candidate
from ..panes import RecentRuns
from .found import TrainingList
from .layout import FOUND, PLAN, PREVIEW, RECENT, LaunchPanes, shown
from .plan import LaunchPlan
from .preview import SourcePreview
from .reader import FolderReader

if TYPE_CHECKING:
    from textual.timer import Timer
    from textual.widget import Widget

    from ....data.launch.changes import SinceLast
    from ....data.launch.places import PlacementMap
    from ....data.launch.preview import Preview

_SETTLED_S = 0.12
"""How long nothing is typed before the plan is made again."""


class Workbench(LaunchPanes):
    """The form, past runs, and the panes that depend on the target."""

    class Picked(Message):
        """A training was chosen."""

        def __init__(self, target: str) -> None:
            super().__init__()
            self.target = target

    class TrainingsFound(Message):
        """Trainings of the folder; `done` with the last."""

        def __init__(self, found: tuple[Candidate, ...], *, done: bool) -> None:
            super().__init__()
            self.found, self.done = found, done

    class PreviewRead(Message):
        """A target was read."""

        def __init__(self, preview: Preview) -> None:
            super().__init__()
            self.preview = preview

    class PlanMade(Message):
        """The places of a draft's ranks, and its differences from the last run, are known."""

        def __init__(self, draft: Draft, places: PlacementMap | None, since: SinceLast | None) -> None:
            super().__init__()
            self.draft, self.places, self.since = draft, places, since

    def __init__(
        self, form: Widget, recent: RecentRuns, root: Path, workdir: Path, *, seeking: bool = True
    ) -> None:
        self._found, self._preview, self._plan = TrainingList(), SourcePreview(id=PREVIEW), LaunchPlan()
        super().__init__(form, recent, self._found, self._preview, self._plan, id="launch")
        self._recent, self._root, self._workdir = recent, root, workdir
        self.seeking = seeking
        self._recent_first: bool | None = None
        self._draft: Draft | None = None
        self._planned: tuple[Draft, Detected | None] | None = None
        self._detected: Detected | None = None
        self._timer: Timer | None = None
        self._reader = FolderReader(workdir, self._publish)

    def _publish(self, found: tuple[Candidate, ...], done: bool) -> None:
        self.post_message(self.TrainingsFound(found, done=done))

    def on_mount(self) -> None:
        """Show the panes that fit; the folder is read after the first frame."""
        self.fit()
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self._lead())
        self.call_after_refresh(self._read)

    def on_resize(self) -> None:
        """Show the panes that fit."""
        self.fit()

    def on_unmount(self) -> None:
        """Stop reading."""
        self._reader.stop()

    def pause(self) -> None:
        """Stop reading while another screen is shown."""
        self._reader.stop()

    def resume(self) -> None:
        """Read again what may have changed meanwhile."""
        self._planned = None
        self._replan()
        self._read()

    def _read(self) -> None:
        if self.seeking:
            self._reader.start()

    # --- which panes -----------------------------------------------------------------------------------

    def fit(self) -> None:
        """Show the panes for which there is room."""
        first = not self.seeking and (bool(self._recent.items) or not self._recent.listed)
        first = first if self._recent_first is None else self._recent_first
        panes = shown(self.app.size, seeking=self.seeking, recent_first=first)
        for name, pane in (
            (RECENT, self._recent),
            (FOUND, self._found),
            (PREVIEW, self._preview),
            (PLAN, self._plan),
        ):
            pane.display = name in panes
        self._follow()
        self._replan()

    def prefer(self, *, recent: bool) -> Widget:
        """Show the past runs, or the pane beside them, where only one has room; return the one to focus."""
        self._recent_first = recent
        self.fit()
        return self._recent if recent else self._found if self.seeking else self._plan

    @property
    def choosing(self) -> bool:
        """Whether the keys of the Target field choose one of the trainings."""
        return self.seeking and self._found.display and bool(self._found.items) and self._found.led

    def _lead(self) -> None:
        focused = self.screen.focused
        self._found.lead(focused is not None and focused.id == "target")

    # --- looking for a target --------------------------------------------------------------------------

    def edited(self, draft: Draft) -> None:
        """The form was edited: show the pane for it, and make the plan again in a moment."""
        self._draft = draft
        if not draft.target:
            self._seek("", seeking=True)
        elif self.seeking and self._found.query_text:
            self._found.narrow(draft.target)
        self._replan()

    def settle(self, draft: Draft, misfit: Misfit | None) -> bool:
        """The draft was checked; return whether its target names nothing, and others are offered."""
        lost = misfit is not None and misfit.field == "target"
        seeking = not draft.target or (lost and self._found.matches(draft.target))
        self._seek(draft.target if seeking else "", seeking=seeking)
        return seeking and bool(draft.target)

    def _seek(self, query: str, *, seeking: bool) -> None:
        if seeking:
            self._found.narrow(query)
        if seeking != self.seeking:
            self.seeking = seeking
            self.fit()
            self._read()

    def move(self, by: int) -> bool:
        """Move the cursor of the list; return whether it could be moved."""
        before = self._found.cursor
        if self.choosing:
            self._found.action_move(by)
        return self._found.cursor != before

    def choose(self) -> None:
        """Take the training under the cursor."""
        self._found.action_choose()

    @on(TrainingsFound)
    def _show_found(self, message: TrainingsFound) -> None:
        self._found.show(message.found, done=message.done)

    @on(TrainingList.Chosen, "#found")
    def _chosen(self, message: TrainingList.Chosen) -> None:
        message.stop()
        self.post_message(self.Picked(self._found.items[message.index].target))

    @on(TrainingList.Highlighted)
    def _follow(self) -> None:
        """Preview the training under the cursor, if there is a pane for it."""
        if not self._preview.display:
            return
        if (candidate := self._found.chosen) is None:
            self._preview.show(None)
        elif self._preview.preview is None or self._preview.preview.target != candidate.target:
            self._read_preview(candidate.target)

    @work(thread=True, exclusive=True, group="preview")
    def _read_preview(self, target: str) -> None:
        from ....data.launch.preview import preview_of  # not needed for the first frames, as all below

        worker = get_current_worker()
        preview = preview_of(target, self._workdir)
        if not worker.is_cancelled:
            self.post_message(self.PreviewRead(preview))

    @on(PreviewRead)
    def _show_preview(self, message: PreviewRead) -> None:
        if (chosen := self._found.chosen) is not None and chosen.target == message.preview.target:
            self._preview.show(message.preview)

    # --- before the launch -----------------------------------------------------------------------------

    def know(self, detected: Detected) -> None:
        """What this machine has is known."""
        self._detected = detected
        self._replan()

    def _replan(self) -> None:
        """Make the plan again once nothing has been typed for a moment."""
        draft = self._draft
        if draft is None or not self._plan.display or (draft, self._detected) == self._planned:
            return
        if self._timer is None:
            self._timer = self.set_timer(_SETTLED_S, self._make_plan)
        else:
            self._timer.reset()

    def _make_plan(self) -> None:
        self._timer = None
        if self._draft is not None and self._plan.display:
            self._planned = self._draft, self._detected
            self._plan_for(self._draft, self._detected)

    @work(thread=True, exclusive=True, group="plan")
    def _plan_for(self, draft: Draft, detected: Detected | None) -> None:
        from ....data.launch.changes import since_last
        from ....data.launch.places import placement_map

        worker = get_current_worker()
        places = placement_map(draft, detected) if detected is not None else None
        since = since_last(draft, self._runs(), self._root, time.time())
        if not worker.is_cancelled:
            self.post_message(self.PlanMade(draft, places, since))

    def _runs(self) -> Iterator[Status]:
        """All runs, newest first; none if their folder cannot be read."""
        try:
            yield from all_runs(self._root)
        except LauncherError:
            return

    @on(PlanMade)
    def _show_plan(self, message: PlanMade) -> None:
        if message.draft == self._draft:
            self._plan.show(message.places, message.since)
