"""What is told of a run: one frozen value of bounded size, without control characters and secrets. Pure.

A run's end is told once, as ``end`` (it succeeded or was stopped) or as ``failure`` (it failed or was lost);
the first of its alerts is told once as ``alert``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ..display.hangs import hung_line, hung_ranks
from ..display.waits import near_line
from ..runs.logs.text import plain_text
from ..spec.redaction import redacted_text
from ..state.run_state import Phase, RunState

_NAME, _SENTENCE, _READ = 120, 1000, 32 << 10


@dataclass(frozen=True, slots=True)
class Notice:
    """One message. `why` is the reason of an end, or what the alert is; without an end, no `exit_code`."""

    kind: str
    id: str
    name: str
    target: str
    state: str
    why: str
    exit_code: int | None
    num_processes: int
    started: float | None
    ended: float | None

    @property
    def text(self) -> str:
        """One sentence for people."""
        label = self.name or self.target or self.id
        code = f" (exit {self.exit_code})" if self.exit_code else ""
        head = f"{label}: alert" if self.kind == "alert" else f"{label} {self.state}{code}"
        return f"{head}: {self.why}" if self.why else head

    @property
    def document(self) -> Mapping[str, object]:
        """What a webhook gets; `text` is what chat services show."""
        return {**asdict(self), "text": self.text}


def notice_of(state: RunState, kind: str, why: str) -> Notice:
    """The notice of a run, with its texts cleaned."""
    return Notice(
        kind=kind,
        id=_cleaned(state.id, _NAME),
        name=_cleaned(state.name, _NAME),
        target=_cleaned(state.target, _NAME),
        state=state.phase.value,
        why=_cleaned(why, _SENTENCE),
        exit_code=state.exit_code,
        num_processes=len(state.ranks) or state.num_processes,
        started=state.started,
        ended=state.ended,
    )


def end_notice(state: RunState) -> Notice:
    """The notice of a run that has ended."""
    bad = state.phase in (Phase.FAILED, Phase.LOST)
    why = "" if state.phase is Phase.SUCCEEDED else state.why
    return notice_of(state, "failure" if bad else "end", why)


def alert_in(state: RunState, now: float) -> str:
    """Why somebody should look at a run that goes on; empty if nobody need. It reads every rank."""
    if state.phase.final:
        return ""
    if hung_ranks(state) and (line := hung_line(state, now)):
        return line
    if state.near is not None:
        return near_line(state.near)
    if state.xids:
        xid = state.xids[0]
        return f"a GPU of {xid.host} logged Xid {xid.xid}"
    if state.recording is not None:
        return f"the run folder cannot be written: {state.recording.reason}"
    if state.restarts:
        return f"it was restarted: {state.restarts[-1].reason}"
    return ""


def _cleaned(text: str, most: int) -> str:
    """One line of text, masked before it is cut: half a secret has no shape."""
    line = " ".join(redacted_text(plain_text(text[:_READ])).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
