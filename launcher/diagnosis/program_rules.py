"""Recognise failures of the program and its surroundings: modules, libraries, compilers, workers. Pure."""

from __future__ import annotations

import re

from ..state.outcome_rules import brief
from .failure import Certainty, Finding, FirstFailure


def missing_module(failure: FirstFailure) -> Finding | None:
    """A module is not installed where the rank ran."""
    told = failure.begins(r"No module named '?([\w.]{1,200})'?", "ModuleNotFoundError")
    if told is None:
        return None
    name = told[1].partition(".")[0]
    return Finding(
        "module-missing",
        f"the Python of {failure.name} on {failure.rank.host} has no module {told[1]}",
        certainty=told.certainty,
        evidence=(brief(told.message),),
        remedy=(
            f"install what provides {name} in that Python, or choose another one with --python PATH",
            "a module of your own: --py-files, or a working folder (--workdir) that holds it",
        ),
    )


def missing_library(failure: FirstFailure) -> Finding | None:
    """A compiled module needs a shared library, or a symbol of it, that the host does not have."""
    told = failure.begins(
        r"(\S{1,300}\.so(?:\.\d{1,9}){0,4})[^\n]{0,100}: (?:cannot open shared object file|undefined symbol"
        r"|version `[^']{1,100}' not found)",
        "ImportError",
        "OSError",
    )
    if told is None:
        return None
    library = told[1].rpartition("/")[2]
    absent = "cannot open" in told[0]
    return Finding(
        "library-missing",
        f"{failure.rank.host} has no {library}, which a compiled module needs"
        if absent
        else f"{library} on {failure.rank.host} does not fit the libraries there",
        certainty=told.certainty,
        evidence=(brief(told.message),),
        remedy=(
            f"install the package that holds {library}, or name its folder: --env LD_LIBRARY_PATH=…"
            if absent
            else "install builds that belong together: torch, CUDA and the extension of one release",
            "an extension that was built for another torch is to be built again",
        ),
    )


_NVCC = "nvcc, the compiler of the CUDA toolkit"
_COMPILER = (
    (r"InvalidCxxCompiler|No working C\+\+ compiler found", "a C++ compiler", "g++"),
    (r"Ninja is required to load C\+\+ extensions", "ninja", "ninja"),
    (r"Failed to find C compiler", "a C compiler", "gcc"),
    (r"CUDA_HOME environment variable is not set", _NVCC, "nvcc"),
    (
        r"\[Errno 2\] No such file or directory: '[^']{0,200}nvcc'",
        "nvcc, the compiler of the CUDA toolkit",
        "nvcc",
    ),
    (r"Cannot find a working triton installation|TritonMissing", "triton", "triton"),
)


_RAISED_WITHOUT = (
    "torch._inductor.exc.InductorError",
    "torch._inductor.exc.InvalidCxxCompiler",
    "torch._inductor.exc.TritonMissing",
    "torch._dynamo.exc.BackendCompilerFailed",
    "RuntimeError",
    "OSError",
    "FileNotFoundError",
)


def missing_compiler(failure: FirstFailure) -> Finding | None:
    """What compiles kernels at run time is not there: torch.compile, Triton, extensions."""
    for pattern, what, program in _COMPILER:
        told = failure.begins(pattern, *_RAISED_WITHOUT)
        if told is not None:
            return Finding(
                "compiler-missing",
                f"{failure.name} compiles kernels, and {failure.rank.host} lacks {what}",
                certainty=told.certainty,
                evidence=(brief(told.message),),
                remedy=(
                    f"install {program} on every host; --env PATH=… if it lies elsewhere",
                    "for torch.compile: backend='aot_eager', or --env TORCHDYNAMO_DISABLE=1, needs none",
                ),
            )
    return None


def no_terminal(failure: FirstFailure) -> Finding | None:
    """The program asked a person something: a rank's standard input is empty."""
    asked = failure.begins(r"EOF when reading a line", "EOFError")
    stopped = failure.begins(r"\Z", "bdb.BdbQuit")
    if asked is None and stopped is None:
        return None
    return Finding(
        "no-terminal",
        f"{failure.name} waited for a debugger's command, and ranks have no terminal"
        if stopped is not None
        else f"{failure.name} asked for input, and ranks have no terminal",
        evidence=(f"{failure.errors[0].kind}: standard input is empty",),
        remedy=(
            "take breakpoint() out; in its place run the script alone, `python train.py`, in a terminal"
            if stopped is not None
            else "give the answer as an option of the script, or as --env NAME=VALUE",
            "an attachable debugger: debugpy.listen(port + int(os.environ['RANK']))",
        ),
    )


_BOOTSTRAP = "An attempt has been made to start a new process before the"


def no_main_guard(failure: FirstFailure) -> Finding | None:
    """The script starts processes as it is imported, and each of those imports it again."""
    told = failure.begins(rf"\s*{_BOOTSTRAP}", "RuntimeError")
    if told is None and (failure.rank.raised is not None or _BOOTSTRAP not in "\n".join(failure.output())):
        return None
    return Finding(
        "main-guard-missing",
        f"the script of {failure.name} starts processes outside of `if __name__ == '__main__':`",
        evidence=(
            "Python: an attempt has been made to start a new process before the bootstrapping was over",
        ),
        remedy=(
            "put its work below `if __name__ == '__main__':`: a spawned worker imports the script again",
        ),
    )


_WORKER = (
    r"DataLoader worker \(pid(?:\(s\))? ([\d, ]{1,100})\) "
    r"(?:exited unexpectedly|is killed by signal: ([^.\n]{1,60}))"
)


def killed_loader_worker(failure: FirstFailure) -> Finding | None:
    """A worker of a DataLoader was killed, most often for want of memory."""
    told = failure.begins(_WORKER, "RuntimeError")
    if told is None:
        return None
    kills = failure.rank.oom_kills
    memory = f"the kernel killed {kills} of its processes for want of memory" if kills else ""
    by = f", by {told[2].strip()}" if told[2] else ""
    return Finding(
        "loader-worker-killed",
        f"a worker of the DataLoader of {failure.name} was killed{by}"
        + (": memory had run out" if kills else ""),
        certainty=told.certainty,
        evidence=tuple(filter(None, (brief(told.message), memory))),
        remedy=(
            "num_workers=0 shows an exception or a crash of the dataset itself",
            "fewer workers, a smaller prefetch_factor, or more memory: workers die first where it runs out",
        ),
    )


def unpicklable_result(failure: FirstFailure) -> Finding | None:
    """The value of the function cannot be sent home."""
    told = failure.begins(
        r"(?:the return value: )?a value of type ([\w.<>]{1,300}) cannot be pickled",
        "launcher.agent.report.UnpicklableResult",
        "rankdeck.agent.report.UnpicklableResult",
    )
    if told is None:
        return None
    part = re.search(r"; its part value(\S{1,200}) is a ([\w.]{1,200})\Z", told.message)
    which = f": {part[1].removeprefix('.')} of it is a {part[2]}" if part else f", a {told[1]}"
    return Finding(
        "unpicklable-result",
        f"the value that {failure.name} returned cannot be pickled{which}",
        Certainty.CERTAIN,
        (brief(told.message),),
        (
            "return plain values: numbers, a state_dict, a path to what was saved",
            f"leave {part[1].removeprefix('.')} out of what is returned, or drop it in `__getstate__`"
            if part
            else "locks, files, sockets and loaders cannot travel",
        ),
    )
