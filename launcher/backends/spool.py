"""A folder that this machine and the executors may share: what each end writes there, and how it is known.

<spool>/rankdeck-<run>-<attempt>/   0700, made and removed by the engine at home
    marker      random; an executor that reads the same shares the folder, whatever its path means there
    beat        a number that grows while the home engine lives
    stop        what a person asked for, as a fact
    <run>/      the run folder of the engine beside the agents
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from launcher import events as ev
from launcher.errors import SpecError
from launcher.runs import paths
from launcher.runs.private import opener, write_whole

MARKER, BEAT, STOP = "marker", "beat", "stop"
LOOK_S = 0.25


def check_spool(folder: str) -> None:
    """Refuse a spool folder that cannot be one.

    Raises:
        SpecError: it is not there, or cannot be written.
    """
    if not Path(folder).is_absolute():
        raise SpecError(f"the spool folder must be an absolute path, and not {folder}")
    if not Path(folder).is_dir():
        raise SpecError(f"there is no spool folder {folder}", hint="name a folder that executors see too")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise SpecError(f"nothing can be written to the spool folder {folder}: {error.strerror}") from error


class HomeEnd:
    """The engine's side, for one stage.

    Raises:
        SpecError: the folder cannot be made.
    """

    def __init__(self, spool: str, run: str, attempt: int) -> None:
        self.folder = Path(spool, f"rankdeck-{run}-{attempt}")
        self.run = self.folder / run
        self.marker = secrets.token_hex(32)
        self._beats = 0
        try:
            self.folder.mkdir(mode=paths.FOLDER_MODE)
            write_whole(self.folder / MARKER, self.marker.encode())
        except OSError as error:
            raise SpecError(f"nothing can be made in the spool folder {spool}: {error.strerror}") from error
        self.beat()

    def beat(self) -> None:
        """Show that we live. Storage that fails now may be back later."""
        self._beats += 1
        with contextlib.suppress(OSError):
            write_whole(self.folder / BEAT, str(self._beats).encode())

    def ask(self, request: ev.StopRequested) -> None:
        """Pass on a stop; a later one takes the place of an earlier one.

        Raises:
            OSError: it cannot be written.
        """
        write_whole(self.folder / STOP, ev.encode(request, self.run.name))

    def remove(self) -> None:
        """Leave nothing there. It is moved away first: an engine that is still ending adds nothing to it."""
        gone = self.folder.with_name(f"{self.folder.name}.gone")
        with contextlib.suppress(OSError):
            self.folder.rename(gone)
        for folder in (gone, self.folder):
            shutil.rmtree(folder, ignore_errors=True)


class FieldEnd:
    """The side of the engine beside the agents: it obeys, makes what it wrote visible, and stays alert.

    Args:
        folder: what the home engine has made.
        run: the run folder.
        lost_after_s: seconds without a new beat after which the home engine counts as dead.
        stop: told what a person asked for.
        lost: told once that the home engine is dead.
    """

    def __init__(
        self,
        folder: Path,
        run: Path,
        lost_after_s: float,
        *,
        stop: Callable[[ev.StopRequested], None],
        lost: Callable[[], None],
    ) -> None:
        self._folder, self._run, self._lost_after_s = folder, run, lost_after_s
        self._stop, self._lost = stop, lost
        self._asked = self._beat = b""
        self._heard = time.monotonic()
        self._sizes: dict[Path, int] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="rankdeck-spool", daemon=True)

    def start(self) -> None:
        """Begin to look, several times a second."""
        self._thread.start()

    def close(self) -> None:
        """Stop looking; all that was written is with the storage when this returns."""
        self._closing.set()
        self._thread.join()
        self._push()

    def _watch(self) -> None:
        while not self._closing.wait(LOOK_S):
            self._obey()
            self._listen()
            self._push()

    def _obey(self) -> None:
        asked = _read(self._folder / STOP)
        if asked and asked != self._asked:
            self._asked = asked
            with contextlib.suppress(ValueError):
                if isinstance(request := ev.decode(asked), ev.StopRequested):
                    self._stop(request)

    def _listen(self) -> None:
        beat, now = _read(self._folder / BEAT), time.monotonic()
        if beat and beat != self._beat:
            self._beat, self._heard = beat, now
        elif now >= self._heard + self._lost_after_s:
            self._heard = float("inf")
            self._lost()

    def _push(self) -> None:
        """Have the storage take what grew: clients of network file systems keep it to themselves for long.

        Facts come last, so that what they speak of is there before them.
        """
        with contextlib.suppress(OSError):
            files = [Path(at, name) for at, _, names in os.walk(self._run) for name in names]
            for file in sorted(files, key=lambda f: f.name == paths.EVENTS):
                size = file.stat().st_size
                if size != self._sizes.get(file):
                    self._sizes[file] = size
                    _sync(file)


def why_not_shared(folder: Path, marker: str) -> str:
    """Why an executor cannot use the folder; empty if it can: it is the one that was marked at home."""
    try:
        found = (folder / MARKER).read_text(encoding="utf-8")
    except OSError as error:
        return f"{folder.parent} is not shared with it ({error.strerror})"
    if found != marker:
        return f"{folder.parent} is another folder there"
    probe = folder / "probe"
    try:
        with open(probe, "ab", opener=opener) as file:
            file.write(b"1")
        with open(probe, "ab", opener=opener) as file:
            file.write(b"2")
        kept = probe.read_bytes()
        probe.unlink()
    except OSError as error:
        return f"it cannot write to {folder.parent} ({error.strerror})"
    return "" if kept == b"12" else f"nothing can be appended to files in {folder.parent}"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _sync(file: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
