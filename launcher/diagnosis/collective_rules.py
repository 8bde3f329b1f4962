"""Recognise failures of ranks that do not communicate as one gang: collectives, their group, its store. Pure.

The messages are those of torch 2.0 to 2.13, gloo and NCCL.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from ..errors import counted
from ..state.events import CollectiveCall
from ..state.outcome_rules import brief, listed
from ..state.peer_loss import operation
from ..state.process_groups import DEFAULT, group_label
from ..state.ranks import Rank, RankPhase
from .failure import Certainty, Finding, FirstFailure, Recognised
from .hang_rules import EQUAL_STEPS, SAME_ORDER
from .stacks import spans, standstills

_STORE = "torch.distributed.DistStoreError"
_NETWORK = "torch.distributed.DistNetworkError"
_BACKEND = "torch.distributed.DistBackendError"
_SHOWN, _MOST_RECORDED = 4, 64
_VALUE = ("ValueError", "RuntimeError")  # what the same check raises, by version
_RUNTIME = ("RuntimeError", _BACKEND)

_GLOO_GONE = r"\[\S*gloo/transport/\S*\] .*?(?:[Cc]onnection (?:closed|reset) by peer|Broken pipe)"
_PEER_GONE = r".*(?:remote process exited|Connection (?:was likely )?(?:closed|reset)|[Bb]roken pipe)"


def left_early(failure: FirstFailure) -> Finding | None:
    """A peer ended with 0 while this rank was in a collective with it."""
    if not failure.left or not failure.rank.doubt:
        return None
    gloo = failure.begins(_GLOO_GONE, "RuntimeError")
    found = gloo or failure.begins(f"(?s){_PEER_GONE}", *_RUNTIME, _NETWORK, "ConnectionResetError")
    if found is None:
        return None
    where = _operation(failure)
    if not (gloo or where):
        return None  # a connection of the program's own, as to a database
    return Finding(
        "left-early",
        f"{_named(failure.left)} had ended with 0 while {failure.name} was in {where or 'a collective'}",
        found.certainty if gloo and where else Certainty.LIKELY,
        tuple(filter(None, (_steps(failure), f"torch: {brief(found.error.message)}"))),
        EQUAL_STEPS,
        failure.left[0].rank if len(failure.left) == 1 else None,
    )


def _operation(failure: FirstFailure) -> str:
    return operation(failure.rank.raised.traceback) if failure.rank.raised else ""


def _steps(failure: FirstFailure) -> str:
    """The steps that those who left and this rank have reported; empty if one has not."""
    steps = [rank.step for rank in (*failure.left, failure.rank)]
    if len(steps) != 2 or None in steps:
        return ""
    return f"rank {failure.left[0].rank} reported step {steps[0]} last, and {failure.name} step {steps[1]}"


def _named(ranks: Sequence[Rank]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {listed([str(each.rank) for each in ranks])}"


_SIZES = r"\[enforce fail at \S*gloo/\S*\] op\.preamble\.length <= op\.nbytes\. (\d{1,15}) vs (\d{1,15})"
_DIFFERENT = re.compile(
    r"Detected mismatch between collectives on ranks\. (?P<told>[\s\S]{1,2000}?)"
    r"(?:Collectives differ in the following aspects: (?P<aspects>[^\n]{1,400}))?\Z"
)
_SHAPES = r"Error when verifying shape tensors for collective (\w{1,40})"


def mismatch(failure: FirstFailure) -> Finding | None:
    """Ranks called different collectives, or one with different sizes."""
    if found := _sizes(failure):
        sent, room = found.match.groups()
        evidence: tuple[str, ...] = (f"gloo: it was sent {sent} bytes and expected at most {room}",)
        text = f"{failure.name} and another rank were in different collectives, or in one with other sizes"
    elif found := failure.begins(_DIFFERENT, *_RUNTIME):
        evidence = tuple(_fingerprints(found.match))
        text = f"{failure.name} and another rank called different collectives at the same point"
    elif found := failure.begins(_SHAPES, *_RUNTIME):
        evidence = (brief(found.error.message),)
        text = f"the ranks called {found.match[1].lower()} with tensors of different shapes"
    else:
        return None
    return Finding(
        "collective-mismatch",
        text,
        found.certainty,
        (*evidence, *_recorded(failure, _own_call(failure))),
        SAME_ORDER,
    )


def _sizes(failure: FirstFailure) -> Recognised | None:
    """What gloo says of sizes, in an exception or, as in its own threads, at the end of the process."""
    return failure.begins(_SIZES, *_RUNTIME) or failure.aborted_with(rf"^\s*what\(\):\s+{_SIZES}")


_FINGERPRINT = re.compile(
    r"[Rr]ank (\d{1,7}) is running collective: CollectiveFingerPrint\("
    r"(?:SequenceNumber=(\d{1,12}))?[^)]{0,40}?OpType=(\w{1,40})(?:, TensorShape=(\[[\d, ]{0,80}\]))?"
)


def _fingerprints(match: re.Match[str]) -> list[str]:
    told = _FINGERPRINT.findall(match[0])
    lines = [
        f"rank {rank} called {kind.lower()}{f' of shape {shape}' if shape else ''}"
        f"{f', its number {number}' if number else ''}"
        for rank, number, kind, shape in told
    ]
    return lines or [brief(match[0])]


_GLOO_TIMEOUT = (
    r"\[\S*gloo/transport/\S*\] Timed out waiting (?P<ms>\d{1,12}) ?ms for (?:recv|send) operation"
)
_MONITORED = (
    r"(?:\[Rank (?P<who>\d{1,7})\]: )?Ranks? (?P<ranks>\d{1,7}(?:, ?\d{1,7})*) failed to pass "
    r"monitored ?[Bb]arrier in (?P<ms>\d{1,12}) ?ms"
)
_WATCHDOG = (
    r"Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(?P<number>\d{1,12}), "
    r"OpType=(?P<kind>\w{1,40})[^\n]{0,300}?Timeout\(ms\)=(?P<ms>\d{1,12})"
)


def timeout(failure: FirstFailure) -> Finding | None:
    """Ranks waited in a collective for longer than its group allows."""
    if barrier := _monitored(failure):
        return barrier
    if found := failure.begins(_GLOO_TIMEOUT, *_RUNTIME):
        evidence = (*_whereabouts(failure), *_recorded(failure, _own_call(failure)))
        return _timed_out(failure, _operation(failure) or "a collective", found, evidence)
    found = _watchdog(failure)
    if found is None:
        return None
    group = _group_named(found.match.string)
    own = _own_call(failure, group) if group else None
    missing = _without_call(failure, own, int(found.match["number"]))
    evidence = (
        f"it was collective {found.match['number']} of its group",
        *_behind(failure, group),
        *_whereabouts(failure),
        *_recorded(failure, own),
    )
    return _timed_out(failure, found.match["kind"].lower(), found, evidence, missing)


def _monitored(failure: FirstFailure) -> Finding | None:
    """What rank 0 of a monitored barrier says; the others only see it go, and may be the first to fail."""
    others = (each for each in failure.gang if each.rank != failure.rank.rank and failure.rank.doubt)
    for rank in (failure.rank, *others):
        told = replace(failure, rank=rank).begins(_MONITORED, *_RUNTIME)
        if told is not None:
            missing = {int(number) for number in re.findall(r"\d+", told.match["ranks"])}
            evidence = (f"torch: {brief(told.error.message)}", *_whereabouts(failure, missing))
            found = _timed_out(replace(failure, rank=rank), "monitored_barrier", told, evidence)
            return replace(found, rank=min(missing))
    return None


def _whereabouts(failure: FirstFailure, of: Collection[int] = ()) -> tuple[str, ...]:
    """Where the ranks without an error of their own were, by their stacks; or that they ran to the end.

    Args:
        failure: the first failure.
        of: these ranks only; none for all.
    """
    busy = [each for each in _busy(failure) if not of or each.rank in of]
    numbers = {each.rank for each in busy}
    places = [
        place for place in standstills(t for t in failure.stacks if t.rank in numbers) if place.function
    ]
    seen = {number for place in places for number in place.ranks}
    unseen = [each for each in busy if each.rank not in seen]
    return (*map(str, places[:_SHOWN]), *_ran_on(unseen))


def _own_call(failure: FirstFailure, group: str = "") -> CollectiveCall | None:
    """The failing rank's last call in a group, or in whatever group it called last."""
    return next((call for call in failure.rank.calls if group in ("", call.group)), None)


