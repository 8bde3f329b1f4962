"""A rank's process: tie it to its agent, run the target, report how it ended, exit as Python would.

A service beside a rank is started in the same way.

Started as ``python -u -c CODE ROOT LINE PROGRAM PARENT STACKS FILES RANK``: the folder or zip that holds
`launcher`, the descriptor of the pipe to the agent, the descriptor of the program (a JSON line and then a
pickle), the agent's pid, the descriptor to which stacks are written, the limit of open files, and the rank.
The exit code is that of plain Python.

The target must see what it would see if Python had started it: its own `__main__`, `sys.argv`,
`sys.path[0]`, and tracebacks without our frames.

Python's own exit finalises the interpreter while threads of native libraries still run. A thread of
PyTorch's gloo back end that drops its last reference to a tensor at that moment is torn out of C++ code and
aborts the process: one FSDP training in six ended with SIGABRT that way after all its work was done.
So `leave` does not finalise the interpreter: it joins threads, runs exit handlers, flushes every open file
and ends the process. Only the destruction of objects and of native libraries is skipped.
"""

from __future__ import annotations

import ast
import atexit
import builtins
import contextlib
import ctypes
import faulthandler
import gc
import importlib
import importlib.util
import io
import os
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Collection
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, NoReturn

from .. import names
from ..spec import pickles
from ..state import peer_loss
from . import import_hooks, linux, program, rank_pipe, report
from .exceptions import description, strip
from .membership import Membership
from .program import Program
from .raising import Describe, Raising
from .rank_pipe import RankPipe

# For the agent alone, far from the signals that scripts and virtual machines use.
STACKS_SIGNAL = signal.SIGRTMAX - 5
USER_SIGNAL = signal.SIGUSR2


def main() -> None:
    """Run as a rank, to the end of the process."""
    root = sys.path[0]
    line, program_fd, rank = begin()
    target = program.read(program_fd, rank)
    os.close(program_fd)
    _order_path("" if target.foreign else root, target.path)
    leave(run(line, target))


def serve() -> None:
    """Run as a service beside a rank, to the end of the process."""
    from . import services

    line, program_fd, _ = begin()
    order = program.read_service(program_fd)
    os.close(program_fd)
    services.serve(line, order)


def begin() -> tuple[RankPipe, int, int]:
    """Tie this process to its agent; the pipe to it, the descriptor of the program, and the rank."""
    descriptor, program_fd, parent, stacks, files, rank = map(int, sys.argv[1:7])
    die_with(parent)
    if files >= 0:
        linux.restore_file_limit(files)
    line = RankPipe.adopt(descriptor)
    for inherited in (program_fd, stacks):
        os.set_inheritable(inherited, False)
    # SIGUSR1 is often the user's own (preemption); a script may install its own handler for SIGUSR2.
    faulthandler.enable()
    faulthandler.register(USER_SIGNAL, chain=False)
    faulthandler.register(STACKS_SIGNAL, file=stacks, chain=False)
    return line, program_fd, rank


