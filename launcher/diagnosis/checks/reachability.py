"""Checks of the network between hosts and the engine, and of clocks."""

from __future__ import annotations

from collections.abc import Iterator

from ...channel.network import is_loopback
from ...errors import counted
from ...placement.refusals import EngineCutOff
from ...state.host_facts import DialFacts, HostFacts
from ...state.outcome_rules import listed
from ..cluster_rules import CLOCK_LIMIT_S
from .check import Check, failed, passed, unknown, warned
from .facts import CheckedLaunch

SKEW_FAIL_S = 300.0
INTERFACE_NAMES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
MOST_DIALLED = 64
"""Of so many other hosts at most, each host dials every one."""

_SHOWN = 3


def engine(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether and how the agents have reached the engine."""
    examined, check = launch.examined, "network.engine"
    if (error := examined.error) is not None and error.kind == EngineCutOff.__name__:
        yield failed(check, error.message, error.hint or "look at routes and firewalls to this machine")
    elif examined.hosts and launch.spec.mode.traits.scheduled:
        yield passed(check, examined.way or "all agents have reached this machine")


def between_hosts(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether every host reaches every other one, as far as each was asked to dial the others."""
    if len(launch.hosts) < 2:
        if launch.examined.lacking:
            yield unknown("network.hosts", "agents of one host came alone: nobody could say whom it reaches")
        return
    tried = {name: _by_host(launch, facts) for name, facts in launch.hosts}
    least = min(len(launch.hosts) - 1, MOST_DIALLED)
    silent = [name for name, others in tried.items() if len(others) < least]
    broken = [(a, b, d) for a, others in tried.items() for b, d in others.items() if not _reached(d)]
    for name, other, dials in broken:
        remedy = f"look at routes and firewalls from {name} to {other}, for all ports above 1024"
        yield failed("network.hosts", f"{name} cannot reach {other}: {_why(dials)}", remedy, [name, other])
    if silent:
        yield unknown("network.hosts", f"{listed(silent)} did not say whom they reach", silent)
    if not broken and not silent:
        ways = {d.interface for _, facts in launch.hosts for d in facts.dials if not d.error and d.interface}
        on = f", on {listed(sorted(ways))}" if ways else ""
        hosts = counted(len(launch.hosts), "host")
        yield passed("network.hosts", f"{hosts} reach each other both ways{on}")


def _by_host(launch: CheckedLaunch, facts: HostFacts) -> dict[str, list[DialFacts]]:
    """A host's dials, by the host that was dialled."""
    found: dict[str, list[DialFacts]] = {}
    for each in facts.dials:
        found.setdefault(launch.names.get(each.agent, "an unknown host"), []).append(each)
    return found


def _reached(tried: list[DialFacts]) -> bool:
    """Whether one of the addresses led to the host; its loopback addresses are those of any host."""
    return any(not each.error and not is_loopback(each.address) for each in tried) or (
        bool(tried) and all(is_loopback(each.address) for each in tried) and not all(e.error for e in tried)
    )


def _why(tried: list[DialFacts]) -> str:
    outside = [each for each in tried if not is_loopback(each.address)] or tried
    return listed([f"{e.address}: {e.error}" for e in outside if e.error], most=_SHOWN, joint="; ", last="; ")


def interface(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether the interfaces that variables name exist on every host."""
    for variable in INTERFACE_NAMES:
        if not (wanted := launch.spec.env.get(variable, "")):
            continue
        lacking = [
            name for name, facts in launch.hosts if not _has_interface(wanted, facts.interfaces, variable)
        ]
        if lacking:
            text = f"{variable}={wanted}, and {listed(lacking)} has no such interface"
            yield failed(
                "network.interface", text, "leave it out: it is set to the one that is used", lacking
            )
        else:
            yield passed("network.interface", f"{variable}={wanted} fits all hosts")


def _has_interface(wanted: str, present: object, variable: str) -> bool:
    """Whether a host has an interface that the value selects, as the library of that variable reads it.

    NCCL takes beginnings of names, names behind ``=``, and with ``^`` all others; the others take names.
    """
    names = list(present) if isinstance(present, dict) else []
    if variable != INTERFACE_NAMES[0]:
        return all(each in names for each in wanted.split(","))
    if wanted.startswith("^"):
        return any(not _fits(name, wanted[1:]) for name in names)
    return any(_fits(name, wanted) for name in names)


def _fits(name: str, wanted: str) -> bool:
    exact, wanted = wanted.startswith("="), wanted.removeprefix("=")
    return any(name == each if exact else name.startswith(each) for each in wanted.split(","))


def clock(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether hosts' clocks go like this one's."""
    if not launch.examined.hosts or launch.spec.mode.traits.one_host:
        return
    offsets = {launch.names[each.agent]: each.clock_offset for each in launch.examined.hosts}
    behind = {name: value for name, value in offsets.items() if abs(value) >= CLOCK_LIMIT_S}
    for name, value in behind.items():
        text = f"the clock of {name} is {abs(value):,.1f} s {'ahead of' if value > 0 else 'behind'} this one"
        make = failed if abs(value) >= SKEW_FAIL_S else warned
        yield make(
            "clock", text, "let NTP or chrony set it: certificates and file times depend on it", [name]
        )
    if not behind:
        worst = max(map(abs, offsets.values()))
        yield passed("clock", f"clocks differ by {worst * 1000:.0f} ms at most")
