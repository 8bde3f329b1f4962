"""Whether an exception says that the other end of a collective went away: it follows from somebody's failure.

Collected from gloo (torch 2.13, ranks killed or gone in the middle of each collective), and from the sources
of NCCL, UCC, MPI and torch's stores. The words are those of the message; a type alone says nothing.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

# In the order of their layers: sockets, gloo, torch's stores, NCCL and what torch says of it, MPI and UCC.
WORDS = (
    r"connection (?:was )?(?:closed|reset|aborted|refused)(?: by (?:the )?(?:remote )?peer)?",
    r"broken pipe",
    r"socket closed",
    r"transport endpoint is not connected",
    r"no route to host|network is unreachable",
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
_DIRECT = "The above exception was the direct cause of the following exception:"
_DURING = "During handling of the above exception, another exception occurred:"
_NEXT = re.compile(rf"\n\n({re.escape(_DIRECT)}|{re.escape(_DURING)})\n\n")
_COLLECTIVE = re.compile(r'File "[^"]*torch/distributed/distributed_c10d\.py", line \d+, in (\w+)')
_BACKWARD = re.compile(r'File "[^"]*torch/(?:_tensor|autograd/\w+)\.py", line \d+, in backward\b')
_FIRST_BYTES = 4096  # of a message: what is said of the transport is said at once


def is_transport_error(message: str) -> bool:
    """Whether a message tells that a peer, or the way to it, is gone."""
    return bool(_words().search(message[:_FIRST_BYTES]))


@cache
def _words() -> re.Pattern[str]:
    """The words as one pattern; a run in which no rank fails does not wait for it."""
    return re.compile("|".join(f"(?:{each})" for each in WORDS), re.IGNORECASE | re.DOTALL)


@lru_cache(maxsize=1024)
def doubt(message: str, traceback: str) -> int:
    """How likely an exception only follows from another rank's end.

    0: it is the rank's own. 2: it speaks of the transport. 1: one of the two came while the other was
    handled, as when a group is destroyed in `finally`.
    """
    parts = _NEXT.split(traceback)
    if len(parts) < 3:
        return 2 * is_transport_error(message)
    first, last = is_transport_error(_said(parts[0])), is_transport_error(message)
    if first and (last or parts[1] == _DIRECT):
        return 2
    return int(first or last)


def _said(block: str) -> str:
    """What one exception of a chain says, below its frames."""
    lines = block.splitlines()
    frames = [i for i, line in enumerate(lines) if line.startswith('  File "')]
    said = lines[frames[-1] + 1 :] if frames else lines
    while said and said[0].startswith("    "):
        said = said[1:]
    return "\n".join(said)


def operation(traceback: str) -> str:
    """The collective in which an exception was raised, as torch calls it; empty if that cannot be seen."""
    found = [name for name in _COLLECTIVE.findall(traceback) if not name.startswith("_")]
    return found[0] if found else "backward" if _BACKWARD.search(traceback) else ""
