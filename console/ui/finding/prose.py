"""What each pane shows and what one does in it, in a sentence or two, for the help.

A pane of another module can say it itself, in the class attribute `PROSE`: its name, and the sentences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.widget import Widget

PANES: dict[str, tuple[str, str]] = {
    "LaunchForm": (
        "New run",
        "What to run and where. Type a script or function, fill in its options, launch. Fields are checked.",
    ),
    "RecentRuns": (
        "Recent runs",
        "The newest runs, and what came of them. Open one, start it again, or fill the form from it.",
    ),
    "CommandLine": ("Command", "The same launch for a shell, and whether anything is wrong with it."),
    "RankGrid": (
        "Ranks",
        "Every rank with its state, step and figures. The cursor chooses the rank that the other panes show.",
    ),
    "RankDetail": ("Rank in full", "All that is known of the rank under the cursor: process, GPU, figures."),
    "Charts": (
        "Curves and alerts",
        "Reported figures over steps, and warnings. Read them with a cursor, zoom, or open one in full.",
    ),
    "CurveSheet": (
        "Curves",
        "Figures over steps or time: the median of all ranks, the range behind it, and what happened.",
    ),
    "MetricList": ("Metrics", "Every reported figure with its last value; the chosen one is drawn in full."),
    "DevicesPane": (
        "Devices",
        "What GPUs and processors do: use, memory, power and heat, now, lately and over the whole run.",
    ),
    "TrainingList": (
        "Trainings here",
        "Scripts and functions of this folder, the likeliest first. Enter takes one into the form.",
    ),
    "SourcePreview": ("Preview", "What the training under the cursor says of itself, and its source."),
    "LaunchPlan": (
        "Before the launch",
        "What differs from the last run of this target, and where each rank would go.",
    ),
    "LogPane": (
        "Logs",
        "What the ranks print, merged as it came. Search it, filter it, follow its end, choose one rank.",
    ),
    "ResultPane": ("Result", "What the run returned, or why it failed, with the traceback and the cause."),
    "RunsList": (
        "Runs",
        "Every run, newest first. Filter and sort them, mark two to compare them, open one, delete some.",
    ),
    "RunCard": ("Run in full", "The run under the cursor: its request, how it ended, and its last figures."),
    "MachineMap": (
        "Machines",
        "The hosts and their GPUs: what is free, what is in use, and by whom. Open the run that holds one.",
    ),
    "WorkList": (
        "Runs and engines",
        "Runs that go on or wait for slots, engines, and applications of others.",
    ),
    "MachineDetail": ("In full", "All that is known of what is under the cursor of the other two panes."),
    "ComparisonSheet": (
        "Comparison",
        "Two to eight runs side by side: options, code, outcome, figures. What differs comes first.",
    ),
    "StackSheet": ("Stacks", "Where every rank stands in its code. Ranks that stand alike are grouped."),
}
"""The name of each pane and its sentences, by the name of its class."""


def prose_of(pane: Widget) -> tuple[str, str] | None:
    """A pane's name and sentences; None if there are none."""
    own = getattr(pane, "PROSE", None)
    if isinstance(own, tuple) and len(own) == 2:
        return str(own[0]), str(own[1])
    return next((PANES[kind.__name__] for kind in type(pane).__mro__ if kind.__name__ in PANES), None)
