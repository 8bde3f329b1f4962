"""Torch's version and its CUDA, without importing it: as agents say them, and as `doctor` asks for them."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.agent import installed, torch_build


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    for each in (torch_build.torch_version, torch_build.torch_cuda):
        each.cache_clear()
    yield
    for each in (torch_build.torch_version, torch_build.torch_cuda):
        each.cache_clear()


def torch(folder: Path, line: str) -> Path:
    """A folder with a torch that cannot be imported, and has this line in its version.py."""
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text("raise SystemExit('imported')")
    text = f"__version__ = '2.9.0'\ndebug = False\n{line}\nhip = '6.4'\n"
    (folder / "torch" / "version.py").write_text(text)
    return folder


@pytest.mark.parametrize("found", [None, ""])
def test_a_torch_without_a_version_is_none(found: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: found)

    assert torch_build.torch_version() == ""


@pytest.mark.parametrize(
    ("line", "cuda"),
    [
        ("cuda: Optional[str] = '12.8'", "12.8"),
        ("cuda = '11.7'", "11.7"),
        ('cuda: str | None = "13.0"', "13.0"),
        ("cuda: Optional[str] = None", ""),
        ("cuda = compute()", ""),
        ("cudart = '1'", ""),
    ],
)
def test_agents_and_checks_read_the_same_cuda(
    tmp_path: Path, line: str, cuda: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(torch(tmp_path, line)))
    monkeypatch.delitem(sys.modules, "torch", raising=False)

    assert torch_build.torch_cuda() == cuda
    assert installed.look(()).cuda == cuda


def test_a_module_that_has_replaced_itself_is_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", object())

    assert torch_build.torch_cuda() == ""
