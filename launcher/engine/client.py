"""The client of an engine: start a run in it, watch the run, detach, stop it; list and stop engines."""

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
from typing import TYPE_CHECKING, Any

from .. import __version__, runtime_dir
from ..errors import AgentLost, InternalError, LauncherError, RunStopped
from ..runs.paths import home, runs_root
from ..runs.status import process_start
from ..serialization import from_plain, to_plain
from ..spec.files.packing import Tell, with_bundle
from ..spec.request import Request
from ..supervisor.control import send_command
from .address import ROOT, EngineKey, key_for
from .protocol import Conversation, Message, error_from, pack_request

if TYPE_CHECKING:
    from ..diagnosis.checks.facts import Examined
    from ..state.host_facts import HostQuestions

INTERRUPTED = 130
LANES = 8
"""How many engines at most stand side by side for one Spark and one set of settings.

A session is as large as its runs need, and cannot grow. So a run that does not fit beside those that go on
gets the next engine. The session of the last has no limit, and all further runs share it.
"""

_LEAVING_S = 5.0


class Attachment:
    """A connection to the engine that owns a run. It brings news, and shows the engine that the client lives.

    Attributes:
        id: the run's id.
        folder: its run folder.
        ended: the engine's last message: ``ended`` (the final state), ``exit_code`` and ``why``.
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
        """Block until the folder has something new, the run has ended, or its engine is gone."""
        try:
            document = self._talk.receive().document
            if "ended" in document:
                self.ended = document
                return
            self._talk.send({"op": "next"})
        except ConnectionError:
            self.lost = True

    def stop(self, *, reason: str, exit_code: int, force: bool = False) -> None:
        """Stop the run; nothing happens if it has ended already."""
        try:
            request_stop(self.folder, reason=reason, exit_code=exit_code, force=force)
        except AgentLost:
            return

    def leave(self) -> None:
        """Detach: the run goes on, whatever `on_disconnect` was."""
        try:
            self._talk.send({"op": "leave"})
        except ConnectionError:
            self.lost = True

    def close(self) -> None:
        """Close the connection."""
        self._talk.close()


def prepare(request: Request, tell: Tell = None) -> Request:
    """The request with all that its hosts need: the part of a submission that may be interrupted.

    To read large files takes a while, and nothing has been started yet.

    Raises:
        SpecError: the request is invalid.
    """
    _require_address(request)
    return with_bundle(request, tell)


def submit(request: Request, *, on_disconnect: str, tell: Tell = None) -> Attachment:
    """Start a run in its engine and stay connected.

    Args:
        request: what to run.
        on_disconnect: what happens to the run if this process vanishes: ``detach`` or ``stop``.
        tell: called with a sentence on what takes a while.

    Raises:
        LauncherError: as `launcher.distributor.launch` does, or there can be no engine.
    """
    return _submit(request, hold=True, on_disconnect=on_disconnect, tell=tell)


def start_detached(request: Request, tell: Tell = None) -> str:
    """Start a run that goes on without the caller; its id. `tell` is called with what takes a while.

    Raises:
        LauncherError: as `launcher.distributor.launch` does, or there can be no engine.
    """
    started = _submit(request, hold=False, on_disconnect="detach", tell=tell)
    started.close()
    return started.id


def examine(request: Request, questions: HostQuestions) -> Examined:
    """Have the engine of a launch ask its hosts. If this process leaves, the engine ends that.

    Raises:
        LauncherError: there can be no engine, or it refuses.
    """
    _require_address(request)
    key, packed = key_for(request), pack_request(request)
    fields = {"op": "examine", "version": key.version, "build": key.build, "questions": to_plain(questions)}
    for lane in range(LANES):
        message = Message({**packed.document, **fields, "whole": lane == LANES - 1}, packed.blobs)
        if (examined := _examined_by(key.lane(lane), message)) is not None:
            return examined
    raise InternalError("no engine has room for the check", hint="rankdeck engine status")


def _examined_by(key: EngineKey, message: Message) -> Examined | None:
    """What the engine of this key has found; None if its session has no room for the launch."""
    from ..diagnosis.checks.facts import Examined  # most commands check nothing

    talk = engine_for(key)
    try:
        talk.sock.settimeout(EXAMINE_LIMIT_S)
        talk.send(message.document, *message.blobs)
        answer = talk.receive().document
    except ConnectionError as error:
        raise InternalError(f"the engine did not answer: {error}", hint=f"see {log_of(key)}") from error
    finally:
        talk.close()
    if "error" in answer:
        raise error_from(answer)
    return None if answer.get("full") else from_plain(Examined, answer["examined"])


def request_stop(
    run: Path, *, force: bool = False, reason: str = "on request", exit_code: int = RunStopped.exit_code
) -> None:
    """Send a run's owner the command to stop it: SIGTERM, grace, SIGKILL; `force` skips the grace.

    Raises:
        LauncherError: its owner cannot be reached from here.
    """
    command_owner(run, {"reason": reason, "force": force, "exit_code": exit_code})


def command_owner(run: Path, command: dict[str, Any]) -> None:
    """Send a command to the process that owns a run.

    Raises:
        LauncherError: the owner cannot be reached from here, or refuses the command.
    """
    send_command(run, command)


def engines() -> Iterator[dict[str, Any]]:
    """The status of each of the user's engines; of one that does not answer, ``silent`` is the reason."""
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
    """Stop an engine and wait until its process is gone.

    Raises:
        LauncherError: it has runs and `force` is false, or it does not answer.
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
        if not await_end(descriptor, _LEAVING_S):  # else it was ending by itself
            reason = f"the engine {known['pid']} cannot be reached: {error}"
            raise InternalError(reason, hint=f"kill {known['pid']} ends it and its runs") from error
    finally:
        os.close(descriptor)


def _ask(place: Path, document: dict[str, Any]) -> dict[str, Any]:
    """Send one request to a running engine and return its answer.

    Raises:
        ConnectionError: it is not running, or does not answer.
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


