"""The index of runs: never wrong, never in the way, and never needed."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from launcher.runs import index, paths
from launcher.runs.catalog import list_runs, new_id
from launcher.runs.index import index_file, indexed_runs
from launcher.runs.status import Owner, Status, read_status, write_status
from launcher.serialization import to_plain
from launcher.state.run_state import Phase

THIS = Owner.this()


def run(root: Path, number: int, **known: object) -> Path:
    """A run's folder with a status, and nothing else."""
    folder = root / new_id(1_767_261_600.0 + number, f"{number:03x}"[-3:])
    folder.mkdir(parents=True)
    given = {"state": Phase.SUCCEEDED, "exit_code": 0, "name": f"run {number}", "owner": THIS, **known}
    write_status(folder, Status(id=folder.name, **given))  # type: ignore[arg-type]
    return folder


def listed(root: Path) -> list[Status]:
    return list(indexed_runs(root))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs whose status was read from their folder."""
    seen: list[str] = []

    def counting(folder: Path) -> Status | None:
        seen.append(folder.name)
        return read_status(folder)

    monkeypatch.setattr(index, "read_status", counting)
    return seen


def test_a_status_comes_back_from_the_index_as_it_went_in(root: Path, read: list[str]) -> None:
    odd = {
        "name": "caf\udce9 \x1b[31m\n\u202e",
        "why": "x" * 1_000_000,
        "metrics": {"loss": 0.25, "nan": float("nan"), "inf": float("inf"), "": 1e-300},
    }
    full = run(root, 1, target="train.py:f", mode="local", num_processes=8, started=1.5, ended=0.5,
               args="--lr 1", user="ada", host="login", attempt=2, step=10**18, revision="a" * 40,
               dirty=True, **odd)  # fmt: skip
    run(root, 2)
    first = listed(root)
    again = listed(root)

    assert str(read_status(full)) == str(first[1]) == str(again[1])  # by their text: NaN is no equal of NaN
    assert first[0] == again[0] == read_status(root / first[0].id)
    assert sorted(read) == sorted([first[0].id, first[1].id])


def test_runs_that_have_ended_are_read_once_and_others_each_time(root: Path, read: list[str]) -> None:
    for number in range(1500):  # three pieces
        run(root, number)
    live = run(root, 1500, state=Phase.RUNNING, exit_code=None)
    newest = run(root, 2000)
    assert 1502 == len(listed(root)) == len(read)
    read.clear()
    listed(root)
    assert [live.name] == read
    read.clear()
    write_status(live, Status(id=live.name, state=Phase.FAILED, exit_code=1, owner=THIS))
    shutil.rmtree(newest)
    found = listed(root)

    assert (live.name, Phase.FAILED) == (found[0].id, found[0].state)
    assert [s.id for s in found] == [s.id for s in list_runs(root)]
    read.clear()
    listed(root)
    assert [] == read


def test_only_as_much_is_read_as_is_asked_for(root: Path, read: list[str]) -> None:
    for number in range(300):
        run(root, number)
    newest = [s.id for s in islice(indexed_runs(root), 50)]

    assert newest == sorted(os.listdir(root), reverse=True)[:50]
    assert len(read) < 100


def test_a_verdict_that_was_replaced_is_read_again(root: Path, read: list[str]) -> None:
    folder = run(root, 1, state=Phase.STOPPED, exit_code=143)
    before = os.stat(folder / paths.STATUS)
    listed(root)
    shutil.copy2(folder / paths.STATUS, folder / "other")  # the same size, and below the same time
    data = (folder / "other").read_text().replace('"stopped"', '"running"')
    (folder / "other").write_text(data)
    os.utime(folder / "other", ns=(before.st_atime_ns, before.st_mtime_ns))
    (folder / "other").replace(folder / paths.STATUS)

    assert before.st_mtime_ns == os.stat(folder / paths.STATUS).st_mtime_ns
    assert Phase.RUNNING is listed(root)[0].state


def test_a_run_whose_owner_died_is_lost_in_every_listing(root: Path) -> None:
    run(root, 1, state=Phase.RUNNING, exit_code=None, owner=Owner(socket.gethostname(), 1 << 30, 1))
    run(root, 2, state=Phase.RUNNING, exit_code=None, owner=Owner("another host", 1, 1))

    for _ in range(2):
        assert [(Phase.RUNNING, None), (Phase.LOST, 75)] == [(s.state, s.exit_code) for s in listed(root)]


def test_what_was_deleted_leaves_the_index_too(root: Path) -> None:
    folders = [run(root, number) for number in range(200)]
    listed(root)
    for folder in (folders[0], folders[100], folders[-1]):
        shutil.rmtree(folder)
    gone = {f.name for f in (folders[0], folders[100], folders[-1])}

    assert not gone & {s.id for s in listed(root)}
    with sqlite3.connect(index_file(root)) as database:
        kept = {name for (name,) in database.execute("SELECT id FROM runs")}
    database.close()
    assert {f.name for f in folders} - gone == kept


def test_runs_deleted_during_a_listing_are_left_out_and_broken_ones_shown(root: Path) -> None:
    folders = [run(root, number) for number in range(130)]
    (folders[3] / paths.STATUS).write_text("{")
    (folders[4] / paths.STATUS).unlink()
    (folders[5] / paths.STATUS).unlink()
    os.mkfifo(folders[5] / paths.STATUS)
    (root / new_id(1.0, "abc")).write_text("no folder")
    listing = indexed_runs(root)
    next(listing)
    shutil.rmtree(folders[0])
    found = {s.id: s for s in listing}

    assert folders[0].name not in found
    assert 128 == len(found)
    wrong = ["status.json: it is no JSON", "status.json: there is none", "status.json: is a FIFO"]
    for broken, why in zip(folders[3:6], wrong, strict=True):
        assert Status(id=broken.name, unreadable=why) == found[broken.name]


def test_a_copied_folder_is_listed_by_its_own_name(root: Path) -> None:
    copy = root / new_id(5.0, "abc")
    shutil.copytree(run(root, 1), copy)

    for _ in range(2):
        assert copy.name == listed(root)[-1].id


def garbage(file: Path) -> None:
    file.write_bytes(os.urandom(20_000))


def torn(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def scribbled(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[4096:] = bytes(255 for _ in data[4096:])
    file.write_bytes(data)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def missing(file: Path) -> None:
    file.unlink()


def foreign(file: Path) -> None:
    file.unlink()
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE runs (something, else_)")
        database.execute("CREATE TABLE shape (fields)")
        database.execute("INSERT INTO shape VALUES ('another version')")
    database.close()


def lying(file: Path) -> None:
    """Rows of the right shape with nonsense in them."""
    with sqlite3.connect(file) as database:
        database.execute("UPDATE runs SET data = '[1, 2]'")
        database.execute("UPDATE runs SET data = CAST(x'ff00ff' AS TEXT) WHERE id LIKE '%7'")
    database.close()


@pytest.mark.parametrize("harm", [garbage, torn, scribbled, empty, missing, foreign, lying])
def test_a_harmed_index_is_made_anew(root: Path, read: list[str], harm: Callable[[Path], None]) -> None:
    for number in range(100):
        run(root, number)
    expected = [s.id for s in listed(root)]
    harm(index_file(root))
    assert expected == [s.id for s in listed(root)]
    listed(root)
    read.clear()

    assert expected == [s.id for s in listed(root)]
    assert [] == read


def test_where_no_index_can_be_there_is_none_and_nothing_is_missed(root: Path) -> None:
    expected = [run(root, number).name for number in range(3)][::-1]
    (root / ".index").write_text("in the way")
    assert expected == [s.id for s in listed(root)]
    (root / ".index").unlink()
    index_file(root).mkdir(parents=True)
    assert expected == [s.id for s in listed(root)]
    index_file(root).rmdir()
    index_file(root).symlink_to(root / "elsewhere")

    assert expected == [s.id for s in listed(root)]
    assert not (root / "elsewhere").exists()


def test_an_index_that_somebody_holds_is_done_without(root: Path) -> None:
    expected = [run(root, number).name for number in range(3)][::-1]
    index_file(root).parent.mkdir()
    holder = sqlite3.connect(index_file(root), isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    assert expected == [s.id for s in listed(root)]
    holder.execute("COMMIT")
    holder.close()

    assert expected == [s.id for s in listed(root)]
    assert index_file(root).stat().st_size


def test_a_writer_that_is_busy_keeps_no_reader_from_what_is_known(root: Path, read: list[str]) -> None:
    for number in range(1000):  # more than one piece
        run(root, number)
    listed(root)
    writer = sqlite3.connect(index_file(root), isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    fresh = run(root, 1000)
    read.clear()
    found = listed(root)
    writer.close()

    assert 1001 == len(found)
    assert [fresh.name] == read


def test_the_index_is_private_and_no_run(root: Path) -> None:
    run(root, 1)
    listed(root)

    assert 0o700 == index_file(root).parent.stat().st_mode & 0o777
    assert {0o600} == {f.stat().st_mode & 0o777 for f in index_file(root).parent.iterdir()}
    assert 1 == len(list(list_runs(root)))


def test_no_runs_make_no_index(tmp_path: Path, root: Path) -> None:
    assert [] == listed(root) == listed(tmp_path / "none")
    assert [] == list(root.iterdir())


LISTER = """
import sys
from pathlib import Path
from launcher.runs.index import indexed_runs
for _ in range(15):
    print(len([s for s in indexed_runs(Path(sys.argv[1])) if s.state.final]))
"""


@pytest.mark.process
def test_several_processes_may_list_while_runs_come_and_go(root: Path) -> None:
    for number in range(600):
        run(root, number)
    command = [sys.executable, "-c", LISTER, str(root)]
    listers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
    while any(lister.poll() is None for lister in listers):
        extra = run(root, 5000)
        for _ in listed(root):
            pass
        shutil.rmtree(extra)
    ends = [(lister.communicate(), lister.returncode) for lister in listers]

    assert {0} == {code for _, code in ends}
    assert {b""} == {err for (_, err), _ in ends}
    assert {b"600", b"601"} >= {line for (out, _), _ in ends for line in out.split()}
    assert 600 == len(listed(root))


def test_statuses_of_older_versions_are_listed(root: Path) -> None:
    folder = run(root, 1)
    old = to_plain(replace(Status(id=folder.name), state=Phase.FAILED, owner=THIS))
    for name in ("args", "user", "host", "attempt", "metrics", "revision"):
        del old[name]
    (folder / paths.STATUS).write_text(json.dumps({**old, "of_a_newer_version": [1]}))

    for _ in range(2):
        assert [(Phase.FAILED, "", {})] == [(s.state, s.user, s.metrics) for s in listed(root)]
