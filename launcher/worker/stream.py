"""What a channel needs of a socket, whatever kind it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Stream(Protocol):
    """A socket's part that channels use: plain sockets have it, and so has `launcher.worker.secure`'s."""

    def fileno(self) -> int:
        """The descriptor for a selector; -1 once closed."""
        ...

    def recv(self, size: int, /) -> bytes:
        """What has come, about `size` bytes at most; empty at the end. BlockingIOError: nothing yet."""
        ...

    def sendmsg(self, buffers: Sequence[memoryview], /) -> int:
        """Send from the front of `buffers`; how many bytes were taken. BlockingIOError: none, for now.

        After a BlockingIOError the next call begins with the same bytes.
        """
        ...

    def sendall(self, data: bytes, /) -> None:
        """Send everything; for blocking streams."""
        ...

    def setblocking(self, blocking: bool, /) -> None:
        """Whether calls wait."""
        ...

    def settimeout(self, seconds: float | None, /) -> None:
        """How long each call waits."""
        ...

    def getsockname(self) -> Any:
        """This end's address, in the form of its family."""
        ...

    def getpeername(self) -> Any:
        """The other end's address, in the form of its family."""
        ...

    def close(self) -> None:
        """Close it, at once."""
        ...
