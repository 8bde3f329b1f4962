"""The keys of a run that goes on, which is a replay: stop, kill, leave; and of one that failed."""

from __future__ import annotations

from tests.console.ui.keys.pressing import (
    both,
    copies,
    draws_again,
    goes_to,
    key,
    leaves,
    loses,
    paints,
    sees,
    swings,
    typed,
)

LIVE = [
    key("run.stop", "x", sees("Stop this run?")),
    key("confirm.no", "n", loses("Stop this run?")),
    typed("\x1bOQ", sees("1 Runs")),
    key("history.stop", "x", sees("Stop this run?")),
    typed("n", loses("Stop this run?")),
    typed("\r", sees("1 Ranks")),
    key("run.kill", "X", sees("Kill this run?")),
    key("confirm.yes", "y", sees("■ stopped on request", "SIGKILL")),
    key("run.detach", "q", leaves(143)),
]
FAILED = [
    key("run.copy", "y", copies("ValueError")),
    key("run.edit", "e", sees("EDITING +2")),
    typed("\r", loses("EDITING")),
    typed("4", goes_to("4 Result")),
    typed("z", loses("3 Logs")),
    key("frame.previous", "p", paints('File "')),
    key("frame.next", "n", paints('File "')),
    key("run.stacks", "T", sees("─ Stacks ·")),
    key("stacks.unfold", "a", sees("in c")),
    key("stacks.copy", "y", copies("fit")),
    key("stacks.edit", "e", sees("EDITING")),
    typed("\r", loses("EDITING")),
    key("stacks.close", "escape", loses("─ Stacks ·")),
    key("run.stacks", "T", sees("─ Stacks ·")),
    key("stacks.close", "q", loses("─ Stacks ·")),
]
SHELL = [
    typed("$RANKDECK attach 20260101-100000-0000de\r", sees("train: 100%", "f Follow")),
    key("app.suspend", "ctrl+z", sees("Stopped")),
    typed("fg\r", both(draws_again("3 Logs"), loses("Stopped"))),
]
WIDE = [
    typed("1", sees("m Metric")),
    *swings("ranks.right", "l right", paints("0 ✓✓✓✓"), "ranks.left", "h left", paints("0 ✓✓✓✓")),
]
COVERED = [
    typed("1", loses("f Follow")),
    key("pane.again", "r", both(loses("this pane failed"), sees("gpu-01", "✓   7  done"))),
    key("run.rank", "r", sees("3 Logs · rank 0")),
    key("quit", "ctrl+q", leaves(0)),
]
