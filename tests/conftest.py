"""Fixtures that all tests share: a home of their own, and no trace of the developer's."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests import engines, survivors

pytest_plugins = ["tests.launcher.nvml_fixture", "tests.spark_fixtures", "tests.console.snapshot_fixture"]

# A change is judged by its own faults, so the examples are the same in every run; a soak draws new ones.
settings.register_profile("steady", derandomize=True)
if "RANKDECK_SOAK" not in os.environ:
    settings.load_profile("steady")

TARGETS = Path(__file__).parent / "targets"
_ESTIMATES_S = {
    "spark": 12.0,
    "frameworks": 8.0,
    "browser": 3.0,
    "terminal": 3.0,
    "process": 1.5,
    "asyncio": 0.4,
}


def pytest_configure() -> None:
    """Make what tests start behave as it does for users, whatever the shell that runs us has set.

    Signals work, of which a shell ignores some for what it runs in the background. And Python keeps compiled
    modules: else each rank, agent and Ray worker would compile all that it imports, which doubles its start.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A worker a core and one more for the whole suite, since much of it waits for processes; else none.

    Two a core would not end sooner: on two cores, four of them made Ray's own limit of 30 s too short.

    What was chosen by name runs in this process, and so do benchmarks: nothing may run beside them.
    """
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return len(os.sched_getaffinity(0)) + 1 if whole and "not bench" in config.option.markexpr else 0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the modules that take longest, so that all workers end together.

    A module that is begun last, and then takes ten minutes, keeps one worker busy and the others waiting.
    """
    total: dict[Path, float] = {}
    for item in items:
        total[item.path] = total.get(item.path, 0.0) + _estimate_s(item)
    items.sort(key=lambda item: (-total[item.path], item.path))


def _estimate_s(item: pytest.Item) -> float:
    """Roughly how long a test takes, in seconds: what it says itself, or what its kind usually does."""
    if (told := item.get_closest_marker("takes")) is not None:
        return float(told.args[0])
    kinds = {mark.name for mark in item.iter_markers()}
    return max((_ESTIMATES_S[kind] for kind in kinds & _ESTIMATES_S.keys()), default=0.05)


@pytest.fixture(autouse=True)
def interrupts() -> None:
    """Each test finds Python's own handler: a classic Spark session takes SIGINT, and keeps it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty RANKDECK_HOME for each test, whose engines end with it, and in which no pane failed."""
    folder = tmp_path / "home"
    monkeypatch.setenv("RANKDECK_HOME", str(folder))
    for name in (
        "NO_COLOR",
        "FORCE_COLOR",
        "SSH_CONNECTION",
        "SSH_TTY",
        "OMP_NUM_THREADS",
        "COLUMNS",
        "LINES",
    ):
        monkeypatch.delenv(name, raising=False)
    yield folder
    engines.end_all()
    failed = folder / "console.log"
    assert not failed.exists(), failed.read_text()


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A mark that everything started by the test inherits; nothing that carries it may outlive the test."""
    value = survivors.new_mark()
    monkeypatch.setenv(survivors.MARK, value)
    yield value
    engines.end_all()
    if (registry := sys.modules.get("launcher.backends.registry")) is not None:
        registry.OWN.close()
    assert survivors.gone(value, within=20, engines=True) == {}


@pytest.fixture
def targets() -> Path:
    """The folder of programs that tests launch."""
    return TARGETS


@pytest.fixture
def rankdeck() -> str:
    """The installed command."""
    command = Path(sys.executable).with_name("rankdeck")
    assert command.exists(), "install the project first: pip install -e ."
    return os.fspath(command)
