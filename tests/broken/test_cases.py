"""The first lines of a broken training say what is expected of it, or the reader says what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broken.cases import read_case
from tests.broken.test_trainings import CASES, NEEDS


def written(folder: Path, *lines: str) -> Path:
    path = folder / "case.py"
    path.write_text("".join(f"# {line}\n" for line in lines) + "print()\n")
    return path


def test_all_that_a_case_says(tmp_path: Path) -> None:
    lines = ("ranks: 2", "cause: a or b", "options: --max-restarts 1", "function: train", "says: x: y")
    case = read_case(written(tmp_path, *lines))
    assert (2, ("a", "b"), ("--max-restarts", "1"), "x: y") == (
        case.ranks,
        case.causes,
        case.options,
        case.says,
    )
    assert ["-n", "2", "--max-restarts", "1", f"{case.path}:train"] == case.command[3:]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["ranks: 2"], "does not say: cause"),
        (["cause: none"], "does not say: ranks"),
        (["ranks: 2", "cause: none", "caused: x"], "no such line: caused"),
        (["ranks: two", "cause: none"], "invalid literal"),
    ],
)
def test_a_line_that_nobody_would_read_is_refused(tmp_path: Path, lines: list[str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_case(written(tmp_path, *lines))


def test_what_cases_need_is_known() -> None:
    assert {case.needs for case in CASES} <= NEEDS.keys()
