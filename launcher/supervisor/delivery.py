"""Bringing a run's files to its hosts before its ranks start: each content once a host, if it lacks it.

The first agent of each host gets what its host lacks; the others then use the same folder. Contents are read
as fast as the agents' connections take them, so that a large file is never in memory as a whole.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

from ..channel.connection import CHUNK
from ..channel.frames import Kind, WireError
from ..channel.handshake import Hello
from ..errors import CannotPlace
from ..placement.topology import host_names
from ..runs.artifacts import place_of
from ..spec.files.bundle import SOURCES, Bundle, Manifest, SentFile
from ..spec.files.file_search import open_file
from ..state.artifacts import Artifact, left_to
from ..state.events import FilesAwaited
from .agents import Roster
from .unsent_files import missed_note, unsent_notes

FIRST_TOLD_S = 1.0
TOLD_EVERY_S = 5.0
TOLD_SHARE = 0.1
SLOWEST = 8 << 20  # bytes a second: what a host's disk takes at least
IDLE_S = 60.0


class Delivery:
    """One delivery of a bundle.

    Args:
        bundle: the files.
        roster: the agents, all of which have joined.
        clock: the time of day.
        run: the run's folder.
        artifacts: what ranks wrote in earlier attempts; it lies there.
        collect: whether what ranks write is to come home.

    Attributes:
        active_at: when something was sent or answered last.
    """

    def __init__(
        self,
        bundle: Bundle,
        roster: Roster,
        clock: Callable[[], float],
        *,
        run: Path = Path(),
        artifacts: Sequence[Artifact] = (),
        collect: bool = True,
    ) -> None:
        self._bundle, self._roster, self._clock = bundle, roster, clock
        self.active_at = self._began = clock()
        self._told_again_at = self._began + FIRST_TOLD_S
        self._run, self._artifacts, self._collect = run, artifacts, collect
        self._manifests: dict[int, Manifest] = {}
        self._hosts = _agents_by_host(roster.hellos)
        self._names = host_names(roster.hellos)
        self._asked: set[int] = set()
        self._streams: dict[int, _Stream] = {}
        for first, *_ in self._hosts:
            self._ask(first, "")

    @property
    def complete(self) -> bool:
        """Whether every agent has its files."""
        return self._asked == self._roster.prepared.keys() == {a for host in self._hosts for a in host}

    @property
    def unshared(self) -> tuple[str, ...]:
        """The names of the hosts that work in copies."""
        prepared = self._roster.prepared.items()
        return tuple(dict.fromkeys(self._names[agent] for agent, folder in sorted(prepared) if folder))

    @property
    def notes(self) -> list[str]:
        """Sentences about what these hosts lack."""
        absent = {self._names[agent]: lacks for agent, lacks in sorted(self._roster.absent.items())}
        return unsent_notes(self._bundle.manifest, self.unshared, absent)

    def missed(self, message: str) -> str:
        """A sentence on a file that did not travel, if a rank on such a host has missed it; else empty."""
        return missed_note(self._bundle.manifest, message) if self.unshared else ""

    @property
    def patient_until(self) -> float:
        """The time by which something must have happened: to compare and copy large files takes a while."""
        largest = max((each.size for each in self._manifests.values()), default=0)
        return self.active_at + IDLE_S + largest / SLOWEST

    @property
    def late(self) -> tuple[str, ...]:
        """The names of the hosts that have not got their files yet."""
        return tuple(self._names[first] for first, *_ in self._hosts if first not in self._roster.prepared)

    def tell(self, attempt: int) -> FilesAwaited | None:
        """How far it is, if it goes on and that was not told lately; the longer it takes, the more rarely."""
        now = self._clock()
        if now < self._told_again_at or not (late := self.late):
            return None
        self._told_again_at = now + max(TOLD_EVERY_S, TOLD_SHARE * (now - self._began))
        last = min(self._streams, key=lambda agent: self._streams[agent].sent, default=None)
        fact = FilesAwaited(time=now, attempt=attempt, host=late[0], others=len(late) - 1)
        return fact if last is None else self._streams[last].told(replace(fact, host=self._names[last]))

    @property
    def has_more(self) -> bool:
        """Whether something can be sent at once."""
        return any(self._roster.has_room(agent) for agent in self._streams)

    def advance(self) -> None:
        """Ask the agents that can be asked now, and send pieces to those that have room for more.

        Raises:
            CannotPlace: a file cannot be read any more, or an agent cannot take it.
        """
        for agent, why in self._roster.unprepared.items():
            raise CannotPlace(f"{self._names[agent]} cannot take the run's files: {why}")
        for first, *others in self._hosts:
            if first in self._roster.prepared:
                for agent in others:
                    self._ask(agent, self._roster.prepared[first])
        for agent in list(self._roster.lacking):
            self._streams[agent] = self._stream(agent, self._roster.lacking.pop(agent))
            self.active_at = self._clock()
        for agent in list(self._streams):
            self._feed(agent)

    def _ask(self, agent: int, folder: str) -> None:
        if agent not in self._asked:
            self._asked.add(agent)
            returned = left_to(self._artifacts, self._names[agent])
            manifest = self._manifests[agent] = with_artifacts(self._bundle.manifest, returned, self._run)
            payload = {Kind.BUNDLE: manifest.encode()}
            order = {"folder": folder, "collect": self._collect}
            self._roster.send_to(agent, Kind.PREPARE, order, payload)

    def _feed(self, agent: int) -> None:
        """Send an agent's next piece; one that has left gets no more, and its end is a fact already."""
        if not self._roster.is_here(agent):
            del self._streams[agent]
        elif self._roster.has_room(agent):
            piece = self._streams[agent].next_piece()
            if piece is None:
                del self._streams[agent]
            else:
                self._roster.send_content(agent, piece)
                self.active_at = self._clock()

    def _stream(self, agent: int, numbers: Sequence[int]) -> _Stream:
        known = self._manifests[agent].all_files
        if not all(0 <= number < len(known) for number in numbers):
            raise WireError("an agent lacks a file that the run has not")
        files = [known[number] for number in numbers]
        return _Stream(files, _pieces(self._contents(files)))

    def _contents(self, files: Sequence[SentFile]) -> Iterator[memoryview]:
        """The contents, one after another, in blocks."""
        kept, whole = self._bundle.places(), memoryview(self._bundle.contents)
        for file in files:
            if file.digest in kept:
                yield whole[kept[file.digest]]
            else:
                yield from _blocks(file)


