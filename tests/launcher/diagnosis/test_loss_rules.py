"""Why an executor was lost, in the words of each cluster manager."""

from __future__ import annotations

import pytest

from launcher.backends.spark.failures import read_failure
from launcher.channel.connecting import SILENT
from launcher.diagnosis.causes import Evidence, find_cause
from launcher.diagnosis.loss_rules import Lost, cause_of_loss
from launcher.spec.places import Assignment
from launcher.state import events as ev
from launcher.state.fold import fold_all
from launcher.state.outcome_rules import verdict

GIB = 1 << 30
YARN = "Container marked as failed: container_e02_1_01_000003 on host: b. Exit status: 143. Diagnostics:"
LIMITS = (
    "Container killed by YARN for exceeding physical memory limits. 5.5 GB of 5.5 GB physical memory used."
)
OOM = "The executor with id 3 exited with exit code 137(SIGKILL, possible container OOM)."


@pytest.mark.parametrize(
    ("reason", "cause", "certainty", "words"),
    [
        ("Command exited with code 137", "executor-lost", "certain", "killed by SIGKILL"),
        ("Command exited with code 143", "executor-lost", "certain", "terminated by SIGTERM"),
        ("Command exited with code 134", "executor-lost", "certain", "with exit code 134"),
        ("Command exited with code 52", "executor-memory", "certain", "ran out of Java heap"),
        ("worker lost: 10.0.0.7:41 got disassociated", "executor-lost", "certain", "with the Spark worker"),
        ("worker lost: Not receiving heartbeat for 60 seconds", "executor-lost", "certain", "Spark worker"),
        (
            "Executor heartbeat timed out after 125000 ms",
            "executor-lost",
            "certain",
            "no heartbeat for 125 s",
        ),
        (
            "Executor decommission: Executor 3 is decommissioned.",
            "preempted",
            "certain",
            "was decommissioned",
        ),
        ("Container container_1 on host: b was preempted.", "preempted", "certain", "was preempted"),
        (f"{OOM}; Evicted", "preempted", "certain", "was evicted"),
        (f"{OOM}; OOMKilled", "executor-memory", "certain", "more memory than its container may have"),
        (OOM, "executor-memory", "likely", "killed, as a container"),
        (LIMITS, "executor-memory", "certain", "more memory than its container may have"),
        (YARN, "executor-lost", "certain", "terminated by SIGTERM"),
        (
            "The executor with id 3 was deleted by a user or the framework.",
            "executor-lost",
            "certain",
            "deleted",
        ),
    ],
)
def test_the_reasons_of_spark(reason: str, cause: str, certainty: str, words: str) -> None:
    found = cause_of_loss(Lost("executor 3 on b", reason, (2, 3)))
    assert found is not None
    assert (cause, certainty) == (found.id, found.certainty.value)
    assert found.text.startswith("executor 3 on b ")
    assert words in found.text
    assert f"Spark says: {reason}" in found.evidence
    assert "ranks 2 and 3 ran there, and the others cannot go on without it" in found.evidence
    assert found.remedy


@pytest.mark.parametrize("reason", ["", "Slave lost", "the moon is full", "it exited because of an event"])
def test_a_reason_that_says_nothing_is_no_cause(reason: str) -> None:
    assert cause_of_loss(Lost("executor 3", reason)) is None


@pytest.mark.parametrize(("used", "cause"), [(15, "executor-memory"), (14, "executor-lost")])
def test_a_kill_on_a_host_without_memory(used: int, cause: str) -> None:
    lost = Lost("executor 3", "Command exited with code 137", memory=(used * GIB, 16 * GIB))
    found = cause_of_loss(lost)
    assert found is not None
    assert cause == found.id
    assert ("15.0 GiB of its host's 16.0 GiB were in use when last seen" in found.evidence) == (used == 15)


POD = """\
org.apache.spark.SparkException: Job aborted due to stage failure: Could not recover from a failed barrier \
ResultStage. Most recent failure reason: Stage failed because barrier task ResultTask(0, 1) finished \
unsuccessfully.
ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason: \n\
The executor with id 3 exited with exit code 137(SIGKILL, possible container OOM).



The API gave the following brief reason: null
The API gave the following message: null
The API gave the following container statuses:


\t container name: spark-kubernetes-executor
\t container state: terminated
\t exit code: 137
\t termination reason: OOMKilled

Driver stacktrace:
"""


def lost(*facts: ev.Event) -> ev.CauseFound | None:
    places = tuple(Assignment(rank, 2, 0, 1, rank, 2, agent=rank, host="ab"[rank]) for rank in (0, 1))
    state = fold_all(
        [
            ev.RunSubmitted(time=0.0, name="t", target="t", mode="cluster", num_processes=2),
            *(ev.AgentJoined(time=0.5, agent=agent, host="ab"[agent], pid=1) for agent in (0, 1)),
            ev.GangPlaced(time=1.0, ranks=places),
            *(ev.RankStarted(time=2.0, rank=rank, pid=9) for rank in (0, 1)),
            *facts,
        ]
    )
    return find_cause(state, Evidence(), verdict(state, now=9.0))


def test_the_words_of_kubernetes_are_several() -> None:
    fact = read_failure(POD, time=5.0, tasks=2).event
    assert isinstance(fact, ev.ExecutorLost)
    assert (OOM + "; OOMKilled", "3", 1) == (fact.reason, fact.executor, fact.task)
    found = lost(fact)
    assert found is not None
    assert ("executor-memory", "certain", None) == (found.id, found.certainty, found.rank)
    assert (
        "executor 3 on b used more memory than its container may have, and was killed for that" == found.text
    )


def test_a_lost_task_without_a_reason_has_no_cause() -> None:
    crashed = "Python worker exited unexpectedly (crashed)"
    assert lost(ev.TaskLost(time=5.0, task=1, reason=crashed)) is None


def departed(reason: str) -> ev.AgentDeparted:
    return ev.AgentDeparted(time=5.0, agent=1, host="b", expected=False, reason=reason)


def test_a_host_that_went_silent() -> None:
    found = lost(departed(f"{SILENT} for 16 s"))
    assert found is not None
    assert ("host-silent", "certain", None) == (found.id, found.certainty, found.rank)
    assert "b went silent: it is down, stands still, or is cut off from this machine" == found.text
    assert f"its agent's connection: {SILENT} for 16 s" in found.evidence
    assert "rank 1 ran there, and the others cannot go on without it" in found.evidence


def test_an_agent_that_closed_its_channel_has_no_known_cause() -> None:
    assert lost(departed("the agent closed the channel")) is None
