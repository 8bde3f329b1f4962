"""Getting a run's files to this host before its ranks start.

Hashing and copying may take seconds, so both happen in a thread. What this host lacks arrives on the agent's
own connection, one content after another, in the order in which the agent has listed them.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from ...channel.frames import Kind
from ...selectable_queue import SelectableQueue
from ...spec.files.bundle import SOURCES, Manifest, SentFile
from .content_cache import ContentCache, Receiving
from .working_folder import Layout, is_shared, lay_out, layout_of, misplaced_files, placed_files

_FILES = "files"
_CACHE = "contents"
_TRIES = 3


class Preparation:
    """One host's part in a delivery.

    Args:
        manifest: what the run's files are.
        scratch: the agent's own folder.
        given: the working folder of another agent of this host; empty if there is none yet.
        environ: the agent's environment.
        send: sends a document to the engine.
        on_done: called when the files are there, before the engine is told.

    Attributes:
        layout: where the files are; None until they are there.
        leads: whether the folder is this agent's own, and not another's of this host.
    """

    def __init__(
        self,
        manifest: Manifest,
        scratch: str,
        given: str,
        environ: Mapping[str, str],
        send: Callable[[Kind, Mapping[str, Any]], None],
        on_done: Callable[[Preparation], None],
    ) -> None:
        self._manifest, self._given, self._send, self._on_done = manifest, given, send, on_done
        self._folder = os.path.join(scratch, _FILES)
        self._cache = ContentCache(environ, os.path.join(scratch, _CACHE))
        self._news: SelectableQueue[Callable[[], None]] = SelectableQueue()
        self._thread: threading.Thread | None = None
        self._misplaced: list[SentFile] = []
        self._missing: deque[SentFile] = deque()
        self._receiving: Receiving | None = None
        self._shared = self._failed = False
        self._lost = 0
        self.layout: Layout | None = None
        self.leads = True
        self._work(self._look)

    def fileno(self) -> int:
        """Readable while `advance` has something to do."""
        return self._news.fileno()

    def advance(self) -> None:
        """Take the step that the thread has finished the work for."""
        for step in self._news.take():
            step()

    def on_content(self, piece: bytes) -> None:
        """Keep a piece of what was missing."""
        view = memoryview(piece)
        if self._failed or not self._missing:
            return None
        try:
            while view and self._missing:
                view = view[self._keep(view) :]
        except OSError as error:
            return self._fail(error)
        if not self._missing:
            self._work(self._lay_out)
        return None

    def answer(self, *, collects: bool = False) -> None:
        """Tell the engine that ranks can start, and whether what they write is collected here."""
        folder = "" if self.layout is None or self.layout.shared else self._folder
        absent = list(self.layout.absent) if self.layout else []
        self._send(Kind.PREPARED, {"folder": folder, "collects": collects, "absent": absent})

    def close(self) -> None:
        """Wait for the thread, so that it writes nothing after this."""
        if self._thread is not None:
            self._thread.join()
        if self._receiving is not None:
            self._receiving.discard()
        self._news.close()

    def _work(self, what: Callable[[], Callable[[], None]]) -> None:
        def run() -> None:
            try:
                self._news.put(what())
            except (OSError, ValueError) as error:  # a name may be none in this host's encoding
                failed = error
                self._news.put(lambda: self._fail(failed))

        self._thread = threading.Thread(target=run, name="rankdeck-files", daemon=True)
        self._thread.start()

    def _look(self) -> Callable[[], None]:
        """Find out what this host lacks. In the thread."""
        if self._given and os.access(self._given, os.R_OK | os.W_OK | os.X_OK):
            self._folder, self.leads = self._given, False
            return lambda: self._done(layout_of(self._manifest, self._given, shared=False))
        self._shared = is_shared(self._manifest)
        self._misplaced = misplaced_files(self._manifest, self._folder, shared=self._shared)
        wanted = {file.digest: file for file in self._misplaced}
        lacking = [file for file in wanted.values() if file.size and not self._cache.holds(file.digest)]
        return lambda: self._ask(lacking)

    def _ask(self, lacking: list[SentFile]) -> None:
        if not lacking:
            return self._work(self._lay_out)
        self._missing = deque(lacking)
        numbers = {file.digest: number for number, file in enumerate(self._manifest.all_files)}
        self._send(Kind.LACKS, {"files": [numbers[file.digest] for file in lacking]})
        return None

    def _keep(self, view: memoryview) -> int:
        """Keep the beginning of the bytes that belongs to the first missing content; how much that is."""
        file = self._missing[0]
        if self._receiving is None:
            self._receiving = self._cache.receive(file.digest, file.size)
        used = min(len(view), self._receiving.missing)
        self._receiving.write(view[:used])
        if not self._receiving.missing:
            whole, self._receiving = self._receiving.finish(), None
            if not whole:
                raise OSError(
                    errno.ESTALE, "it has changed since the run was started", file.place.removeprefix(SOURCES)
                )
            self._missing.popleft()
        return used

    def _lay_out(self) -> Callable[[], None]:
        """Lay out the files. In the thread."""
        try:
            layout = lay_out(self._manifest, self._misplaced, self._folder, self._cache, shared=self._shared)
        except FileNotFoundError:  # another agent has pruned a content, or one was damaged
            self._lost += 1
            if self._lost > _TRIES:
                raise
            shutil.rmtree(self._folder, ignore_errors=True)
            return self._look()
        if placed_files(self._manifest, shared=self._shared):
            self._cache.prune()
        return lambda: self._done(layout)

    def _done(self, layout: Layout) -> None:
        self.layout = layout
        self._on_done(self)

    def _fail(self, error: OSError | ValueError) -> None:
        self._failed = True
        self._send(Kind.PREPARED, {"error": _sentence(error, self._folder)})


def _sentence(error: OSError | ValueError, folder: str) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or folder}: {error.strerror or error}"
    return f"{folder}: {error}"
