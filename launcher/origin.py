"""Where a run comes from: whose it is, which revision of the code, which packages beside it.

What cannot be found out, or not in time, stays unknown: nothing here raises, and no launch waits for it.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from launcher.discovery import module_file
from launcher.errors import SpecError
from launcher.events import Event, OriginFound
from launcher.packages import installed
from launcher.record_events import Checkout
from launcher.request import Request
from launcher.spec import JobSpec

LIMIT_S = 2.0
_NAME_LIMIT_S = 0.5
_GIT = ("git", "--no-pager", "-c", "core.fsmonitor=false")  # no program that the repository names is run
# what git sets for a hook that starts us points at that hook's repository
_MISLEADING = {
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
}
_QUIET = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


def begin(request: Request, post: Callable[[Event], None]) -> None:
    """Find out on a thread of its own, and hand over the one fact; nobody waits for it."""
    work = threading.Thread(target=lambda: post(find_origin(request)), name="origin", daemon=True)
    with contextlib.suppress(RuntimeError):  # no room for a thread: it stays unknown
        work.start()


def find_origin(request: Request) -> OriginFound:
    """The code and the packages of a run, as far as they can be told within some seconds. Never raises."""
    code, beside = _checkouts(request.spec)
    python, packages = installed(request.python, request.environ, request.path, limit_s=LIMIT_S)
    return OriginFound(
        time=time.time(),
        revision=code.revision,
        branch=code.branch,
        dirty=code.dirty,
        root=code.root,
        beside=beside,
        python=python,
        packages=packages,
    )


def user_name(environ: Mapping[str, str]) -> str:
    """The name of the user whose process this is: by the system's word, for a variable may say anything.

    Where the system has no name, or asks a server that does not answer, it is what `environ` says, else
    the number.
    """
    found: list[str] = []

    def look() -> None:
        with contextlib.suppress(KeyError):
            found.append(pwd.getpwuid(os.getuid()).pw_name)

    asking = threading.Thread(target=look, name="user", daemon=True)
    asking.start()
    asking.join(_NAME_LIMIT_S)
    return next(iter(found), "") or environ.get("USER", "") or str(os.getuid())


def _checkouts(spec: JobSpec) -> tuple[Checkout, Checkout | None]:
    """The checkout that holds the target, else the working directory's; and the latter if it is another."""
    target, workdir = _source(spec), Path(spec.workdir or ".")
    code = target and _root_above(target.parent)
    around = _root_above(workdir)
    if code is None or code == around:
        root, other = around, None
    else:
        root, other = code, around
    first = Checkout("") if root is None else _look(root, target if root == code else None)
    return first, None if other is None else _look(other)


def _source(spec: JobSpec) -> Path | None:
    """The target's file; None if it has none."""
    target = spec.target
    if target.is_file:
        return Path(spec.workdir or ".", target.source)
    try:
        return module_file(target.source, Path(spec.workdir or "."))
    except (SpecError, ImportError, OSError, ValueError):
        return None


def _root_above(folder: Path) -> Path | None:
    """The nearest folder from here upwards that is under git; without one, no command need be run."""
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        folder = folder.resolve()
        for each in (folder, *folder.parents):
            if (each / ".git").exists():
                return each
    return None


def _look(root: Path, target: Path | None = None) -> Checkout:
    """What git says of a checkout: the questions are put at once, and share the time limit."""
    head = ["rev-parse", "HEAD", "--abbrev-ref", "HEAD"]
    changes = ["status", "--porcelain", "--untracked-files=no"]
    asked = [head, changes]
    if target is not None:
        asked.append(["ls-files", "-z", "--", f":(literal){os.path.realpath(target)}"])
    said, changed, *listed = _ask(root, asked)
    revision, _, branch = (said or "").strip().partition("\n")
    dirty = None if changed is None else bool(changed.strip())
    if listed and listed[0] == "":
        dirty = True  # the target itself is in no revision
    return Checkout(str(root), revision, "" if branch == "HEAD" else branch, dirty)


def _ask(root: Path, questions: Sequence[Sequence[str]]) -> list[str | None]:
    """What git answers to each; None where it failed or took too long."""
    environ = {k: v for k, v in os.environ.items() if k not in _MISLEADING} | _QUIET
    deadline = time.monotonic() + LIMIT_S
    started = [_started([*_GIT, "-C", str(root), *words], environ) for words in questions]
    return [None if git is None else _answer(git, deadline) for git in started]


def _started(command: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes] | None:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environ,
            cwd="/",
            process_group=0,
        )
    except (OSError, ValueError):
        return None


def _answer(git: subprocess.Popen[bytes], deadline: float) -> str | None:
    try:
        out, _ = git.communicate(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(git.pid, signal.SIGKILL)
        git.wait()
        if git.stdout is not None:
            git.stdout.close()
        return None
    return os.fsdecode(out) if git.returncode == 0 else None
