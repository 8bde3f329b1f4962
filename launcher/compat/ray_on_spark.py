"""`ray.util.spark` (Ray 2.60) as runs of rankdeck: a head node on this machine, others on executors.

Both are runs like any other: the console shows them, their output is recorded, and no process outlives them,
nor this process. Unlike the original, the cluster takes only those with its token, which this process gets.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..distributor import Distributor
from ..errors import LauncherError, SpecError
from ..frameworks.ray import AT, JOINS, require_options
from ..job import Job
from ..spec.job import SparkSpec
from ..state.run_state import RunState

if TYPE_CHECKING:
    from ..backends.spark.session import Session

START_LIMIT_S = 300.0
_STOP_LIMIT_S = 60.0
_ALL = -1  # the value of `ray.util.spark.MAX_NUM_WORKER_NODES`
_WITHOUT_MEANING = {
    "ray_temp_root_dir": "the nodes' files are in folders of the runs' own",
    "collect_log_to_path": "what nodes and workers print is in the runs' folders",
    "autoscale_upscaling_speed": "the cluster keeps the size that it got at its start",
    "autoscale_idle_timeout_minutes": "the cluster keeps the size that it got at its start",
}


@dataclass(slots=True)
class _Cluster:
    """The active cluster: its two runs, and the environment of before."""

    head: Job
    environ: Mapping[str, str | None]
    nodes: Job | None = None

    def stop(self) -> None:
        """End both runs, the nodes first; one that does not end in time keeps nothing else from its end.

        Raises:
            TimeoutError: one has not ended in time.
        """
        with contextlib.ExitStack() as last:
            last.callback(self._restore_environment)
            for job in filter(None, (self.head, self.nodes)):
                last.callback(_end_run, job)

    def _restore_environment(self) -> None:
        for name, text in self.environ.items():
            if text is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = text
        _read_environment_again()


def _end_run(job: Job) -> None:
    job.stop(reason="the Ray cluster was shut down")
    job.wait(_STOP_LIMIT_S)


_lock = threading.RLock()
_active: _Cluster | None = None


def setup_ray_cluster(
    *,
    max_worker_nodes: int,
    min_worker_nodes: int | None = None,
    num_cpus_worker_node: int | None = None,
    num_cpus_head_node: int | None = None,
    num_gpus_worker_node: int | None = None,
    num_gpus_head_node: int | None = None,
    memory_worker_node: int | None = None,
    memory_head_node: int | None = None,
    object_store_memory_worker_node: int | None = None,
    object_store_memory_head_node: int | None = None,
    head_node_options: Mapping[str, Any] | None = None,
    worker_node_options: Mapping[str, Any] | None = None,
    strict_mode: bool = False,
    **others: Any,
) -> tuple[str, str]:
    """Start a Ray cluster on the active Spark session, and return once its nodes are ready.

    The arguments are those of `ray.util.spark.setup_ray_cluster`. With fewer `min_worker_nodes` than
    `max_worker_nodes`, the cluster gets as many nodes as there is room for, and keeps them. A node has the
    cores and GPUs of its slot unless `num_cpus_worker_node` and `num_gpus_worker_node` say otherwise.

    Returns:
        The cluster's address, which `ray.init()` finds in RAY_ADDRESS, and that for Ray's client.

    Raises:
        ValueError: an argument is not allowed.
        RuntimeError: there is a cluster already, or this one could not be started; nothing is left of it.
    """
    del strict_mode  # rankdeck always refuses what Spark has no room for
    _require_free()
    _tell_what_has_no_meaning(others)
    session = _session()
    size = _size(_slots(session) if max_worker_nodes == _ALL else max_worker_nodes, min_worker_nodes)
    head = _options(
        {"num-cpus": num_cpus_head_node or 0, "num-gpus": num_gpus_head_node or 0},
        memory_head_node,
        object_store_memory_head_node,
        head_node_options,
    )
    node = _options(
        {"num-cpus": num_cpus_worker_node, "num-gpus": num_gpus_worker_node},
        memory_worker_node,
        object_store_memory_worker_node,
        worker_node_options,
    )
    try:
        with _lock, contextlib.ExitStack() as undo:
            undo.callback(_end)
            addresses = _start({**head, AT: session.driver_host}, node, size)
            undo.pop_all()
            return addresses
    except SpecError:
        raise
    except LauncherError as error:
        raise RuntimeError(f"the Ray cluster could not be started: {error}") from error


def shutdown_ray_cluster() -> None:
    """End the active cluster; once this returns, none of its processes is alive.

    Raises:
        RuntimeError: there is none.
    """
    with _lock:
        if _active is None:
            raise RuntimeError("No active ray cluster to shut down.")
        _end()


def _end() -> None:
    """End what there is of the active cluster."""
    global _active
    if _active is not None:
        cluster, _active = _active, None
        cluster.stop()


def hold(place: str = "") -> None:
    """Keep the nodes until the run is stopped: what rank 0 runs. The cluster's addresses go into a file."""
    if place:
        Path(f"{place}.new").write_text(f"{os.environ['RAY_ADDRESS']} {os.environ['RANKDECK_RAY_CLIENT']}")
        os.replace(f"{place}.new", place)
    threading.Event().wait()


