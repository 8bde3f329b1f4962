"""What is sent by value with a function that predicts."""

from __future__ import annotations

import importlib.util
import pickle
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from launcher.backends.spark.prediction import packing

if TYPE_CHECKING:
    import pytest


def loaded(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, *aliases: str) -> ModuleType:
    """A module that lies in a folder, and was not installed."""
    path = folder / f"{name.replace('.', '_')}.py"
    path.write_text("def double(x):\n    return 2 * x\n")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for each in (name, *aliases):
        monkeypatch.setitem(sys.modules, each, module)
    return module


def test_a_module_with_two_names_is_sent_by_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = loaded(tmp_path, monkeypatch, "own_model", "the_same_model")
    data = packing._dumps(module.double)
    monkeypatch.delitem(sys.modules, "own_model")

    assert 6 == pickle.loads(data)(3)


def test_spark_s_own_modules_are_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They lie in SPARK_HOME where Spark was not installed by pip."""
    module = loaded(tmp_path, monkeypatch, "pyspark.of_a_distribution")
    data = packing._dumps(module.double)

    assert b"pyspark.of_a_distribution" in data
    assert module.double is pickle.loads(data)
