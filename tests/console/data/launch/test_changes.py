from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from console.data.history.query import all_runs
from console.data.launch.changes import Change, SinceLast, arguments_of, since_last
from console.data.launch.draft import Draft
from console.data.options.option import ScriptOption
from launcher.runs.catalog import create_folder
from launcher.runs.status import Status, write_status
from launcher.spec.job import JobSpec
from launcher.state.run_state import Phase

SCRIPT = """import argparse
p = argparse.ArgumentParser()
p.add_argument("--lr", type=float, default=0.01)
p.add_argument("--steps", type=int, default=5)
p.add_argument("--token")
p.add_argument("--fast", action="store_true")
p.parse_args()
"""


@pytest.fixture
def draft(project: Path) -> Draft:
    (project / "script.py").write_text(SCRIPT)
    os.utime(project / "script.py", (0, 0))
    return Draft("script.py", args="--lr 0.1 --fast", processes="2", workdir=project)


def ended(root: Path, spec: JobSpec, started: float = 1000.0, state: Phase = Phase.SUCCEEDED) -> Path:
    folder = create_folder(root, started, spec)
    write_status(
        folder,
        Status(
            folder.name, target=spec.target.label, state=state, num_processes=2, started=started, exit_code=0
        ),
    )
    return folder


def since(draft: Draft, root: Path) -> SinceLast | None:
    return since_last(draft, all_runs(root), root, now=5000.0)


def changes(draft: Draft, root: Path) -> list[Change]:
    found = since(draft, root)
    assert found is not None
    return [*found.changes]


def test_the_same_again_differs_in_nothing(draft: Draft, root: Path) -> None:
    run = ended(root, draft.resolved())
    found = since(replace(draft, args="--fast --lr=1e-1"), root)

    assert found == SinceLast(found.run) if found else False
    assert found is not None
    assert run.name == found.run.id


def test_every_change_is_named(draft: Draft, root: Path) -> None:
    ended(root, draft.resolved())
    now = replace(draft, args="--lr 0.3 --steps 9", processes="4", gpu="no", extras={"name": "b"})

    assert {
        Change("--lr", "0.1", "0.3"),
        Change("--fast", "yes", ""),
        Change("--steps", "5", "9"),
        Change("processes", "2", "4"),
        Change("GPUs", "auto", "no"),
        Change("--name", "", "b"),
    } == set(changes(now, root))


def test_a_value_that_is_left_out_is_its_default(draft: Draft, root: Path) -> None:
    ended(root, draft.resolved())

    assert [Change("--lr", "0.1", "0.01")] == changes(replace(draft, args="--fast"), root)
    assert [] == changes(replace(draft, args=draft.args + " --steps 5"), root)


def test_parameters_are_compared_as_they_are_typed(project: Path, root: Path) -> None:
    os.utime(project / "train.py", (0, 0))
    first = Draft("train.py:main", params={"lr": "3e-4"}, workdir=project)
    ended(root, first.resolved())

    assert [] == changes(replace(first, params={"lr": "0.0003", "steps": "20", "opt": "adam"}), root)
    assert [Change("opt", "'adam'", "sgd")] == changes(
        replace(first, params={"lr": "3e-4", "opt": "sgd"}), root
    )


def test_the_newest_run_of_the_same_target_counts(draft: Draft, root: Path) -> None:
    ended(root, draft.resolved(), started=1000.0)
    ended(root, replace(draft, processes="3").resolved(), started=2000.0)

    assert [Change("processes", "3", "2")] == changes(draft, root)
    assert None is since(replace(draft, target="score.py"), root)
    assert None is since(replace(draft, target=""), root)


def test_a_file_that_was_edited_since_is_told(draft: Draft, root: Path, project: Path) -> None:
    ended(root, draft.resolved())
    os.utime(project / "script.py", (3000, 3000))

    assert [Change("script.py", "", "edited 33m ago")] == changes(draft, root)


def test_secrets_are_not_compared_and_not_shown(draft: Draft, root: Path) -> None:
    ended(
        root,
        replace(draft, args="--token=hunter2secret", extras={"env": "API_TOKEN=hunter2secret"}).resolved(),
    )
    told = changes(replace(draft, args="--token=other", extras={"env": "API_TOKEN=other"}), root)

    assert told
    assert "hunter2" not in str(told)


def test_records_that_are_garbage_are_passed_over(draft: Draft, root: Path, project: Path) -> None:
    ended(root, draft.resolved())
    for name, text in (
        ("20990101-000000-aaaaaa", b"\0garbage"),
        ("20990102-000000-aaaaaa", b'{"target": 3}'),
    ):
        (root / name).mkdir()
        (root / name / "spec.json").write_bytes(text)
        write_status(root / name, Status(name, target=str(project / "script.py"), state=Phase.FAILED))

    assert [] == changes(draft, root)
    assert None is since_last(draft, [Status("../../etc", target="script.py")], root, 0.0)
    assert None is since_last(draft, [Status("x", target="\0")], root, 0.0)


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("--lr 0.1 -x --y=3", {"--lr": "0.1", "-x": "yes", "--y": "3"}),
        ("a.b=3 pos -1", {"a.b": "3", "arguments": "pos -1"}),
        ("--lr -1e-3 --fast pos", {"--lr": "-1e-3", "--fast": "yes", "arguments": "pos"}),
        ("-l 2 -l 3", {"--lr": "3"}),
        ("'never closed", {"arguments": "'never closed"}),
        ("", {}),
        ("--", {}),
        ("--unknown 1 2 --lr 3", {"--unknown": "1 2", "--lr": "3"}),
    ],
)
def test_arguments_are_told_apart_by_name(line: str, given: dict[str, str]) -> None:
    options = (ScriptOption(("--lr", "-l")), ScriptOption(("--fast",), flag=True))

    assert given == arguments_of(line, options)
