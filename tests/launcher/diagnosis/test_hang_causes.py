"""Why a gang stood still, from the stacks of its ranks; each of these causes is only likely."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from launcher.diagnosis.hang_rules import standstill
from launcher.state import events as ev
from tests.launcher.diagnosis.gangs import TORCH, cause_of, found, left

C10D = f"{TORCH}/distributed/distributed_c10d.py"


def stack(*frames: tuple[str, int, str]) -> str:
    lines = (f'  File "{file}", line {line} in {function}' for file, line, function in frames)
    return "\n".join(["Current thread (most recent call first):", *lines])


def waits(function: str, line: int) -> str:
    return stack((C10D, 3252, function), ("/home/ada/train.py", line, "main"))


STUCK = stack(("/home/ada/data.py", 88, "next_batch"), ("/home/ada/train.py", 40, "main"))


def taken(texts: Mapping[int, str]) -> list[ev.StacksTaken]:
    return [ev.StacksTaken(time=5.0, rank=rank, text=text) for rank, text in texts.items()]


def hung(texts: Mapping[int, str], *, left_before: tuple[int, ...] = ()) -> list[ev.Event]:
    stop = ev.StopRequested(time=6.0, by="limit", reason="no progress for 5 s", exit_code=125, grace_s=1.0)
    ends = [ev.RankExited(time=7.0, rank=rank, exit_code=143, signal="SIGTERM") for rank in texts]
    return [*left(*left_before), stop, *taken(texts), *ends]


def test_one_rank_that_is_elsewhere() -> None:
    stacks = {rank: waits("all_reduce", 41) for rank in range(8)} | {3: STUCK}
    cause = found(hung(stacks), size=8)

    assert ("rank-stuck", "likely", 3) == (cause.id, cause.certainty, cause.rank)
    assert (
        "rank 3 is in next_batch (data.py:88); ranks 0-2, 4-7 wait in all_reduce (train.py:41)" == cause.text
    )


BACKWARD = stack((f"{TORCH}/_tensor.py", 581, "backward"), ("/home/ada/train.py", 30, "main"))


def test_ranks_in_a_backward_pass_wait_as_the_display_says() -> None:
    assert ("rank-stuck", 3) == (
        (cause := found(hung({r: STUCK if r == 3 else BACKWARD for r in range(4)}), size=4)).id,
        cause.rank,
    )


def test_a_rank_in_a_backward_pass_beside_collectives_may_be_at_work_there() -> None:
    barrier = waits("barrier", 9)
    one = found(hung({0: BACKWARD, 1: barrier, 2: barrier}), size=3)
    assert ("rank-stuck", 0) == (one.id, one.rank)
    assert "collective-mismatch" == found(hung({0: BACKWARD, 1: BACKWARD, 2: barrier}), size=3).id


SILENT = [
    pytest.param({3: ""}, id="it gave none"),
    pytest.param({}, id="it was not heard of"),
]


@pytest.mark.parametrize("answer", SILENT)
def test_a_rank_without_stacks_is_the_odd_one(answer: dict[int, str]) -> None:
    cause = found(hung({rank: waits("all_reduce", 41) for rank in range(3)} | answer), size=4)

    assert ("rank-stuck", "likely", 3) == (cause.id, cause.certainty, cause.rank)
    assert "no stacks could be had of rank 3; ranks 0-2 wait in all_reduce (train.py:41)" == cause.text
    assert ["rank 3 did not answer"] == list(cause.evidence)


@pytest.mark.parametrize("answer", SILENT)
def test_no_other_rank_is_named_while_one_was_not_seen(answer: dict[int, str]) -> None:
    stuck = found(hung({0: STUCK, **{r: waits("barrier", 41) for r in (1, 2)}} | answer), size=4)
    assert ("rank-stuck", None) == (stuck.id, stuck.rank)
    assert "rank 3 did not answer, and may be elsewhere too" in stuck.evidence

    apart = found(
        hung({0: waits("broadcast", 43), **{r: waits("barrier", 41) for r in (1, 2)}} | answer), size=4
    )
    assert ("standstill", None) == (apart.id, apart.rank)
    assert apart.text.startswith("no stacks could be had of rank 3; ")

    gone = found(hung({r: waits("barrier", 41) for r in (1, 2)} | answer, left_before=(0,)), size=4)
    assert ("standstill", None) == (gone.id, gone.rank)


def test_a_rank_that_somebody_kills_at_that_moment_is_no_standstill() -> None:
    *facts, waiting, killed = hung({0: waits("all_reduce", 41), 1: ""})
    assert isinstance(killed, ev.RankExited)
    early = replace(killed, time=6.1, exit_code=137, signal="SIGKILL")
    assert cause_of([*facts, early, waiting], size=2) is None
    late = replace(early, time=7.1)  # as rankdeck does after the grace period
    assert found([*facts, waiting, late], size=2).id == "rank-stuck"


def test_a_rank_that_left_is_not_to_blame_for_messages_between_two_others() -> None:
    stacks = {0: waits("recv", 9), 1: waits("recv", 9)}
    assert "standstill" == found(hung(stacks, left_before=(2,)), size=3).id


def test_a_thread_that_trains_is_the_program() -> None:
    over = stack(("/usr/lib/python3.11/threading.py", 1590, "_shutdown"))
    thread = waits("all_reduce", 9).replace("Current thread", "Thread 0x7f (most recent call first)")
    assert (
        "thread-keeps-alive"
        == found(hung({0: f"{thread.replace('all_reduce', 'get')}\n\n{over}"}), size=1).id
    )
    assert "thread-keeps-alive" != found(hung({0: f"{thread}\n\n{over}"}), size=1).id


def test_the_remedy_names_the_run() -> None:
    cause = found(hung({0: STUCK, 1: STUCK}))
    assert "rankdeck stacks r1 while it stands still shows the whole stacks" in cause.remedy


def test_ranks_that_wait_in_different_collectives() -> None:
    cause = found(hung({0: waits("all_reduce", 41), 1: waits("broadcast", 43)}))

    assert ("collective-mismatch", "likely", None) == (cause.id, cause.certainty, cause.rank)
    assert "all_reduce (train.py:41)" in cause.text
    assert "broadcast (train.py:43)" in cause.text


def test_a_rank_that_has_left_the_others_waiting() -> None:
    cause = found(hung({1: waits("barrier", 41)}, left_before=(0,)))

    assert ("left-early", "likely", 0) == (cause.id, cause.certainty, cause.rank)
    assert "rank 0 had ended with 0 while rank 1 waits in barrier (train.py:41)" == cause.text


def test_a_gang_in_one_place_stands_still_and_no_more_is_known() -> None:
    for texts in ({0: waits("barrier", 41), 1: waits("barrier", 41)}, {0: STUCK, 1: STUCK}):
        cause = found(hung(texts))
        assert ("standstill", "likely") == (cause.id, cause.certainty)


def test_without_stacks_there_is_no_cause() -> None:
    assert standstill([]) is None
    assert standstill([ev.StacksTaken(time=5.0, rank=0, reason="the rank did not answer in 3 s")]) is None
    assert cause_of(hung({})) is None


def test_stacks_of_an_idle_spell_long_before_the_limit_are_not_judged() -> None:
    stop, _, _, first, second = hung({0: waits("barrier", 41), 1: STUCK})
    late = [replace(each, time=each.time + 3600.0) for each in (stop, first, second)]
    spell = ev.RanksSilent(time=4.0, ranks=(0, 1), since=3.0)
    stacks = taken({0: waits("barrier", 41), 1: STUCK})
    assert cause_of([spell, *stacks, ev.RanksResumed(time=6.0, ranks=(0, 1)), *late]) is None
    assert "rank-stuck" == found([spell, *stacks, *late]).id


def test_a_time_limit_is_no_standstill() -> None:
    stop = ev.StopRequested(time=6.0, by="limit", reason="the time limit of 5 s", exit_code=124, grace_s=1.0)

    assert cause_of([*taken({0: STUCK, 1: STUCK}), stop]) is None
