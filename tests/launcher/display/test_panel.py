"""What a notebook shows of a run: bounded, escaped, and with the failing ranks first."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from launcher.display.html import html_of, text_of
from launcher.display.panel import ROWS, TAIL, Paces, Panel, duration, panel_of
from launcher.display.waits import new_waits
from launcher.spec.places import Device
from launcher.state import events as ev
from launcher.state.ranks import Rank, RankPhase, Ranks
from launcher.state.run_state import Host, Phase, RunState

EVIL = "<script>alert('x')</script>\x1b[2J\x00&\"\u202e"


def run_of(size: int, **fields: Any) -> RunState:
    ranks = Ranks.of(
        Rank(i, RankPhase.RUNNING, host=f"node{i // 8}.example", agent=i // 8, started=0.0)
        for i in range(size)
    )
    state = RunState(id="20260101-000000-abcdef", name="train", mode="cluster", phase=Phase.RUNNING)
    return replace(
        state, **{"num_processes": size, "requested": size, "ranks": ranks, "started": 100.0, **fields}
    )


def with_rank(state: RunState, number: int, **fields: Any) -> RunState:
    return replace(state, ranks=state.ranks.changed([replace(state.ranks[number], **fields)]))


def panel(state: RunState, tail: tuple[str, ...] = (), paces: Paces | None = None) -> Panel:
    return panel_of(state, now=173.5, paces=paces or Paces(), tail=tail)


class Page(HTMLParser):
    """The tags, attributes and text of a page; fails if tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert [] == self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag == self._open.pop()

    def handle_data(self, data: str) -> None:
        self.text += data


def test_few_ranks_each_have_a_row_with_their_figures() -> None:
    gpu = Device(index=3, uuid="G", name="H100")
    state = run_of(2, hosts={0: Host(0, "node0", devices={"G": sample()})})
    state = with_rank(state, 0, devices=(gpu,), step=40, reported_at=170.0, metrics={"total_steps": 100.0})
    state = with_rank(state, 1, sample=ev.RankSample(rank=1, cpu=98.6, rss=3 << 30))
    first, second = panel(state).rows

    assert ("0", "running", "node0", "40", "", "GPU 3: 87 %", "40.0 GiB of 80.0 GiB") == first.cells
    assert ("1", "running", "node0", "", "", "CPU 99 %", "3.0 GiB") == second.cells


def sample(**fields: Any) -> ev.DeviceSample:
    return ev.DeviceSample(
        uuid="G", **{"util": 87.0, "memory_used": 40 << 30, "memory_total": 80 << 30, **fields}
    )


def test_what_a_sensor_does_not_know_is_no_zero() -> None:
    gpu = Device(index=0, uuid="G")
    nothing = sample(util=None, memory_used=None)
    state = run_of(3, hosts={0: Host(0, "node0", devices={"G": nothing})})
    state = with_rank(with_rank(state, 0, devices=(gpu,)), 1, devices=(Device(1, "gone"),))
    state = with_rank(state, 2, sample=ev.RankSample(rank=2, cpu=math.nan))

    assert [("GPU 0", ""), ("GPU 1", ""), ("", "")] == [(r.usage, r.memory) for r in panel(state).rows]


def test_progress_has_the_time_that_is_left() -> None:
    paces, state = Paces(), run_of(1)
    for second in range(11):
        metrics = {"total_steps": 100.0, "loss": 0.51234567}
        state = with_rank(state, 0, step=second * 4, reported_at=100.0 + second, metrics=metrics)
        paces.observe(state)
    made = panel(state, paces=paces)

    assert 0.4 == made.done
    assert "step 40 of 100 · 0:00:15 left · loss 0.5123" == made.progress
    assert "4" == made.rows[0].pace
    assert ("train", "running", "1 rank", "cluster", "0:01:13", state.id) == made.head


@pytest.mark.parametrize("total", [math.nan, math.inf, -1.0, 0.0])
def test_a_total_that_is_none_gives_no_bar(total: float) -> None:
    state = with_rank(run_of(1), 0, step=4, reported_at=1.0, metrics={"total_steps": total})

    assert (None, "step 4") == (panel(state).done, panel(state).progress)
    assert "width" not in html_of(panel(state))


def test_more_steps_than_the_total_fill_the_bar() -> None:
    state = with_rank(run_of(1), 0, step=400, reported_at=1.0, metrics={"total_steps": 100.0})

    assert 1.0 == panel(state).done
    assert "width:100.0%" in html_of(panel(state))


def test_a_restart_forgets_the_pace() -> None:
    paces, state = Paces(), run_of(1)
    for step, time in ((1, 1.0), (5, 2.0)):
        paces.observe(with_rank(state, 0, step=step, reported_at=time))
    assert 4.0 == paces.of(0)
    paces.observe(with_rank(replace(state, attempt=1), 0, step=1, reported_at=3.0))

    assert paces.of(0) is None


