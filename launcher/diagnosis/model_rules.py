"""Recognise failures of the model and its files: what DDP demands, NaN and infinity, checkpoints. Pure."""

from __future__ import annotations

import math
import re

from ..errors import counted
from ..state.outcome_rules import brief
from ..state.ranks import FirstNotFinite, Rank
from .failure import Certainty, Finding, FirstFailure, Recognised, Told

_UNUSED = "Expected to have finished reduction in the prior iteration before starting a new one"
_INDICES = re.compile(r"Parameter indices which did not receive grad for rank \d+: ([\d ]{1,200})")
_NAMES = re.compile(r"Parameters which did not receive grad for rank \d+: ([^\n]{1,300})")


def ddp_unused(failure: FirstFailure) -> Finding | None:
    """Parameters of a DDP module got no gradient in a step."""
    found = failure.begins(_UNUSED, "RuntimeError")
    if found is None:
        return None
    message = found.error.message
    told = _NAMES.search(message) or _INDICES.search(message)
    which = f"parameters without a gradient: {brief(told[1])}" if told else ""
    return Finding(
        "ddp-unused-parameters",
        f"parameters of the DistributedDataParallel module of {failure.name} got no gradient in a step",
        found.certainty if told else Certainty.LIKELY,
        (which,) if which else (),
        (
            "use every parameter in the loss, or remove those that are not used",
            "DistributedDataParallel(…, find_unused_parameters=True), if they differ from step to step",
            "--env TORCH_DISTRIBUTED_DEBUG=INFO names them",
        ),
    )


_SIZES = (
    r"\[(?P<rank>\d{1,7})\]: params\[(?P<at>\d{1,9})\] in this process with (?P<what>sizes|strides) "
    r"(?P<size>\[[\d, ]{0,80}\]) appears not to match (?:sizes|strides) of the same param in process "
    r"(?P<to>\d{1,7})"
)
_COUNTS = (
    r"DDP expects same model across all ranks, but Rank (?P<rank>\d{1,7}) has (?P<count>\d{1,9}) params, "
    r"while rank (?P<to>\d{1,7}) has inconsistent (?P<other>\d{1,9}) params"
)


def ddp_differs(failure: FirstFailure) -> Finding | None:
    """The ranks gave DDP modules with different parameters."""
    if found := failure.begins(_SIZES, "RuntimeError"):
        match = found.match
        evidence = (
            f"parameter {match['at']} has {match['what']} {match['size']} on rank {match['rank']}, unlike on "
            f"rank {match['to']}"
        )
    elif found := failure.begins(_COUNTS, "RuntimeError"):
        match = found.match
        evidence = (
            f"rank {match['rank']} has {match['count']} parameters, and rank {match['to']} {match['other']}"
        )
    else:
        return None
    return Finding(
        "ddp-parameters-differ",
        "the ranks gave DistributedDataParallel models with different parameters",
        found.certainty,
        (evidence,),
        ("build the same model on every rank: no size in it may depend on the rank or on its data",),
    )


def ddp_ready_twice(failure: FirstFailure) -> Finding | None:
    """A parameter of a DDP module got two gradients in a step."""
    found = failure.begins("Expected to mark a variable ready only once", "RuntimeError")
    if found is None:
        return None
    named = re.search(r"Parameter at index \d+ with name (\S{1,200}) has been marked", found.error.message)
    return Finding(
        "ddp-ready-twice",
        f"a parameter of the DistributedDataParallel module of {failure.name} got two gradients in a step",
        found.certainty,
        (f"the parameter is {named[1]}",) if named else (),
        (
            "torch.utils.checkpoint.checkpoint(…, use_reentrant=False)",
            "one forward pass a backward pass; no parameter of the module used outside of it",
            "DistributedDataParallel(…, static_graph=True), if its graph is the same in every step",
        ),
    )


_ANOMALY = r"Function '(\w{1,100})' returned nan values in its (\d{1,4})th output"
_NORM = r"The total norm of order [\d.]{1,20} for gradients from `parameters` is non-finite"


def not_finite_gradient(failure: FirstFailure) -> Finding | None:
    """Torch found a gradient that is no finite number."""
    remedy: tuple[str, ...]
    if found := failure.begins(_ANOMALY, "RuntimeError"):
        text = f"the backward pass of {failure.name} made a NaN in {found.match[1]}"
        remedy = (
            f"rankdeck logs {failure.run} -r {failure.rank.rank}: torch wrote there which call it belongs to",
            _GUARD,
        )
    elif found := failure.begins(_NORM, "RuntimeError"):
        text, remedy = f"the gradients of {failure.name} have a norm that is not finite", _SEARCH
    else:
        return None
    return Finding("not-finite", text, found.certainty, _first_reports(failure), remedy)


