"""DeepSpeed: the variables of its own launcher, the arguments that scripts take, and its configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.distributor import Distributor
from launcher.errors import SpecError
from launcher.frameworks import torch
from launcher.frameworks.base import Call, Rendezvous
from launcher.frameworks.deepspeed import DEEPSPEED
from launcher.spec.places import Assignment
from tests import segments
from tests.commands import rankdeck
from tests.targets import lookalikes

PLACE = Assignment(5, 8, 1, 4, 1, 2, agent=3, host="beta")
RENDEZVOUS = Rendezvous("10.0.0.7", 43210, "run-1")
LOCAL = "parser.add_argument('--local_rank', type=int)"
CONFIG = 'parser.add_argument("--deepspeed_config")'
SWITCH = 'parser.add_argument("--deepspeed", action="store_true")'
GIVEN = ["--deepspeed", "--deepspeed_config", "/c.json"]


def argv(source: str, *args: str, config: str = "") -> list[str]:
    return [*DEEPSPEED.argv(PLACE, RENDEZVOUS, Call(args, source, config))]


def test_ranks_have_the_variables_of_both_launchers() -> None:
    env = dict(DEEPSPEED.environ(PLACE, RENDEZVOUS))

    assert {"LOCAL_SIZE": "4", "CROSS_RANK": "1", "CROSS_SIZE": "2"} == {
        name: env.pop(name) for name in ("LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")
    }
    assert torch.environ(PLACE, RENDEZVOUS) == env


@pytest.fixture
def others() -> Iterator[Path]:
    """A segment of another training's rank, which is still needed."""
    path = segments.of_another_training()
    path.touch()
    yield path
    path.unlink()


@pytest.mark.process
@pytest.mark.usefixtures("mark")
@pytest.mark.parametrize(("end", "restarts"), [("", 0), ("raise ValueError", 1)])
def test_shared_memory_that_ranks_leave_is_removed_and_that_of_others_is_not(
    tmp_path: Path, others: Path, end: str, restarts: int
) -> None:
    script = tmp_path / "train.py"
    script.write_text(segments.MAKE + end)
    distributor = Distributor(2, framework="deepspeed", max_restarts=restarts, root=tmp_path / "runs")

    job = distributor.start(str(script))
    job.wait(60)

    left = [segments.made_by(job, 2, attempt) for attempt in range(restarts + 1)]
    assert all(left)
    assert not any(segment.exists() for attempt in left for segment in attempt)
    assert others.exists()


@pytest.mark.parametrize(
    ("source", "args", "config", "expected"),
    [
        ("", ["--lr=1"], "", ["--lr=1"]),
        ("", ["--lr=1"], "/c.json", ["--lr=1"]),  # argparse would refuse what a script does not declare
        (LOCAL, ["--lr=1"], "", ["--lr=1", "--local_rank=1"]),
        (LOCAL.replace("_rank", "-rank"), [], "", ["--local-rank=1"]),
        (LOCAL, ["--local_rank=0"], "", ["--local_rank=0"]),
        (LOCAL, ["--local-rank", "0"], "", ["--local-rank", "0"]),
        ("# it takes --local_rank", [], "", []),
        (CONFIG, [], "", []),
        (CONFIG, [], "/c.json", GIVEN[1:]),
        (CONFIG + SWITCH, [], "/c.json", GIVEN),
        (SWITCH, [], "/c.json", []),
        ("parser = deepspeed.add_config_arguments(parser)", [], "/c.json", GIVEN),
        (CONFIG, ["--deepspeed_config", "/own.json"], "/c.json", ["--deepspeed_config", "/own.json"]),
        (LOCAL + CONFIG, ["x"], "/c.json", ["x", "--local_rank=1", *GIVEN[1:]]),
    ],
)
def test_a_script_gets_what_it_takes_and_was_not_given(
    source: str, args: list[str], config: str, expected: list[str]
) -> None:
    assert expected == argv(source, *args, config=config)


SCRIPT = """
import argparse, deepspeed, json, launcher
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, required=True)
parser.add_argument("--deepspeed", action="store_true")
parser.add_argument("--deepspeed_config")
args = parser.parse_args()
deepspeed.initialize()
path = args.deepspeed_config
launcher.publish([args.local_rank, args.deepspeed, json.load(open(path)), path])
"""
FUNCTION = """
import deepspeed
def main():
    import json, sys
    at = sys.argv.index("--deepspeed_config")
    return json.load(open(sys.argv[at + 1]))
"""
VALUE = {"train_batch_size": 8, "name": "ü"}


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    lookalikes.write(tmp_path / "site")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    (tmp_path / "call.py").write_text(FUNCTION)
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def given(tmp_path: Path, kind: str) -> Any:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(VALUE))
    return {"dict": VALUE, "file": file, "text": json.dumps(VALUE)}[kind]


@pytest.mark.process
@pytest.mark.usefixtures("mark")
@pytest.mark.parametrize("kind", ["dict", "file", "text"])
def test_a_configuration_arrives_as_a_file_and_leaves_nothing(
    script: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    values = Distributor(2, deepspeed_config=given(tmp_path, kind)).start(str(script)).results()

    assert [[0, True, VALUE], [1, True, VALUE]] == [value[:3] for value in values]
    assert not any(Path(value[3]).exists() for value in values)
    assert [] == list(scratch.iterdir())


@pytest.mark.process
@pytest.mark.usefixtures("mark")
def test_a_function_finds_it_among_the_arguments_of_its_process(script: Path) -> None:
    # the source of a function does not say so, and DeepSpeed's own reader of arguments would be what reads it
    (script.parent / "call.py").write_text(FUNCTION + "# deepspeed.add_config_arguments\n")

    assert VALUE == Distributor(1, deepspeed_config=VALUE).run(f"{script.parent}/call.py:main")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, r"--deepspeed-config: .*config\.json cannot be read: No such file or directory"),
        ("{", r"config\.json is not valid JSON: "),
        ("[1]", r"config\.json holds no JSON object"),
        ("[" * 100_000, r"config\.json is not valid JSON"),
    ],
)
def test_a_configuration_that_is_none_is_refused_before_anything_starts(
    home: Path, script: Path, tmp_path: Path, text: str | None, said: str
) -> None:
    file = tmp_path / "config.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SpecError, match=said):
        Distributor(1, deepspeed_config=file).start(str(script))
    assert 2 == rankdeck("run", script, "--deepspeed-config", file).returncode
    assert not (home / "runs").exists()


def test_a_value_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(SpecError, match="deepspeed_config takes a path, or a JSON object"):
        Distributor(1, deepspeed_config={"a": object()})


def test_a_configuration_for_another_framework_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "plain.py"
    script.touch()
    with pytest.raises(SpecError, match="is for DeepSpeed, and the target uses torch"):
        Distributor(1, deepspeed_config={}).start(str(script))