def _submit(request: Request, *, hold: bool, on_disconnect: str, tell: Tell) -> Attachment:
    request = prepare(request, tell)
    key, packed = key_for(request), pack_request(request)
    fields: dict[str, Any] = {"op": "submit", "version": key.version, "build": key.build}
    fields |= {"root": str(runs_root()), "hold": hold, "on_disconnect": on_disconnect}
    message = Message({**packed.document, **fields}, packed.blobs)
    lanes = (_submit_to(key.lane(lane), message, whole=lane == LANES - 1) for lane in range(LANES))
    return next(started for started in lanes if started is not None)


def _submit_to(key: EngineKey, message: Message, *, whole: bool) -> Attachment | None:
    """Start a run in the engine of this key; None if its session has no room for it.

    With `whole`, the session has no limit, and the engine takes every run.
    """
    talk = engine_for(key)
    try:
        talk.sock.settimeout(START_LIMIT_S)
        with _interrupts_noted() as interrupts:
            talk.send({**message.document, "whole": whole}, *message.blobs)
            started = _started(talk)
        if interrupts:
            if started is not None:
                _withdraw(started)
            raise KeyboardInterrupt
        if started is None:
            talk.close()
        return started
    except ConnectionError as error:
        talk.close()
        raise InternalError(f"the engine did not take the run: {error}", hint=f"see {log_of(key)}") from error
    except BaseException:
        talk.close()
        raise


def _require_address(request: Request) -> None:
    """Refuse a malformed address in the environment before an engine is started for it.

    Raises:
        SpecError: it is malformed.
    """
    if request.spec.mode.traits.keeps_session:
        from ..spec.spark_address import check_environment  # local runs have no address

        check_environment(request.spec.spark, request.environ)


