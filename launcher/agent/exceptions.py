"""Describe an exception in a rank: the fields of the fact, bounded so that they fit one packet to the agent.

What the text of the traceback does not have (source around its lines, variables) is in `failing_frames`,
which is imported when there is an exception: a rank that does not fail does without it.
"""

from __future__ import annotations

import importlib
import json
import os
import time
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..state.library_code import is_library
from ..state.summary import qualified_type
from . import import_hooks
from .program import Naming
from .rank_pipe import PACKET

# Bounds that, with the traceback's, keep a failure's JSON within the packet that the agent reads.
_FRAMES, _SHORT, _PATH, _MESSAGE = 10, 512, 4096, 16 << 10
TRACEBACK = 48 << 10
_PACKET = 2 * PACKET - 1024  # less the fact's name, and punctuation

_PACKAGE = Path(__file__).parent.parent
# A zip's bytecode names the folder where it was compiled, its other modules the zip.
_ROOTS = {str(_PACKAGE), os.path.dirname(os.path.dirname((lambda: 0).__code__.co_filename))}
_PLUMBING = (
    *(os.path.join(root, folder, "") for root in _ROOTS for folder in ("agent", "compat")),
    "<frozen importlib",
    importlib.__file__,
)


def description(
    error: BaseException, tb: types.TracebackType | None, naming: Naming, *, values: bool = False
) -> dict[str, Any]:
    """The fields of a `RankRaised`, bounded so that they fit one packet.

    Args:
        error: the exception.
        tb: its traceback, without our own frames.
        naming: how tracebacks name the target's files.
        values: whether plain values of variables are recorded.
    """
    frames = user_frames(tb)[-_FRAMES:]
    fields = {
        "time": time.time(),
        "kind": cut(qualified_type(error), _SHORT),
        "message": cut(_message(error), _MESSAGE),
        "traceback": cut(naming(text_of(error, tb)), TRACEBACK),
        "frames": [(cut(naming(file), _PATH), line, cut(name, _SHORT)) for file, line, name in frames],
    }
    fields |= _if_possible(_last_calls)
    room = _PACKET - len(json.dumps(fields))
    return fields | _if_possible(lambda: _seen(error, tb, naming, values=values, room=room))


def _if_possible(look: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What can be had besides: the exception is reported without it too."""
    try:
        return look()
    except Exception:  # noqa: BLE001  memory or descriptors may have run out, or torch's recorder has changed
        return {}


def _last_calls() -> dict[str, Any]:
    from . import flight_record

    return {"collectives": flight_record.last_collectives()}


def _seen(
    error: BaseException, tb: types.TracebackType | None, naming: Naming, *, values: bool, room: int
) -> dict[str, Any]:
    from . import failing_frames

    return failing_frames.seen(error, tb, naming, values=values, room=room)


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  a user's __str__ may raise anything; Python prints the same text
        return "<exception str() failed>"


def strip(tb: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback without our frames: those that called the user's code, and the hooks around torch."""
    while tb is not None and (_is_plumbing(tb.tb_frame.f_code.co_filename) or _is_command(tb.tb_frame)):
        tb = tb.tb_next
    inner = tb
    while inner is not None:
        while inner.tb_next is not None and import_hooks.is_hook(inner.tb_next.tb_frame.f_code):
            inner.tb_next = inner.tb_next.tb_next
        inner = inner.tb_next
    return tb


def _is_command(frame: types.FrameType) -> bool:
    """Whether the frame is the code of ``python -c``, at the bottom of the stack or above its zygote's."""
    below: types.FrameType | None = frame
    while below is not None and below.f_code.co_filename == "<string>":
        below = below.f_back
    return below is None


def _is_plumbing(filename: str) -> bool:
    return filename.startswith(_PLUMBING)


def user_steps(tb: types.TracebackType | None) -> list[tuple[types.FrameType, int]]:
    """The frames outside the standard library and installed packages, if any, and the line each was at."""
    steps = list(traceback.walk_tb(tb))
    return [step for step in steps if _is_users(step[0].f_code.co_filename)] or steps


_OWN = tuple(os.path.join(root, "") for root in _ROOTS)
_EXAMPLES = tuple(os.path.join(root, "examples", "") for root in _ROOTS)


def _is_users(file: str) -> bool:
    return file.startswith(_EXAMPLES) or not (is_library(file) or file.startswith(_OWN))


def user_frames(tb: types.TracebackType | None) -> list[tuple[str, int, str]]:
    """(file, line, function) of the same frames."""
    return [(f.f_code.co_filename, line or 0, f.f_code.co_name) for f, line in user_steps(tb)]


def text_of(error: BaseException, tb: types.TracebackType | None) -> str:
    """The traceback as Python prints it; a very long one without its middle."""
    return cut("".join(traceback.format_exception(type(error), error, tb)), TRACEBACK)


def cut(text: str, limit: int) -> str:
    """The text, without its middle if its JSON would take more than `limit` bytes."""
    size = len(json.dumps(text))
    if size <= limit:
        return text
    keep = len(text) * limit // size // 2 - 20
    while len(json.dumps(text[:keep] + text[-keep:])) > limit - 60:
        keep = keep * 3 // 4
    return f"{text[:keep]}\n… {len(text) - 2 * keep} characters left out …\n{text[-keep:]}"
