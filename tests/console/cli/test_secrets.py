"""Secrets given on a command line: what ranks get, what is recorded and shown, and how they come back."""

from __future__ import annotations

import json
import stat
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from console.data.launch.draft import Misfit, command_text, draft_of
from console.data.launch.rerun import request_again
from launcher.errors import SpecError
from launcher.runs.catalog import create_folder, read_private
from launcher.runs.paths import runs_root
from launcher.runs.reader import read_spec
from launcher.runs.writer import RunWriter
from launcher.spec.job import JobSpec, Target, TargetKind
from tests import commands
from tests.commands import rankdeck

SECRETS = ("arg-S3cret", "key-S3cret", "url-S3cret", "env-S3cret", "name-ghp_" + "a1" * 18)
SCRIPT = """
import json, os, sys
got = [sys.argv[1:], os.environ["DATABASE_URL"], os.environ["API_TOKEN"]]
open(os.environ["OUT"], "w").write(json.dumps(got))
"""


def recorded(spec: JobSpec) -> Path:
    folder = create_folder(runs_root(), 1_767_261_600.0, spec)
    RunWriter(folder, spec).close()
    return folder


def script(project: Path) -> JobSpec:
    target = Target(
        TargetKind.SCRIPT, str(project / "score.py"), args=("--token", "arg-S3cret", "--lr", "0.1")
    )
    env = {"API_TOKEN": "env-S3cret", "DATABASE_URL": "postgres://u:url-S3cret@h/d"}
    return JobSpec(target, workdir=str(project), env=env)


def everything_in(folder: Path) -> str:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "private.json"]
    return "".join(path.read_text(errors="replace") for path in files)


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """The command of a run that is given secrets in every way."""
    (tmp_path / "train.py").write_text(SCRIPT)
    return [
        "run", str(tmp_path / "train.py"), "--name", f"by {SECRETS[4]}", "--env", f"OUT={tmp_path}/out",
        "--env", f"DATABASE_URL=postgres://u:{SECRETS[2]}@h/d", "--env", f"API_TOKEN={SECRETS[3]}",
        "--", "--token", SECRETS[0], f"--api-key={SECRETS[1]}", "--tokenizer", "gpt2",
    ]  # fmt: skip


@pytest.mark.process
def test_ranks_get_the_secrets_and_nobody_else_does(words: list[str], tmp_path: Path) -> None:
    done = rankdeck(*words, cwd=tmp_path)
    assert 0 == done.returncode, done.stderr
    argv, url, token = json.loads((tmp_path / "out").read_text())
    assert [*words[-5:]] == argv
    assert (f"postgres://u:{SECRETS[2]}@h/d", SECRETS[3]) == (url, token)

    run = commands.last()
    exported = rankdeck("export", "last", cwd=tmp_path)
    with zipfile.ZipFile(tmp_path / exported.stdout.strip()) as packed:
        assert f"{run.name}/private.json" not in packed.namelist()
        inside = "".join(packed.read(name).decode(errors="replace") for name in packed.namelist())
    told = [done.stderr, exported.stderr, inside, everything_in(run), everything_in(runs_root())]
    for command in (["ps"], ["ps", "--json"], ["show", "last"], ["show", "last", "--json"],
                    ["rerun", "last", "--dry-run"], [*words[:1], "--dry-run", *words[1:]],
                    ["compare", "last", "last"], ["engine", "status"], ["config", "print"]):  # fmt: skip
        said = rankdeck(*command, cwd=tmp_path)
        assert 0 == said.returncode, said.stderr
        told.append(said.stdout + said.stderr)
    for text in told:
        assert [] == [secret for secret in SECRETS if secret.removeprefix("name-") in text]
    assert "--tokenizer gpt2" in told[7]
    assert "5 secret values left out" in exported.stderr
    assert 0o600 == stat.S_IMODE((run / "private.json").stat().st_mode)

    (tmp_path / "out").unlink()
    again = rankdeck("rerun", run.name, cwd=tmp_path)
    assert 0 == again.returncode, again.stderr
    assert [argv, url, token] == json.loads((tmp_path / "out").read_text())


@pytest.mark.process
def test_a_failure_that_quotes_a_secret_is_recorded_without_it(words: list[str], tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import sys\nraise ValueError('bad ' + sys.argv[2])\n")
    done = rankdeck(*words, cwd=tmp_path)

    assert "ValueError: bad ***" in done.stderr.partition("✗")[2]
    assert SECRETS[0] not in (commands.last() / "events.jsonl").read_text()
    assert f"bad {SECRETS[0]}" in (commands.last() / "logs/0/00000.err").read_text(), "output is exact"


@pytest.mark.process
def test_an_error_does_not_repeat_a_secret(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def fn(api_key: int): ...\n")
    done = rankdeck("run", "train.py:fn", "--param", "api_key=key-S3cret", cwd=tmp_path)

    assert (2, True) == (done.returncode, "takes int, not '***'" in done.stderr)


def test_an_own_run_has_its_secrets_back_whatever_the_environment_says(project: Path) -> None:
    request = request_again(recorded(script(project)), environ={"API_TOKEN": "other"})

    assert script(project) == request.spec


def test_without_what_was_kept_all_that_is_missing_is_named(project: Path) -> None:
    folder = recorded(script(project))
    (folder / "private.json").unlink()
    with pytest.raises(SpecError) as refused:
        request_again(folder, environ={"API_TOKEN": "there"})

    said = str(refused.value)
    assert "--env DATABASE_URL=…, its arguments again, after --" in said
    assert "API_TOKEN" not in said
    given = {"env": {"DATABASE_URL": "x"}}
    assert ("--token", "new") == request_again(
        folder, given, ["--token", "new"], environ={"API_TOKEN": "y"}
    ).spec.target.args
    asked = request_again(folder, environ={}, ask=lambda _: "typed").spec
    assert ("--token", "typed", "--lr", "0.1") == asked.target.args
    assert {"API_TOKEN": "typed", "DATABASE_URL": "postgres://u:typed@h/d"} == asked.env


def test_a_form_shows_stars_and_starts_the_real_thing(project: Path) -> None:
    folder = recorded(script(project))
    draft = draft_of(read_spec(folder), project, read_private(folder))

    assert "S3cret" not in command_text(draft) + repr(draft)
    assert "API_TOKEN=***" in command_text(draft)
    assert script(project) == draft.resolved()
    edited = replace(draft, args="--lr 0.2 --token '***'")
    assert ("--lr", "0.2", "--token", "arg-S3cret") == edited.resolved().target.args
    with pytest.raises(Misfit, match="type it in place"):
        draft_of(read_spec(folder), project, {}).resolved()


def test_what_is_kept_apart_is_read_from_no_link(project: Path, tmp_path: Path) -> None:
    folder = recorded(script(project))
    elsewhere = tmp_path / "elsewhere.json"
    (folder / "private.json").rename(elsewhere)
    (folder / "private.json").symlink_to(elsewhere)

    assert {} == read_private(folder)
