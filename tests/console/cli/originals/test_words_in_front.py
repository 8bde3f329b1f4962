"""One word of ours in front of another launcher's line, as a person types it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from console.cli.main import cli
from console.cli.originals.base import Translation
from console.cli.originals.command import request_for
from launcher.agent.gpus import VISIBLE
from launcher.settings import config_file
from launcher.spec.job import TargetKind
from tests import commands, framework_envs
from tests.commands import rankdeck
from tests.console.cli.originals.lines import EXAMPLES
from tests.fakes.nvml_build import FakeGpu, FakeNvml

TELLS = """
import os, sys
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], sys.argv[1:], flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a script under several names."""
    work = tmp_path / "work"
    (work / "package").mkdir(parents=True)
    for name in ("train.py", "train", "package/train.py"):
        (work / name).write_text(TELLS)
    (work / "package" / "__init__.py").touch()
    (work / "package" / "__main__.py").write_text(TELLS)
    (work / "empty").mkdir()
    (work / "run.sh").write_text('#!/bin/sh\necho "rank $RANK of $WORLD_SIZE ["$@"]"\n')
    (work / "run.sh").chmod(0o755)
    (work / "broken").write_text("def fn(:\n")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # a machine without GPUs, wherever this runs
    return work


def printed(done: subprocess.CompletedProcess[str]) -> list[str]:
    return sorted(re.sub(r"^r\d+ +\| ", "", line) for line in done.stdout.splitlines())


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The one sentence on stderr; click puts a word on usage before it."""
    said = [line for line in done.stderr.splitlines() if line.startswith(("rankdeck: ", "Error: "))]
    assert 1 == len(said), done.stderr
    return said[0].partition(": ")[2]


@pytest.mark.process
@pytest.mark.parametrize(
    ("line", "args"),
    [
        (
            "torchrun --nproc-per-node 2 train.py --lr 0.1 --nproc-per-node 3",
            "['--lr', '0.1', '--nproc-per-node', '3']",
        ),
        ("torchrun --standalone --nproc_per_n=2 train.py config/a.py", "['config/a.py']"),
        ("torchrun --nproc-per-node=2 train.py a -- --b", "['a', '--', '--b']"),
        ("torchrun --nproc-per-node 2 train x", "['x']"),
        ("torchrun --nproc-per-node 2 package x", "['x']"),
        ("torchrun --nproc-per-node 2 -m package.train x", "['x']"),
        ("torchrun --nproc-per-node 2 --no-python ./run.sh x", "[x]"),
        ("-n 2 torchrun train.py", "[]"),
        ("deepspeed --num_gpus 2 train.py --deepspeed", "['--deepspeed']"),
        ("deepspeed --num_gpus 2 --module package.train", "[]"),
        ("horovodrun -np 2 ./run.sh y", "[y]"),
    ],
)
def test_ranks_are_started_and_get_their_words(folder: Path, line: str, args: str) -> None:
    done = rankdeck(*line.split(), cwd=folder)

    assert 0 == done.returncode, done.stderr
    assert [f"rank {rank} of 2 {args}" for rank in (0, 1)] == printed(done)


@pytest.mark.process
def test_ranks_meet_and_train(targets: Path) -> None:
    done = rankdeck("torchrun", "--nnodes=1", "--nproc_per_node=2", targets / "all_reduce.py")

    assert (0, ["sum 2", "sum 2"]) == (done.returncode, printed(done)), done.stderr


@pytest.mark.process
def test_the_exit_code_of_a_script_passes_through(targets: Path) -> None:
    assert 7 == rankdeck("torchrun", "--nproc-per-node", "2", targets / "failing.py", "exit_7").returncode
    done = rankdeck("torchrun", targets / "failing.py", "wrong_value")
    assert 1 == done.returncode
    assert "ValueError: bad learning rate" in done.stderr


@pytest.mark.process
def test_variables_are_defaults_and_notes_are_said(folder: Path) -> None:
    env = {"PET_NPROC_PER_NODE": "2", "PET_RDZV_ENDPOINT": "localhost:1"}
    done = rankdeck("torchrun", "--log-dir", "logs", "train.py", cwd=folder, env=env)

    assert 2 == len(printed(done))
    notes = [line for line in done.stderr.splitlines() if "torchrun's" in line]
    assert (
        "note: torchrun's PET_RDZV_ENDPOINT has no meaning here: rankdeck makes the rendezvous itself"
        == notes[0]
    )
    assert notes[1].startswith(
        "note: torchrun's --log-dir has no meaning here: the run's folder keeps every rank's"
    )
    assert 2 == len(notes)


