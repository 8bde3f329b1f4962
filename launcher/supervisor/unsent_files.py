"""What hosts that share nothing with the caller lack of its folder, in sentences. Pure."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from ..errors import counted, size_text
from ..spec.files.bundle import Manifest
from ..state.outcome_rules import listed

_SHOWN = 3


def unsent_notes(
    manifest: Manifest, hosts: Sequence[str], absent: Mapping[str, Sequence[int]] | None = None
) -> list[str]:
    """Sentences about files of the caller's folder that hosts lack because they did not travel.

    Args:
        manifest: what travelled.
        hosts: the names of the hosts that work in copies.
        absent: by host, what links lead to and the host lacks, by numbers in the manifest.
    """
    if not hosts:
        return []
    where, notes = listed(hosts, most=_SHOWN), []
    lack, have = ("lacks", "has") if len(hosts) == 1 else ("lack", "have")
    if manifest.left_out:
        shown = [
            f"{os.path.relpath(path, manifest.workdir)} ({size_text(size)})"
            for path, size in manifest.left_out
        ]
        notes.append(
            f"{where} {lack} {listed(shown, most=_SHOWN)}: too large to travel unasked. "
            "Name what is needed with --files, or keep it on shared storage"
        )
    if manifest.private:
        notes.append(
            f"{where} {have} only the Python files of {manifest.private}, which is no folder of this program "
            "alone: give it one, or name with --files what it reads"
        )
    if manifest.keys:
        notes.append(
            f"{counted(manifest.keys, 'file')} did not travel, because of looking like a key: "
            "--files sends one that it names itself"
        )
    if manifest.uncounted:
        notes.append(
            f"{manifest.workdir} holds more files than were looked at, and {where} {lack} those that lie "
            "deepest: start from a smaller folder, or name with --files what is read"
        )
    return [*notes, *_links(manifest, absent or {})]


def _links(manifest: Manifest, absent: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """A sentence for each set of hosts that lack the same."""
    lacking: dict[tuple[str, ...], list[str]] = {}
    for number, (folder, link) in enumerate(manifest.unsent_folders):
        if hosts := tuple(host for host, numbers in absent.items() if number in numbers):
            name = os.path.relpath(link, manifest.workdir)
            lacking.setdefault(hosts, []).append(f"{folder} (linked as {name})")
    for hosts, links in lacking.items():
        lack = "lacks" if len(hosts) == 1 else "lack"
        yield (
            f"{listed(hosts, most=_SHOWN)} {lack} {listed(links, most=_SHOWN)}: "
            "name what is needed of it with --files, or keep it on shared storage"
        )
