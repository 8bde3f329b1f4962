from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from console.data.launch.ranking import LIKELY, docstring, first_sentence, judge, recency
from console.data.launch.trainings import SearchLimits, find_trainings

DDP = '''"""Train with DDP. At length.

More.
"""
import argparse
import torch
import torch.distributed as dist

def main(): ...

if __name__ == "__main__":
    main()
'''
UTILS = "import torch\n\ndef helper(): ...\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (
        ("ddp.py", DDP),
        ("fit.py", "import lightning as L\n\ndef fit(lr: float): ...\n"),
        ("plot.py", "print(1)\n"),
        ("utils.py", UTILS),
        ("pkg/__init__.py", DDP),
        ("tests/test_ddp.py", DDP),
        (".hidden/x.py", DDP),
        ("node_modules/y.py", DDP),
        ("venv/pyvenv.cfg", ""),
        ("venv/z.py", DDP),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def last(folder: Path, **limits: float) -> list[str]:
    *_, found = find_trainings(folder, limits=SearchLimits(**limits))  # type: ignore[arg-type]
    return [each.target for each in found]


def test_trainings_come_first_and_what_is_none_is_left_out(folder: Path) -> None:
    *_, found = find_trainings(folder)

    assert ["ddp.py", "fit.py:fit"] == [each.target for each in found]
    assert "Train with DDP." == found[0].doc
    assert ("torch.distributed", "PyTorch", "argparse") == found[0].uses
    assert ("Lightning",) == found[1].uses


def test_without_a_training_whatever_runs_is_shown(tmp_path: Path) -> None:
    (tmp_path / "plot.py").write_text("print(1)\n")
    (tmp_path / "names.py").write_text("A = 1\n")

    assert ["plot.py"] == last(tmp_path)
    assert [] == last(tmp_path / "nowhere")


def test_a_newer_file_comes_first(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(DDP)
    os.utime(tmp_path / "a.py", (0, 0))

    assert ["b.py", "a.py"] == last(tmp_path)
    assert recency(0, 86_400 * 3) == 7
    assert recency(10, 0) == 10


def test_what_git_ignores_is_no_training(folder: Path) -> None:
    (folder / ".gitignore").write_text("ddp.py\n")

    assert ["fit.py:fit"] == last(folder)


def test_hostile_files_and_names_do_no_harm(folder: Path) -> None:
    (folder / "binary.py").write_bytes(b"import torch\0" + bytes(range(256)) * 100)
    (folder / "latin.py").write_bytes(b'"""Caf\xe9."""\nimport torch.distributed\nmain()\n')
    (folder / "evil\x1b[31m.py").write_text(DDP)
    (folder / "gone.py").symlink_to("nowhere.py")
    (folder / "folder.py").mkdir()
    os.mkfifo(folder / "pipe.py")
    (folder / "loop").symlink_to(folder)
    (folder / "secret.py").write_text(DDP)
    (folder / "secret.py").chmod(0)
    (folder / "long.py").write_text("import " + "a, " * 20_000 + "\n" + "(" * 30_000)

    found = last(folder)

    assert found[:1] == ["ddp.py"] or os.geteuid() == 0
    assert "latin.py" in found
    assert not {t for t in found if "evil" in t or "loop" in t or "pipe" in t or "binary" in t}


def test_a_huge_folder_is_looked_at_within_its_limits(tmp_path: Path) -> None:
    for n in range(300):
        (tmp_path / f"f{n}.py").write_text(DDP)

    assert 50 == len(last(tmp_path, entries=50))
    assert 7 == len(last(tmp_path, files=7))
    assert 200 == len(last(tmp_path, total=1 << 20))
    assert len(last(tmp_path, total=len(DDP) * 10)) <= 10
    assert len(last(tmp_path, seconds=0.0)) <= 63


def test_it_can_be_stopped(folder: Path) -> None:
    for n in range(100):
        (folder / f"f{n}.py").write_text(DDP)

    looked: list[bool] = []

    def stop() -> bool:
        looked.append(True)
        return len(looked) > 10

    assert all(len(found) < 100 for found in find_trainings(folder, stop))


@pytest.mark.parametrize(
    ("text", "doc"),
    [
        ('"""One.\n\nTwo."""', "One.\n\nTwo."),
        ("#!/usr/bin/python\n# coding: utf-8\n\n'''Quoted.'''\n", "Quoted."),
        ('r"""Raw \\d."""', "Raw \\d."),
        ('"A line."\nx = 1', "A line."),
        ('"""never closed', "never closed"),
        ("x = 1", ""),
        ("", ""),
        ("#" * 100_000, ""),
        ("\ufeff'bom'", "bom"),
    ],
)
def test_the_docstring_is_read_without_parsing(text: str, doc: str) -> None:
    assert doc == docstring(text)


def test_the_first_sentence_is_one_line() -> None:
    assert "Trains v2.5 of it." == first_sentence("Trains v2.5\n  of it. Then more.\n\nRest.")
    assert "No stop" == first_sentence("No stop\n\nRest")
    assert len(first_sentence("x" * 10_000)) <= 400


def test_judging_any_text_takes_little_time() -> None:
    texts = [
        "import a, " * 7000,
        "from x import " * 5000,
        "(" * 65_000,
        '"""' * 20_000,
        "def " * 16_000,
        "a." * 32_000,
    ]
    began = time.thread_time()
    for text in texts:
        judge(text, "x.py")

    assert time.thread_time() - began < 2.0


def test_one_that_only_defines_is_no_training() -> None:
    assert judge(DDP, "ddp.py").score > LIKELY > judge(UTILS, "utils.py").score
    assert "torch.distributed" in judge("from torch import distributed\nmain()", "x.py").uses
    assert judge("from transformers import Trainer\nmain()", "x.py").uses == ("Transformers",)
    assert judge("import torchvision\n", "x.py").uses == ()
