"""The hosts of a gang as rules of a cluster compare them: versions and clocks, with this machine's. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..placement.versions import by_version, release
from ..state.events import OriginFound
from ..state.run_state import Host, RunState

HERE = "this machine"


@dataclass(frozen=True, slots=True)
class Site:
    """A host, or the machine that the run was started from.

    Attributes:
        name: as the ranks' host, or `HERE`.
        python, torch, cuda: versions of what its ranks use; empty for those that are not known.
        offset: its clock minus the engine's, in seconds; `error` is by how much that may be wrong.
    """

    name: str
    python: str = ""
    torch: str = ""
    cuda: str = ""
    offset: float = 0.0
    error: float = 0.0


def sites_of(state: RunState, *, own_python: bool = False) -> tuple[Site, ...]:
    """The hosts of its ranks, each once, in the order of ranks; and this machine after them.

    Args:
        state: the run.
        own_python: whether ranks have another interpreter than their agents: its versions are not known.
    """
    found: dict[str, Site] = {}
    for rank in state.ranks:
        if rank.host not in found and (host := state.hosts.get(rank.agent)) is not None:
            found[rank.host] = _site(rank.host, host)
    sites = (*found.values(), _here(state.origin))
    return tuple(replace(site, python="", torch="", cuda="") for site in sites) if own_python else sites


def _site(name: str, host: Host) -> Site:
    return Site(name, host.python, host.torch, host.cuda, host.clock_offset, host.clock_error)


def _here(origin: OriginFound | None) -> Site:
    packages: Mapping[str, str] = origin.packages if origin else {}
    return Site(HERE, origin.python if origin else "", packages.get("torch", ""))


def told(sites: Iterable[Site], part: str) -> str:
    """The versions of Python, torch or CUDA in a sentence, those of hosts that have the same together."""
    known = ((site.name, version) for site in sites if (version := getattr(site, part)))
    return "; ".join(f"{version} on {', '.join(names)}" for version, names in by_version(known).items())


def differs(site: Site, others: Iterable[Site], part: str) -> bool:
    """Whether another one has another version of this than a site has, as far as both are known."""
    own = getattr(site, part)
    return bool(own) and any(release(getattr(other, part)) not in ("", release(own)) for other in others)
