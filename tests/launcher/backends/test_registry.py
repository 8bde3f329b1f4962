"""One factory for the library and the engine, a row a mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.backends.local import LocalBackend
from launcher.backends.registry import FACTORIES, SharedResources, make_backend
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.request import Request


@pytest.fixture
def shared(tmp_path: Path) -> SharedResources:
    return SharedResources(max_local_runs=2, session_log=tmp_path / "spark.log", session_idle_s=60.0)


def test_every_mode_has_a_factory() -> None:
    assert set(Mode) == FACTORIES.keys()


@pytest.mark.parametrize("mode", Mode)
def test_a_backend_plans_ahead_if_and_only_if_its_row_says_so(tmp_path: Path, mode: Mode) -> None:
    spec = JobSpec(Target(TargetKind.SCRIPT, "train.py"), mode=mode, workdir=str(tmp_path))
    backend = make_backend(mode)
    try:
        offers, _ = backend.offers(Request(spec, environ={}))
    finally:
        backend.close(0.0)
    assert mode.traits.plans_ahead == (offers is not None)


def test_what_an_engine_keeps_is_made_when_it_is_needed(shared: SharedResources) -> None:
    make_backend(Mode.LOCAL, shared).close(0.0)
    assert {"slots": {"local_runs": 0, "of": 2}, "session": None, "zygotes": []} == shared.describe()

    make_backend(Mode.CONNECT, shared).close(0.0)
    sessions = shared.sessions
    make_backend(Mode.CLUSTER, shared).close(0.0)
    assert sessions is shared.sessions
    assert None is shared.describe()["session"]
    shared.close_idle()
    shared.close()


def test_runs_of_one_engine_share_its_turns(shared: SharedResources) -> None:
    backend = make_backend(Mode.LOCAL, shared)
    assert isinstance(backend, LocalBackend)
    turn = shared.run_queue.take(lambda: None)
    assert 1 == shared.describe()["slots"]["local_runs"]
    turn.give_back()
    backend.close(0.0)
