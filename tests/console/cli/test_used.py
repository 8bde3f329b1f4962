"""What a run used over all its time, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from console.data.run.usage import recorded_use, use_texts
from console.demo import record_demo
from launcher.runs import paths
from launcher.runs.paths import runs_root
from tests.commands import rankdeck

pytestmark = pytest.mark.process


@pytest.mark.parametrize("support", [False, True])
def test_an_archive_tells_it_too(tmp_path: Path, support: bool) -> None:
    run = record_demo(runs_root(), seconds=20)
    archive = tmp_path / "run.zip"
    option = ["--support"] if support else []
    rankdeck("export", run.name, "--output", archive, *option)
    told = rankdeck("show", archive).stdout
    (used,) = [line for line in told.splitlines() if line.startswith("used ")]
    assert used == f"used     {', '.join(use_texts(recorded_use(run)[0]))}"
    assert "% idle, peak GPU memory 70.4G of 79.6G" in used


def test_show_has_it_by_rank() -> None:
    run = record_demo(runs_root(), seconds=20)
    usage = json.loads(rankdeck("show", run.name, "--json").stdout)["usage"]
    assert [each["rank"] for each in usage] == list(range(8))
    assert all(0 < each["used_s"] < each["gpu_s"] for each in usage)


def test_show_says_that_the_record_is_spoiled() -> None:
    run = record_demo(runs_root(), seconds=20)
    (run / paths.USAGE).write_text('{"ranks": [{"rank": "\\u001b[31m"}]}')
    told = rankdeck("show", run.name).stdout
    assert "unreadable: usage.json" in told
    assert "\x1b" not in told
