"""The lines at the top of the run screen: what it is, which phase, how far; or why it ended badly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from console.messages import RunView
from console.widgets import figures as fig
from console.widgets.failure import failure_rows
from console.widgets.sheet import Row, Sheet, Span, clip, spread, width_of
from launcher.state import Phase, RankPhase

PHASE_GLYPHS = {
    Phase.SUBMITTED: ("○", "rank-waiting"),
    Phase.WAITING: ("○", "rank-behind"),
    Phase.STARTING: ("◐", "rank-waiting"),
    Phase.RUNNING: ("●", "rank-ok"),
    Phase.STOPPING: ("◑", "rank-behind"),
    Phase.SUCCEEDED: ("✓", "rank-done"),
    Phase.FAILED: ("✗", "rank-failed"),
    Phase.STOPPED: ("■", "rank-stopped"),
    Phase.LOST: ("-", "rank-lost"),
}
_STRIP = (
    (Phase.SUBMITTED, "submit"),
    (Phase.WAITING, "slots"),
    (Phase.STARTING, "start"),
    (Phase.RUNNING, "train"),
    (Phase.STOPPING, "stop"),
)


class ViewSheet(Sheet):
    """A sheet over the run's view."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.view: RunView | None = None

    def show(self, view: RunView) -> None:
        """Show another moment of the run."""
        self.view = view
        self.refresh_rows()


class RunHeader(ViewSheet):
    """Which run this is, and in which state."""

    def rows(self, width: int) -> Sequence[Row]:
        """One line."""
        return [header_row(self.view, width)] if self.view else [((" …", "muted"),)]


class PhaseStrip(ViewSheet):
    """The phases of a launch with what each took, because most first failures come before step 1."""

    def rows(self, width: int) -> Sequence[Row]:
        """One line."""
        if self.view is None:
            return [()]
        full = tuple(phase_spans(self.view))
        short = tuple((text.replace("✓ ", "") if style == "muted" else text, style) for text, style in full)
        return [full if width_of(full) <= width else clip(short, width)]


class Headline(ViewSheet):
    """Progress while there is any; the verdict afterwards; the failure block if ranks failed."""

    DEFAULT_CSS = """
    Headline { max-height: 8; overflow-y: hidden; }
    """

    def rows(self, width: int) -> Sequence[Row]:
        """One line, or the failure block."""
        if self.view is None:
            return [()]
        found = headline_rows(self.view, width)
        if self.styles.height is None or self.styles.height.value != len(found):
            self.styles.height = len(found)
        return found


def header_row(view: RunView, width: int) -> Row:
    """State, name, size and elapsed time; the id at the right."""
    state = view.state
    glyph, style = PHASE_GLYPHS[state.phase]
    elapsed = None if state.started is None else (state.ended or view.now) - state.started
    left: Row = (
        (f" {glyph} {state.phase}", f"{style} bold"),
        (f"  {state.name or state.id}", "bold"),
        (f"  {gang(view)}", ""),
        (f"  {fig.clock(elapsed)}", "bold"),
    )
    return spread(left, ((f"{state.id} ", "muted"),), width)


def gang(view: RunView) -> str:
    """How many ranks, on how many hosts, with which devices."""
    size = len(view.ranks) or view.state.num_processes
    parts = [f"{size} rank{'s' * (size != 1)}"]
    if view.ranks:
        hosts = len({v.rank.host for v in view.ranks})
        parts.append(f"{hosts} host{'s' * (hosts != 1)}")
        devices = [d for v in view.ranks for d in v.rank.devices]
        names = Counter(d.name or "GPU" for d in devices)
        parts.append(" + ".join(f"{n}×{name}" for name, n in names.items()) if devices else "CPU")
    return " · ".join(parts)


def phase_spans(view: RunView) -> Iterator[Span]:
    """Every phase: done with its duration, the current one marked, later ones faint."""
    began = dict(view.state.since)
    order = [p for p, _ in view.state.since]
    for number, (phase, label) in enumerate(_STRIP):
        if phase is Phase.STOPPING and phase not in began:
            continue
        yield (" " if number == 0 else " › ", "muted")
        yield from _phase(view, phase, label, began, order)
    yield (" › ", "muted")
    glyph, style = PHASE_GLYPHS[view.state.phase]
    yield (f"end {glyph}", f"{style} bold") if not view.live else ("end", "muted")


