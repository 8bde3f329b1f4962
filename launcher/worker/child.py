"""A rank's first code: tie the rank to its agent, run the target, say how it ended, end as Python would.

Started as ``python -u -c BOOT ROOT LINE PROGRAM PARENT``: the folder or zip that holds `launcher`, the
descriptor of the line to the agent, the descriptor of the program (a JSON line and then a pickle), and
the agent's pid. The exit code is what plain Python would have given; how the process ends is `ending`'s.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import time
import types
from typing import Any

from launcher.codec import from_plain
from launcher.spec import Target
from launcher.worker import ending, kernel, program, rankline, report
from launcher.worker.rankline import RankLine
from launcher.worker.summary import qualified_type

# Our folder takes the place of the '' that stands for the working directory: a user's `json.py` that lies
# there must not be what we import.
BOOT = (
    "import sys; sys.path[: not sys.path[0]] = [sys.argv.pop(1)]; "
    "from launcher.worker import child; child.main()"
)
STACKS_SIGNAL = signal.SIGUSR2
# With the traceback, and as JSON, less than the agent takes in one packet.
_FRAMES, _SHORT, _PATH, _MESSAGE = 10, 512, 4096, 16 << 10


def main() -> None:
    """Run as a rank, to the end of the process."""
    root, (descriptor, program_fd, parent) = sys.path[0], [int(a) for a in sys.argv[1:4]]
    die_with(parent)
    line = RankLine.adopt(descriptor)
    os.set_inheritable(program_fd, False)
    # SIGUSR1 is often the user's own (preemption); a script that wants SIGUSR2 simply takes it.
    faulthandler.enable()
    faulthandler.register(STACKS_SIGNAL, chain=False)
    target, path, payload = _read_program(program_fd)
    os.close(program_fd)
    _give_way(root, path)
    ending.leave(run(line, target, payload))


def die_with(parent: int) -> None:
    """Ask the kernel to kill this process when the thread that started it ends; leave if it has already."""
    kernel.signal_on_parent_death(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


def run(line: RankLine, target: Target, payload: bytes) -> int:
    """Run the target and report; the exit code to leave with."""
    reporter = report.install(line)
    try:
        call = program.load(target, payload)
        line.send_document(rankline.ENTERED, {"time": time.time()})
        value = call()
        return _return(line, reporter, value) if target.name else 0
    except SystemExit as end:
        return ending.code_of(end)
    except BaseException as error:  # noqa: BLE001  whatever user code raises is a fact to report
        return _failed(line, error, program.strip(error))
    finally:
        reporter.flush()


def _return(line: RankLine, reporter: report.Reporter, value: object) -> int:
    """Send a function's value; one that cannot be pickled is the function's failure, without a place."""
    try:
        reporter.publish(value)
    except report.UnpicklableResult as error:
        return _failed(line, report.UnpicklableResult(f"the return value: {error}"), None)
    return 0


def _failed(line: RankLine, error: BaseException, tb: types.TracebackType | None) -> int:
    """Tell the agent, then let Python's own hook (or the user's) print it."""
    line.send_document(rankline.RAISED, description(error, tb))
    error = error.with_traceback(tb)
    try:
        sys.excepthook(type(error), error, tb)
    except Exception as broken:  # noqa: BLE001  a hook of the user's may raise anything
        _print_both(broken, error)
    return 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1


def _print_both(broken: Exception, error: BaseException) -> None:
    """What Python prints when a hook fails: the hook's exception, and the one that it was for."""
    if broken.__context__ is error:
        broken.__context__ = None
    for label, each in (("Error in sys.excepthook:", broken), ("\nOriginal exception was:", error)):
        sys.stderr.write(f"{label}\n")
        tb = program.strip(each)
        sys.__excepthook__(type(each), each.with_traceback(tb), tb)


def description(error: BaseException, tb: Any) -> dict[str, Any]:
    """The fields of a `RankRaised`, bounded so that they fit one packet."""
    frames = program.frames(tb)[-_FRAMES:] if tb else []
    return {
        "time": time.time(),
        "kind": program.cut(qualified_type(error), _SHORT),
        "message": program.cut(_message(error), _MESSAGE),
        "traceback": program.text_of(error, tb),
        "frames": [
            (program.cut(file, _PATH), line, program.cut(name, _SHORT)) for file, line, name in frames
        ],
    }


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  a user's __str__ may raise anything; Python prints the same words
        return "<exception str() failed>"


def _read_program(descriptor: int) -> tuple[Target, list[str], bytes]:
    """The target, the caller's `sys.path` if it matters, and the pickle behind them.

    `pread`, because all ranks share the descriptor's offset.
    """
    size = os.fstat(descriptor).st_size
    data = bytearray()
    while len(data) < size:
        data += os.pread(descriptor, size - len(data), len(data))
    head, _, payload = data.partition(b"\n")
    document = json.loads(head)
    return from_plain(Target, document["target"]), document["path"], bytes(payload)


def _give_way(root: str, path: list[str]) -> None:
    """Put the caller's import path first and our own folder last; the target's folder then leads."""
    sys.path.remove(root)
    own = [p for p in sys.path if p and p not in path]
    sys.path[:] = [*filter(None, path), *own, root]
