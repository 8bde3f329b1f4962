"""Each pane over a link of 300 ms: no second round trip, few bytes, silence. Run with ``pytest -m bench``."""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from console.demo import RECORDED_AT, record_demo
from launcher.runs.catalog import new_id
from launcher.runs.paths import runs_root
from tests.bench.distant import Distant
from tests.bench.ledger import compared, record
from tests.bench.typist import Answer, Typist

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

RANKDECK = str(Path(sys.executable).with_name("rankdeck"))
DELAY_S, SIZE, KEYS, QUIET_S, SILENCE_S = 0.150, (40, 120), 12, 0.6, 2.0
ROUND_TRIPS = 1.25
"""A second round trip would nearly double a key's time; the rest is for a machine that others use too."""
DOWN, UP, LEFT, RIGHT, HOME, DEL = "\x1b[B", "\x1b[A", "\x1b[D", "\x1b[C", "\x1b[H", "\x7f"
BAR, JUMP, HISTORY = "\x10", "\x0f", "\x1bOQ"
ASKED = re.compile(rb"\x1b\[\??[\d;]*\$p|\x1b\[\??[56]n|\x1b\[[>=?]?\d*c|\x1b\[\?u|\x1b\]\d+;\?")
"""What a program writes to be answered by its terminal."""


@dataclass(frozen=True, slots=True)
class Pane:
    """How it is opened, the keys that move in it in turn, and the most bytes that the median key may cost."""

    opened: Sequence[str]
    keys: Sequence[str]
    most: int


PANES = {
    "curves in full: zoom and pan": Pane(("c", "+", "+"), ("<", ">", "+", "-"), 8_000),
    "pane of curves: zoom": Pane(("5", "z"), ("+", "-"), 8_000),
    "pane of devices: another rank": Pane(("6",), (DOWN, UP), 2_000),
    "map of devices: another rank": Pane(("6", "z"), (DOWN, UP), 2_500),
    "filter of ranks: a character": Pane(("1", "f", *"gpu>9"), ("5", DEL), 14_000),
    "time travel: a second": Pane(("t", HOME, *[RIGHT] * 20), (RIGHT, LEFT), 8_000),
    "command bar: a character": Pane((BAR, "r"), ("a", DEL), 16_000),
    "jump mode: open, and go": Pane(("1",), (JUMP, "s", JUMP, "a"), 56_000),
    "help: scroll": Pane(("?",), (DOWN, UP), 9_000),
    "history: another run": Pane((HISTORY,), (DOWN, UP), 4_000),
}
"""Curves cost 8 kB at most. A cursor costs the rows that it leaves and enters and what is told of them; a
filter, the bar and help cost the lines that they list anew, up to all of them; jump mode the whole screen,
which it dims and brings back."""


def opened(typist: Typist, pane: Pane) -> None:
    typist.until("Ranks")
    typist.settle(quiet=1.0)
    for key in pane.opened:
        typist.press(key, QUIET_S)
    typist.settle(quiet=1.0)


@pytest.mark.parametrize("name", PANES)
def test_a_pane_over_a_link_needs_one_round_trip_a_key(home: Path, name: str) -> None:
    pane = PANES[name]
    failed = record_demo(runs_root(), ranks=64, seconds=60, fail=True)
    failed.rename(failed.with_name(new_id(RECORDED_AT - 9_000, "fa1")))
    record_demo(runs_root(), ranks=64, seconds=60)
    command = [RANKDECK, "attach", "last"]
    told: list[tuple[Answer, Answer]] = []
    with Distant(command, delay=DELAY_S, size=SIZE) as far, Typist(command, size=SIZE) as near:
        opened(far, pane)
        opened(near, pane)
        idle = far.settle(quiet=SILENCE_S, within=SILENCE_S)
        begun = len(far.link.shown)
        for number in range(KEYS):
            key = pane.keys[number % len(pane.keys)]
            told.append((far.press(key, QUIET_S), near.press(key, QUIET_S)))
        asked = ASKED.findall(bytes(far.link.shown[begun:]))
    sizes = [answer.size for answer, _ in told]
    median, most = statistics.median(sizes) / 1000, max(sizes) / 1000
    result = compared([(ours.settled, theirs.settled + 2 * DELAY_S) for ours, theirs in told])
    said = f"no link, and 300 ms; {median:.1f} kB a key, most {most:.1f} kB"
    record(f"link of 300 ms, 120x40, {name}, key to quiet", said, result, bound=ROUND_TRIPS)

    assert 0 == idle
    assert [] == asked
    assert min(sizes) > 0, "each key shows something"
    assert result.ratio <= ROUND_TRIPS
    assert median * 1000 <= pane.most
