"""Writers of run folders, each killed at some moment: ``python killed_writers.py ROOT HOW_MANY``.

Prints one JSON line for each: its folder, and what it had said to be written before it was killed.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from launcher.runs.catalog import create_folder
from launcher.runs.logs.writer import Chunk
from launcher.runs.writer import RunWriter
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.state import events as ev

SPEC = JobSpec(Target(TargetKind.SCRIPT, "/w/t.py"), num_processes=3)


def write(folder: Path, said: int) -> None:
    """Write until killed, and say after each thing how much there is now."""
    writer = RunWriter(folder, SPEC)
    writer.append(ev.RunSubmitted(time=1.0, name="n", target="t.py", mode="local", num_processes=3))
    facts, output = 1, 0
    for turn in range(1, 1_000_000):
        writer.append(ev.NoteMade(time=2.0, text=f"{turn} " + "x" * (turn % 700)))
        facts += 1
        pieces = [(Chunk(turn, r, 100 * turn % 9000, 1), os.urandom(100 * turn % 9000)) for r in range(3)]
        writer.output([(chunk, memoryview(data)) for chunk, data in pieces])
        output += sum(len(data) for _, data in pieces)
        if turn % 7 == 0:
            value = writer.open_result(turn % 3)
            value.write(memoryview(b"v" * 100_000))
            value.commit()
            writer.append(ev.RankReturned(time=3.0, rank=turn % 3, type="bytes", size=100_000))
            facts += 1
        writer.append(ev.Sampled(time=float(turn), agent=0, host="h"))
        writer.settle()
        os.write(said, f"{facts} {output}\n".encode())


def kill_one(root: Path, chance: random.Random) -> None:
    """One writer's life."""
    folder = create_folder(root, time.time())
    reader, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        write(folder, said)
    os.close(said)
    heard = b""
    while chance.random() < 0.9 and heard.count(b"\n") < 3:
        heard += os.read(reader, 1 << 16)
    time.sleep(chance.uniform(0, 0.03))  # the moment is what the test is about
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with open(reader, "rb") as told:
        lines = (heard + told.read()).splitlines()
    facts, output = map(int, lines[-1].split()) if lines else (0, 0)
    print(json.dumps({"folder": str(folder), "facts": facts, "output": output}), flush=True)


if __name__ == "__main__":
    moments = random.Random(4)
    for _ in range(int(sys.argv[2])):
        kill_one(Path(sys.argv[1]), moments)