def _start(head: Mapping[str, str], node: Mapping[str, str], size: tuple[int, int]) -> tuple[str, str]:
    """Start the head, then the nodes, and set the environment of `ray.init`."""
    global _active
    access = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": os.environ.get("RAY_AUTH_TOKEN") or secrets.token_hex(),
    }
    with tempfile.TemporaryDirectory() as folder:
        told = os.path.join(folder, "addresses")
        gpu = head["num-gpus"] != "0"
        distributor = Distributor(1, gpu=gpu, framework="ray", name="ray-head", env=access, ray_options=head)
        first = distributor.start(hold, told)
        _active = _Cluster(first, {name: os.environ.get(name) for name in ("RAY_ADDRESS", *access)})
        _await_ready(first, lambda _: os.path.exists(told))
        address, client = Path(told).read_text().split()
    least, most = size
    nodes = Distributor(
        most,
        "cluster",
        min_processes=least if least < most else None,
        framework="ray",
        name="ray-nodes",
        env=access,
        ray_options={**node, JOINS: address},
    )
    _active.nodes = nodes.start(hold)
    _await_ready(_active.nodes, lambda state: state.ranks[0].entered is not None)
    os.environ.update({**access, "RAY_ADDRESS": address})
    _read_environment_again()
    return address, client


def _read_environment_again() -> None:
    """Let a Ray that is imported already use the token: it reads its environment once.

    This is what Ray does itself where it chooses a token at its start (`authentication_token_setup`, 2.60); a
    version without tokens needs nothing.
    """
    raylet = sys.modules.get("ray._raylet")
    config, loader = (getattr(raylet, name, None) for name in ("Config", "AuthenticationTokenLoader"))
    if config is not None and loader is not None:
        config.initialize("")
        loader.instance().reset_cache()


def _await_ready(job: Job, is_ready: Callable[[RunState], bool]) -> None:
    """Wait until all nodes of a run are ready.

    Raises:
        RuntimeError: it has ended, or is not ready in time.
    """
    limit = time.monotonic() + START_LIMIT_S
    seen = 0
    while not ((state := job.state).ranks and is_ready(state)):
        if job.done:
            raise RuntimeError(f"the Ray cluster could not be started: {state.why}")
        if time.monotonic() > limit:
            raise RuntimeError(f"the Ray cluster was not ready within {START_LIMIT_S:g} s: {_missing(state)}")
        seen = job.wait_for_news(seen, 0.2)


def _missing(state: RunState) -> str:
    ready = sum(each.ready is not None for each in state.services)
    return f"{ready} of {state.num_processes} nodes are ready"


def _require_free() -> None:
    """Refuse a second cluster, and one beside a connection to another."""
    if _active is not None:
        raise RuntimeError(
            "Current active ray cluster on spark haven't shut down. Please call "
            "`ray.util.spark.shutdown_ray_cluster()` before initiating a new Ray cluster on spark."
        )
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        raise RuntimeError("this process is connected to a Ray cluster already: call ray.shutdown() first")


def _session() -> Session:
    """The active Spark session.

    Raises:
        RuntimeError: there is none, or one whose executors cannot reach this process.
    """
    from ..backends.spark.session import find_active, open_session  # executors have none of it

    if (active := find_active()) is None:
        raise RuntimeError("there is no active Spark session: make one, then set up the Ray cluster")
    session = open_session(
        SparkSpec(),
        session=active,
        environ=os.environ,
        log=Path(os.devnull),
        app_name="",
        slots=1,
        server=False,
    )
    if session.remote:
        raise RuntimeError("a Ray cluster needs a classic Spark session, not one of Spark Connect")
    return session


def _slots(session: Session) -> int:
    """How many tasks the session's executors run at once."""
    from ..backends.spark.executors import executors  # executors have none of it

    held = executors(session) or ()
    each = int(session.conf("spark.task.cpus", "1"))
    if not (count := sum(executor.cores // each for executor in held)):
        raise ValueError("nobody knows how many nodes this Spark session has room for: name max_worker_nodes")
    return count


def _tell_what_has_no_meaning(others: Mapping[str, Any]) -> None:
    for name in others:
        if name not in _WITHOUT_MEANING:
            raise TypeError(f"setup_ray_cluster() got an unexpected keyword argument {name!r}")
        warnings.warn(f"{name} has no meaning under rankdeck: {_WITHOUT_MEANING[name]}", stacklevel=4)


def _size(most: int, least: int | None) -> tuple[int, int]:
    """The least and the greatest number of nodes."""
    if most < 1:
        raise ValueError(f"max_worker_nodes must be 1 or more, or MAX_NUM_WORKER_NODES, not {most}")
    least = most if least is None else least
    if not 1 <= least <= most:
        raise ValueError(f"min_worker_nodes must be 1 to {most}, not {least}")
    return least, most


def _options(
    amounts: Mapping[str, int | None],
    memory: int | None,
    object_store: int | None,
    more: Mapping[str, Any] | None,
) -> dict[str, str]:
    """The options of ``ray start`` for one kind of node."""
    given = {**amounts, "memory": memory, "object-store-memory": object_store}
    for name, amount in given.items():
        if amount is not None and amount < 0:
            raise ValueError(f"{name} must be 0 or more, not {amount}")
    texts = {name: str(amount) for name, amount in given.items() if amount is not None}
    spelt = {name.replace("_", "-"): value for name, value in (more or {}).items()}
    spelt.pop("disable-usage-stats", None)  # it always is
    made = {**texts, **{name: "" if value is None else str(value) for name, value in spelt.items()}}
    require_options(made)
    return made
