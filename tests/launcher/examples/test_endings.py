"""Nothing of a training is left after its end, whichever framework it uses and whatever ended it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from launcher.runs.reader import read_state
from tests import engines, segments, survivors
from tests.commands import Foreground, last, until
from tests.trainings import EXAMPLES, Example

pytestmark = [pytest.mark.frameworks, pytest.mark.process, pytest.mark.timeout(300, func_only=True)]

CODES = {"fail": 1, "interrupt": 130, "engine": 75}
ALIVE = 5  # command, warden, agent and two ranks
# one of each framework: what others of the same one start is the same
NAMES = "pipeline lightning deepspeed-stage2 accelerate trainer colossalai horovod tensorflow"
OF_EACH = [each for each in EXAMPLES if str(each) in NAMES.split()]


@pytest.mark.parametrize("ending", CODES)
@pytest.mark.parametrize("example", OF_EACH, ids=str)
def test_nothing_is_left_after_the_end(
    targets: Path, tmp_path: Path, mark: str, example: Example, launch: dict[str, Any], ending: str
) -> None:
    python = ["--python", str(launch["python"])] if launch else []
    pipe, others = tmp_path / "go", segments.abandoned()
    os.mkfifo(pipe)
    words: list[str | Path] = ["run", targets / "endless_training.py", "-n", "2", "--grace", "1", *python]
    words += ["--", example.module, ending, pipe]

    with Foreground(*words, folder=tmp_path, env=launch.get("env")) as run:
        await_ready(run)
        assert len(survivors.alive(mark)) >= ALIVE
        if ending == "interrupt":
            run.signal(signal.SIGINT)
        elif ending == "engine":
            os.kill(engines.pids()[0], signal.SIGKILL)
        else:
            pipe.write_text("go")
        code = run.finish()
        assert survivors.gone(mark, within=2 if ending == "engine" else 0) == {}

    until(lambda: segments.abandoned() <= others)
    assert CODES[ending] == code
    if ending == "fail":  # and not what its loss did to the other rank
        state = read_state(last())
        assert 1 == state.blamed
        assert (state.why or "").endswith("raised RuntimeError: bad luck")


def await_ready(run: Foreground) -> None:
    """Read on until both ranks have trained for some steps."""
    ready: set[str] = set()
    while len(ready) < 2:
        ready.add(run.await_line("ready")[:2])
