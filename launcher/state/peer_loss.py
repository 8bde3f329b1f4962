"""Recognise exceptions that mean that a peer went away during a collective: they follow from its failure.

The patterns were collected from gloo (torch 2.13, ranks killed or gone in the middle of each collective), and
from the sources of NCCL, UCC, MPI and torch's stores. They match messages; the type of such an exception is
the same as that of many others.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from .tracebacks import DIRECT, chain, message_in

# In the order of their layers: sockets, gloo, torch's stores, NCCL and torch's own messages, MPI and UCC.
WORDS = (
    r"connection (?:was )?(?:closed|reset|aborted|refused)(?: by (?:the )?(?:remote )?peer)?",
    r"broken pipe",
    r"socket closed",
    r"transport endpoint is not connected",
    r"no route to host|network is unreachable",
    r"(?:\A|\bgloo/.{0,200})Interrupted system call\Z",  # of a store whose rank is stopped while it dials
    r"\bgloo/transport/",
    r"\bgloo\b.{0,200}\b(?:timed out|timeout)",
    r"timed out waiting \d+ ?ms for (?:recv|send)",
    r"application timeout caused pair closure",
    r"connectFullMesh failed|timed out after \d+ seconds waiting for clients",
    r"monitoredbarrier|rank \d+ (?:failed to pass|successfully reached) monitored",
    r"(?:failed to recv|recvValue|recvBytes|sendBytes|recvVector)\b",
    r"the (?:client|server) socket has (?:timed out|failed)",
    r"store(?: |->)?(?:get|wait|based barrier).{0,80}(?:timed out|timeout)|wait timeout after \d+ms",
    r"remote process (?:has )?exited|remote process has terminated",
    r"\bnccl(?:remoteerror|systemerror|commabort|internal error|inprogress)\b",
    r"nccl communicator was aborted|nccl comm(?:unicator)? .{0,40}abort",
    r"watchdog caught collective operation timeout",
    r"ran for \d+ milliseconds before timing out",
    r"MPI_ERR_PROC_FAILED|ucs?_ERR_(?:CONNECTION_RESET|ENDPOINT_TIMEOUT|UNREACHABLE)|Endpoint timeout",
)
_COLLECTIVE = re.compile(r'File "[^"]*torch/distributed/distributed_c10d\.py", line \d+, in (\w+)')
_BACKWARD = re.compile(r'File "[^"]*torch/(?:_tensor|autograd/\w+)\.py", line \d+, in backward\b')
_FIRST_BYTES = 4096  # of a message: messages about the transport begin with it


def is_transport_error(message: str) -> bool:
    """Whether a message means that a peer, or the connection to it, is gone."""
    return bool(_words().search(message[:_FIRST_BYTES]))


_TIMED_OUT = re.compile(r"timed out|timeout", re.IGNORECASE)


def is_timeout(message: str) -> bool:
    """Whether a message means that a peer did not answer in time: it may be alive, and somewhere else."""
    return is_transport_error(message) and bool(_TIMED_OUT.search(message[:_FIRST_BYTES]))


@cache
def _words() -> re.Pattern[str]:
    """All patterns as one, compiled on first use: a run in which no rank fails does not need it."""
    return re.compile("|".join(f"(?:{each})" for each in WORDS), re.IGNORECASE | re.DOTALL)


@lru_cache(maxsize=1024)
def doubt(message: str, traceback: str) -> int:
    """How likely an exception only follows from another rank's end.

    0: it is the rank's own. 2: it is about the transport. 1: an exception of one of these sorts was raised
    while one of the other was handled, as when a process group is destroyed in `finally`.
    """
    parts = chain(traceback)
    if len(parts) < 3:
        return 2 * is_transport_error(message)
    first, last = is_transport_error(message_in(parts[0])), is_transport_error(message)
    if first and (last or parts[1] == DIRECT):
        return 2
    return int(first or last)


def operation(traceback: str) -> str:
    """The collective in which an exception was raised, by torch's name; empty if the traceback has none."""
    found = [name for name in _COLLECTIVE.findall(traceback) if not name.startswith("_")]
    return found[0] if found else "backward" if _BACKWARD.search(traceback) else ""
