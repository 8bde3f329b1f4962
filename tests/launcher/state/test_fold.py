"""Which facts change a state, and that each has one handler."""

from __future__ import annotations

import importlib

import pytest

from launcher.state import events as ev
from launcher.state.fold import fold, fold_all, folded_kinds, folds
from launcher.state.ranks import FirstNotFinite
from launcher.state.run_state import RunState
from tests.launcher.diagnosis.gangs import gang

fold_module = importlib.import_module("launcher.state.fold")


@pytest.mark.parametrize("kind", [*ev.kinds(), ev.PartUnreadable, ev.Unrecognised], ids=lambda k: k.__name__)
def test_every_fact_is_folded_or_says_that_it_changes_nothing(kind: type[ev.Event]) -> None:
    assert kind.changes_state == (kind in folded_kinds())


def test_a_second_handler_of_a_fact_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_module, "_handlers", dict(fold_module._handlers))
    with pytest.raises(TypeError, match="RankExited has two handlers"):

        @folds(ev.RankExited)
        def _twice(state: RunState, _: ev.RankExited) -> RunState:
            return state


def test_the_first_figure_that_is_not_finite_is_kept_with_its_step() -> None:
    def reported(time: float, step: int | None, **metrics: float) -> ev.RankReported:
        return ev.RankReported(time=time, rank=0, step=step, metrics=metrics)

    sound = fold_all([*gang(2), reported(5.0, 1, loss=0.5)])
    state = fold(sound, reported(6.0, 2, loss=0.4, grad=float("inf")))
    state = fold(state, reported(7.0, 3, loss=float("nan"), grad=1.0))

    assert sound.ranks[0].not_finite is None
    assert FirstNotFinite(6.0, "grad", 2) == state.ranks[0].not_finite
    assert state.ranks[1].not_finite is None
