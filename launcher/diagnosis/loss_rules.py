"""Recognise why a gang lost the place of its ranks, from the reason that Spark gives. Pure.

Only what the reason says is told as certain: of a SIGKILL it says nothing of who sent it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..channel.connecting import SILENT
from ..errors import size_text
from ..state.events import ExecutorLost, RunEnded
from ..state.outcome_rules import brief, listed, nearest_loss
from ..state.run_state import Phase, RunState
from .failure import Certainty, Finding
from .host_rules import NEARLY_FULL

RESTART = "--max-restarts N starts the gang again after a loss; it goes on from your last checkpoint"
_MEMORY = (
    "more spark.executor.memoryOverhead: ranks are not of the JVM, and count as overhead",
    "fewer ranks a host, or fewer workers of the DataLoader",
)
_HOST = "look whether the host is up, and reachable from here and from the other hosts"
_LOG = "the executor's own log has more: Spark's page of the application, Executors, stderr"


@dataclass(frozen=True, slots=True)
class Lost:
    """An executor that was lost.

    Attributes:
        name: the executor and its host, as a sentence names them.
        reason: Spark's words.
        ranks: the numbers of those that ran there.
        memory: the memory in bytes of its host, used and in all, when it was sampled last.
    """

    name: str
    reason: str
    ranks: tuple[int, ...] = ()
    memory: tuple[int, int] | None = None


_Make = Callable[[str, Certainty, tuple[str, ...], tuple[str, ...]], Finding]


def _preempted(
    text: str, certainty: Certainty, evidence: tuple[str, ...], remedy: tuple[str, ...]
) -> Finding:
    return Finding("preempted", text, certainty, evidence, remedy)


def _out_of_memory(
    text: str, certainty: Certainty, evidence: tuple[str, ...], remedy: tuple[str, ...]
) -> Finding:
    return Finding("executor-memory", text, certainty, evidence, remedy)


def _gone(text: str, certainty: Certainty, evidence: tuple[str, ...], remedy: tuple[str, ...]) -> Finding:
    return Finding("executor-lost", text, certainty, evidence, remedy)


@dataclass(frozen=True, slots=True)
class _Known:
    """A reason of Spark's, and what it means; `text` follows the executor's name."""

    pattern: str
    make: _Make
    text: Callable[[re.Match[str]], str]
    remedy: tuple[str, ...]
    certainty: Certainty = Certainty.CERTAIN


def _says(text: str) -> Callable[[re.Match[str]], str]:
    return lambda _: text


# From Spark 4.3: standalone and its decommissioning as met, YARN and Kubernetes from the sources.
_REASONS = (
    _Known(
        r"\bpreempt",
        _preempted,
        _says("was preempted: the cluster gave its place to others"),
        (RESTART, "a queue or a priority whose executors are not preempted"),
    ),
    _Known(
        r"decommission",
        _preempted,
        _says("was decommissioned: the cluster took its place away"),
        (RESTART, "hosts that are not taken away while a training runs, such as no spot instances"),
    ),
    _Known(
        r"\bEvicted\b|exit status: -100\b|container released on a \*?lost\*? node",
        _preempted,
        _says("was evicted: its node took the place away, or went away itself"),
        (RESTART, "requests of memory and disk that are as large as what the ranks use"),
    ),
    _Known(
        r"exceeding (?:physical|virtual) memory limits|OOMKilled",
        _out_of_memory,
        _says("used more memory than its container may have, and was killed for that"),
        _MEMORY,
    ),
    _Known(
        r"exit(?:ed with)? (?:code|status):? 52\b",
        _out_of_memory,
        _says("ran out of Java heap"),
        ("more spark.executor.memory, or fewer rows and files that Spark itself reads",),
    ),
    _Known(
        r"possible container OOM",
        _out_of_memory,
        _says("was killed, as a container is that used more memory than it may have"),
        _MEMORY,
        Certainty.LIKELY,
    ),
    _Known(
        r"heartbeat timed out after (\d+) ms",
        _gone,
        lambda match: f"sent no heartbeat for {int(match[1]) / 1000:g} s",
        (
            "look whether its host is up, reachable, and not out of memory",
            RESTART,
        ),
    ),
    _Known(
        r"worker lost: .*(?:disassociated|not receiving heartbeat)",
        _gone,
        _says("went away with the Spark worker on its host, or with the host"),
        ("look whether the host is up, reachable, and runs its worker", RESTART),
    ),
    _Known(
        r"exit(?:ed with)? (?:code|status):? 137\b",
        _gone,
        _says("was killed by SIGKILL"),
        (
            "look into the kernel's log of that host (dmesg) for its OOM killer",
            "if it struck: more spark.executor.memoryOverhead, or fewer ranks a host",
            RESTART,
        ),
    ),
    _Known(
        r"exit(?:ed with)? (?:code|status):? 143\b",
        _gone,
        _says("was terminated by SIGTERM: by the cluster's manager, or by a person"),
        ("look into the manager's log for why", RESTART),
    ),
    _Known(
        r"was deleted by a user or the framework",
        _gone,
        _says("was deleted: its pod was removed"),
        ("look into the events of its namespace for who removed it", RESTART),
    ),
    _Known(
        r"exit(?:ed with)? (?:code|status):? (-?\d+)",
        _gone,
        lambda match: f"ended by itself with exit code {match[1]}",
        (_LOG, RESTART),
    ),
    _Known(
        r"Remote RPC client disassociated",
        _gone,
        _says("lost its connection to the driver: it ended, or the network between them failed"),
        (_LOG, RESTART),
    ),
)  # fmt: skip


def lost_executor(state: RunState, ended: RunEnded) -> Finding | None:
    """Spark lost an executor under ranks, and says how."""
    loss = nearest_loss(state)
    if ended.state != Phase.LOST or not isinstance(loss, ExecutorLost):
        return None
    ranks = state.ranks.of_agent(loss.task)
    host = loss.host or (ranks[0].host if ranks else "")
    which = f"executor {loss.executor}" if loss.executor else "an executor"
    lost = Lost(
        f"{which}{f' on {host}' if host else ''}",
        loss.reason,
        tuple(rank.rank for rank in ranks),
        state.memory_of(loss.task),
    )
    return cause_of_loss(lost)


def silent_host(state: RunState, ended: RunEnded) -> Finding | None:
    """Nothing came from a host any more: neither its agent nor its connection ended in order."""
    if ended.state != Phase.LOST or state.losses:
        return None
    for rank in state.ranks:
        host = state.hosts.get(rank.agent)
        if host is not None and host.departed.startswith(SILENT):
            who = tuple(each.rank for each in state.ranks.of_agent(rank.agent))
            text = f"{rank.host} went silent: it is down, stands still, or is cut off from this machine"
            evidence = (f"its agent's connection: {brief(host.departed)}", *_of_ranks(who))
            return Finding("host-silent", text, Certainty.CERTAIN, evidence, (_HOST, RESTART))
    return None


def cause_of_loss(lost: Lost) -> Finding | None:
    """What Spark's reason means; None for one that says too little."""
    for known in _REASONS:
        if match := re.search(known.pattern, lost.reason, re.IGNORECASE):
            break
    else:
        return None
    evidence = (f"Spark says: {brief(lost.reason)}", *_of_ranks(lost.ranks))
    if known.make is _gone and "137" in match[0] and (full := _nearly_full(lost)):
        text = f"{lost.name} was killed while its host had hardly any memory left"
        return _out_of_memory(text, Certainty.LIKELY, (*evidence, full), (*_MEMORY, RESTART))
    return known.make(f"{lost.name} {known.text(match)}", known.certainty, evidence, known.remedy)


def _of_ranks(ranks: Sequence[int]) -> list[str]:
    if not ranks:
        return []
    who = listed([str(rank) for rank in ranks])
    return [f"rank{'s' * (len(ranks) > 1)} {who} ran there, and the others cannot go on without it"]


def _nearly_full(lost: Lost) -> str:
    used, total = lost.memory or (0, 1)
    if used <= total * NEARLY_FULL:
        return ""
    return f"{size_text(used)} of its host's {size_text(total)} were in use when last seen"
