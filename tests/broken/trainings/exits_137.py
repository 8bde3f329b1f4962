# ranks: 1
# cause: none

"""A shell's code for SIGKILL, passed on from a program that somebody killed: the rank itself was not."""

import subprocess
import sys

done = subprocess.run(["sh", "-c", "kill -9 $$"], check=False)
sys.exit(128 - done.returncode)
