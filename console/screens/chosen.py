"""What stands under the cursor of the cluster screen, for what one does with it: its name, page and run."""

from __future__ import annotations

from console.messages import AppView, ClusterView, EngineView, Held, Item, WorkView
from console.widgets.work_list import Work


def held_at(item: Item | None, view: ClusterView) -> Held | None:
    """The ranks on a machine or a GPU; of a GPU that only Spark tells of, the run that it was given to."""
    if item is None or item.held:
        return item.held[0] if item is not None else None
    executor = item.gpu.executor if item.gpu is not None else None
    if executor is None or not executor.mine:
        return None
    runs = [run for run in view.work if run.spark is not None and run.spark.application == executor.app]
    beside = [held for held in item.host.held if held.run in {run.run for run in runs}]
    return next(iter([*beside, *(Held(run.run, run.name, ()) for run in runs)]), None)


def name_of(item: Item | Work | None) -> str:
    """What one types elsewhere to name it: a host, a UUID, an id, a pid."""
    if isinstance(item, Item):
        return item.host.host if item.gpu is None else item.gpu.device.uuid or item.host.host
    if isinstance(item, WorkView):
        return item.run
    return item.number if isinstance(item, AppView) else "" if item is None else str(item.pid)


def page_of(item: Item | Work | None) -> str:
    """The address of its own pages in Spark; empty without one."""
    if isinstance(item, EngineView):
        return item.ui
    if isinstance(item, AppView):
        return item.page
    return item.spark.ui if isinstance(item, WorkView) and item.spark is not None else ""
