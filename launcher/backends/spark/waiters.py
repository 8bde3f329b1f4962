"""Who waits for what an idle session holds: whoever it is, as far as a standalone master's pages show.

An application waits if it has got no executor yet, or fewer cores than the limit that it was started with; an
elastic one of ours has enough before that, which its name says. One without a limit takes what it gets, and
does not wait once it has something. Where the pages cannot be read, and with other masters, only the user's
own runs are known, by their records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import pages, records
from .session import Session
from .sizing import least_in

WAITING = "WAITING"


class Waiters:
    """Finds out who waits; it remembers the limits of applications, since these never change."""

    def __init__(self) -> None:
        self._limits: dict[str, int | None] = {}

    def __call__(self, session: Session) -> str:
        """One that waits, by name; empty if nobody does, or if the session holds nothing that others need."""
        if session.remote or session.local:
            return ""
        for run in records.waiting_runs(session.master, session.application):
            return f"run {run}"
        found = pages.live_master(session.pages or ())
        if found is None:
            return ""
        idle = {each.application for each in records.sessions().values() if not each.runs}
        waiting = waiting_applications(found[1], idle | {session.application}, self._limits_of(*found))
        return _name(waiting[0]) if waiting else ""

    def older(self, session: Session) -> str:
        """One that has waited for longer than a session's application, by name; empty if there is none."""
        found = pages.live_master(session.pages or ())
        if found is None:
            return ""
        waiting = waiting_applications(found[1], {session.application}, self._limits_of(*found))
        first = submitted_before(found[1], session.application, waiting)
        return _name(first) if first else ""

    def _limits_of(self, page: str, state: Mapping[str, Any]) -> Mapping[str, int | None]:
        """The limits of the applications that have something; each application's page is read once."""
        running = [app["id"] for app in pages.active_applications(state) if app.get("state") != WAITING]
        self._limits = {
            app: self._limits[app] if app in self._limits else pages.core_limit(page, app) for app in running
        }
        return self._limits


def waiting_applications(
    state: Mapping[str, Any], own: set[str], limits: Mapping[str, int | None]
) -> list[Mapping[str, Any]]:
    """The applications that wait: their entries on the master's page.

    One whose executors are too large for every worker does not count: nothing that is given up helps it.

    Args:
        state: the master's page.
        own: the ids of applications that do not count.
        limits: the cores to which applications are limited, by id; None for no limit.
    """
    workers = [worker for worker in state.get("workers", ()) if worker.get("state") == "ALIVE"]
    most = max((worker.get("memory", 0) for worker in workers), default=0)
    return [
        app
        for app in pages.active_applications(state)
        if app["id"] not in own
        and app.get("memoryperexecutor", 0) <= most
        and (app.get("state") == WAITING or app.get("cores", 0) < _wanted(app, limits))
    ]


def _wanted(app: Mapping[str, Any], limits: Mapping[str, int | None]) -> int:
    """The cores with which an application is content; 0 if it takes what it gets."""
    least = least_in(str(app.get("name")))
    return (limits.get(app["id"]) or 0) if least is None else least


def submitted_before(
    state: Mapping[str, Any], own: str, waiting: list[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """The first of those that wait, if the master has known it for longer than the application `own`."""
    begins = {app["id"]: app.get("starttime", 0) for app in pages.active_applications(state)}
    first = min(waiting, key=lambda app: begins[app["id"]], default=None)
    return first if first is not None and begins[first["id"]] < begins.get(own, 0) else None


def _name(app: Mapping[str, Any]) -> str:
    return f"application {app.get('name')} ({app['id']})"
