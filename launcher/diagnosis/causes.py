"""Find the cause of a gang's end: the first rule that recognises it. Pure.

Unknown stays unknown: without a rule that fits there is no cause, and the exception speaks for itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..errors import NoProgress
from ..state.events import CauseFound, RunEnded
from ..state.outcome_rules import early_leavers
from ..state.ranks import Rank
from ..state.run_state import RunState
from . import (
    collective_rules,
    gpu_memory,
    gpu_rules,
    hang_rules,
    host_rules,
    model_rules,
    network_rules,
    program_rules,
)
from .failure import Course, Finding, FirstFailure, Rule

# What an exception says comes before what the driver has logged at some time, and a rule that needs its words
# before one that guesses from the whole.
RULES: tuple[Rule, ...] = (
    gpu_rules.lost_gpu,
    gpu_memory.out_of_memory,
    gpu_rules.illegal_access,
    gpu_rules.failed_assertion,
    gpu_rules.shared_by_nccl,
    gpu_rules.no_such_device,
    gpu_rules.old_driver,
    gpu_rules.wrong_architecture,
    gpu_rules.torch_without_cuda,
    gpu_rules.broken_gpu,
    collective_rules.nccl_without_gpu,
    collective_rules.group_missing,
    collective_rules.group_twice,
    collective_rules.mismatch,
    collective_rules.missing_at_barrier,
    program_rules.missing_module,
    program_rules.missing_library,
    program_rules.missing_compiler,
    program_rules.no_terminal,
    program_rules.no_main_guard,
    program_rules.unpicklable_result,
    host_rules.full_shared_memory,
    host_rules.full_disk,
    host_rules.memory_limit,
    host_rules.too_many_files,
    program_rules.killed_loader_worker,
    model_rules.unused_parameters,
    model_rules.different_parameters,
    model_rules.torn_checkpoint,
    model_rules.weights_only,
    model_rules.anomaly,
    model_rules.not_finite,
    network_rules.port_in_use,
    network_rules.unknown_name,
    network_rules.unreachable_master,
    collective_rules.missing_ranks,
    collective_rules.left_early,
    collective_rules.timeout,
    host_rules.killed_by_the_kernel,
    model_rules.failed_after_result,
    host_rules.terminated,
)


def _no_course(_: Rank) -> Course:
    return ()


def _no_output(_: Rank) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is read from the run's folder only when a rule asks for it.

    Attributes:
        memory_of: how the GPU memory of a rank went.
        output_of: the end of what a rank wrote to its standard error.
    """

    memory_of: Callable[[Rank], Course] = _no_course
    output_of: Callable[[Rank], str] = _no_output


def find_cause(state: RunState, evidence: Evidence, ended: RunEnded) -> CauseFound | None:
    """The cause of the gang's end, if a rule recognises it.

    Args:
        state: all facts of the run before its verdict.
        evidence: reads more of it.
        ended: the verdict.
    """
    found, rank = None, ended.rank
    if rank is not None:
        failure = _failure_of(state, state.ranks[rank], evidence)
        found = next((each for rule in RULES if (each := rule(failure)) is not None), None)
    elif ended.exit_code == NoProgress.exit_code:
        found = hang_rules.standstill(state)
    return None if found is None else _fact(found, rank, ended)


def _fact(found: Finding, rank: int | None, ended: RunEnded) -> CauseFound:
    return CauseFound(
        time=ended.time,
        attempt=ended.attempt,
        id=found.id,
        certainty=found.certainty.value,
        text=found.text,
        rank=rank if found.rank is None else found.rank,
        evidence=found.evidence,
        remedy=found.remedy,
    )


def _failure_of(state: RunState, rank: Rank, evidence: Evidence) -> FirstFailure:
    own = {device.uuid for device in rank.devices}
    here = [each for each in state.ranks if each.host == rank.host]
    others = {device.uuid for each in here if each.rank != rank.rank for device in each.devices}
    return FirstFailure(
        rank,
        run=state.id,
        gang=state.ranks,
        left=early_leavers(state, rank),
        stacks=state.stacks,
        output=lambda: evidence.output_of(rank),
        xids=tuple(each for each in state.xids if each.agent == rank.agent and each.uuid in own),
        memory=lambda: evidence.memory_of(rank) if rank.devices else (),
        peers={each.pid: each.rank for each in here if each.pid is not None},
        shared=bool(own & others),
        host_memory=_memory_of_host(state, rank.agent),
    )


def _memory_of_host(state: RunState, agent: int) -> tuple[int, int] | None:
    """Bytes in use and in all, as they were sampled last."""
    host = state.hosts.get(agent)
    system = host.system if host is not None else None
    if system is None or system.memory_used is None or system.memory_total is None:
        return None
    return system.memory_used, system.memory_total
