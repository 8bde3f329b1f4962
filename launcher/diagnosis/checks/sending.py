"""Checks of the target, of what it needs on hosts, and of paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...errors import size_text
from ...state.host_facts import PathFacts
from ...state.outcome_rules import listed
from .check import Check, failed, passed, unknown, warned
from .facts import CheckedLaunch

PICKLE_WARN = 16 << 20
_SHOWN = 5
WRITTEN = frozenset({"--spool"})
"""Options whose path must be writable on hosts."""


def target(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether the target could be packed."""
    if (refused := launch.caller.target) is not None:
        yield failed("target", refused.message, refused.hint or "see the message")
    elif launch.spec.target.source or launch.caller.pickle is not None:
        sent = f": {launch.caller.sent}" if launch.caller.sent else ""
        yield passed("target", f"{launch.spec.target.label or 'the target'} can be started{sent}")


def imports(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether every module that the target imports is on every host."""
    caller, check = launch.caller, "target.imports"
    if not launch.hosts or caller.parsed is None:
        return
    lacking = {name: hosts for name in caller.needed if (hosts := _without(launch, name))}
    lazy = {name: hosts for name in caller.lazy if (hosts := _without(launch, name))}
    remedy = "install it for the executors' Python, or --python; --py-files sends modules of your own"
    for name, hosts in lacking.items():
        yield failed(check, f"{name} is not installed on {listed(hosts, most=_SHOWN)}", remedy, hosts)
    for name, hosts in lazy.items():
        text = f"{name}, imported within a function, is not installed on {listed(hosts, most=_SHOWN)}"
        yield warned(check, text, remedy, hosts)
    if not caller.parsed:
        yield unknown(check, "the target's source cannot be read from here")
    elif not lacking and not lazy:
        names = listed(list(caller.needed), most=_SHOWN) or "the standard library alone"
        yield passed(check, f"every host has what the target imports: {names}")


def _without(launch: CheckedLaunch, module: str) -> list[str]:
    """The hosts that have said that they lack a module."""
    return [name for name, facts in launch.hosts if facts.installed.modules.get(module) is False]


def size(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether the pickled function is small."""
    caller = launch.caller
    if caller.pickle is None:
        return
    if caller.pickle < PICKLE_WARN:
        yield passed("target.size", f"the pickled function has {size_text(caller.pickle)}")
        return
    largest = [f"{each.name} ({each.kind}, {size_text(each.size)})" for each in caller.captured]
    takes = f"; it takes along {listed(largest, most=_SHOWN)}" if largest else ""
    remedy = "load large values in the function itself, from storage that all hosts see"
    yield warned("target.size", f"the pickled function has {size_text(caller.pickle)}{takes}", remedy)


def option_paths(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether paths that options name can be used on all hosts."""
    wanted = launch.caller.option_paths
    if not wanted or not launch.hosts:
        return
    found = list(_bad_paths(launch, wanted))
    yield from found
    if not found:
        yield passed("paths", f"{listed(list(wanted.values()))} can be used on all hosts")


def _bad_paths(launch: CheckedLaunch, wanted: Mapping[str, str]) -> Iterator[Check]:
    for path, option in wanted.items():
        for name, facts in launch.hosts:
            if "paths" in facts.unanswered:
                yield unknown("paths", f"{path}: {facts.unanswered['paths']} on {name}", [name])
                continue
            own = next((each for each in facts.paths if each.path == path), PathFacts(path))
            if why := _path_trouble(own, written=option in WRITTEN):
                yield failed(
                    "paths", f"{option} {path} {why} on {name}", "make it there, or name another", [name]
                )


def _path_trouble(path: PathFacts, *, written: bool) -> str:
    if not path.exists:
        return "does not exist"
    if written and not path.writable:
        return "cannot be written to"
    return "" if path.readable else "cannot be read"


def argument_paths(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether paths among the target's arguments that exist here exist on hosts too."""
    wanted = launch.caller.argument_paths
    if not wanted or not launch.hosts:
        return
    lacking: dict[str, list[str]] = {}
    for name, facts in launch.hosts:
        known = {each.path: each.exists for each in facts.paths}
        for path in wanted:
            if known.get(path) is False:
                lacking.setdefault(path, []).append(name)
    for path, hosts in lacking.items():
        text = f"{path} exists here, and not on {listed(hosts, most=_SHOWN)}"
        yield warned("paths.arguments", text, "put it on shared storage, or send it with --files", hosts)
    if not lacking:
        yield passed("paths.arguments", f"{listed(list(wanted))} exists on all hosts")


def workdir(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether the working folder can be used."""
    if (folder := launch.caller.workdir) is None:
        return
    if not folder.trouble:
        copies = " (hosts without it get copies)" if launch.spec.mode.traits.ships_sources else ""
        yield passed("workdir", f"{folder.path}{copies}")
    elif launch.spec.mode.traits.one_host:
        yield warned("workdir", folder.trouble, "ranks cannot write there: --workdir names another folder")
    else:
        yield passed("workdir", f"{folder.path} (hosts without it get copies, where ranks can write)")
