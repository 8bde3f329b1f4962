"""A real run that fails: its code is told at once, and from the record when the script is another one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from console.data.history.run_list import read_record
from console.export.report import report_page
from console.ui.history.panes import card_text
from launcher.runs.reader import status_of
from tests import commands
from tests.commands import rankdeck

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("mark")]

SCRIPT = """\
import json

def load(text, api_key="hunter2"):
    # what the loader gives
    rows = [1, 2, 3]
    return json.loads(text)

load("{")
"""
FAILING = "    > 6      return json.loads(text)"
AROUND = "      5      rows = [1, 2, 3]"


def test_the_failing_code_is_kept_when_the_script_is_changed(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    done = rankdeck("run", script, "--ranks", "none")
    script.write_text("# rewritten\n" * 40)

    block = done.stderr[done.stderr.index("✗ rank 0") :].splitlines()
    assert [AROUND, FAILING] == block[block.index(FAILING) - 1 :][:2]
    assert "  … 3 frames in json" in block
    assert "variables of load at train.py:6" in block
    assert "  text     str   1 character" in block
    run = commands.last()
    card, report = card_text(status_of(run), read_record(run)), report_page(run, logs=False)
    for told in (card.splitlines(), report.replace("&gt;", ">").splitlines()):
        assert any(line.strip() == FAILING.strip() for line in told)
        assert not any("rewritten" in line for line in told)
    shown = json.loads(rankdeck("show", "last", "--json").stdout)["first_failure"]
    assert "in raw_decode" in shown["traceback"]
    assert "    return json.loads(text)" in shown["excerpts"][0]["lines"]
    assert "hunter2" not in (run / "events.jsonl").read_text()


@pytest.mark.parametrize(("option", "value"), [((), ""), (("--locals",), "  [1, 2, 3]")])
def test_values_are_recorded_when_they_are_asked_for(
    tmp_path: Path, option: tuple[str, ...], value: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)

    lines = [line.strip() for line in rankdeck("run", script, "--ranks", "none", *option).stderr.splitlines()]
    assert f"rows     list  3 items{value}" in lines
    assert ("api_key  str   7 characters  ***" in lines) == bool(option)


LOADER = """\
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, number):
        return [0.0][number]

for batch in DataLoader(Rows(), batch_size=4, num_workers=1):
    print(batch)
"""


def test_code_that_fails_in_a_loaders_worker_is_told(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(LOADER)

    block = rankdeck("run", script, "--ranks", "none").stderr
    assert "    >  7          return [0.0][number]" in block
    assert "  … 3 frames in torch/utils/data/_utils" in block
    assert "IndexError: list index out of range" in block
