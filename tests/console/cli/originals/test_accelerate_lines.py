"""``accelerate launch``: what accelerate says of a line, and what that means here."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from console.cli.originals import accelerate_program
from console.cli.originals.accelerate import translate, translated
from console.cli.originals.base import HelpWanted, Translation
from launcher.errors import SpecError
from launcher.spec.job import TargetKind
from tests import framework_envs
from tests.console.cli.originals.lines import asked, here

PROGRAM = Path(accelerate_program.__file__).read_text()
ANSWER: dict[str, Any] = {
    "said": ["--num_processes"],
    "counted": True,
    "processes": 2,
    "machines": 1,
    "machine": 0,
    "module": False,
    "no_python": False,
    "script": "train.py",
    "args": ["--lr", "0.1"],
    "restarts": 0,
    "launcher": "distributed",
    "environ": {"ACCELERATE_MIXED_PRECISION": "bf16"},
}


def meant(*ours: str, on_spark: bool = False, **answer: Any) -> Translation:
    return translated({**ANSWER, **answer}, here(*ours, on_spark=on_spark))


def test_its_answer_is_ours() -> None:
    made = meant()

    assert (TargetKind.SCRIPT, "train.py", ("--lr", "0.1")) == (made.kind, made.source, made.args)
    assert {"framework": "accelerate", "num_processes": (None, 2)} == made.options
    assert ({"ACCELERATE_MIXED_PRECISION": "bf16"}, ()) == (made.environ, made.notes)
    assert TargetKind.MODULE is meant(module=True).kind
    assert TargetKind.PROGRAM is meant(no_python=True).kind
    assert 3 == meant(restarts=3).options["max_restarts"]
    assert "deepspeed" == meant(launcher="deepspeed").options["framework"]


def test_gpus_are_chosen_on_one_machine_only() -> None:
    chosen: dict[str, Any] = {
        "environ": {"CUDA_VISIBLE_DEVICES": "0,2", "PYTHONPATH": "/here"},
        "said": ["--gpu_ids"],
    }

    assert chosen["environ"] == meant(**chosen).environ
    made = meant(on_spark=True, **chosen)
    assert {} == made.environ
    assert ("accelerate launch's --gpu_ids has no meaning here: Spark chooses GPUs",) == made.notes


def test_what_does_nothing_or_differs_is_said() -> None:
    made = meant(said=["--main_process_port", "--rdzv_backend", "--log_dir", "--tee", "--fsdp_new_option"])

    assert 2 == len(made.notes)
    assert made.notes[0].startswith(
        "accelerate launch's --main_process_port and --rdzv_backend have no meaning"
    )
    assert meant(launcher="simple").notes[0].startswith("2 ranks, as --num_processes says: accelerate itself")
    alone = meant(counted=False, processes=0, launcher="simple", said=[])
    assert (None, 1) == alone.options["num_processes"]
    assert ("there is no GPU here to count: 1 rank. --num_processes N makes it N",) == alone.notes
    assert (
        "accelerate launch's --num_processes has no effect: --num-processes stands before the word",
    ) == meant("num_processes").notes


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"missing": "No module named 'accelerate'"}, "accelerate cannot be imported: No module named"),
        ({"missing": "x"}, "--python before the word names the interpreter"),
        ({"error": "argument --num_processes: invalid int value: 'x'"}, "invalid int value: 'x'"),
        ({"error": "many\nlines"}, "accelerate launch: many lines"),
        ({"error": "bad", "file": "/c"}, "the configuration file '/c' cannot be used: bad"),
        ({"processes": -3}, "--num_processes takes 1 or more, not '-3'"),
        ({"processes": 0}, "--num_processes takes 1 or more, not '0'"),
        ({"error": ""}, "it does not say why"),
        ({"said": ["--tpu"]}, "accelerate launch --tpu: rankdeck starts no TPU trainings"),
        ({"said": ["--aws_access_key_id"], "error": "x"}, "rankdeck starts no SageMaker jobs"),
        ({"said": ["--mpirun_hostfile"], "error": "x"}, "and not through MPI"),
        ({"launcher": "sagemaker"}, "the configuration file is for another place"),
        ({"launcher": "tpu"}, "rankdeck starts no TPU trainings"),
        ({"machines": 2, "processes": 16}, "accelerate launch --num_machines 2 needs several machines"),
        ({"machines": 2, "processes": 16}, "accelerate launch --num_processes 16 train.py"),
        ({"machine": 1}, "--machine_rank 1 needs several machines"),
    ],
)
def test_what_cannot_be_served_is_told(answer: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        meant(**answer)
    assert said in str(caught.value)


def test_on_spark_several_machines_are_one_number_of_ranks() -> None:
    made = meant(
        on_spark=True, machines=2, machine=1, processes=16, said=["--num_machines", "--machine_rank"]
    )

    assert (None, 16) == made.options["num_processes"]
    assert 2 == len(made.notes)
    with pytest.raises(SpecError, match="cannot be counted from here"):
        meant(on_spark=True, counted=False)


@pytest.mark.parametrize("line", ["--help", "-h", "launch --help", "launch -h"])
def test_help_is_ours(line: str) -> None:
    with pytest.raises(HelpWanted):
        translate(line.split(), here())


@pytest.mark.parametrize("line", ["", "env", "config default", "test", "--num_processes 2 t.py", "\0"])
def test_its_other_commands_are_its_own(line: str) -> None:
    with pytest.raises(SpecError, match="run accelerate itself"):
        translate(line.split(), here(answer=ANSWER))


USUAL = 'compute_environment: LOCAL_MACHINE\ndistributed_type: "NO"\nmixed_precision: "no"\n'
FILES = [
    ("num_machines: two", "num_machines must be a whole number, not 'two'"),
    ("num_processes: {a: 1}", "num_processes must be a whole number, not {'a': 1}"),
    ("[1]", "it holds no table"),
    ("", "it holds no table"),
    ("text", "it holds no table"),
    ("a: [", "while parsing"),
]


@pytest.mark.frameworks
@pytest.mark.process
@pytest.mark.parametrize(("text", "said"), FILES)
def test_a_configuration_of_another_form_is_told_by_its_name(tmp_path: Path, text: str, said: str) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(f"{USUAL}{text}\n" if text.startswith("num") else text)
    words = ["--config_file", str(config), "t.py"]
    answer = asked(framework_envs.made("torch-family"), PROGRAM, *words)
    with pytest.raises(SpecError) as caught:
        translate(["launch", *words], here(answer=answer))

    assert said in str(caught.value)
    assert str(config) in str(caught.value)


def test_numbers_of_a_file_are_whole_or_refused() -> None:
    args = Namespace(num_processes="2", num_machines=None)
    accelerate_program.require_numbers(args, None)

    assert 2 == args.num_processes
    for wrong in ("two", {"a": 1}, True, 1.5):
        with pytest.raises(ValueError, match="num_machines must be a whole number"):
            accelerate_program.require_numbers(args, Namespace(num_machines=wrong))


def test_without_accelerate_the_program_says_so() -> None:
    assert "accelerate" in accelerate_program.main(["t.py"])["missing"]


LINES = [
    "--num_processes 2 --multi_gpu",
    "--num-processes=2 --multi-gpu --mixed-precision=fp16 --dynamo_backend=inductor",
    "--num_processes 2 --use_fsdp --fsdp_sharding_strategy SHARD_GRAD_OP --fsdp_offload_params true",
    "--num_processes 4 --use_fsdp --fsdp_version 2 --use_parallelism_config --parallelism_config_tp_size 2",
    "--num_processes 2 --use_megatron_lm --megatron_lm_tp_degree 2",
    "--num_processes 2 --use_deepspeed --zero_stage 3 --gradient_accumulation_steps 4",
    "--config_file {config}",
    "--config_file {config} --num_processes 3 --mixed_precision fp16",
]
CONFIG = """
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
fsdp_config: {fsdp_version: 2, fsdp_offload_params: true, fsdp_state_dict_type: SHARDED_STATE_DICT}
mixed_precision: 'no'
num_machines: 1
num_processes: 2
machine_rank: 0
use_cpu: false
main_training_function: main
"""
ITSELF = """
import json, os, sys
import torch.distributed.run
from accelerate.commands import launch