def die_with(parent: int) -> None:
    """Have the kernel kill this process when the thread that started it ends; exit if it has already."""
    linux.signal_on_parent_death(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


def run(line: RankPipe, target: Program) -> int:
    """Run the target and report; return the exit code."""
    describe = partial(description, naming=target.naming, values=target.record_locals)
    raising = Raising(line, lambda error, tb: describe(error, strip(tb)))
    raising.install()
    membership = Membership(line, target.frameworks)
    membership.install()
    reporter = report.install(line, raising.check_again)
    notice_trackers(line)
    try:
        return _run(line, target, reporter, describe)
    except Exception as late:  # noqa: BLE001  a handler of the user's raised while an exception was reported
        return _failed_late(line, late, describe)
    finally:
        membership.report_use()
        reporter.flush()


def _run(line: RankPipe, target: Program, reporter: report.Reporter, describe: Describe) -> int:
    try:
        call = load_target(target)
        line.send_fact("rank_entered", {"time": time.time(), "returns": bool(target.name)})
        value = call()
        return _send_value(line, reporter, value, describe) if target.name else 0
    except SystemExit as end:
        return _exited(line, end, describe)
    except BaseException as error:  # noqa: BLE001  whatever user code raises is a fact to report
        return _failed(line, error, strip(error.__traceback__), describe)


TRACKERS = (
    "mlflow.tracking.client",
    "mlflow.tracking.fluent",
    "tensorboardX.writer",
    "torch.utils.tensorboard.writer",
    "wandb.sdk.wandb_init",
)


def notice_trackers(line: RankPipe) -> None:
    """Report the trackers that the user's code begins to write to; ranks that do not pay nothing."""
    noticed: list[Any] = []

    def watch(module: types.ModuleType) -> None:
        from .trackers import Noticed

        noticed[:] = noticed or [Noticed(line)]
        noticed[0].watch(module)

    for name in TRACKERS:
        import_hooks.when_imported(name, watch)


def _exited(line: RankPipe, end: SystemExit, describe: Describe) -> int:
    """Report an exit by `sys.exit`; if a broken transport caused it, report that error too."""
    code = exit_code_of(end)
    line.send_document(rank_pipe.LEFT, {"by_exit": True})
    if code and (cause := end.__cause__ or end.__context__) is not None:
        fields = describe(cause, strip(cause.__traceback__))
        if peer_loss.doubt(fields["message"], fields["traceback"]):
            line.send_fact("rank_raising", fields)
    return code


def _send_value(line: RankPipe, reporter: report.Reporter, value: object, describe: Describe) -> int:
    """Send a function's value; one that cannot be pickled is the function's failure, without a traceback."""
    try:
        reporter.publish(value)
    except report.UnpicklableResult as error:
        return _failed(line, report.UnpicklableResult(f"the return value: {error}"), None, describe)
    line.send_document(rank_pipe.LEFT, {"by_exit": False})
    return 0


def _failed(line: RankPipe, error: BaseException, tb: types.TracebackType | None, describe: Describe) -> int:
    """Report the exception, then let Python's own hook (or the user's) print it."""
    line.send_fact("rank_raised", describe(error, tb))
    return _printed(error.with_traceback(tb))


def _failed_late(line: RankPipe, late: Exception, describe: Describe) -> int:
    """Report what a signal's handler raised while another exception was reported, and print it.

    A DataLoader's handler raises what its worker died of; the first exception is mostly an effect of that.
    The first one is in its chain, and where the user's code was is where that one was raised.
    """
    late = late.with_traceback(strip(late.__traceback__))
    first = late.__context__
    if first is not None:
        first = first.with_traceback(strip(first.__traceback__))
    fields = describe(late, late.__traceback__)
    if first is not None:
        fields["frames"] = describe(first, first.__traceback__)["frames"]
    line.send_fact("rank_raised", fields)
    return _printed(late)


def _printed(error: BaseException) -> int:
    """Print an exception as Python does, and return its exit code."""
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except Exception as broken:  # noqa: BLE001  a user's hook may raise anything
        _print_both(broken, error)
    return 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1


def _print_both(broken: Exception, error: BaseException) -> None:
    """Print what Python prints when a hook fails: the hook's exception, then the original one."""
    if broken.__context__ is error:
        broken.__context__ = None
    for label, each in (("Error in sys.excepthook:", broken), ("\nOriginal exception was:", error)):
        sys.stderr.write(f"{label}\n")
        tb = strip(each.__traceback__)
        sys.__excepthook__(type(each), each.with_traceback(tb), tb)


def _order_path(root: str, path: Collection[str]) -> None:
    """Put the caller's import path first and our own folder, if there is one, last.

    The library itself is loaded already, and finds the rest of its modules without the folder.
    """
    del sys.path[0]
    own = [p for p in sys.path if p and p not in path]
    sys.path[:] = [*filter(None, (*path, *own, root))]


_PACKAGE = Path(__file__).parent.parent


def load_target(target: Program) -> Callable[[], Any]:
    """The function that runs the target; a script's and a module's return None, a program's does not return.

    Exceptions of the target's import are the user's and pass through.
    """
    if target.kind == "program":
        return lambda: _execute(target)
    if target.kind == "script":
        return _script(target)
    if target.kind == "module":
        return _main_module(target)
    if target.kind == "callable":
        _lead_path(target.lead or os.getcwd())
        sys.argv = [target.source, *target.added]
        function, args, kwargs = _unpickled(target)
        return lambda: function(*args, **kwargs)
    function = getattr(_module(target), target.name)
    args, kwargs = _unpickled(target) if target.pickled else _literals(target)
    return lambda: function(*args, **kwargs)


def _unpickled(target: Program) -> Any:
    """The value of the target's pickle; functions in it are code of the Python that made it.

    Raises:
        RuntimeError: that is another Python than this one.
    """
    theirs, ours = target.pickled_by.rpartition(".")[0], "{}.{}".format(*sys.version_info)
    if theirs != ours:
        raise RuntimeError(f"the target was pickled by Python {theirs}, and this rank runs Python {ours}")
    if target.cloudpickle:  # an interpreter's own may be older than the pickle
        _import_from(target.cloudpickle, "cloudpickle")
    return pickles.loads(target.payload)


def _import_from(folder: str, name: str) -> None:
    """Import one package from a folder whose other packages may not load in this interpreter."""
    sys.path.insert(0, folder)
    try:
        importlib.import_module(name)
    finally:
        sys.path.remove(folder)


def _literals(target: Program) -> tuple[list[Any], dict[str, Any]]:
    return (
        [ast.literal_eval(a) for a in target.args],
        {k: ast.literal_eval(v) for k, v in target.kwargs},
    )


def _execute(target: Program) -> NoReturn:
    """Become the program. It ends with its agent too, as the kernel keeps that setting."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and programs would inherit that
        signal.signal(number, signal.SIG_DFL)
    os.execvp(target.source, [target.source, *target.args])


def _script(target: Program) -> Callable[[], Any]:
    path = Path(target.source)
    sys.argv = [target.source, *target.args]
    _lead_path(os.path.dirname(os.path.realpath(path)))  # Python too resolves links
    code = compile(path.read_bytes(), target.source, "exec", dont_inherit=True)
    return _as_main(code, __file__=target.source, __spec__=None)


def _main_module(target: Program) -> Callable[[], Any]:
    """The module as ``python -m`` would run it; of a package, its `__main__`."""
    _lead_path(target.lead or os.getcwd())
    spec = importlib.util.find_spec(target.source)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{target.source}.__main__")
    code = getattr(spec.loader, "get_code", lambda _: None)(spec.name) if spec is not None else None
    if spec is None or code is None:
        raise ImportError(f"there is no module {target.source} that can be run as a program")
    sys.argv = [spec.origin or target.source, *target.args]
    return _as_main(
        code, __file__=spec.origin, __spec__=spec, __package__=spec.parent, __loader__=spec.loader
    )


def _as_main(code: types.CodeType, **attributes: Any) -> Callable[[], None]:
    """Code as `__main__`, kept alive to the end of the process for its threads and pickles."""
    module = types.ModuleType("__main__")
    module.__dict__.update(__builtins__=builtins, **attributes)
    become_main(module)

    def run() -> None:
        exec(code, module.__dict__)

    return run


def become_main(module: types.ModuleType) -> None:
    """Make a module the one that runs as a program, also for `multiprocessing` if that is loaded already."""
    for name in ("__main__", *({"__mp_main__"} & sys.modules.keys())):
        sys.modules[name] = module


def _module(target: Program) -> types.ModuleType:
    if not target.is_file:
        _lead_path(target.lead or os.getcwd())
        sys.argv = [f"{target.source}:{target.name}", *target.added]
        return importlib.import_module(target.source)
    path = Path(target.source)
    _lead_path(os.path.dirname(os.path.realpath(path)))
    sys.argv = [target.source, *target.added]
    # A file named like a loaded module (json.py) must not replace it.
    name = path.stem if path.stem not in sys.modules else f"_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _lead_path(folder: str) -> None:
    """Make `folder` the first to import from; if it leads to a user's own `launcher`, give up that name."""
    sys.path.insert(0, folder)
    spec = PathFinder.find_spec(names.FIRST, sys.path)
    places = [Path(p) for p in (spec.submodule_search_locations or ())] if spec else []
    if spec and not any(p == _PACKAGE or (p / "agent" / "rank_main.py").exists() for p in places):
        names.give_up_first_name()


_LONG = (-(1 << 63), (1 << 63) - 1)  # the range of a C long; Python replaces any other number by -1


def exit_code_of(end: SystemExit) -> int:
    """The exit code that `SystemExit` stands for; a message is printed, as Python does."""
    code = end.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF if _LONG[0] <= code <= _LONG[1] else 0xFF
    with contextlib.suppress(Exception):  # a closed stream, or a user's __str__: Python too ignores it
        sys.stderr.write(str(code))
    with contextlib.suppress(Exception):
        sys.stderr.write("\n")
    return 1


def leave(code: int) -> NoReturn:
    """Join threads, run exit handlers, flush, and end the process with `code`."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001  as Python's own exit does
        atexit._run_exitfuncs()  # noqa: SLF001  and so does this
    except BaseException as error:  # noqa: BLE001  a user's handler may raise anything
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        _flush_files()
        os._exit(code)


def _flush_files() -> None:
    """Flush every open Python file, text layers before the buffers below them, and C's files."""
    objects = [*gc.get_objects(), sys.stdout, sys.stderr]  # a fork has those two from before, and frozen
    for kinds in ((io.TextIOWrapper,), (io.BufferedWriter, io.BufferedRandom)):
        for file in [o for o in objects if issubclass(type(o), kinds)]:  # isinstance would run code
            try:
                if not file.closed:
                    file.flush()
            except (OSError, ValueError):  # a full disk or a broken pipe: Python could not save it either
                continue
    ctypes.CDLL(None).fflush(None)
