"""The console as a person meets it: the real command in a real pseudo terminal, from launch to result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pyte
import pytest

pytestmark = [pytest.mark.terminal, pytest.mark.process]

SIZES = [(80, 24), (120, 40), (200, 60)]
TRAIN = """
import sys, time
from launcher import report

def main(steps: int = 3, fail: bool = False):
    for step in range(steps):
        report(step=step, loss=1.0 / (step + 1))
        print(f"line of step {step}", flush=True)
        time.sleep(0.05)
    if fail:
        raise ValueError("it broke")
    return {"done": steps}
"""


class Terminal:
    """A terminal of a given size with a program in it, and what stands on its screen."""

    def __init__(
        self, command: str, *args: str, size: tuple[int, int], cwd: Path, env: dict[str, str]
    ) -> None:
        self.columns, rows = size
        self._screen = pyte.Screen(self.columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.received = b""
        self.child = pexpect.spawn(
            command, list(args), dimensions=(rows, self.columns), cwd=os.fspath(cwd), env=env, timeout=30
        )

    @property
    def text(self) -> str:
        """The screen."""
        return "\n".join(self._screen.display)

    def wait(self, condition: Callable[[str], object], what: str, limit_s: float = 60.0) -> str:
        """Read until the screen is so."""
        deadline = time.monotonic() + limit_s
        while not condition(self.text):
            assert time.monotonic() < deadline, f"never saw {what}:\n{self.text}"
            self._read()
        return self.text

    def until(self, *texts: str) -> str:
        """Read until all of these stand on the screen."""
        return self.wait(lambda screen: all(t in screen for t in texts), repr(texts))

    def press(self, keys: str) -> None:
        """Send keys."""
        self.child.send(keys)

    def move(self, key: str, times: int) -> None:
        """Send a key that moves the focus, each time when the move before is on the screen."""
        for _ in range(times):
            seen = len(self.received)
            self.child.send(key)
            self.wait(lambda _, seen=seen: len(self.received) > seen, "the focus move")  # type: ignore[misc]

    def exit_code(self) -> int | None:
        """Read to the end; the exit code."""
        while self._read():
            pass
        self.child.close()
        return int(self.child.exitstatus) if self.child.exitstatus is not None else -self.child.signalstatus

    def _read(self) -> bool:
        try:
            data = self.child.read_nonblocking(1 << 16, timeout=0.2)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.received += data
        # pyte takes a private mode it does not know for text
        self._stream.feed(data)
        return True


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a training in it."""
    place = tmp_path / "work"
    place.mkdir()
    (place / "train.py").write_text(TRAIN)
    return place


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment as in a plain terminal, with a temporary folder of its own."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {
        **os.environ,
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "TMPDIR": os.fspath(temporary),
        "PATH": path,
    }


@pytest.fixture
def demo(rankdeck: str, folder: Path, env: dict[str, str]) -> Iterator[Terminal]:
    """The demo, running."""
    terminal = Terminal(rankdeck, "demo", "--speed", "3", size=(80, 24), cwd=folder, env=env)
    terminal.until("running", "1 Ranks")
    yield terminal
    if terminal.child.isalive():
        terminal.child.close(force=True)


def restored(received: bytes) -> bool:
    """Whether the terminal was left as it was found: main screen, no mouse, a cursor."""
    end = received.rpartition(b"\x1b[?1049h")[2]
    return all(sequence in end for sequence in (b"\x1b[?1049l", b"\x1b[?1003l", b"\x1b[?25h"))


@pytest.mark.parametrize("size", SIZES)
def test_from_launch_to_result(
    rankdeck: str, folder: Path, env: dict[str, str], mark: str, size: tuple[int, int]
) -> None:
    terminal = Terminal(rankdeck, size=size, cwd=folder, env=env)
    terminal.until("1 New run", "2 Recent runs", "rankdeck run TARGET -n 1")
    terminal.press("\x06")
    terminal.until("train.py:main", "2 found")
    terminal.press("main\r")
    terminal.until("steps", "fail", "ready")
    terminal.press("4")
    terminal.until("rankdeck run train.py:main -n 1", "--param steps=4", "ready")
    terminal.move("\x1b[B", times=2)
    terminal.press("2")
    terminal.until("rankdeck run train.py:main -n 2", "--param steps=4", "ready")
    terminal.press("\x12")
    terminal.until("main", "2 ranks", "3 Logs")
    screen = terminal.until("succeeded", '{"done": 4}', "2/2 returned")
    assert max(map(len, screen.splitlines())) <= size[0]
    terminal.press("q")

    assert terminal.exit_code() == 0
    assert restored(terminal.received)


