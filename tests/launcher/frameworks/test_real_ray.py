"""Ray as it is installed: nothing of its nodes is left after the run, and the right one gets the blame.

CI tries each end once; ``RANKDECK_SOAK=100`` tries each so often.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launcher.display.service import service_page
from launcher.runs.reader import read_state
from launcher.state.run_state import RunState
from tests import engines, framework_envs, survivors
from tests.commands import Foreground, last, until
from tests.framework_envs import Environment
from tests.services import part_of, pid_of

pytestmark = [pytest.mark.frameworks, pytest.mark.process, pytest.mark.timeout(300, func_only=True)]

TRIES = int(os.environ.get("RANKDECK_SOAK", "1"))
SHARED_MEMORY = Path("/dev/shm")
SESSIONS = Path("/tmp/ray")


@pytest.fixture
def env() -> Environment:
    return framework_envs.made("ray")


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where agents make their folders, with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


def ray_segments() -> set[Path]:
    """The object stores in shared memory. Other tests have segments of their own meanwhile."""
    return {*SHARED_MEMORY.glob("plasma*"), *SHARED_MEMORY.glob("*ray*")}


@pytest.fixture
def leaves_nothing(scratch: Path, mark: str) -> Iterator[None]:
    segments, sessions = ray_segments(), SESSIONS.exists()
    yield
    assert survivors.gone(mark, within=5) == {}
    until(lambda: ray_segments() <= segments and [] == os.listdir(scratch), within=5)
    assert sessions == SESSIONS.exists()


def kill_unseen() -> None:
    """Kill a raylet that Ray has waited for before its node's service can look at it."""
    service, raylet = pid_of(now(), 1), part_of(now(), 1, "raylet")
    os.kill(service, signal.SIGSTOP)
    os.kill(raylet, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{raylet}").exists())
    os.kill(service, signal.SIGCONT)


ENDINGS: dict[str, tuple[Callable[[Foreground], None], int, str]] = {
    "interrupt": (lambda run: run.signal(signal.SIGINT), 130, "interrupted"),
    "engine": (lambda run: os.kill(engines.pids()[0], signal.SIGKILL), 75, ""),
    "agent": (lambda run: os.kill(now().hosts[0].pid, signal.SIGKILL), 75, "agent"),
    "raylet, seen late": (
        lambda run: kill_unseen(),
        75,
        "Ray's node beside rank 1 on {host} was lost: its raylet was killed by SIGKILL",
    ),
    "head's raylet": (
        lambda run: os.kill(part_of(now(), 0, "raylet"), signal.SIGKILL),
        75,
        "Ray's head node beside rank 0 on {host} was lost: its raylet was killed by SIGKILL",
    ),
    "control": (
        lambda run: os.kill(part_of(now(), 0, "gcs_server"), signal.SIGKILL),
        75,
        "Ray's head node beside rank 0 on {host} was lost: its gcs_server was killed by SIGKILL",
    ),
    "fail": (lambda run: None, 1, "rank 0 on {host} raised RuntimeError: bad luck"),
    "worker": (lambda run: None, 1, "RuntimeError: bad luck"),
}


def now() -> RunState:
    return read_state(last())


@pytest.mark.parametrize("ending", [*ENDINGS] * TRIES)
def test_nothing_is_left_after_the_end(
    env: Environment, targets: Path, tmp_path: Path, leaves_nothing: None, ending: str
) -> None:
    act, code, why = ENDINGS[ending]
    words: list[str | Path] = ["run", targets / "endless_ray.py", "-n", "2", "--python", env.python]

    with Foreground(*words, "--", ending, folder=tmp_path, env=env.variables) as run:
        run.await_line("2 workers are ready")
        act(run)
        ended = run.finish()

    state = now()
    assert code == ended, (state.why, run.narrated)
    assert why.format(host=state.ranks[0].host) in (state.why or "")
    if ending == "fail":
        assert {"r0", "r1"} == {line[:2] for line in run.printed if line.endswith(") ready")}
        assert service_page(state).startswith("http://127.0.0.2:")
