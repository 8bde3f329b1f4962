"""What travels with a target to a host that has none of the caller's files: its sources, in one zip.

    src/…          every file by its absolute path on the caller's machine
    named/…        modules whose files are called otherwise than they are imported
    bundle.json    {"main", "lead", "path", "copies"}: the target's file, the folder that leads the import
                   path, what to import from, and what to import from here in any case

A host that has the very same files under the same paths (shared storage, or the caller's own machine)
runs them there, so that data beside them is found as it is at home. Anywhere else all of them are copies.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launcher.worker import litter

MANIFEST = "bundle.json"
SOURCES = "src"
NAMED = "named"


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A bundle on this host.

    Attributes:
        folder: where it is unpacked: the agent's own (`litter`).
        source: the file to run in place of the target's own path; empty to leave that as it is.
        path: folders and zips to import from.
        lead: the folder that leads the import path, where the target is not a file.
        copied: where files lie by the paths that they have on the caller's machine.
    """

    folder: str
    source: str
    path: tuple[str, ...]
    lead: str
    copied: str


def unpack(data: bytes, environ: Mapping[str, str]) -> Unpacked:
    """Unpack a bundle into this agent's own folder.

    Raises:
        OSError: there is no room, or no place to write to.
    """
    folder = litter.make(environ)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(folder)
        manifest: dict[str, Any] = json.loads(archive.read(MANIFEST))
        at_home = _is_at_home(archive)
    copied = os.path.join(folder, SOURCES)
    here = "" if at_home else copied
    main, lead = manifest["main"], manifest["lead"]
    if not (at_home and os.path.isdir(lead)):
        lead = copied + lead
        os.makedirs(lead, exist_ok=True)  # it may hold no sources
    imports = [here + entry for entry in manifest["path"]]
    copies = [os.path.join(folder, entry) for entry in manifest["copies"]]
    return Unpacked(folder, main and here + main, (*imports, *copies), lead, copied)


def _is_at_home(archive: zipfile.ZipFile) -> bool:
    """Whether this host has every file of it under the same path, with the same content."""
    names = [name for name in archive.namelist() if name.startswith(f"{SOURCES}/")]
    return bool(names) and all(_is_same(archive, name) for name in names)


def _is_same(archive: zipfile.ZipFile, name: str) -> bool:
    try:
        with open(name.removeprefix(SOURCES), "rb") as file:
            return file.read() == archive.read(name)
    except OSError:
        return False
