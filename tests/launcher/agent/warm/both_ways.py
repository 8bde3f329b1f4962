"""Runs programs as ranks, each as a fork and as a fresh process, in the place of an agent.

Started with a JSON list of cases on standard input; prints what came of each, as JSON.
"""

from __future__ import annotations

from launcher.agent.warm import fresh  # noqa: F401  first: it looks at what a fresh rank has imported

# isort: split
import json
import os
import selectors
import sys
import time
from pathlib import Path
from typing import Any

from launcher.agent import linux, process, program, rank_pipe
from launcher.agent.warm import wanted, zygote
from launcher.channel import network

ROOT = str(Path(process.__file__).parents[2])
LIMIT_S = 60.0


def main() -> None:
    """Run every case both ways."""
    cases = json.load(sys.stdin)
    linux.become_subreaper()
    for name in wanted.TORCH:
        __import__(name)
    ours = zygote.this_process(("", *sys.path[1:]), Path("/proc/self/comm").read_text().strip(), ROOT)

    def work() -> None:
        ways = (("forked", ours), ("fresh", None))
        results = {name: {way: run(case, by) for way, by in ways} for name, case in cases.items()}
        json.dump(results, sys.stdout)

    if fork := ours.forker.serve(work):
        exec(*fork())


def run(case: dict[str, Any], warm: Any) -> dict[str, Any]:
    """Start the ranks of one case, and collect what they print and how they end."""
    held = network.hold_port()
    target = {"kind": case["kind"], "source": case["target"], "args": case["args"]}
    order = {
        "target": {**target, "name": "", "kwargs": [], "pickled": False},
        "is_file": case["kind"] == "script",
        "argv": {},
        "path": [],
    }
    data = program.encode(order, b"", None, cwd=case["cwd"], root=ROOT)
    folders = program.import_folders(order, None, case["cwd"])
    fd = process.memory_file(data)
    started, why = [], ""
    for rank in range(case["ranks"]):
        own = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        env = {**own, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(held.number), "RANK": str(rank)}
        env |= {
            "WORLD_SIZE": str(case["ranks"]),
            "LOCAL_RANK": str(rank),
            "PYTHONUNBUFFERED": "1",
            **case["env"],
        }
        env |= {"OMP_NUM_THREADS": case["threads"]} if case["threads"] else {}
        why = warm.why_not(sys.executable, env, folders) if warm else ""
        launch = warm.fork if warm and not why else process.spawn
        one = process.start_rank(
            rank, python=sys.executable, root=ROOT, program=fd, env=env, cwd=case["cwd"], launch=launch
        )
        started.append(one)
    os.close(fd)
    found = [collect(each) for each in started]
    held.sock.close()
    return {"why": why, "ranks": found}


def collect(rank: process.RankProcess) -> dict[str, Any]:
    """Everything that a rank writes, to its end."""
    texts = {rank.stdout: bytearray(), rank.stderr: bytearray()}
    packets: list[Any] = []
    waiting = selectors.DefaultSelector()
    for each in (*texts, rank.line.fileno()):
        waiting.register(each, selectors.EVENT_READ)
    deadline = time.monotonic() + LIMIT_S
    while waiting.get_map() and time.monotonic() < deadline:
        for key, _ in waiting.select(1.0):
            if key.fd in texts:
                data = process.read(key.fd)
                if data:
                    texts[key.fd] += data
                elif data is not None:
                    waiting.unregister(key.fd)
            else:
                packet = rank_pipe.receive(rank.line)
                if packet == "closed":
                    waiting.unregister(key.fd)
                elif packet != "empty":
                    packets.append(packet)
    if time.monotonic() >= deadline:
        os.kill(rank.pid, 9)
    _, status = os.waitpid(rank.pid, 0)
    facts = [
        {k: v for k, v in rank_pipe.parse(d).items() if k != "time"}
        for kind, d in packets
        if kind == rank_pipe.FACT
    ]
    for descriptor in (rank.stdout, rank.stderr, rank.stacks):
        os.close(descriptor)
    rank.line.close()
    return {
        "out": texts[rank.stdout].decode(errors="backslashreplace"),
        "err": texts[rank.stderr].decode(errors="backslashreplace"),
        "status": process.outcome(status),
        "facts": facts,
    }


if __name__ == "__main__":
    main()
