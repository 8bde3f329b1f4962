"""How often Textual may paint. Import this module before Textual, which reads its settings on import.

Over SSH, every frame is sent to a terminal that may be far away: fewer frames, and no animations.
The settings are removed from the environment again, so that runs launched from here do not inherit them.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping

_SWITCH_S = 0.0005
_COLLECTIONS = (20_000, 50, 200)
_REMOTE = {"TEXTUAL_FPS": "15", "TEXTUAL_ANIMATIONS": "none", "TEXTUAL_SMOOTH_SCROLL": "0"}


def is_remote(environ: Mapping[str, str]) -> bool:
    """Whether the terminal is at the other end of an SSH connection."""
    return bool(environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"))


def settle() -> None:
    """Let Textual read settings that suit this terminal; variables that the user has set take precedence.

    Two settings of Python change, too. Threads that read runs yield to the painting thread sooner than after
    the usual 5 ms, because a key takes several turns of the event loop and would wait that long for each. The
    garbage collector runs less often: the figures of a large gang are a million small values without cycles,
    and one scan of them takes 0.1 s.
    """
    sys.setswitchinterval(_SWITCH_S)
    gc.set_threshold(*_COLLECTIONS)
    added = {k: v for k, v in _REMOTE.items() if is_remote(os.environ) and k not in os.environ}
    os.environ.update(added)
    try:
        import textual.constants  # noqa: F401  it reads them now
    finally:
        for key in added:
            del os.environ[key]


settle()
