# ranks: 1
# needs: small-disk
# cause: disk-full
# remedy: df -h

"""A log fills the disk."""

import os

with open(os.path.join(os.environ["SMALL_DISK"], "train.log"), "w") as log:
    for step in range(1_000_000):
        print("step", step, "x" * 1000, file=log)
