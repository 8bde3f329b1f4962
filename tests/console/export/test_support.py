"""The support bundle: what a bug report needs, and no secret."""

from __future__ import annotations

import json
import os
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from console.cli import manage
from console.export import support
from console.export.support import export_support
from launcher.errors import SpecError
from launcher.runs import paths
from launcher.runs.catalog import write_private
from launcher.runs.logs.writer import Chunk
from launcher.runs.reader import read_state
from launcher.runs.writer import RunWriter
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.places import Assignment
from launcher.state import events as ev
from tests.commands import rankdeck

ID = "20260101-120000-000abc"
TOKEN = "correct-horse-battery"
KEY = "hf_" + "a1B2" * 8
SPEC = JobSpec(Target(TargetKind.SCRIPT, "/w/train.py"), num_processes=2, env={"HF_TOKEN": TOKEN})
PLACED = ev.GangPlaced(time=2.0, ranks=tuple(Assignment(r, 2, r, 2, 0, 1, 0, "node1") for r in (0, 1)))


def record(folder: Path, output: bytes) -> None:
    folder.mkdir(parents=True, mode=0o700)
    write_private(folder, SPEC)
    writer = RunWriter(folder, SPEC, payload=b"pickle")
    writer.append(ev.RunSubmitted(time=1.0, name="", target="train.py", mode="local", num_processes=2))
    writer.append(PLACED)
    writer.append(
        ev.RankRaised(
            time=5.0, rank=1, kind="ValueError", message="bad", traceback="Traceback\nValueError: bad"
        )
    )
    writer.append(
        ev.StacksTaken(time=5.0, rank=0, text='Thread 0x01:\n  File "train.py", line 7 in wait_here')
    )
    writer.append(ev.RankExited(time=6.0, rank=1, exit_code=1))
    writer.append(ev.CauseFound(time=6.0, id="oom-killer", certainty="likely", text="too little", rank=1))
    writer.output([(Chunk(int(4e9), 1, len(output), paths.STDERR), memoryview(output))])
    writer.append(ev.RunEnded(time=9.0, state="failed", exit_code=1, why="rank 1 failed", rank=1))
    writer.close()


@pytest.fixture
def run(home: Path) -> Path:
    folder = home / "runs" / ID
    record(folder, f"\x1b[31mtoken is {TOKEN}\x1b[0m\nAPI_KEY={KEY}\nthe last line\n".encode())
    return folder


def bundle(run: Path, tmp_path: Path, findings: Callable[[], object] = dict) -> dict[str, str]:
    out = export_support(run, tmp_path, findings=findings, force=True)
    assert out == tmp_path / f"{ID}-support.zip"
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    with zipfile.ZipFile(out) as packed:
        assert packed.testzip() is None
        return {name.removeprefix(f"{ID}/"): packed.read(name).decode() for name in packed.namelist()}


def test_it_holds_the_curves(run: Path, tmp_path: Path) -> None:
    held = bundle(run, tmp_path)
    assert (run / "curves/points").read_text() == held["curves/points"]
    assert "" == held["curves/names"]


def test_it_holds_the_facts_the_last_output_and_the_stacks(run: Path, tmp_path: Path) -> None:
    held = bundle(run, tmp_path, lambda: {"checks": []})
    assert {"events.jsonl", "status.json", "spec.json"} <= held.keys()
    assert "the last line" in held["support/logs/0/00001.err.txt"]
    assert "wait_here" in held["support/stacks.txt"]
    assert json.loads(held["support/doctor.json"]) == {"checks": []}
    assert json.loads(held["support/versions.json"])["packages"]["rankdeck"]
    overview = held["support/overview.txt"]
    assert all(part in overview for part in (ID, "rank 1 failed", "too little", "ValueError: bad", "node1"))


def test_it_leaves_out_values_callables_and_what_is_private(run: Path, tmp_path: Path) -> None:
    assert (run / paths.PRIVATE).exists()
    held = bundle(run, tmp_path)
    assert not [
        name for name in held if name.endswith(".pickle") or paths.PRIVATE in name or name.startswith("logs/")
    ]


def test_no_secret_is_in_it_although_a_rank_printed_it(run: Path, tmp_path: Path) -> None:
    for name, text in bundle(run, tmp_path).items():
        assert TOKEN not in text, name
        assert KEY not in text, name
        assert "\x1b" not in text, name


