"""Recognise failures of a program in its surroundings: what it imports, compiles, asks and starts. Pure."""

from __future__ import annotations

import re

from ..state.outcome_rules import brief
from .failure import Certainty, Finding, FirstFailure, Recognised

_NO_MODULE = r"No module named '([^'\n]{1,200})'"


def missing_module(failure: FirstFailure) -> Finding | None:
    """A module that the program imports is not there."""
    found = failure.begins(_NO_MODULE, "ModuleNotFoundError")
    if found is None or found.error.handled or "is not a package" in found.error.message:
        return None  # a file of the program's own that hides a package: to install that would not help
    return Finding(
        "module-missing",
        f"the interpreter of {failure.name} on {failure.rank.host} has no module {found.match[1]}",
        found.certainty,
        _imported_at(failure),
        _ways_to_have(found),
    )


_UNPICKLES = r"(?:torch/(?:serialization|_weights_only_unpickler)|pickle|joblib/\w+)\.py"


def _ways_to_have(found: Recognised) -> tuple[str, ...]:
    own = "a module of your own: --workdir or --py-files, so that ranks find it"
    parent = found.match[1].rpartition(".")[0]
    if found.error.passed(_UNPICKLES):
        return (
            "the file that is loaded names a class of that module: have it there, or save state_dict() only",
            own,
        )
    if parent:
        return (f"{parent} is there, without that part: another version of it, or another name", own)
    return ("install its package for that interpreter, or choose another one: --python PATH", own)


def _imported_at(failure: FirstFailure) -> tuple[str, ...]:
    frames = failure.rank.raised.frames if failure.rank.raised else ()
    return tuple(f"imported at {file.rpartition('/')[2]}:{line}" for file, line, _ in frames[-1:])


_NO_LIBRARY = r"(?:[^\n]{0,200}?/)?([\w.+-]{1,100}\.so[\w.]{0,30}): cannot open shared object file"
_TOO_OLD = r"([^\n:]{1,300}): version `(\w{1,40}[\d.]{1,20})' not found"


def missing_library(failure: FirstFailure) -> Finding | None:
    """A library of the system is not there, or an older one."""
    if found := failure.begins(_NO_LIBRARY, "ImportError", "OSError"):
        text = f"{failure.rank.host} has no library {found.match[1]} where {failure.name} looks for it"
    elif found := failure.begins(_TOO_OLD, "ImportError", "OSError"):
        library = found.match[1].rpartition("/")[2]
        text = f"{library} of {failure.rank.host} is too old for {failure.name}: it lacks {found.match[2]}"
    else:
        return None
    return Finding(
        "library-missing",
        text,
        found.certainty,
        (brief(found.error.message),),
        (
            "install the package that has it on every host, or another build of the Python package",
            "--env LD_LIBRARY_PATH=FOLDER, if it is there but not found",
            "one of your own: build it for these hosts, and have it travel with --files or --workdir",
        ),
    )


_TOOLS = r"(?:nvcc|ninja|gcc|g\+\+|cc|c\+\+|clang\+*|hipcc)"
_NO_COMPILER = (
    r"InvalidCxxCompiler: No working C\+\+ compiler found"
    r"|(?:RuntimeError: )?Failed to find C compiler"
    r"|TritonMissing: Cannot find a working triton installation"
    r"|Ninja is required to load C\+\+ extensions"
    r"|CUDA_HOME environment variable is not set"
    r"|backend='inductor' raised:\s+"
    r"(?:InvalidCxxCompiler|RuntimeError: Failed to find C compiler|TritonMissing)"
)
_NO_TOOL = rf"\[Errno 2\] No such file or directory: '(?:[^'\n]{{0,200}}/bin/)?({_TOOLS}(?:-\d+)?)'"
_STARTERS = r"(?:subprocess|torch/utils/cpp_extension)\.py"
_COMPILES = (
    "RuntimeError",
    "OSError",
    "EnvironmentError",
    "torch._inductor.exc.InductorError",
    "torch._inductor.exc.InvalidCxxCompiler",
    "torch._inductor.exc.TritonMissing",
    "torch._dynamo.exc.BackendCompilerFailed",
)


def missing_compiler(failure: FirstFailure) -> Finding | None:
    """Something compiles while it runs, and a tool for that is not there."""
    found = failure.begins(_NO_TOOL, "FileNotFoundError")
    if found and "/bin/" not in found.match[0] and not found.error.passed(_STARTERS):
        return None  # a folder can be called `cc` too
    tool = found.match[1] if found else "compiler"
    found = found or failure.begins(_NO_COMPILER, *_COMPILES)
    if found is None:
        return None
    return Finding(
        "compiler-missing",
        f"{failure.name} compiles code as it runs, and {failure.rank.host} has no {tool} for that",
        found.certainty,
        (brief(found.error.message),),
        (
            "install gcc and g++, ninja, or the CUDA toolkit (CUDA_HOME) on every host, as the message asks",
            "run without it: no torch.compile, or --env TORCH_COMPILE_DISABLE=1",
        ),
    )


