"""What tests of other launchers' lines share: the surroundings of a line, and the original's own parser."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from console.cli.originals.base import Here, Row
from launcher.agent.gpus import VISIBLE
from tests.framework_envs import Environment

EXAMPLES = Path(__file__).parents[4] / "launcher" / "examples"
HOST = "this-machine"


def here(
    *ours: str,
    on_spark: bool = False,
    gpus: int = 0,
    files: Mapping[str, str] | None = None,
    answer: Any = None,
    **environ: str,
) -> Here:
    """A machine of four cores, with some GPUs and files, and an interpreter that gives one answer."""

    def read(path: str) -> str:
        if path not in (files or {}):
            raise FileNotFoundError(2, "No such file or directory")
        return (files or {})[path]

    return Here(
        {name: f"--{name.replace('_', '-')}" for name in ours},
        on_spark=on_spark,
        environ=environ,
        gpus=lambda seen: len(seen[VISIBLE].split(",")) if VISIBLE in seen else gpus,
        cpus=4,
        hostname=HOST,
        read=read,
        ask=lambda program, words: answer,
    )


def asked(env: Environment, program: str, *words: str) -> Any:
    """The JSON value that a program prints last in an environment of frameworks."""
    done = subprocess.run(
        [env.python, "-P", "-c", program, *words], capture_output=True, text=True, check=False, timeout=120
    )
    assert 0 == done.returncode, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


DUMP = """
import argparse, json

def dump(self, *_, **__):
    print(json.dumps([
        {"names": a.option_strings, "nargs": a.nargs, "choices": a.choices and list(a.choices),
         "type": getattr(a.type, "__name__", "str"), "dest": a.dest}
        for a in self._actions if a.option_strings
    ]))
    raise SystemExit

argparse.ArgumentParser.parse_args = dump
"""
"""Prints the options of the first parser that is asked to parse."""


def misfits(rows: Sequence[Row], options: Iterable[Mapping[str, Any]]) -> list[str]:
    """Options of an original that its table does not know as they are."""
    return [
        " ".join(option["names"])
        for option in options
        if not any({*option["names"]} <= {*row.spellings} and _fits(row, option) for row in rows)
    ]


def _fits(row: Row, option: Mapping[str, Any]) -> bool:
    words = {None: 1}.get(option["nargs"], option["nargs"])
    kind = getattr(row.kind, "__name__", "str") if row.words else option["type"]
    return bool(
        row.words == words
        and (row.without or list(row.choices) == (option["choices"] or []))
        and (kind == option["type"] or option["type"] not in ("int", "float"))
    )