def test_a_secret_printed_first_does_not_mask_what_follows(home: Path, tmp_path: Path) -> None:
    run = home / "runs" / ID
    record(run, f"API_KEY={KEY}\nthe last line\n".encode())
    output = bundle(run, tmp_path)["support/logs/0/00001.err.txt"]
    assert output == "API_KEY=***\nthe last line\n"


def test_facts_with_a_masked_secret_can_still_be_read(run: Path, tmp_path: Path) -> None:
    with open(run / paths.EVENTS, "a") as file:
        file.write(json.dumps({"event": "NoteMade", "time": 9.5, "text": f'say "{TOKEN}"'}) + "\n")
    lines = bundle(run, tmp_path)["events.jsonl"].splitlines()
    assert [json.loads(line) for line in lines if line]
    assert 'say \\"***\\"' in lines[-1]


MARK = "dapi" + "0123456789abcdef" * 2
SPOKEN = f"cannot open PASSWORD=hunter2; https://me:pass-word@host/x with {MARK}"


def spoken(text: str) -> list[ev.Event]:
    """A fact of every kind that has a text of a person or a program, with this text in all of its texts."""
    excerpt = ev.SourceExcerpt(file="/w/train.py", line=3, function="fit", lines=("x = 1", text))
    variable = ev.Variable(name="options", type="str", about=text, text=text)
    collective = ev.CollectiveCall(group=text, number=2, operation="all_reduce")
    raised: dict[str, Any] = {
        "rank": 1,
        "kind": "ValueError",
        "message": text,
        "traceback": f"Traceback\n  {text}\nValueError: {text}",
        "frames": (("/w/train.py", 3, "fit"),),
        "excerpts": (excerpt,),
        "variables": (variable,),
        "collectives": (collective,),
    }
    return [
        ev.RankRaised(time=5.0, **raised),
        ev.RankRaising(time=5.0, **raised),
        ev.MessageLogged(time=5.0, rank=0, text=text),
        ev.StacksTaken(time=5.0, rank=0, text=text, reason=text, native=text),
        ev.NoteMade(time=5.0, text=text),
        ev.RankReturned(time=5.0, rank=0, type="dict", size=9, value={"path": [text]}, preview=text),
        ev.RankPaused(time=5.0, rank=0, reason=text),
        ev.ExecutorLost(time=5.0, reason=text, executor="1", host="node1"),
        ev.StopRequested(time=5.0, by="person", reason=text),
        ev.TrackerLinked(time=5.0, tracker="mlflow", rank=0, id="f00", group=text, store=text, url=text),
        ev.CauseFound(
            time=6.0, id="oom-killer", certainty="likely", text=text, evidence=(text,), remedy=(text,)
        ),
        ev.RunEnded(time=9.0, state="failed", exit_code=1, why=text, rank=1),
    ]


def test_secrets_in_what_was_said_are_masked_and_the_facts_are_read_as_before(
    run: Path, tmp_path: Path
) -> None:
    facts = spoken(SPOKEN)
    before = (run / paths.EVENTS).read_bytes()
    (run / paths.EVENTS).write_bytes(before + b"".join(ev.encode(fact, ID) for fact in facts))
    text = bundle(run, tmp_path)["events.jsonl"]
    assert not [secret for secret in ("hunter2", "pass-word", MARK) if secret in text]
    read = [ev.decode(line.encode()) for line in text.splitlines()]
    masked = "cannot open PASSWORD=***; https://me:***@host/x with ***"
    assert read[-len(facts) :] == spoken(masked)
    assert text.encode().startswith(before), "what has no secret is left as it is"


def test_secrets_in_lines_of_source_that_were_quoted_are_masked(run: Path, tmp_path: Path) -> None:
    line = """    client = Client(name, password = "correct horse", api_key='k3y of mine')"""
    facts = spoken(f"{line}\nPermissionError: 401")
    with (run / paths.EVENTS).open("ab") as file:
        file.writelines(ev.encode(fact, ID) for fact in facts)
    held = bundle(run, tmp_path)
    assert not [name for name, text in held.items() if "correct horse" in text or "k3y of mine" in text]
    assert "PermissionError: 401" in held["events.jsonl"]


