"""The sources of a program: the target's file and the user's own modules behind it, nothing installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.spec import program_sources as module
from launcher.spec.job import Target, TargetKind
from launcher.spec.program_sources import program_sources

FILES = {
    "train.py": "import os, a\nfrom pkg.deep import thing\nfrom pkg import (\n    other,\n)\nimport json\n",
    "a.py": "from b import *\nimport train\n",
    "b.py": "def late():\n    import c as d\n",
    "c.py": "# c\n",
    "pkg/__init__.py": "from . import near\n",
    "pkg/near.py": "from .sub.far import x\n",
    "pkg/deep.py": "from ..outside import y\n",
    "pkg/sub/__init__.py": "",
    "pkg/sub/far.py": "# far\n",
    "json.py": "# the user's own\n",
    "unused.py": "# unused\n",
    "outside.py": "# above the package\n",
}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def texts(target: Target, work: Path) -> list[str]:
    return list(program_sources(target, work))


def script(work: Path, name: str = "train.py") -> Target:
    return Target(TargetKind.SCRIPT, str(work / name))


def test_the_target_comes_first_and_then_what_it_imports_however_deep(work: Path) -> None:
    found = texts(script(work), work)

    assert FILES["train.py"] == found[0]
    names = ("train", "a", "b", "c", "pkg/__init__", "pkg/near", "pkg/deep", "pkg/sub/far", "json", "outside")
    assert {FILES[f"{name}.py"] for name in names} | {""} == set(found)
    assert len(found) == len(set(found))


def test_a_module_s_own_are_those_of_the_working_directory(work: Path) -> None:
    for target in (Target(TargetKind.MODULE, "pkg.deep"), Target(TargetKind.FUNCTION, "pkg.deep", "go")):
        assert [FILES["pkg/deep.py"], FILES["outside.py"]] == texts(target, work)


@pytest.mark.parametrize("source", ["/no/such/file.py", "no_such_module", "sys"])
def test_what_cannot_be_read_has_none(work: Path, source: str) -> None:
    assert [] == [text for text in texts(Target(TargetKind.FUNCTION, source, "f"), work) if text]


def test_a_program_has_none(work: Path) -> None:
    assert [] == texts(Target(TargetKind.PROGRAM, str(work / "train.py")), work)


def test_a_file_that_is_no_text_is_passed_over(work: Path) -> None:
    (work / "a.py").write_bytes(b"\0\xff")
    (work / "train.py").write_text("import a, c\n")

    assert ["import a, c\n", "", "# c\n"] == texts(script(work), work)


def test_many_and_large_files_are_read_up_to_a_bound(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "many.py").write_text("".join(f"import m{i}\n" for i in range(20)))
    for i in range(20):
        (work / f"m{i}.py").write_text(f"# {i:04}")
    monkeypatch.setattr(module, "_FILES", 5)
    assert 5 == len(texts(script(work, "many.py"), work))

    monkeypatch.setattr(module, "_FILES", 100)
    monkeypatch.setattr(module, "_BYTES", (work / "many.py").stat().st_size + 6 * 3)
    assert 1 + 3 == len(texts(script(work, "many.py"), work))
