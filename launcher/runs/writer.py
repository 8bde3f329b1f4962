"""Appending to a run folder. One writer a run; every append is one `write` call on an O_APPEND file.

So a reader never sees half a fact except in the last line, and a writer that is killed loses nothing that it
has written. A folder that cannot be written does not end the run: what is lost is counted and reported.

`events.jsonl` is locked while its writer lives: so a run that goes on differs from one whose owner died.

The reserve is a file whose blocks are allocated and empty. On a full disk, small records that matter are
written by freeing a piece of it each time, so that other files do not take all of it at once. Its last part
is kept for the verdict.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from errno import ENOENT
from pathlib import Path

from ..errors import RecordError
from ..spec.job import JobSpec
from ..spec.redaction import without_secrets
from ..state import events as ev
from ..state.fold import fold
from ..state.run_state import RunState
from . import paths
from .artifacts import ArtifactStore
from .catalog import write_spec
from .files import Growing, write_whole
from .logs.writer import LogWriter, Pieces
from .results import ResultFile, forget_results, write_summaries
from .samples import SampleWriter
from .status import Owner, Status, write_status


class RunWriter:
    """Writes one run's folder, and folds every fact into `state`, even those that could not be written.

    Not thread-safe: the run's own thread owns it.

    Attributes:
        artifacts: keeps the files that ranks wrote.

    Args:
        folder: the run folder, as `launcher.runs.catalog.create_folder` makes it.
        spec: the request; what looks secret in it is not written.
        payload: a callable's bytes.
        clock: the time of day, for facts that the writer itself records.
        monotonic: a clock in seconds.

    Raises:
        RecordError: the first files cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        spec: JobSpec,
        *,
        payload: bytes | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self.id = folder.name
        self.state = RunState(id=self.id)
        self._owner = Owner.this()
        self._secrets = spec.secrets()
        self._clock, self._monotonic = clock, monotonic
        self._returned: dict[int, ev.RankReturned] = {}
        self._unkept: set[int] = set()
        self._summary_stale = self._status_stale = False
        self._ours = self._theirs = ev.RecordsLost(time=0.0)
        self._last = False
        try:
            self._make(spec, payload)
        except OSError as error:
            raise self._refused(error.strerror) from error
        self._room = DiskReserve(folder, spec.num_processes, monotonic)
        self.artifacts = ArtifactStore(folder, spec.artifacts_limit)

    def _make(self, spec: JobSpec, payload: bytes | None) -> None:
        self._journal = Journal(self.folder, self._keep)
        write_spec(self.folder, spec)
        if payload is not None:
            write_whole(self.folder / paths.TARGET, payload)
        for name in (paths.LOGS, paths.RESULT):
            (self.folder / name).mkdir(mode=paths.FOLDER_MODE)
        self._samples = SampleWriter(self.folder)
        # executors import this module, write no run, and do not have these
        from .curves import CurveWriter
        from .usage import UsageWriter

        self._curves, self._usage = CurveWriter(self.folder), UsageWriter(self.folder)
        self._logs = LogWriter(self.folder, 0)

    def append(self, event: ev.Event) -> RunState:
        """Write one fact and return the state after it.

        Readers rely on the order: the values of an old attempt are removed before its restart is written, and
        its logs are complete before those of the new attempt begin. Who has read the verdict finds the
        values' summary and the sums.

        Raises:
            RecordError: it is the run's first fact, and could not be written.
        """
        event = self._corrected(event)
        if self._secrets:
            event = self._redacted(event)
        if isinstance(event, ev.GangRestarted):
            self._forget_results()
        if isinstance(event, ev.RunEnded):
            self._prepare_verdict()
        before, self.state = self.state, fold(self.state, event)
        if event.telemetry:
            self._sample(event)
        else:
            self._record(event)
        if isinstance(event, ev.RunSubmitted) and self._journal.behind:
            raise self._refused(self.state.recording.reason if self.state.recording else "")
        if before.phase is not self.state.phase or isinstance(event, ev.RunSubmitted):
            self._write_status()
        if isinstance(event, ev.RankReturned):
            self._returned[event.rank] = event
            self._summary_stale = True
        if isinstance(event, ev.GangRestarted):
            self._logs.close()
            self._logs = LogWriter(self.folder, event.attempt)
        return self.state

    def output(self, pieces: Pieces) -> None:
        """Append pieces of output in the order in which they came, or count what cannot be written."""
        before = self._logs.recorded
        if self._can_write():
            try:
                self._logs.append(pieces)
            except OSError as error:
                self._fail(error)
            else:
                return
        lost = sum(chunk.length for chunk, _ in pieces) - (self._logs.recorded - before)
        self._ours = replace(self._ours, output_bytes=self._ours.output_bytes + lost)

    def open_result(self, rank: int) -> ResultFile:
        """The file to which a rank's return value is streamed."""
        path, kept = paths.result_file(self.folder, rank), self._can_write()
        return ResultFile(
            path, self._fail, lambda file: self._settled(rank, file.size, kept=file.kept), kept=kept
        )

    def settle(self) -> None:
        """Replace `status.json` and the summary if they are out of date: once a turn, not once a rank."""
        if self._can_write():
            self._write_stale()
            self._write_sums()

    def close(self) -> None:
        """Close every file."""
        self._write_stale()
        self._write_sums(all_=True)
        self.artifacts.close()
        self._samples.close()
        self._curves.close()
        self._logs.close()
        self._room.release()
        self._journal.close()

    # --- when the folder cannot be written -----------------------------------------------------------

    def _keep(self, write: Callable[[], None]) -> bool:
        """Write something small that matters, by freeing reserve if need be; whether it was written."""
        trouble: OSError | None = None
        while True:
            try:
                write()
                done = True
            except OSError as error:
                trouble = trouble or error
                done = False
                if self._room.spend(error, last=self._last):
                    continue
            if trouble:
                self._fail(trouble)
            return done

    def _fail(self, error: OSError) -> None:
        """A write has failed: record that once, and count losses from now on."""
        if not self._room.stopped:
            self._room.stop()
            reason = error.strerror or str(error)
            attempt = self.state.attempt
            self._record_own(ev.RecordingStopped(time=self._clock(), attempt=attempt, reason=reason))

    def _can_write(self) -> bool:
        """Whether the folder can be written; after a failure it is tried again only now and then."""
        room = self._room
        if not room.due:
            return not room.stopped
        if self._journal.removed:
            self._fail(FileNotFoundError(ENOENT, "the run folder was removed"))
        if not room.stopped or self._journal.removed:
            room.put_off()
        elif room.has_come_back() and self._journal.flush():
            self._record_losses(resumed=True)
        else:
            self._journal.flush()
        return not room.stopped

    def _settled(self, rank: int, size: int, *, kept: bool) -> None:
        """A rank's value is complete. Where it was not kept, its `RankReturned` must not say that it was."""
        if kept:
            self._unkept.discard(rank)
            return
        self._unkept.add(rank)
        self._ours = replace(self._ours, result_bytes=self._ours.result_bytes + size)

    def _corrected(self, event: ev.Event) -> ev.Event:
        """The fact with this folder's own losses added."""
        if isinstance(event, ev.RankReturned) and event.rank in self._unkept:
            return replace(event, kept=False)
        if isinstance(event, ev.RecordsLost):
            self._theirs = event
            return self._losses(event.time, resumed=event.resumed and not self._room.stopped)
        return event

    def _redacted(self, event: ev.Event) -> ev.Event:
        """The fact without the request's secrets, which errors may quote."""
        if event.telemetry or isinstance(event, ev.RankReturned):
            return event
        return without_secrets(event, self._secrets)

    def _prepare_verdict(self) -> None:
        """Before the verdict: try for the last time to write what waits, and record the losses."""
        if not self._journal.flush():
            self._journal.give_up()
        self._last = True
        self._write_stale_summary()
        self._write_sums(all_=True)
        self._record_losses()

    def _record_losses(self, *, resumed: bool = False) -> None:
        known = self.state.lost or ev.RecordsLost(time=0.0)
        lost = self._losses(self._clock(), resumed=resumed)
        if resumed or replace(lost, time=known.time, attempt=known.attempt, resumed=known.resumed) != known:
            self._record_own(lost)

    def _losses(self, time: float, *, resumed: bool) -> ev.RecordsLost:
        """All that was lost so far: here, and by another engine whose `RecordsLost` was appended."""
        both = (self._ours, self._theirs)
        return ev.RecordsLost(
            time=time,
            attempt=self.state.attempt,
            output_bytes=sum(each.output_bytes for each in both),
            result_bytes=sum(each.result_bytes for each in both),
            facts=self._journal.lost + self._theirs.facts,
            resumed=resumed,
        )

    def _record_own(self, event: ev.Event) -> None:
        """Record a fact of the writer's own."""
        self.state = fold(self.state, event)
        self._record(event)

    def _refused(self, reason: str | None) -> RecordError:
        return RecordError(f"cannot write to {self.folder}: {reason}", hint="is the disk full?")

    # --- the files -----------------------------------------------------------------------------------

    def _record(self, event: ev.Event) -> None:
        """Append a fact after those that wait."""
        waits = self._journal.behind
        self._journal.put(event)
        if not waits or self._last:
            self._journal.flush()

    def _sample(self, event: ev.Event) -> None:
        if not self._room.stopped:
            try:
                self._samples.append(event)
            except OSError as error:
                self._fail(error)
        if isinstance(event, ev.RankReported):
            self._curves.take(event)
        elif isinstance(event, ev.Sampled) and event.attempt == self.state.attempt:
            self._usage.take(event, self.state.ranks)

    def _write_sums(self, *, all_: bool = False) -> None:
        """Write what has changed in the curves and the usage: now and then, and at the end."""
        for sums in (self._curves, self._usage):
            if not self._room.stopped and (all_ or sums.due(self._monotonic())):
                try:
                    sums.flush()
                except OSError as error:
                    self._fail(error)

    def _write_stale(self) -> None:
        if self._status_stale:
            self._write_status()
        self._write_stale_summary()

    def _write_status(self) -> None:
        status = Status.of(self.state, self._owner)
        self._status_stale = not self._keep(lambda: write_status(self.folder, status))

    def _write_stale_summary(self) -> None:
        if self._summary_stale:
            returned = self._returned.values()
            self._summary_stale = not self._keep(lambda: write_summaries(self.folder, returned))

    def _forget_results(self) -> None:
        """Remove the values of an attempt that failed: they are not the run's result."""
        self._returned.clear()
        self._unkept.clear()
        self._summary_stale = False
        forget_results(self.folder)