before = dict(os.environ)

def run(args):
    changed = {name: text for name, text in os.environ.items() if before.get(name) != text}
    print(json.dumps([changed, int(args.nproc_per_node), args.training_script, args.training_script_args]))

torch.distributed.run.run = run
launch.launch_command(launch.launch_command_parser().parse_args(sys.argv[1:]))
"""
"""Prints what accelerate gives to torchrun, and so to its processes, instead of starting them."""


@pytest.mark.frameworks
@pytest.mark.process
@pytest.mark.parametrize("line", LINES)
def test_the_variables_are_those_that_accelerate_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    config, env = tmp_path / "c.yaml", framework_envs.made("torch-family")
    config.write_text(CONFIG)
    monkeypatch.setenv("HF_HOME", str(tmp_path))  # its default file is nobody's
    words = [*line.format(config=config).split(), "train.py", "--lr", "-m"]
    changed, ranks, script, args = asked(env, ITSELF, *words)
    changed.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)  # what the import of DeepSpeed leaves behind
    made = translate(["launch", *words], here(answer=asked(env, PROGRAM, *words)))

    assert changed == made.environ
    assert ((None, ranks), script, tuple(args)) == (made.options["num_processes"], made.source, made.args)
    assert () == made.notes


@pytest.mark.frameworks
@pytest.mark.process
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--foo t.py", "unrecognized arguments: --foo"),
        ("--num_proc 2 t.py", "unrecognized arguments: --num_proc"),  # it knows no abbreviations
        ("--num_processes two t.py", "invalid int value: 'two'"),
        ("--config_file nowhere.yaml t.py", "configuration file"),
        ("--cpu --multi_gpu t.py", "You can only use one of"),
        ("--tpu t.py", "rankdeck starts no TPU trainings"),
        ("", "required: training_script"),
    ],
)
def test_what_accelerate_refuses_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, said: str
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    answer = asked(framework_envs.made("torch-family"), PROGRAM, *line.split())
    with pytest.raises(SpecError) as caught:
        translate(["launch", *line.split()], here(answer=answer))

    assert said in str(caught.value)
