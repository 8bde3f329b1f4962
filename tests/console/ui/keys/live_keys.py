"""The keys of a run that goes on, which is a replay: stop, kill, start again, leave; and of one that failed."""

from __future__ import annotations

from tests.console.ui.keys.pressing import both, copies, key, leaves, loses, sees, sends, typed

LIVE = [
    key("run.stop", "x", sees("Stop this run?")),
    key("confirm.no", "n", loses("Stop this run?")),
    key("run.kill", "X", sees("Kill this run?")),
    key("confirm.yes", "y", sees("✗ ")),
    key("run.detach", "q", leaves(0)),
]
FAILED = [
    key("run.copy", "y", copies("ValueError")),
    key("run.edit", "e", sees("EDITING +2")),
    typed("\r", loses("EDITING")),
    typed("4", sees("x")),
    key("frame.next", "n", sees("x")),
    key("frame.previous", "p", sees("x")),
    key("run.stacks", "T", sees("Stacks")),
    key("stacks.unfold", "a", sees("x")),
    key("stacks.copy", "y", copies("fit")),
    key("stacks.edit", "e", sees("EDITING")),
    typed("\r", loses("EDITING")),
    key("stacks.close", "escape", loses("Stacks")),
    key("run.stacks", "T", sees("Stacks")),
    key("stacks.close", "q", loses("Stacks")),
]
