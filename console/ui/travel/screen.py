"""Time travel on the run screen: its keys, and what they show instead of the newest view."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

from ...data.curves.run_curves import Axis
from ...data.run.feed import Arrange, RunFeed, usual_interval
from ...data.run.model import RunView
from ...data.travel.log_cut import LogsUntil
from ...data.travel.moment import Moment, MomentFeed
from ..curves.sheet import CurveSheet
from ..logs.pane import LogPane
from ..rerun import StartsAgain
from ..widgets.failed_pane import contained
from .timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Mapping

_AT_END_S = 0.5
TRAVEL_KEYS = (
    "travel.back", "travel.on", "travel.play", "travel.leave", "travel.second_back", "travel.second_on",
    "travel.faster", "travel.slower", "travel.home", "travel.end",
)  # fmt: skip
"""The ids of the keys in the order of the key line."""


def _key(key: str, action: str, what: str, name: str, shown_as: str | None = None) -> Binding:
    return Binding(key, action, what, key_display=shown_as, priority=True, id=name)


TRAVEL_BINDINGS: list[BindingType] = [
    _key("t", "travel", "Time travel", "run.travel"),
    _key("left_square_bracket", "travel_step(-1)", "Step back", "travel.back", "["),
    _key("right_square_bracket", "travel_step(1)", "Step on", "travel.on", "]"),
    _key("space", "travel_play", "Play", "travel.play"),
    _key("left", "travel_move(-1)", "Second back", "travel.second_back"),
    _key("right", "travel_move(1)", "Second on", "travel.second_on"),
    _key("shift+left", "travel_move(-60)", "Minute back", "travel.minute_back"),
    _key("shift+right", "travel_move(60)", "Minute on", "travel.minute_on"),
    _key("left_curly_bracket", "travel_step(-10)", "10 steps back", "travel.steps_back", "{"),
    _key("right_curly_bracket", "travel_step(10)", "10 steps on", "travel.steps_on", "}"),
    _key("home", "travel_home", "Begin", "travel.home"),
    _key("end", "travel_end", "End", "travel.end"),
    _key("plus,equals_sign,greater_than_sign", "travel_pace(1)", "Faster", "travel.faster", "+"),
    _key("minus,less_than_sign", "travel_pace(-1)", "Slower", "travel.slower", "-"),
    _key("escape", "travel_leave", "Now", "travel.leave"),
]
"""A screen's own bindings of the same keys must be in one list with these: those of a base would be lost."""


