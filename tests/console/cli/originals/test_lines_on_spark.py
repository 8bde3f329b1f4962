"""Lines for several machines, once and from one machine, on a real cluster."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.commands import COMMAND
from tests.spark_cluster import Cluster
from tests.spark_runs import common_options

pytestmark = [pytest.mark.usefixtures("undisturbed"), pytest.mark.spark, pytest.mark.timeout(180)]
TRAIN = """
import os, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print("sum", int(total), "world", os.environ["WORLD_SIZE"], sys.argv[1:], flush=True)
dist.destroy_process_group()
"""


@pytest.mark.parametrize("script", ["train.py", "train"])
def test_torchruns_line_for_two_nodes_makes_one_gang(cluster: Cluster, tmp_path: Path, script: str) -> None:
    (tmp_path / script).write_text(TRAIN)
    ours = common_options(cluster)
    line = f"--nnodes 2 --nproc-per-node 2 --node-rank 0 --rdzv-endpoint h:1 {script} --lr 0.1"
    done = subprocess.run(
        [COMMAND, *ours, "torchrun", *line.split()],
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        cwd=tmp_path,
        check=False,
    )

    assert 0 == done.returncode, done.stderr
    assert 4 == done.stdout.count("| sum 4 world 4 ['--lr', '0.1']")
    for option in ("--rdzv-endpoint", "--node-rank"):
        assert f"note: torchrun's {option} has no meaning here" in done.stderr
