"""What rankdeck costs a training on a real GPU. Run with ``pytest -m bench tests/bench/test_gpu.py``."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from launcher.runs.reader import read_state
from tests.bench.ledger import compared, record
from tests.bench.typist import Typist
from tests.commands import COMMAND, last, until
from tests.gpu import smi
from tests.trainings import FOLDER

pytestmark = [*smi.needs_gpu, pytest.mark.bench, pytest.mark.timeout(600)]

PROJECT = Path(__file__).parents[2]
STEPS_S = 5.0


@pytest.fixture
def gpu() -> str:
    return smi.query("name")[0]


def bare(*words: str | Path) -> None:
    """A program under plain python."""
    command = [sys.executable, *map(str, words)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=PROJECT)


def ended(folder: Path) -> bool:
    return (folder / "done").exists()


def attached(*words: str | Path, folder: Path) -> None:
    """The same program as a run, with the console attached for as long as it trains."""
    run = [COMMAND, "run", "-n", "1", "--detach", *map(str, words)]
    subprocess.run(run, check=True, stdout=subprocess.DEVNULL, cwd=PROJECT)
    with Typist([COMMAND, "attach", "last"]) as typist:
        typist.until("Ranks")
        threading.Thread(target=typist.drain, daemon=True).start()
        while not ended(folder):  # looked at seldom: what looks takes from the rank, too
            time.sleep(0.5)
    until(lambda: read_state(last()).phase.final)
    assert 0 == read_state(last()).exit_code


def test_steps_of_two_networks_with_the_console_attached(targets: Path, tmp_path: Path, gpu: str) -> None:
    script = targets / "gpu" / "steps.py"
    pairs: dict[str, list[tuple[float, float]]] = {"resnet": [], "transformer": []}
    for _ in range(3):
        ours, theirs = (Path(tempfile.mkdtemp(dir=tmp_path)) for _ in range(2))
        attached(script, "--", ours, str(STEPS_S), folder=ours)
        bare(script, theirs, str(STEPS_S))
        for name, found in pairs.items():
            found.append((float((ours / name).read_text()), float((theirs / name).read_text())))

    results = {name: compared(found) for name, found in pairs.items()}
    for name, what in (
        ("resnet", "ResNet-50, bf16, 128 images"),
        ("transformer", "transformer, bf16, 32,768 tokens"),
    ):
        record(f"{what}: a step, console attached", "plain python", results[name], bound=1.005, gpu=gpu)
    for result in results.values():
        assert result.ratio <= 1.005


def test_first_kernel_of_a_warm_run(targets: Path, tmp_path: Path, gpu: str) -> None:
    """From the command's start until its first kernel is done."""
    script, file = targets / "gpu" / "kernel.py", tmp_path / "done"

    def seconds(*words: str | Path) -> float:
        began = time.time_ns()
        subprocess.run([*map(str, words)], check=True, stdout=subprocess.DEVNULL, cwd=PROJECT)
        return (int(file.read_text()) - began) / 1e9

    ours = (COMMAND, "run", "-n", "1", "--ranks", "none", script, "--", file)
    seconds(*ours)
    result = compared([(seconds(*ours), seconds(sys.executable, script, file)) for _ in range(5)])
    record("warm: command start to the first kernel done", "plain python", result, bound=0.5, gpu=gpu)

    assert result.ratio <= 0.5


def test_sampling_of_a_real_gpu(gpu: str) -> None:
    pytest.importorskip("nvitop")

    def spent(who: str) -> float:
        words = [sys.executable, "-m", "tests.bench.sampling", who, "8", "1"]
        done = subprocess.run(words, check=True, stdout=subprocess.PIPE, cwd=PROJECT)
        return float(done.stdout) / 1000

    result = compared([(spent("rankdeck"), spent("nvitop")) for _ in range(2)])
    record("a real GPU and its rank at 1 Hz: CPU of the sampler, a second", "nvitop's collector", result,
           bound=1.0, gpu=gpu)  # fmt: skip

    assert result.ratio <= 1.0


def test_imagenette_on_one_gpu(tmp_path: Path, gpu: str) -> None:
    """The example as it stands, on generated images: seconds of an epoch of 2,560."""
    words = (FOLDER / "imagenette.py", "--", "--epochs", "3", "--images", "2560", "--amp")
    subprocess.run([COMMAND, "run", "-n", "1", *map(str, words)], check=True, cwd=PROJECT)
    done = subprocess.run([COMMAND, "result", "last", "--json"], check=True, stdout=subprocess.PIPE)
    ours = json.loads(done.stdout)["value"]["epoch_s"]
    program = (
        "import json, sys; from launcher.examples import imagenette; "
        "print(json.dumps(imagenette.train(epochs=3, images=2560, amp=True)))"
    )
    theirs = subprocess.run(
        [sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, cwd=PROJECT
    ).stdout
    result = compared([(ours, json.loads(theirs.splitlines()[-1])["epoch_s"])])
    record("imagenette example, 2,560 generated images, bf16: an epoch", "plain python", result, bound=1.05,
           gpu=gpu)  # fmt: skip

    assert result.ratio <= 1.05