def test_a_failure_is_told_by_the_first_rank_and_its_line(
    rankdeck: str, folder: Path, env: dict[str, str], mark: str
) -> None:
    terminal = Terminal(rankdeck, size=(80, 24), cwd=folder, env=env)
    terminal.until("1 New run")
    terminal.press("train.py:main")
    terminal.until("steps", "ready")
    terminal.move("\x1b[B", times=3)
    terminal.press(" ")
    terminal.until("--param fail=True", "ready")
    terminal.press("\x12")
    terminal.until("raised ValueError", "it broke", "train.py:11 in main")
    terminal.press("q")

    assert terminal.exit_code() == 0


def test_leaving_a_live_run_says_how_to_come_back(
    rankdeck: str, folder: Path, env: dict[str, str], mark: str
) -> None:
    terminal = Terminal(rankdeck, size=(80, 24), cwd=folder, env=env)
    terminal.until("1 New run")
    terminal.press("train.py:main")
    terminal.until("steps", "ready")
    terminal.move("\x1b[B", times=2)
    terminal.press("9999")
    terminal.until("--param steps=9999", "ready")
    terminal.press("\x12")
    terminal.until("● running", "line of step")
    terminal.press("q")

    assert terminal.exit_code() == 0
    run = next((Path(env["RANKDECK_HOME"]) / "runs").iterdir()).name
    assert f"see it again with: rankdeck attach {run}".encode() in terminal.received
    stopped = subprocess.run([rankdeck, "stop", run], env=env, capture_output=True, text=True)
    assert stopped.returncode == 0, stopped.stderr


def test_leaving_the_demo_leaves_nothing(demo: Terminal, env: dict[str, str]) -> None:
    demo.press("q")

    assert demo.exit_code() == 0
    assert restored(demo.received)
    assert os.listdir(env["TMPDIR"]) == []


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["SIGTERM", "SIGHUP"]
)
def test_a_signal_leaves_the_terminal_as_it_was(
    demo: Terminal, env: dict[str, str], number: signal.Signals, code: int
) -> None:
    demo.child.kill(number)

    assert demo.exit_code() == code
    assert restored(demo.received)
    assert os.listdir(env["TMPDIR"]) == []


def test_a_terminal_that_goes_away_leaves_nothing(demo: Terminal, env: dict[str, str]) -> None:
    demo.child.ptyproc.fileobj.close()

    deadline = time.monotonic() + 20
    while demo.child.isalive():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert os.listdir(env["TMPDIR"]) == []


def test_a_resized_terminal_is_filled(demo: Terminal) -> None:
    assert "2 Rank" not in demo.text
    demo._screen.resize(40, 120)
    demo.child.setwinsize(40, 120)

    demo.until("1 Ranks", "2 Rank 0", "3 Logs", "4 Result")


def test_what_libraries_write_stays_off_the_screen_and_is_said_afterwards(
    env: dict[str, str], folder: Path
) -> None:
    code = (
        "import os, sys; from console.ui.rendering.terminal import quiet_descriptors\n"
        "with quiet_descriptors():\n"
        "    os.write(1, b'NOISE\\n'); os.write(2, b'MORE\\n')\n"
        "    sys.__stderr__.write('SCREEN\\n'); sys.__stderr__.flush()\n"
        "print('DONE')\n"
    )
    terminal = Terminal(sys.executable, "-c", code, size=(80, 24), cwd=folder, env=env)

    assert terminal.exit_code() == 0
    assert terminal.text.split() == ["SCREEN", "NOISE", "MORE", "DONE"]
