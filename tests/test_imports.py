"""What a clean interpreter loads: the static graph cannot tell a deferred import from an eager one."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = ("textual", "rich", "torch", "pyspark", "numpy", "psutil", "pynvml")
WORKER = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "launcher" / "agent").rglob("[!_]*.py")
)


def loaded(code: str, *, python: tuple[str, ...] = (), cwd: Path = ROOT) -> set[str]:
    """The top-level modules in `sys.modules` after `code`."""
    script = f"{code}\nimport sys\nprint('\\n' + ' '.join(sorted({{m.split('.')[0] for m in sys.modules}})))"
    command = [sys.executable, *python, "-c", script]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def test_importing_launcher_loads_only_the_standard_library() -> None:
    modules = loaded("import launcher; launcher.report; launcher.publish; launcher.SpecError")

    assert modules - set(sys.stdlib_module_names) <= {"launcher", "__main__", "sitecustomize"} | site_noise()


def site_noise() -> set[str]:
    """What this environment's start-up files load by themselves."""
    return loaded("pass") - set(sys.stdlib_module_names)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["run", "--help"], ["--version"], ["ps"], ["help"], ["help", "runs"]]
)
def test_light_commands_load_nothing_heavy(arguments: list[str]) -> None:
    code = f"""
from console.cli.main import main
try:
    main({arguments!r})
except SystemExit:
    pass
"""
    assert set() == loaded(code) & set(HEAVY)


@pytest.mark.process
def test_a_headless_run_loads_nothing_heavy(targets: Path) -> None:
    code = f"""
from console.cli.main import main
try:
    main(["run", {str(targets / "hello.py")!r}, "-n", "2"])
except SystemExit as end:
    assert end.code == 0, end.code
"""
    assert set() == loaded(code) & {"textual", "rich", "torch", "pyspark", "numpy"}


@pytest.mark.process
def test_a_headless_run_works_without_pyspark_and_textual(targets: Path) -> None:
    code = f"""
import sys
for name in ("textual", "rich", "pyspark", "py4j"):
    sys.modules[name] = None  # an import of it now fails as if it were not installed
from console.cli.main import main
try:
    main(["run", {str(targets / "hello.py")!r}, "-n", "2"])
except SystemExit as end:
    assert end.code == 0, end.code
"""
    loaded(code)


def test_the_console_without_textual_says_what_to_install() -> None:
    code = """
import sys
sys.modules["textual"] = None
from console.cli import main
import click
try:
    main._console({"theme": None, "mouse": True})
except click.ClickException as error:
    assert "textual" in error.message, error.message
else:
    raise AssertionError
"""
    loaded(code)


@pytest.fixture(scope="module")
def parcel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `launcher` package as one zip, as executors get it."""
    path = tmp_path_factory.mktemp("zip") / "launcher.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for source in sorted((ROOT / "launcher").rglob("*.py")):
            archive.write(source, source.relative_to(ROOT))
    return path


@pytest.mark.parametrize("module", WORKER)
def test_the_worker_side_imports_from_a_zip_without_site_packages(parcel: Path, module: str) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(parcel)!r}); import {module}; assert 'zip' in {module}.__file__"
    )
    modules = loaded(code, python=("-I", "-S"), cwd=Path("/"))

    assert {"launcher"} == modules - set(sys.stdlib_module_names) - {"__main__"}


@pytest.mark.parametrize("module", ["launcher.agent.agent", "launcher.agent.rank_main"])
def test_neither_agents_nor_ranks_wait_for_facts_before_they_start(module: str) -> None:
    """Dozens of dataclasses take longer to make than all else of ours that is imported there."""
    late = {"launcher.state.events", "launcher.agent.telemetry"}
    loaded(f"import sys, {module}; assert not {late} & sys.modules.keys()")


@pytest.mark.parametrize("module", ["agent", "boot", "rank_main"])
def test_neither_agents_nor_ranks_wait_for_the_option_table(module: str) -> None:
    late = {"launcher.spec.job", "launcher.spec.options", "launcher.spec.files.bundle"}
    loaded(f"import sys, launcher.agent.{module}; assert not {late} & sys.modules.keys()")


def test_a_rank_that_does_not_fail_never_looks_for_failing_code() -> None:
    loaded("import sys, launcher.agent.rank_main; assert 'launcher.agent.failing_frames' not in sys.modules")


def test_a_rank_waits_for_no_decoder() -> None:
    loaded("import sys, launcher.agent.rank_main; assert 'launcher.serialization' not in sys.modules")


@pytest.mark.parametrize("module", ["agent.agent", "engine.server"])
def test_local_mode_waits_for_no_tls(module: str) -> None:
    loaded(f"import sys, launcher.{module}; assert 'ssl' not in sys.modules")


def test_a_command_that_follows_a_run_loads_neither_engine_nor_agent() -> None:
    modules = "console.cli.run, console.cli.output, launcher.engine.client"
    theirs = (
        "launcher.supervisor.supervisor",
        "launcher.engine.server",
        "launcher.agent",
        "launcher.diagnosis.checks",
        "launcher.placement.topology",
        "launcher.state.host_facts",
        "textual",
        "statistics",
    )
    loaded(f"import sys, {modules}; assert not {set(theirs)} & sys.modules.keys()")
