"""Versions of hosts' packages: which hosts have which, and how that is told. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..state.outcome_rules import listed


def minor(version: str) -> str:
    """The first two numbers of a version, such as ``3.11``."""
    return ".".join(version.split(".")[:2])


def release(version: str) -> str:
    """A version without its build: wheels of one release are built for several versions of CUDA."""
    return version.partition("+")[0]


def by_version(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The hosts of every version, each once, in the order in which they come.

    Args:
        pairs: of each host, or of each of its agents, the name and the version.
    """
    hosts: dict[str, dict[str, None]] = {}
    for host, version in pairs:
        hosts.setdefault(version, {})[host] = None
    return {version: list(those) for version, those in hosts.items()}


def rarest_first(versions: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """The same, the rarest version first: it is probably the wrong one."""
    return dict(sorted(versions.items(), key=lambda item: (len(item[1]), item[0])))


def spread(what: str, versions: Mapping[str, Sequence[str]]) -> str:
    """Which hosts have which version of something, in a sentence: ``torch 2.12 on a, 2.13 on b and c``."""
    each = [f"{version} on {listed(hosts)}" for version, hosts in versions.items()]
    return f"{what} {listed(each, last=', ')}"