class _Stream:
    """What one agent lacks, on its way."""

    def __init__(self, files: Sequence[SentFile], pieces: Iterator[memoryview]) -> None:
        self._files, self._pieces = files, pieces
        self._ends = list(accumulate(file.size for file in files))
        self.sent = 0

    def next_piece(self) -> memoryview | None:
        """The next piece; None after the last."""
        piece = next(self._pieces, None)
        self.sent += len(piece or b"")
        return piece

    def told(self, fact: FilesAwaited) -> FilesAwaited:
        """The fact with how far this one is."""
        at = min(bisect_right(self._ends, self.sent), len(self._files) - 1)
        name = os.path.basename(self._files[at].place)
        size = self._ends[-1]
        return replace(fact, file=name, files=len(self._files), sent=min(self.sent, size), size=size)


def with_artifacts(manifest: Manifest, artifacts: Mapping[str, Artifact], run: Path) -> Manifest:
    """The manifest of another attempt, whose ranks find what the last one has written. Pure."""
    if not artifacts:
        return manifest
    returned, links = [], dict(manifest.links)
    for path, each in artifacts.items():
        place = f"{SOURCES}{os.path.join(manifest.workdir, path)}"
        if each.link:
            links[place] = each.link
        else:
            origin = str(place_of(run, each))
            returned.append(SentFile(place, each.digest, each.size, each.executable, origin))
    return replace(manifest, returned=tuple(returned), links=tuple(links.items()))


def _agents_by_host(hellos: Sequence[Hello]) -> list[list[int]]:
    names = host_names(hellos)
    hosts: dict[str, list[int]] = {}
    for agent in sorted(names):
        hosts.setdefault(names[agent], []).append(agent)
    return list(hosts.values())


def _blocks(file: SentFile) -> Iterator[memoryview]:
    """A file's content in blocks.

    Raises:
        CannotPlace: it cannot be read, or its size has changed.
    """
    changed = CannotPlace(
        f"{file.origin} has changed since the run was started",
        hint="start it again when the file is complete",
    )
    left = file.size
    try:
        with open_file(file.origin) as opened:
            while block := opened.read(CHUNK):
                left -= len(block)
                if left < 0:
                    raise changed
                yield memoryview(block)
    except OSError as error:
        raise CannotPlace(f"{file.origin} cannot be read any more: {error.strerror}") from error
    if left:
        raise changed


def _pieces(contents: Iterator[memoryview]) -> Iterator[memoryview]:
    """The same bytes in pieces of about `CHUNK`: thousands of small files are few frames."""
    gathered: list[memoryview] = []
    size = 0
    for content in contents:
        for start in range(0, len(content), CHUNK):
            block = content[start : start + CHUNK]
            if size + len(block) > CHUNK:
                yield memoryview(b"".join(gathered))
                gathered, size = [], 0
            gathered.append(block)
            size += len(block)
    if gathered:
        yield memoryview(b"".join(gathered))
