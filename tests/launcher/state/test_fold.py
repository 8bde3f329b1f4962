"""Which facts change a state, and that each has one handler."""

from __future__ import annotations

import importlib

import pytest

from launcher.state import events as ev
from launcher.state.fold import folded_kinds, folds
from launcher.state.run_state import RunState

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
