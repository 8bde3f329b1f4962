"""The `deepspeed` command's line: hosts, slots and GPUs, and what of it a run here has no use for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from console.cli.originals.base import HelpWanted, Translation
from console.cli.originals.deepspeed import translate
from launcher.errors import SpecError
from launcher.spec.job import TargetKind
from tests.console.cli.originals.lines import HOST, here

HOSTS = {"/hosts": "# two\nworker-1 slots=4\n\nworker-2 slots=2\n", "/mine": f"{HOST} slots=3\n"}


def meant(line: str | list[str], *ours: str, **more: Any) -> Translation:
    return translate(line.split() if isinstance(line, str) else line, here(*ours, files=HOSTS, **more))


def chosen(made: Translation) -> str | None:
    return made.environ.get("CUDA_VISIBLE_DEVICES")


@pytest.mark.parametrize(
    ("line", "gpus", "ranks", "visible"),
    [
        ("t.py", 8, 8, None),
        ("--num_gpus 2 t.py", 8, 2, "0,1"),
        ("--num_gpus=2 t.py", 0, 2, None),
        ("--num_accelerators 3 t.py", 4, 3, "0,1,2"),
        ("--num_g 2 t.py", 4, 2, "0,1"),
        ("--include localhost:0,2 t.py", 4, 2, "0,2"),
        ("--include localhost:2,0 t.py", 4, 2, "0,2"),
        ("--include=localhost t.py", 4, 4, "0,1,2,3"),
        ("-i localhost:1 t.py", 0, 1, None),
        ("--exclude localhost:0 t.py", 4, 3, "1,2,3"),
        ("-H /mine t.py", 8, 3, None),
        ("-H /mine --exclude this-machine:1 t.py", 8, 2, "0,2"),
        ("-H /hosts --include worker-1 -i localhost t.py", 2, None, None),
        ("--num_nodes 1 --num_gpus 4 t.py", 4, 4, "0,1,2,3"),
    ],
)
def test_slots_of_this_machine_are_ranks_and_gpus(
    line: str, gpus: int, ranks: int | None, visible: str | None
) -> None:
    if ranks is None:
        with pytest.raises(SpecError, match="the hostfile has no host localhost"):
            meant(line, gpus=gpus)
        return
    made = meant(line, gpus=gpus)

    assert ((None, ranks), visible) == (made.options["num_processes"], chosen(made))
    assert "deepspeed" == made.options["framework"]


def test_without_gpus_it_is_one_rank_and_says_so() -> None:
    made = meant("t.py")

    assert (None, 1) == made.options["num_processes"]
    assert ("there is no GPU here to count: 1 rank. deepspeed --num_gpus N makes it N",) == made.notes
    assert () == meant("t.py", gpus=2).notes


def test_visible_gpus_count_unless_the_line_chooses() -> None:
    variable = {"CUDA_VISIBLE_DEVICES": "1,3"}

    assert (None, 2) == meant("t.py", gpus=4, **variable).options["num_processes"]
    made = meant("--num_gpus 3 t.py", gpus=4, **variable)
    assert ((None, 3), "0,1,2") == (made.options["num_processes"], chosen(made))
    assert ("CUDA_VISIBLE_DEVICES is left aside: the line chooses the GPUs",) == made.notes


@pytest.mark.parametrize(
    ("line", "ranks"),
    [
        ("--num_nodes 2 --num_gpus 4 t.py", 8),
        ("--num_gpus 4 t.py", 4),
        ("-H /hosts t.py", 6),
        ("-H /hosts --num_nodes 1 t.py", 4),
        ("-H /hosts --num_gpus 1 t.py", 2),
        ("-H /hosts --include worker-2@worker-1:0,3 t.py", 4),
        ("-H /hosts --exclude worker-1:0 t.py", 5),
        ("-H /hosts --exclude worker-1 t.py", 2),
        ("--include a:0,1@b:0 t.py", 3),
    ],
)
def test_on_spark_all_slots_are_ranks(line: str, ranks: int) -> None:
    made = meant(line, on_spark=True)

    assert ((None, ranks), None) == (made.options["num_processes"], chosen(made))


@pytest.mark.parametrize(
    "line", ["t.py", "--num_nodes 2 t.py", "--include a t.py", "--exclude localhost:0 t.py"]
)
def test_on_spark_a_number_is_needed(line: str) -> None:
    with pytest.raises(SpecError, match="cannot be counted from here"):
        meant(line, on_spark=True)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--num_nodes 2 t.py", "deepspeed --num_nodes 2 needs several machines"),
        ("--num_nodes 2 --num_gpus 8 t.py", "spark://HOST:7077 deepspeed --num_nodes 2 --num_gpus 8 t.py"),
        ("-H /hosts t.py", "deepspeed on worker-1 and worker-2 needs several machines"),
        ("--include worker-1:0 t.py", "deepspeed on worker-1 needs several machines"),
        ("--no_ssh --node_rank 1 t.py", "--node_rank 1 needs several machines"),
        ("--include a --exclude b t.py", "--include or --exclude, and not both"),
        ("--include localhost --num_gpus 2 t.py", "and not both"),
        ("--include localhost:x t.py", "hosts are HOST or HOST:0,2, joined by @, and not 'localhost:x'"),
        ("--include localhost:9 t.py", "localhost has 4 slots, and no slot 9"),
        ("--exclude localhost t.py", "--exclude leaves nothing"),
        ("-H /hosts -i worker-3 t.py", "the hostfile has no host worker-3 (it has worker-1 and worker-2)"),
        ("--module --no_python t", "--no_python or --module, and not both"),
        ("--autotuning tune t.py", "deepspeed --autotuning: the autotuner starts trainings of its own"),
        ("--autotuning fast t.py", "invalid choice: 'fast'"),
        ("--elastic_training t.py", "elastic training is not served"),
        ("--num_gpus two t.py", "invalid int value: 'two'"),
        ("--lr 1 t.py", "unrecognized arguments: --lr"),
        ("", "required: user_script"),
    ],
)
def test_what_is_wrong_or_not_served_is_told(line: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        meant(line, gpus=4)
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["worker-1", "a slots=x", "a slots=1\na slots=2", "# none\n", "\0"])
def test_a_hostfile_of_another_form_is_told(text: str) -> None:
    with pytest.raises(SpecError, match="/h"):
        translate(["-H", "/h", "t.py"], here(files={"/h": text}))


@pytest.mark.parametrize("on_spark", [False, True])
@pytest.mark.parametrize(
    "line", ["-H /h t.py", "--num_gpus 999999999 t.py", "--num_nodes 999999999 --num_gpus 1 t.py"]
)
def test_more_than_a_run_can_have_is_refused_before_it_is_counted(line: str, on_spark: bool) -> None:
    surroundings = here(on_spark=on_spark, gpus=8, files={"/h": f"{HOST} slots=999999999"})
    with pytest.raises(SpecError, match="1,048,575 ranks at most"):
        translate(line.split(), surroundings)


def test_a_hostfile_is_read_once_and_left_aside_only_if_there_is_none() -> None:
    read: list[str] = []
    surroundings = here(files=HOSTS)

    def failing(path: str) -> str:
        raise PermissionError(13, "Permission denied")

    def reading(path: str) -> str:
        read.append(path)
        return surroundings.read(path)

    with pytest.raises(SpecError, match=r"--hostfile: '/h' cannot be read: Permission denied"):
        translate(["-H", "/h", "t.py"], replace(here(), read=failing))
    translate(["-H", "/mine", "t.py"], replace(surroundings, read=reading))
    assert ["/mine"] == read


def test_a_script_a_module_and_a_program() -> None:
    line = "--num_gpus 1 {} train --deepspeed --num_gpus 3 --deepspeed_config ds.json"
    args = ("--deepspeed", "--num_gpus", "3", "--deepspeed_config", "ds.json")

    for option, kind in (
        ("--module", TargetKind.MODULE),
        ("--no_python", TargetKind.PROGRAM),
        ("", TargetKind.SCRIPT),
    ):
        made = meant(line.format(option))
        assert (kind, "train", args) == (made.kind, made.source, made.args)


def test_what_does_nothing_is_said() -> None:
    notes = meant(
        "--num_gpus 1 --master_port 29501 --master_addr h --launcher slurm --bind_cores_to_rank -q "
        "--venv_script a.sh --no_local_rank --enable_each_rank_log logs --save_pid -H /none t.py"
    ).notes

    assert notes[0].startswith(
        "deepspeed's --master_port and --master_addr have no meaning here: rankdeck makes"
    )
    for option in (
        "--launcher",
        "--bind_cores_to_rank",
        "-q",
        "--venv_script",
        "--no_local_rank",
        "--save_pid",
    ):
        assert 1 == sum(f"deepspeed's {option} has no meaning here" in note for note in notes)
    assert "there is no hostfile /none: it is left aside" in notes
    assert () == meant("--num_gpus 1 t.py").notes


def test_our_own_number_of_ranks_wins() -> None:
    made = meant("--num_gpus 2 t.py", "num_processes", gpus=4)

    assert "num_processes" not in made.options
    assert "0,1" == chosen(made)
    assert ("deepspeed's --num_gpus has no effect: --num-processes stands before the word",) == made.notes
    assert meant("t.py", "num_processes", on_spark=True).options


def test_on_spark_the_variables_of_deepspeeds_file_are_the_ranks() -> None:
    files = {"/home/.deepspeed_env": "NCCL_DEBUG=INFO\nA=1=2\nnone\n", "./.deepspeed_env": "A=3"}
    line = ["--num_gpus", "2", "t.py"]

    assert {"NCCL_DEBUG": "INFO", "A": "3"} == translate(
        line, here(on_spark=True, files=files, HOME="/home")
    ).environ
    assert {} == translate(line, here(files=files, HOME="/home")).environ


def test_help_is_not_a_script() -> None:
    with pytest.raises(HelpWanted):
        meant("--num_gpus 2 --help")
