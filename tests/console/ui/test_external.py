"""Programs that the console starts: which it may start, what they get, and that the console is back after."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from console.app import RankdeckApp
from console.demo import record_demo
from console.ui import external
from console.ui.launch.screen import LaunchScreen

if TYPE_CHECKING:
    from tests.console.conftest import FakeCommands, Until


class Counted:
    """How often the app was suspended and resumed, as Textual does it: an exception leaves it suspended."""

    suspensions = resumptions = 0

    @contextmanager
    def suspend(self) -> Iterator[None]:
        self.suspensions += 1
        yield
        self.resumptions += 1


@pytest.fixture
def app(root: Path, project: Path, commands: FakeCommands) -> RankdeckApp:
    return RankdeckApp(root=root, workdir=project, commands=commands)


@pytest.fixture
def counted(app: RankdeckApp, monkeypatch: pytest.MonkeyPatch) -> Counted:
    counted = Counted()
    monkeypatch.setattr(app, "suspend", counted.suspend)
    return counted


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The near end of a pseudo terminal that stands for the console's own."""
    near, far = os.openpty()
    monkeypatch.setattr(external, "TERMINAL", os.ttyname(far))
    yield near
    os.close(near)
    os.close(far)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([sys.executable, "-c", "pass"], None),
        ([sys.executable, "-c", "raise SystemExit(3)"], "ended with exit code 3"),
        ([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], "was ended by SIGKILL"),
        (["/no/such/editor"], "cannot start editor: No such file"),
        (["vi", "a\0b"], "cannot start vi: embedded null byte"),
        ([], "cannot start an empty command"),
    ],
)
@pytest.mark.usefixtures("terminal")
def test_the_console_is_back_however_the_program_ends(
    app: RankdeckApp, counted: Counted, argv: list[str], said: str | None
) -> None:
    before = signal.getsignal(signal.SIGINT)

    outcome = external.run_in_terminal(app, argv)

    assert (outcome is None) == (said is None)
    assert (said or "") in (outcome or "")
    assert (counted.suspensions, counted.resumptions) == (1, 1)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.usefixtures("counted")
def test_an_argument_stays_one_argument_and_the_program_has_the_terminal(
    app: RankdeckApp, terminal: int, tmp_path: Path
) -> None:
    program = "import os, sys; print(os.isatty(0), os.isatty(1), os.isatty(2), os.getcwd(), *sys.argv[1:])"

    assert (
        external.run_in_terminal(app, [sys.executable, "-c", program, "$(id); 'a b'"], cwd=tmp_path) is None
    )
    assert f"True True True {tmp_path} $(id); 'a b'" in os.read(terminal, 1 << 16).decode()


def test_without_a_terminal_that_is_said(
    app: RankdeckApp, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external, "TERMINAL", "/no/tty")

    assert "cannot start vi" in (external.run_in_terminal(app, ["vi"]) or "")
    assert counted.resumptions == 1


async def test_a_run_from_elsewhere_and_a_page_in_a_browser_start_nothing(
    app: RankdeckApp, root: Path, tmp_path: Path, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, foreign = record_demo(root, seconds=5), record_demo(tmp_path / "elsewhere", seconds=5)
    linked = root / foreign.name.replace("0de", "0df")
    linked.symlink_to(foreign)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))

        assert external.may_run(app, None) == external.may_run(app, own) == ""
        assert external.may_run(app, foreign) == external.may_run(app, linked) == external.FOREIGN
        monkeypatch.setattr(type(app), "is_web", property(lambda _: True))
        assert external.may_run(app, None) == external.may_run(app, own) == external.IN_A_PAGE