_GUARD = "guard what can divide by 0 or take a logarithm or root of 0: an epsilon, clamp, nan_to_num"
_SEARCH = (
    "torch.autograd.set_detect_anomaly(True) names the operation that makes the first NaN",
    "a lower learning rate, gradient clipping, bfloat16 in place of float16; look at the batch of that step",
    _GUARD,
)
_SAID = re.compile(r"\b(?:nan|inf|infinity|infinite|non-?finite|not finite|diverged?)\b", re.IGNORECASE)


_OF_NUMBERS = ("FloatingPointError", "ArithmeticError", "OverflowError")


def not_finite_reported(failure: FirstFailure) -> Finding | None:
    """A rank gave up, and says so or says nothing, when a figure of the gang was not finite."""
    told = _reporters(failure)
    if not told or not _gave_up(failure):
        return None
    rank, first = told[0]
    if failure.rank.metrics and failure.rank.not_finite is None and not _is_named(first, failure):
        return None  # what it reported itself is in order, and it complains of something else
    where = "" if first.step is None else f" at step {first.step}"
    text = f"{first.metric} of rank {rank} was not finite{where}"
    return Finding("not-finite", text, Certainty.LIKELY, _first_reports(failure), _SEARCH, rank)


def _is_named(first: FirstNotFinite, failure: FirstFailure) -> bool:
    """Whether the rank's exception is of numbers as such, or names that figure."""
    raised = failure.rank.raised
    return raised is not None and (
        raised.kind in _OF_NUMBERS or re.search(rf"\b{re.escape(first.metric)}\b", raised.message) is not None
    )


def _gave_up(failure: FirstFailure) -> bool:
    """Whether the rank says that a figure is not finite, or ended without a word while its own were not."""
    if (raised := failure.rank.raised) is not None:
        return raised.kind in _OF_NUMBERS or _SAID.search(raised.message) is not None
    bad = any(not math.isfinite(value) for value in failure.rank.metrics.values())
    return bad and failure.rank.signal is None


def _reporters(failure: FirstFailure) -> list[tuple[int, FirstNotFinite]]:
    """The ranks that have reported a figure that is not finite, the first one first."""
    told = [(rank.rank, rank.not_finite) for rank in failure.gang if rank.not_finite and _is_bad_still(rank)]
    return sorted(told, key=lambda each: (each[1].time, each[0]))


def _is_bad_still(rank: Rank) -> bool:
    """Whether the figure that was not finite is not to this day: a best loss begins as infinite."""
    first = rank.not_finite
    return first is not None and not math.isfinite(rank.metrics.get(first.metric, math.nan))


def _first_reports(failure: FirstFailure) -> tuple[str, ...]:
    """Where the first figure that is not finite was reported, and how many ranks reported one."""
    told = _reporters(failure)
    if not told:
        return ()
    (rank, first), *others = told
    at = "" if first.step is None else f", at step {first.step}"
    later = f"; {counted(len(others), 'other rank')} reported one later" if others else ""
    return (f"rank {rank} was the first to report one: {first.metric}{at}{later}",)


_READER = (
    r"PytorchStreamReader failed (?:reading|finding)"  # what it fails to locate may never have been there
)
_SHORT = r"unexpected EOF, expected \d+ more bytes\. The file might be corrupted"
_PICKLE = r"pickle data was truncated|Ran out of input|unpickling stack underflow"
_SAFE = r"Error while deserializing header: |incomplete metadata"
_LOADS = r"(?:torch/serialization|safetensors/\w+|pickle|zipfile(?:/\w+)?|numpy/lib/\w+)\.py"
_CHECKPOINTS = (
    r"(?:torch/serialization|safetensors/\w+|zipfile(?:/\w+)?|numpy/lib/\w+)\.py"  # these read files
)
_NO_ARCHIVE = re.compile(  # half an archive; and what is neither that nor a file of older versions
    r"^    \S.*torch\._C\.PyTorchFileReader\(.*\n(?: +[\^~]+\n)?OSError: \[Errno 22\]"
    r"|^    magic_number = pickle_module\.load\(",
    re.MULTILINE,
)


