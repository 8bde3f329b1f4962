"""`--python`: ranks of another interpreter, which has neither rankdeck nor its packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from launcher.distributor import Distributor
from launcher.errors import RankFailed, SpecError
from tests.commands import rankdeck

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("mark")]

SEEN = """
import importlib.util, os, shutil, sys
def seen():
    found = [name for name in ("click", "torch", "numpy") if importlib.util.find_spec(name)]
    return {"prefix": sys.prefix, "found": found, "which": shutil.which("python")}
if __name__ == "__main__":
    import launcher
    launcher.report(step=1)
    launcher.publish(seen())
"""
OLD = """#!/bin/sh
# an interpreter that takes itself for another version
exec {python} -c 'import sys; sys.version_info, sys.version = (3, 9, 1), "3.9.1"; exec(sys.argv.pop(1))' "$3"
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a virtual environment in which nothing is installed."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder / "bin" / "python"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "seen.py"
    path.write_text(SEEN)
    return path


def expected(bare: Path) -> dict[str, object]:
    return {"prefix": str(bare.parents[1]), "found": [], "which": str(bare)}


@pytest.mark.parametrize("target", ["seen.py", "seen.py:seen", "seen:seen"])
def test_ranks_find_the_packages_of_their_own_interpreter_alone(
    bare: Path, script: Path, target: str
) -> None:
    assert expected(bare) == Distributor(2, python=bare, workdir=script.parent).run(target)


def test_a_function_of_this_process_is_read_without_its_packages(bare: Path) -> None:
    more = 3

    def add(x: int) -> tuple[int, str]:
        return x + more, sys.prefix

    assert (7, str(bare.parents[1])) == Distributor(1, python=bare).run(add, 4)


def test_a_pickle_of_another_python_is_refused_by_name(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.python_version", lambda: "3.10.2")
    with pytest.raises(
        RankFailed, match=r"pickled by Python 3\.10, and this rank runs Python 3\.\d+"
    ) as caught:
        Distributor(1, python=bare).run(lambda: 1)

    assert 1 == caught.value.exit_code


def test_an_old_interpreter_says_what_ranks_need(tmp_path: Path, script: Path) -> None:
    old = tmp_path / "python3.9"
    old.write_text(OLD.format(python=sys.executable))
    old.chmod(0o700)
    done = rankdeck("run", script, "--python", old)

    assert 2 == done.returncode
    assert "ranks need Python 3.11 or newer, and" in done.stderr
    assert "is 3.9.1" in done.stderr


@pytest.mark.parametrize("name", ["no-such-python", "./no-such-python", "/"])
def test_one_that_does_not_exist_is_refused_before_anything_starts(
    home: Path, script: Path, name: str
) -> None:
    done = rankdeck("run", script, "--python", name)

    assert 2 == done.returncode
    assert done.stderr.startswith("rankdeck: --python: there is no program ")
    assert not (home / "runs").exists()
    with pytest.raises(SpecError, match="there is no program"):
        Distributor(1, python=name).run(str(script))


def test_a_name_is_looked_up_on_the_ranks_path(bare: Path, script: Path) -> None:
    bare.with_name("py-of-ranks").unlink(missing_ok=True)
    bare.with_name("py-of-ranks").symlink_to(bare)
    found = Distributor(1, python="py-of-ranks", env={"PATH": str(bare.parent)}).run(str(script))

    assert str(bare.parents[1]) == found["prefix"]


def test_a_dry_run_names_it(bare: Path, script: Path) -> None:
    done = rankdeck("run", script, "--python", bare, "--dry-run")

    assert f"python   {bare}" in done.stdout.splitlines()
