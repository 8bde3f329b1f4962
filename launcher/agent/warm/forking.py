"""Starting a rank as a fork of this process, so that it cannot be told from one of a fresh interpreter.

The fork runs the same code as ``python -u -c CODE`` would. Before that it gives up what it has of its parent:
descriptors, signal handlers, the environment, `__main__`, `sys.argv` and random states. The parent's objects
are never finalized in it, since a finalizer would close a descriptor of the user's that got the same number:
those of the agent's thread are lost with that thread, the zygote's are held, and all others are frozen.
"""

from __future__ import annotations

import _thread
import ctypes
import gc
import os
import resource
import signal
import sys
import threading
import time
import traceback
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.machinery import PathFinder
from typing import Any
from zipimport import zipimporter

from .. import linux, rank_main
from . import startup

Main = tuple[types.CodeType, dict[str, Any]]
Fork = Callable[[], Main]
"""What a fork becomes: it ends the process, or gives it up to code that is to run as its main program."""

_FAILED = 70
_SETTERS = (
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
)


@dataclass(frozen=True, slots=True)
class Zygote:
    """This process as one whose forks become ranks.

    Attributes:
        path: `sys.path` as the interpreter made it.
        name: as what such a process is listed.
        loaded: the top-level modules that it has imported, and a fresh rank has not.
        root: the folder or zip that holds `launcher`.
        kept: the descriptor of that zip, which forks keep.
        python: its interpreter.
        environ: the variables that were read when it started.
        cores, stack: the cores and the stack that libraries found when they were loaded.
        forker: forks the ranks, on the first thread of this process.
        zips: as `opened_zips` found them.
        files: what it has imported.
        thread_setters: as `thread_setters` found them.
    """

    path: tuple[str, ...]
    loaded: frozenset[str]
    name: str
    root: str
    kept: tuple[int, ...] = ()
    python: str = field(default_factory=lambda: sys.executable)
    environ: Mapping[str, str] = field(default_factory=lambda: startup.read_at_start(os.environ))
    cores: frozenset[int] = field(default_factory=lambda: frozenset(os.sched_getaffinity(0)))
    stack: int = field(default_factory=lambda: _stack())
    forker: Forker = field(default_factory=lambda: Forker())
    zips: Mapping[str, object] = field(default_factory=lambda: opened_zips())
    files: LoadedFiles = field(default_factory=lambda: LoadedFiles())
    thread_setters: Sequence[Callable[[int], object]] = field(default_factory=lambda: thread_setters())

    @property
    def has_torch(self) -> bool:
        """Whether it has imported torch, so that a fork can host its store."""
        return "torch" in self.loaded

    def changed(self) -> str:
        """As `LoadedFiles.changed`."""
        return self.files.changed()

    def why_not(self, python: str, env: Mapping[str, str], folders: Sequence[str]) -> str:
        """Why a rank has to be a fresh process, in a few words; empty if it may be a fork.

        Args:
            python: the interpreter that it should run.
            env: its whole environment.
            folders: the folders from which its target imports first.
        """
        if python != self.python:
            return f"it runs {python}"
        if startup.threads_of(env) is None:
            return f"{startup.THREADS} is no number"
        own = startup.read_at_start(env)
        if differing := sorted(name for name, _ in own.items() ^ self.environ.items()):
            return f"{differing[0]} differs"
        if frozenset(os.sched_getaffinity(0)) != self.cores or _stack() != self.stack:
            return "its cores or its stack differ"
        if {*threading.enumerate()} - {threading.main_thread(), threading.current_thread()}:
            return "its agent has threads"
        return self._shadowed(folders)

    def _shadowed(self, folders: Sequence[str]) -> str:
        for folder in folders:
            if folder in self.path:
                continue
            try:
                found = startup.shadowed(os.listdir(folder), self.loaded)
            except OSError:
                continue
            if found:
                return f"{os.path.join(folder, found)} is to be imported"
        return ""

    def fork(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        stdout: int,
        stderr: int,
        keep: Sequence[int],
    ) -> int:
        """Start a rank as a fork of the first thread; its pid. The arguments are those of `process.spawn`.

        Raises:
            OSError: the working directory cannot be used, or there is no room for a process.
        """
        folder = os.open(cwd, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.stat(".", dir_fd=folder)  # whoever may not enter it may not do this either
            return self.forker.fork(partial(self._become_rank, argv, env, folder, (stdout, stderr), keep))
        finally:
            os.close(folder)

    def _become_rank(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        folder: int,
        outputs: tuple[int, int],
        keep: Sequence[int],
    ) -> Main:
        try:
            gc.freeze()  # nothing of the parent's is ever finalized
            os.setsid()
            linux.rename(self.name)
            os.fchdir(folder)
            replace_descriptors(outputs, (*keep, *self.kept))
            replace_environ(env)
            _reseed()
            for setter in self.thread_setters:
                setter(int(env[startup.THREADS]))
            look_again(self.zips)
            _note_thread_id()
            sys.orig_argv[:] = argv
            # the zip by this process's own descriptor is one that was opened already
            sys.argv = ["-c", self.root if self.kept else argv[4], *argv[5:]]
            sys.path[:] = self.path
            return main_of(argv[3])
        except BaseException:  # noqa: BLE001  it must not go on as the parent
            traceback.print_exc()
            os._exit(_FAILED)


class Forker:
    """Lets an agent work on a thread of its own, and forks on the first thread of the process.

    A fork has only the thread that forked. Of any thread but the first it would have a stack of another size,
    and its allocations would come from that thread's heap, which gives memory back after every large tensor.
    In a fork, `serve` returns, so that the stack below it can be left too, and none of the agent's is there.
    """

    def __init__(self) -> None:
        self._asked, self._done = _thread.allocate_lock(), _thread.allocate_lock()
        self._asked.acquire()
        self._done.acquire()
        self._become: Fork | None = None
        self._result: int | OSError = 0
        self._failed: BaseException | None = None

    def serve(self, work: Callable[[], None]) -> Fork | None:
        """Do some work on another thread, which may call `fork`; raises what that raises.

        Returns:
            None when the work is done. In a fork, what it is to do: it goes on with the caller's stack.
        """
        _thread.start_new_thread(self._work, (work,))
        while True:
            self._asked.acquire()
            if self._become is None:
                break
            try:
                self._result = fork_quietly()
            except OSError as error:
                self._result = error
            if self._result == 0:
                return self._become
            self._done.release()
        if self._failed is not None:
            raise self._failed
        return None

    def _work(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  the first thread raises it
            self._failed = error
        self._become = None
        self._asked.release()

    def fork(self, become: Fork) -> int:
        """Fork, and let `serve` return `become` in the child; its pid. For the work, which waits meanwhile.

        Raises:
            OSError: there is no room for a process.
        """
        self._become = become
        self._asked.release()
        self._done.acquire()
        if isinstance(self._result, OSError):
            raise self._result
        return self._result


class LoadedFiles:
    """The files of the modules that this process has imported, but for the interpreter's own."""

    def __init__(self) -> None:
        own = os.path.dirname(os.__file__)
        files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        paths = {path for path in files if path and (not path.startswith(own) or "site-packages" in path)}
        self._states = {path: _state(path) for path in paths}

    def changed(self) -> str:
        """One that has changed since; empty if none has. For a thousand files it takes some milliseconds."""
        return next((path for path, state in self._states.items() if _state(path) != state), "")


def opened_zips() -> dict[str, object]:
    """The zips that modules are looked for in, each with the state of its file."""
    found = ((place, finder) for place, finder in sys.path_importer_cache.items())
    return {place: _state(finder.archive) for place, finder in found if isinstance(finder, zipimporter)}


def look_again(zips: Mapping[str, object]) -> None:
    """Look into folders again when something is imported, and into zips that have changed.

    `importlib.invalidate_caches` reads every zip, and Spark puts its largest jar on the path.
    """
    for place, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter) and zips.get(place) == _state(finder.archive):
            continue
        if finder is None:
            del sys.path_importer_cache[place]
        elif (forget := getattr(finder, "invalidate_caches", None)) is not None:
            forget()
    for each in sys.meta_path:
        if each is not PathFinder and hasattr(each, "invalidate_caches"):
            each.invalidate_caches()


def _state(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def fork_quietly() -> int:
    """`os.fork`, without the warning that Python prints where a library has threads of its own.

    The child handles signals as an interpreter does at its start. None reaches it before that: its parent's
    handler would wake the parent, by the descriptor that both have, as if the signal had been for that one.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (*_DEFAULT, signal.SIGINT))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            give_up_signals()
        return pid
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


_DEFAULT = (signal.SIGCHLD, signal.SIGHUP, signal.SIGTERM)


def give_up_signals() -> None:
    """Handle signals as an interpreter does at its start."""
    signal.set_wakeup_fd(-1)
    for signum in _DEFAULT:
        signal.signal(signum, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def replace_descriptors(outputs: tuple[int, int], keep: Sequence[int]) -> None:
    """Read nothing, write to `outputs`, and have no other descriptors than `keep`."""
    null = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((null, *outputs)):
        os.dup2(descriptor, number)
    low = 3
    for descriptor in sorted(keep):
        os.closerange(low, descriptor)
        low = descriptor + 1
    os.closerange(low, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def replace_environ(env: Mapping[str, str]) -> None:
    """Have exactly these variables, also for C and for children."""
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    if "tempfile" in sys.modules:
        sys.modules["tempfile"].__dict__["tempdir"] = None  # where it is told by a variable


def _note_thread_id() -> None:
    """Let the first thread know its number: Python leaves that of the parent's."""
    vars(threading.main_thread())["_native_id"] = threading.get_native_id()


def _reseed() -> None:
    """Give this process random states of its own. `random` has done so, by a hook of Python's."""
    if (random := sys.modules.get("numpy.random")) is not None:
        random.seed()
    if (torch := sys.modules.get("torch")) is not None:
        torch.default_generator.seed()
    if (processes := sys.modules.get("multiprocessing.process")) is not None:
        processes.current_process().authkey = os.urandom(32)


def thread_setters() -> list[Callable[[int], object]]:
    """Functions that do what the loaded libraries do at their import for a value of OMP_NUM_THREADS."""
    torch = sys.modules.get("torch")
    own = [torch.set_num_threads] if torch is not None else []
    return [*own, *(_blas_setter(path) for path in _libraries("openblas"))]


def _libraries(name: str) -> list[str]:
    """The paths of the loaded libraries whose names hold `name`."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        paths = {line.split(maxsplit=5)[5].rstrip("\n") for line in file if name in line}
    return sorted(path for path in paths if ".so" in os.path.basename(path))


def _blas_setter(path: str) -> Callable[[int], object]:
    library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD)
    return next((getattr(library, name) for name in _SETTERS if hasattr(library, name)), bool)


def main_of(code: str) -> Main:
    """Code as ``python -c`` has it, and the namespace of a `__main__` of its own."""
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=__builtins__, __annotations__={})
    rank_main.become_main(main)
    return compile(code, "<string>", "exec", dont_inherit=True), main.__dict__


def _stack() -> int:
    return resource.getrlimit(resource.RLIMIT_STACK)[0]
