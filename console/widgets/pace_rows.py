"""How long steps take over all ranks, who is behind, and what the hosts do: lines of figures. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from console.messages import RankView, RunView
from console.widgets import figures as fig
from console.widgets.sheet import Row, Span
from launcher.state import Host

_LABEL, _STRIP = 7, 16
_SLOW = 1.2
_HOSTS = 16


def pace_rows(view: RunView) -> list[Row]:
    """Step times, lag and power, as far as they are known."""
    return [((f" {label:<{_LABEL}}", "muted"), *spans) for label, spans in _figures(view) if spans]


def pace_row(view: RunView) -> Row:
    """The same in one line."""
    spans: list[Span] = []
    for label, found in _figures(view):
        if found:
            spans += [(f" {'  ' * bool(spans)}{label} ", "muted"), *found]
    return tuple(spans)


def _figures(view: RunView) -> Iterator[tuple[str, Row]]:
    yield "step", _step_times(view)
    yield "lag", _lag(view)
    yield "power", _power(view.ranks)


def _step_times(view: RunView) -> Row:
    times = view.progress.step_times
    if times is None:
        return ()
    text = f"p50 {fig.seconds(times.p50)}  p99 {times.p99:.3g}  max {times.most:.3g}"
    spans: list[Span] = [(text, ""), (f" (r{times.most_rank})", "muted")]
    if times.slow_ratio >= _SLOW:
        spans.append((f"  r{times.slow_rank} ×{times.slow_ratio:.1f}", "rank-behind"))
    return tuple(spans)


def _lag(view: RunView) -> Row:
    lags = view.progress.lags
    if not lags:
        return ()
    strip = fig.strip(lags[-_STRIP:], min(len(lags), _STRIP), top=max(*lags, 8.0))
    if view.straggler is None:
        return ((strip, "bar dim"), ("  no rank is behind", "muted"))
    rank, steps = view.straggler
    behind = f"  r{rank} {fig.count(steps)} steps behind"
    return ((strip, "bar dim"), (behind, "rank-behind"))


def _power(ranks: Sequence[RankView]) -> Row:
    drawn = [v.power for v in ranks if v.power is not None]
    return ((fig.watts(sum(drawn)), ""),) if drawn else ()


def host_rows(view: RunView) -> list[Row]:
    """What each host does, in the order of its ranks; of many hosts what they do together."""
    by_agent = [(agent, list(members)) for agent, members in groupby(view.ranks, key=lambda v: v.rank.agent)]
    hosts = [(view.state.hosts.get(agent), members) for agent, members in by_agent]
    if not any(host is not None and host.system is not None for host, _ in hosts):
        return []
    if len(hosts) > _HOSTS:
        devices = [d for v in view.ranks for d in v.rank.devices]
        gpus = f"{len(devices)} GPUs {gpu_sums(view.ranks)}" if devices else "no GPU"
        return [((f" {len(hosts)} hosts", "bold"), (f"  {gpus}", ""))]
    return [_host_row(host, members) for host, members in hosts]


def _host_row(host: Host | None, members: Sequence[RankView]) -> Row:
    name = members[0].rank.host or fig.UNKNOWN
    ranks = f"  {len(members)} rank{'s' * (len(members) != 1)}"
    return ((f" {fig.shorten(name, 20):<20}", ""), (ranks, "muted"), ("  " + host_figures(host, members), ""))


def host_figures(host: Host | None, members: Sequence[RankView]) -> str:
    """The host's processors and memory, and the sums over the GPUs of the ranks on it."""
    return "  ".join(filter(None, (system_figures(host), gpu_figures(members)))) or fig.UNKNOWN


def system_figures(host: Host | None) -> str:
    """How busy the whole machine is; empty where that is unknown."""
    system = host.system if host is not None else None
    if system is None:
        return ""
    used, total = fig.memory(system.memory_used), fig.memory(system.memory_total)
    load = fig.UNKNOWN if system.load1 is None else f"{system.load1:.1f}"
    return f"CPU {fig.percent(system.cpu)}  RAM {used} of {total}  load {load}"


def gpu_figures(members: Sequence[RankView]) -> str:
    """How many GPUs some ranks have, and their sums; empty if they have none."""
    count = sum(len(v.rank.devices) for v in members)
    return f"{count} GPU{'s' * (count != 1)} {gpu_sums(members)}" if count else ""


def gpu_sums(members: Sequence[RankView]) -> str:
    """Mean use, memory in all, power in all and the highest temperature of their GPUs."""
    utils = [v.util for v in members if v.util is not None]
    memory = [v.memory for v in members if v.memory is not None]
    power = [v.power for v in members if v.power is not None]
    heat = max((v.temperature for v in members if v.temperature is not None), default=None)
    return " ".join(
        (
            fig.percent(sum(utils) / len(utils) if utils else None),
            fig.memory(sum(memory) if memory else None),
            fig.watts(sum(power) if power else None),
            fig.celsius(heat),
        )
    )
