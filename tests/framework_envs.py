"""Virtual environments of real frameworks, made once per set of pins and kept below the user's cache.

They lie in ``$XDG_CACHE_HOME/rankdeck-tests/<name>-<hash>``, by the pins and the version of Python. A file
that is written last says that one is whole; without it, the next test makes it anew. Those that nobody has
used for two weeks are removed. Without a package index the tests are skipped, and say so.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests import horovod_build

PINS = Path(__file__).parent / "environments"
STALE_S = 14 * 86400.0
INSTALL_LIMIT_S = 1800.0
WITHOUT_DEPENDENCIES = "\n# without dependencies"
FROM_SOURCE = "\n# from its source"
# DeepSpeed then compiles an extension, which takes a minute.
COMPILE = "import deepspeed; deepspeed.init_distributed()"
ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}


class CannotInstall(Exception):
    """An environment cannot be made here; the message says why."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment, perhaps not made yet.

    Attributes:
        name: of the file of its pins.
        folder: where it lies.
    """

    name: str
    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def pins(self) -> Path:
        """The requirements that it is made from."""
        return PINS / f"{self.name}.txt"

    @property
    def whole(self) -> Path:
        """The file that exists once everything is installed; its time is that of the last use."""
        return self.folder / "whole"

    @property
    def variables(self) -> Mapping[str, str]:
        """What its ranks need around them: nothing is downloaded, and extensions are compiled once."""
        return {
            "HF_HUB_OFFLINE": "1",
            "PYTHONWARNINGS": "ignore",
            "TORCH_EXTENSIONS_DIR": str(self.folder / "torch_extensions"),
        }


def environment(name: str, root: Path | None = None) -> Environment:
    """The environment of a file of pins, for this Python."""
    root = root or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rankdeck-tests"
    key = hashlib.sha256((PINS / f"{name}.txt").read_bytes() + sys.version.encode())
    return Environment(name, root / f"{name}-{key.hexdigest()[:12]}")


def ensure(env: Environment) -> Environment:
    """Make the environment unless it is whole; meanwhile other processes wait.

    Raises:
        CannotInstall: its packages cannot be installed here.
    """
    with locked(env.folder):
        if not env.whole.exists():
            shutil.rmtree(env.folder, ignore_errors=True)
            _install(env)
            _compile(env)
        env.whole.touch()
    prune(env.folder.parent)
    return env


@contextmanager
def locked(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of an environment's folder; whether it is held, which it is unless one does not wait."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    path = Path(f"{folder}.lock")
    held = False
    while not held:
        with open(path, "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            # whoever had the lock may have removed its file, and a lock of that one is worth nothing
            held = path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino
            if held:
                yield True


def _install(env: Environment) -> None:
    """Make the environment and install its pins."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", env.folder], check=True)
    text, _, built = env.pins.read_text().partition(FROM_SOURCE)
    text, _, alone = text.partition(WITHOUT_DEPENDENCIES)
    for part, options in ((text, []), (alone.partition("\n")[2], ["--no-deps"])):
        if part.strip():
            wanted = env.folder / "wanted.txt"
            wanted.write_text(part)
            _pip_install(env, *options, "--requirement", str(wanted))
    for requirement in built.partition("\n")[2].split():
        _build(env, requirement)


def _build(env: Environment, requirement: str) -> None:
    """Build Horovod for this environment's torch, and install it."""
    if not horovod_build.can_build():
        raise CannotInstall(f"{requirement} needs a C++ compiler and CMake")
    with tempfile.TemporaryDirectory(dir=env.folder) as folder:
        try:
            wheel = horovod_build.build(env.python, requirement, Path(folder))
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            said = str(error.stderr or "").strip().splitlines()
            raise CannotInstall(f"{requirement} cannot be built: {said[-1] if said else error}") from None
        _pip_install(env, "--no-deps", str(wheel))


def _pip_install(env: Environment, *words: str) -> None:
    options = ["--quiet", "--disable-pip-version-check", "--retries", "1"]
    # Python compiles what is imported (see tests/conftest.py); to compile all of it takes five times as long
    install = ["install", "--no-compile", *words]
    command = [sys.executable, "-m", "pip", "--python", str(env.python), *options, *install]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise CannotInstall(f"pip took more than {INSTALL_LIMIT_S:.0f} s for {env.name}") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        offline = " (no package index can be reached)" if "connection broken" in done.stderr else ""
        raise CannotInstall(
            f"pip cannot install {env.name}{offline}: {(errors or [done.stderr.strip()])[-1]}"
        )


def _compile(env: Environment) -> None:
    """Compile the extensions that its frameworks compile when they are first used.

    This is part of making it, as a compilation that is killed leaves a lock for which all others wait.
    """
    if "deepspeed==" in env.pins.read_text() and can_compile():
        path = f"{env.python.parent}{os.pathsep}{os.environ['PATH']}"  # ranks find its ninja first, too
        around = {**os.environ, **env.variables, **ALONE, "PATH": path}
        subprocess.run([env.python, "-c", COMPILE], env=around, check=True, stdout=subprocess.DEVNULL)


def can_compile() -> bool:
    """Whether there is a C++ compiler."""
    return shutil.which("c++") is not None


def prune(root: Path, now: float | None = None) -> None:
    """Remove environments that nobody has used for long, and what an unfinished one has left."""
    now = time.time() if now is None else now
    for lock in root.glob("*.lock"):
        folder = lock.with_suffix("")
        used = folder / "whole"
        since = (used if used.exists() else lock).stat().st_mtime
        if now - since > STALE_S:
            with locked(folder, wait=False) as held:
                if held:
                    shutil.rmtree(folder, ignore_errors=True)
                    lock.unlink(missing_ok=True)


@cache
def _made(name: str) -> Environment | str:
    """The environment, or why there is none; tried once in a process."""
    try:
        with off_the_clock():
            return ensure(environment(name))
    except CannotInstall as error:
        return str(error)


@contextmanager
def off_the_clock() -> Iterator[None]:
    """Let no time count against the limit of the test that happens to be the first: making has its own."""
    left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left)


def made(name: str) -> Environment:
    """The environment, ready to use; skips the test where it cannot be made."""
    found = _made(name)
    if isinstance(found, str):
        pytest.skip(found)
    return found