@pytest.mark.process
def test_our_options_stand_before_the_word_and_win(folder: Path) -> None:
    ours = "--name ours --env A=1 --ranks 1 --output text -n 2"
    line = "torchrun --nproc-per-node gpu --local-ranks-filter 0 train.py"
    done = rankdeck(*f"{ours} {line}".split(), cwd=folder)

    assert (0, ["rank 1 of 2 []"]) == (done.returncode, printed(done)), done.stderr
    assert "torchrun's --nproc-per-node has no effect: --num-processes stands before the word" in done.stderr
    assert "torchrun's --local-ranks-filter has no effect: --ranks stands before the word" in done.stderr
    assert '"name": "ours"' in rankdeck("show", "last", "--json").stdout
    filtered = rankdeck(
        "torchrun", "--nproc-per-node", "2", "--local-ranks-filter", "0", "train.py", cwd=folder
    )
    assert ["rank 0 of 2 []"] == printed(filtered)


@pytest.mark.process
def test_defaults_apply_where_neither_says_anything(folder: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    file = config_file({"RANKDECK_HOME": str(home)})
    file.parent.mkdir(parents=True)
    file.write_text('[defaults]\nnum_processes = 4\nname = "usual"\nenv.B = "2"\n')
    env = {"RANKDECK_HOME": str(home)}
    plan = rankdeck("--dry-run", "--env", "A=1", "torchrun", "train.py", cwd=folder, env=env)

    assert 1 == plan.stdout.count("\nrank ")
    assert {"env      A=1", "env      B=2"} <= {*plan.stdout.splitlines()}
    aside = rankdeck("--no-defaults", "--dry-run", "torchrun", "train.py", cwd=folder, env=env)
    assert "env  " not in aside.stdout
    file.write_text('[defaults]\nmode = "cluster"\nspark = "spark://h:7077"\n')
    line = "torchrun --nnodes 2 --nproc-per-node 4 train.py"
    assert "8 barrier tasks" in rankdeck("--dry-run", *line.split(), cwd=folder, env=env).stdout


@pytest.mark.process
@pytest.mark.parametrize(
    ("line", "devices"),
    [
        ("torchrun --nproc-per-node gpu train.py", ["GPU-a", "GPU-b", "GPU-c"]),
        ("torchrun --nproc-per-node auto train.py", ["GPU-a", "GPU-b", "GPU-c"]),
        ("torchrun --nproc-per-node 2 train.py", ["GPU-a", "GPU-b"]),
        ("deepspeed train.py", ["GPU-a", "GPU-b", "GPU-c"]),
        ("deepspeed --include localhost:0,2 train.py", ["GPU-a", "GPU-c"]),
        ("deepspeed --exclude localhost:0 train.py", ["GPU-b", "GPU-c"]),
        ("deepspeed --num_gpus 1 train.py", ["GPU-a"]),
        ("horovodrun -np 2 python train.py", ["GPU-a", "GPU-b"]),
        ("run --env CUDA_VISIBLE_DEVICES=1 train.py", ["GPU-b"]),
        ("--env CUDA_VISIBLE_DEVICES=1,2 torchrun --nproc-per-node gpu train.py", ["GPU-b", "GPU-c"]),
    ],
)
def test_ranks_get_the_gpus_that_the_line_counts_or_chooses(
    folder: Path, nvml_elsewhere: FakeNvml, monkeypatch: pytest.MonkeyPatch, line: str, devices: list[str]
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    nvml_elsewhere.say(FakeGpu("GPU-a"), FakeGpu("GPU-b"), FakeGpu("GPU-c"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**nvml_elsewhere.environment, "PATH": path}
    first, *rest = line.split()
    words = [first, "--dry-run", *rest] if first == "run" else ["--dry-run", first, *rest]
    done = rankdeck(*words, cwd=folder, env=env)

    assert 0 == done.returncode, done.stderr
    assert devices == re.findall(r"^rank \d+ .*(GPU-\w)", done.stdout, re.MULTILINE)


def test_gpus_that_the_line_chooses_are_recorded_as_variables_of_the_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    made = Translation(TargetKind.SCRIPT, "train.py", environ={"A": "1", "B": "1", VISIBLE: "0,2"})
    request = request_for(made, {"env": {"B": "2"}}, {})

    assert {"A": "1", "B": "2", VISIBLE: "0,2"} == request.spec.env
    assert "1" == request_for(made, {"env": {VISIBLE: "1"}}, {}).spec.env[VISIBLE]


def test_an_originals_own_default_counts_where_nobody_says_a_value(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    made = Translation(TargetKind.SCRIPT, "train.py", usual={"grace_s": 30.0})
    said = replace(made, options={"grace_s": 5.0})

    assert 30.0 == request_for(made, {}, {}).spec.grace_s
    assert 20.0 == request_for(made, {}, {"grace_s": "20"}).spec.grace_s
    assert 5.0 == request_for(said, {}, {"grace_s": "20"}).spec.grace_s
    assert 1.0 == request_for(said, {"grace_s": 1.0}, {"grace_s": "20"}).spec.grace_s


@pytest.mark.process
def test_a_run_is_detached_or_told_as_facts_by_options_before_the_word(folder: Path) -> None:
    line = "torchrun --nproc-per-node 2 --local-ranks-filter 0 train.py"
    detached = rankdeck("--detach", *line.split(), cwd=folder)

    assert 0 == detached.returncode, detached.stderr
    assert "a detached run prints no output" in detached.stderr
    assert 2 == rankdeck("logs", detached.stdout.strip(), "-f").stdout.count(" of 2 []")
    told = rankdeck("--output", "jsonl", *line.split(), cwd=folder)
    assert all(line.startswith("{") for line in told.stdout.splitlines())


@pytest.mark.process
def test_on_spark_one_line_is_planned_for_all_nodes(folder: Path) -> None:
    line = "--nproc_per_node=8 --nnodes=2 --node_rank=0 --master_addr=10.0.0.1 --master_port=1234 train.py"
    done = rankdeck("--master", "spark://h:7077", "--dry-run", "torchrun", *line.split(), cwd=folder)

    assert 0 == done.returncode
    assert "stage    16 barrier tasks of 1 rank, each with 1 GPU where there are any" in done.stdout
    assert "torchrun's --master_addr and --master_port have no meaning here" in done.stderr


WRONG = [
    (
        "torchrun --nnodes 2 --node-rank 0 --rdzv-endpoint h:1 train.py",
        "torchrun --nnodes 2 needs several machines",
    ),
    (
        "torchrun --nnodes 2 train.py",
        "rankdeck --master spark://HOST:7077 torchrun --nnodes 2 --nproc-per-node 1",
    ),
    ("torchrun", "the following arguments are required: training_script"),
    ("torchrun missing.py", "there is no file missing.py"),
    ("torchrun missing", "'missing' is no file"),
    ("torchrun empty", "'empty' is a folder"),
    ("torchrun train.py:main", "'train.py:main' is no file (rankdeck run runs functions)"),
    ("torchrun broken", "is not valid Python"),
    ("torchrun run.sh", "is not valid Python"),
    ("torchrun -m missing.module", "there is no module missing"),
    ("torchrun --no-python missing", "there is no program 'missing'"),
    ("torchrun --nproc-per-node 0 train.py", "the number of processes must be at least 1, not 0"),
    ("torchrun --nproc-per-node gpu train.py", "there is no GPU here"),
    ("torchrun --max-restarts -1 train.py", "the number of restarts must be 0 or more, not -1"),
    ("torchrun --lr 1 train.py", "torchrun: unrecognized arguments: --lr"),
    ("torchrun --name x train.py", "torchrun: unrecognized arguments: --name"),
    ("--param a=1 torchrun train.py", "--param is for functions"),
    ("--mode local --master spark://h:1 torchrun train.py", "--master is for Spark"),
    ("--foo torchrun train.py", "No such option '--foo'"),
    ("--name x run train.py", "--name goes after the command, as in: rankdeck run --name …"),
    ("-n 2 ps", "-n goes after the command"),
    ("--name torchrun ps", "--name goes after the command"),
    ("deepspeed --num_nodes 2 train.py", "deepspeed --num_nodes 2 needs several machines"),
    ("deepspeed --autotuning run train.py", "Run deepspeed itself"),
    ("horovodrun python train.py", "horovodrun needs the number of ranks"),
    ("horovodrun -np 4 -H a:2,b:2 python train.py", "horovodrun on a and b needs several machines"),
    ("horovodrun -np 1 --config-file none.yaml python train.py", "cannot be read: No such file"),
    ("horovodrun -np 1 --config-file /dev/zero python train.py", "and no regular file"),
    ("run -n 20000000 train.py", "the number of processes must be 1,048,575 or less"),
    ("torchrun --nproc-per-node 999999999 train.py", "1,048,575 ranks at most"),
    ("run --max-restarts 99999999999999999999 train.py", "must be 1,048,575 or less"),
    ("run --ranks 0-999999999 train.py", "there is no rank 999999999"),
    ("torchrun -m " + "x" * 9999, "xxx …"),
    ("torchrun -m \x1b[31mred", "cannot be a module's name"),
    ("--python /bin/true accelerate launch train.py", "is it an interpreter?"),
    ("accelerate env", "run accelerate itself"),
    ("accelerate", "run accelerate itself"),
    ("accelerate launch train.py", "accelerate cannot be imported"),
    (
        "--python nowhere/python accelerate launch train.py",
        "nowhere/python' (name an interpreter)",
    ),
]


@pytest.mark.process
@pytest.mark.parametrize(("line", "said"), WRONG, ids=[line[:80].replace("\x1b", "") for line, _ in WRONG])
def test_what_is_wrong_is_one_sentence_and_starts_nothing(folder: Path, line: str, said: str) -> None:
    done = rankdeck(*line.split(), cwd=folder)

    assert said in sentence(done)
    assert (2, "") == (done.returncode, done.stdout)
    assert "Traceback" not in done.stderr
    assert [] == commands.runs()


@pytest.mark.process
@pytest.mark.parametrize("value", ["", "x" * (16 << 10), "\x1b[2J", "ü☃", "\udcff"])
def test_hostile_words_are_told_or_left_alone(folder: Path, value: str) -> None:
    for words in (
        ["torchrun", value],
        ["torchrun", "--nnodes", value, "train.py"],
        ["torchrun", "-m", value],
    ):
        done = rankdeck(*words, cwd=folder)
        assert (2, "") == (done.returncode, done.stdout)
        assert "Traceback" not in done.stderr
        assert "\x1b" not in done.stderr
        assert len(sentence(done)) < 20_000
    done = rankdeck("torchrun", "train.py", value, cwd=folder)
    assert 0 == done.returncode, done.stderr


@pytest.mark.process
def test_a_word_as_the_target_of_run_is_a_program_as_before(folder: Path) -> None:
    (folder / "run.sh").rename(folder / "torchrun")
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    done = rankdeck("run", "-n", "2", "torchrun", "--", "deepspeed", cwd=folder, env={"PATH": path})

    assert ["rank 0 of 2 [deepspeed]", "rank 1 of 2 [deepspeed]"] == printed(done)


def test_the_words_are_listed_and_our_options_are_not() -> None:
    for words in (["--help"], ["--help", "torchrun"]):
        shown = CliRunner().invoke(cli, words).output

        assert "--num-processes" not in shown
        for word in ("torchrun", "deepspeed", "accelerate", "horovodrun"):
            assert re.search(rf"^  {word} +Run a command line of {word}", shown, re.MULTILINE)


@pytest.mark.process
def test_the_hint_for_an_option_before_the_word_is_about_the_word(folder: Path) -> None:
    said = rankdeck("--bogus", "torchrun", "train.py", cwd=folder).stderr

    assert "go after its word" in said
    assert "after --" not in said


def test_no_option_of_the_group_is_one_of_ours() -> None:
    own = {text for each in cli.get_params(click.Context(cli)) for text in each.opts + each.secondary_opts}

    assert "--num-processes" not in own
    assert isinstance(cli, click.Group)


@pytest.mark.parametrize(
    ("words", "incomplete", "expected"),
    [
        ([], "torch", ["torchrun"]),
        (["--mode", "cluster"], "torch", ["torchrun"]),
        (["torchrun"], "tr", ["tr"]),
        (["--name", "x", "torchrun", "--nnodes", "1"], "tr", ["tr"]),
        (["run"], "--num", ["--num-processes"]),
    ],
)
def test_shells_complete_words_and_files(words: list[str], incomplete: str, expected: list[str]) -> None:
    found = ShellComplete(cli, {}, "rankdeck", "_RANKDECK_COMPLETE").get_completions(words, incomplete)

    assert expected == [each.value for each in found]


@pytest.mark.frameworks
@pytest.mark.process
@pytest.mark.timeout(300, func_only=True)
@pytest.mark.parametrize(
    ("line", "environment"),
    [
        ("accelerate launch --num_processes 2 {}/digits_accelerate.py --epochs 1", "torch-family"),
        ("deepspeed --num_gpus 2 {}/digits_deepspeed.py --epochs 1", "torch-family"),
        ("torchrun --nproc-per-node 2 {}/digits_ddp.py --epochs 1", "torch-family"),
        ("horovodrun -np 2 -H localhost:2 python {}/digits_horovod.py --epochs 1", "horovod"),
    ],
    ids=lambda text: text.split()[0],
)
def test_a_training_of_each_launcher(line: str, environment: str) -> None:
    env = framework_envs.made(environment)
    done = subprocess.run(
        [commands.COMMAND, "--python", env.python, *line.format(EXAMPLES).split()],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **env.variables},
    )

    assert 0 == done.returncode, done.stdout + done.stderr
    assert '"ranks": 2' in done.stdout + done.stderr
