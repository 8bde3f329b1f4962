"""`rankdeck help`: topics, one topic, a command's options, and what is neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.manual import readable, topics
from tests.commands import rankdeck as command
from tests.console.terminals import Pty
from tests.documents import TOPICS


def test_it_lists_every_topic_with_its_summary() -> None:
    done = command("help")
    listed = [line.split(maxsplit=1) for line in done.stdout.splitlines() if line.startswith("  ")]

    assert (0, "") == (done.returncode, done.stderr)
    assert [[path.stem, topics()[path.stem].summary] for path in TOPICS] == listed
    assert "rankdeck help TOPIC" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize("path", TOPICS, ids=lambda path: path.stem)
def test_a_topic_is_its_file_without_what_is_for_a_page(path: Path) -> None:
    done = command("help", path.stem)

    assert (0, "") == (done.returncode, done.stderr)
    assert readable(path.read_text()) == done.stdout
    assert done.stdout.startswith("# ")
    assert "<!--" not in done.stdout
    assert ".md)" not in done.stdout
    assert ".svg)" not in done.stdout
    assert "![" not in done.stdout
    assert path.read_text().count("\n\n\n") == done.stdout.count("\n\n\n")
    wide = [line for line in done.stdout.splitlines() if len(line) > 80 and not line.startswith("|")]
    assert [] == wide


@pytest.mark.parametrize("words", [["run"], ["ps"], ["engine", "stop"], ["config"], ["help"]])
def test_the_name_of_a_command_shows_its_options(words: list[str]) -> None:
    assert command(*words, "--help").stdout == command("help", *words).stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [(["rns"], "near it: runs, run"), (["engine", "sotp"], "'engine sotp'"), (["xyzzy"], "lists the topics")],
)
def test_what_is_neither_is_one_sentence(words: list[str], said: str) -> None:
    done = command("help", *words)

    assert (2, "") == (done.returncode, done.stdout)
    assert said in done.stderr
    assert 1 == len(done.stderr.splitlines())


def test_no_topic_hides_a_command() -> None:
    from console.cli.main import cli

    assert set() == set(topics()) & {*cli.commands, *cli._lazy}


def test_it_is_ascii_where_the_terminal_knows_no_more() -> None:
    done = command("help", "console", env={"PYTHONIOENCODING": "ascii"})

    assert 0 == done.returncode
    assert done.stdout.isascii()


@pytest.mark.terminal
def test_on_a_terminal_it_goes_through_the_pager(
    rankdeck: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pager = tmp_path / "pager"
    pager.write_text(f"#!/bin/sh\ncat > {tmp_path}/paged\n")
    pager.chmod(0o700)
    monkeypatch.setenv("PAGER", str(pager))
    with Pty([rankdeck, "help", "runs"]) as terminal:
        assert 0 == terminal.exit_code()

    assert (tmp_path / "paged").read_text().startswith("# Runs\n")
