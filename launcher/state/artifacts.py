"""Artifacts: files that ranks wrote in a working folder of ours, and that came home. Pure.

Each host has a working folder of its own, so the same path may exist once a host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..serialization import Amount, Index, Moment


@dataclass(frozen=True, slots=True)
class Artifact:
    """One file of one host.

    Attributes:
        path: relative to the ranks' working directory; absolute, as on the caller's machine, if it lies
            beside that.
        host: the host's name.
        size: in bytes.
        digest: the SHA-256 of its content, in hexadecimal digits.
        executable: whether it may be executed.
        link: where it leads, if it is a symbolic link.
        rank: the rank that wrote it; None if that is not known.
        first_rank: the lowest rank of the host.
        attempt: the attempt in which it was written.
        time: when it was written, on the host's clock.
        gone: whether the file was deleted there.
    """

    path: str
    host: str
    size: Amount = 0
    digest: str = ""
    executable: bool = False
    link: str = ""
    rank: Index | None = None
    first_rank: Index = 0
    attempt: Index = 0
    time: Moment = 0.0
    gone: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from all others of its run."""
        return self.host, self.path

    @property
    def content(self) -> tuple[str, str]:
        """What two files with the same content have in common."""
        return self.digest, self.link


def is_artifact_path(path: str) -> bool:
    """Whether a path leads to a place below the folder it is kept in, and can be a file's name there."""
    parts = path.removeprefix("/").split("/")
    fits = all(part not in ("", ".", "..") and len(_encoded(part)) <= 255 for part in parts)
    return fits and "\0" not in path and len(_encoded(path)) <= 4000


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def latest(entries: Iterable[Artifact]) -> list[Artifact]:
    """The last state of each file that still exists, in the order of host and path."""
    last = {entry.key: entry for entry in entries}
    return sorted((each for each in last.values() if not each.gone), key=lambda each: each.key)


def merged(artifacts: Iterable[Artifact], *, host: str = "") -> dict[str, Artifact]:
    """One tree of all hosts' files, by their paths in it.

    Where hosts have different files of one path, the one of the latest attempt keeps the path, and of one
    attempt that of the host with the lowest rank. The others lie below ``rank-N``, N being the lowest rank of
    their host.

    Args:
        artifacts: the files.
        host: the host whose files keep their paths before others of the same attempt; empty for none.
    """
    tree: dict[str, Artifact] = {}
    for each in sorted(artifacts, key=lambda a: (-a.attempt, a.host != host, a.first_rank, a.host, a.path)):
        kept = tree.setdefault(each.path, each)
        if kept is not each and kept.content != each.content:
            tree.setdefault(f"rank-{each.first_rank}/{each.path.removeprefix('/')}", each)
    return dict(sorted(tree.items()))


def left_to(artifacts: Iterable[Artifact], host: str) -> Mapping[str, Artifact]:
    """The files that a host's ranks find in their next attempt: its own, and those that only others have."""
    return {path: each for path, each in merged(artifacts, host=host).items() if each.path == path}
