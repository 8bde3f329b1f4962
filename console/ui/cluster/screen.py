"""The cluster screen: machines, GPUs and their users; Spark; live runs and what they wait for; engines."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message

from launcher.errors import LauncherError

from ...data.cluster import spark_api
from ...data.cluster.model import AppView, ClusterView, EngineView, Held, WorkView
from ...data.cluster.monitor import Engines, Inspects, MachinePoller
from ...data.cluster.query import Item, parse_machine_filter
from ...data.cluster.spark_api import Ask
from ..navigation import NavigableScreen, Site
from ..rendering.pace import is_remote
from ..run.screen import RunScreen
from ..widgets.failed_pane import contained
from ..widgets.fields import FilterField
from ..widgets.key_line import KeyLine, keys_of
from ..widgets.lists import ItemList
from .machine_detail import MachineDetail
from .machines import MachineMap
from .work import ClusterHead, Work, WorkList

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

_BESIDE = 140
_PANES = ("machines", "work", "detail")
_HELP = (
    "words, mine, other, free, taken, lost, util<10, mem>90, power>300, temp>75, clock<1500; "
    "! before one inverts it"
)


class ClusterScreen(NavigableScreen):
    """Shows who uses which machines and GPUs. It polls once a second, and only while it is shown."""

    TOPIC = "cluster"
    AUTO_FOCUS = "#machines"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", id="cluster.back"),
        Binding("1", "pane('machines')", "Machines", show=False, id="cluster.pane_1"),
        Binding("2", "pane('work')", "Runs and engines", show=False, id="cluster.pane_2"),
        Binding("3,d", "pane('detail')", "In full", id="cluster.pane_3"),
        Binding("z", "zoom", "Zoom", show=False, id="cluster.zoom"),
        Binding("slash", "filter", "Filter", key_display="/", id="cluster.filter"),
        Binding("w", "waiting", "Run that waits", show=False, id="cluster.waiting"),
        Binding("y", "copy", "Copy", id="cluster.copy"),
        Binding("u", "copy_page", "Copy Spark's page", id="cluster.page"),
        Binding("o", "open_page", "Open Spark's page", show=False, id="cluster.open_page"),
        Binding("q", "app.detach", "Quit", show=False, id="cluster.quit"),
    ]

    class ClusterChanged(Message):
        """A new view of the cluster. It replaces an older one that is not yet shown."""

        def __init__(self, view: ClusterView) -> None:
            super().__init__()
            self.view = view

        def can_replace(self, message: Message) -> bool:
            """Only the newest view needs to be shown."""
            return isinstance(message, type(self))

    def __init__(
        self,
        site: Site,
        *,
        inspector: Inspects | None = None,
        engines: Engines | None = None,
        ask: Ask = spark_api.ask,
    ) -> None:
        super().__init__()
        self.site = site
        self._sought = ""
        self.view: ClusterView | None = None
        self._lower, self._zoomed = "work", ""
        self._detailed = "machines"
        self._machines = MachinePoller(
            site.root, self._publish, inspector=inspector, engines=engines, ask=ask
        )

    def compose(self) -> ComposeResult:
        """Machines above; below, runs and engines, and one thing in full."""
        yield ClusterHead(id="banner")
        yield FilterField(placeholder=_HELP)
        yield MachineMap(id="machines")
        with Horizontal(id="lower"):
            yield WorkList(id="work")
            yield MachineDetail(id="detail")
        yield KeyLine("list.choose", "cluster.filter", "machines.metric", "machines.sort", "cluster.pane_3")

    def on_mount(self) -> None:
        """Start the poller."""
        self.query_one(MachineMap).entitle("1 Machines")
        self.query_one(WorkList).entitle("2 Runs and engines")
        self._machines.start()

    def on_unmount(self) -> None:
        """Stop the poller."""
        self._machines.close()

    def on_screen_suspend(self) -> None:
        """Pause the poller while another screen is shown."""
        self._machines.rest()

    def on_screen_resume(self) -> None:
        """Resume the poller."""
        self._machines.resume()

    def on_resize(self, _: events.Resize) -> None:
        """Choose the panes that fit."""
        self._place()

    def _publish(self, view: ClusterView) -> None:
        self.post_message(self.ClusterChanged(view))

    @on(ClusterChanged)
    def _show(self, message: ClusterChanged) -> None:
        self.view = message.view
        with contained(self):
            self.query_one(ClusterHead).show(message.view, keys_of(self, "cluster.waiting", "w"))
        with contained(self):
            self.query_one(MachineMap).show(message.view)
        with contained(self):
            self.query_one(WorkList).show(message.view)
        with contained(self):
            self._find_sought()
        self._show_detail()

    # --- panes ---------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Show the machines above and the other two panes side by side below; if narrow, one of these."""
        beside = self.size.width >= _BESIDE
        for name in _PANES:
            shown = (
                name == self._zoomed if self._zoomed else name == "machines" or beside or name == self._lower
            )
            self.query_one(f"#{name}").display = shown
        lower = self.query_one("#lower")
        lower.display = self._zoomed != "machines"
        lower.set_class(bool(self._zoomed), "-zoomed")

    def action_pane(self, pane: str) -> None:
        """Go to a pane."""
        if pane != "machines":
            self._lower = pane
        self._zoomed = pane if self._zoomed else ""
        self._place()
        self.query_one(f"#{pane}").focus()

    def action_zoom(self) -> None:
        """Show the focused pane alone, or all panes again."""
        pane = self.focused.id if self.focused is not None else None
        self._zoomed = "" if self._zoomed or pane not in _PANES else str(pane)
        self._place()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Show in full what is under the cursor of the list that was focused last."""
        if event.widget.id in ("machines", "work"):
            self._detailed = event.widget.id
            self._show_detail()

    @on(ItemList.Moved)
    def _show_detail(self) -> None:
        self.query_one(MachineDetail).show(self.chosen)

    @property
    def chosen(self) -> Item | Work | None:
        """What is under the cursor of the list that was focused last."""
        if self._detailed == "work":
            return self.query_one(WorkList).chosen
        return self.query_one(MachineMap).chosen

    def action_back(self) -> None:
        """End the zoom, else remove the filter, else leave."""
        if self._zoomed:
            self.action_zoom()
        elif self.query_one(FilterField).close():
            self.query_one(MachineMap).focus()
        else:
            self.dismiss()

    # --- finding -------------------------------------------------------------------------------------

    def action_filter(self) -> None:
        """Open the field for the filter."""
        self.query_one(FilterField).open()

    @on(FilterField.Changed)
    def _narrow(self, message: FilterField.Changed) -> None:
        machines = self.query_one(MachineMap)
        try:
            machine_filter = parse_machine_filter(message.value)
        except LauncherError as error:
            machines.complain(str(error))
        else:
            machines.apply(replace(machines.query_now, filter=machine_filter))
            self._show_detail()

    @on(FilterField.Submitted)
    def _narrowed(self) -> None:
        self.query_one(MachineMap).focus()

    def find(self, host: str) -> None:
        """Go to a machine, as soon as it is known."""
        self._sought = host
        self._find_sought()

    def _find_sought(self) -> None:
        if self._sought and self.view is not None:
            machines = self.query_one(MachineMap)
            hosts = [item.host.host for item in machines.items]
            if self._sought in hosts:
                machines.action_move(hosts.index(self._sought) - machines.cursor)
            else:
                self._notify(f"{self._sought} is not among the machines that are shown")
            self._sought = ""
            self.action_pane("machines")

    def action_waiting(self) -> None:
        """Go to the next run that waits for slots."""
        if self.query_one(WorkList).next_waiting():
            self.action_pane("work")
        else:
            self._notify("no run waits for slots")

    # --- what is under the cursor --------------------------------------------------------------------

    @on(MachineMap.Chosen, "#machines")
    def _open_held(self) -> None:
        held = held_at(self.query_one(MachineMap).chosen, self.view or ClusterView())
        if held is not None:
            self._open(held)
        else:
            self._notify("no run of yours is there")

    @on(WorkList.Chosen, "#work")
    def _open_work(self) -> None:
        item = self.query_one(WorkList).chosen
        if isinstance(item, WorkView):
            self._open(Held(item.run, item.name, ()))
        elif isinstance(item, AppView):
            self._notify(
                f"an application of {item.user or 'somebody'}: its page is {item.page or 'not known'}"
            )
        elif item is not None:
            self._notify(f"an engine: rankdeck engine stop --pid {item.pid} ends it")

    def _open(self, held: Held) -> None:
        """Open a run, with the cursor on the first of these ranks."""
        rank = held.ranks[0] if held.ranks else None
        self.app.push_screen(RunScreen(self.site.root / held.run, self.site.commands, rank=rank))

    def action_copy(self) -> None:
        """Copy the identifier under the cursor: a host, a GPU's UUID, a run's id, an engine's pid."""
        if text := name_of(self.chosen):
            self.app.copy_to_clipboard(text)
            self._notify(f"copied {text}")

    def action_copy_page(self) -> None:
        """Copy the address of Spark's web pages."""
        if page := self._page():
            self.app.copy_to_clipboard(page)
            self._notify(f"copied {page}")

    def action_open_page(self) -> None:
        """Open Spark's web pages in a browser, if one can run on this machine's display."""
        page = self._page()
        if not page:
            return
        if is_remote(os.environ) or not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            copy = keys_of(self, "cluster.page", "u")
            self._notify(f"no browser can be opened from here; {copy} copies {page}")
        else:
            self.app.open_url(page)

    def _page(self) -> str:
        """The page of what is under the cursor, else the first known page; notifies if there is none."""
        view = self.view or ClusterView()
        known = [page_of(self.chosen), *(spark.page for spark in view.sparks)]
        known += [*map(page_of, view.work), *map(page_of, view.engines)]
        page = next(filter(None, known), "")
        if not page:
            self._notify("no Spark application has a page")
        return page

    def _notify(self, text: str) -> None:
        self.notify(text, markup=False)


