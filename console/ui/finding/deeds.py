"""What the command bar offers on a screen, and what is done when an entry is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.binding import Binding
from textual.dom import DOMNode
from textual.theme import BUILTIN_THEMES

from ...data.finding.entry import BarEntry, Kind, entry
from ...data.finding.own import OwnCommand
from ...data.finding.sources import RunEntries, places_read
from ...data.launch.presets import list_presets, presets_folder
from ..cluster.screen import ClusterScreen
from ..manual import ManualScreen
from ..navigation import edit, go, launch_screen
from ..rendering.all_bindings import all_bindings
from ..run.screen import RunScreen
from ..widgets.key_line import is_move
from .bar import Source
from .own import is_offered, run_own

if TYPE_CHECKING:
    from textual.app import App
    from textual.screen import Screen

_SCREENS = "go."
_SKIPPED = frozenset({"app.palette", "app.command", "app.help_anywhere"})


@dataclass(frozen=True, slots=True)
class Deed:
    """An action of the screen: its binding, and the node that it acts on."""

    binding: Binding
    node: DOMNode


def deeds_of(screen: Screen[Any]) -> dict[str, Deed]:
    """The actions of a screen that are possible now and have an id, by that id."""
    found: dict[str, Deed] = {}
    for node, binding in all_bindings(screen):
        listed = binding.id and binding.description and not binding.system and not is_move(binding)
        if listed and binding.id not in _SKIPPED:
            found.setdefault(str(binding.id), Deed(binding, node))
    return found


def entries_of(
    deeds: Mapping[str, Deed], words: Mapping[str, str], shown: Callable[[Binding], str]
) -> Iterator[BarEntry]:
    """The entries of actions, those that stand in the line of keys first.

    Args:
        deeds: the actions by id.
        words: what some of them do at the moment, by id.
        shown: gives the text of a binding's key.
    """
    for name, deed in sorted(deeds.items(), key=lambda pair: not pair[1].binding.show):
        kind = Kind.SCREEN if name.startswith(_SCREENS) else Kind.ACTION
        yield entry(kind, name, words.get(name, deed.binding.description), name, shown(deed.binding))


def own_entries(
    commands: Mapping[str, OwnCommand], screen: Screen[Any], keys: Callable[[str], str]
) -> Iterator[BarEntry]:
    """The entries of the user's commands that can be run on a screen; `keys` gives the text of their keys."""
    for command in commands.values():
        if is_offered(command, screen):
            yield entry(Kind.COMMAND, command.name, command.name, command.says, keys(command.name))


def sources_of(app: App[Any], runs: RunEntries) -> list[Source]:
    """What is read in threads: what the open screens know; past runs, presets and targets."""
    ranks = app.screen.view.ranks if isinstance(app.screen, RunScreen) and app.screen.view else ()
    clusters = (s.view for s in app.screen_stack if isinstance(s, ClusterScreen) and s.view is not None)
    hosts = [host.host for view in clusters for host in view.hosts]
    themes = sorted(app.available_themes, key=lambda name: (name in BUILTIN_THEMES, name))
    return [
        partial(places_read, ranks, hosts, themes, app.theme),
        runs.read,
    ]


def do(
    app: App[Any], chosen: BarEntry, deeds: Mapping[str, Deed], commands: Mapping[str, OwnCommand]
) -> None:
    """Do what the chosen entry says; what it names may be gone meanwhile."""
    if chosen.kind in (Kind.ACTION, Kind.SCREEN):
        if (deed := deeds.get(chosen.does)) is not None:
            app.call_later(app.run_action, deed.binding.action, deed.node)
    elif chosen.kind is Kind.COMMAND:
        if (command := commands.get(chosen.does)) is not None:
            app.call_later(run_own, app, command)
    else:
        _OPENED[chosen.kind](app, chosen.does)


def open_run(app: App[Any], run: str) -> None:
    """Show a run: return to it if it is open, else replace a run that is shown."""
    site = launch_screen(app).site
    folder = site.root / run
    opened = next((s for s in app.screen_stack if isinstance(s, RunScreen) and s.run == folder), None)
    if opened is not None:
        while app.screen is not opened:
            app.pop_screen()
    elif isinstance(app.screen, RunScreen):
        app.switch_screen(RunScreen(folder, site.commands))
    else:
        app.push_screen(RunScreen(folder, site.commands))


def _open_rank(app: App[Any], rank: str) -> None:
    if isinstance(app.screen, RunScreen):
        app.screen.go_to_rank(int(rank))


def _open_target(app: App[Any], target: str) -> None:
    go(app, "launch")
    home = launch_screen(app)
    app.call_later(home.take, target)


def _open_preset(app: App[Any], name: str) -> None:
    site = launch_screen(app).site
    found = (preset for preset in list_presets(presets_folder(), site.workdir) if preset.name == name)
    draft = next((preset.draft for preset in found), None)
    if draft is None:
        app.notify(f"the preset {name} cannot be read any more", severity="warning", markup=False)
    else:
        edit(app, draft)


def _open_host(app: App[Any], host: str) -> None:
    go(app, "cluster")
    screen = next(s for s in app.screen_stack if isinstance(s, ClusterScreen))
    screen.find(host)


def _open_theme(app: App[Any], theme: str) -> None:
    if theme in app.available_themes:
        app.theme = theme
        app.notify(f'theme = "{theme}" in [console] of config.toml keeps it', markup=False)


def _open_topic(app: App[Any], topic: str) -> None:
    app.push_screen(ManualScreen(topic))


_OPENED: Mapping[Kind, Callable[[Any, str], None]] = {
    Kind.RUN: open_run,
    Kind.RANK: _open_rank,
    Kind.TARGET: _open_target,
    Kind.PRESET: _open_preset,
    Kind.HOST: _open_host,
    Kind.THEME: _open_theme,
    Kind.TOPIC: _open_topic,
}
