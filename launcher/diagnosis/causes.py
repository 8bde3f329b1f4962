"""Find why a run ended badly: the first rule that recognises it. Pure.

Unknown stays unknown: without a rule that fits there is no cause, and the exception speaks for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec

from ..errors import LauncherError
from ..state.events import CauseFound, RunEnded
from ..state.outcome_rules import brief
from ..state.ranks import Rank
from ..state.run_state import Phase, RunState
from . import (
    cluster_rules,
    collective_rules,
    gpu_memory,
    gpu_rules,
    hang_rules,
    host_rules,
    loss_rules,
    model_rules,
    network_rules,
    program_rules,
)
from .certainty import Certainty
from .failure import Course, EndRule, Finding, FirstFailure, RefusalRule, Rule
from .sites import sites_of

# What CUDA says comes before what the driver has logged at some time.
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
    host_rules.killed_by_the_kernel,
    cluster_rules.version_skew,
    cluster_rules.module_missing_on_executors,
    cluster_rules.clock_skew,
    network_rules.kept_from_master,
    host_rules.terminated,
    program_rules.unpicklable,
    program_rules.main_guard,
    host_rules.full_shared_memory,
    program_rules.loader_killed,
    program_rules.loader_late,
    host_rules.full_disk,
    host_rules.memory_refused,
    host_rules.too_many_files,
    network_rules.port_in_use,
    network_rules.name_unknown,
    network_rules.master_unreachable,
    collective_rules.ranks_missing,
    collective_rules.group_missing,
    collective_rules.group_twice,
    collective_rules.nccl_without_gpu,
    model_rules.ddp_unused,
    model_rules.ddp_differs,
    model_rules.ddp_ready_twice,
    collective_rules.outside_group,
    collective_rules.mismatch,
    collective_rules.timeout,
    model_rules.not_finite_gradient,
    model_rules.weights_only,
    model_rules.pointer_of_lfs,
    model_rules.torn_checkpoint,
    program_rules.missing_module,
    program_rules.missing_library,
    program_rules.missing_compiler,
    program_rules.no_terminal,
    model_rules.failed_after_result,
    # What a rank says of others, or what went before, comes last.
    collective_rules.left_early,
    model_rules.not_finite_reported,
)


# Of ends for which no rank is to blame.
END_RULES: tuple[EndRule, ...] = (
    hang_rules.stood_still,
    loss_rules.lost_executor,
    loss_rules.silent_host,
)

# Of gangs whose start was refused.
REFUSAL_RULES: tuple[RefusalRule, ...] = (cluster_rules.refused_python, network_rules.hosts_cut_off)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What rules may read of the run's folder, besides its facts.

    Attributes:
        memory_of: how the GPU memory of a rank went.
        output_of: the last lines that a rank wrote to stderr.
        module_here: finds a module on this machine that the ranks' hosts may lack.
        own_python: whether the ranks have another interpreter than their agents.
        refusal: the error that ended the run, if none of its ranks and no person did.
    """

    memory_of: Callable[[Rank], Course] = lambda _: ()
    output_of: Callable[[Rank], Sequence[str]] = lambda _: ()
    module_here: Callable[[str], ModuleSpec | None] = lambda _: None
    own_python: bool = False
    refusal: LauncherError | None = None


def find_cause(state: RunState, evidence: Evidence, ended: RunEnded) -> CauseFound | None:
    """Why the run ended badly, if a rule recognises it.

    Args:
        state: all facts of the run.
        evidence: reads what rules need besides.
        ended: the verdict. The rank that it blames is the one whose failure is explained.
    """
    found = _find(state, evidence, ended)
    if found is None:
        return None
    return CauseFound(
        time=ended.time,
        attempt=state.attempt,
        id=found.id,
        certainty=found.certainty.value,
        text=found.text,
        rank=ended.rank if found.rank is None else found.rank,
        evidence=found.evidence,
        remedy=found.remedy,
    )


def _find(state: RunState, evidence: Evidence, ended: RunEnded) -> Finding | None:
    if ended.state not in (Phase.FAILED, Phase.LOST):
        return None
    if evidence.refusal is not None:
        refused = (rule(state, evidence.refusal) for rule in REFUSAL_RULES)
        if (found := next(filter(None, refused), None)) is not None:
            return found
    if ended.rank is None or ended.rank >= len(state.ranks):
        return next((each for rule in END_RULES if (each := rule(state, ended)) is not None), None)
    failure = failure_of(state, state.ranks[ended.rank], evidence)
    found = next((each for rule in RULES if (each := rule(failure)) is not None), None)
    if found is None or not failure.amid:
        return found
    doubt = f"it came up while another exception was handled, which may be the cause: {brief(failure.amid)}"
    return replace(found, certainty=Certainty.LIKELY, evidence=(*found.evidence, doubt))


def failure_of(state: RunState, rank: Rank, evidence: Evidence) -> FirstFailure:
    """What rules are told of the failure of a rank."""
    own = {device.uuid for device in rank.devices}
    here = [each for each in state.ranks if each.host == rank.host]
    others = {device.uuid for each in here if each.rank != rank.rank for device in each.devices}
    return FirstFailure(
        rank,
        run=state.id,
        xids=tuple(each for each in state.xids if each.agent == rank.agent and each.uuid in own),
        memory=lambda: evidence.memory_of(rank) if rank.devices else (),
        peers={each.pid: each.rank for each in here if each.pid is not None},
        shared=bool(own & others),
        host_memory=state.memory_of(rank.agent),
        gang=state.ranks,
        left=state.left_early,
        stacks=state.last_stacks,
        sites=sites_of(state, own_python=evidence.own_python),
        module_here=evidence.module_here,
        output_of=evidence.output_of,
    )
