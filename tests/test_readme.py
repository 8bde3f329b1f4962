"""README keeps its word: its commands are the real ones, its links lead somewhere, its options exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
DOCUMENTS = ["README.md", ".github/CONTRIBUTING.md", ".github/CHANGELOG.md"]


def test_ci_runs_readmes_test_command() -> None:
    commands = [line for line in README.splitlines() if ".venv/bin/pytest" in line]

    assert 1 == len(commands)
    assert "grep -m 1 -F '.venv/bin/pytest' README.md" in (ROOT / ".ci" / "run").read_text()


def test_both_commands_make_their_own_environment() -> None:
    commands = [line for line in README.splitlines() if line.startswith("python3 -m venv .venv && ")]

    assert 2 == len(commands)
    assert all("-c .constraints.txt" in command for command in commands)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_to_files(document: str) -> None:
    path = ROOT / document
    links = re.findall(r"\]\(([^)#]+)\)", path.read_text())
    local = [link for link in links if "://" not in link]

    assert [] == [link for link in local if not (path.parent / link).exists()]


def test_every_option_that_readme_shows_exists() -> None:
    commands = [line.partition(" -- ")[0] for line in README.splitlines() if line.startswith("rankdeck run")]
    shown = {option for command in commands for option in re.findall(r"(--[a-z]+[a-z-]*)", command)}
    command = [sys.executable, "-m", "console", "run", "--help"]
    help_text = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout

    assert shown
    assert set() == {option for option in shown if not re.search(rf"{option}\b", help_text)}


def test_every_exit_code_of_the_errors_is_explained() -> None:
    from launcher import errors

    codes = {v.exit_code for v in vars(errors).values() if isinstance(v, type) and hasattr(v, "exit_code")}
    table = README.split("## Exit codes")[1].split("\n## ")[0]

    assert codes <= set(map(int, re.findall(r"\b\d+\b", table)))
