"""A gang in which rank 1 does something else than what the others wait for: ``stuck.py HOW GATE``.

HOW is ``queue`` (it waits for an item until the gate opens), ``compile`` (it computes until then), ``pause``
(it declares a pause until then).
"""

import os
import queue
import sys
import threading

import torch
import torch.distributed as dist

from launcher import pause, report

how, gate = sys.argv[1:]
items: "queue.Queue[str]" = queue.Queue()


def at_gate() -> None:
    with open(f"{gate}.0") as pipe:
        items.put(pipe.read())


def batch() -> None:
    if how == "queue":
        items.get()
    while how == "compile" and items.empty():
        pass
    if how == "pause":
        with pause("debugging\tthe loss"):
            items.get()


dist.init_process_group("gloo")
report(step=1)
if os.environ["RANK"] == "1":
    threading.Thread(target=at_gate, daemon=True).start()
    batch()
total = torch.ones(1)
dist.all_reduce(total)
report(step=2)
print(total.item())
dist.destroy_process_group()
