"""Finding the engine that a run goes to, and starting it where there is none."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from launcher import runtime
from launcher.engine_key import ROOT, EngineKey
from launcher.engine_wire import Conversation
from launcher.errors import InternalError
from launcher.runs.paths import home

START_LIMIT_S = 60.0
CONNECT_S = 15.0
_BOOT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from launcher import daemon; daemon.main()"


def engine_for(key: EngineKey) -> Conversation:
    """A conversation with the engine of this name, started if need be.

    Raises:
        InternalError: it does not start, or does not answer.
    """
    place = runtime.runtime_folder() / f"engine-{key.digest}.sock"
    try:
        return reach(place)
    except ConnectionError:
        pass
    with runtime.locked(place.with_suffix(".lock")):  # one that is idle does not leave while we hold it
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
        talk = Conversation(runtime.connect(place, socket.SOCK_STREAM, CONNECT_S))
    except PermissionError as error:
        raise InternalError(str(error)) from error
    except BlockingIOError as error:
        raise InternalError(f"the engine at {place} lets nobody in: too many wait") from error
    except OSError as error:
        raise ConnectionError(str(error)) from error
    try:
        talk.receive()
    except BaseException as error:
        pid, _ = runtime.peer(talk.sock)
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
