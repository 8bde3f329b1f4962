"""Write to FILE when the first kernel was done, in nanoseconds since the epoch. kernel.py FILE"""

import sys
import time
from pathlib import Path

import torch

assert 3.0 == torch.ones(3, device="cuda").sum().item()
Path(sys.argv[1]).write_text(str(time.time_ns()))
