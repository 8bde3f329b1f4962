"""A rank's first code: tie the rank to its agent, run the target, say how it ended, end as Python would.

Started as ``python -u -c BOOT ROOT LINE PROGRAM PARENT STACKS FILES``: the folder or zip that holds
`launcher`, the descriptor of the line to the agent, the descriptor of the program (a JSON line and then a
pickle), the agent's pid, the descriptor that stacks go to, and how many files may be open. The exit code is
what plain Python would have given; how the process ends is `ending`'s.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import time
import types
from dataclasses import dataclass
from typing import Any

from launcher.codec import from_plain
from launcher.spec import Target
from launcher.worker import ending, kernel, program, rankline, report, transport, ulimits
from launcher.worker.raising import Raising
from launcher.worker.rankline import RankLine
from launcher.worker.summary import qualified_type

# Our folder takes the place of the '' that stands for the working directory: a user's `json.py` that lies
# there must not be what we import.
BOOT = (
    "import sys; sys.path[: not sys.path[0]] = [sys.argv.pop(1)]; "
    "from launcher.worker import child; child.main()"
)
# The agent's own, far from those that scripts and virtual machines take for themselves.
STACKS_SIGNAL = signal.SIGRTMAX - 5
PERSONS_SIGNAL = signal.SIGUSR2
# With the traceback, and as JSON, less than the agent takes in one packet.
_FRAMES, _SHORT, _PATH, _MESSAGE = 10, 512, 4096, 16 << 10


def main() -> None:
    """Run as a rank, to the end of the process."""
    root, (descriptor, program_fd, parent, stacks, files) = sys.path[0], [int(a) for a in sys.argv[1:6]]
    die_with(parent)
    if files >= 0:
        ulimits.narrow(files)
    line = RankLine.adopt(descriptor)
    for inherited in (program_fd, stacks):
        os.set_inheritable(inherited, False)
    # SIGUSR1 is often the user's own (preemption); a script that wants SIGUSR2 simply takes it.
    faulthandler.enable()
    faulthandler.register(PERSONS_SIGNAL, chain=False)
    faulthandler.register(STACKS_SIGNAL, file=stacks, chain=False)
    document, payload = _read_program(program_fd)
    os.close(program_fd)
    _give_way(root, document["path"])
    target = from_plain(Target, document["target"])
    naming = Naming(*document.get("names", ()))
    ending.leave(run(line, target, payload, naming, document.get("lead", "")))


def die_with(parent: int) -> None:
    """Ask the kernel to kill this process when the thread that started it ends; leave if it has already."""
    kernel.signal_on_parent_death(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Naming:
    """How the caller knows the files of a target that was unpacked here: `here` is a copy of `there`."""

    here: str = ""
    there: str = ""

    def __call__(self, text: str) -> str:
        """The text with the caller's own paths."""
        return text.replace(self.here, self.there) if self.here else text


def run(line: RankLine, target: Target, payload: bytes, naming: Naming, lead: str = "") -> int:
    """Run the target and report; the exit code to leave with."""
    raising = Raising(line, lambda error, tb: description(error, program.strip(tb), naming))
    raising.install()
    reporter = report.install(line, raising.look_again)
    try:
        call = program.load(target, payload, lead)
        line.send_document(rankline.ENTERED, {"time": time.time(), "returns": bool(target.name)})
        value = call()
        return _return(line, reporter, value, naming) if target.name else 0
    except SystemExit as end:
        return _left(line, end, naming)
    except BaseException as error:  # noqa: BLE001  whatever user code raises is a fact to report
        return _failed(line, error, program.strip(error.__traceback__), naming)
    finally:
        reporter.flush()


def _left(line: RankLine, end: SystemExit, naming: Naming) -> int:
    """A rank that leaves on purpose. One that does so for a broken transport is known by that error."""
    code = ending.code_of(end)
    line.send_document(rankline.LEFT, {"by_exit": True})
    if code and (cause := end.__cause__ or end.__context__) is not None:
        told = description(cause, program.strip(cause.__traceback__), naming)
        if transport.doubt(told["message"], told["traceback"]):
            line.send_document(rankline.RAISING, told)
    return code


def _return(line: RankLine, reporter: report.Reporter, value: object, naming: Naming) -> int:
    """Send a function's value; one that cannot be pickled is the function's failure, without a place."""
    try:
        reporter.publish(value)
    except report.UnpicklableResult as error:
        return _failed(line, report.UnpicklableResult(f"the return value: {error}"), None, naming)
    line.send_document(rankline.LEFT, {"by_exit": False})
    return 0


def _failed(line: RankLine, error: BaseException, tb: types.TracebackType | None, naming: Naming) -> int:
    """Tell the agent, then let Python's own hook (or the user's) print it."""
    line.send_document(rankline.RAISED, description(error, tb, naming))
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
        tb = program.strip(each.__traceback__)
        sys.__excepthook__(type(each), each.with_traceback(tb), tb)


def description(error: BaseException, tb: Any, naming: Naming) -> dict[str, Any]:
    """The fields of a `RankRaised`, bounded so that they fit one packet."""
    frames = program.frames(tb)[-_FRAMES:] if tb else []
    return {
        "time": time.time(),
        "kind": program.cut(qualified_type(error), _SHORT),
        "message": program.cut(_message(error), _MESSAGE),
        "traceback": program.cut(naming(program.text_of(error, tb)), program.TRACEBACK),
        "frames": [
            (program.cut(naming(file), _PATH), line, program.cut(name, _SHORT)) for file, line, name in frames
        ],
    }


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  a user's __str__ may raise anything; Python prints the same words
        return "<exception str() failed>"


def _read_program(descriptor: int) -> tuple[dict[str, Any], bytes]:
    """What to run, as `preparing` wrote it, and the pickle behind it.

    `pread`, because all ranks share the descriptor's offset.
    """
    size = os.fstat(descriptor).st_size
    data = bytearray()
    while len(data) < size:
        data += os.pread(descriptor, size - len(data), len(data))
    head, _, payload = data.partition(b"\n")
    return json.loads(head), bytes(payload)


def _give_way(root: str, path: list[str]) -> None:
    """Put the caller's import path first and our own folder last; the target's folder then leads."""
    sys.path.remove(root)
    own = [p for p in sys.path if p and p not in path]
    sys.path[:] = [*filter(None, path), *own, root]
