"""Cluster mode by the command, with a Spark session of its own, on a real standalone cluster."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from launcher.runs import paths
from launcher.runs.catalog import run_ids
from launcher.runs.paths import runs_root
from launcher.runs.reader import FactTail
from launcher.state import events as ev
from tests import engines, survivors
from tests.commands import COMMAND, Gate, facts, last, until
from tests.spark_cluster import Cluster
from tests.spark_runs import agents_of, common_options

pytestmark = [pytest.mark.usefixtures("undisturbed"), pytest.mark.spark, pytest.mark.timeout(180)]

TARGETS = Path(__file__).parents[3] / "targets" / "cluster.py"
SOAK = int(os.environ.get("RANKDECK_SOAK", "1"))


def words(cluster: Cluster, *more: str | Path) -> list[str]:
    return ["run", *common_options(cluster), *map(str, more)]  # what a test says comes before what is common


def rankdeck(cluster: Cluster, *more: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *words(cluster, *more)],
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        cwd=cwd,
        check=False,
    )


def test_a_script_beside_its_module_on_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """What lies beside a script goes along; lines say rank and host; the result comes last."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "beside.py").write_text("WORD = 'beside'\n")
    (project / "train.py").write_text(
        "import os, beside, launcher\n"
        "print(beside.WORD, os.environ['LOCAL_RANK'], flush=True)\n"
        "launcher.publish({'rank': int(os.environ['RANK'])})\n"
    )
    done = rankdeck(cluster, "project/train.py", "-n", "4", cwd=tmp_path)

    assert 0 == done.returncode, done.stderr
    lines = sorted(line for line in done.stdout.splitlines() if " | " in line)
    shown = [re.fullmatch(r"r(\d) (127\.0\.0\.[23]) \| beside (\d)", line) for line in lines]
    assert ["0", "1", "0", "1"] == [match[3] for match in shown if match]
    assert {"rank": 0} == json.loads(done.stdout[done.stdout.rindex("{") :])
    assert "Spark" in done.stderr
    assert not re.search(r"WARN|INFO|Exception|\tat ", done.stdout + done.stderr)


@pytest.mark.parametrize("turn", range(SOAK))
def test_a_script_that_raises_at_once(cluster: Cluster, tmp_path: Path, turn: int) -> None:
    """Verdict, traceback and exit code within 2 s of the raise."""
    (tmp_path / "bad.py").write_text(
        "import os, time\nif os.environ['RANK'] == '1':\n    raise ValueError('no luck')\ntime.sleep(600)\n"
    )
    done = rankdeck(cluster, "bad.py", "-n", "4", cwd=tmp_path)
    ended = time.time()
    raised, over = facts(ev.RankRaised)[0], facts(ev.RunEnded)[0]

    assert 1 == done.returncode
    assert "ValueError: no luck" in done.stderr
    assert f'File "{tmp_path}/bad.py", line 3' in done.stderr
    assert over.time - raised.time < 2
    assert ended - raised.time < 4  # a bound for a busy machine; the figure itself is in the benchmark
    assert "\tat " not in done.stderr


def test_too_few_slots(cluster: Cluster, tmp_path: Path) -> None:
    done = rankdeck(cluster, f"{TARGETS}:places", "-n", "5:8", cwd=tmp_path)  # its limit is 60 s
    (first, *_), over = facts(ev.SlotsAwaited), facts(ev.RunEnded)[0]

    assert 69 == done.returncode
    assert "needs 5 slots at once; the cluster has 4 (" in done.stderr
    assert "use -n 4 or fewer, or -n 1:8 for" in done.stderr
    assert isinstance(first, ev.SlotsAwaited)
    assert 8 == first.need
    assert over.time - first.time < 30  # 5 s after the size was seen; the rest is for a busy machine
    assert not facts(ev.StageSubmitted)


