"""Fails in its first attempts: ``flaky.py TIMES``; every attempt says so before it ends."""

from __future__ import annotations

import os
import sys

attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
print(f"attempt {attempt} of rank {os.environ['RANK']}", flush=True)
if attempt < int(sys.argv[1]):
    sys.exit(10 + attempt)
