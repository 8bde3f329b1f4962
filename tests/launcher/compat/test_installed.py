"""Originals' names have rankdeck behind them for as long as that is installed, however they are imported."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
