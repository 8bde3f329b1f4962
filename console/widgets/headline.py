"""The lines below the identity of a run: which phase, how far; or why it ended badly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from console.messages import Progress, RunView
from console.narrating import near_line
from console.widgets import figures as fig
from console.widgets.charts import alarm_line
from console.widgets.failure import failure_rows
from console.widgets.identity import PHASE_GLYPHS, ViewSheet
from console.widgets.pace_rows import pace_row
from console.widgets.sheet import Row, Span, clip, width_of
from launcher.state import Phase, RankPhase

_TALL, _STANDS_OUT = 34, 1.5
_LEAST_COURSE, _COURSE = 8, 24
_STRIP = (
    (Phase.SUBMITTED, "submit"),
    (Phase.WAITING, "slots"),
    (Phase.STARTING, "start"),
    (Phase.RUNNING, "train"),
    (Phase.STOPPING, "stop"),
)


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
        return self.fit(headline_rows(self.view, width, tall=self.app.size.height >= _TALL))


class AlertLine(ViewSheet):
    """What is alarming now; no line at all while nothing is."""

    def show(self, view: RunView) -> None:
        """Show another moment of the run."""
        self.display = view.live and bool(alarm_line(view))
        super().show(view)

    def rows(self, width: int) -> Sequence[Row]:
        """One line."""
        return [clip(alarm_line(self.view), width)] if self.view is not None else [()]


def phase_spans(view: RunView) -> Iterator[Span]:
    """Every phase of the attempt: done with its duration, the current one marked, later ones faint."""
    spent = _spent(view)
    shown = [(p, label) for p, label in _STRIP if p in spent or p is not Phase.STOPPING]
    if view.state.attempt:
        shown = [(p, label) for p, label in shown if p in spent or p is not Phase.SUBMITTED]
        yield (f" attempt {view.state.attempt}", "rank-behind")
    for number, (phase, label) in enumerate(shown):
        yield (" › " if number or view.state.attempt else " ", "muted")
        yield from _phase(view, phase, label, spent)
    yield (" › ", "muted")
    glyph, style = PHASE_GLYPHS[view.state.phase]
    yield (f"end {glyph}", f"{style} bold") if not view.live else ("end", "muted")


def _spent(view: RunView) -> dict[Phase, float]:
    """Seconds in each phase of the attempt; one that was entered again counts together."""
    entered = view.state.attempt_since
    ends = [time for _, time in entered[1:]] + [view.state.ended or view.now]
    spent: dict[Phase, float] = {}
    for (phase, began), end in zip(entered, ends, strict=False):  # a new folder tells of no phase yet
        spent[phase] = spent.get(phase, 0.0) + max(end - began, 0.0)
    return spent


def _phase(view: RunView, phase: Phase, label: str, spent: dict[Phase, float]) -> Iterator[Span]:
    if phase not in spent:
        passed = bool(spent) and (not view.live or any(_position(p) > _position(phase) for p in spent))
        yield (f"{label} {fig.UNKNOWN}" if passed else label, "muted")
    elif view.state.phase is phase:
        glyph, style = PHASE_GLYPHS[phase]
        yield (f"{label} {glyph} {fig.age(int(spent[phase]))}{_share(view)}", f"{style} bold")
    else:
        yield (f"{label} ", "")
        yield (f"✓ {fig.duration(spent[phase])}", "muted")


def _position(phase: Phase) -> int:
    return list(Phase).index(phase)


def _share(view: RunView) -> str:
    """How much of the current phase is done, where that can be counted."""
    waiting = view.state.waiting
    if view.state.phase is Phase.WAITING and waiting:
        return f" {waiting.have}/{waiting.need}"
    if view.state.phase is Phase.STARTING:
        up = sum(v.rank.phase is not RankPhase.PLACED for v in view.ranks)
        return f" {up}/{len(view.ranks)}" if view.ranks else ""
    return ""


def headline_rows(view: RunView, width: int, *, tall: bool = False) -> list[Row]:
    """What matters most now; where there is room for it, a second line on the pace of all ranks."""
    state = view.state
    if state.phase is Phase.WAITING and state.waiting:
        return [waiting_row(view, width)]
    if state.first_failure is not None or state.phase in (Phase.FAILED, Phase.LOST):
        *rows, last = failure_rows(view, width, tall=tall)
        return [*rows, _with_course(last, view.progress, width)]
    if not view.live:
        return [verdict_row(view, width)]
    if state.near is not None:
        return [clip(((f" {near_line(state.near, view.now)}", "rank-behind bold"),), width)]
    if view.progress.step is None and not view.progress.metrics:
        return [clip(((f" {_hint(view)}", "muted"),), width)]
    pace = pace_row(view) if tall and view.size > 1 else ()
    return [progress_row(view, width), *([clip(pace, width)] if pace else [])]


def _hint(view: RunView) -> str:
    if view.state.phase is not Phase.RUNNING:
        again = f" again: {view.state.restarts[-1].reason}" if view.state.restarts else " …"
        return f"{view.state.phase}{again}"
    return "no step reported yet · launcher.report(step=…, loss=…) shows progress here"


def waiting_row(view: RunView, width: int) -> Row:
    """What the gang waits for and how long that may take."""
    waiting = view.state.waiting
    assert waiting is not None
    began = next((t for p, t in view.state.attempt_since if p is Phase.WAITING), view.now)
    limit = f" of {waiting.limit_s:.0f} s" if waiting.limit_s is not None else ""
    text = f" slots {waiting.have}/{waiting.need}, waiting {max(view.now - began, 0):.0f} s{limit}"
    reason = f" · {waiting.reason}" if waiting.reason else ""
    return clip(((text, "rank-behind bold"), (reason, "muted")), width)


def verdict_row(view: RunView, width: int) -> Row:
    """How a run ended that nothing failed in."""
    glyph, style = PHASE_GLYPHS[view.state.phase]
    spans: list[Span] = [(f" {glyph} {view.state.why or view.state.phase}", f"{style} bold")]
    if view.progress.step is not None:
        spans.append((f"  step {_steps(view.progress)}", ""))
    spans += fig.metric_spans(view.progress.metrics)
    spans += [(f"  {told}", "rank-failed") for told in view.progress.not_finite]
    if view.results:
        spans.append((f"  results {len(view.results)}/{len(view.ranks)}", ""))
    return _with_course(tuple(spans), view.progress, width)


def _with_course(row: Row, progress: Progress, width: int) -> Row:
    """A line, and the loss's course at its end if there is room."""
    room = width - width_of(row) - 3
    if len(progress.losses) > 2 and room >= _LEAST_COURSE:
        row = (*row, ("  ", ""), (fig.curve(progress.losses, min(room, _COURSE)), "bar"))
    return clip(row, width)


