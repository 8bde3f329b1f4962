"""A rank that does not want to die, in the way that its first argument names.

Says `ready` once it clings, and waits for its pipe (third argument and rank) before it ends by itself.
"""

import os
import signal
import subprocess
import sys
import time

FOREVER = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('up', flush=True)
time.sleep(600)
"""


def ignore_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def daemonise() -> None:
    """A grandchild in a session of its own, twice forked, deaf to SIGTERM."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.write(writer, b"up")
            os.close(writer)
            time.sleep(600)
        os._exit(0)
    os.close(writer)
    os.read(reader, 2)


def subprocesses() -> None:
    for _ in range(2):
        child = subprocess.Popen(
            [sys.executable, "-c", FOREVER], stdout=subprocess.PIPE, start_new_session=True
        )
        assert child.stdout is not None
        child.stdout.readline()


def dataloader() -> None:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    loader = iter(DataLoader(TensorDataset(torch.zeros(100_000, 1)), num_workers=2))
    next(loader)
    globals()["keep"] = loader


def main() -> None:
    behaviour, ending, pipes = sys.argv[1:4]
    rank = os.environ["RANK"]
    globals()[behaviour]()
    print("ready", flush=True)
    if ending == "succeed" or (ending == "fail" and rank == "1"):
        with open(f"{pipes}.{rank}") as pipe:
            pipe.read()
        os._exit(0 if ending == "succeed" else 7)
    while True:
        time.sleep(600)


if __name__ == "__main__":
    main()