def test_what_stands_where_our_own_words_do_is_masked_too(run: Path, tmp_path: Path) -> None:
    fact = {"event": "run_ended", "state": {"password": "hunter2"}, "path": "https://me:hunter3@host/x"}
    with (run / paths.EVENTS).open("a") as file:
        file.write(f"{json.dumps(fact)}\n")
    last = json.loads(bundle(run, tmp_path)["events.jsonl"].splitlines()[-1])
    assert {**fact, "state": {"password": "***"}, "path": "https://me:***@host/x"} == last


def test_words_and_places_are_left_though_a_secret_has_their_letters(run: Path, tmp_path: Path) -> None:
    facts: list[ev.Event] = [
        ev.MessageLogged(time=5.0, rank=0, text="PASSWORD=failed"),
        ev.AgentJoined(time=5.0, agent=0, host="token=node", pid=3),
        ev.RunEnded(time=9.0, state="failed", exit_code=1, why="it has failed", rank=1),
    ]
    with open(run / paths.EVENTS, "ab") as file:
        file.writelines(ev.encode(fact, ID) for fact in facts)
    lines = bundle(run, tmp_path)["events.jsonl"].splitlines()[-3:]
    _, joined, ended = (ev.decode(line.encode()) for line in lines)
    assert joined == facts[1]
    assert ended == ev.RunEnded(time=9.0, state="failed", exit_code=1, why="it has ***", rank=1)


def test_what_the_doctor_found_has_no_secret_and_stays_json(run: Path, tmp_path: Path) -> None:
    held = bundle(run, tmp_path, lambda: {"checks": [{"text": 'says PASSWORD=ab"c, twice'}]})
    assert json.loads(held["support/doctor.json"]) == {"checks": [{"text": 'says PASSWORD=***"c, twice'}]}


def test_a_bundle_works_like_an_id(run: Path, tmp_path: Path) -> None:
    out = export_support(run, tmp_path, findings=dict, force=False)
    shown = rankdeck("show", str(out))
    assert shown.returncode == 0, shown.stderr
    assert "too little" in shown.stdout


def test_of_long_output_the_last_whole_lines_are_in_it(home: Path, tmp_path: Path) -> None:
    run = home / "runs" / ID
    record(run, b"".join(b"line %d\n" % n for n in range(50_000)))
    lines = bundle(run, tmp_path)["support/logs/0/00001.err.txt"].splitlines()
    assert lines[-1] == "line 49999"
    assert all(line.startswith("line ") for line in lines)
    assert sum(map(len, lines)) < support.TAIL_BYTES


def test_a_doctor_that_fails_and_a_spoiled_part_are_told(run: Path, tmp_path: Path) -> None:
    def fail() -> object:
        raise SpecError("no cluster answers")

    os.unlink(run / paths.SPEC)
    (run / paths.SPEC).symlink_to("/etc/passwd")
    held = bundle(run, tmp_path, fail)
    assert "root:" not in "".join(held.values())
    assert "missing  spec.json" in held["support/overview.txt"]
    assert "no cluster answers" in held["support/overview.txt"]


def test_a_hostile_file_name_stays_in_the_bundle(run: Path, tmp_path: Path) -> None:
    (run / "logs" / "0" / "\x1b[2J.err").write_bytes(b"x\n")
    assert bundle(run, tmp_path)


def test_an_engine_s_log_written_since_the_start_is_in_it(run: Path, home: Path, tmp_path: Path) -> None:
    (home / "engine").mkdir()
    (home / "engine" / "abc.log").write_text(f"asked with {TOKEN}\n")
    stale = home / "engine" / "old.log"
    stale.write_text("long ago\n")
    started = read_state(run).started
    assert started is not None
    os.utime(stale, (started - 9, started - 9))
    held = bundle(run, tmp_path)
    assert held["support/engine/abc.log"] == "asked with ***\n"
    assert "support/engine/old.log" not in held


def test_the_command_refuses_parts_that_a_report_must_not_have(run: Path) -> None:
    asked = CliRunner().invoke(manage.export, [ID, "--support", "--results"], standalone_mode=False)
    assert isinstance(asked.exception, SpecError)
