"""Recognise why a gang stood still, from the stacks that were taken before its limit ended it. Pure.

Stacks show where ranks were at one moment, and nothing of native code: each of these causes is only likely.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ..errors import NoProgress, counted
from ..state.events import RunEnded, StacksTaken
from ..state.outcome_rules import listed
from ..state.run_state import RunState
from .failure import Certainty, Finding
from .stacks import Standstill, communicates_beside, place_of, standstills, threads_beside, waiting_among, who

_SHOWN = 3


def stood_still(state: RunState, ended: RunEnded) -> Finding | None:
    """No rank showed a sign of life for as long as the run allows."""
    if ended.exit_code != NoProgress.exit_code:
        return None
    left = tuple(rank.rank for rank in state.left_early)
    stacks = state.last_stacks
    if _is_killed_otherwise(state):
        return None
    return _kept_alive(stacks) or standstill(stacks, left, silent=_unasked(state), run=state.id)


def _is_killed_otherwise(state: RunState) -> bool:
    """Whether somebody else killed a rank at that moment: rankdeck does so only after the grace period."""
    stop = state.stop
    killed = (rank.ended for rank in state.ranks if rank.signal == "SIGKILL" and rank.ended is not None)
    return stop is not None and any(ended < stop.time + stop.grace_s for ended in killed)


def _unasked(state: RunState) -> tuple[int, ...]:
    """The ranks that ran until the stop, and of which there are no stacks, nor a reason why not."""
    known = {taken.rank for taken in state.last_stacks} | {rank.rank for rank in state.left_early}
    return tuple(r.rank for r in state.ranks if r.rank not in known and state.service_as(r) is None)


def _kept_alive(stacks: Sequence[StacksTaken]) -> Finding | None:
    """The program of some rank is over, and Python waits for a thread of it before it exits."""
    ending = [taken for taken in stacks if _is_ending(taken)]
    if not ending or any(map(communicates_beside, ending)):  # a thread that trains is the program
        return None
    ranks = tuple(taken.rank for taken in ending)
    places = list(dict.fromkeys(place for taken in ending for place in threads_beside(taken)))
    return Finding(
        "thread-keeps-alive",
        f"the program of {who(ranks)} is over, and Python waits for a thread of it that does not end",
        Certainty.LIKELY,
        tuple(f"a thread is in {place}" for place in places[:_SHOWN]),
        (
            "end the thread at the end of the program: a stop marker in its queue, then join()",
            "threading.Thread(daemon=True), if nothing is lost with what it has not done",
        ),
        ranks[0],
    )


def _is_ending(taken: StacksTaken) -> bool:
    place = place_of(taken)
    return place.place.startswith("threading.py:") and place.function.endswith("_shutdown")


_TO_ONE = frozenset({"send", "recv", "isend", "irecv"})  # nobody else has to take part


def standstill(
    stacks: Iterable[StacksTaken],
    left: Sequence[int] = (),
    *,
    silent: Collection[int] = (),
    run: str = "RUN",
) -> Finding | None:
    """Why ranks stand still; None if their stacks do not show where they are.

    Args:
        stacks: the last ones of every rank that ran.
        left: the ranks that had ended with 0 by then.
        silent: further ranks that ran, without stacks.
        run: the run's id.
    """
    places = standstills(stacks)
    groups = [place for place in places if place.function]
    if not groups:
        return None
    unseen = tuple(sorted({*silent, *(r for place in places if not place.function for r in place.ranks)}))
    waiting = waiting_among(groups)
    odd = [place for place in groups if place not in waiting]
    others = _count(odd) + len(unseen)
    # of ranks that nobody saw, it is only likely that they are stuck where nothing else explains the wait
    told = bool(odd) or (bool(unseen) and len(waiting) == 1 and not left)
    if waiting and told and others <= max(1, _count(waiting)):
        return _stuck(odd, unseen, waiting)
    if not unseen and odd and not waiting and all(_LOADER in group.function for group in odd):
        return _loader(odd)
    if not others and left and not any(place.function in _TO_ONE for place in waiting):
        return _left(left, waiting)
    if not others and len(waiting) > 1:
        return _mismatched(waiting)
    remedy = (NATIVE, f"rankdeck stacks {run} while it stands still shows the whole stacks")
    return Finding("standstill", _sentence(groups, unseen), Certainty.LIKELY, (), remedy)


NATIVE = "py-spy dump --native -p PID on the host shows what native code waits for"
_LOADER = "dataloader."


def _loader(groups: Sequence[Standstill]) -> Finding:
    return Finding(
        "loader-stuck",
        f"every rank waits for the workers of its DataLoader: {_sentence(groups)}",
        Certainty.LIKELY,
        (),
        (
            "num_workers=0 runs the dataset in the rank: if that goes on, the workers are stuck",
            'a lock that is held at a fork stays locked in the worker: multiprocessing_context="spawn"',
            "DataLoader(timeout=60) turns such a wait into an error",
        ),
    )


def _count(groups: Iterable[Standstill]) -> int:
    return sum(len(group.ranks) for group in groups)


def _sentence(groups: Sequence[Standstill], unseen: Sequence[int] = ()) -> str:
    more = len(groups) - _SHOWN
    rest = [f"and {counted(more, 'other place')}"] if more > 0 else []
    missing = [f"no stacks could be had of {who(unseen)}"] if unseen else []
    return "; ".join([*missing, *map(str, groups[:_SHOWN]), *rest])


def _stuck(odd: Sequence[Standstill], unseen: Sequence[int], waiting: Sequence[Standstill]) -> Finding:
    """Ranks are elsewhere than in the wait of the others, or may be: nothing is known of those unseen."""
    seen = sorted(rank for group in odd for rank in group.ranks)
    joined = [f"{who(seen)} had not joined the others when the stacks were taken"] if seen else []
    answered = [f"{who(unseen)} did not answer{', and may be elsewhere too' * bool(seen)}"] if unseen else []
    look = (
        f"see what {each.function} at {each.place} waits for: the others cannot go on before it ends"
        for each in odd[:1]
    )
    ranks = [*seen, *unseen]
    return Finding(
        "rank-stuck",
        _sentence([*odd, *sorted(waiting, key=lambda group: -len(group.ranks))], unseen),
        Certainty.LIKELY,
        (*joined, *answered),
        (
            *look,
            *([NATIVE] if unseen else []),
            "work of one rank alone, such as an evaluation, may need a longer --no-progress-timeout",
        ),
        ranks[0] if len(ranks) == 1 else None,
    )


def _left(left: Sequence[int], waiting: Sequence[Standstill]) -> Finding:
    names = listed([str(rank) for rank in left])
    return Finding(
        "left-early",
        f"rank{'s' * (len(left) > 1)} {names} had ended with 0 while {_sentence(waiting)}",
        Certainty.LIKELY,
        (),
        EQUAL_STEPS,
        left[0] if len(left) == 1 else None,
    )


EQUAL_STEPS = (
    "give every rank the same number of steps: DistributedSampler with drop_last=True, or the least of all",
    "torch.distributed.algorithms.Join, if their numbers must differ",
)
SAME_ORDER = (
    "every rank must call the same collectives in one order, with equal shapes and types: look for an `if`",
    "--env TORCH_DISTRIBUTED_DEBUG=DETAIL names the ranks whose collectives differ",
)


def _mismatched(waiting: Sequence[Standstill]) -> Finding:
    return Finding(
        "collective-mismatch",
        f"ranks wait for each other in different places: {_sentence(waiting)}",
        Certainty.LIKELY,
        (),
        SAME_ORDER,
    )
