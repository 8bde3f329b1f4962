"""The one way to the terminal: nothing goes round it, nothing dangerous through it, streams or no streams."""

from __future__ import annotations

import ast
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from console import echo
from console.sanitize import escaped, json_escaped, printable
from launcher.runs.catalog import create_folder
from launcher.runs.logs.text import shown
from launcher.runs.paths import runs_root
from launcher.runs.writer import RunWriter
from launcher.spec.job import JobSpec, Target, TargetKind
from tests.commands import COMMAND, rankdeck

CONSOLE = Path(echo.__file__).parent
WRITERS = {"click.echo", "click.secho", "click.prompt", "click.confirm", "print"}
STREAMS = {"sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"}
DANGEROUS = [
    *map(chr, range(32)), *map(chr, range(0x7F, 0xA0)), *map(chr, range(0x2028, 0x202F)),
    *map(chr, range(0x2066, 0x206A)), "\u061c", "\u200b", "\u200e", "\u200f", "\ufeff", "\ufff9", "\ufffa",
    "\ufffb", "\U000e0041",
]  # fmt: skip


def written_elsewhere(path: Path) -> Iterator[str]:
    """What a module itself writes to a standard stream."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            stream = called.removesuffix(".write").removesuffix(".buffer").removesuffix(".writelines")
            if called in WRITERS or (called != stream and stream in STREAMS):
                yield f"{path.name}:{node.lineno} {called}"


def test_no_other_module_writes_to_the_terminal() -> None:
    modules = [path for path in CONSOLE.rglob("*.py") if path.name != "echo.py"]
    found = [each for path in modules for each in written_elsewhere(path)]

    assert [] == found
    assert [] != list(written_elsewhere(CONSOLE / "echo.py")), "the test sees what it looks for"


@pytest.mark.parametrize("char", DANGEROUS, ids=ascii)
def test_one_rule_takes_away_what_may_not_reach_a_terminal(char: str) -> None:
    text = f"a{char}b"

    assert char == "\n" or char not in printable(text)
    assert char not in shown(text.encode())
    assert escaped(text).isascii()
    assert escaped(text).isprintable()
    assert text == json.loads(json_escaped(json.dumps(text, ensure_ascii=False)))
    assert echo.json_line(text).isprintable()
    assert text == json.loads(echo.json_line(text))


def test_scripts_and_emoji_keep_their_joiners() -> None:
    for text in ("می\u200cخواهم", "👩\u200d💻", "naïve ☃"):
        assert text == printable(text) == escaped(text)


@pytest.mark.process
def test_what_is_given_by_anybody_is_printed_without_its_controls(tmp_path: Path) -> None:
    evil = "x\x1b]0;PWNED\x07\u202e\u061c\ufff9\x9b2J"
    folder = tmp_path / evil
    folder.mkdir()
    (folder / "t.py").write_text("")
    target = Target(TargetKind.SCRIPT, str(folder / "t.py"), args=(evil,))
    spec = JobSpec(target, workdir=str(folder), env={"A": evil})
    run = create_folder(runs_root(), 1_767_261_600.0, spec)
    RunWriter(run, spec).close()
    copied = folder / run.name
    run.rename(copied)
    for words in (
        ["run", folder / "t.py", "--dry-run", "--env", f"A={evil}", "--", evil],
        ["rerun", copied, "--dry-run"],
        ["show", copied],
        ["export", copied, "-o", folder / "x.zip"],
        ["run", f"no{evil}.py"],
        ["show", f"no{evil}"],
        [f"no{evil}"],
        ["ps", f"--no{evil}"],
        ["ps", "--state", evil],
        ["logs", copied, "--grep", f"({evil}"],
    ):
        done = rankdeck(*words)
        said = done.stdout + done.stderr
        assert not [c for c in DANGEROUS if c != "\n" and c in said], (words, said)
        assert "Traceback" not in said
    for words in (["config", "validate"], ["config", "path"], ["engine", "status"], ["themes"]):
        done = rankdeck(*words, env={"RANKDECK_HOME": str(folder)})
        said = done.stdout + done.stderr
        assert not [c for c in DANGEROUS if c != "\n" and c in said], (words, said)


COMMANDS = [
    "ps", "ps --json", "show last", "logs last", "logs last --raw -r 0", "result last --json",
    "rerun last --dry-run", "export last --force", "engine status", "config print", "themes", "--version",
    "nonsense", "ps --nonsense",
]  # fmt: skip
CLOSED = {
    "stdout closed": (">&-", {0, 2}),
    "stderr closed": ("2>&-", {0, 2}),
    "both closed": (">&- 2>&-", {0, 2}),
    "all closed": ("<&- >&- 2>&-", {0, 2}),
    "stdout full": (">/dev/full", {0, 2, 70}),
    "both full": (">/dev/full 2>&1", {0, 2, 70}),
    "no reader": ("| true; exit ${PIPESTATUS[0]}", {0, 1, 2, 141}),  # 1: what click itself prints
}


@pytest.mark.process
@pytest.mark.parametrize("closed", CLOSED)
def test_no_command_falls_over_its_streams(tmp_path: Path, closed: str) -> None:
    (tmp_path / "t.py").write_text("print('line')\n")
    assert 0 == rankdeck("run", "t.py", cwd=tmp_path).returncode
    redirected, codes = CLOSED[closed]
    for words in COMMANDS:
        script = f"{COMMAND} {words} {redirected}"
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert "Traceback" not in done.stderr, (words, done.stderr)
        assert "Exception ignored" not in done.stderr, (words, done.stderr)
        assert done.returncode in codes, (words, done.returncode, done.stderr)
