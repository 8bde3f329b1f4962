from __future__ import annotations

from pathlib import Path

import pytest

from console.data.launch.targets import Candidate, candidates, functions_of, matched, narrow, with_recent


def test_scripts_and_functions_are_found_without_importing_them(project: Path) -> None:
    found = [c for batch in candidates(project) for c in batch]

    assert [c.target for c in found] == ["score.py", "train.py", "train.py:main", "train.py:evaluate"]
    assert found[2].takes == "(lr: float, steps: int = 20, opt: Literal['adam', 'sgd'] = 'adam')"


def test_a_file_that_cannot_be_read_is_listed_with_the_reason(project: Path) -> None:
    (project / "broken.py").write_text("def (:\n")

    found = {c.target: c for batch in candidates(project) for c in batch}

    assert found["broken.py"].doc


def test_the_tightest_match_comes_first() -> None:
    found = [Candidate(t) for t in ("deep/model/input.py", "main.py", "train/llama.py:main")]

    assert [c.target for c in narrow(found, "main")] == ["main.py", "train/llama.py:main"]
    assert [c.target for c in narrow(found, "llmain")] == ["train/llama.py:main"]
    assert narrow(found, "zz") == []


def test_a_module_is_read_where_it_lies_below_the_folder(project: Path) -> None:
    assert [f.name for f in functions_of("train:main", project)] == ["main", "evaluate"]
    assert functions_of("nowhere.at.all:main", project) == ()


def test_what_is_seldom_trained_comes_after_the_rest() -> None:
    names = ["pkg/__init__.py", "tests/test_digits.py", "examples/digits.py", "lib/big_digits_ddp.py"]

    found = narrow([Candidate(name) for name in names], "digits")

    assert ["lib/big_digits_ddp.py", "examples/digits.py", "tests/test_digits.py"] == [
        c.target for c in found
    ]
    assert "lib/big_digits_ddp.py" == with_recent([Candidate(name) for name in names], [])[0].target


@pytest.mark.parametrize(
    ("target", "query", "marked"),
    [("train.py", "rai", "rai"), ("a_model_b.py:main", "mb", "mb"), ("x/Train.py", "T r", "Tr"),
     ("a", "b", ""), ("a", "", "")],
)  # fmt: skip
def test_the_letters_that_were_looked_for_are_marked(target: str, query: str, marked: str) -> None:
    assert marked == "".join(target[i] for i in sorted(matched(target, query)))


def test_a_script_says_what_it_is(project: Path) -> None:
    (project / "told.py").write_text('"""Trains a thing.\n\nAt length."""\nprint()\n')

    found = {c.target: c for batch in candidates(project) for c in batch}

    assert "Trains a thing." == found["told.py"].doc
