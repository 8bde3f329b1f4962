"""Sentences on files that ranks wrote and that come home. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import counted, size_text
from ..state.events import ArtifactsAwaited, ArtifactsKept, NamedFile
from ..state.run_state import RunState


def new_artifacts(before: RunState, after: RunState) -> Iterator[str]:
    """What has come home, and what is on its way, if that is new in `after`.

    A new version of a file that was here already is not told: a log may have one each second.
    """
    for host, kept in after.artifacts.items():
        if kept != before.artifacts.get(host) and kept.named and not kept.named[0].again:
            yield kept_line(kept)
    for coming in after.coming:
        if coming not in before.coming:
            yield coming_line(coming)


def kept_line(kept: ArtifactsKept) -> str:
    """The files that came: ``rank 0 wrote snapshot.pt, 381 MiB``."""
    if not kept.named:
        return f"{kept.host} wrote {_amount(kept.files, kept.size)}"
    first = kept.named[0]
    more = kept.files - 1
    rest = f", and {_amount(more, kept.size - first.size)}" if more > 0 else ""
    return f"{_writer(first, kept.host)} wrote {first.path}, {size_text(first.size)}{rest}"


def coming_line(coming: ArtifactsAwaited) -> str:
    """The files that a host still sends after its ranks' end."""
    verb = "is" if coming.files == 1 else "are"
    return f"{_amount(coming.files, coming.size)}, {verb} coming home from {coming.host}"


def total_line(state: RunState) -> str:
    """All files that came home; empty if none did."""
    kept = state.came_home
    return _amount(kept.total_files, kept.total_size) if kept is not None and kept.total_files else ""


def _writer(file: NamedFile, host: str) -> str:
    return host if file.rank is None else f"rank {file.rank}"


def _amount(files: int, size: int) -> str:
    return f"{counted(files, 'file')}, {size_text(size)}"
