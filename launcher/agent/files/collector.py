"""Brings home what a host's ranks write in their working folder, while they run and after their end.

Files go in pieces and only while little waits on the agent's connection, so ranks' output goes first. A file
that changes while it is sent is dropped at home, and sent again once it is complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...channel import frames
from ...channel.frames import Kind
from ...selectable_queue import SelectableQueue
from .endings import Close, Endings, is_torn
from .folder_events import FolderEvents
from .ledger import Ledger
from .scan import Scan, Stamp, scan, stamp_at, stamp_of
from .writers import Writers

ROOM = 512 << 10
"""How much may wait on the connection when another piece is added to it."""

_PIECE = 256 << 10
_TURN_S = 0.02
_SCAN_S = 1.0
_SCANS_SHARE = 20.0  # scanning may take a twentieth of a core
_NAMED = 20
_TRIES = 5
TORN = "a rank was killed while it wrote it"
CHANGED = "it changed while it was sent"
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Put = Callable[..., None]


@dataclass(slots=True)
class _Outgoing:
    """The file that is being sent."""

    path: str
    stamp: Stamp
    descriptor: int
    begun: float
    left: int
    hasher: Any = field(default_factory=hashlib.sha256)


class Collector:
    """Watches the working folder of a host.

    Args:
        root: the folder that is copied from the caller's machine; files in it have the caller's paths.
        workdir: the ranks' working directory on the caller's machine.
        put: queues the parts of a frame for the engine.
        pending: how many bytes wait on the connection.
        monotonic, clock: clocks in seconds.
    """

    def __init__(
        self,
        root: str,
        workdir: str,
        put: Put,
        pending: Callable[[], int],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._root, self._put, self._pending = root, put, pending
        self._inside = f"{workdir.strip('/')}/" if workdir.strip("/") else ""
        self._monotonic, self._clock = monotonic, clock
        self.events = FolderEvents(root)
        self.scans: SelectableQueue[tuple[Scan, float, bool]] = SelectableQueue()
        self._ledger = Ledger(scan(root).found)
        self._writers = Writers(root, monotonic)
        self._wrote: dict[str, int] = {}
        self._closed: dict[str, Close] = {}
        self._endings = Endings()
        self._scanning: threading.Thread | None = None
        self._next_scan = monotonic() + _SCAN_S
        self._outgoing: _Outgoing | None = None
        self._deaths: tuple[float, ...] | None = None
        self._left: dict[str, str] = {}
        self._tries: dict[str, int] = {}
        self._swept = False

    @property
    def sources(self) -> Mapping[int, Callable[[], None]]:
        """What handles the news from each descriptor."""
        handlers = {self.events.fileno(): self.on_changes, self.scans.fileno(): self.on_scan}
        return {descriptor: handle for descriptor, handle in handlers.items() if descriptor >= 0}

    # --- what the agent's loop calls ------------------------------------------------------------------

    def on_changes(self) -> None:
        """Note what the kernel reports of the folder."""
        changes, now = self.events.take(), self._monotonic()
        for path in changes.made:
            if (rank := self._writers.rank_with(self._at(path))) is not None:
                self._wrote[path] = rank
        for new, old in changes.renamed.items():
            if old in self._wrote:
                self._wrote[new] = self._wrote.pop(old)
        if changes.closed:
            self._endings.look(self._writers.look(), self._clock())
        close = Close(self._clock(), certain=self._endings.all_alive)
        for path in changes.closed:
            self._closed[path] = close
            self._ledger.on_closed(path, now)

    def on_scan(self) -> None:
        """Note what a scan has found."""
        for result, took_s, after_ranks in self.scans.take():
            self._scanning = None
            self._next_scan = self._monotonic() + max(_SCAN_S, _SCANS_SHARE * took_s)
            if after_ranks:
                self._sweep(result)
            elif not self._sweeping:
                self._endings.look(self._writers.look(), self._clock())
                self._ledger.on_scan(self._undoubted(result.found), self._monotonic())
            self._report_missing(result)

    def advance(self) -> None:
        """Take the steps that are due, and send pieces for a short time."""
        now = self._monotonic()
        if not self._sweeping:
            for path in self._ledger.due(now):
                self._check(path, now)
        if self._scanning is None and not self._swept and (self._sweeping or now >= self._next_scan):
            self._start_scan()
        while self._pending() < ROOM and self._monotonic() < now + _TURN_S and self._send_piece():
            pass
        if self._swept and self._deaths is not None and not self._has_more:
            self._report_swept()

    def timeout(self) -> float | None:
        """Seconds until `advance` has something to do; None: it waits for news or for room."""
        if self._has_more:
            return 0.0 if self._pending() < ROOM else None
        if self._sweeping:
            return None
        times = [t for t in (self._ledger.next_due(), self._next_scan) if t is not None]
        if self._scanning is not None:
            times.remove(self._next_scan)
        return max(0.0, min(times) - self._monotonic()) if times else None

    def sweep(self, deaths: Iterable[float]) -> None:
        """Send all that home lacks, now that no rank of this host is alive; then say so.

        Args:
            deaths: when ranks of this host were killed by signals, on its clock.
        """
        self._deaths, self._swept = tuple(deaths), False
        self._left, self._tries = {}, {}

    def on_refused(self, path: str) -> None:
        """Home does not take a file."""
        place = self._place(path)
        if self._outgoing and self._outgoing.path == place:
            self._ledger.on_refused(place, self._outgoing.stamp)
            self._drop()
        elif (stamp := stamp_at(self._at(place))) is not None:
            self._ledger.on_refused(place, stamp)

    def close(self) -> None:
        """Stop watching."""
        if self._scanning is not None:
            self._scanning.join()
        self._close_outgoing()
        self.events.close()
        self.scans.close()

    # --- which files ----------------------------------------------------------------------------------

    @property
    def _sweeping(self) -> bool:
        return self._deaths is not None

    @property
    def _has_more(self) -> bool:
        return self._outgoing is not None or bool(self._ledger.waiting)

    def _check(self, path: str, now: float) -> None:
        """Offer a file that was closed a moment ago, unless somebody writes to it again."""
        stamp = stamp_at(self._at(path))
        if stamp is None:
            return
        close = self._closed.get(path)
        if close is None or stamp.mtime_ns / 1e9 > close.time + _TURN_S:
            return  # opened again: it will be closed again, or be quiet
        if path in self._undoubted({path: stamp}):
            self._ledger.offer(path, stamp, now)

    def _undoubted(self, found: Mapping[str, Stamp]) -> Mapping[str, Stamp]:
        """Without the files that a rank may have been writing when it ended: the sweep knows how it did."""
        if not self._endings.seen:
            return found
        return {
            path: stamp
            for path, stamp in found.items()
            if not self._endings.may_have_torn(stamp.mtime_ns / 1e9, self._closed.get(path))
        }

    def _start_scan(self) -> None:
        after_ranks = self._sweeping  # one that began before their end may have seen less

        def run() -> None:
            began = time.monotonic()
            result = scan(self._root)
            self.scans.put((result, time.monotonic() - began, after_ranks))

        self._scanning = threading.Thread(target=run, name="rankdeck-scan", daemon=True)
        self._scanning.start()

    def _report_missing(self, result: Scan) -> None:
        """Report the files that were deleted. A scan may miss one that is renamed meanwhile."""
        if not result.whole:
            return
        missing = [p for p in self._ledger.missing(result.found) if not os.path.lexists(self._at(p))]
        self._ledger.forget(missing)
        for start in range(0, len(missing), 1000):
            names = [self._name(path) for path in missing[start : start + 1000]]
            self._put(frames.document(Kind.FILES_GONE, {"paths": names}))

    def _sweep(self, result: Scan) -> None:
        """Offer everything, without what a killed rank has left half written."""
        self._swept = True
        self.on_changes()
        found = dict(result.found)
        for path in self._torn_of(found):
            self._left[self._name(path)] = TORN
            del found[path]
            with contextlib.suppress(OSError):
                os.unlink(self._at(path))
        self._ledger.hurry(found, self._monotonic())
        waiting = self._ledger.waiting.values()
        total = {"files": len(waiting), "bytes": sum(stamp.size for stamp in waiting)}
        self._put(frames.document(Kind.SWEEPING, total))

    def _torn_of(self, found: Mapping[str, Stamp]) -> list[str]:
        changed = self._ledger.changed(found)
        deaths = self._deaths or ()
        return [
            path
            for path in changed
            if not found[path].link and is_torn(found[path].mtime_ns / 1e9, self._closed.get(path), deaths)
        ]

    def _report_swept(self) -> None:
        named = dict(list(self._left.items())[:_NAMED])
        self._put(frames.document(Kind.SWEPT, {"left": named, "left_count": len(self._left)}))
        self._deaths = None

    # --- sending --------------------------------------------------------------------------------------

    def _send_piece(self) -> bool:
        """Send one piece, or take up the next file; False if nothing is left."""
        if self._outgoing is not None:
            self._send_more(self._outgoing)
        elif (taken := self._ledger.take()) is not None:
            self._begin(*taken)
        else:
            return False
        return True

    def _begin(self, path: str, stamp: Stamp) -> None:
        if stamp.link:
            self._announce(path, stamp)
            self._put(frames.document(Kind.FILE_END, {"digest": ""}))
            return self._ledger.on_sent(path, stamp, took_s=0.0, now=self._monotonic())
        try:
            descriptor = os.open(self._at(path), _FILE)
        except OSError as error:
            return self._put_off(path, error.strerror or str(error))
        self._outgoing = _Outgoing(path, stamp, descriptor, self._monotonic(), stamp.size)
        if stamp_of(os.fstat(descriptor)) != stamp:
            return self._give_up(self._outgoing, announced=False)
        return self._announce(path, stamp)

    def _announce(self, path: str, stamp: Stamp) -> None:
        document = {
            "path": self._name(path),
            "size": stamp.size,
            "executable": stamp.executable,
            "link": stamp.link,
            "rank": self._wrote.get(path),
            "time": stamp.mtime_ns / 1e9,
        }
        self._put(frames.document(Kind.FILE_BEGIN, document))

    def _send_more(self, outgoing: _Outgoing) -> None:
        try:
            data = os.read(outgoing.descriptor, min(_PIECE, outgoing.left)) if outgoing.left else b""
        except OSError:
            return self._give_up(outgoing)
        if data:
            outgoing.hasher.update(data)
            outgoing.left -= len(data)
            self._put(frames.header(Kind.FILE_DATA, len(data)), data)
        if not data or not outgoing.left:
            self._end(outgoing)
        return None

    def _end(self, outgoing: _Outgoing) -> None:
        same = stamp_of(os.fstat(outgoing.descriptor)) == outgoing.stamp
        if outgoing.left or not same or stamp_at(self._at(outgoing.path)) != outgoing.stamp:
            return self._give_up(outgoing)
        now = self._monotonic()
        self._put(frames.document(Kind.FILE_END, {"digest": outgoing.hasher.hexdigest()}))
        self._ledger.on_sent(outgoing.path, outgoing.stamp, took_s=now - outgoing.begun, now=now)
        return self._close_outgoing()

    def _give_up(self, outgoing: _Outgoing, *, announced: bool = True) -> None:
        """The file has changed: home drops what it has of it."""
        if announced:
            self._put(frames.document(Kind.FILE_ABORT, {}))
        self._put_off(outgoing.path, CHANGED)
        self._close_outgoing()

    def _put_off(self, path: str, why: str) -> None:
        """Try again later to send a file; after the ranks' end, at once, or say that it did not come home."""
        now = self._monotonic()
        self._ledger.on_changed(path, now)
        if not self._sweeping or (stamp := stamp_at(self._at(path))) is None:
            return
        self._tries[path] = self._tries.get(path, 0) + 1
        if self._tries[path] < _TRIES:
            self._ledger.offer(path, stamp, now)
        else:
            self._left[self._name(path)] = why

    def _drop(self) -> None:
        """Stop sending what home does not take."""
        self._put(frames.document(Kind.FILE_ABORT, {}))
        self._close_outgoing()

    def _close_outgoing(self) -> None:
        """No file is being sent any more."""
        if self._outgoing is not None:
            os.close(self._outgoing.descriptor)
            self._outgoing = None

    # --- paths ----------------------------------------------------------------------------------------

    def _at(self, place: str) -> str:
        """The path of a file here."""
        return os.path.join(self._root, place)

    def _name(self, place: str) -> str:
        """A file's path as home calls it: relative to the working directory if it is below that."""
        inside = place.startswith(self._inside)
        return place.removeprefix(self._inside) if inside else f"/{place}"

    def _place(self, name: str) -> str:
        """The path below the folder of what home calls so."""
        return name[1:] if name.startswith("/") else f"{self._inside}{name}"
