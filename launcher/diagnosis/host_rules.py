"""Recognise failures whose cause is the host: its memory. Pure."""

from __future__ import annotations

from ..errors import counted, size_text
from .failure import Certainty, Finding, FirstFailure

NEARLY_FULL = 0.9


def killed_by_the_kernel(failure: FirstFailure) -> Finding | None:
    """The kernel counted a kill for lack of memory while the rank ran, and the rank was killed."""
    rank = failure.rank
    if rank.signal != "SIGKILL" or not rank.oom_kills:
        return None
    evidence = [f"the kernel counted {counted(rank.oom_kills, 'kill')} for want of memory while it ran"]
    if rank.sample is not None and rank.sample.rss is not None:
        evidence.append(f"{failure.name} and its children held {size_text(rank.sample.rss)} when last seen")
    used, total = failure.host_memory or (0, 1)
    if used > total * NEARLY_FULL:  # else a limit of its own was reached, such as a container's
        evidence.append(f"{size_text(used)} of the host's {size_text(total)} were in use")
    return Finding(
        "oom-killer",
        f"the kernel killed {failure.name} because memory had run out for its container or host",
        Certainty.LIKELY,
        tuple(evidence),
        (
            "fewer workers of the DataLoader, or a smaller prefetch_factor: each holds batches of its own",
            "fewer ranks a host, or more memory for the container or the executor",
        ),
    )
