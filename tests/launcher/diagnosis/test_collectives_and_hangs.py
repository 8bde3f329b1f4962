"""Collectives that time out, groups of the wrong size, and gangs that stand still: what is told of whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from launcher.diagnosis.causes import Evidence, find_cause
from launcher.errors import NoProgress
from launcher.spec.places import Assignment
from launcher.state import events as ev
from launcher.state.fold import fold_all
from launcher.state.outcome_rules import verdict

GLOO = "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/"
CLOSED = GLOO + "pair.cc:553] Connection closed by peer [127.0.0.1]:25514. This is typically caused by …"
TIMED_OUT = GLOO + "unbound_buffer.cc:78] Timed out waiting 2000ms for recv operation to complete"
FINGERPRINTS = (
    "Detected mismatch between collectives on ranks. Rank 0 is running collective: CollectiveFingerPrint("
    "SequenceNumber=0, OpType=ALLREDUCE, TensorShape=[4], TensorDtypes=Float, …), but Rank 1 "
    "is running collective: CollectiveFingerPrint(SequenceNumber=0, OpType=BROADCAST, TensorShape=[4], …"
)
UNUSED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. …\n"
    "Parameter indices which did not receive grad for rank 0: 2 3\n In addition, …"
)
MAKING = '  File "/v/site-packages/torch/distributed/distributed_c10d.py", line 1, in init_process_group\n'
LOADING = '  File "/v/site-packages/torch/serialization.py", line 1568, in load\n'
REFUSED = "The client socket has timed out after 3000ms while trying to connect to (10.0.0.7, 29500)."
NCCL_TIMEOUT = (
    "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=37, OpType=ALLREDUCE, "
    "NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for 600029 milliseconds before timing out."
)


def gang(*facts: ev.Event, size: int = 2) -> list[ev.Event]:
    """The facts of a gang on one host, up to some that follow its start."""
    places = tuple(Assignment(r, size, r, size, 0, 1, 0, "node1") for r in range(size))
    return [
        ev.RunSubmitted(time=1.0, name="t", target="t.py", mode="local", num_processes=size),
        ev.AgentJoined(time=1.0, agent=0, host="node1", pid=9),
        ev.GangPlaced(time=1.0, ranks=places),
        *(ev.RankStarted(time=2.0, rank=r, pid=10 + r) for r in range(size)),
        *facts,
    ]


def raised(kind: str, message: str, traceback: str = "", *, rank: int = 1, at: float = 5.0) -> list[ev.Event]:
    return [
        ev.RankRaised(
            time=at, rank=rank, kind=kind, message=message, traceback=f"{traceback}{kind}: {message}"
        ),
        ev.RankExited(time=at + 0.5, rank=rank, exit_code=1),
    ]


def cause(facts: Sequence[ev.Event], output: Sequence[str] = ()) -> ev.CauseFound | None:
    state = fold_all(facts, run="r1")
    return find_cause(state, Evidence(output_of=lambda _: output), verdict(state, now=9.0))


def of(kind: str, message: str, traceback: str = "") -> ev.CauseFound | None:
    return cause(gang(*raised(kind, message, traceback)))


def test_a_monitored_barrier_names_who_is_missing_whoever_failed_first() -> None:
    reached = (
        "Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv …"
    )
    named = "[Rank 0]: Ranks 2, 3 failed to pass monitoredBarrier in 2000 ms\n Original exception: \n…"
    facts = gang(
        *raised("RuntimeError", reached, at=5.0), *raised("RuntimeError", named, rank=0, at=5.1), size=4
    )
    found = cause(facts)
    assert found is not None
    assert (found.id, found.rank) == ("collective-timeout", 2)
    assert found.text == "rank 0 waited 2 s in monitored_barrier for ranks 2, 3"


def hang(*texts: str) -> ev.CauseFound | None:
    stop = ev.StopRequested(
        time=6.0, by="limit", reason="no progress for 5 s", grace_s=1.0, exit_code=NoProgress.exit_code
    )
    taken = [ev.StacksTaken(time=6.0, rank=rank, text=text) for rank, text in enumerate(texts)]
    return cause(gang(stop, *taken, size=max(len(texts), 1)))


def stack(*frames: str) -> str:
    return "\n".join(["Current thread (most recent call first):", *(f"  File {each}" for each in frames)])


REDUCES = stack(
    '"/v/site-packages/torch/distributed/distributed_c10d.py", line 9 in all_reduce',
    '"/w/t.py", line 41 in f',
)
GATHERS = stack(
    '"/v/site-packages/torch/distributed/distributed_c10d.py", line 8 in all_gather',
    '"/w/t.py", line 50 in f',
)
QUEUES = stack('"/usr/lib/python3.11/queue.py", line 171 in get', '"/w/data.py", line 88 in batch')


def test_a_collective_that_timed_out_is_told_with_what_torch_recorded() -> None:
    calls = [
        ev.CollectiveCall(group="default_pg", number=n, operation="all_reduce", sizes="[[4]]")
        for n in (36, 37)
    ]
    facts = gang(
        *(
            ev.RankRaised(
                time=5.0 - rank,
                rank=rank,
                kind="RuntimeError",
                message=TIMED_OUT,
                traceback="",
                collectives=(call,),
            )
            for rank, call in enumerate(calls)
        ),
        ev.RankExited(time=6.0, rank=1, exit_code=1),
    )
    found = cause(facts)
    assert found is not None
    assert found.id == "collective-timeout"
    assert (
        "torch recorded of rank 1: all_reduce of [[4]] was its call number 37 in default_pg" in found.evidence
    )
    assert "and of rank 0: all_reduce of [[4]] was its call number 36 in default_pg" in found.evidence


def test_of_a_collective_that_timed_out_only_stacks_since_then_say_where_the_others_were() -> None:
    before = ev.StacksTaken(time=5.0, rank=0, text=QUEUES)
    stop = ev.StopRequested(time=3602.0, by="rank", reason="rank 1 failed", grace_s=1.0)
    ended = ev.RankExited(time=3603.0, rank=0, exit_code=143, signal="SIGTERM")
    after = replace(before, time=3600.2)
    failure = raised("RuntimeError", TIMED_OUT, at=3600.0)
    for facts, shown in (([before, *failure], False), ([*failure, after], True)):
        found = cause(gang(*facts, stop, ended))
        assert found is not None
        assert shown == ("rank 0 is in queue.get (data.py:88)" in found.evidence)


def test_a_group_that_was_made_for_more_ranks_than_there_are() -> None:
    found = of(
        "torch.distributed.DistStoreError", "wait timeout after 8000ms, keys: /default_pg/0//cpu//0/2", MAKING
    )
    assert found is not None
    assert found.id == "ranks-missing"
    assert "waited for rank 2, and the gang has 2 ranks" in found.text


def test_a_rank_that_is_not_of_the_group() -> None:
    found = of(
        "ValueError", "Global rank 0 is not part of group <torch.distributed.ProcessGroup object at 0x7>"
    )
    assert found is not None
    assert (found.id, found.certainty) == ("rank-outside-group", "certain")


LOADER = "/v/site-packages/torch/utils/data/dataloader.py"
LOADS = stack(f'"{LOADER}", line 725 in __next__', '"/w/t.py", line 27 in f')
ENDS = (
    'Thread 0x1:\n  File "/usr/lib/python3.11/queue.py", line 171 in get\n  File "/w/log.py", line 9 in f\n\n'
    'Current thread (most recent call first):\n  File "/usr/lib/python3.11/threading.py", line 9 in _shutdown'
)


def test_ranks_that_all_wait_for_their_loaders() -> None:
    found = hang(LOADS, LOADS)
    assert found is not None
    assert (found.id, found.certainty) == ("loader-stuck", "likely")
    stuck = hang(LOADS, REDUCES)
    assert stuck is not None
    assert (stuck.id, stuck.rank) == ("rank-stuck", 0)


def test_a_thread_that_keeps_a_finished_program_alive() -> None:
    found = hang(ENDS)
    assert found is not None
    assert (found.id, found.certainty, found.rank) == ("thread-keeps-alive", "likely", 0)
    assert found.evidence == ("a thread is in queue.get (log.py:9)",)


def test_a_limit_of_time_is_not_taken_for_a_hang() -> None:
    stop = ev.StopRequested(time=6.0, by="limit", reason="the time limit of 5 s", grace_s=1.0, exit_code=124)
    taken = [ev.StacksTaken(time=6.0, rank=rank, text=REDUCES) for rank in (0, 1)]
    assert cause(gang(*taken, stop)) is None
