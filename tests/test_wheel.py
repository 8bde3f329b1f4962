"""The wheel holds what the checkout holds, and works where nothing else of the checkout is."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("console", "launcher", "themes")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr
    return next(folder.glob("*.whl"))


def test_it_holds_every_file_of_the_three_packages(wheel: Path) -> None:
    listed = {n for n in zipfile.ZipFile(wheel).namelist() if not n.startswith("rankdeck-")}
    there = {
        str(p.relative_to(ROOT))
        for package in PACKAGES
        for p in (ROOT / package).rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }

    assert {*there, "rankdeck.py"} - {"launcher/as_rankdeck.py"} == listed


def test_it_runs_from_a_folder_of_its_own(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from console.cli.main import main; main()"
    command = [sys.executable, "-P", "-c", code, "themes"]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)

    assert (0, "") == (done.returncode, done.stderr)
    assert "rankdeck-dark" in done.stdout
