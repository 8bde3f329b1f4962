"""A rank's first code: tie the rank to its agent, run the target, say how it ended, end as Python would.

Started as ``python -u -c BOOT ROOT LINE PROGRAM PARENT``: the folder or zip that holds `launcher`, the
descriptor of the line to the agent, the descriptor of the program (a JSON line and then a pickle), and
the agent's pid. The user's process ends by itself: atexit handlers run, threads are joined, and the
exit code is what plain Python would have given.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import sys
import time
from typing import Any

from launcher.codec import from_plain
from launcher.spec import Target
from launcher.worker import program, rankline, report
from launcher.worker.rankline import RankLine
from launcher.worker.summary import qualified_type

BOOT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from launcher.worker import child; child.main()"
STACKS_SIGNAL = signal.SIGUSR2
_PR_SET_PDEATHSIG = 1
_MESSAGE_LIMIT = 8192


def main() -> None:
    """Run as a rank. Returns only if the target returned; otherwise the process is ending."""
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
    sys.exit(run(line, target, payload))


def die_with(parent: int) -> None:
    """Ask the kernel to kill this process when the thread that started it ends; leave if it has already."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


def run(line: RankLine, target: Target, payload: bytes) -> int:
    """Run the target and report; the exit code to leave with."""
    reporter = report.install(line)
    try:
        call = program.load(target, payload)
        line.send_document(rankline.ENTERED, {"time": time.time()})
        value = call()
        if target.name:
            reporter.publish(value)
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001  whatever user code raises is a fact to report
        return _failed(line, error)
    finally:
        reporter.flush()
    return 0


def _failed(line: RankLine, error: BaseException) -> int:
    """Tell the agent, then let Python's own hook (or the user's) print it."""
    if isinstance(error, report.UnpicklableResult):
        error = report.UnpicklableResult(f"the return value: {error}").with_traceback(None)
        tb = None
    else:
        tb = program.strip(error)
    line.send_document(rankline.RAISED, description(error, tb))
    sys.excepthook(type(error), error.with_traceback(tb), tb)
    return 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1


def description(error: BaseException, tb: Any) -> dict[str, Any]:
    """The fields of a `RankRaised`, bounded so that they fit one packet."""
    return {
        "time": time.time(),
        "kind": qualified_type(error),
        "message": str(error)[:_MESSAGE_LIMIT],
        "traceback": program.text_of(error, tb),
        "frames": program.frames(tb)[-20:] if tb else [],
    }


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
    """Put the caller's import path first and our own folder last; `sys.path[0]` is the target's to set."""
    sys.path.remove(root)
    own = [p for p in sys.path if p and p not in path]
    sys.path[:] = ["", *(p for p in path if p), *own, root]