def _recorded(failure: FirstFailure, own: CollectiveCall | None) -> Iterator[str]:
    """How far ranks had come in the group of a call, by torch's flight recorder; those behind first."""
    if own is None:
        return
    yield f"torch recorded of {failure.name}: {_call_text(own)}"
    others = sorted(_calls_in(failure, own.group), key=lambda each: each[1].number)
    yield from (f"and of rank {rank}: {_call_text(call)}" for rank, call in others[:_MOST_RECORDED])


def _calls_in(failure: FirstFailure, group: str) -> Iterator[tuple[int, CollectiveCall]]:
    """The last calls of the other ranks in a group."""
    for rank in failure.gang:
        if rank.rank != failure.rank.rank:
            yield from ((rank.rank, call) for call in rank.calls if call.group == group)


def _without_call(failure: FirstFailure, own: CollectiveCall | None, number: int) -> tuple[int, ...]:
    """The ranks that had not called a collective of a group; none if a rank's record is missing."""
    if own is None or not all(rank.calls for rank in failure.gang):
        return ()
    return tuple(rank for rank, call in _calls_in(failure, own.group) if call.number < number)


def _call_text(call: CollectiveCall) -> str:
    sizes = f" of {call.sizes}" if call.sizes else ""
    return f"{call.operation}{sizes} was its call number {call.number} in {call.group}"


