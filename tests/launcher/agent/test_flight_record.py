"""What torch's flight recorder has of a rank's last collectives, read from a real one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from launcher.agent.flight_record import last_collectives

PROGRAM = """
import os, json, torch, torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", TORCH_FR_BUFFER_SIZE="{size}")
dist.init_process_group("gloo", rank=0, world_size=1)
dist.all_reduce(torch.ones(3)); dist.broadcast(torch.ones(2, 5), src=0)
from launcher.agent.flight_record import last_collectives
print(json.dumps(last_collectives()))
"""


def recorded(size: int) -> str:
    root = Path(__file__).parents[3]
    program = [sys.executable, "-c", PROGRAM.format(size=size)]
    return subprocess.run(program, capture_output=True, text=True, check=True, cwd=root).stdout.strip()


def test_the_last_call_in_each_group() -> None:
    call = '{"group": "default_pg", "number": 2, "operation": "broadcast", "sizes": "[[2, 5]]"}'
    assert recorded(100) == f"[{call}]"


def test_a_recorder_that_is_off_and_a_process_without_groups_have_none() -> None:
    assert recorded(0) == "[]"
    assert last_collectives() == []
