"""Why a run failed, in one block: the first failed rank, its host, end and traceback; the other ranks."""

from __future__ import annotations

import textwrap
from collections import Counter

from launcher.diagnosis.failing_code import traceback_text
from launcher.diagnosis.failure import Certainty
from launcher.diagnosis.stacks import standstill_line
from launcher.diagnosis.wording import cause_lines, cause_text
from launcher.state.events import CauseFound
from launcher.state.outcome_rules import left_before, reason_in
from launcher.state.ranks import Rank, RankPhase
from launcher.state.run_state import RunState
from launcher.state.tracebacks import quoted

from ... import formatting as fig
from ...data.run.model import RunView
from ..widgets.rows import Row, clip

_MOST_ROWS, _FEWEST = 8, 5


def failure_rows(view: RunView, width: int, *, tall: bool = False) -> list[Row]:
    """The block in a few lines, some more if `tall`; the result pane has all of it.

    A cause that is certain goes before the exception's message, which has the room that is left.
    """
    first = view.state.first_failure
    if first is None:
        head: Row = ((f" ✗ {view.state.why or view.state.phase}", "rank-failed bold"),)
        return [clip(row, width) for row in (head, *_standing(view.state, width, tall=tall))]
    rows: list[Row] = [
        ((f" ✗ rank {first.rank} on {first.host} {ending(first)}", "rank-failed bold"),),
    ]
    cause = _cause_rows(view.state.found, tall=tall)
    if first.raised:
        room = (_MOST_ROWS if tall else _FEWEST) - 2 - bool(first.raised.frames) - len(cause)
        message = _said(first.raised.message) or first.raised.kind
        rows += [((f"   {line}", ""),) for line in (_wrapped(message, width - 3, room) if room > 0 else ())]
        if first.raised.frames:
            rows.append(((f"   {place(first)}", "muted"),))
    if early := left_before(view.state, first):
        rows.append(((f"   {early}", ""),))
    rows += cause
    rows.append(((f"   {circumstances(view.state, first)}", "muted"),))
    return [clip(row, width) for row in rows]


def _standing(state: RunState, width: int, *, tall: bool) -> list[Row]:
    """Why a gang without a first failure ended: the cause, else where its ranks were."""
    standstill = standstill_line(state.last_stacks)
    text = f"cause: {cause_text(state.found)}" if state.found is not None else standstill
    lines = _wrapped(text, width - 3, _MOST_ROWS - 2 if tall else 2) if text else []
    return [((f"   {line}", ""),) for line in lines]


def _cause_rows(found: CauseFound | None, *, tall: bool) -> list[Row]:
    """The cause and the best remedy; the result pane has the others, and what shows it.

    In little room the exception's message says more than the remedy for a cause that is only likely.
    """
    if found is None:
        return []
    rows: list[Row] = [((f"   cause: {cause_text(found)}", "bold"),)]
    remedies = found.remedy[:1] if tall or found.certainty == Certainty.CERTAIN else ()
    return rows + [((f"   remedy: {remedy}", ""),) for remedy in remedies]


def _said(message: str) -> str:
    """An exception's message, without the traceback that it may quote: the result pane has that."""
    return reason_in(message) if quoted(message) else message


def _wrapped(text: str, width: int, lines: int) -> list[str]:
    """A text wrapped to at most `lines` lines; the end of a line with wide characters may be clipped."""
    return textwrap.wrap(text, max(width, 8), max_lines=lines, placeholder=" …") or [text]


def ending(rank: Rank) -> str:
    """How a rank ended."""
    if rank.raised:
        return f"raised {rank.raised.kind}"
    if rank.phase is RankPhase.STOPPED:
        return f"was stopped by {rank.signal}" if rank.signal else f"was told to stop, exit {rank.exit_code}"
    if rank.signal:
        return f"was killed by {rank.signal}" + (" (the kernel ran out of memory)" if rank.oom_kills else "")
    if rank.unreturned:
        return "never returned: its process ended with 0"
    if rank.exit_code is not None:
        return f"exited with {rank.exit_code}"
    return str(rank.phase)


def place(rank: Rank) -> str:
    """Where the exception was raised: the frames of the user's code, innermost first."""
    frames = rank.raised.frames if rank.raised else ()
    shown = (f"{file.rpartition('/')[2]}:{line} in {function}" for file, line, function in reversed(frames))
    return " ← ".join(shown)


def circumstances(state: RunState, first: Rank) -> str:
    """The exit code, time and step of the first failure; and how the other ranks ended."""
    parts = []
    if first.exit_code is not None:
        parts.append(f"exit {first.exit_code}")
    if first.ended is not None and first.started is not None:
        parts.append(f"after {fig.age(int(first.ended - first.started))}")
    if first.step is not None:
        parts.append(f"at step {fig.count(first.step)}")
    others = collateral(state, first)
    return " ".join(parts) + (f" · {others}" if others else "")


def collateral(state: RunState, first: Rank) -> str:
    """How the other ranks ended, counted; a single one is named, as its count would be read as its number."""
    others = [rank for rank in state.ranks if rank.rank != first.rank]
    ends = Counter(_short(r) for r in others if r.phase.ended)
    running = sum(not r.phase.ended for r in others)
    if not others:
        return ""
    if len(others) == 1 and ends:
        return f"collateral: rank {others[0].rank} {_short(others[0])}"
    ended = ", ".join(f"{n} {what}" for what, n in ends.most_common())
    still = f"{running} still ending" if running else ""
    return "collateral: " + ", ".join(part for part in (ended, still) if part)


def _short(rank: Rank) -> str:
    if rank.phase is RankPhase.SUCCEEDED:
        return "succeeded"
    return rank.signal or f"exit {rank.exit_code}" if rank.phase is not RankPhase.LOST else "lost"


def failure_text(view: RunView) -> str:
    """The whole block as text, for the clipboard."""
    first = view.state.first_failure
    if first is None:
        return "\n".join((f"{view.state.id}: {view.state.why}", *cause_lines(view.state.found)))
    head = f"{view.state.id} {view.state.name}: rank {first.rank} on {first.host} {ending(first)}"
    detail = traceback_text(first.raised) if first.raised else view.state.why
    early = left_before(view.state, first)
    cause = cause_lines(view.state.found)
    return "\n".join(
        (head, *filter(None, (early,)), *cause, circumstances(view.state, first), "", detail, "")
    )
