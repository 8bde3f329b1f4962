"""A process that runs reading commands one after the other, for a test that watches how long each takes.

A line of JSON says what to run; the answer is a line too. An exception that escapes is told as its traceback.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

WALL_S, CONSOLE_WALL_S = 60.0, 120.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command did: the traceback of what escaped from it, and the processor's time that it took."""

    code: int
    out: str
    err: str
    fell: str
    seconds: float
    hung: bool = False


class Reader:
    """The process, started anew after a command that does not end."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def run(self, *words: str) -> Answer:
        """Run a command."""
        return self._ask({"words": words}, WALL_S)

    def look(self, run: str, root: Path) -> Answer:
        """Open the console with a run, and go to the list of all."""
        return self._ask({"console": run, "root": str(root)}, CONSOLE_WALL_S)

    def _ask(self, question: dict[str, Any], limit_s: float) -> Answer:
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(question).encode() + b"\n")
        process.stdin.flush()
        line = b""
        deadline = time.monotonic() + limit_s
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                self._end()
                return Answer(-1, "", "", "", limit_s, hung=True)
            piece = os.read(process.stdout.fileno(), 1 << 20)
            if not piece:
                code = process.wait()
                self._process = None
                return Answer(code, "", "", f"the process ended with {code}", 0.0)
            line += piece
        return Answer(**json.loads(line))

    def _start(self) -> subprocess.Popen[bytes]:
        env = {
            **os.environ,
            "RANKDECK_HOME": str(self._home),
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.reading"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parent.parent,
            env=env,
        )
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None


# --- in the process itself -----------------------------------------------------------------------------


def _answer(question: dict[str, Any]) -> Answer:
    began = time.process_time()
    code, out, err, fell = _looked(question) if "console" in question else _ran(question["words"])
    return Answer(code, out, err, fell, time.process_time() - began)


def _ran(words: list[str]) -> tuple[int, str, str, str]:
    from click.testing import CliRunner

    from console.cli.main import main

    code, fell = 0, ""
    with CliRunner().isolation() as (out, err, _):
        try:
            main(words)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        except BaseException:  # noqa: BLE001  whatever escapes is what is looked for
            fell = traceback.format_exc()
        texts = [each.getvalue().decode("utf-8", "surrogateescape") for each in (out, err)]
    return code, texts[0], texts[1], fell


def _looked(question: dict[str, Any]) -> tuple[int, str, str, str]:
    fell: list[str] = []
    threading.excepthook = lambda args: fell.append("".join(traceback.format_exception(args.exc_value)))
    try:
        shown = asyncio.run(_look(Path(question["root"]), question["console"]))
    except BaseException:  # noqa: BLE001  whatever escapes is what is looked for
        return 0, "", "", traceback.format_exc()
    return 0, shown, "", "\n".join(fell)


async def _look(root: Path, run: str) -> str:
    from console.app import RankdeckApp
    from tests.console.conftest import FakeCommands

    app = RankdeckApp(root=root, workdir=root.parent, open_run=root / run, commands=FakeCommands())
    seen = []
    async with app.run_test(size=(120, 40)) as pilot:
        for keys in ((), ("end",), ("tab",), ("3",), ("h",)):
            await pilot.press(*keys)
            await pilot.pause(0.1)
            seen += ["".join(part.text for part in strip) for strip in app.screen._compositor.render_strips()]
    return "\n".join(seen)


def serve() -> None:
    """Answer questions until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        answer = _answer(json.loads(line))
        fields = {name: getattr(answer, name) for name in Answer.__slots__}
        answers.write(json.dumps(fields) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve()