def _watchdog(failure: FirstFailure) -> Recognised | None:
    """What NCCL's watchdog says, in an exception or, mostly, at the end of the process."""
    head = r"(?s)(?:\[[^\]\n]{1,200}\] ?)?(?:Process group watchdog thread terminated with exception: )?"
    found = failure.begins(rf"{head}(?:\[Rank \d{{1,7}}\] ?)?{_WATCHDOG}", *_RUNTIME)
    return found or failure.aborted_with(_WATCHDOG)


def _timed_out(
    failure: FirstFailure,
    what: str,
    found: Recognised,
    evidence: tuple[str, ...],
    missing: Sequence[int] = (),
) -> Finding:
    seconds = int(found.match["ms"]) / 1000
    named = found.match.groupdict().get("ranks") or spans(missing)
    awaited = f"rank{'s' * (not named.isdigit())} {named}" if named else "another rank"
    return Finding(
        "collective-timeout",
        f"{failure.name} waited {seconds:g} s in {what} for {awaited}",
        found.certainty,
        evidence,
        (
            "run it with --no-progress-timeout below that limit: it tells where each rank was",
            "work of one rank alone may need a longer one: init_process_group(timeout=timedelta(minutes=…))",
            SAME_ORDER[0],
        ),
    )


def _unaware(failure: FirstFailure) -> tuple[str, ...]:
    """The ranks that were running when the gang was stopped, and had reported no failure."""
    return _ran_on(_busy(failure))


def _busy(failure: FirstFailure) -> list[Rank]:
    return [each for each in failure.gang if each.phase is RankPhase.STOPPED and each.raised is None]


def _ran_on(ranks: Sequence[Rank]) -> tuple[str, ...]:
    return (f"{_named(ranks)} ran until the gang was stopped, without such an error",) if ranks else ()


_LAST = re.compile(r"last enqueued (?:NCCL )?work: (\d{1,12})", re.IGNORECASE)


def _group_named(text: str) -> str:
    """The group that NCCL's watchdog names, as `CollectiveCall` does; empty if it names none.

    Each rank numbers groups as it made them: only the default group and GUIDs (torch 2.5) are those of all.
    """
    told = re.search(r"\[PG [^\]\n]{0,40}?(?P<name>[^\s()\]]{0,80}) ?\((?P<about>[^)\]]{1,80})\)", text)
    if told is None or (told["about"] != DEFAULT and "GUID" not in told[0]):
        return ""
    return group_label(told["name"], told["about"])


def _behind(failure: FirstFailure, group: str) -> tuple[str, ...]:
    """The ranks that had begun fewer collectives of a group than others, as NCCL's watchdogs tell."""
    ranks = failure.gang[:_MOST_RECORDED] if group else ()
    begun = {each.rank: _begun(failure.output_of(each), group) for each in ranks}
    most = max(begun.values(), default=0)
    behind = [rank for rank, number in begun.items() if 0 < number < most]
    lines = [f"rank {rank} had begun {begun[rank]} collectives, and others {most}" for rank in behind[:4]]
    return tuple(lines)


def _begun(lines: Sequence[str], group: str) -> int:
    """How many collectives of a group a rank had begun, by what it printed last; 0 if that does not tell."""
    found = (_LAST.search(line) for line in reversed(lines) if _group_named(line) == group)
    return next((int(match[1]) for match in found if match), 0)


_CLIENTS = r"Timed out after (\d{1,9}) seconds waiting for clients\. (\d{1,7})/(\d{1,7}) clients joined"
_KEYS = r"wait timeout after (\d{1,12}) ?ms, keys: /?default_pg/\d+//\w+//\d+/(\d{1,7})"
_BARRIER = (
    r"Timed out initializing process group in store based barrier on rank:? \d+,? .{0,200}?"
    r"world_size=(\d{1,7}), (?:num_workers_joined|worker_count)=(\d{1,7})"
)


