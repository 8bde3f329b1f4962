"""What a user's processes tell each other of sessions and waits."""

from __future__ import annotations

import os
import subprocess

import pytest

from launcher import runtime_dir
from launcher.backends.spark import records
from launcher.backends.spark.records import Wait, waiting_runs

MASTER = "spark://m:7077"


def test_a_wait_is_on_record_from_its_first_word_to_its_end() -> None:
    with Wait("run-1", MASTER, "app-1") as wait:
        assert waiting_runs(MASTER, "app-2") == []
        wait.write()
        assert waiting_runs(MASTER, "app-2") == ["run-1"]
        assert waiting_runs(MASTER, "app-1") == []  # the session is its own
        assert waiting_runs("spark://other:7077", "app-2") == []
    assert waiting_runs(MASTER, "app-2") == []
    assert not list(runtime_dir.runtime_place().iterdir())


@pytest.mark.parametrize(
    "record",
    [
        *("", "[]", "{", "null", '{"application": "app-1", "runs": []}'),
        '{"application": "app-1", "runs": [], "start": null}',
        '{"application": 1, "runs": null, "start": 0}',
    ],
)
def test_a_record_of_a_process_that_is_gone_or_that_is_spoiled_counts_for_nothing(record: str) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    for pid in (gone.pid, os.getpid(), 0, "x"):
        (runtime_dir.runtime_folder() / f"session-{pid}.json").write_text(record)
        (runtime_dir.runtime_folder() / f"waiting-r-{pid}.json").write_text(record)
    assert records.sessions() == {}
    assert waiting_runs(MASTER, "app-2") == []


def test_a_record_without_its_fields_counts_for_nothing() -> None:
    records.write_session("app-1", ("a",))
    (path,) = runtime_dir.runtime_place().glob("session-*.json")
    path.write_text(path.read_text().replace('"runs": ["a"]', '"runs": 7'))
    assert records.sessions() == {}
