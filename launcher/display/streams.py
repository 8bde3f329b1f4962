"""The standard streams of a caller, whatever they have been replaced by; writing to them never fails."""

from __future__ import annotations

import sys
from typing import Any

from ..runs import paths


class CallersStreams:
    """`sys.stdout` and `sys.stderr` as they are now. One that cannot be written any more is given up.

    Args:
        out: what the caller has named in place of `sys.stdout`.
        err: the same for `sys.stderr`.
    """

    def __init__(self, out: Any = None, err: Any = None) -> None:
        self._streams: dict[bool, Any] = {
            False: sys.stdout if out is None else out,
            True: sys.stderr if err is None else err,
        }

    @property
    def coloured(self) -> dict[int, bool]:
        """Which of the streams shows colours."""
        kinds = {paths.STDOUT: False, paths.STDERR: True}
        return {kind: _shows_colours(self._streams[err]) for kind, err in kinds.items()}

    def write(self, text: str, *, err: bool = False) -> None:
        """Write lines, on the error stream with `err`."""
        stream = self._streams[err]
        if stream is None:
            return
        try:
            _write(stream, f"{text}\n")
        except Exception:  # noqa: BLE001  closed, full, or any object of the user's
            self._streams[err] = None


def _write(stream: Any, text: str) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError as error:
        stream.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))
    flush = getattr(stream, "flush", None)
    if flush is not None:
        flush()


def _shows_colours(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except Exception:  # noqa: BLE001  closed, none, or any object of the user's
        return False