def ranks_missing(failure: FirstFailure) -> Finding | None:
    """Ranks waited for the others to join, and not all came."""
    if found := failure.begins(_CLIENTS, _STORE, "RuntimeError"):
        text = f"only {found.match[2]} of {found.match[3]} ranks had joined after {found.match[1]} s"
    elif found := failure.begins(_BARRIER, _STORE, "RuntimeError"):
        text = f"only {found.match[2]} of {found.match[1]} ranks had joined the process group in time"
    elif found := failure.begins(_KEYS, _STORE, "RuntimeError"):
        if int(found.match[2]) >= len(failure.gang):
            return _too_many(failure, found)
        waited = int(found.match[1]) / 1000
        text = f"{failure.name} waited {waited:g} s for rank {found.match[2]} to join the process group"
    else:
        return None
    return Finding(
        "ranks-missing",
        text,
        found.certainty,
        (f"torch: {brief(found.error.message)}", *_unaware(failure)),
        (
            "every rank must reach init_process_group in time: what is done before it, such as a download?",
            "the world size must be that of the run: take WORLD_SIZE, and write no number into the script",
        ),
    )


def _too_many(failure: FirstFailure, found: Recognised) -> Finding:
    """The group was made for more ranks than there are."""
    size = len(failure.gang)
    return Finding(
        "ranks-missing",
        f"{failure.name} waited for rank {found.match[2]}, and the gang has {counted(size, 'rank')}",
        found.certainty,
        (f"torch: {brief(found.error.message)}",),
        (
            "leave world_size and rank out of init_process_group: it finds them in the environment",
            "or start as many ranks as the script's world_size says, with -n",
        ),
    )


def outside_group(failure: FirstFailure) -> Finding | None:
    """A rank named one by its number in the gang as if it were the number in a group, or the other way."""
    found = failure.begins(
        r"(?:Global|Group) rank (\d{1,7}) is not part of group"
        r"|ProcessGroup\w{1,20}::\w{1,40}: invalid (?:root|src|dst) rank: (-?\d{1,7})",
        *_VALUE,
    )
    if found is None:
        return None
    return Finding(
        "rank-outside-group",
        f"{failure.name} named rank {found.match[1] or found.match[2]}, which its group does not have",
        found.certainty,
        (f"torch: {brief(found.error.message)}",),
        (
            "src= and dst= are ranks of the whole gang; group_src= and group_dst= count within the group",
            "torch.distributed.get_global_rank(group, 0) is the first rank of a group",
        ),
    )


def group_missing(failure: FirstFailure) -> Finding | None:
    """Something of torch.distributed was used before there was a group, or after its end."""
    found = failure.begins("Default process group has not been initialized", *_VALUE)
    if found is None:
        return None
    return Finding(
        "group-missing",
        f"{failure.name} used torch.distributed without a process group",
        found.certainty,
        remedy=(
            "torch.distributed.init_process_group() before it; rankdeck sets what it needs",
            "no call of it after destroy_process_group()",
        ),
    )


def group_twice(failure: FirstFailure) -> Finding | None:
    """The default group was made a second time."""
    found = failure.begins("trying to initialize the default process group twice", *_VALUE)
    if found is None:
        return None
    return Finding(
        "group-twice",
        f"{failure.name} made the default process group twice",
        found.certainty,
        remedy=(
            "call init_process_group once; where a library may have, ask torch.distributed.is_initialized()",
        ),
    )


_NO_NCCL = (
    r"Distributed package doesn't have NCCL built in"
    r"|ProcessGroupNCCL is only supported with GPUs, no GPUs found"
    r"|No backend type associated with device type cpu\b"
)


def nccl_without_gpu(failure: FirstFailure) -> Finding | None:
    """NCCL was asked for where there is no GPU, or for a tensor that is on none."""
    found = failure.begins(_NO_NCCL, "RuntimeError", "ValueError", "torch.distributed.DistBackendError")
    if found is None:
        return None
    on_cpu = found.match[0].startswith("No backend")
    text = f"{failure.name} used the backend NCCL without a GPU"
    return Finding(
        "nccl-without-gpu",
        f"{failure.name} gave a tensor of the CPU to a group without a backend for it" if on_cpu else text,
        Certainty.LIKELY if on_cpu else found.certainty,
        (f"torch: {brief(found.error.message)}",),
        (
            "move the tensor to the GPU first, or use the backend 'cpu:gloo,cuda:nccl'"
            if on_cpu
            else "the backend gloo on CPUs; without a name, torch takes the one that fits",
            "--gpu, and a torch with CUDA, if it is to use GPUs",
        ),
    )
