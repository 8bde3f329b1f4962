"""What a console or a command does to runs that it does not own: start one, watch it, leave it, stop it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import __version__, runtime_dir
from ..errors import AgentLost, InternalError, LauncherError, RunStopped
from ..runs.paths import home, runs_root
from ..runs.status import process_start
from ..spec.bundle import with_bundle
from ..spec.request import Request
from ..supervisor.control import send_command
from .address import ROOT, EngineKey, key_for
from .protocol import Conversation, error_from, pack_request

INTERRUPTED = 130
_LEAVING_S = 5.0


class Attachment:
    """A connection to the engine that carries a run: its news, and a sign to it that somebody is there.

    Attributes:
        id: the run's id.
        folder: its run folder.
        ended: what the engine said of the end: ``ended`` (the final state), ``exit_code`` and ``why``.
        lost: whether the engine went away before the run's end.
    """

    def __init__(self, talk: Conversation, run: str, folder: Path) -> None:
        self.id, self.folder = run, folder
        self.ended: dict[str, Any] | None = None
        self.lost = False
        self._talk = talk

    @property
    def done(self) -> bool:
        """Whether nothing more will come."""
        return self.lost or self.ended is not None

    def wait_for_news(self) -> None:
        """Block until there is something new in the folder, or the run has ended, or its engine is gone."""
        try:
            document = self._talk.receive().document
            if "ended" in document:
                self.ended = document
                return
            self._talk.send({"op": "next"})
        except ConnectionError:
            self.lost = True

    def stop(self, *, reason: str, exit_code: int, force: bool = False) -> None:
        """Ask for the run's end; nothing happens if it has come already."""
        try:
            request_stop(self.folder, reason=reason, exit_code=exit_code, force=force)
        except AgentLost:
            return

    def leave(self) -> None:
        """Go, and let the run go on, whatever was to happen if we were lost."""
        try:
            self._talk.send({"op": "leave"})
        except ConnectionError:
            self.lost = True

    def close(self) -> None:
        """Close the connection."""
        self._talk.close()


def submit(request: Request, *, on_disconnect: str) -> Attachment:
    """Start a run in its engine and stay connected.

    Args:
        request: what to run.
        on_disconnect: what becomes of the run when we vanish without a word: ``detach`` or ``stop``.

    Raises:
        LauncherError: as `launcher.distributor.launch` does, or there can be no engine.
    """
    return _submit(request, hold=True, on_disconnect=on_disconnect)


def start_detached(request: Request) -> str:
    """Start a run that lives on without the caller; its id.

    Raises:
        LauncherError: as `launcher.distributor.launch` does, or there can be no engine.
    """
    started = _submit(request, hold=False, on_disconnect="detach")
    started.close()
    return started.id


def request_stop(
    run: Path, *, force: bool = False, reason: str = "on request", exit_code: int = RunStopped.exit_code
) -> None:
    """Ask a run's owner to stop it: SIGTERM, grace, SIGKILL; `force` skips the grace.

    Raises:
        LauncherError: its owner cannot be reached from here.
    """
    tell_owner(run, {"reason": reason, "force": force, "exit_code": exit_code})


def tell_owner(run: Path, command: dict[str, Any]) -> None:
    """Tell the process that owns a run something.

    Raises:
        LauncherError: it cannot be reached from here, or does not accept it.
    """
    send_command(run, command)


def engines() -> Iterator[dict[str, Any]]:
    """What each of the user's engines says of itself, or that it is ``silent``, and why."""
    for path in sorted(runtime_dir.runtime_folder().glob("engine-*.json")):
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
            if process_start(known["pid"]) is None:
                continue
            yield {**known, **_ask(path.with_suffix(".sock"), {"op": "status", "build": known["build"]})}
        except LauncherError as error:
            yield {**known, "runs": [], "silent": str(error)}
        except (OSError, ValueError, LookupError, TypeError):
            continue


def stop_engine(known: dict[str, Any], *, force: bool) -> None:
    """Have an engine end; returns when its process is gone.

    Raises:
        LauncherError: it has runs, and was not forced; or it does not answer.
    """
    from ..agent.linux import await_end  # no other request needs it

    place = runtime_dir.runtime_folder() / f"engine-{known['digest']}.sock"
    try:
        descriptor = os.pidfd_open(known["pid"])
    except ProcessLookupError:
        return
    try:
        _ask(place, {"op": "stop", "force": force, "build": known["build"]})
        await_end(descriptor)
    except ConnectionError as error:
        if not await_end(descriptor, _LEAVING_S):  # it was not leaving by itself
            reason = f"the engine {known['pid']} cannot be reached: {error}"
            raise InternalError(reason, hint=f"kill {known['pid']} ends it and its runs") from error
    finally:
        os.close(descriptor)


def _ask(place: Path, document: dict[str, Any]) -> dict[str, Any]:
    """One question and its answer, to an engine that is there.

    Raises:
        ConnectionError: it is not, or does not answer.
        LauncherError: it refuses.
    """
    talk = reach(place)
    try:
        talk.send({"version": __version__, **document})
        answer = talk.receive().document
    finally:
        talk.close()
    if "error" in answer:
        raise error_from(answer)
    return answer


