"""GPUs from the driver's library to the ranks' environment and the recorded samples, by the real command.

The driver's library is a fake; pynvml, the plan, the agent and the record are real.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.distributor import Distributor
from launcher.runs.reader import StateTail
from launcher.state import events as ev
from tests.commands import Foreground, Gate, last, rankdeck, runs, until
from tests.fakes.nvml_build import FakeGpu, FakeNvml

pytestmark = pytest.mark.process

GIB = 1 << 30
FIRST = FakeGpu("GPU-aaaa", util=97, memory=(10 * GIB, 80 * GIB), power=350_000, temperature=61)
SECOND = FakeGpu("GPU-bbbb", util=None, memory=(2 * GIB, 80 * GIB))


def waiting(targets: Path, gate: Gate, *options: str) -> tuple[str, ...]:
    return (
        "run",
        str(targets / "waiting.py"),
        *options,
        "--sample-interval",
        "0.05",
        "--",
        "gate",
        str(gate.path),
    )


@pytest.mark.usefixtures("mark")
def test_two_ranks_get_a_gpu_each_and_every_figure_is_recorded(
    nvml_elsewhere: FakeNvml, targets: Path, tmp_path: Path
) -> None:
    nvml_elsewhere.say(FIRST, SECOND)
    gate = Gate(tmp_path / "gate", 2)
    command = waiting(targets, gate, "-n", "2", "--gpu")
    with Foreground(*command, folder=tmp_path, env=nvml_elsewhere.environment) as run:
        run.await_line("r1 |")
        tail = StateTail(last())

        def sampled() -> bool:
            tail.poll()
            return bool(tail.state.hosts) and len(tail.state.hosts[0].devices) == 2

        until(sampled)
        gate.open()
        assert 0 == run.finish(), run.narrated

    figures = tail.state.hosts[0].devices
    assert ["GPU-aaaa", "GPU-bbbb"] == [r.devices[0].uuid for r in tail.state.ranks]
    assert (97.0, 10 * GIB, 350.0, 61.0) == (
        figures["GPU-aaaa"].util,
        figures["GPU-aaaa"].memory_used,
        figures["GPU-aaaa"].power_w,
        figures["GPU-aaaa"].temperature_c,
    )
    assert (None, 2 * GIB, None) == (
        figures["GPU-bbbb"].util,
        figures["GPU-bbbb"].memory_used,
        figures["GPU-bbbb"].power_w,
    )


@pytest.mark.usefixtures("mark")
@pytest.mark.parametrize(
    ("options", "visible"),
    [
        (["-n", "2"], "GPU-aaaa,GPU-bbbb"),
        (["-n", "1"], "GPU-aaaa"),
        (["-n", "2", "--no-gpu"], ""),
        (["-n", "3"], ""),
    ],
)
def test_ranks_see_the_gangs_gpus_in_local_rank_order_or_none(
    nvml_elsewhere: FakeNvml, targets: Path, options: list[str], visible: str
) -> None:
    nvml_elsewhere.say(FIRST, SECOND)
    done = rankdeck("run", targets / "visible.py", *options, env=nvml_elsewhere.environment)

    assert 0 == done.returncode, done.stderr
    assert {f"visible {visible!r}"} == {line.partition(" | ")[2] for line in done.stdout.splitlines()}


@pytest.mark.usefixtures("mark")
def test_gpus_are_chosen_by_a_variable_of_the_run_which_is_recorded(
    nvml_elsewhere: FakeNvml, targets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nvml_elsewhere.say(FIRST, SECOND)
    env = nvml_elsewhere.environment
    chosen = rankdeck("run", "--env", "CUDA_VISIBLE_DEVICES=1", targets / "visible.py", env=env)
    again = rankdeck("rerun", "last", env=env)

    assert (0, 0) == (chosen.returncode, again.returncode), chosen.stderr + again.stderr
    assert "visible 'GPU-bbbb'" in chosen.stdout
    assert "visible 'GPU-bbbb'" in again.stdout


@pytest.mark.usefixtures("mark")
def test_ranks_that_share_a_gpu_see_it_alone(nvml_elsewhere: FakeNvml, targets: Path) -> None:
    nvml_elsewhere.say(FIRST)
    options = ("-n", "4", "--gpu", "--ranks-per-gpu", "4")
    done = rankdeck("run", targets / "visible.py", *options, env=nvml_elsewhere.environment)

    assert 0 == done.returncode, done.stderr
    assert ["visible 'GPU-aaaa'"] * 4 == [line.partition(" | ")[2] for line in done.stdout.splitlines()]
    assert "ranks 0, 1, 2 and 3 share GPU 0 on " in done.stderr


@pytest.mark.usefixtures("mark")
def test_ranks_of_a_distributor_share_gpus(fake_nvml: FakeNvml, targets: Path) -> None:
    fake_nvml.say(FIRST, SECOND)
    job = Distributor(4, gpu=True, ranks_per_gpu=2).start(str(targets / "visible.py"))

    job.wait(timeout=60)
    assert 0 == job.state.exit_code
    assert ["GPU-aaaa", "GPU-aaaa", "GPU-bbbb", "GPU-bbbb"] == [r.devices[0].uuid for r in job.state.ranks]


def test_a_dry_run_says_which_ranks_share_a_gpu(nvml_elsewhere: FakeNvml, targets: Path) -> None:
    nvml_elsewhere.say(FIRST, SECOND)
    options = ("-n", "4", "--ranks-per-gpu", "2", "--dry-run")
    done = rankdeck("run", targets / "visible.py", *options, env=nvml_elsewhere.environment)

    places = [line for line in done.stdout.splitlines() if line.startswith("rank ")]
    assert 0 == done.returncode, done.stderr
    assert ["GPU-aaaa", "GPU-aaaa", "GPU-bbbb", "GPU-bbbb"] == [line.split()[11] for line in places]
    assert "ranks 0 and 1 share GPU 0 on " in done.stderr
    assert "; ranks 2 and 3 share GPU 1 on " in done.stderr


def test_too_few_gpus_are_said_at_once(nvml_elsewhere: FakeNvml, targets: Path) -> None:
    nvml_elsewhere.say(FIRST)
    done = rankdeck("run", targets / "hello.py", "-n", "2", "--gpu", env=nvml_elsewhere.environment)

    assert 2 == done.returncode
    assert "needs 2 GPUs" in done.stderr
    assert "there is 1" in done.stderr
    assert "use --no-gpu, a smaller -n, or --ranks-per-gpu 2" in done.stderr
    assert [] == runs()


@pytest.mark.usefixtures("mark")
def test_a_driver_that_fails_is_said_and_the_ranks_run_on_the_cpu(
    nvml_elsewhere: FakeNvml, targets: Path
) -> None:
    nvml_elsewhere.say(FIRST, fails={"nvmlInitWithFlags": 9})
    done = rankdeck("run", targets / "hello.py", env=nvml_elsewhere.environment)

    notes = [e.text for e in StateTail(last()).poll() if isinstance(e, ev.NoteMade)]
    assert 0 == done.returncode
    assert any("run on the CPU" in note for note in notes)
