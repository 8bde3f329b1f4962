"""Recognise failures of the network: ports, names, and addresses that nobody answers. Pure."""

from __future__ import annotations

import re

from ..state.outcome_rules import brief
from .failure import Certainty, Finding, FirstFailure

_PORT = re.compile(r"\bport: (\d{1,5})\b|\[[^\]]*\]:(\d{1,5})\b|:(\d{1,5})\b|\('[^']{0,200}', (\d{1,5})\)")


def port_in_use(failure: FirstFailure) -> Finding | None:
    """A rank listened on a port that another process has."""
    told = failure.begins(r"\[Errno 98\] ", "OSError") or failure.begins(
        r"The server socket has failed to listen on any local network address\.[^\n]{0,200}EADDRINUSE"
        r"|[^\n]{0,200}\bbind: Address already in use",
        "torch.distributed.DistNetworkError",
        "torch.distributed.DistStoreError",
        "RuntimeError",
    )
    if told is None:
        return None
    port = next(filter(None, _found_port(told.message)), "")
    own = "MASTER_PORT is chosen for every run: leave it and `init_method` out of the script"
    free = "port 0 takes a free one; a fixed one differs by rank: `port + int(os.environ['LOCAL_RANK'])`"
    of_store = "server socket" in told[0]
    return Finding(
        "port-in-use",
        f"{failure.name} listened on {f'port {port}' if port else 'a port'}, which another process of "
        f"{failure.rank.host} has",
        certainty=told.certainty,
        evidence=(brief(told.message),),
        remedy=(own, free) if of_store else (free, own),
    )


def _found_port(message: str) -> tuple[str, ...]:
    match = _PORT.search(message[:1000])
    return match.groups("") if match else ()


_HOST = re.compile(
    r"(?:host='|hostname \(|hostname: |host: |://|host )([\w.-]{1,253})|\('([\w.-]{1,253})', \d",
    re.IGNORECASE,
)


def unknown_name(failure: FirstFailure) -> Finding | None:
    """A host's name could not be resolved."""
    told = failure.begins(r"\[Errno -[2345]\] ", "socket.gaierror", "OSError") or failure.begins(
        r"<urlopen error \[Errno -[2345]\]|[^\n]{0,300}(?:Name or service not known"
        r"|Temporary failure in name resolution|nodename nor servname provided|gai error: -\d)",
        "urllib.error.URLError",
        "requests.exceptions.ConnectionError",
        "urllib3.exceptions.NameResolutionError",
        "urllib3.exceptions.MaxRetryError",
        "torch.distributed.DistNetworkError",
        "RuntimeError",
    )
    if told is None:
        return None
    where = _HOST.search(told.message[:1000])
    name = f" {next(filter(None, where.groups()))}" if where else ""
    return Finding(
        "name-unknown",
        f"{failure.name} on {failure.rank.host} found no address for the name{name or ' of a host'}",
        certainty=told.certainty,
        evidence=(brief(told.message),),
        remedy=(
            f"on {failure.rank.host}, `getent hosts NAME` must print an address: see DNS, /etc/hosts",
            "a host without access to that network: bring the data with --files",
        ),
    )


_STORE = re.compile(
    r"The client socket has (?:timed out after (\d{1,12}) ?ms|failed to connect)[^\n]{0,200}?"
    r"(?:connect to|network address of)? \[?\(?([\w.:-]{1,253}?)[\],]+:? ?(\d{1,5})\b"
)
_REACHED = re.compile(r"The client socket has (?:timed out|failed)")


def unreachable_master(failure: FirstFailure) -> Finding | None:
    """Nobody answers at the address of the gang's store."""
    if failure.rank.raised is None or not (failure.rank.doubt or "Dist" in failure.rank.raised.kind):
        return None
    ranks = [failure.rank, *(each for each in failure.gang if each.rank != failure.rank.rank)]
    for rank in ranks:
        raised = rank.raised
        if raised is None or "Dist" not in raised.kind or not _REACHED.match(raised.message):
            continue
        where = _STORE.match(raised.message)
        alone = all(each.raised is None for each in failure.gang if each.rank != rank.rank)
        place = f"{where[2]}:{where[3]}" if where else "the address of the gang's store"
        return Finding(
            "master-unreachable",
            f"rank {rank.rank} on {rank.host} reached nobody at {place}, where rank 0 should listen",
            # a rank 0 that failed by itself may not have come so far as to listen
            certainty=Certainty.CERTAIN if alone else Certainty.LIKELY,
            evidence=(brief(raised.message),),
            remedy=(
                "MASTER_ADDR and MASTER_PORT are chosen for every run: a script must not set them",
                f"`rankdeck doctor` shows whether {rank.host} reaches the host of rank 0",
            ),
            rank=rank.rank,
        )
    return None
