"""Recognise failures of process groups: a group that is not there, ranks that do not call the same. Pure.

The messages are those of torch 2.13 and gloo; NCCL's are from torch's sources (ProcessGroupNCCL).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..state.events import CollectiveCall
from ..state.outcome_rules import brief, listed
from ..state.peer_loss import operation
from ..state.ranks import Rank, RankPhase
from .failure import Certainty, Finding, FirstFailure, Recognised, errors_of, recognised
from .stacks import standstills

_KINDS = ("RuntimeError", "ValueError")
_BACKEND_ERROR = "torch.distributed.DistBackendError"
_SHOWN = 4
_DETAIL = (
    "run it once with --env TORCH_DISTRIBUTED_DEBUG=DETAIL: torch then names the collective that differs"
)
_HANG = (
    "run it with --no-progress-timeout 60: when the gang stands still, every rank's stack shows where it is"
)


def nccl_without_gpu(failure: FirstFailure) -> Finding | None:
    """NCCL needs a GPU in each rank, and a torch that was built with it."""
    told = failure.begins(
        r"Distributed package doesn't have NCCL|ProcessGroupNCCL is only supported with GPUs", *_KINDS
    )
    if told is None:
        return None
    lack = "no GPU is there" if "GPUs" in told[0] else "this torch has none"
    seen = "" if failure.rank.devices else f"{failure.name} has no GPU of its own"
    return Finding(
        "nccl-without-gpu",
        f"the script asks for the backend nccl, and {lack}",
        certainty=told.certainty,
        evidence=tuple(filter(None, (brief(told.message), seen))),
        remedy=(
            'init_process_group("gloo") on CPUs, or leave the backend out: torch then takes what fits',
            "with GPUs: a build of torch with CUDA, and --gpu",
        ),
    )


def group_missing(failure: FirstFailure) -> Finding | None:
    """A collective, or DDP, was used before the group was made."""
    told = failure.begins(r"Default process group has not been initialized", *_KINDS)
    if told is None:
        return None
    return Finding(
        "group-missing",
        f"{failure.name} used the process group before it was made",
        certainty=told.certainty,
        evidence=(brief(told.message),),
        remedy=(
            "torch.distributed.init_process_group() first: it finds its address in the environment",
            "where one process runs alone: `if torch.distributed.is_initialized()` around the collective",
        ),
    )


def group_twice(failure: FirstFailure) -> Finding | None:
    """The script and a library both make the default group."""
    told = failure.begins(r"trying to initialize the default process group twice", *_KINDS)
    if told is None:
        return None
    return Finding(
        "group-twice",
        f"{failure.name} made the default process group twice",
        certainty=told.certainty,
        evidence=(brief(told.message),),
        remedy=(
            "make it once: `if not torch.distributed.is_initialized()` where it is made",
            "a Trainer, Accelerate or DeepSpeed makes it by itself: take it out of the script",
        ),
    )


_FINGERPRINT = re.compile(
    r"Rank (\d{1,7}) is running collective: CollectiveFingerPrint\(SequenceNumber=(\d{1,15}), "
    r"OpType=(\w{1,40})"
    r"(?:, TensorShape=(\[[\d, ]{0,200}\]))?"
)
_GLOO_SIZES = re.compile(
    r"^[^\n]{0,300}\bop\.preamble\.length <= op\.nbytes\. (\d{1,15}) vs (\d{1,15})", re.MULTILINE
)


def mismatch(failure: FirstFailure) -> Finding | None:
    """torch or gloo noticed that the ranks did not call the same collective with equal sizes."""
    told = _anywhere(failure, r"Detected mismatch between collectives on ranks")
    calls = _FINGERPRINT.findall(told.message)[:2] if told is not None else []
    if told is not None:
        return Finding(
            "collective-mismatch",
            "the ranks called different collectives, or with tensors of different sizes",
            evidence=tuple(_call(*each) for each in calls) or (brief(told.message),),
            remedy=("every rank of a group makes the same calls in the same order, with equal sizes", _HANG),
        )
    sizes = _unequal_sizes(failure)
    if sizes is None:
        return None
    return Finding(
        "collective-mismatch",
        "the ranks called a collective with tensors of different sizes",
        Certainty.LIKELY,
        (
            f"{failure.name} received {sizes[1]} bytes where it expected {sizes[2]}, as gloo tells",
            *_recorded(failure),
        ),
        (
            "every rank makes the same calls in the same order, with equal sizes: the order of a set differs",
            _DETAIL,
        ),
    )


def _unequal_sizes(failure: FirstFailure) -> re.Match[str] | None:
    """What gloo says of them: by an exception, or on its way to abort the process."""
    printed = "\n".join(failure.output()) if failure.rank.signal == "SIGABRT" else ""
    texts = (*(error.message for error in failure.errors), printed)
    return next(filter(None, map(_GLOO_SIZES.search, texts)), None)


def outside_group(failure: FirstFailure) -> Finding | None:
    """A rank named one by its number in the gang as if it were the number in a group, or the other way."""
    told = failure.begins(r"(?:Global|Group) rank (\d{1,7}) is not part of group", "ValueError")
    if told is None:
        return None
    return Finding(
        "rank-outside-group",
        f"{failure.name} named rank {told[1]}, which its group does not have",
        certainty=told.certainty,
        evidence=(brief(told.message),),
        remedy=(
            "src= and dst= are ranks of the whole gang; group_src= and group_dst= count within the group",
            "torch.distributed.get_global_rank(group, 0) is the first rank of a group",
        ),
    )


def _call(rank: str, number: str, operation: str, shape: str) -> str:
    what = f" of {shape}" if shape else ""
    return f"rank {rank} was in {operation.lower()}{what}, its collective number {number}"


def _anywhere(failure: FirstFailure, pattern: str) -> Recognised | None:
    """The match in the first failure, or else in one of its peers': one of them may tell more."""
    every = (failure.rank, *(rank for rank in failure.gang if rank.rank != failure.rank.rank))
    found = (recognised(errors_of(rank), pattern, _KINDS) for rank in every)
    return next(filter(None, found), None)


