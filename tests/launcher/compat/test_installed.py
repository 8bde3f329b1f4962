"""Originals' names have rankdeck behind them for as long as that is installed, however they are imported."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher import compat
from launcher.compat import installed, ray_on_spark

ORIGINAL = "def setup_ray_cluster(**_): return 'original'\ndef shutdown_ray_cluster(): return 'original'\n"
NAMES = ("setup_ray_cluster", "shutdown_ray_cluster")


@pytest.fixture
def ray_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    spark = tmp_path / "ray" / "util" / "spark"
    spark.mkdir(parents=True)
    for folder in (spark.parent.parent, spark.parent):
        (folder / "__init__.py").touch()
    (spark.parent.parent / "__init__.py").write_text("def is_initialized(): return False\n")
    (spark / "cluster_init.py").write_text(ORIGINAL)
    (spark / "__init__.py").write_text(f"from .cluster_init import {', '.join(NAMES)}\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [each for each in sys.modules if each.partition(".")[0] == "ray"]:
        del sys.modules[name]


def found() -> list[Any]:
    modules = [importlib.import_module(f"ray.util.spark{more}") for more in ("", ".cluster_init")]
    return [getattr(module, name) for module in modules for name in NAMES]


OURS = [ray_on_spark.setup_ray_cluster, ray_on_spark.shutdown_ray_cluster] * 2


@pytest.mark.usefixtures("ray_package")
def test_what_is_imported_inside_is_ours_and_afterwards_the_original_again() -> None:
    with installed():
        assert OURS == found()

    assert ["original"] * 4 == [function() for function in found()]


@pytest.mark.usefixtures("ray_package")
def test_what_was_imported_before_is_changed_too_also_after_an_error() -> None:
    before = found()

    def fail() -> None:
        with installed():
            assert OURS == found()
            raise RuntimeError("of the user")

    with pytest.raises(RuntimeError, match="of the user"):
        fail()
    assert before == found()


@pytest.mark.usefixtures("ray_package")
def test_nothing_is_changed_that_is_imported_after_the_end() -> None:
    with installed():
        pass

    assert ["original"] * 4 == [function() for function in found()]


@pytest.mark.usefixtures("ray_package")
def test_one_inside_another_gives_back_what_the_other_has_put() -> None:
    with installed():
        with installed():
            assert OURS == found()
        assert OURS == found()
    assert ["original"] * 4 == [function() for function in found()]


def test_without_ray_nothing_happens() -> None:
    with installed():
        assert "ray" not in sys.modules


# --- pyspark's names -----------------------------------------------------------------------------------

ASKED = """
import json, sys
from launcher.compat import installed

def names():
    import pyspark.ml, pyspark.ml.torch.distributor, pyspark.ml.deepspeed.deepspeed_distributor as deepspeed
    import pyspark.ml.connect.classification as users
    found = [pyspark.ml, pyspark.ml.torch.distributor, users]
    kinds = [each.TorchDistributor for each in found] + [deepspeed.DeepspeedTorchDistributor]
    return [kind.__module__ for kind in kinds]

told = {}
if "before" in sys.argv:
    told["first"] = names()
with installed():
    told["inside"] = names()
told["after"] = names()
import pyspark.ml.torch.distributor as torch, pyspark.ml.deepspeed.deepspeed_distributor as deepspeed
told["still related"] = issubclass(deepspeed.DeepspeedTorchDistributor, torch.TorchDistributor)
print(json.dumps(told))
"""
THEIRS = ["pyspark.ml.torch.distributor"] * 3 + ["pyspark.ml.deepspeed.deepspeed_distributor"]
OF_COMPAT = ["launcher.compat.torch_distributor"] * 3 + ["launcher.compat.deepspeed_distributor"]


@pytest.mark.process
@pytest.mark.parametrize("imported", ["before", "inside"])
def test_pysparks_names_wherever_they_are_known(imported: str) -> None:
    """Also in a module of pyspark that had imported the name before, and in one that did so inside."""
    command = [sys.executable, "-W", "ignore", "-c", ASKED, imported]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    first = {"first": THEIRS} if imported == "before" else {}
    assert {**first, "inside": OF_COMPAT, "after": THEIRS, "still related": True} == told


@pytest.mark.usefixtures("ray_package")
def test_they_may_end_in_any_order() -> None:
    """As those of two threads, or of two cells of a notebook."""
    before, first, second = found(), installed(), installed()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert (OURS, [compat.HorovodRunner, compat.log_to_driver]) == (found(), of_sparkdl())
    second.__exit__(None, None, None)

    assert before == found()
    assert "sparkdl" not in sys.modules


@pytest.mark.usefixtures("ray_package")
def test_what_cannot_be_changed_is_told(tmp_path: Path) -> None:
    (tmp_path / "ray/util/spark/cluster_init.py").write_text("shutdown_ray_cluster = None\n")
    (tmp_path / "ray/util/spark/__init__.py").write_text("")
    with installed(), pytest.warns(UserWarning, match=r"cluster_init\.setup_ray_cluster stays the original"):
        importlib.import_module("ray.util.spark.cluster_init")


# --- packages that are nothing but names ----------------------------------------------------------------


def of_sparkdl() -> list[Any]:
    runner = importlib.import_module("sparkdl")
    driver = importlib.import_module("sparkdl.horovod")
    return [runner.HorovodRunner, driver.log_to_driver]


def test_packages_that_are_not_installed_are_there_inside() -> None:
    ours = [compat.HorovodRunner, compat.log_to_driver]
    with installed():
        assert ours == of_sparkdl()
        with installed():
            assert ours == of_sparkdl()
        assert ours == of_sparkdl()
        runner = importlib.import_module("spark_tensorflow_distributor")
        assert compat.MirroredStrategyRunner is runner.MirroredStrategyRunner
        assert importlib.util.find_spec("sparkdl") is not None
        assert {"HorovodRunner", "horovod"} <= set(dir(importlib.import_module("sparkdl")))
        with pytest.raises(AttributeError, match="module 'sparkdl' has no attribute 'XGBoost'"):
            _ = importlib.import_module("sparkdl").XGBoost

    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("sparkdl")


def test_a_package_that_is_installed_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("sparkdl", "sparkdl/horovod"):
        (tmp_path / folder).mkdir()
    (tmp_path / "sparkdl/__init__.py").write_text("from sparkdl.runner import HorovodRunner\n")
    (tmp_path / "sparkdl/runner.py").write_text("HorovodRunner = 'original'\n")
    (tmp_path / "sparkdl/horovod/__init__.py").write_text("log_to_driver = 'original'\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        with installed():
            assert [compat.HorovodRunner, compat.log_to_driver] == of_sparkdl()
        assert ["original"] * 2 == of_sparkdl()
    finally:
        for name in [each for each in sys.modules if each.partition(".")[0] == "sparkdl"]:
            del sys.modules[name]


def test_a_name_that_there_is_not() -> None:
    with pytest.raises(AttributeError, match=r"module 'launcher\.compat' has no attribute 'Horovod'"):
        _ = compat.Horovod
    assert set(compat.__all__) == {name for name in compat.__all__ if getattr(compat, name)}