class TravelScreen(StartsAgain):
    """A screen of a run that can show it at any moment of its time; the live feed goes on behind."""

    run: Path
    now: RunView | None = None
    """The newest view of the run, also while an earlier moment is shown."""

    _feed: RunFeed
    _moments: MomentFeed | None = None
    _logs: LogsUntil | None = None
    _listed_by: Arrange | None = None

    def list_past(self, arrange: Arrange) -> None:
        """List the ranks like this at the moments to come."""
        self._listed_by = arrange
        if self._moments is not None:
            self._moments.list_ranks(arrange)

    def show_view(self, view: RunView) -> None:
        """Show a view in every pane."""
        raise NotImplementedError

    def reword_keys(self, view: RunView) -> None:
        """Name in the key line what keys do now."""
        raise NotImplementedError

    @property
    def travelling(self) -> bool:
        """Whether a moment of the past is shown."""
        return self._moments is not None

    def note_now(self, view: RunView) -> None:
        """Keep the newest view; while travelling, nothing else shows it."""
        self.now = view
        if self._moments is not None:
            self._moments.know(view)
            with contained(self):  # a search or a filter may have gone on
                self.query_one(LogPane).show(view.logs, view.size)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The keys of time travel act only in it, and not while text is typed."""
        if action.startswith("travel"):
            ready = self.now is not None and not isinstance(self.focused, Input)
            return ready and (action == "travel" or self.travelling)
        return super().check_action(action, parameters)

    def travel_words(self) -> Mapping[str, str]:
        """What keys do now, for the key line."""
        if not self.travelling:
            return {}
        shown = self.query_one(Timeline).moment
        return {
            "run.travel": "Now",
            "travel.play": "Pause" if shown is not None and shown.playing else "Play",
        }

    def on_unmount(self) -> None:
        """Stop reading the past."""
        if self._moments is not None:
            self._moments.close()

    class MomentChanged(Message):
        """There is a moment to be shown. It replaces an older one that is not yet handled."""

        def __init__(self, moment: Moment, feed: MomentFeed) -> None:
            super().__init__()
            self.moment, self.feed = moment, feed

        def can_replace(self, message: Message) -> bool:
            """Only the newest moment needs to be shown."""
            return isinstance(message, TravelScreen.MomentChanged)

    @on(MomentChanged)
    def show_moment(self, message: MomentChanged) -> None:
        """Show a moment in all panes, unless the travel has ended."""
        moment = message.moment
        if message.feed is not self._moments or self._logs is None or self.now is None:
            return
        if moment.playing and self.now.live and moment.at >= moment.end - _AT_END_S:
            self.action_travel_leave()
            return
        self._show_timeline(moment)
        self._logs.moment = moment.at
        self.show_view(moment.view)
        self._point_at(moment)

    def _show_timeline(self, moment: Moment) -> None:
        with contained(self):
            self.query_one(Timeline).show(moment)
        self.reword_keys(moment.view)

    def _point_at(self, moment: Moment) -> None:
        """Put the curves' cursor at the moment."""
        for sheet in self._curve_sheets():
            step, begin = moment.view.progress.front, moment.view.curves.begin
            at = moment.at - begin if sheet.look.axis is Axis.TIME else float(step or 0)
            with contained(self):
                sheet.change(replace(sheet.look, cursor=at))

    def _curve_sheets(self) -> list[CurveSheet]:
        # by its class, Textual finds a widget only if that is the first of its bases
        return [sheet for sheet in self.query("#charts") if isinstance(sheet, CurveSheet)]

    # --- the keys --------------------------------------------------------------------------------------

    def action_travel(self) -> None:
        """Enter time travel at the run's present, or leave it."""
        if self.travelling:
            self.action_travel_leave()
        elif self.now is not None:
            self._moments = feed = MomentFeed(
                self.run,
                self.now,
                publish=lambda moment: self._take_moment(moment, feed),
                failed=self._complain_of_past,
                interval=usual_interval(),
            )
            if self._listed_by is not None:
                feed.list_ranks(self._listed_by)
            self._logs = LogsUntil(self._feed.book)
            self.query_one(LogPane).attach(self._logs)
            began, ended = self.now.state.started or self.now.now, self.now.state.ended or self.now.now
            self._show_timeline(Moment(ended, min(began, ended), ended, self.now))
            self.refresh_bindings()
            feed.poller.start()

    def _take_moment(self, moment: Moment, feed: MomentFeed) -> None:
        self.post_message(self.MomentChanged(moment, feed))

    def _complain_of_past(self, why: str) -> None:
        self.app.call_from_thread(self.query_one(LogPane).complain, why)

    def action_travel_leave(self) -> None:
        """Show the present again."""
        if self._moments is None or self.now is None:
            return
        self._moments.close()
        self._moments = self._logs = None
        self.query_one(Timeline).show(None)
        self.query_one(LogPane).attach(self._feed.book)
        for sheet in self._curve_sheets():
            sheet.change(replace(sheet.look, cursor=None))
        self.show_view(self.now)
        self.refresh_bindings()

    def action_travel_step(self, by: int) -> None:
        """Go to a report of the leading rank."""
        if self._moments is not None:
            self._moments.step(by)

    def action_travel_move(self, seconds: int) -> None:
        """Go on by some seconds, or back."""
        if self._moments is not None:
            self._moments.move(seconds)

    def action_travel_home(self) -> None:
        """Go to the run's begin."""
        if self._moments is not None:
            self._moments.go(-math.inf)

    def action_travel_end(self) -> None:
        """Go to the end of a run that has ended; leave to the present of one that has not."""
        if self.now is not None and self.now.live:
            self.action_travel_leave()
        elif self._moments is not None:
            self._moments.go(math.inf)

    def action_travel_play(self) -> None:
        """Let time go on, or pause."""
        if self._moments is not None:
            self._moments.play()

    def action_travel_pace(self, by: int) -> None:
        """Play faster, or slower."""
        if self._moments is not None:
            self._moments.pace(by)

    @on(Timeline.Sought)
    def _seek(self, message: Timeline.Sought) -> None:
        if self._moments is not None:
            self._moments.go(message.moment)
