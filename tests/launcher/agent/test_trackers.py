"""Trackers that a rank's own code writes to: each record is reported once, and nothing of it is disturbed."""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from launcher.agent import import_hooks, rank_main, rank_pipe, trackers
from launcher.agent.rank_pipe import RankPipe

MLFLOW = """
from types import SimpleNamespace
class MlflowClient:
    def __init__(self, tracking_uri="http://tracking:5000"):
        self.tracking_uri = tracking_uri
    def create_run(self, experiment_id):
        return SimpleNamespace(info=SimpleNamespace(run_id="abc", experiment_id=experiment_id))
"""
FLUENT = """
from mlflow.tracking.client import MlflowClient
store = "http://tracking:5000"
def get_tracking_uri():
    return store
def start_run(experiment_id="7"):
    if experiment_id == "none":
        raise RuntimeError("no such experiment")
    return MlflowClient(store).create_run(experiment_id)
"""
WANDB = """
class Run:
    id, project, dir = "4jc4", "vision", "/w/wandb/run-4jc4/files"
    def __init__(self, mode):
        self.disabled, self.offline = mode == "disabled", mode == "offline"
    @property
    def url(self):
        assert not self.offline, "an offline run prints a warning when it is asked for its page"
        return "https://user:hunter22@wandb.example/vision/runs/4jc4"
def init(mode="online"):
    return Run(mode)
"""
WRITER = """
class SummaryWriter:
    def __init__(self, log_dir):
        self.log_dir = log_dir
class Derived(SummaryWriter):
    def __init__(self):
        super().__init__("runs/derived")
"""
FILES = {
    "mlflow/__init__.py": "from mlflow.tracking.fluent import get_tracking_uri, start_run\n",
    "mlflow/tracking/__init__.py": "",
    "mlflow/tracking/client.py": MLFLOW,
    "mlflow/tracking/fluent.py": FLUENT,
    "wandb/__init__.py": "from wandb.sdk.wandb_init import init\n",
    "wandb/sdk/__init__.py": "",
    "wandb/sdk/wandb_init.py": WANDB,
    "tensorboardX/__init__.py": "from .writer import Derived, SummaryWriter\n",
    "tensorboardX/writer.py": WRITER,
}


@pytest.fixture(autouse=True)
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Packages with the trackers' names, which have what their modules must have for us."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(import_hooks, "_waiting", {})
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    importlib.invalidate_caches()
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def agent() -> Iterator[socket.socket]:
    """The agent's end of the line of a rank that notices trackers."""
    near, far = rank_pipe.pair()
    rank_main.notice_trackers(RankPipe(far, os.getpid()))
    yield near
    near.close()
    far.close()


def imported(name: str) -> Any:
    return importlib.import_module(name)


def noticed(near: socket.socket) -> list[dict[str, Any]]:
    found = []
    while isinstance(packet := rank_pipe.receive(near), tuple):
        found.append(json.loads(packet[1]))
        assert "tracker_linked" == found[-1].pop("event")
        assert found[-1].pop("time") > 0
    return found


def test_a_rank_watches_the_modules_whose_calls_are_known() -> None:
    assert set(trackers.CALLS) == set(rank_main.TRACKERS)


def test_a_rank_that_imports_no_tracker_loads_nothing_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, trackers.__name__)
    near, far = rank_pipe.pair()
    with near, far:
        rank_main.notice_trackers(RankPipe(far, os.getpid()))
        imported("json.tool")
        assert trackers.__name__ not in sys.modules


def test_an_mlflow_run_is_linked_to_its_page_once(agent: socket.socket) -> None:
    mlflow = imported("mlflow")

    assert "abc" == mlflow.start_run().info.run_id
    page = "http://tracking:5000/#/experiments/7/runs/abc"
    assert [
        {"tracker": "mlflow", "id": "abc", "group": "7", "store": "http://tracking:5000", "url": page}
    ] == noticed(agent)
    mlflow.start_run()
    assert [] == noticed(agent)


def test_a_run_that_a_client_creates_is_in_the_store_of_the_client(agent: socket.socket) -> None:
    imported("mlflow")
    imported("mlflow.tracking.client").MlflowClient("sqlite:///m.db").create_run("1")

    assert [{"tracker": "mlflow", "id": "abc", "group": "1", "store": "sqlite:///m.db"}] == noticed(agent)


def test_what_a_tracker_raises_reaches_its_caller(agent: socket.socket) -> None:
    with pytest.raises(RuntimeError, match="no such experiment"):
        imported("mlflow").start_run("none")
    assert [] == noticed(agent)


@pytest.mark.parametrize(
    ("store", "page"),
    [
        ("https://t.example/base/", "https://t.example/base/#/experiments/1/runs/a"),
        ("databricks", "https://d.example/ml/experiments/1/runs/a"),
        ("databricks://profile", "https://d.example/ml/experiments/1/runs/a"),
        ("databricks-uc", ""),
        ("file:/mlruns", ""),
        ("javascript:alert(1)", ""),
    ],
)
def test_only_a_store_on_the_web_has_pages(store: str, page: str) -> None:
    assert page == trackers.mlflow_page(store, "1", "a", {"DATABRICKS_HOST": "https://d.example/"})


def test_a_wandb_run_is_linked_to_its_page_without_credentials(agent: socket.socket) -> None:
    imported("wandb").init()

    page = "https://user:***@wandb.example/vision/runs/4jc4"
    run = {"tracker": "wandb", "id": "4jc4", "group": "vision", "store": "/w/wandb/run-4jc4"}
    assert [{**run, "url": page}] == noticed(agent)


def test_an_offline_wandb_run_is_its_folder_and_a_disabled_one_is_none(agent: socket.socket) -> None:
    wandb = imported("wandb")
    wandb.init("disabled")
    assert [] == noticed(agent)
    wandb.init("offline")
    run = {"tracker": "wandb", "id": "4jc4", "group": "vision", "store": "/w/wandb/run-4jc4"}
    assert [run] == noticed(agent)


def test_a_folder_of_summaries_is_told_with_its_whole_path(agent: socket.socket, tmp_path: Path) -> None:
    module = imported("tensorboardX")
    writer = module.SummaryWriter("runs/a")
    assert "runs/a" == writer.log_dir
    module.Derived()

    folders = [str(tmp_path / "runs" / name) for name in ("a", "derived")]
    assert [{"tracker": "tensorboard", "store": folder} for folder in folders] == noticed(agent)


def test_what_is_told_is_bounded_and_harmless(agent: socket.socket) -> None:
    writer = imported("tensorboardX").SummaryWriter
    writer("/a\x1b[31m\n\x07b")
    writer("/" + "x" * (1 << 16))
    writer(3)  # no path: the user's affair, and nothing to tell
    for number in range(100):
        writer(f"/{number}")
    found = noticed(agent)

    assert "/a?[31m??b" == found[0]["store"]
    assert 1024 == len(found[1]["store"])
    assert trackers.MOST == len(found)


def test_a_forked_child_says_nothing(agent: socket.socket) -> None:
    writer = imported("tensorboardX").SummaryWriter
    child = os.fork()
    if not child:
        writer("/of/a/child")
        os._exit(0)
    assert (child, 0) == os.waitpid(child, 0)
    assert [] == noticed(agent)


def test_a_tracker_that_has_changed_stays_as_it_is(agent: socket.socket) -> None:
    for name in trackers.CALLS:
        module = ModuleType(name)
        import_hooks._perform([import_hooks._waiting[name][0]], module)
        assert {k for k in vars(module) if not k.startswith("__")} == set()
    assert [] == noticed(agent)
