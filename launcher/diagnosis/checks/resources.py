"""Checks of memory, /dev/shm, limits and disks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...errors import size_text
from ...state.host_facts import DiskFacts, HostFacts
from ...state.outcome_rules import listed
from .check import Check, failed, passed, unknown, warned
from .facts import CheckedLaunch

MIB, GIB = 1 << 20, 1 << 30
MEMORY_FAIL, MEMORY_WARN = 128 * MIB, GIB  # of each rank; an interpreter with torch takes 300 MiB
SHM_FAIL, SHM_WARN = 16 * MIB, 512 * MIB  # NCCL takes some 10 MiB a rank, a loader's workers hundreds
FILES_FAIL, FILES_WARN = 256, 1024
PROCESSES_FAIL, PROCESSES_WARN = 256, 1024
LOCKED_WARN = 64 * MIB
SPACE_FAIL, SPACE_WARN = 4 * GIB, 64 * GIB  # CUDA reserves as much as the host and its GPUs have
DISK_FAIL, DISK_WARN = 64 * MIB, GIB

_Bad = tuple[bool, str]
"""Whether it is a failure, and the finding."""


def _each(
    launch: CheckedLaunch,
    check: str,
    judge: Callable[[str, HostFacts], _Bad | None],
    *,
    fine: Callable[[], str],
    remedy: str,
    probe: str,
) -> Iterator[Check]:
    """A check of every host: its findings, those without an answer, or that all is fine."""
    silent = dict(launch.why_unknown(probe))
    found = [
        (name, bad) for name, facts in launch.hosts if name not in silent and (bad := judge(name, facts))
    ]
    for name, (is_failure, text) in found:
        yield (failed if is_failure else warned)(check, text, remedy, [name])
    if silent:
        yield unknown(check, f"{listed(list(silent))}: {next(iter(silent.values()))}", list(silent))
    if launch.hosts and not found and not silent:
        yield passed(check, fine())


def memory(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether hosts have free memory for their ranks."""

    def judge(name: str, facts: HostFacts) -> _Bad | None:
        ranks, free = max(1, launch.ranks_on.get(name, 1)), facts.memory_free
        if free is None or free // ranks >= MEMORY_WARN:
            return None
        each = f"{size_text(free)} of memory is free on {name}, for {ranks} ranks"
        return free // ranks < MEMORY_FAIL, each

    def fine() -> str:
        return f"{_least(launch, lambda f: f.memory_free)} of memory free on every host"

    yield from _each(
        launch, "memory", judge, fine=fine, remedy="end other work there, or use fewer ranks", probe="memory"
    )


def shared_memory(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether /dev/shm has room."""

    def judge(name: str, facts: HostFacts) -> _Bad | None:
        free = facts.shm_free
        if free is None or free >= SHM_WARN:
            return None
        return (
            free < SHM_FAIL,
            f"/dev/shm has {size_text(free)} free of {size_text(facts.shm or 0)} on {name}",
        )

    def fine() -> str:
        return f"{_least(launch, lambda f: f.shm_free)} free in /dev/shm on every host"

    remedy = "loaders' workers and NCCL need it: in a container, --shm-size=8g or --ipc=host"
    yield from _each(launch, "shared-memory", judge, fine=fine, remedy=remedy, probe="shared memory")


def _least(launch: CheckedLaunch, read: Callable[[HostFacts], int | None]) -> str:
    known = [value for _, facts in launch.hosts if (value := read(facts)) is not None]
    return f"at least {size_text(min(known))}" if known else "an unknown amount"


def _limit(
    launch: CheckedLaunch, check: str, name: str, bounds: tuple[int, int], what: str, remedy: str
) -> Iterator[Check]:
    """A check of a limit by its name in `HostFacts`; `bounds` are those of a failure and of a warning."""
    fail, warn = bounds

    def judge(host: str, facts: HostFacts) -> _Bad | None:
        limit = facts.limits.get(name)
        if limit is None or limit >= warn:
            return None
        return limit < fail, f"{host} limits a rank to {amount(limit)}"

    def amount(value: int) -> str:
        return f"{size_text(value) if warn >= MIB else f'{value:,}'} {what}"

    def fine() -> str:
        known = [v for _, facts in launch.hosts if (v := facts.limits.get(name)) is not None]
        return f"a rank may have {amount(min(known))}" if known else f"no limit of {what.removeprefix('of ')}"

    yield from _each(launch, check, judge, fine=fine, remedy=remedy, probe="limits")


def open_files(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether a rank may open files enough."""
    bounds, remedy = (FILES_FAIL, FILES_WARN), "raise `ulimit -n` for Spark's workers, or for this shell"
    yield from _limit(launch, "limits.files", "nofile", bounds, "open files", remedy)


def processes(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether a rank's user may have processes and threads enough."""
    bounds, remedy = (PROCESSES_FAIL, PROCESSES_WARN), "raise `ulimit -u`: every thread counts"
    yield from _limit(launch, "limits.processes", "nproc", bounds, "processes", remedy)


def locked_memory(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether hosts with InfiniBand let ranks lock memory."""
    if not any(facts.infiniband for _, facts in launch.hosts):
        return

    def judge(host: str, facts: HostFacts) -> _Bad | None:
        limit = facts.limits.get("memlock")
        if not facts.infiniband or limit is None or limit >= LOCKED_WARN:
            return None
        return False, f"{host} has InfiniBand, and a rank may lock {size_text(limit)} of memory"

    remedy = "set `ulimit -l unlimited` for Spark's workers: NCCL registers its buffers"
    yield from _each(
        launch,
        "limits.locked-memory",
        judge,
        fine=lambda: "ranks may lock memory",
        remedy=remedy,
        probe="limits",
    )


def address_space(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether a rank's address space is limited."""
    bounds, remedy = (SPACE_FAIL, SPACE_WARN), "lift `ulimit -v`: CUDA reserves far more than it uses"
    yield from _limit(launch, "limits.address-space", "as", bounds, "of address space", remedy)


def run_disk(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether run folders have room on this machine."""
    if (disk := launch.caller.runs) is None:
        return
    bad = _disk(disk, "")
    remedy = "free some: rankdeck prune; or move all of it: RANKDECK_HOME"
    if bad is None:
        yield passed("disk.runs", f"{size_text(disk.free or 0)} free for run folders, in {disk.path}")
    else:
        yield (failed if bad[0] else warned)("disk.runs", bad[1], remedy)


def scratch(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether agents can write temporary files."""

    def judge(name: str, facts: HostFacts) -> _Bad | None:
        return None if facts.scratch is None else _disk(facts.scratch, f" on {name}")

    def fine() -> str:
        known = [f.scratch.free for _, f in launch.hosts if f.scratch and f.scratch.free is not None]
        return f"at least {size_text(min(known, default=0))} free for temporary files on every host"

    remedy = "free some, or name another place by spark.local.dir or TMPDIR"
    yield from _each(launch, "disk.scratch", judge, fine=fine, remedy=remedy, probe="scratch")


def _disk(disk: DiskFacts, where: str) -> _Bad | None:
    if disk.trouble:
        return True, f"{disk.path}{where} cannot be used: {disk.trouble}"
    if disk.free is None or disk.free >= DISK_WARN:
        return None
    return disk.free < DISK_FAIL, f"{size_text(disk.free)} free in {disk.path}{where}"
