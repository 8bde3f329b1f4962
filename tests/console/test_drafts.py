from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from console.sources.drafts import Draft, command_text, draft_of
from launcher.errors import SpecError
from launcher.spec import TargetKind


def test_the_command_says_what_the_form_says(project: Path) -> None:
    draft = Draft(
        target="train.py:main", params={"lr": "0.1", "note": "a b"}, processes="4", gpu="no", workdir=project
    )

    words = shlex.split(command_text(draft))

    assert words == [
        *("rankdeck", "run", "train.py:main", "-n", "4", "--no-gpu"),
        *("--param", "lr=0.1", "--param", "note=a b"),
    ]


def test_a_scripts_arguments_follow_two_dashes(project: Path) -> None:
    draft = Draft(target="score.py", args="--name 'a b' -n 3", workdir=project)

    assert shlex.split(command_text(draft))[5:] == ["--", "--name", "a b", "-n", "3"]


def test_a_draft_resolves_to_what_is_launched(project: Path) -> None:
    spec = Draft(
        target="train.py:main", params={"lr": "0.1"}, processes="2", gpu="yes", workdir=project
    ).resolved()

    assert spec.target.kind is TargetKind.FUNCTION
    assert spec.target.kwargs == (("lr", "0.1"),)
    assert (spec.num_processes, spec.gpu, spec.workdir) == (2, True, str(project))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"target": ""}, "choose a file"),
        ({"target": "train.py:main"}, "lr"),
        ({"target": "none.py"}, "none.py"),
        ({"target": "score.py", "processes": ""}, "whole number"),
        ({"target": "score.py", "processes": "0"}, "at least 1"),
        ({"target": "score.py", "args": "'open"}, "cannot be split"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(project: Path, changes: dict[str, str], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        Draft(workdir=project, **changes).resolved()  # type: ignore[arg-type]


def test_a_past_run_can_be_filled_in_again(project: Path) -> None:
    draft = Draft(target="train.py:main", params={"lr": "0.1"}, processes="2", workdir=project)

    again = draft_of(draft.resolved())

    assert again == draft
