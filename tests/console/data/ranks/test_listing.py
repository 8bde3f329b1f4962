"""Which ranks are listed, and in which order: filters, columns, and rows that do not jump."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from console.data.ranks.columns import (
    USUAL,
    chosen_columns,
    column_of,
    rank_columns_problem,
    usual_columns,
)
from console.data.ranks.filter import HELP, parse_rank_filter
from console.data.ranks.listing import CALM_S, RankLister, RankQuery, worst_column
from console.data.run.figures import Figures
from console.data.run.health import Condition
from console.data.run.metrics import MEMORY, RSS, TEMPERATURE, UTIL, Metric
from console.data.run.model import RankView
from launcher.errors import SpecError
from launcher.spec.places import Device
from launcher.state.ranks import Rank, RankPhase

GIB = 1 << 30
REPORTED = frozenset({"loss", "val/acc", "step"})


def view(rank: int, amounts: Mapping[Metric, float] | None = None, **known: Any) -> RankView:
    shown: dict[str, Any] = {"condition": Condition.OK, "device": "H100 #0"}
    shown |= {name: known.pop(name) for name in ("condition", "log_age") if name in known}
    known.setdefault("phase", RankPhase.RUNNING)
    return RankView(Rank(rank=rank, **known), figures=Figures(amounts or {}, {MEMORY: 80.0 * GIB}), **shown)


RANKS = (
    view(0, {UTIL: 90.0, MEMORY: 70.0 * GIB, RSS: 2.0 * GIB}, host="node-1", step=100, pid=7,
         metrics={"loss": 2.0, "val/acc": 0.5}, devices=(Device(0, "GPU-aa", "H100"),)),
    view(1, {UTIL: 40.0, MEMORY: 75.0 * GIB, RSS: 9.0 * GIB}, host="node-10", step=90,
         metrics={"loss": math.nan, "step": 5.0}, condition=Condition.BEHIND),
    view(2, {UTIL: 95.0, TEMPERATURE: 90.0}, host="node-3", step=101, metrics={"loss": 3.5}, log_age=200),
    view(3, host="node-3", phase=RankPhase.FAILED, condition=Condition.FAILED, metrics={"loss": math.inf}),
)  # fmt: skip


def listed(
    text: str = "", order: str = "", *, reverse: bool = False, ranks: Sequence[RankView] = RANKS
) -> str:
    query = RankQuery(parse_rank_filter(text, REPORTED), column_of(order) if order else None, reverse)
    made = RankLister().arrange(ranks, query=query, now=0.0, live=False)
    assert [made.place(v.rank.rank) for v in made.ranks] == list(range(len(made.ranks)))
    return "".join(str(v.rank.rank) for v in made.ranks)


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("", "0123"),
        ("state:failed", "3"),
        ("state:running", "02"),
        ("state:b,f", "13"),
        ("!state:failed gpu<50", "1"),
        ("gpu>=90", "02"),
        ("util>90%", "2"),
        ("mem>90%", "1"),
        ("rss>8G", "1"),
        ("rss>2GiB", "1"),
        ("temp>85C", "2"),
        ("host:node-3", "23"),
        ("host:node-1", "01"),
        ("host:node-?", "023"),
        ("step<100", "1"),
        ("rank:0-1,3", "013"),
        ("rank:2-", "2"),
        ("rank>1", "23"),
        ("log_age>3m", "2"),
        ("loss>3", "2"),
        ("LOSS>3", "2"),
        ("loss:nan", "1"),
        ("loss:inf", "3"),
        ("val/acc>0.4", "0"),
        ("metric.step<9", "1"),
        ("device:gpu-aa", "0"),
        ("h100 node-3", "23"),
        ("failed", "3"),
        ("gpu<", "0123"),
        ("nothing-like-it", ""),
    ],
)  # fmt: skip
def test_ranks_that_pass_every_term_are_listed(text: str, ranks: str) -> None:
    assert ranks == listed(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("foo>3", "no rank has a figure 'foo': there are loss, step, val/acc, rank"),
        ("los>3", "did you mean loss?"),
        ("foo:3", "no rank has a field 'foo': there are state, host, rank, device"),
        ("state:x", "state: takes done, running"),
        ("rank:a", "rank: takes ranks such as 0-7,12, not 'a'"),
        ("gpu>much", "a figure is compared with a number, such as gpu>75, not 'much'"),
        ("rss>x", "a figure is compared with a number"),
        ("metric.gone<1", "no rank has a figure 'metric.gone'"),
    ],
)
def test_what_means_nothing_is_said_with_what_there_is(text: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        parse_rank_filter(text, REPORTED)
    assert "state:failed" in HELP


@pytest.mark.parametrize(
    ("order", "ranks"),
    [
        ("", "0123"),
        ("rank", "0123"),
        ("state", "3102"),
        ("gpu", "2013"),
        ("mem", "1023"),
        ("step", "2013"),
        ("host", "0231"),
        ("loss", "2013"),
        ("log_age", "2013"),
        ("pid", "0123"),
    ],
)
def test_a_column_sorts_with_the_unknown_last(order: str, ranks: str) -> None:
    assert ranks == listed(order=order)


def test_the_other_direction_is_that_of_all_known_values() -> None:
    assert "3210" == listed(reverse=True)
    assert "1023" == listed(order="gpu", reverse=True)
    assert "1230" == listed(order="host", reverse=True)


def moved(step: float, *, at: int = 0, ranks: Sequence[RankView] = RANKS) -> tuple[RankView, ...]:
    """The same ranks, one of which has another GPU figure."""
    amounts = {**ranks[at].figures.amounts, UTIL: ranks[at].figures.amounts[UTIL] + step}
    return (
        *ranks[:at],
        replace(ranks[at], figures=replace(ranks[at].figures, amounts=amounts)),
        *ranks[at + 1 :],
    )


def order_of(
    lister: RankLister, ranks: Sequence[RankView], query: RankQuery, now: float, *, live: bool = True
) -> str:
    made = lister.arrange(ranks, query=query, now=now, live=live)
    assert [ranks[v.rank.rank] is v for v in made.ranks] == [True] * len(made.ranks), "the newest figures"
    return "".join(str(v.rank.rank) for v in made.ranks)


def test_rows_stay_for_some_seconds_and_move_only_for_more_than_noise() -> None:
    lister, query = RankLister(), RankQuery(column=column_of("gpu"))
    much, little = moved(20.0, at=1, ranks=moved(-80.0)), moved(4.0, at=0, ranks=moved(2.0))

    assert "2013" == order_of(lister, RANKS, query, 10.0)
    assert "2013" == order_of(lister, much, query, 10.0 + CALM_S - 1)
    assert "2103" == order_of(lister, much, query, 10.0 + CALM_S)
    lister = RankLister()
    order_of(lister, RANKS, query, 10.0)
    assert "2013" == order_of(lister, little, query, 90.0), "96 % and 95 % are as 90 % and 95 % before"
    assert "0213" == order_of(lister, little, query, 91.0, live=False), "at the end it is exact"


def test_what_a_person_asks_for_is_listed_at_once() -> None:
    lister, query = RankLister(), RankQuery(column=column_of("gpu"))
    order_of(lister, RANKS, query, 10.0)

    assert "1023" == order_of(lister, RANKS, replace(query, reverse=True), 10.0)
    assert "21" == order_of(lister, RANKS, replace(query, filter=parse_rank_filter("rank:1-2")), 10.0)
    fewer = RANKS[:2]
    assert "1" == order_of(lister, fewer, replace(query, filter=parse_rank_filter("rank:1-2")), 10.0)


def test_a_state_is_listed_at_once() -> None:
    lister, query = RankLister(), RankQuery(parse_rank_filter("state:failed"))
    later = (replace(RANKS[0], condition=Condition.FAILED), *RANKS[1:])

    assert "3" == order_of(lister, RANKS, query, 10.0)
    assert "03" == order_of(lister, later, query, 10.5)


def test_steps_that_all_rise_move_no_rank() -> None:
    lister, query = RankLister(), RankQuery(column=column_of("step"))
    ranks = [view(rank, step=100 + rank % 2) for rank in range(4)]

    first = order_of(lister, ranks, query, 0.0)
    for second in range(10, 60, 10):
        ranks = [view(rank, step=100 + second + (rank + second // 10) % 2) for rank in range(4)]
        assert first == order_of(lister, ranks, query, float(second))
    ranks[0] = view(0, step=100)
    assert "0" == order_of(lister, ranks, query, 99.0)[-1], "a rank that stays behind does"


def test_the_worst_come_first_as_before() -> None:
    made = RankLister().arrange(RANKS, query=RankQuery(column=worst_column(UTIL)), now=0.0, live=True)
    assert [3, 1, 0, 2] == [v.rank.rank for v in made.ranks]


def test_no_rank_is_a_list_too() -> None:
    for order in ("", *USUAL, "loss"):
        assert "" == listed("gpu>3", order, ranks=())


# --- columns


def test_names_without_an_end_are_told_in_a_sentence_with_one() -> None:
    many = frozenset(f"{n}{'x' * 16384}" for n in range(99))
    with pytest.raises(SpecError) as caught:
        parse_rank_filter("y" * 16384 + ">3", many)
    assert len(str(caught.value)) < 2000


def test_columns_are_chosen_by_name_and_left_out_from_the_end() -> None:
    columns = chosen_columns(["rank", "loss", "GPU", "util", "step", "memory"], devices=True)

    assert ["loss", "gpu", "gpu", "step", "mem"] == [c.name for c in columns]
    assert [5, 4, 3, 2, 1] == [c.keep for c in columns]
    assert ["loss", "step"] == [c.name for c in chosen_columns(["loss", "gpu", "step"], devices=False)]


def test_a_reported_figure_is_a_column() -> None:
    loss, own = column_of("loss"), column_of("metric.step")

    assert ["2", "nan", "3.5", "inf"] == [loss.text(v) for v in RANKS]
    assert [2.0, None, 3.5, None] == [loss.value(v) for v in RANKS]
    assert ("–", "5") == (own.text(RANKS[0]), own.text(RANKS[1]))
    assert column_of("loss") is loss, "one column for one name"


def test_a_hostile_name_is_a_harmless_head() -> None:
    column = column_of("lo\x1b]0;x\x07ss\n" * 4000)
    assert column.title.isprintable()
    assert column.width <= 16


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ("loss", "must be a list of names in quotes, not 'loss'; there are rank, state, chart"),
        ([1], "must be a list of names in quotes"),
        ([], "must name a column"),
        ([""], "has a column without a usable name"),
        (["a\x1b"], "has a column without a usable name"),
        (["x" * 65], "has a column without a usable name"),
        (["loss", "loss"], "has loss twice"),
        (["stpe"], "has no column 'stpe'; did you mean step? there are rank"),
        (["loss", "metric.steps", "GPU", "util", "memory", "grad_norm"], None),
        (list(USUAL), None),
    ],
)
def test_columns_are_checked(names: object, why: str | None) -> None:
    problem = rank_columns_problem(names)
    assert problem is None if why is None else why in (problem or "")


def test_the_usual_columns_are_those_of_the_settings() -> None:
    names = [c.name for c in usual_columns(devices=True, charted=UTIL, hosts=False)]
    assert ["rank", *names] == list(USUAL)
