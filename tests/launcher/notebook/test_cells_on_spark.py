"""A notebook's cell on executors, which have neither the notebook nor an installation of rankdeck."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.agent.cell import Cell
from launcher.errors import RankFailed
from launcher.notebook.capture import capture
from tests.spark_cluster import Cluster
from tests.spark_runs import Bench, classic_session

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

HELPERS = """
import os
factor = 3
def helper(x):
    return x * factor
class Own:
    pass
"""
SOURCE = """
import pickle
factor = 10
own = pickle.loads(pickle.dumps(Own()))
print("hello from", os.environ["RANK"])
helper(2), type(own).__name__, __name__
"""


@pytest.fixture
def session(cluster: Cluster, home: Path) -> Iterator[Any]:
    with classic_session(cluster) as made:
        yield made


def cell(source: str, notebook: dict[str, Any]) -> Cell:
    captured = capture(source, notebook, {})
    return Cell(
        source, "In[7]", "n.ipynb", values=captured.values, modules=captured.modules, left=captured.left
    )


def test_a_cell_runs_on_executors_and_its_lines_name_the_host(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook: dict[str, Any] = {"__name__": "__main__", "spark": bench.session}
    exec(HELPERS, notebook)

    assert (20, "Own", "__main__") == bench.distributor(2).run(cell(SOURCE, notebook))
    shown = {line.partition(" | ")[::2] for line in capsys.readouterr().out.splitlines()}
    assert {"hello from 0", "hello from 1"} == {text for _, text in shown}
    assert all(prefix.startswith(("r0 127.0.0.", "r1 127.0.0.")) for prefix, _ in shown)

    with pytest.raises(RankFailed) as failed:
        bench.distributor(2).run(cell("\nspark.range(3)", notebook))
    lines = (failed.value.traceback or "").splitlines()
    assert ['  File "In[7]", line 2, in <module>', "    spark.range(3)"] == lines[1:3]
    assert lines[-1].startswith("spark stays in the notebook: it cannot be pickled (")
