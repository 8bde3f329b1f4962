"""The exit code that SystemExit stands for, and what is printed: as Python's own, whatever it is given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PLAIN = "import sys\n{prelude}\nraise SystemExit({code})\n"
OURS = (
    "import os, sys\n{prelude}\nfrom launcher.agent.rank_main import exit_code_of\n"
    "code = exit_code_of(SystemExit({code}))\nsys.stderr and sys.stderr.flush()\nos._exit(code)\n"
)
MUTE = "class Mute:\n def __str__(self): raise ValueError('no')"
CODES = (
    "", "None", "0", "1", "-1", "255", "256", "257", "-255", "-256", "2**31", "-2**31", "2**32", "2**32 + 3",
    "2**63 - 1", "2**63", "-2**63", "-2**63 - 1", "10**30", "-10**30", "True", "False", "'words'", "''",
    "'no\\nend'", "3.7", "0.0", "b'x'", "[1]", "()", "1, 2", "object",
)  # fmt: skip


def both(code: str, prelude: str = "") -> list[tuple[int, str]]:
    ends = []
    for program in (PLAIN, OURS):
        argv = [sys.executable, "-c", program.format(code=code, prelude=prelude)]
        root = Path(__file__).parent.parent.parent.parent
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=root)
        ends.append((done.returncode, done.stderr))
    return ends


@pytest.mark.parametrize("code", CODES)
def test_it_is_pythons(code: str) -> None:
    python, ours = both(code)

    assert python == ours


@pytest.mark.parametrize(
    ("code", "prelude"),
    [
        ("Mute()", MUTE),
        ("'x'", "sys.stderr = None"),
        ("'x'", "sys.stderr.close()"),
        ("4", "sys.stderr = None"),
    ],
)
def test_so_it_is_where_nothing_can_be_printed(code: str, prelude: str) -> None:
    python, ours = both(code, prelude)

    assert python[0] == ours[0]
