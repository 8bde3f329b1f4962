"""Where the caller of a run has a module: found by its path, and never imported."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from launcher.spec.callers_modules import callers_module
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.request import Request


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    """A project, what PYTHONPATH names, and the `sys.path`; each has one module that must not run."""
    made = {}
    for name in ("project", "named", "path"):
        made[name] = tmp_path / name
        made[name].mkdir()
        (made[name] / f"in_{name}.py").write_text("raise SystemExit('imported')")
    (made["project"] / "steps").mkdir()
    (made["project"] / "steps" / "__init__.py").write_text("raise SystemExit('imported')")
    (made["project"] / "steps" / "late.py").write_text("")
    return made


def request(folders: dict[str, Path], *, python: str = sys.executable) -> Request:
    spec = JobSpec(Target(TargetKind.SCRIPT, str(folders["project"] / "train.py")), workdir="/")
    return Request(
        spec,
        environ={"PYTHONPATH": os.pathsep.join(["", str(folders["named"])])},
        path=(str(folders["path"]),),
        trackers_python=python,
    )


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("in_project", "project/in_project.py"),
        ("in_named", "named/in_named.py"),
        ("in_path", "path/in_path.py"),
        ("steps", "project/steps/__init__.py"),
        ("steps.late", "project/steps/late.py"),
        ("steps.never", ""),
        ("in_project.part", ""),
        ("nowhere", ""),
        ("../named/in_named", ""),
        ("", ""),
    ],
)
def test_beside_the_script_and_on_the_callers_paths(
    folders: dict[str, Path], tmp_path: Path, name: str, place: str
) -> None:
    found = callers_module(request(folders), name)
    assert (found and found.origin) == (str(tmp_path / place) if place else None)
    assert name not in sys.modules


def test_what_is_installed_is_known_of_this_interpreter_only(folders: dict[str, Path]) -> None:
    found = callers_module(request(folders), "hypothesis")
    assert found is not None
    assert str(found.origin).endswith("site-packages/hypothesis/__init__.py")
    assert callers_module(request(folders, python="/opt/other/bin/python"), "hypothesis") is None
