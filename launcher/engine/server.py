"""The engine: a process without a terminal that owns runs, and the Spark session that they share.

`launcher.engine.client` starts it on demand; it ends when it has had nothing to do for a while. Clients come
and go; the submission of a run contains what happens to it when its client is gone.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from .. import serialization, settings
from ..agent.linux import resident
from ..agent.warm.starting import Started
from ..backends.base import Backend
from ..backends.registry import SharedResources, make_backend
from ..distributor import launch
from ..errors import InternalError, LauncherError, RunStopped, SpecError
from ..job import Job
from ..runs.paths import runs_root
from ..runtime_dir import has_left
from ..spec.request import Request
from ..state.host_facts import HostQuestions
from .address import EngineAddress, fingerprint, sweep_dead_engines
from .protocol import Conversation, Message, another_version, error_document, unpack_request

if TYPE_CHECKING:
    from ..supervisor.examination import Examination

HELLO_S = 10.0
CLIENT_GONE = "its client is gone"
TERMINATED = "its engine was stopped"
_TIDY_S = 30.0
_PAUSE_S = 1.0

log = logging.getLogger("rankdeck.engine")


class Engine:
    """Owns runs. `serve` runs on the main thread; each client has its own thread."""

    def __init__(self, identity: dict[str, Any], place: Path, chosen: settings.Settings) -> None:
        self._identity = identity
        self._settings = chosen
        self._shared = SharedResources(
            max_local_runs=chosen.engine.max_local_runs,
            session_log=Path(identity["log"]).with_suffix(".spark.log"),
            session_idle_s=chosen.engine.session_idle_s,
        )
        self._jobs: dict[str, Job] = {}
        self._examinations: set[Examination] = set()
        self._guard = threading.Lock()
        self._clients = self._launching = 0
        self._busy_at = time.monotonic()
        self._tidied_at = 0.0
        self._tidy_s = min(_TIDY_S, max(0.5, chosen.engine.session_idle_s))
        self._leaving = self._outdated = False
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._address = EngineAddress(place)
        self._tidying = Housekeeping(self._address.folder)
        self._started = time.time()
        self._address.announce(identity)
        log.info("up for %s, pid %d", identity["target"], os.getpid())

    def adopt(self, started: Started) -> None:
        """Take over the zygote that the first client has started."""
        self._shared.zygotes.adopt(started)

    def serve(self) -> None:
        """Accept clients until there has been no work for a while, or the engine is stopped."""
        gc.freeze()
        try:
            while not self._done():
                select.select([self._address.fileno(), self._wake], [], [], self._patience())
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._wake)
                    gc.collect()  # the objects of an ended run refer to each other, and may hold much memory
                self._accept()
                self._tidy()
        finally:
            self._end()

    def leave(self) -> None:
        """Stop every run and end. For a signal handler and for clients' threads."""
        self._leaving = True
        for job in list(self._jobs.values()):
            job.stop(reason=TERMINATED)
        for examination in list(self._examinations):
            examination.stop()
        self._wake_up()

    # --- the main thread -----------------------------------------------------------------------------

    def _wake_up(self) -> None:
        os.eventfd_write(self._wake, 1)

    def _patience(self) -> float:
        left = self._busy_at + self._settings.engine.idle_s - time.monotonic()
        return max(0.1, min(self._tidy_s, left)) if not self._busy else self._tidy_s

    @property
    def _busy(self) -> bool:
        return bool(self._jobs or self._clients)

    def _done(self) -> bool:
        if self._leaving:
            return not self._jobs and not self._launching
        now = time.monotonic()
        if self._jobs or self._launching:  # a client that only asks for the status is not work
            self._busy_at = now
        # an outdated engine gets no more clients: its files have changed, or another one has its address
        # and one whose Spark cannot be reached keeps nothing that another run could use
        limit = 0.0 if self._outdated or self._shared.barren else self._settings.engine.idle_s
        return not self._busy and now - self._busy_at >= limit and self._retire()

    def _retire(self) -> bool:
        """Give up the address, unless a client is about to connect."""
        if not self._address.give_up():
            self._busy_at = time.monotonic()
            return False
        if self._shared.barren:
            log.info("leaves: its Spark could not be reached")
        else:
            log.info("leaves after %g s without work", self._settings.engine.idle_s)
        return True

    def _tidy(self) -> None:
        """Now and then, check that clients can still find this engine, and begin a round of housekeeping."""
        now = time.monotonic()
        if self._tidied_at and now - self._tidied_at < self._tidy_s:
            return
        self._tidied_at = now
        self._outdated = not self._address.renew(self._identity) or fingerprint() != self._identity["build"]
        self._tidying.start(self._shared)

    def _end(self) -> None:
        self._address.close()
        self._shared.close()
        log.info("gone")

    # --- clients -------------------------------------------------------------------------------------

    def _accept(self) -> None:
        """Accept a client that waits. If there is no room for it, it goes on waiting, and the runs go on."""
        try:
            if sock := self._address.accept(self._clients):
                self._serve_client(sock)
        except (OSError, RuntimeError) as error:  # no descriptor, no thread
            log.warning("a client cannot be let in: %s", error)
            select.select([self._wake], [], [], _PAUSE_S)

    def _serve_client(self, sock: socket.socket) -> None:
        thread = threading.Thread(target=self._converse, args=(sock,), name="rankdeck-client", daemon=True)
        with self._guard:
            self._clients += 1
        try:
            thread.start()
        except RuntimeError:
            sock.close()
            with self._guard:
                self._clients -= 1
            raise

    def _converse(self, sock: socket.socket) -> None:
        sock.settimeout(HELLO_S)
        talk = Conversation(sock)
        try:
            talk.send(self._identity)
            self._answer(talk, talk.receive())
        except ConnectionError as error:
            log.info("a client left: %s", error)
        except Exception:
            log.exception("a client could not be served")
        finally:
            talk.close()
            with self._guard:
                self._clients -= 1
            self._wake_up()

    def _answer(self, talk: Conversation, message: Message) -> None:
        request = message.document
        try:
            if request.get("build") != self._identity["build"]:
                raise another_version(self._identity, request)
            match request.get("op"):
                case "submit":
                    return self._submit(talk, message)
                case "examine":
                    return self._examine(talk, message)
                case "status":
                    return talk.send(self._status())
                case "stop":
                    return self._stop(talk, force=bool(request.get("force")))
                case other:
                    raise SpecError(f"an engine cannot {other!r}")
        except LauncherError as error:
            talk.send(error_document(error))
        except ConnectionError:
            raise
        except Exception as error:
            log.exception("what a client asked for failed")
            talk.send(error_document(InternalError(f"the engine failed: {type(error).__name__}: {error}")))

    def _submit(self, talk: Conversation, message: Message) -> None:
        request, fields = unpack_request(message), message.document
        if has_left(talk.sock):
            raise ConnectionError("it has given up")
        whole = bool(fields.get("whole", True))
        job = self._launch(request, Path(fields.get("root") or runs_root()), whole=whole)
        if job is None:
            return talk.send({"full": True})
        log.info("run %s of %s", job.id, request.spec.redacted().label)
        job.watch(partial(self._on_news, job))
        self._on_news(job)
        try:
            talk.send({"run": job.id, "folder": str(job.folder)})
            if fields.get("hold"):
                self._hold(talk, job)
        except ConnectionError:
            self._on_disconnect(job, str(fields.get("on_disconnect", "detach")))
        return None

    def _examine(self, talk: Conversation, message: Message) -> None:
        """Ask the hosts of a launch that a client wants checked, for as long as it waits for that."""
        from ..supervisor.examination import Examination  # most engines check nothing

        request, fields = unpack_request(message), message.document
        questions = serialization.from_plain(HostQuestions, fields["questions"])
        with self._backend_for(request) as backend:
            if not backend.reserve(request, whole=bool(fields.get("whole", True))):
                backend.close(0.0)
                return talk.send({"full": True})
            try:
                examination = Examination(request, None, backend, questions, gone=talk.sock.fileno())
            except BaseException:  # no descriptor was left
                backend.close(0.0)
                raise
            self._examinations.add(examination)
            if self._leaving:  # `leave` was called meanwhile, and did not see this examination
                examination.stop()
            try:
                examined = examination.run()
            finally:
                self._examinations.discard(examination)
            return talk.send({"examined": serialization.to_plain(examined)})

    @contextlib.contextmanager
    def _backend_for(self, request: Request) -> Iterator[Backend]:
        """A backend for what is about to start; until it has, the engine does not leave."""
        with self._guard:
            if self._leaving:
                raise InternalError("the engine is being stopped", hint="try again")
            backend = make_backend(request.spec.mode, self._shared)
            self._launching += 1
        try:
            yield backend
        finally:
            with self._guard:
                self._launching -= 1
            self._wake_up()

    def _launch(self, request: Request, root: Path, *, whole: bool) -> Job | None:
        """Start a run; None if it should have another engine, since this one's session has no room for it."""
        with self._backend_for(request) as backend:
            if not backend.reserve(request, whole=whole):
                backend.close(0.0)
                return None
            job = self._start(request, root, backend)
            self._jobs[job.id] = job
            if self._leaving:  # `leave` was called meanwhile, and did not see this job
                job.stop(reason=TERMINATED)
            return job

    def _start(self, request: Request, root: Path, backend: Backend) -> Job:
        """Start a run; if that fails, its backend is closed, so that what was reserved is free."""
        try:
            return launch(request, root=root, backend=backend)
        except BaseException:
            backend.close(0.0)
            raise

    def _on_news(self, job: Job) -> None:
        if job.done and self._jobs.pop(job.id, None) is not None:
            log.info("run %s: %s", job.id, job.state.phase)
            self._tidying.run_ended()
            self._wake_up()

    def _hold(self, talk: Conversation, job: Job) -> None:
        """Send a client its run's news until the run ends, or the client leaves.

        Raises:
            ConnectionError: the client is gone and has not sent `leave`.
        """
        talk.sock.settimeout(None)
        notifier = Notifier(talk, job)
        job.watch(notifier.on_news)
        notifier.on_news()
        try:
            while talk.receive().document.get("op") != "leave":
                notifier.on_next()
        except ConnectionError:
            if not job.done:
                raise
        finally:
            job.unwatch(notifier.on_news)

    def _on_disconnect(self, job: Job, policy: str) -> None:
        log.info("the client of run %s is gone: %s", job.id, policy)
        if policy == "stop":
            job.stop(reason=CLIENT_GONE, exit_code=RunStopped.exit_code)

    # --- status and stop -----------------------------------------------------------------------------

    def _status(self) -> dict[str, Any]:
        runs = [{"id": j.id, "state": j.state.phase.value} for j in list(self._jobs.values())]
        return {
            **self._identity,
            "started": self._started,
            "memory": resident(os.getpid()),
            "clients": self._clients - 1,
            **self._shared.describe(),
            "idle_s": self._settings.engine.idle_s,
            "runs": runs,
        }

    def _stop(self, talk: Conversation, *, force: bool) -> None:
        if self._jobs and not force:
            count = len(self._jobs)
            what = "1 run is" if count == 1 else f"{count} runs are"
            raise SpecError(f"{what} going on", hint="engine stop --force stops them too")
        if has_left(talk.sock):
            raise ConnectionError("it has given up")
        talk.send({"stopping": len(self._jobs)})
        self.leave()