def held_at(item: Item | None, view: ClusterView) -> Held | None:
    """The first ranks on a machine or a GPU; if only Spark reports the GPU, the run that Spark gave it to."""
    if item is None or item.held:
        return item.held[0] if item is not None else None
    executor = item.gpu.executor if item.gpu is not None else None
    if executor is None or not executor.mine:
        return None
    runs = [run for run in view.work if run.spark is not None and run.spark.application == executor.app]
    on_host = [held for held in item.host.held if held.run in {run.run for run in runs}]
    return next(iter([*on_host, *(Held(run.run, run.name, ()) for run in runs)]), None)


def name_of(item: Item | Work | None) -> str:
    """The identifier that other commands take: a host, a UUID, an id, a pid; empty for nothing."""
    if isinstance(item, Item):
        return item.host.host if item.gpu is None else item.gpu.device.uuid or item.host.host
    if isinstance(item, WorkView):
        return item.run
    return item.number if isinstance(item, AppView) else "" if item is None else str(item.pid)


def page_of(item: Item | Work | None) -> str:
    """The address of its web pages in Spark; empty without one."""
    if isinstance(item, EngineView):
        return item.ui
    if isinstance(item, AppView):
        return item.page
    return item.spark.ui if isinstance(item, WorkView) and item.spark is not None else ""
