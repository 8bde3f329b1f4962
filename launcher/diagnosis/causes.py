"""Find the cause of a gang's failure: the first rule that recognises it. Pure.

Unknown stays unknown: without a rule that fits there is no cause, and the exception speaks for itself.
"""

from __future__ import annotations

from collections.abc import Callable

from ..state.events import CauseFound
from ..state.ranks import Rank
from ..state.run_state import RunState
from . import cluster_rules, gpu_memory, gpu_rules, host_rules, loss_rules
from .failure import Course, FirstFailure, Rule
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
)


def find_cause(
    state: RunState,
    memory_of: Callable[[Rank], Course] = lambda _: (),
    *,
    now: float,
    module_here: Callable[[str], str] = lambda _: "",
) -> CauseFound | None:
    """The cause of the gang's first failure, if a rule recognises it.

    Args:
        state: all facts of the run.
        memory_of: reads how the GPU memory of a rank went.
        now: the engine's clock.
        module_here: where this machine has a module that the ranks' hosts may lack.
    """
    rank = state.first_failure
    if rank is None:
        found = loss_rules.lost_executor(state)
    else:
        failure = _failure_of(state, rank, lambda: memory_of(rank) if rank.devices else (), module_here)
        found = next((each for rule in RULES if (each := rule(failure)) is not None), None)
    if found is None:
        return None
    return CauseFound(
        time=now,
        attempt=state.attempt,
        id=found.id,
        certainty=found.certainty.value,
        text=found.text,
        rank=rank.rank if rank else None,
        evidence=found.evidence,
        remedy=found.remedy,
    )


def _failure_of(
    state: RunState, rank: Rank, memory: Callable[[], Course], module_here: Callable[[str], str]
) -> FirstFailure:
    own = {device.uuid for device in rank.devices}
    here = [each for each in state.ranks if each.host == rank.host]
    others = {device.uuid for each in here if each.rank != rank.rank for device in each.devices}
    return FirstFailure(
        rank,
        run=state.id,
        xids=tuple(each for each in state.xids if each.agent == rank.agent and each.uuid in own),
        memory=memory,
        peers={each.pid: each.rank for each in here if each.pid is not None},
        shared=bool(own & others),
        host_memory=state.memory_of(rank.agent),
        sites=sites_of(state),
        here=module_here,
        gang=state.ranks,
    )
