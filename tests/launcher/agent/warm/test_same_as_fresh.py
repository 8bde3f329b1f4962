"""A rank that is a fork of a process with torch, and one of a fresh interpreter: nobody can tell."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.launcher.agent.warm import both_ways
from tests.launcher.agent.warm.programs import PROGRAMS

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

ROOT = Path(both_ways.ROOT)
FRESH = {
    "shadows_a_loaded_one": "numpy.py is to be imported",
    "shadows_the_library": "shutil.py is to be imported",
    "python_path": "PYTHONPATH differs",
    "hash_seed": "PYTHONHASHSEED differs",
    "optimized": "PYTHONOPTIMIZE differs",
    "preloaded_library": "LD_BIND_NOW differs",
    "threads_unset": "OMP_NUM_THREADS is no number",
}
"""The programs for which a fork would make a difference, and why they get no fork."""

Results = dict[str, Any]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What came of all programs, both ways."""
    cases = {}
    for name, case in PROGRAMS.items():
        folder = tmp_path_factory.mktemp(name)
        for path, text in {"script.py": case.source, **case.files}.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(text)
        target = "pkg" if case.kind == "module" else str(folder / "script.py")
        cases[name] = {
            "kind": case.kind,
            "target": target,
            "cwd": str(folder),
            "args": list(case.args),
            "env": dict(case.env),
            "ranks": case.ranks,
            "threads": case.threads,
        }
    env = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-u", both_ways.__file__],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
        env={**env, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
    )
    assert 0 == done.returncode, done.stderr[-3000:]
    found: Results = json.loads(done.stdout)
    return found


def plain(text: str) -> str:
    """Without what differs between any two processes."""
    return re.sub(r"0x[0-9a-f]{6,}|(?<=PORT[ =])\d+", "…", text)


@pytest.mark.parametrize("name", PROGRAMS)
def test_nobody_can_tell(results: Results, name: str) -> None:
    forked, fresh = results[name]["forked"], results[name]["fresh"]

    assert FRESH.get(name, "") in forked["why"]
    assert bool(forked["why"]) == (name in FRESH), forked["why"]
    for ours, theirs in zip(forked["ranks"], fresh["ranks"], strict=True):
        assert plain(theirs["out"]) == plain(ours["out"])
        assert plain(theirs["err"]) == plain(ours["err"])
        assert theirs["status"] == ours["status"]
        assert theirs["facts"] == ours["facts"]
