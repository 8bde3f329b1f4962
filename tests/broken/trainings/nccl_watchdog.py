# ranks: 2
# cause: collective-timeout
# says: rank 1 is in wait_for_shards
# remedy: --no-progress-timeout
# certainty: certain
"""NCCL's watchdog ends the process of a rank while another one is not in the collective.

What the watchdog prints is recorded from its sources: there is no GPU here. The other rank is real.
"""

import os
import time
from pathlib import Path

PREFIX = "[PG ID 0 PG GUID 0(default_pg) Rank 0]"
WORK = (
    "WorkNCCL(SeqNum=42, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for "
    "600029 milliseconds before timing out."
)


WAITS = Path("rank_1_waits")


def wait_for_shards(folder: Path) -> None:
    WAITS.touch()
    while not list(folder.glob("*.shard")):
        time.sleep(0.1)


def main() -> None:
    if os.environ["RANK"] == "1":
        wait_for_shards(Path("nowhere"))
    while not WAITS.exists():
        time.sleep(0.1)
    thread = f"{PREFIX} Process group watchdog thread terminated with exception: "
    os.write(2, b"terminate called after throwing an instance of 'c10::DistBackendError'\n")
    os.write(2, f"  what():  {thread}[Rank 0] Watchdog caught collective operation timeout: {WORK}\n".encode())
    os.abort()


main()
