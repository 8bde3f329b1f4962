"""A cluster of 4 slots that several people share: nobody waits for what an idle session holds."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import until
from tests.sharing import User, Watcher, browse, compute, mix, notebook
from tests.spark_cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.takes(90), pytest.mark.timeout(3600)]

RUNS = max(6, int(os.environ.get("RANKDECK_SOAK", "0")))
PROMISED_S = 3.0


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("import time\nprint('here', flush=True)\ntime.sleep(0.3)\n")
    return path


@pytest.fixture
def people(cluster: Cluster, tmp_path: Path) -> Iterator[list[User]]:
    """Two users, whose engines end with the test."""
    made = [User(name, tmp_path / name, cluster) for name in ("ann", "ben")]
    yield made
    for user in made:
        user.end()
    until(lambda: not cluster.executors())


def test_runs_of_two_users_and_a_notebook(
    cluster: Cluster, people: list[User], script: Path, tmp_path: Path
) -> None:
    """In random order and settings; each user has two terminals. What was seen is in ``watched.jsonl``."""
    terminals = [
        threading.Thread(target=mix, args=(user, script, RUNS // 4 + (2 * user_ + turn < RUNS % 4), seed))
        for user_, user in enumerate(people)
        for turn, seed in enumerate((2 * user_, 2 * user_ + 1))
    ]
    over = threading.Event()
    with Watcher(cluster, people, tmp_path / "watched.jsonl") as watcher, notebook(cluster) as process:
        cells = threading.Thread(target=browse, args=(process, cluster, over, 7))
        for thread in (cells, *terminals):
            thread.start()
        for thread in terminals:
            thread.join()
        over.set()
        cells.join()
    codes = [code for user in people for code in user.codes]
    assert [0] * RUNS == codes, [said for user in people for said in user.said]
    assert watcher.longest_s <= PROMISED_S


def test_a_notebook_gets_what_an_idle_session_holds(
    cluster: Cluster, people: list[User], script: Path
) -> None:
    ann, _ = people
    assert 0 == ann.run(script, 4, {}), ann.said
    (idle,) = ann.idle_applications()
    assert 4 == next(app["cores"] for app in cluster.state()["activeapps"] if idle == app["id"])
    with notebook(cluster) as process:
        assert "28\n" == compute(process, cluster)
    assert idle in {app["id"] for app in cluster.state()["completedapps"]}
    assert not ann.idle_applications()
