"""Cluster mode on two hosts that share neither network addresses nor files with the driver."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.runs import paths
from launcher.runs.artifacts import place_of, read_artifacts
from launcher.runs.logs.tail import tail_of
from launcher.runs.reader import read_state
from launcher.state import events as ev
from tests import spark_net, survivors
from tests.commands import COMMAND, facts, last, runs, until
from tests.spark_cluster import Cluster
from tests.spark_runs import end_engines

pytestmark = [pytest.mark.spark, pytest.mark.netns, pytest.mark.timeout(240)]

TRAIN = """
import hashlib, json, os, signal, sys, time
from pathlib import Path

rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
conf = json.loads(Path("conf/model.json").read_text())
data = Path("tokens.bin").read_bytes()
snapshot = Path("out/snapshot.bin")
found = hashlib.sha256(snapshot.read_bytes()).hexdigest() if snapshot.exists() else None
print(json.dumps({"rank": rank, "attempt": attempt, "data": len(data), "found": found}), flush=True)
if rank == 0 and not found:
    snapshot.parent.mkdir(exist_ok=True)
    snapshot.with_suffix(".tmp").write_bytes(os.urandom(conf["bytes"]))
    snapshot.with_suffix(".tmp").rename(snapshot)
    print(json.dumps({"wrote": hashlib.sha256(snapshot.read_bytes()).hexdigest()}), flush=True)
    while not Path(os.environ["GATE"]).exists():
        time.sleep(0.05)
    with open("out/half.bin", "ab", buffering=0) as half:
        half.write(b"of it")
        os.kill(os.getpid(), signal.SIGKILL)
if not found:
    sys.stdin.read() or signal.pause()
Path(f"rank{rank}.log").write_text("done")
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project, and a file beside it, below a folder that no worker has."""
    home = tmp_path_factory.mktemp("hidden")
    folder = home / "project"
    (folder / "conf").mkdir(parents=True)
    (folder / "train.py").write_text(TRAIN)
    (folder / "conf/model.json").write_text(json.dumps({"bytes": 8 << 20}))
    (home / "tokens.bin").write_bytes(os.urandom(3 << 20))
    return folder


@pytest.fixture(scope="module")
def strangers(spark_here: None, project: Path) -> Iterator[Cluster]:
    """Two hosts without the driver's files, of one slot each: two ranks never share a folder."""
    if not spark_net.permitted():
        pytest.skip("needs network namespaces: not permitted here")
    with Cluster(cores=1, netns=True, hidden=project.parent, gpus=0) as made:
        yield made


@pytest.fixture(autouse=True)
def undisturbed(strangers: Cluster, mark: str) -> Iterator[None]:
    yield
    end_engines(strangers, mark)


def start(strangers: Cluster, project: Path, *words: str | Path) -> subprocess.Popen[str]:
    options = [w for key, value in strangers.conf().items() for w in ("--conf", f"{key}={value}")]
    options += ["--env", f"{survivors.MARK}={os.environ[survivors.MARK]}", "--start-timeout", "60"]
    return subprocess.Popen(
        [
            *strangers.prefix(),
            COMMAND,
            "run",
            "train.py",
            "--master",
            strangers.url,
            *options,
            *map(str, words),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=project,
    )


def has_come(path: str) -> bool:
    """Whether a file of the last run has come home."""
    return bool(runs()) and path in {each.path for each in read_artifacts(last())}


def has_begun(rank: int) -> bool:
    """Whether a rank of the first attempt has said what it found."""
    return any(b"found" in line for line in tail_of(last(), 0, rank, paths.STDOUT, most=1))


def test_files_travel_and_checkpoints_come_home_and_serve_the_next_attempt(
    strangers: Cluster, project: Path, tmp_path: Path
) -> None:
    words: list[str | Path] = ["-n", "2", "--files", project.parent / "tokens.bin", "--max-restarts", "1"]
    with start(strangers, project, *words, "--env", f"GATE={tmp_path}/gate") as command:
        until(lambda: has_come("out/snapshot.bin") and has_begun(1), within=120)  # else it ends unheard
        (tmp_path / "gate").touch()
        out, err = command.communicate(timeout=120)
    assert command.returncode == 0, err
    assert len({each.host for each in read_state(last()).ranks}) == 2
    said = [json.loads(line.partition(" | ")[2]) for line in out.splitlines()]
    wrote = next(each["wrote"] for each in said if "wrote" in each)
    starts = {(each["attempt"], each["rank"]): each["found"] for each in said if "found" in each}
    assert starts == {(0, 0): None, (0, 1): None, (1, 0): wrote, (1, 1): wrote}
    assert {each["data"] for each in said if "data" in each} == {3 << 20}

    kept = {each.path: each for each in read_artifacts(last())}
    assert sorted(kept) == ["out/snapshot.bin", "rank0.log", "rank1.log"]
    snapshot = kept["out/snapshot.bin"]
    assert hashlib.sha256(place_of(last(), snapshot).read_bytes()).hexdigest() == wrote
    assert (snapshot.rank, snapshot.host) == (0, read_state(last()).ranks[0].host)
    assert any("out/half.bin" in note.text for note in read_state(last()).notes)
    assert not (project / "out").exists()


def test_a_run_that_fails_leaves_its_files_at_home_and_the_file_that_it_missed_is_named(
    strangers: Cluster, project: Path
) -> None:
    (project / ".gitignore").write_text("data/\n")
    (project / "data").mkdir()
    (project / "data/train.bin").touch()
    (project / "train.py").write_text("open('last.txt', 'w').write('words'); open('data/train.bin')")
    with start(strangers, project, "-n", "1") as command:
        _, err = command.communicate(timeout=120)
    (project / "train.py").write_text(TRAIN)
    assert command.returncode == 1, err
    assert 1 == err.count("data/train.bin is on this machine, and it did not travel: --files data sends it")
    assert [each.path for each in read_artifacts(last())] == ["last.txt"]
    assert "1 file, 5 B, came home" in err
    assert [fact.files for fact in facts(ev.ArtifactsKept) if isinstance(fact, ev.ArtifactsKept)] == [1]