class Notifier:
    """Notifies a client of news, and then again only after the client's `next`: it may be slow or stopped.

    So at most one message is on its way, and the run's thread never waits for the client. A client that sends
    `next` but does not read is disconnected.
    """

    def __init__(self, talk: Conversation, job: Job) -> None:
        self._sock, self._job = talk.sock, job
        self._lock = threading.Lock()
        self._has_news, self._is_ready = False, True

    def on_news(self) -> None:
        """There is news. Called on the run's thread."""
        with self._lock:
            self._has_news = True
            self._notify()

    def on_next(self) -> None:
        """The client has read the last message, and is ready for another one."""
        with self._lock:
            self._is_ready = True
            self._notify()

    def _notify(self) -> None:
        if not (self._has_news and self._is_ready):
            return None
        self._has_news = self._is_ready = False
        with contextlib.suppress(OSError):  # the client is gone: the thread that reads from it notices that
            if not self._job.done:
                return self._send({"news": 1})
            state = self._job.state
            self._send({"ended": state.phase.value, "exit_code": state.exit_code, "why": state.why})
            self._sock.shutdown(socket.SHUT_RD)  # ends the thread that waits for the client's next message
        return None

    def _send(self, document: dict[str, Any]) -> None:
        line = json.dumps(document).encode() + b"\n"
        try:
            if self._sock.send(line, socket.MSG_DONTWAIT) == len(line):
                return
        except BlockingIOError:
            pass
        self._sock.shutdown(socket.SHUT_RDWR)