def _steps(progress: Progress) -> str:
    """The last rank's step; and the first one's, where ranks are far apart."""
    first = f"…{fig.count(progress.front)}" if progress.spread else ""
    return f"{fig.count(progress.step)}{first}"


def progress_row(view: RunView, width: int) -> Row:
    """Step, pace, the reported figures and the loss's course."""
    progress = view.progress
    total = f"/{fig.count(progress.total)}" if progress.total else ""
    spans: list[Span] = [(f" step {_steps(progress)}{total}", "bold")]
    share = progress.step / progress.total if progress.total and progress.step is not None else None
    tail: list[Span] = []
    if progress.step_s is not None:
        tail.append((f"  {progress.step_s:.3g} s/step", ""))
    times = progress.step_times
    if times is not None and times.most >= _STANDS_OUT * times.p50 and view.size > 1:
        tail.append((f", max {fig.seconds(times.most)} r{times.most_rank}", "rank-behind"))
    tail += fig.metric_spans(progress.metrics)
    if progress.left_s is not None:
        tail.append((f"  left {fig.age(int(progress.left_s))}", "muted"))
    if progress.checkpoint is not None:
        saved = f"  checkpoint {fig.count(progress.checkpoint)}, {fig.age(progress.checkpoint_age)} ago"
        tail.append((saved, "muted"))
    room = width - width_of((*spans, *tail))
    if share is not None and room >= 14:
        filled, rest = fig.bar(share, min(room - 8 if room < 34 else room - 26, 40))
        spans += [("  ", ""), (filled, "bar"), (rest, "bar-track"), (f" {share:>4.0%}", "")]
    return _with_course((*spans, *tail), progress, width)
