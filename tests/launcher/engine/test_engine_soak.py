"""Many short runs from eight clients at once: right verdicts, nothing left, a small engine.

CI submits a few; ``RANKDECK_SOAK=1000`` submits so many.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from launcher.runs.catalog import run_ids
from launcher.runs.paths import runs_root
from launcher.runtime_dir import runtime_place
from tests import engines, survivors

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[3]
RUNS = int(os.environ.get("RANKDECK_SOAK", "24"))
CLIENTS = 8
# the first runs bring in what an engine imports once
WARM_UP = CLIENTS
VERDICTS: dict[str, tuple[list[Any], Any]] = {
    "ends.py 0": (["succeeded", 0], None),
    "ends.py 7": (["failed", 7], None),
    "functions.py:broken": (["failed", 1], None),
    "functions.py:add 40": (["succeeded", 0], 42),
}


def words(targets: Path, ends: Path, first: int, count: int) -> list[str]:
    """One client's share of the runs."""
    files = {"ends.py": ends, "functions.py": targets / "functions.py"}
    said = []
    for number in range(first, first + count):
        source, *args = list(VERDICTS)[number % len(VERDICTS)].split()
        name = source.partition(":")[0]
        said += [",", source.replace(name, str(files[name])), *args]
    return said


def submit_all(targets: Path, folder: Path, count: int) -> list[dict[str, Any]]:
    """What the clients tell of their runs."""
    ends = folder / "ends.py"
    ends.write_text("import sys\nprint('here')\nsys.exit(int(sys.argv[1]))\n")
    outputs = [folder / f"client{number}.jsonl" for number in range(CLIENTS)]
    clients = []
    for number, output in enumerate(outputs):
        share = count // CLIENTS + (number < count % CLIENTS)
        command = [sys.executable, "-m", "tests.submitting", *words(targets, ends, number, share)]
        with open(output, "wb") as file:
            clients.append(subprocess.Popen(command, cwd=ROOT, stdout=file))
    assert [0] * CLIENTS == [client.wait(60 + 6 * count) for client in clients]
    return [json.loads(line) for output in outputs for line in output.read_text().splitlines()]


@pytest.mark.timeout(300 + 6 * RUNS)
def test_many_runs_from_many_clients(
    targets: Path, tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    submit_all(targets, tmp_path, WARM_UP)
    began = time.monotonic()
    told = submit_all(targets, tmp_path, RUNS)
    took = time.monotonic() - began
    told.sort(key=lambda each: str(each["run"]))

    assert RUNS == len(told)
    assert RUNS + WARM_UP == len(run_ids(runs_root()))
    for each in told:
        verdict, value = VERDICTS[" ".join(each["case"])]
        assert (verdict, verdict, value) == (each["told"], each["written"], each["value"]), each
    assert 1 == len(Counter(each["engine"] for each in told))
    assert {} == survivors.gone(mark, within=10)
    assert [] == os.listdir(temporary)
    assert {".json", ".lock", ".sock"} == {path.suffix for path in runtime_place().iterdir()}
    assert 3 == len(list(runtime_place().iterdir()))

    tenth = max(3, RUNS // 10)
    first, last = (
        statistics.median(each["memory"] for each in part) for part in (told[:tenth], told[-tenth:])
    )
    print(f"{RUNS} runs in {took:.0f} s, engine {first / 2**20:.1f} to {last / 2**20:.1f} MiB")  # noqa: T201
    assert last < 1.1 * first
    at_work = 20 + 16 * CLIENTS  # descriptors of the engine itself and of what goes on at once
    assert max(each["descriptors"] for each in told) < at_work

    engines.end_all()
    assert {".lock"} == {path.suffix for path in runtime_place().iterdir()}
    assert [] == os.listdir(temporary)
