"""All checks of a launch, in their order, and the report of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from . import gpu_health, placing, reachability, resources, sending, versions
from .check import Check, CheckReport, in_order, unknown
from .facts import CheckedLaunch

Rule = Callable[[CheckedLaunch], Iterator[Check]]

RULES: Sequence[Rule] = (
    placing.java,
    placing.dynamic_allocation,
    placing.gpu_amount,
    placing.slots,
    placing.hosts,
    reachability.engine,
    placing.gpus,
    placing.local_gpus,
    resources.run_disk,
    sending.target,
    sending.size,
    sending.workdir,
)
"""The checks that need no answer of a host, or that are about answers that did not come."""

HOST_RULES: Mapping[str, Rule] = {
    "python": versions.python,
    "torch": versions.torch,
    "cuda": versions.cuda,
    "nccl": versions.nccl,
    "network.hosts": reachability.between_hosts,
    "network.interface": reachability.interface,
    "clock": reachability.clock,
    "memory": resources.memory,
    "shared-memory": resources.shared_memory,
    "limits.files": resources.open_files,
    "limits.processes": resources.processes,
    "limits.locked-memory": resources.locked_memory,
    "limits.address-space": resources.address_space,
    "disk.scratch": resources.scratch,
    "gpu.processes": gpu_health.processes,
    "gpu.memory-errors": gpu_health.memory_errors,
    "gpu.clocks": gpu_health.clocks,
    "gpu.xid": gpu_health.xids,
    "target.imports": sending.imports,
    "paths": sending.option_paths,
    "paths.arguments": sending.argument_paths,
}
"""The checks of what hosts have answered, by the id that each reports."""

_ALWAYS = ("python", "memory", "shared-memory", "limits.files", "disk.scratch")
"""What is unknown, rather than without meaning, where no host has answered."""


def judge(launch: CheckedLaunch) -> CheckReport:
    """The report of a launch."""
    checks = [check for rule in RULES for check in rule(launch)]
    if launch.hosts:
        checks += [check for rule in HOST_RULES.values() for check in rule(launch)]
    else:
        checks += [unknown(check, "no host could be asked") for check in _ALWAYS]
    return CheckReport(in_order(checks), launch.examined.seconds, unplaced=_is_unplaced(launch))


def _is_unplaced(launch: CheckedLaunch) -> bool:
    """Whether the ranks have no place now: no slots, or no GPUs for all."""
    error = launch.examined.error
    if launch.caller.placement is not None or (error is not None and error.is_placement):
        return True
    lacking = (c for rule in (placing.slots, placing.gpus) for c in rule(launch))
    return any(check.state == "fail" for check in lacking)
