"""torchrun's command line: what it means here, and that it is read as torchrun reads it."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest
import torch.distributed.run

from console.cli.originals.base import HelpWanted, Translation
from console.cli.originals.torchrun import translate
from launcher.errors import SpecError
from launcher.spec.job import TargetKind
from tests.console.cli.originals.lines import here

SCRIPT, MODULE, PROGRAM = TargetKind.SCRIPT, TargetKind.MODULE, TargetKind.PROGRAM
LONG = "x" * (16 << 10)


def meant(line: str | list[str], *ours: str, **more: Any) -> Translation:
    return translate(line.split() if isinstance(line, str) else line, here(*ours, **more))


@pytest.mark.parametrize(
    ("line", "ranks"),
    [
        ("train.py", 1),
        ("--nproc-per-node 2 train.py", 2),
        ("--nproc_per_node 2 train.py", 2),
        ("--nproc_per_node=2 train.py", 2),
        ("--nproc-per-n 2 train.py", 2),
        ("--nn 1 --nproc_per_node=3 train.py", 3),
        ("--nproc-per-node 2 --nproc-per-node 3 train.py", 3),
        ("--nnodes=1 --nproc_per_node=4 fsdp_tp_example.py", 4),
        ("--nnodes 1:3 --nproc-per-node 2 train.py", 2),
        ("--nproc-per-node cpu train.py", 4),
        ("--nproc-per-node auto train.py", 4),
    ],
)
def test_processes_of_a_node_are_ranks(line: str, ranks: int) -> None:
    assert (None, ranks) == meant(line).options["num_processes"]


@pytest.mark.parametrize("word", ["gpu", "auto"])
def test_gpus_are_counted(word: str) -> None:
    line = f"--nproc-per-node {word} train.py"

    assert (None, 8) == meant(line, gpus=8).options["num_processes"]
    assert (None, 2) == meant(line, gpus=8, CUDA_VISIBLE_DEVICES="0,3").options["num_processes"]


@pytest.mark.parametrize(
    ("line", "ranks"),
    [
        ("--nnodes 2 --nproc-per-node 4 train.py", (None, 8)),
        ("--nnodes=1:4 --nproc-per-node=8 train.py", (8, 32)),
        (
            "--nproc_per_node=8 --nnodes=2 --node_rank=1 --master_addr=10.0.0.1 --master_port=1 t.py",
            (None, 16),
        ),
        ("--nnodes 2 train.py", (None, 2)),
    ],
)
def test_on_spark_nodes_times_processes_are_ranks(line: str, ranks: tuple[int | None, int]) -> None:
    assert ranks == meant(line, on_spark=True).options["num_processes"]


@pytest.mark.parametrize(
    ("line", "kind", "source", "args"),
    [
        ("train.py", SCRIPT, "train.py", []),
        (
            "train.py --lr 0.1 --nproc-per-node 3",
            SCRIPT,
            "train.py",
            ["--lr", "0.1", "--nproc-per-node", "3"],
        ),
        ("train.py a -- --lr", SCRIPT, "train.py", ["a", "--", "--lr"]),
        ("train.py --help", SCRIPT, "train.py", ["--help"]),
        ("--standalone train.py config/train_gpt2.py", SCRIPT, "train.py", ["config/train_gpt2.py"]),
        ("-m package.train a", MODULE, "package.train", ["a"]),
        ("--module package.train", MODULE, "package.train", []),
        ("--no-python ./run.sh x", PROGRAM, "./run.sh", ["x"]),
        ("--no_python nvidia-smi", PROGRAM, "nvidia-smi", []),
        ("--no-python --run-path /a/train.py", SCRIPT, "/a/train.py", []),
        ("train", SCRIPT, "train", []),
    ],
)
def test_the_script_and_its_words_stand_as_they_are(
    line: str, kind: TargetKind, source: str, args: list[str]
) -> None:
    made = meant(line)

    assert (kind, source, tuple(args)) == (made.kind, made.source, made.args)


@pytest.mark.parametrize("value", ["", " ", "\0", LONG, "\x1b[2J", "ü☃", "-1", "--", "-"])
def test_any_word_of_the_script_is_left_alone(value: str) -> None:
    assert ("--x", value, f"--y={value}") == meant(["train.py", "--x", value, f"--y={value}"]).args


def test_what_is_said_reaches_our_options() -> None:
    assert {"framework": "torch", "num_processes": (None, 1)} == meant("t.py").options
    assert {"grace_s": 30.0} == meant("t.py").usual
    made = meant("--max-restarts 3 --shutdown-timeout 5 --local-ranks-filter 0,2,9 --nproc-per-node 4 t.py")

    assert {
        "framework": "torch",
        "grace_s": 5.0,
        "max_restarts": 3,
        "num_processes": (None, 4),
    } == made.options
    assert "0,2" == made.ranks
    assert "none" == meant("--local-ranks-filter 5 t.py").ranks
    assert () == made.notes
    assert 7.0 == meant("t.py", TORCH_ELASTIC_SHUTDOWN_TIMEOUT="7").options["grace_s"]
    assert "/opt/python" == meant("t.py", PYTHON_EXEC="/opt/python").options["python"]


def test_variables_are_defaults() -> None:
    variables = {"PET_NPROC_PER_NODE": "3", "PET_MAX_RESTARTS": "2", "PET_STANDALONE": "1", "PET_MODULE": "0"}
    made = meant("t.py", **variables)

    assert ((None, 3), 2) == (made.options["num_processes"], made.options["max_restarts"])
    assert SCRIPT == made.kind
    assert MODULE == meant("t", PET_MODULE="1").kind
    assert (None, 2) == meant("--nproc_per_node 2 t.py", **variables).options["num_processes"]
    assert ("torchrun's PET_RDZV_ID has no meaning here: rankdeck makes the rendezvous itself",) == meant(
        "t.py", PET_RDZV_ID="7"
    ).notes
    assert () == meant("t.py", PET_LOGS_SPECS="x", PET_NUMA_BINDING="node").notes


@pytest.mark.parametrize(
    ("line", "notes"),
    [
        ("--standalone --nnodes 1:1 -t 3 --node-rank 0 --run-path t.py", []),
        (
            "--rdzv_id=101 --rdzv_endpoint=localhost:5972 --nnodes=1 t.py",
            ["torchrun's --rdzv_id and --rdzv_endpoint have no meaning here: rankdeck makes the rendezvous"],
        ),
        (
            "--monitor-interval 2 t.py",
            ["torchrun's --monitor-interval has no meaning here: rankdeck hears of every exit"],
        ),
        ("--role trainer t.py", ["torchrun's --role has no meaning here: ranks keep ROLE_NAME=default"]),
        (
            "-r 3 --log-dir logs t.py",
            ["torchrun's -r and --log-dir have no meaning here: the run's folder keeps every rank's output"],
        ),
        ("--nnodes 1:3 t.py", ["--nnodes 1:3 on one machine: 1 node"]),
        ("--virtual-local-rank t.py", ["torchrun's --virtual-local-rank has no meaning here"]),
    ],
)
def test_what_does_nothing_is_said(line: str, notes: list[str]) -> None:
    found = meant(line).notes

    assert len(notes) == len(found)
    assert [] == [note for note, has in zip(notes, found, strict=True) if not has.startswith(note)]


def test_on_spark_the_options_of_one_machine_are_said_to_do_nothing() -> None:
    notes = meant("--nnodes 2 --node-rank 1 --local-ranks-filter 0 --master-addr h t.py", on_spark=True).notes

    for option in ("--node-rank", "--local-ranks-filter", "--master-addr"):
        assert 1 == sum(f"torchrun's {option} has no meaning here" in note for note in notes)
    assert any("Spark decides how many ranks a host gets" in note for note in notes)


def test_our_own_options_win_and_that_is_said() -> None:
    made = meant("--nproc-per-node gpu --max-restarts 2 t.py", "num_processes", "max_restarts")

    assert "num_processes" not in made.options
    assert (
        "torchrun's --nproc-per-node has no effect: --num-processes stands before the word",
        "torchrun's --max-restarts has no effect: --max-restarts stands before the word",
    ) == made.notes
    assert "" == meant("--local-ranks-filter 0 t.py", "ranks").ranks


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--nnodes 2 t.py", "torchrun --nnodes 2 needs several machines, and no Spark cluster is named"),
        ("--nnodes 2:4 --nproc-per-node 8 t.py", "torchrun --nnodes 2:4 --nproc-per-node 8 t.py"),
        ("--nnodes=1 --node-rank=1 t.py", "torchrun --node-rank 1 needs several machines"),
        (
            "--nnodes 2 --node-rank 0 --rdzv-endpoint h:1 t.py",
            "rankdeck --master spark://HOST:7077 torchrun --nnodes 2 --nproc-per-node 1 t.py",
        ),
        ("--nnodes 0 t.py", "1 node or more"),
        ("--nnodes 3:2 t.py", "MIN at most as MAX"),
        ("--nnodes x t.py", "--nnodes takes a number or MIN:MAX, not 'x'"),
        ("--nnodes 1:2:3 t.py", "--nnodes takes a number or MIN:MAX, not '1:2:3'"),
        ("--nproc-per-node two t.py", "takes a number, gpu, auto or cpu, not 'two'"),
        ("--nproc-per-node xpu t.py", "not 'xpu' (give the number)"),
        ("--nproc-per-node gpu t.py", "there is no GPU here"),
        ("--nproc-per-node 1.5 t.py", "not '1.5'"),
        ("--local-ranks-filter a t.py", "--local-ranks-filter takes ranks such as 0,1,2, not 'a'"),
        ("--max-restarts x t.py", "argument --max-restarts/--max_restarts: invalid int value: 'x'"),
        ("--start-method thread t.py", "invalid choice: 'thread'"),
        ("--foo t.py", "unrecognized arguments: --foo"),
        ("--n 2 t.py", "ambiguous option"),
        ("--nproc-per-node", "expected one argument"),
        ("", "the following arguments are required: training_script"),
        ("--standalone", "the following arguments are required: training_script"),
        ("-m --run-path t", "--run-path, for a script, or --module, and not both"),
        ("--nproc-per-node 999999999 t.py", "1,048,575 ranks at most"),
        ("--nnodes=--api-key=verysecretthing t.py", "not '--api-key=***'"),
        ("--max-restarts=--api-key=verysecretthing t.py", "'--api-key=***'"),
        ("-m --no-python t", "--no-python or --module, and not both"),
    ],
)
def test_what_is_wrong_is_told(line: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        meant(line)
    assert said in str(caught.value)


def test_what_is_said_is_short() -> None:
    for line, said in (
        ("", "torchrun: the following arguments are required: training_script"),
        ("--nproc-per-node abc t.py", "takes a number, gpu, auto or cpu, not 'abc'"),
    ):
        with pytest.raises(SpecError) as caught:
            meant(line)
        assert caught.value.message.endswith(said)
        assert "give the number" not in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("PET_NNODES", "x", "torchrun PET_NNODES takes a number or MIN:MAX, not 'x'"),
        ("PET_NNODES", "2", "torchrun PET_NNODES 2 needs several machines"),
        ("PET_NNODES", "api_key=verysecretthing", "not 'api_key=***'"),
        ("PET_NPROC_PER_NODE", "gpu", "torchrun PET_NPROC_PER_NODE gpu: there is no GPU here"),
        ("PET_MAX_RESTARTS", "x", "PET_MAX_RESTARTS: argument --max-restarts/--max_restarts: invalid int"),
    ],
)
def test_what_a_variable_says_is_told_by_its_name(variable: str, value: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        meant("t.py", **{variable: value})
    assert said in str(caught.value)


def test_on_spark_a_count_of_this_machine_is_refused() -> None:
    for word in ("gpu", "auto", "cpu"):
        with pytest.raises(SpecError, match=r"cannot be counted from here .*--nproc-per-node 4"):
            meant(f"--nproc-per-node {word} t.py", on_spark=True, gpus=2)
        assert meant(f"--nproc-per-node {word} t.py", "num_processes", on_spark=True).options


@pytest.mark.parametrize("value", ["", "\0", LONG, "\x1b[2J", "9" * 5000, "1e3"])
def test_hostile_values_are_one_short_sentence(value: str) -> None:
    for option in ("--nnodes", "--nproc-per-node", "--max-restarts", "--start-method"):
        with pytest.raises(SpecError) as caught:
            meant([f"{option}={value}", "t.py"])
        assert len(str(caught.value)) < 800
    with pytest.raises(SpecError):
        meant("t.py", PET_STANDALONE=value or "x")


def test_help_is_not_a_script() -> None:
    for line in ("--help", "-h", "--nnodes 2 --he t.py"):
        with pytest.raises(HelpWanted):
            meant(line)


SAME = [
    "train.py",
    "train.py -- --lr",
    "--monitor 2 t.py",
    "--nnodes 1 --nproc_per_node 4 T5_training.py",
    "--nproc_per_node 2 example.py --explicit-prefetch",
    "--standalone --nproc_per_node=8 train.py config/train_gpt2.py --batch_size=32",
    "--nnodes=1 --nproc_per_node=2 --rdzv_id=101 --rdzv_endpoint=localhost:5972 example.py",
    "--nproc-per-n=2 --rdzv-e=x t.py -- -m --nnodes 3",
    "--max-r 2 -m pkg.mod --nnodes=3 -h",
    "-r 3 -t 0:1 --log-d logs -m a.b",
    "--no-python bash -c 'echo'",
    "--node-rank 0 -- t.py --x -- y",
    "--nproc-per-node 2 -m",
    "--nnodes",
    "--unknown t.py",
    "-x t.py",
    "--standalone=1 t.py",
    "--role= t.py",
    "--shutdown 3 --signals-to-handle SIGUSR1 --virtual t.py",
    "-mt.py",
    "- a",
    "--max-restarts -1 t.py",
]


@pytest.mark.parametrize("line", SAME)
def test_a_line_is_read_as_torchrun_reads_it(line: str) -> None:
    expected: Any
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            expected = torch.distributed.run.get_args_parser().parse_args(line.split())
        except SystemExit:
            expected = None
    if expected is None:
        with pytest.raises(SpecError):
            meant(line, on_spark=True)
        return
    made = meant(line, on_spark=True)

    assert (expected.training_script, tuple(expected.training_script_args)) == (made.source, made.args)
    assert (expected.module, expected.no_python) == (made.kind is MODULE, made.kind is PROGRAM)
    low, high = torch.distributed.run.parse_min_max_nnodes(expected.nnodes)
    assert int(expected.nproc_per_node) * high == made.options["num_processes"][1]
    assert expected.max_restarts == made.options.get("max_restarts", 0)
    assert low == high
