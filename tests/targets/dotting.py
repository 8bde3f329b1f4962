"""A rank that shows for a while that it lives: by dots without a newline, or by reports alone."""

import os
import sys
import time

import launcher

how, seconds = sys.argv[1], float(sys.argv[2])
end = time.monotonic() + seconds
if os.environ["RANK"] == "0":
    step = 0
    while time.monotonic() < end:
        step += 1
        if how == "dots":
            os.write(1, b".")
        else:
            launcher.report(step=step)
        time.sleep(0.1)
else:
    time.sleep(seconds)
