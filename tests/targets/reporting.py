"""Reports steps and then ends as it is told: ``reporting.py STEPS [flaky | raise | gate PATH]``."""

from __future__ import annotations

import math
import os
import signal
import sys

import launcher

RANK, ATTEMPT = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])

steps, how = int(sys.argv[1]), sys.argv[2:]
for step in range(steps):
    odd = {"a#": 1.0, "nan": math.nan, "inf": math.inf, "huge": 1e300}
    launcher.report(step=step, loss=float(100 * RANK + step), **(odd if step == 0 else {}))
print("reported", flush=True)
if how[:1] == ["gate"]:
    with open(f"{how[1]}.{RANK}") as pipe:
        pipe.read()
if how[:1] == ["flaky"] and not ATTEMPT and RANK:
    signal.pause()  # rank 0 fails, once it has reported
if how[:1] == ["raise"] or (how[:1] == ["flaky"] and not ATTEMPT):
    raise RuntimeError("as it was told")