_ABSENT = (
    r"(?:\[Rank 0\]: )?Ranks? ((?:\d{1,7}(?:, ?)?){1,200}) failed to pass monitoredBarrier in (\d{1,12}) ms"
)


def missing_at_barrier(failure: FirstFailure) -> Finding | None:
    """Rank 0 of a monitored barrier names the ranks that did not come."""
    told = _anywhere(failure, _ABSENT)
    if told is None:
        return None
    absent = sorted({int(number) for number in re.findall(r"\d+", told[1])})
    return Finding(
        "collective-timeout",
        f"{_named(absent)} did not reach the monitored barrier within {int(told[2]) / 1000:g} s",
        evidence=_whereabouts(failure, [rank for rank in failure.gang if rank.rank in absent]),
        remedy=(_HANG, "a longer timeout in monitored_barrier, if a rank is only slow"),
        rank=absent[0],
    )


def _named(ranks: Sequence[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {listed([str(each) for each in ranks])}"


_NCCL_TIMEOUT = re.compile(
    r"Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(\d{1,15}), OpType=(\w{1,40})"
    r"[^)]{0,200}?Timeout\(ms\)=(\d{1,15})\)"
)
_GLOO_TIMEOUT = (
    r"\[[^\]\n]{0,200}gloo/transport/[^\]\n]{0,100}\] "
    r"(?:Timed out waiting (\d{1,12}) ?ms for|application timeout)"
)


@dataclass(frozen=True, slots=True)
class _TimedOut:
    """A collective that timed out: what torch calls it, and its limit in seconds, 0 if that is not known."""

    what: str
    limit_s: float
    certainty: Certainty


def _timed_out(failure: FirstFailure) -> _TimedOut | None:
    told = failure.begins(_GLOO_TIMEOUT, *_KINDS, _BACKEND_ERROR)
    if told is not None:
        where = operation(failure.rank.raised.traceback) if failure.rank.raised else ""
        return _TimedOut(where or "a collective", int(told[1] or 0) / 1000, told.certainty)
    told = failure.begins(rf"(?:\[Rank \d{{1,7}}\] )?{_NCCL_TIMEOUT.pattern}", _BACKEND_ERROR, "RuntimeError")
    printed = "\n".join(failure.output()) if failure.rank.signal == "SIGABRT" else ""
    nccl = told.match if told is not None else _NCCL_TIMEOUT.search(printed)
    if nccl is None:
        return None
    what = f"{nccl[2].lower()}, its collective number {nccl[1]},"
    return _TimedOut(what, int(nccl[3]) / 1000, told.certainty if told is not None else Certainty.CERTAIN)


def timeout(failure: FirstFailure) -> Finding | None:
    """A collective timed out: some rank was not in it, or not yet."""
    found = _timed_out(failure)
    if found is None:
        return None
    absent = [each for each in failure.gang if each.raised is None and each.phase is not RankPhase.SUCCEEDED]
    after = f" after {found.limit_s:g} s" if found.limit_s else ""
    return Finding(
        "collective-timeout",
        f"{found.what} of {failure.name} timed out{after}: some rank did not call it in time",
        certainty=found.certainty,
        evidence=(*_whereabouts(failure, absent), *_recorded(failure)),
        remedy=(
            _HANG,
            "a longer `timeout=` in init_process_group, if a rank evaluates or saves for that long",
            "--env TORCH_FR_BUFFER_SIZE=2000 makes torch record calls: then their numbers are told here",
        ),
    )


def _recorded(failure: FirstFailure) -> Iterator[str]:
    """How far the ranks that raised had come in the failing rank's group, by torch's flight recorder."""
    own = next(iter(failure.rank.raised.collectives), None) if failure.rank.raised else None
    if own is None:
        return
    yield f"torch recorded of {failure.name}: {_call_text(own)}"
    for rank in failure.gang:
        calls = rank.raised.collectives if rank.raised and rank.rank != failure.rank.rank else ()
        yield from (
            f"and of rank {rank.rank}: {_call_text(each)}" for each in calls if each.group == own.group
        )


def _call_text(call: CollectiveCall) -> str:
    return f"{call.operation} of {call.sizes} was its call number {call.number} in {call.group}"


def _whereabouts(failure: FirstFailure, absent: Sequence[Rank]) -> tuple[str, ...]:
    """Where the other ranks were: by their stacks, else only that they had raised nothing."""
    numbers = {rank.rank for rank in absent}
    places = standstills(each for each in failure.stacks if each.rank in numbers)
    seen = {number for place in places if place.function for number in place.ranks}
    others = [_silent(rank) for rank in absent if rank.rank not in seen]
    return (*(str(place) for place in places[:_SHOWN] if place.function), *others[:_SHOWN])


def _silent(rank: Rank) -> str:
    step = f", at step {rank.step}" if rank.step is not None else ""
    return f"rank {rank.rank} on {rank.host} had raised nothing{step}"


def missing_ranks(failure: FirstFailure) -> Finding | None:
    """The group was not made, because ranks did not come in time."""
    told = failure.begins(
        r"wait timeout after (\d{1,12}) ?ms, keys: ([^\n]{1,500})"
        r"|Timed out after (\d{1,12}) seconds waiting for clients\. (\d{1,7})/(\d{1,7}) clients joined"
        r"|[^\n]{0,200}Timed out initializing process group in store based barrier[^\n]{0,200}",
        "torch.distributed.DistStoreError",
        _BACKEND_ERROR,
        "RuntimeError",
    )
    making = failure.rank.raised is not None and "in init_process_group" in failure.rank.raised.traceback
    if told is None or not (making or told[4]):
        return None
    if (beyond := _beyond(failure, told)) is not None:
        return beyond
    absent = [rank.rank for rank in failure.gang if rank.raised is None and rank.rank != failure.rank.rank]
    who = f"; {_named(absent)} had raised nothing" if absent else ""
    count = f"{told[4]} of {told[5]} ranks joined" if told[4] else brief(told[0])
    return Finding(
        "ranks-missing",
        f"not every rank came to init_process_group within the timeout of {failure.name}",
        evidence=(count + who,),
        remedy=(
            "a rank that loads data first comes late: make the group first, or give it a longer `timeout=`",
            "every rank must make it: none may branch around it, and world_size is the number of ranks",
        ),
    )


_KEY_OF_RANK = re.compile(r"//cpu//\d{1,7}/(\d{1,7})(?:,|\Z)")


def _beyond(failure: FirstFailure, told: Recognised) -> Finding | None:
    """The group was made for more ranks than there are."""
    waited = _KEY_OF_RANK.search(told[2])
    size = len(failure.gang)
    if waited is None or int(waited[1]) < size:
        return None
    return Finding(
        "ranks-missing",
        f"{failure.name} waited for rank {waited[1]}, and the gang has {size} ranks, from 0 on",
        certainty=told.certainty,
        evidence=(brief(told.message),),
        remedy=(
            "leave world_size and rank out of init_process_group: it finds them in the environment",
            "or start as many ranks as the script's world_size says, with -n",
        ),
    )


def left_early(failure: FirstFailure) -> Finding | None:
    """Ranks were done, and had left, while others still waited for them."""
    if not (failure.left and failure.rank.doubt):
        return None
    where = operation(failure.rank.raised.traceback) if failure.rank.raised else ""
    waited = f"{failure.name} still waited{f' in {where}' if where else ''}"
    return Finding(
        "left-early",
        f"{_named([each.rank for each in failure.left])} had left with 0 while {waited}",
        evidence=(brief(failure.message),),
        remedy=(
            "every rank takes the same number of steps: a DistributedSampler pads, `drop_last=True` cuts",
            "with uneven data: `with model.join():` around the loop of DDP",
            "`torch.distributed.barrier()` before the end, if only the ending differs",
        ),
    )
