"""What a person who looks away from an open run is told: its title, its end, its first alert. Pure."""

from __future__ import annotations

from launcher.notify.notice import Notice, alert_in, end_notice, notice_of

from .health import GANG, Condition
from .model import RunView


def title_of(view: RunView) -> str:
    """The run's name, state and share of its steps, for a terminal's title."""
    state, progress = view.state, view.progress
    share = ""
    if view.live and progress.step is not None and progress.total:
        share = f" {min(max(int(100 * progress.step / progress.total), 0), 100)} %"
    return f"{state.name or state.id}: {state.phase.value}{share}"


class NewNotices:
    """Finds what is new in each view of one run; what had happened before the first one is not told.

    That first view may lack some of the run's past; so an alert counts only if it began after it.
    """

    def __init__(self) -> None:
        self._since: float | None = None
        self._told: set[str] = set()

    def of(self, view: RunView) -> list[Notice]:
        """The notices of a newer view: an end once, and the first alert once."""
        if self._since is None:
            self._since = view.now
            self._told = {"end"} if not view.live else set()
            if _facts(view):
                self._told.add("alert")
            return []
        found = []
        if "alert" not in self._told and (why := _facts(view) or _figures(view, self._since)):
            self._told.add("alert")
            found.append(notice_of(view.state, "alert", why))
        if "end" not in self._told and not view.live:
            self._told.add("end")
            found.append(end_notice(view.state))
        return found


def _facts(view: RunView) -> str:
    """The alert that the run's owner tells of too. Every rank is read only if there is one."""
    state = view.state
    others = (state.near, state.xids, state.recording, state.restarts)
    return alert_in(state, view.now) if view.conditions.get(Condition.HUNG) or any(others) else ""


def _figures(view: RunView, since: float) -> str:
    """An alert about a figure that goes on and began after a moment."""
    new = (each for each in view.alerts if each.over is None and each.since >= since)
    if (first := next(new, None)) is None or not view.live:
        return ""
    return first.what if first.rank == GANG else f"rank {first.rank}: {first.what}"
