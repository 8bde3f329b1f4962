"""Nothing of a training is left after its end, whichever framework it uses and whatever ended it.

CI tries each case once; ``RANKDECK_SOAK=100`` tries each so often.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from launcher.frameworks.registry import detected
from launcher.runs.reader import read_state
from tests import engines, segments, survivors
from tests.commands import Foreground, last, rankdeck, until
from tests.trainings import Example, examples

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.process,
    pytest.mark.timeout(300, func_only=True),
    pytest.mark.takes(25),  # begun first, it makes the environments for which others would wait
]

TRIES = int(os.environ.get("RANKDECK_SOAK", "1"))
CODES = {"fail": 1, "interrupt": 130, "engine": 75, "stop": 143, "agent": 75, "service": 75}
ALIVE = 5  # command, warden, agent and two ranks
# one of each framework: what others of the same one start is the same
OF_EACH = examples(
    "pipeline",
    "lightning",
    "deepspeed-stage2",
    "accelerate",
    "trainer",
    "colossalai",
    "horovod",
    "tensorflow",
)
USUAL = ("fail", "interrupt", "engine")
# what these start beside their ranks is torch's, or nothing: the one end that reaches all processes at once
FEWER = dict.fromkeys(("lightning", "accelerate", "trainer", "colossalai"), ("interrupt",))
MORE = {"horovod": ("stop", "agent", "service"), "tensorflow": ("stop", "agent")}
CASES = [
    (each, ending) for each in OF_EACH for ending in (*FEWER.get(str(each), USUAL), *MORE.get(str(each), ()))
]


@pytest.mark.parametrize(("example", "ending"), CASES * TRIES, ids=str)
def test_nothing_is_left_after_the_end(
    targets: Path, tmp_path: Path, mark: str, example: Example, launch: dict[str, Any], ending: str
) -> None:
    python = ["--python", str(launch["python"])] if launch else []
    pipe, others = tmp_path / "go", segments.abandoned()
    os.mkfifo(pipe)
    words: list[str | Path] = ["run", targets / "endless_training.py", "-n", "2", "--grace", "1", *python]
    # the target's own source names no framework
    words += ["--framework", detected([example.script.read_text()])[0].name]
    words += ["--", example.module, ending, pipe]

    with Foreground(*words, folder=tmp_path, env=launch.get("env")) as run:
        await_ready(run)
        assert len(survivors.alive(mark)) >= ALIVE
        act(ending, run, pipe)
        code = run.finish()
        assert survivors.gone(mark, within=2 if ending == "engine" else 0) == {}

    until(lambda: segments.abandoned() <= others)
    state = read_state(last())
    assert CODES[ending] == code, state.why
    assert [2, 2] == [rank.world_size for rank in state.ranks]  # they trained together
    if ending == "fail":  # and not what its loss did to the other rank
        assert 1 == state.blamed
        assert (state.why or "").endswith("raised RuntimeError: bad luck")
    if ending == "service":
        host = state.ranks[0].host
        who = f"Horovod's rendezvous server beside rank 0 on {host}"
        assert f"{who} was lost: it was killed by SIGKILL" == state.why


def act(ending: str, run: Foreground, pipe: Path) -> None:
    """Bring about the end of a run whose ranks train."""
    if ending == "fail":
        pipe.write_text("go")
    elif ending == "interrupt":
        run.signal(signal.SIGINT)
    elif ending == "stop":
        assert rankdeck("stop", "last").returncode == 0
    else:
        os.kill(victim(ending), signal.SIGKILL)


def victim(ending: str) -> int:
    """The process whose loss ends a run in this way."""
    if ending == "engine":
        return engines.pids()[0]
    state = read_state(last())
    return state.services[0].pid if ending == "service" else state.hosts[0].pid


def await_ready(run: Foreground) -> None:
    """Read on until both ranks have trained for some steps."""
    ready: set[str] = set()
    while len(ready) < 2:
        ready.add(run.await_line("ready")[:2])