def torn_checkpoint(failure: FirstFailure) -> Finding | None:
    """A file could not be loaded because it is not whole."""
    found = _is_torn(failure)
    unread = (each for each in failure.errors if not each.by_user and _NO_ARCHIVE.search(each.block))
    told = found.error if found else next(unread, None)
    if told is None:
        return None
    return Finding(
        "checkpoint-torn",
        f"{failure.name} loaded a file that is not whole{_or_else(found, told)}",
        _certainty(found),
        (brief(f"{told.kind}: {told.message}".removesuffix(": ")),),
        (
            "load an older checkpoint",
            "write it under another name, then os.replace: who ends meanwhile leaves the old one whole",
            "one rank writes a file, and the others wait at a barrier before they load it",
        ),
    )


def _or_else(found: Recognised | None, told: Told) -> str:
    """What else the error may mean."""
    if found is None:
        return ", or no checkpoint"
    return ", or read past the end of one" if told.kind == "EOFError" else ""


def _certainty(found: Recognised | None) -> Certainty:
    """A pickle may come from a pipe whose other end failed: only a reader of files knows that it read one."""
    if found is None:
        return Certainty.LIKELY
    of_file = re.match(_READER, found.error.message) or found.error.passed(_CHECKPOINTS)
    return found.certainty if of_file else Certainty.LIKELY


def _is_torn(failure: FirstFailure) -> Recognised | None:
    """What a reader says of a file that ends too early."""
    found = (
        failure.begins(rf"{_READER}|{_SHORT}", "RuntimeError")
        or failure.begins(_PICKLE, "_pickle.UnpicklingError", "EOFError")
        or failure.begins(_SAFE, "safetensors_rust.SafetensorError", "safetensors.SafetensorError")
    )
    if found is not None:
        return found
    vague = failure.begins(r"\Z|No data left in file", "EOFError") or failure.begins(
        r"File is not a zip file|Bad magic number|Bad CRC", "zipfile.BadZipFile"
    )
    return vague if vague and vague.error.passed(_LOADS) else None


_POINTER = r"invalid load key, 'v'|Weights only load failed[\s\S]*Unsupported operand 118\b"  # 118 is v


def pointer_of_lfs(failure: FirstFailure) -> Finding | None:
    """The file begins with a v, as the pointers do that Git LFS leaves in place of large files."""
    found = failure.begins(_POINTER, "_pickle.UnpicklingError")
    if found is None:
        return None
    return Finding(
        "checkpoint-torn",
        f"{failure.name} loaded a file that is no checkpoint: it may be a pointer of Git LFS",
        Certainty.LIKELY,
        (brief(f"{found.error.kind}: {found.error.message}"),),
        ("`head -1 FILE` shows whether it is one: it says `version https://git-lfs…`", "git lfs pull"),
    )


_BLOCKED = re.compile(r"Unsupported global: GLOBAL (\S{1,200}) was not an allowed global")


def weights_only(failure: FirstFailure) -> Finding | None:
    """`torch.load` refused what is no weight."""
    found = failure.begins("Weights only load failed", "_pickle.UnpicklingError")
    blocked = found and _BLOCKED.search(found.error.message)
    if found is None or not blocked:
        return None
    return Finding(
        "weights-only",
        f"{failure.name} loaded a file with more than weights in it, which torch.load refuses by default",
        found.certainty,
        (f"it holds a {blocked[1]}",),
        (
            f"torch.serialization.add_safe_globals([{blocked[1].rpartition('.')[2]}]) before it",
            "save state_dict() and plain values only",
            "torch.load(…, weights_only=False), for a file that you trust as you trust code",
        ),
    )


def failed_after_result(failure: FirstFailure) -> Finding | None:
    """The process ended badly after the rank's function had returned. One that publishes may still train."""
    rank = failure.rank
    if not rank.after_return or rank.returned is None or rank.raised is not None:
        return None
    how = f"was killed by {rank.signal}" if rank.signal else f"ended with exit code {rank.exit_code}"
    return Finding(
        "failed-after-result",
        f"{failure.name} had delivered its result; its process {how} afterwards",
        Certainty.CERTAIN,
        remedy=(
            f"rankdeck result {failure.run} -r {rank.rank}: the result is there",
            "see what ends the process: exit handlers, threads, os._exit, a library's cleanup",
            "torch.distributed.destroy_process_group() at the end of the function",
        ),
    )
