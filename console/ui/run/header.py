"""The top of the run screen: the run, its state and phases, its progress, or why it failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from launcher.display.artifacts import coming_line
from launcher.display.hangs import hung_line, paused_line
from launcher.display.rows import RowProgress, row_progress, rows_line
from launcher.display.service import awaited_line, service_line, tells
from launcher.display.waits import files_line, near_line, waiting_ranks_line
from launcher.spec.modes import SPARK, recorded_traits
from launcher.state.ranks import RankPhase
from launcher.state.run_state import Phase

from ... import formatting as fig
from ...data.run.model import PHASE_GLYPHS, Progress, RunView
from ...data.run.narration import record_line
from ...data.run.trackers import tracker_records
from ...data.run.usage import short_texts
from ...sanitize import printable
from ..widgets.rows import Row, Span, clip, spread, width_of, wrapped_rows
from .charts import alarm_line, pace_row
from .failure import failure_rows
from .view_sheet import ViewSheet


class RunHeader(ViewSheet):
    """Which run this is, and its state."""

    def rows(self, width: int) -> Sequence[Row]:
        """One line, and one each for Spark, services, experiment trackers, and gaps in its record."""
        if self.view is None:
            return [((" …", "muted"),)]
        rows = [header_row(self.view, width)]
        traits = recorded_traits(self.view.state.mode)
        if traits and SPARK in traits.takes:
            rows.append(spark_row(self.view, width))
        if tells(self.view.state):
            rows.append(clip(((f" {printable(service_line(self.view.state))}", ""),), width))
        if self.view.state.trackers:
            rows.append(trackers_row(self.view, width))
        if record := record_line(self.view.state):
            rows.append(clip(((f" {record}", "rank-behind bold"),), width))
        return self.fit(rows)


def header_row(view: RunView, width: int) -> Row:
    """State, name, size, attempt and elapsed time; the id at the right."""
    state = view.state
    glyph, style = PHASE_GLYPHS[state.phase]
    elapsed = None if state.started is None else (state.ended or view.now) - state.started
    left: Row = (
        (f" {glyph} {state.phase}", f"{style} bold"),
        (f"  {state.name or state.id}", "bold"),
        (f"  {gang(view)}", ""),
        (attempt(view), "rank-behind" if state.attempt else "muted"),
        (f"  {fig.clock(elapsed)}", "bold"),
    )
    return spread(left, ((f"{state.id} ", "muted"),), width)


def attempt(view: RunView) -> str:
    """The number of the attempt, and the limit of restarts; empty if there is only one attempt."""
    if not (view.state.attempt or view.max_restarts):
        return ""
    return f"  attempt {view.state.attempt}" + (f"/{view.max_restarts}" if view.max_restarts else "")


def spark_row(view: RunView, width: int) -> Row:
    """The Spark application, its address and how output arrives; the least important parts drop first."""
    state, spark, delivery = view.state, view.state.spark, view.state.delivery
    parts = [(state.mode, "bold", 9)]
    if spark is None:
        parts.append(("no Spark session" + (" yet" if view.live else ""), "muted", 8))
    else:
        parts += [(spark.application, "", 7), (spark.ui, "", 6), (spark.master, "muted", 4)]
    if delivery is not None:
        way = f"output {delivery.way}"
        parts.append((way, "muted", 3) if delivery.way == "live" else (way, "rank-behind", 8))
    parts = [part for part in parts if part[0]]
    while len(parts) > 1 and sum(len(text) + 3 for text, _, _ in parts) > width + 1:
        parts.remove(min(parts, key=lambda part: part[2]))
    spans: list[Span] = [(" ", "")]
    for number, (text, style, _) in enumerate(parts):
        spans += [(" · ", "muted")] * (number > 0) + [(text, style)]
    return clip(tuple(spans), width)


def trackers_row(view: RunView, width: int) -> Row:
    """Where the run is found in experiment trackers: the first record of each, and how many there are."""
    records = tracker_records(view.state)
    spans: list[Span] = []
    for tracker in dict.fromkeys(record.tracker for record in records):
        first, *others = (record for record in records if record.tracker == tracker)
        more = f" +{len(others)}" if others else ""
        spans += [(" · " if spans else " ", "muted"), (first.name, "bold"), (f" {first.place}{more}", "")]
    return clip(tuple(spans), width)


def gang(view: RunView) -> str:
    """How many ranks, on how many hosts, with which devices."""
    parts = [f"{fig.number(view.size, 'rank' if view.state.prediction is None else 'worker')}"]
    if view.ranks:
        hosts = len({members[0].rank.host for members in view.by_agent.values()})
        parts.append(f"{fig.number(hosts, 'host')}")
        parts.append(" + ".join(f"{n}×{name}" for name, n in view.device_names.items()) or "CPU")
    return " · ".join(parts)


_TALL, _STANDS_OUT = 34, 1.5
_SHORT = 18
"""In fewer lines three tell why a run failed; the panes need the others."""
_HANG_ROWS = 3
_LEAST_COURSE, _COURSE = 8, 24
_STRIP = (
    (Phase.SUBMITTED, "submit"),
    (Phase.WAITING, "slots"),
    (Phase.STARTING, "start"),
    (Phase.RUNNING, "train"),
    (Phase.STOPPING, "stop"),
)


class PhaseStrip(ViewSheet):
    """The phases of a launch with their durations, because most first failures come before step 1."""

    def rows(self, width: int) -> Sequence[Row]:
        """One line."""
        if self.view is None:
            return [()]
        full = tuple(phase_spans(self.view))
        short = tuple((text.replace("✓ ", "") if style == "muted" else text, style) for text, style in full)
        return [full if width_of(full) <= width else clip(short, width)]


class Headline(ViewSheet):
    """Progress while the run is live; its verdict afterwards; the failure block if ranks failed."""

    DEFAULT_CSS = """
    Headline { max-height: 8; overflow-y: hidden; }
    """

    def rows(self, width: int) -> Sequence[Row]:
        """One line, or the failure block."""
        if self.view is None:
            return [()]
        height = self.app.size.height
        rows = headline_rows(self.view, width, tall=height >= _TALL)
        return self.fit(rows if height >= _SHORT else [*rows[:2], *rows[2:][-1:]])


class AlertLine(ViewSheet):
    """The active alerts; hidden while there are none."""

    def show(self, view: RunView) -> None:
        """Show a newer view of the run."""
        self.display = view.live and bool(alarm_line(view))
        super().show(view)

    def rows(self, width: int) -> Sequence[Row]:
        """One line."""
        return [clip(alarm_line(self.view), width)] if self.view is not None else [()]


def phase_spans(view: RunView) -> Iterator[Span]:
    """Every phase of the attempt: past ones with their duration, the current one marked, later ones muted."""
    spent = _spent(view)
    shown = [(p, label) for p, label in _STRIP if p in spent or p is not Phase.STOPPING]
    if view.state.attempt:
        shown = [(p, label) for p, label in shown if p in spent or p is not Phase.SUBMITTED]
        yield (f" attempt {view.state.attempt}", "rank-behind")
    for number, (phase, label) in enumerate(shown):
        yield (" › " if number or view.state.attempt else " ", "muted")
        is_prediction = phase is Phase.RUNNING and view.state.prediction is not None
        yield from _phase(view, phase, "predict" if is_prediction else label, spent)
    yield (" › ", "muted")
    glyph, style = PHASE_GLYPHS[view.state.phase]
    yield (f"end {glyph}", f"{style} bold") if not view.live else ("end", "muted")


def _spent(view: RunView) -> dict[Phase, float]:
    """Seconds in each phase of the attempt, summed if it was entered more than once."""
    entered = view.state.attempt_since
    ends = [time for _, time in entered[1:]] + [view.state.ended or view.now]
    spent: dict[Phase, float] = {}
    for (phase, began), end in zip(entered, ends, strict=False):  # a new folder has no phase yet
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
    """How much of the current phase is done, if that can be counted."""
    waiting = view.state.waiting
    if view.state.phase is Phase.WAITING and waiting:
        return f" {waiting.have}/{waiting.need}"
    if view.state.phase is Phase.STARTING:
        up = sum(v.rank.phase is not RankPhase.PLACED for v in view.ranks)
        return f" {up}/{len(view.ranks)}" if view.ranks else ""
    return ""


def headline_rows(view: RunView, width: int, *, tall: bool = False) -> list[Row]:
    """What matters most now; if `tall`, a second line on the pace of all ranks."""
    state = view.state
    if state.phase is Phase.WAITING and state.waiting:
        return [waiting_row(view, width)]
    if state.first_failure is not None or state.phase in (Phase.FAILED, Phase.LOST):
        *rows, last = failure_rows(view, width, tall=tall)
        return [*rows, _with_course(last, view.progress, width)]
    if not view.live:
        return [verdict_row(view, width)]
    if state.files is not None and state.phase is Phase.STARTING:
        return [clip(((f" {printable(files_line(state.files))}", "rank-behind bold"),), width)]
    if tells(state) and (awaited := awaited_line(state)):
        return [clip(((f" {printable(awaited)}", "rank-behind bold"),), width)]
    if state.coming and state.all_ended:
        text = " · ".join(map(coming_line, state.coming))
        return [clip(((f" {printable(text)}", "rank-behind bold"),), width)]
    if hung := hung_line(state, view.now):
        near = f" · {near_line(state.near, view.now)}" if state.near is not None else ""
        return list(islice(wrapped_rows(f"{hung}{near}", width, "rank-hung bold"), _HANG_ROWS))
    if (paused := paused_line(state)) and state.phase is Phase.RUNNING:
        return [clip(((f" {printable(paused)}", "rank-behind bold"),), width)]
    if state.near is not None:
        return [clip(((f" {near_line(state.near, view.now)}", "rank-behind bold"),), width)]
    if (predicted := row_progress(state, view.now)) is not None:
        return [rows_row(predicted, width)]
    if view.progress.step is None and not view.progress.metrics:
        if awaited := waiting_ranks_line(state):
            return [clip(((f" {awaited}", "rank-behind bold"),), width)]
        return [clip(((f" {_hint(view)}", "muted"),), width)]
    pace = pace_row(view) if tall and view.size > 1 else ()
    return [progress_row(view, width), *([clip(pace, width)] if pace else [])]


def rows_row(progress: RowProgress, width: int) -> Row:
    """The rows of a prediction, their rate, the time left, and a bar."""
    row: Row = ((f" {rows_line(progress)}", "bold"),)
    room = width - width_of(row)
    if progress.done is not None and room >= _LEAST_COURSE:
        filled, rest = fig.bar(progress.done, min(room - 4, 40))
        row = (*row, ("  ", ""), (filled, "bar"), (rest, "bar-track"))
    return clip(row, width)


def _hint(view: RunView) -> str:
    if view.state.phase is not Phase.RUNNING:
        again = f" again: {view.state.restarts[-1].reason}" if view.state.restarts else " …"
        return f"{view.state.phase}{again}"
    return "no step reported yet · launcher.report(step=…, loss=…) shows progress here"


def waiting_row(view: RunView, width: int) -> Row:
    """What the gang waits for, how long already, and the limit."""
    waiting = view.state.waiting
    assert waiting is not None
    began = next((t for p, t in view.state.attempt_since if p is Phase.WAITING), view.now)
    limit = f" of {waiting.limit_s:.0f} s" if waiting.limit_s is not None else ""
    text = f" slots {waiting.have}/{waiting.need}, waiting {max(view.now - began, 0):.0f} s{limit}"
    reason = f" · {waiting.reason}" if waiting.reason else ""
    return clip(((text, "rank-behind bold"), (reason, "muted")), width)


def verdict_row(view: RunView, width: int) -> Row:
    """How a run without failures ended."""
    glyph, style = PHASE_GLYPHS[view.state.phase]
    if view.state.separate is not None:
        glyph, style = "!", "rank-behind"
    spans: list[Span] = [(f" {glyph} {view.state.why or view.state.phase}", f"{style} bold")]
    if view.state.prediction is not None:
        return clip(tuple(spans), width)
    if view.progress.step is not None:
        spans.append((f"  step {_steps(view.progress)}", ""))
    spans += fig.metric_spans(view.progress.metrics)
    spans += [(f"  {alert}", "rank-failed") for alert in view.progress.not_finite]
    results = f"  results {len(view.results)}/{len(view.ranks)}" if view.results else ""
    used = "".join(f"  {text}" for text in short_texts(view.use))
    if width_of(tuple(spans)) + len(results) + len(used) <= width:
        spans.append((used, "bold"))
    spans.append((results, ""))
    return _with_course(tuple(spans), view.progress, width)


def _with_course(row: Row, progress: Progress, width: int) -> Row:
    """A line, with the curve of the loss at its end if there is room."""
    room = width - width_of(row) - 3
    if len(progress.losses) > 2 and room >= _LEAST_COURSE:
        row = (*row, ("  ", ""), (fig.curve(progress.losses, min(room, _COURSE)), "bar"))
    return clip(row, width)


def _steps(progress: Progress) -> str:
    """The step of the slowest rank; and that of the fastest, if they are far apart."""
    first = f"…{fig.count(progress.front)}" if progress.spread else ""
    return f"{fig.count(progress.step)}{first}"


def progress_row(view: RunView, width: int) -> Row:
    """Step, pace, the reported figures and the curve of the loss."""
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
