"""The cluster screen: machines, GPUs and whose they are; live runs, what they wait for; engines."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Footer, Static

from console.messages import ClusterView, EngineView, WorkView
from console.pace import is_remote
from console.screens.place import Place, Site
from console.screens.run import RunScreen
from console.sources.machines import Engines, Inspects, Machines
from console.widgets.machine_map import MachineMap
from console.widgets.work_list import WorkList

if TYPE_CHECKING:
    from textual.app import ComposeResult


class ClusterScreen(Place):
    """Who uses what. It looks once a second, and only while it is shown."""

    AUTO_FOCUS = "#machines"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Back", id="cluster.back"),
        Binding("1", "pane('#machines')", "Machines", show=False, id="cluster.pane_1"),
        Binding("2", "pane('#work')", "Runs and engines", show=False, id="cluster.pane_2"),
        Binding("y", "copy", "Copy", id="cluster.copy"),
        Binding("u", "copy_page", "Copy Spark's page", id="cluster.page"),
        Binding("o", "open_page", "Open Spark's page", show=False, id="cluster.open_page"),
        Binding("q", "app.detach", "Quit", show=False, id="cluster.quit"),
    ]

    class Seen(Message):
        """How everything looks now. A newer view replaces one not yet shown."""

        def __init__(self, view: ClusterView) -> None:
            super().__init__()
            self.view = view

        def can_replace(self, message: Message) -> bool:
            """Only the newest is worth showing."""
            return isinstance(message, type(self))

    def __init__(
        self, site: Site, *, inspector: Inspects | None = None, engines: Engines | None = None
    ) -> None:
        super().__init__()
        self._site = site
        self.view: ClusterView | None = None
        self._machines = Machines(site.root, self._publish, inspector=inspector, engines=engines)

    def compose(self) -> ComposeResult:
        """Machines above, what goes on below."""
        yield Static(" cluster", id="banner", markup=False)
        yield MachineMap(id="machines")
        yield WorkList(id="work")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Begin to look."""
        self.query_one(MachineMap).entitle("1 Machines")
        self.query_one(WorkList).entitle("2 Runs and engines")
        self._machines.watch.start()

    def on_unmount(self) -> None:
        """Look no more."""
        self._machines.watch.close()

    def on_screen_suspend(self) -> None:
        """Rest while another screen is shown."""
        self._machines.watch.rest()

    def on_screen_resume(self) -> None:
        """Much may have changed meanwhile."""
        self._machines.watch.resume()

    def _publish(self, view: ClusterView) -> None:
        self.post_message(self.Seen(view))

    @on(Seen)
    def _show(self, message: Seen) -> None:
        self.view = message.view
        self.query_one(MachineMap).show(message.view)
        self.query_one(WorkList).show(message.view)

    def action_pane(self, pane: str) -> None:
        """Go to a pane."""
        self.query_one(pane).focus()

    @on(MachineMap.Chosen, "#machines")
    def _open_held(self) -> None:
        item = self.query_one(MachineMap).chosen
        if item is not None and item.held:
            self._open(item.held[0].run)
        else:
            self._tell("no run of yours is there")

    @on(WorkList.Chosen, "#work")
    def _open_work(self) -> None:
        item = self.query_one(WorkList).chosen
        if isinstance(item, WorkView):
            self._open(item.run)
        elif item is not None:
            self._tell(f"an engine: rankdeck engine stop --pid {item.pid} ends it")

    def _open(self, run: str) -> None:
        self.app.push_screen(RunScreen(self._site.root / run, self._site.commands))

    def action_copy(self) -> None:
        """Copy what names the thing under the cursor: a host, a GPU's UUID, a run's id, an engine's pid."""
        if text := self._named():
            self.app.copy_to_clipboard(text)
            self._tell(f"copied {text}")

    def _named(self) -> str:
        if self.query_one(WorkList).has_focus:
            work = self.query_one(WorkList).chosen
            return "" if work is None else work.run if isinstance(work, WorkView) else str(work.pid)
        item = self.query_one(MachineMap).chosen
        return "" if item is None else item.host.host if item.gpu is None else item.gpu.device.uuid

    def action_copy_page(self) -> None:
        """Copy the address of Spark's own pages."""
        if page := self._page():
            self.app.copy_to_clipboard(page)
            self._tell(f"copied {page}")

    def action_open_page(self) -> None:
        """Open Spark's own pages in a browser, where there is one beside this terminal."""
        page = self._page()
        if not page:
            return
        if is_remote(os.environ) or not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            self._tell(f"no browser can be opened from here; u copies {page}")
        else:
            self.app.open_url(page)

    def _page(self) -> str:
        """The page of what is under the cursor, else of the first that has one; says if none has."""
        work = self.query_one(WorkList)
        items = [work.chosen, *work.items] if work.has_focus else list(work.items)
        page = next((page for item in items if item is not None and (page := page_of(item))), "")
        if not page:
            self._tell("no Spark application has a page")
        return page

    def _tell(self, text: str) -> None:
        self.notify(text, markup=False)


def page_of(item: WorkView | EngineView) -> str:
    """The address of its Spark's own pages; empty without one."""
    if isinstance(item, EngineView):
        return item.ui
    return item.spark.ui if item.spark is not None else ""
