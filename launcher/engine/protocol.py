"""The protocol between client and engine: JSON lines, each followed by the blobs whose sizes it lists.

engine → client   {"version", "build", "pid"}          at once, to every client of the same user
client → engine   {"op": "submit" | "status" | "stop", "build", …}
engine → client   {"run", "folder"} | {"error", …} | …  the answer
engine → client   {"full": true}                        to a submission: ask the next engine of the same key
engine → client   {"news": 1} | {"ended", …}            after a submission with "hold"
client → engine   {"op": "next"}                        when it has read what was new
client → engine   {"op": "leave"}                       when it detaches, and the run goes on
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .. import errors, serialization
from ..errors import InternalError, LauncherError, RankFailed, SpecError
from ..spec.files.bundle import Bundle, Manifest
from ..spec.inherited import Inherited
from ..spec.job import JobSpec
from ..spec.request import Request

_LINE = 64 << 20
_BLOB = 4 << 30


@dataclass(frozen=True, slots=True)
class Message:
    """One document, and the blobs that follow it."""

    document: dict[str, Any]
    blobs: tuple[bytes, ...] = ()


class Conversation:
    """One end of a connection. One thread sends and one receives.

    Both raise `ConnectionError` if the other end is gone, or breaks the protocol.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._reader = sock.makefile("rb")

    def send(self, document: dict[str, Any], *blobs: bytes) -> None:
        """Send a document and blobs."""
        head = {**document, "blobs": [len(b) for b in blobs]} if blobs else document
        try:
            self.sock.sendall(json.dumps(head).encode() + b"\n")
            for blob in blobs:
                self.sock.sendall(blob)
        except OSError as error:
            raise ConnectionError(f"the other end is gone: {error}") from error

    def receive(self) -> Message:
        """Wait for the next message of the other end."""
        try:
            line = self._reader.readline(_LINE)
            if not line.endswith(b"\n"):
                raise ConnectionError("the other end is gone")
            document = json.loads(line)
            sizes = [int(size) for size in document.pop("blobs", ())]
            return Message(document, tuple(self._blob(size) for size in sizes))
        except ConnectionError:
            raise
        except TimeoutError as error:
            raise ConnectionError("the other end sends nothing") from error
        except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError, OSError) as error:
            raise ConnectionError(f"the other end broke the protocol: {error}") from error

    def close(self) -> None:
        """Close the connection."""
        self._reader.close()
        self.sock.close()

    def _blob(self, size: int) -> bytes:
        if not 0 <= size <= _BLOB:
            raise ValueError(f"{size} bytes")
        data = self._reader.read(size)
        if len(data) < size:
            raise ConnectionError("the other end is gone")
        return data


def pack_request(request: Request) -> Message:
    """A request as a message. Its target is packed already; a Spark session of the caller is left out."""
    bare = replace(request, payload=None, bundle=None)
    document = {
        "spec": serialization.to_plain(bare.spec),
        "environ": dict(bare.environ),
        "python": bare.python,
        "path": bare.path,
        "trackers_python": bare.trackers_python,
        "inherited": serialization.to_plain(bare.inherited),
        "payload": request.payload is not None,
        "bundle": request.bundle is not None,
    }
    bundle = request.bundle
    parts = (bundle.manifest.encode(), bundle.contents) if bundle is not None else ()
    return Message(document, (*([] if request.payload is None else [request.payload]), *parts))


def unpack_request(message: Message) -> Request:
    """The request that `pack_request` packed.

    Raises:
        LauncherError: the message holds no request.
    """
    fields, blobs = message.document, iter(message.blobs)
    try:
        return Request(
            spec=serialization.from_plain(JobSpec, fields["spec"]),
            environ=fields["environ"],
            python=fields["python"],
            payload=next(blobs) if fields["payload"] else None,
            bundle=Bundle(Manifest.decode(next(blobs)), next(blobs)) if fields["bundle"] else None,
            path=tuple(fields["path"]),
            trackers_python=fields["trackers_python"],
            inherited=serialization.from_plain(Inherited, fields["inherited"]),
        )
    except SpecError:
        raise
    except (LookupError, TypeError, ValueError, StopIteration) as error:
        raise InternalError(f"a client sent a request that makes no sense: {error!r}") from error


def another_version(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> SpecError:
    """The error for a client whose build differs from the engine's."""
    return SpecError(
        f"this engine is rankdeck {ours['version']} ({ours['build']}) and the client is rankdeck "
        f"{theirs.get('version')} ({theirs.get('build')}): stop it with `rankdeck engine stop`"
    )


def error_document(error: LauncherError) -> dict[str, Any]:
    """An error as a document: of the nearest class that callers know."""
    kind = next(each for each in type(error).__mro__ if each.__module__ == errors.__name__)
    return {"error": kind.__name__, "message": error.message, "hint": error.hint}


def error_from(document: dict[str, Any]) -> LauncherError:
    """The error in a document; `InternalError` for a class that is not known here."""
    kind: Any = getattr(errors, str(document.get("error")), None)
    if not (isinstance(kind, type) and issubclass(kind, LauncherError)) or issubclass(kind, RankFailed):
        kind = InternalError
    error: LauncherError = kind(str(document.get("message")))
    error.hint = document.get("hint")
    return error
