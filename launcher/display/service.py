"""Sentences on a framework's own processes beside the ranks. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import counted
from ..state.outcome_rules import SERVICES_LIMIT_S
from ..state.run_state import RunState, Service


def new_services(before: RunState, after: RunState) -> Iterator[str]:
    """What is new in `after` of services that take their time, or have a page."""
    if not tells(after):
        return
    told = tells(before) and before.attempt == after.attempt
    awaited, waited = awaited_line(after), awaited_line(before) if told else ""
    if awaited and not waited:
        yield awaited
    if not awaited and after.stop is None and (waited or not told):
        yield service_line(after)


def awaited_line(state: RunState) -> str:
    """The services that the ranks wait for, and for how long; empty if they wait for none."""
    late = [each for each in state.services if each.ready is None]
    if not late or state.stop is not None or state.phase.final:
        return ""
    count = len(state.services)
    of = f", {count - len(late)} of {count} ready" if count > 1 else ""
    return f"waiting for {late[0].name} on {late[0].host}{of}, at most {SERVICES_LIMIT_S:g} s"


def service_line(state: RunState) -> str:
    """The services, and the page of the first that has one; empty without any."""
    if not state.services:
        return ""
    first, count = state.services[0], len(state.services)
    more = f" and {counted(count - 1, 'more node')}" if count > 1 else ""
    page = f", {found}" if (found := service_page(state)) else ""
    return f"{first.name} on {first.host}{more}{page}"


def service_page(state: RunState) -> str:
    """The address of the services' page for browsers; empty without one."""
    return next((each.url for each in state.services if _is_page(each)), "")


def _is_page(service: Service) -> bool:
    return service.url.startswith(("http://", "https://"))


def tells(state: RunState) -> bool:
    """Whether people want to know of the services: they are nodes, or have a page."""
    return len(state.services) > 1 or bool(service_page(state))