def _started(talk: Conversation) -> Attachment | None:
    """The run, once the engine has started it; None if it has no room for it.

    Raises:
        ConnectionError: the engine is gone.
        LauncherError: it refuses.
    """
    answer = talk.receive().document
    if "error" in answer:
        raise error_from(answer)
    if answer.get("full"):
        return None
    talk.sock.settimeout(None)
    return Attachment(talk, answer["run"], Path(answer["folder"]))


@contextmanager
def _interrupts_noted() -> Iterator[list[int]]:
    """Only note the first Ctrl-C: the run whose start is being confirmed must not be lost."""
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
    """Stop a run that has just begun, and wait for its end."""
    started.stop(reason="interrupted", exit_code=INTERRUPTED)
    while not started.done:
        started.wait_for_news()


START_LIMIT_S = 60.0
EXAMINE_LIMIT_S = 150.0
CONNECT_S = 15.0
_BOOT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from launcher.engine import daemon; daemon.main()"


def engine_for(key: EngineKey) -> Conversation:
    """A conversation with the engine of this key, which is started if need be.

    Raises:
        InternalError: it does not start, or does not answer.
    """
    place = runtime_dir.runtime_folder() / f"engine-{key.digest}.sock"
    try:
        return reach(place)
    except ConnectionError:
        pass
    with runtime_dir.locked(place.with_suffix(".lock")):  # an idle engine does not leave while this is held
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
    """Connect to the engine at `place`, and receive its first message.

    Raises:
        ConnectionError: no engine listens, or it is about to leave.
        InternalError: another user listens, or the engine sends nothing.
    """
    try:
        talk = Conversation(runtime_dir.connect(place, socket.SOCK_STREAM, CONNECT_S))
    except PermissionError as error:
        raise InternalError(str(error)) from error
    except BlockingIOError as error:
        raise InternalError(f"the engine at {place} accepts no connection: too many clients wait") from error
    except OSError as error:
        raise ConnectionError(str(error)) from error
    try:
        talk.receive()
    except BaseException as error:
        pid, _ = runtime_dir.peer(talk.sock)
        talk.close()
        if isinstance(error.__cause__, TimeoutError):
            reason = f"the engine, process {pid}, has not answered for {CONNECT_S:g} s"
            raise InternalError(reason, hint=f"is it stopped? kill -CONT {pid}") from error
        raise
    return talk


def log_of(key: EngineKey) -> Path:
    """An engine's log file."""
    return home() / "engine" / f"{key.digest}.log"


def _start(key: EngineKey, place: Path) -> None:
    """Start the engine and wait until it listens. The caller holds its lock.

    Raises:
        InternalError: it fails, or takes too long.
    """
    boot: dict[str, Any] = {
        "socket": str(place),
        "log": str(log_of(key)),
        "target": key.target,
        "version": key.version,
        "build": key.build,
        "digest": key.digest,
    }
    from . import head_start  # most commands find an engine

    begun = head_start.take()
    if begun is not None:
        boot["zygote"] = head_start.to_document(begun)
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _BOOT, ROOT, f"rankdeck engine for {key.target}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env=_environ(),
        pass_fds=(begun.line.fileno(),) if begun is not None else (),
        start_new_session=True,
    )
    try:
        out, err = process.communicate(json.dumps(boot).encode() + b"\n", START_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        process.kill()
        process.communicate()
        raise InternalError(f"the engine did not start within {START_LIMIT_S:g} s") from error
    if begun is not None:
        begun.line.close()
    if out != b"up\n":
        last = (err.decode(errors="replace").strip().splitlines() or ["it printed no error"])[-1]
        raise InternalError(f"the engine did not start: {last}", hint=f"see {log_of(key)}")


def _environ() -> dict[str, str]:
    """Our environment, with an absolute RANKDECK_HOME: the engine's working directory is another one."""
    place = {"RANKDECK_HOME": str(home())} if os.environ.get("RANKDECK_HOME") else {}
    return {**os.environ, **place}
