"""Fixtures that put the fake NVML library under the real pynvml: a pytest plugin, loaded by name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.fakes import nvml_build
from tests.fakes.nvml_build import FakeNvml


@pytest.fixture(scope="session")
def fake_nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is needed to build the fake NVML library")
    return nvml_build.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def nvml_elsewhere(fake_nvml_library: Path, tmp_path: Path) -> FakeNvml:
    """The fake for processes to be started; this one does not load it."""
    return FakeNvml(fake_nvml_library, tmp_path / "nvml.txt")


@pytest.fixture
def fake_nvml(nvml_elsewhere: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """The fake within this process."""
    nvml_build.load(nvml_elsewhere.library)
    monkeypatch.setenv("FAKE_NVML", str(nvml_elsewhere.answers))
    return nvml_elsewhere
