from __future__ import annotations

import os
from pathlib import Path

from console.data.launch.preview import preview_of


def test_a_preview_tells_what_a_file_is(project: Path) -> None:
    (project / "told.py").write_text(
        '"""Trains a thing.\n\nAt length."""\nimport torch\n\n'
        'def fit(lr: float = 0.1):\n    """Fit it. Now."""\n'
    )
    seen = preview_of("told.py", project)

    assert ("Trains a thing.", "", "At length.") == seen.doc
    assert ("PyTorch",) == seen.uses
    assert (("fit", "(lr: float = 0.1)", "Fit it."),) == seen.functions
    assert (1, False, "") == (seen.first, seen.more, seen.problem)
    assert '"""Trains a thing.' == seen.lines[0]


def test_that_of_a_function_begins_with_it(project: Path) -> None:
    seen = preview_of("train.py:evaluate", project)

    assert "evaluate" == seen.functions[0][0]
    assert (5, "def evaluate(path: str): ...") == (seen.first, seen.lines[0])


def test_what_is_no_python_is_shown_with_the_reason(project: Path) -> None:
    (project / "broken.py").write_text("def (:\n")
    (project / "binary.py").write_bytes(b"\0\1\2")
    (project / "deep.py").write_text("(" * 100_000)
    os.mkfifo(project / "pipe.py")

    assert "not valid" in preview_of("broken.py", project).problem
    assert ("def (:",) == preview_of("broken.py", project).lines[:1]
    assert preview_of("binary.py", project).problem
    assert preview_of("deep.py", project).problem
    assert preview_of("pipe.py", project).problem
    assert preview_of("nowhere.py", project).problem
    assert preview_of("\0", project).problem
    assert preview_of("", project).problem


def test_of_a_huge_file_only_the_beginning_is_read(project: Path) -> None:
    (project / "huge.py").write_text("x = 1  # " + "y" * 5000 + "\n" + "z = 2\n" * 200_000)
    seen = preview_of("huge.py", project)

    assert seen.more
    assert len(seen.lines) <= 600
    assert max(map(len, seen.lines)) <= 240
