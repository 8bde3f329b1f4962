"""Recognise failures of the model's own code: DDP, numbers that are not finite, checkpoints. Pure."""

from __future__ import annotations

import re

from ..state.outcome_rules import brief
from ..state.ranks import Rank, RankPhase
from .failure import Certainty, Finding, FirstFailure


def unused_parameters(failure: FirstFailure) -> Finding | None:
    """DDP waited for gradients of parameters that took no part in the loss."""
    told = failure.begins(r"Expected to have finished reduction in the prior iteration", "RuntimeError")
    if told is None:
        return None
    which = re.search(
        r"Parameter indices which did not receive grad for rank (\d+): ([\d ]{1,200})", told.message
    )
    named = f"on rank {which[1]}, the parameters {which[2].strip()} had no gradient" if which else ""
    return Finding(
        "ddp-unused-parameters",
        "parameters of the model take no part in the loss, and DDP waits for their gradients",
        certainty=told.certainty,
        evidence=tuple(filter(None, (named,))) or (brief(told.message),),
        remedy=(
            "DistributedDataParallel(model, find_unused_parameters=True), if a branch may be skipped",
            "else take the layer out, or let every output of the model take part in the loss",
            "--env TORCH_DISTRIBUTED_DEBUG=DETAIL names the parameters",
        ),
    )


_DIFFER = (
    r"\[\d{1,7}\]: params\[\d{1,9}\] in this process with sizes"
    r"|DDP expects same model across all ranks, but Rank \d{1,7} has"
)


def different_parameters(failure: FirstFailure) -> Finding | None:
    """The ranks gave different models to DDP."""
    told = failure.begins(_DIFFER, "RuntimeError")
    if told is None:
        return None
    return Finding(
        "ddp-parameters-differ",
        f"the model of {failure.name} has other parameters than that of rank 0",
        certainty=told.certainty,
        evidence=(brief(told.message),),
        remedy=(
            "build it from the same sizes on every rank: a count of classes of a rank's own data differs",
            "compute it on rank 0, and share it with torch.distributed.broadcast_object_list",
        ),
    )


_TORN = (
    r"PytorchStreamReader failed (?:reading zip archive|reading file|locating file)"
    r"|unexpected EOF, expected \d+ more bytes|Error while deserializing header|Invalid header\b"
    r"|pickle data was truncated|Ran out of input|storage has wrong byte size"
)


def torn_checkpoint(failure: FirstFailure) -> Finding | None:
    """A checkpoint is not whole."""
    traceback = failure.rank.raised.traceback if failure.rank.raised else ""
    told = failure.begins(
        _TORN, "RuntimeError", "_pickle.UnpicklingError", "safetensors_rust.SafetensorError", "EOFError"
    )
    loading = re.search(
        r'File "[^"]*torch/serialization\.py", line \d+, in (?:load|_load|_legacy_load)\b', traceback
    )
    bare = failure.begins(r"\[Errno 22\] |\Z", "OSError", "EOFError") if loading else None
    if told is None and bare is None:
        return None
    text = brief(told.message) if told is not None else f"torch.load failed at its file: {_error(failure)}"
    return Finding(
        "checkpoint-torn",
        f"a checkpoint that {failure.name} loaded is not whole",
        told.certainty if told is not None else Certainty.LIKELY,
        (text,),
        (
            "load the one before it: whoever wrote this one was ended in the middle, or its disk was full",
            "write to another name and `os.replace` it: then a file is whole or not there",
            "one rank writes, and the others wait at a barrier before they load",
        ),
    )


def _error(failure: FirstFailure) -> str:
    error = failure.errors[-1]
    return f"{error.kind}: {brief(error.message)}".removesuffix(": ")


def weights_only(failure: FirstFailure) -> Finding | None:
    """torch.load refuses objects other than tensors unless it is told otherwise."""
    told = failure.begins(r"Weights only load failed", "_pickle.UnpicklingError")
    if told is None:
        return None
    kind = re.search(r"GLOBAL ([\w.]{1,200}) was not an allowed global", told.message)
    what = f"the checkpoint holds a {kind[1]}" if kind else ""
    if kind is None and "Unsupported operand" not in told.message:
        return None  # the file may as well be none of torch's
    return Finding(
        "weights-only",
        "the checkpoint holds more than tensors, and torch.load takes only tensors unless told otherwise",
        evidence=(what or brief(told.message),),
        remedy=(
            f"torch.serialization.add_safe_globals([{kind[1] if kind else '…'}]) before torch.load",
            "torch.load(path, weights_only=False), for a file that you trust: it can run code",
            "save state_dict() alone, and the rest as JSON",
        ),
    )


def anomaly(failure: FirstFailure) -> Finding | None:
    """torch's anomaly detection stopped at a gradient that is NaN."""
    told = failure.begins(r"Function '(\w{1,200})' returned nan values in its (\d+)th output", "RuntimeError")
    if told is None:
        return None
    return Finding(
        "not-finite",
        f"a gradient of {failure.name} became NaN in {told[1]}",
        certainty=told.certainty,
        evidence=(brief(told.message),),
        remedy=(
            "torch names the forward call on standard error: a root or logarithm of 0, a division by 0",
            "a smaller learning rate, gradient clipping, or a scaler with mixed precision",
        ),
    )


_NUMBERS = re.compile(r"\b(?:nan|inf|infinite|infinity|(?:not|non)[- ]?finite|diverged)\b", re.IGNORECASE)


def not_finite(failure: FirstFailure) -> Finding | None:
    """A rank reported NaN or infinity, and the gang failed over a number that is not finite.

    A report alone says nothing: a metric may be NaN for good reasons.
    """
    first = min(
        (rank for rank in failure.gang if rank.not_finite is not None),
        key=lambda rank: rank.not_finite.time if rank.not_finite else 0.0,
        default=None,
    )
    told = next((error for error in failure.errors if _NUMBERS.search(error.message[:1000])), None)
    if first is None or told is None or first.not_finite is None:
        return None
    report = first.not_finite
    step = f" at step {report.step}" if report.step is not None else ""
    return Finding(
        "not-finite",
        f"rank {first.rank} was the first to report a {report.metric} of {report.value}{step}",
        Certainty.LIKELY,
        (f"{failure.name} raised {told.kind}: {brief(told.message)}",),
        (
            f"look at the batch of rank {first.rank}{step}: a label, a division by 0, an empty batch",
            "a smaller learning rate or gradient clipping; a scaler with fp16, or bf16 in its place",
            "torch.autograd.set_detect_anomaly(True) names the operation",
        ),
        rank=first.rank,
    )


def failed_after_result(failure: FirstFailure) -> Finding | None:
    """The function had returned its value, and then the process ended with another code than 0."""
    rank = failure.rank
    if rank.returned is None or rank.raised is not None or not _ended_badly(rank):
        return None
    how = f"was killed by {rank.signal}" if rank.signal else f"ended with {rank.exit_code}"
    return Finding(
        "failed-after-result",
        f"{failure.name} had returned its value, and then its process {how}: the training itself was done",
        evidence=tuple(line for line in failure.output()[-2:] if line.strip()),
        remedy=(
            f"rankdeck result {failure.run} -r {rank.rank} prints the value",
            "what runs at exit is to blame: an atexit handler, a thread of a library, a loader's workers",
            "torch.distributed.destroy_process_group() before the function returns",
        ),
    )


def _ended_badly(rank: Rank) -> bool:
    return rank.phase is RankPhase.FAILED and bool(rank.signal or rank.exit_code)