def _phase(
    view: RunView, phase: Phase, label: str, began: dict[Phase, float], order: list[Phase]
) -> Iterator[Span]:
    if phase not in began:
        passed = bool(order) and (not view.live or any(_position(p) > _position(phase) for p in order))
        yield (f"{label} {fig.UNKNOWN}" if passed else label, "muted")
        return
    at = order.index(phase)
    until = view.state.since[at + 1][1] if at + 1 < len(order) else view.state.ended or view.now
    took = max(until - began[phase], 0.0)
    if view.state.phase is phase:
        glyph, style = PHASE_GLYPHS[phase]
        yield (f"{label} {glyph} {fig.age(int(took))}{_share(view)}", f"{style} bold")
    else:
        yield (f"{label} ", "")
        yield (f"✓ {fig.duration(took)}", "muted")


def _position(phase: Phase) -> int:
    return list(Phase).index(phase)


def _share(view: RunView) -> str:
    """How much of the current phase is done, where that can be counted."""
    waiting = view.state.waiting
    if view.state.phase is Phase.WAITING and waiting:
        return f" {waiting.have}/{waiting.need}"
    if view.state.phase is Phase.STARTING:
        up = sum(v.rank.phase is not RankPhase.PLACED for v in view.ranks)
        return f" {up}/{len(view.ranks)}"
    return ""


def headline_rows(view: RunView, width: int) -> list[Row]:
    """What matters most now."""
    state = view.state
    if state.phase is Phase.WAITING and state.waiting:
        return [waiting_row(view, width)]
    if state.first_failure is not None or state.phase in (Phase.FAILED, Phase.LOST):
        return failure_rows(view, width)
    if not view.live:
        return [verdict_row(view, width)]
    if view.progress.step is None and not view.progress.metrics:
        return [clip(((f" {_hint(view)}", "muted"),), width)]
    return [progress_row(view, width)]


def _hint(view: RunView) -> str:
    if view.state.phase is not Phase.RUNNING:
        return f"{view.state.phase} …"
    return "no step reported yet · launcher.report(step=…, loss=…) shows progress here"


def waiting_row(view: RunView, width: int) -> Row:
    """What the gang waits for and how long that may take."""
    waiting = view.state.waiting
    assert waiting is not None
    waited = fig.age(int(view.now - (view.state.started or view.now)))
    limit = f" of {fig.age(int(waiting.limit_s))}" if waiting.limit_s is not None else ""
    text = f" waiting for slots {waiting.have}/{waiting.need}, {waited}{limit}"
    reason = f" · {waiting.reason}" if waiting.reason else ""
    return clip(((text, "rank-behind bold"), (reason, "muted")), width)


def verdict_row(view: RunView, width: int) -> Row:
    """How a run ended that nothing failed in."""
    glyph, style = PHASE_GLYPHS[view.state.phase]
    step = view.progress.step
    spans: list[Span] = [(f" {glyph} {view.state.why or view.state.phase}", f"{style} bold")]
    if step is not None:
        spans.append((f"  step {fig.count(step)}", ""))
    spans += [(f"  {name} {fig.metric(value)}", "") for name, value in view.progress.metrics.items()]
    if view.results:
        spans.append((f"  results {len(view.results)}/{len(view.ranks)}", ""))
    return clip(tuple(spans), width)


def progress_row(view: RunView, width: int) -> Row:
    """Step, pace, the reported figures and the loss's course."""
    progress = view.progress
    total = f"/{progress.total:,}" if progress.total else ""
    spans: list[Span] = [(f" step {fig.count(progress.step)}{total}", "bold")]
    share = progress.step / progress.total if progress.total and progress.step is not None else None
    tail: list[Span] = []
    if progress.step_s is not None:
        tail.append((f"  {progress.step_s:.3g} s/step", ""))
    tail += [(f"  {name} {fig.metric(value)}", "") for name, value in progress.metrics.items()]
    if progress.left_s is not None:
        tail.append((f"  left {fig.age(int(progress.left_s))}", "muted"))
    room = width - width_of((*spans, *tail))
    if share is not None and room >= 14:
        filled, rest = fig.bar(share, min(room - 8 if room < 34 else room - 26, 40))
        spans += [("  ", ""), (filled, "bar"), (rest, "bar-track"), (f" {share:>4.0%}", "")]
    room = width - width_of((*spans, *tail)) - 3
    if len(progress.losses) > 2 and room >= 8:
        tail += [("  ", ""), (fig.curve(progress.losses, min(room, 24)), "bar")]
    return clip((*spans, *tail), width)
