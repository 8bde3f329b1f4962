"""NaN and infinity among reported figures: whose, since when, and how that is told."""

from __future__ import annotations

import math

from console.data.run.figures import Figures
from console.data.run.health import Alarms, Alert, AlertInput, NotFinite, Soundness, named_ranks
from console.data.run.model import RunView
from console.data.run.progress import Past
from console.formatting import metric_style
from console.ui.run.charts import alarm_line
from console.ui.widgets.plots import plot_rows
from launcher.state import events as ev
from launcher.state.ranks import Rank, Ranks
from launcher.state.run_state import RunState


def report(rank: int, step: int | None, **metrics: float) -> ev.RankReported:
    return ev.RankReported(time=float(step or 0), rank=rank, step=step, metrics=metrics)


def test_the_first_step_is_kept_until_the_figure_is_finite_again() -> None:
    sound = Soundness()
    for fact in (report(1, 29, loss=2.0), report(1, 30, loss=math.nan), report(1, 31, loss=math.inf)):
        sound.reported(fact)
    assert {"loss": 30} == sound.of(1)
    assert ["loss is not finite since step 30 (rank 1)"] == [str(told) for told in sound.all]

    sound.reported(report(1, 32, lr=0.1))
    assert {"loss": 30} == sound.of(1)
    sound.reported(report(1, 33, loss=1.0))
    assert {} == sound.of(1)
    assert () == sound.all


def test_ranks_are_told_together_with_the_first_step() -> None:
    sound = Soundness()
    for rank, step in ((3, 31), (2, 30), (0, None)):
        sound.reported(report(rank, step, loss=math.nan))
    assert (NotFinite("loss", (0, 2, 3), 30),) == sound.all
    assert "loss is not finite since step 30 (ranks 0, 2-3)" == str(sound.all[0])
    assert "9 ranks" == named_ranks(range(0, 18, 2))
    assert "loss is not finite (rank 0)" == str(NotFinite("loss", (0,)))


def look(alarms: Alarms, now: float, since: dict[str, int | None]) -> list[Alert]:
    told = alarms.look(now, [AlertInput(1, Figures(), not_finite=since)])
    return [alert for alert in told if alert.over is None]


def test_it_alarms_at_once_and_is_over_when_all_has_been_well_for_a_while() -> None:
    alarms = Alarms()
    assert [] == look(alarms, 0, {})
    (alert,) = look(alarms, 1, {"loss": 30})
    assert ("loss", 1, 30) == (alert.figure, alert.rank, alert.step)
    assert 1 == len(look(alarms, 2, {}))
    (again,) = look(alarms, 3, {"loss": 33})
    assert 30 == again.step
    assert 1 == len(look(alarms, 4, {}))
    assert [] == look(alarms, 9, {})
    assert [9] == [alert.over for alert in alarms.alerts]


def test_an_earlier_step_is_told_when_it_is_found() -> None:
    alarms = Alarms()
    look(alarms, 1, {"loss": 90})
    (alert,) = look(alarms, 2, {"loss": 30})
    assert 30 == alert.step


def test_the_line_of_alerts_counts_and_names() -> None:
    alarms = Alarms()
    look(alarms, 1, {"loss": 30})
    assert " ! 1 alert: loss is not finite since step 30 (rank 1)" == "".join(
        text for text, _ in alarm_line(RunView(RunState(), 9.0, alerts=alarms.alerts))
    )


def test_a_course_has_gaps_and_goes_on() -> None:
    facts = [report(0, n, loss=v) for n, v in enumerate((1.0, math.inf, math.nan, 2.0))]
    state, past = RunState(ranks=Ranks.of([Rank(0, reported_at=1.0)])), Past()
    past.take(facts, state)
    drawn = past.progress(state, 9.0).curves["loss"]
    assert [1.0, None, None, 2.0] == [v if math.isfinite(v) else None for v in drawn]


def test_a_chart_names_the_last_figure_as_the_headline_does() -> None:
    state, past = RunState(ranks=Ranks.of([Rank(0, reported_at=1.0)])), Past()
    past.take([report(0, 1, loss=1.0), report(0, 2, loss=math.inf)], state)
    title = plot_rows("loss", past.progress(state, 9.0).curves["loss"], 40, 4)[0]
    assert ["inf"] == [text for text, style in title if style == metric_style(math.inf)]
