"""A bundle: the files of a run that its hosts get, which its caller packs and agents lay out.

    src/…     every file by its absolute path on the caller's machine
    named/…   modules whose file names differ from the names by which they are imported

Small files are in the bundle itself, as they were when the run was submitted. Large ones are read when a host
lacks them; a host keeps what it got by the hash of its content.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field

from ...serialization import Moment, from_plain, to_plain

SOURCES = "src"
NAMED = "named"


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file of a bundle.

    Attributes:
        place: its path in the bundle.
        digest: the SHA-256 of its content, in hexadecimal digits.
        size: in bytes.
        executable: whether it may be executed.
        origin: its path on the caller's machine, where its content is read; empty: it is in the bundle.
    """

    place: str
    digest: str
    size: int
    executable: bool = False
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a bundle holds, and how its target is started from it. Paths are those of the caller's machine.

    Attributes:
        workdir: the working directory, where its files are copies.
        main: the target's file; empty if it is none.
        lead: the first folder of the import path, if the target is no file.
        path: folders and zips to import from.
        copies: folders of the bundle to import from, on every host.
        files: the files, each place once.
        returned: what ranks wrote in earlier attempts; it takes the place of a file that was sent.
        links: places that are symbolic links, each with its target.
        linked: the same of the caller's links to folders of which nothing was sent. A host has such a link if
            it has what the link leads to.
        own_folder: whether the ranks' working folder is a copy even where a host has the same files.
        left_out: files of the folder that are too large to travel unasked, each with its size in bytes.
        uncounted: whether that folder holds more files than were looked at.
        keys: how many files did not travel because they look like keys.
        private: the folder of which only sources travel, because it holds more than the program.
        made: when it was packed, in seconds since the epoch.
    """

    workdir: str
    main: str = ""
    lead: str = ""
    path: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    files: tuple[SentFile, ...] = ()
    returned: tuple[SentFile, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    linked: tuple[tuple[str, str], ...] = ()
    own_folder: bool = False
    left_out: tuple[tuple[str, int], ...] = ()
    uncounted: bool = False
    keys: int = 0
    private: str = ""
    made: Moment = 0.0

    def encode(self) -> bytes:
        """The manifest as JSON."""
        return json.dumps(to_plain(self), separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        """The manifest that `encode` wrote.

        Raises:
            ValueError: it is none.
        """
        return from_plain(cls, json.loads(data))

    @property
    def unsent_folders(self) -> list[tuple[str, str]]:
        """What `linked` leads to on the caller's machine, each with the path of its link."""
        links = [(place.removeprefix(SOURCES), leads_to) for place, leads_to in self.linked]
        return [(place_led_to(path, leads_to), path) for path, leads_to in links]

    @property
    def all_files(self) -> tuple[SentFile, ...]:
        """The files that were sent and those that were returned."""
        return self.files + self.returned

    @property
    def size(self) -> int:
        """The size of all files, in bytes; each content counts once."""
        return sum({file.digest: file.size for file in self.all_files}.values())


def place_led_to(link: str, leads_to: str) -> str:
    """The path to which a link leads, whether it says so relative to its own folder or not. Pure."""
    return os.path.normpath(os.path.join(os.path.dirname(link), leads_to))


@dataclass(frozen=True, slots=True)
class Bundle:
    """A manifest, and the contents of its files without an origin: one after another, each content once."""

    manifest: Manifest
    contents: bytes = field(default=b"", repr=False)

    def places(self) -> dict[str, slice]:
        """Where in `contents` each of them is, by its digest."""
        found: dict[str, slice] = {}
        start = 0
        for file in self.manifest.files:
            if not file.origin and file.digest not in found:
                found[file.digest] = slice(start, start + file.size)
                start += file.size
        return found
