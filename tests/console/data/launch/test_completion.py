from __future__ import annotations

from pathlib import Path

import pytest

from console.data.launch.completion import (
    complete_options,
    complete_path,
    describe,
    names_path,
    takes_path,
)
from console.data.options.check import misgiven
from console.data.options.option import ScriptOption, ScriptParser

OPTIONS = (
    ScriptOption(("--lr", "-l"), kind="float", default="0.1", help="learning rate"),
    ScriptOption(("--epochs",), kind="int"),
    ScriptOption(("--opt",), choices=("adam", "sgd")),
    ScriptOption(("--out-dir",)),
    ScriptOption(("--amp",), flag=True),
)


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ("--e", "--epochs"),
        ("--lr 0.1 --e", "--lr 0.1 --epochs"),
        ("--opt s", "--opt sgd"),
        ("--opt=s", "--opt=sgd"),
        ("--amp --o", "--amp --opt"),
        ("--opt sgd --o", "--opt sgd --out-dir"),
        ("--lr ", None),
        ("--lr", None),
        ("", None),
        ("data", None),
    ],
)
def test_the_last_word_is_completed(text: str, completed: str | None) -> None:
    assert complete_options(OPTIONS, text) == completed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("--lr 0.1 --epochs 3 --opt sgd --amp x --out-dir=y", ""),
        ("--lr x", "--lr takes a number, not 'x'"),
        ("--lr=x", "--lr takes a number, not 'x'"),
        ("--epochs 1.5", "--epochs takes a whole number, not '1.5'"),
        ("--opt rms", "--opt takes adam or sgd, not 'rms'"),
        ("--epoch 3", ""),
        ("--epcohs 3", "no --epcohs is found in its source: did you mean --epochs?"),
        ("-- --lr x", ""),
        ("'open", ""),
    ],
)
def test_what_a_script_would_refuse_is_doubted(text: str, said: str) -> None:
    assert misgiven(ScriptParser(OPTIONS), text) == said


def test_nothing_is_doubted_where_no_option_was_found() -> None:
    assert misgiven(ScriptParser(), "--anything 3") == ""


def test_the_option_that_is_typed_is_described() -> None:
    assert describe(OPTIONS, "--lr 0") == "--lr, -l float = 0.1 · learning rate"
    assert describe(OPTIONS, "--amp") == "--amp"
    assert describe(OPTIONS, "") == ""


def test_a_path_is_completed_where_one_is_taken(tmp_path: Path) -> None:
    (tmp_path / "data" / "train").mkdir(parents=True)
    (tmp_path / "data" / "x\x1b[2J").touch()

    assert takes_path(OPTIONS, "--out-dir da")
    assert not takes_path(OPTIONS, "--lr da")
    assert complete_path("da", tmp_path) == "data/"
    assert complete_path("data/t", tmp_path) == "data/train/"
    assert complete_path(f"{tmp_path}/data/t", Path("/")) == f"{tmp_path}/data/train/"
    assert complete_path("data/x", tmp_path) is None
    assert complete_path("gone/x", tmp_path) is None
    assert names_path("checkpoint_dir")
    assert not names_path("rate")
