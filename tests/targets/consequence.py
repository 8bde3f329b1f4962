"""Rank 1 raises and takes its time to die; rank 0 fails because of it, and is gone first."""

import os
import signal
import sys
import threading
import time


def cause() -> None:
    threading.Thread(target=time.sleep, args=(0.5,)).start()
    with open(sys.argv[1], "w") as pipe:
        pipe.write("down")
    raise RuntimeError("the cause")


def victim() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as if it were deep in a collective
    with open(sys.argv[1]) as pipe:
        pipe.read()
    time.sleep(0.05)
    raise ConnectionError("connection closed by peer")


cause() if os.environ["RANK"] == "1" else victim()
