"""Recognise failures whose cause is the host: its memory. Pure."""

from __future__ import annotations

from ..errors import size_text
from .failure import Certainty, Finding, FirstFailure


def killed_by_the_kernel(failure: FirstFailure) -> Finding | None:
    """The kernel counted a kill for lack of memory while the rank ran, and the rank was killed."""
    rank = failure.rank
    if rank.signal != "SIGKILL" or not rank.oom_kills:
        return None
    evidence = [f"the kernel counted {rank.oom_kills} such kills of the run's processes"]
    if rank.sample is not None and rank.sample.rss is not None:
        evidence.append(f"{failure.name} and its children held {size_text(rank.sample.rss)} when last seen")
    if failure.host_memory is not None:
        used, total = map(size_text, failure.host_memory)
        evidence.append(f"{used} of the host's {total} were in use")
    return Finding(
        "oom-killer",
        f"the kernel killed {failure.name} because memory had run out on {rank.host}",
        Certainty.LIKELY,
        tuple(evidence),
        (
            "fewer workers of the DataLoader, or a smaller prefetch_factor: each holds batches of its own",
            "fewer ranks a host, or more memory for the container or the executor",
        ),
    )
