"""The command `demo`: the console with a recorded run that seems to happen now, and a past one that failed.

Its folders are temporary and are removed when the console is left.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from launcher.spec.request import Request

from .data.demo import RECORDED_AT, DemoCommands, demo_spec, record_demo

__all__ = ["RECORDED_AT", "DemoCommands", "record_demo", "run_demo"]


def run_demo(*, speed: float = 1.0, look: Mapping[str, object] | None = None) -> int:
    """Show the console with a recorded run that seems to happen now; leave no files behind.

    `look` is as for `run_console`.
    """
    from .app import run_console

    with tempfile.TemporaryDirectory(prefix="rankdeck-demo-") as temporary:
        base = Path(temporary)
        commands = DemoCommands(base / "recordings", base / "runs", speed=speed)
        past = record_demo(base / "runs", seconds=45, fail=True)
        past.rename(past.with_name(past.name[:-3] + "fa1"))
        spec = demo_spec(8, True)
        run = base / "runs" / commands.start(Request(spec, environ={}))
        try:
            return run_console(
                open_run=run,
                root=base / "runs",
                workdir=Path.cwd(),
                commands=commands,
                farewell=lambda _: None,
                look=look,
            )
        finally:
            commands.close()
