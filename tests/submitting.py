"""A client that submits one run after another: ``python -m tests.submitting TARGET [ARGS…] , TARGET …``.

For each it prints one JSON line: the run's id, how it ended, its value, and what its engine holds by then.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from launcher.agent.linux import resident
from launcher.engine.client import submit
from launcher.job import load_result
from launcher.runs.reader import read_state
from launcher.runs.status import read_status
from launcher.spec.job import JobSpec
from launcher.spec.request import Request
from launcher.spec.target import resolve


def cases(words: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Targets and their arguments, with commas between them."""
    for comma, group in groupby(words, lambda word: word == ","):
        if not comma:
            target, *args = group
            yield target, args


def carry_out(source: str, args: list[str]) -> dict[str, Any]:
    """Submit a run, stay until it has ended, and tell of it."""
    target = resolve(source, params={}, args=args, workdir=Path.cwd())
    run = submit(Request(JobSpec(target, workdir=os.getcwd())), on_disconnect="stop")
    status = read_status(run.folder)
    while not run.done:
        run.wait_for_news()
    run.close()
    assert run.ended is not None
    assert status is not None
    state = read_state(run.folder)
    engine = status.owner.pid
    return {
        "run": run.id,
        "case": [Path(source).name, *args],
        "told": [run.ended["ended"], run.ended["exit_code"]],
        "written": [state.phase.value, state.exit_code],
        "value": load_result(run.folder, 0) if state.ranks[0].returned else None,
        "engine": engine,
        "memory": resident(engine),
        "descriptors": len(os.listdir(f"/proc/{engine}/fd")),
    }


if __name__ == "__main__":
    for each in cases(sys.argv[1:]):
        print(json.dumps(carry_out(*each)), flush=True)  # noqa: T201
