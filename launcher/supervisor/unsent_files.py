"""What hosts that share nothing with the caller lack of its folder, in sentences."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from ..errors import counted, size_text
from ..spec.files.bundle import SOURCES, Manifest
from ..state.outcome_rules import listed

_SHOWN = 3
_MISSED = re.compile(r"No such file or directory: '(?P<path>[^']+)'")  # Python's words for ENOENT


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


def missed_note(manifest: Manifest, message: str) -> str:
    """A sentence on a file that a rank has missed, if the caller has it, and it did not travel; else empty.

    Args:
        manifest: what travelled.
        message: what the rank's exception says.
    """
    found = _MISSED.search(message)
    if found is None:
        return ""
    path = found["path"].rpartition(f"/{SOURCES}{manifest.workdir}/")[2]  # it may name the copy's place
    here = os.path.normpath(os.path.join(manifest.workdir, path))
    sent = any(file.place == f"{SOURCES}{here}" for file in manifest.files)
    if sent or here == manifest.workdir or not os.path.exists(here):
        return ""
    folder = os.path.dirname(here)
    named = here if folder == manifest.workdir else folder
    if here.startswith(f"{manifest.workdir}/"):
        named = os.path.relpath(named, manifest.workdir)
    return f"{path} is on this machine, and it did not travel: --files {shlex.quote(named)} sends it"


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
