"""Models of Keras as stages of pyspark.ml, in an interpreter that has TensorFlow and no PyTorch."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest
import torch

from launcher.errors import SpecError
from launcher.estimators import KerasModel
from tests import framework_envs
from tests.documents import ROOT, blocks

PROGRAM = ROOT / "tests" / "targets" / "keras_pipelines.py"
# what rankdeck and pyspark need of this environment, beside TensorFlow of the other
PACKAGES = (
    *("_cffi_backend", "cffi", "cloudpickle", "cryptography", "dateutil", "pandas", "pathspec"),
    *("platformdirs", "psutil", "py4j", "pyarrow", "pynvml", "pyspark", "regex"),
)


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder of links to packages, for an environment that lacks them."""
    folder = tmp_path / "packages"
    folder.mkdir()
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        found = Path(spec.origin)
        found = found.parent if spec.submodule_search_locations else found
        (folder / found.name).symlink_to(found)
    return folder


def run(what: str, tmp_path: Path, packages: Path) -> str:
    env = framework_envs.made("tensorflow")
    around = {
        **os.environ,
        **env.variables,
        "PYSPARK_PYTHON": str(env.python),
        "PYTHONPATH": f"{packages}:{ROOT}",
        "RANKDECK_HOME": str(tmp_path / "home"),
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    words = [str(env.python), str(PROGRAM), what, str(tmp_path)]
    done = subprocess.run(words, cwd=tmp_path, env=around, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.spark
@pytest.mark.frameworks
@pytest.mark.takes(90)
@pytest.mark.timeout(600)
class TestKeras:
    def test_a_pipeline_is_saved_and_loaded_elsewhere(
        self, spark_here: None, tmp_path: Path, packages: Path
    ) -> None:
        here = run("pipeline", tmp_path, packages)

        assert 600 == len(here.split(","))
        assert here == run("load", tmp_path, packages)

    def test_the_stage_of_the_manual(self, spark_here: None, tmp_path: Path, packages: Path) -> None:
        (block,) = (
            each
            for each in blocks(ROOT / "console" / "manual" / "pipelines.md")
            if "KerasEstimator" in each.text
        )
        (tmp_path / "documented.py").write_text(block.text)
        run("documented", tmp_path, packages)

    @pytest.mark.parametrize("what", ["classes", "ranks", "refusals"])
    def test_in_an_interpreter_of_its_own(
        self, spark_here: None, tmp_path: Path, packages: Path, what: str
    ) -> None:
        run(what, tmp_path, packages)


@pytest.mark.parametrize("model", [None, "net", torch.nn.Linear(1, 1)], ids=type)
def test_what_is_no_model_of_keras(model: object) -> None:
    with pytest.raises(SpecError, match="needs a model of Keras: model=…, not"):
        KerasModel(model=model).getModel()


def test_without_tensorflow_it_is_said() -> None:
    with pytest.raises(ModuleNotFoundError, match="No module named 'tensorflow'"):
        from launcher.estimators import KerasEstimator  # noqa: F401
