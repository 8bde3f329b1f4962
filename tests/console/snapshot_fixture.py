"""Pictures that were looked at and kept: a pytest plugin, loaded by name.

`pytest --update-snapshots` keeps what is shown now. Look at the diff before you commit it.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.console.pictures import picture

if TYPE_CHECKING:
    from textual.app import App
    from textual.pilot import Pilot

FOLDER = Path(__file__).with_name("snapshots")
LIMIT_S, PATIENCE_S, SETTLED_S, LOOK_S = 60.0, 15.0, 3.0, 0.05


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-snapshots", action="store_true", help="keep what the screens show now")


class Album:
    """The pictures that are kept, a file each."""

    def __init__(self, folder: Path, *, update: bool, patience: float = PATIENCE_S) -> None:
        self._folder, self._update = folder, update
        self._patience = SETTLED_S if update else patience

    async def check(self, name: str, app: App[int], pilot: Pilot[int]) -> None:
        """Wait until the app looks as in the picture; fail with what differs when it never does."""
        path = self._folder / f"{name}.txt"
        kept = path.read_text(encoding="utf-8") if path.exists() else None
        patience = SETTLED_S if kept is None else self._patience
        shown = await settled(lambda shown: shown == kept, app, pilot, patience)
        if shown == kept:
            return
        if self._update:
            path.write_text(shown, encoding="utf-8")
        else:
            pytest.fail(f"{path.name}: {difference(kept, shown)}", pytrace=False)


async def settled(right: Callable[[str], bool], app: App[int], pilot: Pilot[int], patience: float) -> str:
    """The picture when it is right, or else when it has not changed for `patience` seconds."""
    shown, since = "", time.monotonic()
    deadline = since + LIMIT_S
    while not right(now := picture(app)) and time.monotonic() < deadline:
        if now != shown:
            shown, since = now, time.monotonic()
        elif time.monotonic() - since > patience:
            break
        await pilot.pause(LOOK_S)
    return now


def difference(kept: str | None, shown: str) -> str:
    """What differs, for a person who wants to know whether that is right."""
    if kept is None:
        return f"no such picture is kept; pytest --update-snapshots keeps this one:\n{shown}"
    lines = difflib.unified_diff(kept.splitlines(), shown.splitlines(), "kept", "shown", n=1, lineterm="")
    return "differs; pytest --update-snapshots keeps what is shown:\n" + "\n".join(lines)


@pytest.fixture
def album(request: pytest.FixtureRequest) -> Album:
    """The pictures of this project's screens."""
    return Album(FOLDER, update=request.config.getoption("--update-snapshots"))