class ClosesIdle(Protocol):
    """Resources that the engine keeps between runs, such as a Spark session."""

    def close_idle(self) -> None:
        """Close what has been idle for too long."""


class Housekeeping:
    """Closes idle resources, marks lost runs and deletes old ones: on its own thread, one round at a time.

    Args:
        folder: the folder of the engines' sockets; those of dead engines are removed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._first = True
        self._unpruned = True
        self._thread: threading.Thread | None = None

    def run_ended(self) -> None:
        """A run has ended: older ones may exceed the limits of retention now."""
        self._unpruned = True

    def start(self, shared: ClosesIdle) -> None:
        """Begin a round, unless the last one goes on."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(
                target=self._round, args=(shared,), name="rankdeck-tidy", daemon=True
            )
            self._thread.start()

    def _mark_lost(self) -> None:
        """Mark runs whose owner was killed, and tell of them what it could not tell any more."""
        from ..notify.teller import tell_lost
        from ..runs import recovery

        for run in recovery.mark_lost_runs(runs_root()):
            tell_lost(runs_root() / run)

    def _round(self, shared: ClosesIdle) -> None:
        from ..runs import catalog  # imported here because a client waits while the engine starts

        try:
            shared.close_idle()
            if self._first:
                self._first = False
                sweep_dead_engines(self._folder)
                self._mark_lost()
            if self._unpruned:
                self._unpruned = False  # before pruning: a run may end meanwhile
                catalog.prune(runs_root(), settings.load().retention)
        except (OSError, LauncherError):
            log.exception("could not tidy up")