WAITING_BYTES = 1 << 20

Keep = Callable[[Callable[[], None]], bool]


class Journal:
    """Appends facts, each whole or not at all.

    Args:
        run: the run folder.
        keep: carries out a write, with the reserve's help if need be; returns whether it succeeded.

    Attributes:
        lost: how many facts were dropped because too many waited, or because the run ended.

    Raises:
        OSError: the file cannot be made.
    """

    def __init__(self, run: Path, keep: Keep) -> None:
        self._id = run.name
        self._keep = keep
        self._file = Growing(run / paths.EVENTS)
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._torn = False
        self.lost = 0
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(self._file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @property
    def behind(self) -> bool:
        """Whether facts wait to be written."""
        return bool(self._waiting)

    @property
    def removed(self) -> bool:
        """Whether somebody has deleted the file."""
        return os.fstat(self._file.descriptor).st_nlink == 0

    def put(self, event: ev.Event) -> None:
        """Put a fact after those that wait; it is counted as lost if they take more than `WAITING_BYTES`."""
        line = ev.encode(event, self._id)
        if self._waiting and self._bytes + len(line) > WAITING_BYTES:
            self.lost += 1
            return
        self._waiting.append(line)
        self._bytes += len(line)

    def flush(self, keep: Keep | None = None) -> bool:
        """Write what waits, oldest first; whether nothing is left."""
        keep = keep or self._keep
        while self._waiting and keep(self._write_first):
            self._bytes -= len(self._waiting.popleft())
        return not self._waiting

    def give_up(self) -> None:
        """Count as lost what still waits."""
        self.lost += len(self._waiting)
        self._waiting.clear()
        self._bytes = 0

    def close(self) -> None:
        """Close the file, and unlock it."""
        self._file.close()

    def _write_first(self) -> None:
        """Write the oldest fact; after a torn line that could not be removed, on a line of its own."""
        line = self._waiting[0]
        before = self._file.size
        try:
            self._file.write([b"\n" + line if self._torn else line])
        except OSError:
            self._take_back(before)
            raise
        self._torn = False

    def _take_back(self, before: int) -> None:
        torn = self._file.size > before
        try:
            self._file.cut(before)
        except OSError:
            self._torn = self._torn or torn


RESERVE = 256 << 10
PER_RANK = 512
LAST = 64 << 10
HEADROOM = 256 << 10
RETRY_S = 1.0
LONGEST_RETRY_S = 60.0
_PIECE = 16 << 10
_FULL = (errno.ENOSPC, errno.EDQUOT)


class DiskReserve:
    """The reserve of one folder, and when to try again after a write to the folder has failed.

    Attributes:
        stopped: whether a write has failed and none has succeeded since.

    Args:
        folder: the run folder.
        ranks: how many ranks will cause records.
        monotonic: a clock in seconds.
    """

    def __init__(self, folder: Path, ranks: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._path = folder / paths.RESERVE
        self._whole = max(RESERVE, PER_RANK * ranks + LAST)
        self._monotonic = monotonic
        self._left = 0
        self._wait, self._due, self._resumed = RETRY_S, 0.0, float("-inf")
        self.stopped = False
        self._refill(0)

    @property
    def due(self) -> bool:
        """Whether it is time to check the folder again; a check is too expensive for every write."""
        return self._monotonic() >= self._due

    def put_off(self) -> None:
        """Schedule the next check."""
        self._due = self._monotonic() + self._wait

    def stop(self) -> None:
        """A write has failed. If the last failure was not long ago, wait longer before the next check."""
        now = self._monotonic()
        again = now < self._resumed + LONGEST_RETRY_S
        self._wait = min(2 * self._wait, LONGEST_RETRY_S) if again else RETRY_S
        self.stopped = True
        self.put_off()

    def has_come_back(self) -> bool:
        """Whether the folder can be written again: there is room for the whole reserve and `HEADROOM`."""
        self.put_off()
        if not self._refill(HEADROOM):
            return False
        self.stopped, self._resumed = False, self._monotonic()
        return True

    def spend(self, error: OSError, *, last: bool = False) -> bool:
        """Free a piece of the reserve; whether the write that failed may be tried again.

        Args:
            error: the error of that write; freeing helps only if the disk is full.
            last: whether this is the verdict, for which the last part is kept.
        """
        floor = 0 if last else LAST
        if error.errno not in _FULL or self._left <= floor:
            return False
        self._left = max(floor, self._left - _PIECE)
        with contextlib.suppress(OSError):
            os.truncate(self._path, self._left)
            return True
        return False

    def release(self) -> None:
        """Delete the reserve: the run is over."""
        self._left = 0
        with contextlib.suppress(OSError):
            self._path.unlink()

    def _refill(self, headroom: int) -> bool:
        """Allocate the whole reserve, if the disk has room for it and for `headroom` more bytes."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, paths.FILE_MODE)
        except OSError:
            return False
        try:
            os.posix_fallocate(descriptor, 0, self._whole + headroom)
            self._left = self._whole
        except OSError:
            return False
        finally:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, self._left)
            os.close(descriptor)
        return True
