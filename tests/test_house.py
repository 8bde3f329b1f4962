"""The house rules, as far as a machine can check them: linters, types, import directions, sizes."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.spec.modes import Mode

ROOT = Path(__file__).parent.parent
SOURCES = sorted(p for package in ("console", "launcher", "themes") for p in (ROOT / package).rglob("*.py"))
FUNCTION_LINES, FUNCTION_MEDIAN = 60, 8
ENTRIES = {"README.md", "console", "launcher", "pyproject.toml", "tests", "themes"}


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "--no-cache"],
        ["ruff", "format", "--check", "--no-cache"],
        ["mypy"],
        ["lint-imports", "--no-cache"],
    ],
    ids=" ".join,
)
def test_the_linters_agree(command: list[str]) -> None:
    tool = Path(sys.executable).with_name(command[0])
    done = subprocess.run([tool, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)

    assert 0 == done.returncode, done.stdout + done.stderr


def functions() -> Iterator[tuple[str, int]]:
    """Every function's place and length in lines."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield f"{path.name}:{node.name}", (node.end_lineno or 0) - node.lineno + 1


def test_functions_stay_small() -> None:
    lengths = dict(functions())

    assert {} == {name: n for name, n in lengths.items() if n > FUNCTION_LINES}
    assert statistics.median(lengths.values()) <= FUNCTION_MEDIAN


MODES = {"launcher/spec/modes.py", "launcher/backends/registry.py"}


def modes_compared(tree: ast.AST) -> Iterator[ast.expr]:
    """Expressions that name one mode, or compare what is called a mode with the word for one."""
    words = {mode.value for mode in Mode}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in Mode.__members__:
            yield node
        elif isinstance(node, ast.Compare):
            texts = {leaf.value for leaf in ast.walk(node) if isinstance(leaf, ast.Constant)}
            if "mode" in ast.unparse(node.left).lower() and words & texts:
                yield node


def test_what_a_mode_can_do_is_asked_of_its_row_and_no_mode_is_compared_elsewhere() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{node.lineno}": ast.unparse(node)
        for path in SOURCES
        if path.relative_to(ROOT).as_posix() not in MODES
        for node in modes_compared(ast.parse(path.read_text()))
    }
    assert {} == found


@pytest.mark.parametrize(
    "code", ["spec.mode is Mode.LOCAL", "m in (modes.Mode.CLUSTER,)", "state.mode == 'local'"]
)
def test_a_comparison_with_a_mode_is_found(code: str) -> None:
    assert list(modes_compared(ast.parse(code)))


SPARK = ROOT / "launcher" / "backends" / "spark"
INSIDES = SPARK / "internals.py"
_JVM_HANDLE = re.compile(
    r"_j(vm|sc|conf|context|df|rdd|api|broadcast|read|seq|map|schema|session|spark\w*)\b"
)
_OURS = {"self", "cls"}


def spark_insides(tree: ast.AST, *, any_private: bool) -> Iterator[str]:
    """Uses of pyspark's handles of its JVM; with `any_private`, of any private name but an object's own."""
    for node in ast.walk(tree):
        name = ""
        if isinstance(node, ast.Attribute) and not (
            isinstance(node.value, ast.Name) and node.value.id in _OURS
        ):
            name = node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value if _JVM_HANDLE.fullmatch(node.value) else ""
        private = any_private and name.startswith("_") and not name.startswith("__")
        if private or _JVM_HANDLE.fullmatch(name):
            yield name


def test_sparks_insides_are_asked_in_one_module() -> None:
    """A session of managed Spark refuses them, so each needs a way without it: see `internals`."""
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in SOURCES
        if path != INSIDES
        for name in spark_insides(ast.parse(path.read_text()), any_private=SPARK in path.parents)
    }
    assert set() == found


@pytest.mark.parametrize(
    "code", ["c._jsc.sc()", "getattr(c, '_jvm')", "SparkContext._gateway", "pair._1()", "self.context._jsc"]
)
def test_a_use_of_sparks_insides_is_found(code: str) -> None:
    assert list(spark_insides(ast.parse(code), any_private=True))


@pytest.mark.parametrize("package", ["console", "launcher"])
def test_a_class_name_means_one_thing_in_a_package(package: str) -> None:
    homes: dict[str, list[str]] = {}
    for path in (p for p in SOURCES if p.relative_to(ROOT).parts[0] == package):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name.lstrip("_"), []).append(str(path.relative_to(ROOT)))

    assert {} == {name: places for name, places in homes.items() if len(places) > 1}


def test_only_the_six_entries_and_dotfiles_are_tracked() -> None:
    command = ["git", "ls-files"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not listed:
        pytest.skip("not a git checkout")
    entries = {name.partition("/")[0] for name in listed}

    assert ENTRIES == {e for e in entries if not e.startswith(".")}
