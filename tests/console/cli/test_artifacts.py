"""`artifacts`: the files that came home, for people and programs, and copied into a folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from launcher.runs.writer import RunWriter
from launcher.state import events as ev
from launcher.state.artifacts import Artifact
from tests.commands import rankdeck
from tests.console.scripted import Scripted

HOSTS = ("alpha", "beta")
NASTY = "evil\x1b[2J\nname"


def keep(writer: RunWriter, path: str, data: bytes, host: str = "alpha", **more: object) -> None:
    incoming = writer.artifacts.begin(Artifact(path, host, len(data), time=5e8, **more))  # type: ignore[arg-type]
    writer.artifacts.write(incoming, memoryview(data))
    writer.artifacts.finish(incoming, hashlib.sha256(data).hexdigest())


@pytest.fixture
def run(home: Path) -> Scripted:
    made = Scripted(home / "runs", ranks=4, hosts=HOSTS)
    made.place(2.0)
    keep(made.writer, "out/snapshot.pt", b"x" * 2048, rank=0)
    keep(made.writer, "log.txt", b"of alpha")
    keep(made.writer, "log.txt", b"of beta", host="beta", first_rank=2)
    made.writer.artifacts.link(Artifact("latest", "alpha", link="out/snapshot.pt"))
    named = (ev.NamedFile("out/snapshot.pt", 2048, 0),)
    made.add(
        ev.ArtifactsKept(
            time=9.0, host="alpha", files=1, size=2048, named=named, total_files=4, total_size=2063
        ),
        ev.RunEnded(time=10.0, state="succeeded", exit_code=0, why="every rank exited with 0"),
    )
    made.writer.close()
    return made


def test_files_are_listed_as_one_tree(run: Scripted) -> None:
    done = rankdeck("artifacts", run.folder.name)
    assert (0, "") == (done.returncode, done.stderr)
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["PATH", "SIZE", "BY", "HOST", "WRITTEN"]
    assert [row.split("  ")[0] for row in rows] == [
        "latest -> out/snapshot.pt",
        "log.txt",
        "out/snapshot.pt",
        "rank-2/log.txt",
    ]
    assert "2.0 KiB  rank 0  alpha" in rows[2]


def test_programs_get_objects_with_the_place_of_each(run: Scripted) -> None:
    listed = json.loads(rankdeck("artifacts", "last", "--json").stdout)
    by_path = {each["path"]: each for each in listed}
    snapshot = by_path["out/snapshot.pt"]
    assert (snapshot["size"], snapshot["rank"], snapshot["host"]) == (2048, 0, "alpha")
    assert Path(snapshot["file"]).read_bytes() == b"x" * 2048
    assert (by_path["latest"]["link"], by_path["latest"]["file"]) == ("out/snapshot.pt", None)


def test_files_are_copied_and_nothing_is_replaced(run: Scripted, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = rankdeck("artifacts", "last", "--to", out)
    assert (0, f"4 files, 2.0 KiB, copied to {out}\n") == (done.returncode, done.stderr)
    assert (out / "latest").read_bytes() == b"x" * 2048
    assert [(out / name).read_bytes() for name in ("log.txt", "rank-2/log.txt")] == [b"of alpha", b"of beta"]
    again = rankdeck("artifacts", "last", "--to", out)
    assert again.returncode == 2
    assert "is there already" in again.stderr


def test_a_file_that_was_spoiled_since_is_not_copied(run: Scripted, tmp_path: Path) -> None:
    (run.folder / "artifacts/alpha/out/snapshot.pt").write_bytes(b"evil")
    done = rankdeck("artifacts", "last", "--to", tmp_path / "out")
    assert done.returncode == 70
    assert "no longer what came home" in done.stderr


def test_names_cannot_control_the_terminal(home: Path) -> None:
    made = Scripted(home / "runs")
    keep(made.writer, NASTY, b"1")
    made.writer.close()
    text = rankdeck("artifacts", "last").stdout
    assert "\x1b" not in text
    assert len(text.splitlines()) == 2


def test_without_files_it_says_why(home: Path) -> None:
    Scripted(home / "runs").writer.close()
    done = rankdeck("artifacts", "last")
    assert (0, "") == (done.returncode, done.stdout)
    assert done.stderr.startswith("no files came home: the ranks wrote none, or worked in a folder")
    assert "no files came home" in rankdeck("artifacts", "last", "--to", "/nonexistent/x").stderr


def test_show_and_the_record_name_them(run: Scripted) -> None:
    assert f"files    4 files, 2.0 KiB, came home: rankdeck artifacts {run.folder.name}" in (
        rankdeck("show", "last").stdout
    )
    assert json.loads(rankdeck("show", "last", "--json").stdout)["artifacts"] == {"files": 4, "size": 2063}


def test_an_export_leaves_their_content_out_and_says_so(run: Scripted, tmp_path: Path) -> None:
    done = rankdeck("export", "last", "--output", tmp_path / "run.zip")
    assert done.returncode == 0, done.stderr
    assert "3 artifacts left out" in done.stderr
    listed = json.loads(rankdeck("artifacts", tmp_path / "run.zip", "--json").stdout)
    assert [each["path"] for each in listed][-1] == "rank-2/log.txt"
    missing = rankdeck("artifacts", tmp_path / "run.zip", "--to", tmp_path / "out")
    assert missing.returncode == 70
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []
