"""Read tracebacks: the exceptions of a chain, and one that another exception's message quotes. Pure.

Exceptions that stand for another process's failure carry its traceback in their message: those of a
`DataLoader`, of `torch.multiprocessing` and of Ray do.
"""

from __future__ import annotations

import re

from .library_code import is_library

DIRECT = "The above exception was the direct cause of the following exception:"
_DURING = "During handling of the above exception, another exception occurred:"
_NEXT = re.compile(rf"\n\n({re.escape(DIRECT)}|{re.escape(_DURING)})\n\n")
_FRAME = '  File "'
_PLACE = re.compile(
    r'^  File "(?P<file>[^\n]*)", line \d+, in [^\n]*(?:\n    (?P<source>[^\n]*))?', re.MULTILINE
)


def chain(traceback: str) -> list[str]:
    """The exceptions of a chain, the first one first, with the sentence that joins two between them."""
    return _NEXT.split(traceback)


def message_in(block: str) -> str:
    """The type and message of one exception of a chain: the lines below its frames."""
    lines = block.splitlines()
    frames = [i for i, line in enumerate(lines) if line.startswith(_FRAME)]
    message = lines[frames[-1] + 1 :] if frames else lines
    while message and message[0].startswith("    "):
        message = message[1:]
    return "\n".join(message)


def quoted(message: str) -> str:
    """The type and message of the exception whose traceback a message quotes; empty for none."""
    return message_in(quoted_block(message))


def quoted_block(message: str) -> str:
    """The traceback of the exception that a message quotes, without those before it; empty for none.

    What was raised from another exception only passes it on, so the one it was raised from counts.
    """
    if _FRAME not in message:
        return ""
    parts = chain(message)
    while len(parts) > 2 and parts[-2] == DIRECT:
        del parts[-2:]
    return parts[-1] if _FRAME in parts[-1] else ""


_RAISES = re.compile(r"(?:^|[:;] ?)raise\b")


def raised_by_user(block: str) -> bool | None:
    """Whether a `raise` in the user's own code made this exception, as its innermost frame shows.

    None if that is the user's, and its line is not known: it was generated, or its file is gone.
    """
    innermost = _innermost_of_user(block)
    if innermost is None:
        return False
    source = innermost["source"]
    return None if source is None else _RAISES.search(source) is not None


def in_users_code(block: str) -> bool:
    """Whether this exception came up in the user's own code, and not below it in a library's."""
    return _innermost_of_user(block) is not None


def _innermost_of_user(block: str) -> re.Match[str] | None:
    """The innermost frame, if it is the user's."""
    innermost = next(reversed(list(_PLACE.finditer(block))), None)
    return None if innermost is None or is_library(innermost["file"]) else innermost
