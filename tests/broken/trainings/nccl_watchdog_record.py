# ranks: 3
# options: --env TORCH_FR_BUFFER_SIZE=100 --env TORCH_NCCL_DEBUG_INFO_TEMP_FILE=trace_
# cause: collective-timeout
# says: waited 600 s in allreduce for rank 2
# remedy: --no-progress-timeout
# certainty: certain
"""NCCL's watchdogs write what each rank has called before one of them ends its process: rank 2 is behind.

There is no GPU here: what the watchdog prints is from its sources, and what it records is real, but gloo's.
"""

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

WORK = (
    "WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600029 "
    "milliseconds before timing out."
)


def trace_of(rank: int) -> Path:
    return Path(f"{os.environ['TORCH_NCCL_DEBUG_INFO_TEMP_FILE']}{rank}")


def write_record(rank: int) -> None:
    half = Path(f"half_{rank}")
    half.write_bytes(c10d._dump_fr_trace(True, True, False))
    half.replace(trace_of(rank))


WAITS = Path("rank_2_waits")


def wait_for_shards() -> None:
    WAITS.touch()
    while not Path("nowhere.shard").exists():
        time.sleep(0.1)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for _ in range(2):
        dist.all_reduce(torch.ones(4))
    if rank != 2:
        work = dist.all_reduce(torch.ones(4), async_op=True)
    write_record(rank)
    if rank == 2:
        wait_for_shards()
    if rank == 1:
        work.wait()
    while not (WAITS.exists() and all(trace_of(each).exists() for each in range(3))):
        time.sleep(0.1)
    prefix = "[PG ID 0 PG GUID 0(default_pg) Rank 0]"
    thread = f"{prefix} Process group watchdog thread terminated with exception: "
    os.write(2, b"terminate called after throwing an instance of 'c10::DistBackendError'\n")
    os.write(2, f"  what():  {thread}[Rank 0] Watchdog caught collective operation timeout: {WORK}\n".encode())
    os.abort()


main()