def test_gpus_that_spark_was_not_asked_for(cluster: Cluster, tmp_path: Path) -> None:
    conf = cluster.conf(gpus=0)
    settings = [w for k, v in conf.items() for w in ("--conf", f"{k}={v}")]
    command = [COMMAND, "run", f"{TARGETS}:places", "-n", "2", "--gpu", "--master", cluster.url, *settings]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)

    assert 69 == done.returncode
    assert "--gpu needs 2 GPUs, one a rank, and there is none" in done.stderr
    assert "give it with --conf spark.executor.resource.gpu.amount=2" in done.stderr


def test_more_gpus_for_an_executor_than_a_worker_has(cluster: Cluster, tmp_path: Path) -> None:
    conf = cluster.conf(gpus=9)
    settings = [w for k, v in conf.items() for w in ("--conf", f"{k}={v}")]
    command = [COMMAND, "run", f"{TARGETS}:places", "-n", "2", "--master", cluster.url, *settings]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)

    assert 69 == done.returncode
    assert "spark.executor.resource.gpu.amount=9, and no worker has more than 2" in done.stderr
    assert "(spark.executor.resource.gpu.amount=2 would fit)" in done.stderr


def test_slots_that_ones_own_idle_session_holds(cluster: Cluster, tmp_path: Path) -> None:
    """They are freed by themselves for a run with other settings; the engine stays."""
    first = rankdeck(cluster, f"{TARGETS}:places", "-n", "4", cwd=tmp_path)
    assert 0 == first.returncode, first.stderr
    (engine,) = engines.pids()
    second = rankdeck(
        cluster, f"{TARGETS}:places", "-n", "4", "--conf", "spark.some.setting=other", cwd=tmp_path
    )

    assert 0 == second.returncode, second.stderr
    status = {each["pid"]: each for each in known_engines()}
    assert engine in status
    assert status[engine]["session"] is None
    (other,) = (each["session"] for pid, each in status.items() if pid != engine)
    assert (4, 0) == (other["cores"], other["runs"])


def known_engines() -> list[dict[str, Any]]:
    said = subprocess.run(
        [COMMAND, "engine", "status", "--json"], capture_output=True, timeout=60, check=True
    ).stdout
    found: list[dict[str, Any]] = json.loads(said)
    return found


