"""Recognise failures whose cause is an address: a port, a name, or a master that cannot be reached. Pure."""

from __future__ import annotations

import re

from ..errors import LauncherError
from ..placement.refusals import HostsCutOff
from ..state.outcome_rules import brief
from ..state.ranks import Rank
from ..state.run_state import RunState
from .failure import Certainty, Finding, FirstFailure, Recognised

_TORCH = ("torch.distributed.DistNetworkError", "torch.distributed.DistStoreError", "RuntimeError")
_LISTEN = (
    r"The server socket has failed to (?:listen on|bind to) [\s\S]{0,400}?"
    r"(?:EADDRINUSE|address already in use)"
)
_PORT = r"(?s).{0,400}?(?:port: |\(?(?:\[::\]|\?UNKNOWN\?|[\w.-]+)[:,] ?)(\d{2,5})\b"


_IN_USE = "[Errno 98] Address already in use"
_SERVERS = r"(?:socketserver|http/server|xmlrpc/server)\.py"


def port_in_use(failure: FirstFailure) -> Finding | None:
    """A rank wanted to listen where another process does."""
    found = failure.begins(r"\[Errno 98\] .*[Aa]ddress already in use", "OSError") or failure.begins(
        _LISTEN, *_TORCH
    )
    if found is None:
        return None
    number = failure.begins(_PORT, *_TORCH)
    # the path of a Unix socket can be in use too, and the message is the same
    of_port = number or found.match[0] != _IN_USE or found.error.passed(_SERVERS)
    port = f"port {number.match[1]}" if number else "a port" if of_port else "a port, or at a path,"
    return Finding(
        "port-in-use",
        f"{failure.name} could not listen on {port} of {failure.rank.host}: it is in use",
        found.certainty if of_port else Certainty.LIKELY,
        (brief(found.error.message),),
        (
            "do not set MASTER_PORT in the script: rankdeck gives each run a free one",
            "a port of your own: bind port 0 and take what you get, or add LOCAL_RANK to the number",
            "`ss -ltnp` on the host names the process that listens there",
            *([] if of_port else ["a Unix socket: remove its file before bind, if nobody listens there"]),
        ),
    )


_NAMELESS = r"(?:<urlopen error )?\[Errno -(?:2|3|5)\] "
_CONNECTS = (
    r"The client socket has (?:timed out after (?P<ms>\d{1,12}) ?ms while trying|failed) to connect to "
    r"(?:any network address of )?\(?(?P<host>[^\s,()]{1,255}), ?(?P<port>\d{1,5})\)?"
)


_OWN_MASTER = ("do not set MASTER_ADDR in the script: rankdeck sets one that every rank reaches",)


def name_unknown(failure: FirstFailure) -> Finding | None:
    """The name of a host has no address."""
    dialled = failure.begins(_CONNECTS, *_TORCH)
    found = dialled or failure.begins(_NAMELESS, "socket.gaierror", "urllib.error.URLError")
    if found is None or (dialled and not _is_unresolved(failure, dialled.match["host"])):
        return None
    host = dialled.match["host"] if dialled else "a host's name"
    look = "`getent hosts NAME` on that host shows whether it knows a name"
    return Finding(
        "name-unknown",
        f"{failure.name} on {failure.rank.host} found no address for {host}",
        Certainty.LIKELY if dialled else found.certainty,
        (brief(found.error.message),),
        (*_OWN_MASTER, look) if dialled else (look, "a host without that network: bring files with --files"),
    )


def _is_unresolved(failure: FirstFailure, host: str) -> bool:
    """Whether torch has warned of a host's name, and of no attempt to connect to it.

    It warns of IPv6 alone, also where the name has an address of IPv4: then it tells of attempts.
    """
    name = re.escape(host)
    warned = failure.wrote(rf"network addresses of \({name}, \d+\) cannot be retrieved \(gai error")
    return warned is not None and failure.wrote(rf"failed to connect to \[?{name}\b") is None


def master_unreachable(failure: FirstFailure) -> Finding | None:
    """Nothing answered where the ranks were to meet."""
    found = failure.begins(_CONNECTS, *_TORCH)
    if found is None:
        return None
    place = f"{found.match['host']}:{found.match['port']}"
    waited = f" in {int(found.match['ms']) / 1000:g} s" if found.match["ms"] else ""
    return Finding(
        "master-unreachable",
        f"{failure.name} on {failure.rank.host} could not connect to {place}{waited}, where ranks meet",
        found.certainty,
        (f"torch: {brief(found.error.message)}",),
        (
            "do not set MASTER_ADDR and MASTER_PORT in the script: rankdeck sets what every rank reaches",
            "rank 0 must reach init_process_group in time, because it may be the one that listens there",
            "a firewall between hosts must let ranks connect on any port",
        ),
    )


_WAITED = r"wait timeout after \d+ ?ms|Timed out after \d+ seconds waiting for clients"
_OPEN_PORTS = (
    "look at routes, firewalls and security groups between executors' hosts",
    "open all ports between them: ranks listen on any free one",
)


def kept_from_master(failure: FirstFailure) -> Finding | None:
    """A rank waited at its store for one on another host that could not connect to it."""
    waited = failure.begins(_WAITED, *_TORCH)
    if waited is None:
        return None
    for rank in failure.gang:
        raised = rank.raised
        if raised is None or rank.host == failure.rank.host or raised.kind not in _TORCH:
            continue
        if dialled := re.match(_CONNECTS, raised.message):
            return _kept_out(failure, rank, dialled, waited)
    return None


def _kept_out(failure: FirstFailure, rank: Rank, dialled: re.Match[str], waited: Recognised) -> Finding:
    place = f"{dialled['host']}:{dialled['port']}"
    text = f"rank {rank.rank} on {rank.host} could not connect to {place}, where {failure.name} waited for it"
    evidence = (
        f"rank {rank.rank}: {brief(dialled.string)}",
        f"{failure.name} on {failure.rank.host}: {brief(waited.error.message)}",
    )
    return Finding("master-unreachable", text, Certainty.LIKELY, evidence, _OPEN_PORTS, rank.rank)


def hosts_cut_off(_: RunState, refusal: LauncherError) -> Finding | None:
    """Agents tried the addresses of rank 0 before the ranks' start, and not all had an answer."""
    if not isinstance(refusal, HostsCutOff):
        return None
    evidence = ("that was found before the ranks' start",)
    return Finding("master-unreachable", refusal.message, Certainty.CERTAIN, evidence, _OPEN_PORTS)
