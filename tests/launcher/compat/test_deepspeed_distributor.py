"""`DeepspeedTorchDistributor` as pyspark documents it: its arguments, its configuration, real trainings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from launcher.compat import DeepspeedTorchDistributor, TorchDistributor
from tests import survivors
from tests.spark_runs import Bench
from tests.targets import deepspeed_arguments

SCRIPT = deepspeed_arguments.__file__
CONFIG = {"train_batch_size": 8}
SSL, OVERRIDE = "spark.ssl.enabled", "deepspeed.spark.distributor.ignoreSsl"


def printed(captured: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What each rank printed."""
    lines = (line.partition(" | ")[2] for line in captured.readouterr().out.splitlines())
    return [json.loads(line) for line in lines if line.startswith("{")]


def test_its_parameters() -> None:
    made = DeepspeedTorchDistributor(2, 3, True, False, CONFIG)

    assert isinstance(made, TorchDistributor)
    wanted = {"num_processes": 6, "num_tasks": 6, "local_mode": True, "use_gpu": False}
    assert {**wanted, "deepspeed_config": CONFIG} == made.input_params


@pytest.mark.parametrize(("gpus", "nodes"), [(0, 1), (1, 0), (-2, -1), (None, 1), (1, True), (1, "2")])
def test_parameters_that_make_no_sense(gpus: Any, nodes: Any) -> None:
    with pytest.raises(ValueError, match="must be a whole number of 1 or more"):
        DeepspeedTorchDistributor(gpus, nodes, useGpu=False)


def test_a_configuration_that_is_not_there(home: Path) -> None:
    with pytest.raises(ValueError, match="--deepspeed-config"):
        DeepspeedTorchDistributor(useGpu=False, deepspeedConfig="nowhere.json").run(SCRIPT)


@pytest.mark.process
@pytest.mark.parametrize("config", [None, CONFIG, "file"])
def test_a_file_gets_the_switch_and_the_configuration(
    config: Any, mark: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if config == "file":
        config = str(tmp_path / "deepspeed.json")
        Path(config).write_text(json.dumps(CONFIG))
    made = DeepspeedTorchDistributor(2, useGpu=False, deepspeedConfig=config)

    assert made.run(SCRIPT, "--lr", 0.5) is None
    wanted = {"lr": 0.5, "deepspeed": True, "config": CONFIG if config else None}
    assert [wanted] * 2 == printed(capfd)


@pytest.mark.process
def test_a_function_finds_them_among_its_programs_arguments(mark: str) -> None:
    made = DeepspeedTorchDistributor(useGpu=False, deepspeedConfig=CONFIG)
    assert {"lr": 0.0, "deepspeed": True, "config": CONFIG} == made.run(deepspeed_arguments.parse)


@pytest.mark.process
def test_a_file_whose_parser_is_in_another_one(
    mark: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "options.py").write_text(Path(SCRIPT).read_text())
    script = tmp_path / "train.py"
    script.write_text("import json, options\nprint(json.dumps(options.parse()), flush=True)\n")
    DeepspeedTorchDistributor(useGpu=False, deepspeedConfig=CONFIG).run(str(script))

    assert [{"lr": 0.0, "deepspeed": True, "config": CONFIG}] == printed(capfd)


def test_keywords_for_a_file() -> None:
    with pytest.raises(ValueError, match="key-word"):
        DeepspeedTorchDistributor(useGpu=False).run(SCRIPT, lr=1)


@pytest.mark.spark
@pytest.mark.timeout(300)
class TestWithSpark:
    def test_a_file_on_executors(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv(survivors.MARK, bench.mark)
        made = DeepspeedTorchDistributor(1, 2, localMode=False, useGpu=False, deepspeedConfig=CONFIG)

        assert made.run(SCRIPT, "--lr", 0.5) is None
        assert [{"lr": 0.5, "deepspeed": True, "config": CONFIG}] * 2 == printed(capfd)

    def test_its_own_leave_to_do_without_encryption(self, bench: Bench) -> None:
        bench.session.conf.set(SSL, "true")
        try:
            with pytest.raises(RuntimeError, match=f"{OVERRIDE} to true in .* DeepspeedTorchDistributor"):
                DeepspeedTorchDistributor(1, localMode=False, useGpu=False).run(SCRIPT)
        finally:
            bench.session.conf.unset(SSL)
