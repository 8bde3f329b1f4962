"""The zip of `launcher` that executors run from."""

from __future__ import annotations

import importlib.util
import io
import os
import py_compile
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import cloudpickle
import pytest

from launcher.agent import agent
from launcher.backends.spark import job
from launcher.backends.spark import launcher_zip as zip_module
from launcher.backends.spark.launcher_zip import launcher_zip
from launcher.distributor import launch
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.request import Request
from tests import bare_python
from tests.agents import Agents

MODULES = (
    "launcher.agent.agent",
    "launcher.agent.rank_main",
    "launcher.frameworks.torch",
    "launcher.supervisor.supervisor",
    "launcher.channel.frames",
)


def entries(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as zipped:
        return {name: zipped.read(name) for name in zipped.namelist()}


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def run_from(data: bytes, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a program that imports from a zip which is in memory only, and from the standard library."""
    descriptor = os.memfd_create("zip")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        head = f"import sys; sys.path.insert(0, '/proc/self/fd/{descriptor}')\n"
        return subprocess.run(
            [sys.executable, "-I", "-S", *options, "-c", head + program],
            pass_fds=(descriptor,),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd="/",
        )
    finally:
        os.close(descriptor)


@pytest.mark.process
@pytest.mark.parametrize("module", MODULES)
def test_it_needs_nothing_but_the_standard_library(module: str) -> None:
    done = run_from(launcher_zip(), f"import {module} as m; print(m.__file__, type(m.__loader__).__name__)")

    assert done.returncode == 0, done.stderr
    rare = module.removeprefix("launcher.").replace(".", "/").startswith(zip_module._RARELY_IMPORTED)
    assert f"{module.replace('.', '/')}.py{'' if rare else 'c'} zipimporter" in done.stdout


@pytest.mark.process
def test_a_program_that_imports_the_distributor_runs_on_executors() -> None:
    """It often holds both the call of the distributor and the function that ranks run."""
    done = run_from(launcher_zip(), "from launcher import Distributor, JobSpec; print(Distributor)")

    assert done.returncode == 0, done.stderr


@pytest.mark.process
def test_another_python_falls_back_to_the_source() -> None:
    """Bytecode begins with a number that only its own version of Python has."""
    files = entries(launcher_zip())
    foreign = {n: b"\0\0\0\0" + d[4:] if n.endswith(".pyc") else d for n, d in files.items()}
    done = run_from(zipped(foreign), "from launcher.agent import agent; print(agent.__file__)")

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("launcher/agent/agent.py")


@pytest.mark.process
@pytest.mark.parametrize("check", ["always", "default", "never"])
def test_bytecode_is_taken_however_python_checks_it(check: str) -> None:
    options = ("--check-hash-based-pycs", check)
    done = run_from(launcher_zip(), "import launcher.agent.agent as m; print(m.__file__)", *options)

    assert done.stdout.strip().endswith("agent.pyc"), done.stderr


def test_bytecode_of_an_older_source_is_not_sent(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    cache = Path(importlib.util.cache_from_source(str(module)))
    module.write_text("VALUE = 'old'\n")
    py_compile.compile(str(module))
    stamp = module.stat()
    assert zip_module._cached(module)

    module.write_text("VALUE = 'newer'\n")
    assert zip_module._cached(module) is None
    os.utime(module, (stamp.st_atime, stamp.st_mtime + 2))
    module.write_text("VALUE = 'new'\n")
    os.utime(module, (stamp.st_atime, stamp.st_mtime + 2))
    assert zip_module._cached(module) is None
    assert b"new" in zip_module._compiled(module, module.read_bytes())

    for broken in (b"", b"short", cache.read_bytes()[:16][::-1], b"\0" * 20):
        cache.write_bytes(broken)
        assert zip_module._cached(module) is None
    shutil.rmtree(cache.parent)
    assert zip_module._cached(module) is None


def test_it_holds_what_executors_may_import_and_no_stranger() -> None:
    names = entries(launcher_zip()).keys()
    package = Path(agent.__file__).parent.parent
    own = {str(p.relative_to(package.parent)) for p in package.rglob("*.py")}
    stays = {name: [n for n in own if n.startswith(f"launcher/{name}")] for name in zip_module._DRIVER_ONLY}
    left_out = {name for found in stays.values() for name in found}

    assert all(stays.values())
    assert own - left_out <= names
    assert not left_out & names
    assert {f"launcher/backends/{n}.py" for n in ("__init__", "base", "local")} <= names
    assert {n.partition("/")[0].partition(".")[0] for n in names} == {
        *("launcher", "rankdeck"),
        *("cloudpickle", "pynvml"),
    }
    rare = tuple(f"launcher/{name}" for name in zip_module._RARELY_IMPORTED)
    with_bytecode = {n for n in names if n.endswith(".py") and "/" in n and not n.startswith(rare)}
    assert {f"{n}c" for n in with_bytecode} == {n for n in names if n.endswith(".pyc")}


def test_what_is_sent_without_bytecode_delays_no_start() -> None:
    loads = "import launcher.agent.agent, launcher.agent.rank_main, sys; print(*sys.modules)"
    done = run_from(launcher_zip(), loads)
    rare = tuple(
        f"launcher.{name.removesuffix('.py').rstrip('/').replace('/', '.')}"
        for name in zip_module._RARELY_IMPORTED
    )

    assert 0 == done.returncode, done.stderr
    assert [] == [name for name in done.stdout.split() if name.startswith(rare)]


def test_a_task_is_smaller_than_spark_warns_of() -> None:
    boot = "x" * (24 << 10)  # the addresses, the certificates and the token of a launch, and more
    warm = {"family": "torch", "key": "k" * 16, "environ": {}, "modules": ["torch"]}
    stage = job.StageJob(1, "tag", "title", boot, "import launcher", warm)
    task = cloudpickle.dumps(job.frame_task(stage))

    assert len(task) < 1000 << 10  # TaskSetManager.TASK_SIZE_TO_WARN_KIB


def test_it_is_the_same_in_every_process(tmp_path: Path) -> None:
    program = (
        "import hashlib; from launcher.backends.spark.launcher_zip import launcher_zip;"
        "print(hashlib.sha256(launcher_zip()).hexdigest())"
    )
    here = [
        subprocess.run(
            [sys.executable, "-B", "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
        ).stdout
        for _ in range(2)
    ]

    assert len(set(here)) == 1
    assert len(launcher_zip()) < 4 << 20


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python in which rankdeck is not installed."""
    return str(bare_python.make(tmp_path_factory.mktemp("bare") / "venv"))


@pytest.mark.process
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_a_rank_import_what_the_rank_does(
    targets: Path, tmp_path: Path, mark: str, bare: str, method: str
) -> None:
    script = tmp_path / "project" / "children.py"
    script.parent.mkdir()
    shutil.copy(targets / "children.py", script)
    target = Target(TargetKind.SCRIPT, str(script), args=(method,))
    spec = JobSpec(target, mode=Mode.CLUSTER, workdir=str(tmp_path))
    env = {"TMPDIR": str(tmp_path)}
    backend = Agents(1, env=env, before=lambda: shutil.rmtree(script.parent), python=bare)
    values, file, examples = launch(Request(spec), backend=backend).result(timeout=60)

    assert [value for value, _, _ in values] == [0, 1, 4, 9]
    assert {path for _, path, _ in values} == {file}
    assert {place.split("/")[1] for _, _, place in values} == {"proc"}
    assert examples == "launcher.examples"
    assert backend.errors == []
