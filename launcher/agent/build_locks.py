"""Locks that killed builds of torch's extensions left behind: every later run would wait for them for ever.

While an extension is built, its builder keeps a file open that was made for this, and others wait until it is
removed. A build that is killed leaves the file. It is stale if no process has it open, which can be seen only
on the builder's own host: files on storage that hosts or containers share are left alone. A rank that already
waits when the build is killed cannot build in its stead: it fails, and the next attempt builds.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_SHARED = ("nfs", "cifs", "smb", "lustre", "gpfs", "ceph", "gluster", "beegfs", "fuse", "9p", "afs", "wekafs")
_MOMENT_S = 0.2
_LOOK_S = 1.0


def clear_stale_locks(baton: Any) -> None:
    """Let a class like `torch.utils.file_baton.FileBaton` take over a lock that nobody holds any more."""
    acquire, wait_for_ever = baton.try_acquire, baton.wait

    def try_acquire(self: Any) -> bool:
        return bool(acquire(self)) or (remove_if_stale(Path(self.lock_file_path)) and bool(acquire(self)))

    def wait(self: Any) -> None:
        lock = Path(self.lock_file_path)
        with contextlib.suppress(FileNotFoundError):  # the build is over
            if _is_out_of_sight(lock):
                wait_for_ever(self)
            else:
                _await_builder(lock)

    baton.try_acquire, baton.wait = try_acquire, wait


def _await_builder(lock: Path) -> None:
    """Wait until a build is over.

    Raises:
        RuntimeError: it was killed.
        FileNotFoundError: it ended at this moment.
    """
    look_at = time.monotonic() + _LOOK_S
    while lock.exists():
        time.sleep(_MOMENT_S)
        if time.monotonic() < look_at:
            continue
        if not _is_in_use(lock):
            raise RuntimeError(f"the process that was building in {lock.parent} was killed; run this again")
        look_at = time.monotonic() + _LOOK_S


def _is_out_of_sight(lock: Path) -> bool:
    """Whether the builder may be a process that this one cannot see: on another host, or another user's.

    Raises:
        FileNotFoundError: the build is over.
    """
    return _on_shared_storage(lock) or os.geteuid() not in (0, lock.stat().st_uid)


def remove_if_stale(lock: Path) -> bool:
    """Remove a lock that no process holds; whether there is none now. Says so on standard error."""
    try:
        with _alone_in(lock.parent):
            if _is_out_of_sight(lock) or _is_in_use(lock):
                return False
            lock.unlink()
    except FileNotFoundError:
        return True
    except OSError:  # it is another user's: whoever may remove it must
        return False
    sys.stderr.write(f"rankdeck: removed {lock}, which a build that was killed had left\n")
    return True


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder, so that of several ranks one removes the lock, and none removes the next builder's."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _is_in_use(lock: Path) -> bool:
    """Whether a builder has the lock; one that is done closes the file a moment before it removes it."""
    first = lock.stat()
    if _is_open(lock):
        return True
    time.sleep(_MOMENT_S)
    return not os.path.samestat(first, lock.stat()) or _is_open(lock)


def _is_open(file: Path) -> bool:
    """Whether a process of this host has the file open, as far as this user may see that."""
    found = file.stat()
    return any(_same(descriptor, found) for descriptor in Path("/proc").glob("[0-9]*/fd/*"))


def _same(descriptor: Path, found: os.stat_result) -> bool:
    try:
        return os.path.samestat(descriptor.stat(), found)
    except OSError:  # closed meanwhile, or another user's
        return False


def _on_shared_storage(file: Path) -> bool:
    return is_shared(Path("/proc/self/mountinfo").read_text(), file.stat().st_dev)


def is_shared(mounts: str, device: int) -> bool:
    """Whether processes that cannot be seen here may use a device: on other hosts, or in other containers.

    Args:
        mounts: this process's mounts, as /proc/self/mountinfo has them.
        device: the number of the device.
    """
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        _, _, number, root, *_ = fields.split()
        if number == wanted:  # a container has a part of a file system from its host
            return root != "/" or rest.split()[0].startswith(_SHARED)
    return True