def test_of_many_ranks_the_failing_ones_come_first_and_the_rest_is_counted() -> None:
    state = run_of(1024, blamed=700)
    for rank in (3, 700, 900):
        state = with_rank(
            state, rank, phase=RankPhase.FAILED, exit_code=1, signal="SIGKILL" if rank == 3 else None
        )
    state = with_rank(state, 800, phase=RankPhase.LOST)
    for rank in range(10, 1024):
        state = with_rank(state, rank, step=3 if rank == 1000 else 50)
    made = panel(state, tail=("x" * 10_000,) * 5000)

    assert [700, 3, 900, 800, 1000, 0, 1] == [row.rank for row in made.rows[:7]]
    assert ["failed (exit 1)", "failed (SIGKILL)"] == [row.state for row in made.rows[:2]]
    assert (ROWS, "1,000 more: 1,000 running") == (len(made.rows), made.rest)
    assert TAIL == len(made.tail)
    assert len(html_of(made)) < 25_000
    assert len(text_of(made)) < 10_000


def test_everything_is_escaped_and_there_is_nothing_but_text() -> None:
    state = run_of(2, why=EVIL, target=EVIL, notes=(ev.NoteMade(time=0.0, text=EVIL),))
    state = replace(state, name=EVIL, mode=EVIL, phase=Phase.FAILED, ended=150.0, exit_code=3)
    state = with_rank(state, 0, host=EVIL, step=1, reported_at=1.0, metrics={EVIL: 1.0}, signal=EVIL)
    state = with_rank(state, 0, phase=RankPhase.FAILED)
    page = Page(html_of(panel(state, tail=("r0 | <img src=x onerror=alert(1)>",))))

    assert {"div", "b", "table", "thead", "tbody", "tr", "th", "td", "pre", "code"} == set(page.tags)
    assert {"style"} == page.attributes
    assert "r0 | <img src=x onerror=alert(1)>" in page.text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", page.text)


def test_a_run_that_waits_says_for_what() -> None:
    state = replace(run_of(0, requested=8), phase=Phase.WAITING)
    waiting = ev.SlotsAwaited(time=0.0, have=5, need=8, limit_s=600.0, reason="3 busy")
    made = panel(replace(state, waiting=waiting))

    assert ("waiting for slots: 5 of 8, at most 600 s 3 busy",) == made.lines
    assert "0 ranks" not in text_of(made)


def test_an_end_says_why_and_where_the_rest_is() -> None:
    state = run_of(1, why="rank 0 raised", exit_code=3, ended=150.0)
    made = panel(replace(state, phase=Phase.FAILED))

    assert ("failed: rank 0 raised (exit 3)",) == made.lines
    assert f"rankdeck logs {state.id}" == made.command
    assert f"rankdeck attach {state.id}" == panel(replace(state, phase=Phase.RUNNING)).command
    assert "0:00:50" in made.head


@pytest.mark.parametrize("seconds", [math.inf, math.nan, 1e300, None])
def test_a_duration_that_no_clock_shows_is_empty(seconds: float | None) -> None:
    assert "" == duration(seconds)


def test_plain_text_says_the_same() -> None:
    state = with_rank(run_of(1), 0, step=4, reported_at=1.0, metrics={"loss": 1.0})

    assert [
        f"train · running · 1 rank · cluster · 0:01:13 · {state.id}",
        "step 4 · loss 1",
        "rank  state    host   step  steps/s  GPU or CPU  memory",
        "0     running  node0  4",
        "r0 | hello",
    ] == text_of(panel(state, tail=("r0 | hello",))).splitlines()


def test_ranks_that_wait_for_rows_are_told_once() -> None:
    quiet = run_of(3)
    waiting = with_rank(quiet, 1, awaits_rows=0)
    more = with_rank(with_rank(waiting, 2, awaits_rows=12_000), 0, phase=RankPhase.SUCCEEDED, awaits_rows=5)

    assert ["waiting for rows of the DataFrame"] == list(new_waits(quiet, waiting))
    assert [] == list(new_waits(waiting, more))
    assert [] == list(new_waits(more, quiet))
    assert "1 of 3 ranks waits for rows of the DataFrame" in panel(waiting).lines
    assert "2 of 3 ranks wait for rows of the DataFrame, after 12,000" in panel(more).lines


def test_ranks_that_wait_for_their_logs_are_named() -> None:
    quiet = run_of(3)
    one = with_rank(quiet, 2, awaits_log=True)
    two = with_rank(one, 0, awaits_log=True)
    told = "rank 2 waits for its log: more is written than the disk or the network takes"

    assert [told] == list(new_waits(quiet, one))
    assert [] == list(new_waits(one, two))
    assert told in panel(one).lines
    assert any(line.startswith("ranks 0 and 2 wait for their logs:") for line in panel(two).lines)
    assert not any("log" in line for line in panel(with_rank(one, 2, phase=RankPhase.FAILED)).lines)
