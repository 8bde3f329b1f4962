"""How a function's rank may end: by its return, by `sys.exit`, and by neither."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.distributor import Distributor
from launcher.errors import RankFailed
from tests.commands import rankdeck

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("mark")]

FUNCTIONS = """
import os, sys, launcher
def never(): os._exit(0)
def published(): launcher.publish(5); os._exit(0)
def left(): sys.exit(0)
def returned(): return 5
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "ends.py"
    path.write_text(FUNCTIONS)
    return path


@pytest.mark.parametrize("name", ["never", "published"])
def test_one_that_never_returned_has_failed(module: Path, name: str) -> None:
    with pytest.raises(RankFailed) as caught:
        Distributor(1).run(f"{module}:{name}")

    assert 1 == caught.value.exit_code
    host = os.uname().nodename
    assert f"rank 0 on {host} never returned: its process ended with 0 in the middle of the function" == str(
        caught.value
    )


def test_one_that_exits_with_0_has_succeeded_and_says_that_it_has_no_value(module: Path) -> None:
    why = "rank 0 ended by sys.exit before the function returned, and has no value"
    done = rankdeck("run", f"{module}:left")
    assert (0, "") == (done.returncode, done.stdout)
    assert done.stderr.rstrip().endswith(why)
    result = rankdeck("result", "last")
    assert 2 == result.returncode
    assert "left no value: it ended by sys.exit before the function returned" in result.stderr
    assert Distributor(1).run(f"{module}:left") is None


def test_one_that_returns_has_its_value(module: Path) -> None:
    assert 5 == Distributor(1).run(f"{module}:returned")


def test_a_script_may_end_as_it_likes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os\nos._exit(0)\n")

    assert Distributor(1).run(str(script)) is None


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
from launcher import Distributor, RankFailed
try:
    print(Distributor(int(sys.argv[3])).run(sys.argv[4]))
except RankFailed as error:
    print(error.exit_code, error)
"""


def limited(tmp_path: Path, soft: int, hard: int, ranks: int) -> str:
    module = tmp_path / "files.py"
    module.write_text("import resource\ndef limit(): return resource.getrlimit(resource.RLIMIT_NOFILE)\n")
    words = map(str, (soft, hard, ranks, f"{module}:limit"))
    command = [sys.executable, "-c", LIMITED, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_an_agent_takes_the_files_it_may_have_and_its_ranks_keep_the_callers_limit(tmp_path: Path) -> None:
    assert "(40, 400)" == limited(tmp_path, 40, 400, 8)


def test_too_few_files_for_the_ranks_are_told_by_the_limit_before_any_is_started(tmp_path: Path) -> None:
    told = limited(tmp_path, 48, 48, 8)

    assert told.startswith("69 ")
    assert "8 ranks need" in told
    assert "its hard limit is 48 (ulimit -Hn): raise it" in told
