"""horovodrun's command line: its command, its hosts, and the variables that Horovod itself would set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from console.cli.originals.base import HelpWanted, Translation
from console.cli.originals.horovodrun import READ_YAML, translate
from launcher.errors import SpecError
from launcher.spec.job import TargetKind
from tests import framework_envs
from tests.console.cli.originals.lines import HOST, asked, here

SCRIPT, MODULE, PROGRAM = TargetKind.SCRIPT, TargetKind.MODULE, TargetKind.PROGRAM
FILES = {
    "/here": f"localhost slots=2\n{HOST} slots=1\n",
    "/away": "h1 slots=4\n",
    "/bad": "h1 4\n",
    "c.yaml": "",
}


def meant(line: str | list[str], *ours: str, **more: Any) -> Translation:
    return translate(line.split() if isinstance(line, str) else line, here(*ours, files=FILES, **more))


@pytest.mark.parametrize(
    ("command", "kind", "source", "args", "python"),
    [
        ("python train.py --lr 1", SCRIPT, "train.py", ["--lr", "1"], "python"),
        ("python3 -u train.py", SCRIPT, "train.py", [], "python3"),
        ("/opt/bin/python3.12 train.py -np 3", SCRIPT, "train.py", ["-np", "3"], "/opt/bin/python3.12"),
        ("python -m package.train x", MODULE, "package.train", ["x"], "python"),
        ("python -u -m package.train", MODULE, "package.train", [], "python"),
        ("python -O train.py", PROGRAM, "python", ["-O", "train.py"], None),
        ("python -c print()", PROGRAM, "python", ["-c", "print()"], None),
        ("python", PROGRAM, "python", [], None),
        ("./run.sh a", PROGRAM, "./run.sh", ["a"], None),
        ("env A=1 python train.py", PROGRAM, "env", ["A=1", "python", "train.py"], None),
    ],
)
def test_a_command_of_python_is_its_script_or_module(
    command: str, kind: TargetKind, source: str, args: list[str], python: str | None
) -> None:
    made = meant(f"-np 2 {command}")

    assert (kind, source, tuple(args)) == (made.kind, made.source, made.args)
    expected = {"framework": "horovod", "num_processes": (None, 2)} | ({"python": python} if python else {})
    assert expected == made.options


def test_on_spark_a_bare_python_is_the_executors_own() -> None:
    assert "python" not in meant("-np 2 python t.py", on_spark=True).options
    assert "/opt/python" == meant("-np 2 /opt/python t.py", on_spark=True).options["python"]


@pytest.mark.parametrize(
    "line", ["-H localhost:2", f"-H localhost:1,{HOST}:1", "-hostfile /here", "--hosts 127.0.0.1:4"]
)
def test_hosts_that_are_this_machine_are_served(line: str) -> None:
    made = meant(f"-np 2 {line} python t.py")

    assert (None, 2) == made.options["num_processes"]
    assert () == made.notes


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-np 8 -H h1:4,h2:4 python t.py", "horovodrun on h1 and h2 needs several machines"),
        ("-np 8 -H h1:4,h2:4 python t.py", "rankdeck --master spark://HOST:7077 horovodrun -np 8 …"),
        ("-np 4 --hostfile /away python t.py", "on h1 needs several machines"),
        ("-np 4 --hostfile /bad python t.py", "a host is written as HOST slots=N, and not as 'h1 4'"),
        ("-np 4 --hostfile /none python t.py", "'/none' cannot be read: No such file or directory"),
        ("-np 4 -H localhost python t.py", "a host is written as HOST:N, and not as 'localhost'"),
        ("-np 4 -H  python t.py", "a host is written as HOST:N"),
        ("-np 3 -H localhost:2 python t.py", "-np 3: the hosts have 2 slots"),
        ("-np 2 -H a:1 -hostfile /here python t.py", "not allowed with argument"),
        ("python t.py", "horovodrun needs the number of ranks (-np N)"),
        ("-np 2", "horovodrun needs a command to run"),
        ("-np two python t.py", "invalid int value: 'two'"),
        (
            "-np 2 --min-np 1 --host-discovery-script s python t.py",
            "--min-np: elastic training is not served",
        ),
        ("-np 2 --blacklist-cooldown-range 1 2 python t.py", "elastic training is not served"),
        ("--check-build", "horovodrun --check-build: that is about Horovod's installation"),
        ("-cb", "horovodrun -cb: that is about Horovod's installation"),
        ("-v", "Run horovodrun itself for it"),
        ("-np 2 --autotune-gaussian-process-noise 2 --autotune python t.py", "takes 0 to 1, not 2.0"),
        ("-np 2 --cache-capacity -1 python t.py", "--cache-capacity takes 0 or more, not -1"),
        ("-np 2 --log-level LOUD python t.py", "invalid choice: 'LOUD'"),
        ("-np 2 --autotune --no-autotune python t.py", "not allowed with argument"),
        ("-np 2 --lr 1 python t.py", "required: command|unrecognized|ambiguous"),
    ],
)
def test_what_is_wrong_or_not_served_is_told(line: str, said: str) -> None:
    words = line.split(" ") if "-H  " in line else line.split()
    with pytest.raises(SpecError) as caught:
        meant(words)
    assert any(each in str(caught.value) for each in said.split("|"))


def test_on_spark_hosts_are_said_to_have_no_meaning() -> None:
    made = meant("-np 8 -H h1:4,h2:4 -p 2222 python t.py", on_spark=True)

    assert (None, 8) == made.options["num_processes"]
    assert (
        "horovodrun's hosts have no meaning here: Spark places the ranks",
        "horovodrun's -p has no meaning here: rankdeck starts the ranks, without ssh",
    ) == made.notes


def test_what_does_nothing_is_said() -> None:
    notes = meant("-np 1 --mpi --mpi-args=-x --verbose --output-filename o python t.py").notes

    for option in ("--mpi and --mpi-args have", "--verbose has", "--output-filename has"):
        assert 1 == sum(note.startswith(f"horovodrun's {option} no meaning here") for note in notes)
    assert () == meant("-np 1 --gloo python t.py").notes


def test_interfaces_and_limits() -> None:
    made = meant(
        "-np 1 --network-interfaces eth0,eth1 --network-interface lo --start-timeout 9 --tcp python t.py"
    )

    assert 9.0 == made.options["start_timeout_s"]
    expected = {
        "HOROVOD_GLOO_IFACE": "eth0",
        "NCCL_SOCKET_IFNAME": "eth0,eth1,lo",
        "NCCL_IB_DISABLE": "1",
    }
    assert expected == made.environ
    assert 5.0 == meant("-np 1 python t.py", HOROVOD_START_TIMEOUT="5").options["start_timeout_s"]
    with pytest.raises(SpecError, match="HOROVOD_START_TIMEOUT must be a number"):
        meant("-np 1 python t.py", HOROVOD_START_TIMEOUT="soon")


def test_our_own_interpreter_wins_and_that_is_said() -> None:
    notes = ("horovodrun's 'python' has no effect: --python stands before the word",)

    assert notes == meant("-np 2 python t.py", "python").notes
    assert () == meant("-np 2 ./run.sh", "python").notes


def test_a_configuration_that_cannot_be_read_is_told_with_its_name() -> None:
    line = "-np 1 --config-file {} python t.py"
    with pytest.raises(SpecError, match=r"'/none' cannot be read: No such file"):
        meant(line.format("/none"))
    with pytest.raises(SpecError, match=r"'c.yaml' cannot be read: expected ','"):
        meant(line.format("c.yaml"), answer={"error": "expected ','"})


def test_our_own_number_of_ranks_wins_and_is_enough() -> None:
    made = meant("-np 2 python t.py", "num_processes")

    assert ("horovodrun's -np has no effect: --num-processes stands before the word",) == made.notes
    assert "num_processes" not in meant("python t.py", "num_processes").options


def test_help_is_not_a_command() -> None:
    with pytest.raises(HelpWanted):
        meant("-np 2 --help python t.py")
    assert ("--help",) == meant("-np 2 python t.py --help").args


@pytest.mark.parametrize(
    "answer",
    [
        ["a"],
        "text",
        {"params": 3},
        {"params": {"cache_capacity": "many"}},
        {"logging": {"level": "LOUD"}},
        {"autotune": {"enabled": True, "log_file": {"a": 1}}},
    ],
)
def test_a_configuration_of_another_form_is_told(answer: Any) -> None:
    with pytest.raises(SpecError):
        meant("-np 1 --config-file c.yaml python t.py", answer={"config": answer})


CONFIG = """
params: {fusion_threshold_mb: 32, cycle_time_ms: 2, hierarchical_allreduce: true}
autotune: {enabled: true, log_file: tuned.csv, warmup_samples: 5}
timeline: {filename: t.json, mark_cycles: true}
stall_check: {enabled: false, warning_time_seconds: 7}
library_options: {num_nccl_streams: 2, gloo_timeout_seconds: 60}
logging: {level: INFO, with_timestamp: false}
"""
LINES = [
    "",
    "--fusion-threshold-mb 64 --cycle-time-ms 3.5 --cache-capacity 0",
    "--hierarchical-allreduce --no-hierarchical-allgather --torus-allreduce",
    "--autotune --autotune-log-file a.csv --autotune-gaussian-process-noise 0.5",
    "--autotune-log-file a.csv --timeline-mark-cycles",
    "--timeline-filename t.json --no-timeline-mark-cycles",
    "--no-stall-check --stall-check-warning-time-seconds 3",
    "--stall-check --stall-check-shutdown-time-seconds 9",
    "--log-level DEBUG --log-with-timestamp",
    "--log-without-timestamp --num-nccl-streams 2 --thread-affinity 1 --gloo-timeout-seconds 5",
    "--mpi-threads-disable --tcp",
    "--config-file {config}",
    "--config-file {config} --no-autotune --fusion-threshold-mb 8 --stall-check --log-level ERROR",
    "--timeline-filename other.json --config-file {config}",
]
PROGRAM_OF_HOROVOD = """
import json, sys
from horovod.runner import launch
args = launch.parse_args()
print(json.dumps([launch.config_parser.set_env_from_args({}, args), args.num_proc, args.command]))
"""


@pytest.mark.frameworks
@pytest.mark.process
@pytest.mark.parametrize("line", LINES)
def test_the_variables_are_those_that_horovod_sets(tmp_path: Path, line: str) -> None:
    config, env = tmp_path / "c.yaml", framework_envs.made("horovod")
    config.write_text(CONFIG)
    words = ["-np", "2", *line.format(config=config).split(), "python", "train.py", "--autotune"]
    answer = asked(env, READ_YAML, str(config)) if "{config}" in line else None
    expected, ranks, command = asked(env, PROGRAM_OF_HOROVOD, *words)
    made = translate(words, here(files={str(config): CONFIG}, answer=answer))

    assert expected == made.environ
    assert (None, ranks) == made.options["num_processes"]
    assert command == ["python", made.source, *made.args]