def no_terminal(failure: FirstFailure) -> Finding | None:
    """The program asks a person, and ranks have no terminal."""
    found = failure.begins("EOF when reading a line", "EOFError") or failure.begins("", "bdb.BdbQuit")
    if found is None:
        return None
    debugs = found.error.kind == "bdb.BdbQuit"
    asks = "a debugger" if debugs else "input()"
    return Finding(
        "no-terminal",
        f"{failure.name} reads from a terminal ({asks}), and ranks have none",
        found.certainty if debugs else Certainty.LIKELY,  # the program may have opened a file in its place
        remedy=(
            "take what it asks for from an option or a variable: -- ARGS, --env",
            "breakpoints: run one rank without rankdeck, or a debugger that listens on a port (debugpy)",
        ),
    )


_GUARD = r"current process has finished its bootstrapping phase"
_CHILD_ENDS = (
    ("torch.multiprocessing.spawn.ProcessExitedException", r"process \d+ terminated with exit code 1"),
    (
        "RuntimeError",
        r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) exited unexpectedly|\s+An attempt has been",
    ),
    ("concurrent.futures.process.BrokenProcessPool", ""),
    ("torch.multiprocessing.spawn.ProcessRaisedException", ""),
)


def main_guard(failure: FirstFailure) -> Finding | None:
    """A process that was started by spawn ran the script again, which starts processes when imported."""
    if failure.rank.signal or failure.wrote(_GUARD) is None:
        return None
    told = next(filter(None, (failure.begins(pattern, kind) for kind, pattern in _CHILD_ENDS)), None)
    if failure.rank.raised is not None and told is None:
        return None
    return Finding(
        "main-guard-missing",
        f"a process that {failure.name} started ran the whole script again: it has no `if __name__` guard",
        told.certainty if told else Certainty.LIKELY,
        ("Python: an attempt has been made to start a new process before bootstrapping had finished",),
        (
            'put what starts the training under `if __name__ == "__main__":`',
            "rankdeck starts the ranks: a script needs no multiprocessing.spawn of its own",
        ),
    )


_KILLED = r"DataLoader worker \(pid (\d{1,10})\) is killed by signal: ([^\n.]{1,40})"
_EXITED = (
    r"DataLoader worker \(pid(?:\(s\))? ([\d, ]{1,200})\) exited unexpectedly(?: with exit code (\d{1,3}))?"
)


_FETCHED = r"multiprocessing/resource_sharer\.py"  # a tensor of a worker, which is gone
_LOADS = r"torch/utils/data/dataloader\.py"
_CUT = ("ConnectionResetError", "ConnectionRefusedError", "EOFError", "FileNotFoundError")


def loader_killed(failure: FirstFailure) -> Finding | None:
    """A worker of a DataLoader ended, by a signal or by itself."""
    killed = failure.begins(_KILLED, "RuntimeError")
    found = killed or failure.begins(_EXITED, "RuntimeError")
    if found is None:
        cut = failure.begins("", *_CUT)
        found = cut if cut and cut.error.passed(_FETCHED) and cut.error.passed(_LOADS) else None
    if found is None:
        return None
    signal = killed.match[2] if killed else _signal_written(failure)
    coded = next((m for error in failure.errors if (m := re.match(_EXITED, error.message)) and m[2]), None)
    how = f"was killed by a signal ({signal})" if signal else "ended unexpectedly"
    certain = signal or found.error.kind == "RuntimeError"
    evidence = []
    if coded:
        evidence.append(f"its exit code was {coded[2]}")
    if failure.rank.oom_kills:
        evidence.append("the kernel counted a kill for want of memory while the rank ran")
    return Finding(
        "loader-worker-killed",
        f"a DataLoader worker of {failure.name} {how}",
        found.certainty if certain else Certainty.LIKELY,
        tuple(evidence),
        (
            "num_workers=0 shows the worker's own error",
            *([] if coded else [_WORKER_MEMORY]),
        ),
    )


_WORKER_MEMORY = "if memory ran out: fewer workers, a smaller prefetch_factor, no large lists in the dataset"


def loader_late(failure: FirstFailure) -> Finding | None:
    """A DataLoader waited for longer than its limit for a batch of its workers."""
    found = failure.begins(r"DataLoader timed out after (\d{1,9}(?:\.\d{1,9})?) seconds", "RuntimeError")
    if found is None:
        return None
    return Finding(
        "loader-stuck",
        f"{failure.name} waited {found.match[1]} s for a batch of its DataLoader's workers",
        found.certainty,
        remedy=(
            "num_workers=0 runs the dataset in the rank: it shows what takes that long",
            "DataLoader(timeout=…) is the limit, if a batch may take longer",
        ),
    )


def _signal_written(failure: FirstFailure) -> str:
    """The signal that torch names in what the rank wrote last, where its exception does not."""
    match = failure.wrote(rf"^RuntimeError: {_KILLED}")
    return match[2] if match else ""


_PART = re.compile(r"; that is (value[^\n]{1,400})\Z")


def unpicklable(failure: FirstFailure) -> Finding | None:
    """The rank's result cannot be sent."""
    raised = failure.rank.raised
    if raised is None or not raised.kind.endswith("agent.report.UnpicklableResult"):
        return None
    match = _PART.search(raised.message)
    part = match[1] if match else "something in it"
    return Finding(
        "unpicklable-result",
        f"the result of {failure.name} cannot be sent: {part} cannot be pickled",
        Certainty.CERTAIN,
        evidence=(brief(raised.message),),
        remedy=(
            "return plain values: numbers, strings, arrays, state_dict(); no locks, files or generators",
            "a class of your own may leave it out in __getstate__",
        ),
    )
