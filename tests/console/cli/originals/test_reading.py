"""Files that a line names, and interpreters that are asked what it means."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from console.cli.originals import command
from console.cli.originals.base import quoted, read_text
from console.cli.originals.command import ask
from console.cli.originals.horovodrun import READ_YAML
from launcher.errors import SpecError


def test_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("ä slots=1\n")

    assert "ä slots=1\n" == read_text(str(tmp_path / "hosts"))
    with pytest.raises(FileNotFoundError):
        read_text(str(tmp_path / "none"))


def test_what_is_no_plain_text_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate((1 << 20) + 1)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for path, why in (
        (tmp_path / "pipe", "a pipe or a device"),
        ("/dev/zero", "a pipe or a device"),
        (tmp_path, "a folder"),
        (tmp_path / "large", "larger than 1 MiB"),
        (tmp_path / "bytes", "no text in UTF-8"),
        ("\0", "null"),
    ):
        with pytest.raises((OSError, ValueError), match=why):
            read_text(str(path))


@pytest.mark.process
def test_an_interpreter_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("a: [")
    assert {"config", "error"} & {*ask(sys.executable, READ_YAML, [str(tmp_path / "c.yaml")])}
    monkeypatch.setattr(command, "_ANSWER_S", 0.2)
    for python, program, said in (
        ("/nowhere/python", "", "there is no program '/nowhere/python' (name an interpreter)"),
        ("/bin/true", "", "is it an interpreter?"),
        (sys.executable, "import signal; signal.pause()", "does not say within 0.2 s"),
    ):
        with pytest.raises(SpecError) as caught:
            ask(python, program, [])
        assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("train.py", "'train.py'"),
        ("--api-key=verysecretthing", "'--api-key=***'"),
        ("a=--api-key=verysecretthing", "'a=--api-key=***'"),
        ("worker slots=x password=verysecretthing", "'worker slots=x password=***'"),
        ("=" * 5000, f"'{'=' * 200}'…"),
    ],
)
def test_a_quoted_word_has_no_secrets(text: str, shown: str) -> None:
    assert shown == quoted(text)