def _submit(request: Request, *, hold: bool, on_disconnect: str) -> Attachment:
    request = with_bundle(request)
    key = key_for(request)
    packed = pack_request(request)
    asked: dict[str, Any] = {"op": "submit", "version": key.version, "build": key.build}
    asked |= {"root": str(runs_root()), "hold": hold, "on_disconnect": on_disconnect}
    talk = engine_for(key)
    try:
        talk.sock.settimeout(START_LIMIT_S)
        with _interrupts_noted() as interrupts:
            talk.send({**packed.document, **asked}, *packed.blobs)
            started = _started(talk)
        if interrupts:
            _withdraw(started)
            raise KeyboardInterrupt
        return started
    except ConnectionError as error:
        talk.close()
        raise InternalError(f"the engine did not take the run: {error}", hint=f"see {log_of(key)}") from error
    except BaseException:
        talk.close()
        raise


def _started(talk: Conversation) -> Attachment:
    """The run, once the engine has started it.

    Raises:
        ConnectionError: it is gone.
        LauncherError: it refuses.
    """
    answer = talk.receive().document
    if "error" in answer:
        raise error_from(answer)
    talk.sock.settimeout(None)
    return Attachment(talk, answer["run"], Path(answer["folder"]))


@contextmanager
def _interrupts_noted() -> Iterator[list[int]]:
    """Ctrl-C is only noted, the first time: an answer that is on its way must not be lost, nor its run."""
    noted: list[int] = []

    def note(signum: int, _frame: object) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(signum)

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler or not _in_main_thread():
        yield noted
        return
    old = signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, old)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _withdraw(started: Attachment) -> None:
    """Stop a run that has only begun, and wait for its end."""
    started.stop(reason="interrupted", exit_code=INTERRUPTED)
    while not started.done:
        started.wait_for_news()


START_LIMIT_S = 60.0
CONNECT_S = 15.0
_BOOT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from launcher.engine import daemon; daemon.main()"


def engine_for(key: EngineKey) -> Conversation:
    """A conversation with the engine of this name, started if need be.

    Raises:
        InternalError: it does not start, or does not answer.
    """
    place = runtime_dir.runtime_folder() / f"engine-{key.digest}.sock"
    try:
        return reach(place)
    except ConnectionError:
        pass
    with runtime_dir.locked(place.with_suffix(".lock")):  # one that is idle does not leave while we hold it
        try:
            return reach(place)
        except ConnectionError:
            _start(key, place)
        try:
            return reach(place)
        except ConnectionError as error:
            reason = f"the engine for {key.target} has ended at once: {error}"
            raise InternalError(reason, hint=f"see {log_of(key)}") from error


def reach(place: Path) -> Conversation:
    """Connect, and hear its greeting.

    Raises:
        ConnectionError: nobody is there, or it is about to leave.
        InternalError: who is there is another user, or says nothing.
    """
    try:
        talk = Conversation(runtime_dir.connect(place, socket.SOCK_STREAM, CONNECT_S))
    except PermissionError as error:
        raise InternalError(str(error)) from error
    except BlockingIOError as error:
        raise InternalError(f"the engine at {place} lets nobody in: too many wait") from error
    except OSError as error:
        raise ConnectionError(str(error)) from error
    try:
        talk.receive()
    except BaseException as error:
        pid, _ = runtime_dir.peer(talk.sock)
        talk.close()
        if isinstance(error.__cause__, TimeoutError):
            reason = f"the engine, process {pid}, has said nothing for {CONNECT_S:g} s"
            raise InternalError(reason, hint=f"is it stopped? kill -CONT {pid}") from error
        raise
    return talk


def log_of(key: EngineKey) -> Path:
    """Where an engine writes what happens."""
    return home() / "engine" / f"{key.digest}.log"


def _start(key: EngineKey, place: Path) -> None:
    """Start the engine and wait until it listens. The caller holds its lock.

    Raises:
        InternalError: it fails, or takes too long.
    """
    boot = {
        "socket": str(place),
        "log": str(log_of(key)),
        "target": key.target,
        "version": key.version,
        "build": key.build,
        "digest": key.digest,
    }
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _BOOT, ROOT, f"rankdeck engine for {key.target}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env=_environ(),
        start_new_session=True,
    )
    try:
        out, err = process.communicate(json.dumps(boot).encode() + b"\n", START_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        process.kill()
        process.communicate()
        raise InternalError(f"the engine did not start within {START_LIMIT_S:g} s") from error
    if out != b"up\n":
        last = (err.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
        raise InternalError(f"the engine did not start: {last}", hint=f"see {log_of(key)}")


def _environ() -> dict[str, str]:
    """Ours; a home that is relative to our folder is not to be looked for in the engine's."""
    place = {"RANKDECK_HOME": str(home())} if os.environ.get("RANKDECK_HOME") else {}
    return {**os.environ, **place}