def test_a_session_is_as_large_as_its_run_and_a_second_run_gets_another(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Two at once with the same settings: each has an engine, and the cluster is divided."""
    gate = Gate(tmp_path / "gate", 2)
    (tmp_path / "train.py").write_text(f"import os\nopen(f'{gate.path}.{{os.environ[\"RANK\"]}}').read()\n")
    command = words(cluster, "train.py", "-n", "2")
    first = subprocess.Popen(
        [COMMAND, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=tmp_path
    )
    try:
        until(lambda: sum(app["cores"] for app in cluster.state()["activeapps"]) == 2)
        second = rankdeck(cluster, f"{TARGETS}:places", "-n", "2", cwd=tmp_path)
        assert first.poll() is None
    finally:
        gate.open()
        _, said = first.communicate(timeout=60)

    assert (0, 0) == (first.returncode, second.returncode), (said, second.stderr)
    assert 2 == len(engines.pids())
    larger = rankdeck(cluster, f"{TARGETS}:places", "-n", "4", cwd=tmp_path)
    assert 0 == larger.returncode, larger.stderr
    assert [4] == [each["session"]["cores"] for each in known_engines() if each["session"]]


def test_slots_that_somebody_else_holds(cluster: Cluster, tmp_path: Path) -> None:
    conf = [w for k, v in cluster.conf(cores=2).items() for w in ("--conf", f"{k}={v}")]
    mark = f"{survivors.MARK}={os.environ[survivors.MARK]}"
    other = subprocess.Popen(
        [
            *(COMMAND, "run", f"{TARGETS}:tick", "-n", "2", "--param", "count=100000", "--name", "hog"),
            *("--master", cluster.url, *conf, "--env", mark),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline()
        done = rankdeck(cluster, f"{TARGETS}:places", "-n", "4", "--start-timeout", "20", cwd=tmp_path)
    finally:
        other.send_signal(signal.SIGTERM)
        other.communicate(timeout=60)

    assert 69 == done.returncode
    told = r"needs 4 GPU slots at once.*2 busy with your own run \S+ \(`rankdeck stop \S+` ends it\)"
    assert re.search(told, done.stderr), done.stderr
    assert 143 == other.returncode


def test_dynamic_allocation_is_explained(cluster: Cluster, tmp_path: Path) -> None:
    dynamic = ["--conf", "spark.dynamicAllocation.enabled=true"]
    dynamic += ["--conf", "spark.dynamicAllocation.shuffleTracking.enabled=true"]
    done = rankdeck(cluster, f"{TARGETS}:places", "-n", "2", *dynamic, cwd=tmp_path)

    assert 69 == done.returncode
    assert "barrier stages cannot run with spark.dynamicAllocation.enabled=true" in done.stderr
    assert "\tat " not in done.stderr


def test_a_session_with_ssl_is_used_like_any_other(cluster: Cluster, tmp_path: Path) -> None:
    """TorchDistributor refuses one, because its own log port is plain text. Ours is encrypted anyway."""
    ssl = ["--conf", "spark.ssl.enabled=true", "--conf", "spark.ssl.ui.enabled=false"]
    done = rankdeck(cluster, f"{TARGETS}:places", "-n", "2", *ssl, cwd=tmp_path)

    assert 0 == done.returncode, done.stderr


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_gracefully(cluster: Cluster, tmp_path: Path, signum: signal.Signals) -> None:
    command = subprocess.Popen(
        [
            COMMAND,
            *words(cluster, f"{TARGETS}:write_then_wait", "-n", "2", "--param", f"path={tmp_path}/saved"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert command.stdout is not None
    heard: set[str] = set()
    while heard != {"r0", "r1"}:  # both have their handlers
        heard.add(command.stdout.readline()[:2])
    command.send_signal(signum)
    command.communicate(timeout=60)

    assert 128 + signum == command.returncode
    assert ["saved", "saved"] == [(tmp_path / f"saved.{rank}").read_text() for rank in range(2)]


def test_a_kill_of_the_command_leaves_nothing(cluster: Cluster, tmp_path: Path) -> None:
    """Nobody was at a terminal, so the engine stops the run; `undisturbed` looks."""
    command = subprocess.Popen(
        [COMMAND, *words(cluster, f"{TARGETS}:stubborn", "-n", "2")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
    )
    assert command.stdout is not None
    assert command.stdout.readline()
    command.kill()
    command.wait()
    command.stdout.close()


def test_a_kill_of_the_engine_leaves_nothing(cluster: Cluster, tmp_path: Path) -> None:
    """It takes its JVM with it: the ranks are gone at once, and the executors are free."""
    command = subprocess.Popen(
        [COMMAND, *words(cluster, f"{TARGETS}:stubborn", "-n", "2")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert command.stdout is not None
    assert command.stdout.readline()
    (engine,) = engines.pids()
    os.kill(engine, signal.SIGKILL)
    _, said = command.communicate(timeout=60)

    until(lambda: not agents_of(cluster), within=2)
    until(lambda: not cluster.executors(), within=10)
    assert 75 == command.returncode
    assert "the engine" in said
    lost = json.loads(subprocess.check_output([COMMAND, "ps", "--json"]))[0]
    assert ("lost", 75) == (lost["state"], lost["exit_code"])
    again = rankdeck(cluster, f"{TARGETS}:places", "-n", "2", cwd=tmp_path)
    assert 0 == again.returncode, again.stderr


def test_two_commands_share_a_session(cluster: Cluster, tmp_path: Path) -> None:
    """The second one finds the application of the first; when nobody uses it, its executors are free."""
    for _ in range(2):
        done = rankdeck(cluster, f"{TARGETS}:places", "-n", "2", cwd=tmp_path)
        assert 0 == done.returncode, done.stderr
    applications = re.findall(r"application (app-\S+?),", done.stderr)
    (known,) = json.loads(subprocess.check_output([COMMAND, "engine", "status", "--json"]))
    assert [known["session"]["application"]] == applications
    assert cluster.executors()
    first, second = run_ids(runs_root())
    assert [1, 1] == [
        sum(isinstance(fact, ev.SparkReady) and fact.application == applications[0] for fact in told)
        for told in (FactTail(runs_root() / first).poll(), FactTail(runs_root() / second).poll())
    ]
    assert 0 == subprocess.run([COMMAND, "engine", "stop"], check=False).returncode
    until(lambda: not cluster.executors(), within=10)


def test_a_detached_run_on_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    done = rankdeck(cluster, f"{TARGETS}:places", "-n", "2", "--detach", cwd=tmp_path)
    assert 0 == done.returncode, done.stderr
    followed = subprocess.run(
        [COMMAND, "logs", "-f", done.stdout.strip()], capture_output=True, timeout=90, check=False
    )

    assert 0 == followed.returncode
    assert (paths.result_file(last(), 1)).exists()


def test_without_java_it_says_so_and_local_mode_works(tmp_path: Path, cluster: Cluster) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    environ = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"} | {"PATH": str(tools)}
    commands = [["--mode", "cluster"], []]
    done = [
        subprocess.run(
            [COMMAND, "run", f"{TARGETS}:places", "-n", "1", *mode],
            env=environ,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        for mode in commands
    ]

    assert [69, 0] == [each.returncode for each in done]
    assert "Java 17" in done[0].stderr
    assert "--mode local needs none" in done[0].stderr


@pytest.mark.parametrize(("listen", "address"), [("", "127.0.0.1"), ("[::1]", "::1")])
def test_an_embedded_spark_on_this_machine(
    tmp_path: Path, cluster: Cluster, listen: str, address: str
) -> None:
    environ = {k: v for k, v in os.environ.items() if k not in ("SPARK_REMOTE", "MASTER", "SPARK_HOME")}
    done = subprocess.run(
        [COMMAND, "run", f"{TARGETS}:places", "-n", "3", "--mode", "cluster", "--listen", listen],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )

    assert 0 == done.returncode, done.stderr
    place = json.loads(done.stdout[("\n" + done.stdout).rindex("\n{") :])
    assert ("0", "3", "3") == (place["LOCAL_RANK"], place["LOCAL_WORLD_SIZE"], place["WORLD_SIZE"])
    assert address == place["MASTER_ADDR"]


def test_an_elastic_gang_goes_on_with_what_is_left(tmp_path: Path, cluster: Cluster) -> None:
    """A worker machine is gone for good: four ranks become two, and the run ends as it should."""
    with Cluster() as own:
        command = subprocess.Popen(
            [
                *(COMMAND, *words(own, f"{TARGETS}:tick", "-n", "2:4", "--max-restarts", "1")),
                *("--param", "count=150"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
        assert command.stdout is not None
        heard: set[str] = set()
        while len(heard) < 4:
            heard.add(command.stdout.readline()[:2])
        lost = own.executors(1)
        own.workers[1].kill()
        for pid in lost:
            with contextlib.suppress(ProcessLookupError):  # Spark may have been quicker
                os.kill(pid, signal.SIGKILL)
        _, err = command.communicate(timeout=120)
    placed = [f for f in facts(ev.GangPlaced) if isinstance(f, ev.GangPlaced)]

    assert 0 == command.returncode, err
    assert [4, 2] == [len(fact.ranks) for fact in placed]
    assert {"127.0.0.2"} == {rank.host for rank in placed[1].ranks}
    assert "attempt 1" in err
