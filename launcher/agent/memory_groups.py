"""The control groups of this process that account for memory, of either version of cgroups."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
GROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class _Hierarchy:
    """Where a version of cgroups has its groups of memory, below the mount, and what their files are called.

    Attributes:
        mount: the hierarchy's folder.
        most, used: the files of the limit and of the use, in bytes.
        events: the file that counts OOM kills.
    """

    mount: str
    most: str
    used: str
    events: str


_FIRST = _Hierarchy("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.oom_control")
_SECOND = _Hierarchy("", "memory.max", "memory.current", "memory.events")


def limits(proc: Path = PROC, groups: Path = GROUPS) -> Iterator[tuple[int, int]]:
    """The limit and the use, in bytes, of our group and of those above it, where there is a limit.

    Version 1 writes a number near 2**63 for no limit.

    Raises:
        OSError, ValueError: our group is not known.
    """
    layout, folders = _own(proc, groups)
    for folder in folders:
        with contextlib.suppress(OSError, ValueError):  # "max", or no such controller
            yield int((folder / layout.most).read_text()), int((folder / layout.used).read_text())


def oom_counter(proc: Path = PROC, groups: Path = GROUPS) -> Path | None:
    """The counters of memory events of our own group, if there are any."""
    try:
        layout, folders = _own(proc, groups)
    except (OSError, ValueError):
        return None
    events = (folder / layout.events for folder in folders if folder.is_dir())
    own = next(events, None)
    return own if own is not None and own.exists() else None


def _own(proc: Path, groups: Path) -> tuple[_Hierarchy, tuple[Path, ...]]:
    """Our group's folder and those above it up to the mount, our own first.

    A container may see the path that its group has on the host, but only its own groups. Then the folders
    that it has begin with the one that is mounted, which is its group.

    Raises:
        OSError, ValueError: /proc does not tell.
    """
    layout, path = _SECOND, ""
    for line in (proc / "self/cgroup").read_text().splitlines():
        number, controllers, own = line.split(":", 2)
        if "memory" in controllers.split(","):  # version 2 has no memory where version 1 has it
            layout, path = _FIRST, own
            break
        if number == "0" and not controllers:
            path = own
    mount = groups / layout.mount
    place = mount / path.lstrip("/")
    if ".." in place.parts:  # a group outside of our namespace
        place = mount
    return layout, tuple(each for each in (place, *place.parents) if each.is_relative_to(mount))
